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

/// The chunks of a partitioned dataset are in the files of its partitions.
#[test]
fn references_to_partitions_lead_to_the_same_values() {
    let directory = tempfile::tempdir().unwrap();
    python::run("indexed.py", &[OsStr::new("make"), directory.path().as_os_str()]);
    let file = directory.path().join("indexed.nc");
    // With three, chunks are those of the partitions; with four, those without filters are cut.
    for (parts, least) in [(3, "9"), (4, "7")] {
        let name = format!("parts{parts}");
        let targets: Vec<String> = (0..parts)
            .map(|number| directory.path().join(format!("{name}/{number}")).display().to_string())
            .collect();
        for target in &targets {
            std::fs::create_dir_all(target).unwrap();
        }
        let master = directory.path().join(format!("{name}.nc"));
        let targets = targets.join(",");
        let arguments = [
            "split".as_ref(),
            file.as_os_str(),
            master.as_os_str(),
            "--targets".as_ref(),
            targets.as_ref(),
        ];
        answer(striate(arguments), "split");
        let index = directory.path().join(format!("{name}.json"));
        let arguments = ["index".as_ref(), master.as_os_str(), "-o".as_ref(), index.as_os_str()];
        let output = striate(arguments);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        answer(output, "index");
        assert!(told.contains("/zstd: its partitions do not begin at multiples"), "{told}");
        let document: Value = serde_json::from_slice(&std::fs::read(&index).unwrap()).unwrap();
        let last = &document["refs"]["flat/29.0"];
        let of_last = format!("/{name}/{}/", parts - 1);
        // One row or more, which are behind each other.
        assert!(last.is_null() || last[0].as_str().unwrap().contains(&of_last), "{last}");
        let json = format!("{name}.json");
        let arguments =
            [OsStr::new("check"), directory.path().as_os_str(), json.as_ref(), least.as_ref()];
        python::run("indexed.py", &arguments);
    }
}
