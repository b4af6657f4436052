//! `striate probe` as people call it: directories, servers, and what is left when it is
//! interrupted.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "servers/cluster.rs"]
#[expect(dead_code, reason = "shared with other tests, which need more of it")]
mod cluster;

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use cluster::{ChildProcess, Server, answer, striate, told, until};
use rustix::process::Signal;
use serde_json::Value;
#[cfg(feature = "mpi")]
use striate_testing::mpi_job;

/// A probe with a cache of its own.
fn probe(place: &Path, arguments: &[&str]) -> Command {
    let mut command = striate(&["probe"]);
    command.args(arguments).env("STRIATE_CACHE_DIR", place.join("cache")).current_dir(place);
    command
}

fn finished(mut command: Command, status: i32) -> Output {
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(status), "{}", told(&output));
    output
}

/// The answer in JSON.
fn row(place: &Path, arguments: &[&str]) -> Value {
    let mut command = probe(place, arguments);
    command.arg("--json");
    let document: Value = serde_json::from_slice(&finished(command, 0).stdout).unwrap();
    document["rows"][0].clone()
}

fn directories(place: &Path, names: &[&str]) {
    for name in names {
        fs::create_dir(place.join(name)).unwrap();
    }
}

fn is_empty(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_none()
}

#[test]
fn directories_are_listed_from_fast_to_slow_and_drawn() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    directories(place, &["a", "b", "c"]);
    let arguments = ["a", "b", "c", "--size", "1MiB", "--delta", "1", "--svg", "p.svg"];
    let text = told(&finished(probe(place, &arguments), 0));
    assert!(text.contains("i × MiB/s") && text.contains("kept, highest"), "{text}");
    assert!(text.contains("3 of 3 targets are kept") && text.contains("1 MiB written"), "{text}");
    assert!(fs::read_to_string(place.join("p.svg")).unwrap().contains("<polyline"));

    let row = row(place, &arguments[..7]);
    let targets = row["targets"].as_array().unwrap();
    let rates: Vec<f64> = targets.iter().map(|t| t["bandwidth"].as_f64().unwrap()).collect();
    assert!(rates.is_sorted_by(|a, b| a >= b), "{rates:?}");
    for (number, target) in (1..).zip(targets) {
        let together = f64::from(number) * target["bandwidth"].as_f64().unwrap();
        assert!((target["aggregate"].as_f64().unwrap() / together - 1.0).abs() < 1e-9);
        assert_eq!(
            (&target["kept"], &target["sample"]["bytes"]),
            (&true.into(), &1_048_576.into())
        );
    }
    assert_eq!((&row["size"], &row["delta"]), (&1_048_576.into(), &1.0.into()));
    assert!(["a", "b", "c"].into_iter().all(|name| is_empty(&place.join(name))));
}

#[test]
fn samples_are_reused_if_asked_for() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    directories(place, &["a", "b"]);
    let first = row(place, &["a", "b", "--size", "64KiB"]);
    assert!(first["age_s"].is_null());
    let again = row(place, &["b", "./a", "--size", "64KiB", "--reuse", "60m"]);
    assert!(again["age_s"].is_number(), "{again}");
    assert_eq!(again["kept_aggregate"], first["kept_aggregate"]);
    assert!(row(place, &["a", "b", "--size", "64KiB"])["age_s"].is_null());
}

#[test]
fn a_target_that_fails_is_told_and_the_others_are_measured() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    directories(place, &["a"]);
    let text = told(&finished(probe(place, &["a", "gone", "--size", "64KiB"]), 1));
    assert!(text.contains("failed: cannot open") && text.contains("No such file"), "{text}");
    assert!(text.contains("1 of 2 targets is kept"), "{text}");
    let text = told(&finished(probe(place, &["gone"]), 1));
    assert!(text.contains("no target could be measured"), "{text}");
    let text = told(&finished(probe(place, &["a", "a"]), 2));
    assert!(text.contains("a is named twice"), "{text}");
    for wrong in [
        &["a", "--size", "0"][..],
        &["a", "--delta", "2"],
        &["a", "--at-once", "0"],
        &["a", "--limit", "0s"],
        &["#1"],
        &[],
    ] {
        finished(probe(place, wrong), 2);
    }
}

