//! [`Workspace`]: the packages of the workspace with their Rust sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A file of Rust.
#[derive(Clone, Debug)]
pub struct Source {
    /// Its path from the root of the workspace.
    pub path: String,
    /// What is in it.
    pub text: String,
}

/// A package of the workspace.
#[derive(Clone, Debug)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// Its directory, from the root of the workspace.
    pub directory: String,
    /// The packages of the workspace that it uses, those only for its tests excluded; in order.
    pub uses: Vec<String>,
    /// Its manifest, as in `cargo metadata`.
    pub manifest: Value,
    /// All files of Rust below its directory: its library, programs, tests and examples.
    pub sources: Vec<Source>,
}

/// The packages of the workspace.
#[derive(Clone, Debug)]
pub struct Workspace {
    /// Its directory.
    pub root: PathBuf,
    /// Its members, in order of their names.
    pub packages: Vec<Package>,
}

impl Workspace {
    /// Reads the workspace that this package belongs to.
    ///
    /// # Panics
    ///
    /// If it cannot be read: this is for tests.
    pub fn read() -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let root = root.canonicalize().expect("the workspace is there");
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let told = Command::new(cargo)
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(&root)
            .output()
            .expect("cargo runs");
        assert!(told.status.success(), "{}", String::from_utf8_lossy(&told.stderr));
        let told: Value = serde_json::from_slice(&told.stdout).expect("cargo tells JSON");
        let mut packages: Vec<Package> =
            list(&told["packages"]).iter().map(|manifest| Package::new(&root, manifest)).collect();
        packages.sort_by(|one, other| one.name.cmp(&other.name));
        Self { root, packages }
    }
}

impl Package {
    fn new(root: &Path, manifest: &Value) -> Self {
        let file = Path::new(text(&manifest["manifest_path"]));
        let home = file.parent().expect("a manifest is in a directory");
        let mut uses: Vec<String> = list(&manifest["dependencies"])
            .iter()
            .filter(|used| used["path"].is_string() && used["kind"] != "dev")
            .map(|used| text(&used["name"]).to_owned())
            .collect();
        uses.sort();
        uses.dedup();
        let mut sources = Vec::new();
        read_sources(root, home, &mut sources);
        Self {
            name: text(&manifest["name"]).to_owned(),
            directory: relative(root, home),
            uses,
            manifest: manifest.clone(),
            sources,
        }
    }
}

/// Adds all files of Rust below a directory, in order of their names.
fn read_sources(root: &Path, directory: &Path, sources: &mut Vec<Source>) {
    let entries = fs::read_dir(directory).expect("a directory of sources can be read");
    let mut paths: Vec<PathBuf> =
        entries.map(|entry| entry.expect("an entry can be read").path()).collect();
    paths.sort();
    for path in paths {
        if path.is_symlink() || path.ends_with("target") {
            continue;
        }
        if path.is_dir() {
            read_sources(root, &path, sources);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source is text");
            sources.push(Source { path: relative(root, &path), text });
        }
    }
}

fn relative(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
