//! Renaming a dataset: `nc mv`.
//!
//! Partitions in the directory of their master move with it to another directory; all others stay,
//! and the new master lists them by names that are valid there. The references of the dataset's own
//! partitions are updated to the new name. The attribute `partition_of` keeps the original name of
//! the master, as information for people.
//!
//! At every moment one of the two names belongs to a complete dataset: partitions get a second name
//! (a hard link, or a copy where that is impossible), a new master is published, the old master is
//! deleted, and then the old names of the partitions. An interrupted rename can be repeated. Until
//! it is complete, both masters list the partitions that stay; a move marker in the directory of
//! the old master contains the name of the new one, so that removing the old dataset does not
//! delete them.

use std::fs;
use std::io::{self, BufRead as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use striate_comm::alone;
use striate_file::{File, FileError, Hints, Mode};

use super::commit::complete_commits;
use super::dataset_files::{
    DatasetFiles, DatasetKind, Ownership, PartitionFile, REMOVED, contiguous_hints, read,
};
use super::file_names::{
    directory_of, file_name, is_remote, is_url, listed, resolved, with_suffix,
};
use super::headers::{MasterReference, files_of, set_partition_list};
use super::ownership::{file_identity, not_own, reference_to_master, update_master_reference};
use super::subfiles;
use crate::ArrayError;
use crate::format::{Alignment, Header};
use crate::header_reading::{FileDefinitions, UnfinishedFile, read_definitions};
use crate::netcdf4::replace_attributes;

/// Suffix of the name of a file that is being copied.
const MOVING: &str = ".moving";
/// Bytes that are copied at once.
const CHUNK: u64 = 4 << 20;

/// Suffix of the name of a move marker.
const MOVED: &str = ".moved";
/// Bytes of a move marker that are read.
const LONGEST_MARKER: usize = 64 << 10;

/// What [`DatasetFiles::rename`] does with an existing file of the new name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// The call fails.
    Fail,
    /// The file is deleted, with its partitions.
    Replace,
}

/// The steps of a rename to another directory.
struct RenamePlan {
    /// Partitions, and their new names.
    moves: Vec<(PathBuf, PathBuf)>,
    /// The header of the old master, and that of the new one.
    before: Header,
    after: Header,
}

impl DatasetFiles {
    /// Renames the dataset to `to`; returns the partitions that were renamed, with their new names.
    /// Not collective: called on one rank.
    pub fn rename(
        self,
        to: impl AsRef<Path>,
        if_exists: IfExists,
    ) -> Result<Vec<(PathBuf, PathBuf)>, ArrayError> {
        let to = to.as_ref();
        let from = self.master.clone();
        self.check_rename(to, if_exists)?;
        let old = if File::exists(to)? { Self::of(to).ok() } else { None };
        let remote = is_remote(to);
        let plan = match &self.kind {
            DatasetKind::Plain | DatasetKind::Partition { .. } => None,
            DatasetKind::Partitioned { .. } if same_directory(&from, to) => None,
            DatasetKind::SubFiles if remote => {
                return Err(refuse(&from, "sub-files on servers cannot be renamed; join them"));
            }
            _ => Some(self.plan_rename(to)?),
        };
        if matches!(self.kind, DatasetKind::Partitioned { .. }) {
            // References to the master are written to partitions in their last state.
            let own = self.partitions.iter().enumerate();
            let own = own.filter(|(_, part)| part.ownership == Ownership::Own);
            let own = own.map(|(k, part)| (k, part.file.as_path()));
            complete_commits(&read(&from)?.0, own)?;
        }
        let Some(plan) = plan else {
            move_file(&from, to)?;
            self.own().try_for_each(|part| update_reference(&self.kind, &part.file, to))?;
            remove_replaced(
                old,
                &self.partitions.iter().map(|part| part.file.clone()).collect::<Vec<_>>(),
            )?;
            return Ok(Vec::new());
        };
        if let Some((file, problem)) = self.problems().next() {
            let (file, reason) = (file.display().to_string(), problem.to_owned());
            return Err(ArrayError::Partition { file, reason });
        }
        self.check_owned(&plan.moves)?;
        let temporary = with_suffix(to, MOVING);
        let mut made = Vec::new();
        let ready = make_names(&plan.moves, old.as_ref(), &mut made).and_then(|()| {
            made.push(temporary.clone());
            write_master(&from, &temporary, &plan)
        });
        if let Err(error) = ready {
            // All old names still exist.
            for file in made {
                let _ = File::delete(file);
            }
            return Err(error);
        }
        write_move_marker(&from, to)?;
        File::rename(&temporary, to)?;
        for part in self.own() {
            let moved = plan.moves.iter().find(|(old, _)| *old == part.file);
            update_reference(&self.kind, moved.map_or(&part.file, |(_, new)| new), to)?;
        }
        File::delete(&from)?;
        for part in self.own().filter(|part| plan.moves.iter().any(|(old, _)| *old == part.file)) {
            part.delete()?;
        }
        remove_move_marker(&from)?;
        let own: Vec<PathBuf> =
            Self::of(to)?.partitions.into_iter().map(|part| part.file).collect();
        remove_replaced(old, &own)?;
        Ok(plan.moves)
    }

