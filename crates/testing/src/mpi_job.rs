//! Jobs of ranks that tests start under `mpiexec`, and how they end.
//!
//! `MPICC` picks the MPI when a crate is built; the launcher that belongs to it is chosen here.
//!
//! With `STRIATE_LAB_RANKS=2,1` the ranks are on nodes of a lab, two on the first, one on the
//! second, and so on; each test program has its own lab. Nodes have their own `/tmp`, so `TMPDIR`
//! must then be elsewhere.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use striate_comm::mpi;
use striate_lab::{Lab, LabSettings, Link, Mpi, RanksOfNode, Rate};

/// A job that lasts longer hangs: on a busy machine ranks that poll get little of the cores.
pub const LIMIT: Duration = Duration::from_secs(300);

/// Says how many ranks each node of a lab takes.
const LAB_RANKS: &str = "STRIATE_LAB_RANKS";

/// The rate of links: a job of a test moves little, and the cores are idle enough.
const LAB_RATE: Rate = Rate::mbit(200);

/// The most nodes that a job has.
const LAB_NODES: usize = 4;

/// One job at a time: two that poll on the same cores would crawl.
static MACHINE: Mutex<()> = Mutex::new(());

/// How a job ended.
pub struct Ended {
    /// Whether the launcher's exit status says so.
    pub success: bool,
    /// What the ranks printed, standard output first.
    pub output: String,
}

/// Whether the tests are built for Open MPI.
pub fn is_openmpi() -> bool {
    mpi::library_version().contains("Open MPI")
}

/// How many ranks a job has. MPICH waits by polling, so more ranks than cores crawl.
pub fn ranks() -> usize {
    if is_openmpi() { 4 } else { 2 }
}

/// The lab of this test program, if it is to use one. It ends with the program.
pub fn lab() -> Option<(&'static Lab, Vec<usize>)> {
    static LAB: OnceLock<Lab> = OnceLock::new();
    let ranks = std::env::var(LAB_RANKS).ok()?;
    let ranks = ranks.split(',').map(|ranks| ranks.parse().expect("a number of ranks")).collect();
    let private = std::env::temp_dir().starts_with("/tmp");
    assert!(!private, "nodes have their own /tmp: set TMPDIR");
    let settings = LabSettings::new(LAB_NODES, Link::both(LAB_RATE));
    Some((LAB.get_or_init(|| Lab::up(&settings).expect("a lab")), ranks))
}

/// The launcher; the program and its arguments are still to come.
pub fn mpiexec(ranks: usize) -> Command {
    if let Some((lab, of_each)) = lab() {
        let mpi = if is_openmpi() { Mpi::OpenMpi } else { Mpi::Mpich };
        let placed = RanksOfNode::repeat(ranks, &of_each, lab.nodes().len());
        return lab.mpiexec(mpi, &placed).expect("a job in a lab");
    }
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

/// Starts a job and waits for its end, which must come within [`LIMIT`].
pub fn run(job: &mut Command) -> Ended {
    let _alone = MACHINE.lock().unwrap_or_else(PoisonError::into_inner);
    let start = Instant::now();
    let mut child = job
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("mpiexec starts");
    let outputs = [reader(child.stdout.take()), reader(child.stderr.take())];
    let success = wait(&mut child, start);
    let output = outputs.map(|output| output.join().expect("output is text")).concat();
    Ended { success: success.unwrap_or_else(|| panic!("no end:\n{output}")), output }
}

/// Runs an ignored test of this test program as the ranks of a job, and returns what they printed.
pub fn run_test(test: &str, variables: &[(&str, &str)]) -> String {
    let program = std::env::current_exe().expect("the test has a path");
    let mut job = mpiexec(ranks());
    job.arg(program).args([test, "--exact", "--ignored", "--nocapture"]);
    let ended = run(job.envs(variables.iter().copied()));
    assert!(ended.success, "{}", ended.output);
    ended.output
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
