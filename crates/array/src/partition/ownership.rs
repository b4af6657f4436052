//! [`Claim`]: whose a partition is. Every deletion of a partition file goes through it.
//!
//! The list of a master proves nothing: a copy of the master lists the same files, and anybody can write a
//! master that lists files of others. So a partition names its master ([`Home`]): relative to its own
//! directory if it lies in or below that of the master, so that the directory can be moved, copied and
//! restored as a whole; absolutely if it lies on a target elsewhere. A master owns a partition that
//!
//! * is a regular file, reached without following a link in its last component, and carries the
//!   dataset's id and the number that the master lists it by, and
//! * names this master; or names one that is gone, while this one is the same file (inode and time of
//!   birth) under another name: plain `mv` does that.
//!
//! If the master that it names is there and lists it, this one is a copy. What proves nothing is kept.

use std::fs;
use std::io;
use std::net::ToSocketAddrs as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, openat, statat, unlinkat};
use rustix::io::Errno;
use striate_comm::alone;
use striate_file::{File, FileError, Hints, Method, MethodChoice};
use striate_store::remote::RemoteUrl;

use super::files::{Ownership, REMOVED};
use super::headers::{Home, PartTies, files_of, part_ties};
use super::names::{UNPUBLISHED, directory_of, file_name, is_url, part_name, resolved};
use super::subfiles;
use crate::ArrayError;
use crate::format::{DecodeError, Header, Problem};
use crate::state::read_header;

/// Bytes of a header that are read first, and at most.
const FIRST_READ: u64 = 64 << 10;
const LONGEST_HEADER: u64 = 1 << 30;

/// A file of which it was found out whose it is: what is deleted is this file, not what has its name by
/// then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Held {
    file: PathBuf,
    /// Device and inode; `None` on servers.
    inode: Option<(u64, u64)>,
}

/// What was found out about a file.
#[derive(Debug)]
pub(super) struct Judgement {
    pub(super) ownership: Ownership,
    /// Whether it lies where the master's partitions may lie.
    pub(super) placed: bool,
    pub(super) held: Option<Held>,
}

/// What is known of a master that lists partitions.
#[derive(Debug)]
pub(super) struct Claim<'a> {
    path: &'a Path,
    /// The name that it goes by, without the endings of a dataset that is not published yet, or is being
    /// removed.
    name: PathBuf,
    id: &'a str,
    unfinished: bool,
    /// Why it is not believed, if it is a journal.
    distrust: Option<String>,
}

impl<'a> Claim<'a> {
    pub(super) fn new(path: &'a Path, id: &'a str, unfinished: bool) -> Self {
        let name = published(path);
        let distrust = (name != path && !is_remote(path))
            .then(|| not_own(path))
            .flatten()
            .map(|why| format!("{} is not to be believed: {why}", path.display()));
        Self { path, name, id, unfinished, distrust }
    }

    /// Whose the file is that the master lists as partition `k`.
    pub(super) fn judge(&self, k: usize, file: &Path) -> Judgement {
        match Found::of(file) {
            Err(problem) => foreign(problem),
            Ok(Found { header: Some(header), held, .. }) => match part_ties(&header) {
                None => foreign("it is no partition".into()),
                Some(ties) if ties.id != self.id => foreign("it is of another dataset".into()),
                Some(ties) if ties.index != k as u64 => {
                    foreign(format!("it is partition {}, not {k}", ties.index))
                }
                Some(ties) => {
                    let below = is_below(file, &self.name);
                    // One that lies elsewhere was put there on purpose if it names its master absolutely.
                    let placed = below || ties.home.as_ref().is_some_and(Home::is_absolute);
                    let ownership = match self.owner(file, &ties, below) {
                        Ownership::Own if !placed => Ownership::Outside,
                        ownership => ownership,
                    };
                    Judgement { ownership, placed, held: Some(held) }
                }
            },
            Ok(Found { header: None, len: 0, held, .. }) => match self.not_begun(k, file, &held) {
                None => Judgement { ownership: Ownership::Own, placed: true, held: Some(held) },
                Some(problem) => foreign(problem),
            },
            Ok(Found { header: None, .. }) => foreign("it is of another dataset".into()),
        }
    }

