//! Fill values of new variables and new records, written collectively: each rank writes an equal
//! share of the bytes.

use striate_datatype::Datatype;
use striate_file::{FileError, Gather, Memory, Placement};

use crate::ArrayError;
use crate::file_state::FileState;

/// A stream that repeats a value.
#[derive(Debug)]
pub(crate) struct Pattern {
    pub(crate) value: Vec<u8>,
    /// Byte of the value at which the stream begins.
    pub(crate) start: u64,
    pub(crate) len: u64,
}

impl Gather for Pattern {
    fn stream_len(&self) -> u64 {
        self.len
    }

    fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError> {
        let mut value = self.value.clone();
        let first = (self.start + position) % (value.len() as u64).max(1);
        value.rotate_left(first as usize);
        for chunk in stream.chunks_mut(value.len().max(1)) {
            chunk.copy_from_slice(&value[..chunk.len()]);
        }
        Ok(())
    }
}

/// Fills those variables from number `first` on that have fill mode. Collective.
pub(crate) fn fill_new_variables(state: &mut FileState, first: usize) -> Result<(), ArrayError> {
    for index in first..state.header.variables.len() {
        if state.filled[index] {
            let records = if state.header.is_record(&state.header.variables[index]) {
                0..state.header.records
            } else {
                0..1
            };
            fill(state, index, records)?;
        }
    }
    Ok(())
}

/// Fills records of all record variables that have fill mode. Collective.
pub(crate) fn fill_records(
    state: &mut FileState,
    records: std::ops::Range<u64>,
) -> Result<(), ArrayError> {
    for index in 0..state.header.variables.len() {
        if state.filled[index] && state.header.is_record(&state.header.variables[index]) {
            fill(state, index, records.clone())?;
        }
    }
    Ok(())
}

/// Fills a range of records of a variable; a fixed variable counts as one record. Collective.
fn fill(
    state: &mut FileState,
    index: usize,
    slabs: std::ops::Range<u64>,
) -> Result<(), ArrayError> {
    let far = || ArrayError::Access {
        call: "fill",
        variable: state.header.variables[index].name.clone(),
        reason: "it reaches beyond what a file can hold".into(),
    };
    let variable = &state.header.variables[index];
    let slab = state.header.slab_size(variable).ok_or_else(far)?;
    let distance = if state.header.is_record(variable) {
        state.header.record_size().ok_or_else(far)?
    } else {
        slab
    };
    let total = slab.checked_mul(slabs.end - slabs.start).ok_or_else(far)?;
    let first = slabs.start.checked_mul(distance).and_then(|skip| skip.checked_add(variable.begin));
    let (rank, ranks) = (state.comm.rank() as u128, state.comm.size() as u128);
    let cut = |rank: u128| (u128::from(total) * rank / ranks) as u64;
    let (start, end) = (cut(rank), cut(rank + 1));
    let placement = Placement {
        displacement: first.ok_or_else(far)?,
        datatype: Datatype::resized(&Datatype::bytes(slab)?, 0, distance as i64)?,
        start,
        len: end - start,
    };
    let size = variable.external.size();
    let value = state.fill_value(index)[..size as usize].to_vec();
    let pattern = Pattern { value, start: start % size, len: end - start };
    state.file.write_in_all(&placement, Memory::gathered(&pattern))?;
    Ok(())
}
