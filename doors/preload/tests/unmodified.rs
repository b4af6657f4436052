//! Unmodified programs do the same without Striate and under each stack: what they print, how they
//! end, and every file they leave.
//!
//! The feature `peers` says that the programs are installed: see `PACKAGES` in `./test`.
//! `STRIATE_STACKS='count;trace'` tries only these stacks.
#![cfg(feature = "peers")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unreachable_pub, reason = "modules of tests are shared")]
#![allow(dead_code, missing_docs, unused_imports, reason = "modules of tests are shared")]

mod stacks;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use stacks::{Stack, Workspace};
use striate_unmodified::scripts::{self, Script, difference};

/// Runs a script under all stacks, with more in its environment.
fn same_everywhere(script: Script, environment: &[(&str, &Path)]) {
    let place = Workspace::new();
    let act = |stack: &Stack| {
        place.renew();
        scripts::act(script, place.command("/bin/sh", stack), &place.work(), environment)
    };
    let native = act(&Stack::NATIVE);
    scripts::same_with(script, &native, stacks::STACKS, |stack| difference(&native, &act(stack)));
}

#[test]
fn coreutils() {
    same_everywhere(Script::new("coreutils.sh"), &[]);
}

#[test]
fn tar() {
    same_everywhere(Script::new("tar.sh"), &[]);
}

#[test]
fn git() {
    same_everywhere(Script::git(), &[]);
}

#[test]
fn sqlite() {
    same_everywhere(Script::new("sqlite.sh"), &[]);
}

#[test]
fn rsync() {
    same_everywhere(Script::new("rsync.sh"), &[]);
}

#[test]
fn gcc() {
    same_everywhere(Script::new("gcc.sh"), &[]);
}

#[test]
fn python() {
    same_everywhere(Script::new("python.sh"), &[("PYTHON", interpreter())]);
}

#[test]
fn h5py() {
    same_everywhere(Script::new("h5py.sh"), &[("PYTHON", interpreter())]);
}

#[test]
fn netcdf_and_nco() {
    same_everywhere(Script::new("netcdf.sh"), &[]);
}

#[test]
fn open_mpi() {
    ranks("openmpi", "mpiexec.openmpi --oversubscribe --bind-to none");
}

#[test]
fn mpich() {
    ranks("mpich", "mpiexec.mpich");
}

fn ranks(mpi: &str, mpiexec: &str) {
    let made = tempfile::tempdir().unwrap();
    let program = made.path().join("ranks");
    scripts::compile_ranks(mpi, &program);
    same_everywhere(
        Script::new("mpi.sh"),
        &[("PROGRAM", &program), ("MPIEXEC", Path::new(mpiexec))],
    );
}

fn interpreter() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| scripts::python(Path::new(env!("CARGO_TARGET_TMPDIR"))))
}
