//! `striate bench array` as a command: its names, its document, and what it refuses.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::process::{Command, Output};

#[cfg(feature = "mpi")]
use striate_testing::mpi_job;

fn striate(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_striate")).args(arguments).output().expect("it starts")
}

/// Runs a benchmark of two ranks in a directory of its own, and returns its document.
fn document(arguments: &[&str]) -> serde_json::Value {
    document_of("striate", arguments)
}

/// The same with other libraries.
fn document_of(api: &str, arguments: &[&str]) -> serde_json::Value {
    let directory = tempfile::tempdir().unwrap();
    let mut all = vec!["bench"];
    all.extend(arguments);
    let dir = directory.path().to_str().unwrap();
    all.extend(["--dir", dir, "--repeat", "1", "--json", "--api", api]);
    let output = striate(&all);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {text}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn every_workload_has_a_document() {
    let long: [(&str, &[&str]); 9] = [
        ("ior", &["array", "ior", "--size", "8KiB", "--transfer", "1KiB", "--ranks", "2"]),
        ("ior-records", &["array", "ior", "--records", "--size", "8KiB", "--stripe", "1KiB"]),
        ("compressed", &["array", "compressed", "--edge", "16", "--ranks", "2"]),
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

/// What only netCDF-4 files have: chunks, filters, and several unlimited dimensions.
#[test]
fn workloads_with_chunks() {
    let ranks = ["--ranks", "2"];
    let pattern = ["array", "ior", "--pattern", "2-ost", "--stripe", "1KiB", "--size", "9KiB"];
    let chunked = [&pattern[..], &["--chunk", "512B", "--independent"], &ranks].concat();
    let document = document_of("striate-netcdf4,raw", &chunked);
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 8, "{document}");
    for row in rows {
        // Rounded up to whole blocks of two stripes.
        assert_eq!((&row["bytes"], &row["chunk"]), (&(2 * 10 * 1024).into(), &512.into()));
        assert_eq!((&row["collective"], &row["verified"]), (&false.into(), &true.into()), "{row}");
    }
    let compressed = ["array", "compressed", "--edge", "32", "--planes", "1", "--calls", "2"];
    let document =
        document_of("striate-netcdf4,deflate-alone", &[&compressed[..], &ranks].concat());
    let ratios = document["ratios"].as_array().unwrap();
    let goals: Vec<_> = ratios.iter().filter_map(|ratio| ratio["goal"].as_f64()).collect();
    assert_eq!(goals, [0.9, 0.9], "{document}");
    let rows = ["array", "default-chunks", "--rows", "2", "--row", "1KiB", "--old-row", "64B"];
    let document = document_of("striate-netcdf4", &[&rows[..], &ranks].concat());
    let found = document["rows"].as_array().unwrap();
    let chunks: Vec<_> = found.iter().map(|row| row["chunk"].as_u64().unwrap()).collect();
    assert_eq!(chunks, [[4 << 20; 4], [8; 4]].concat());
    let ratios = document["ratios"].as_array().unwrap();
    let is_gain = |ratio: &&serde_json::Value| ratio["goal"] == 1000.0;
    assert_eq!((ratios.len(), ratios.iter().filter(is_gain).count()), (4, 2), "{document}");
}

/// One library makes the file, and the others only open it.
#[test]
fn files_of_one_library() {
    let open = ["array", "open", "--variables", "20", "--ranks", "2"];
    let document =
        document_of("striate", &[&open[..], &["--files-of", "striate-netcdf4"]].concat());
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{document}");
    assert_eq!(rows[0]["op"], "open");
    assert_eq!(rows[0]["made_by"], "striate-netcdf4");
}

/// Parallel HDF5 and netCDF-C under this MPI, on the MPI-IO of each component that it has.
#[cfg(feature = "mpi")]
#[test]
fn parallel_libraries_of_processes() {
    let directory = tempfile::tempdir().unwrap();
    let ranks = mpi_job::ranks().min(3);
    let libraries = if mpi_job::is_openmpi() {
        "striate-netcdf4,hdf5,hdf5-romio,netcdf4,netcdf4-romio"
    } else {
        "striate-netcdf4,hdf5,hdf5-romio"
    };
    let count = libraries.split(',').count();
    for (arguments, rows) in [
        (&["ior", "--pattern", "1-ost", "--stripe", "1KiB", "--size", "4KiB"][..], 4),
        (&["ior", "--records", "--stripe", "1KiB", "--size", "4KiB"], 4),
        (&["compressed", "--edge", "16", "--planes", "1", "--calls", "2"], 4),
        (&["default-chunks", "--rows", "2", "--row", "1KiB", "--old-row", "64B"], 8),
        (&["open", "--variables", "20", "--files-of", "hdf5"], 1),
    ] {
        let mut command = mpi_job::mpiexec(ranks);
        command.arg(env!("CARGO_BIN_EXE_striate")).args(["bench", "array"]).args(arguments);
        command.args(["--api", libraries, "--repeat", "1", "--json", "--dir"]);
        let output = command.arg(directory.path()).env("LC_ALL", "C.UTF-8").output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {text}");
        let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let found = document["rows"].as_array().unwrap();
        assert_eq!(found.len(), rows * count, "{document}");
        assert!(found.iter().all(|row| row["verified"] == true), "{document}");
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
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

/// Layouts side by side, verified, with one server slow and a goal for what is to be gained.
#[test]
fn layouts_on_servers_of_which_one_is_slow() {
    let document = document(&[
        "array",
        "s3d",
        "--edge",
        "6",
        "--ranks",
        "2",
        "--servers",
        "3",
        "--bandwidth",
        "4MiB",
        "--seed",
        "3",
        "--layouts",
        "plain,partitioned,chosen,healthy,plain",
        "--probe-size",
        "64KiB",
    ]);
    let rows = document["rows"].as_array().unwrap();
    // Two directions and two scopes of each, and no layout twice.
    assert_eq!(rows.len(), 16, "{document}");
    for row in rows {
        let layout = row["layout"].as_str().unwrap();
        assert_eq!((&row["api"], &row["verified"]), (&"striate".into(), &true.into()));
        let slower = row["slower"].as_array();
        let in_range =
            |factor: &serde_json::Value| (5.0..=13.0).contains(&factor.as_f64().unwrap());
        assert_eq!(slower.is_some(), layout != "healthy", "{row}");
        assert!(slower.is_none_or(|all| all.len() == 1 && all.iter().all(in_range)), "{row}");
        let partitions = &row["exchange"]["partitions"];
        assert_eq!(partitions.is_null(), layout == "plain", "{row}");
        if layout == "partitioned" {
            assert_eq!(partitions, &serde_json::json!([3]));
        }
        let store = row["store"].as_str().unwrap();
        assert!(store.contains("3 servers of 4 MiB/s"), "{store}");
    }
    let ratios = document["ratios"].as_array().unwrap();
    let named = |words: &str| {
        let found = |ratio: &&serde_json::Value| ratio["name"].as_str().unwrap().contains(words);
        ratios.iter().filter(found).collect::<Vec<_>>()
    };
    assert!(named("chosen over plain").iter().all(|ratio| ratio["goal"] == 1.36));
    assert_eq!(named("chosen over plain").len(), 4);
    // The probe is a part of making the dataset, and the straggler is slow for it, too.
    let healthy = named("chosen over healthy");
    assert_eq!(healthy.iter().filter(|ratio| ratio["goal"] == 0.85).count(), 3, "{healthy:?}");
    assert_eq!(named("time over exchange").len(), 6);
}

/// The straggler's limit changes in the first process, and all see it.
#[cfg(feature = "mpi")]
#[test]
fn layouts_of_processes() {
    let directory = tempfile::tempdir().unwrap();
    let ranks = mpi_job::ranks().min(3);
    let mut command = mpi_job::mpiexec(ranks);
    command.arg(env!("CARGO_BIN_EXE_striate"));
    command.args(["bench", "array", "coll-perf", "--edge", "6", "--servers", "3", "--repeat", "2"]);
    command.args(["--bandwidth", "4MiB", "--probe-size", "64KiB", "--json"]);
    command.args(["--layouts", "plain,partitioned,chosen,healthy", "--dir"]).arg(directory.path());
    let output = command.env("LC_ALL", "C.UTF-8").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 16, "{document}");
    assert!(rows.iter().all(|row| row["ranks"] == ranks && row["verified"] == true), "{document}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
}

#[test]
fn what_cannot_be_is_refused() {
    for (arguments, reason) in [
        (&["array", "s3d", "--api", "hdf6"][..], "there is no API 'hdf6'"),
        (&["array", "s3d", "--api", "hdf5"], "hdf5"),
        (&["array", "s3d", "--files-of", "netcdf5"], "there is no API 'netcdf5'"),
        (&["array", "open", "--api", "deflate-alone"], "no header"),
        (&["array", "ior", "--pattern", "0-ost"], "disjoint"),
        (&["array", "ior", "--records", "--independent"], "cannot be used with"),
        (&["array", "ior", "--pattern", "1-ost", "--transfer", "3MiB"], "in calls of"),
        (&["array", "compressed", "--level", "10"], "0..=9"),
        (&["array", "s3d", "--api", "pnetcdf"], "pnetcdf"),
        (&["array", "open", "--api", "raw"], "no header"),
        (&["array", "s3d", "--servers", "2", "--api", "raw"], "not on servers"),
        (&["array", "s3d", "--hint", "cb_nodes=many"], "cb_nodes"),
        (&["array", "s3d", "--format", "hdf5"], "cdf5"),
        (&["array", "s3d", "--layouts", "plain"], "--servers"),
        (&["array", "s3d", "--servers", "2", "--layouts", "round"], "there is no layout 'round'"),
        (&["array", "s3d", "--servers", "2", "--layouts", "plain", "--api", "raw"], "layouts are"),
        (&["array", "open", "--servers", "2", "--layouts", "plain"], "nothing to lay out"),
        (&["array", "s3d", "--servers", "2", "--straggler", "1"], "from 2 to 1000"),
        (&["array", "s3d", "--bandwidth", "1MiB"], "--servers"),
        (&["array", "netcdf-bench", "--block", "1x2"], "3 numbers"),
        (&["flash", "--api", "pnetcdf"], "pnetcdf"),
        (&["tile-reader", "--api", "pnetcdf"], "only supports datasets"),
        (&["array", "coll-perf", "--edge", "100000"], "memory"),
    ] {
        let output = striate(&[&["bench"], arguments].concat());
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(reason), "{arguments:?}: {text}");
        let is_usage = reason != "memory";
        assert_eq!(output.status.code() == Some(2), is_usage, "{arguments:?}: {text}");
    }
}
