//! Objects on a server that fails on purpose: what is retried, what is an error and which, and how
//! many requests are made.
#![allow(clippy::unwrap_used, reason = "tests")]
#![cfg(feature = "s3")]

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use striate_store::s3::{BLOCK, S3Bucket, S3Object, S3Upload, UploadParts};
use striate_store::{Cause, ErrorKind, LockKind, Region, Store, StoreError};

/// What happens to the next requests.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mishap {
    /// An answer with this status, so many times.
    Status(u16, u32),
    /// Half of the body, then the end of the connection; so many times.
    Truncate(u32),
    /// No answer.
    Silence,
}

/// A server with one object.
#[derive(Debug)]
struct FailingS3 {
    address: String,
    state: Arc<Mutex<FailingState>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct FailingState {
    content: Vec<u8>,
    version: u32,
    mishap: Option<Mishap>,
    /// Ranges that were asked for.
    ranges: Vec<Range<u64>>,
    /// Other requests: method and target.
    others: Vec<String>,
}

struct HttpRequestHead {
    method: String,
    target: String,
    headers: Vec<(String, String)>,
}

impl HttpRequestHead {
    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| &**value)
    }

    fn read(reader: &mut impl BufRead) -> Option<Self> {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (method, target) = (words.next()?, words.next()?);
        let mut headers = Vec::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
        let request = Self { method, target, headers };
        let len = request.header("content-length").and_then(|len| len.parse().ok()).unwrap_or(0);
        std::io::copy(&mut reader.take(len), &mut std::io::sink()).ok()?;
        Some(request)
    }
}

impl FailingS3 {
    fn new(content: Vec<u8>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let state = FailingState {
            content,
            version: 1,
            mishap: None,
            ranges: Vec::new(),
            others: Vec::new(),
        };
        let (state, stop) = (Arc::new(Mutex::new(state)), Arc::new(AtomicBool::new(false)));
        let (shared, stopped) = (Arc::clone(&state), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::SeqCst) {
                    break;
                }
                let state = Arc::clone(&shared);
                std::thread::spawn(move || serve(&stream, &state));
            }
        });
        Self { address, state, stop, thread: Some(thread) }
    }

    fn bucket(&self, patience: Duration) -> Arc<S3Bucket> {
        bucket_at(&self.address, patience)
    }

    fn open(&self) -> S3Object {
        S3Object::open_in(&self.bucket(Duration::from_secs(20)), "key").unwrap()
    }

    fn next(&self, mishap: Mishap) {
        self.state.lock().unwrap().mishap = Some(mishap);
    }

    /// The ranges that were asked for since the last call.
    fn ranges(&self) -> Vec<Range<u64>> {
        let mut ranges = std::mem::take(&mut self.state.lock().unwrap().ranges);
        ranges.sort_by_key(|range| range.start);
        ranges
    }
}

impl Drop for FailingS3 {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address.trim_start_matches("http://"));
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

fn bucket_at(address: &str, patience: Duration) -> Arc<S3Bucket> {
    let variables = [
        ("AWS_ENDPOINT_URL", address),
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "here"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    Arc::new(S3Bucket::new("bucket", &variables, patience).unwrap())
}

/// Answers the requests of a connection.
fn serve(stream: &TcpStream, state: &Mutex<FailingState>) {
    let mut reader = BufReader::new(stream);
    while let Some(request) = HttpRequestHead::read(&mut reader) {
        let mut state = state.lock().unwrap();
        let mishap = match state.mishap.take() {
            Some(Mishap::Status(code, left)) => {
                state.mishap = (left > 1).then_some(Mishap::Status(code, left - 1));
                Some(Mishap::Status(code, 1))
            }
            Some(Mishap::Truncate(left)) => {
                state.mishap = (left > 1).then_some(Mishap::Truncate(left - 1));
                Some(Mishap::Truncate(1))
            }
            Some(Mishap::Silence) => {
                state.mishap = Some(Mishap::Silence);
                Some(Mishap::Silence)
            }
            None => None,
        };
        let range = request.header("range").and_then(|text| {
            let (first, last) = text.strip_prefix("bytes=")?.split_once('-')?;
            Some(first.parse().ok()?..last.parse::<u64>().ok()? + 1)
        });
        match &range {
            Some(range) => state.ranges.push(range.clone()),
            None => state.others.push(format!("{} {}", request.method, request.target)),
        }
        let etag = format!("\"v{}\"", state.version);
        let stale = request.header("if-match").is_some_and(|wanted| wanted != etag);
        let whole = state.content.len() as u64;
        let (status, body) = match (&mishap, &*request.method, range.clone()) {
            (Some(Mishap::Status(code, _)), ..) => (*code, b"<Error><Code>Odd</Code></Error>".to_vec()),
            _ if stale => (412, Vec::new()),
            (_, "GET", Some(range)) => {
                (206, state.content[range.start as usize..range.end.min(whole) as usize].to_vec())
            }
            (_, "POST", _) => (
                200,
                b"<InitiateMultipartUploadResult><UploadId>up</UploadId></InitiateMultipartUploadResult>"
                    .to_vec(),
            ),
            _ => (200, Vec::new()),
        };
        drop(state);
        let len = if request.method == "HEAD" { whole } else { body.len() as u64 };
        let mut head = format!(
            "HTTP/1.1 {status} X\r\nContent-Length: {len}\r\nETag: {etag}\r\n\
             Last-Modified: Thu, 19 Nov 2026 20:00:00 GMT\r\n"
        );
        if let Some(range) = range {
            let last = range.end.min(whole) - 1;
            let _ = write!(head, "Content-Range: bytes {}-{last}/{whole}\r\n", range.start);
        }
        head += "\r\n";
        let mut stream = stream;
        match mishap {
            Some(Mishap::Silence) => {
                std::thread::sleep(Duration::from_secs(60));
                return;
            }
            Some(Mishap::Truncate(_)) => {
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&body[..body.len() / 2]);
                let _ = stream.shutdown(std::net::Shutdown::Both);
                return;
            }
            _ => {
                let sent = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
                if sent.is_err() {
                    return;
                }
            }
        }
    }
}

