//! [`Connection`]: the framed side of a stream, for client and server alike.
//!
//! Everything blocks as the stream does. Small frames are put together in a queue and leave in one
//! write; data leaves from the caller's memory, in the same write as what was queued before it, and
//! arrives in the caller's memory.

use std::io::{IoSlice, IoSliceMut, Read, Write};

use crate::error::{Malformed, WireError};
use crate::failure::Failure;
use crate::frame::{FrameKind, Header};
use crate::message::Message;
use crate::reply::Reply;
use crate::request::Request;
use crate::stream::{Input, write_all};
use crate::traffic::Traffic;

/// Queued bytes that leave without being asked to.
const QUEUE: usize = 64 << 10;

/// The framed side of a stream.
///
/// After an error other than [`WireError::NotSent`] the connection is of no further use, with one
/// exception: [`Connection::receive_header`] can be called again after a time-out.
#[derive(Debug)]
pub struct Connection<S> {
    stream: S,
    input: Input,
    queue: Vec<u8>,
    traffic: Traffic,
}

impl<S> Connection<S> {
    /// A connection over a stream on which nothing was sent yet.
    pub fn new(stream: S) -> Self {
        Self { stream, input: Input::new(), queue: Vec::new(), traffic: Traffic::default() }
    }

    /// The stream, for its settings and its end; reading or writing here would break the frames.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The first bytes of a frame of which not all came.
    pub(crate) fn cut_off(&self) -> Option<[u8; 4]> {
        self.input.waiting().first_chunk().copied()
    }

    /// What went over the connection so far.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }
}

/// Sending.
impl<S: Write> Connection<S> {
    /// Sends a request, after what is queued.
    pub fn send_request(&mut self, id: u64, request: &Request) -> Result<(), WireError> {
        self.queue_request(id, request)?;
        self.flush()
    }

    /// Sends a reply, after what is queued.
    pub fn send_reply(&mut self, id: u64, reply: &Reply) -> Result<(), WireError> {
        self.queue_reply(id, reply)?;
        self.flush()
    }

    /// Sends a failure, after what is queued.
    pub fn send_failure(&mut self, id: u64, failure: &Failure) -> Result<(), WireError> {
        let payload = failure.encode().map_err(WireError::NotSent)?;
        self.queue_frame(FrameKind::Failure, id, &payload)?;
        self.flush()
    }

    /// Queues a request. It leaves with the next flush or the next frame that is sent, so that many
    /// requests, or one and its data, leave in one write.
    pub fn queue_request(&mut self, id: u64, request: &Request) -> Result<(), WireError> {
        let payload = request.encode().map_err(WireError::NotSent)?;
        self.queue_frame(FrameKind::Request, id, &payload)?;
        if matches!(request, Request::Define { .. }) {
            self.traffic.sent.count_description(payload.len());
        }
        Ok(())
    }

    /// Queues a reply, as [`Connection::queue_request`] does a request.
    pub fn queue_reply(&mut self, id: u64, reply: &Reply) -> Result<(), WireError> {
        let payload = reply.encode().map_err(WireError::NotSent)?;
        self.queue_frame(FrameKind::Reply, id, &payload)
    }

    /// Sends what is queued.
    pub fn flush(&mut self) -> Result<(), WireError> {
        write_all(&mut self.stream, &mut [IoSlice::new(&self.queue)])?;
        self.empty_queue();
        Ok(())
    }

    /// Sends at most [`MAX_DATA`](crate::limits::MAX_DATA) bytes as one data frame, after what is
    /// queued.
    pub fn send_data(&mut self, id: u64, bytes: &[u8]) -> Result<(), WireError> {
        self.send_data_parts(id, &[IoSlice::new(bytes)])
    }

