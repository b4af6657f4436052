//! The journal: the destinations of files on fast storage, which survive the process.
//!
//! Beneath each fast place there is a directory `.striate-moves`. A file there is identified by the
//! device and the inode of its placeholder at the destination: its bytes are in `2049-1234.data`, a
//! process that uses it has a lock on `2049-1234.lock` ([`Claim`](super::claim::Claim)), and its
//! destination is in `2049-1234.journal`:
//!
//! ```text
//! striate-move 2
//! state open                       (closed; copying: what stands at the destination is being filled; or
//!                                   naming: a whole copy is being renamed over it)
//! inode 2049 1234                  (what stands there)
//! was 0 1700000000 5 33188 0 0     (its size, time of change, mode and owner when this was written)
//! destination /slow/results/a%0Ab  (bytes that are not printable, and %, as %XX)
//! maybe /slow/results/new          (a rename is under way)
//! end 5f3a1b2c                     (CRC-32C of all above)
//! ```
//!
//! Bytes without a journal are those of a file that was removed while it was open. An existing file
//! is copied to `2049-1234.fetched` first: only when that copy is complete and durable, and the
//! journal is written, it becomes `2049-1234.data`. Until then the file is the one at its
//! destination.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read, Write as _};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{OFlags, Stat};
use striate_process::lock::lock;
use striate_process::reopen::Identity;
use striate_stack::descriptors::high;

use super::claim::Base;
use crate::trust;

const FIRST_LINE: &str = "striate-move 2";

/// What has become of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoveState {
    /// It is open.
    Open,
    /// It was closed.
    Closed,
    /// What stands at the destination is being filled.
    Copying,
    /// A whole copy gets its name. If it does not exist under its hidden name, it has been renamed.
    Naming,
}

impl MoveState {
    const ALL: [(Self, &str); 4] = [
        (Self::Open, "open"),
        (Self::Closed, "closed"),
        (Self::Copying, "copying"),
        (Self::Naming, "naming"),
    ];

    fn text(self) -> &'static str {
        Self::ALL.iter().find(|(course, _)| *course == self).map_or("", |(_, text)| text)
    }

    fn of(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, other)| *other == text).map(|(course, _)| *course)
    }
}

/// What stood at the destination when a file went to the fast place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FormerDestination {
    size: u64,
    changed: (i64, i64),
    /// Permissions, user and group.
    rights: (u32, u32, u32),
}

impl FormerDestination {
    /// The current file.
    pub(crate) fn new(stat: &Stat) -> Self {
        let changed = (stat.st_mtime, stat.st_mtime_nsec as i64);
        Self { size: stat.st_size as u64, changed, rights: rights(stat) }
    }

    /// Whether it was written to since. Of what is still empty the time does not matter.
    pub(crate) fn was_written(&self, now: &Stat) -> bool {
        let now = Self::new(now);
        now.size != self.size || self.size > 0 && now.changed != self.changed
    }

    /// Whether it is as it was.
    pub(crate) fn is_same(&self, now: &Stat) -> bool {
        let now = Self::new(now);
        (now.size, now.changed) == (self.size, self.changed)
    }

    /// Whether a file has the same owner as before.
    pub(crate) fn has_owner_of(&self, file: &std::fs::Metadata) -> bool {
        (self.rights.1, self.rights.2) == (file.uid(), file.gid())
    }

    /// Whose it was.
    pub(crate) fn owner(&self) -> u32 {
        self.rights.1
    }

    /// Whether its permissions or its owner were changed since.
    pub(crate) fn was_given(&self, now: &Stat) -> bool {
        rights(now) != self.rights
    }
}

fn rights(stat: &Stat) -> (u32, u32, u32) {
    (stat.st_mode, stat.st_uid, stat.st_gid)
}

/// Where a file belongs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Journal {
    pub(crate) course: MoveState,
    /// What stands at the destination meanwhile.
    pub(crate) placeholder: Identity,
    pub(crate) was: FormerDestination,
    pub(crate) destination: PathBuf,
    /// The destination after a rename that is under way.
    pub(crate) maybe: Option<PathBuf>,
}

