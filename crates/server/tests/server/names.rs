//! Names of files, over the wire.

use std::collections::BTreeSet;

use striate_server::Embedded;
use striate_wire::{FailureCode, FileInfo, Identity, Reply, Request};

use crate::support::Client;

fn create(path: &str, servers: Option<u32>, first: Option<u32>, exclusive: bool) -> Request {
    Request::Create { path: path.into(), strip: 65536, servers, first, exclusive }
}

fn file(client: &mut Client, request: &Request) -> FileInfo {
    match client.ask(request) {
        Ok(Reply::File(info)) => info,
        other => panic!("{other:?}"),
    }
}

#[test]
fn files_are_made_found_renamed_and_removed() {
    let embedded = Embedded::start(3).unwrap();
    let addresses: Vec<_> =
        embedded.servers().iter().map(|server| server.address().to_string()).collect();
    let mut client = Client::new(embedded.servers()[0].address());
    let known = |identities| Ok(Reply::Servers { addresses: addresses.clone(), identities });
    assert_eq!(client.ask(&Request::Servers), known(vec![None; 3]));

    let made = file(&mut client, &create("/run/a", None, Some(1), true));
    assert_eq!(made.path, "run/a");
    assert_eq!(made.servers, [&*addresses[1], &addresses[2], &addresses[0]]);
    assert_eq!((made.strip, made.size), (65536, 0));
    assert_eq!(client.refused(&create("run/a", None, None, true)), FailureCode::Exists);
    assert_eq!(file(&mut client, &create("run/a", Some(1), None, false)), made);
    assert_eq!(client.refused(&create("run/a/b", None, None, true)), FailureCode::BadName);
    assert_eq!(client.refused(&create("run", None, None, true)), FailureCode::BadName);
    assert_eq!(client.refused(&create("b", Some(4), None, true)), FailureCode::Malformed);
    assert_eq!(client.refused(&create("b", None, Some(3), true)), FailureCode::Malformed);

    let record = |file, size| Request::Record { file, size, truncations: 0, lens: Vec::new() };
    client.ask(&record(made.file, 1234)).unwrap();
    let found = file(&mut client, &Request::Lookup { path: "run/a".into() });
    assert_eq!((found.file, found.size), (made.file, 1234));
    assert!(found.modified_ms >= found.created_ms && found.created_ms > 1_600_000_000_000);
    assert_eq!(client.refused(&record(999, 1)), FailureCode::NotFound);

    let other = file(&mut client, &create("run/b", Some(1), None, true));
    let rename = |replace| Request::Rename { from: "run/a".into(), to: "run/b".into(), replace };
    assert_eq!(client.refused(&rename(false)), FailureCode::Exists);
    client.ask(&rename(true)).unwrap();
    assert_eq!(client.refused(&Request::Lookup { path: "run/a".into() }), FailureCode::NotFound);
    let dead = |ids| Ok(Reply::Ids { ids, more: false });
    let all_dead = Request::Dead { after: None, limit: 10 };
    assert_eq!(client.ask(&all_dead), dead(vec![other.file]));
    assert_eq!(client.refused(&Request::Bury { file: made.file }), FailureCode::Malformed);
    client.ask(&Request::Bury { file: other.file }).unwrap();
    let removed = file(&mut client, &Request::Remove { path: "run/b".into() });
    assert_eq!(removed.file, made.file);
    assert_eq!(client.ask(&all_dead), dead(vec![made.file]));
}

#[test]
fn files_are_spread_over_the_servers() {
    let embedded = Embedded::start(3).unwrap();
    let mut client = Client::new(embedded.servers()[0].address());
    let first = |i| file(&mut client, &create(&format!("f{i}"), Some(2), None, true)).servers;
    let servers: Vec<_> = (0..3).map(first).collect();
    let firsts: BTreeSet<_> = servers.iter().map(|servers| &servers[0]).collect();
    assert_eq!(firsts.len(), 3);
    assert!(servers.iter().all(|servers| servers.len() == 2 && servers[0] != servers[1]));
}