    fn check_rename(&self, to: &Path, if_exists: IfExists) -> Result<(), ArrayError> {
        let from = &self.master;
        if self.unfinished {
            return Err(ArrayError::Unfinished { file: from.display().to_string() });
        }
        if let DatasetKind::Partition { of } = &self.kind {
            let reason = format!("it is a part of '{of}', which is renamed as a whole");
            return Err(ArrayError::Partition { file: from.display().to_string(), reason });
        }
        if is_remote(from) != is_remote(to) {
            return Err(refuse(from, "it can be copied there, and then removed"));
        }
        if File::exists(to)? && (if_exists == IfExists::Fail || same_file(from, to)) {
            return Err(ArrayError::Exists { what: "file", name: to.display().to_string() });
        }
        Ok(())
    }

    /// An error if a file that is to move does not belong to the dataset.
    fn check_owned(&self, moves: &[(PathBuf, PathBuf)]) -> Result<(), ArrayError> {
        let moving = |part: &&PartitionFile| moves.iter().any(|(old, _)| *old == part.file);
        for part in self.partitions.iter().filter(moving) {
            let reason = match &part.ownership {
                Ownership::Own => continue,
                Ownership::OfMaster(master) => format!(
                    "it belongs to {}, of which {} is a copy",
                    master.display(),
                    self.master.display()
                ),
                Ownership::Unproven(reason) | Ownership::Foreign(reason) => reason.clone(),
                Ownership::Outside => "it lies outside of the dataset's directory".into(),
            };
            return Err(ArrayError::Partition { file: part.file.display().to_string(), reason });
        }
        Ok(())
    }

    /// The steps of a rename to another directory.
    fn plan_rename(&self, to: &Path) -> Result<RenamePlan, ArrayError> {
        let (before, _) = read(&self.master)?;
        let mut moves = Vec::new();
        let mut after = before.clone();
        if let Some((_, names)) = files_of(&before) {
            let mut new_names = Vec::new();
            for name in names {
                let file = resolved(&self.master, &name);
                if !is_url(&name) && !name.contains('/') && !is_remote(to) {
                    moves.push((file, resolved(to, &name)));
                    new_names.push(name);
                } else {
                    new_names.push(listed(to, &file)?);
                }
            }
            set_partition_list(&mut after, &new_names);
        } else {
            for (k, part) in self.partitions.iter().enumerate() {
                let new = resolved(to, &subfiles::name(&file_name(to), k));
                moves.push((part.file.clone(), new));
            }
        }
        let alignment = Alignment { header: 4, fixed: 4096, fixed_from: 1 << 20, record: 4 };
        if after != before && !after.format.is_hdf5() {
            after.arrange(&alignment, Some(&before))?;
        }
        Ok(RenamePlan { moves, before, after })
    }
}

/// Gives local files second names. A file of an earlier attempt, or of the dataset that is
/// replaced, may have the name already; another one is an error.
fn make_names(
    moves: &[(PathBuf, PathBuf)],
    replaced: Option<&DatasetFiles>,
    made: &mut Vec<PathBuf>,
) -> Result<(), ArrayError> {
    let replaced = replaced.map_or(&[][..], |old| &old.partitions);
    for (old, new) in moves {
        if new.try_exists().is_ok_and(|there| there) {
            if same_file(old, new) || same_bytes(old, new).map_err(|error| failed(new, &error))? {
                continue;
            }
            let replaced = replaced.iter().find(|old| old.file == *new);
            if !replaced.map_or(Ok(false), PartitionFile::delete)? {
                let name = new.display().to_string();
                return Err(ArrayError::Exists { what: "file", name });
            }
        }
        remove_leftover(&with_suffix(new, MOVING))?;
        made.push(new.clone());
        if fs::hard_link(old, new).is_err() {
            copy(old, new).map_err(|error| failed(new, &error))?;
        }
    }
    Ok(())
}

/// Removes a local file of an earlier attempt.
fn remove_leftover(file: &Path) -> Result<(), ArrayError> {
    if file.symlink_metadata().is_err() {
        return Ok(());
    }
    match not_own(file) {
        None => fs::remove_file(file).map_err(|error| failed(file, &error)),
        Some(why) => Err(refuse(file, &format!("it is in the way: {why}"))),
    }
}

