//! [`PartitionPiece`]: reading and writing hyperslabs of a partition, as bytes of the file.
//!
//! A rank whose group is itself may have several partitions; [`for_each_partition`] works on them
//! with one thread each, so that all storage targets are busy at the same time.

use std::thread::Builder;

use super::selection::Hyperslab;
use super::{OpenPartition, Partitioned};
use crate::access::{Access, IoMode};
use crate::format::Variable;
use crate::slab::placement_of;
use crate::stream::{ReadStream, WriteStream};
use crate::{ArrayError, Dataset, placement};

/// Threads that a rank uses for its partitions at a time.
const MAX_THREADS: usize = 16;

/// A hyperslab of a variable of a partition, and its bytes as in the file.
#[derive(Debug)]
pub(crate) struct PartitionPiece<B> {
    /// Index of the variable in the partition.
    pub(crate) variable: usize,
    pub(crate) hyperslab: Hyperslab,
    pub(crate) bytes: B,
}

impl<B> PartitionPiece<B> {
    /// The same hyperslab with other bytes.
    pub(super) fn with_bytes<C>(self, bytes: C) -> PartitionPiece<C> {
        PartitionPiece { variable: self.variable, hyperslab: self.hyperslab, bytes }
    }
}

impl Dataset {
    fn piece_access<M>(
        &self,
        variable: usize,
        hyperslab: &Hyperslab,
        memory: M,
    ) -> Result<Access<M>, ArrayError> {
        let known: &Variable = &self.state.header.variables[variable];
        let netcdf4 = self.state.netcdf4.as_ref();
        let is_placed_later = netcdf4.is_some_and(|netcdf4| netcdf4.is_placed_later(variable));
        let record_size = self.state.record_info.record_size;
        let placement = if is_placed_later {
            placement::empty()?
        } else {
            placement_of(&self.state.header, known, record_size, hyperslab)?
        };
        Ok(Access {
            variable,
            placement,
            hyperslab: is_placed_later.then(|| hyperslab.clone()),
            records: 0,
            growth: Vec::new(),
            may_be_out_of_range: false,
            memory,
        })
    }

    /// Writes pieces of a partition.
    pub(crate) fn put_pieces(
        &mut self,
        pieces: &[PartitionPiece<&[u8]>],
        mode: IoMode,
    ) -> Result<(), ArrayError> {
        let accesses = pieces.iter().map(|piece| {
            self.piece_access(piece.variable, &piece.hyperslab, WriteStream::raw(piece.bytes))
        });
        let accesses = accesses.collect();
        self.write_pieces(accesses, mode)
    }

    /// Reads pieces of a partition.
    pub(crate) fn get_pieces(
        &mut self,
        pieces: Vec<PartitionPiece<&mut [u8]>>,
        mode: IoMode,
    ) -> Result<(), ArrayError> {
        let accesses = pieces.into_iter().map(|piece| {
            self.piece_access(piece.variable, &piece.hyperslab, ReadStream::raw(piece.bytes))
        });
        let accesses = accesses.collect();
        self.read_pieces(accesses, mode)
    }
}

impl Partitioned {
    /// Calls `work` for each partition of this rank's group. Collective in the group.
    pub(crate) fn for_each_own(
        &mut self,
        work: impl Fn(&mut Dataset) -> Result<(), ArrayError> + Sync,
    ) -> Result<(), ArrayError> {
        let jobs = self.own.iter_mut().map(|part| (part, ())).collect();
        for_each_partition(jobs, |part, ()| work(&mut part.data))
    }
}

/// Calls `work` for each partition and job, with a thread for each if there are several. All jobs
/// are carried out; the error is the first one in the order of the jobs.
pub(crate) fn for_each_partition<J: Send>(
    jobs: Vec<(&mut OpenPartition, J)>,
    work: impl Fn(&mut OpenPartition, J) -> Result<(), ArrayError> + Sync,
) -> Result<(), ArrayError> {
    let mut jobs = jobs.into_iter();
    let mut all = Ok(());
    loop {
        let some: Vec<_> = jobs.by_ref().take(MAX_THREADS).collect();
        match some.len() {
            0 => return all,
            1 => {
                for (part, job) in some {
                    all = all.and(work(part, job));
                }
            }
            _ => all = all.and(in_threads(some, &work)),
        }
    }
}

fn in_threads<'p, J: Send>(
    jobs: Vec<(&'p mut OpenPartition, J)>,
    work: &(impl Fn(&mut OpenPartition, J) -> Result<(), ArrayError> + Sync),
) -> Result<(), ArrayError> {
    std::thread::scope(|scope| {
        let failed = |part: usize, reason: String| {
            Err(ArrayError::Partition { file: format!("number {part}"), reason })
        };
        let start = |(part, job): (&'p mut OpenPartition, J)| {
            let thread = Builder::new().name(format!("partition {}", part.index));
            let index = part.index;
            (index, thread.spawn_scoped(scope, move || work(part, job)))
        };
        let threads: Vec<_> = jobs.into_iter().map(start).collect();
        let done = threads.into_iter().map(|(index, thread)| match thread {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|_| failed(index, "the thread that works on it panicked".into())),
            Err(error) => failed(index, format!("its thread cannot be started: {error}")),
        });
        // All threads are joined, whatever the first one returns.
        done.collect::<Vec<_>>().into_iter().fold(Ok(()), Result::and)
    })
}
