//! [`FilterThreads`]: chunks are decoded and encoded by several threads of a rank.
//!
//! [`FilterThreads::map`] applies a function to a few chunks and returns the results in their
//! order. The calling thread takes part; the others live as long as the call, since starting one
//! takes far less time than filtering its share.
//!
//! Filters are the slowest step of an access by far, and a rank often has more than one core: tools
//! run as one rank, and programs with threads have few ranks on a node. Ranks that may use the same
//! cores divide them, so that no more threads compute than there are cores.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use striate_comm::cores_of_rank;
use striate_hdf5::filter::{Pipeline, Scratch};

use super::BUFFER;
use crate::file_state::FileState;
use crate::options::MAX_FILTER_THREADS;
use crate::{ArrayError, Dataset, Options};

/// Chunks that a rank has in memory at a time so that several threads have work, and the bytes that
/// they have at most. If chunks are larger, fewer threads are used.
const CHUNKS: u64 = 16;
const CHUNKS_BUFFER: u64 = 64 << 20;

/// Bytes that are worth a thread: filtering them takes several times as long as starting it.
const SHARE: u64 = 64 << 10;

/// The threads of a rank that filter chunks, and their memory.
#[derive(Debug)]
pub(super) struct FilterThreads {
    count: usize,
    memory: Vec<WorkerMemory>,
}

/// What a thread keeps from chunk to chunk.
#[derive(Debug, Default)]
pub(super) struct WorkerMemory {
    pub(super) scratch: Scratch,
    /// For a chunk that is not kept.
    pub(super) chunk: Vec<u8>,
}

impl FilterThreads {
    pub(super) fn new(count: usize) -> Self {
        Self { count: count.max(1), memory: Vec::new() }
    }

    /// The number of chunks of that many bytes that are decoded before they are handed out.
    pub(super) fn chunks_at_a_time(&self, chunk_bytes: u64) -> usize {
        if self.count == 1 {
            return 1;
        }
        (bytes_at_a_time(chunk_bytes) / chunk_bytes.max(1)).max(1) as usize
    }

    /// The memory of the calling thread.
    pub(super) fn own_memory(&mut self) -> &mut WorkerMemory {
        if self.memory.is_empty() {
            self.memory.push(WorkerMemory::default());
        }
        &mut self.memory[0]
    }

