//! Other people's programs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("temporary directories have such names")
}

/// A script of this test.
pub(crate) fn script(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oracle").join(name)
}

/// Runs a program that must succeed.
pub(crate) fn run(program: impl AsRef<OsStr>, arguments: &[&str]) {
    let program = program.as_ref();
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", program.display()));
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {message}", program.display());
}

/// An interpreter with h5py: `STRIATE_PYTHON`, or a virtual environment in the target directory,
/// which is made when it is first needed.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        if let Some(given) = std::env::var_os("STRIATE_PYTHON") {
            return given.into();
        }
        // Only tests outside of the crate know where cargo builds.
        let target = option_env!("CARGO_TARGET_TMPDIR").map(|tmp| Path::new(tmp).join(".."));
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let home = target.unwrap_or_else(|| workspace.join("target")).join("python");
        let python = home.join("bin/python");
        let has = Command::new(&python).args(["-c", "import h5py"]).output();
        if !has.is_ok_and(|output| output.status.success()) {
            run("python3", &["-m", "venv", text(&home)]);
            run(&python, &["-m", "pip", "install", "--quiet", "h5py"]);
        }
        python
    })
}
