//! A server stops in order.

use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

use striate_wire::{FailureCode, Reply, Request};

use crate::support::{Client, access, eventually, server};

fn begin_write(client: &mut Client) -> u64 {
    client.ask(&Request::Touch { object: 1 }).unwrap();
    let id = client.send(&Request::Write { access: access(1, 0, 4) });
    client.connection.send_data(id, b"ab").unwrap();
    id
}

#[test]
fn requests_in_progress_are_finished() {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data, |_| {});
    let address = server.address();
    let mut idle = Client::new(address);
    let mut writer = Client::new(address);
    let id = begin_write(&mut writer);
    let mut holder = Client::new(address);
    let lock = Request::Lock {
        file: 1,
        start: 0,
        end: 1,
        exclusive: true,
        wait_ms: 600_000,
        lease_ms: 600_000,
    };
    holder.ask(&lock).unwrap();
    let mut waiter = Client::new(address);
    let wait = waiter.send(&lock);
    eventually("all have begun", || server.statistics().requests.get() == 4);

    // None is cut, as connections are that take too long.
    let drained = thread::spawn(move || server.drain());
    assert_eq!(idle.wait_for_end(), None);
    assert_eq!(waiter.receive(wait).unwrap_err().code, FailureCode::Draining);
    assert!(TcpStream::connect(address).is_err(), "still listening");
    // The data still comes in parts, and another request after it.
    thread::sleep(Duration::from_millis(200));
    writer.connection.send_data(id, b"cd").unwrap();
    writer.connection.send_data(id, b"").unwrap();
    let ping = writer.send(&Request::Ping);
    assert!(matches!(writer.receive(id), Ok(Reply::Written { bytes: 4, .. })));
    // Depending on when it came, it gets the failure or finds the connection ended.
    if let Some(failure) = writer.wait_for_end() {
        assert_eq!((failure.code, ping), (FailureCode::Draining, id + 1));
    }
    drop(writer);
    assert_eq!(drained.join().unwrap(), 0);
}

#[test]
fn who_takes_too_long_is_cut() {
    let data = tempfile::tempdir().unwrap();
    let first = server(&data, |settings| settings.limits.drain_time = Duration::from_millis(300));
    let mut writer = Client::new(first.address());
    begin_write(&mut writer);
    eventually("it has begun", || first.statistics().requests.get() == 2);
    let start = Instant::now();
    assert_eq!(first.drain(), 1);
    assert!(start.elapsed() >= Duration::from_millis(300));
    // Everything is given back: another server can use the directory at once.
    let second = server(&data, |_| {});
    let mut client = Client::new(second.address());
    client.ask(&Request::Ping).unwrap();
    // Dropped, a server does not wait for those in progress: it would be for as long as the drain
    // time.
    begin_write(&mut client);
    eventually("it has begun", || second.statistics().requests.get() == 3);
    drop(second);
    assert_eq!(client.wait_for_end(), None);
}