    /// Sends bytes that lie in several places as one data frame, after what is queued.
    pub fn send_data_parts(&mut self, id: u64, parts: &[IoSlice<'_>]) -> Result<(), WireError> {
        let header = Header::of(FrameKind::Data, id, parts.iter().map(|part| &**part))
            .map_err(WireError::NotSent)?;
        self.queue.extend_from_slice(&header.encode());
        let mut slices = Vec::with_capacity(parts.len() + 1);
        slices.push(IoSlice::new(&self.queue));
        slices.extend_from_slice(parts);
        write_all(&mut self.stream, &mut slices)?;
        self.empty_queue();
        self.traffic.sent.count(&header);
        Ok(())
    }

    /// Many connections are idle most of the time: none keeps the memory of a large frame.
    fn empty_queue(&mut self) {
        self.queue.clear();
        self.queue.shrink_to(QUEUE);
    }

    pub(crate) fn queue_frame(
        &mut self,
        kind: FrameKind,
        id: u64,
        payload: &[u8],
    ) -> Result<(), WireError> {
        let header = Header::of(kind, id, std::iter::once(payload)).map_err(WireError::NotSent)?;
        self.queue.extend_from_slice(&header.encode());
        self.queue.extend_from_slice(payload);
        self.traffic.sent.count(&header);
        if self.queue.len() < QUEUE { Ok(()) } else { self.flush() }
    }
}

/// Receiving. Every header that was received must be followed by one call that takes its payload.
impl<S: Read> Connection<S> {
    /// Waits for the next frame. [`WireError::Closed`] says that there is none.
    pub fn receive_header(&mut self) -> Result<Header, WireError> {
        let bytes = self.input.next(&mut self.stream)?.ok_or(WireError::Closed)?;
        Header::decode(&bytes)
    }

    /// The message of a request, reply or failure frame.
    pub fn receive_message(&mut self, header: &Header) -> Result<Message, WireError> {
        let decode: fn(&[u8]) -> Result<Message, Malformed> = match header.kind {
            FrameKind::Request => |bytes| Request::decode(bytes).map(Message::Request),
            FrameKind::Reply => |bytes| Reply::decode(bytes).map(Message::Reply),
            FrameKind::Failure => |bytes| Failure::decode(bytes).map(Message::Failure),
            found => {
                let expected = "a request, reply or failure";
                return Err(Malformed::Unexpected { expected, found }.into());
            }
        };
        let payload = self.receive_payload(header)?;
        let message = decode(&payload)?;
        if matches!(message, Message::Request(Request::Define { .. })) {
            self.traffic.received.count_description(payload.len());
        }
        Ok(message)
    }

    /// The payload of a data frame, which must be as long as `into`.
    pub fn receive_data(&mut self, header: &Header, into: &mut [u8]) -> Result<(), WireError> {
        self.receive_data_parts(header, &mut [IoSliceMut::new(into)])
    }

