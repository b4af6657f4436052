//! Which clients and servers accept each other, over a pair of sockets.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod streams;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::thread;

use streams::Trickle;
use striate_wire::{
    ClientId, Connection, Failure, FailureCode, FrameKind, HandshakeError, Header, Identity,
    Instance, Key, Malformed, Message, Reply, Request, Session, StartId, WireError, greet, welcome,
    welcome_if,
};

const SERVER: Instance = Instance { identity: Identity([42; 16]), start: StartId(u64::MAX) };

/// A session that supersedes nothing, as it travels.
const SESSION: [u8; 18] = [0; 18];

fn key(text: &str) -> Key {
    Key::from_bytes(format!("a long enough key {text}").as_bytes()).unwrap()
}

/// What both sides make of a handshake with these keys.
fn shake_hands(
    client: Option<&Key>,
    server: Option<&Key>,
) -> (Result<Instance, WireError>, Result<(), WireError>) {
    let (here, there) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(move || welcome(&mut Connection::new(there), server, SERVER));
        let client = greet(&mut Connection::new(here), client, &Session::default());
        (client, server.join().unwrap())
    })
}

fn handshake_error<T: std::fmt::Debug>(result: Result<T, WireError>) -> HandshakeError {
    match result {
        Err(WireError::Handshake(error)) => error,
        other => panic!("{other:?}"),
    }
}

/// The reason that the other side sent.
fn reason<T: std::fmt::Debug>(result: Result<T, WireError>, code: FailureCode) -> String {
    match handshake_error(result) {
        HandshakeError::Refused(failure) => {
            assert_eq!(failure.code, code);
            failure.text
        }
        other => panic!("{other}"),
    }
}

#[test]
fn the_same_key_or_none_comes_together() {
    for key in [None, Some(key("one"))] {
        let (client, server) = shake_hands(key.as_ref(), key.as_ref());
        assert_eq!(client.unwrap(), SERVER);
        server.unwrap();
    }
}

#[test]
fn a_client_with_a_key_trusts_no_server_without() {
    let (client, server) = shake_hands(Some(&key("one")), None);
    let error = handshake_error(client);
    assert_eq!(error, HandshakeError::ServerWithoutKey);
    assert_eq!(reason(server, FailureCode::Denied), error.to_string());
}

#[test]
fn a_server_with_a_key_serves_no_client_without() {
    let (client, server) = shake_hands(None, Some(&key("one")));
    let error = handshake_error(server);
    assert_eq!(error, HandshakeError::ClientWithoutKey);
    assert_eq!(reason(client, FailureCode::Denied), error.to_string());
}

#[test]
fn different_keys_do_not_come_together() {
    let (client, server) = shake_hands(Some(&key("one")), Some(&key("two")));
    let error = handshake_error(client);
    assert_eq!(error, HandshakeError::WrongKey);
    assert_eq!(reason(server, FailureCode::Denied), error.to_string());
}

fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        kind,
        id: 0,
        len: payload.len() as u32,
        payload_crc: striate_wire::checksum(payload),
    };
    [&header.encode(), payload].concat()
}

fn hello(oldest: u8, newest: u8) -> Vec<u8> {
    frame(FrameKind::Hello, &[&[oldest, newest], &[5; 32][..]].concat())
}

/// A server's verdict on a client that sends these frames, one after each answer.
fn verdict(frames: &[Vec<u8>], key: Option<&Key>) -> (Result<(), WireError>, Option<Message>) {
    let (mut here, there) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(move || welcome(&mut Connection::new(there), key, SERVER));
        let mut last = None;
        for frame in frames {
            here.write_all(frame).unwrap();
            let mut connection = Connection::new(&here);
            let Ok(header) = connection.receive_header() else { break };
            last = match header.kind {
                FrameKind::Failure => connection.receive_message(&header).ok(),
                _ => connection.skip(&header).ok().and(None),
            };
        }
        drop(here);
        (server.join().unwrap(), last)
    })
}

/// A client that does not look at the server's proof gets no further than one that does.
#[test]
fn a_wrong_proof_is_denied() {
    let wrong = frame(FrameKind::Proof, &[&[1], &[9; 32][..], &SESSION].concat());
    let (server, answer) = verdict(&[hello(2, 2), wrong.clone()], Some(&key("one")));
    assert_eq!(handshake_error(server), HandshakeError::WrongKey);
    let Some(Message::Failure(failure)) = answer else { panic!("{answer:?}") };
    assert_eq!(failure.code, FailureCode::Denied);

    let (server, _) = verdict(&[hello(2, 2), wrong], None);
    assert_eq!(handshake_error(server), HandshakeError::ServerWithoutKey);
}

