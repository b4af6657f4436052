//! Builds the peer program for each MPI, and for the one that the ranks use the calls of MPI-IO, of
//! PnetCDF and of netCDF, when the feature `mpi` asks for it.
//!
//! One program per MPI, because two MPI libraries do not live in one process; both are embedded in
//! ours, so that a benchmark compares all engines in a single run. PnetCDF and netCDF are optional:
//! what is not installed, or is for another MPI, is left out, and the benchmarks say so when asked
//! for it.

use std::path::Path;
use std::process::{Command, Stdio};

const SOURCE: &str = "peer/mpi_peer.c";
const MPIIO: &str = "peer/mpiio.c";
const PNETCDF: &str = "peer/pnetcdf.c";
const NETCDF: &str = "peer/netcdf.c";

fn main() {
    for source in [SOURCE, MPIIO, PNETCDF, NETCDF] {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rustc-check-cfg=cfg(pnetcdf, netcdf)");
    if std::env::var_os("CARGO_FEATURE_MPI").is_none() {
        return;
    }
    let out = std::env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    build_calls(Path::new(&out));
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

/// The calls of MPI-IO and of the libraries on top: for the MPI that the ranks use, which `MPICC`
/// picks for both.
fn build_calls(out: &Path) {
    println!("cargo::rerun-if-env-changed=MPICC");
    let compiler = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    println!("cargo::rustc-link-search=native={}", out.display());
    // A library comes after those that call it.
    let peers = [("pnetcdf", PNETCDF, PNETCDF_PROBE), ("netcdf", NETCDF, NETCDF_PROBE)];
    let peers = peers.into_iter().filter(|(name, _, probe)| can_link(&compiler, out, probe, name));
    let peers: Vec<_> = peers.map(|(name, source, _)| (name, source)).collect();
    for (name, source) in peers.iter().chain(&[("mpiio", MPIIO)]) {
        build_library(&compiler, out, source, name);
    }
    for (name, _) in peers {
        println!("cargo::rustc-cfg={name}");
        println!("cargo::rustc-link-lib=dylib={name}");
    }
}

const NETCDF_PROBE: &str =
    "#include <netcdf.h>\nint main(void) { return nc_inq_libvers() == 0; }\n";

/// A library for another MPI links and then fails. Debian's PnetCDF is for Open MPI, and that is
/// what is taken for granted.
const PNETCDF_PROBE: &str = "#include <mpi.h>\n#include <pnetcdf.h>\n\
    #if !defined(OPEN_MPI)\n#error \"it is taken to be for Open MPI\"\n#endif\n\
    int main(void) { return ncmpi_inq_libvers() == 0; }\n";

/// Whether a program can be linked with a library.
fn can_link(compiler: &str, out: &Path, program: &str, library: &str) -> bool {
    let source = out.join(format!("probe_{library}.c"));
    let written = std::fs::write(&source, program);
    assert!(written.is_ok(), "cannot write {}: {written:?}", source.display());
    let status = Command::new(compiler)
        .arg("-o")
        .arg(source.with_extension(""))
        .arg(&source)
        .arg(format!("-l{library}"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

fn build_library(compiler: &str, out: &Path, source: &str, name: &str) {
    let (object, library) =
        (out.join(format!("{name}.o")), out.join(format!("libstriate_{name}.a")));
    run(Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-fPIC", "-Wall", "-Wextra", "-c", source, "-o"])
        .arg(&object));
    run(Command::new("ar").arg("crs").arg(&library).arg(&object));
    println!("cargo::rustc-link-lib=static=striate_{name}");
}

fn run(command: &mut Command) {
    match command.status() {
        Ok(status) if status.success() => {}
        Ok(status) => panic!("{command:?} failed: {status}"),
        Err(error) => panic!("the feature `mpi` needs {command:?}: {error}"),
    }
}
