//! The client against servers that misbehave.

pub(super) mod fake;

use std::net::TcpListener;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use striate_wire::{FailureCode, Reply, Request, StartId};

use self::fake::{Answer, Asked, FakeServer};
use super::*;
use crate::error::{Cause, ErrorKind, Operation, StoreError};
use crate::store::LockKind;

fn quick() -> ClientOptions {
    ClientOptions { patience: Duration::from_secs(1), ..ClientOptions::default() }
}

/// Some attempts, and time for them.
fn few() -> ClientOptions {
    ClientOptions { attempts: 4, ..ClientOptions::default() }
}

fn client(of: &FakeServer) -> Client {
    Client::connect(&of.address, few()).unwrap()
}

fn done(_: Asked<'_>) -> Answer {
    Answer::Reply(Reply::Done)
}

fn attempts(error: &StoreError) -> u32 {
    match error.cause() {
        Cause::Server(error) => error.attempts(),
        other => panic!("{other:?}"),
    }
}

fn file(servers: &[&FakeServer]) -> FileInfo {
    FileInfo {
        path: "f".into(),
        file: 5,
        strip: 1024,
        servers: servers.iter().map(|server| server.address.clone()).collect(),
        size: 0,
        created_ms: 0,
        modified_ms: 0,
        truncations: 0,
        objects: Vec::new(),
    }
}

#[test]
fn a_connection_serves_many_requests() {
    let server = FakeServer::start(done);
    let client = client(&server);
    for _ in 0..10 {
        client.ping(&server.address).unwrap();
    }
    assert_eq!(server.connections(), 1);
    let traffic = client.traffic();
    assert_eq!((traffic.sent.requests, traffic.received.replies), (11, 11));
}

#[test]
fn a_closed_connection_is_made_anew() {
    // Every second request goes unanswered.
    let server = FakeServer::start(|asked| {
        if asked.number % 2 == 0 { Answer::Close } else { Answer::Reply(Reply::Done) }
    });
    let client = client(&server);
    client.ping(&server.address).unwrap();
    assert_eq!((server.asked().len(), server.connections()), (2, 2));
}

#[test]
fn the_end_of_an_old_connection_is_no_attempt() {
    // The first connection ends unnoticed; all later ones serve.
    let server = FakeServer::start(|asked| match asked.connection {
        0 => Answer::Close,
        _ => Answer::Reply(Reply::Done),
    });
    let options = ClientOptions { attempts: 1, ..ClientOptions::default() };
    let client = Client::connect(&server.address, options).unwrap();
    client.ping(&server.address).unwrap();
    assert_eq!(server.connections(), 2);
}

/// A server that is away for a second is waited for, however often it is tried.
#[test]
fn the_patience_limits_attempts() {
    let begin = Instant::now();
    let server = FakeServer::start(move |_| {
        if begin.elapsed() < Duration::from_millis(1200) {
            Answer::Close
        } else {
            Answer::Reply(Reply::Done)
        }
    });
    let options = ClientOptions { patience: Duration::from_secs(60), ..ClientOptions::default() };
    let client = Client::connect(&server.address, options).unwrap();
    client.ping(&server.address).unwrap();
    assert!(server.asked().len() > 5, "{} attempts", server.asked().len());

    let server = FakeServer::start(|_| Answer::Close);
    let error = Client::connect(&server.address, quick()).unwrap().ping(&server.address);
    assert!(attempts(&error.unwrap_err()) > 5, "a second is enough for many attempts");
}

#[test]
fn attempts_are_limited_and_counted() {
    let server = FakeServer::start(|_| Answer::Close);
    let client = client(&server);
    let error = client.ping(&server.address).unwrap_err();
    assert_eq!(attempts(&error), 4);
    // One over the connection that was there, four over new ones.
    assert_eq!(server.asked().len(), 5);
    let text = error.to_string();
    assert!(text.contains(&server.address) && text.contains("tried 4 times"), "{text}");
}

#[test]
fn what_must_not_be_done_twice_is_sent_once() {
    let server = FakeServer::start(|_| Answer::Close);
    let client = client(&server);
    let exclusive = client.create("f", &Layout::default(), true).unwrap_err();
    let renamed = client.rename("f", "g", false).unwrap_err();
    let removed = client.remove("f").unwrap_err();
    let locked =
        client.lock(&file(&[&server]), 0..1, LockKind::Shared, Duration::ZERO).unwrap_err();
    assert_eq!(server.asked().len(), 4);
    let errors = [&exclusive, &renamed, &removed, &locked];
    assert_eq!(errors.map(attempts), [1; 4]);
    let operations = [Operation::Open, Operation::Rename, Operation::Remove, Operation::Lock];
    assert_eq!(errors.map(StoreError::operation), operations);

    client.create("f", &Layout::default(), false).unwrap_err();
    assert_eq!(server.asked().len(), 4 + 4);
}

