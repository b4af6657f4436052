//! Checks of counters.

use std::sync::Arc;

use striate_comm::{Comm, CommError};

/// Every number is given out once, whoever asks.
pub(crate) fn tickets(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    const EACH: u64 = 50;
    let counters = comm.counters(2)?;
    let mut mine = Vec::new();
    for _ in 0..EACH {
        let ticket = counters.add(1, 1)?;
        mine.extend(ticket.to_le_bytes());
        assert_eq!(counters.add(0, 0)?, 0, "they are apart");
    }
    let all = comm.allgather(&mine)?.concat();
    let mut tickets: Vec<u64> =
        all.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    tickets.sort_unstable();
    assert!(tickets.into_iter().eq(0..EACH * comm.size() as u64));
    // Sums wrap, so that one can also count down.
    comm.barrier()?;
    counters.add(1, EACH.wrapping_neg())?;
    comm.barrier()?;
    assert_eq!(counters.add(1, 0)?, 0);
    let missing = counters.add(2, 1);
    assert!(matches!(missing, Err(CommError::NoSuchCounter { counter: 2, count: 2 })));
    comm.barrier()?;
    counters.free()
}

/// One rank alone can use them, while the others are elsewhere.
pub(crate) fn alone(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let counters = comm.counters(1)?;
    if comm.rank() + 1 == comm.size() {
        for expected in [0, 3, 6] {
            assert_eq!(counters.add(0, 3)?, expected);
        }
    }
    comm.barrier()?;
    assert_eq!(counters.add(0, 0)?, 9);
    comm.barrier()?;
    counters.free()
}
