//! Checks of messages between two ranks.

use std::sync::Arc;

use striate_comm::{Comm, CommError};

use super::pattern;

/// The ranks to the right and to the left.
fn neighbours(comm: &Arc<dyn Comm>) -> (usize, usize) {
    let (rank, size) = (comm.rank(), comm.size());
    ((rank + 1) % size, (rank + size - 1) % size)
}

pub(crate) fn ring(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (right, left) = neighbours(comm);
    for (len, spare) in [(0, 0), (0, 10), (1, 0), (5000, 1), (1_000_000, 0), (1_000_000, 500_000)] {
        let receive = comm.receive(left, 5, len + spare)?;
        let send = comm.send(right, 5, pattern(comm.rank() as u64, len))?;
        assert!(comm.wait(receive)? == pattern(left as u64, len), "{len} bytes");
        comm.wait(send)?;
    }
    Ok(())
}

pub(crate) fn order(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (right, left) = neighbours(comm);
    // Receives are matched in the order in which they were started, not waited for.
    let len = |i: u8| usize::from(i) * 1500;
    let early: Vec<_> = (0..5).map(|_| comm.receive(left, 1, 20_000)).collect::<Result<_, _>>()?;
    let sends: Vec<_> =
        (0..10).map(|i| comm.send(right, 1, vec![i; len(i)])).collect::<Result<_, _>>()?;
    let late: Vec<_> = (5..10).map(|_| comm.receive(left, 1, 20_000)).collect::<Result<_, _>>()?;
    let receives: Vec<_> = early.into_iter().chain(late).collect();
    for (i, receive) in receives.into_iter().enumerate().rev() {
        assert!(comm.wait(receive)? == vec![i as u8; len(i as u8)], "message {i}");
    }
    sends.into_iter().try_for_each(|send| comm.wait(send).map(drop))
}

pub(crate) fn tags(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (right, left) = neighbours(comm);
    let sends = [comm.send(right, 30, vec![30])?, comm.send(right, 20, vec![20])?];
    for tag in [20, 30] {
        let receive = comm.receive(left, tag, 1)?;
        assert_eq!(comm.wait(receive)?, [tag as u8]);
    }
    sends.into_iter().try_for_each(|send| comm.wait(send).map(drop))
}

pub(crate) fn communicators(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (right, left) = neighbours(comm);
    let Some(twin) = comm.split(Some(0), comm.rank() as u64)? else { return Ok(()) };
    let sends = [comm.send(right, 3, vec![1])?, twin.send(right, 3, vec![2])?];
    let second = twin.receive(left, 3, 1)?;
    assert_eq!(twin.wait(second)?, [2]);
    let first = comm.receive(left, 3, 1)?;
    assert_eq!(comm.wait(first)?, [1]);
    sends.into_iter().try_for_each(|send| comm.wait(send).map(drop))
}

pub(crate) fn to_oneself(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let receive = comm.receive(comm.rank(), 9, 100)?;
    let send = comm.send(comm.rank(), 9, vec![42; 100])?;
    assert_eq!(comm.wait(receive)?, [42; 100]);
    comm.wait(send).map(drop)
}

pub(crate) fn wait_any(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (rank, size) = (comm.rank(), comm.size());
    // Each rank in turn gets two messages of all others; the second is sent when the first has
    // come.
    for turn in 0..size {
        if rank == turn {
            let senders: Vec<usize> = (0..size).filter(|other| *other != rank).collect();
            let mut expected: Vec<_> =
                senders.iter().flat_map(|from| [(*from, 1), (*from, 2)]).collect();
            let mut requests = expected
                .iter()
                .map(|(from, tag)| comm.receive(*from, *tag, 10))
                .collect::<Result<Vec<_>, _>>()?;
            while !requests.is_empty() {
                let (index, message) = comm.wait_any(&mut requests)?;
                let (from, tag) = expected.remove(index);
                assert_eq!(requests.len(), expected.len());
                assert_eq!(message, [from as u8, tag as u8]);
                if tag == 1 {
                    comm.wait(comm.send(from, 3, Vec::new())?)?;
                }
            }
        } else {
            comm.wait(comm.send(turn, 1, vec![rank as u8, 1])?)?;
            comm.wait(comm.receive(turn, 3, 0)?)?;
            let mut sends = vec![comm.send(turn, 2, vec![rank as u8, 2])?];
            assert_eq!(comm.wait_any(&mut sends)?.0, 0);
        }
    }
    comm.barrier()
}

pub(crate) fn wait_any_with_nothing(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    assert_eq!(comm.wait_any(&mut Vec::new()).err(), Some(CommError::NoRequests));
    comm.barrier()
}

pub(crate) fn truncation(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (right, left) = neighbours(comm);
    for (len, allowed) in [(10, 9), (1, 0), (5000, 4500), (2_000_000, 5), (2_000_000, 1_000_000)] {
        let mut receives = vec![comm.receive(left, 4, allowed)?];
        let send = comm.send(right, 4, vec![1; len])?;
        let error = if len == 10 {
            comm.wait(receives.remove(0)).err()
        } else {
            comm.wait_any(&mut receives).err()
        };
        let expected = CommError::Truncated { from: left, capacity: allowed, len };
        assert_eq!(error, Some(expected));
        comm.wait(send)?;
    }
    // The communicator is as good as before.
    ring(comm)
}

pub(crate) fn dropped_receive(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (right, left) = neighbours(comm);
    drop(comm.receive(left, 6, 100)?);
    let mut receives = vec![comm.receive(left, 6, 100)?, comm.receive(left, 6, 100)?];
    drop(receives.remove(0));
    comm.barrier()?;
    let send = comm.send(right, 6, vec![1, 2, 3])?;
    assert_eq!(comm.wait_any(&mut receives)?, (0, vec![1, 2, 3]));
    comm.wait(send).map(drop)
}

pub(crate) fn dropped_send(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (right, left) = neighbours(comm);
    for len in [10, 1_000_000] {
        drop(comm.send(right, 8, pattern(3, len))?);
        comm.barrier()?;
        let receive = comm.receive(left, 8, len)?;
        assert!(comm.wait(receive)? == pattern(3, len), "{len} bytes");
    }
    comm.barrier()
}

pub(crate) fn dropped_receive_of_a_long_message(comm: &Arc<dyn Comm>) -> Result<(), CommError> {
    let (right, left) = neighbours(comm);
    let (one, two) = (vec![1; 500_000], vec![2; 500_000]);
    let sends = [comm.send(right, 6, one.clone())?, comm.send(right, 6, two.clone())?];
    comm.barrier()?;
    drop(comm.receive(left, 6, 500_000)?);
    // Whether the first message had come when its receive was dropped is the transport's secret.
    let mut got = comm.wait(comm.receive(left, 6, 500_000)?)?;
    if got == one {
        got = comm.wait(comm.receive(left, 6, 500_000)?)?;
    }
    assert!(got == two);
    sends.into_iter().try_for_each(|send| comm.wait(send).map(drop))
}