    /// Whose a partition of the dataset is.
    fn owner(&self, file: &Path, ties: &PartTies, below: bool) -> Ownership {
        let (named, recorded) = match &ties.home {
            Some(home) => (resolved_home(file, &home.master), home.file.as_deref()),
            // Of an earlier version, which knew the name only.
            None if below => (resolved(&self.name, &ties.master), None),
            None => {
                let reason = "it does not say where its master is (an earlier version wrote it)";
                return Ownership::Unproven(reason.into());
            }
        };
        if same_name(&named, self.path) || leads_to(&named, self.path) {
            return Ownership::Own;
        }
        if claims(&named, self.id, file) {
            return Ownership::OfMaster(named);
        }
        if let Some(reason) = &self.distrust {
            return Ownership::Unproven(reason.clone());
        }
        let is_journal = self.name != self.path && same_name(&named, &self.name);
        let is_same_file =
            recorded.is_some_and(|recorded| birth(self.path).as_deref() == Some(recorded));
        if is_journal || is_same_file {
            return Ownership::Own;
        }
        Ownership::Unproven(format!("it names the master {}, which is not there", named.display()))
    }

    /// Why an empty file is not a partition whose writer came no further than to its name.
    fn not_begun(&self, k: usize, file: &Path, held: &Held) -> Option<String> {
        let unproven =
            || Some("it is empty, and nothing proves that it is the dataset's".to_owned());
        if !self.unfinished || self.distrust.is_some() {
            return unproven();
        }
        if file_name(file) != part_name(&self.name, k, self.id) {
            return unproven();
        }
        // On servers the name has to be enough.
        held.inode?;
        let known = |path: &Path| fs::symlink_metadata(path).ok();
        let (Some(part), Some(master)) = (known(file), known(self.path)) else { return unproven() };
        let euid = rustix::process::geteuid().as_raw();
        let born_later = match (part.created(), master.created()) {
            (Ok(part), Ok(master)) => part >= master,
            _ => true,
        };
        let proven = part.uid() == euid && master.uid() == euid && part.nlink() == 1 && born_later;
        if proven { None } else { unproven() }
    }
}

fn foreign(problem: String) -> Judgement {
    Judgement { ownership: Ownership::Foreign(problem), placed: false, held: None }
}

/// Whose the file is that PnetCDF has made as sub-file `k`: it goes by its master's name.
pub(super) fn judge_subfile(k: usize, file: &Path) -> Judgement {
    match Found::of(file) {
        Err(problem) => foreign(problem),
        Ok(Found { header: Some(header), held, .. })
            if subfiles::index_of(&header) == Some(k as u64) =>
        {
            Judgement { ownership: Ownership::Own, placed: true, held: Some(held) }
        }
        Ok(_) => foreign(format!("it is not sub-file {k}")),
    }
}

impl Held {
    /// Deletes the file, if it still is the one that was looked at. Whether it was.
    pub(super) fn delete(&self) -> Result<bool, ArrayError> {
        let Some(inode) = self.inode else {
            File::delete(&self.file)?;
            return Ok(true);
        };
        let (directory, name) = parts_of(&self.file);
        let deleted = || {
            let directory = open_directory(&directory)?;
            let known = match statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => return Ok(false),
                known => known?,
            };
            if (known.st_dev, known.st_ino) != inode || !is_regular(known.st_mode) {
                return Ok(false);
            }
            unlinkat(&directory, &name, AtFlags::empty()).map(|()| true)
        };
        deleted().map_err(|error: Errno| failed("delete", &self.file, &error.into()))
    }
}

/// A file that may be a partition.
struct Found {
    header: Option<Header>,
    len: u64,
    held: Held,
}

