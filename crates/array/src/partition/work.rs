//! What a group does with its partitions: bytes that are as the file holds them, read and written.

use std::thread::Builder;

use super::selection::Extent;
use super::{Part, Parted};
use crate::access::Access;
use crate::format::Variable;
use crate::slab::place;
use crate::stream::{Incoming, Outgoing};
use crate::{ArrayError, Dataset};

/// Threads that a rank has for its partitions at a time.
const THREADS: usize = 16;

/// Elements of a variable of a partition, and their bytes.
#[derive(Debug)]
pub(crate) struct Piece<B> {
    pub(crate) variable: usize,
    pub(crate) extent: Extent,
    pub(crate) bytes: B,
}

impl Dataset {
    fn piece<M>(
        &self,
        variable: usize,
        extent: &Extent,
        memory: M,
    ) -> Result<Access<M>, ArrayError> {
        let known: &Variable = &self.state.header.variables[variable];
        let place = place(&self.state.header, known, self.state.derived.record_size, extent)?;
        Ok(Access { variable, place, extent: None, records: 0, may_miss: false, memory })
    }

    /// Writes pieces of a partition. Collective in its group, unless `alone`.
    pub(crate) fn put_pieces(
        &mut self,
        pieces: &[Piece<&[u8]>],
        alone: bool,
    ) -> Result<(), ArrayError> {
        let accesses = pieces
            .iter()
            .map(|piece| self.piece(piece.variable, &piece.extent, Outgoing::raw(piece.bytes)));
        let accesses = accesses.collect();
        self.write_pieces(accesses, alone)
    }

    /// Reads pieces of a partition. Collective in its group, unless `alone`.
    pub(crate) fn get_pieces(
        &mut self,
        pieces: Vec<Piece<&mut [u8]>>,
        alone: bool,
    ) -> Result<(), ArrayError> {
        let accesses = pieces
            .into_iter()
            .map(|piece| self.piece(piece.variable, &piece.extent, Incoming::raw(piece.bytes)));
        let accesses = accesses.collect();
        self.read_pieces(accesses, alone)
    }
}

impl Parted {
    /// Does something with each partition of this rank's group: with several, all at once, so that all
    /// targets are busy. Collective in the group.
    pub(crate) fn on_parts(
        &mut self,
        work: impl Fn(&mut Dataset) -> Result<(), ArrayError> + Sync,
    ) -> Result<(), ArrayError> {
        let jobs = self.parts.iter_mut().map(|part| (part, ())).collect();
        each_with(jobs, |part, ()| work(&mut part.data))
    }
}

/// Does something with each of some partitions, by threads if they are several. All are done; the error
/// is that of the first that has one.
pub(crate) fn each_with<J: Send>(
    jobs: Vec<(&mut Part, J)>,
    work: impl Fn(&mut Part, J) -> Result<(), ArrayError> + Sync,
) -> Result<(), ArrayError> {
    let mut jobs = jobs.into_iter();
    let mut all = Ok(());
    loop {
        let some: Vec<_> = jobs.by_ref().take(THREADS).collect();
        match some.len() {
            0 => return all,
            1 => {
                for (part, job) in some {
                    all = all.and(work(part, job));
                }
            }
            _ => all = all.and(by_threads(some, &work)),
        }
    }
}

fn by_threads<'p, J: Send>(
    jobs: Vec<(&'p mut Part, J)>,
    work: &(impl Fn(&mut Part, J) -> Result<(), ArrayError> + Sync),
) -> Result<(), ArrayError> {
    std::thread::scope(|scope| {
        let failed = |part: usize, reason: String| {
            Err(ArrayError::Partition { file: format!("number {part}"), reason })
        };
        let start = |(part, job): (&'p mut Part, J)| {
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
        // All are waited for, whatever the first says.
        done.collect::<Vec<_>>().into_iter().fold(Ok(()), Result::and)
    })
}