#[test]
fn a_server_that_is_not_there_is_named() {
    // No process listens at port 1.
    let address = "127.0.0.1:1";
    let error = Client::connect(address, few()).unwrap_err();
    assert_eq!((error.kind(), attempts(&error)), (ErrorKind::Io, 4));
    let text = error.to_string();
    assert!(text.contains(&format!("server {address}: ")) && text.contains("refused"), "{text}");
}

#[test]
fn a_server_that_comes_back_is_found() {
    let server = FakeServer::start_as(true, 2, done);
    client(&server);
    assert_eq!(server.connections(), 3);
}

#[test]
fn an_old_connection_that_ended_is_noticed_before_it_is_used() {
    let server = FakeServer::start(|_| Answer::Last(Reply::Done));
    let client = client(&server);
    client.ping(&server.address).unwrap();
    sleep(Duration::from_millis(100));
    // Sent over the old one, it could not be sent again.
    client.rename("f", "g", false).unwrap();
    assert_eq!(server.connections(), 2);
}

#[test]
fn a_server_without_the_key_is_refused() {
    let server = FakeServer::start(done);
    let key = striate_wire::Key::from_bytes(&[1; 16]).ok();
    let options = ClientOptions { key, ..ClientOptions::default() };
    let error = Client::connect(&server.address, options).unwrap_err();
    assert_eq!((error.kind(), attempts(&error)), (ErrorKind::Denied, 1));
    assert!(error.to_string().contains("the server has none"), "{error}");
}

#[test]
fn a_process_has_one_client_of_a_server() {
    let server = FakeServer::start(done);
    let url = |scheme| format!("{scheme}://{}/f", server.address).parse::<RemoteUrl>().unwrap();
    let client = Client::shared(&url("striate")).unwrap();
    Client::shared(&url("striate")).unwrap().ping(&server.address).unwrap();
    assert_eq!((server.connections(), client.traffic().sent.requests), (1, 2));
    assert_eq!(client.url("/f"), url("striate"));

    let error = Client::shared(&url("striate+tls")).unwrap_err();
    assert!(error.to_string().contains("STRIATE_CA_FILE"), "{error}");
}

#[test]
fn a_silent_server_is_waited_for_with_patience() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let error = Client::connect(&address, quick()).unwrap_err();
    assert_eq!((error.kind(), attempts(&error)), (ErrorKind::TimedOut, 1));
    assert!(error.to_string().contains("no answer for"), "{error}");

    let server = FakeServer::start(|_| Answer::Silence);
    let client = Client::connect(&server.address, quick()).unwrap();
    let error = client.ping(&server.address).unwrap_err();
    assert_eq!((error.kind(), attempts(&error)), (ErrorKind::TimedOut, 1));
    // The answer may still come, and must not be taken for that of another request.
    client.ping(&server.address).unwrap_err();
    assert_eq!(server.connections(), 2);
}

#[test]
fn silent_servers_are_waited_for_together() {
    let servers = [(); 8].map(|()| FakeServer::start(|_| Answer::Silence));
    let client = Client::connect(&servers[0].address, quick()).unwrap();
    let error = client.size(&file(&servers.each_ref())).unwrap_err();
    // All were asked before the first was given up.
    assert!(servers.iter().all(|server| server.asked().len() == 1));
    assert!(error.to_string().contains(&servers[0].address), "{error}");
}

#[test]
fn a_busy_server_is_asked_again() {
    let server = FakeServer::start(|asked| match asked.number {
        0 => Answer::Failure(FailureCode::Busy),
        1 => Answer::Failure(FailureCode::Draining),
        _ => Answer::Reply(Reply::Done),
    });
    let client = client(&server);
    // It was refused: so even what must not be done twice can be asked for again.
    client.rename("f", "g", false).unwrap();
    assert_eq!(server.asked().len(), 3);
}

