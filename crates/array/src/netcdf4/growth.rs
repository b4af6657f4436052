//! Unlimited dimensions: ranks agree on lengths, new chunks get their places, and new elements of
//! variables in fill mode their values.
//!
//! Growth moves no data. All ranks must know of it before any of them writes beyond the old length,
//! since new chunks lie at the end of the file: so only collective calls grow.

use striate_file::Memory;

use super::{Netcdf4State, hdf5_error};
use crate::access::Access;
use crate::file_state::FileState;
use crate::fill::Pattern;
use crate::partition::Hyperslab;
use crate::slab::placement_of;
use crate::stream::{ReadStream, WriteStream};
use crate::{ArrayError, Dataset, DimensionId};

impl Dataset {
    /// Extends an unlimited dimension of a netCDF-4 file to at least `len`; new elements of
    /// variables in fill mode are filled. Collective; the largest length of all ranks is used.
    pub fn grow_dimension(&mut self, dimension: DimensionId, len: u64) -> Result<(), ArrayError> {
        let header = &self.state.header;
        let known = header.dimensions.get(dimension.index());
        let refuse = |reason: &str| {
            let what = format!("growth of dimension number {}", dimension.0);
            Err(ArrayError::Definition { what, reason: reason.into() })
        };
        let possible = match known {
            _ if !self.state.mode.is_writable() => {
                refuse("the dataset was opened for reading only")
            }
            Some(known) if known.is_unlimited() && header.format.is_hdf5() => Ok(()),
            _ => refuse("it is no unlimited dimension of a netCDF-4 file"),
        };
        let arenas = u64::from(self.has_arenas());
        let ((), [len, arenas]) = self.state.agree_with_max(possible, [len, arenas])?;
        let now = self.state.header.dimensions[dimension.index()].len;
        let grows = len > now;
        if arenas > 0 && grows {
            self.settle()?;
        }
        self.grow_lengths(&[(dimension.0, len.max(now))])?;
        // Ranks that write to partitions of other groups know the new elements there.
        self.share_places()
    }

    /// Sets the lengths of unlimited dimensions, which are the same on all ranks, in all files.
    /// Collective.
    fn grow_lengths(&mut self, lengths: &[(u32, u64)]) -> Result<(), ArrayError> {
        self.state.grow_to(lengths)?;
        let Some(partitioned) = &mut self.partitioned else { return Ok(()) };
        let grown = partitioned.grow_to(lengths);
        self.state.agree(grown)
    }

