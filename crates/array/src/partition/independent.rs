//! Independent access to divided variables: a rank opens the partitions that it needs by itself.
//!
//! Every rank that accesses a partition independently has a handle of its own, and the locks of
//! these handles do not exclude each other. So an independent handle writes the requested bytes
//! only: sieving is disabled.
//!
//! Where the elements of a netCDF-4 partition are, the file says as of the last commit, and its
//! group knows since then. A handle of a partition of the own group has what the group knows; one
//! of another partition is opened again after each commit, and learns of elements that came into
//! being since ([`super::shared_placements`]).

use std::ops::Range;

use striate_comm::alone;
use striate_file::{File, Hints, Method, MethodChoice, Switch};

use super::commit::complete_commit;
use super::headers::partition_identity;
use super::open::read_netcdf4;
use super::partition_io::PartitionPiece;
use super::piece_bytes::{len, pack, pieces_to_read, pieces_to_write, unpack};
use super::request::{MappedRequest, RequestQueue};
use super::shared_placements::KnownPlacements;
use super::subfiles;
use super::{IndependentHandle, Partitioned};
use crate::access::{Access, IoMode};
use crate::file_state::FileState;
use crate::header_reading::{UnfinishedFile, read_header};
use crate::netcdf4::CHUNK_CACHE;
use crate::stream::{ReadStream, WriteStream};
use crate::{ArrayError, Dataset, OpenMode, Options};

/// The partitions that have requests.
fn requested(
    queues: &[RequestQueue<MappedRequest>],
) -> impl Iterator<Item = (usize, &RequestQueue<MappedRequest>)> {
    queues.iter().enumerate().filter(|(_, queue)| !queue.items.is_empty())
}

/// The ranges of a stream that are moved one after the other, each of at most `buffer` bytes.
fn rounds(queue: &RequestQueue<MappedRequest>, buffer: u64) -> impl Iterator<Item = Range<u64>> {
    let count = queue.bytes().div_ceil(buffer);
    (0..count).map(move |round| queue.round(round, buffer)).filter(|range| !range.is_empty())
}

