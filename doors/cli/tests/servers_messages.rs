//! What commands say when servers are not as they expect, when they are interrupted, and what they
//! leave.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "servers/cluster.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod cluster;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use cluster::{
    ChildProcess, Cluster, Server, answer, complaint, random, rows, run, striate, told, until,
};
use rustix::process::Signal;

const MIB: usize = 1 << 20;

/// Says what a command says that fails, with these variables.
fn complaint_with(variables: &[(&str, &str)], arguments: &[&str]) -> String {
    let output = striate(arguments).envs(variables.iter().copied()).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {}", told(&output));
    told(&output)
}

fn assert_says(text: &str, words: &[&str]) {
    assert!(words.iter().all(|word| text.contains(word)), "{words:?} are not all in: {text}");
    // Nothing of this passes by itself, so it is not tried again.
    assert!(!text.contains("tried"), "{text}");
}

/// A private file with this text.
fn file(place: &Path, name: &str, text: &str) -> String {
    let path = place.join(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path.to_str().unwrap().to_owned()
}

fn server(place: &Path, name: &str, more: &[&str]) -> (Server, String) {
    let data = place.join(name);
    let mut arguments = vec!["--meta", "--data", data.to_str().unwrap(), "--listen", "127.0.0.1:0"];
    arguments.extend(more);
    let server = Server::start(&arguments);
    let url = server.started["url"].as_str().unwrap().to_owned();
    (server, url)
}

#[test]
fn tls_on_one_side_only_and_certificates_that_do_not_fit() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let certified = |name: &str, host: &str| {
        let made = rcgen::generate_simple_self_signed(vec![host.to_owned()]).unwrap();
        let certificate = file(place, &format!("{name}.pem"), &made.cert.pem());
        let key = file(place, &format!("{name}.key"), &made.signing_key.serialize_pem());
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        (certificate, key)
    };
    let (certificate, key) = certified("here", "127.0.0.1");
    let (elsewhere, elsewhere_key) = certified("elsewhere", "elsewhere.example");
    let (_tls, tls) = server(place, "tls", &["--tls-cert", &certificate, "--tls-key", &key]);
    let (_plain, plain) = server(place, "plain", &[]);
    let options = ["--tls-cert", &elsewhere, "--tls-key", &elsewhere_key];
    let (_other, other) = server(place, "other", &options);

    let text = complaint(&["fs", "ls", &tls.replace("+tls", "")], 1);
    assert_says(&text, &["the server speaks TLS", "striate+tls://", "STRIATE_CA_FILE"]);
    let ca = [("STRIATE_CA_FILE", &*certificate)];
    let text = complaint_with(&ca, &["fs", "ls", &plain.replace("striate", "striate+tls")]);
    assert_says(&text, &["the server does not speak TLS", "striate://", "--tls-cert"]);
    let text = complaint_with(&[("STRIATE_CA_FILE", &elsewhere)], &["fs", "ls", &tls]);
    assert_says(&text, &["certificate is not trusted", "STRIATE_CA_FILE"]);
    let text = complaint_with(&[("STRIATE_CA_FILE", &elsewhere)], &["fs", "ls", &other]);
    assert_says(&text, &["certificate is not for the host of the URL", "elsewhere.example"]);
    let listed = striate(&["fs", "ls", &tls]).envs(ca).output().unwrap();
    assert!(listed.status.success(), "{}", told(&listed));
}

#[test]
fn keys_that_do_not_fit() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let key = file(place, "key", "a key of sixteen bytes or more");
    let other = file(place, "other", "another key of sixteen bytes");
    let (_keyed, keyed) = server(place, "keyed", &["--key-file", &key]);
    let (_open, open) = server(place, "open", &[]);
    let text = complaint(&["fs", "ls", &keyed], 1);
    assert_says(&text, &["the server asks for a key", "STRIATE_KEY_FILE"]);
    let text = complaint_with(&[("STRIATE_KEY_FILE", &other)], &["fs", "ls", &keyed]);
    assert_says(&text, &["the keys of client and server differ", "STRIATE_KEY_FILE"]);
    let text = complaint_with(&[("STRIATE_KEY_FILE", &key)], &["fs", "ls", &open]);
    assert_says(&text, &["the server has none", "--key-file, or unset STRIATE_KEY_FILE"]);
}

