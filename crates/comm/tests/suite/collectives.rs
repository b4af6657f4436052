//! Checks of collectives.

use std::sync::Arc;

use striate_comm::{Comm, CommError, CommExt, Reduction, agree};

use super::pattern;

pub(crate) fn nodes(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let nodes = comm.nodes();
    assert_eq!(nodes.len(), comm.size());
    let mut next = 0;
    for node in nodes {
        assert!(*node <= next, "nodes {nodes:?} are not numbered by their first rank");
        next = next.max(node + 1);
    }
    let same = comm.allgather(&nodes.iter().map(|node| *node as u8).collect::<Vec<_>>())?;
    assert!(same.iter().all(|other| *other == same[0]), "{same:?}");
    Ok(())
}

pub(crate) fn barrier(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    for _ in 0..20 {
        comm.barrier()?;
    }
    Ok(())
}

pub(crate) fn broadcast(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    for root in 0..comm.size() {
        for len in [0, 1, 1000, 300_000] {
            let sent = pattern(root as u64, len);
            // What the others had before does not matter, be it longer or shorter.
            let mut bytes =
                if comm.rank() == root { sent.clone() } else { vec![7; comm.rank() * 1000] };
            comm.broadcast(root, &mut bytes)?;
            assert!(bytes == sent, "{len} bytes of rank {root}");
        }
    }
    Ok(())
}

/// Lengths differ, and some are 0.
fn uneven(from: usize, to: usize) -> Vec<u8> {
    let len = [0, 3, 70_000, 0, 129][(from * 2 + to) % 5];
    pattern((from * 1000 + to) as u64, len)
}

pub(crate) fn gather(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    for root in 0..comm.size() {
        let all = comm.gather(root, &uneven(comm.rank(), root))?;
        let expected: Vec<_> = if comm.rank() == root {
            (0..comm.size()).map(|from| uneven(from, root)).collect()
        } else {
            Vec::new()
        };
        assert!(all == expected, "gathered at {root}");
    }
    let none = comm.gather(0, &[])?;
    assert!(none.iter().all(Vec::is_empty));
    assert_eq!(none.len(), if comm.rank() == 0 { comm.size() } else { 0 });
    Ok(())
}

pub(crate) fn allgather(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    for round in 0..5 {
        let all = comm.allgather(&uneven(comm.rank(), round))?;
        let expected: Vec<_> = (0..comm.size()).map(|from| uneven(from, round)).collect();
        assert!(all == expected, "round {round}");
    }
    assert_eq!(comm.allgather(&[])?, vec![Vec::<u8>::new(); comm.size()]);
    Ok(())
}

pub(crate) fn alltoall(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    for _ in 0..3 {
        let received = comm.alltoall((0..size).map(|to| uneven(rank, to)).collect())?;
        let expected: Vec<_> = (0..size).map(|from| uneven(from, rank)).collect();
        assert!(received == expected);
    }
    assert_eq!(comm.alltoall(vec![Vec::new(); size])?, vec![Vec::<u8>::new(); size]);
    Ok(())
}

pub(crate) fn allreduce_integers(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    let reduced = |with, values: [u64; 3]| {
        let mut values = values;
        comm.allreduce_u64(with, &mut values).map(|()| values)
    };
    let mine = [rank, 100 - rank, u64::MAX << rank];
    assert_eq!(reduced(Reduction::Min, mine)?, [0, 101 - size, u64::MAX << (size - 1)]);
    assert_eq!(reduced(Reduction::Max, mine)?, [size - 1, 100, u64::MAX]);
    assert_eq!(reduced(Reduction::And, mine)?[2], u64::MAX << (size - 1));
    assert_eq!(
        reduced(Reduction::Sum, [rank, 1, u64::MAX])?,
        [size * (size - 1) / 2, size, u64::MAX.wrapping_mul(size)]
    );
    // Large numbers are not negative ones.
    let mine = [if rank == 0 { u64::MAX } else { rank }, 1 << 63, u64::MAX >> 1];
    let least = if size == 1 { u64::MAX } else { 1 };
    assert_eq!(reduced(Reduction::Min, mine)?, [least, 1 << 63, u64::MAX >> 1]);
    assert_eq!(reduced(Reduction::Max, mine)?, [u64::MAX, 1 << 63, u64::MAX >> 1]);
    let mut values = [-(rank as i64), rank as i64 - 2];
    comm.allreduce_i64(Reduction::Min, &mut values)?;
    assert_eq!(values, [1 - size as i64, -2]);
    let mut values = [-(rank as i64)];
    comm.allreduce_i64(Reduction::Max, &mut values)?;
    assert_eq!(values, [0]);
    comm.allreduce_u64(Reduction::Sum, &mut [])?;
    comm.allreduce_i64(Reduction::Sum, &mut [])?;
    let mut many = vec![rank; 50_000];
    comm.allreduce_u64(Reduction::Max, &mut many)?;
    assert!(many.iter().all(|value| *value == size - 1));
    Ok(())
}

