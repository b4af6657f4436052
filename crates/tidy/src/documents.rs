//! Check of the names in documents: Rust files and targets of relative links must exist.

use std::path::{Component, Path, PathBuf};

/// The files of Rust that a document names between backquotes, and that are not among `paths`: each
/// must be the end of one of them.
pub fn absent_sources<'d>(document: &'d str, paths: &[&str]) -> Vec<&'d str> {
    let is_end = |path: &str, name: &str| {
        let before = path.strip_suffix(name);
        before.is_some_and(|before| before.is_empty() || before.ends_with('/'))
    };
    let named = document.split('`').skip(1).step_by(2);
    let is_source = |name: &&str| Path::new(name).extension().is_some_and(|kind| kind == "rs");
    let named = named.filter(is_source).filter(|name| !name.contains([' ', '{', '*']));
    named.filter(|name| !paths.iter().any(|path| is_end(path, name))).collect()
}

/// Where the relative links of a document in `directory` lead; without what is behind `#`.
pub fn links(document: &str, directory: &Path) -> Vec<PathBuf> {
    let targets = document.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let targets = targets.filter_map(|target| target.split('#').next());
    let relative = targets.filter(|target| !target.is_empty() && !target.contains(':'));
    relative.map(|target| normal(&directory.join(target))).collect()
}

/// A path without `..`.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => _ = normal.pop(),
            other => normal.push(other),
        }
    }
    normal
}

#[cfg(test)]
mod tests {
    use super::{absent_sources, links};
    use std::path::{Path, PathBuf};

    #[test]
    fn files_are_known_by_their_ends() {
        let paths = ["crates/file/src/plan.rs", "crates/file/src/file.rs"];
        let document = "See `plan.rs`, `src/file.rs`, `an.rs`, `gone.rs`, `a/{b,c}.rs`.";
        assert_eq!(absent_sources(document, &paths), ["an.rs", "gone.rs"]);
    }

    #[test]
    fn links_are_relative_to_the_document() {
        let document = "[a](../README.md#top), [b](b.md), [c](https://c), [d](#d)";
        let expected = ["README.md", "docs/b.md"].map(PathBuf::from);
        assert_eq!(links(document, Path::new("docs")), expected);
    }
}