impl Journal {
    /// As text.
    pub(crate) fn to_text(&self) -> String {
        let (device, inode) = self.placeholder;
        let FormerDestination { size, changed: (seconds, more), rights: (mode, user, group) } =
            self.was;
        let mut text = format!(
            "{FIRST_LINE}\nstate {}\ninode {device} {inode}\n\
             was {size} {seconds} {more} {mode} {user} {group}\ndestination {}\n",
            self.course.text(),
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
        let mut line = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let course = MoveState::of(line("state")?)?;
        let (device, inode) = line("inode")?.split_once(' ')?;
        let placeholder = (device.parse().ok()?, inode.parse().ok()?);
        let numbers: Vec<i64> =
            line("was")?.split(' ').map(str::parse).collect::<Result<_, _>>().ok()?;
        let [size, seconds, more, mode, user, group] = numbers.try_into().ok()?;
        let was = FormerDestination {
            size: size as u64,
            changed: (seconds, more),
            rights: (mode as u32, user as u32, group as u32),
        };
        let destination = unescape(line("destination")?)?;
        let maybe = match lines.next() {
            Some(line) => Some(unescape(line.strip_prefix("maybe ")?)?),
            None => None,
        };
        Some(Self { course, placeholder, was, destination, maybe })
    }

    /// Reads that of a file; `None` if it has none.
    pub(crate) fn read(base: &Base) -> io::Result<Option<Self>> {
        let mut file = match trust::open_file(&base.journal(), OFlags::RDONLY) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Self::parse(&text).map(Some).ok_or_else(|| io::Error::other("the journal is damaged"))
    }

    /// Writes it, so that there is always a whole one.
    pub(crate) fn write(&self, base: &Base) -> io::Result<()> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (process, number) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let new = base.journal().with_extension(format!("{process}-{number}.new"));
        let file = File::options().write(true).create_new(true).mode(0o600).open(&new)?;
        File::from(high(file.into())).write_all(self.to_text().as_bytes())?;
        std::fs::rename(&new, base.journal())
    }

    /// Makes that of a file durable, if it has one.
    pub(crate) fn sync(base: &Base) -> io::Result<()> {
        match trust::open_file(&base.journal(), OFlags::RDONLY) {
            Ok(file) => file.sync_all()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
        }
        base.sync_names().map_err(Into::into)
    }

    /// What stands at the destination is still there: no copy has got its name.
    pub(crate) fn unname(&mut self) {
        if self.course == MoveState::Naming {
            self.course = MoveState::Closed;
        }
    }

    /// Changes that of a file, if it has one.
    pub(crate) fn change(base: &Base, change: impl FnOnce(&mut Self)) -> io::Result<()> {
        // A thread that moves a file and one that closes or renames it must not undo each other's
        // words.
        static CHANGING: Mutex<()> = Mutex::new(());
        let _changing = lock(&CHANGING);
        if let Some(before) = Self::read(base)? {
            let mut journal = before.clone();
            change(&mut journal);
            if journal != before {
                journal.write(base)?;
            }
        }
        Ok(())
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

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

    use super::*;

    #[test]
    fn a_journal_is_read_as_it_was_written_or_not_at_all() {
        let strange = PathBuf::from(OsStr::from_bytes(b"/slow/a%b\nc\xff/end 1"));
        let was =
            FormerDestination { size: 1 << 40, changed: (-1, 5), rights: (0o100_644, u32::MAX, 7) };
        let journal = Journal {
            course: MoveState::Copying,
            placeholder: (7, 1 << 60),
            was,
            destination: strange.clone(),
            maybe: Some("/slow/end ".into()),
        };
        let text = journal.to_text();
        assert_eq!(Journal::parse(&text), Some(journal.clone()));
        let short = Journal { maybe: None, course: MoveState::Closed, ..journal };
        assert_eq!(Journal::parse(&short.to_text()), Some(short.clone()));
        let mut named = Journal { course: MoveState::Naming, ..short.clone() };
        assert_eq!(Journal::parse(&named.to_text()), Some(named.clone()));
        named.unname();
        assert_eq!(named, short);
        for length in 0..text.len() {
            assert_eq!(Journal::parse(&text[..length]), None);
        }
        assert_eq!(Journal::parse(&text.replace("slow", "fast")), None);
        assert_eq!(unescape(&escape(&strange)), Some(strange));
    }
}