pub(crate) fn allreduce_floats(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (rank, size) = (comm.rank() as f64, comm.size() as f64);
    let reduced = |with, values: [f64; 3]| {
        let mut values = values;
        comm.allreduce_f64(with, &mut values).map(|()| values.map(f64::to_bits))
    };
    let bits = |values: [f64; 3]| values.map(f64::to_bits);
    let mine = [rank, 7.0 - rank, 0.5];
    assert_eq!(reduced(Reduction::Min, mine)?, bits([0.0, 8.0 - size, 0.5]));
    assert_eq!(
        reduced(Reduction::Sum, [1.0, 0.5, rank])?,
        bits([size, size / 2.0, size * (size - 1.0) / 2.0])
    );
    assert_eq!(reduced(Reduction::And, [2.5, rank, -1.0])?, bits([1.0, 0.0, 1.0]));
    comm.allreduce_f64(Reduction::And, &mut [])
}

pub(crate) fn split(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    // Ranks that leave 1 when divided by 3 stay out; the others are reversed.
    let color = |rank: usize| (rank % 3 != 1).then(|| u64::MAX - (rank % 3) as u64);
    let part = comm.split(color(rank), (size - rank) as u64)?;
    let members: Vec<usize> =
        (0..size).rev().filter(|other| color(*other) == color(rank)).collect();
    assert_eq!(part.is_none(), color(rank).is_none());
    if let Some(part) = part {
        assert_eq!(part.size(), members.len());
        assert_eq!(members[part.rank()], rank);
        let found = part.allgather_u64(rank as u64)?;
        assert!(found.iter().map(|rank| *rank as usize).eq(members.iter().copied()));
        for (one, two) in (0..members.len()).flat_map(|i| (0..i).map(move |j| (i, j))) {
            let together = comm.nodes()[members[one]] == comm.nodes()[members[two]];
            assert_eq!(part.nodes()[one] == part.nodes()[two], together);
        }
        nodes(&part)?;
        // A part of a part; equal keys keep the order.
        let half = part.split(Some((part.rank() % 2) as u64), 0)?;
        let half = half.map(|half| half.allgather_u64(part.rank() as u64)).transpose()?;
        let expected = (part.rank() % 2..part.size()).step_by(2).map(|rank| rank as u64);
        assert_eq!(half, Some(expected.collect()));
    }
    assert!(comm.split(None, 0)?.is_none());
    comm.barrier()
}

pub(crate) fn no_such_rank(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (rank, size) = (comm.size(), comm.size());
    let expected = CommError::NoSuchRank { rank, size };
    assert_eq!(comm.broadcast(rank, &mut Vec::new()).err(), Some(expected.clone()));
    assert_eq!(comm.gather(rank, &[]).err(), Some(expected.clone()));
    assert_eq!(comm.send(rank, 0, Vec::new()).err(), Some(expected.clone()));
    assert_eq!(comm.receive(rank, 0, 0).err(), Some(expected));
    let parts = comm.alltoall(vec![Vec::new(); size + 1]);
    assert!(matches!(parts, Err(CommError::Parts { parts, .. }) if parts == size + 1));
    comm.barrier()
}

pub(crate) fn numbers(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (rank, size) = (comm.rank() as u64, comm.size() as u64);
    assert_eq!(comm.reduce_u64(Reduction::Sum, 2)?, 2 * size);
    assert_eq!(comm.allgather_u64(rank << 40)?, (0..size).map(|r| r << 40).collect::<Vec<_>>());
    assert_eq!(comm.broadcast_u64(comm.size() - 1, rank)?, size - 1);
    Ok(())
}

pub(crate) fn agreement(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    assert_eq!(agree(&**comm, Ok(rank)), Ok(rank));
    for lowest in 0..size {
        let local = if rank < lowest { Ok(()) } else { Err(format!("disk {rank} is full")) };
        let reason = format!("disk {lowest} is full");
        assert_eq!(agree(&**comm, local), Err(CommError::RankFailed { rank: lowest, reason }));
    }
    agree(&**comm, Ok(()))
}
