//! Nodes of an MPI job, and memory that the processes of a node share.

use std::env;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;

use super::comm::MpiComm;
use crate::comm::{Comm, Reduction};
use crate::error::CommError;
use crate::ext::CommExt;
use crate::shm::{Mapping, NodeMemory, ranks_of, reserve};

/// The variable that simulates smaller nodes.
const RANKS_PER_NODE: &str = "STRIATE_RANKS_PER_NODE";

/// Identifies a machine and its boot.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// Identifies the node of this rank: the machine, or a share of it where nodes are simulated.
/// Asking MPI for it would take another communicator.
pub(super) fn node_of(rank: usize) -> Result<Vec<u8>, CommError> {
    static MACHINE: OnceLock<Vec<u8>> = OnceLock::new();
    let machine = MACHINE.get_or_init(|| {
        let id = std::fs::read(BOOT);
        id.unwrap_or_else(|_| rustix::system::uname().nodename().to_bytes().to_vec())
    });
    let mut node = machine.clone();
    if let Ok(value) = env::var(RANKS_PER_NODE) {
        let share = match value.trim().parse::<usize>() {
            Ok(ranks) if ranks > 0 => rank / ranks,
            _ => {
                let (variable, expected) = (RANKS_PER_NODE, "a number of ranks, at least 1");
                return Err(CommError::Environment { variable, value, expected });
            }
        };
        node.extend(share.to_le_bytes());
    }
    Ok(node)
}

/// How a process finds memory that another has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Address {
    process: u64,
    descriptor: u64,
    /// Distinguishes the memory from anything else that may have the same descriptor.
    inode: u64,
}

/// Memory of a node. Collective over all ranks of `comm`.
///
/// The first rank of each node makes it, and the others open it through `/proc`. All ranks agree on
/// whether it worked, so that all nodes have such memory or none.
pub(super) fn node_memory(
    comm: &MpiComm,
    len: usize,
    spare: usize,
) -> Result<Option<NodeMemory>, CommError> {
    let (rank, nodes) = (comm.rank(), comm.nodes());
    let leader = ranks_of(nodes[rank], nodes)[0];
    let made = if leader == rank { reserve(len, spare).ok() } else { None };
    let address = made.as_ref().and_then(|memory| Address::of(memory).ok());
    let gathered = comm.allgather(&encode(len, address))?;
    let gathered = gathered.iter().map(|bytes| decode(bytes)).collect::<Option<Vec<_>>>();
    let gathered = gathered.ok_or_else(|| mismatch("a rank is in another call".to_owned()))?;
    if let Some((other, (theirs, _))) =
        gathered.iter().enumerate().find(|(_, (len, _))| *len != gathered[0].0)
    {
        let first = gathered[0].0;
        return Err(mismatch(format!("rank 0 asks for {first} bytes, rank {other} for {theirs}")));
    }
    let mapping = match (&made, gathered[leader].1) {
        (Some(memory), Some(_)) => Mapping::shared(memory, len, spare).ok(),
        (None, Some(address)) => address.open(len, spare).ok(),
        (_, None) => None,
    };
    // Once all ranks are here, none needs the descriptor of the first rank any more.
    let everywhere = comm.reduce_u64(Reduction::Min, u64::from(mapping.is_some()))?;
    Ok(mapping
        .filter(|_| everywhere == 1)
        .map(|mapping| NodeMemory::new(Arc::new(mapping), rank, nodes)))
}

impl Address {
    fn of(memory: &OwnedFd) -> Result<Self, Errno> {
        Ok(Self {
            process: u64::from(std::process::id()),
            descriptor: memory.as_fd().as_raw_fd() as u64,
            inode: rustix::fs::fstat(memory)?.st_ino,
        })
    }

    fn open(self, len: usize, spare: usize) -> std::io::Result<Mapping> {
        let path = format!("/proc/{}/fd/{}", self.process, self.descriptor);
        let memory = OpenOptions::new().read(true).write(true).open(path)?;
        let found = rustix::fs::fstat(&memory)?;
        if found.st_ino != self.inode || (found.st_size as u64) < (len + spare) as u64 {
            // In another PID namespace the number belongs to another process.
            return Err(Errno::STALE.into());
        }
        Ok(Mapping::shared(memory, len, spare)?)
    }
}

/// The length asked for and where the memory is.
fn encode(len: usize, address: Option<Address>) -> Vec<u8> {
    let address = address.map(|at| [at.process, at.descriptor, at.inode]);
    let words = std::iter::once(len as u64).chain(address.into_iter().flatten());
    words.flat_map(u64::to_le_bytes).collect()
}

fn decode(bytes: &[u8]) -> Option<(u64, Option<Address>)> {
    let (words, []) = bytes.as_chunks::<8>() else { return None };
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    match words[..] {
        [len] => Some((len, None)),
        [len, process, descriptor, inode] => {
            Some((len, Some(Address { process, descriptor, inode })))
        }
        _ => None,
    }
}

fn mismatch(detail: String) -> CommError {
    CommError::Mismatch { call: "node_memory", detail }
}
