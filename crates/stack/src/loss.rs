//! [`Loss`]: bytes that a program has written and that a stage could not write to storage before
//! the process ended.
//!
//! A stage that buffers returns from calls before the data is on storage. If storage fails later,
//! the next call on the file returns the error. If there is no next call, stages list what they
//! could not forward ([`Stage::losses`](crate::Stage::losses)), the stack writes the list to
//! standard error when the process ends, and the door ends the process with [`LOSS_STATUS`].

use std::fmt;
use std::path::PathBuf;

use rustix::io::Errno;

/// The status of a process that would have ended with 0, but has lost something: `EX_IOERR` of
/// `sysexits.h`.
pub const LOSS_STATUS: i32 = 74;

/// Of so many files of a stage each is named.
const NAMED: usize = 10;

/// What a stage could not hand on of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The file.
    pub path: PathBuf,
    /// How many of its bytes.
    pub bytes: u64,
    /// Why.
    pub error: Errno,
    /// Where the bytes are instead, if they are anywhere.
    pub saved_in: Option<PathBuf>,
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, bytes, error, saved_in } = self;
        let bytes = if *bytes == 1 { "1 byte".into() } else { format!("{bytes} bytes") };
        match saved_in {
            None => write!(f, "{}: {bytes} of written data lost: {error}", path.display()),
            Some(saved) => write!(
                f,
                "{}: {bytes} could not be written here: {error}; they are in {}, and `striate stack recover` \
                 tries again",
                path.display(),
                saved.display()
            ),
        }
    }
}

/// What is said of the losses of a stage: a line for each of the first files, and one for all
/// others.
pub(crate) fn describe(stage: &str, losses: &[Loss]) -> String {
    use fmt::Write as _;
    let mut text = String::new();
    for loss in losses.iter().take(NAMED) {
        let _ = writeln!(text, "striate: {stage}: {loss}");
    }
    if let Some(others @ [_, ..]) = losses.get(NAMED..) {
        let bytes: u64 = others.iter().map(|loss| loss.bytes).sum();
        let count = others.len();
        let _ = writeln!(text, "striate: {stage}: and {count} more files with {bytes} bytes");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(bytes: u64) -> Loss {
        Loss { path: "/d/f".into(), bytes, error: Errno::NOSPC, saved_in: None }
    }

    #[test]
    fn files_and_bytes_are_named_up_to_a_number() {
        let text = describe("write-back", &[loss(1)]);
        let expected = "striate: write-back: /d/f: 1 byte of written data lost: No space left";
        assert!(text.starts_with(expected), "{text}");
        let text = describe("combine", &vec![loss(5); NAMED + 3]);
        assert_eq!(text.lines().count(), NAMED + 1);
        assert!(text.ends_with("striate: combine: and 3 more files with 15 bytes\n"), "{text}");
    }

    #[test]
    fn what_is_kept_elsewhere_is_not_called_lost() {
        let kept = Loss { saved_in: Some("/fast/x".into()), ..loss(7) };
        let text = kept.to_string();
        assert!(text.contains("/fast/x") && !text.contains("lost"), "{text}");
    }
}
