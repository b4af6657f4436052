//! What goes wrong: the class that the standard names, and an end within bounds.

use std::path::Path;
use std::process::Command;

use striate_testing::mpi_job::{self, is_openmpi, ranks};

use crate::door::{On, compile, library, passes, run, start};

#[test]
fn wrong_arguments() {
    let place = tempfile::tempdir().unwrap();
    passes(&compile("wrong.c"), &[&place.path().join("file")], &[]);
}

#[test]
fn a_rank_that_is_killed() {
    let place = tempfile::tempdir().unwrap();
    let ended = run(On::Door, &compile("killed.c"), &[&place.path().join("file")], &[]);
    assert!(!ended.success);
}

#[test]
fn fatal_errors_say_so() {
    let place = tempfile::tempdir().unwrap();
    let ended = run(On::Door, &compile("fatal.c"), &[&place.path().join("none")], &[]);
    assert!(!ended.success && !ended.output.contains("still here"), "{}", ended.output);
    assert!(ended.output.contains("MPI_File_open failed: "), "{}", ended.output);
}

/// Runs a job where a file system of this kind is mounted, in a name space of its own.
fn passes_on(options: &str, what: &str) {
    let place = tempfile::tempdir().unwrap();
    let program = compile("fails.c");
    let mut job = start(On::Door, ranks(), &program, &[]);
    let file = place.path().join("file");
    job.arg(&file).arg(what);
    let words: Vec<String> = std::iter::once(job.get_program())
        .chain(job.get_args())
        .map(|word| format!("'{}'", word.to_str().unwrap()))
        .collect();
    let mounted = place.path().display();
    let script =
        format!("mount -t tmpfs -o {options} none '{mounted}' && exec {}", words.join(" "));
    let mut command = Command::new("unshare");
    command.args(["--mount", "--map-root-user", "sh", "-c", &script]);
    let ended = mpi_job::run(&mut command);
    assert!(ended.success, "{}", ended.output);
}

#[test]
fn a_full_disk() {
    passes_on("size=3m", "full");
}

#[test]
fn a_read_only_mount() {
    passes_on("ro", "read-only");
}

/// Programs that are no ranks do not notice the door; ranks of another MPI are not started under
/// it.
#[test]
fn other_programs_and_other_mpis() {
    let echo = Command::new("echo").arg("hello").env("LD_PRELOAD", library()).output().unwrap();
    assert_eq!((&echo.stdout[..], &echo.stderr[..]), (&b"hello\n"[..], &b""[..]));

    let place = tempfile::tempdir().unwrap();
    let other = if is_openmpi() { "mpicc.mpich" } else { "mpicc.openmpi" };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/fatal.c");
    let program = place.path().join("program");
    let compiled = Command::new(other).arg("-o").arg(&program).arg(source).status().unwrap();
    assert!(compiled.success());
    let output = Command::new(&program).env("LD_PRELOAD", library()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(127), "{said}");
    assert!(said.contains("is built for") && said.contains("but the program uses"), "{said}");
}
