//! A file system of one MiB for tests of full disks.
//!
//! It is a tmpfs in a mount namespace of its own, so the test runs in a process that `unshare`
//! starts: this program again, with an environment variable that gives the directory of the file
//! system.

use std::path::PathBuf;
use std::process::Command;

const DISK: &str = "STRIATE_TEST_DISK";

/// The directory of the file system, in the process that has it. Otherwise starts that process with
/// the test of that name, and returns `None` after it has passed.
pub(crate) fn small_disk(test: &str) -> Option<PathBuf> {
    if let Some(disk) = std::env::var_os(DISK) {
        return Some(disk.into());
    }
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().to_str().unwrap();
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs '{disk}' && exec '{}' --exact {test}",
        program.display()
    );
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", &script])
        .env(DISK, disk)
        .output()
        .unwrap();
    let output_text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && output_text.contains("1 passed"),
        "{output_text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    None
}
