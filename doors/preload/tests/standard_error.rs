//! What stages say on standard error ends no program, also if the pipe has no reader.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unreachable_pub, reason = "modules of tests are shared")]
#![allow(dead_code, missing_docs, unused_imports, reason = "modules of tests are shared")]

mod stacks;

use std::fs;
use std::process::{Command, ExitStatus, Stdio};

#[test]
fn a_message_that_nobody_reads() {
    let place = tempfile::tempdir().unwrap();
    let path = |name: &str| place.path().join(name);
    let seen = place.path().display();
    let stack = format!("[paths]\ninclude = [\"{seen}\"]\n[[stage]]\nkind = \"count\"\n");
    fs::write(path("stack.toml"), stack).unwrap();
    // A program in C, for which a signal that is not handled is the end, and which leaves its
    // standard error open.
    let program = |stderr: Stdio| {
        let mut command = Command::new("sh");
        command.args(["-c", "printf content > to"]).current_dir(place.path()).stderr(stderr);
        command.env("LD_PRELOAD", stacks::library()).env("STRIATE_STACK", path("stack.toml"));
        command
    };
    let output = program(Stdio::piped()).output().unwrap();
    assert!(!output.stderr.is_empty(), "it has something to say");

    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ended: ExitStatus = program(writer.into()).status().unwrap();
    assert!(ended.success(), "{ended}");
    assert_eq!(fs::read_to_string(path("to")).unwrap(), "content");
}
