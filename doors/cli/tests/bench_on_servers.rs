//! `striate bench` on I/O servers: what is counted on the wire, limits, and that nothing is left.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use striate_server::Embedded;
use striate_store::remote::Client;
#[cfg(feature = "mpi")]
use striate_testing::mpi_job;

fn striate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.args(arguments).env("LC_ALL", "C.UTF-8");
    command
}

fn document(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn is_empty(directory: &Path) -> bool {
    std::fs::read_dir(directory).unwrap().next().is_none()
}

/// A benchmark on servers of its own, which leave nothing.
fn bench(arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let mut command = striate(&["bench"]);
    command.args(arguments).args(["--json", "--dir"]).arg(directory.path());
    // Also what is made in passing goes into this directory.
    let document = document(&command.env("TMPDIR", directory.path()).output().unwrap());
    assert!(is_empty(directory.path()), "files are left");
    for row in document["rows"].as_array().unwrap() {
        assert_eq!(row["verified"], true, "{row}");
        assert!(row["median_mib_s"].as_f64() > Some(0.0), "{row}");
        let store = row["store"].as_str().unwrap();
        assert!(store.starts_with("striate://127.0.0.1:"), "{store}");
        for field in ["requests", "request_bytes", "request_bytes_per_server"] {
            assert_eq!(row[field].as_u64() > Some(0), row["api"] == "striate", "{field} of {row}");
        }
    }
    document
}

fn rows<'d>(document: &'d Value, op: &str) -> Vec<&'d Value> {
    document["rows"].as_array().unwrap().iter().filter(|row| row["op"] == op).collect()
}

fn names(document: &Value) -> Vec<&str> {
    let ratios = document["ratios"].as_array().unwrap();
    ratios.iter().map(|ratio| ratio["name"].as_str().unwrap()).collect()
}

