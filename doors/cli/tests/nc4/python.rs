//! Scripts of these tests, run by a Python with h5py, netCDF4 and readers of Zarr.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// What scripts import.
const IMPORTED: &str = "import fsspec, h5py, netCDF4, numcodecs, numpy, xarray, zarr";
const PACKAGES: [&str; 6] = ["fsspec", "h5py", "netCDF4", "numcodecs", "xarray", "zarr"];

/// Runs a script, which must succeed.
pub(crate) fn run(script: &str, arguments: &[&OsStr]) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nc4").join(script);
    assert_runs(Command::new(python()).arg(path).args(arguments));
}

fn assert_runs(command: &mut Command) {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {told}");
}

/// An interpreter with the packages: `STRIATE_PYTHON`, or a virtual environment in the target
/// directory, which is made when it is first needed.
pub(crate) fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        if let Some(given) = std::env::var_os("STRIATE_PYTHON") {
            return given.into();
        }
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../python");
        let python = home.join("bin/python");
        let has = Command::new(&python).args(["-c", IMPORTED]).output();
        if !has.is_ok_and(|output| output.status.success()) {
            assert_runs(Command::new("python3").args(["-m", "venv"]).arg(&home));
            let install = ["-m", "pip", "install", "--quiet"];
            assert_runs(Command::new(&python).args(install).args(PACKAGES));
        }
        python
    })
}