    /// Agrees on the lengths that the accesses of all ranks need, grows the dimensions, and finds
    /// the placements of accesses to chunks. Collective for a netCDF-4 file; others are not
    /// changed.
    pub(crate) fn grown<'m>(
        &mut self,
        accesses: Result<Vec<Access<WriteStream<'m>>>, ArrayError>,
    ) -> Result<Vec<Access<WriteStream<'m>>>, ArrayError> {
        let Some(netcdf4) = &self.state.netcdf4 else { return accesses };
        let unlimited = self
            .partitioned
            .as_ref()
            .map_or_else(|| netcdf4.unlimited.clone(), |partitioned| partitioned.unlimited());
        let unplaced = netcdf4.unplaced();
        let mut accesses = if unlimited.is_empty() && unplaced.is_empty() {
            accesses?
        } else {
            let accesses = accesses.and_then(|accesses| {
                if accesses.iter().any(|access| !access.growth.is_empty())
                    && let Some(partitioned) = &self.partitioned
                {
                    partitioned.needs_all("growth")?;
                }
                Ok(accesses)
            });
            let dimensions = &self.state.header.dimensions;
            let mut numbers = vec![0];
            numbers.extend(unlimited.iter().map(|&dimension| dimensions[dimension as usize].len));
            for (dimension, len) in
                accesses.iter().flatten().flat_map(|access| access.growth.iter().copied())
            {
                if let Some(at) = unlimited.iter().position(|&one| one == dimension) {
                    numbers[at + 1] = numbers[at + 1].max(len);
                }
            }
            let is_written = |variable: &usize| {
                accesses.iter().flatten().any(|access| access.variable == *variable)
            };
            numbers.extend(unplaced.iter().map(|variable| u64::from(is_written(variable))));
            numbers.push(u64::from(self.has_arenas()));
            let accesses = self.state.agree_with_list(accesses, &mut numbers)?;
            let any_arenas = numbers.pop().is_some_and(|any| any > 0);
            let mut numbers = numbers.into_iter().skip(1);
            let lengths: Vec<_> = unlimited.iter().copied().zip(numbers.by_ref()).collect();
            let written: Vec<usize> = unplaced
                .into_iter()
                .zip(numbers)
                .filter(|(_, any)| *any > 0)
                .map(|it| it.0)
                .collect();
            if any_arenas && (!written.is_empty() || self.state.grows(&lengths)) {
                self.settle()?;
            }
            self.grow_lengths(&lengths)?;
            for variable in written {
                self.state.place_variable(variable)?;
            }
            accesses
        };
        for access in &mut accesses {
            self.place_write(access)?;
        }
        Ok(accesses)
    }

    /// Whether this rank has taken space of which the others do not know: before anything else
    /// gets space, they must.
    pub(super) fn has_arenas(&self) -> bool {
        self.state.netcdf4.as_ref().is_some_and(|netcdf4| netcdf4.deferred.has_arenas())
    }

    /// Finds the placement of a write to chunks without filters.
    pub(crate) fn place_write(
        &self,
        access: &mut Access<WriteStream<'_>>,
    ) -> Result<(), ArrayError> {
        let Some(netcdf4) = self.netcdf4_of(access.variable) else { return Ok(()) };
        netcdf4.place(access, self.state.header.variables[access.variable].external.size())
    }

    /// The file that has the elements of a variable, unless they are in partitions.
    fn netcdf4_of(&self, variable: usize) -> Option<&Netcdf4State> {
        let divides = self.partitioned.as_ref().is_some_and(|it| it.divides(variable));
        self.state.netcdf4.as_deref().filter(|_| !divides)
    }

    /// Finds the placement of a read of chunks without filters.
    pub(crate) fn place_read(&self, access: &mut Access<ReadStream<'_>>) -> Result<(), ArrayError> {
        let Some(netcdf4) = self.netcdf4_of(access.variable) else { return Ok(()) };
        netcdf4.place(access, self.state.header.variables[access.variable].external.size())
    }

    /// An error if an independent write would make an unlimited dimension grow, or need space.
    pub(crate) fn check_no_growth(
        &self,
        accesses: &[Access<WriteStream<'_>>],
    ) -> Result<(), ArrayError> {
        let unplaced = self.state.netcdf4.as_ref().map(|it| it.unplaced()).unwrap_or_default();
        if let Some(access) = accesses.iter().find(|access| unplaced.contains(&access.variable)) {
            return Err(ArrayError::Access {
                call: "put",
                variable: self.state.header.variables[access.variable].name.clone(),
                reason:
                    "it has no place in the file yet, of which all ranks must know: call put_all"
                        .into(),
            });
        }
        let Some(access) = accesses.iter().find(|access| !access.growth.is_empty()) else {
            return Ok(());
        };
        Err(independent(&self.state, access.variable))
    }
}

/// The error of an independent write that would make an unlimited dimension longer.
pub(super) fn independent(state: &FileState, variable: usize) -> ArrayError {
    ArrayError::Access {
        call: "put",
        variable: state.header.variables[variable].name.clone(),
        reason: "it makes an unlimited dimension longer, of which all ranks must know: call \
                 grow_dimension first, or put_all"
            .into(),
    }
}

impl FileState {
    /// Gives a contiguous variable a place, and its elements their fill values. Collective.
    fn place_variable(&mut self, variable: usize) -> Result<(), ArrayError> {
        let Some(netcdf4) = &mut self.netcdf4 else { return Ok(()) };
        let claimed = netcdf4.plan.claim(netcdf4.numbers[variable], &[]);
        let address = claimed.map_err(|error| hdf5_error(&self.file, error))?;
        self.header.variables[variable].begin = address.0;
        fill_new(self, variable, None)
    }

    /// Whether unlimited dimensions are shorter than these lengths.
    fn grows(&self, lengths: &[(u32, u64)]) -> bool {
        let mut lengths = lengths.iter();
        lengths.any(|&(dimension, len)| self.header.dimensions[dimension as usize].len < len)
    }

