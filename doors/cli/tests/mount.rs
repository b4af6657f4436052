//! `striate mount`: the command around a mount, how it begins and how it ends.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// Two directories, and a mount that is gone when the test is over, whichever way it ends.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = TempDir::new().unwrap();
        fs::create_dir(place.path().join("source")).unwrap();
        fs::create_dir(place.path().join("point")).unwrap();
        Self(place)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn striate(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
        command.args(["mount", "source", "point"]).args(arguments);
        command.current_dir(self.0.path()).env("NO_COLOR", "1");
        command
    }

    /// Mounts, and waits until it works.
    fn mount(&self, arguments: &[&str]) -> (Child, String) {
        let mut command = self.striate(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if line.is_empty() {
            let output = child.wait_with_output().unwrap();
            panic!("{}", String::from_utf8_lossy(&output.stderr));
        }
        (child, line)
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let point = self.path("point").canonicalize().unwrap_or_else(|_| self.path("point"));
        mounts.lines().any(|line| line.split(' ').nth(1) == point.to_str())
    }

    fn soon(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let until = Instant::now() + Duration::from_secs(60);
        while !holds(self) {
            assert!(Instant::now() < until, "not {what}");
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_mounted() {
            let _ = Command::new("umount").arg("-l").arg(self.path("point")).status();
        }
    }
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// How a command ended, and what it said on standard error.
fn ended(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn signals_end_it_in_order() {
    if !is_root() {
        return;
    }
    for end in [Signal::TERM, Signal::INT, Signal::HUP] {
        let place = Place::new();
        let (child, line) = place.mount(&[]);
        assert!(line.contains("point shows"), "{line}");
        fs::write(place.path("point/f"), "x").unwrap();
        signal(&child, end);
        assert_eq!(ended(child), (Some(0), String::new()));
        assert!(!place.is_mounted());
        assert_eq!(fs::read(place.path("source/f")).unwrap(), b"x");
    }
}

#[test]
fn a_signal_settles_what_is_still_open() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    fs::write(place.path("stack.toml"), "[[stage]]\nkind = \"write-back\"\n").unwrap();
    let (child, _) = place.mount(&["--stack", "stack.toml"]);
    let mut file = File::create(place.path("point/f")).unwrap();
    file.write_all(b"held back").unwrap();
    assert_eq!(fs::metadata(place.path("source/f")).unwrap().len(), 0);
    signal(&child, Signal::TERM);
    let (code, said) = ended(child);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("programs still use the mount"), "{said}");
    assert_eq!(fs::read(place.path("source/f")).unwrap(), b"held back");
    assert!(!place.is_mounted());
    assert!(file.write_all(b"late").is_err());
}

#[test]
fn a_kill_leaves_no_dead_mount() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let (child, _) = place.mount(&["--no-passthrough"]);
    let file = File::create(place.path("point/f")).unwrap();
    signal(&child, Signal::KILL);
    assert_eq!(ended(child).0, None);
    place.soon("unmounted", |place| !place.is_mounted());
    assert!(fs::read_dir(place.path("point")).unwrap().next().is_none());
    assert!((&file).write_all(b"x").is_err());
    // Another one can be mounted there at once.
    let (child, _) = place.mount(&[]);
    assert!(place.path("point/f").exists());
    signal(&child, Signal::TERM);
    assert_eq!(ended(child).0, Some(0));
}

#[test]
fn whoever_unmounts_ends_it() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let (child, _) = place.mount(&["--count"]);
    let script = "for n in 1 2 3; do echo $n >$n.txt; done; cat *.txt";
    let output = Command::new("sh").args(["-c", script]).current_dir(place.path("point")).output();
    assert_eq!(output.unwrap().stdout, b"1\n2\n3\n");
    assert!(Command::new("umount").arg(place.path("point")).status().unwrap().success());
    let (code, said) = ended(child);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("\n  pwrite ") && said.contains("\n  *.txt "), "{said}");
}

