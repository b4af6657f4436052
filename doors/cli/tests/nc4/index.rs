//! References of `striate nc index`, read by fsspec, zarr and xarray.

use std::ffi::OsStr;

use serde_json::Value;

use crate::python;
use crate::tools::{answer, striate};

#[test]
fn references_lead_to_the_same_values() {
    let directory = tempfile::tempdir().unwrap();
    python::run("indexed.py", &[OsStr::new("make"), directory.path().as_os_str()]);
    let file = directory.path().join("indexed.nc");
    let index = directory.path().join("indexed.json");
    let arguments = ["index".as_ref(), file.as_os_str(), "-o".as_ref(), index.as_os_str()];
    let output = striate(arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(told.contains("/words: strings of variable length"), "{told}");
    answer(output, "index");
    python::run("indexed.py", &[OsStr::new("check"), directory.path().as_os_str()]);
    // The same on standard output, with another name of the file.
    let arguments =
        ["index".as_ref(), "--url".as_ref(), "s3://bucket/indexed.nc".as_ref(), file.as_os_str()];
    let document: Value = serde_json::from_slice(&answer(striate(arguments), "index")).unwrap();
    assert_eq!(document["version"], 1);
    assert_eq!(document["refs"]["flat/0.0"][0], "s3://bucket/indexed.nc");
}
