//! Where files are that are not at their destination: what survives the process.
//!
//! Beneath each fast place there is a directory `.striate-moves`. Each process has a file `….session` there, which
//! it has locked as long as it lives; each file that is on its way has its bytes in `….data` and where they
//! belong in `….journal`:
//!
//! ```text
//! striate-move 1
//! state open                       (or closed)
//! inode 2049 1234                  (what stands at the destination meanwhile)
//! destination /slow/results/a%0Ab  (bytes that are not printable, and %, as %XX)
//! maybe /slow/results/new          (a rename is under way)
//! end 5f3a1b2c                     (CRC-32C of all above)
//! ```

use std::ffi::OsStr;
use std::fmt::Write;
use std::fs::File;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::FlockOperation;

use crate::place::{Identity, high};

/// The directory beneath a fast place.
pub(crate) const MOVES: &str = ".striate-moves";
/// How the files there end.
pub(crate) const SESSION: &str = "session";
pub(crate) const JOURNAL: &str = "journal";
pub(crate) const DATA: &str = "data";

const FIRST_LINE: &str = "striate-move 1";

/// Where a file belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    /// Whether the program has closed it.
    pub(crate) closed: bool,
    /// What stands at the destination meanwhile.
    pub(crate) placeholder: Identity,
    pub(crate) destination: PathBuf,
    /// The destination after a rename that is under way.
    pub(crate) maybe: Option<PathBuf>,
}

impl Journal {
    /// As text.
    pub(crate) fn to_text(&self) -> String {
        let state = if self.closed { "closed" } else { "open" };
        let (device, inode) = self.placeholder;
        let mut text = format!(
            "{FIRST_LINE}\nstate {state}\ninode {device} {inode}\ndestination {}\n",
            escape(&self.destination)
        );
        if let Some(maybe) = &self.maybe {
            let _ = writeln!(text, "maybe {}", escape(maybe));
        }
        let checksum = checksum(&text);
        let _ = writeln!(text, "end {checksum:08x}");
        text
    }

    /// Reads a text; `None` if it is not whole.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (body, end) = text.rsplit_once("end ")?;
        if u32::from_str_radix(end.strip_suffix('\n')?, 16).ok()? != checksum(body) {
            return None;
        }
        let mut lines = body.lines();
        if lines.next()? != FIRST_LINE {
            return None;
        }
        let closed = lines.next()?.strip_prefix("state ")? == "closed";
        let (device, inode) = lines.next()?.strip_prefix("inode ")?.split_once(' ')?;
        let placeholder = (device.parse().ok()?, inode.parse().ok()?);
        let destination = unescape(lines.next()?.strip_prefix("destination ")?)?;
        let maybe = match lines.next() {
            Some(line) => Some(unescape(line.strip_prefix("maybe ")?)?),
            None => None,
        };
        Some(Self { closed, placeholder, destination, maybe })
    }

    /// Writes it, so that there is always a whole one.
    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let new = path.with_extension("new");
        std::fs::write(&new, self.to_text())?;
        std::fs::rename(&new, path)
    }
}

fn checksum(text: &str) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, text.as_bytes()) as u32
}

fn escape(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        match byte {
            b'%' | 0..0x20 | 0x7f.. => {
                let _ = write!(text, "%{byte:02X}");
            }
            _ => text.push(char::from(*byte)),
        }
    }
    text
}

fn unescape(text: &str) -> Option<PathBuf> {
    let mut bytes = Vec::new();
    let mut left = text.as_bytes();
    while let Some((first, rest)) = left.split_first() {
        left = rest;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let digits = std::str::from_utf8(left.get(..2)?).ok()?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        left = &left[2..];
    }
    Some(PathBuf::from(std::ffi::OsString::from_vec(bytes)))
}

/// The process in a directory of moves.
#[derive(Debug)]
pub(crate) struct Session {
    directory: PathBuf,
    name: String,
    /// Locked while it is open.
    _lock: std::os::fd::OwnedFd,
    count: u64,
}

impl Session {
    /// Begins one beneath a fast place, which is made if it is not there.
    pub(crate) fn begin(place: &Path) -> io::Result<Self> {
        let directory = place.join(MOVES);
        std::fs::create_dir_all(&directory)?;
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy().replace('/', "_");
        let process = rustix::process::getpid().as_raw_nonzero();
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
        let name = format!("{host}-{process}-{}{:09}", now.tv_sec, now.tv_nsec);
        let path = directory.join(&name).with_extension_added(SESSION);
        let file = File::options().write(true).create_new(true).open(path)?;
        let lock = high(file.into());
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self { directory, name, _lock: lock, count: 0 })
    }

    /// The names of a new file and of its journal.
    pub(crate) fn next(&mut self) -> (PathBuf, PathBuf) {
        self.count += 1;
        let base = self.directory.join(format!("{}-{}", self.name, self.count));
        (base.with_extension_added(DATA), base.with_extension_added(JOURNAL))
    }

    /// Ends it: nothing is on its way any more.
    pub(crate) fn end(self) {
        let _ = std::fs::remove_file(self.directory.join(&self.name).with_extension_added(SESSION));
        // Only if no other process is there.
        let _ = std::fs::remove_dir(&self.directory);
    }
}

/// A path with something added to its name. (A host may have dots in it.)
pub(crate) trait Extended {
    fn with_extension_added(&self, extension: &str) -> PathBuf;
}

impl Extended for PathBuf {
    fn with_extension_added(&self, extension: &str) -> PathBuf {
        let mut name = self.clone().into_os_string();
        name.push(OsStr::new("."));
        name.push(extension);
        name.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_journal_is_read_as_it_was_written_or_not_at_all() {
        let strange = PathBuf::from(OsStr::from_bytes(b"/slow/a%b\nc\xff/end 1"));
        let journal = Journal {
            closed: true,
            placeholder: (7, 1 << 60),
            destination: strange.clone(),
            maybe: Some("/slow/end ".into()),
        };
        let text = journal.to_text();
        assert_eq!(Journal::parse(&text), Some(journal.clone()));
        let short = Journal { maybe: None, closed: false, ..journal };
        assert_eq!(Journal::parse(&short.to_text()), Some(short));
        for length in 0..text.len() {
            assert_eq!(Journal::parse(&text[..length]), None);
        }
        assert_eq!(Journal::parse(&text.replace("slow", "fast")), None);
        assert_eq!(unescape(&escape(&strange)), Some(strange));
    }
}
