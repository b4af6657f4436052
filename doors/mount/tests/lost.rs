//! A mount whose connections to the servers are lost: calls fail with `EIO` or wait until the
//! server is back, and neither the program nor the process that serves the mount is ended by a
//! signal.
//!
//! The program is in C, and both have the default disposition of `SIGPIPE`: programs in Rust ignore
//! it, so the process that serves the mount, which is this test started again, sets it back.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use striate_mount::{Mounted, ServerOptions};
use striate_server::{Server, Settings};
use striate_store::remote::{Client, ClientOptions};

/// How long something that must happen may take.
const LIMIT: Duration = Duration::from_secs(90);

const HOST: &str = "LOST_HOST";
const POINT: &str = "LOST_POINT";
const PATIENCE: &str = "LOST_PATIENCE";

fn server(data: &Path, listen: SocketAddr) -> Server {
    let mut settings =
        Settings { data: data.to_owned(), listen, metadata: true, ..Settings::default() };
    // A client that stops in the middle of a write is cut off soon.
    settings.limits.frame_time = Duration::from_millis(300);
    settings.limits.stall_time = Duration::from_millis(300);
    Server::start(settings).unwrap()
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(begin.elapsed() < LIMIT, "{what} does not happen");
        thread::sleep(Duration::from_millis(10));
    }
}

/// The process that serves the mount. It ends when its standard input does.
#[test]
#[ignore = "the other tests start it"]
fn process_that_serves() {
    // SAFETY: the disposition of a signal, before there are other threads that use it.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let [host, point, patience] = [HOST, POINT, PATIENCE].map(|name| std::env::var(name).unwrap());
    let patience = Duration::from_secs(patience.parse().unwrap());
    let options = ClientOptions { patience, ..ClientOptions::default() };
    let client = Client::connect(&host, options).unwrap();
    let mounted = Mounted::of_servers(&ServerOptions::new(client, "", &point)).unwrap();
    let _ = std::io::stdin().read_line(&mut String::new());
    println!("ended: {:?}", mounted.end());
}

/// A process that is killed and waited for if the test ends early.
struct RunningProcess(Child);

impl Drop for RunningProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl RunningProcess {
    fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    fn ends_well(mut self, what: &str) {
        drop(self.0.stdin.take());
        wait_until(&format!("the end of {what}"), || !self.is_running());
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{what}: {status}");
    }
}

fn compile(into: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs/lost.c");
    let program = into.join("lost");
    let mut command = Command::new("cc");
    let output = command.args(["-O1", "-Wall", "-Werror", "-o"]).arg(&program).arg(source).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// What a fault needs to know.
struct Running<'r> {
    /// Where programs put files that say what has happened.
    place: &'r Path,
    data: PathBuf,
    mount: Pid,
}

/// Runs the program on a mount of a server, and `fault` while it writes.
fn loses(end: &str, patience: &str, fault: impl FnOnce(&Running<'_>, Server) -> Option<Server>) {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let (data, point) = (place.join("data"), place.join("point"));
    fs::create_dir(&point).unwrap();
    let server = server(&data, SocketAddr::from(([127, 0, 0, 1], 0)));
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--ignored", "--exact", "process_that_serves", "--nocapture"]);
    command.env(HOST, server.address().to_string()).env(POINT, &point).env(PATIENCE, patience);
    let mut mount = RunningProcess(command.stdin(Stdio::piped()).spawn().unwrap());
    let bare = device(place);
    wait_until("the mount", || !mount.is_running() || device(&point) != bare);
    let mut program = Command::new(compile(place));
    let program = program.arg(point.join("file")).arg(place).arg(end).spawn();
    let mut program = RunningProcess(program.unwrap());
    wait_until("the first write", || !program.is_running() || place.join("ready").exists());
    let pid = Pid::from_child(&mount.0);
    let running = Running { place, data, mount: pid };
    let server = fault(&running, server);
    fs::write(place.join("stop"), "").unwrap();
    program.ends_well("the program");
    mount.ends_well("the process that serves");
    assert_eq!(device(&point), bare, "it is still mounted");
    drop(server);
}

fn device(path: &Path) -> Option<u64> {
    std::os::unix::fs::MetadataExt::dev(&fs::metadata(path).ok()?).into()
}

#[test]
fn a_server_that_goes() {
    loses("gone", "2", |running, server| {
        drop(server);
        wait_until("an error of the program", || running.place.join("failed").exists());
        None
    });
}

#[test]
fn a_server_that_is_started_again() {
    loses("back", "60", |running, mut now| {
        for _ in 0..4 {
            let address = now.address();
            // In order: what the clients wrote is on storage, and they need not write it again.
            now.drain();
            now = server(&running.data, address);
            thread::sleep(Duration::from_millis(300));
        }
        Some(now)
    });
}

#[test]
fn a_mount_that_is_stopped_for_longer_than_a_server_waits() {
    loses("back", "60", |running, server| {
        let connections = || server.statistics().connections.get();
        let (mut cut, begin) = (0, Instant::now());
        while cut < 3 {
            assert!(begin.elapsed() < LIMIT, "{cut} times a connection was cut");
            kill_process(running.mount, Signal::STOP).unwrap();
            let before = connections();
            // Between two requests nothing is owed, and the connection stays.
            thread::sleep(Duration::from_secs(1));
            cut += u32::from(connections() < before);
            kill_process(running.mount, Signal::CONT).unwrap();
            thread::sleep(Duration::from_millis(200));
        }
        Some(server)
    });
}