#[test]
fn directories_and_links_that_lead_nowhere() {
    let cluster = Cluster::start(1);
    let (path, _) = cluster.file("tree/a", 10);
    answer(&["fs", "cp", &path, &cluster.at("run/a")]);
    for name in ["run", "run/"] {
        let text = complaint(&["fs", "rm", &cluster.at(name)], 2);
        assert_says(&text, &["/run is a directory", "-r removes it with its contents"]);
    }
    let text = complaint(&["fs", "rm", "-f", &cluster.at("run"), &cluster.at("none")], 2);
    assert_says(&text, &["is a directory"]);
    let text = complaint(&["fs", "rm", &cluster.at("")], 2);
    assert_says(&text, &["is the whole file system"]);
    let text = complaint(&["fs", "rm", &cluster.at("none"), &cluster.at("run")], 1);
    assert_says(&text, &["there is no file", "1 more could not be removed"]);

    let tree = cluster.local("tree");
    std::os::unix::fs::symlink("gone/away", Path::new(&tree).join("link")).unwrap();
    let text = complaint(&["fs", "cp", "-r", &tree, &cluster.at("copy/")], 1);
    assert_says(&text, &["tree/link: it is a link to gone/away, which does not exist"]);
    assert_says(&text, &["nothing was copied; remove the link"]);
    assert_eq!(answer(&["fs", "ls", "-R", &cluster.url]).lines().count(), 1);
    fs::remove_file(Path::new(&tree).join("link")).unwrap();
    std::os::unix::fs::symlink(".", Path::new(&tree).join("link")).unwrap();
    let text = complaint(&["fs", "cp", "-r", &tree, &cluster.at("copy/")], 1);
    assert_says(&text, &["it is a link to a directory", "by its own name"]);
    answer(&["fs", "rm", "-r", &cluster.at("run")]);
    assert_eq!(answer(&["fs", "ls", "-R", &cluster.url]), "");
}

#[test]
fn servers_on_one_disk_count_it_once() {
    let embedded = Server::start(&["--embedded", "3"]);
    let url = embedded.started["url"].as_str().unwrap();
    let rows = rows(&["fs", "df", url]);
    let [first, second, third, sum] = &rows[..] else { panic!("{rows:?}") };
    assert!(first["disk"] == second["disk"] && first["disk"] == third["disk"], "{rows:?}");
    assert_eq!(first["total"], sum["total"]);
    let text = answer(&["fs", "df", url]);
    assert!(text.contains("store on one disk, which counts once in the sum"), "{text}");
    assert!(!answer(&["fs", "stats", url]).contains("disk"));
}

#[test]
fn hosts_to_listen_at_may_have_names() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let data = data.to_str().unwrap();
    let server = Server::start(&["--meta", "--data", data, "--listen", "localhost:0"]);
    assert!(server.address.starts_with("127.0.0.1:"), "{}", server.address);
    let port = server.address.rsplit(':').next().unwrap();
    answer(&["fs", "ls", &format!("striate://localhost:{port}")]);
    let text = complaint(&["serve", "--data", data, "--listen", "no.such.host.invalid:0"], 2);
    assert_says(&text, &["the host of 'no.such.host.invalid:0' cannot be found"]);
    let text = complaint(&["serve", "--data", data, "--listen", "localhost"], 2);
    assert_says(&text, &["'localhost' has no port: write HOST:PORT"]);
    let config = file(place.path(), "striate.toml", "listen = \"localhost:7\"\n");
    let text = answer(&["serve", "--config", &config, "--print-config"]);
    assert!(text.contains("listen = \"127.0.0.1:7\""), "{text}");
}