/// Makes a partition refer to its master under the new name `to`.
fn update_reference(kind: &DatasetKind, part: &Path, to: &Path) -> Result<(), ArrayError> {
    if !matches!(kind, DatasetKind::Partitioned { .. }) {
        return Ok(());
    }
    update_master_reference(
        part,
        &MasterReference { master: reference_to_master(to, part), file: file_identity(to) },
    )
}

fn move_marker_of(master: &Path) -> PathBuf {
    // The same for a master that is being removed.
    let name = master.as_os_str().to_string_lossy();
    with_suffix(name.strip_suffix(REMOVED).map_or(master, Path::new), MOVED)
}

/// Writes the move marker of a master that is being renamed to `to`, durably.
fn write_move_marker(from: &Path, to: &Path) -> Result<(), ArrayError> {
    let absolute = if is_remote(to) { Ok(to.into()) } else { std::path::absolute(to) };
    let absolute = absolute.map_err(|error| failed(to, &error))?;
    let name = move_marker_of(from);
    if !is_remote(&name) {
        remove_leftover(&name)?;
    }
    let mode = Mode::CREATE | Mode::WRITE;
    let mut note = File::open(&alone(), name, mode, &Hints::default())?;
    note.set_size(0)?;
    note.write_at(0, absolute.as_os_str().as_encoded_bytes())?;
    note.sync()?;
    Ok(note.close()?)
}

/// The dataset that shares this one's partitions because a rename was interrupted.
pub(super) fn renamed_to(files: &DatasetFiles) -> Result<Option<DatasetFiles>, ArrayError> {
    let Some(to) = read_move_marker(&move_marker_of(&files.master))? else { return Ok(None) };
    if same_file(&to, &files.master) || !File::exists(&to)? {
        return Ok(None);
    }
    Ok(DatasetFiles::of(&to).ok().filter(|other| other.kind == files.kind))
}

/// The content of a move marker of this user: one absolute name.
fn read_move_marker(note: &Path) -> Result<Option<PathBuf>, ArrayError> {
    if !is_remote(note) && not_own(note).is_some() || is_remote(note) && !File::exists(note)? {
        return Ok(None);
    }
    let mut file = File::open(&alone(), note, Mode::READ, &Hints::default())?;
    let mut bytes = vec![0; LONGEST_MARKER];
    let len = file.read_at(0, &mut bytes[..])? as usize;
    file.close()?;
    bytes.truncate(len);
    let is_name = |text: &String| {
        (text.starts_with('/') || is_url(text))
            && !text.contains('\n')
            && text.len() < LONGEST_MARKER
    };
    Ok(String::from_utf8(bytes).ok().filter(is_name).map(PathBuf::from))
}

/// Removes the move marker of a deleted master.
pub(super) fn remove_move_marker(master: &Path) -> Result<(), ArrayError> {
    let note = move_marker_of(master);
    if read_move_marker(&note)?.is_some() {
        File::delete(note)?;
    }
    Ok(())
}

/// Removes the partitions of a dataset that was replaced, except those of the new one.
fn remove_replaced(old: Option<DatasetFiles>, own: &[PathBuf]) -> Result<(), ArrayError> {
    let Some(mut old) = old else { return Ok(()) };
    old.partitions.retain(|part| !own.iter().any(|own| same_file(own, &part.file)));
    old.remove_partitions().map(drop)
}

/// Writes the new master, durably.
fn write_master(from: &Path, to: &Path, plan: &RenamePlan) -> Result<(), ArrayError> {
    let hints = contiguous_hints();
    let mut source = File::open(&alone(), from, Mode::READ, &hints)?;
    if !is_remote(to) {
        remove_leftover(to)?;
    }
    let mode = Mode::CREATE | Mode::READ | Mode::WRITE;
    let mut target = File::open(&alone(), to, mode, &hints)?;
    target.set_size(0)?;
    if plan.after.format.is_hdf5() {
        copy_bytes(&mut source, &mut target)?;
        source.close()?;
        let mut definitions = read_definitions(&mut target, UnfinishedFile::Accept)?;
        let header = definitions.take_header();
        let FileDefinitions::Netcdf4(opened) = definitions else {
            return Err(refuse(from, "it has changed"));
        };
        return replace_attributes(target, to, header, *opened, |header| {
            header.attributes.clone_from(&plan.after.attributes);
        });
    }
    target.write_at(0, plan.after.encode().as_slice())?;
    let end = source.size()?;
    for DataMove { from, to, len } in data_moves(&plan.before, &plan.after)? {
        let mut buffer = vec![0; CHUNK.min(len) as usize];
        let mut done = 0;
        while done < len && from + done < end {
            let part = &mut buffer[..CHUNK.min(len - done) as usize];
            let got = source.read_at(from + done, &mut *part)? as usize;
            if got == 0 {
                break;
            }
            target.write_at(to + done, &part[..got])?;
            done += got as u64;
        }
    }
    if let Some(end) = plan.after.end()
        && target.size()? < end
    {
        target.set_size(end)?;
    }
    target.sync()?;
    target.close()?;
    Ok(source.close()?)
}

