//! Ranks that exchange something until they cannot: for tests in which a node is lost.

use std::process::ExitCode;
use std::time::Duration;

use striate_comm::{CommError, mpi};

fn main() -> ExitCode {
    let result = mpi::run(|comm| {
        for round in 0u64.. {
            comm.allgather(&round.to_le_bytes())?;
            if comm.rank() == 0 && round == 10 {
                println!("they run");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok::<_, CommError>(())
    });
    if let Err(error) = result {
        eprintln!("mpi_rounds: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