#[test]
fn other_failures_are_final() {
    for (code, kind) in [
        (FailureCode::NotFound, ErrorKind::NotFound),
        (FailureCode::NoSpace, ErrorKind::OutOfSpace),
        (FailureCode::ReadOnly, ErrorKind::Denied),
        (FailureCode::BadName, ErrorKind::Malformed),
        (FailureCode::Io, ErrorKind::Io),
    ] {
        let server = FakeServer::start(move |_| Answer::Failure(code));
        let client = client(&server);
        let error = client.lookup("f").unwrap_err();
        assert_eq!((error.kind(), attempts(&error)), (kind, 1));
        let url = format!("striate://{}/f", server.address);
        let text = format!("cannot open {url}: server {}: as the test wants", server.address);
        assert_eq!(error.to_string(), text);
        // The connection is as good as before.
        client.lookup("f").unwrap_err();
        assert_eq!((server.asked().len(), server.connections()), (2, 1));
    }
}

#[test]
fn a_wrong_reply_is_an_error() {
    let server =
        FakeServer::start(|_| Answer::Reply(Reply::Written { bytes: 1, start: StartId(1) }));
    let client = client(&server);
    let text = client.ping(&server.address).unwrap_err().to_string();
    assert!(text.contains("replied 'Written' where a sign of life is due"), "{text}");
    let text = client.size(&file(&[&server])).unwrap_err().to_string();
    assert!(text.contains("the length of an object is due"), "{text}");
    assert_eq!(server.asked().len(), 2);
}

