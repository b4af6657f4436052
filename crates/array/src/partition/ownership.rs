//! [`OwnershipClaim`]: whether a partition file belongs to a master. Every deletion of a partition
//! goes through it.
//!
//! The list in a master proves nothing: a copy of the master lists the same files, and any user can
//! write a master that lists files of others. So a partition refers to its master
//! ([`MasterReference`]): relative to its own directory if it is in or below that of the master, so
//! that the directory can be moved, copied and restored as a whole; absolute if it is on a target
//! elsewhere. A master owns a partition that
//!
//! * is a regular file, reached without following a link in its last component, and has the
//!   dataset's id and the number under which the master lists it, and
//! * refers to this master; or refers to one that does not exist, while this one is the same file
//!   (inode and birth time) under another name, as after a plain `mv`.
//!
//! If the master that it refers to exists and lists it, this one is a copy. A file without proof is
//! not deleted.

use std::fmt;
use std::fs;
use std::io;
use std::net::ToSocketAddrs as _;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, StatxFlags, openat, statat, unlinkat};
use rustix::io::Errno;
use striate_comm::alone;
use striate_file::{File, FileError};
use striate_hdf5::SIGNATURE;
use striate_store::remote::RemoteUrl;

use super::dataset_files::{Ownership, REMOVED, contiguous_hints};
use super::file_names::{
    UNPUBLISHED, absolute, directory_of, file_name, is_remote, is_url, part_name, resolved,
};
use super::headers::{MasterReference, PartitionIdentity, files_of, partition_identity};
use super::subfiles;
use crate::ArrayError;
use crate::format::Header;
use crate::header_reading::{
    FileDefinitions, UnfinishedFile, read_definitions, read_growing, read_header,
};
use crate::netcdf4::{header_of_local_file, replace_attributes};

/// A file that was inspected: [`VerifiedFile::delete`] deletes this file, and not another one that
/// has got its name since.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VerifiedFile {
    file: PathBuf,
    /// Device and inode; `None` on servers.
    inode: Option<(u64, u64)>,
}

/// The result of inspecting a file.
#[derive(Debug)]
pub(super) struct Verdict {
    pub(super) ownership: Ownership,
    /// Whether it is in a directory where partitions of the master may be.
    pub(super) placed: bool,
    pub(super) file: Option<VerifiedFile>,
}

/// The claim of a master to the partitions that it lists.
#[derive(Debug)]
pub(super) struct OwnershipClaim<'a> {
    path: &'a Path,
    /// Its published name, without the suffixes of an unpublished dataset or of one that is being
    /// removed.
    name: PathBuf,
    id: &'a str,
    unfinished: bool,
    /// Why it is not trusted, if it is a journal.
    distrust: Option<String>,
}

impl<'a> OwnershipClaim<'a> {
    pub(super) fn new(path: &'a Path, id: &'a str, unfinished: bool) -> Self {
        let name = published(path);
        let distrust = (name != path && !is_remote(path))
            .then(|| not_own(path))
            .flatten()
            .map(|why| format!("{} is not trusted: {why}", path.display()));
        Self { path, name, id, unfinished, distrust }
    }

    /// Whether the file that the master lists as partition `k` belongs to it.
    pub(super) fn judge(&self, k: usize, file: &Path) -> Verdict {
        match InspectedFile::of(file) {
            Err(problem) => foreign(problem),
            Ok(InspectedFile { header: Some(header), verified, .. }) => {
                match partition_identity(&header) {
                    None => foreign("it is no partition".into()),
                    Some(identity) if identity.id != self.id => {
                        foreign("it is of another dataset".into())
                    }
                    Some(identity) if identity.index != k as u64 => {
                        foreign(format!("it is partition {}, not {k}", identity.index))
                    }
                    Some(identity) => {
                        let below = is_below(file, &self.name);
                        // A partition elsewhere was put there on purpose if its reference is
                        // absolute.
                        let placed = below
                            || identity
                                .master_reference
                                .as_ref()
                                .is_some_and(MasterReference::is_absolute);
                        let ownership = match self.owner(file, &identity, below) {
                            Ownership::Own if !placed => Ownership::Outside,
                            ownership => ownership,
                        };
                        Verdict { ownership, placed, file: Some(verified) }
                    }
                }
            }
            Ok(InspectedFile { header: None, is_begun: true, verified }) => match self
                .check_empty(k, file, &verified)
            {
                None => Verdict { ownership: Ownership::Own, placed: true, file: Some(verified) },
                Some(problem) => foreign(problem),
            },
            Ok(InspectedFile { header: None, .. }) => foreign("it is of another dataset".into()),
        }
    }

