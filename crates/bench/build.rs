//! Builds the peer program for each MPI, and for the one that the ranks use the calls of MPI-IO, of
//! PnetCDF, of netCDF and of HDF5, when the feature `mpi` asks for it.
//!
//! One program per MPI, because two MPI libraries do not live in one process; both are embedded in
//! ours, so that a benchmark compares all engines in a single run. PnetCDF, netCDF and HDF5 are
//! optional: what is not installed, or is for another MPI, is left out, and the benchmarks say so
//! when asked for it.

use std::path::Path;
use std::process::{Command, Stdio};

const SOURCE: &str = "peer/mpi_peer.c";
const MPIIO: &str = "peer/mpiio.c";
const PNETCDF: &str = "peer/pnetcdf.c";
const NETCDF: &str = "peer/netcdf.c";
const HDF5: &str = "peer/hdf5.c";
const DATASET_CALLS: &str = "peer/dataset_calls.h";

fn main() {
    for source in [SOURCE, MPIIO, PNETCDF, NETCDF, HDF5, DATASET_CALLS] {
        println!("cargo::rerun-if-changed={source}");
    }
    println!("cargo::rustc-check-cfg=cfg(pnetcdf, netcdf, parallel_hdf5, parallel_netcdf)");
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
    if can_link(&compiler, out, PNETCDF_PROBE, &["-lpnetcdf".to_owned()]) {
        build_library(&compiler, out, PNETCDF, "pnetcdf");
        println!("cargo::rustc-cfg=pnetcdf");
        println!("cargo::rustc-link-lib=dylib=pnetcdf");
    }
    build_library(&compiler, out, MPIIO, "mpiio");
    build_objects(&compiler, out);
}

/// Libraries of which there are a serial and a parallel build with the same names of functions, as
/// shared objects that are opened at run time.
fn build_objects(compiler: &str, out: &Path) {
    let serial = vec!["-lnetcdf".to_owned()];
    if can_link(compiler, out, NETCDF_PROBE, &serial) {
        build_object(compiler, out, NETCDF, "netcdf", &serial);
        println!("cargo::rustc-cfg=netcdf");
    }
    // Flags of a library for the other MPI would win over those of the wrapper.
    let hdf5 =
        if can_link(compiler, out, OPENMPI_PROBE, &[]) { "hdf5-openmpi" } else { "hdf5-mpich" };
    if let Some(flags) =
        package_flags(hdf5).filter(|flags| can_link(compiler, out, HDF5_PROBE, flags))
    {
        build_object(compiler, out, HDF5, "parallel_hdf5", &flags);
        println!("cargo::rustc-cfg=parallel_hdf5");
    }
    // Debian's is for Open MPI, and its header for parallel calls is in a directory of its own.
    let prefix = package("netcdf-mpi", &["--variable=prefix"]);
    let flags = prefix.zip(package_flags("netcdf-mpi")).map(|(prefix, mut flags)| {
        flags.insert(0, format!("-I{}/include", prefix.trim()));
        flags.push("-DSTRIATE_PARALLEL".to_owned());
        flags
    });
    let flags = flags.filter(|_| hdf5 == "hdf5-openmpi");
    if let Some(flags) = flags.filter(|flags| can_link(compiler, out, PARALLEL_NETCDF_PROBE, flags))
    {
        build_object(compiler, out, NETCDF, "parallel_netcdf", &flags);
        println!("cargo::rustc-cfg=parallel_netcdf");
    }
}

const NETCDF_PROBE: &str =
    "#include <netcdf.h>\nint main(void) { return nc_inq_libvers() == 0; }\n";

const OPENMPI_PROBE: &str = "#include <mpi.h>\n#if !defined(OPEN_MPI)\n#error \"it is another\"\n\
    #endif\nint main(void) { return 0; }\n";

const HDF5_PROBE: &str = "#include <hdf5.h>\n#if !defined(H5_HAVE_PARALLEL)\n#error \"it is serial\"\n\
    #endif\nint main(void) { return H5open(); }\n";

const PARALLEL_NETCDF_PROBE: &str = "#include <mpi.h>\n#include <netcdf.h>\n#include <netcdf_par.h>\n\
    int main(void) { return nc_open_par(\"\", 0, MPI_COMM_WORLD, MPI_INFO_NULL, 0); }\n";

/// A library for another MPI links and then fails. Debian's PnetCDF is for Open MPI, and that is
/// what is taken for granted.
const PNETCDF_PROBE: &str = "#include <mpi.h>\n#include <pnetcdf.h>\n\
    #if !defined(OPEN_MPI)\n#error \"it is taken to be for Open MPI\"\n#endif\n\
    int main(void) { return ncmpi_inq_libvers() == 0; }\n";

/// What pkg-config says about a package.
fn package(name: &str, asked: &[&str]) -> Option<String> {
    let answer =
        Command::new("pkg-config").args(asked).arg(name).stderr(Stdio::null()).output().ok()?;
    answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).into_owned())
}

/// The flags to compile and to link with a package.
fn package_flags(name: &str) -> Option<Vec<String>> {
    let flags = package(name, &["--cflags", "--libs"])?;
    Some(flags.split_whitespace().map(str::to_owned).collect())
}

/// Whether a program can be linked with a library.
fn can_link(compiler: &str, out: &Path, program: &str, flags: &[String]) -> bool {
    let source = out.join("probe.c");
    let written = std::fs::write(&source, program);
    assert!(written.is_ok(), "cannot write {}: {written:?}", source.display());
    let status = Command::new(compiler)
        .arg("-o")
        .arg(source.with_extension(""))
        .arg(&source)
        .args(flags)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    status.is_ok_and(|status| status.success())
}

/// A shared object with the calls of `peer/dataset_calls.h`.
fn build_object(compiler: &str, out: &Path, source: &str, name: &str, flags: &[String]) {
    run(Command::new(compiler)
        .args(["-std=gnu11", "-O2", "-fPIC", "-shared", "-Wall", "-Wextra", source, "-o"])
        .arg(out.join(format!("libstriate_{name}.so")))
        .args(flags));
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
