//! Programs in C leave the same with the library as without it: every answer, every error, every
//! file.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use support::{compile, run, stack_of, stacks, unnoticed};
use tempfile::TempDir;

#[test]
fn streams() {
    unnoticed("stdio.c", &[], &[]);
}

#[test]
fn wide_streams() {
    unnoticed("wide.c", &[], &[]);
}

#[test]
fn descriptors() {
    unnoticed("descriptors.c", &[], &[]);
}

#[test]
fn processes() {
    unnoticed("processes.c", &[], &[]);
}

#[test]
fn threads() {
    unnoticed("threads.c", &[], &[]);
}

#[test]
fn cancelled_threads() {
    unnoticed("cancel.c", &[], &[]);
}

#[test]
fn copies() {
    unnoticed("copies.c", &[], &[]);
}

#[test]
fn names() {
    unnoticed("names.c", &[], &[]);
}

#[test]
fn fortified_programs() {
    let fortified = ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2", "-D_FILE_OFFSET_BITS=64"];
    for name in ["stdio.c", "descriptors.c", "copies.c"] {
        unnoticed(name, &[], &fortified);
    }
}

#[test]
fn ends() {
    for how in [
        "return",
        "exit",
        "_exit",
        "_Exit",
        "quick",
        "syscall",
        "abort",
        "thread",
        "main thread ends",
        "TERM",
        "kill INT",
        "PIPE",
        "SEGV",
        "DFL",
        "handler",
        "abort handler",
        "ALRM",
        "ALRM in malloc",
        "TERM in threads",
        "small stack",
    ] {
        unnoticed("ends.c", &[how], &[]);
    }
}

#[test]
fn other_libraries_go_on_working() {
    let place = TempDir::new().unwrap();
    let other = compile("interposer.c", place.path(), &["-shared", "-fPIC"]);
    let program = compile("descriptors.c", place.path(), &[]);
    let without = run(&program, &[], None, &[&other]);
    assert!(without.complained.contains("interposed"), "{}", without.complained);
    for stack in stacks() {
        let with = run(&program, &[], Some(&stack), &[&other]);
        support::compare("descriptors.c beside another library", &with, &without);
    }
}

#[test]
fn a_wrong_configuration_is_said_and_the_program_runs() {
    let place = TempDir::new().unwrap();
    let program = compile("wide.c", place.path(), &[]);
    let without = run(&program, &[], None, &[]);
    for wrong in
        ["[[stage]]\nkind = \"no such\"\n", "nonsense", "[paths]\ninclude = [\"relative\"]"]
    {
        let mut with = run(&program, &[], Some(wrong), &[]);
        let complaint = std::mem::take(&mut with.complained);
        assert!(complaint.starts_with("striate: "), "{complaint}");
        assert_eq!(complaint.lines().count(), 1, "{complaint}");
        support::compare(wrong, &with, &without);
    }
}

/// The tests here would pass if no stage saw anything.
#[test]
fn stages_see_calls_until_files_are_shared() {
    let place = TempDir::new().unwrap();
    let program = compile("kernel_position.c", place.path(), &[]);
    let left = run(&program, &[], Some(&stack_of("write-back")), &[]);
    let expected = "written 0\nlocked 5\nwritten after 10\ninherited by a command 5\n\
        not inherited 0\nforked 5\nopened after 0\nlent 5\nstream 0\nstandard 5\n";
    assert_eq!((left.printed.as_str(), left.complained.as_str()), (expected, ""));
}

#[test]
fn files_of_others_are_left_alone() {
    let place = TempDir::new().unwrap();
    let program = compile("stdio.c", place.path(), &[]);
    let without = run(&program, &[], None, &[]);
    let elsewhere = stack_of("write-back").replace("WORK", "/nowhere");
    support::compare("elsewhere", &run(&program, &[], Some(&elsewhere), &[]), &without);
}
