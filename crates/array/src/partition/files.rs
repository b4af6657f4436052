//! [`DatasetFiles`]: the files of a dataset, found by its name, and removed as one thing.
//!
//! It looks at headers only, and takes what there is: also what a killed writer has left. Whether the
//! files are a whole dataset is found out by opening it.

use std::path::{Path, PathBuf};

use striate_comm::alone;
use striate_file::{File, FileError, Hints, Method, MethodChoice, Mode};

use super::headers::{files_of, part_ties};
use super::names::{file_name, is_url, resolved, unpublished, with_suffix};
use super::ownership::{Claim, Held, Judgement, judge_subfile, not_own};
use super::rename::{forget_note, renamed_to};
use super::subfiles;
use crate::ArrayError;
use crate::format::Header;
use crate::state::read_header;

/// What a master is called while its dataset is being removed.
pub(super) const REMOVED: &str = ".removed";

/// What kind of dataset a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatasetKind {
    /// One file.
    Plain,
    /// A master, and partitions.
    Partitioned {
        /// What its files know each other by.
        id: String,
    },
    /// A master, and sub-files that PnetCDF has written.
    SubFiles,
    /// A partition of another one.
    Partition {
        /// The name that its master had when it was made.
        of: String,
    },
}

/// Whose a file is that a master lists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ownership {
    /// It is this dataset's: it names this master.
    Own,
    /// It is the dataset's, but names another master, which is there and lists it: this one is a copy.
    OfMaster(PathBuf),
    /// It has the dataset's id, but nothing proves that this master is its own; why not.
    Unproven(String),
    /// It names this master, but lies neither below its directory nor on a target, of which it would know.
    Outside,
    /// It is missing, no regular file, or another dataset's; which.
    Foreign(String),
}

/// A partition that a master lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionFile {
    /// Its file: a path, or a URL.
    pub file: PathBuf,
    /// Why it is not the dataset's, if it is not: it is missing, or another one's.
    pub problem: Option<String>,
    /// Whose it is.
    pub ownership: Ownership,
    /// Whether it lies in the dataset's directory, or on a target.
    placed: bool,
    held: Option<Held>,
}

/// The files of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetFiles {
    /// The file by whose name the dataset goes; it may be under way to that name, or from it.
    pub master: PathBuf,
    /// What kind of dataset it is.
    pub kind: DatasetKind,
    /// Whether its writer has not finished it, or somebody has not finished to remove it.
    pub unfinished: bool,
    /// Its partitions.
    pub partitions: Vec<PartitionFile>,
}

impl DatasetFiles {
    /// Looks at the file of that name. Not collective: one rank calls it.
    pub fn of(path: impl AsRef<Path>) -> Result<Self, ArrayError> {
        let path = path.as_ref();
        let (header, finished) = read(path)?;
        Ok(Self::with(path, &header, finished))
    }

    /// Looks at the file of that name, and if there is none, for what was left by somebody who was
    /// about to remove it or to write it. Not collective: one rank calls it.
    pub fn or_left_over(path: impl AsRef<Path>) -> Result<Self, ArrayError> {
        let path = path.as_ref();
        for left in [with_suffix(path, REMOVED), unpublished(path)] {
            if !File::exists(path)? && File::exists(&left)? {
                return Self::of(left);
            }
        }
        Self::of(path)
    }

    pub(super) fn with(path: &Path, header: &Header, finished: bool) -> Self {
        let mut partitions = Vec::new();
        let mut add = |file: PathBuf, judged: Judgement| {
            let Judgement { ownership, placed, held } = judged;
            let problem = match &ownership {
                Ownership::Foreign(problem) => Some(problem.clone()),
                _ => None,
            };
            partitions.push(PartitionFile { file, problem, ownership, placed, held });
        };
        let kind = if let Some((id, names)) = files_of(header) {
            let claim = Claim::new(path, &id, !finished);
            for (k, file) in names.iter().map(|name| resolved(path, name)).enumerate() {
                let judged = claim.judge(k, &file);
                add(file, judged);
            }
            DatasetKind::Partitioned { id }
        } else if let Some(count) = subfiles::count(header) {
            // They go by the name that the dataset had.
            let name = file_name(path);
            let name = name.strip_suffix(REMOVED).unwrap_or(&name);
            for k in 0..count as usize {
                let file = resolved(path, &subfiles::name(name, k));
                let judged = judge_subfile(k, &file);
                add(file, judged);
            }
            DatasetKind::SubFiles
        } else if let Some(ties) = part_ties(header) {
            let of = ties.home.map_or(ties.master, |home| file_name(Path::new(&home.master)));
            DatasetKind::Partition { of }
        } else {
            DatasetKind::Plain
        };
        let name = file_name(path);
        let on_its_way = name.ends_with(REMOVED) && !partitions.is_empty();
        Self { master: path.into(), kind, unfinished: !finished || on_its_way, partitions }
    }

