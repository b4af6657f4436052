//! Opening a dataset, and its partitions if it has some.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_comm::Comm;
use striate_file::{File, Mode};

use super::create::group_of;
use super::groups::Groups;
use super::headers;
use super::names::{file_name, resolved};
use super::subfiles;
use super::{Part, Parted, PartitionStats, Partitioning};
use crate::state::{Derived, State, read_header};
use crate::{ArrayError, Dataset, Options};

/// The dataset of a file that was opened. Collective.
pub(crate) fn open(mut state: State, options: &Options) -> Result<Dataset, ArrayError> {
    let fault = |reason| ArrayError::Partition { file: state.path.display().to_string(), reason };
    // All ranks have the same header, and come to the same conclusion.
    let name = file_name(&state.path);
    let found = headers::logical_of(&state.header, &name).map_err(fault)?;
    let foreign = found.is_none();
    let found = match found {
        None => subfiles::logical_of(&state.header, &name).map_err(fault)?,
        own => own,
    };
    let Some((logical, scheme, ties)) = found else {
        if let Some(ties) = headers::part_ties(&state.header).filter(|_| state.write) {
            return Err(fault(format!(
                "it is a part of '{}', which is opened for writing as a whole",
                ties.master
            )));
        }
        return Ok(Dataset::new(state, options.clone()));
    };
    if foreign && state.write {
        return Err(fault("it has sub-files of PnetCDF, which can be read only".into()));
    }
    let comm = Arc::clone(&state.comm);
    let asked = Partitioning::of_first(comm.as_ref(), &options.partitioning)?;
    let options = Options { partitioning: asked, ..options.clone() };
    let groups = Groups { ranks: comm.size(), partitions: scheme.count };
    let mut parted = Parted {
        filled: vec![false; logical.variables.len()],
        master: state.header.clone(),
        files: ties.files.iter().map(|file| resolved(&state.path, file)).collect(),
        logical,
        scheme,
        ties,
        foreign,
        derived: Derived::default(),
        indices: Vec::new(),
        rank: comm.rank(),
        groups,
        group: group_of(comm.as_ref(), groups)?,
        parts: Vec::new(),
        opened: BTreeMap::new(),
        infos: Vec::new(),
        homes: Vec::new(),
        stale_coordinates: false,
        costs: PartitionStats::default(),
    };
    parted.derive();
    let problems = parted.open_parts(&state, &options);
    parted.learn_problems(comm.as_ref(), &problems)?;
    if foreign {
        let (records, fewer) = parted.count_records(comm.as_ref(), state.header.records)?;
        parted.learn_problems(comm.as_ref(), &fewer)?;
        parted.learn_sizes(comm.as_ref())?;
        parted.derive();
        state.header.records = records;
    }
    let problem = parted.infos.iter().find_map(|info| Some((info, info.missing.clone()?)));
    if let Some((info, reason)) = problem
        && !options.partitioning.partial
    {
        let file = info.file.display().to_string();
        return Err(ArrayError::Partition { file, reason });
    }
    parted.set_records(state.header.records);
    Ok(Dataset::with(state, options, Some(Box::new(parted))))
}

impl Parted {
    /// Opens the partitions of this rank's group; returns what is wrong with which. Collective in the
    /// group.
    fn open_parts(&mut self, master: &State, options: &Options) -> Vec<(usize, String)> {
        let mut problems = Vec::new();
        for k in self.groups.partitions_of(self.groups.of_rank(self.rank)) {
            match self.open_part(k, master, options) {
                Ok(data) => self.parts.push(Part { index: k, data }),
                Err(reason) => problems.push((k, reason)),
            }
        }
        problems
    }

    fn open_part(&self, k: usize, master: &State, options: &Options) -> Result<Dataset, String> {
        let mode = if master.write { Mode::READ | Mode::WRITE } else { Mode::READ };
        let path: PathBuf = self.files[k].clone();
        let comm = self.comm_of_part();
        let hints = master.file.hints();
        let file = File::open(&comm, &path, mode, hints).map_err(|error| without(&path, &error))?;
        let options = Options { hints: hints.clone(), ..options.clone() };
        let checked = if self.foreign {
            self.checked_subfile(k, file, &path, master, &options)
        } else {
            self.checked(k, file, &path, master, &options)
        };
        checked.map_err(|error| match error {
            ArrayError::Partition { reason, .. } => reason,
            other => without(&path, &other),
        })
    }

