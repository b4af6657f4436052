//! [`LinkCost`]: what a message between nodes costs, measured between rank 0 and the first rank of
//! another node.
//!
//! A few short round trips give the latency; messages that grow until one takes some milliseconds,
//! or is as large as the bytes that two-phase has under way, give the cost of a byte. The first
//! bytes after a pause are often sent faster than a link goes in the long run, so what counts is
//! the difference of the last two. It is measured once per process and number of nodes, when a file
//! is opened whose method is to be chosen.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Instant;

use striate_comm::{Comm, CommError};

/// Tags of the messages, and of their acknowledgements.
const MESSAGE: u32 = 4;
const ACKNOWLEDGE: u32 = 5;

/// Bytes of the messages.
const SIZES: [usize; 7] = [8, 8, 8, 8, 64 << 10, 256 << 10, 1 << 20];

/// A message that takes so many seconds is the last one.
const LONG: f64 = 5e-3;

/// Seconds of a message between nodes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinkCost {
    pub(crate) latency: f64,
    pub(crate) byte: f64,
}

/// Measures the links between the nodes of a communicator, unless that is known; rank 0 gets the
/// result, if there are several nodes. Collective.
pub(crate) fn measure(comm: &dyn Comm) -> Result<Option<LinkCost>, CommError> {
    static KNOWN: OnceLock<Mutex<HashMap<usize, LinkCost>>> = OnceLock::new();
    let Some(partner) = comm.nodes().iter().position(|&node| node != 0) else { return Ok(None) };
    if comm.rank() == partner {
        answer(comm)?;
        return Ok(None);
    }
    if comm.rank() != 0 {
        return Ok(None);
    }
    let nodes = comm.nodes().iter().max().map_or(1, |max| max + 1);
    let known = || KNOWN.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    let found = known().get(&nodes).copied();
    let cost = match found {
        Some(cost) => cost,
        None => ask(comm, partner)?,
    };
    known().insert(nodes, cost);
    // An empty message is the last one.
    comm.wait(comm.send(partner, MESSAGE, Vec::new())?)?;
    Ok(Some(cost))
}

fn ask(comm: &dyn Comm, partner: usize) -> Result<LinkCost, CommError> {
    let mut cost = LinkCost { latency: f64::INFINITY, byte: 0.0 };
    let mut last = (0, 0.0);
    for size in SIZES {
        let start = Instant::now();
        let answer = comm.receive(partner, ACKNOWLEDGE, 0)?;
        let message = comm.send(partner, MESSAGE, vec![0; size])?;
        comm.wait(message)?;
        comm.wait(answer)?;
        let took = start.elapsed().as_secs_f64();
        cost.latency = cost.latency.min(took / 2.0);
        if size > last.0 && last.0 > 0 {
            cost.byte = (took - last.1).max(0.0) / (size - last.0) as f64;
        }
        last = if size == last.0 { (size, took.min(last.1)) } else { (size, took) };
        if took > LONG {
            break;
        }
    }
    // No link is faster than memory.
    Ok(LinkCost { byte: cost.byte.max(1e-11), ..cost })
}

fn answer(comm: &dyn Comm) -> Result<(), CommError> {
    loop {
        let message = comm.wait(comm.receive(0, MESSAGE, SIZES[SIZES.len() - 1])?)?;
        if message.is_empty() {
            return Ok(());
        }
        comm.wait(comm.send(0, ACKNOWLEDGE, Vec::new())?)?;
    }
}

#[cfg(test)]
mod tests {
    use striate_comm::Threads;

    use super::*;

    #[test]
    fn links_are_measured_between_two_nodes_only() {
        for nodes in [&[0, 0][..], &[0, 0, 1, 1], &[0, 1, 2]] {
            // The second time from memory.
            for _ in 0..2 {
                let all = Threads::on_nodes(nodes).try_run(|comm| measure(comm.as_ref())).unwrap();
                let is_known = nodes.iter().any(|&node| node > 0);
                for (rank, cost) in all.into_iter().enumerate() {
                    assert_eq!(cost.is_some(), is_known && rank == 0, "{nodes:?}, rank {rank}");
                    assert!(cost.is_none_or(|cost| cost.latency > 0.0 && cost.byte > 0.0));
                }
            }
        }
    }
}