    /// Partitions that are not as they should be.
    pub fn problems(&self) -> impl Iterator<Item = (&Path, &str)> {
        let problem = |part: &'_ PartitionFile| part.problem.is_some();
        self.partitions
            .iter()
            .filter(move |part| problem(part))
            .map(|part| (part.file.as_path(), part.problem.as_deref().unwrap_or_default()))
    }

    /// The master that its partitions name, if this one is a copy of that.
    pub fn copy_of(&self) -> Option<&Path> {
        self.partitions.iter().find_map(|part| match &part.ownership {
            Ownership::OfMaster(master) => Some(master.as_path()),
            _ => None,
        })
    }

    /// Takes partitions for its own that name a master which is gone.
    #[must_use]
    pub fn adopting(mut self) -> Self {
        for part in &mut self.partitions {
            if matches!(part.ownership, Ownership::Unproven(_)) {
                part.ownership = if part.placed { Ownership::Own } else { Ownership::Outside };
            }
        }
        self
    }

    /// Takes partitions for its own that lie outside of its directory and its targets.
    #[must_use]
    pub fn reaching_outside(mut self) -> Self {
        for part in &mut self.partitions {
            if part.ownership == Ownership::Outside {
                part.ownership = Ownership::Own;
            }
        }
        self
    }

    /// Removes the dataset: the partitions that are its own, and the master. Returns what was removed.
    /// Not collective: one rank calls it.
    ///
    /// The master loses its name first, so that nobody takes the rest for a dataset, and goes last,
    /// because it lists the partitions: after an interruption [`DatasetFiles::or_left_over`] finds what
    /// is left.
    pub fn remove(mut self) -> Result<Vec<PathBuf>, ArrayError> {
        let name = self.master.clone();
        if let Some(other) = renamed_to(&self)? {
            self.partitions.retain(|part| other.partitions.iter().all(|own| own.file != part.file));
        }
        if self.own().next().is_none() {
            File::delete(&name)?;
            forget_note(&name)?;
            return Ok(vec![name]);
        }
        let removed = with_suffix(&name, REMOVED);
        let on_its_way = file_name(&name).ends_with(REMOVED);
        let master = if on_its_way {
            name.clone()
        } else {
            make_way(&removed)?;
            File::rename(&name, &removed)?;
            removed
        };
        let mut gone = vec![name];
        gone.extend(self.remove_partitions()?);
        File::delete(&master)?;
        forget_note(&master)?;
        Ok(gone)
    }

    /// Removes the partitions that are the dataset's own: its master is gone, or is another one's by
    /// now. Returns what was removed. Not collective: one rank calls it.
    pub fn remove_partitions(&self) -> Result<Vec<PathBuf>, ArrayError> {
        let mut gone = Vec::new();
        for part in self.own() {
            if part.delete()? {
                gone.push(part.file.clone());
            }
        }
        Ok(gone)
    }

    /// The partitions that are the dataset's own.
    pub(super) fn own(&self) -> impl Iterator<Item = &PartitionFile> {
        self.partitions.iter().filter(|part| part.ownership == Ownership::Own)
    }
}

impl PartitionFile {
    /// Deletes the file that was looked at, if it is the dataset's own and has its name still. Whether
    /// it was.
    pub(super) fn delete(&self) -> Result<bool, ArrayError> {
        match (&self.ownership, &self.held) {
            (Ownership::Own, Some(held)) => held.delete(),
            _ => Ok(false),
        }
    }
}

/// Ends a removal that was interrupted, so that its journal's name is free.
fn make_way(removed: &Path) -> Result<(), ArrayError> {
    let remote = removed.to_str().is_some_and(is_url);
    if !remote && removed.symlink_metadata().is_err() || remote && !File::exists(removed)? {
        return Ok(());
    }
    let in_the_way = |why: String| {
        let reason = format!("{} is in the way: {why}", removed.display());
        ArrayError::from(FileError::Argument { call: "remove", reason })
    };
    if !remote && let Some(why) = not_own(removed) {
        return Err(in_the_way(why));
    }
    let left = DatasetFiles::of(removed).map_err(|error| in_the_way(error.to_string()))?;
    let is_journal = matches!(left.kind, DatasetKind::Partitioned { .. } | DatasetKind::SubFiles);
    let unclear = |part: &PartitionFile| {
        matches!(part.ownership, Ownership::Unproven(_) | Ownership::Outside)
    };
    if !is_journal || left.partitions.iter().any(unclear) {
        return Err(in_the_way("it was not left by the removal of this dataset".into()));
    }
    left.remove().map(drop)
}

/// The header of a file, and whether its writer has finished it.
pub(super) fn read(path: &Path) -> Result<(Header, bool), ArrayError> {
    let hints = Hints { method: MethodChoice::Fixed(Method::Posix), ..Hints::default() };
    let mut file = File::open(&alone(), path, Mode::READ, &hints)?;
    match read_header(&mut file, false) {
        Err(ArrayError::Unfinished { .. }) => Ok((read_header(&mut file, true)?, false)),
        header => Ok((header?, true)),
    }
}
