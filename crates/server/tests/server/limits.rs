//! What clients may take together.

use std::io::Write;
use std::time::Duration;

use striate_wire::{FailureCode, HandshakeError, Request, WireError};

use crate::support::{Client, alone, connect, ended, eventually};

fn refusal(result: Result<Client, WireError>) -> FailureCode {
    match result.map(drop) {
        Err(WireError::Handshake(HandshakeError::Refused(failure))) => failure.code,
        other => panic!("{other:?}"),
    }
}

#[test]
fn connections_are_limited() {
    let embedded = alone(|settings| settings.limits.connections = 3);
    let server = &embedded.servers()[0];
    let mut clients: Vec<_> = (0..3).map(|_| Client::new(server.address())).collect();
    assert_eq!(refusal(Client::try_new(server.address())), FailureCode::Busy);
    for client in &mut clients {
        client.ask(&Request::Ping).unwrap();
    }
    clients.pop();
    eventually("the connection is gone", || server.statistics().connections.get() == 2);
    Client::new(server.address()).ask(&Request::Ping).unwrap();
    assert_eq!(server.statistics().connections_refused.get(), 1);
}

#[test]
fn bad_frames_of_strangers_cost_nobody_else_anything() {
    let embedded = alone(|settings| settings.limits.bad_frames = 3);
    let server = &embedded.servers()[0];
    let mut early = Client::new(server.address());
    for _ in 0..40 {
        let mut stranger = connect(server.address());
        stranger.write_all(&[0; 28]).unwrap();
        let mut client = Client::new(server.address());
        client.send_raw(&[0; 28]);
        client.wait_for_end().unwrap();
    }
    // From the same address.
    Client::new(server.address()).ask(&Request::Ping).unwrap();
    early.ask(&Request::Ping).unwrap();
    eventually("all are counted", || server.statistics().bad_frames.get() == 80);
}

#[test]
fn silent_strangers_take_no_place_of_clients() {
    let embedded = alone(|settings| {
        settings.limits.connections = 2;
        settings.limits.handshakes = 4;
        // Not the time ends them.
        settings.limits.handshake_time = Duration::from_secs(600);
    });
    let server = &embedded.servers()[0];
    let mut early = Client::new(server.address());
    let silent: Vec<_> = (0..20).map(|_| connect(server.address())).collect();
    eventually("old strangers go", || server.statistics().strangers_displaced.get() >= 16);
    assert!(ended(&silent[0]));
    // There are as many strangers as there may be, and one more client than the limit.
    let mut late = Client::new(server.address());
    assert_eq!(refusal(Client::try_new(server.address())), FailureCode::Busy);
    late.ask(&Request::Ping).unwrap();
    early.ask(&Request::Ping).unwrap();
    assert_eq!(server.statistics().connections.get(), 2);
}
