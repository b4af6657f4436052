//! Ranks that fail, panic or end: the others get an error that names them, at once.

use std::error::Error;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use striate_comm::shm::futex;
use striate_comm::{Comm, CommError, Reduction, Threads};

/// Whether waiting for ever is what a change has brought.
const LIMIT: Duration = Duration::from_secs(120);

/// Runs `body`, and fails if it takes too long.
fn within_limit<T: Send + 'static>(what: &str, body: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _ = sender.send(body());
    });
    let result = receiver.recv_timeout(LIMIT);
    match result {
        Ok(value) => value,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: ranks wait for ever"),
        Err(mpsc::RecvTimeoutError::Disconnected) => panic!("{what}: {:?}", thread.join()),
    }
}

type Call = fn(&Arc<dyn Comm>) -> Result<(), CommError>;

/// Calls that need all ranks.
const COLLECTIVES: &[(&str, Call)] = &[
    ("barrier", |comm| comm.barrier()),
    ("broadcast", |comm| comm.broadcast(0, &mut vec![1])),
    ("gather", |comm| comm.gather(1, &[1]).map(drop)),
    ("allgather", |comm| comm.allgather(&[1]).map(drop)),
    ("alltoall", |comm| comm.alltoall(vec![vec![1]; comm.size()]).map(drop)),
    ("allreduce_u64", |comm| comm.allreduce_u64(Reduction::Sum, &mut [1])),
    ("allreduce_i64", |comm| comm.allreduce_i64(Reduction::Sum, &mut [1])),
    ("allreduce_f64", |comm| comm.allreduce_f64(Reduction::Sum, &mut [1.0])),
    ("split", |comm| comm.split(Some(1), 0).map(drop)),
    ("node_memory", |comm| comm.node_memory(1).map(drop)),
    ("receive", |comm| comm.wait(comm.receive(2, 0, 1)?).map(drop)),
    ("wait_any", |comm| {
        comm.wait_any(&mut vec![comm.receive(0, 0, 1)?, comm.receive(2, 0, 1)?]).map(drop)
    }),
    ("futex", |comm| {
        let word = 0.into();
        loop {
            futex::wait(&word, 0, Duration::from_millis(10));
            comm.health()?;
        }
    }),
];

/// Rank 2 of 5 runs `fault`, after the others have started to wait and before.
fn others_get(reason: &str, fault: fn() -> Result<(), Box<dyn Error + Send + Sync>>) {
    for (name, call) in COLLECTIVES {
        for late in [false, true] {
            let results = within_limit(name, move || {
                Threads::new(5).run(|comm| {
                    // All ranks have completed a collective before.
                    comm.barrier()?;
                    if comm.rank() != 2 {
                        return Ok(call(&comm)?);
                    }
                    if late {
                        thread::sleep(Duration::from_millis(20));
                    }
                    fault()
                })
            });
            for (rank, result) in results.into_iter().enumerate().filter(|(rank, _)| *rank != 2) {
                let error = result.expect_err(name).downcast::<CommError>().expect(name);
                let expected = CommError::RankFailed { rank: 2, reason: reason.to_owned() };
                assert_eq!(*error, expected, "{name} on rank {rank}, late: {late}");
            }
        }
    }
}

#[test]
fn a_rank_that_fails() {
    others_get("the disk is full", || Err("the disk is full".into()));
}

#[test]
fn a_rank_that_panics() {
    others_get("panicked: the cat sat on it", || panic!("the cat sat on {}", "it"));
}

#[test]
fn a_rank_that_ends() {
    others_get("it has ended", || Ok(()));
}

#[test]
fn the_first_failure_is_the_result() {
    let result = within_limit("try_run", || {
        Threads::new(8).try_run(|comm| {
            assert!(comm.rank() != 5, "here");
            comm.barrier()
        })
    });
    let reason = "panicked: here".to_owned();
    assert_eq!(result, Err(CommError::RankFailed { rank: 5, reason }));
}

#[test]
fn messages_of_an_ended_rank_can_be_received() {
    let results = within_limit("messages", || {
        Threads::new(2).run(|comm| {
            if comm.rank() == 0 {
                comm.send(1, 7, vec![1])?;
                comm.send(1, 7, vec![2])?;
                return Ok(vec![]);
            }
            while comm.health().is_ok() {
                thread::yield_now();
            }
            let mut got = comm.wait(comm.receive(0, 7, 1)?)?;
            got.extend(comm.wait_any(&mut vec![comm.receive(0, 7, 1)?])?.1);
            let reason = "it has ended".to_owned();
            let gone = CommError::RankFailed { rank: 0, reason };
            assert_eq!(comm.wait(comm.receive(0, 7, 1)?), Err(gone.clone()));
            assert_eq!(comm.send(0, 7, vec![3]).err(), Some(gone));
            Ok::<_, CommError>(got)
        })
    });
    assert_eq!(results, [Ok(vec![]), Ok(vec![1, 2])]);
}

#[test]
fn a_complete_collective_stays_complete() {
    for _ in 0..200 {
        let results = within_limit("barrier", || Threads::new(4).run(|comm| comm.barrier()));
        assert!(results.iter().all(Result::is_ok), "{results:?}");
    }
}

#[test]
fn a_rank_that_only_ends_does_not_stop_the_others() {
    let results = within_limit("rest", || {
        Threads::new(3).run(|comm| {
            if comm.rank() == 0 {
                return Ok(vec![]);
            }
            let other = 3 - comm.rank();
            thread::sleep(Duration::from_millis(10));
            comm.send(other, 0, vec![comm.rank() as u8])?;
            comm.wait(comm.receive(other, 0, 1)?)
        })
    });
    assert_eq!(results, [Ok(vec![]), Ok(vec![2]), Ok(vec![1])]);
}

#[test]
fn errors_in_a_group_have_its_ranks_and_do_not_concern_others() {
    let results = within_limit("groups", || {
        Threads::new(4).run(|comm| {
            // Groups 0, 2 and 3, 1.
            let key = u64::from(comm.rank() != 3);
            let Some(part) = comm.split(Some(comm.rank() as u64 % 2), key)? else { return Ok(()) };
            if comm.rank() == 1 {
                return Err(CommError::ForeignRequest);
            }
            while comm.health().is_ok() {
                thread::yield_now();
            }
            part.barrier()
        })
    });
    let reason = CommError::ForeignRequest.to_string();
    assert_eq!(results[3], Err(CommError::RankFailed { rank: 1, reason }));
    assert_eq!((&results[0], &results[2]), (&Ok(()), &Ok(())));
}

#[test]
fn ranks_that_disagree_all_learn_of_it() {
    let results = within_limit("disagreement", || {
        Threads::new(3).run(|comm| {
            let first =
                if comm.rank() == 1 { comm.barrier() } else { comm.allgather(&[]).map(drop) };
            assert!(matches!(first, Err(CommError::Mismatch { .. })), "{first:?}");
            let second = comm.allreduce_u64(Reduction::Sum, &mut vec![0; comm.rank()]);
            assert!(matches!(second, Err(CommError::Mismatch { .. })), "{second:?}");
            let parts = if comm.rank() == 1 { 7 } else { 3 };
            let third = comm.alltoall(vec![Vec::new(); parts]).err();
            assert_eq!(third, Some(CommError::Parts { rank: 1, parts: 7, size: 3 }));
            comm.barrier()
        })
    });
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}