/// A command that waits for a server which has stopped, for much longer than this test; it is
/// interrupted, and says this.
fn interrupted(server: &Server, arguments: &[&str], begun: impl FnMut() -> bool) -> String {
    let mut command = striate(arguments);
    command.env("STRIATE_PATIENCE", "600s").stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = ChildProcess(command.spawn().unwrap());
    until("the beginning", begun);
    server.process.signal(Signal::STOP);
    // It waits, or will.
    std::thread::sleep(std::time::Duration::from_millis(300));
    process.signal(Signal::INT);
    let status = process.ended();
    server.process.signal(Signal::CONT);
    let mut text = String::new();
    process.0.stderr.take().unwrap().read_to_string(&mut text).unwrap();
    assert_eq!(status.code(), Some(1), "{text}");
    assert!(text.contains("interrupted"), "{text}");
    text
}

#[test]
fn a_signal_ends_commands_that_wait_for_servers() {
    let place = tempfile::tempdir().unwrap();
    let (server, url) = server(place.path(), "data", &["--bandwidth", "4MiB"]);
    let source = place.path().join("source");
    fs::write(&source, random("source", 40 * MIB)).unwrap();
    let source = source.to_str().unwrap();
    let to = format!("{url}/copy");

    let begun = || !rows(&["fs", "ls", &url]).is_empty();
    let text = interrupted(&server, &["fs", "cp", source, &to], begun);
    assert!(text.contains("the copy is not complete: it was interrupted"), "{text}");
    let part = answer(&["fs", "ls", &url]);
    assert!(part.starts_with(".copy.part-"), "{part}");
    assert!(
        text.contains(part.trim()) && text.contains("striate fsck --repair striate://"),
        "{text}"
    );
    for (arguments, said) in [
        (
            &["fsck", &*url][..],
            "the check is not complete: it was interrupted; nothing was changed",
        ),
        (&["fs", "rm", &to], "not all files are removed: it was interrupted, 0 files are gone"),
        (
            &["fs", "ls", &url],
            "the answer is not complete: it was interrupted; nothing was changed",
        ),
        (&["fs", "mv", &to, &format!("{url}/b")], "it is not known which name the file has"),
    ] {
        // The server stops before the command begins.
        server.process.signal(Signal::STOP);
        let text = interrupted(&server, arguments, || true);
        assert!(text.contains(said), "{text}");
    }

    let text = complaint(&["fsck", &url], 1);
    assert!(text.contains("is a copy that was not finished"), "{text}");
    answer(&["fsck", "--repair", &url]);
    let text = answer(&["fsck", &url]);
    assert!(text.starts_with("all is well: 0 files, 0 objects"), "{text}");
}

#[test]
fn a_check_clears_copies_that_were_killed_and_leaves_those_that_go_on() {
    let place = tempfile::tempdir().unwrap();
    let (_server, url) = server(place.path(), "data", &["--bandwidth", "4MiB"]);
    let source = place.path().join("source");
    fs::write(&source, random("source", 24 * MIB)).unwrap();
    let copy = |name: &str| {
        let mut command =
            striate(&["fs", "cp", source.to_str().unwrap(), &format!("{url}/{name}")]);
        command.env("STRIATE_PATIENCE", "60s");
        let process = ChildProcess(command.stdout(Stdio::null()).spawn().unwrap());
        let part = format!(".{name}.part-");
        until("a copy", || answer(&["fs", "ls", &url]).contains(&part));
        process
    };
    let mut killed = copy("killed");
    killed.0.kill().unwrap();
    killed.ended();
    let mut goes_on = copy("goes-on");
    // Until the server knows that the client is gone, the copy counts as one that goes on.
    until("a repair", || {
        let output = run(&["fsck", "--repair", &url]);
        !answer(&["fs", "ls", &url]).contains(".killed.part-") && output.status.success()
    });
    assert!(goes_on.ended().success());
    assert_eq!(answer(&["fs", "ls", &url]), "goes-on\n");
    let text = answer(&["fsck", &url]);
    assert!(text.starts_with("all is well: 1 file, 1 object"), "{text}");
}
