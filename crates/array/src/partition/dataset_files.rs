//! [`DatasetFiles`]: the files of a dataset, found by its name, and removed as one.
//!
//! It reads headers only, and accepts incomplete datasets, such as those of a killed writer.
//! Whether the files are a complete dataset is checked by opening it.

use std::path::{Path, PathBuf};

use striate_comm::alone;
use striate_file::{File, FileError, Hints, Method, MethodChoice, Mode};

use super::file_names::{file_name, is_remote, is_unpublished, resolved, unpublished, with_suffix};
use super::headers::{files_of, is_master, partition_identity};
use super::ownership::{OwnershipClaim, Verdict, VerifiedFile, judge_subfile, not_own};
use super::rename::{remove_move_marker, renamed_to};
use super::subfiles;
use crate::ArrayError;
use crate::format::Header;
use crate::header_reading::{UnfinishedFile, read_header};

/// Suffix of the name of a master while its dataset is being removed.
pub(super) const REMOVED: &str = ".removed";

/// The kind of a dataset, by its file.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatasetKind {
    /// One file.
    Plain,
    /// A master, and partitions.
    Partitioned {
        /// The id that its files share.
        id: String,
    },
    /// A master, and sub-files that PnetCDF has written.
    SubFiles,
    /// A partition of another dataset.
    Partition {
        /// The file name of its master.
        of: String,
    },
}

/// The owner of a file that a master lists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ownership {
    /// The dataset: the file refers to this master.
    Own,
    /// Another master, which exists and lists the file: this one is a copy of it.
    OfMaster(PathBuf),
    /// The file has the dataset's id, but nothing proves that it belongs to this master; the
    /// reason.
    Unproven(String),
    /// The file refers to this master, but is neither below its directory nor, by an absolute
    /// reference, on a target.
    Outside,
    /// The file is missing, not a regular file, or of another dataset; the reason.
    Foreign(String),
}

/// A partition that a master lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionFile {
    /// Its file: a path, or a URL.
    pub file: PathBuf,
    /// Why it does not belong to the dataset: it is missing, or of another one.
    pub problem: Option<String>,
    /// Its owner.
    pub ownership: Ownership,
    /// Whether it is in the dataset's directory, or on a target.
    placed: bool,
    inspected: Option<VerifiedFile>,
}

/// The files of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatasetFiles {
    /// The file with the name of the dataset; before publication or during removal, the name has a
    /// suffix.
    pub master: PathBuf,
    /// The kind of dataset.
    pub kind: DatasetKind,
    /// Whether its writer has not finished it, or a removal was interrupted.
    pub unfinished: bool,
    /// Its partitions.
    pub partitions: Vec<PartitionFile>,
}

impl DatasetFiles {
    /// Inspects the dataset at `path`. Not collective: called on one rank.
    pub fn of(path: impl AsRef<Path>) -> Result<Self, ArrayError> {
        let path = path.as_ref();
        let (header, finished) = read(path)?;
        Ok(Self::with(path, &header, finished))
    }

    /// Inspects the dataset at `path`, or if there is none, the files of an interrupted removal or
    /// of a killed writer. Not collective: called on one rank.
    pub fn of_or_interrupted(path: impl AsRef<Path>) -> Result<Self, ArrayError> {
        let path = path.as_ref();
        for interrupted in [with_suffix(path, REMOVED), unpublished(path)] {
            if !File::exists(path)? && File::exists(&interrupted)? {
                return Self::of(interrupted);
            }
        }
        Self::of(path)
    }

    pub(super) fn with(path: &Path, header: &Header, finished: bool) -> Self {
        let mut partitions = Vec::new();
        let mut add = |file: PathBuf, verdict: Verdict| {
            let Verdict { ownership, placed, file: inspected } = verdict;
            let problem = match &ownership {
                Ownership::Foreign(problem) => Some(problem.clone()),
                _ => None,
            };
            partitions.push(PartitionFile { file, problem, ownership, placed, inspected });
        };
        let kind = if let Some((id, names)) = files_of(header) {
            let claim = OwnershipClaim::new(path, &id, !finished);
            for (k, file) in names.iter().map(|name| resolved(path, name)).enumerate() {
                let verdict = claim.judge(k, &file);
                add(file, verdict);
            }
            DatasetKind::Partitioned { id }
        } else if let Some(count) = subfiles::count(header) {
            // Sub-files have the original name of the dataset.
            let name = file_name(path);
            let name = name.strip_suffix(REMOVED).unwrap_or(&name);
            for k in 0..count as usize {
                let file = resolved(path, &subfiles::name(name, k));
                let verdict = judge_subfile(k, &file);
                add(file, verdict);
            }
            DatasetKind::SubFiles
        } else if let Some(identity) = partition_identity(header) {
            let of = match identity.master_reference {
                Some(reference) => file_name(Path::new(&reference.master)),
                None => identity.master,
            };
            DatasetKind::Partition { of }
        } else {
            DatasetKind::Plain
        };
        let name = file_name(path);
        let is_journal = name.ends_with(REMOVED) && !partitions.is_empty();
        Self { master: path.into(), kind, unfinished: !finished || is_journal, partitions }
    }

    /// Partitions that do not belong to the dataset, with the reasons.
    pub fn problems(&self) -> impl Iterator<Item = (&Path, &str)> {
        let problem = |part: &'_ PartitionFile| part.problem.is_some();
        self.partitions
            .iter()
            .filter(move |part| problem(part))
            .map(|part| (part.file.as_path(), part.problem.as_deref().unwrap_or_default()))
    }

