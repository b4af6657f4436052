//! Runs the conformance suite under `mpiexec`.
//!
//! `MPICC` picks the MPI when the crate is built; the launcher that belongs to it is chosen here. The
//! program that is launched is an example, which `cargo test` builds, but `cargo test --test mpi` does not.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use striate_comm::mpi;

const LIMIT: Duration = Duration::from_secs(120);

/// One job at a time: two that poll on the same cores would crawl.
static MACHINE: Mutex<()> = Mutex::new(());

/// How a job ended.
struct Ended {
    success: bool,
    output: String,
    after: Duration,
}

fn is_openmpi() -> bool {
    mpi::library_version().contains("Open MPI")
}

/// MPICH waits by polling, so more ranks than cores crawl.
fn ranks() -> usize {
    if is_openmpi() { 4 } else { 2 }
}

/// The program with the suite, which `cargo test` builds next to the tests.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("the test has a path");
    let target = test.ancestors().nth(2).expect("tests lie in target/*/deps");
    let program = target.join("examples/mpi_conformance");
    assert!(program.exists(), "build it: cargo build --features mpi --examples");
    program
}

fn mpiexec(ranks: usize) -> Command {
    let (name, arguments): (_, &[_]) = if is_openmpi() {
        ("mpiexec.openmpi", &["--oversubscribe", "--allow-run-as-root"])
    } else {
        ("mpiexec.mpich", &[])
    };
    // Where there is one MPI only, its launcher has the plain name.
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let known = std::env::split_paths(&paths).any(|directory| directory.join(name).exists());
    let mut command = Command::new(if known { name } else { "mpiexec" });
    command.args(arguments).arg("-n").arg(ranks.to_string());
    command
}

fn run(ranks: usize, mode: &str, variables: &[(&str, &str)]) -> Ended {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let start = Instant::now();
    let mut child = mpiexec(ranks)
        .arg(program())
        .args((!mode.is_empty()).then_some(mode))
        .envs(variables.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mpiexec starts");
    let outputs = [reader(child.stdout.take()), reader(child.stderr.take())];
    let success = wait(&mut child, start);
    let after = start.elapsed();
    let output = outputs.map(|output| output.join().expect("output is text")).concat();
    Ended { success: success.unwrap_or_else(|| panic!("{mode}: no end:\n{output}")), output, after }
}

fn reader(pipe: Option<impl Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut text = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut text);
        }
        String::from_utf8_lossy(&text).into_owned()
    })
}

/// Whether the job succeeded; `None` if it had to be killed.
fn wait(child: &mut Child, start: Instant) -> Option<bool> {
    let mut asked = false;
    loop {
        if let Some(status) = child.try_wait().expect("the launcher is our child") {
            return (!asked).then(|| status.success());
        }
        if start.elapsed() > LIMIT && !asked {
            // Kindly, so that the launcher takes its ranks along.
            let _ = kill_process(Pid::from_child(child), Signal::TERM);
            asked = true;
        } else if start.elapsed() > LIMIT + Duration::from_secs(10) {
            let _ = child.kill();
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn passes(ranks: usize, variables: &[(&str, &str)]) -> String {
    let ended = run(ranks, "", variables);
    assert!(ended.success && ended.output.contains("checks passed"), "{}", ended.output);
    ended.output
}

#[test]
fn conformance() {
    for ranks in 1..=ranks() {
        passes(ranks, &[]);
    }
}

#[test]
fn pretended_nodes() {
    let output = passes(ranks(), &[("STRIATE_RANKS_PER_NODE", "1")]);
    let expected = format!("on nodes {:?}", (0..ranks()).collect::<Vec<_>>());
    assert!(output.contains(&expected), "{output}");
    if ranks() == 4 {
        let output = passes(4, &[("STRIATE_RANKS_PER_NODE", "3")]);
        assert!(output.contains("on nodes [0, 0, 0, 1]"), "{output}");
    }
}

#[test]
fn nonsense_in_the_environment() {
    let ended = run(2, "", &[("STRIATE_RANKS_PER_NODE", "many")]);
    assert!(!ended.success);
    assert!(ended.output.contains("STRIATE_RANKS_PER_NODE is \"many\""), "{}", ended.output);
}

#[test]
fn more_bytes_than_31_bits_count() {
    let ended = run(2, "large", &[]);
    assert!(ended.success, "{}", ended.output);
}

#[test]
fn a_panic_ends_the_job() {
    let ended = run(ranks(), "panic", &[]);
    assert!(!ended.success);
    assert!(ended.output.contains("rank 1 failed: panicked: boom"), "{}", ended.output);
    assert!(ended.after < LIMIT / 4, "it took {:?}", ended.after);
}

#[test]
fn an_error_of_one_rank_ends_the_job() {
    let ended = run(ranks(), "fail", &[]);
    assert!(!ended.success);
    assert!(ended.output.contains("rank 1 failed: the request belongs"), "{}", ended.output);
    assert!(ended.after < LIMIT / 4, "it took {:?}", ended.after);
}

#[test]
fn an_error_of_all_ranks_is_returned() {
    let ended = run(ranks(), "fail-all", &[]);
    assert!(!ended.success);
    assert!(ended.output.contains("mpi_conformance: the request belongs"), "{}", ended.output);
    assert!(!ended.output.contains("is ended"), "{}", ended.output);
}
