//! [`build_library`]: the library of a package, built for the tests that load it into programs.
//!
//! Cargo builds no library for tests that is not linked with them. So the tests ask Cargo for it,
//! in the target directory and with the profile of the running test, where everything that it needs
//! is built already.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A library that tests load into programs.
#[derive(Clone, Copy, Debug)]
pub struct TestedLibrary {
    /// The variable that names a library to be used instead of one of this tree.
    pub variable: &'static str,
    /// The directory of its package: `env!("CARGO_MANIFEST_DIR")`.
    pub manifest_directory: &'static str,
    /// Features of the package.
    pub features: &'static str,
    /// The name of its file.
    pub file: &'static str,
}

/// Builds it, and returns its path.
pub fn build_library(library: &TestedLibrary) -> PathBuf {
    if let Some(given) = std::env::var_os(library.variable) {
        return given.into();
    }
    // TARGET/PROFILE/deps/test-0123456789
    let test = std::env::current_exe().unwrap();
    let built = test.ancestors().nth(2).unwrap();
    let profile = match built.file_name().and_then(|name| name.to_str()) {
        Some("debug") | None => "dev",
        Some(profile) => profile,
    };
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.args([
        "build",
        "--quiet",
        "--lib",
        "--profile",
        profile,
        "--features",
        library.features,
    ]);
    command.arg("--manifest-path").arg(Path::new(library.manifest_directory).join("Cargo.toml"));
    command.arg("--target-dir").arg(built.parent().unwrap());
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    built.join(library.file)
}
