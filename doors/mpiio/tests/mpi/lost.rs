//! Connections to servers that are lost while programs write: an error of a call, or nothing at
//! all, never a signal.
//!
//! The programs are in C and have the default disposition of `SIGPIPE`; programs in Rust ignore it.

use std::fs;
use std::net::SocketAddr;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use striate_server::{Server, Settings};

use crate::door::{On, compile, start};
use crate::job::{self, ranks};

/// How long something that must happen may take.
const LIMIT: Duration = Duration::from_secs(90);

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

/// Runs the program on a server, and `fault` while it writes.
fn loses(end: &str, patience: &str, fault: impl FnOnce(&Path, Server)) {
    let place = tempfile::tempdir().unwrap();
    let place = place.path();
    let server = server(&place.join("data"), SocketAddr::from(([127, 0, 0, 1], 0)));
    let url = format!("striate://{}/file", server.address());
    let program = compile("lost.c");
    let mut job = start(On::Door, ranks(), &program, &[("STRIATE_PATIENCE", patience)]);
    job.arg(url).arg(place).arg(end);
    thread::scope(|scope| {
        let running = scope.spawn(|| job::run(&mut job));
        let ready = |rank| place.join(format!("ready.{rank}")).exists();
        wait_until("the first write", || running.is_finished() || (0..ranks()).all(ready));
        if !running.is_finished() {
            fault(place, server);
            fs::write(place.join("stop"), "").unwrap();
        }
        let ended = running.join().unwrap();
        println!("{}", ended.output);
        assert!(ended.success, "{}", ended.output);
    });
}

#[test]
fn a_server_that_goes() {
    loses("gone", "2s", |place, server| {
        drop(server);
        let told = |rank| place.join(format!("lost.{rank}")).exists();
        wait_until("an error of every rank", || (0..ranks()).all(told));
    });
}

#[test]
fn a_server_that_is_started_again() {
    loses("back", "60s", |place, mut now| {
        for _ in 0..4 {
            let address = now.address();
            drop(now);
            now = server(&place.join("data"), address);
            thread::sleep(Duration::from_millis(300));
        }
        fs::write(place.join("stop"), "").unwrap();
        wait_until("the end of all connections", || now.statistics().connections.get() == 0);
    });
}

#[test]
fn programs_that_are_stopped_for_longer_than_a_server_waits() {
    loses("back", "60s", |place, server| {
        let pid = |rank| {
            let text = fs::read_to_string(place.join(format!("ready.{rank}"))).unwrap();
            Pid::from_raw(text.parse().unwrap()).unwrap()
        };
        // A rank that has ended, which it must not, is told of by its job.
        let signal = |signal| (0..ranks()).all(|rank| kill_process(pid(rank), signal).is_ok());
        let connections = || server.statistics().connections.get();
        let (mut cut, begin) = (0, Instant::now());
        while cut < 3 {
            assert!(begin.elapsed() < LIMIT, "{cut} times a connection was cut");
            if !signal(Signal::STOP) {
                return;
            }
            let before = connections();
            // Who stops between two calls owes nothing, and is waited for.
            thread::sleep(Duration::from_secs(1));
            cut += u32::from(connections() < before);
            signal(Signal::CONT);
            thread::sleep(Duration::from_millis(200));
        }
        fs::write(place.join("stop"), "").unwrap();
        wait_until("the end of all connections", || connections() == 0);
    });
}