fn content(len: u64) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 65_536) as u8).collect()
}

fn text(error: &StoreError) -> String {
    assert!(matches!(error.cause(), Cause::Objects(_)), "{error:?}");
    error.to_string()
}

#[test]
fn small_reads_fetch_a_block_once() {
    let all = content(3 * BLOCK + 1000);
    let server = FailingS3::new(all.clone());
    let object = server.open();
    assert_eq!(object.len().unwrap(), all.len() as u64);
    let mut buffer = [0; 100];
    for offset in (0..2000).step_by(100) {
        assert_eq!(object.read_at(offset, &mut buffer).unwrap(), 100);
        assert_eq!(buffer, all[offset as usize..][..100]);
    }
    assert_eq!(server.ranges(), vec![0..BLOCK; 1]);
    // The end of the object, also from beyond it.
    assert_eq!(object.read_at(3 * BLOCK + 950, &mut buffer).unwrap(), 50);
    assert_eq!(buffer[..50], all[all.len() - 50..]);
    assert_eq!(object.read_at(all.len() as u64, &mut buffer).unwrap(), 0);
    assert_eq!(object.read_at(1 << 60, &mut buffer).unwrap(), 0);
    assert_eq!(server.ranges(), vec![3 * BLOCK..all.len() as u64; 1]);
    assert!(object.read_at(u64::MAX, &mut buffer).unwrap_err().is_malformed());
}

#[test]
fn regions_share_requests() {
    let all = content(200 * BLOCK);
    let server = FailingS3::new(all.clone());
    let object = server.open();
    // 1000 regions in 10 blocks, and one far away.
    let mut regions: Vec<Region> = (0..1000)
        .map(|i| Region { memory: i * 8, offset: i as u64 * BLOCK / 100, len: 8 })
        .collect();
    regions.push(Region { memory: 8000, offset: 100 * BLOCK - 4, len: 8 });
    let mut memory = vec![0; 8008];
    assert_eq!(object.read_list(&regions, &mut memory).unwrap(), 8008);
    for region in &regions {
        let expected = &all[region.offset as usize..][..8];
        assert_eq!(&memory[region.memory..][..8], expected, "{region:?}");
    }
    assert_eq!(server.ranges(), [0..10 * BLOCK, 99 * BLOCK..101 * BLOCK]);
    assert_eq!(object.read_list(&regions, &mut memory).unwrap(), 8008);
    assert_eq!(server.ranges(), [], "they are cached");
    // A large read is divided, and replaces nothing in the cache.
    let mut large = vec![0; 60 * BLOCK as usize];
    assert_eq!(object.read_at(101 * BLOCK, &mut large).unwrap(), large.len());
    assert!(large == all[101 * BLOCK as usize..][..large.len()]);
    assert_eq!(server.ranges().len(), 4);
    assert_eq!(object.requests(), 6);
    assert_eq!(object.read_list(&regions, &mut memory).unwrap(), 8008);
    assert_eq!(server.ranges(), []);
}

