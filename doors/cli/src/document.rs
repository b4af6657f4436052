//! The one JSON document that a command prints with `--json`, and the machine it was made on.
//!
//! The names of the fields are stable; new ones may be added. What a row holds is up to the
//! command.

use std::fs;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};

use serde::Serialize;
use striate_statistics::Ratio;

use crate::{CommandError, terminal};

/// The envelope of all machine-readable results.
#[derive(Debug, Serialize)]
pub(crate) struct Document<Row: Serialize> {
    /// Version of the program.
    striate: &'static str,
    /// The command line.
    command: Vec<String>,
    machine: Machine,
    rows: Vec<Row>,
    ratios: Vec<Ratio>,
}

impl<Row: Serialize> Document<Row> {
    /// A document about this run of the program.
    pub(crate) fn new(rows: Vec<Row>, ratios: Vec<Ratio>) -> Self {
        Self {
            striate: env!("CARGO_PKG_VERSION"),
            command: std::env::args_os()
                .map(|argument| argument.to_string_lossy().into_owned())
                .collect(),
            machine: Machine::this(),
            rows,
            ratios,
        }
    }

    /// Prints it.
    pub(crate) fn print(&self) -> Result<(), CommandError> {
        terminal::print(&self.text()?)
    }

    /// Writes it on standard output as it is made, on one line: for rows that are larger than
    /// memory.
    pub(crate) fn write_to_stdout(&self) -> Result<(), CommandError> {
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        let written = serde_json::to_writer(&mut out, self).map_err(io::Error::from);
        match written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush()) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(CommandError::Write { path: "standard output".into(), source: error })
            }
            // A reader that went away needs no more.
            _ => Ok(()),
        }
    }

    /// The document as text.
    pub(crate) fn text(&self) -> Result<String, CommandError> {
        let mut text = serde_json::to_string_pretty(self)
            .map_err(|error| CommandError::failed("cannot write the JSON document", error, ""))?;
        text.push('\n');
        Ok(text)
    }
}

/// What results depend on besides the program. Unknown things are absent.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Processors this process may use.
    cores: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    cpu: Option<String>,
    /// Bytes of memory.
    memory: u64,
    kernel: String,
    /// Type of the file system of the current directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    filesystem: Option<String>,
}

impl Machine {
    /// The machine this runs on.
    pub(crate) fn this() -> Self {
        let name = rustix::system::uname();
        let kernel =
            format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy());
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            cpu: fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(cpu_model),
            memory: total_memory(),
            kernel,
            filesystem: filesystem(Path::new(".")),
        }
    }
}

/// Bytes of memory that can be used without swapping; all there is if the system does not say.
pub(crate) fn available_memory() -> u64 {
    let info = fs::read_to_string("/proc/meminfo").ok();
    info.as_deref().and_then(mem_available).unwrap_or_else(total_memory)
}

fn total_memory() -> u64 {
    let info = rustix::system::sysinfo();
    #[expect(clippy::useless_conversion, reason = "totalram is 32 bits wide on some machines")]
    u64::from(info.totalram).saturating_mul(u64::from(info.mem_unit))
}

fn mem_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

fn cpu_model(cpuinfo: &str) -> Option<String> {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// Type of the file system that `directory` is on, if the system reports it.
pub(crate) fn filesystem(directory: &Path) -> Option<String> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    filesystem_of(&directory.canonicalize().ok()?, &mounts)
}

/// The type of the mount that holds `directory`: the deepest one, and the last of several on top of
/// each other. Fields as in `proc_pid_mountinfo(5)`.
fn filesystem_of(directory: &Path, mountinfo: &str) -> Option<String> {
    let mut deepest: Option<(usize, &str)> = None;
    for line in mountinfo.lines() {
        let Some((mount, source)) = line.split_once(" - ") else { continue };
        let Some(point) = mount.split(' ').nth(4) else { continue };
        let Some(kind) = source.split(' ').next() else { continue };
        let point = PathBuf::from(point.replace("\\040", " "));
        let depth = point.components().count();
        if directory.starts_with(&point) && deepest.is_none_or(|(most, _)| depth >= most) {
            deepest = Some((depth, kind));
        }
    }
    deepest.map(|(_, kind)| kind.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_counts() {
        let mounts = "\
            20 1 8:1 / / rw - ext4 /dev/sda1 rw\n\
            21 20 0:5 / /data rw,nosuid shared:2 - overlay none rw\n\
            22 21 0:6 / /data/fast\\040disk rw - xfs /dev/nvme0 rw\n\
            nonsense\n";
        for (directory, kind) in [
            ("/", "ext4"),
            ("/database", "ext4"),
            ("/data/a/b", "overlay"),
            ("/data/fast disk/a", "xfs"),
        ] {
            assert_eq!(filesystem_of(Path::new(directory), mounts).as_deref(), Some(kind));
        }
        assert_eq!(filesystem_of(Path::new("/a"), ""), None);
    }

    #[test]
    fn available_memory_is_in_bytes() {
        let info = "MemTotal:  100 kB\nMemAvailable:      64 kB\n";
        assert_eq!(mem_available(info), Some(65_536));
        assert_eq!(mem_available("MemTotal: 100 kB"), None);
    }

    #[test]
    fn this_machine_has_memory_and_a_kernel() {
        let machine = Machine::this();
        assert!(machine.cores > 0 && machine.memory > 0);
        assert!(machine.kernel.starts_with("Linux "), "{}", machine.kernel);
    }
}
