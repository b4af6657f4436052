//! The checks, applied to this workspace.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use striate_tidy::{Workspace, allowed, drawing, packages, type_names, width};

/// Compares findings with a list of what is still allowed, and fails with what to change. With the
/// variable `STRIATE_TIDY_SHRINK`, entries that are of no more use are removed from the list.
fn expect_allowed(found: &BTreeSet<String>, list: &str, places: impl Fn(&str) -> String) {
    let path = format!("{}/{list}", env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(&path).unwrap();
    let mut entries = allowed::entries(&text);
    if std::env::var_os("STRIATE_TIDY_SHRINK").is_some() {
        entries.retain(|entry| found.contains(entry));
        let comment = text.lines().filter(|line| line.starts_with('#')).map(str::to_owned);
        let lines: Vec<String> = comment.chain(entries.iter().cloned()).collect();
        fs::write(&path, lines.join("\n") + "\n").unwrap();
    }
    let (new, stale) = allowed::compare(found, &entries);
    let new: Vec<String> = new.iter().map(|entry| format!("{entry}: {}", places(entry))).collect();
    assert!(new.is_empty(), "not allowed:\n{}", new.join("\n"));
    assert!(stale.is_empty(), "remove from crates/tidy/{list}:\n{}", stale.join("\n"));
}

#[test]
fn a_type_name_is_defined_once_in_a_package() {
    let workspace = Workspace::read();
    let mut found = BTreeMap::new();
    for package in &workspace.packages {
        for (name, places) in type_names::repeated(&package.sources) {
            found.insert(format!("{} {name}", package.name), places.join(" "));
        }
    }
    let names = found.keys().cloned().collect();
    expect_allowed(&names, "repeated-type-names.txt", |entry| found[entry].clone());
}

#[test]
fn lines_are_as_wide_as_configured() {
    let workspace = Workspace::read();
    let rustfmt = fs::read_to_string(workspace.root.join("rustfmt.toml")).unwrap();
    let width = width::configured(&rustfmt).unwrap();
    let mut found = BTreeMap::new();
    for source in workspace.packages.iter().flat_map(|package| &package.sources) {
        let lines = width::wide_lines(&source.text, width);
        if !lines.is_empty() {
            found.insert(source.path.clone(), format!("lines {lines:?}"));
        }
    }
    let files = found.keys().cloned().collect();
    expect_allowed(&files, "wide-files.txt", |entry| found[entry].clone());
}

#[test]
fn the_drawing_shows_the_dependencies() {
    let workspace = Workspace::read();
    let document = fs::read_to_string(workspace.root.join("ARCHITECTURE.md")).unwrap();
    let findings = drawing::findings(&document, &workspace.packages);
    assert!(findings.is_empty(), "ARCHITECTURE.md:\n{}", findings.join("\n"));
}

#[test]
fn packages_have_what_publishing_needs() {
    let workspace = Workspace::read();
    let lacking = |package| packages::findings(package, &workspace.root);
    let findings: Vec<String> = workspace.packages.iter().flat_map(lacking).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
