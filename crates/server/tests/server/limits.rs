//! What clients may take together.

use striate_wire::{FailureCode, HandshakeError, Request, WireError};

use crate::support::{Client, alone, eventually};

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
fn who_sends_too_many_bad_frames_is_refused() {
    let embedded = alone(|settings| settings.limits.bad_frames = 3);
    let server = &embedded.servers()[0];
    let mut early = Client::new(server.address());
    for _ in 0..4 {
        let mut client = Client::new(server.address());
        client.send_raw(&[0; 28]);
        client.wait_for_end().unwrap();
    }
    assert_eq!(refusal(Client::try_new(server.address())), FailureCode::Busy);
    assert_eq!(server.statistics().bad_frames.get(), 4);
    early.ask(&Request::Ping).unwrap();
}
