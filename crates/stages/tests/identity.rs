//! Device and inode of files under combine, beyond random sequences (`names.rs`): in a forked
//! process, under two such stages, in containers.

#![allow(clippy::unwrap_used)]

mod name_steps;

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use name_steps::{NameStep, NamesProgram, PathForm};

const MADE: i32 = libc::O_CREAT | libc::O_TRUNC | libc::O_RDWR;

fn program(root: &Path, stages: &str) -> NamesProgram {
    let stages = stages.replace("ROOT", &root.display().to_string());
    let text = format!("[paths]\ninclude = [\"{}\"]\n{stages}", root.display());
    NamesProgram::new(striate_stages::parse_stack(&text).unwrap().build().unwrap(), root)
}

fn named(program: &mut NamesProgram, path: &str) -> (u64, u64) {
    program.step(&NameStep::Stat(path.into(), PathForm::Absolute, true));
    program.identity.get().unwrap()
}

fn opened(program: &mut NamesProgram, slot: usize) -> (u64, u64) {
    program.step(&NameStep::Fstat(slot));
    program.identity.get().unwrap()
}

fn real(root: &Path, path: &str) -> (u64, u64) {
    let data = std::fs::metadata(root.join(path)).unwrap();
    (data.dev(), data.ino())
}

#[test]
fn a_copy_of_the_process_goes_on_with_what_it_was_told() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    let mut program = program(root, "[[stage]]\nkind = \"combine\"\n");
    for path in ["told", "not_told"] {
        program.open(path, PathForm::Absolute, MADE, 0o644).unwrap();
    }
    let told = named(&mut program, "told");
    assert_eq!(opened(&mut program, 0), told);
    program.share_all();
    program.stack.settle_all().unwrap();
    assert_ne!(real(root, "told"), told);
    // The program never asked for this one: it is given the real identity.
    assert_eq!(named(&mut program, "not_told"), real(root, "not_told"));
    program.stack.start_anew();
    assert_eq!((opened(&mut program, 0), named(&mut program, "told")), (told, told));
    program.open("told", PathForm::Absolute, libc::O_RDONLY, 0).unwrap();
    let last = program.last();
    assert_eq!(opened(&mut program, last), told);
    // And so it is under another name.
    program.step(&NameStep::Rename("told".into(), "renamed".into(), 0));
    program.step(&NameStep::Link("renamed".into(), "linked".into()));
    assert_eq!((named(&mut program, "renamed"), named(&mut program, "linked")), (told, told));
    // What has its old name is another.
    program.open("told", PathForm::Absolute, MADE, 0o644).unwrap();
    assert_ne!(named(&mut program, "told"), told);
    program.finish(true).unwrap();
}

#[test]
fn two_stages_do_not_tell_the_same_of_two_files() {
    let place = tempfile::tempdir().unwrap();
    let stages = "[[stage]]\nkind = \"combine\"\nfiles = 3\npaths = [\"*.a\"]\n\
        [[stage]]\nkind = \"count\"\n[[stage]]\nkind = \"combine\"\n";
    let mut program = program(place.path(), stages);
    let names: Vec<String> =
        (0..12).map(|n| format!("{n}.{}", if n % 2 == 0 { "a" } else { "b" })).collect();
    let mut told = Vec::new();
    for path in &names {
        program.open(path, PathForm::Absolute, MADE, 0o644).unwrap();
        told.push(named(&mut program, path));
        let last = program.last();
        program.close(last).unwrap();
    }
    assert_eq!(told.iter().collect::<HashSet<_>>().len(), names.len());
    let now: Vec<_> = names.iter().map(|path| named(&mut program, path)).collect();
    assert_eq!(now, told);
    program.stack.settle_all().unwrap();
    let now: Vec<_> = names.iter().map(|path| named(&mut program, path)).collect();
    assert_eq!(now, told);
    program.finish(true).unwrap();
}

#[test]
fn files_in_containers_stay_who_they_are() {
    let place = tempfile::tempdir().unwrap();
    let (root, kept) = (place.path().join("root"), place.path().join("kept"));
    std::fs::create_dir(&root).unwrap();
    std::fs::create_dir(&kept).unwrap();
    let stage = format!(
        "[[stage]]\nkind = \"combine\"\nunpack = false\ndirectory = \"{}\"\n",
        kept.display()
    );
    let mut first = program(&root, &stage);
    first.open("x", PathForm::Absolute, MADE, 0o644).unwrap();
    first.write(0, b"kept", None).unwrap();
    let told = opened(&mut first, 0);
    first.close(0).unwrap();
    first.stack.settle_all().unwrap();
    assert_eq!(named(&mut first, "x"), told, "it is in a container now");
    first.step(&NameStep::Access("x".into()));
    assert_ne!(real(&root, "x"), told, "and a real file now");
    assert_eq!(named(&mut first, "x"), told);
    first.finish(true).unwrap();
}
