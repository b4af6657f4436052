//! Jobs on nodes of a lab, of which one is lost.
//!
//! The program that is launched is an example, which `cargo test` builds, but `cargo test --test
//! mpi_nodes` does not.

use std::fs::{self, File};
use std::process::Stdio;
use std::time::{Duration, Instant};

use striate_lab::{Lab, LabSettings, Link, Mpi, RanksOfNode, Rate};
use striate_testing::mpi_job::is_openmpi;

/// A job that lasts longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < LIMIT, "{what} does not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ranks on three nodes, until the link of the third is cut. Returns what they said.
fn lose(cut: impl FnOnce(&mut Lab)) -> String {
    let test = std::env::current_exe().expect("the test has a path");
    let target = test.ancestors().nth(2).expect("tests lie in target/*/deps");
    let program = target.join("examples/mpi_rounds");
    assert!(program.exists(), "build it: cargo build --features mpi --examples");
    let place = tempfile::tempdir().expect("a directory");
    let settings = LabSettings::new(3, Link::both(Rate::mbit(100)));
    let settings = settings.share(target).share(place.path());
    let mut lab = Lab::up(&settings).expect("a lab");
    let mpi = if is_openmpi() { Mpi::OpenMpi } else { Mpi::Mpich };
    let ranks = RanksOfNode::repeat(4, &[2, 1, 1], 3);
    let mut job = lab.mpiexec(mpi, &ranks).expect("a job");
    job.args(mpi.variable("STRIATE_PATIENCE", "2s")).arg(program);
    let said = place.path().join("said");
    let output = File::create(&said).expect("a file");
    let copy = output.try_clone().expect("a file");
    let mut job = job.stdout(output).stderr(copy).stdin(Stdio::null()).spawn().expect("it starts");
    let read = || fs::read_to_string(&said).unwrap_or_default();
    until("their start", || read().contains("they run"));
    cut(&mut lab);
    for node in 0..3 {
        let left = || lab.processes(node).expect("processes");
        let runs = || left().iter().any(|process| process.name.contains("mpi_rounds"));
        until(&format!("the end of ranks on node {node}"), || !runs());
    }
    // Open MPI's launcher waits for its daemon on the lost node, and that for the launcher; no rank
    // is left.
    until("a message", || read().contains("the MPI job is ended"));
    let _ = job.kill();
    assert!(!job.wait().expect("it ended").success());
    read()
}

#[test]
fn a_node_whose_link_is_cut_is_named() {
    if std::env::var_os("STRIATE_NO_LAB").is_some() {
        return;
    }
    let said = lose(|lab| lab.cut(2).expect("a cut"));
    assert!(said.contains("node n3 cannot be reached"), "{said}");
    assert!(said.contains("failed: node n3 is lost"), "{said}");
}
