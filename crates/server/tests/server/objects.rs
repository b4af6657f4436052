//! Objects, over the wire.

use std::time::{Duration, Instant};

use striate_server::Embedded;
use striate_wire::{Bytes, FailureCode, Reply, Request, TypeId};

use crate::support::{Client, access, alone, eventually, server};

fn write(client: &mut Client, object: u64, offset: u64, bytes: &[u8]) {
    client.ask(&Request::Touch { object }).unwrap();
    let id = client.send(&Request::Write { access: access(object, offset, bytes.len() as u64) });
    client.connection.send_data(id, bytes).unwrap();
    client.connection.send_data(id, b"").unwrap();
    let Ok(Reply::Written { bytes: written, .. }) = client.receive(id) else { panic!() };
    assert_eq!(written, bytes.len() as u64);
}

fn read(client: &mut Client, object: u64, offset: u64, len: u64) -> Vec<u8> {
    let id = client.send(&Request::Read { access: access(object, offset, len) });
    let Ok(Reply::Reading { object_len }) = client.receive(id) else { panic!() };
    let mut bytes = vec![0; len.min(object_len.saturating_sub(offset)) as usize];
    if !bytes.is_empty() {
        let header = client.connection.receive_header().unwrap();
        client.connection.receive_data(&header, &mut bytes).unwrap();
    }
    bytes
}

#[test]
fn objects_are_made_changed_listed_and_removed() {
    let embedded = alone(|_| {});
    let mut client = Client::new(embedded.servers()[0].address());
    let len = |object| Request::ObjectLen { object };
    assert_eq!(client.ask(&len(5)), Ok(Reply::Len { len: 0, exists: false }));
    client.ask(&Request::Touch { object: 5 }).unwrap();
    assert_eq!(client.ask(&len(5)), Ok(Reply::Len { len: 0, exists: true }));
    write(&mut client, 5, 10, b"hello");
    client.ask(&Request::Sync { object: 5 }).unwrap();
    assert_eq!(read(&mut client, 5, 8, 100), b"\0\0hello");
    client.ask(&Request::Truncate { object: 5, len: 12 }).unwrap();
    assert_eq!(read(&mut client, 5, 8, 100), b"\0\0he");
    client.ask(&Request::Touch { object: 6 }).unwrap();
    client.ask(&Request::Preallocate { object: 6, len: 4096 }).unwrap();
    let all = Request::Objects { after: None, limit: 10 };
    let objects = vec![(5, 12), (6, 4096)];
    assert_eq!(client.ask(&all), Ok(Reply::Objects { objects, more: false }));
    let Ok(Reply::Space { total, free, available, objects }) = client.ask(&Request::Space) else {
        panic!()
    };
    assert!(total >= free && free >= available && available > 0);
    assert_eq!(objects, 2);
    client.ask(&Request::RemoveObject { object: 5 }).unwrap();
    client.ask(&Request::RemoveObject { object: 5 }).unwrap();
    assert_eq!(client.ask(&len(5)), Ok(Reply::Len { len: 0, exists: false }));

    let Ok(Reply::Statistics { counters }) = client.ask(&Request::Statistics) else { panic!() };
    let counted = |name: &str| counters.iter().find(|(n, _)| n == name).unwrap().1;
    assert_eq!((counted("bytes_written"), counted("bytes_read"), counted("syncs")), (5, 11, 1));
    assert_eq!(counted("connections"), 1);
}

#[test]
fn what_was_stored_is_there_after_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let create = Request::Create {
        path: "a".into(),
        strip: 512,
        servers: None,
        first: Some(1),
        exclusive: false,
    };
    let mut seen = Vec::new();
    for _ in 0..2 {
        let embedded = Embedded::in_directory(2, directory.path(), |_| {}).unwrap();
        let mut client = Client::new(embedded.servers()[0].address());
        let Ok(Reply::File(info)) = client.ask(&create) else { panic!() };
        let second = embedded.servers()[1].address();
        assert_eq!(info.servers[0], second.to_string(), "the server of today");
        let mut client = Client::new(second);
        seen.push((info.file, read(&mut client, info.file, 0, 10)));
        write(&mut client, info.file, 0, b"kept");
    }
    assert_eq!(seen[0].0, seen[1].0);
    assert_eq!((&*seen[0].1, &*seen[1].1), (&b""[..], &b"kept"[..]));
}

