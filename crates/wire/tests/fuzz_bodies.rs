//! The fuzz targets of the protocol without a fuzzer: the same assertions on a fixed sequence of
//! inputs.
//!
//! Inputs are the committed seeds with a few things changed. Inputs that once failed are kept among
//! the seeds. Coverage-guided runs of the same bodies are described in CONTRIBUTING.md.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod samples;
#[path = "../../../fuzz/wire_bodies.rs"]
mod wire_bodies;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use striate_wire::{Connection, FrameKind, Header, WireError};

const MUTANTS: usize = 10_000;

#[test]
fn no_header_upsets_decoding() {
    drive("frame", wire_bodies::frame, 0x5EED_0011);
}

#[test]
fn no_request_upsets_decoding() {
    drive("request", wire_bodies::request, 0x5EED_0012);
}

#[test]
fn no_reply_upsets_decoding() {
    drive("reply", wire_bodies::reply, 0x5EED_0013);
}

#[test]
fn no_bytes_upset_a_handshake() {
    drive("handshake", wire_bodies::handshake, 0x5EED_0014);
}

#[test]
fn no_bytes_upset_a_connection() {
    drive("stream", wire_bodies::stream, 0x5EED_0015);
}

/// The seeds are also a witness that the wire format does not change.
#[test]
fn the_seeds_are_as_committed() {
    for (target, made) in made_seeds() {
        let committed = seeds(target);
        for (name, bytes) in made {
            assert_eq!(committed.get(&name), Some(&bytes), "{target}/{name}");
        }
    }
}

/// After messages were added: `cargo test -p striate-wire --test fuzz_bodies -- --ignored`.
#[test]
#[ignore = "writes files: the seeds"]
fn write_the_seeds() {
    for (target, made) in made_seeds() {
        fs::create_dir_all(directory(target)).unwrap();
        for (name, bytes) in made {
            fs::write(directory(target).join(name), bytes).unwrap();
        }
    }
}

/// Runs a body on its seeds and on what a few changes make of them.
fn drive(target: &str, body: fn(&[u8]), seed: u64) {
    let seeds: Vec<Vec<u8>> = seeds(target).into_values().collect();
    for seed in &seeds {
        run(body, seed);
    }
    let mut random = Random(seed);
    for _ in 0..MUTANTS {
        run(body, &random.mutant(&seeds));
    }
}

/// Runs a body; a failure shows the input.
fn run(body: fn(&[u8]), bytes: &[u8]) {
    struct Shown<'a>(&'a [u8]);
    impl Drop for Shown<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("input: b\"{}\"", self.0.escape_ascii());
            }
        }
    }
    let shown = Shown(bytes);
    body(shown.0);
}

fn directory(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target)
}

/// The committed inputs of a target, in an order that does not depend on the file system.
fn seeds(target: &str) -> BTreeMap<String, Vec<u8>> {
    let seeds: BTreeMap<_, _> = fs::read_dir(directory(target))
        .expect("the seeds are committed")
        .map(|entry| {
            let path = entry.expect("the directory can be listed").path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            (name.unwrap_or_default(), fs::read(path).expect("a seed can be read"))
        })
        .collect();
    assert!(!seeds.is_empty(), "no seeds for {target}");
    seeds
}

/// Seeds by target and name.
type Seeds = BTreeMap<&'static str, BTreeMap<String, Vec<u8>>>;

fn add(seeds: &mut Seeds, target: &'static str, name: &str, bytes: Vec<u8>) {
    seeds.entry(target).or_default().insert(name.to_owned(), bytes);
}

