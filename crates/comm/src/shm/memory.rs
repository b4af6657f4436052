//! [`NodeMemory`]: memory that the ranks of a node share.
//!
//! Ranks that are threads share anonymous memory; ranks that are processes map the same memfd. Its
//! pages are reserved before a rank touches them, so that a node without memory is an answer of
//! [`Comm::node_memory`](crate::Comm::node_memory) and not a signal in the middle of a transfer.
//! Spare memory behind it is reserved only when a rank asks for it.

use std::ffi::c_void;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, MemfdFlags};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::CACHE_LINE;

/// A share in the memory of a node, from [`Comm::node_memory`](crate::Comm::node_memory).
///
/// It hands out a raw address only. The ranks use it at the same time, so they have to synchronise
/// by what the [module](crate::shm) has for it, or by collectives.
#[derive(Clone, Debug)]
pub struct NodeMemory {
    mapping: Arc<Mapping>,
    index: usize,
    ranks: Vec<usize>,
}

impl NodeMemory {
    /// `nodes` is the node of each rank.
    pub(crate) fn new(mapping: Arc<Mapping>, rank: usize, nodes: &[usize]) -> Self {
        let ranks = ranks_of(nodes[rank], nodes);
        let index = ranks.iter().take_while(|&&other| other < rank).count();
        Self { mapping, index, ranks }
    }

    /// The first byte, at the start of a page. Valid for as long as a clone of this value lives.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.mapping.address
    }

    /// Number of bytes, without the spare ones.
    pub fn len(&self) -> usize {
        self.mapping.len
    }

    /// Number of bytes behind those, which must not be touched before this rank has called
    /// [`NodeMemory::populate`].
    pub fn spare(&self) -> usize {
        self.mapping.spare
    }

    /// Makes the spare bytes usable for this rank; returns whether it worked. Not collective: every
    /// rank that uses them asks by itself, and may be refused although another rank was not.
    pub fn populate(&self) -> bool {
        self.mapping.populate()
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The part of `len` bytes from `at` on, which is a multiple of a cache line.
    ///
    /// # Panics
    ///
    /// If it does not lie in the memory, or does not begin at a cache line.
    pub fn section(&self, at: usize, len: usize) -> Section {
        let fits = at.checked_add(len).is_some_and(|end| end <= self.len());
        assert!(fits && at.is_multiple_of(CACHE_LINE), "the section lies in the memory");
        Section { memory: self.clone(), at, len }
    }

    /// Which of the node's ranks this one is.
    pub fn index(&self) -> usize {
        self.index
    }

    /// The ranks of the node, ascending.
    pub fn ranks(&self) -> &[usize] {
        &self.ranks
    }
}

/// A part of a node's memory, which begins at a cache line; made by [`NodeMemory::section`].
#[derive(Clone, Debug)]
pub struct Section {
    memory: NodeMemory,
    at: usize,
    len: usize,
}

impl Section {
    /// Its first byte. Valid for as long as a clone of this value lives.
    pub fn as_ptr(&self) -> NonNull<u8> {
        // SAFETY: inside of the memory, as was checked when it was made.
        unsafe { self.memory.as_ptr().add(self.at) }
    }

    /// Number of bytes.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory that it is a part of.
    pub const fn memory(&self) -> &NodeMemory {
        &self.memory
    }
}

/// The ranks on `node`, ascending.
pub(crate) fn ranks_of(node: usize, nodes: &[usize]) -> Vec<usize> {
    (0..nodes.len()).filter(|&rank| nodes[rank] == node).collect()
}

/// Numbers nodes from 0 in the order of their first rank.
pub(crate) fn number_nodes<N: Copy + Eq + std::hash::Hash>(nodes: &[N]) -> Vec<usize> {
    let mut numbers = std::collections::HashMap::new();
    nodes
        .iter()
        .map(|node| {
            let next = numbers.len();
            *numbers.entry(*node).or_insert(next)
        })
        .collect()
}

/// Mapped memory, unmapped with its last user.
#[derive(Debug)]
pub(crate) struct Mapping {
    address: NonNull<u8>,
    len: usize,
    /// Bytes behind those.
    spare: usize,
}