#[test]
fn passing_failures_are_retried() {
    let all = content(BLOCK);
    let server = FailingS3::new(all.clone());
    let object = server.open();
    server.next(Mishap::Status(503, 3));
    let mut buffer = vec![0; all.len()];
    assert_eq!(object.read_at(0, &mut buffer).unwrap(), all.len());
    assert!(buffer == all);
    assert_eq!(server.ranges().len(), 4);
    let object = server.open();
    server.next(Mishap::Truncate(1));
    assert_eq!(object.read_at(0, &mut buffer).unwrap(), all.len());
    assert!(buffer == all, "the rest of a truncated answer is asked for");
}

#[test]
fn lasting_failures_are_errors_within_the_limit() {
    let server = FailingS3::new(content(BLOCK));
    let bucket = server.bucket(Duration::from_millis(800));
    let open = || S3Object::open_in(&bucket, "key");
    let mut buffer = [0; 10];
    let begun = Instant::now();
    for (mishap, expected, kind) in [
        (Mishap::Status(500, 10_000), "Odd", ErrorKind::Io),
        (Mishap::Truncate(10_000), "", ErrorKind::Io),
        (Mishap::Silence, "no answer within", ErrorKind::TimedOut),
    ] {
        server.state.lock().unwrap().mishap = None;
        let object = open().unwrap();
        server.next(mishap);
        let error = object.read_at(0, &mut buffer).unwrap_err();
        assert!(text(&error).contains(expected), "{error}");
        assert!(text(&error).contains("s3://bucket/key"), "{error}");
        assert_eq!(error.kind(), kind, "{mishap:?}: {error}");
    }
    // A wait without an end would be minutes.
    assert!(begun.elapsed() < Duration::from_secs(50));
}

#[test]
fn refusals_say_what_is_wrong() {
    let server = FailingS3::new(content(10));
    let bucket = server.bucket(Duration::from_secs(5));
    server.next(Mishap::Status(403, 1));
    let error = S3Object::open_in(&bucket, "key").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    // Only the object is missing: the bucket can be listed.
    server.next(Mishap::Status(404, 1));
    let error = S3Object::open_in(&bucket, "key").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    server.next(Mishap::Status(404, 2));
    let error = S3Object::open_in(&bucket, "key").unwrap_err();
    assert!(text(&error).contains("no bucket 'bucket'"), "{error}");
    let address = server.address.clone();
    drop(server);
    let gone = bucket_at(&address, Duration::from_millis(500));
    let error = text(&S3Object::open_in(&gone, "key").unwrap_err());
    assert!(error.contains("cannot be reached") && error.contains(&address), "{error}");
}

#[test]
fn an_object_that_is_replaced_is_an_error() {
    let server = FailingS3::new(content(4 * BLOCK));
    let object = server.open();
    assert_eq!(object.version(), Some("\"v1\""));
    let mut buffer = [0; 10];
    object.read_at(0, &mut buffer).unwrap();
    server.state.lock().unwrap().version = 2;
    object.read_at(5, &mut buffer).unwrap();
    let error = object.read_at(BLOCK, &mut buffer).unwrap_err();
    assert!(text(&error).contains("replaced or removed"), "{error}");
    assert_eq!(error.range(), Some(BLOCK..BLOCK + 10));
}

#[test]
fn objects_are_not_written_in_place() {
    let server = FailingS3::new(content(10));
    let object = server.open();
    let errors = [
        object.write_at(0, b"a").unwrap_err(),
        object.set_len(3).unwrap_err(),
        object.preallocate(30).unwrap_err(),
        object.lock(0..1, LockKind::Exclusive).map(drop).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(text(&error).contains("published as a whole"), "{error}");
    }
    assert!(object.lock(0..1, LockKind::Shared).is_ok());
    object.sync().unwrap();
}

#[test]
fn an_upload_that_fails_is_aborted() {
    let server = FailingS3::new(Vec::new());
    let bucket = server.bucket(Duration::from_millis(800));
    let parts = UploadParts::new(12 << 20, 5 << 20);
    let upload = S3Upload::begin_in(&bucket, "key", parts).unwrap();
    assert_eq!(upload.id(), "up");
    assert!(text(&upload.put(0, &[0; 5]).unwrap_err()).contains("5 bytes instead of 5242880"));
    assert!(upload.put(3, &[]).is_err(), "there is no such part");
    assert!(text(&upload.complete().unwrap_err()).contains("3 of 3 parts"));
    server.next(Mishap::Status(500, 10_000));
    assert!(upload.put(2, &vec![0; 2 << 20]).is_err());
    server.state.lock().unwrap().mishap = None;
    drop(upload);
    let others = server.state.lock().unwrap().others.clone();
    assert!(
        others.last().is_some_and(|last| last.starts_with("DELETE") && last.contains("up")),
        "{others:?}"
    );
}
