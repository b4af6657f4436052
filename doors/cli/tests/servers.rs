//! Servers and the commands around them, as processes: what an operator does, and what goes wrong.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "servers/cluster.rs"]
mod cluster;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::Duration;

use cluster::{
    ChildProcess, Cluster, Server, answer, complaint, random, rows, striate, told, until,
};
use rustix::process::Signal;

const MIB: usize = 1 << 20;

#[test]
fn a_server_says_where_it_is_and_drains() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().to_str().unwrap();
    let mut server = Server::start(&["--data", data, "--meta", "--listen", "127.0.0.1:0"]);
    let url = server.started["url"].as_str().unwrap().to_owned();
    assert_eq!(url, format!("striate://{}", server.address));
    assert_eq!(server.started["pid"], server.process.0.id());
    assert!(answer(&["fs", "health", &url]).contains("the server answers"));
    let text = complaint(&["serve", "--data", data, "--listen", "127.0.0.1:0", "--log", "off"], 1);
    assert!(text.contains("in use") && text.contains("hint: end the other server"), "{text}");

    server.process.signal(Signal::TERM);
    assert_eq!(server.process.ended().code(), Some(0));
    let text = complaint(&["fs", "health", &url], 1);
    assert!(text.contains("down") && text.contains("1 of 1 server does not answer"), "{text}");
    assert_eq!(rows(&["fs", "health", &url])[0]["reachable"], false);

    // The directory is free again; SIGINT ends as SIGTERM does; the text names the URL first.
    let mut command = striate(&["serve", "--data", data, "--meta", "--listen", "127.0.0.1:0"]);
    let mut child =
        ChildProcess(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut log = String::new();
    let mut stderr = child.0.stderr.take().unwrap();
    let mut line = String::new();
    let mut stdout = std::io::BufReader::new(child.0.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let url = line.split(' ').next().unwrap();
    assert_eq!(line, format!("{url} is served from {data}\n"));
    assert_eq!(answer(&["fs", "ls", url]), "");
    child.signal(Signal::INT);
    assert_eq!(child.ended().code(), Some(0));
    std::io::Read::read_to_string(&mut stderr, &mut log).unwrap();
    assert!(log.contains("server started") && log.contains("server stopped"), "{log}");
}

#[test]
fn a_second_signal_does_not_wait() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().to_str().unwrap();
    let arguments = ["--data", data, "--meta", "--listen", "127.0.0.1:0", "--delay", "20s"];
    let mut server = Server::start(&arguments);
    let url = server.started["url"].as_str().unwrap().to_owned();
    let source = place.path().join("source");
    fs::write(&source, b"held back").unwrap();
    let mut copy = striate(&["fs", "cp", source.to_str().unwrap(), &format!("{url}/a")]);
    let mut copy = ChildProcess(copy.stderr(Stdio::null()).spawn().unwrap());
    let writing = || rows(&["fs", "stats", &url])[0]["counters"]["connections"].as_u64() > Some(1);
    until("a write", writing);
    std::thread::sleep(Duration::from_millis(200));
    server.process.signal(Signal::TERM);
    std::thread::sleep(Duration::from_millis(300));
    assert!(server.process.0.try_wait().unwrap().is_none(), "it waits for the write");
    server.process.signal(Signal::TERM);
    // With the status of one that did not wait: the write is held back for 20 s, the drain time is
    // 30 s.
    assert_eq!(server.process.ended().code(), Some(1));
    assert_eq!(copy.ended().code(), Some(1));
}

#[test]
fn the_configuration_is_printed_as_it_is_in_effect() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("striate.toml");
    fs::write(&file, "metadata = true\n[limits]\nmemory = \"8MiB\"\n").unwrap();
    let file = file.to_str().unwrap();
    let text = answer(&["serve", "--config", file, "--data", "/elsewhere", "--print-config"]);
    for line in ["data = \"/elsewhere\"", "metadata = true", "memory = \"8MiB\"", "locks = 100000"]
    {
        assert!(text.lines().any(|other| other == line), "{line}: {text}");
    }
    fs::write(file, "dta = 1").unwrap();
    let text = complaint(&["serve", "--config", file], 2);
    assert!(text.contains("dta") && text.contains("striate.toml"), "{text}");
    let text = complaint(&["serve", "--data", file, "--listen", "0.0.0.0:0", "--log", "off"], 1);
    assert!(text.contains("hint: give --key-file FILE, or --allow-anyone"), "{text}");
}