#[test]
fn the_tile_reader_sends_descriptions_once() {
    let arguments = ["tile-reader", "--frames", "3", "--repeat", "2", "--servers", "16"];
    let document = bench(&[&arguments[..], &["--independent", "--contiguous"]].concat());
    let rows = rows(&document, "read");
    let field =
        |name: &str| -> Vec<u64> { rows.iter().filter_map(|row| row[name].as_u64()).collect() };
    let methods: Vec<_> = rows.iter().map(|row| row["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["posix", "sieve", "list", "datatype", "auto", "contiguous"]);
    let requests = field("requests");
    assert_eq!((requests[3], requests[5]), (16, 16));
    assert!(field("request_bytes_per_server")[3] <= 300);
    assert!((8_000..=10_000).contains(&field("request_bytes")[2]), "{:?}", rows[2]);
    assert_eq!(field("operations")[..4], [768, 2, 12, 1]);
    // The first call sends each server the view, the next ones refer to it.
    assert_eq!(rows[3]["first_call_requests"], 32);
    assert!(rows[2].get("first_call_requests").is_none());
    assert!(rows[0]["store"].as_str().unwrap().ends_with("(16 servers, 64 KiB strips)"));
    assert_eq!(
        (&rows[5]["contiguous"], &rows[5]["region_size"]),
        (&true.into(), &2_359_296.into())
    );

    let names = names(&document);
    assert_eq!(names.len(), 4, "{names:?}");
    assert!(names[1].ends_with("striate datatype over striate contiguous"), "{names:?}");
    assert!(names[2].ends_with("striate datatype over striate list"), "{names:?}");
    assert!(names[3].ends_with("the next best alone"), "{names:?}");
    assert_eq!(document["ratios"][1]["goal"], 0.8);
}

#[test]
fn every_workload_runs_on_servers() {
    let servers = ["--servers", "3", "--strip", "4KiB", "--repeat", "1"];
    for workload in [
        &[
            "block3d",
            "--edge",
            "20",
            "--contiguous",
            "--goal",
            "contiguous=0",
            "--goal",
            "next=1e9",
        ][..],
        &["flash", "--blocks", "1", "--cells", "4", "-n", "3"],
        &["strided", "--block", "1k", "--count", "20", "--method", "all", "--fsync"],
        &["ior", "-c", "--method", "all", "-F"],
    ] {
        let document = bench(&[workload, &servers].concat());
        for op in ["write", "read"] {
            assert!(rows(&document, op).len() >= 6, "{workload:?}");
        }
        if workload[0] == "block3d" {
            let met = |name: &str| {
                let place = names(&document).iter().position(|found| found.contains(name));
                document["ratios"][place.unwrap()]["met"].clone()
            };
            assert_eq!((met("over striate contiguous"), met("alone")), (true.into(), false.into()));
        }
    }
}

#[test]
fn sockets_are_the_limit() {
    let arguments = ["ior", "-b", "1m", "-t", "256k", "-s", "2", "--servers", "3", "-i", "2"];
    let document = bench(&[&arguments[..], &["-a", "striate,socket", "-e"]].concat());
    for op in ["write", "read"] {
        assert_eq!(rows(&document, op)[1]["api"], "socket");
    }
    assert!(names(&document).iter().all(|name| name.ends_with("striate auto over socket")));
    assert_eq!(document["ratios"][0]["goal"], 0.7);
    // Uneven parts, files of their own, what the next rank wrote; and files that are prepared.
    bench(&["ior", "-b", "10", "-t", "5", "-F", "-C", "-z", "--servers", "4", "-a", "socket"]);
    bench(&["ior", "-r", "-C", "--servers", "2", "-a", "socket,striate"]);
}

#[test]
fn servers_that_are_there_keep_nothing() {
    let embedded = Embedded::start(2).unwrap();
    let store = format!("{}/some/where", embedded.url());
    let arguments = ["bench", "strided", "--total", "1m", "--store", &store, "--json"];
    let document = document(&striate(&arguments).output().unwrap());
    let told = document["rows"][0]["store"].as_str().unwrap();
    assert_eq!(told, format!("{store} (2 servers, 64 KiB strips)"));
    let client = Client::shared(&store.parse().unwrap()).unwrap();
    assert!(client.list("").unwrap().is_empty());
    for server in client.servers().unwrap() {
        assert!(client.objects(&server).unwrap().is_empty());
    }
    drop(embedded);
    let output = striate(&["bench", "strided", "--store", &store]).output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.starts_with("error: cannot use the servers: "), "{text}");
}

#[test]
fn an_interrupted_benchmark_leaves_no_servers() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let arguments = ["bench", "ior", "-i", "100000", "--servers", "2", "-a", "striate,socket"];
    let mut child = striate(&arguments)
        .args(["--dir", dir])
        .env("TMPDIR", dir)
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let sockets = || {
        let entries = std::fs::read_dir(&directory).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().contains("-socket-")).count()
    };
    while sockets() < 2 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(child.try_wait().unwrap().is_none(), "it ended before it began");
    }
    let signal = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
    assert!(signal.success());
    assert_eq!(child.wait().unwrap().code(), None, "it ends by the signal");
    assert!(is_empty(directory.path()), "files are left");
}

#[cfg(feature = "mpi")]
#[test]
fn processes_share_the_servers_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let ranks = mpi_job::ranks().min(3);
    let mut command = mpi_job::mpiexec(ranks);
    command.arg(env!("CARGO_BIN_EXE_striate"));
    command.args(["bench", "tile-reader", "--frames", "2", "--independent", "--servers", "4"]);
    command.args(["--contiguous", "--repeat", "1", "--json", "--dir"]).arg(directory.path());
    let document = document(&command.env("LC_ALL", "C.UTF-8").output().unwrap());
    for row in rows(&document, "read") {
        assert_eq!(row["ranks"], ranks);
        if row["method"] == "datatype" {
            // A process tells each server once, and the contiguous calls need no description.
            assert_eq!((&row["requests"], &row["first_call_requests"]), (&4.into(), &8.into()));
        }
    }
    assert!(is_empty(directory.path()), "files are left");
}
