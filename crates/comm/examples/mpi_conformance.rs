//! Runs the conformance suite with ranks that are processes of an MPI job.
//!
//! `mpiexec -n 4 mpi_conformance` runs all checks. With a word it does something that needs a
//! process of its own: `large` sends more bytes than 31 bits can count; `panic`, `fail` and
//! `fail-all` end in ways that the test of this program watches.

#[path = "../tests/suite/mod.rs"]
mod suite;

use std::process::ExitCode;
use std::sync::Arc;

use striate_comm::{Comm, CommError, CommExt, Reduction, mpi};

fn main() -> ExitCode {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let result = mpi::run(|comm| {
        let nodes = comm.nodes().to_vec();
        let done = match mode.as_str() {
            "large" => large(&comm)?,
            "panic" | "fail" | "fail-all" => fail(&comm, &mode)?,
            _ => conformance(&comm)?,
        };
        Ok::<_, CommError>((comm.rank(), done, nodes))
    });
    match result {
        Ok((0, done, nodes)) => println!("{done} checks passed on nodes {nodes:?}"),
        Ok(_) => {}
        Err(error) => {
            // In one piece: other ranks write to the same place.
            let text = format!("mpi_conformance: {error}\n");
            eprint!("{text}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn conformance(comm: &Arc<dyn Comm>) -> Result<usize, CommError> {
    assert!(mpi::launched(), "start this with mpiexec");
    for (name, check) in suite::CHECKS {
        if comm.rank() == 0 {
            println!("{name}");
        }
        check(comm)?;
        comm.barrier()?;
    }
    let tag = comm.send(0, u32::MAX, Vec::new());
    assert!(matches!(tag, Err(CommError::Tag { .. })), "{tag:?}");
    Ok(suite::CHECKS.len())
}

/// Bytes that show where they belong.
fn mark(bytes: &mut [u8]) {
    for place in places(bytes.len()) {
        bytes[place] = (place % 251) as u8 + 1;
    }
}

fn is_marked(bytes: &[u8]) -> bool {
    places(bytes.len()).all(|place| bytes[place] == (place % 251) as u8 + 1)
}

/// Both ends, around the gigabytes, and here and there.
fn places(len: usize) -> impl Iterator<Item = usize> {
    let edges = (1..len.div_ceil(1 << 30)).flat_map(|piece| [(piece << 30) - 1, piece << 30]);
    (0..len).step_by(99_999_989).chain(edges).chain([len - 1])
}

fn large(comm: &Arc<dyn Comm>) -> Result<usize, CommError> {
    let (rank, len) = (comm.rank(), (1 << 31) + 5);
    let mut bytes = Vec::new();
    if rank == 0 {
        bytes = vec![0; len];
        mark(&mut bytes);
        bytes = comm.wait(comm.send(1, 0, bytes)?)?;
    } else if rank == 1 {
        // More is allowed than comes.
        let got = comm.wait(comm.receive(0, 0, len + 1000)?)?;
        assert!(got.len() == len && is_marked(&got), "message of {len} bytes");
    }
    comm.broadcast(0, &mut bytes)?;
    assert!(bytes.len() == len && is_marked(&bytes), "broadcast of {len} bytes");
    bytes.truncate(len / 2 + 7);
    mark(&mut bytes);
    let all = comm.allgather(&bytes)?;
    assert!(all.iter().all(|part| part.len() == bytes.len() && is_marked(part)), "allgather");
    Ok(3)
}

/// Rank 1 ends badly while others wait.
fn fail(comm: &Arc<dyn Comm>, mode: &str) -> Result<usize, CommError> {
    comm.reduce_u64(Reduction::Sum, 1)?;
    assert!(mode != "panic" || comm.rank() != 1, "boom");
    if mode == "fail-all" || (mode == "fail" && comm.rank() == 1) {
        return Err(CommError::ForeignRequest);
    }
    comm.barrier()?;
    Ok(0)
}