#[test]
fn embedded_servers_are_one_process_and_keep_their_data() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let data = data.to_str().unwrap();
    let source = place.path().join("source");
    let bytes = random("embedded", 3 * MIB + 1);
    fs::write(&source, &bytes).unwrap();
    {
        let mut server = Server::start(&["--embedded", "3", "--data", data]);
        let url = server.started["url"].as_str().unwrap();
        assert_eq!(server.started["servers"].as_array().unwrap().len(), 3);
        answer(&["fs", "cp", source.to_str().unwrap(), &format!("{url}/a")]);
        server.process.signal(Signal::TERM);
        assert_eq!(server.process.ended().code(), Some(0));
    }
    let server = Server::start(&["--embedded", "3", "--data", data]);
    let url = server.started["url"].as_str().unwrap();
    let back = place.path().join("back");
    answer(&["fs", "cp", &format!("{url}/a"), back.to_str().unwrap()]);
    assert!(fs::read(back).unwrap() == bytes);
    assert!(answer(&["fsck", url]).starts_with("all is well: 1 file, 3 objects, 3 servers"));
}

#[test]
fn files_go_there_and_back() {
    let cluster = Cluster::start(3);
    for (len, options) in [
        (0, &[][..]),
        (1, &["--strip", "512"]),
        (64 * 1024 + 1, &["--servers", "2", "--first", "1"]),
        (9 * MIB + 17, &["--strip", "1000", "--threads", "7"]),
    ] {
        let name = format!("file-{len}");
        let (path, bytes) = cluster.file(&name, len);
        let there = cluster.at(&format!("run/{name}"));
        let mut arguments = vec!["fs", "cp", &path, &there];
        arguments.extend(options);
        answer(&arguments);
        let described = &rows(&["fs", "stat", &there])[0];
        assert_eq!(described["size"], len);
        assert_eq!(described["recorded_size"], len);
        let objects = described["objects"].as_array().unwrap();
        let sum: u64 = objects.iter().map(|object| object["len"].as_u64().unwrap()).sum();
        assert_eq!(sum, len as u64);
        if options.contains(&"--first") {
            assert_eq!(objects.len(), 2);
            assert_eq!(objects[0]["server"], cluster.address(1));
        }
        let back = cluster.local("back");
        answer(&["fs", "cp", &there, &back]);
        assert!(fs::read(&back).unwrap() == bytes, "{name}");
    }
    // An existing file is replaced, also by a shorter one.
    let (path, bytes) = cluster.file("shorter", 5);
    let there = cluster.at("run/file-65537");
    answer(&["fs", "cp", &path, &there]);
    answer(&["fs", "cp", &there, &cluster.local("back")]);
    assert!(fs::read(cluster.local("back")).unwrap() == bytes);
    assert!(answer(&["fsck", &cluster.url]).starts_with("all is well: 4 files, 12 objects"));

    let text = answer(&["fs", "ls", "-l", &cluster.at("run/")]);
    assert!(text.contains("9,437,201") && text.contains("1,000 B"), "{text}");
    assert_eq!(answer(&["fs", "ls", &cluster.url]), "run/\n");
    assert_eq!(answer(&["fs", "ls", &cluster.at("run/file-6")]), "file-65537\n");
    assert_eq!(answer(&["fs", "ls", "-R", &cluster.url]).lines().count(), 4);
    let text = answer(&["fs", "stat", &cluster.at("run/file-1")]);
    assert!(text.contains("1 byte") && text.contains("UTC"), "{text}");

    answer(&["fs", "mv", &cluster.at("run/file-0"), &cluster.at("empty")]);
    answer(&["fs", "mv", &cluster.at("empty"), &cluster.at("old/")]);
    let text = complaint(&["fs", "mv", "-n", &cluster.at("old/empty"), &there], 1);
    assert!(text.contains("exists already"), "{text}");
    answer(&["fs", "rm", &there, &cluster.at("old/empty")]);
    let text = complaint(&["fs", "rm", &there], 1);
    assert!(text.contains("there is no file") && text.contains("hint: "), "{text}");
    answer(&["fs", "rm", "--force", &there]);
    answer(&["fs", "rm", "-r", &cluster.at("run")]);
    assert_eq!(answer(&["fs", "ls", &cluster.url]), "");
    complaint(&["fs", "ls", &cluster.at("run")], 1);
    complaint(&["fs", "rm", "-r", &cluster.url], 2);
    assert!(answer(&["fsck", &cluster.url]).starts_with("all is well: 0 files, 0 objects"));
}

