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
use std::process::Command;
use std::sync::OnceLock;

use stacks::{Ended, Image, LONGEST, Stack, Workspace, run};
use striate_unmodified::scripts::{self, Script, difference, succeed};

/// Runs a script under all stacks, with more in its environment.
fn same_everywhere(script: Script, environment: &[(&str, &Path)]) {
    let place = Workspace::new();
    let native = act(script, &place, &Stack::NATIVE, environment);
    let code = native.0.status.and_then(|status| status.code());
    assert_eq!(code, Some(0), "{} fails without Striate: {}", script.file, native.0.stderr);
    let only = std::env::var("STRIATE_STACKS").ok();
    let mut failures = Vec::new();
    for stack in stacks::STACKS {
        if only.as_ref().is_some_and(|only| !only.split(';').any(|name| name == stack.name)) {
            continue;
        }
        let other = act(script, &place, stack, environment);
        let told = difference(&native, &other);
        if !told.is_empty() {
            failures.push(format!("under {}:\n  {}", stack.name, told.join("\n  ")));
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", script.file, failures.join("\n"));
}

fn act(
    script: Script,
    place: &Workspace,
    stack: &Stack,
    environment: &[(&str, &Path)],
) -> (Ended, Image) {
    place.renew();
    let mut command = place.command("/bin/sh", stack);
    script.add_to(&mut command);
    command.envs(environment.iter().copied());
    let ended = run(&mut command, LONGEST);
    (ended, Image::of(&place.work(), script.ignored))
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
    succeed(
        Command::new(format!("mpicc.{mpi}"))
            .args(["-O1", "-o"])
            .arg(&program)
            .arg(scripts::directory().join("mpi.c")),
    );
    same_everywhere(
        Script::new("mpi.sh"),
        &[("PROGRAM", &program), ("MPIEXEC", Path::new(mpiexec))],
    );
}

fn interpreter() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| scripts::python(Path::new(env!("CARGO_TARGET_TMPDIR"))))
}
