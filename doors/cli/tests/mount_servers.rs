//! `striate mount` of I/O servers that are processes of their own, some of which are killed.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "modules of tests are shared")]

#[path = "servers/cluster.rs"]
mod cluster;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use cluster::{ChildProcess, Cluster, answer, complaint, striate, until};
use rustix::io::Errno;
use rustix::process::Signal;
use tempfile::TempDir;

/// What programs are told of servers that do not answer.
const EIO: i32 = Errno::IO.raw_os_error();

/// A mount that is gone when the test is over, whichever way it ends.
struct Mount {
    process: Option<ChildProcess>,
    place: TempDir,
}

impl Mount {
    fn new(url: &str, more: &[&str]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let point = place.path().join("point");
        fs::create_dir(&point).unwrap();
        let mut command = striate(&["mount", url, point.to_str().unwrap()]);
        command.args(more).env("STRIATE_PATIENCE", "2s");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        if !line.contains("shows striate://") {
            let output = child.wait_with_output().unwrap();
            panic!("{line}{}", String::from_utf8_lossy(&output.stderr));
        }
        Self { process: Some(ChildProcess(child)), place }
    }

    fn point(&self, name: &str) -> PathBuf {
        self.place.path().join("point").join(name)
    }

    fn is_mounted(&self) -> bool {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let point = self.place.path().join("point");
        mounts.lines().any(|line| line.split(' ').nth(1) == point.to_str())
    }

    fn end(&mut self, signal: Signal) -> Option<i32> {
        let mut process = self.process.take().unwrap();
        process.signal(signal);
        process.ended().code()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(self.process.take());
        if self.is_mounted() {
            let _ = Command::new("umount").arg("-l").arg(self.point("")).status();
        }
    }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn files_of_servers_are_mounted_and_outlive_the_mount() {
    if !is_root() {
        eprintln!(
            "skipped: only the superuser can mount without fusermount3 and /dev/fuse for all"
        );
        return;
    }
    let cluster = Cluster::start(2);
    let mut mount = Mount::new(&format!("{}/run7", cluster.url), &[]);
    fs::create_dir(mount.point("d")).unwrap();
    fs::write(mount.point("d/f"), vec![7; 200_000]).unwrap();
    let listed = answer(&["fs", "ls", "-R", &format!("{}/run7", cluster.url)]);
    assert_eq!(listed, "d/f\n");
    assert_eq!(mount.end(Signal::TERM), Some(0));
    assert!(!mount.is_mounted());
    // A mount whose process is killed is taken away, and another can be made.
    let mut mount = Mount::new(&cluster.url, &["--threads", "2"]);
    let file = File::open(mount.point("run7/d/f")).unwrap();
    assert_eq!(mount.end(Signal::KILL), None);
    until("the end of the mount", || !mount.is_mounted());
    assert!(file.read_at(&mut [0; 1], 0).is_err());
    let mut mount = Mount::new(&cluster.url, &[]);
    assert!(fs::read(mount.point("run7/d/f")).unwrap() == vec![7; 200_000]);
    assert_eq!(mount.end(Signal::INT), Some(0));
}

#[test]
fn killed_and_silent_servers_are_errors() {
    if !is_root() {
        eprintln!(
            "skipped: only the superuser can mount without fusermount3 and /dev/fuse for all"
        );
        return;
    }
    let mut cluster = Cluster::start(2);
    let mut mount = Mount::new(&cluster.url, &[]);
    let file =
        File::options().read(true).write(true).create_new(true).open(mount.point("f")).unwrap();
    file.write_all_at(&vec![1; 1 << 20], 0).unwrap();
    let killed = |signal: Signal, cluster: &mut Cluster| {
        cluster.holders[1].as_ref().unwrap().process.signal(signal);
        if signal == Signal::KILL {
            drop(cluster.holders[1].take());
        }
    };
    let error = |result: std::io::Result<usize>| result.unwrap_err().raw_os_error();
    let mut bytes = vec![0; 1 << 20];
    // One that does not answer, and then does.
    killed(Signal::STOP, &mut cluster);
    assert_eq!(error(file.read_at(&mut bytes, 0)), Some(EIO));
    assert_eq!(error(file.write_at(&bytes, 0)), Some(EIO));
    killed(Signal::CONT, &mut cluster);
    file.write_all_at(&vec![2; 1 << 20], 0).unwrap();
    // One that is gone, and comes back.
    killed(Signal::KILL, &mut cluster);
    assert_eq!(error(file.read_at(&mut bytes, 0)), Some(EIO));
    assert_eq!(fs::metadata(mount.point("f")).unwrap_err().raw_os_error(), Some(EIO));
    cluster.restart();
    assert_eq!(file.read_at(&mut bytes, 0).unwrap(), 1 << 20);
    assert!(bytes.iter().all(|byte| *byte == 2));
    // All are gone: the mount can be taken away all the same.
    drop(cluster);
    assert_eq!(error(file.read_at(&mut bytes, 0)), Some(EIO));
    let ended = mount.end(Signal::TERM);
    assert!(matches!(ended, Some(0 | 1)), "{ended:?}");
    assert!(!mount.is_mounted());
}

#[test]
fn what_is_not_for_servers_is_told() {
    let cluster = Cluster::start(1);
    let place = tempfile::tempdir().unwrap();
    let point = place.path().to_str().unwrap();
    let told = complaint(&["mount", &cluster.url, point, "--stack", "x.toml"], 2);
    assert!(told.contains("--stack is for a directory") && told.contains("second time"), "{told}");
    let told = complaint(&["mount", "striate://h:x/a", point], 2);
    assert!(told.contains("'x' is not a port"), "{told}");
    let told = complaint(&["mount", "striate://127.0.0.1:1/a", point], 1);
    assert!(told.contains("127.0.0.1:1"), "{told}");
    fs::write(place.path().join("in the way"), "").unwrap();
    let told = complaint(&["mount", &cluster.url, point], 1);
    assert!(told.contains("not empty"), "{told}");
}