    /// The master that its partitions refer to, if this one is a copy of it.
    pub fn copy_of(&self) -> Option<&Path> {
        self.partitions.iter().find_map(|part| match &part.ownership {
            Ownership::OfMaster(master) => Some(master.as_path()),
            _ => None,
        })
    }

    /// Treats partitions whose master does not exist any more as its own.
    #[must_use]
    pub fn adopting(mut self) -> Self {
        for part in &mut self.partitions {
            if matches!(part.ownership, Ownership::Unproven(_)) {
                part.ownership = if part.placed { Ownership::Own } else { Ownership::Outside };
            }
        }
        self
    }

    /// Treats partitions outside of its directory and its targets as its own.
    #[must_use]
    pub fn reaching_outside(mut self) -> Self {
        for part in &mut self.partitions {
            if part.ownership == Ownership::Outside {
                part.ownership = Ownership::Own;
            }
        }
        self
    }

    /// Removes the dataset: its own partitions, and the master. Returns the removed files. Not
    /// collective: called on one rank.
    ///
    /// The master is renamed first, so that no program opens the incomplete dataset, and deleted
    /// last, because it lists the partitions: after an interruption
    /// [`DatasetFiles::of_or_interrupted`] finds the remaining files.
    pub fn remove(mut self) -> Result<Vec<PathBuf>, ArrayError> {
        let name = self.master.clone();
        if let Some(other) = renamed_to(&self)? {
            self.partitions.retain(|part| other.partitions.iter().all(|own| own.file != part.file));
        }
        if self.own().next().is_none() {
            File::delete(&name)?;
            remove_move_marker(&name)?;
            return Ok(vec![name]);
        }
        let removed = with_suffix(&name, REMOVED);
        let is_journal = file_name(&name).ends_with(REMOVED);
        let master = if is_journal {
            name.clone()
        } else {
            finish_removal(&removed)?;
            File::rename(&name, &removed)?;
            removed
        };
        let mut gone = vec![name];
        gone.extend(self.remove_partitions()?);
        File::delete(&master)?;
        remove_move_marker(&master)?;
        Ok(gone)
    }

    /// Removes the dataset's own partitions, after its master was deleted or replaced. Returns the
    /// removed files. Not collective: called on one rank.
    pub fn remove_partitions(&self) -> Result<Vec<PathBuf>, ArrayError> {
        let mut gone = Vec::new();
        for part in self.own() {
            if part.delete()? {
                gone.push(part.file.clone());
            }
        }
        Ok(gone)
    }

    /// The dataset's own partitions.
    pub(super) fn own(&self) -> impl Iterator<Item = &PartitionFile> {
        self.partitions.iter().filter(|part| part.ownership == Ownership::Own)
    }
}

impl PartitionFile {
    /// Deletes the file that was inspected, if it is the dataset's own and still has its name;
    /// returns whether it was.
    pub(super) fn delete(&self) -> Result<bool, ArrayError> {
        match (&self.ownership, &self.inspected) {
            (Ownership::Own, Some(inspected)) => inspected.delete(),
            _ => Ok(false),
        }
    }
}

/// Completes a removal that was interrupted, so that the name of its journal is free.
fn finish_removal(removed: &Path) -> Result<(), ArrayError> {
    let remote = is_remote(removed);
    if !remote && removed.symlink_metadata().is_err() || remote && !File::exists(removed)? {
        return Ok(());
    }
    let in_the_way = |why: String| in_the_way("remove", removed, &why);
    if !remote && let Some(why) = not_own(removed) {
        return Err(in_the_way(why));
    }
    let interrupted = DatasetFiles::of(removed).map_err(|error| in_the_way(error.to_string()))?;
    let is_journal =
        matches!(interrupted.kind, DatasetKind::Partitioned { .. } | DatasetKind::SubFiles);
    let unclear = |part: &PartitionFile| {
        matches!(part.ownership, Ownership::Unproven(_) | Ownership::Outside)
    };
    if !is_journal || interrupted.partitions.iter().any(unclear) {
        return Err(in_the_way("it was not left by the removal of this dataset".into()));
    }
    interrupted.remove().map(drop)
}

/// The error of a file that prevents an operation and must not be deleted.
pub(super) fn in_the_way(call: &'static str, path: &Path, why: &str) -> ArrayError {
    let reason = format!("{} is in the way: {why}", path.display());
    FileError::Argument { call, reason }.into()
}

/// Hints for reading or writing contiguous bytes of a file by one process.
pub(super) fn contiguous_hints() -> Hints {
    Hints { method: MethodChoice::Fixed(Method::Posix), ..Hints::default() }
}

/// The header of a file, and whether its writer has finished it.
pub(super) fn read(path: &Path) -> Result<(Header, bool), ArrayError> {
    let mut file = File::open(&alone(), path, Mode::READ, &contiguous_hints())?;
    match read_header(&mut file, UnfinishedFile::Refuse) {
        Err(ArrayError::Unfinished { .. }) => {
            Ok((read_header(&mut file, UnfinishedFile::Accept)?, false))
        }
        header => {
            let header = header?;
            // A netCDF-4 file is never half there: that its dataset is not finished, its name says.
            let finished = !header.format.is_hdf5() || !is_master(&header) || !is_unpublished(path);
            Ok((header, finished))
        }
    }
}
