//! Frames over streams that damage, cut or trickle.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod samples;
mod streams;

use std::io::{ErrorKind, IoSlice, IoSliceMut, Read};

use streams::Trickle;
use striate_wire::{Connection, FrameKind, Header, Malformed, Message, Reply, WireError};

/// A data frame, or the message of any other.
#[derive(Debug, PartialEq)]
enum Received {
    Data(Vec<u8>),
    Message(Message),
}

fn receive<S: Read>(connection: &mut Connection<S>) -> Result<(u64, Received), WireError> {
    let header = connection.receive_header()?;
    let received = if header.kind == FrameKind::Data {
        let mut bytes = vec![0; header.len as usize];
        connection.receive_data(&header, &mut bytes)?;
        Received::Data(bytes)
    } else {
        Received::Message(connection.receive_message(&header)?)
    };
    Ok((header.id, received))
}

/// The bytes that a connection sends.
fn sent(send: impl FnOnce(&mut Connection<Vec<u8>>) -> Result<(), WireError>) -> Vec<u8> {
    let mut connection = Connection::new(Vec::new());
    send(&mut connection).unwrap();
    connection.stream().clone()
}

/// One frame of each message, and data frames with and without bytes.
fn frames() -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    for (_, request) in samples::requests() {
        frames.push(sent(|connection| connection.send_request(0x0123_4567_89AB_CDEF, &request)));
    }
    for (_, reply) in samples::replies() {
        frames.push(sent(|connection| connection.send_reply(1, &reply)));
    }
    frames.push(sent(|connection| connection.send_failure(2, &samples::failure())));
    frames.push(sent(|connection| connection.send_data(3, b"some bytes of a file")));
    frames.push(sent(|connection| connection.send_data(4, b"")));
    frames
}

#[test]
fn every_flipped_bit_is_found() {
    for frame in frames() {
        assert!(receive(&mut Connection::new(&frame[..])).is_ok());
        for bit in 0..frame.len() * 8 {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let error = receive(&mut Connection::new(&damaged[..])).unwrap_err();
            let found = matches!(
                error,
                WireError::Checksum { .. }
                    | WireError::Malformed(Malformed::Magic(_) | Malformed::Version(_))
            );
            assert!(found, "bit {bit}: {error}");
        }
    }
}

#[test]
fn every_truncation_is_found() {
    for frame in frames() {
        for len in 0..frame.len() {
            let error = receive(&mut Connection::new(&frame[..len])).unwrap_err();
            match error {
                WireError::Closed => assert_eq!(len, 0),
                WireError::Io(error) => {
                    assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
                    assert_ne!(len, 0);
                }
                other => panic!("{len} bytes: {other}"),
            }
        }
    }
}

/// The stream has nothing after the header: an error other than its end shows that the length was
/// refused without waiting for the payload or making room for it.
#[test]
fn an_announced_length_beyond_the_limit_is_refused_at_once() {
    for (kind, limit) in [
        (FrameKind::Hello, 256),
        (FrameKind::Welcome, 256),
        (FrameKind::Request, 1 << 20),
        (FrameKind::Reply, 1 << 20),
        (FrameKind::Failure, 8 << 10),
        (FrameKind::Data, 256 << 10),
    ] {
        for len in [limit + 1, u32::MAX] {
            let header = Header { kind, id: 1, len, payload_crc: 0 }.encode();
            let error = Connection::new(&header[..]).receive_header().unwrap_err();
            let WireError::Malformed(Malformed::TooLong { limit: found, .. }) = error else {
                panic!("{error}")
            };
            assert_eq!(found, limit);
        }
        let header = Header { kind, id: 1, len: limit, payload_crc: 0 }.encode();
        assert!(Connection::new(&header[..]).receive_header().is_ok());
    }
}

#[test]
fn frames_that_are_not_due_are_refused() {
    let data = sent(|connection| connection.send_data(1, b"abc"));
    let mut connection = Connection::new(&data[..]);
    let header = connection.receive_header().unwrap();
    let error = connection.receive_message(&header).unwrap_err();
    assert!(error.to_string().contains("a data frame came instead of"), "{error}");

    let reply = sent(|connection| connection.send_reply(1, &Reply::Done));
    let mut connection = Connection::new(&reply[..]);
    let header = connection.receive_header().unwrap();
    let error = connection.receive_data(&header, &mut [0]).unwrap_err();
    assert!(error.to_string().contains("a reply frame came instead of data"), "{error}");
}

/// Sends a bit of everything and receives it again, over streams that transfer few bytes at a time.
#[test]
fn trickling_streams_change_nothing() {
    let payload: Vec<u8> = (0..20_000u32).map(|i| (i % 251) as u8).collect();
    for (most, random) in [(1, 1), (3, 2), (29, 3), (700, 4), (5000, 5), (30_000, 6)] {
        let stream = Trickle { inner: Vec::new(), most, random };
        let mut connection = Connection::new(stream);
        for (id, (_, request)) in samples::requests().iter().enumerate() {
            connection.queue_request(id as u64, request).unwrap();
        }
        let parts: Vec<IoSlice<'_>> = payload.chunks(1999).map(IoSlice::new).collect();
        connection.send_data_parts(100, &parts).unwrap();
        connection.send_failure(101, &samples::failure()).unwrap();
        connection.send_data(102, &payload).unwrap();
        let sent = connection.traffic().sent;
        let bytes = &connection.stream().inner;

        let mut other = Connection::new(Trickle { inner: &bytes[..], most, random: random + 9 });
        for (id, (_, request)) in samples::requests().into_iter().enumerate() {
            let expected = (id as u64, Received::Message(Message::Request(request)));
            assert_eq!(receive(&mut other).unwrap(), expected);
        }
        assert_eq!(receive(&mut other).unwrap(), (100, Received::Data(payload.clone())));
        let failure = Received::Message(Message::Failure(samples::failure()));
        assert_eq!(receive(&mut other).unwrap(), (101, failure));
        let header = other.receive_header().unwrap();
        let mut memory = vec![0; payload.len()];
        let mut parts: Vec<IoSliceMut<'_>> = memory.chunks_mut(7).map(IoSliceMut::new).collect();
        parts.insert(5, IoSliceMut::new(&mut []));
        other.receive_data_parts(&header, &mut parts).unwrap();
        assert!(memory == payload);
        assert!(matches!(other.receive_header(), Err(WireError::Closed)));
        assert_eq!(other.traffic().received, sent);
    }
}

/// A server that looks up now and then, to see whether it should stop, loses nothing.
#[test]
fn a_time_out_in_a_header_loses_nothing() {
    struct Slow<'a>(&'a [u8], bool);
    impl Read for Slow<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            self.1 = !self.1;
            if self.1 {
                return Err(ErrorKind::WouldBlock.into());
            }
            let count = buffer.len().min(5);
            self.0.read(&mut buffer[..count])
        }
    }
    let bytes = sent(|connection| connection.send_data(9, b""));
    let mut connection = Connection::new(Slow(&bytes, false));
    let mut waits = 0;
    let header = loop {
        match connection.receive_header() {
            Err(WireError::Io(error)) if error.kind() == ErrorKind::WouldBlock => waits += 1,
            result => break result.unwrap(),
        }
    };
    assert_eq!((header.id, waits), (9, 6));
}

#[test]
fn a_stream_that_takes_nothing_is_an_error() {
    let mut room = [0; 40];
    let mut connection = Connection::new(&mut room[..]);
    let error = connection.send_data(1, &[0; 100]).unwrap_err();
    assert!(matches!(error, WireError::Io(ref error) if error.kind() == ErrorKind::WriteZero));
}