// SAFETY: the mapping belongs to no thread, and this type neither reads nor writes it; the users of
// the raw address synchronise among themselves.
unsafe impl Send for Mapping {}
// SAFETY: as above; through a shared reference there is only the address and the length.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Zeroed memory for the threads of this process.
    pub(crate) fn anonymous(len: usize, spare: usize) -> Result<Self, Errno> {
        check_available(len)?;
        let total = total(len, spare)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping at an address of the kernel's choice; nothing that exists changes.
        let address = unsafe {
            rustix::mm::mmap_anonymous(ptr::null_mut(), total, access, MapFlags::PRIVATE)
        }?;
        let mapping = Self::at(address, len, spare)?;
        // SAFETY: the range is the mapping just made; the advice does not change what it holds. It
        // is only advice: a kernel without huge pages may refuse.
        let _ = unsafe { rustix::mm::madvise(address, len.max(1), Advice::LinuxHugepage) };
        Ok(mapping)
    }

    /// Maps `len` bytes of `memory`, and spare ones behind; it is at least that long.
    #[cfg_attr(not(feature = "mpi"), allow(dead_code, reason = "for ranks that are processes"))]
    pub(crate) fn shared(memory: impl AsFd, len: usize, spare: usize) -> Result<Self, Errno> {
        let total = total(len, spare)?;
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as for anonymous memory. The file is not shortened: only the ranks that made it
        // know of it.
        let address = unsafe {
            rustix::mm::mmap(ptr::null_mut(), total, access, MapFlags::SHARED, memory, 0)
        }?;
        Self::at(address, len, spare)
    }

    fn at(address: *mut c_void, len: usize, spare: usize) -> Result<Self, Errno> {
        let address = NonNull::new(address.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { address, len, spare })
    }

    /// Reserves pages for the spare bytes; returns whether there were enough. Without, touching
    /// them may raise a signal.
    fn populate(&self) -> bool {
        let first = self.len / PAGE * PAGE;
        let len = self.len + self.spare - first;
        // SAFETY: inside of the mapping; the advice does not change what it holds.
        let populated = unsafe {
            let address = self.address.as_ptr().add(first).cast();
            rustix::mm::madvise(address, len, Advice::LinuxPopulateWrite)
        };
        populated.is_ok()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made by the constructor, and its last user is gone.
        let unmapped = unsafe {
            rustix::mm::munmap(self.address.as_ptr().cast(), (self.len + self.spare).max(1))
        };
        debug_assert!(unmapped.is_ok(), "munmap: {unmapped:?}");
    }
}

/// The granularity of advice on memory.
const PAGE: usize = 4096;

/// Bytes to be mapped, at least one: a mapping cannot be empty.
fn total(len: usize, spare: usize) -> Result<usize, Errno> {
    len.checked_add(spare).map(|total| total.max(1)).ok_or(Errno::NOMEM)
}

/// Makes zeroed memory, with its pages reserved, and spare bytes behind, that other processes can
/// map.
#[cfg_attr(not(feature = "mpi"), allow(dead_code, reason = "for ranks that are processes"))]
pub(crate) fn reserve(len: usize, spare: usize) -> Result<OwnedFd, Errno> {
    check_available(len)?;
    let memory = rustix::fs::memfd_create(c"striate-node-memory", MemfdFlags::CLOEXEC)?;
    rustix::fs::ftruncate(&memory, total(len, spare)? as u64)?;
    rustix::fs::fallocate(&memory, FallocateFlags::empty(), 0, len.max(1) as u64)?;
    Ok(memory)
}

/// Memory up to this size is taken without asking how much is available.
const LITTLE: usize = 1 << 20;

/// Refuses more than the machine has available.
///
/// The kernel grants more than there is, and kills a process when the pages are touched or
/// reserved.
fn check_available(len: usize) -> Result<(), Errno> {
    // Asking takes as long as everything else that makes a small mapping.
    if len <= LITTLE {
        return Ok(());
    }
    match available() {
        Some(available) if len as u64 > available => Err(Errno::NOMEM),
        _ => Ok(()),
    }
}

/// Bytes that programs can still allocate; `None` if the kernel does not report it.
fn available() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_numbered_by_their_first_rank() {
        assert_eq!(number_nodes(&[7, 3, 7, 9, 3]), [0, 1, 0, 2, 1]);
        assert_eq!(ranks_of(1, &[0, 1, 0, 2, 1]), [1, 4]);
    }

    #[test]
    fn two_mappings_of_reserved_memory_show_the_same_bytes() {
        let memory = reserve(5000, 9000).unwrap();
        let map = || Mapping::shared(&memory, 5000, 9000).unwrap();
        let (one, two) = (map(), map());
        // SAFETY: both mappings live and have 5000 bytes; this thread alone uses them.
        unsafe {
            assert_eq!(two.address.add(4999).read(), 0);
            one.address.add(4999).write(17);
            assert_eq!(two.address.add(4999).read(), 17);
        }
        assert!(one.populate() && two.populate());
        // SAFETY: as above, with 9000 bytes more.
        unsafe {
            one.address.add(13999).write(19);
            assert_eq!(two.address.add(13999).read(), 19);
            assert_eq!(two.address.add(4999).read(), 17);
        }
    }

    #[test]
    fn more_than_the_machine_has_is_refused() {
        assert_eq!(Mapping::anonymous(1 << 60, 0).unwrap_err(), Errno::NOMEM);
        assert_eq!(reserve(1 << 60, 0).unwrap_err(), Errno::NOMEM);
        assert_eq!(Mapping::anonymous(1, usize::MAX).unwrap_err(), Errno::NOMEM);
        assert!(Mapping::anonymous(0, 0).is_ok_and(|memory| memory.populate()));
        assert!(reserve(0, 0).is_ok());
    }
}
