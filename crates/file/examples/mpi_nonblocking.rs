//! Runs the checks of nonblocking calls with ranks that are processes of an MPI job:
//! `mpiexec -n 4 mpi_nonblocking directory`.

#[path = "../tests/nonblocking/mod.rs"]
#[expect(clippy::unwrap_used, reason = "checks may panic")]
mod nonblocking;

use std::path::PathBuf;
use std::process::ExitCode;

use striate_comm::mpi;
use striate_file::FileError;

fn main() -> ExitCode {
    let directory = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| ".".into()));
    let result = mpi::run(|comm| {
        // A window that is not freed, which a file leaves that is dropped, makes MPICH fail when
        // MPI ends.
        let windows = comm.nodes().iter().any(|node| *node > 0);
        let spared = windows && mpi::library_version().contains("MPICH");
        for (name, check) in nonblocking::CHECKS {
            if spared && name.contains("dropped") {
                continue;
            }
            if comm.rank() == 0 {
                println!("{name}");
            }
            check(&comm, &directory)?;
            comm.barrier()?;
        }
        Ok::<_, FileError>(comm.rank())
    });
    match result {
        Ok(0) => println!("checks passed"),
        Ok(_) => {}
        Err(error) => {
            eprintln!("mpi_nonblocking: {error}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
