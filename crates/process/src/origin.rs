//! [`Origin`]: the process that counted or recorded something.

use std::cell::RefCell;
use std::path::PathBuf;

/// The variable that names the directory of a run: where stages write their counters and traces.
pub const RUN_DIRECTORY: &str = "STRIATE_RUN_DIR";

/// Variables in which MPI launchers pass a process its rank.
const RANKS: [&str; 5] =
    ["OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK", "MV2_COMM_WORLD_RANK", "PALS_RANKID"];

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// Its number.
    pub process: u32,
    /// That of its parent.
    pub parent: u32,
    /// Its rank, if it is one of an MPI job.
    pub rank: Option<u32>,
    /// The host it ran on.
    pub host: String,
    /// Its command line, perhaps cut.
    pub command: Vec<String>,
}

impl Origin {
    /// This process. Its rank, if it has one, has to be said.
    pub fn this(rank: Option<u32>) -> Self {
        let command = std::fs::read("/proc/self/cmdline").unwrap_or_default();
        Self {
            process: std::process::id(),
            parent: std::os::unix::process::parent_id(),
            rank,
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            command: arguments(&command),
        }
    }
}

thread_local! {
    /// Whose stages are being built by this thread, if not this process's.
    static ACTED: RefCell<Option<Origin>> = const { RefCell::new(None) };
}

/// Builds stages for a process that this one replays: their counts and records are attributed to
/// that process. A replay has a stack for each recorded process.
pub fn building_for<T>(origin: &Origin, build: impl FnOnce() -> T) -> T {
    let before = ACTED.replace(Some(origin.clone()));
    let built = build();
    ACTED.set(before);
    built
}

/// The process that stages are being built for, if it is another one.
pub fn acted() -> Option<Origin> {
    ACTED.with_borrow(Clone::clone)
}

/// Arguments with a zero after each.
pub fn arguments(bytes: &[u8]) -> Vec<String> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned()).collect()
}

/// The rank that a launcher gave this process. To be asked while the process starts: later the
/// program may be changing its environment.
pub fn rank() -> Option<u32> {
    RANKS.iter().find_map(|name| std::env::var(name).ok()?.parse().ok())
}

/// The directory of the run, if there is one. To be asked while the process starts, too.
pub fn run_directory() -> Option<PathBuf> {
    std::env::var_os(RUN_DIRECTORY).filter(|path| !path.is_empty()).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_lines_are_taken_apart() {
        assert_eq!(arguments(b"cp\0-r\0\0"), ["cp", "-r", ""]);
        assert_eq!(arguments(b"cut\0off"), ["cut", "off"]);
        assert_eq!(arguments(b""), [""; 0]);
        let this = Origin::this(Some(3));
        assert_eq!((this.process, this.rank), (std::process::id(), Some(3)));
        assert!(!this.command.is_empty() && !this.host.is_empty());
    }

    #[test]
    fn stages_can_be_built_for_another_process() {
        let other = Origin { process: 7, parent: 1, ..Origin::default() };
        assert_eq!(building_for(&other, acted), Some(other));
        assert_eq!(acted(), None);
    }
}
