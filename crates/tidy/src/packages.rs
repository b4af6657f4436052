//! Check of manifests and directories: everything that publishing a package needs.

use std::path::Path;

use crate::Package;

/// The licences, of which each package has a copy or a link.
const LICENCES: [&str; 2] = ["LICENSE-MIT", "LICENSE-APACHE"];

/// What a package lacks, a sentence each. What is not published needs nothing.
pub fn findings(package: &Package, root: &Path) -> Vec<String> {
    let manifest = &package.manifest;
    // `publish = false` is an empty list of registries.
    if manifest["publish"].as_array().is_some_and(Vec::is_empty) {
        return Vec::new();
    }
    let mut findings = Vec::new();
    let mut lacks = |what: &str| findings.push(format!("{}: {what}", package.directory));
    for field in ["description", "license"] {
        if !manifest[field].is_string() {
            lacks(&format!("the manifest has no {field}"));
        }
    }
    for (field, most) in [("keywords", 5), ("categories", 5)] {
        let count = manifest[field].as_array().map_or(0, Vec::len);
        if !(1..=most).contains(&count) {
            lacks(&format!("the manifest has {count} {field}; 1 to {most} are wanted"));
        }
    }
    for used in manifest["dependencies"].as_array().into_iter().flatten() {
        // Tests' dependencies without a version are left out of packages.
        if used["path"].is_string() && used["kind"] != "dev" && used["req"] == "*" {
            lacks(&format!("the dependency {} has no version", used["name"]));
        }
    }
    for licence in LICENCES {
        if !root.join(&package.directory).join(licence).is_file() {
            lacks(&format!("{licence} is missing; link ../../{licence}"));
        }
    }
    if let Some(outside) = includes_from_outside(package) {
        lacks(&format!("{outside} includes a file from outside of the package"));
    }
    findings
}

/// The first place in the package's own code that includes a file which its package will not have.
/// Code for tests and documentation tests may.
fn includes_from_outside(package: &Package) -> Option<String> {
    let own = format!("{}/src/", package.directory);
    for source in package.sources.iter().filter(|source| source.path.starts_with(&own)) {
        // Steps up from the file's directory to that of the package, and one more.
        let depth = source.path[own.len()..].matches('/').count() + 1;
        let outside = format!("\"{}", "../".repeat(depth + 1));
        let mut for_tests = false;
        for (number, line) in source.text.lines().enumerate() {
            for_tests |= line == "#[cfg(test)]" || line == "#[cfg(doctest)]";
            let includes = line.contains("include_") || line.contains("#[path");
            if includes && !for_tests && line.contains(&outside) {
                return Some(format!("{}:{}", source.path, number + 1));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::{findings, includes_from_outside};
    use crate::{Package, Source};

    fn package(manifest: serde_json::Value, text: &str) -> Package {
        let path = "crates/none/src/deep/file.rs".to_owned();
        Package {
            name: "striate-none".into(),
            directory: "crates/none".into(),
            uses: Vec::new(),
            manifest,
            sources: vec![Source { path, text: text.into() }],
        }
    }

    #[test]
    fn what_is_not_published_needs_nothing() {
        let package = package(json!({ "publish": [] }), "");
        assert_eq!(findings(&package, Path::new("/nowhere")), Vec::<String>::new());
    }

    #[test]
    fn what_is_missing_is_told() {
        let used = json!([
            { "name": "striate-wire", "path": "/wire", "kind": null, "req": "*" },
            { "name": "striate-test", "path": "/test", "kind": "dev", "req": "*" },
            { "name": "striate-comm", "path": "/comm", "kind": null, "req": "^0.1.0" },
        ]);
        let manifest = json!({
            "description": "none", "license": null, "keywords": ["a"], "categories": [],
            "dependencies": used, "publish": null,
        });
        let found = findings(&package(manifest, ""), Path::new("/nowhere")).join("\n");
        let expected = "\
crates/none: the manifest has no license
crates/none: the manifest has 0 categories; 1 to 5 are wanted
crates/none: the dependency \"striate-wire\" has no version
crates/none: LICENSE-MIT is missing; link ../../LICENSE-MIT
crates/none: LICENSE-APACHE is missing; link ../../LICENSE-APACHE";
        assert_eq!(found, expected);
    }

    #[test]
    fn files_from_outside_are_found() {
        let within = package(json!({}), "include_str!(\"../../data/a\")\n");
        assert_eq!(includes_from_outside(&within), None);
        let outside = package(json!({}), "\n    include_str!(\"../../../other/a\")\n");
        let place = Some("crates/none/src/deep/file.rs:2".to_owned());
        assert_eq!(includes_from_outside(&outside), place);
        let tested = package(json!({}), "#[cfg(test)]\ninclude_str!(\"../../../other/a\")\n");
        assert_eq!(includes_from_outside(&tested), None);
    }
}