#[test]
fn servers_tell_about_themselves() {
    let cluster = Cluster::start(2);
    let (path, _) = cluster.file("a", 100_000);
    answer(&["fs", "cp", &path, &cluster.at("a")]);
    let space = rows(&["fs", "df", &cluster.url]);
    assert_eq!(space.len(), 3);
    let number = |row: usize, name: &str| space[row][name].as_u64().unwrap();
    // Both are on one disk, which counts once.
    assert!(number(0, "total") == number(2, "total") && number(1, "total") == number(2, "total"));
    assert_eq!(number(0, "objects") + number(1, "objects"), number(2, "objects"));
    assert!(number(2, "total") > number(2, "used") && number(2, "objects") == 2);
    assert!(answer(&["fs", "df", &cluster.url]).contains("sum"));

    let health = rows(&["fs", "health", &cluster.url]);
    assert_eq!(health.len(), 3);
    assert!(health.iter().all(|row| row["reachable"] == true && row["latency_ms"].is_number()));
    assert_eq!(health[0]["role"], "names");
    assert_eq!(health[1]["role"], "data");
    assert_eq!(health[0]["version"], env!("CARGO_PKG_VERSION"));

    let stats = rows(&["fs", "stats", &cluster.url]);
    let written = |row: usize| stats[row]["counters"]["bytes_written"].as_u64().unwrap();
    assert_eq!(written(1) + written(2), 100_000);
    assert!(answer(&["fs", "stats", &cluster.url]).contains("bytes_written"));
}

#[test]
fn trees_are_copied() {
    let cluster = Cluster::start(2);
    let names = ["tree/a", "tree/b/c", "tree/b/d e", "tree/f/g/h"];
    let files = names.map(|name| cluster.file(name, 10_000 + name.len()));
    let tree = cluster.local("tree");
    let text = complaint(&["fs", "cp", &tree, &cluster.at("new")], 2);
    assert!(text.contains("hint: -r copies it"), "{text}");
    // As with cp: it becomes what is not there, and goes into what is.
    answer(&["fs", "cp", "-r", &tree, &cluster.at("new")]);
    answer(&["fs", "cp", "-r", &tree, &cluster.at("new")]);
    assert_eq!(answer(&["fs", "ls", &cluster.at("new")]), "a\nb/\nf/\ntree/\n");
    answer(&["fs", "cp", "-r", &cluster.at("new/tree"), &cluster.at("other")]);
    answer(&["fs", "cp", "-r", &cluster.at("other"), &cluster.local("back")]);
    for (name, (_, bytes)) in names.iter().zip(&files) {
        let back = cluster.local(&name.replacen("tree", "back", 1));
        assert!(fs::read(&back).unwrap() == *bytes, "{name}");
    }
    // Several files go into a directory.
    let [(a, _), (c, _), ..] = &files;
    let copied = rows(&["fs", "cp", a, c, &cluster.at("several/")]);
    assert_eq!(copied[1]["to"], cluster.at("several/c"));
    assert_eq!(answer(&["fs", "ls", &cluster.at("several")]), "a\nc\n");
    complaint(&["fs", "cp", a, c, a, &cluster.at("several/")], 2);
}