/// Copies a file as it is.
fn copy_bytes(from: &mut File, to: &mut File) -> Result<(), ArrayError> {
    let mut buffer = vec![0; CHUNK as usize];
    let mut at = 0;
    loop {
        let got = from.read_at(at, &mut buffer[..])?;
        if got == 0 {
            return Ok(to.flush()?);
        }
        to.write_at(at, &buffer[..got as usize])?;
        at += got;
    }
}

/// A range of data of the old master, and its offset in the new one.
struct DataMove {
    from: u64,
    to: u64,
    len: u64,
}

/// The ranges of data of a master.
fn data_moves(before: &Header, after: &Header) -> Result<Vec<DataMove>, ArrayError> {
    let far = || refuse(Path::new("the master"), "it ends beyond what a file can hold");
    let mut all = Vec::new();
    for (old, new) in before.variables.iter().zip(&after.variables) {
        if !before.is_record(old) {
            let len = before.slab_size(old).ok_or_else(far)?;
            all.push(DataMove { from: old.begin, to: new.begin, len });
        }
    }
    if let (Some(old), Some(new)) = (before.records_begin(), after.records_begin()) {
        let size = before.record_size().and_then(|size| size.checked_mul(before.records));
        all.push(DataMove { from: old, to: new, len: size.ok_or_else(far)? });
    }
    Ok(all)
}

/// Renames a file, also to another file system.
fn move_file(from: &Path, to: &Path) -> Result<(), ArrayError> {
    if is_remote(from) {
        return Ok(File::rename(from, to)?);
    }
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy(from, to).map_err(|error| failed(to, &error))?;
            Ok(File::delete(from)?)
        }
        renamed => renamed.and_then(|()| sync_directory(to)).map_err(|error| failed(to, &error)),
    }
}

/// Copies a file durably; it gets its name when the copy is complete.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let temporary = with_suffix(to, MOVING);
    remove_leftover(&temporary).map_err(io::Error::other)?;
    let copied = fs::File::open(from).and_then(|mut source| {
        let mut target = fs::File::create_new(&temporary)?;
        io::copy(&mut source, &mut target)?;
        target.sync_all()?;
        fs::rename(&temporary, to)
    });
    if copied.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    copied.and_then(|()| sync_directory(to))
}

/// Whether two files have the same content.
fn same_bytes(one: &Path, other: &Path) -> io::Result<bool> {
    let [one, other] = [fs::File::open(one)?, fs::File::open(other)?];
    if one.metadata()?.len() != other.metadata()?.len() {
        return Ok(false);
    }
    let [mut one, mut other] = [one, other].map(|file| io::BufReader::with_capacity(1 << 16, file));
    loop {
        let (left, right) = (one.fill_buf()?, other.fill_buf()?);
        let len = left.len().min(right.len());
        if left[..len] != right[..len] || (len == 0 && left.len() != right.len()) {
            return Ok(false);
        }
        if len == 0 {
            return Ok(true);
        }
        one.consume(len);
        other.consume(len);
    }
}

fn sync_directory(of: &Path) -> io::Result<()> {
    let parent = of.parent().filter(|parent| !parent.as_os_str().is_empty());
    fs::File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
}

/// Whether two files are in one directory.
fn same_directory(one: &Path, other: &Path) -> bool {
    let directory = |path| directory_of(path).ok().map(|target| target.base());
    match (directory(one), directory(other)) {
        (Some(a), Some(b)) => a == b || same_file(&a, &b),
        _ => false,
    }
}

/// Whether both are names of the same file.
fn same_file(one: &Path, other: &Path) -> bool {
    let id = |path: &Path| fs::metadata(path).ok().map(|known| (known.dev(), known.ino()));
    one == other || id(one).is_some_and(|known| Some(known) == id(other))
}

fn refuse(path: &Path, why: &str) -> ArrayError {
    FileError::Argument { call: "rename", reason: format!("{}: {why}", path.display()) }.into()
}

fn failed(path: &Path, error: &io::Error) -> ArrayError {
    refuse(path, &error.to_string())
}
