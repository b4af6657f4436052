//! Builds the peer program for each MPI, and the calls of MPI-IO for the one that the ranks use, when the
//! feature `mpi` asks for it.
//!
//! One program per MPI, because two MPI libraries do not live in one process; both are embedded in
//! ours, so that a benchmark compares all engines in a single run.

use std::path::Path;
use std::process::Command;

const SOURCE: &str = "peer/mpi_peer.c";
const MPIIO: &str = "peer/mpiio.c";

fn main() {
    println!("cargo::rerun-if-changed={SOURCE}");
    println!("cargo::rerun-if-changed={MPIIO}");
    if std::env::var_os("CARGO_FEATURE_MPI").is_none() {
        return;
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    build_mpiio(Path::new(&out));
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

/// The calls of MPI-IO: a library for the MPI that the ranks use, which `MPICC` picks for both.
fn build_mpiio(out: &Path) {
    println!("cargo::rerun-if-env-changed=MPICC");
    let compiler = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let (object, library) = (out.join("mpiio.o"), out.join("libstriate_mpiio.a"));
    run(Command::new(&compiler)
        .args(["-std=gnu11", "-O2", "-fPIC", "-Wall", "-Wextra", "-c", MPIIO, "-o"])
        .arg(&object));
    run(Command::new("ar").arg("crs").arg(&library).arg(&object));
    println!("cargo::rustc-link-search=native={}", out.display());
    println!("cargo::rustc-link-lib=static=striate_mpiio");
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?} failed: {status}"),
        Err(error) => panic!("the feature `mpi` needs {command:?}: {error}"),
    }
}