#[test]
fn names_do_not_lead_elsewhere() {
    let cluster = Cluster::start(1);
    let (path, _) = cluster.file("a", 10);
    for name in ["../evil", "a/../../evil", "./a", "a//b", "tab\tin"] {
        let text = complaint(&["fs", "cp", &path, &cluster.at(name)], 1);
        assert!(text.contains("error: cannot open"), "{name}: {text}");
        let text = complaint(&["fs", "stat", &cluster.at(name)], 1);
        assert!(!text.contains("panicked"), "{name}: {text}");
    }
    assert_eq!(answer(&["fs", "ls", &cluster.url]), "");
    assert!(!cluster.place.path().join("evil").exists());
    complaint(&["fs", "ls", "striate://:x/"], 2);
    complaint(&["fs", "cp", "a", "b"], 2);
}

#[test]
fn who_has_another_key_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let key = |name: &str, text: &str, mode| {
        let path = place.path().join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let right = key("right", "sixteen bytes or more\n", 0o600);
    let wrong = key("wrong", "sixteen bytes or less\n", 0o600);
    let open = key("open", "sixteen bytes or more\n", 0o644);
    let cluster = Cluster::with(1, &["--key-file", &right]);
    let with = |file: &str| {
        let mut command = striate(&["fs", "ls", &cluster.url]);
        command.env("STRIATE_KEY_FILE", file).output().unwrap()
    };
    assert!(with(&right).status.success());
    let refused = with(&wrong);
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains("hint: STRIATE_KEY_FILE"), "{}", told(&refused));
    let refused = with("");
    assert_eq!(refused.status.code(), Some(1));
    assert!(told(&refused).contains("key"), "{}", told(&refused));
    let text = told(&with(&open));
    assert!(text.contains("chmod 600"), "{text}");
}

