//! Checks of memory that the ranks of a node share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use striate_comm::shm::futex;
use striate_comm::{Comm, CommError, NodeMemory};

/// The word at an index.
#[allow(clippy::cast_ptr_alignment, reason = "the memory starts at a page")]
fn word(memory: &NodeMemory, index: usize) -> &AtomicU32 {
    assert!((index + 1) * 4 <= memory.len());
    // SAFETY: the word lies inside of the memory, which lives as long as the reference and is only
    // used through such words in these checks.
    unsafe { memory.as_ptr().cast::<AtomicU32>().add(index).as_ref() }
}

fn wait_until(comm: &Arc<dyn Comm>, word: &AtomicU32, value: u32) -> Result<(), CommError> {
    loop {
        let now = word.load(Ordering::Acquire);
        if now == value {
            return Ok(());
        }
        if !futex::wait(word, now, Duration::from_millis(100)) {
            comm.health()?;
        }
    }
}

pub(crate) fn handshake(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let memory = comm.node_memory(1 << 20)?;
    let memory = memory.unwrap_or_else(|| panic!("rank {} got no memory", comm.rank()));
    assert_eq!((memory.len(), memory.is_empty()), (1 << 20, false));
    assert_eq!(memory.ranks()[memory.index()], comm.rank());
    let node = comm.nodes()[comm.rank()];
    let expected = (0..comm.size()).filter(|rank| comm.nodes()[*rank] == node);
    assert!(expected.eq(memory.ranks().iter().copied()));
    assert_eq!(word(&memory, (1 << 18) - 1).load(Ordering::Relaxed), 0);
    comm.barrier()?;
    // A token goes round among the ranks of the node, and leaves a trace at the end of the memory.
    let (ranks, index) = (memory.ranks().len() as u32, memory.index() as u32);
    for round in 0..50 {
        let turn = round * ranks + index;
        wait_until(comm, word(&memory, 0), turn)?;
        word(&memory, (1 << 18) - 1).fetch_add(node as u32 + 1, Ordering::Relaxed);
        word(&memory, 0).store(turn + 1, Ordering::Release);
        futex::wake(word(&memory, 0));
    }
    comm.barrier()?;
    let trace = word(&memory, (1 << 18) - 1).load(Ordering::Relaxed);
    assert_eq!(trace, 50 * ranks * (node as u32 + 1));
    Ok(())
}

pub(crate) fn lengths(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    assert!(comm.node_memory(0)?.is_some_and(|memory| memory.is_empty()));
    // More than any machine has: refused everywhere.
    assert!(comm.node_memory(1 << 60)?.is_none());
    if comm.size() > 1 {
        let differ = comm.node_memory(comm.rank());
        assert!(matches!(differ, Err(CommError::Mismatch { .. })), "{differ:?}");
    }
    comm.barrier()
}

pub(crate) fn group(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let color = (comm.rank() % 2) as u64;
    let Some(part) = comm.split(Some(color), 0)? else { return Ok(()) };
    handshake(&part)?;
    comm.barrier()
}