impl Found {
    /// Looks at a file without waiting for anybody; the error is what is wrong with it.
    fn of(file: &Path) -> Result<Self, String> {
        if is_remote(file) {
            return Self::on_servers(file);
        }
        let (directory, name) = parts_of(file);
        let absent = |error: Errno| match error {
            Errno::NOENT | Errno::NOTDIR => "it does not exist".to_owned(),
            error => format!("it cannot be read: {}", io::Error::from(error)),
        };
        let directory = open_directory(&directory).map_err(absent)?;
        // Opening a device may do something; so it is asked for first.
        let known = statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(absent)?;
        let kind = FileType::from_raw_mode(known.st_mode);
        if kind != FileType::RegularFile {
            return Err(format!("it is {}, not a file", name_of(kind)));
        }
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = openat(&directory, &name, flags, Mode::empty()).map_err(absent)?;
        let opened = fs::File::from(opened);
        let known = opened.metadata().map_err(|error| format!("it cannot be read: {error}"))?;
        if !known.is_file() {
            return Err("it is not a file".into());
        }
        let header =
            local_header(&opened).map_err(|error| format!("it cannot be read: {error}"))?;
        let held = Held { file: file.into(), inode: Some((known.dev(), known.ino())) };
        Ok(Self { header: header.map(|(header, _)| header), len: known.len(), held })
    }

    fn on_servers(file: &Path) -> Result<Self, String> {
        match File::exists(file) {
            Ok(true) => {}
            Ok(false) => return Err("it does not exist".into()),
            Err(error) => return Err(error.to_string()),
        }
        let hints = Hints { method: MethodChoice::Fixed(Method::Posix), ..Hints::default() };
        let opened = File::open(&alone(), file, striate_file::Mode::READ, &hints);
        let unread = |error: FileError| format!("it cannot be read: {error}");
        let mut opened = opened.map_err(unread)?;
        let len = opened.size().map_err(unread)?;
        let header = read_header(&mut opened, true).ok();
        Ok(Self { header, len, held: Held { file: file.into(), inode: None } })
    }
}

/// What a file of the system is called that is not a regular one.
pub(crate) fn name_of(kind: FileType) -> &'static str {
    match kind {
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "something else",
    }
}

fn is_regular(mode: u32) -> bool {
    FileType::from_raw_mode(mode) == FileType::RegularFile
}