    /// The owner of a partition with the right id and number.
    fn owner(&self, file: &Path, identity: &PartitionIdentity, below: bool) -> Ownership {
        let (named, recorded) = match &identity.master_reference {
            Some(master_reference) => (
                resolved_reference(file, &master_reference.master),
                master_reference.file.as_deref(),
            ),
            // Written by an earlier version, which stored the file name only.
            None if below => (resolved(&self.name, &identity.master), None),
            None => {
                let reason = "it does not say where its master is (an earlier version wrote it)";
                return Ownership::Unproven(reason.into());
            }
        };
        if same_name(&named, self.path) || is_link_to(&named, self.path) {
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
            recorded.is_some_and(|recorded| file_identity(self.path).as_deref() == Some(recorded));
        if is_journal || is_same_file {
            return Ownership::Own;
        }
        Ownership::Unproven(format!(
            "it names the master {}, which does not exist",
            named.display()
        ))
    }

    /// Why a file that is empty, or has nothing at its start yet, is not a partition whose writer
    /// was killed right after creating it; `None` if it is one.
    fn check_empty(&self, k: usize, file: &Path, verified: &VerifiedFile) -> Option<String> {
        let unproven =
            || Some("it is empty, and nothing proves that it is the dataset's".to_owned());
        if !self.unfinished || self.distrust.is_some() {
            return unproven();
        }
        if file_name(file) != part_name(&self.name, k, self.id) {
            return unproven();
        }
        // On servers the name is sufficient.
        verified.inode?;
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

fn foreign(problem: String) -> Verdict {
    Verdict { ownership: Ownership::Foreign(problem), placed: false, file: None }
}

/// Whether a file is sub-file `k` of PnetCDF; sub-files are identified by the name of their master.
pub(super) fn judge_subfile(k: usize, file: &Path) -> Verdict {
    match InspectedFile::of(file) {
        Err(problem) => foreign(problem),
        Ok(InspectedFile { header: Some(header), verified, .. })
            if subfiles::index_of(&header) == Some(k as u64) =>
        {
            Verdict { ownership: Ownership::Own, placed: true, file: Some(verified) }
        }
        Ok(_) => foreign(format!("it is not sub-file {k}")),
    }
}

impl VerifiedFile {
    /// Deletes the file, if it still is the one that was inspected; returns whether it was.
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

/// A file that may be a partition, and its header.
struct InspectedFile {
    header: Option<Header>,
    /// Whether it is empty, or begins with zeros: the superblock of a netCDF-4 file is written
    /// last.
    is_begun: bool,
    verified: VerifiedFile,
}

impl InspectedFile {
    /// Inspects a file without blocking; the error is a reason.
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
        // Opening a device may have side effects, so the type is checked first.
        let known = statat(&directory, &name, AtFlags::SYMLINK_NOFOLLOW).map_err(absent)?;
        let kind = FileType::from_raw_mode(known.st_mode);
        if kind != FileType::RegularFile {
            return Err(format!("it is {}, not a file", name_of(kind)));
        }
        let range_flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let opened = openat(&directory, &name, range_flags, Mode::empty()).map_err(absent)?;
        let opened = fs::File::from(opened);
        let known = opened.metadata().map_err(|error| format!("it cannot be read: {error}"))?;
        if !known.is_file() {
            return Err("it is not a file".into());
        }
        let unread = |error: io::Error| format!("it cannot be read: {error}");
        let header = local_header(&opened).map_err(unread)?;
        let mut begin = [0; SIGNATURE.len()];
        let got = opened.read_at(&mut begin, 0).map_err(unread)?;
        let is_begun = is_zero(&begin[..got]);
        let verified = VerifiedFile { file: file.into(), inode: Some((known.dev(), known.ino())) };
        Ok(Self { header, is_begun, verified })
    }

    fn on_servers(file: &Path) -> Result<Self, String> {
        match File::exists(file) {
            Ok(true) => {}
            Ok(false) => return Err("it does not exist".into()),
            Err(error) => return Err(error.to_string()),
        }
        let hints = contiguous_hints();
        let opened = File::open(&alone(), file, striate_file::Mode::READ, &hints);
        let unread = |error: FileError| format!("it cannot be read: {error}");
        let mut opened = opened.map_err(unread)?;
        let mut begin = [0; SIGNATURE.len()];
        let got = opened.read_at(0, begin.as_mut_slice()).map_err(unread)?;
        let is_begun = is_zero(&begin[..got as usize]);
        let header = read_header(&mut opened, UnfinishedFile::Accept).ok();
        Ok(Self { header, is_begun, verified: VerifiedFile { file: file.into(), inode: None } })
    }
}

fn is_zero(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == 0)
}

/// A phrase for a file that is not a regular one.
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

/// The header of an open file; `None` if it is not a netCDF file.
fn local_header(file: &fs::File) -> io::Result<Option<Header>> {
    let mut begin = [0; SIGNATURE.len()];
    if file.read_at(&mut begin, 0)? == begin.len() && begin == SIGNATURE {
        return header_of_local_file(file);
    }
    let len = file.metadata()?.len();
    let read = read_growing(len, UnfinishedFile::Accept, |offset, bytes| {
        let mut got = 0;
        while got < bytes.len() {
            match file.read_at(&mut bytes[got..], offset + got as u64)? {
                0 => break,
                some => got += some,
            }
        }
        Ok::<_, io::Error>(got)
    })?;
    Ok(read.ok().map(|found| found.header))
}

/// Whether the master `named` exists, has that id, and lists the file. One that cannot be read
/// counts as one that does.
fn claims(named: &Path, id: &str, file: &Path) -> bool {
    let header = if is_remote(named) {
        match File::exists(named) {
            Ok(false) => return false,
            Err(_) => return true,
            Ok(true) => InspectedFile::on_servers(named).ok().and_then(|found| found.header),
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
            Ok(header) => header,
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

/// The published name of a dataset, without the suffixes of its journals.
fn published(path: &Path) -> PathBuf {
    let text = path.as_os_str().to_string_lossy();
    let name = text.strip_suffix(REMOVED).unwrap_or(&text);
    let name = name.strip_suffix(UNPUBLISHED).unwrap_or(name);
    if name.len() == text.len() || file_name(Path::new(name)).is_empty() {
        return path.into();
    }
    name.into()
}

/// Why a local file was not written by a process of this user; `None` if it may have been.
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

/// The inode and birth time of a file as text, which identify it under any name. `None` on servers,
/// and on file systems without birth times.
pub(super) fn file_identity(path: &Path) -> Option<String> {
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

/// The reference of partition `part` to the master `name`.
pub(super) fn reference_to_master(name: &Path, part: &Path) -> String {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    let up = |depth: usize| format!("{}{}", "../".repeat(depth), file_name(name));
    match (FileUrl::of(name), FileUrl::of(part)) {
        (Some(master), Some(part)) if master.root == part.root => {
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

/// The master that a partition refers to.
fn resolved_reference(part: &Path, master_reference: &str) -> PathBuf {
    if is_url(master_reference) || Path::new(master_reference).is_absolute() {
        return master_reference.into();
    }
    let Ok(directory) = directory_of(part) else { return master_reference.into() };
    let joined = directory.path(master_reference);
    match FileUrl::of(&joined) {
        Some(url) => {
            let mut path: Vec<&str> = Vec::new();
            for one in url.path.split('/') {
                match one {
                    "" | "." => {}
                    ".." => drop(path.pop()),
                    one => path.push(one),
                }
            }
            FileUrl { path: path.join("/"), ..url }.to_string().into()
        }
        None => joined,
    }
}

/// A file on servers or in a pool: `ROOT/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileUrl {
    /// Scheme and server, or scheme and pool.
    root: String,
    /// A namespace of a pool is the first part.
    path: String,
}

impl FileUrl {
    fn of(path: &Path) -> Option<Self> {
        let text = path.to_str().filter(|text| is_url(text))?;
        // The port may be left out.
        let text =
            text.parse::<RemoteUrl>().map_or_else(|_| text.to_owned(), |url| url.to_string());
        let start = text.find("://")? + 3;
        let (host, path) = text[start..].split_once('/').unwrap_or((&text[start..], ""));
        Some(Self { root: format!("{}{host}", &text[..start]), path: path.to_owned() })
    }

    fn parts(&self) -> Vec<&str> {
        self.path.split('/').filter(|one| !one.is_empty()).collect()
    }

    /// What stands between the scheme and the path.
    fn host(&self) -> (&str, &str) {
        self.root.split_once("://").unwrap_or(("", &self.root))
    }
}

impl fmt::Display for FileUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.root, self.path)
    }
}

/// Whether two paths are the same name in the same directory. A link to a file is another name.
fn same_name(one: &Path, other: &Path) -> bool {
    match (FileUrl::of(one), FileUrl::of(other)) {
        (Some(one), Some(other)) => one.parts() == other.parts() && same_root(&one, &other),
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

/// Whether two URLs are of the same servers, which may have several names, or of the same pool.
fn same_root(one: &FileUrl, other: &FileUrl) -> bool {
    let ((scheme, host), (other_scheme, other_host)) = (one.host(), other.host());
    match (scheme, other_scheme) {
        ("rados", _) | (_, "rados") => one.root == other.root,
        _ => same_server(host, other_host),
    }
}

fn same_server(one: &str, other: &str) -> bool {
    let all = |address: &str| address.to_socket_addrs().map(Vec::from_iter).unwrap_or_default();
    one == other || all(one).iter().any(|address| all(other).contains(address))
}

/// Whether `named` is a symbolic link to the file `path`, which is not a link itself.
fn is_link_to(named: &Path, path: &Path) -> bool {
    if is_remote(named) || is_remote(path) {
        return false;
    }
    let is_link = |path: &Path| path.symlink_metadata().is_ok_and(|known| known.is_symlink());
    is_link(named)
        && !is_link(path)
        && fs::canonicalize(named).is_ok_and(|to| fs::canonicalize(path).is_ok_and(|it| it == to))
}

/// Whether a file is in or below the directory of the master, with all links resolved.
fn is_below(file: &Path, master: &Path) -> bool {
    match (FileUrl::of(file), FileUrl::of(master)) {
        (Some(file), Some(master)) => {
            let directory = master.path.rsplit_once('/').map_or("", |(directory, _)| directory);
            let below = directory.is_empty()
                || file.path.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'));
            below && !file.path.split('/').any(|one| one == "..") && same_root(&file, &master)
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

/// Replaces the reference of a partition to its master; does nothing if the header of a classic
/// file has no space for it.
pub(super) fn update_master_reference(
    file: &Path,
    master_reference: &MasterReference,
) -> Result<(), ArrayError> {
    let hints = contiguous_hints();
    let mode = striate_file::Mode::READ | striate_file::Mode::WRITE;
    let mut opened = File::open(&alone(), file, mode, &hints)?;
    let mut definitions = read_definitions(&mut opened, UnfinishedFile::Accept)?;
    let header = definitions.take_header();
    if let FileDefinitions::Netcdf4(definitions) = definitions {
        return replace_attributes(opened, file, header, *definitions, |header| {
            master_reference.write_to(&mut header.attributes);
        });
    }
    let mut after = header.clone();
    master_reference.write_to(&mut after.attributes);
    let data_begin = header.variables.iter().map(|variable| variable.begin).min();
    let before = header.encode();
    let mut stored = vec![0; before.len()];
    let read = opened.read_at(0, &mut stored[..])? as usize;
    // The magic number and the number of records may differ.
    let same = read == stored.len() && stored.get(12..) == before.get(12..);
    if same && data_begin.is_none_or(|begin| after.encoded_len() <= begin) {
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