/// The seeds that follow from the samples of the messages.
fn made_seeds() -> Seeds {
    let mut made = Seeds::new();
    for (name, request) in samples::requests() {
        add(&mut made, "request", name, request.encode().unwrap());
    }
    for (name, reply) in samples::replies() {
        add(&mut made, "reply", name, reply.encode().unwrap());
    }
    add(&mut made, "reply", "failure", samples::failure().encode().unwrap());

    let client = [
        (FrameKind::Hello, [&[1, 1], &[5; 32][..]].concat()),
        (FrameKind::Proof, vec![0]),
        (FrameKind::Proof, [&[1], &[6; 32][..]].concat()),
    ];
    let server = [
        (FrameKind::Challenge, [&[1], &[5; 32][..], &[0]].concat()),
        (FrameKind::Challenge, [&[1], &[5; 32][..], &[1], &[6; 32]].concat()),
        (FrameKind::Welcome, vec![7; 16]),
        (FrameKind::Failure, samples::failure().encode().unwrap()),
    ];
    let sides = [
        ("client", vec![&client[0], &client[1]]),
        ("client_with_key", vec![&client[0], &client[2]]),
        ("client_breaks_off", vec![&client[0], &server[3]]),
        ("server", vec![&server[0], &server[2]]),
        ("server_with_key", vec![&server[1], &server[2]]),
        ("server_breaks_off", vec![&server[1], &server[3]]),
    ];
    for (name, frames) in sides {
        let sound = frames.iter().flat_map(|(kind, payload)| frame(*kind, payload)).collect();
        add(&mut made, "handshake", name, sound);
        let contents = frames.iter().flat_map(|(kind, payload)| content(*kind, payload)).collect();
        add(&mut made, "handshake", &format!("{name}_contents"), contents);
    }
    for (kind, payload) in client.iter().chain(&server) {
        add(&mut made, "frame", &kind.to_string(), frame(*kind, payload));
    }

    let payload = |target: &str, name: &str| made[target][name].clone();
    let frames = [
        (FrameKind::Request, payload("request", "read_typed")),
        (FrameKind::Reply, payload("reply", "reading")),
        (FrameKind::Data, b"some bytes of a file".to_vec()),
        (FrameKind::Data, Vec::new()),
        (FrameKind::Failure, samples::failure().encode().unwrap()),
    ];
    for (kind, payload) in &frames {
        add(&mut made, "frame", &kind.to_string(), frame(*kind, payload));
    }
    let all = frames.iter().flat_map(|(kind, payload)| frame(*kind, payload)).collect();
    add(&mut made, "stream", "frames", all);
    let contents = frames.iter().flat_map(|(kind, payload)| content(*kind, payload)).collect();
    add(&mut made, "stream", "contents", contents);
    add(&mut made, "stream", "requests", requests().unwrap());
    made
}

/// A frame as it travels.
fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    let payload_crc = striate_wire::checksum(payload);
    let header = Header { kind, id: 3, len: payload.len() as u32, payload_crc };
    [&header.encode(), payload].concat()
}

/// A frame as the bodies make one of contents that have no checksum.
fn content(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
    // Data is the kind of code 8, and there are 8 of them.
    [&[kind as u8 % 8][..], &(payload.len() as u16).to_le_bytes(), payload].concat()
}

/// All requests, one after the other.
fn requests() -> Result<Vec<u8>, WireError> {
    let mut connection = Connection::new(Vec::new());
    for (id, (_, request)) in samples::requests().iter().enumerate() {
        connection.queue_request(id as u64, request)?;
    }
    connection.flush()?;
    Ok(connection.stream().clone())
}

/// Marsaglia's xorshift: the same sequence everywhere and always.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }

    fn of<'a>(&mut self, items: &'a [Vec<u8>]) -> &'a [u8] {
        &items[self.below(items.len())]
    }

    /// A byte that is often where a number or a length ends.
    fn byte(&mut self) -> u8 {
        let telling = [0, 1, 0x7F, 0x80, 0xFF];
        *telling.get(self.below(10)).unwrap_or(&((self.next() >> 24) as u8))
    }

    /// One of the seeds with up to four changes.
    fn mutant(&mut self, seeds: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.of(seeds).to_vec();
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len() + 1);
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 if at < bytes.len() => bytes[at] = self.byte(),
                2 => bytes.truncate(at),
                3 => bytes.insert(at, self.byte()),
                // The longest number there is.
                4 => {
                    bytes.splice(at..at, [[0xFF; 9].as_slice(), &[1]].concat());
                }
                5 => {
                    let end = (at + self.below(12)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    let other = self.of(seeds);
                    let from = self.below(other.len() + 1);
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from..]);
                }
            }
        }
        bytes
    }
}
