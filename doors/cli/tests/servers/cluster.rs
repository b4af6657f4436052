//! Real servers in processes of their own, and commands that talk to them.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

/// A command, with no settings of the surroundings.
pub(crate) fn striate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.args(arguments).env("LC_ALL", "C.UTF-8").env("NO_COLOR", "1");
    for name in ["STRIATE_KEY_FILE", "STRIATE_CA_FILE"] {
        command.env_remove(name);
    }
    // Servers that were killed shall not be waited for as long as people would.
    command.env("STRIATE_PATIENCE", "5s");
    command
}

pub(crate) fn run(arguments: &[&str]) -> Output {
    striate(arguments).output().unwrap()
}

/// The answer of a command that succeeds.
pub(crate) fn answer(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", told(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// What a command says that does not succeed.
pub(crate) fn complaint(arguments: &[&str], status: i32) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", told(&output));
    told(&output)
}

/// The rows of the JSON document of a command.
pub(crate) fn rows(arguments: &[&str]) -> Vec<Value> {
    let output = striate(arguments).arg("--json").output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{arguments:?}: {error}: {}", told(&output));
    });
    document["rows"].as_array().unwrap().clone()
}

/// All that a command has printed.
pub(crate) fn told(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    format!("{out}{err}")
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what} does not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A process that ends with the test.
#[derive(Debug)]
pub(crate) struct ChildProcess(pub(crate) Child);

impl ChildProcess {
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
        if signal == Signal::STOP {
            until("the stop of a process", || self.is_stopped());
        }
    }

    /// Whether all threads have stopped: on a busy machine, others go on until the one that got the
    /// signal has a turn.
    fn is_stopped(&self) -> bool {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.0.id())).unwrap();
        let mut states =
            tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("stat")));
        states.all(|stat| stat.unwrap().rsplit_once(") ").unwrap().1.starts_with('T'))
    }

    /// The status once the process has ended, which it must do soon.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        until("the end of a process", || {
            status = self.0.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server that runs.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) process: ChildProcess,
    pub(crate) address: String,
    /// The line that it printed.
    pub(crate) started: Value,
    /// Kept open: a server may say more.
    _stdout: BufReader<ChildStdout>,
}

impl Server {
    /// Starts a server and waits until it can be reached.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut command = striate(&["serve", "--json", "--log", "off"]);
        command.args(arguments);
        Self::from_command(command)
    }

    /// The server that a command starts.
    pub(crate) fn from_command(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let process = ChildProcess(child);
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let started: Value =
            serde_json::from_str(&line).unwrap_or_else(|_| panic!("{command:?}: {line:?}"));
        let address = started["address"].as_str().unwrap().to_owned();
        Self { process, address, started, _stdout: stdout }
    }
}

/// A metadata server and I/O servers, each a process, with a directory for all.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) place: TempDir,
    pub(crate) metadata: Option<Server>,
    pub(crate) holders: Vec<Option<Server>>,
    addresses: Vec<String>,
    extra: Vec<String>,
    /// The URL of the file system.
    pub(crate) url: String,
}

impl Cluster {
    pub(crate) fn start(holders: usize) -> Self {
        Self::with(holders, &[])
    }

    /// All servers get these options, too.
    pub(crate) fn with(holders: usize, extra: &[&str]) -> Self {
        let mut cluster = Self {
            place: tempfile::tempdir().unwrap(),
            metadata: None,
            holders: (0..holders).map(|_| None).collect(),
            addresses: vec!["127.0.0.1:0".to_owned(); holders + 1],
            extra: extra.iter().map(|&option| option.to_owned()).collect(),
            url: String::new(),
        };
        cluster.restart();
        cluster
    }

    /// Starts all servers that do not run, where they were before.
    pub(crate) fn restart(&mut self) {
        for index in 0..self.holders.len() {
            if self.holders[index].is_none() {
                let server = self.start_one(index, &[]);
                self.addresses[index].clone_from(&server.address);
                self.holders[index] = Some(server);
            }
        }
        if self.metadata.is_none() {
            let last = self.holders.len();
            let servers = self.addresses[..last].join(",");
            let server = self.start_one(last, &["--meta", "--servers", &servers]);
            self.addresses[last].clone_from(&server.address);
            server.started["url"].as_str().unwrap().clone_into(&mut self.url);
            self.metadata = Some(server);
        }
    }

    fn start_one(&self, index: usize, more: &[&str]) -> Server {
        let data = self.data(index);
        let mut arguments = vec!["--data", data.to_str().unwrap()];
        arguments.extend(["--listen", &self.addresses[index]]);
        arguments.extend(self.extra.iter().map(String::as_str));
        arguments.extend(more);
        Server::start(&arguments)
    }

    /// The data directory of an I/O server; behind the last, that of the metadata server.
    pub(crate) fn data(&self, index: usize) -> PathBuf {
        self.place.path().join(format!("data-{index}"))
    }

    /// The data directories of all servers.
    pub(crate) fn directories(&self) -> Vec<PathBuf> {
        (0..=self.holders.len()).map(|index| self.data(index)).collect()
    }

    /// The file of an object on a server.
    pub(crate) fn object(&self, holder: usize, file: u64) -> PathBuf {
        let shelf = format!("objects/{:02x}", file & 0xff);
        self.data(holder).join(shelf).join(format!("{file:016x}"))
    }

    /// Ends an I/O server as a power failure would.
    pub(crate) fn kill(&mut self, holder: usize) {
        self.holders[holder] = None;
    }

    pub(crate) fn kill_all(&mut self) {
        self.metadata = None;
        self.holders.iter_mut().for_each(|holder| *holder = None);
    }

    pub(crate) fn address(&self, holder: usize) -> &str {
        &self.addresses[holder]
    }

    /// The URL of a path.
    pub(crate) fn at(&self, path: &str) -> String {
        format!("{}/{path}", self.url)
    }

    /// Makes a file of this machine with random bytes; returns its path and them.
    pub(crate) fn file(&self, name: &str, len: usize) -> (String, Vec<u8>) {
        let path = self.local(name);
        fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
        let bytes = random(name, len);
        fs::write(&path, &bytes).unwrap();
        (path, bytes)
    }

    /// A path of this machine.
    pub(crate) fn local(&self, name: &str) -> String {
        self.place.path().join("local").join(name).to_str().unwrap().to_owned()
    }
}

/// Bytes that look random and are the same for the same seed.
pub(crate) fn random(seed: &str, len: usize) -> Vec<u8> {
    let seed = seed.bytes().fold(len as u64, |sum, byte| sum.rotate_left(7) ^ u64::from(byte));
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..len.div_ceil(8)).flat_map(|_| next()).take(len).collect()
}
