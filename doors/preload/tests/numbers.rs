//! The descriptors that a program gets have the numbers that they have without Striate: the lowest
//! that are free, by every call that returns one, also while stages open files of their own.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unreachable_pub, reason = "modules of tests are shared")]
#![allow(dead_code, missing_docs, unused_imports, reason = "modules of tests are shared")]

mod stacks;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use stacks::{Image, STACKS, Stack, Workspace};

fn program() -> &'static Path {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| compiled("numbers"))
}

fn compiled(name: &str) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let made = program.with_extension(std::process::id().to_string());
    let output = Command::new("cc")
        .args(["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Wno-unused-result", "-pthread", "-o"])
        .args([&made, &source])
        .args(["-lrt"])
        .output()
        .expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::rename(&made, &program).unwrap();
    program
}

/// What the program told, and what it left. `closed` are standard streams that it does not have,
/// `most` how many descriptors it may have.
fn act(place: &Workspace, stack: &Stack, closed: &str, most: u32) -> (Vec<String>, Image) {
    place.renew();
    let mut command = place.command("sh", stack);
    // The program itself loads the library, when it has closed what it is to close.
    if stack.text(place.seen(), place.beside()).is_some() {
        command.env("LIBRARY", stacks::library());
    }
    command.env_remove("LD_PRELOAD").arg("-c").arg(format!("ulimit -n {most}; exec \"$@\""));
    command.arg("sh").arg(program()).args(["put", closed]);
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}: {output:?}", stack.name);
    if stack.name == Stack::CONTAINER.name {
        place.unpack();
    }
    let told = place.work().join("told");
    let lines = std::fs::read_to_string(&told).unwrap();
    std::fs::remove_file(told).unwrap();
    (lines.lines().map(str::to_owned).collect(), Image::of(&place.work(), |_| false))
}

fn same_numbers(stacks: &[&Stack], closed: &str, most: u32) {
    let place = Workspace::new();
    let native = act(&place, &Stack::NATIVE, closed, most);
    assert!(native.0.len() > 80, "{:?}", native.0);
    let mut failures = Vec::new();
    for stack in stacks {
        let other = act(&place, stack, closed, most);
        for (native, other) in native.0.iter().zip(&other.0) {
            if native != other {
                failures.push(format!("{}: {other} instead of {native}", stack.name));
            }
        }
        if native.0.len() != other.0.len() {
            failures.push(format!("{}: {} lines", stack.name, other.0.len()));
        }
        let differences = native.1.difference(&other.1).into_iter();
        failures.extend(differences.map(|line| format!("{}: {line}", stack.name)));
    }
    assert!(failures.is_empty(), "without {closed:?} and {most} at most:\n{}", failures.join("\n"));
}

fn all() -> Vec<&'static Stack> {
    let others = [&Stack::CONTAINER, &Stack::EXISTING, &Stack::EXISTING_BESIDE];
    STACKS.iter().chain(others).collect()
}

#[test]
fn numbers_are_the_lowest_that_are_free() {
    same_numbers(&all(), "", 1024);
}

#[test]
fn numbers_are_so_without_the_standard_streams() {
    same_numbers(&all(), "012", 1024);
}

#[test]
fn numbers_are_so_where_there_are_few() {
    same_numbers(
        &[&Stack::EXISTING, Stack::named("path-rewrite, background"), Stack::named("full")],
        "1",
        256,
    );
}

/// Descriptors of stages that the program finds, and what it leaves.
fn tries_to_replace(place: &Workspace, stack: &Stack, program: &Path) -> (usize, Image) {
    place.renew();
    for number in 20..40 {
        std::fs::write(place.work().join(format!("there{number}")), "what was there\n").unwrap();
    }
    let output = place.command(program, stack).output().unwrap();
    assert!(output.status.success(), "{}: {output:?}", stack.name);
    if stack.name == Stack::CONTAINER.name {
        place.unpack();
    }
    let printed = String::from_utf8(output.stdout).unwrap();
    let found = printed.split(' ').next().and_then(|word| word.parse().ok());
    let found = found.unwrap_or_else(|| panic!("{}: {printed}", stack.name));
    (found, Image::of(&place.work(), |_| false))
}

#[test]
fn descriptors_of_stages_are_neither_closed_nor_replaced() {
    let place = Workspace::new();
    let program = compiled("onto_stages");
    let (none, native) = tries_to_replace(&place, &Stack::NATIVE, &program);
    assert_eq!(none, 0);
    let mut all_found = 0;
    for stack in all() {
        let (found, left) = tries_to_replace(&place, stack, &program);
        let differences: Vec<_> = native.difference(&left).into_iter().collect();
        assert!(differences.is_empty(), "{}: {differences:?}", stack.name);
        all_found += found;
    }
    assert!(all_found > 40, "stages had {all_found} descriptors");
}