#[test]
fn counters_and_traces_are_left() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let arguments = ["--count", "--trace", "traces", "--summary", "sums.json", "--json"];
    let (child, line) = place.mount(&arguments);
    let ready: Value = serde_json::from_str(&line).unwrap();
    assert!(ready["point"].as_str().unwrap().ends_with("/point"), "{line}");
    fs::write(place.path("point/f.dat"), vec![1; 10_000]).unwrap();
    signal(&child, Signal::TERM);
    assert_eq!(ended(child), (Some(0), String::new()));
    let sums = fs::read_to_string(place.path("sums.json")).unwrap();
    let sums: Value = serde_json::from_str(&sums).unwrap();
    let written = &sums["rows"][0]["functions"]["pwrite"];
    assert_eq!((written["calls"].as_u64(), written["bytes"].as_u64()), (Some(1), Some(10_000)));
    assert_eq!(sums["rows"][0]["endings"]["dat"]["written"].as_u64(), Some(10_000));
    assert_eq!(sums["rows"][0]["trace"]["files"].as_u64(), Some(1));
}

#[test]
fn in_the_background_it_returns_when_the_mount_works() {
    if !is_root() {
        return;
    }
    let place = Place::new();
    let output = place.striate(&["--background"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    fs::write(place.path("point/f"), "x").unwrap();
    assert_eq!(fs::read(place.path("source/f")).unwrap(), b"x");
    assert!(Command::new("umount").arg(place.path("point")).status().unwrap().success());
    // What cannot be mounted is told by the one that was asked.
    fs::write(place.path("point/g"), "in the way").unwrap();
    let output = place.striate(&["--background"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("not empty"));
}

#[test]
fn what_cannot_be_mounted_is_told() {
    let place = Place::new();
    fs::write(place.path("file"), "").unwrap();
    fs::create_dir_all(place.path("source/below")).unwrap();
    fs::create_dir_all(place.path("full/below")).unwrap();
    fs::write(place.path("wrong.toml"), "[[stage]]\nkind = \"magic\"\n").unwrap();
    for (words, reason) in [
        (&["missing", "point"][..], "missing"),
        (&["source", "missing"], "missing"),
        (&["source", "file"], "not a directory"),
        (&["source", "full"], "not empty"),
        (&["source", "source/below"], "within the other"),
        (&["source/below", "source"], "within the other"),
        (&["source", "point", "--stack", "wrong.toml"], "magic"),
        (&["source", "point", "--trace", "point/traces"], "below the mount"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
        command.arg("mount").args(words).current_dir(place.0.path()).env("NO_COLOR", "1");
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(matches!(output.status.code(), Some(1 | 2)), "{words:?}: {said}");
        let _ = fs::remove_dir(place.path("point/traces"));
        assert!(said.starts_with("error: ") && said.contains(reason), "{words:?}: {said}");
    }
}

/// By `fusermount3`, where it is there and `/dev/fuse` may be used by all.
#[test]
fn users_mount_for_themselves() {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;

    let may = fs::metadata("/dev/fuse").is_ok_and(|about| about.mode() & 0o666 == 0o666);
    let has = |name: &str| Path::new("/usr/bin").join(name).exists();
    if !(is_root() && may && has("fusermount3")) {
        return;
    }
    let place = Place::new();
    let script = format!(
        "chmod 755 '{0}'; chown 65534:65534 '{0}/source' '{0}/point'",
        place.0.path().display()
    );
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let program = place.path("striate");
    fs::copy(env!("CARGO_BIN_EXE_striate"), &program).unwrap();
    let mut command = Command::new(&program);
    command.args(["mount", "source", "point"]).current_dir(place.0.path());
    command.uid(65534).gid(65534).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let mut said = String::new();
    if line.is_empty() {
        child.stderr.as_mut().unwrap().read_to_string(&mut said).unwrap();
    }
    assert!(line.contains("shows"), "{said}");
    let work = "umask 022; echo x >point/f && cat point/f && mv point/f point/g && ls -l point";
    let output = Command::new("sh")
        .args(["-c", work])
        .current_dir(place.0.path())
        .uid(65534)
        .gid(65534)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::metadata(place.path("source/g")).unwrap().uid(), 65534);
    signal(&child, Signal::TERM);
    let (code, said) = ended(child);
    assert_eq!(code, Some(0), "{said}");
    assert!(!place.is_mounted());
    // And killed.
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("shows"));
    signal(&child, Signal::KILL);
    assert_eq!(ended(child).0, None);
    place.soon("unmounted", |place| !place.is_mounted());
}
