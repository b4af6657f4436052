//! Locks among clients.

use striate_server::Embedded;
use striate_wire::{FailureCode, Reply, Request};

use crate::support::{Client, alone, eventually};

fn lock(start: u64, end: u64, exclusive: bool, wait_ms: u32, lease_ms: u32) -> Request {
    Request::Lock { file: 1, start, end, exclusive, wait_ms, lease_ms }
}

fn locked(client: &mut Client, request: &Request) -> u64 {
    match client.ask(request) {
        Ok(Reply::Locked { lock, .. }) => lock,
        other => panic!("{other:?}"),
    }
}

fn two() -> (Embedded, Client, Client) {
    let embedded = alone(|_| {});
    let address = embedded.servers()[0].address();
    let [a, b] = [Client::new(address), Client::new(address)];
    (embedded, a, b)
}

#[test]
fn locks_exclude_each_other() {
    let (_embedded, mut a, mut b) = two();
    let held = locked(&mut a, &lock(0, 100, true, 0, 60_000));
    assert_eq!(b.refused(&lock(50, 60, false, 100, 1000)), FailureCode::LockTimeout);
    locked(&mut b, &lock(100, 110, true, 0, 60_000));
    assert_eq!(b.refused(&Request::Unlock { lock: held }), FailureCode::LockLost);
    let wait = b.send(&lock(0, 1, true, 60_000, 60_000));
    a.ask(&Request::Unlock { lock: held }).unwrap();
    assert!(matches!(b.receive(wait), Ok(Reply::Locked { .. })));
    assert_eq!(a.refused(&Request::Renew { lock: held, lease_ms: 100 }), FailureCode::LockLost);
}

#[test]
fn a_lease_ends_and_a_renewed_one_does_not() {
    let (embedded, mut a, mut b) = two();
    let short = locked(&mut a, &lock(0, 10, true, 0, 100));
    let long = locked(&mut a, &lock(10, 20, true, 0, 1000));
    a.ask(&Request::Renew { lock: long, lease_ms: 60_000 }).unwrap();
    // By the end of the lease, since no client unlocks it; it is waited for as long.
    locked(&mut b, &lock(0, 10, true, 60_000, 60_000));
    assert_eq!(a.refused(&Request::Unlock { lock: short }), FailureCode::LockLost);
    assert_eq!(b.refused(&lock(10, 20, true, 1100, 1000)), FailureCode::LockTimeout);
    assert_eq!(embedded.servers()[0].statistics().locks_lost.get(), 1);
    assert_eq!(embedded.servers()[0].statistics().locks.get(), 2);
}

#[test]
fn the_locks_of_a_dead_client_end() {
    let (embedded, mut a, mut b) = two();
    locked(&mut a, &lock(0, 10, true, 0, 600_000));
    let wait = b.send(&lock(0, 10, true, 60_000, 60_000));
    drop(a);
    assert!(matches!(b.receive(wait), Ok(Reply::Locked { .. })));
    drop(b);
    eventually("no locks", || embedded.servers()[0].statistics().locks.get() == 0);
}

#[test]
fn a_client_that_goes_while_it_waits_gets_nothing() {
    let (embedded, mut a, mut b) = two();
    let statistics = embedded.servers()[0].statistics();
    locked(&mut a, &lock(0, 10, true, 0, 600_000));
    b.send(&lock(0, 10, true, 600_000, 600_000));
    // What it asked for besides does not hide that it is gone.
    b.send(&Request::Ping);
    eventually("it waits", || statistics.requests.get() == 2);
    drop(b);
    eventually("it is noticed", || statistics.connections.get() == 1);
    assert_eq!(statistics.locks.get(), 1);
}

#[test]
fn locks_are_limited() {
    let embedded = alone(|settings| settings.limits.locks = 2);
    let mut client = Client::new(embedded.servers()[0].address());
    for start in 0..2 {
        locked(&mut client, &lock(start, start + 1, true, 0, 60_000));
    }
    assert_eq!(client.refused(&lock(5, 6, true, 0, 1000)), FailureCode::Busy);
}