    /// Calls `work` for every item, of `bytes` bytes together. Returns the results in the order of
    /// the items, up to the first error: those that a loop would have got.
    pub(super) fn map<T, R, E>(
        &mut self,
        items: &[T],
        bytes: u64,
        work: impl Fn(&T, &mut WorkerMemory) -> Result<R, E> + Sync,
    ) -> Vec<Result<R, E>>
    where
        T: Sync,
        R: Send,
        E: Send,
    {
        let most = self.count.min(items.len()).max(1);
        let workers = (bytes / SHARE).clamp(1, most as u64) as usize;
        if self.memory.len() < workers {
            self.memory.resize_with(workers, WorkerMemory::default);
        }
        let (next, failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        // Items are taken in order, and each that was taken is finished. So the first error is
        // among the results, and everything before it.
        let run = |memory: &mut WorkerMemory| {
            let mut done = Vec::new();
            while !failed.load(Ordering::Relaxed) {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(item) = items.get(at) else { break };
                let result = work(item, memory);
                if result.is_err() {
                    failed.store(true, Ordering::Relaxed);
                }
                done.push((at, result));
            }
            done
        };
        let Some((own, others)) = self.memory[..workers].split_first_mut() else {
            return Vec::new();
        };
        let mut done = if others.is_empty() { run(own) } else { in_threads(own, others, &run) };
        done.sort_unstable_by_key(|(at, _)| *at);
        let mut results: Vec<_> = done.into_iter().map(|(_, result)| result).collect();
        if let Some(first) = results.iter().position(Result::is_err) {
            results.truncate(first + 1);
        }
        results
    }
}

/// Calls `run` in this thread and in one more for each of `others`.
fn in_threads<D: Send>(
    own: &mut WorkerMemory,
    others: &mut [WorkerMemory],
    run: &(impl Fn(&mut WorkerMemory) -> Vec<D> + Sync),
) -> Vec<D> {
    thread::scope(|scope| {
        // Where the system has no thread left, those that there are do the work.
        let started: Vec<_> = others
            .iter_mut()
            .map_while(|memory| {
                let thread = thread::Builder::new().name("striate-filter".into());
                thread.spawn_scoped(scope, move || run(memory)).ok()
            })
            .collect();
        let mut done = run(own);
        for worker in started {
            match worker.join() {
                Ok(more) => done.extend(more),
                Err(panic) => resume_unwind(panic),
            }
        }
        done
    })
}

/// Bytes of decoded chunks of one size that a rank has in memory at a time; a larger one is alone.
/// It does not depend on the number of threads, which would change where chunks are in the file.
pub(super) fn bytes_at_a_time(chunk_bytes: u64) -> u64 {
    chunk_bytes.saturating_mul(CHUNKS).clamp(BUFFER, CHUNKS_BUFFER)
}

impl FileState {
    /// Finds out how many threads of this rank filter chunks. Collective.
    pub(in crate::netcdf4) fn share_cores(&mut self, options: &Options) -> Result<(), ArrayError> {
        let Some(netcdf4) = &mut self.netcdf4 else { return Ok(()) };
        // All ranks have the same variables; their hints may differ.
        if netcdf4.pipelines.iter().all(Pipeline::is_empty) {
            return Ok(());
        }
        let cores = cores_of_rank(self.comm.as_ref())?;
        let hint = options.filter_threads.map(|count| count as usize);
        netcdf4.filter_threads = hint.unwrap_or(cores.min(MAX_FILTER_THREADS as usize));
        Ok(())
    }
}

impl Dataset {
    /// The threads of this rank that filter chunks.
    pub(super) fn filter_threads(&self) -> FilterThreads {
        let count = self.state.netcdf4.as_ref().map_or(1, |netcdf4| netcdf4.filter_threads);
        FilterThreads::new(count)
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;

    #[test]
    fn results_are_in_order_up_to_the_first_error() {
        let items: Vec<u64> = (0..100).collect();
        for count in [1, 2, 7, 200] {
            let mut threads = FilterThreads::new(count);
            let all = threads.map(&items, 1 << 30, |&item, _| Ok::<_, ()>(item * item));
            let squares: Vec<_> = items.iter().map(|item| Ok(item * item)).collect();
            assert_eq!(all, squares, "{count} threads");
            // The first takes longest to fail.
            let some = threads.map(&items, 1 << 30, |&item, _| match item {
                40 => {
                    thread::sleep(Duration::from_millis(20));
                    Err(item)
                }
                41..=60 => Err(item),
                _ => Ok(item),
            });
            let expected: Vec<_> = (0..40).map(Ok).chain([Err(40)]).collect();
            assert_eq!(some, expected, "{count} threads");
            assert_eq!(threads.map(&[], 0, |_: &u64, _| Ok::<_, ()>(0)), []);
        }
    }

    #[test]
    fn a_panic_reaches_the_caller() {
        let items: Vec<u64> = (0..50).collect();
        for count in [1, 2, 7] {
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                FilterThreads::new(count).map(&items, 1 << 30, |&item, _| {
                    assert_ne!(item, 33, "the item");
                    Ok::<_, ()>(item)
                })
            }));
            let message = panicked.unwrap_err();
            let message = message.downcast_ref::<String>().unwrap();
            assert!(message.contains("the item"), "{message}");
        }
    }

    #[test]
    fn no_thread_is_started_for_little_or_for_one() {
        let own = thread::current().id();
        let items = [0_u8; 64];
        for (count, bytes) in [(1, u64::MAX), (7, 0), (7, 2 * SHARE - 1)] {
            let ids = FilterThreads::new(count)
                .map(&items, bytes, |_, _| Ok::<_, ()>(thread::current().id()));
            assert!(ids.into_iter().all(|id| id == Ok(own)), "{count} threads, {bytes} bytes");
        }
    }

    #[test]
    fn memory_is_bounded() {
        const MIB: u64 = 1 << 20;
        for (threads, chunk, expected) in [
            (1, MIB, 1),
            (2, MIB, 16),
            (2, 4 * MIB, 16),
            (7, 5 * MIB, 12),
            (256, 16 * MIB, 4),
            (4, 48 * MIB, 1),
            (4, 1 << 40, 1),
            (4, 0, 16 << 20),
        ] {
            let at_a_time = FilterThreads::new(threads).chunks_at_a_time(chunk);
            assert_eq!(at_a_time, expected, "{threads} threads, chunks of {chunk} bytes");
        }
    }
}
