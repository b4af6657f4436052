//! Runs the conformance suite with ranks that are threads.

mod suite;

use striate_comm::{CommError, Threads};

fn run_suite(threads: &Threads) {
    for (name, check) in suite::CHECKS {
        if let Err(error) = threads.try_run(|comm| check(&comm)) {
            panic!("{name}, {threads:?}: {error}");
        }
    }
}

#[test]
fn one_node() {
    for ranks in 1..=9 {
        run_suite(&Threads::new(ranks));
    }
}

#[test]
fn several_nodes() {
    for nodes in
        [&[0, 1][..], &[5, 5, 2], &[0, 1, 0, 1], &[3, 3, 3, 1, 1], &[0, 1, 2, 3, 4, 0, 1, 2, 3]]
    {
        run_suite(&Threads::on_nodes(nodes));
    }
}

#[test]
fn many_ranks() {
    run_suite(&Threads::new(64));
}

#[test]
fn nodes_are_as_given() {
    let results = Threads::on_nodes(&[4, 9, 4]).try_run(|comm| {
        let memory = comm.node_memory(100)?.map(|memory| (memory.index(), memory.ranks().to_vec()));
        Ok::<_, CommError>((comm.nodes().to_vec(), memory))
    });
    let nodes = vec![0, 1, 0];
    let expected = [
        (nodes.clone(), Some((0, vec![0, 2]))),
        (nodes.clone(), Some((0, vec![1]))),
        (nodes, Some((1, vec![0, 2]))),
    ];
    assert_eq!(results.unwrap(), expected);
}

#[test]
fn node_memory_can_be_refused() {
    let threads = Threads::on_nodes(&[0, 0, 1]).without_node_memory();
    let got = threads.try_run(|comm| Ok::<_, CommError>(comm.node_memory(10)?.is_some()));
    assert_eq!(got, Ok(vec![false; 3]));
}

#[test]
fn no_ranks_at_all() {
    let results = Threads::new(0).run(|_| Ok::<(), CommError>(()));
    assert!(results.is_empty());
}

#[test]
fn buffers_are_moved_not_copied() {
    let same = Threads::new(2).run(|comm| {
        let (rank, other) = (comm.rank(), 1 - comm.rank());
        // Longer than 31 bits can count; never touched except in some places, so it costs little.
        let len = (1 << 31) + 5;
        let mut message = vec![0; len];
        message[len - 1] = 1 + rank as u8;
        let at = message.as_ptr() as u64;
        comm.wait(comm.send(other, 0, message)?)?;
        let message = comm.wait(comm.receive(other, 0, len)?)?;
        assert_eq!((message.len(), message[len - 1]), (len, 1 + other as u8));
        let sent_from = comm.allgather(&at.to_le_bytes())?;
        let moved = sent_from[other] == (message.as_ptr() as u64).to_le_bytes();
        let mut parts = vec![Vec::new(); 2];
        parts[other] = message;
        let parts = comm.alltoall(parts)?;
        let back = parts[other].as_ptr() as u64 == at;
        Ok::<_, CommError>((moved, back))
    });
    assert_eq!(same, [Ok((true, true)), Ok((true, true))]);
}