fn open_directory(path: &Path) -> Result<std::os::fd::OwnedFd, Errno> {
    openat(CWD, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// The directory of a local file, and its name there.
fn parts_of(file: &Path) -> (PathBuf, PathBuf) {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let name = file.file_name().map_or_else(|| file.into(), PathBuf::from);
    (parent.unwrap_or(Path::new(".")).into(), name)
}

/// The header of an open file and whether its writer has finished it; `None` if it has none.
fn local_header(file: &fs::File) -> io::Result<Option<(Header, bool)>> {
    let len = file.metadata()?.len();
    let mut wanted = FIRST_READ;
    loop {
        let mut bytes = vec![0; wanted.min(len) as usize];
        let mut got = 0;
        while got < bytes.len() {
            match file.read_at(&mut bytes[got..], got as u64)? {
                0 => break,
                some => got += some,
            }
        }
        bytes.truncate(got);
        let finished = !bytes.starts_with(b"cdf");
        if !finished {
            bytes[..3].copy_from_slice(b"CDF");
        }
        match Header::decode(&bytes) {
            Ok((header, _)) => return Ok(Some((header, finished))),
            Err(DecodeError { problem: Problem::Truncated { needed }, .. })
                if (bytes.len() as u64) < len && needed <= len.min(LONGEST_HEADER) =>
            {
                wanted = needed.max(2 * wanted).min(LONGEST_HEADER);
            }
            Err(_) => return Ok(None),
        }
    }
}

/// Whether the master of that name is there, is of that dataset, and lists the file. What cannot be looked
/// at may well do so.
fn claims(named: &Path, id: &str, file: &Path) -> bool {
    let header = if is_remote(named) {
        match File::exists(named) {
            Ok(false) => return false,
            Err(_) => return true,
            Ok(true) => Found::on_servers(named).ok().and_then(|found| found.header),
        }
    } else {
        let opened = match fs::metadata(named) {
            Ok(known) if known.is_file() => fs::File::options()
                .read(true)
                .custom_flags((OFlags::NONBLOCK | OFlags::CLOEXEC).bits().cast_signed())
                .open(named),
            Ok(_) => return false,
            Err(error) => Err(error),
        };
        match opened.and_then(|opened| local_header(&opened)) {
            Ok(header) => header.map(|(header, _)| header),
            Err(error) => {
                let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
                return !absent.contains(&error.kind());
            }
        }
    };
    let listed = header.as_ref().and_then(files_of);
    listed.is_some_and(|(own, names)| {
        own == id && names.iter().any(|name| same_name(&resolved(named, name), file))
    })
}

/// The name that a dataset goes by, without the endings of its journals.
fn published(path: &Path) -> PathBuf {
    let text = path.as_os_str().to_string_lossy();
    let name = text.strip_suffix(REMOVED).unwrap_or(&text);
    let name = name.strip_suffix(UNPUBLISHED).unwrap_or(name);
    if name.len() == text.len() || file_name(Path::new(name)).is_empty() {
        return path.into();
    }
    name.into()
}

/// Why a local file was not left by a process of this user, if it was not.
pub(super) fn not_own(path: &Path) -> Option<String> {
    match fs::symlink_metadata(path) {
        Err(error) => Some(error.to_string()),
        Ok(known) if !known.is_file() => Some(format!("it is {}", name_of_std(known.file_type()))),
        Ok(known) if known.uid() != rustix::process::geteuid().as_raw() => {
            Some("it belongs to another user".into())
        }
        Ok(_) => None,
    }
}

fn name_of_std(kind: fs::FileType) -> &'static str {
    if kind.is_symlink() {
        "a symbolic link"
    } else if kind.is_dir() {
        "a directory"
    } else if kind.is_fifo() {
        "a FIFO"
    } else {
        "no regular file"
    }
}

/// What a file is known by as long as it is the same, whatever it is called: its inode and when it was
/// born. `None` on servers, and where the file system does not say.
pub(super) fn birth(path: &Path) -> Option<String> {
    if is_remote(path) {
        return None;
    }
    let wanted = StatxFlags::INO | StatxFlags::BTIME;
    let known = rustix::fs::statx(CWD, path, AtFlags::SYMLINK_NOFOLLOW, wanted).ok()?;
    let has = StatxFlags::from_bits_retain(known.stx_mask);
    has.contains(wanted).then(|| {
        let born = known.stx_btime;
        format!("{:016x}-{:016x}-{:08x}", known.stx_ino, born.tv_sec, born.tv_nsec)
    })
}

/// How partition `part` names the master `name`.
pub(super) fn home_of(name: &Path, part: &Path) -> String {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let up = |depth: usize| format!("{}{}", "../".repeat(depth), file_name(name));
    match (url(name), url(part)) {
        (Some(master), Some(part)) if master.address == part.address && master.tls == part.tls => {
            let directory = master.path.rsplit_once('/').map_or("", |(directory, _)| directory);
            let below = if directory.is_empty() {
                Some(part.path.as_str())
            } else {
                part.path.strip_prefix(directory).and_then(|rest| rest.strip_prefix('/'))
            };
            below.map_or_else(|| master.to_string(), |below| up(below.matches('/').count()))
        }
        (Some(master), _) => master.to_string(),
        (None, Some(_)) => text(&absolute(name)),
        (None, None) => {
            let (name, part) = (absolute(name), absolute(part));
            let below = name.parent().and_then(|directory| part.strip_prefix(directory).ok());
            let plain =
                |below: &Path| below.components().all(|one| matches!(one, Component::Normal(_)));
            match below.filter(|below| plain(below)) {
                Some(below) => up(below.components().count().saturating_sub(1)),
                None => text(&name),
            }
        }
    }
}

/// The master that a partition names.
fn resolved_home(part: &Path, home: &str) -> PathBuf {
    if is_url(home) || Path::new(home).is_absolute() {
        return home.into();
    }
    let Ok(directory) = directory_of(part) else { return home.into() };
    let joined = directory.path(home);
    match url(&joined) {
        Some(url) => {
            let mut path: Vec<&str> = Vec::new();
            for one in url.path.split('/') {
                match one {
                    "" | "." => {}
                    ".." => drop(path.pop()),
                    one => path.push(one),
                }
            }
            let path = path.join("/");
            RemoteUrl { path, ..url.clone() }.to_string().into()
        }
        None => joined,
    }
}

fn is_remote(path: &Path) -> bool {
    path.to_str().is_some_and(is_url)
}

fn url(path: &Path) -> Option<RemoteUrl> {
    path.to_str().filter(|text| is_url(text)).and_then(|text| text.parse().ok())
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.into())
}

