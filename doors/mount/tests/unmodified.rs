//! Unmodified programs do the same on a mount, with each stack, as without: what they print, how
//! they end, and every file they leave.
//!
//! The feature `peers` says that the programs are installed: see `PACKAGES` in `./test`.
//! `STRIATE_STACKS='count;trace'` tries only these stacks.
#![cfg(feature = "peers")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "modules of tests are shared")]

mod support;

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use striate_unmodified::scripts::{self, Script, difference};
use striate_unmodified::{Image, STACKS, Stack};
use support::{Mount, command, renew};

/// Runs a script without Striate and on mounts with all stacks.
fn same_everywhere(script: Script, environment: &[(&str, &Path)]) {
    same_with(STACKS.iter(), script, environment);
}

/// The same with some stacks.
fn same_with<'s>(
    stacks: impl Iterator<Item = &'s Stack>,
    script: Script,
    environment: &[(&str, &Path)],
) {
    let act = |below: &Path| {
        renew(below);
        scripts::act(script, command("/bin/sh", below), &below.join("work"), environment)
    };
    // Without Striate and with each stack in a directory of the same name, so that what they print
    // is the same.
    let mut mount = Mount::plain();
    mount.end();
    let native = act(&mount.point(""));
    scripts::same_with(script, &native, stacks, |stack| {
        mount.again(stack);
        let mut told = difference(&native, &act(&mount.point("")));
        mount.end();
        let left = Image::of(&mount.source("work"), script.ignored);
        let left = native.1.difference(&left);
        told.extend(left.into_iter().take(5).map(|line| format!("on the source: {line}")));
        told
    });
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

/// It takes long, so the stacks are few: without stages, and those that change what is done with
/// data most.
#[test]
fn cargo() {
    let cargo = Path::new(env!("CARGO"));
    let environment = [("CARGO", cargo), ("RUSTC", &cargo.with_file_name("rustc"))];
    let names = ["no stages", "write-back", "combine", "path-rewrite", "full"];
    same_with(names.map(Stack::named).into_iter(), Script::new("cargo.sh"), &environment);
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

fn interpreter() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| scripts::python(Path::new(env!("CARGO_TARGET_TMPDIR"))))
}
