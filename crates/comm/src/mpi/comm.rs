//! [`MpiComm`]: the communicator of ranks that are processes of an MPI job.
//!
//! Collectives of bytes first exchange lengths, then send what has a length; so most of an exchange in
//! which few ranks talk to few costs nothing.

use std::collections::BTreeSet;
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ::mpi::ffi;

use super::bytes::room;
use super::counters;
use super::memory;
use super::number;
use super::operation::Operation;
use super::request::{LONGS, MpiRequest};
use super::session::{RawComm, Session, check};
use crate::comm::{Comm, Reduction, Request};
use crate::counters::Counters;
use crate::error::{CommError, check_rank};
use crate::memory::{NodeMemory, number_nodes};

/// Bytes that are broadcast in one call.
const CHUNK: usize = 1 << 30;

/// Tag of the messages that collectives are made of.
const EXCHANGE: c_int = LONGS - 1;

/// A group of processes.
#[derive(Debug)]
pub(super) struct MpiComm {
    /// Carries the messages of callers.
    messages: RawComm,
    /// Carries collectives and the messages that they are made of, and long messages.
    collectives: Arc<RawComm>,
    /// Number of long messages sent.
    longs: AtomicU32,
    rank: usize,
    size: usize,
    nodes: Vec<usize>,
    max_tag: u32,
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
        let messages = unsafe { RawComm::duplicate(session, raw) }?;
        let mut comm = Self::new(messages, Vec::new())?;
        let node = memory::node_of(&comm.collectives, comm.rank)?;
        let nodes = comm.allgather(&node.map(u64::to_le_bytes).concat())?;
        comm.nodes = number_nodes(&nodes.iter().map(Vec::as_slice).collect::<Vec<_>>());
        Ok(comm)
    }

    fn new(messages: RawComm, nodes: Vec<usize>) -> Result<Self, CommError> {
        // SAFETY: the communicator exists for as long as its owner.
        let collectives = unsafe { RawComm::duplicate(messages.session(), messages.raw()) }?;
        let (collectives, longs) = (Arc::new(collectives), AtomicU32::new(0));
        let (rank, size, max_tag) = (messages.rank()?, messages.size()?, messages.max_tag()?);
        Ok(Self { messages, collectives, longs, rank, size, nodes, max_tag })
    }

    fn tag(&self, tag: u32) -> Result<c_int, CommError> {
        if tag > self.max_tag {
            return Err(CommError::Tag { tag, max: self.max_tag });
        }
        Ok(tag as c_int)
    }

    fn start_receive(&self, from: usize, len: usize) -> Result<Operation, CommError> {
        Operation::receive(&self.collectives, from, EXCHANGE, len)
    }

    fn start_send(&self, to: usize, message: Vec<u8>) -> Result<Operation, CommError> {
        Operation::send(&self.collectives, to, EXCHANGE, message)
    }

    /// Broadcasts a buffer whose length all know.
    fn broadcast_bytes(&self, root: usize, bytes: &mut [u8]) -> Result<(), CommError> {
        for chunk in bytes.chunks_mut(CHUNK) {
            // SAFETY: the buffer has as many bytes as told.
            check("MPI_Bcast", unsafe {
                let (address, count) = (chunk.as_mut_ptr().cast(), chunk.len() as c_int);
                let (root, comm) = (root as c_int, self.collectives.raw());
                ffi::MPI_Bcast(address, count, ffi::RSMPI_UINT8_T, root, comm)
            })?;
        }
        Ok(())
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
        let mut all = room(total as usize)?;
        // The address of an empty slice is arbitrary, and may be the one that means "in place" to MPI.
        let mine = if bytes.is_empty() { &[0] } else { bytes };
        // SAFETY: the buffer has room for the sum of all counts, and each rank's bytes start after those
        // of the ranks before it. The lists have an entry for each rank.
        check("MPI_Allgatherv", unsafe {
            let (byte, comm) = (ffi::RSMPI_UINT8_T, self.collectives.raw());
            let (from, count) = (mine.as_ptr().cast(), bytes.len() as c_int);
            let (to, counts, starts) = (all.as_mut_ptr().cast(), counts.as_ptr(), starts.as_ptr());
            ffi::MPI_Allgatherv(from, count, byte, to, counts, starts, byte, comm)
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
        // MPI's colors and keys have 31 bits; those of all ranks tell which small numbers stand for ours.
        let marked = color.map(|color| [color, key].map(u64::to_le_bytes).concat());
        let all = self.allgather(&marked.unwrap_or_default())?;
        let wishes: Vec<Option<(u64, u64)>> = all.iter().map(|bytes| wish(bytes)).collect();
        let colors: BTreeSet<u64> = wishes.iter().flatten().map(|(color, _)| *color).collect();
        let number = color.map(|color| colors.range(..color).count() as c_int);
        let mut members: Vec<usize> = (0..self.size)
            .filter(|rank| wishes[*rank].is_some_and(|(theirs, _)| Some(theirs) == color))
            .collect();
        members.sort_by_key(|rank| wishes[*rank].map(|(_, key)| key));
        let place = members.iter().position(|rank| *rank == self.rank).unwrap_or(0);
        let Some(messages) = self.collectives.split(number, place as c_int)? else {
            return Ok(None);
        };
        let nodes: Vec<usize> = members.iter().map(|rank| self.nodes[*rank]).collect();
        Ok(Some(Arc::new(Self::new(messages, number_nodes(&nodes))?)))
    }

    fn barrier(&self) -> Result<(), CommError> {
        // SAFETY: the communicator exists.
        check("MPI_Barrier", unsafe { ffi::MPI_Barrier(self.collectives.raw()) })
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        check_rank(root, self.size)?;
        let mut len = (bytes.len() as u64).to_ne_bytes();
        self.broadcast_bytes(root, &mut len)?;
        if root != self.rank {
            let len = u64::from_ne_bytes(len) as usize;
            bytes.clear();
            bytes.try_reserve_exact(len).map_err(|_| CommError::Memory { len })?;
            bytes.resize(len, 0);
        }
        self.broadcast_bytes(root, bytes)
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        check_rank(root, self.size)?;
        let (is_root, len) = (root == self.rank, bytes.len() as u64);
        let lens = number::gather(&self.collectives, root, is_root, self.size, len)?;
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
        let lens = number::allgather(&self.collectives, self.size, bytes.len() as u64)?;
        let total = lens.iter().fold(0u64, |total, len| total.saturating_add(*len));
        if total == 0 {
            return Ok(vec![Vec::new(); self.size]);
        }
        if total <= c_int::MAX as u64 {
            return self.allgather_short(bytes, &lens);
        }
        let each = lens.iter().enumerate();
        each.map(|(root, len)| {
            let mut part = if root == self.rank { bytes.to_vec() } else { vec![0; *len as usize] };
            self.broadcast_bytes(root, &mut part)?;
            Ok(part)
        })
        .collect()
    }

    fn alltoall(&self, mut parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, CommError> {
        let (rank, size) = (self.rank, self.size);
        if parts.len() != size {
            return Err(CommError::Parts { rank, parts: parts.len(), size });
        }
        let lens: Vec<u64> = parts.iter().map(|part| part.len() as u64).collect();
        let lens = number::alltoall(&self.collectives, &lens)?;
        let mut received = vec![Vec::new(); size];
        received[rank] = std::mem::take(&mut parts[rank]);
        // Each rank begins with its right neighbour, lest all talk to the same one at a time.
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
        number::allreduce_u64(&self.collectives, with, values)
    }

    fn allreduce_i64(&self, with: Reduction, values: &mut [i64]) -> Result<(), CommError> {
        number::allreduce_i64(&self.collectives, with, values)
    }

    fn allreduce_f64(&self, with: Reduction, values: &mut [f64]) -> Result<(), CommError> {
        number::allreduce_f64(&self.collectives, with, values)
    }

    fn send(&self, to: usize, tag: u32, message: Vec<u8>) -> Result<Request, CommError> {
        check_rank(to, self.size)?;
        let number = self.longs.fetch_add(1, Ordering::Relaxed) % (self.max_tag - LONGS as u32);
        let long = (&*self.collectives, LONGS + number as c_int);
        MpiRequest::send(&self.messages, to, self.tag(tag)?, message, long).map(Request::new)
    }

    fn receive(&self, from: usize, tag: u32, capacity: usize) -> Result<Request, CommError> {
        check_rank(from, self.size)?;
        let long = Arc::clone(&self.collectives);
        MpiRequest::receive(&self.messages, from, self.tag(tag)?, capacity, long).map(Request::new)
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

    fn node_memory(&self, len: usize) -> Result<Option<NodeMemory>, CommError> {
        memory::node_memory(self, len)
    }

    fn counters(&self, count: usize) -> Result<Box<dyn Counters>, CommError> {
        counters::counters(self, &self.collectives, count)
    }

    /// MPI ends the job when a process dies, so nobody is left to ask. But messages under way only get
    /// on while somebody is inside of the library: looking for one lets it work.
    fn health(&self) -> Result<(), CommError> {
        let mut found = 0;
        // SAFETY: the communicator exists; the status is not asked for.
        check("MPI_Iprobe", unsafe {
            ffi::MPI_Iprobe(
                ffi::RSMPI_ANY_SOURCE,
                ffi::RSMPI_ANY_TAG,
                self.messages.raw(),
                &raw mut found,
                ffi::RSMPI_STATUS_IGNORE,
            )
        })
    }
}

/// The color and key of a rank, as sent; `None` if it wants to be in no group.
fn wish(bytes: &[u8]) -> Option<(u64, u64)> {
    let (words, _) = bytes.as_chunks::<8>();
    let [color, key] = words else { return None };
    Some((u64::from_le_bytes(*color), u64::from_le_bytes(*key)))
}
