//! When a server does not start.

use striate_server::{Embedded, Server, ServerError, Settings};

use crate::support::server;

#[test]
fn two_servers_never_share_a_directory() {
    let data = tempfile::tempdir().unwrap();
    let first = server(&data, |_| {});
    let settings = Settings {
        data: data.path().to_owned(),
        listen: "127.0.0.1:0".parse().unwrap(),
        ..Settings::default()
    };
    let error = Server::start(settings.clone()).unwrap_err();
    assert!(matches!(error, ServerError::InUse { .. }), "{error}");
    first.drain();
    Server::start(settings).unwrap();
}

#[test]
fn strangers_are_let_in_only_on_purpose() {
    let data = tempfile::tempdir().unwrap();
    let settings = Settings {
        data: data.path().to_owned(),
        listen: "0.0.0.0:0".parse().unwrap(),
        ..Settings::default()
    };
    let error = Server::start(settings.clone()).unwrap_err();
    assert!(matches!(error, ServerError::OpenToAnyone { .. }), "{error}");
    Server::start(Settings { allow_anyone: true, ..settings }).unwrap();
}

#[test]
fn an_address_that_is_taken_is_named() {
    let data = tempfile::tempdir().unwrap();
    let first = server(&data, |_| {});
    let listen = first.address();
    let settings = Settings { data: data.path().join("other"), listen, ..Settings::default() };
    let error = Server::start(settings).unwrap_err().to_string();
    assert!(error.contains(&listen.to_string()), "{error}");
    assert!(Embedded::start(0).is_err());
}