    /// A partition that was opened, if it is what the master says. Collective in the group.
    fn checked(
        &self,
        k: usize,
        mut file: File,
        path: &Path,
        master: &State,
        options: &Options,
    ) -> Result<Dataset, ArrayError> {
        let mut header = read_header(&mut file, false)?;
        let (file_len, records) = (file.size(), master.header.records);
        let mut state = State::new(file, path.into(), header.clone(), options, master.write)?;
        let fault = |reason: String| {
            Err(ArrayError::Partition { file: path.display().to_string(), reason })
        };
        let ties = &self.ties;
        let expected = headers::part(
            &self.logical,
            &self.scheme,
            k,
            &headers::PartTies {
                id: ties.id.clone(),
                generation: ties.generation,
                master: ties.master.clone(),
                index: k as u64,
                count: self.scheme.count as u64,
                size: ties.sizes[k],
                home: None,
            },
        )?;
        header.records = records;
        let checked = match headers::part_ties(&header) {
            None => fault("it is no partition".into()),
            Some(own) if own.id != ties.id => {
                fault(format!("it is of another dataset, {}, not of {}", own.id, ties.id))
            }
            Some(own) if own.index != k as u64 => {
                fault(format!("it is partition {}, not {k}", own.index))
            }
            Some(own) if own.generation != ties.generation => fault(format!(
                "it is of generation {}, the master of {}",
                own.generation, ties.generation
            )),
            Some(own)
                if own.size != ties.sizes[k] || headers::size_of(&header) != Some(own.size) =>
            {
                fault("its sizes are not those that the master states".into())
            }
            Some(_) if !same_shape(&header, &expected) => {
                fault("its variables are not those that the master states".into())
            }
            Some(_) if state.header.records < records => fault(format!(
                "it has {} records, the master states {records}",
                state.header.records
            )),
            Some(_) => match (file_len, header.end()) {
                (Ok(len), Some(end)) if len >= end => Ok(()),
                (Ok(len), Some(end)) => fault(format!("it has {len} bytes of {end}")),
                (Ok(_), None) => fault("it ends beyond what a file can hold".into()),
                (Err(error), _) => Err(error.into()),
            },
        };
        state.agree(checked)?;
        state.stated_records = state.header.records;
        state.header.records = records;
        Ok(Dataset::new(state, options.clone()))
    }

    /// Makes what is wrong with partitions known to all. Collective.
    fn learn_problems(
        &mut self,
        comm: &dyn Comm,
        problems: &[(usize, String)],
    ) -> Result<(), ArrayError> {
        let line = |(k, reason): &(usize, String)| format!("{k}\t{}", reason.replace('\n', " "));
        let own: Vec<String> = problems.iter().map(line).collect();
        for text in comm.allgather(own.join("\n").as_bytes())? {
            for line in String::from_utf8_lossy(&text).lines() {
                let Some((k, reason)) = line.split_once('\t') else { continue };
                let info = k.parse().ok().and_then(|k: usize| self.infos.get_mut(k));
                if let Some(info) = info {
                    // In a group each rank has an error; the first one says most.
                    info.missing.get_or_insert_with(|| reason.to_owned());
                }
            }
        }
        let missing = |part: &Part| self.infos[part.index].missing.is_some();
        self.parts.retain(|part| !missing(part));
        Ok(())
    }
}

/// Whether both have the same variables, of the same types and shapes.
pub(super) fn same_shape(own: &crate::format::Header, expected: &crate::format::Header) -> bool {
    own.format == expected.format
        && own.variables.len() == expected.variables.len()
        && own.variables.iter().zip(&expected.variables).all(|(one, other)| {
            one.name == other.name
                && one.external == other.external
                && own.is_record(one) == expected.is_record(other)
                && own.shape(one) == expected.shape(other)
        })
}

/// An error's words, without the name of the file in front of them.
fn without(path: &Path, error: &impl std::fmt::Display) -> String {
    let text = error.to_string();
    let name = path.display().to_string();
    match text.strip_prefix(&name) {
        Some(rest) => rest.trim_start_matches(&[':', ' '][..]).to_owned(),
        None => text,
    }
}
