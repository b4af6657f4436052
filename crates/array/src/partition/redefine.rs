//! Redefinition of a partitioned dataset.
//!
//! The master is marked as unfinished before the first change, and finished after the last one: a
//! process that is killed in between leaves a master that no program opens.

use super::Partitioned;
use super::partition_io::for_each_partition;
use super::scheme::PAR_DIM_ID;
use crate::file_state::{Durability, FileState};
use crate::format::{Header, Values, Variable};
use crate::{ArrayError, Dataset, Options, netcdf4, relocate};

/// Ends a redefinition. The header of `state` has the new definitions, `before` the old ones.
/// Collective.
pub(crate) fn redefine(
    mut state: FileState,
    mut partitioned: Partitioned,
    before: &Header,
    options: Options,
) -> Result<Dataset, ArrayError> {
    let unchanged = state.header == *before;
    let old_master = partitioned.master.clone();
    partitioned.logical = state.header.clone();
    partitioned.filled.clone_from(&state.filled);
    if unchanged {
        state.header = old_master;
        partitioned.mask_filled(&mut state);
        for n in 0..partitioned.own.len() {
            let filled = partitioned.filled_in(partitioned.own[n].index);
            let part = &mut partitioned.own[n].data.state;
            part.filled = filled;
            part.update_record_info();
        }
        partitioned.update_derived();
        return Ok(Dataset::with(state, options, Some(Box::new(partitioned))));
    }
    let scheme = check_divisions(&partitioned.logical, before)
        .and_then(|()| partitioned.scheme.extended(&partitioned.logical, &options.partitioning));
    partitioned.scheme = state.agree(scheme)?;
    partitioned.table.generation += 1;
    partitioned.stale_coordinates = true;
    if state.header.format.is_hdf5() {
        return redefine_netcdf4(state, partitioned, options);
    }
    // Definitions beyond the limits of the format are refused before anything is written.
    let arranged = partitioned.arrange_own();
    let old_headers = state.agree(arranged)?;
    let comm = std::sync::Arc::clone(&state.comm);
    partitioned.share_sizes(comm.as_ref())?;
    partitioned.arrange_master(&mut state, Some(&old_master))?;

    // Space is allocated first: if there is none, nothing has changed.
    let jobs = partitioned.own.iter_mut().zip(&old_headers).collect();
    let reserved = for_each_partition(jobs, |part, before| {
        relocate::reserve(&mut part.data.state, before).map(|_| ())
    });
    state.agree(reserved)?;
    drop(relocate::reserve(&mut state, &old_master)?);

    let was_unfinished = state.unfinished;
    if !was_unfinished {
        state.on_rank_0(FileState::mark_unfinished)?;
        state.file.sync()?;
    }
    // Independent handles have the old layout.
    let closed = std::mem::take(&mut partitioned.independent)
        .into_values()
        .map(|handle| handle.data.state.file.close().map_err(ArrayError::from));
    let closed = closed.fold(Ok(()), Result::and);
    let changed = closed.and(partitioned.write_definitions_of_own(&old_headers, !was_unfinished));
    state.agree(changed)?;
    state.write_definition(Some(&old_master))?;
    if !was_unfinished {
        state.finish(Durability::Durable)?;
    }
    partitioned.update_logical(&state.header);
    partitioned.update_derived();
    Ok(Dataset::with(state, options, Some(Box::new(partitioned))))
}

/// The same for a dataset of netCDF-4 files, which nobody sees before all of them are committed as
/// one. Collective.
fn redefine_netcdf4(
    mut state: FileState,
    mut partitioned: Partitioned,
    options: Options,
) -> Result<Dataset, ArrayError> {
    let checked = netcdf4::check_layouts(&partitioned.logical, &options);
    let arranged = checked.and_then(|()| partitioned.arrange_own());
    state.agree(arranged)?;
    let jobs = partitioned.own.iter_mut().map(|part| (part, ())).collect();
    let defined = for_each_partition(jobs, |part, ()| {
        let Dataset { state, options, .. } = &mut part.data;
        netcdf4::define(state, options)
    });
    state.agree(defined)?;
    partitioned.define_master(&mut state, &options)?;
    partitioned.update_logical(&state.header);
    partitioned.update_derived();
    let mut data = Dataset::with(state, options, Some(Box::new(partitioned)));
    // Ranks that access partitions of other groups find the new variables.
    data.commit_partitioned(Durability::Buffered)?;
    Ok(data)
}

fn par_dim_id(variable: &Variable) -> Option<&Values> {
    let mut attributes = variable.attributes.iter();
    attributes.find(|attribute| attribute.name == PAR_DIM_ID).map(|attribute| &attribute.values)
}

/// An error if an existing variable is to be divided in another way.
fn check_divisions(now: &Header, before: &Header) -> Result<(), ArrayError> {
    for (variable, old) in now.variables.iter().zip(&before.variables) {
        if par_dim_id(variable) != par_dim_id(old) {
            return Err(ArrayError::Definition {
                what: format!("{PAR_DIM_ID} of variable '{}'", variable.name),
                reason: "its data is in place: the attribute has an effect only when a variable is defined".into(),
            });
        }
    }
    Ok(())
}

impl Partitioned {
    /// Sets the fill modes of the master: only of variables that are not divided.
    pub(super) fn mask_filled(&self, state: &mut FileState) {
        if state.header.format.is_hdf5() {
            // The file has the fill modes, also that of a scalar that represents a variable.
            state.filled.clone_from(&self.filled);
            return;
        }
        let divided = self.scheme.variables.iter().map(Option::is_some);
        state.filled =
            self.filled.iter().zip(divided).map(|(&filled, divided)| filled && !divided).collect();
    }

    /// Sets the new headers of this rank's partitions in memory; returns the old ones.
    fn arrange_own(&mut self) -> Result<Vec<Header>, ArrayError> {
        let mut new = Vec::new();
        for part in &self.own {
            let state = &part.data.state;
            let header = self.partition_header(part.index, &state.alignment, Some(&state.header));
            new.push((header?, self.filled_in(part.index)));
        }
        let mut old = Vec::new();
        for (part, (mut header, filled)) in self.own.iter_mut().zip(new) {
            let state = &mut part.data.state;
            header.records = state.header.records;
            old.push(std::mem::replace(&mut state.header, header));
            state.filled = filled;
        }
        Ok(old)
    }

    /// Applies the new headers to the files of this rank's partitions. Collective in the group.
    fn write_definitions_of_own(
        &mut self,
        before: &[Header],
        finish: bool,
    ) -> Result<(), ArrayError> {
        let jobs = self.own.iter_mut().zip(before).collect();
        for_each_partition(jobs, |part, before| {
            let state = &mut part.data.state;
            state.write_definition(Some(before))?;
            state.update_record_info();
            if finish { state.finish(Durability::Durable) } else { Ok(()) }
        })
    }
}