#[test]
fn clients_speak_tls_if_servers_do() {
    let place = tempfile::tempdir().unwrap();
    let certified = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let write = |name: &str, text: String| {
        let path = place.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let certificate = write("certificate.pem", certified.cert.pem());
    let key = write("key.pem", certified.signing_key.serialize_pem());
    // Everybody could read the key.
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    let data = place.path().join("data");
    let open = ["serve", "--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    let text =
        complaint(&[&open[..], &["--tls-cert", &certificate, "--tls-key", &key]].concat(), 1);
    assert!(text.contains("chmod 600"), "{text}");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    let cluster = Cluster::with(2, &["--tls-cert", &certificate, "--tls-key", &key]);
    assert!(cluster.url.starts_with("striate+tls://"));
    let (path, bytes) = cluster.file("a", MIB + 1);
    let back = cluster.local("back");
    for arguments in [["fs", "cp", &path, &cluster.at("a")], ["fs", "cp", &cluster.at("a"), &back]]
    {
        let done = striate(&arguments).env("STRIATE_CA_FILE", &certificate).output().unwrap();
        assert!(done.status.success(), "{}", told(&done));
    }
    assert!(fs::read(&back).unwrap() == bytes);
    let text = complaint(&["fs", "ls", &cluster.url], 1);
    assert!(text.contains("STRIATE_CA_FILE"), "{text}");
    complaint(&["fs", "ls", &cluster.url.replace("+tls", "")], 1);
}

#[test]
fn metrics_are_served_over_http() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().to_str().unwrap();
    let listen = ["--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:0"];
    let server = Server::start(&[&["--data", data, "--meta"], &listen[..]].concat());
    answer(&["fs", "ls", server.started["url"].as_str().unwrap()]);
    let mut stream =
        std::net::TcpStream::connect(server.started["metrics"].as_str().unwrap()).unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n";
    std::io::Write::write_all(&mut stream, request).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200") && text.contains("striate_requests_total"), "{text}");
}

#[test]
fn what_is_synced_survives_a_crash() {
    let mut cluster = Cluster::start(2);
    let (path, bytes) = cluster.file("a", 5 * MIB + 3);
    answer(&["fs", "cp", &path, &cluster.at("a")]);
    cluster.kill_all();
    cluster.restart();
    answer(&["fs", "cp", &cluster.at("a"), &cluster.local("back")]);
    assert!(fs::read(cluster.local("back")).unwrap() == bytes);
    assert!(answer(&["fsck", &cluster.url]).starts_with("all is well"));
}

/// Starts a copy that takes long, and waits until it has begun to write.
fn slow_copy(cluster: &Cluster, name: &str) -> ChildProcess {
    let (path, _) = cluster.file(name, 48 * MIB);
    let mut copy = striate(&["fs", "cp", "--threads", "1", &path, &cluster.at(name)]);
    let copy = copy.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let written = |row: &serde_json::Value| row["counters"]["bytes_written"].as_u64().unwrap() > 0;
    until("a write", || rows(&["fs", "stats", &cluster.url]).iter().any(written));
    ChildProcess(copy)
}

fn said(mut process: ChildProcess) -> String {
    process.ended();
    let mut text = String::new();
    let mut stderr = process.0.stderr.take().unwrap();
    std::io::Read::read_to_string(&mut stderr, &mut text).unwrap();
    text
}

#[test]
fn a_server_that_dies_during_a_copy_is_named() {
    let mut cluster = Cluster::with(2, &["--delay", "300ms"]);
    let copy = slow_copy(&cluster, "big");
    cluster.kill(1);
    let text = said(copy);
    assert!(text.starts_with("error: cannot ") && text.contains(cluster.address(1)), "{text}");
    assert!(!answer(&["fs", "ls", &cluster.url]).lines().any(|name| name == "big"));
    let text = complaint(&["fs", "df", &cluster.url], 1);
    assert!(text.contains(cluster.address(1)) && text.contains('?'), "{text}");
    let text = complaint(&["fsck", &cluster.url], 1);
    assert!(text.contains(&format!("server {} was not checked", cluster.address(1))), "{text}");

    // With all servers back, what is left can be removed.
    cluster.restart();
    answer(&["fsck", "--repair", &cluster.url]);
    assert!(answer(&["fsck", &cluster.url]).starts_with("all is well: 0 files, 0 objects"));
}

#[test]
fn an_interrupted_copy_leaves_nothing() {
    let cluster = Cluster::with(2, &["--delay", "300ms"]);
    let copy = slow_copy(&cluster, "big");
    let part = answer(&["fs", "ls", &cluster.url]);
    assert!(part.starts_with(".big.part-"), "{part}");
    copy.signal(Signal::INT);
    let text = said(copy);
    assert!(text.contains("interrupted"), "{text}");
    if text.contains("may be left") {
        // A part was under way for so long that it was not waited for.
        answer(&["fsck", "--repair", &cluster.url]);
    }
    assert_eq!(answer(&["fs", "ls", &cluster.url]), "");
    assert!(answer(&["fsck", &cluster.url]).starts_with("all is well: 0 files, 0 objects"));
}

/// What a check of the running servers finds, and one of their directories.
fn check_both_ways(cluster: &mut Cluster) -> [Vec<serde_json::Value>; 2] {
    let running = rows(&["fsck", &cluster.url]);
    cluster.kill_all();
    let directories = cluster.directories();
    let mut arguments = vec!["fsck"];
    arguments.extend(directories.iter().map(|path| path.to_str().unwrap()));
    let stopped = rows(&arguments);
    complaint(&[&arguments[..], &["--repair"]].concat(), 2);
    cluster.restart();
    [running, stopped]
}

#[test]
fn a_check_finds_objects_of_no_file() {
    let mut cluster = Cluster::start(2);
    let (path, bytes) = cluster.file("a", 300_000);
    for name in ["gone", "a"] {
        answer(&["fs", "cp", &path, &cluster.at(name)]);
    }
    let id = |name: &str| rows(&["fs", "stat", &cluster.at(name)])[0]["file"].as_u64().unwrap();
    let (gone, newest) = (id("gone"), id("a"));
    answer(&["fs", "rm", &cluster.at("gone")]);
    for orphan in [gone, newest + 1000] {
        let planted = cluster.object(1, orphan);
        fs::create_dir_all(planted.parent().unwrap()).unwrap();
        fs::write(&planted, b"seven b").unwrap();
    }
    for found in check_both_ways(&mut cluster) {
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|row| row["kind"] == "orphan" && row["len"] == 7));
        assert_eq!(found[0]["server"], cluster.address(1));
    }
    // One that may be of a file to come is left.
    let text = complaint(&["fsck", "--repair", &cluster.url], 1);
    assert!(text.contains("belongs to no file (7 B): repaired"), "{text}");
    assert!(text.contains("left, since it may belong to a file that is being created"), "{text}");
    assert!(text.contains("2 found, 1 of them repaired"), "{text}");
    assert!(!cluster.object(1, gone).exists() && cluster.object(1, newest + 1000).exists());
    answer(&["fs", "cp", &cluster.at("a"), &cluster.local("back")]);
    assert!(fs::read(cluster.local("back")).unwrap() == bytes);
}

