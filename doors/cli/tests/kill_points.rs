//! Commands that replace or move files are killed before each of the system calls by which they
//! change something: what was whole before is whole afterwards, as it was or as it was to become.
//! The same command, given again, removes what the killed one has left.
//!
//! `STRIATE_KILLS=1000` tries all calls, not only some of each.
#![cfg(feature = "peers")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod preloaded;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use preloaded::{library, striate};
use striate_server::Embedded;
use striate_store::remote::{Client, RemoteUrl};
use striate_unmodified::kills::Victim;

/// A directory, which is made anew for each kill.
struct KillDirectory {
    root: tempfile::TempDir,
}

impl KillDirectory {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap() }
    }

    fn work(&self) -> PathBuf {
        self.root.path().join("work")
    }

    /// The command, to be killed.
    fn victim(&self, arguments: &[&str]) -> Victim {
        let program = env!("CARGO_BIN_EXE_striate").to_owned();
        let words = arguments.iter().map(|word| (*word).to_owned());
        let variables = vec![("NO_COLOR".to_owned(), "1".to_owned())];
        Victim {
            words: [program].into_iter().chain(words).collect(),
            variables,
            directory: self.work(),
        }
    }

    /// A command that succeeds, and what it prints.
    fn striate(&self, arguments: &[&str]) -> String {
        let output = striate().args(arguments).current_dir(self.work()).output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {stderr}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Kills a command wherever it changes something, each time after `begin`; `check` is told
    /// where it was.
    fn kill(&self, arguments: &[&str], begin: impl Fn(&Path), check: impl Fn(&str)) {
        let again = || {
            let _ = fs::remove_dir_all(self.work());
            fs::create_dir(self.work()).unwrap();
            begin(&self.work());
        };
        again();
        let victim = self.victim(arguments);
        let points = victim.points();
        check("not killed");
        let mut kills = 0;
        for point in &points {
            again();
            if victim.killed_at(point).is_some() {
                kills += 1;
                check(&format!("{arguments:?} killed before {} {}", point.call, point.nth));
            }
        }
        assert!(kills * 2 > points.len(), "{arguments:?}: {kills} of {}", points.len());
    }

    /// Kills a command that writes one file, in the place of another or not: it is the old one or
    /// the whole new one, and the same command makes the new one afterwards and leaves nothing
    /// else.
    fn kill_writer(&self, arguments: &[&str], output: &str, replaces: bool, begin: impl Fn(&Path)) {
        const OLD: &[u8] = b"what was there before";
        let path = self.work().join(output);
        let start = |work: &Path| {
            begin(work);
            if replaces {
                fs::write(work.join(output), OLD).unwrap();
            }
        };
        let _ = fs::remove_dir_all(self.work());
        fs::create_dir(self.work()).unwrap();
        start(&self.work());
        self.striate(arguments);
        let new = fs::read(&path).unwrap();
        let names = self.names();
        self.kill(arguments, start, |context| {
            match fs::read(&path) {
                Ok(found) => {
                    let whole = found == new || replaces && found == OLD;
                    assert!(whole, "{output} has {} bytes: {context}", found.len());
                }
                Err(error) => assert!(!replaces, "{error}: {context}"),
            }
            if replaces || !path.exists() {
                self.striate(arguments);
            }
            assert!(fs::read(&path).unwrap() == new, "{context}");
            assert_eq!(self.names(), names, "{context}");
        });
    }

    /// The names of files in a directory that are not whole, by how they are called.
    fn unfinished(&self, directory: &str) -> Vec<String> {
        let ends = [".unpublished", ".moving", ".removed"];
        let list = fs::read_dir(self.work().join(directory)).unwrap();
        let names = list.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let is_unfinished =
            |name: &String| name.starts_with('.') || ends.iter().any(|end| name.ends_with(end));
        names.filter(is_unfinished).collect()
    }

    fn names(&self) -> Vec<String> {
        let list = fs::read_dir(self.work()).unwrap();
        let mut names: Vec<_> =
            list.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// A recording of a small program, made once.
fn recording() -> tempfile::TempDir {
    library();
    let place = tempfile::tempdir().unwrap();
    let script =
        "dd if=/dev/zero of=a.dat bs=1000 count=20 2>/dev/null; cat a.dat > b.dat; rm b.dat";
    let mut command = striate();
    command.args(["run", "--quiet", "--trace", "traces", "--", "sh", "-c", script]);
    let output = command.current_dir(place.path()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    place
}

#[test]
fn pages_and_exports_are_whole() {
    let (place, recorded) = (KillDirectory::new(), recording());
    let traces = recorded.path().join("traces").to_str().unwrap().to_owned();
    let nothing = |_: &Path| {};
    place.kill_writer(&["report", &traces, "-o", "page.html"], "page.html", true, nothing);
    let export = ["trace", "export", &traces, "--format", "csv", "-o", "out.csv"];
    place.kill_writer(&export, "out.csv", true, nothing);
    let summary = ["describe", "--svg", "out.svg", "contiguous(8, int)"];
    let described = striate().args(summary).current_dir(recorded.path()).output().unwrap();
    if described.status.success() {
        place.kill_writer(&summary, "out.svg", true, nothing);
    }
}

#[test]
fn recordings_that_are_made_are_whole() {
    let (place, recorded) = (KillDirectory::new(), recording());
    let traces = recorded.path().join("traces").to_str().unwrap().to_owned();
    let nothing = |_: &Path| {};
    let cut = ["trace", "cut", &traces, "--kind", "write", "-o", "cut.trace"];
    place.kill_writer(&cut, "cut.trace", false, nothing);
    place.kill_writer(&["trace", "merge", &traces, "-o", "all.trace"], "all.trace", false, nothing);
}

/// What `strace` and `darshan-dxt-parser` wrote, of a few processes each.
fn foreign(place: &Path) -> [String; 2] {
    let call =
        |n: u32| format!("{} 1700000000.{n:06} unlink(\"/a/{n}\") = 0 <0.000001>\n", 10 + n % 3);
    let strace = place.join("strace.txt");
    fs::write(&strace, (0..300).map(call).collect::<String>()).unwrap();
    let mut dxt = "# darshan log version: 3.41\n# start_time: 1700000000\n".to_owned();
    for rank in 0..3 {
        write!(
            dxt,
            "# DXT, file_id: 1, file_name: /a\n# DXT, rank: {rank}, hostname: h\n\
             # DXT, write_count: 2, read_count: 0\n"
        )
        .unwrap();
        for n in 0..2 {
            let (offset, start) = (n * 1000, n + 1);
            writeln!(dxt, " X_POSIX {rank} write {n} {offset} 1000 {start}.1 {start}.2").unwrap();
        }
    }
    let text = place.join("dxt.txt");
    fs::write(&text, dxt).unwrap();
    [strace, text].map(|path| path.to_str().unwrap().to_owned())
}

#[test]
fn imports_are_whole_and_what_killed_ones_leave_is_removed() {
    let (place, files) = (KillDirectory::new(), tempfile::tempdir().unwrap());
    for file in foreign(files.path()) {
        let import = ["trace", "import", &file, "-o", "in.trace"];
        place.kill_writer(&import, "in.trace", false, |_| {});
    }
}

/// Names and contents of all files below a directory.
fn image(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut image = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            image.extend(self::image(&path));
        } else {
            image.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    image
}

/// The files that were recorded and the recording stay as they are. A replay in what a killed one
/// has left ends well.
#[test]
fn replays_change_nothing_but_their_root() {
    let (place, recorded) = (KillDirectory::new(), recording());
    let traces = recorded.path().join("traces").to_str().unwrap().to_owned();
    let before = image(recorded.path());
    assert!(before.keys().any(|path| path.ends_with("a.dat")), "{:?}", before.keys());
    let replay = ["replay", &traces, "--timing", "as-fast", "--root", "root", "--trace", "again"];
    let bystander = |work: &Path| fs::write(work.join("bystander"), "whole").unwrap();
    place.kill(&replay, bystander, |context| {
        assert!(image(recorded.path()) == before, "{context}");
        assert_eq!(fs::read(place.work().join("bystander")).unwrap(), b"whole", "{context}");
        let strict = ["replay", &traces, "--timing", "as-fast", "--root", "root", "--strict"];
        place.striate(&strict);
    });
}

/// A file in the classic format with one variable of two dimensions.
fn dataset(seed: u32) -> Vec<u8> {
    let (rows, columns) = (8u32, 512u32);
    let mut bytes = b"CDF\x01".to_vec();
    let mut word = |value: u32| bytes.extend(value.to_be_bytes());
    // No records; two dimensions, y and x; no attributes; one variable, v(y, x) of integers.
    let words = [0, 10, 2, 1, u32::from(b'y') << 24, rows, 1, u32::from(b'x') << 24, columns];
    let variable = [0, 0, 11, 1, 1, u32::from(b'v') << 24, 2, 0, 1, 0, 0, 4, rows * columns * 4];
    let begin = 4 + 4 * (words.len() + variable.len() + 1) as u32;
    words.iter().chain(&variable).chain([&begin]).for_each(|value| word(*value));
    (0..rows * columns).for_each(|place| word(place * 3 + seed));
    bytes
}

fn datasets(work: &Path) {
    fs::write(work.join("a.nc"), dataset(1)).unwrap();
    fs::write(work.join("b.nc"), dataset(2)).unwrap();
}

/// What a dataset holds, without its name.
fn dump(place: &KillDirectory, name: &str) -> Option<String> {
    let output = striate().args(["nc", "dump", name]).current_dir(place.work()).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    output.status.success().then(|| text.lines().skip(1).collect())
}

#[test]
fn copies_of_datasets_replace_whole_ones() {
    let place = KillDirectory::new();
    place.kill(&["nc", "copy", "--force", "a.nc", "b.nc"], datasets, |context| {
        let (a, b) = (dump(&place, "a.nc"), dump(&place, "b.nc"));
        assert_eq!(fs::read(place.work().join("a.nc")).unwrap(), dataset(1), "{context}");
        let old = fs::read(place.work().join("b.nc")).unwrap() == dataset(2);
        assert!(old || a.is_some() && a == b, "{context}");
        place.striate(&["nc", "copy", "--force", "a.nc", "b.nc"]);
        assert_eq!(place.names(), ["a.nc", "b.nc"], "{context}");
    });
    place.kill(&["nc", "mv", "--force", "a.nc", "b.nc"], datasets, |context| {
        let read = |name: &str| fs::read(place.work().join(name)).ok();
        let (a, b) = (read("a.nc"), read("b.nc"));
        let before = a == Some(dataset(1)) && b == Some(dataset(2));
        assert!(before || b == Some(dataset(1)), "{context}");
        if before {
            place.striate(&["nc", "mv", "--force", "a.nc", "b.nc"]);
        }
        assert_eq!(place.names(), ["b.nc"], "{context}");
    });
}

#[test]
fn partitioned_datasets_are_whole() {
    let place = KillDirectory::new();
    fs::create_dir(place.work()).unwrap();
    datasets(&place.work());
    let [one, two] = ["a.nc", "b.nc"].map(|name| dump(&place, name));
    let whole = |name: &str, seeds: &[&Option<String>]| {
        let found = dump(&place, name);
        found.is_some() && seeds.contains(&&found)
    };
    // A new one, and one in the place of another.
    let divide = |work: &Path| {
        datasets(work);
        place.striate(&["nc", "split", "a.nc", "p.nc", "--partitions", "3", "--min-ndims", "1"]);
    };
    let split = ["nc", "split", "--force", "b.nc", "p.nc", "--partitions", "2", "--min-ndims", "1"];
    place.kill(&split, divide, |context| {
        assert!(whole("b.nc", &[&two]), "{context}");
        assert!(whole("p.nc", &[&one, &two]), "{context}");
        place.striate(&split);
        assert!(whole("p.nc", &[&two]), "{context}");
        assert_eq!(place.unfinished("."), [""; 0], "{context}");
    });
    let join = ["nc", "join", "--force", "p.nc", "b.nc"];
    place.kill(&join, divide, |context| {
        assert!(whole("p.nc", &[&one]) && whole("b.nc", &[&one, &two]), "{context}");
        place.striate(&join);
        assert_eq!(place.unfinished("."), [""; 0], "{context}");
    });
    let apart = |work: &Path| {
        divide(work);
        fs::create_dir(work.join("d")).unwrap();
    };
    place.kill(&["nc", "mv", "p.nc", "d/p.nc"], apart, |context| {
        assert!(whole("p.nc", &[&one]) || whole("d/p.nc", &[&one]), "{context}");
        if !whole("d/p.nc", &[&one]) {
            place.striate(&["nc", "mv", "--force", "p.nc", "d/p.nc"]);
        }
        assert!(whole("d/p.nc", &[&one]), "{context}");
        assert_eq!(place.unfinished("d"), [""; 0], "{context}");
    });
}

#[test]
fn copies_from_servers_replace_whole_files() {
    let server = Embedded::start(1).unwrap();
    let place = KillDirectory::new();
    fs::create_dir(place.work()).unwrap();
    let new: Vec<u8> = (0..300_000u32).map(|place| (place % 251) as u8).collect();
    fs::write(place.work().join("new"), &new).unwrap();
    let url = format!("{}/new", server.url());
    place.striate(&["fs", "cp", "new", &url]);
    let old = |work: &Path| fs::write(work.join("out"), b"old").unwrap();
    place.kill(&["fs", "cp", &url, "out"], old, |context| {
        let found = fs::read(place.work().join("out")).unwrap();
        assert!(found == b"old" || found == new, "{} bytes: {context}", found.len());
        place.striate(&["fs", "cp", &url, "out"]);
        assert_eq!(place.names(), ["out"], "{context}");
    });
}

/// A client makes no calls that change files of its own, so it is killed while the server delays
/// its data.
#[test]
fn copies_to_servers_leave_nothing_when_they_are_repeated() {
    let servers = Embedded::with(1, |settings| settings.delay = Duration::from_secs(1)).unwrap();
    let place = KillDirectory::new();
    fs::create_dir(place.work()).unwrap();
    fs::write(place.work().join("new"), vec![7; 300_000]).unwrap();
    datasets(&place.work());
    let url: RemoteUrl = servers.url().parse().unwrap();
    let client = Client::shared(&url).unwrap();
    let names = || {
        let files = client.list("").unwrap();
        files.into_iter().map(|file| file.path).collect::<Vec<_>>()
    };
    for (name, command) in
        [("new", &["fs", "cp", "new"][..]), ("a.nc", &["nc", "copy", "--force", "a.nc"])]
    {
        let destination = format!("{}/{name}", servers.url());
        let command = [command, &[&destination]].concat();
        let mut child = striate().args(&command).current_dir(place.work()).spawn().unwrap();
        let limit = Instant::now() + Duration::from_secs(60);
        let part = format!(".{name}.part-");
        while !names().iter().any(|name| name.starts_with(&part)) {
            assert!(Instant::now() < limit, "{command:?} begins nothing: {:?}", names());
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // Until the server knows that the process is gone, its part counts as one that is written.
        loop {
            place.striate(&command);
            if !names().iter().any(|name| name.starts_with(&part)) {
                break;
            }
            assert!(Instant::now() < limit, "{command:?}: {:?}", names());
        }
        assert!(names().iter().any(|found| found == name), "{:?}", names());
    }
}

/// What a killed recovery has begun to change is as it was, or as it is to become.
#[test]
fn recovered_datasets_are_whole() {
    let place = KillDirectory::new();
    let tail = vec![7; 300_000];
    let whole = |work: &Path| {
        fs::write(work.join("a.nc"), dataset(1)).unwrap();
        place.striate(&["nc", "copy", "--format", "netcdf4", "a.nc", "b.nc"]);
        let sound = fs::read(work.join("b.nc")).unwrap();
        fs::write(work.join("b.nc"), [sound.as_slice(), &tail].concat()).unwrap();
    };
    let recover = ["nc", "recover", "--truncate", "b.nc"];
    place.kill(&recover, whole, |context| {
        assert_eq!(dump(&place, "b.nc"), dump(&place, "a.nc"), "{context}");
        place.striate(&recover);
        assert_eq!(dump(&place, "b.nc"), dump(&place, "a.nc"), "{context}");
        place.striate(&["nc", "recover", "b.nc"]);
        assert_eq!(place.names(), ["a.nc", "b.nc"], "{context}");
    });
}

/// What a killed program has left comes, wherever `recover` and `unpack` are killed before.
#[test]
fn recovery_that_is_killed_goes_on() {
    for (kept, command) in [("", "recover"), ("unpack = false\n", "unpack")] {
        let place = KillDirectory::new();
        let logs = place.root.path().join("logs");
        let stack = place.root.path().join("stack.toml");
        let work = place.work();
        let text = format!(
            "[paths]\ninclude = [\"{}\"]\n[[stage]]\nkind = \"combine\"\ndirectory = \"{}\"\n{kept}",
            work.display(),
            logs.display()
        );
        fs::write(&stack, text).unwrap();
        let file = stack.to_str().unwrap();
        let content = |n: usize| format!("content {n}\n").repeat(400 * (n + 1));
        let begin = |work: &Path| {
            let _ = fs::remove_dir_all(&logs);
            fs::create_dir(&logs).unwrap();
            fs::write(work.join("f1"), "old").unwrap();
            for n in 0..4 {
                fs::write(place.root.path().join(format!("c{n}")), content(n)).unwrap();
            }
            // Killed by itself, so that the log is left; or ended, so that a container is.
            let end = if kept.is_empty() { "kill 9, $$" } else { "exit 0" };
            let script = format!(
                "unlink 'f1'; undef $/; for $n (0..3) {{ open I, '<', \"../c$n\"; open F, '>', \"f$n\"; \
                 print F <I>; close F; close I }} {end}"
            );
            let mut program = Command::new("perl");
            program.args(["-e", &script]).current_dir(work);
            program.env("LD_PRELOAD", library()).env("STRIATE_STACK", file);
            let _ = program.status().unwrap();
            assert_eq!(fs::read_dir(&logs).unwrap().count(), 1, "something is left");
        };
        let directory = logs.to_str().unwrap();
        let argument = if command == "recover" { file } else { directory };
        place.kill(&["stack", command, argument], begin, |context| {
            place.striate(&["stack", command, argument]);
            for n in 0..4 {
                let found = fs::read_to_string(work.join(format!("f{n}"))).unwrap_or_default();
                assert!(found == content(n), "f{n}, {} bytes: {context}", found.len());
            }
            assert_eq!(fs::read_dir(&logs).unwrap().count(), 0, "{context}");
            assert_eq!(place.names(), ["f0", "f1", "f2", "f3"], "{context}");
        });
    }
}
