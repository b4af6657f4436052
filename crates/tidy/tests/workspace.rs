//! The checks, applied to this workspace.

use std::fs;

use striate_tidy::{Workspace, documents, drawing, packages, type_names, width};

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
fn documents_name_what_is_there() {
    let workspace = Workspace::read();
    let sources = workspace.packages.iter().flat_map(|package| &package.sources);
    let mut paths: Vec<&str> = sources.map(|source| source.path.as_str()).collect();
    // The fuzz targets are a workspace of their own.
    let fuzz = fs::read_dir(workspace.root.join("fuzz/bodies")).unwrap();
    let fuzz: Vec<String> =
        fuzz.map(|entry| entry.unwrap().path().to_str().unwrap().to_owned()).collect();
    paths.extend(fuzz.iter().map(String::as_str));
    let mut findings = Vec::new();
    for directory in ["", "docs", "docs/design", "examples"] {
        for entry in fs::read_dir(workspace.root.join(directory)).unwrap() {
            let path = entry.unwrap().path();
            // What was true of older versions may be gone.
            if path.extension().is_none_or(|kind| kind != "md") || path.ends_with("CHANGELOG.md") {
                continue;
            }
            let document = fs::read_to_string(&path).unwrap();
            let shown = path.strip_prefix(&workspace.root).unwrap().display();
            for name in documents::absent_sources(&document, &paths) {
                findings.push(format!("{shown} names `{name}`"));
            }
            for link in documents::links(&document, path.parent().unwrap()) {
                if !link.exists() {
                    findings.push(format!("{shown} links to {}", link.display()));
                }
            }
        }
    }
    assert!(findings.is_empty(), "not there:\n{}", findings.join("\n"));
}

#[test]
fn packages_have_what_publishing_needs() {
    let workspace = Workspace::read();
    let lacking = |package| packages::findings(package, &workspace.root);
    let findings: Vec<String> = workspace.packages.iter().flat_map(lacking).collect();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