#[test]
fn a_check_finds_objects_that_are_missing_or_short() {
    let mut cluster = Cluster::start(2);
    let (path, _) = cluster.file("a", 300_000);
    for name in ["missing", "short", "well"] {
        answer(&["fs", "cp", "--first", "0", &path, &cluster.at(name)]);
    }
    let id = |name: &str| rows(&["fs", "stat", &cluster.at(name)])[0]["file"].as_u64().unwrap();
    let (missing, short) = (id("missing"), id("short"));
    fs::remove_file(cluster.object(0, missing)).unwrap();
    let object = fs::OpenOptions::new().write(true).open(cluster.object(1, short)).unwrap();
    object.set_len(1000).unwrap();
    // A server may still have the object open that was removed.
    cluster.kill_all();
    cluster.restart();
    for found in check_both_ways(&mut cluster) {
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(
            (&found[0]["kind"], &found[0]["path"]),
            (&"missing-object".into(), &"missing".into())
        );
        assert_eq!(found[0]["server"], cluster.address(0));
        assert_eq!(
            (&found[1]["kind"], &found[1]["path"]),
            (&"short-object".into(), &"short".into())
        );
        assert!(found[1]["text"].as_str().unwrap().contains("may have holes"), "{found:?}");
    }
    // Files are never touched.
    let text = complaint(&["fsck", "--repair", &cluster.url], 1);
    assert!(text.contains("2 things were found"), "{text}");
    assert_eq!(answer(&["fs", "ls", &cluster.url]), "missing\nshort\nwell\n");
}

#[test]
fn interrupted_removals_are_found_and_finished() {
    let mut cluster = Cluster::start(2);
    let (path, _) = cluster.file("a", 300_000);
    for name in ["a", "b"] {
        answer(&["fs", "cp", &path, &cluster.at(name)]);
    }
    cluster.kill(1);
    let text = complaint(&["fs", "rm", &cluster.at("a"), &cluster.at("b")], 1);
    assert!(text.contains(cluster.address(1)), "{text}");
    assert!(text.contains("1 more could not") && text.contains("striate fs rm --dead"), "{text}");
    assert_eq!(answer(&["fs", "ls", &cluster.url]), "");
    cluster.restart();
    for found in check_both_ways(&mut cluster) {
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|row| row["kind"] == "dead" && row["objects"] == 1));
    }
    assert!(answer(&["fs", "rm", "--dead", &cluster.url]).contains("2 removals finished"));
    assert!(answer(&["fsck", &cluster.url]).starts_with("all is well: 0 files, 0 objects"));
    answer(&["fs", "cp", &path, &cluster.at("c")]);
    cluster.kill(0);
    complaint(&["fs", "rm", &cluster.at("c")], 1);
    cluster.restart();
    assert!(answer(&["fsck", "--repair", &cluster.url]).contains("1 found, 1 of them repaired"));
    assert!(answer(&["fsck", &cluster.url]).starts_with("all is well: 0 files, 0 objects"));
}

#[test]
fn every_command_has_an_example() {
    for command in ["ls", "stat", "cp", "mv", "rm", "df", "health", "stats", "accept"] {
        assert!(answer(&["fs", "--help"]).contains(command));
        let help = answer(&["fs", command, "--help"]);
        assert!(help.contains("Examples:") && help.contains("--json"), "{help}");
    }
    for command in ["serve", "fs", "fsck"] {
        assert!(answer(&[command, "--help"]).contains("Examples:"));
    }
}