#[test]
fn failed_data_requests_leave_the_connection_usable() {
    let embedded = alone(|_| {});
    let mut client = Client::new(embedded.servers()[0].address());
    let junk = b"no datatype".to_vec();
    let typed = Bytes::Typed { id: TypeId::of(&junk), displacement: 0, start: 0, len: 8 };
    let define = client.send(&Request::Define { id: TypeId::of(&junk), encoding: junk });
    assert_eq!(client.receive(define).unwrap_err().code, FailureCode::Malformed);
    let access = striate_wire::Access { bytes: typed, ..access(1, 0, 0) };
    assert_eq!(client.refused(&Request::Read { access: access.clone() }), FailureCode::UnknownType);
    let id = client.send(&Request::Write { access });
    client.connection.send_data(id, &[7; 8]).unwrap();
    client.connection.send_data(id, b"").unwrap();
    assert_eq!(client.receive(id).unwrap_err().code, FailureCode::UnknownType);
    client.ask(&Request::Ping).unwrap();
    assert_eq!(embedded.servers()[0].statistics().failures.get(), 3);
}

/// The deepest description that is allowed fits on the stack of a connection.
#[test]
fn deeply_nested_descriptions_are_understood() {
    let embedded = alone(|_| {});
    let mut client = Client::new(embedded.servers()[0].address());
    // Each has a hole, so that none can be simplified away.
    let nested = (1..64).fold("i8".to_owned(), |inner, level| {
        format!("struct(1 of {inner} at 0, 1 of i8 at {})", 2 * level)
    });
    let encoding = nested.parse::<striate_datatype::Datatype>().unwrap().encode();
    let id = TypeId::of(&encoding);
    client.send(&Request::Define { id, encoding });
    let bytes = Bytes::Typed { id, displacement: 0, start: 0, len: 8 };
    let access = striate_wire::Access { bytes, ..access(1, 0, 0) };
    let read = client.send(&Request::Read { access });
    assert_eq!(client.receive(read), Ok(Reply::Reading { object_len: 0 }));
}

#[test]
fn data_requests_can_be_held_back() {
    let embedded = alone(|settings| settings.delay = Duration::from_millis(50));
    let mut client = Client::new(embedded.servers()[0].address());
    let start = Instant::now();
    write(&mut client, 1, 0, b"slow");
    assert_eq!(read(&mut client, 1, 0, 4), b"slow");
    assert!(start.elapsed() >= Duration::from_millis(100));
}

/// A link of one byte per second lets nothing pass until its limit is gone; names do not wait for
/// it.
#[test]
fn bandwidth_is_limited_until_it_is_not() {
    const LEN: u64 = 200_000;
    let embedded = alone(|settings| settings.bandwidth = Some(1));
    let server = &embedded.servers()[0];
    let mut client = Client::new(server.address());
    std::thread::scope(|scope| {
        let written = scope.spawn(move || {
            write(&mut client, 1, 0, &vec![7; LEN as usize]);
            client
        });
        let statistics = server.statistics();
        eventually("the write has begun", || statistics.contiguous_requests.get() == 1);
        Client::new(server.address()).ask(&Request::Ping).unwrap();
        assert_eq!((server.bandwidth(), statistics.bytes_written.get()), (Some(1), 0));
        server.set_bandwidth(None);
        let mut client = written.join().unwrap();
        assert_eq!(statistics.bytes_written.get(), LEN);
        server.set_bandwidth(Some(1 << 30));
        assert_eq!(read(&mut client, 1, LEN - 4, 4), [7; 4]);
    });
}

/// It would hold its directory for hours otherwise.
#[test]
fn a_server_that_is_stopped_does_not_wait_for_its_link() {
    let data = tempfile::tempdir().unwrap();
    let slow = server(&data, |settings| settings.bandwidth = Some(1));
    let mut client = Client::new(slow.address());
    client.ask(&Request::Touch { object: 1 }).unwrap();
    let id = client.send(&Request::Write { access: access(1, 0, 1 << 16) });
    client.connection.send_data(id, &vec![7; 1 << 16]).unwrap();
    eventually("the write has begun", || slow.statistics().contiguous_requests.get() == 1);
    drop(slow);
    drop(server(&data, |_| {}));
}