#[test]
fn a_request_beyond_the_limits_is_not_sent() {
    let server = FakeServer::start(done);
    let client = client(&server);
    let error = client.lookup(&"x".repeat(5000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    client.ping(&server.address).unwrap();
    assert_eq!((server.asked().len(), server.connections()), (1, 1));
}

#[test]
fn only_a_metadata_server_is_a_file_system() {
    let server = FakeServer::start_as(false, 0, done);
    let error = Client::connect(&server.address, quick()).unwrap_err();
    assert!(error.to_string().contains("connect to the metadata server"), "{error}");
    let error = Client::connect("not a host", quick()).unwrap_err();
    assert!(error.to_string().contains("' '"), "{error}");
}

#[test]
fn the_size_is_that_of_the_objects() {
    let with_len =
        |len| FakeServer::start(move |_| Answer::Reply(Reply::Len { len, exists: true }));
    let servers = [with_len(1024), with_len(1030), with_len(0)];
    let client = client(&servers[0]);
    assert_eq!(client.size(&file(&servers.each_ref())).unwrap(), 3 * 1024 + 1024 + 6);
}

#[test]
fn many_servers_are_asked_before_the_first_answers() {
    static ASKED: AtomicUsize = AtomicUsize::new(0);
    let servers = [(); 4].map(|()| {
        FakeServer::start(|_| {
            ASKED.fetch_add(1, Ordering::SeqCst);
            while ASKED.load(Ordering::SeqCst) < 4 {
                sleep(Duration::from_millis(1));
            }
            Answer::Reply(Reply::Len { len: 0, exists: false })
        })
    });
    let client = client(&servers[0]);
    assert_eq!(client.size(&file(&servers.each_ref())).unwrap(), 0);
}

#[test]
fn a_file_is_made_on_all_its_servers_and_removed_from_them() {
    let io = FakeServer::start(done);
    let gone = FakeServer::start(|_| Answer::Failure(FailureCode::Io));
    let on_both = file(&[&io, &gone]);
    let on_one = file(&[&io]);
    let names = Mutex::new(vec![on_both.clone(), on_one.clone(), on_one.clone()]);
    let metadata = FakeServer::start(move |asked| match asked.request {
        Request::Bury { .. } => Answer::Reply(Reply::Done),
        _ => Answer::Reply(Reply::File(names.lock().unwrap().pop().unwrap())),
    });
    let client = client(&metadata);
    assert_eq!(client.create("f", &Layout::default(), true).unwrap(), on_one);
    client.remove("f").unwrap();
    let object = 5;
    assert_eq!(io.asked(), [Request::Touch { object }, Request::RemoveObject { object }]);
    assert_eq!(metadata.asked().last(), Some(&Request::Bury { file: object }));

    // While a server does not remove its object, the file is not buried.
    let buried = metadata.asked().len();
    let error = client.remove("f").unwrap_err();
    assert!(error.to_string().contains(&gone.address), "{error}");
    assert_eq!(metadata.asked().len(), buried + 1);
}

#[test]
fn interrupted_removals_are_finished() {
    let io = FakeServer::start(done);
    let addresses = vec![io.address.clone()];
    let metadata = FakeServer::start(move |asked| {
        Answer::Reply(match asked.request {
            Request::Servers => {
                Reply::Servers { addresses: addresses.clone(), identities: Vec::new() }
            }
            Request::Dead { after: None, .. } => Reply::Ids { ids: vec![3, 4], more: true },
            Request::Dead { after: Some(4), .. } => Reply::Ids { ids: vec![9], more: false },
            Request::Bury { .. } => Reply::Done,
            other => panic!("{other:?}"),
        })
    });
    assert_eq!(client(&metadata).bury_dead().unwrap(), 3);
    assert_eq!(io.asked(), [3, 4, 9].map(|object| Request::RemoveObject { object }));
}

#[test]
fn listings_come_page_by_page() {
    let named =
        |path: &str| FileInfo { path: path.into(), servers: vec!["s:1".into()], ..file(&[]) };
    let (a, b) = (named("a"), named("b"));
    let all = [a.clone(), b.clone()];
    let server = FakeServer::start(move |asked| {
        let Request::List { after, .. } = asked.request else { panic!() };
        Answer::Reply(match after.as_deref() {
            None => Reply::Names { entries: vec![a.clone()], more: true },
            Some("a") => Reply::Names { entries: vec![b.clone()], more: false },
            _ => panic!(),
        })
    });
    assert_eq!(client(&server).list("").unwrap(), all);
}

fn locking(lease_ms: u32, lost: bool) -> FakeServer {
    FakeServer::start(move |asked| match asked.request {
        Request::Lock { .. } => Answer::Reply(Reply::Locked { lock: 77, lease_ms }),
        Request::Renew { .. } if lost => Answer::Failure(FailureCode::LockLost),
        _ => Answer::Reply(Reply::Done),
    })
}

fn wait_until(what: impl Fn() -> bool) {
    let begin = Instant::now();
    while !what() {
        assert!(begin.elapsed() < Duration::from_secs(60));
        sleep(Duration::from_millis(5));
    }
}

fn lock(client: &Client, of: &FakeServer) -> RemoteLock {
    client.lock(&file(&[of]), 10..20, LockKind::Exclusive, Duration::from_secs(1)).unwrap()
}

#[test]
fn a_lock_is_renewed_and_released() {
    let server = locking(150, false);
    let client = client(&server);
    let renew = Request::Renew { lock: 77, lease_ms: 150 };
    let renewals = || server.asked().iter().filter(|&asked| *asked == renew).count();
    for round in 1..=2 {
        let held = lock(&client, &server);
        wait_until(|| renewals() >= 3 * round);
        assert!(!held.is_lost());
        // As a store hands it out.
        let held: Box<dyn crate::Lock> = Box::new(held);
        drop(held);
        assert_eq!(server.asked().last(), Some(&Request::Unlock { lock: 77 }));
    }
    let asked = server.asked().len();
    sleep(Duration::from_millis(200));
    assert_eq!(server.asked().len(), asked, "nothing is renewed after its release");
    assert_eq!(server.connections(), 1, "a released lock's connection is used on");
}

#[test]
fn each_lock_has_its_own_connection() {
    let server = locking(30_000, false);
    let client = client(&server);
    let held = [(); 3].map(|()| lock(&client, &server));
    assert_eq!(server.connections(), 3);
    drop(held);
    let _again = lock(&client, &server);
    assert_eq!(server.connections(), 3);
}

#[test]
fn a_lost_lock_says_so() {
    let server = locking(150, true);
    let client = client(&server);
    let held = lock(&client, &server);
    wait_until(|| held.is_lost());
    let asked = server.asked().len();
    drop(held);
    assert_eq!(server.asked().len(), asked, "there is nothing to release");
}

#[test]
fn a_lock_that_others_hold_is_waited_for() {
    let server = FakeServer::start(|_| Answer::Failure(FailureCode::LockTimeout));
    let client = client(&server);
    let wait = Duration::from_secs(2);
    let error = client.lock(&file(&[&server]), 10..20, LockKind::Shared, wait).unwrap_err();
    assert_eq!((error.kind(), error.range()), (ErrorKind::TimedOut, Some(10..20)));
    assert!(error.to_string().contains("it stayed locked for 2 s"), "{error}");
    let asked = server.asked();
    let [Request::Lock { wait_ms: 2000, exclusive: false, .. }] = asked[..] else {
        panic!("{asked:?}")
    };
}

#[test]
fn an_empty_range_needs_no_lock() {
    let server = FakeServer::start(|_| Answer::Close);
    let client = client(&server);
    let wait = Duration::ZERO;
    client.lock(&file(&[&server]), 7..7, LockKind::Shared, wait).unwrap();
    let (start, end) = (8, 7);
    let error = client.lock(&file(&[&server]), start..end, LockKind::Shared, wait).unwrap_err();
    assert!(error.is_malformed());
    assert!(server.asked().is_empty());
}
