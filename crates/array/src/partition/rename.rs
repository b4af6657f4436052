//! Another name for a dataset.
//!
//! Partitions that lie beside their master go with it into another directory; all others stay where they
//! are, and the master lists them by names that are right there. Those that are the dataset's own then name
//! their master by its new name; `partition_of` is what it was called when they were made, for people.
//!
//! At every moment one of both names is that of a whole dataset: files get their new names (a second
//! one, or a copy where that is impossible), then a new master is published, then the old master goes,
//! and the old names of the partitions at last. Whoever is interrupted can begin again. Meanwhile both
//! masters list the partitions that stay; a note beside the old one says where the new one is, so that
//! whoever removes the old one does not take the new one's partitions with it.

use std::fs;
use std::io::{self, BufRead as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use striate_comm::alone;
use striate_file::{File, FileError, Hints, Method, MethodChoice, Mode};

use super::files::{DatasetFiles, DatasetKind, Ownership, PartitionFile, REMOVED, read};
use super::headers::{Home, files_of, relisted};
use super::names::{directory_of, file_name, is_url, listed, resolved, with_suffix};
use super::ownership::{birth, home_of, not_own, rehome};
use super::subfiles;
use crate::ArrayError;
use crate::format::{Alignment, Header};

/// What a new master is called until it is whole.
const MOVING: &str = ".moving";
/// Bytes that are copied at a time.
const CHUNK: u64 = 4 << 20;

/// What the note is called that says where a master goes.
const MOVED: &str = ".moved";
/// Bytes of a note that are looked at.
const NOTE: usize = 64 << 10;

/// What is to be done.
struct Plan {
    /// Partitions, and the names that they get.
    moves: Vec<(PathBuf, PathBuf)>,
    /// The master's header, and what it will be.
    before: Header,
    after: Header,
}

impl DatasetFiles {
    /// Gives the dataset the name `to`; returns the partitions that have another name now. What has the
    /// name `to` is an error, unless `replace`: then it goes, with its partitions. Not collective: one
    /// rank calls it.
    pub fn rename(
        self,
        to: impl AsRef<Path>,
        replace: bool,
    ) -> Result<Vec<(PathBuf, PathBuf)>, ArrayError> {
        let to = to.as_ref();
        let from = self.master.clone();
        self.check(to, replace)?;
        let old = if File::exists(to)? { Self::of(to).ok() } else { None };
        let remote = is_remote(to);
        let plan = match &self.kind {
            DatasetKind::Plain | DatasetKind::Partition { .. } => None,
            DatasetKind::Partitioned { .. } if same_directory(&from, to) => None,
            DatasetKind::SubFiles if remote => {
                return Err(refuse(&from, "sub-files on servers cannot be renamed; join them"));
            }
            _ => Some(self.plan(to)?),
        };
        let Some(plan) = plan else {
            move_file(&from, to)?;
            self.own().try_for_each(|part| name_master(&self.kind, &part.file, to))?;
            drop_old(
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
            // The old names are all there still.
            for file in made {
                let _ = File::delete(file);
            }
            return Err(error);
        }
        leave_note(&from, to)?;
        File::rename(&temporary, to)?;
        for part in self.own() {
            let moved = plan.moves.iter().find(|(old, _)| *old == part.file);
            name_master(&self.kind, moved.map_or(&part.file, |(_, new)| new), to)?;
        }
        File::delete(&from)?;
        for part in self.own().filter(|part| plan.moves.iter().any(|(old, _)| *old == part.file)) {
            part.delete()?;
        }
        forget_note(&from)?;
        let own: Vec<PathBuf> =
            Self::of(to)?.partitions.into_iter().map(|part| part.file).collect();
        drop_old(old, &own)?;
        Ok(plan.moves)
    }

    fn check(&self, to: &Path, replace: bool) -> Result<(), ArrayError> {
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
        if File::exists(to)? && (!replace || same_file(from, to)) {
            return Err(ArrayError::Exists { what: "file", name: to.display().to_string() });
        }
        Ok(())
    }

    /// An error if a file is to move that is not the dataset's own.
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

    /// What becomes of the partitions when the master goes into another directory.
    fn plan(&self, to: &Path) -> Result<Plan, ArrayError> {
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
            relisted(&mut after, &new_names);
        } else {
            for (k, part) in self.partitions.iter().enumerate() {
                let new = resolved(to, &subfiles::name(&file_name(to), k));
                moves.push((part.file.clone(), new));
            }
        }
        let alignment = Alignment { header: 4, fixed: 4096, fixed_from: 1 << 20, record: 4 };
        if after != before {
            after.arrange(&alignment, Some(&before))?;
        }
        Ok(Plan { moves, before, after })
    }
}

/// Gives local files second names; only what an earlier attempt has made, or what belongs to the dataset
/// that is replaced, may have them.
fn make_names(
    moves: &[(PathBuf, PathBuf)],
    replaced: Option<&DatasetFiles>,
    made: &mut Vec<PathBuf>,
) -> Result<(), ArrayError> {
    let replaced = replaced.map_or(&[][..], |old| &old.partitions);
    for (old, new) in moves {
        if new.try_exists().is_ok_and(|there| there) {
            if same_file(old, new) || same_bytes(old, new).map_err(|error| told(new, &error))? {
                continue;
            }
            let replaced = replaced.iter().find(|old| old.file == *new);
            if !replaced.map_or(Ok(false), PartitionFile::delete)? {
                let name = new.display().to_string();
                return Err(ArrayError::Exists { what: "file", name });
            }
        }
        remove_begun(&with_suffix(new, MOVING))?;
        made.push(new.clone());
        if fs::hard_link(old, new).is_err() {
            copy(old, new).map_err(|error| told(new, &error))?;
        }
    }
    Ok(())
}

/// Removes a local file that an earlier attempt has begun.
fn remove_begun(file: &Path) -> Result<(), ArrayError> {
    if file.symlink_metadata().is_err() {
        return Ok(());
    }
    match not_own(file) {
        None => fs::remove_file(file).map_err(|error| told(file, &error)),
        Some(why) => Err(refuse(file, &format!("it is in the way: {why}"))),
    }
}

/// Makes a partition name its master, which is called `to` by now.
fn name_master(kind: &DatasetKind, part: &Path, to: &Path) -> Result<(), ArrayError> {
    if !matches!(kind, DatasetKind::Partitioned { .. }) {
        return Ok(());
    }
    rehome(part, &Home { master: home_of(to, part), file: birth(to) })
}

fn note_of(master: &Path) -> PathBuf {
    // Also when somebody is about to remove it.
    let name = master.as_os_str().to_string_lossy();
    with_suffix(name.strip_suffix(REMOVED).map_or(master, Path::new), MOVED)
}

/// Notes durably that a master is about to go by the name `to`.
fn leave_note(from: &Path, to: &Path) -> Result<(), ArrayError> {
    let absolute = if is_remote(to) { Ok(to.into()) } else { std::path::absolute(to) };
    let absolute = absolute.map_err(|error| told(to, &error))?;
    let name = note_of(from);
    if !is_remote(&name) {
        remove_begun(&name)?;
    }
    let mode = Mode::CREATE | Mode::WRITE;
    let mut note = File::open(&alone(), name, mode, &Hints::default())?;
    note.set_size(0)?;
    note.write_at(0, absolute.as_os_str().as_encoded_bytes())?;
    note.sync()?;
    Ok(note.close()?)
}

/// The dataset that has this one's partitions because somebody did not finish to rename it.
pub(super) fn renamed_to(files: &DatasetFiles) -> Result<Option<DatasetFiles>, ArrayError> {
    let Some(to) = noted(&note_of(&files.master))? else { return Ok(None) };
    if same_file(&to, &files.master) || !File::exists(&to)? {
        return Ok(None);
    }
    Ok(DatasetFiles::of(&to).ok().filter(|other| other.kind == files.kind))
}

/// What a note says, if the file is one that this user has left: an absolute name on one line.
fn noted(note: &Path) -> Result<Option<PathBuf>, ArrayError> {
    if !is_remote(note) && not_own(note).is_some() || is_remote(note) && !File::exists(note)? {
        return Ok(None);
    }
    let mut file = File::open(&alone(), note, Mode::READ, &Hints::default())?;
    let mut bytes = vec![0; NOTE];
    let len = file.read_at(0, &mut bytes[..])? as usize;
    file.close()?;
    bytes.truncate(len);
    let is_name = |text: &String| {
        (text.starts_with('/') || is_url(text)) && !text.contains('\n') && text.len() < NOTE
    };
    Ok(String::from_utf8(bytes).ok().filter(is_name).map(PathBuf::from))
}

/// Removes the note about a master that is gone.
pub(super) fn forget_note(master: &Path) -> Result<(), ArrayError> {
    let note = note_of(master);
    if noted(&note)?.is_some() {
        File::delete(note)?;
    }
    Ok(())
}

/// Removes partitions of a dataset that was replaced, except what is the new one's.
fn drop_old(old: Option<DatasetFiles>, own: &[PathBuf]) -> Result<(), ArrayError> {
    let Some(mut old) = old else { return Ok(()) };
    old.partitions.retain(|part| !own.iter().any(|own| same_file(own, &part.file)));
    old.remove_partitions().map(drop)
}

/// Writes the new master, durably.
fn write_master(from: &Path, to: &Path, plan: &Plan) -> Result<(), ArrayError> {
    let hints = Hints { method: MethodChoice::Fixed(Method::Posix), ..Hints::default() };
    let mut source = File::open(&alone(), from, Mode::READ, &hints)?;
    if !is_remote(to) {
        remove_begun(to)?;
    }
    let mode = Mode::CREATE | Mode::READ | Mode::WRITE;
    let mut target = File::open(&alone(), to, mode, &hints)?;
    target.set_size(0)?;
    target.write_at(0, plan.after.encode().as_slice())?;
    let end = source.size()?;
    for (start, len, new) in places(&plan.before, &plan.after)? {
        let mut buffer = vec![0; CHUNK.min(len) as usize];
        let mut done = 0;
        while done < len && start + done < end {
            let part = &mut buffer[..CHUNK.min(len - done) as usize];
            let got = source.read_at(start + done, &mut *part)? as usize;
            if got == 0 {
                break;
            }
            target.write_at(new + done, &part[..got])?;
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

/// What lies where, and where it will: start, length and new start.
fn places(before: &Header, after: &Header) -> Result<Vec<(u64, u64, u64)>, ArrayError> {
    let far = || refuse(Path::new("the master"), "it ends beyond what a file can hold");
    let mut all = Vec::new();
    for (old, new) in before.variables.iter().zip(&after.variables) {
        if !before.is_record(old) {
            all.push((old.begin, before.slab_size(old).ok_or_else(far)?, new.begin));
        }
    }
    if let (Some(old), Some(new)) = (before.records_begin(), after.records_begin()) {
        let size = before.record_size().and_then(|size| size.checked_mul(before.records));
        all.push((old, size.ok_or_else(far)?, new));
    }
    Ok(all)
}

/// Gives a file another name, also in another file system.
fn move_file(from: &Path, to: &Path) -> Result<(), ArrayError> {
    if is_remote(from) {
        return Ok(File::rename(from, to)?);
    }
    match fs::rename(from, to) {
        Err(error) if error.kind() == io::ErrorKind::CrossesDevices => {
            copy(from, to).map_err(|error| told(to, &error))?;
            Ok(File::delete(from)?)
        }
        renamed => renamed.and_then(|()| sync_directory(to)).map_err(|error| told(to, &error)),
    }
}

/// Copies a file, durably: it has its name when it is whole.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let temporary = with_suffix(to, MOVING);
    remove_begun(&temporary).map_err(io::Error::other)?;
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

fn is_remote(path: &Path) -> bool {
    path.to_str().is_some_and(is_url)
}

/// Whether files of both names lie in one directory.
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

fn told(path: &Path, error: &io::Error) -> ArrayError {
    refuse(path, &error.to_string())
}
