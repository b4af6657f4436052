//! Other people's tools.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// An empty directory for the files of a test; they stay until the next run.
pub(crate) fn directory(name: &str) -> PathBuf {
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("netcdf_peers").join(name);
    let _ = std::fs::remove_dir_all(&directory);
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

/// Runs a command on a file, which must succeed; returns what it prints.
pub(crate) fn run(program: impl AsRef<OsStr>, arguments: &[&str], path: &Path) -> String {
    let mut command = Command::new(program);
    let output = command.args(arguments).arg(path).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// What `ncdump` prints of a file, with storage, without who wrote it, and without what netCDF4
/// cannot make: compact storage, and bytes shuffled that are not compressed.
pub(crate) fn dump(path: &Path) -> String {
    let printed = run("ncdump", &["-s", "-n", "name"], path);
    let differs = |line: &str| line.contains("_NCProperties") || line.contains(":_Shuffle =");
    let lines = printed.lines().filter(|line| !differs(line));
    let lines =
        lines.map(|line| line.replace("_Storage = \"compact\"", "_Storage = \"contiguous\""));
    lines.collect::<Vec<_>>().join("\n")
}

/// An interpreter with h5py, netCDF4, h5netcdf and xarray: `STRIATE_PYTHON`, or a virtual
/// environment in the target directory, which is created when it is first needed.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        if let Some(given) = std::env::var_os("STRIATE_PYTHON") {
            return given.into();
        }
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("python-hdf5");
        let python = home.join("bin/python");
        let libraries = "import h5netcdf, h5py, netCDF4, xarray";
        let has_all = Command::new(&python).args(["-c", libraries]).output();
        if !has_all.is_ok_and(|output| output.status.success()) {
            run("python3", &["-m", "venv"], &home);
            let install = ["-m", "pip", "install", "--quiet", "h5netcdf", "h5py", "netCDF4"];
            run(&python, &install, Path::new("xarray"));
        }
        python
    })
}

/// Runs a command of `peer.py` over a directory; none of its files may fail.
pub(crate) fn peer(command: &str, directory: &Path) {
    script("netcdf_peers/peer.py", command, &[directory]);
}

/// Runs a command of a script over directories; none of their files may fail.
pub(crate) fn script(name: &str, command: &str, directories: &[&Path]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name);
    let (last, others) = directories.split_last().unwrap();
    let mut arguments = vec![script.to_str().unwrap(), command];
    arguments.extend(others.iter().map(|one| one.to_str().unwrap()));
    let printed = run(python(), &arguments, last);
    assert!(printed.starts_with("0 failures"), "{command}: {printed}");
}
