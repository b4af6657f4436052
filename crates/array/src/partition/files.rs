//! [`DatasetFiles`]: the files of a dataset, found by its name, and removed as one thing.
//!
//! It looks at headers only, and takes what there is: also what a killed writer has left. Whether the
//! files are a whole dataset is found out by opening it.

use std::path::{Path, PathBuf};

use striate_comm::alone;
use striate_file::{File, Hints, Method, MethodChoice, Mode};

use super::headers::{files_of, part_ties};
use super::names::{file_name, resolved, unpublished, with_suffix};
use super::publish::header_of;
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

/// A partition that a master lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionFile {
    /// Its file: a path, or a URL.
    pub file: PathBuf,
    /// Why it is not the dataset's, if it is not: it is missing, or another one's.
    pub problem: Option<String>,
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
        let mut add = |file: PathBuf, problem: Option<String>| {
            partitions.push(PartitionFile { file, problem });
        };
        let kind = if let Some((id, names)) = files_of(header) {
            for file in names.iter().map(|name| resolved(path, name)) {
                let problem = problem_of_part(&file, &id);
                add(file, problem);
            }
            DatasetKind::Partitioned { id }
        } else if let Some(count) = subfiles::count(header) {
            // They go by the name that the dataset had.
            let name = file_name(path);
            let name = name.strip_suffix(REMOVED).unwrap_or(&name);
            for k in 0..count as usize {
                let file = resolved(path, &subfiles::name(name, k));
                let problem = problem_of_subfile(&file, k);
                add(file, problem);
            }
            DatasetKind::SubFiles
        } else if let Some(ties) = part_ties(header) {
            DatasetKind::Partition { of: ties.master }
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
        if self.partitions.is_empty() {
            File::delete(&name)?;
            forget_note(&name)?;
            return Ok(vec![name]);
        }
        let removed = with_suffix(&name, REMOVED);
        let on_its_way = file_name(&name).ends_with(REMOVED);
        let master = if on_its_way {
            name.clone()
        } else {
            if File::exists(&removed)? {
                Self::of(&removed)?.remove()?;
            }
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
        for part in self.partitions.iter().filter(|part| part.problem.is_none()) {
            File::delete(&part.file)?;
            gone.push(part.file.clone());
        }
        Ok(gone)
    }
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

/// Why a file is not a partition of that dataset, if it is not.
fn problem_of_part(file: &Path, id: &str) -> Option<String> {
    let of_other = || Some("it is of another dataset".to_owned());
    match found(file) {
        Err(problem) => Some(problem),
        Ok((Some(header), _)) => match part_ties(&header) {
            Some(ties) if ties.id == id => None,
            Some(_) => of_other(),
            None => Some("it is no partition".into()),
        },
        // Its writer came no further than to its name.
        Ok((None, 0)) if id.get(..8).is_some_and(|id| file_name(file).contains(id)) => None,
        Ok((None, _)) => of_other(),
    }
}

/// Why a file is not a sub-file of that number, if it is not.
fn problem_of_subfile(file: &Path, k: usize) -> Option<String> {
    match found(file) {
        Err(problem) => Some(problem),
        Ok((Some(header), _)) if subfiles::index_of(&header) == Some(k as u64) => None,
        Ok(_) => Some(format!("it is not sub-file {k}")),
    }
}

/// The header of a partition, if it has one, and its length.
fn found(file: &Path) -> Result<(Option<Header>, u64), String> {
    match File::exists(file) {
        Ok(true) => header_of(file).ok_or_else(|| "it cannot be read".into()),
        Ok(false) => Err("it does not exist".into()),
        Err(error) => Err(error.to_string()),
    }
}
