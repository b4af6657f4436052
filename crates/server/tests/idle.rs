//! Idle connections cost little. Alone in its process, whose memory is measured.
#![allow(clippy::unwrap_used, reason = "tests")]

#[path = "server/support.rs"]
#[expect(dead_code, reason = "the rest of it is for other tests")]
mod support;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use striate_wire::Request;
use support::{Client, alone};

const CONNECTIONS: usize = 1000;

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * rustix::param::page_size() as u64
}

#[test]
fn a_thousand_idle_connections_take_little_memory() {
    // Both ends are in this process, and the server has a second handle of its own.
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).unwrap();
    let embedded = alone(|_| {});
    let server = &embedded.servers()[0];
    Client::new(server.address()).ask(&Request::Ping).unwrap();

    let before = resident_bytes();
    let mut clients: Vec<Client> =
        (0..CONNECTIONS).map(|_| Client::new(server.address())).collect();
    for client in &mut clients {
        client.ask(&Request::Ping).unwrap();
    }
    let grown = resident_bytes().saturating_sub(before);
    println!("{} KiB per connection, both ends", (grown >> 10) / CONNECTIONS as u64);
    assert!(grown < 64 << 20, "{} MiB", grown >> 20);
    assert!(server.statistics().connections.get() >= CONNECTIONS as u64);
}
