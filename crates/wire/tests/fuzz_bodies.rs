//! The fuzz targets of the protocol without a fuzzer: the same assertions on a fixed sequence of
//! inputs.
//!
//! Inputs are the committed seeds and mutants of them. Inputs that once failed are kept among the
//! seeds. Coverage-guided runs of the same bodies are described in CONTRIBUTING.md.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../fuzz/bodies/wire.rs"]
mod bodies;
mod samples;

use std::collections::BTreeMap;

use striate_fuzzing::{Mutations, Seeds, assert_committed, write_seeds};
use striate_wire::{Connection, FrameKind, Header, WireError};

const MUTANTS: usize = 10_000;

#[test]
fn no_header_upsets_decoding() {
    drive("frame", bodies::frame, 0x5EED_0011);
}

#[test]
fn no_request_upsets_decoding() {
    drive("request", bodies::request, 0x5EED_0012);
}

#[test]
fn no_reply_upsets_decoding() {
    drive("reply", bodies::reply, 0x5EED_0013);
}

#[test]
fn no_bytes_upset_a_handshake() {
    drive("handshake", bodies::handshake, 0x5EED_0014);
}

#[test]
fn no_bytes_upset_a_connection() {
    drive("stream", bodies::stream, 0x5EED_0015);
}

/// The seeds are also a witness that the wire format does not change.
#[test]
fn the_seeds_are_as_committed() {
    for (target, made) in made_seeds() {
        assert_committed(target, &made);
    }
}

/// After messages were added: `cargo test -p striate-wire --test fuzz_bodies -- --ignored`.
#[test]
#[ignore = "writes files: the seeds"]
fn write_the_seeds() {
    for (target, made) in made_seeds() {
        write_seeds(target, &made);
    }
}

/// Runs a body on its seeds and on mutants of them; the longest number there is is worth inserting.
fn drive(target: &str, body: fn(&[u8]), seed: u64) {
    let words = [[[0xFF; 9].as_slice(), &[1]].concat()];
    let mutations = Mutations { words: &words, ..Mutations::default() };
    striate_fuzzing::drive(target, seed, MUTANTS, &mutations, body);
}

/// Seeds by target and name.
type TargetSeeds = BTreeMap<&'static str, Seeds>;

fn add(seeds: &mut TargetSeeds, target: &'static str, name: &str, bytes: Vec<u8>) {
    seeds.entry(target).or_default().insert(name.to_owned(), bytes);
}

/// The seeds that follow from the samples of the messages.
fn made_seeds() -> TargetSeeds {
    let mut made = TargetSeeds::new();
    for (name, request) in samples::requests() {
        add(&mut made, "request", name, request.encode().unwrap());
    }
    for (name, reply) in samples::replies() {
        add(&mut made, "reply", name, reply.encode().unwrap());
    }
    add(&mut made, "reply", "failure", samples::failure().encode().unwrap());

    // Client, number, and two connections that are superseded.
    let session = [&[8; 16][..], &[3], &[2, 1, 2]].concat();
    let client = [
        (FrameKind::Hello, [&[2, 2], &[5; 32][..]].concat()),
        (FrameKind::Proof, [&[0], &session[..]].concat()),
        (FrameKind::Proof, [&[1], &[6; 32][..], &session].concat()),
    ];
    let server = [
        (FrameKind::Challenge, [&[2], &[5; 32][..], &[0]].concat()),
        (FrameKind::Challenge, [&[2], &[5; 32][..], &[1], &[6; 32]].concat()),
        (FrameKind::Welcome, vec![7; 17]),
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
