//! `striate bench array` as a command: its names, its document, and what it refuses.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Output};

fn striate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_striate")).args(arguments).output().expect("it starts")
}

/// Runs a benchmark of two ranks in a directory of its own, and returns its document.
fn document(arguments: &[&str]) -> serde_json::Value {
    let directory = tempfile::tempdir().unwrap();
    let mut all = vec!["bench"];
    all.extend(arguments);
    let dir = directory.path().to_str().unwrap();
    all.extend(["--dir", dir, "--repeat", "1", "--json", "--api", "striate"]);
    let output = striate(&all);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_workload_has_a_document() {
    let long: [(&str, &[&str]); 6] = [
        ("coll-perf", &["array", "coll-perf", "--edge", "4", "--ranks", "2"]),
        ("flash", &["array", "flash", "--blocks", "2", "--zones", "3", "--ranks", "2"]),
        ("s3d", &["array", "s3d", "--edge", "3", "--ranks", "2"]),
        ("netcdf-bench", &["array", "netcdf-bench", "--steps", "3", "--ranks", "2"]),
        ("whole", &["array", "whole", "--size", "64KiB"]),
        ("open", &["array", "open", "--variables", "20", "--ranks", "2"]),
    ];
    for (name, arguments) in long {
        let document = document(arguments);
        let rows = document["rows"].as_array().unwrap();
        assert_eq!(rows.len(), if name == "open" { 2 } else { 4 }, "{document}");
        for row in rows {
            assert_eq!((&row["workload"], &row["api"]), (&name.into(), &"striate".into()));
            assert_eq!((&row["verified"], &row["collective"]), (&true.into(), &true.into()));
            assert!(row["median_mib_s"].as_f64() > Some(0.0), "{row}");
            for field in ["ranks", "op", "scope", "bytes", "ci95", "samples", "open_s", "store"] {
                assert!(!row[field].is_null(), "{field}: {row}");
            }
            assert_eq!(row["operations"].is_null(), name == "open", "{row}");
        }
    }
}

#[test]
fn short_names_are_the_same() {
    for (name, arguments) in [
        ("coll-perf", &["coll-perf", "--edge", "4", "--ranks", "2"][..]),
        ("flash", &["flash-io", "--blocks", "1", "--zones", "2", "--ranks", "2"]),
        ("s3d", &["s3d", "--edge", "3", "--ranks", "2", "--blocking"]),
        ("netcdf-bench", &["netcdf-bench", "--block", "2x3x4", "--steps", "2", "--ranks", "2"]),
    ] {
        assert_eq!(document(arguments)["rows"][0]["workload"], name);
    }
}

#[test]
fn on_servers() {
    let document = document(&["coll-perf", "--edge", "4", "--ranks", "2", "--servers", "2"]);
    let store = document["rows"][0]["store"].as_str().unwrap();
    assert!(store.starts_with("striate://"), "{store}");
}

#[test]
fn what_cannot_be_is_refused() {
    for (arguments, reason) in [
        (&["array", "s3d", "--api", "hdf5"][..], "there is no API 'hdf5'"),
        (&["array", "s3d", "--api", "pnetcdf"], "pnetcdf"),
        (&["array", "open", "--api", "raw"], "no header"),
        (&["array", "s3d", "--servers", "2", "--api", "raw"], "none on servers"),
        (&["array", "s3d", "--hint", "cb_nodes=many"], "cb_nodes"),
        (&["array", "s3d", "--format", "hdf5"], "cdf5"),
        (&["array", "netcdf-bench", "--block", "1x2"], "3 numbers"),
        (&["flash", "--api", "pnetcdf"], "pnetcdf"),
        (&["tile-reader", "--api", "pnetcdf"], "datasets only"),
        (&["array", "coll-perf", "--edge", "100000"], "memory"),
    ] {
        let output = striate(&[&["bench"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(reason), "{arguments:?}: {text}");
        let is_usage = reason != "memory";
        assert_eq!(output.status.code() == Some(2), is_usage, "{arguments:?}: {text}");
    }
}
