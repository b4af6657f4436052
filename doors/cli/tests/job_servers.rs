//! `etc/job-servers`, in labs of nodes: servers that live as long as a job.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use striate_lab::{Lab, LabSettings, Link, Rate};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(90);

/// A lab with a directory that all nodes see.
struct Job {
    lab: Lab,
    shared: TempDir,
}

impl Job {
    /// None where labs are forbidden, as `./test --no-lab` says.
    fn new(nodes: usize) -> Option<Self> {
        if std::env::var_os("STRIATE_NO_LAB").is_some() {
            return None;
        }
        let shared = tempfile::tempdir().unwrap();
        let command = Path::new(env!("CARGO_BIN_EXE_striate")).parent().unwrap();
        let settings = LabSettings::new(nodes, Link::both(Rate::mbit(400)));
        let lab =
            Lab::up(&settings.share(shared.path()).share(command).share(repository())).unwrap();
        Some(Self { lab, shared })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.shared.path().join(name)
    }

    /// The script in node 1, with nodes and a launcher; `options` are the rest.
    fn start(&self, nodes: &str, options: &[&str], program: &str) -> Child {
        let mut command: Command = self.lab.command(0, "bash").unwrap();
        command
            .arg(repository().join("etc/job-servers"))
            .args([
                "--striate",
                env!("CARGO_BIN_EXE_striate"),
                "--patience",
                "20",
                "--nodes",
                nodes,
            ])
            .arg("--launcher")
            .arg(self.lab.record().directory().join("enter"))
            .arg("--shared")
            .arg(self.shared.path())
            .args(options)
            .args(["--", "bash", "-c", program])
            .env("STRIATE", env!("CARGO_BIN_EXE_striate"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    }

    /// Nothing of the job is left: no server, no directory.
    fn assert_clean(&self, nodes: usize) {
        for node in 0..nodes {
            let servers = self.lab.processes(node).unwrap();
            let left: Vec<_> = servers.iter().filter(|one| one.name == "striate").collect();
            assert!(left.is_empty(), "node {node}: {left:?}");
            let tmp = self.lab.path_in(node, Path::new("/tmp")).unwrap();
            let names = fs::read_dir(tmp).unwrap().map(|entry| entry.unwrap().file_name());
            let left: Vec<_> =
                names.filter(|name| name.to_string_lossy().contains("job-servers")).collect();
            assert!(left.is_empty(), "node {node}: {left:?}");
        }
        let names =
            fs::read_dir(self.shared.path()).unwrap().map(|entry| entry.unwrap().file_name());
        let left: Vec<_> =
            names.filter(|name| name.to_string_lossy().contains("job-servers")).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn ended(mut child: Child) -> Output {
    let begin = Instant::now();
    while child.try_wait().unwrap().is_none() {
        assert!(begin.elapsed() < LIMIT, "the job does not end");
        sleep(Duration::from_millis(20));
    }
    child.wait_with_output().unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn results_are_drained_and_nothing_stays() {
    let Some(job) = Job::new(3) else { return };
    let content: Vec<u8> = (0..3_000_000u32).map(|i| (i * 31) as u8).collect();
    fs::write(job.path("in"), &content).unwrap();
    let drain = format!("out={}", job.path("results").display());
    let program = format!(
        "$STRIATE fs cp {} $STRIATE_URL/out/a && $STRIATE fs cp {0} $STRIATE_URL/out/sub/b && \
         $STRIATE fs stat $STRIATE_URL/out/a; exit 7",
        job.path("in").display()
    );
    let output = ended(job.start("n1,n2,n3", &["--drain", &drain], &program));
    assert_eq!(output.status.code(), Some(7), "{}", said(&output));
    assert!(said(&output).contains("3 servers, striate://n1:7479"), "{}", said(&output));
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(["n1:7479", "n2:7479", "n3:7479"].iter().all(|name| shown.contains(name)), "{shown}");
    for name in ["results/a", "results/sub/b"] {
        assert!(fs::read(job.path(name)).unwrap() == content, "{name}");
    }
    job.assert_clean(3);
}

#[test]
fn a_signal_ends_the_program_and_what_it_wrote_is_drained() {
    let Some(job) = Job::new(2) else { return };
    fs::write(job.path("in"), b"content").unwrap();
    let drain = format!("out={}", job.path("results").display());
    let program = format!(
        "$STRIATE fs cp {} $STRIATE_URL/out/a; echo $PPID >{}; sleep 1000 & trap 'kill $!; exit 3' TERM; wait",
        job.path("in").display(),
        job.path("written").display()
    );
    let child = job.start("n1,n2", &["--drain", &drain], &program);
    let begin = Instant::now();
    let script = loop {
        match fs::read_to_string(job.path("written")) {
            Ok(pid) if pid.ends_with('\n') => break pid.trim().to_owned(),
            _ => sleep(Duration::from_millis(20)),
        }
        assert!(begin.elapsed() < LIMIT, "the program does not run");
    };
    // To the script alone.
    let mut kill = job.lab.command(0, "kill").unwrap();
    assert!(kill.args(["-TERM", &script]).status().unwrap().success());
    let output = ended(child);
    assert_eq!(output.status.code(), Some(3), "{}", said(&output));
    assert_eq!(fs::read(job.path("results/a")).unwrap(), b"content");
    job.assert_clean(2);
}

#[test]
fn what_cannot_be_copied_stays_on_the_nodes() {
    let Some(job) = Job::new(2) else { return };
    fs::write(job.path("in"), b"content").unwrap();
    let program = format!("$STRIATE fs cp {} $STRIATE_URL/out/a", job.path("in").display());
    let drain = format!("out={}/in/nowhere", job.shared.path().display());
    let output = ended(job.start("n1,n2", &["--drain", &drain], &program));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(
        said(&output).contains("is not copied")
            && said(&output).contains("still in /tmp/job-servers")
    );
    let tmp = job.lab.path_in(0, Path::new("/tmp")).unwrap();
    assert!(
        fs::read_dir(tmp).unwrap().any(|entry| {
            entry.unwrap().file_name().to_string_lossy().starts_with("job-servers")
        })
    );
}

#[test]
fn a_node_without_a_server_ends_the_job() {
    let Some(job) = Job::new(2) else { return };
    let output = ended(job.start("n1,n2", &["--data", "/proc/none"], "touch ran"));
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("the server on n2 does not start"), "{}", said(&output));
    job.assert_clean(2);
}

#[test]
fn wrong_calls_say_so() {
    let script = repository().join("etc/job-servers");
    for (arguments, reason) in [
        (&["--", "true"][..], "there is no job"),
        (&["--nodes", "n1"], "no program is given"),
        (&["--drain", "x", "--nodes", "n1", "--", "true"], "'x' is not NAME=DIR"),
        (&["--nonsense"], "unknown argument"),
        (&["--nodes"], "--nodes needs a value"),
    ] {
        let mut command = Command::new(&script);
        command.args(["--striate", "/bin/true"]).args(arguments);
        for variable in ["SLURM_JOB_NODELIST", "SLURM_JOB_ID", "PBS_NODEFILE"] {
            command.env_remove(variable);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(said(&output).contains(reason), "{}", said(&output));
    }
    let help = Command::new(&script).arg("--help").output().unwrap();
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("Example"));
}
