//! `striate mount`: the command around a mount, how it begins and how it ends.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use striate_testing::copy_program;
use tempfile::TempDir;

/// Two directories, and a mount that is gone when the test is over, whichever way it ends.
struct MountDirectories(TempDir);

impl MountDirectories {
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
        // What one leaves that is killed goes with the rest.
        command.current_dir(self.0.path()).env("NO_COLOR", "1").env("TMPDIR", self.0.path());
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

impl Drop for MountDirectories {
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
        let place = MountDirectories::new();
        let (child, line) = place.mount(&[]);
        assert!(line.contains("point shows"), "{line}");
        fs::write(place.path("point/f"), "x").unwrap();
        signal(&child, end);
        let (code, said) = ended(child);
        assert_eq!((code, said.lines().count()), (Some(0), 1), "{said}");
        assert!(said.contains("is unmounted, and everything is on "), "{said}");
        assert!(!place.is_mounted());
        assert_eq!(fs::read(place.path("source/f")).unwrap(), b"x");
    }
}

#[test]
fn a_signal_settles_what_is_still_open() {
    if !is_root() {
        return;
    }
    for end in [Signal::TERM, Signal::INT] {
        let place = MountDirectories::new();
        fs::write(place.path("stack.toml"), "[[stage]]\nkind = \"write-back\"\n").unwrap();
        let (child, _) = place.mount(&["--stack", "stack.toml"]);
        let mut file = File::create(place.path("point/f")).unwrap();
        file.write_all(b"held back").unwrap();
        assert_eq!(fs::metadata(place.path("source/f")).unwrap().len(), 0);
        signal(&child, end);
        let (code, said) = ended(child);
        assert_eq!(code, Some(0), "{said}");
        assert!(said.contains("programs still use the mount"), "{said}");
        assert_eq!(fs::read(place.path("source/f")).unwrap(), b"held back");
        assert!(!place.is_mounted());
        assert!(file.write_all(b"late").is_err());
    }
}

#[test]
fn a_kill_leaves_no_dead_mount() {
    if !is_root() {
        return;
    }
    let place = MountDirectories::new();
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

/// The process that looks after a mount. It may not have come to give itself a name yet.
fn watcher_of(place: &MountDirectories, child: &Child) -> Pid {
    let parent = format!("PPid:\t{}", child.id());
    let is_it = |status: &str| {
        status.starts_with("Name:\tstriate-watch\n") && status.lines().any(|line| line == parent)
    };
    let found = || {
        fs::read_dir("/proc").unwrap().find_map(|entry| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            let number: i32 = name.parse().ok()?;
            let status = fs::read_to_string(format!("/proc/{number}/status")).ok()?;
            is_it(&status).then_some(number)
        })
    };
    place.soon("looked after", |_| found().is_some());
    Pid::from_raw(found().unwrap()).unwrap()
}

#[test]
fn a_mount_that_nobody_looks_after_is_taken_away_by_the_next() {
    if !is_root() {
        return;
    }
    let place = MountDirectories::new();
    let (child, _) = place.mount(&[]);
    kill_process(watcher_of(&place, &child), Signal::KILL).unwrap();
    signal(&child, Signal::KILL);
    assert_eq!(ended(child).0, None);
    // It is dead, and still there.
    place.soon("dead", |place| {
        let asked = fs::metadata(place.path("point"));
        asked.is_err_and(|error| {
            error.raw_os_error() == Some(rustix::io::Errno::NOTCONN.raw_os_error())
        })
    });
    let (child, _) = place.mount(&[]);
    fs::write(place.path("point/f"), "x").unwrap();
    assert_eq!(fs::read(place.path("source/f")).unwrap(), b"x");
    signal(&child, Signal::TERM);
    assert_eq!(ended(child).0, Some(0));
    assert!(!place.is_mounted());
}