/// What the server proves itself by is not what it asks for.
#[test]
fn the_servers_own_proof_is_denied() {
    let key = key("one");
    let (mut here, there) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        let server = scope.spawn(|| welcome(&mut Connection::new(there), Some(&key), SERVER));
        here.write_all(&hello(2, 2)).unwrap();
        let mut challenge = [0; Header::LEN + 1 + 32 + 1 + 32];
        here.read_exact(&mut challenge).unwrap();
        let proof = &challenge[challenge.len() - 33..];
        here.write_all(&frame(FrameKind::Proof, &[proof, &SESSION].concat())).unwrap();
        assert_eq!(handshake_error(server.join().unwrap()), HandshakeError::WrongKey);
    });
}

#[test]
fn versions_must_overlap() {
    for (oldest, newest) in [(3, 4), (1, 1), (3, 2)] {
        let (server, answer) = verdict(&[hello(oldest, newest)], None);
        let error = handshake_error(server);
        let expected = HandshakeError::Version { client: (oldest, newest), server: (2, 2) };
        assert_eq!(error, expected);
        let Some(Message::Failure(failure)) = answer else { panic!("{answer:?}") };
        assert_eq!(failure.code, FailureCode::Unsupported);
        assert_eq!(failure.text, error.to_string());
    }
    let proof = frame(FrameKind::Proof, &[&[0], &SESSION[..]].concat());
    verdict(&[hello(0, 7), proof], None).0.unwrap();
}

#[test]
fn a_client_speaks_no_version_it_does_not_know() {
    let (here, mut there) = UnixStream::pair().unwrap();
    let challenge = [&[3], &[5; 32][..], &[0]].concat();
    there.write_all(&frame(FrameKind::Challenge, &challenge)).unwrap();
    let error = handshake_error(greet(&mut Connection::new(here), None, &Session::default()));
    assert_eq!(error, HandshakeError::Version { client: (2, 2), server: (3, 3) });
}

#[test]
fn nothing_but_a_handshake_begins_a_connection() {
    let (server, _) = verdict(&[frame(FrameKind::Request, &[0])], None);
    let expected = "the client's hello";
    let found = FrameKind::Request;
    match server.unwrap_err() {
        WireError::Malformed(error) => {
            assert_eq!(error, Malformed::Unexpected { expected, found });
        }
        other => panic!("{other}"),
    }
    let (server, _) = verdict(&[frame(FrameKind::Hello, &[1, 1, 0])], None);
    assert!(matches!(server, Err(WireError::Malformed(Malformed::Undecodable { .. }))));
    let (server, _) = verdict(&[b"GET / HTTP/1.1\r\nHost: striate\r\n\r\n".to_vec()], None);
    assert!(matches!(server, Err(WireError::Malformed(Malformed::Magic(_)))));
    let (server, _) = verdict(&[], None);
    assert!(matches!(server, Err(WireError::Closed)));
}

/// What a connection supersedes comes to the server before it welcomes the client, with the longest
/// list that there can be.
#[test]
fn a_session_is_admitted_before_the_welcome() {
    let session =
        Session { client: ClientId([9; 16]), connection: u64::MAX, superseded: vec![u64::MAX; 16] };
    for key in [None, Some(key("one"))] {
        let (here, there) = UnixStream::pair().unwrap();
        thread::scope(|scope| {
            let server = scope.spawn(|| {
                welcome_if(&mut Connection::new(there), key.as_ref(), SERVER, |found| {
                    assert_eq!(*found, session);
                    Err(Failure::new(FailureCode::Busy, "a request is still carried out"))
                })
            });
            let client = greet(&mut Connection::new(here), key.as_ref(), &session);
            assert_eq!(reason(client, FailureCode::Busy), "a request is still carried out");
            server.join().unwrap().unwrap_err();
        });
    }
    let longer = Session { superseded: vec![0; 17], ..session };
    let bytes = postcard::to_stdvec(&longer).unwrap();
    assert!(postcard::from_bytes::<Session>(&bytes).is_err());
}

/// Requests after a handshake, over sockets that transfer a few bytes at a time.
#[test]
fn a_connection_goes_on_after_its_handshake() {
    let key = key("one");
    let (here, there) = UnixStream::pair().unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = Connection::new(Trickle { inner: there, most: 9, random: 7 });
            welcome(&mut connection, Some(&key), SERVER).unwrap();
            while let Ok(header) = connection.receive_header() {
                connection.receive_message(&header).unwrap();
                connection.send_reply(header.id, &Reply::Done).unwrap();
            }
        });
        let mut connection = Connection::new(Trickle { inner: here, most: 5, random: 3 });
        assert_eq!(greet(&mut connection, Some(&key), &Session::default()).unwrap(), SERVER);
        for id in 1..=3 {
            connection.queue_request(id, &Request::Ping).unwrap();
        }
        connection.flush().unwrap();
        for id in 1..=3 {
            let header = connection.receive_header().unwrap();
            assert_eq!(header.id, id);
            let reply = connection.receive_message(&header).unwrap();
            assert_eq!(reply, Message::Reply(Reply::Done));
        }
        let traffic = connection.traffic();
        assert_eq!((traffic.sent.requests, traffic.received.replies), (3, 3));
        assert_eq!((traffic.sent.request_bytes, traffic.received.reply_bytes), (87, 87));
    });
}
