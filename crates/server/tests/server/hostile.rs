//! Clients that break the protocol, by mistake or on purpose.

use std::io::Write;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use striate_wire::{Connection, FailureCode, FrameKind, Header, Reply, Request};

use crate::support::{Client, access, alone, connect, ended, eventually, frame};

const MANY: u32 = 1_000_000;

#[test]
fn every_flipped_bit_is_noticed() {
    let embedded = alone(|settings| settings.limits.bad_frames = MANY);
    let address = embedded.servers()[0].address();
    let good = frame(1, &Request::Lookup { path: "a".into() });
    for bit in 0..good.len() * 8 {
        let mut bad = good.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        let mut client = Client::new(address);
        client.send_raw(&bad);
        let failure = client.wait_for_end().unwrap();
        assert_eq!(failure.code, FailureCode::Malformed, "bit {bit}: {failure}");
    }
    let statistics = embedded.servers()[0].statistics();
    assert_eq!(statistics.bad_frames.get(), good.len() as u64 * 8);
    Client::new(address).ask(&Request::Ping).unwrap();
}

#[test]
fn what_ends_in_the_middle_is_not_carried_out() {
    let embedded = alone(|_| {});
    let server = &embedded.servers()[0];
    let whole = frame(
        1,
        &Request::Create {
            path: "a".into(),
            strip: 512,
            servers: None,
            first: None,
            exclusive: true,
        },
    );
    for len in 1..whole.len() {
        let mut client = Client::new(server.address());
        client.send_raw(&whole[..len]);
        client.connection.stream().socket().shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.wait_for_end(), None);
    }
    let mut client = Client::new(server.address());
    assert_eq!(client.refused(&Request::Lookup { path: "a".into() }), FailureCode::NotFound);
    assert_eq!(server.statistics().requests.get(), 1);
}

#[test]
fn other_protocols_and_frames_that_are_not_due_are_refused() {
    let embedded = alone(|_| {});
    let address = embedded.servers()[0].address();
    let mut browser = connect(address);
    browser.write_all(b"GET / HTTP/1.1\r\nHost: striate\r\n\r\n").unwrap();
    let mut connection = striate_wire::Connection::new(browser);
    assert_eq!(connection.receive_header().unwrap().kind, FrameKind::Failure);

    let mut client = Client::new(address);
    client.connection.send_data(7, b"out of the blue").unwrap();
    assert_eq!(client.wait_for_end().unwrap().code, FailureCode::Malformed);

    // A request for more than fits anywhere is refused by its header.
    let mut client = Client::new(address);
    let header = Header { kind: FrameKind::Request, id: 1, len: u32::MAX, payload_crc: 0 };
    client.send_raw(&header.encode());
    assert_eq!(client.wait_for_end().unwrap().code, FailureCode::Malformed);
    assert_eq!(embedded.servers()[0].statistics().bad_frames.get(), 3);
}

#[test]
fn slow_clients_are_dropped_and_others_served() {
    let embedded = alone(|settings| {
        settings.limits.handshake_time = Duration::from_secs(1);
        settings.limits.frame_time = Duration::from_secs(1);
        settings.limits.stall_time = Duration::from_secs(1);
    });
    let server = &embedded.servers()[0];
    let address = server.address();
    let mut friend = Client::new(address);
    friend.ask(&Request::Touch { object: 1 }).unwrap();
    friend.ask(&Request::Truncate { object: 1, len: 1 << 30 }).unwrap();
    let ping = frame(1, &Request::Ping);

    let silent = connect(address);
    let mut half_hello = connect(address);
    half_hello.write_all(b"STRI\x02\x01").unwrap();
    let mut half_header = Client::new(address);
    half_header.send_raw(&ping[..5]);
    let after_a_frame = Client::new(address);
    after_a_frame.send_raw(&[&ping[..], &ping[..5]].concat());
    let writes_nothing = {
        let mut client = Client::new(address);
        client.send(&Request::Write { access: access(2, 0, 1 << 20) });
        client
    };
    let takes_nothing = {
        let mut client = Client::new(address);
        client.send(&Request::Read { access: access(1, 0, 1 << 30) });
        client
    };
    let mut drips = Client::new(address);
    let header = Header { kind: FrameKind::Request, id: 1, len: 1 << 20, payload_crc: 0 };
    drips.send_raw(&header.encode());

    let start = Instant::now();
    let mut dripping = true;
    while server.statistics().connections.get() > 1 {
        assert!(start.elapsed() < Duration::from_secs(60), "clients that are late are not cut");
        dripping = dripping && drips.connection.stream().socket().write_all(b"x").is_ok();
        // Answered while other clients make the server wait.
        friend.ask(&Request::Ping).unwrap();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() >= Duration::from_millis(900));
    if dripping {
        drips.wait_for_end();
    }
    assert!(ended(&silent) && ended(&half_hello));
    // A client is told what was too slow.
    let failure = half_header.wait_for_end().unwrap();
    assert_eq!(failure.code, FailureCode::Busy);
    assert!(failure.text.contains("fewer than 4096 bytes") && failure.text.contains("frame_time"));
    drop((after_a_frame, writes_nothing, takes_nothing));
    assert_eq!(server.statistics().handshakes_failed.get(), 2);
    // The friend was idle for longer than any limit.
    std::thread::sleep(Duration::from_millis(1300));
    friend.ask(&Request::Ping).unwrap();
}

/// What counts is whether a frame makes progress, not how long it takes.
#[test]
fn a_slow_link_is_no_reason_to_drop_a_client() {
    let embedded = alone(|settings| settings.limits.frame_time = Duration::from_secs(1));
    let mut client = Client::new(embedded.servers()[0].address());
    client.ask(&Request::Touch { object: 1 }).unwrap();
    let data = vec![7; 32 << 10];
    let mut frames = Connection::new(Vec::new());
    frames.queue_request(1, &Request::Write { access: access(1, 0, data.len() as u64) }).unwrap();
    frames.send_data(1, &data).unwrap();
    frames.send_data(1, b"").unwrap();
    for part in frames.stream().chunks(4096) {
        client.send_raw(part);
        std::thread::sleep(Duration::from_millis(300));
    }
    let written = client.receive(1).unwrap();
    assert!(matches!(written, Reply::Written { bytes: 32_768, .. }), "{written:?}");
}

#[test]
fn names_do_not_lead_out_of_the_data() {
    let embedded = alone(|_| {});
    let mut client = Client::new(embedded.servers()[0].address());
    for path in ["../a", "a/../../etc/passwd", "..", "", "a\0b", "a//b", "a/"] {
        let path = path.to_owned();
        let (strip, from) = (512, path.clone());
        let create = Request::Create {
            path: path.clone(),
            strip,
            servers: None,
            first: None,
            exclusive: true,
        };
        assert_eq!(client.refused(&create), FailureCode::BadName, "{path:?}");
        assert_eq!(client.refused(&Request::Lookup { path: path.clone() }), FailureCode::BadName);
        assert_eq!(client.refused(&Request::Remove { path }), FailureCode::BadName);
        let rename = Request::Rename { from, to: "b".into(), replace: true };
        assert_eq!(client.refused(&rename), FailureCode::BadName);
    }
    eventually("all are answered", || embedded.servers()[0].statistics().failures.get() == 28);
}
