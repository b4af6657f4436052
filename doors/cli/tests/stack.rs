//! `striate stack`: what is said about stages, by the program and by the documentation.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn striate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.args(arguments).env("NO_COLOR", "1").output().unwrap()
}

fn answer(arguments: &[&str]) -> String {
    let output = striate(arguments);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// If this fails: `striate stack list --markdown`.
#[test]
fn the_table_in_the_documentation_is_that_of_the_program() {
    let guide = fs::read_to_string(root().join("docs/stack.md")).unwrap();
    let table = guide.split("<!-- the table of stages -->\n").nth(1).expect("the table is marked");
    assert_eq!(table, answer(&["stack", "list", "--markdown"]), "the table of docs/stack.md");
}

#[test]
fn every_stage_has_a_section_in_the_documentation() {
    let guide = fs::read_to_string(root().join("docs/stack.md")).unwrap();
    let document: Value = serde_json::from_str(&answer(&["stack", "list", "--json"])).unwrap();
    let stages = document["rows"].as_array().unwrap();
    assert!(!stages.is_empty());
    for stage in stages {
        let name = stage["stage"].as_str().unwrap();
        assert!(guide.contains(&format!("\n### {name}\n")), "{name} has no section");
        assert!(answer(&["stack", "list"]).contains(name));
    }
}

#[test]
fn the_examples_are_stacks() {
    let mut count = 0;
    for entry in fs::read_dir(root().join("etc/stacks")).unwrap() {
        let path = entry.unwrap().path();
        let text = answer(&["stack", "check", path.to_str().unwrap()]);
        assert!(text.contains("An operation of the program passes\n  1. "), "{text}");
        assert!(text.ends_with("and then the kernel carries it out.\n"), "{text}");
        count += 1;
    }
    assert!(count >= 9, "{count}");
}

#[test]
fn a_chain_is_explained() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stack.toml");
    let text = "[paths]\ninclude = ['/data']\nexclude = ['*.log']\n\
        [[stage]]\nkind = 'count'\npaths = ['*.nc']\nlabel = 'top'\n\
        [[stage]]\nkind = 'throttle'\nlatency = '1ms'\nkinds = ['read', 'sync']\n";
    fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let text = answer(&["stack", "check", path]);
    for line in [
        "Files: /data; without *.log",
        "  1. count: counts calls, errors, bytes, lengths and times",
        "       sees     all operations",
        "       files    *.nc",
        "       option   label = \"top\"",
        "       sees     read, sync",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
    let document: Value =
        serde_json::from_str(&answer(&["stack", "check", "--json", path])).unwrap();
    assert_eq!(document["rows"][1]["operations"], serde_json::json!(["read", "sync"]));
    assert_eq!(answer(&["stack", "recover", path]), "Nothing was left behind.\n");
}

#[test]
fn nonsense_is_rejected_with_its_place() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("stack.toml");
    for (text, reason) in [
        ("[[stage]]\nkind = 'coumt'", "stage 1 (coumt): no such kind; there are count"),
        ("[[stage]]\nlabel = 'a'", "stage 1 (?): no such kind"),
        ("[[stage]]\nkind = 'count'\ncolour = 'red'", "stage 1 (count): unknown field `colour`"),
        (
            "[[stage]]\nkind = 'count'\n[[stage]]\nkind = 'throttle'",
            "stage 2 (throttle): say latency",
        ),
        ("[[stage]]\nkind = 'count'\n[[stage]]\nkind = 'count'", "two stages count in a row"),
        ("[[stage]]\nkind = 'count'\npaths = ['data']", "stage 1 (count): \"data\" is neither"),
        ("[paths]\ninclude = ['data']", "[paths]: \"data\" is neither"),
        ("stage = 3", "stage"),
        ("[[stage]", "TOML"),
    ] {
        fs::write(&path, text).unwrap();
        let output = striate(&["stack", "check", path.to_str().unwrap()]);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{text}: {complaint}");
        assert!(complaint.contains("stack.toml is not a stack"), "{complaint}");
        assert!(complaint.contains(reason), "{text}: {complaint}");
    }
    let output = striate(&["stack", "check", "/nowhere/stack.toml"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("No such file"));
}
