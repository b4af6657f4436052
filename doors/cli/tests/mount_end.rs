//! The end of a mount: everything is on the source when `striate umount` returns, and what an old
//! server still writes touches neither the next mount nor the directory under it.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use striate_testing::copy_program;
use tempfile::TempDir;

/// Writing out takes long on such storage.
const SLOW: &str = "[[stage]]\nkind = 'combine'\nthreads = 2\n\
    [[stage]]\nkind = 'throttle'\nlatency = '3ms'\n";

/// A place for mounts, which are gone when the test is over, whichever way it ends.
struct EndDirectories(TempDir);

impl EndDirectories {
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only the superuser mounts without a helper");
            return None;
        }
        let place = TempDir::new().unwrap();
        for name in ["source", "other", "point"] {
            fs::create_dir(place.path().join(name)).unwrap();
        }
        fs::write(place.path().join("slow.toml"), SLOW).unwrap();
        Some(Self(place))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn striate(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
        command.args(words).current_dir(self.0.path());
        command.env("NO_COLOR", "1").env("TMPDIR", self.0.path());
        command
    }

    fn run(&self, words: &[&str]) -> (Option<i32>, String) {
        let Output { status, stdout, stderr } = self.striate(words).output().unwrap();
        (status.code(), [stdout, stderr].map(|text| String::from_utf8(text).unwrap()).concat())
    }

    /// Mounts, and waits until it works.
    fn mount(&self, source: &str, more: &[&str]) -> Child {
        let mut command = self.striate(&["mount", source, "point"]);
        let mut child =
            command.args(more).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert!(!line.is_empty(), "{}", ended(child).1);
        child
    }

    /// Makes files through the mount.
    fn fill(&self, prefix: &str, count: usize) {
        for number in 0..count {
            let name = format!("point/{prefix}{number}");
            fs::write(self.path(&name), format!("{prefix} {number}")).unwrap();
        }
    }

    /// Files of a directory that are as they were made.
    fn whole(&self, directory: &str, prefix: &str, count: usize) -> usize {
        let is_whole = |number: &usize| {
            let path = self.path(directory).join(format!("{prefix}{number}"));
            fs::read_to_string(path).is_ok_and(|text| text == format!("{prefix} {number}"))
        };
        (0..count).filter(is_whole).count()
    }

    fn notes(&self, directory: &str) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.path(directory)).unwrap();
        let paths = entries.map(|entry| entry.unwrap().path());
        let is_note = |path: &PathBuf| path.to_str().unwrap().contains("STRIATE-SETTLING-");
        paths.filter(is_note).collect()
    }

    fn is_mounted(&self) -> bool {
        is_mounted(&self.path("point"))
    }

    fn plain_umount(&self) {
        assert!(Command::new("umount").arg(self.path("point")).status().unwrap().success());
    }
}

impl Drop for EndDirectories {
    fn drop(&mut self) {
        while self.is_mounted() {
            if !Command::new("umount").arg("-l").arg(self.path("point")).status().unwrap().success()
            {
                break;
            }
        }
        let _ = self.run(&["umount", "--unguard", "point"]);
    }
}

fn is_mounted(point: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    mounts.lines().any(|line| line.split(' ').nth(1) == point.to_str())
}

fn ended(child: Child) -> (Option<i32>, String) {
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    (status.code(), String::from_utf8(stderr).unwrap())
}