/// Whether both are the same name in the same directory, however they are written. Links to a file are
/// other names.
fn same_name(one: &Path, other: &Path) -> bool {
    match (url(one), url(other)) {
        (Some(one), Some(other)) => {
            let path = |url: &RemoteUrl| {
                url.path.split('/').filter(|one| !one.is_empty()).collect::<Vec<_>>().join("/")
            };
            path(&one) == path(&other) && same_server(&one.address, &other.address)
        }
        (None, None) => {
            let ((one, a), (other, b)) = (parts_of(one), parts_of(other));
            a == b && (one == other || same_directory(&one, &other))
        }
        _ => false,
    }
}

fn same_directory(one: &Path, other: &Path) -> bool {
    let known = |path: &Path| fs::metadata(path).ok().map(|known| (known.dev(), known.ino()));
    known(one).is_some_and(|known_one| Some(known_one) == known(other))
}

fn same_server(one: &str, other: &str) -> bool {
    let all = |address: &str| address.to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    one == other || all(one).iter().any(|address| all(other).contains(address))
}

/// Whether `named` is a symbolic link that leads to the file `path`, which is none itself.
fn leads_to(named: &Path, path: &Path) -> bool {
    if is_remote(named) || is_remote(path) {
        return false;
    }
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|known| known.is_symlink());
    is_link(named)
        && !is_link(path)
        && fs::canonicalize(named).is_ok_and(|to| fs::canonicalize(path).is_ok_and(|it| it == to))
}

/// Whether a file lies in or below the directory of the master, with all links resolved.
fn is_below(file: &Path, master: &Path) -> bool {
    match (url(file), url(master)) {
        (Some(file), Some(master)) => {
            let directory = master.path.rsplit_once('/').map_or("", |(directory, _)| directory);
            let below = directory.is_empty()
                || file.path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
            below
                && !file.path.split('/').any(|one| one == "..")
                && same_server(&file.address, &master.address)
        }
        (None, None) => {
            let real = |path: &Path| fs::canonicalize(parts_of(path).0).ok();
            match (real(file), real(master)) {
                (Some(file), Some(master)) => file.starts_with(master),
                _ => false,
            }
        }
        _ => false,
    }
}

/// Makes a partition name its master anew; one that has no room for that in its header stays as it is.
pub(super) fn rehome(file: &Path, home: &Home) -> Result<(), ArrayError> {
    let hints = Hints { method: MethodChoice::Fixed(Method::Posix), ..Hints::default() };
    let mode = striate_file::Mode::READ | striate_file::Mode::WRITE;
    let mut opened = File::open(&alone(), file, mode, &hints)?;
    let header = read_header(&mut opened, true)?;
    let mut after = header.clone();
    home.write_to(&mut after.attributes);
    let room = header.variables.iter().map(|variable| variable.begin).min();
    let before = header.encode();
    let mut there = vec![0; before.len()];
    let read = opened.read_at(0, &mut there[..])? as usize;
    // The first bytes say whether it is finished, the next how many records there are.
    let same = read == there.len() && there.get(12..) == before.get(12..);
    if same && room.is_none_or(|room| after.encoded_len() <= room) {
        let bytes = after.encode();
        let differs = |(at, byte): (usize, &u8)| before.get(at) != Some(byte);
        let begin = bytes.iter().enumerate().position(differs);
        if let Some(begin) = begin {
            opened.write_at(begin as u64, &bytes[begin..])?;
            opened.sync()?;
        }
    }
    Ok(opened.close()?)
}

fn failed(call: &'static str, path: &Path, error: &io::Error) -> ArrayError {
    FileError::Argument { call, reason: format!("{}: {error}", path.display()) }.into()
}
