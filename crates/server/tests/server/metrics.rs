//! Metrics over HTTP.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use striate_wire::Request;

use crate::support::{Client, alone, ended};

fn get(address: SocketAddr, path: &str) -> String {
    let mut socket = TcpStream::connect(address).unwrap();
    write!(socket, "GET {path} HTTP/1.0\r\n\r\n").unwrap();
    let mut text = String::new();
    socket.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn metrics_are_served_where_asked_for() {
    let embedded = alone(|settings| settings.metrics = Some("127.0.0.1:0".parse().unwrap()));
    let server = &embedded.servers()[0];
    let mut client = Client::new(server.address());
    client.ask(&Request::Ping).unwrap();
    let address = server.metrics_address().unwrap();
    let text = get(address, "/metrics");
    assert!(text.starts_with("HTTP/1.0 200"), "{text}");
    for line in [
        "# HELP striate_requests_total Requests of all kinds.",
        "# TYPE striate_requests_total counter",
        "striate_requests_total 1",
        "# TYPE striate_connections gauge",
        "striate_connections 1",
        "striate_bad_frames_total 0",
    ] {
        assert!(text.lines().any(|found| found == line), "{line} is not in {text}");
    }
    assert!(get(address, "/healthz").ends_with("\r\nok\n"));
    assert!(get(address, "/else").starts_with("HTTP/1.0 404"));
    drop(embedded);
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn half_requests_keep_neither_threads_nor_others_waiting() {
    let embedded = alone(|settings| settings.metrics = Some("127.0.0.1:0".parse().unwrap()));
    let server = &embedded.servers()[0];
    let address = server.metrics_address().unwrap();
    let threads = || fs::read_dir("/proc/self/task").unwrap().count();
    let before = threads();
    let halves: Vec<_> = (0..200)
        .map(|_| {
            let mut socket = TcpStream::connect(address).unwrap();
            // The oldest are closed for newer ones.
            let _ = socket.write_all(b"GET /metrics HT");
            socket
        })
        .collect();
    let text = get(address, "/healthz");
    assert!(text.ends_with("\r\nok\n"), "{text}");
    // Tests beside this one have threads of their own.
    assert!(threads() < before + 100, "{} threads, {before} before", threads());
    assert!(ended(&halves[0]));

    let mut long = TcpStream::connect(address).unwrap();
    let _ = write!(long, "GET /{} HTTP/1.0\r\n\r\n", "x".repeat(20_000));
    let mut other = TcpStream::connect(address).unwrap();
    other.write_all(b"\x16\x03\x01\x02\x00\x01").unwrap();
    for mut socket in [long, other] {
        let mut text = String::new();
        let _ = socket.read_to_string(&mut text);
        assert!(text.starts_with("HTTP/1.0 400"), "{text}");
    }
    assert!(get(address, "/metrics?x=1").starts_with("HTTP/1.0 200"));
}
