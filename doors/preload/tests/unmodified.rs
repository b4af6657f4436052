//! Unmodified programs do the same without Striate and under each stack: what they print, how they end, and
//! every file they leave.
//!
//! The feature `peers` says that the programs are installed: see `PACKAGES` in `./test`.
//! `STRIATE_STACKS='count;trace'` tries only these stacks.
#![cfg(feature = "peers")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unreachable_pub, reason = "modules of tests are shared")]
#![allow(dead_code, missing_docs, unused_imports, reason = "modules of tests are shared")]

mod under;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use under::{Ended, Image, LONGEST, Place, Stack, run};

/// What a script does, and what it leaves that is the same whenever it is run.
#[derive(Clone, Copy)]
struct Script {
    file: &'static str,
    /// Names of files that hold times, numbers of processes and the like.
    ignored: fn(&str) -> bool,
}

impl Script {
    const fn new(file: &'static str) -> Self {
        Self { file, ignored: |_| false }
    }

    /// Runs it under all stacks, with more in its environment.
    fn same_everywhere(self, environment: &[(&str, &Path)]) {
        let place = Place::new();
        let native = self.run(&place, &Stack::NATIVE, environment);
        let code = native.0.status.and_then(|status| status.code());
        assert_eq!(code, Some(0), "{} fails without Striate: {}", self.file, native.0.stderr);
        let only = std::env::var("STRIATE_STACKS").ok();
        let mut failures = Vec::new();
        for stack in under::STACKS {
            if only.as_ref().is_some_and(|only| !only.split(';').any(|name| name == stack.name)) {
                continue;
            }
            let other = self.run(&place, stack, environment);
            let told = difference(&native, &other);
            if !told.is_empty() {
                failures.push(format!("under {}:\n  {}", stack.name, told.join("\n  ")));
            }
        }
        assert!(failures.is_empty(), "{}:\n{}", self.file, failures.join("\n"));
    }

    fn run(self, place: &Place, stack: &Stack, environment: &[(&str, &Path)]) -> (Ended, Image) {
        place.renew();
        let mut command = place.command("/bin/sh", stack);
        command
            .arg(scripts().join(self.file))
            .env("SCRIPTS", scripts())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // What MPI wants to hear before it runs for the superuser, as the tests do in containers.
            .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")])
            .envs(environment.iter().copied());
        let ended = run(&mut command, LONGEST);
        (ended, Image::of(&place.work(), self.ignored))
    }
}

fn scripts() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/unmodified")
}

fn difference(native: &(Ended, Image), other: &(Ended, Image)) -> Vec<String> {
    let mut told = Vec::new();
    if other.0.status != native.0.status {
        let ended = other.0.status.map_or("does not end".into(), |status| status.to_string());
        told.push(ended);
    }
    if other.0.stdout != native.0.stdout {
        let (before, now) = (native.0.stdout.lines(), other.0.stdout.lines());
        let pairs = before.map(Some).chain([None]).zip(now.map(Some).chain([None]));
        let first = pairs.enumerate().find(|(_, (before, now))| before != now);
        told.push(format!("prints otherwise, first in line {first:?}"));
    }
    told.extend(native.1.difference(&other.1).into_iter().take(12));
    if !told.is_empty() && !other.0.stderr.is_empty() {
        let last: Vec<_> = other.0.stderr.lines().rev().take(12).collect();
        told.push(format!("stderr: {}", last.into_iter().rev().collect::<Vec<_>>().join("\n    ")));
    }
    told
}

#[test]
fn coreutils() {
    Script::new("coreutils.sh").same_everywhere(&[]);
}

#[test]
fn tar() {
    Script::new("tar.sh").same_everywhere(&[]);
}

#[test]
fn git() {
    // An index has the times of all files in it.
    let ignored = |name: &str| name.ends_with("/index");
    Script { ignored, ..Script::new("git.sh") }.same_everywhere(&[]);
}

#[test]
fn sqlite() {
    Script::new("sqlite.sh").same_everywhere(&[]);
}

#[test]
fn rsync() {
    Script::new("rsync.sh").same_everywhere(&[]);
}

#[test]
fn gcc() {
    Script::new("gcc.sh").same_everywhere(&[]);
}

#[test]
fn python() {
    Script::new("python.sh").same_everywhere(&[("PYTHON", interpreter())]);
}

#[test]
fn h5py() {
    Script::new("h5py.sh").same_everywhere(&[("PYTHON", interpreter())]);
}

#[test]
fn netcdf_and_nco() {
    Script::new("netcdf.sh").same_everywhere(&[]);
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
            .arg(scripts().join("mpi.c")),
    );
    Script::new("mpi.sh")
        .same_everywhere(&[("PROGRAM", &program), ("MPIEXEC", Path::new(mpiexec))]);
}

fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A python that has h5py: `STRIATE_PYTHON`, or one beside what cargo builds, which is made when it is
/// first needed.
fn interpreter() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        let has_it = |python: &Path| {
            let asked = Command::new(python).args(["-c", "import h5py"]).output();
            asked.is_ok_and(|output| output.status.success())
        };
        if let Some(given) = std::env::var_os("STRIATE_PYTHON").map(PathBuf::from)
            && has_it(&given)
        {
            return given;
        }
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python-h5py");
        let python = home.join("bin/python");
        if !has_it(&python) {
            succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home));
            succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet", "h5py"]));
        }
        python
    })
}