fn soon(what: &str, holds: impl Fn() -> bool) {
    let until = Instant::now() + Duration::from_secs(60);
    while !holds() {
        assert!(Instant::now() < until, "not {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn kill(child: &Child) {
    kill_process(Pid::from_child(child), Signal::KILL).unwrap();
}

#[test]
fn umount_returns_when_everything_is_on_the_source() {
    const FILES: usize = 2000;
    let Some(place) = EndDirectories::new() else { return };
    fs::write(place.path("combine.toml"), "[[stage]]\nkind = 'combine'\n").unwrap();
    let server = place.mount("source", &["--stack", "combine.toml", "--background"]);
    assert_eq!(ended(server).0, Some(0));
    place.fill("a", FILES);
    // What is held back is not there yet, or there would be nothing to wait for.
    assert!(place.whole("source", "a", FILES) < FILES);
    let (code, said) = place.run(&["umount", "point", "--json"]);
    assert_eq!((code, place.whole("source", "a", FILES)), (Some(0), FILES), "{said}");
    assert!(!place.is_mounted() && place.notes("source").is_empty());
    let told: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(told["rows"][0]["state"], "settled", "{said}");
    assert!(told["rows"][0]["files"].as_u64() > Some(0), "{said}");

    let (code, said) = place.run(&["umount", "point"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("nothing is mounted at"), "{said}");
}

/// The old server ends while another mount is at the point, ten times.
#[test]
fn the_end_of_an_old_server_does_not_touch_the_next_mount() {
    const FILES: usize = 40;
    let Some(place) = EndDirectories::new() else { return };
    let mut old: Option<(Child, &str, String)> = None;
    let rounds = 10;
    for round in 0..rounds {
        let source = ["source", "other"][round % 2];
        // While the server of the other source is still writing.
        let server = place.mount(source, &["--stack", "slow.toml"]);
        if let Some((server, source, prefix)) = old.take() {
            let (code, said) = ended(server);
            assert_eq!(code, Some(0), "round {round}: {said}");
            assert_eq!(place.whole(source, &prefix, FILES), FILES, "round {round}: {said}");
            assert!(place.is_mounted(), "round {round}: the new mount is gone");
        }
        let prefix = format!("r{round}-");
        place.fill(&prefix, FILES);
        assert_eq!(place.whole("point", &prefix, FILES), FILES, "round {round}");
        assert!(place.is_mounted(), "round {round}");
        place.plain_umount();
        // Nothing went to the directory under the mount.
        assert_eq!(fs::read_dir(place.path("point")).unwrap().count(), 0, "round {round}");
        old = Some((server, source, prefix));
    }
    let (server, ..) = old.unwrap();
    assert_eq!(ended(server).0, Some(0));
    for round in 0..rounds {
        let source = ["source", "other"][round % 2];
        assert_eq!(place.whole(source, &format!("r{round}-"), FILES), FILES, "round {round}");
    }
}

#[test]
fn a_plain_umount_leaves_a_note_and_the_next_mount_waits() {
    const FILES: usize = 150;
    let Some(place) = EndDirectories::new() else { return };
    let first = place.mount("source", &["--stack", "slow.toml"]);
    place.fill("a", FILES);
    place.plain_umount();
    soon("noted", || {
        !place.notes("source").is_empty() || place.whole("source", "a", FILES) == FILES
    });
    let note = fs::read_to_string(&place.notes("source")[0]).unwrap();
    assert!(note.contains("NOT EVERYTHING IS IN THIS DIRECTORY YET"), "{note}");
    assert!(note.contains("striate stack recover") && note.contains("slow.toml"), "{note}");
    // A command that is not to wait says so.
    let (code, said) = place.run(&["mount", "source", "point", "--timeout", "0"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("not everything is on") && said.contains("still"), "{said}");
    let (code, said) = place.run(&["mount", "--wait", "point", "--timeout", "0"]);
    assert_eq!(code, Some(1), "{said}");
    // Without a limit it waits.
    let second = place.mount("source", &[]);
    assert_eq!(place.whole("source", "a", FILES), FILES);
    assert!(place.notes("source").is_empty());
    assert_eq!(ended(first).0, Some(0));
    let (code, said) = place.run(&["umount", "point"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("is unmounted, and everything is on"), "{said}");
    let (code, said) = ended(second);
    assert_eq!(code, Some(0));
    assert!(said.contains("waiting for it"), "{said}");
}

#[test]
fn mount_wait_returns_when_the_mount_has_ended() {
    const FILES: usize = 100;
    let Some(place) = EndDirectories::new() else { return };
    let server = place.mount("source", &["--stack", "slow.toml"]);
    place.fill("a", FILES);
    let waiting = place.striate(&["mount", "--wait", "point"]).stdout(Stdio::piped()).spawn();
    place.plain_umount();
    assert!(waiting.unwrap().wait_with_output().unwrap().status.success());
    assert_eq!(place.whole("source", "a", FILES), FILES);
    assert_eq!(ended(server).0, Some(0));
    let (code, said) = place.run(&["mount", "--wait", "point"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nothing is being written"), "{said}");
}

#[test]
fn what_a_killed_server_has_left_is_told_until_it_is_recovered() {
    const FILES: usize = 150;
    let Some(place) = EndDirectories::new() else { return };
    let server = place.mount("source", &["--stack", "slow.toml"]);
    place.fill("a", FILES);
    place.plain_umount();
    soon("noted", || !place.notes("source").is_empty());
    kill(&server);
    ended(server);
    assert!(place.whole("source", "a", FILES) < FILES);
    let (code, said) = place.run(&["umount", "point"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("was killed") && said.contains("striate stack recover"), "{said}");
    assert!(said.contains("/source/a"), "no file is named: {said}");
    let second = place.mount("source", &[]);
    place.plain_umount();
    let (code, said) = ended(second);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("was killed") && said.contains("striate stack recover"), "{said}");
    assert!(!place.notes("source").is_empty());

    let (code, said) = place.run(&["stack", "recover", "slow.toml", "source"]);
    assert_eq!((code, place.whole("source", "a", FILES)), (Some(0), FILES), "{said}");
    let third = place.mount("source", &[]);
    assert!(place.notes("source").is_empty());
    place.plain_umount();
    assert_eq!(ended(third).0, Some(0));
    assert_eq!(place.run(&["umount", "point"]).0, Some(2));
}

#[test]
fn umount_tells_what_could_not_be_written() {
    let Some(place) = EndDirectories::new() else { return };
    let stack = "[[stage]]\nkind = 'combine'\nthreads = 1\n\
        [[stage]]\nkind = 'fault'\nkinds = ['write']\nerror = 'ENOSPC'\nnth = 2\n";
    fs::write(place.path("full.toml"), stack).unwrap();
    let server = place.mount("source", &["--stack", "full.toml"]);
    place.fill("a", 3);
    let (code, said) = place.run(&["umount", "point"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("No space left") && said.contains("/source/a1: "), "{said}");
    assert!(!said.contains("/source/a0: "), "{said}");
    assert_eq!(ended(server).0, Some(1));
    assert_eq!(place.notes("source").len(), 1);
    assert_eq!(place.run(&["stack", "recover", "full.toml", "source"]).0, Some(0));
    assert_eq!(place.whole("source", "a", 3), 3);
}

#[test]
fn a_mount_in_use_is_not_unmounted_unless_asked() {
    let Some(place) = EndDirectories::new() else { return };
    let server = place.mount("source", &["--stack", "slow.toml"]);
    place.fill("a", 1);
    let file = fs::File::open(place.path("point/a0")).unwrap();
    let (code, said) = place.run(&["umount", "point"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("mount_end") && said.contains("--lazy"), "{said}");
    assert!(place.is_mounted());
    let lazy = place.striate(&["umount", "--lazy", "point"]).stdout(Stdio::null()).spawn();
    soon("out of sight", || !place.is_mounted());
    drop(file);
    assert!(lazy.unwrap().wait().unwrap().success());
    assert_eq!(place.whole("source", "a", 1), 1);
    assert_eq!(ended(server).0, Some(0));
}

#[test]
fn only_the_owner_unmounts() {
    let Some(place) = EndDirectories::new() else { return };
    let server = place.mount("source", &[]);
    let program = place.path("striate");
    copy_program(env!("CARGO_BIN_EXE_striate"), &program);
    assert!(Command::new("chmod").arg("755").arg(place.0.path()).status().unwrap().success());
    let mut command = Command::new(program);
    command.args(["umount", "point"]).current_dir(place.0.path()).env("NO_COLOR", "1");
    let output = command.uid(65534).gid(65534).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("user 0 has mounted it"), "{said}");
    assert!(place.is_mounted());
    assert_eq!(place.run(&["umount", "point"]).0, Some(0));
    assert_eq!(ended(server).0, Some(0));
}

#[test]
fn a_guarded_directory_is_not_written_to_without_its_mount() {
    let Some(place) = EndDirectories::new() else { return };
    let server = place.mount("source", &["--guard"]);
    fs::write(place.path("point/f"), "through the mount").unwrap();
    kill(&server);
    let said = ended(server).1;
    soon("unmounted", || !place.is_mounted());
    // Root is stopped where directories can be made immutable, which is told if not.
    if said.contains("cannot be made immutable") {
        let writable = fs::metadata(place.path("point")).unwrap().permissions();
        assert!(writable.readonly());
    } else {
        assert!(fs::write(place.path("point/lost"), "x").is_err());
    }
    // It can be mounted again, and is as before at the end.
    let server = place.mount("source", &["--guard"]);
    assert!(place.path("point/f").exists());
    assert_eq!(place.run(&["umount", "point"]).0, Some(0));
    assert_eq!(ended(server).0, Some(0));
    fs::write(place.path("point/free"), "x").unwrap();
    fs::remove_file(place.path("point/free")).unwrap();
    // After a kill, 'striate umount' lifts it.
    let server = place.mount("source", &["--guard"]);
    kill(&server);
    ended(server);
    soon("unmounted", || !place.is_mounted());
    let (code, said) = place.run(&["umount", "point"]);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("no longer guarded") && said.contains("was killed"), "{said}");
    fs::write(place.path("point/free"), "x").map_err(|error| format!("{error}: {said}")).unwrap();
}

#[test]
fn wrong_places_are_told_with_what_to_do() {
    let Some(place) = EndDirectories::new() else { return };
    fs::write(place.path("file"), "").unwrap();
    fs::create_dir_all(place.path("full/below")).unwrap();
    let server = place.mount("source", &[]);
    for (words, told) in [
        (&["missing", "other"][..], &["missing as the source: there is no such", "hint: "][..]),
        (&["file", "other"], &["file as the source: it is not a directory", "hint: "]),
        (&["source", "nowhere"], &["no such directory", "hint: make it: mkdir -p nowhere"]),
        (&["source", "file"], &["it is not a directory", "hint: "]),
        (&["source", "full"], &["it is not empty, below is in it", "hint: "]),
        (&["other", "point"], &["/source already", "hint: 'striate umount "]),
    ] {
        let (code, said) = place.run(&[&["mount"], words].concat());
        assert_eq!(code, Some(1), "{words:?}: {said}");
        assert!(told.iter().all(|told| said.contains(told)), "{words:?}: {said}");
    }
    kill_process(Pid::from_child(&server), Signal::INT).unwrap();
    let (code, said) = ended(server);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("point is unmounted, and everything is on "), "{said}");
}