impl Dataset {
    /// Writes to partitions. Independent.
    pub(crate) fn put_divided_independent(
        &mut self,
        accesses: &[Access<WriteStream<'_>>],
        queues: &[RequestQueue<MappedRequest>],
    ) -> Result<(), ArrayError> {
        let buffer = self.options.partitioning.buffer;
        let limit = self.options.chunk_cache.unwrap_or(CHUNK_CACHE);
        for (k, queue) in requested(queues) {
            self.refresh_handle(k)?;
            let Some(partitioned) = self.partitioned.as_deref_mut() else { continue };
            for range in rounds(queue, buffer) {
                let bytes = pack(accesses, queue, range.clone())?;
                let Some(handle) = partitioned.independent.get_mut(&k) else { continue };
                let netcdf4 = handle.data.state.netcdf4.as_deref();
                let (waiting, direct): (Vec<_>, Vec<_>) = pieces_to_write(queue, range, &bytes)
                    .map(|(_, piece)| piece)
                    .partition(|piece| netcdf4.is_some_and(|it| it.has_index(piece.variable)));
                direct.iter().try_for_each(|piece| handle.check_extent(k, piece))?;
                handle.data.put_pieces(&direct, IoMode::Independent)?;
                partitioned.defer(k, waiting.into_iter(), limit, &mut self.state)?;
            }
        }
        Ok(())
    }

    /// Reads from partitions. Independent.
    pub(crate) fn get_divided_independent(
        &mut self,
        accesses: &mut [Access<ReadStream<'_>>],
        queues: &[RequestQueue<MappedRequest>],
    ) -> Result<(), ArrayError> {
        let buffer = self.options.partitioning.buffer;
        for (k, queue) in requested(queues) {
            self.refresh_handle(k)?;
            let Some(partitioned) = self.partitioned.as_deref_mut() else { continue };
            let is_own = partitioned.is_own(k);
            for range in rounds(queue, buffer) {
                let mut bytes = vec![0; len(&range) as usize];
                let Some(handle) = partitioned.independent.get_mut(&k) else { continue };
                let pieces: Vec<_> = pieces_to_read(queue, range.clone(), &mut bytes)
                    .map(|(_, piece)| piece)
                    .collect();
                for piece in &pieces {
                    handle.check_extent(k, piece)?;
                    if partitioned.has_unshared_places && !is_own {
                        handle.check_committed(k, piece.variable)?;
                    }
                }
                handle.data.get_pieces(pieces, IoMode::Independent)?;
                partitioned.add_deferred(k, queue, range.clone(), &mut bytes, &mut self.state)?;
                unpack(accesses, queue, range, &bytes)?;
            }
        }
        Ok(())
    }

    /// Opens the handle by which this rank accesses a partition independently, if it has none or
    /// one that does not know the state of the partition.
    fn refresh_handle(&mut self, k: usize) -> Result<(), ArrayError> {
        let (hints, mode) = (self.state.file.hints().clone(), self.state.mode);
        let options = Options { hints: unsieved(hints), ..self.options.clone() };
        let Some(partitioned) = self.partitioned.as_deref_mut() else { return Ok(()) };
        let state = partitioned.state_of(k);
        if partitioned.independent.get(&k).is_none_or(|handle| handle.state != state) {
            let data = partitioned.open_independent(k, mode, &options)?;
            let handle = IndependentHandle { data, state, known: KnownPlacements::default() };
            if let Some(old) = partitioned.independent.insert(k, handle) {
                old.data.state.file.close()?;
            }
        }
        // After a call that has failed, not all ranks may know the places that it gave.
        if !partitioned.is_own(k) && !partitioned.has_unshared_places {
            partitioned.update_handle(k);
        }
        Ok(())
    }
}

impl IndependentHandle {
    /// An error if a piece has elements that came into being with a call that has failed.
    fn check_extent<B>(&self, k: usize, piece: &PartitionPiece<B>) -> Result<(), ArrayError> {
        let header = &self.data.state.header;
        if !header.format.is_hdf5() {
            return Ok(());
        }
        let shape = header.shape(&header.variables[piece.variable]);
        let is_known = (0..shape.len())
            .all(|dimension| piece.hyperslab.ends_before(dimension, shape[dimension]));
        if is_known { Ok(()) } else { Err(self.unknown(k, piece.variable)) }
    }

    /// An error if a variable has chunks whose places are not known outside of the group.
    fn check_committed(&self, k: usize, variable: usize) -> Result<(), ArrayError> {
        match &self.data.state.netcdf4 {
            Some(netcdf4) if netcdf4.has_index(variable) => Err(self.unknown(k, variable)),
            _ => Ok(()),
        }
    }

    fn unknown(&self, k: usize, variable: usize) -> ArrayError {
        ArrayError::Access {
            call: "independent access",
            variable: self.data.state.header.variables[variable].name.clone(),
            reason: format!(
                "where it is in partition {k}, of another group of ranks, is not known since a \
                 collective call failed: call sync first, or a collective form"
            ),
        }
    }
}

/// The same hints with sieved writes disabled.
fn unsieved(mut hints: Hints) -> Hints {
    hints.ds_write = Switch::Disable;
    if hints.method == MethodChoice::Fixed(Method::Sieve) {
        hints.method = MethodChoice::Auto;
    }
    hints
}

impl Partitioned {
    fn is_own(&self, k: usize) -> bool {
        self.own.iter().any(|part| part.index == k)
    }

    /// A number that is another one when a handle of a partition has to be opened again.
    fn state_of(&self, k: usize) -> u64 {
        if self.is_own(k) { self.changes } else { self.commits.get(k).copied().unwrap_or(0) }
    }

    fn open_independent(
        &self,
        k: usize,
        mode: OpenMode,
        options: &Options,
    ) -> Result<Dataset, ArrayError> {
        let path = self.files[k].clone();
        let mut file = File::open(&alone(), &path, mode.file_mode(), &options.hints)?;
        if self.logical.format.is_hdf5() {
            return self.open_independent_netcdf4(k, file, mode, options);
        }
        // The header of a new partition is complete from the end of its definition on, though its
        // magic number still marks it as unfinished.
        let mut header = read_header(&mut file, UnfinishedFile::Accept)?;
        let is_own = if self.foreign {
            subfiles::index_of(&header) == Some(k as u64)
        } else {
            partition_identity(&header).is_some_and(|identity| {
                (identity.id == self.table.id) && (identity.generation == self.table.generation)
            })
        };
        if !is_own {
            let reason = "it is not the one that it was when the dataset was opened".into();
            return Err(ArrayError::Partition { file: path.display().to_string(), reason });
        }
        header.records = self.logical.records;
        Ok(Dataset::new(FileState::new(file, path, header, options, mode)?, options.clone()))
    }

    fn open_independent_netcdf4(
        &self,
        k: usize,
        mut file: File,
        mode: OpenMode,
        options: &Options,
    ) -> Result<Dataset, ArrayError> {
        let path = self.files[k].clone();
        let state = if let Some(own) = self.own.iter().find(|part| part.index == k) {
            let known = &own.data.state;
            let mut state = FileState::new(file, path, known.header.clone(), options, mode)?;
            state.netcdf4 = known.netcdf4.as_ref().map(|it| Box::new(it.replica(options)));
            state
        } else {
            // A writer has completed all commits.
            let decided = if mode.is_writable() { &[][..] } else { &self.decided };
            let superblock = complete_commit(&mut file, decided, k, false)?;
            let mut state = read_netcdf4(file, &path, options, mode, superblock.as_ref())?;
            if mode.is_writable()
                && let Some(netcdf4) = &mut state.netcdf4
            {
                netcdf4.share_with_writers();
            }
            // They may be longer now than they were at the last commit.
            let mut logical = self.logical.clone();
            let unlimited = logical.dimensions.iter_mut().filter(|it| it.is_unlimited());
            unlimited.for_each(|dimension| dimension.len = 0);
            self.arranged(k, &logical, state, mode.is_writable())?
        };
        Ok(Dataset::new(state, options.clone()))
    }
}
