//! Which clients are let in.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use striate_server::{Embedded, Settings};
use striate_wire::limits::MAX_DATA;
use striate_wire::{
    ClientTls, Connection, FailureCode, HandshakeError, Key, Request, Session, Transport,
    WireError, greet,
};

use crate::support::{Client, access, alone, connect, eventually};

fn key_file(place: &tempfile::TempDir) -> PathBuf {
    let path = place.path().join("key");
    fs::write(&path, "open sesame, open sesame\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn greet_with(embedded: &Embedded, key: Option<&Key>) -> Result<(), WireError> {
    let socket = connect(embedded.servers()[0].address());
    let mut connection = Connection::new(Transport::from(socket));
    greet(&mut connection, key, &Session::default())?;
    connection.send_request(1, &Request::Ping)?;
    connection.receive_header().map(drop)
}

#[test]
fn only_those_with_the_key_are_let_in() {
    let place = tempfile::tempdir().unwrap();
    let path = key_file(&place);
    let embedded = alone(|settings| settings.key_file = Some(path.clone()));
    let key = Key::from_file(&path).unwrap();
    greet_with(&embedded, Some(&key)).unwrap();
    // The client itself notices that the server has another key.
    let wrong = Key::from_bytes(b"open barley, open barley").unwrap();
    let error = greet_with(&embedded, Some(&wrong)).unwrap_err();
    assert!(matches!(error, WireError::Handshake(HandshakeError::WrongKey)), "{error}");
    let error = greet_with(&embedded, None).unwrap_err();
    let WireError::Handshake(HandshakeError::Refused(failure)) = error else { panic!("{error}") };
    assert_eq!(failure.code, FailureCode::Denied);
    eventually("failures are counted", || {
        embedded.servers()[0].statistics().handshakes_failed.get() == 2
    });
    greet_with(&embedded, Some(&key)).unwrap();
}

#[test]
fn a_server_without_the_key_is_not_trusted() {
    let embedded = alone(|_| {});
    let key = Key::from_bytes(b"open sesame, open sesame").unwrap();
    let error = greet_with(&embedded, Some(&key)).unwrap_err();
    assert!(matches!(error, WireError::Handshake(HandshakeError::ServerWithoutKey)), "{error}");
    greet_with(&embedded, None).unwrap();
}

#[test]
fn frames_travel_under_tls() {
    let place = tempfile::tempdir().unwrap();
    let names = vec!["127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).unwrap();
    let [certificate, tls_key] = ["certificate.pem", "key.pem"].map(|name| place.path().join(name));
    fs::write(&certificate, made.cert.pem()).unwrap();
    fs::write(&tls_key, made.signing_key.serialize_pem()).unwrap();
    fs::set_permissions(&tls_key, fs::Permissions::from_mode(0o640)).unwrap();
    let key_file = key_file(&place);
    let embedded = alone(|settings: &mut Settings| {
        settings.tls_certificate = Some(certificate.clone());
        settings.tls_key = Some(tls_key.clone());
        settings.key_file = Some(key_file.clone());
    });
    let server = &embedded.servers()[0];

    let tls = ClientTls::from_file(&certificate).unwrap();
    let transport = tls.connect(connect(server.address()), "127.0.0.1").unwrap();
    let mut connection = Connection::new(transport);
    greet(&mut connection, Some(&Key::from_file(&key_file).unwrap()), &Session::default()).unwrap();
    let frame = MAX_DATA as usize;
    let access = access(1, 0, 3 * frame as u64);
    connection.send_request(9, &Request::Touch { object: 1 }).unwrap();
    let header = connection.receive_header().unwrap();
    connection.receive_message(&header).unwrap();
    connection.queue_request(1, &Request::Write { access: access.clone() }).unwrap();
    for _ in 0..3 {
        connection.send_data(1, &vec![7; frame]).unwrap();
    }
    connection.send_data(1, &[]).unwrap();
    let header = connection.receive_header().unwrap();
    connection.receive_message(&header).unwrap();
    connection.send_request(2, &Request::Read { access }).unwrap();
    let header = connection.receive_header().unwrap();
    connection.receive_message(&header).unwrap();
    let mut left = 3 * frame;
    while left > 0 {
        let header = connection.receive_header().unwrap();
        let mut data = vec![0; header.len as usize];
        connection.receive_data(&header, &mut data).unwrap();
        assert!(data.iter().all(|&byte| byte == 7));
        left -= data.len();
    }

    // A client that does not speak TLS gets nowhere, and is seen.
    assert!(Client::try_new(server.address()).is_err());
    eventually("it is counted", || server.statistics().handshakes_failed.get() == 1);
    assert_eq!(server.statistics().bad_frames.get(), 1);
}
