//! Redefining a partitioned dataset: the master is marked as unfinished first and unmarked last, so that
//! whoever is killed in between leaves nothing that is taken for a dataset.

use super::Parted;
use super::scheme::PAR_DIM_ID;
use super::work::each_with;
use crate::format::{Header, Values, Variable};
use crate::state::State;
use crate::{ArrayError, Dataset, Options, relocate};

/// Ends a redefinition. The state's header is what is defined now; `before` is what was. Collective.
pub(crate) fn redefine(
    mut state: State,
    mut parted: Parted,
    before: &Header,
    options: Options,
) -> Result<Dataset, ArrayError> {
    let unchanged = state.header == *before;
    let old_master = parted.master.clone();
    parted.logical = state.header.clone();
    parted.filled.clone_from(&state.filled);
    if unchanged {
        state.header = old_master;
        parted.mask_filled(&mut state);
        for n in 0..parted.parts.len() {
            let filled = parted.filled_in(parted.parts[n].index);
            let part = &mut parted.parts[n].data.state;
            part.filled = filled;
            part.derive();
        }
        parted.derive();
        return Ok(Dataset::with(state, options, Some(Box::new(parted))));
    }
    let scheme = unmoved(&parted.logical, before)
        .and_then(|()| parted.scheme.extended(&parted.logical, &options.partitioning));
    parted.scheme = state.agree(scheme)?;
    parted.ties.generation += 1;
    parted.stale_coordinates = true;
    // What cannot be held is refused before anything is written.
    let arranged = parted.arrange_parts();
    let old_parts = state.agree(arranged)?;
    let comm = std::sync::Arc::clone(&state.comm);
    parted.learn_sizes(comm.as_ref())?;
    parted.arrange_master(&mut state, Some(&old_master))?;

    // If there is no room for it, everything stays as it is.
    let jobs = parted.parts.iter_mut().zip(&old_parts).collect();
    let reserved =
        each_with(jobs, |part, before| relocate::reserve(&mut part.data.state, before).map(|_| ()));
    state.agree(reserved)?;
    drop(relocate::reserve(&mut state, &old_master)?);

    let was_unfinished = state.unfinished;
    if !was_unfinished {
        state.on_first(State::mark_unfinished)?;
        state.file.sync()?;
    }
    // Handles that ranks have by themselves know the old layout.
    let closed = std::mem::take(&mut parted.opened)
        .into_values()
        .map(|part| part.state.file.close().map_err(ArrayError::from));
    let closed = closed.fold(Ok(()), Result::and);
    let changed = closed.and(parted.lay_down_parts(&old_parts, !was_unfinished));
    state.agree(changed)?;
    state.lay_down(Some(&old_master))?;
    if !was_unfinished {
        state.finish(true)?;
    }
    parted.see_master(&state.header);
    parted.derive();
    Ok(Dataset::with(state, options, Some(Box::new(parted))))
}

fn par_dim_id(variable: &Variable) -> Option<&Values> {
    let mut attributes = variable.attributes.iter();
    attributes.find(|attribute| attribute.name == PAR_DIM_ID).map(|attribute| &attribute.values)
}

/// An error if a variable that is there asks to be divided in another way.
fn unmoved(now: &Header, before: &Header) -> Result<(), ArrayError> {
    for (variable, old) in now.variables.iter().zip(&before.variables) {
        if par_dim_id(variable) != par_dim_id(old) {
            return Err(ArrayError::Definition {
                what: format!("{PAR_DIM_ID} of variable '{}'", variable.name),
                reason: "its data is where it is: it counts when a variable is defined".into(),
            });
        }
    }
    Ok(())
}

impl Parted {
    /// Master variables that are filled, in the master's state.
    pub(super) fn mask_filled(&self, state: &mut State) {
        let divided = self.scheme.variables.iter().map(Option::is_some);
        state.filled =
            self.filled.iter().zip(divided).map(|(&filled, divided)| filled && !divided).collect();
    }

    /// Gives the partitions of this rank's group their new headers, in memory; returns the old ones.
    fn arrange_parts(&mut self) -> Result<Vec<Header>, ArrayError> {
        let mut new = Vec::new();
        for part in &self.parts {
            let state = &part.data.state;
            let header = self.part_header(part.index, &state.alignment, Some(&state.header));
            new.push((header?, self.filled_in(part.index)));
        }
        let mut old = Vec::new();
        for (part, (mut header, filled)) in self.parts.iter_mut().zip(new) {
            let state = &mut part.data.state;
            header.records = state.header.records;
            old.push(std::mem::replace(&mut state.header, header));
            state.filled = filled;
        }
        Ok(old)
    }

    /// Makes the partitions what their headers say. Collective in the group.
    fn lay_down_parts(&mut self, before: &[Header], finish: bool) -> Result<(), ArrayError> {
        let jobs = self.parts.iter_mut().zip(before).collect();
        each_with(jobs, |part, before| {
            let state = &mut part.data.state;
            state.lay_down(Some(before))?;
            state.derive();
            if finish { state.finish(true) } else { Ok(()) }
        })
    }
}
