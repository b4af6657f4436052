//! Builds the peer program for each MPI, when the feature `mpi` asks for it.
//!
//! One program per MPI, because two MPI libraries do not live in one process; both are embedded in
//! ours, so that a benchmark compares all engines in a single run.

use std::path::Path;
use std::process::Command;

const SOURCE: &str = "peer/mpi_peer.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    if std::env::var_os("CARGO_FEATURE_MPI").is_none() {
        return;
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    for mpi in ["openmpi", "mpich"] {
        let variable = format!("STRIATE_MPICC_{}", mpi.to_uppercase());
        println!("cargo::rerun-if-env-changed={variable}");
        let compiler = std::env::var(&variable).unwrap_or_else(|_| format!("mpicc.{mpi}"));
        let status = Command::new(&compiler)
            .args(["-std=gnu11", "-O3", "-Wall", "-Wextra", "-o"])
            .arg(Path::new(&out).join(format!("mpi_peer_{mpi}")))
            .arg(SOURCE)
            .status();
        match status {
            Ok(status) if status.success() => {}
            Ok(status) => panic!("{compiler} {SOURCE} failed: {status}"),
            Err(error) => panic!(
                "the feature `mpi` needs {compiler}: {error}\n\
                 Debian: apt-get install libopenmpi-dev openmpi-bin libmpich-dev mpich; \
                 elsewhere set {variable} to the compiler wrapper"
            ),
        }
    }
}
