//! The processes of a lab, as the kernel lists them.

use std::fs;
use std::path::PathBuf;

use rustix::process::{Pid, Signal, kill_process};

/// A process of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeProcess {
    /// Its id, as its owner sees it.
    pub pid: u32,
    /// Its name, as far as the kernel keeps it.
    pub name: String,
}

/// The fields of `/proc/PID/stat` after the name.
fn stat(pid: u32) -> Option<(String, Vec<String>)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may contain anything.
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    Some((name, after.split_whitespace().map(str::to_owned).collect()))
}

/// When a process started, in clock ticks since the boot: with its id this identifies it. `None` if
/// it has ended.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let (_, fields) = stat(pid)?;
    (fields.first()? != "Z").then(|| fields.get(19)?.parse().ok())?
}

/// The process that started this one, or that has adopted it.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat(pid)?.1.get(1)?.parse().ok()
}

/// A namespace of a process, as a name.
fn namespace(pid: u32, kind: &str) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/ns/{kind}")).ok()
}

/// The processes in the network namespace of this one, without itself. Those that have ended and
/// were not waited for have none.
pub(crate) fn beside(pid: u32) -> Vec<NodeProcess> {
    let Some(network) = namespace(pid, "net") else { return Vec::new() };
    let pids = fs::read_dir("/proc").into_iter().flatten().filter_map(|entry| {
        let name = entry.ok()?.file_name();
        name.to_str()?.parse::<u32>().ok()
    });
    let others =
        pids.filter(|other| *other != pid && namespace(*other, "net") == Some(network.clone()));
    others.filter_map(|pid| Some(NodeProcess { pid, name: stat(pid)?.0 })).collect()
}

/// Kills a process.
pub(crate) fn kill(pid: u32) {
    if let Some(pid) = Pid::from_raw(pid as i32) {
        let _ = kill_process(pid, Signal::KILL);
    }
}
