//! Files of all features that are written, read by everybody else's libraries and tools.
//!
//! A seed makes a file: definitions and values. The same is given to `peer.py` as JSON, which reads
//! the file with netCDF4, h5py, h5netcdf and xarray and compares every value; and which makes the
//! same file with netCDF-C, whose `ncdump` must be that of ours.

mod generated;
mod kind;
mod random;
mod written;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use generated::{Generated, elements};
use written::Written;

/// How many files there are.
const FILES: u64 = 320;

/// Runs a command that must succeed; returns what it prints.
fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
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
            run(Command::new("python3").args(["-m", "venv"]).arg(&home));
            let install = ["-m", "pip", "install", "--quiet", "h5netcdf", "h5py", "netCDF4", "xarray"];
            run(Command::new(&python).args(install));
        }
        python
    })
}

/// Runs a command of `peer.py` over a directory; none of its files may fail.
fn peer(command: &str, directory: &Path) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/netcdf_peers/peer.py");
    let printed = run(Command::new(python()).arg(script).arg(command).arg(directory));
    assert!(printed.starts_with("0 failures"), "{command}: {printed}");
}

/// Writes a file, in as many commits as its dimensions need, and its JSON.
fn write(directory: &Path, seed: u64) -> PathBuf {
    let file = Generated::new(seed);
    let path = directory.join(format!("{seed:04}.nc"));
    std::fs::write(path.with_extension("json"), file.json().to_string()).unwrap();
    // Dimensions that can grow begin with nothing.
    let mut definition = file.definition.clone();
    for dimension in &mut definition.dimensions {
        if dimension.unlimited {
            dimension.length = 0;
        }
    }
    let mut written = Written::create(&path, definition, file.options);
    for (number, dimension) in file.definition.dimensions.iter().enumerate() {
        if dimension.unlimited {
            for length in [dimension.length / 2, dimension.length] {
                written.plan.grow(number, length).unwrap();
                if seed % 3 == 0 {
                    written.commit();
                }
            }
        }
    }
    for (number, (kind, values)) in file.variables.iter().enumerate() {
        written.put(number, &elements(kind, values));
    }
    written.commit();
    path
}

/// The files, written once for all tests of a process.
fn files() -> &'static Path {
    static WRITTEN: OnceLock<PathBuf> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("netcdf_peers");
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        for seed in 0..FILES {
            write(&directory, seed);
        }
        directory
    })
}

#[test]
fn netcdf4_reads_every_value() {
    peer("netcdf4", files());
}

#[test]
fn h5py_reads_every_value() {
    peer("h5py", files());
}

#[test]
fn h5netcdf_reads_every_value() {
    peer("h5netcdf", files());
}

#[test]
fn xarray_reads_every_value_with_both_engines() {
    peer("xarray", files());
}