#[test]
fn a_listing_comes_in_parts_that_fit_in_frames() {
    let embedded = Embedded::start(1).unwrap();
    let mut client = Client::new(embedded.servers()[0].address());
    let long = format!("{}/", "d".repeat(250)).repeat(16);
    let paths: Vec<String> = (0..300).map(|i| format!("{long}{i:03}")).collect();
    for path in &paths {
        client.ask(&create(path, None, None, true)).unwrap();
    }
    let (mut found, mut after, mut replies) = (Vec::new(), None, 0);
    loop {
        let list = Request::List { prefix: "/d".into(), after: after.take(), limit: 1000 };
        let Ok(Reply::Names { entries, more }) = client.ask(&list) else { panic!() };
        found.extend(entries.into_iter().map(|entry| entry.path));
        replies += 1;
        if !more {
            break;
        }
        after = found.last().cloned();
    }
    assert_eq!(found, paths);
    assert_eq!(replies, 2);
}

#[test]
fn other_servers_keep_no_names() {
    let embedded = Embedded::start(2).unwrap();
    let mut client = Client::new(embedded.servers()[1].address());
    for request in [
        Request::Servers,
        Request::Lookup { path: "a".into() },
        Request::Unlock { lock: 1 },
        Request::Dead { after: None, limit: 1 },
    ] {
        assert_eq!(client.refused(&request), FailureCode::NotMetadata, "{request:?}");
    }
    let Ok(Reply::Server { metadata, connections, version, .. }) = client.ask(&Request::Identify)
    else {
        panic!()
    };
    assert_eq!((metadata, connections, &*version), (false, 1, env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_storage_of_a_server_is_noted_once() {
    let embedded = Embedded::start(2).unwrap();
    let addresses: Vec<_> =
        embedded.servers().iter().map(|server| server.address().to_string()).collect();
    let mut client = Client::new(embedded.servers()[0].address());
    let enrol = |server: usize, byte, replace| Request::Enrol {
        address: addresses[server].clone(),
        identity: Identity([byte; 16]),
        replace,
    };
    client.ask(&enrol(1, 7, false)).unwrap();
    client.ask(&enrol(1, 7, false)).unwrap();
    assert_eq!(client.refused(&enrol(1, 8, false)), FailureCode::WrongStorage);
    let identities = vec![None, Some(Identity([7; 16]))];
    let known = Reply::Servers { addresses: addresses.clone(), identities };
    assert_eq!(client.ask(&Request::Servers), Ok(known));
    let made = file(&mut client, &create("a", None, Some(1), true));
    assert_eq!(made.objects[0].storage, Some(Identity([7; 16])));
    assert_eq!(made.objects[1].storage, None);

    client.ask(&enrol(1, 8, true)).unwrap();
    let made = file(&mut client, &Request::Describe { file: made.file });
    assert_eq!(made.objects[0].storage, Some(Identity([8; 16])));
    let address = "elsewhere:1".to_owned();
    let elsewhere = Request::Enrol { address, identity: Identity([7; 16]), replace: false };
    assert_eq!(client.refused(&elsewhere), FailureCode::NotFound);
}

#[test]
fn lengths_of_objects_are_noted_until_the_file_is_made_shorter() {
    let embedded = Embedded::start(2).unwrap();
    let mut client = Client::new(embedded.servers()[0].address());
    let id = file(&mut client, &create("a", None, None, true)).file;
    let mut noted = |request: &Request| {
        client.ask(request).unwrap();
        let found = file(&mut client, &Request::Describe { file: id });
        (found.truncations, [found.objects[0].len, found.objects[1].len])
    };
    let record = |truncations, lens: [u64; 2]| {
        let lens = lens.to_vec();
        Request::Record { file: id, size: 100, truncations, lens }
    };
    assert_eq!(noted(&record(0, [60, 40])), (0, [60, 40]));
    // Of two clients, the one that looked earlier comes later.
    assert_eq!(noted(&record(0, [50, 70])), (0, [60, 70]));
    assert_eq!(noted(&Request::Shorten { file: id, lens: vec![80, 10] }), (1, [60, 10]));
    assert_eq!(noted(&record(0, [100, 100])), (1, [60, 10]));
    assert_eq!(noted(&record(1, [60, 30])), (1, [60, 30]));
    assert_eq!(client.refused(&Request::Describe { file: 999 }), FailureCode::NotFound);
}