    /// Sets the lengths of unlimited dimensions, which are the same on all ranks. Collective.
    pub(crate) fn grow_to(&mut self, lengths: &[(u32, u64)]) -> Result<(), ArrayError> {
        let is_new =
            |&&(dimension, len): &&(u32, u64)| self.header.dimensions[dimension as usize].len < len;
        let new: Vec<(u32, u64)> = lengths.iter().filter(is_new).copied().collect();
        if new.is_empty() {
            return Ok(());
        }
        let before: Vec<Vec<u64>> =
            self.header.variables.iter().map(|variable| self.header.shape(variable)).collect();
        let Some(netcdf4) = &mut self.netcdf4 else { return Ok(()) };
        for &(dimension, len) in &new {
            let grown = netcdf4.plan.grow(dimension as usize, len);
            grown.map_err(|error| hdf5_error(&self.file, error))?;
            self.header.dimensions[dimension as usize].len = len;
        }
        for (variable, before) in before.iter().enumerate() {
            if self.filled[variable] {
                fill_new(self, variable, Some(before))?;
            }
        }
        Ok(())
    }
}

/// Fills the elements of a variable that are beyond its shape before; all if there was none. Chunks
/// that are stored by an index need nothing: where one is missing, readers see fill values.
/// Collective.
pub(super) fn fill_new(
    state: &mut FileState,
    variable: usize,
    before: Option<&[u64]>,
) -> Result<(), ArrayError> {
    let Some(netcdf4) = &state.netcdf4 else { return Ok(()) };
    // Descriptors of nothing are zeros, which is what new space of a file has.
    let of = state.header.variables[variable].external;
    if netcdf4.has_index(variable) || state.header.has_variable_length(of) {
        return Ok(());
    }
    let shape = state.header.shape(&state.header.variables[variable]);
    if shape.is_empty() {
        // One element, which is never new again.
        return before.map_or_else(|| fill(state, variable, Vec::new(), Vec::new()), |_| Ok(()));
    }
    let none = vec![0; shape.len()];
    let before = before.unwrap_or(&none);
    for dimension in 0..shape.len() {
        // What is new along this dimension: the dimensions before it as they were, those after it
        // as they are. A new variable is new along the first one.
        let mut start = vec![0; shape.len()];
        let mut count: Vec<u64> = before[..dimension].to_vec();
        start[dimension] = before[dimension];
        count.push(shape[dimension].saturating_sub(before[dimension]));
        count.extend_from_slice(&shape[dimension + 1..]);
        if !count.contains(&0) {
            fill(state, variable, start, count)?;
        }
    }
    Ok(())
}

/// Fills a box of elements; each rank writes a share along the longest dimension. Collective.
fn fill(
    state: &mut FileState,
    variable: usize,
    mut start: Vec<u64>,
    mut count: Vec<u64>,
) -> Result<(), ArrayError> {
    let (rank, ranks) = (state.comm.rank() as u128, state.comm.size() as u128);
    let longest = (0..count.len()).max_by_key(|&dimension| count[dimension]);
    match longest {
        Some(dimension) => {
            let cut = |rank: u128| (u128::from(count[dimension]) * rank / ranks) as u64;
            let (low, high) = (cut(rank), cut(rank + 1));
            start[dimension] += low;
            count[dimension] = high - low;
        }
        // One element.
        None if rank > 0 => {
            state.file.write_in_all(&crate::placement::empty()?, &[])?;
            return Ok(());
        }
        None => {}
    }
    let stride = vec![1; count.len()];
    let hyperslab = Hyperslab { start, count, stride };
    let of = &state.header.variables[variable];
    let size = of.external.size();
    let fill = state.netcdf4.as_ref().map(|netcdf4| netcdf4.fills[variable].clone());
    let len = hyperslab.elements() * size;
    let pattern = Pattern { value: fill.unwrap_or_default(), start: 0, len };
    let placement = match &state.netcdf4 {
        Some(netcdf4) if netcdf4.is_placed_later(variable) => {
            netcdf4.placement_of(variable, &hyperslab, size)?
        }
        _ => placement_of(&state.header, of, None, &hyperslab)?,
    };
    state.file.write_in_all(&placement, Memory::gathered(&pattern))?;
    Ok(())
}
