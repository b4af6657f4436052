//! Scripts that use programs of other projects, which must be installed: see `PACKAGES` in
//! `./test`.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Ended, Image, LONGEST, Stack, run};

/// What a script does, and what it leaves that is the same whenever it is run.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    /// Its file.
    pub file: &'static str,
    /// Names of files that hold times, numbers of processes and the like.
    pub ignored: fn(&str) -> bool,
}

impl Script {
    /// One that leaves nothing but what is always the same.
    pub const fn new(file: &'static str) -> Self {
        Self { file, ignored: |_| false }
    }

    /// The one that uses git, whose index has the times of all files in it.
    pub const fn git() -> Self {
        Self { ignored: |name| name.ends_with("/index"), ..Self::new("git.sh") }
    }

    /// Adds the script and what it needs to the shell that runs it.
    pub fn add_to(self, shell: &mut Command) {
        shell
            .arg(directory().join(self.file))
            .env("SCRIPTS", directory())
            .env("PYTHONDONTWRITEBYTECODE", "1")
            // Variables that permit MPI to run as the superuser, as the tests do in containers.
            .envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    }
}

/// Where the scripts are.
pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("programs/scripts")
}

/// How another run differs from the one without Striate, in words.
pub fn difference(native: &(Ended, Image), other: &(Ended, Image)) -> Vec<String> {
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

/// Runs a script in the shell of a command, which says where; how it ended, and what it left below
/// `work`.
pub fn act(
    script: Script,
    mut shell: Command,
    work: &Path,
    environment: &[(&str, &Path)],
) -> (Ended, Image) {
    script.add_to(&mut shell);
    shell.envs(environment.iter().copied());
    let ended = run(&mut shell, LONGEST);
    (ended, Image::of(work, script.ignored))
}

/// Checks that a script, which has been run without Striate, does the same with each stack: `with`
/// runs it and says how it differed. `STRIATE_STACKS='count;trace'` tries only these stacks.
pub fn same_with<'s>(
    script: Script,
    native: &(Ended, Image),
    stacks: impl IntoIterator<Item = &'s Stack>,
    mut with: impl FnMut(&Stack) -> Vec<String>,
) {
    let code = native.0.status.and_then(|status| status.code());
    assert_eq!(code, Some(0), "{} fails without Striate: {}", script.file, native.0.stderr);
    let only = std::env::var("STRIATE_STACKS").ok();
    let is_wanted = |stack: &Stack| {
        only.as_ref().is_none_or(|only| only.split(';').any(|name| name == stack.name))
    };
    let mut failures = Vec::new();
    for stack in stacks.into_iter().filter(|stack| is_wanted(stack)) {
        let told = with(stack);
        if !told.is_empty() {
            failures.push(format!("with {}:\n  {}", stack.name, told.join("\n  ")));
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", script.file, failures.join("\n"));
}

/// Compiles the program of the script `mpi.sh` for an MPI.
pub fn compile_ranks(mpi: &str, program: &Path) {
    let mut compiler = Command::new(format!("mpicc.{mpi}"));
    succeed(compiler.args(["-O1", "-o"]).arg(program).arg(directory().join("mpi.c")));
}

/// Runs a command that has to succeed.
pub fn succeed(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// A python that has h5py: `STRIATE_PYTHON`, or one below this directory, which is made when it is
/// first needed.
pub fn python(beside: &Path) -> PathBuf {
    let has_it = |python: &Path| {
        let asked = Command::new(python).args(["-c", "import h5py"]).output();
        asked.is_ok_and(|output| output.status.success())
    };
    if let Some(given) = std::env::var_os("STRIATE_PYTHON").map(PathBuf::from)
        && has_it(&given)
    {
        return given;
    }
    let home = beside.join("python-h5py");
    let python = home.join("bin/python");
    if !has_it(&python) {
        succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&home));
        succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet", "h5py"]));
    }
    python
}