    /// The payload of a data frame, which must be as long as all parts together. It is read into
    /// the memory that the parts stand for; they themselves stand for nothing afterwards.
    ///
    /// After an error, the checksum's included, the memory holds anything.
    pub fn receive_data_parts(
        &mut self,
        header: &Header,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<(), WireError> {
        if header.kind != FrameKind::Data {
            let expected = "data";
            return Err(Malformed::Unexpected { expected, found: header.kind }.into());
        }
        let expected = parts.iter().map(|part| part.len() as u64).sum();
        if u64::from(header.len) != expected {
            return Err(Malformed::DataLen { expected, found: header.len }.into());
        }
        self.receive_parts(header, parts)
    }

    /// Passes over the payload of a frame, of whatever kind, without looking at it.
    pub fn skip(&mut self, header: &Header) -> Result<(), WireError> {
        self.input.skip(&mut self.stream, header.len as usize)?;
        self.traffic.received.count(header);
        Ok(())
    }

    /// The payload of a frame that does not go to memory of the caller.
    pub(crate) fn receive_payload(&mut self, header: &Header) -> Result<Vec<u8>, WireError> {
        let mut payload = vec![0; header.len as usize];
        self.receive_parts(header, &mut [IoSliceMut::new(&mut payload)])?;
        Ok(payload)
    }

    fn receive_parts(
        &mut self,
        header: &Header,
        parts: &mut [IoSliceMut<'_>],
    ) -> Result<(), WireError> {
        let crc = self.input.read_parts(&mut self.stream, parts)?;
        header.verify(crc)?;
        self.traffic.received.count(header);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// Notes what each write handed over.
    #[derive(Default)]
    struct Writes(Vec<Vec<u8>>);

    impl Write for Writes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            self.0.push(slices.iter().flat_map(|slice| slice.to_vec()).collect());
            Ok(self.0.last().map_or(0, Vec::len))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_is_queued_leaves_in_one_write_with_the_data() {
        let mut connection = Connection::new(Writes::default());
        connection.queue_request(1, &Request::Ping).unwrap();
        connection.queue_request(2, &Request::Space).unwrap();
        connection.send_data_parts(2, &[IoSlice::new(b"ab"), IoSlice::new(b"c")]).unwrap();
        connection.flush().unwrap();
        let writes = &connection.stream().0;
        assert_eq!(writes.iter().map(Vec::len).collect::<Vec<_>>(), [3 * 28 + 1 + 1 + 3]);
        let sent = connection.traffic().sent;
        assert_eq!((sent.requests, sent.request_bytes), (2, 2 * 29));
        assert_eq!((sent.data_frames, sent.data_bytes), (1, 3));

        let bytes = connection.stream().0.concat();
        let mut other = Connection::new(&bytes[..]);
        for expected in [Request::Ping, Request::Space] {
            let header = other.receive_header().unwrap();
            assert_eq!(other.receive_message(&header).unwrap(), Message::Request(expected));
        }
        let header = other.receive_header().unwrap();
        let (mut first, mut rest) = ([0; 1], [0; 2]);
        other
            .receive_data_parts(
                &header,
                &mut [IoSliceMut::new(&mut first), IoSliceMut::new(&mut rest)],
            )
            .unwrap();
        assert_eq!((&first, &rest), (b"a", b"bc"));
        assert!(matches!(other.receive_header(), Err(WireError::Closed)));
        assert_eq!(other.traffic().received, sent);
    }

    #[test]
    fn a_long_queue_leaves_by_itself() {
        let mut connection = Connection::new(Writes::default());
        for id in 0..5000 {
            connection.queue_request(id, &Request::Ping).unwrap();
        }
        assert!(connection.queue.len() < QUEUE);
        assert_eq!(connection.stream().0.len(), 5000 * 29 / QUEUE);
    }

    #[test]
    fn what_breaks_a_limit_is_not_sent() {
        let mut connection = Connection::new(Writes::default());
        let path = "p".repeat(4097);
        let error = connection.send_request(1, &Request::Lookup { path }).unwrap_err();
        assert!(matches!(error, WireError::NotSent(Malformed::OutOfRange { .. })), "{error}");
        let error = connection.send_data(1, &vec![0; (1 << 20) + 1]).unwrap_err();
        assert!(matches!(error, WireError::NotSent(Malformed::TooLong { .. })), "{error}");
        connection.flush().unwrap();
        assert!(connection.stream().0.is_empty());
        assert_eq!(connection.traffic(), Traffic::default());
    }

    #[test]
    fn a_payload_can_be_skipped() {
        let mut connection = Connection::new(Vec::new());
        connection.send_data(1, &[7; 10_000]).unwrap();
        connection.send_reply(2, &Reply::Done).unwrap();
        let bytes = connection.stream().clone();
        let mut other = Connection::new(&bytes[..]);
        let header = other.receive_header().unwrap();
        other.skip(&header).unwrap();
        let header = other.receive_header().unwrap();
        assert_eq!(other.receive_message(&header).unwrap(), Message::Reply(Reply::Done));
    }

    #[test]
    fn data_must_fill_its_memory() {
        let mut connection = Connection::new(Vec::new());
        connection.send_data(1, b"abc").unwrap();
        let bytes = connection.stream().clone();
        for len in [0, 2, 4] {
            let mut other = Connection::new(&bytes[..]);
            let header = other.receive_header().unwrap();
            let error = other.receive_data(&header, &mut vec![0; len]).unwrap_err();
            let WireError::Malformed(Malformed::DataLen { expected, found: 3 }) = error else {
                panic!("{error}")
            };
            assert_eq!(expected, len as u64);
        }
    }
}
