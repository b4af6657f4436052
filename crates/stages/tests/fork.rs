//! `fork` while stages buffer files: both processes continue on their own.
//!
//! The test has a process of its own, because the forked process has the locks of all files that
//! other tests have open.

#![allow(clippy::unwrap_used)]

mod name_steps;

use std::path::Path;

use name_steps::{MADE, NameStep, NamesProgram, Observed, PathForm, make, read, tree};

fn names(root: &Path) -> Vec<String> {
    tree(root).into_keys().collect()
}

/// What a door does around `fork`. Returns the child, or 0 in it.
fn fork(program: &NamesProgram) -> i32 {
    let stack = &program.stack;
    stack.close_gate();
    stack.settle_all().unwrap();
    program.share_all();
    // SAFETY: the child only calls into the stack, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        stack.start_anew();
    }
    stack.open_gate();
    child
}

#[test]
fn a_copy_of_the_process_goes_on_by_itself() {
    let far = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let rules = format!("rules = [{{ from = \"ROOT\", to = \"{}\" }}]", far.path().display());
    for stage in [
        "kind = \"combine\"".to_owned(),
        format!("kind = \"path-rewrite\"\nbackground = true\n{rules}"),
        format!("kind = \"combine\"\n[[stage]]\nkind = \"path-rewrite\"\n{rules}"),
    ] {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        let stage = stage.replace("ROOT", &root.display().to_string());
        let text = format!("[paths]\ninclude = [\"{}\"]\n[[stage]]\n{stage}\n", root.display());
        let stack = striate_stages::parse_stack(&text).unwrap().build().unwrap();
        let mut program = NamesProgram::new(stack, root);
        make(&mut program, "before", b"closed before");
        program.open("common", PathForm::Absolute, MADE, 0o644).unwrap();
        program.write(0, b"parent ", None).unwrap();
        let child = fork(&program);
        if child == 0 {
            let wrote = program.write(0, b"child ", None) == Ok(6);
            make(&mut program, "of_child", b"mine");
            let read = read(&mut program, "before") == Observed::Bytes(b"closed before".to_vec());
            let finished = program.finish(true).is_ok();
            // SAFETY: nothing of the test is to run here.
            unsafe { libc::_exit(i32::from(!(wrote && finished && read))) };
        }
        let mut status = 1;
        // SAFETY: it is our child.
        unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(status, 0, "{stage}");
        program.write(0, b"parent again", None).unwrap();
        program.step(&NameStep::Close(0));
        make(&mut program, "of_parent", b"also mine");
        program.finish(true).unwrap();
        let found = tree(root);
        assert_eq!(names(root), ["before", "common", "of_child", "of_parent"], "{stage}");
        assert_eq!(found["common"].1, b"parent child parent again");
        assert_eq!(found["of_child"].1, b"mine");
        assert_eq!(std::fs::read_dir(far.path()).unwrap().count(), 0, "{stage}");
    }
}
