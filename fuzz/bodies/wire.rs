//! What the fuzz targets of the protocol assert, as plain functions of bytes.
//!
//! The tests of the crate run them too, with a stable compiler. Random bytes rarely have the right
//! checksum, so the bytes are also taken as the contents of frames that are sound: an attacker
//! computes checksums.
#![allow(dead_code, unreachable_pub, reason = "each target uses a part")]

use std::io::{self, IoSliceMut, Read, Write};

use striate_wire::{
    Connection, Descriptions, Failure, FrameKind, Header, Identity, Instance, Key, Message, Reply,
    Request, Session, StartId, TypeId, WireError, greet, welcome,
};

/// Bytes as a header, as they are and with the fields right that a sender computes.
pub fn frame(bytes: &[u8]) {
    let Some(header) = bytes.first_chunk::<{ Header::LEN }>() else { return };
    check_header(header);
    let mut header = *header;
    header[..5].copy_from_slice(b"STRI\x02");
    let crc = striate_wire::checksum(&header[..24]);
    header[24..].copy_from_slice(&crc.to_le_bytes());
    check_header(&header);
}

fn check_header(bytes: &[u8; Header::LEN]) {
    match Header::decode(bytes) {
        Ok(header) => {
            assert_eq!(&header.encode(), bytes, "there is one encoding");
            assert!(header.len <= header.kind.limit());
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

/// Bytes as a request. A datatype that comes with one is taken up if it is one.
pub fn request(bytes: &[u8]) {
    let request = match Request::decode(bytes) {
        Ok(request) => request,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let again = request.encode().expect("what was received can be sent");
    assert!(again.len() <= bytes.len(), "there is no shorter encoding than ours");
    assert_eq!(Request::decode(&again).as_ref(), Ok(&request));
    if let Request::Define { id, encoding } = &request {
        let descriptions = Descriptions::new(1 << 20);
        for id in [*id, TypeId::of(encoding)] {
            match descriptions.define(id, encoding) {
                Ok(()) => {
                    let datatype = descriptions.get(&id).expect("it was just defined");
                    assert_eq!(TypeId::of(&datatype.encode()), id);
                }
                Err(failure) => {
                    assert!(!failure.text.is_empty());
                    assert!(descriptions.get(&id).is_none());
                }
            }
        }
    }
}

/// Bytes as a reply, and as a failure.
pub fn reply(bytes: &[u8]) {
    match Reply::decode(bytes) {
        Ok(reply) => {
            let again = reply.encode().expect("what was received can be sent");
            assert!(again.len() <= bytes.len(), "there is no shorter encoding than ours");
            assert_eq!(Reply::decode(&again).as_ref(), Ok(&reply));
            if let Reply::File(file) = &reply {
                assert!(file.wire_len() + 1 >= again.len());
            }
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    if let Ok(failure) = Failure::decode(bytes) {
        let again = failure.encode().expect("what was received can be sent");
        assert_eq!(Failure::decode(&again), Ok(failure));
    }
}

/// Bytes as all that the other side says in a handshake. No handshake succeeds without the key.
pub fn handshake(bytes: &[u8]) {
    let key = Key::from_bytes(b"a key that cannot be guessed").expect("it is long enough");
    let instance = Instance { identity: Identity([7; 16]), start: StartId(1) };
    for bytes in [bytes, &framed(bytes)] {
        for key in [None, Some(&key)] {
            let client = greet(&mut Connection::new(Fed(bytes)), key, &Session::default());
            let server = welcome(&mut Connection::new(Fed(bytes)), key, instance);
            assert!(key.is_none() || client.is_err() && server.is_err());
            for error in [client.err(), server.err()].into_iter().flatten() {
                assert!(!error.to_string().is_empty());
                assert!(!matches!(error, WireError::NotSent(_)), "{error}");
            }
        }
    }
}

/// Bytes as all that comes over a connection.
pub fn stream(bytes: &[u8]) {
    for bytes in [bytes, &framed(bytes)] {
        let mut connection = Connection::new(Fed(bytes));
        let mut other = Connection::new(Fed(b""));
        let error = loop {
            if let Err(error) = pass_on(&mut connection, &mut other) {
                break error;
            }
        };
        assert!(!error.to_string().is_empty());
        assert!(!matches!(error, WireError::NotSent(_)), "{error}");
        let (received, sent) = (connection.traffic().received, other.traffic().sent);
        // The last one may have been received and then refused.
        let answered = sent.requests + sent.replies;
        assert!((answered..=answered + 1).contains(&(received.requests + received.replies)));
        assert!(sent.request_bytes <= received.request_bytes);
        assert!(sent.reply_bytes <= received.reply_bytes);
        assert_eq!(
            (sent.data_frames, sent.data_bytes),
            (received.data_frames, received.data_bytes)
        );
        let all = received.request_bytes + received.reply_bytes + received.data_bytes;
        assert!(all <= bytes.len() as u64);
    }
}

/// Receives a frame and sends the same again.
fn pass_on(connection: &mut Connection<Fed>, other: &mut Connection<Fed>) -> Result<(), WireError> {
    let header = connection.receive_header()?;
    let id = header.id;
    if header.kind == FrameKind::Data {
        // A receiver that knows what is due allocates that, and not what the header says.
        if header.len as usize > connection.stream().0.len() + 4096 {
            return connection.skip(&header);
        }
        let mut memory = vec![0; header.len as usize];
        let (first, rest) = memory.split_at_mut(header.len as usize / 3);
        let mut parts = [IoSliceMut::new(first), IoSliceMut::new(rest)];
        connection.receive_data_parts(&header, &mut parts)?;
        return other.send_data(id, &memory);
    }
    match connection.receive_message(&header)? {
        Message::Request(request) => other.send_request(id, &request),
        Message::Reply(reply) => other.send_reply(id, &reply),
        Message::Failure(failure) => other.send_failure(id, &failure),
    }
}

/// Takes the bytes as frames of a kind, a length of two bytes and a payload each, and makes sound
/// frames of them.
fn framed(mut bytes: &[u8]) -> Vec<u8> {
    let mut frames = Vec::new();
    while let [kind, low, high, rest @ ..] = bytes {
        let len = usize::from(u16::from_le_bytes([*low, *high])).min(rest.len());
        let (payload, rest) = rest.split_at(len);
        let kind = KINDS[usize::from(*kind) % KINDS.len()];
        let payload_crc = striate_wire::checksum(payload);
        let header = Header { kind, id: frames.len() as u64, len: len as u32, payload_crc };
        frames.extend_from_slice(&header.encode());
        frames.extend_from_slice(payload);
        bytes = rest;
    }
    frames
}

const KINDS: [FrameKind; 8] = [
    FrameKind::Data,
    FrameKind::Hello,
    FrameKind::Challenge,
    FrameKind::Proof,
    FrameKind::Welcome,
    FrameKind::Request,
    FrameKind::Reply,
    FrameKind::Failure,
];

/// A stream from which these bytes come, and to which anything may go.
struct Fed<'a>(&'a [u8]);

impl Read for Fed<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for Fed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