#[test]
fn whoever_unmounts_ends_it() {
    if !is_root() {
        return;
    }
    let place = MountDirectories::new();
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
    let place = MountDirectories::new();
    let arguments = ["--count", "--trace", "traces", "--summary", "sums.json", "--json"];
    let (child, line) = place.mount(&arguments);
    let ready: Value = serde_json::from_str(&line).unwrap();
    assert!(ready["point"].as_str().unwrap().ends_with("/point"), "{line}");
    fs::write(place.path("point/f.dat"), vec![1; 10_000]).unwrap();
    let writer = Command::new("sh")
        .args(["-c", "echo $$; exec dd if=/dev/zero of=g.raw bs=4096 count=3 status=none"])
        .current_dir(place.path("point"))
        .output()
        .unwrap();
    let writer: u32 = String::from_utf8(writer.stdout).unwrap().trim().parse().unwrap();
    signal(&child, Signal::TERM);
    assert_eq!(ended(child), (Some(0), String::new()));
    let sums = fs::read_to_string(place.path("sums.json")).unwrap();
    let sums: Value = serde_json::from_str(&sums).unwrap();
    let written = &sums["rows"][0]["functions"]["pwrite"];
    assert_eq!((written["calls"].as_u64(), written["bytes"].as_u64()), (Some(4), Some(22_288)));
    assert_eq!(sums["rows"][0]["endings"]["dat"]["written"].as_u64(), Some(10_000));
    // A trace for each process that asked, and that of the one that serves, which looked at the
    // mount first.
    let mut writes = std::collections::BTreeMap::new();
    for entry in fs::read_dir(place.path("traces")).unwrap() {
        let trace = striate_trace::Trace::open(&entry.unwrap().path()).unwrap();
        let records = trace.records().map(Result::unwrap);
        let written = records.filter(|record| record.function.name() == "pwrite");
        let bytes: u64 = written.map(|record| record.outcome.unwrap()).sum();
        writes.insert(trace.header().origin.process, bytes);
    }
    assert_eq!(writes.get(&std::process::id()), Some(&10_000), "{writes:?}");
    assert_eq!(writes.get(&writer), Some(&12_288), "{writes:?}");
}

#[test]
fn in_the_background_it_returns_when_the_mount_works() {
    if !is_root() {
        return;
    }
    let place = MountDirectories::new();
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
    let place = MountDirectories::new();
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

/// Lets all users use `/dev/fuse`, as most systems do, until the test is over.
struct FuseForAll(Option<Permissions>);

impl FuseForAll {
    fn new() -> std::io::Result<Self> {
        let before = fs::metadata("/dev/fuse")?.permissions();
        if before.mode() & 0o666 == 0o666 {
            return Ok(Self(None));
        }
        fs::set_permissions("/dev/fuse", Permissions::from_mode(0o666))?;
        Ok(Self(Some(before)))
    }
}

impl Drop for FuseForAll {
    fn drop(&mut self) {
        if let Some(before) = self.0.take() {
            let _ = fs::set_permissions("/dev/fuse", before);
        }
    }
}

/// By `fusermount3`.
#[test]
fn users_mount_for_themselves() {
    use std::os::unix::fs::MetadataExt;
    use std::os::unix::process::CommandExt;

    if !is_root() {
        eprintln!("skipped: only the superuser can become another user");
        return;
    }
    if !Path::new("/usr/bin/fusermount3").exists() {
        eprintln!("skipped: there is no fusermount3");
        return;
    }
    let _for_all = match FuseForAll::new() {
        Ok(for_all) => for_all,
        Err(error) => {
            eprintln!("skipped: /dev/fuse cannot be given to all users: {error}");
            return;
        }
    };
    let place = MountDirectories::new();
    let script = format!(
        "chmod 755 '{0}'; mkdir '{0}/tmp'; chown 65534:65534 '{0}/source' '{0}/point' '{0}/tmp'",
        place.0.path().display()
    );
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let program = place.path("striate");
    copy_program(env!("CARGO_BIN_EXE_striate"), &program);
    let mut command = Command::new(&program);
    command
        .args(["mount", "source", "point"])
        .current_dir(place.0.path())
        .env("TMPDIR", place.path("tmp"));
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