#[test]
fn a_url_stands_for_its_servers() {
    let place = tempfile::tempdir().unwrap();
    let server = Server::start(&["--embedded", "3"]);
    let url = server.started["url"].as_str().unwrap().to_owned();
    let found = row(place.path(), &[&url, "--size", "256KiB", "--delta", "1"]);
    let mut names: Vec<&str> = found["targets"]
        .as_array()
        .unwrap()
        .iter()
        .map(|t| t["target"].as_str().unwrap())
        .collect();
    names.sort_unstable();
    assert_eq!(names.len(), 3);
    assert!((0..3).all(|n| names[n].ends_with(&format!("#{n}"))), "{names:?}");
    assert_eq!(answer(&["fs", "ls", &url]), "");
    assert_eq!(row(place.path(), &[&format!("{url}#1"), "--size", "4KiB"])["kept"], 1);
}

#[test]
fn interrupted_it_leaves_no_file_on_servers() {
    let place = tempfile::tempdir().unwrap();
    // Slow enough to be met at work.
    let server = Server::start(&["--embedded", "2", "--delay", "50ms"]);
    let url = server.started["url"].as_str().unwrap().to_owned();
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = probe(place.path(), &[&url, "--size", "64GiB", "--limit", "10m"]);
        let command = command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = ChildProcess(command.spawn().unwrap());
        until("a file", || answer(&["fs", "ls", &url]).matches(".striate-probe-").count() == 2);
        process.signal(signal);
        assert_eq!(process.ended().code(), Some(1));
        let mut text = String::new();
        let stderr = process.0.stderr.as_mut().unwrap();
        std::io::Read::read_to_string(stderr, &mut text).unwrap();
        assert!(text.contains("it was interrupted"), "{text}");
        assert_eq!(answer(&["fs", "ls", &url]), "");
    }
}

#[test]
fn killed_it_leaves_no_file_in_directories() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    directories(place, &["a", "b"]);
    for signal in [Signal::KILL, Signal::INT] {
        let mut command = probe(place, &["a", "b", "--size", "2GiB"]);
        let mut process =
            ChildProcess(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        // Open, and nameless: its descriptor tells.
        let open = format!("/proc/{}/fd", process.0.id());
        until("an open file", || {
            let Ok(entries) = fs::read_dir(&open) else { return true };
            let links = entries.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
            let is_probe =
                |link: &str| link.starts_with(place.to_str().unwrap()) && link.contains("deleted");
            links.into_iter().any(|link| is_probe(&link.to_string_lossy()))
                || process.0.try_wait().unwrap().is_some()
        });
        if process.0.try_wait().unwrap().is_none() {
            process.signal(signal);
        }
        process.ended();
        assert!(is_empty(&place.join("a")) && is_empty(&place.join("b")));
    }
}

#[cfg(feature = "mpi")]
#[test]
fn ranks_of_a_job_share_the_targets_and_one_speaks() {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let names = ["a", "b", "c", "d", "e"];
    directories(place, &names);
    let job = |arguments: &[&str]| {
        let mut command = mpi_job::mpiexec(3.min(mpi_job::ranks()));
        command.arg(env!("CARGO_BIN_EXE_striate")).arg("probe").args(arguments);
        command.env("STRIATE_CACHE_DIR", place.join("cache")).current_dir(place);
        command
    };
    let mut arguments = names.to_vec();
    arguments.extend(["--size", "1MiB", "--delta", "1", "--json"]);
    let output = finished(job(&arguments), 0);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &document["rows"][0];
    assert_eq!((&row["kept"], &row["ranks"]), (&5.into(), &3.min(mpi_job::ranks()).into()));
    assert!(names.into_iter().all(|name| is_empty(&place.join(name))));
    let output = job(&["a", "a"]).output().unwrap();
    assert!(!output.status.success());
    assert_eq!(told(&output).matches("a is named twice").count(), 1, "{}", told(&output));
}
