//! [`MpiComm`]: the communicator of ranks that are processes of an MPI job.
//!
//! Collectives of bytes first exchange lengths, then send what has a length; so most of an exchange
//! in which few ranks talk to few costs nothing.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ::mpi::ffi;

use super::bytes::empty_buffer;
use super::collective::collective;
use super::memory;
use super::number;
use super::operation::Operation;
use super::request::MpiRequest;
use super::session::{RawComm, Session, check, tasks};
use super::watch;
use crate::comm::{Comm, Reduction, Request};
use crate::error::{CommError, check_rank};
use crate::shm::{NodeMemory, number_nodes};
use crate::task::Tasks;

/// Bytes that are broadcast in one call.
const CHUNK: usize = 1 << 30;

/// Bytes that are gathered along with their length.
const INLINE: usize = 256;

/// Tag of the messages that collectives are made of. Tags of callers are doubled, so those in
/// between are ours.
const EXCHANGE: c_int = 1;

/// The first tag of long messages; every other one after it is, too.
const LONGS: c_int = 3;

/// A group of processes.
#[derive(Debug)]
pub(super) struct MpiComm {
    /// Carries collectives and all messages, which differ by their tags: another duplicate for
    /// some of them would double what it takes to open a file.
    raw: Arc<RawComm>,
    /// Number of long messages sent.
    longs: AtomicU32,
    rank: usize,
    size: usize,
    nodes: Vec<usize>,
    /// The largest tag of a caller.
    max_tag: u32,
    /// If the ranks are on several nodes: that their loss is noticed.
    watched: Option<Arc<watch::Watched>>,
}

impl MpiComm {
    /// The ranks of `raw`. Collective.
    ///
    /// # Safety
    ///
    /// `raw` exists.
    pub(super) unsafe fn duplicate(
        session: &Arc<Session>,
        raw: ffi::MPI_Comm,
    ) -> Result<Self, CommError> {
        // SAFETY: the caller's promise.
        let mut comm = Self::new(unsafe { RawComm::duplicate(session, raw) }?, Vec::new())?;
        let node = memory::node_of(comm.rank)?;
        let told = [&(node.len() as u64).to_le_bytes()[..], &node, &watch::endpoint()].concat();
        let all = comm.allgather(&told)?;
        let parts: Vec<(&[u8], &[u8])> = all.iter().map(|told| node_and_endpoint(told)).collect();
        comm.nodes = number_nodes(&parts.iter().map(|(node, _)| *node).collect::<Vec<_>>());
        let endpoints: Vec<_> =
            parts.iter().map(|(_, endpoint)| watch::Endpoint::decode(endpoint)).collect();
        comm.watched = watch::join(comm.rank, &comm.nodes, &endpoints).map(Arc::new);
        Ok(comm)
    }

    fn new(raw: RawComm, nodes: Vec<usize>) -> Result<Self, CommError> {
        let (rank, size, max_tag) = (raw.rank()?, raw.size()?, raw.max_tag()? / 2);
        let (raw, longs) = (Arc::new(raw), AtomicU32::new(0));
        Ok(Self { raw, longs, rank, size, nodes, max_tag, watched: None })
    }

    fn tag(&self, tag: u32) -> Result<c_int, CommError> {
        if tag > self.max_tag {
            return Err(CommError::Tag { tag, max: self.max_tag });
        }
        Ok(2 * tag as c_int)
    }

    fn start_receive(&self, from: usize, len: usize) -> Result<Operation, CommError> {
        Operation::receive(&self.raw, from, EXCHANGE, len)
    }

    fn start_send(&self, to: usize, message: Vec<u8>) -> Result<Operation, CommError> {
        Operation::send(&self.raw, to, EXCHANGE, message)
    }

    /// Broadcasts a buffer whose length all ranks know.
    fn broadcast_bytes(&self, root: usize, mut bytes: Vec<u8>) -> Result<Vec<u8>, CommError> {
        let raw = self.raw.raw();
        for start in (0..bytes.len()).step_by(CHUNK) {
            let count = (bytes.len() - start).min(CHUNK);
            bytes = collective(&self.raw, "MPI_Ibcast", bytes, |bytes, request| {
                let (address, root) = (bytes[start..].as_mut_ptr().cast(), root as c_int);
                // SAFETY: the buffer has as many bytes as passed.
                unsafe {
                    let byte = ffi::RSMPI_UINT8_T;
                    ffi::MPI_Ibcast(address, count as c_int, byte, root, raw, request)
                }
            })?;
        }
        Ok(bytes)
    }

