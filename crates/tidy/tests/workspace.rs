//! The checks, applied to this workspace.

use std::fs;

use striate_tidy::{Workspace, drawing, packages, type_names, width};

#[test]
fn a_type_name_is_defined_once_in_a_package() {
    let workspace = Workspace::read();
    let mut findings = Vec::new();
    for package in &workspace.packages {
        for (name, places) in type_names::repeated(&package.sources) {
            findings.push(format!("{} {name}: {}", package.name, places.join(" ")));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}

#[test]
fn comments_are_as_wide_as_configured() {
    let workspace = Workspace::read();
    let rustfmt = fs::read_to_string(workspace.root.join("rustfmt.toml")).unwrap();
    let width = width::configured(&rustfmt).unwrap();
    let mut findings = Vec::new();
    for source in workspace.packages.iter().flat_map(|package| &package.sources) {
        let lines = width::wide_comments(&source.text, width);
        if !lines.is_empty() {
            findings.push(format!("{}: lines {lines:?}", source.path));
        }
    }
    assert!(findings.is_empty(), "{}", findings.join("\n"));
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
