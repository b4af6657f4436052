//! Connections that clients give up, over the wire.

use std::time::Duration;

use striate_server::{Server, Settings};
use striate_wire::{ClientId, FailureCode, HandshakeError, Reply, Request, Session, WireError};

use crate::support::{Client, access, eventually, server};

fn session(connection: u64, superseded: &[u64]) -> Session {
    Session { client: ClientId([3; 16]), connection, superseded: superseded.to_vec() }
}

fn slow(change: impl FnOnce(&mut Settings)) -> (Server, tempfile::TempDir) {
    let data = tempfile::tempdir().unwrap();
    let server = server(&data, |settings| {
        settings.delay = Duration::from_millis(300);
        change(settings);
    });
    (server, data)
}

fn send_write(client: &mut Client, bytes: &[u8]) -> u64 {
    let id = client.send(&Request::Write { access: access(5, 0, bytes.len() as u64) });
    client.connection.send_data(id, bytes).unwrap();
    client.connection.send_data(id, b"").unwrap();
    id
}

fn content(client: &mut Client) -> Vec<u8> {
    let id = client.send(&Request::Read { access: access(5, 0, 100) });
    let Ok(Reply::Reading { object_len }) = client.receive(id) else { panic!() };
    let mut bytes = vec![0; object_len as usize];
    let header = client.connection.receive_header().unwrap();
    client.connection.receive_data(&header, &mut bytes).unwrap();
    bytes
}

/// A write that its client gave up comes before the next one of the client, or not at all.
#[test]
fn a_write_that_was_given_up_does_not_come_back() {
    let (server, _data) = slow(|_| {});
    for round in 1..=10 {
        let mut old = Client::of_session(server.address(), &session(2 * round, &[])).unwrap();
        old.ask(&Request::Touch { object: 5 }).unwrap();
        send_write(&mut old, b"old data");
        let next = session(2 * round + 1, &[2 * round]);
        let mut new = Client::of_session(server.address(), &next).unwrap();
        let id = send_write(&mut new, b"new data");
        new.receive(id).unwrap();
        // Longer than the server holds a request back.
        std::thread::sleep(Duration::from_millis(350));
        assert_eq!(content(&mut new), b"new data", "round {round}");
    }
}

#[test]
fn a_client_that_cannot_supersede_is_refused() {
    // No time to end a write that is held back.
    let (server, _data) =
        slow(|settings| settings.limits.handshake_time = Duration::from_millis(50));
    let mut old = Client::of_session(server.address(), &session(1, &[])).unwrap();
    old.ask(&Request::Touch { object: 5 }).unwrap();
    let requests = server.statistics().requests.get();
    send_write(&mut old, b"old data");
    eventually("the write is under way", || server.statistics().requests.get() > requests);
    let refused = Client::of_session(server.address(), &session(2, &[1])).map(drop);
    let Err(WireError::Handshake(HandshakeError::Refused(failure))) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(failure.code, FailureCode::Busy);
    assert!(failure.text.contains("gave up"), "{failure}");
}

#[test]
fn other_connections_go_on() {
    let (server, _data) = slow(|settings| settings.delay = Duration::ZERO);
    let mut one = Client::of_session(server.address(), &session(1, &[])).unwrap();
    let mut two = Client::of_session(server.address(), &session(2, &[])).unwrap();
    let other = Session { client: ClientId([4; 16]), ..session(1, &[]) };
    let mut stranger = Client::of_session(server.address(), &other).unwrap();
    // 9 is not known here: the server was restarted since, for instance.
    let mut three = Client::of_session(server.address(), &session(3, &[1, 9])).unwrap();
    assert!(one.connection.receive_header().is_err());
    for client in [&mut two, &mut stranger, &mut three] {
        client.ask(&Request::Ping).unwrap();
    }
}

#[test]
fn a_start_goes_on_after_an_orderly_stop_only() {
    let data = tempfile::tempdir().unwrap();
    let mut starts = Vec::new();
    for orderly in [true, true, false, true] {
        let server = server(&data, |_| {});
        let mut client = Client::new(server.address());
        client.ask(&Request::Touch { object: 5 }).unwrap();
        let id = send_write(&mut client, b"data");
        let Ok(Reply::Written { start, .. }) = client.receive(id) else { panic!() };
        assert_eq!(client.ask(&Request::Sync { object: 5 }), Ok(Reply::Synced { start }));
        assert_eq!(client.start, start);
        starts.push(start);
        drop(client);
        if orderly {
            server.drain();
        } else {
            drop(server);
        }
    }
    assert!(
        starts[0] == starts[1] && starts[1] == starts[2] && starts[2] != starts[3],
        "{starts:?}"
    );
}