    /// Gathers the length and the first bytes of what each rank has.
    fn allgather_blocks(&self, bytes: &[u8]) -> Result<Vec<(u64, [u8; INLINE])>, CommError> {
        const BLOCK: usize = 8 + INLINE;
        let mut mine = (bytes.len() as u64).to_ne_bytes().to_vec();
        mine.extend_from_slice(&bytes[..bytes.len().min(INLINE)]);
        mine.resize(BLOCK, 0);
        let buffers = (mine, vec![0; BLOCK * self.size]);
        let (comm, call) = (&self.raw, "MPI_Iallgather");
        let (_, all) = collective(comm, call, buffers, |(mine, all), request| {
            let (from, to) = (mine.as_ptr().cast(), all.as_mut_ptr().cast());
            // SAFETY: one block is sent, and there is space for one of each rank.
            unsafe {
                let (count, byte, raw) = (BLOCK as c_int, ffi::RSMPI_UINT8_T, comm.raw());
                ffi::MPI_Iallgather(from, count, byte, to, count, byte, raw, request)
            }
        })?;
        let block = |block: &[u8; BLOCK]| {
            let (mut len, mut bytes) = ([0; 8], [0; INLINE]);
            len.copy_from_slice(&block[..8]);
            bytes.copy_from_slice(&block[8..]);
            (u64::from_ne_bytes(len), bytes)
        };
        Ok(all.as_chunks().0.iter().map(block).collect())
    }

    /// Gathers bytes of which there are some, but less than 2 GiB in all.
    fn allgather_short(&self, bytes: &[u8], lens: &[u64]) -> Result<Vec<Vec<u8>>, CommError> {
        let counts: Vec<c_int> = lens.iter().map(|len| *len as c_int).collect();
        let mut total: c_int = 0;
        let starts: Vec<c_int> = counts
            .iter()
            .map(|count| {
                let start = total;
                total += count;
                start
            })
            .collect();
        // The address of an empty slice is arbitrary, and may be the one that means "in place" to
        // MPI.
        let mine = if bytes.is_empty() { vec![0] } else { bytes.to_vec() };
        let buffers = (mine, empty_buffer(total as usize)?, counts, starts);
        let (comm, call) = (&self.raw, "MPI_Iallgatherv");
        let (_, mut all, counts, starts) = collective(comm, call, buffers, |buffers, request| {
            let (mine, all, counts, starts) = buffers;
            let (from, count) = (mine.as_ptr().cast(), bytes.len() as c_int);
            let (to, counts, starts) = (all.as_mut_ptr().cast(), counts.as_ptr(), starts.as_ptr());
            // SAFETY: the buffer has space for the sum of all counts, and each rank's bytes start
            // after those of the ranks before it. The lists have an entry for each rank.
            unsafe {
                let (byte, raw) = (ffi::RSMPI_UINT8_T, comm.raw());
                ffi::MPI_Iallgatherv(from, count, byte, to, counts, starts, byte, raw, request)
            }
        })?;
        // SAFETY: MPI has written all of them.
        unsafe { all.set_len(total as usize) };
        let slices = starts.iter().zip(&counts);
        Ok(slices
            .map(|(start, count)| all[*start as usize..][..*count as usize].to_vec())
            .collect())
    }
}

