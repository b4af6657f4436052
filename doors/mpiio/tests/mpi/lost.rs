//! Connections to servers that are lost while programs write, plain and under TLS: an error of a
//! call or nothing at all, never a signal.
//!
//! The programs are in C and have the default disposition of `SIGPIPE`; programs in Rust ignore it.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use striate_server::{Server, Settings};
use striate_testing::mpi_job::{self, ranks};
use tempfile::TempDir;

use crate::door::{On, compile, start};

/// How long something that must happen may take.
const LIMIT: Duration = Duration::from_secs(90);

/// What the bytes of a connection travel in.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Security {
    Plain,
    Tls,
}

/// A directory with the data of one server, and its certificate if it has one.
struct Installation {
    directory: TempDir,
    security: Security,
}

impl Installation {
    fn new(security: Security) -> Self {
        let installation = Self { directory: tempfile::tempdir().unwrap(), security };
        if security == Security::Tls {
            let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
            fs::write(installation.certificate(), made.cert.pem()).unwrap();
            fs::write(installation.tls_key(), made.signing_key.serialize_pem()).unwrap();
            let private = fs::Permissions::from_mode(0o600);
            fs::set_permissions(installation.tls_key(), private).unwrap();
        }
        installation
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn certificate(&self) -> PathBuf {
        self.path().join("certificate.pem")
    }

    fn tls_key(&self) -> PathBuf {
        self.path().join("key.pem")
    }

    /// Starts the server of this directory.
    fn serve(&self, listen: SocketAddr) -> Server {
        let data = self.path().join("data");
        let mut settings = Settings { data, listen, metadata: true, ..Settings::default() };
        if self.security == Security::Tls {
            settings.tls_certificate = Some(self.certificate());
            settings.tls_key = Some(self.tls_key());
        }
        // A client that stops in the middle of a write is cut off soon.
        settings.limits.frame_time = Duration::from_millis(300);
        settings.limits.stall_time = Duration::from_millis(300);
        Server::start(settings).unwrap()
    }
}

fn wait_until(what: &str, mut happened: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !happened() {
        assert!(begin.elapsed() < LIMIT, "{what} does not happen");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Runs the program on a server, and `fault` while it writes.
fn loses(security: Security, end: &str, patience: &str, fault: impl FnOnce(&Installation, Server)) {
    let installation = Installation::new(security);
    let directory = installation.path();
    let server = installation.serve(SocketAddr::from(([127, 0, 0, 1], 0)));
    let scheme = if security == Security::Tls { "striate+tls" } else { "striate" };
    let url = format!("{scheme}://{}/file", server.address());
    let certificate = installation.certificate();
    let mut variables = vec![("STRIATE_PATIENCE", patience)];
    if security == Security::Tls {
        variables.push(("STRIATE_CA_FILE", certificate.to_str().unwrap()));
    }
    let program = compile("lost.c");
    let mut job = start(On::Door, ranks(), &program, &variables);
    job.arg(url).arg(directory).arg(end);
    thread::scope(|scope| {
        let running = scope.spawn(|| mpi_job::run(&mut job));
        let ready = |rank| directory.join(format!("ready.{rank}")).exists();
        wait_until("the first write", || running.is_finished() || (0..ranks()).all(ready));
        if !running.is_finished() {
            fault(&installation, server);
            fs::write(directory.join("stop"), "").unwrap();
        }
        let ended = running.join().unwrap();
        println!("{}", ended.output);
        assert!(ended.success, "{}", ended.output);
    });
}

fn loses_a_server_that_goes(security: Security) {
    loses(security, "gone", "2s", |installation, server| {
        drop(server);
        let failed = |rank| installation.path().join(format!("lost.{rank}")).exists();
        wait_until("an error of every rank", || (0..ranks()).all(failed));
    });
}

fn loses_a_server_that_is_started_again(security: Security) {
    loses(security, "back", "60s", |installation, mut server| {
        for _ in 0..4 {
            let address = server.address();
            drop(server);
            server = installation.serve(address);
            thread::sleep(Duration::from_millis(300));
        }
        fs::write(installation.path().join("stop"), "").unwrap();
        wait_until("the end of all connections", || server.statistics().connections.get() == 0);
    });
}

fn loses_connections_while_stopped(security: Security) {
    loses(security, "back", "60s", |installation, server| {
        let pid = |rank| {
            let file = installation.path().join(format!("ready.{rank}"));
            Pid::from_raw(fs::read_to_string(file).unwrap().parse().unwrap()).unwrap()
        };
        // The output of the job tells of a rank that has ended, which it must not.
        let signal = |signal| (0..ranks()).all(|rank| kill_process(pid(rank), signal).is_ok());
        let connections = || server.statistics().connections.get();
        let (mut cut, begin) = (0, Instant::now());
        while cut < 3 {
            assert!(begin.elapsed() < LIMIT, "{cut} times a connection was cut");
            if !signal(Signal::STOP) {
                return;
            }
            let before = connections();
            // A rank that stops between two calls owes nothing, and the server waits for it.
            thread::sleep(Duration::from_secs(1));
            cut += u32::from(connections() < before);
            signal(Signal::CONT);
            thread::sleep(Duration::from_millis(200));
        }
        fs::write(installation.path().join("stop"), "").unwrap();
        wait_until("the end of all connections", || connections() == 0);
    });
}

#[test]
fn a_server_that_goes() {
    loses_a_server_that_goes(Security::Plain);
}

#[test]
fn a_server_that_goes_under_tls() {
    loses_a_server_that_goes(Security::Tls);
}

#[test]
fn a_server_that_is_started_again() {
    loses_a_server_that_is_started_again(Security::Plain);
}

#[test]
fn a_server_that_is_started_again_under_tls() {
    loses_a_server_that_is_started_again(Security::Tls);
}

#[test]
fn programs_that_are_stopped_for_longer_than_a_server_waits() {
    loses_connections_while_stopped(Security::Plain);
}

#[test]
fn programs_that_are_stopped_for_longer_than_a_server_waits_under_tls() {
    loses_connections_while_stopped(Security::Tls);
}