impl Comm for MpiComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn nodes(&self) -> &[usize] {
        &self.nodes
    }

    fn split(&self, color: Option<u64>, key: u64) -> Result<Option<Arc<dyn Comm>>, CommError> {
        // MPI's colors and keys have 31 bits; ours are mapped to small numbers, in the same way on
        // all ranks.
        let marked = color.map(|color| [color, key].map(u64::to_le_bytes).concat());
        let all = self.allgather(&marked.unwrap_or_default())?;
        let all_keys: Vec<Option<(u64, u64)>> =
            all.iter().map(|bytes| color_and_key(bytes)).collect();
        let colors: BTreeSet<u64> = all_keys.iter().flatten().map(|(color, _)| *color).collect();
        let number = color.map(|color| colors.range(..color).count() as c_int);
        let mut members: Vec<usize> = (0..self.size)
            .filter(|rank| all_keys[*rank].is_some_and(|(theirs, _)| Some(theirs) == color))
            .collect();
        members.sort_by_key(|rank| all_keys[*rank].map(|(_, key)| key));
        let place = members.iter().position(|rank| *rank == self.rank).unwrap_or(0);
        let Some(group) = self.raw.split(number, place as c_int)? else {
            return Ok(None);
        };
        let nodes: Vec<usize> = members.iter().map(|rank| self.nodes[*rank]).collect();
        let watched = self.watched.clone();
        Ok(Some(Arc::new(Self { watched, ..Self::new(group, number_nodes(&nodes))? })))
    }

    fn barrier(&self) -> Result<(), CommError> {
        collective(&self.raw, "MPI_Ibarrier", (), |(), request| {
            // SAFETY: the communicator exists.
            unsafe { ffi::MPI_Ibarrier(self.raw.raw(), request) }
        })
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        check_rank(root, self.size)?;
        let len = self.broadcast_bytes(root, (bytes.len() as u64).to_ne_bytes().to_vec())?;
        if root != self.rank {
            let len = len.try_into().map_or(0, u64::from_ne_bytes) as usize;
            bytes.clear();
            bytes.try_reserve_exact(len).map_err(|_| CommError::Memory { len })?;
            bytes.resize(len, 0);
        }
        *bytes = self.broadcast_bytes(root, std::mem::take(bytes))?;
        Ok(())
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        check_rank(root, self.size)?;
        let (is_root, len) = (root == self.rank, bytes.len() as u64);
        let lens = number::gather(&self.raw, root, is_root, self.size, len)?;
        if !is_root {
            if !bytes.is_empty() {
                self.start_send(root, bytes.to_vec())?.wait()?;
            }
            return Ok(Vec::new());
        }
        let wanted = |from: usize| from != self.rank && lens[from] > 0;
        let receives = (0..self.size)
            .map(|from| wanted(from).then(|| self.start_receive(from, lens[from] as usize)))
            .map(Option::transpose)
            .collect::<Result<Vec<_>, _>>()?;
        let mut all = receives
            .into_iter()
            .map(|receive| receive.map_or(Ok(Vec::new()), |mut receive| receive.wait()))
            .collect::<Result<Vec<_>, _>>()?;
        all[self.rank] = bytes.to_vec();
        Ok(all)
    }

    fn allgather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        // Short contributions travel with the lengths.
        let blocks = self.allgather_blocks(bytes)?;
        let lens: Vec<u64> = blocks.iter().map(|(len, _)| *len).collect();
        if lens.iter().all(|len| *len <= INLINE as u64) {
            let parts = blocks.into_iter();
            return Ok(parts.map(|(len, bytes)| bytes[..len as usize].to_vec()).collect());
        }
        let total = lens.iter().fold(0u64, |total, len| total.saturating_add(*len));
        if total <= c_int::MAX as u64 {
            return self.allgather_short(bytes, &lens);
        }
        let each = lens.iter().enumerate();
        each.map(|(root, len)| {
            let part = if root == self.rank { bytes.to_vec() } else { vec![0; *len as usize] };
            self.broadcast_bytes(root, part)
        })
        .collect()
    }

    fn alltoall(&self, mut parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, CommError> {
        let (rank, size) = (self.rank, self.size);
        if parts.len() != size {
            return Err(CommError::Parts { rank, parts: parts.len(), size });
        }
        let lens: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
        let lens = number::alltoall(&self.raw, &lens)?;
        let mut received = vec![Vec::new(); size];
        received[rank] = std::mem::take(&mut parts[rank]);
        // Each rank begins with its right neighbour, so that not all send to the same one at a
        // time.
        let from = (1..size).map(|step| (rank + size - step) % size).filter(|from| lens[*from] > 0);
        let receives = from
            .map(|from| Ok((from, self.start_receive(from, lens[from] as usize)?)))
            .collect::<Result<Vec<_>, CommError>>()?;
        let mut sends = Vec::new();
        for to in (1..size).map(|step| (rank + step) % size) {
            if !parts[to].is_empty() {
                sends.push(self.start_send(to, std::mem::take(&mut parts[to]))?);
            }
        }
        for (from, mut receive) in receives {
            received[from] = receive.wait()?;
        }
        for mut send in sends {
            send.wait()?;
        }
        Ok(received)
    }

    fn allreduce_u64(&self, with: Reduction, values: &mut [u64]) -> Result<(), CommError> {
        number::allreduce_u64(&self.raw, with, values)
    }

    fn allreduce_i64(&self, with: Reduction, values: &mut [i64]) -> Result<(), CommError> {
        number::allreduce_i64(&self.raw, with, values)
    }

    fn allreduce_f64(&self, with: Reduction, values: &mut [f64]) -> Result<(), CommError> {
        number::allreduce_f64(&self.raw, with, values)
    }

    fn send(&self, to: usize, tag: u32, message: Vec<u8>) -> Result<Request, CommError> {
        check_rank(to, self.size)?;
        let number = self.longs.fetch_add(1, Ordering::Relaxed) % (self.max_tag - LONGS as u32);
        let long = (&*self.raw, LONGS + 2 * number as c_int);
        MpiRequest::send(&self.raw, to, self.tag(tag)?, message, long).map(Request::new)
    }

    fn receive(&self, from: usize, tag: u32, capacity: usize) -> Result<Request, CommError> {
        check_rank(from, self.size)?;
        let long = Arc::clone(&self.raw);
        MpiRequest::receive(&self.raw, from, self.tag(tag)?, capacity, long).map(Request::new)
    }

    fn wait(&self, request: Request) -> Result<Vec<u8>, CommError> {
        request.downcast::<MpiRequest>()?.wait()
    }

    fn wait_any(&self, requests: &mut Vec<Request>) -> Result<(usize, Vec<u8>), CommError> {
        if requests.is_empty() {
            return Err(CommError::NoRequests);
        }
        let mut pending =
            requests.iter_mut().map(Request::downcast_mut).collect::<Result<Vec<_>, _>>()?;
        let (index, message) = MpiRequest::wait_any(&mut pending)?;
        requests.remove(index);
        Ok((index, message?))
    }

    fn test_any(&self, requests: &mut Vec<Request>) -> Result<Option<(usize, Vec<u8>)>, CommError> {
        if requests.is_empty() {
            return Ok(None);
        }
        let mut pending =
            requests.iter_mut().map(Request::downcast_mut).collect::<Result<Vec<_>, _>>()?;
        let Some((index, message)) = MpiRequest::test_any(&mut pending)? else { return Ok(None) };
        requests.remove(index);
        Ok(Some((index, message?)))
    }

    fn node_memory_with_spare(
        &self,
        len: usize,
        spare: usize,
    ) -> Result<Option<NodeMemory>, CommError> {
        memory::node_memory(self, len, spare)
    }

    fn tasks(&self) -> &Arc<Tasks> {
        tasks()
    }

    /// MPI ends the job when a process dies, so there is nothing to ask. But messages under way
    /// only make progress while the process is inside of the library: a probe lets it work.
    fn health(&self) -> Result<(), CommError> {
        watch::check()?;
        let mut found = 0;
        // SAFETY: the communicator exists; the status is not asked for.
        check("MPI_Iprobe", unsafe {
            ffi::MPI_Iprobe(
                ffi::RSMPI_ANY_SOURCE,
                ffi::RSMPI_ANY_TAG,
                self.raw.raw(),
                &raw mut found,
                ffi::RSMPI_STATUS_IGNORE,
            )
        })
    }
}

/// The parts of what a rank told when the communicator was made.
fn node_and_endpoint(told: &[u8]) -> (&[u8], &[u8]) {
    let Some((len, rest)) = told.split_first_chunk() else { return (told, &[]) };
    rest.split_at((u64::from_le_bytes(*len) as usize).min(rest.len()))
}

/// The color and key of a rank, as sent; `None` if it is in no group.
fn color_and_key(bytes: &[u8]) -> Option<(u64, u64)> {
    let (words, _) = bytes.as_chunks::<8>();
    let [color, key] = words else { return None };
    Some((u64::from_le_bytes(*color), u64::from_le_bytes(*key)))
}
