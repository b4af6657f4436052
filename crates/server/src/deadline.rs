//! Time limits of a connection: [`TimedStream`] records them, [`ConnectionControl`] enforces them.
//!
//! A client that sends a frame byte by byte, or does not receive what is sent to it, would hold a
//! thread and memory for ever. So the stream records the deadline of a read or write, and one
//! thread for all connections closes those that are late. Time-outs of the sockets would not do:
//! they restart with every byte, invisibly under TLS, and cost a system call each time.
//!
//! What counts is progress: a link may be as slow as [`PROGRESS`] bytes in the time that a frame
//! may pause. Only time in which the server waits for the client counts; its own delays do not
//! count.

use std::cell::Cell;
use std::io::{self, ErrorKind, IoSlice, IoSliceMut, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use striate_wire::{Header, Transport};

use crate::settings::Limits;

/// How long a connection that ends for a reason is held open for the client to read it.
const LINGER: Duration = Duration::from_secs(1);

/// Bytes of a frame that must come within the time that a frame may pause: few enough for any link
/// that is of use, too many for a client that sends a byte at a time.
const PROGRESS: usize = 4096;

/// After how long a write returns with what was taken so far, which is how its progress is seen.
pub(crate) const WRITE_STEP: Duration = Duration::from_secs(1);

/// No deadline.
const NEVER: u64 = u64::MAX;

/// What the thread that checks time limits sees of a connection.
#[derive(Debug)]
pub(crate) struct ConnectionControl {
    pub(crate) peer: SocketAddr,
    socket: TcpStream,
    /// What the deadline is counted from.
    since: Instant,
    /// Milliseconds until when the client must have done its part.
    deadline: AtomicU64,
    /// Whether the client owes nothing and is owed nothing.
    idle: AtomicBool,
    /// Whether the server waits for something to come, rather than for something to be taken.
    reading: AtomicBool,
    /// Whether it was cut because it was late.
    late: AtomicBool,
    /// Whether its client has given it up for another connection.
    superseded: AtomicBool,
}

impl ConnectionControl {
    pub(crate) fn new(socket: &TcpStream, peer: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            peer,
            socket: socket.try_clone()?,
            since: Instant::now(),
            deadline: AtomicU64::new(NEVER),
            idle: AtomicBool::new(false),
            reading: AtomicBool::new(false),
            late: AtomicBool::new(false),
            superseded: AtomicBool::new(false),
        })
    }

    fn set_deadline(&self, deadline: Option<Instant>) {
        let deadline = deadline.map_or(NEVER, |at| (at - self.since).as_millis() as u64);
        self.deadline.store(deadline, SeqCst);
    }

    /// Cuts the connection if its client is late.
    pub(crate) fn check(&self, now: Instant) {
        if (now - self.since).as_millis() as u64 > self.deadline.load(SeqCst) {
            self.late.store(true, SeqCst);
            if self.reading.load(SeqCst) {
                // The client can still be told why.
                self.stop_reading();
            } else {
                self.cut();
            }
        }
    }

    /// Ends the connection: its client has given it up.
    pub(crate) fn supersede(&self) {
        self.superseded.store(true, SeqCst);
        self.cut();
    }

    /// Whether its client has given it up.
    pub(crate) fn is_superseded(&self) -> bool {
        self.superseded.load(SeqCst)
    }

    /// Ends the wait for a request, if the connection is in one.
    pub(crate) fn wake_if_idle(&self) {
        if self.idle.load(SeqCst) {
            self.stop_reading();
        }
    }

    /// From now on, only what was received already can be read.
    pub(crate) fn stop_reading(&self) {
        // It fails when the connection has ended, which is as good.
        let _ = self.socket.shutdown(Shutdown::Read);
    }

    /// Ends the connection at once.
    pub(crate) fn cut(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// What the client has to do now, and how fast.
#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Everything until then.
    Until(Instant),
    /// Begin a request whenever it likes, but bring it to its end.
    Idle,
    /// Send and take the data of a request.
    Request,
}

/// The stream of a connection, under time limits.
#[derive(Debug)]
pub(crate) struct TimedStream {
    transport: Transport,
    control: Arc<ConnectionControl>,
    frame_time: Duration,
    stall_time: Duration,
    phase: Cell<Phase>,
    frames: Frames,
    /// How long the current frame was waited for since it last made progress.
    waited: Duration,
    /// Bytes of it that came since.
    progress: usize,
    /// What was waited for last.
    awaited: Cell<Awaited>,
}

/// What a client may be late with.
#[derive(Clone, Copy, Debug)]
enum Awaited {
    Handshake,
    Frame,
    Data,
    Taking,
}

impl TimedStream {
    /// A stream whose client has the time of a handshake to prove that it has the key.
    pub(crate) fn new(
        transport: Transport,
        control: Arc<ConnectionControl>,
        limits: &Limits,
    ) -> Self {
        let phase = Phase::Until(Instant::now() + limits.handshake_time);
        Self {
            transport,
            control,
            frame_time: limits.frame_time,
            stall_time: limits.stall_time,
            phase: Cell::new(phase),
            frames: Frames::default(),
            waited: Duration::ZERO,
            progress: 0,
            awaited: Cell::new(Awaited::Handshake),
        }
    }

    /// The next frame is the next request, and may be long in coming.
    pub(crate) fn rest(&self) {
        self.phase.set(Phase::Idle);
        self.control.idle.store(true, SeqCst);
    }

    /// A request is carried out.
    pub(crate) fn work(&self) {
        self.control.idle.store(false, SeqCst);
        self.phase.set(Phase::Request);
    }

    /// Whether the client has gone, which only a read would notice.
    pub(crate) fn is_abandoned(&self) -> bool {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        let gone = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
        let mut sockets = [PollFd::new(self.transport.socket(), gone)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        matches!(poll(&mut sockets, Some(&at_once)), Ok(1))
    }

    /// Ends the connection so that the client can read what was sent last: to close a socket with
    /// unread bytes would tear that from it.
    pub(crate) fn close_gently(&self) {
        let mut socket = self.transport.socket();
        if socket.shutdown(Shutdown::Write).is_err() {
            return;
        }
        self.control.set_deadline(Some(Instant::now() + LINGER));
        let mut nowhere = [0; 4096];
        while socket.read(&mut nowhere).is_ok_and(|count| count > 0) {}
        self.control.set_deadline(None);
    }

    /// Until when the client must send something, and what.
    fn deadline(&self, now: Instant) -> (Option<Instant>, Awaited) {
        match self.phase.get() {
            Phase::Until(then) => (Some(then), Awaited::Handshake),
            _ if self.frames.inside() => {
                (Some(now + self.frame_time.saturating_sub(self.waited)), Awaited::Frame)
            }
            Phase::Idle => (None, Awaited::Data),
            Phase::Request => (Some(now + self.stall_time), Awaited::Data),
        }
    }

    fn receive(
        &mut self,
        read: impl FnOnce(&mut Transport) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let start = Instant::now();
        let (deadline, awaited) = self.deadline(start);
        self.awaited.set(awaited);
        self.control.reading.store(true, SeqCst);
        self.control.set_deadline(deadline);
        let result = read(&mut self.transport);
        self.control.set_deadline(None);
        self.control.reading.store(false, SeqCst);
        self.waited =
            if self.frames.inside() { self.waited + start.elapsed() } else { Duration::ZERO };
        self.unless_late(result)
    }

    fn send(
        &mut self,
        mut write: impl FnMut(&mut Transport) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let (deadline, awaited) = match self.phase.get() {
            Phase::Until(then) => (then, Awaited::Handshake),
            _ => (Instant::now() + self.stall_time, Awaited::Taking),
        };
        self.awaited.set(awaited);
        self.control.set_deadline(Some(deadline));
        let result = loop {
            match write(&mut self.transport) {
                // Nothing was taken for a step, and there is still time.
                Err(error) if error.kind() == ErrorKind::WouldBlock && !self.has_ended() => {}
                result => break result,
            }
        };
        self.control.set_deadline(None);
        self.unless_late(result)
    }

    fn has_ended(&self) -> bool {
        self.control.late.load(SeqCst) || self.control.is_superseded()
    }

    /// What the client was too slow with, for the log and for the client.
    fn slowness(&self) -> String {
        match self.awaited.get() {
            Awaited::Handshake => "the handshake took too long (handshake_time)".to_owned(),
            Awaited::Frame => format!(
                "fewer than {PROGRESS} bytes of a frame came in {:?} (frame_time): the client or \
                 the link to it is too slow",
                self.frame_time
            ),
            Awaited::Data => {
                format!("data that is due did not come for {:?} (stall_time)", self.stall_time)
            }
            Awaited::Taking => {
                format!("the client took nothing for {:?} (stall_time)", self.stall_time)
            }
        }
    }

    fn unless_late(&self, result: io::Result<usize>) -> io::Result<usize> {
        if self.control.late.load(SeqCst) {
            return Err(io::Error::new(ErrorKind::TimedOut, self.slowness()));
        }
        if self.control.is_superseded() {
            // What was received may still be read from a socket that was cut.
            return Err(io::Error::new(ErrorKind::ConnectionAborted, "the client gave it up"));
        }
        result
    }

    fn received(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.control.idle.store(false, SeqCst);
            self.progress += bytes.len();
            if self.frames.pass(bytes) || self.progress >= PROGRESS {
                self.waited = Duration::ZERO;
                self.progress = 0;
            }
        }
    }
}

impl Read for TimedStream {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.receive(|transport| transport.read(into))?;
        self.received(&into[..count]);
        Ok(count)
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let count = self.receive(|transport| transport.read_vectored(parts))?;
        let mut left = count;
        for part in parts.iter() {
            let here = left.min(part.len());
            self.received(&part[..here]);
            left -= here;
        }
        Ok(count)
    }
}

impl Write for TimedStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(|transport| transport.write(bytes))
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        self.send(|transport| transport.write_vectored(parts))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send(|transport| transport.flush().map(|()| 0)).map(drop)
    }
}

/// The position of a stream within a frame. Invalid frames are detected by the reader.
#[derive(Debug, Default)]
struct Frames {
    header: [u8; Header::LEN],
    /// Bytes of the header that came.
    came: usize,
    /// Bytes of the payload that are still to come.
    left: usize,
}

impl Frames {
    /// Whether a frame has begun and not ended.
    fn inside(&self) -> bool {
        self.came > 0
    }

    /// Passes over bytes; returns whether a frame ended in them.
    fn pass(&mut self, mut bytes: &[u8]) -> bool {
        let mut ended = false;
        while !bytes.is_empty() {
            if self.came < Header::LEN {
                let count = bytes.len().min(Header::LEN - self.came);
                self.header[self.came..self.came + count].copy_from_slice(&bytes[..count]);
                self.came += count;
                bytes = &bytes[count..];
                if self.came == Header::LEN {
                    self.left =
                        Header::decode(&self.header).map_or(0, |header| header.len as usize);
                }
            } else {
                let count = bytes.len().min(self.left);
                self.left -= count;
                bytes = &bytes[count..];
            }
            if self.came == Header::LEN && self.left == 0 {
                self.came = 0;
                ended = true;
            }
        }
        ended
    }
}

#[cfg(test)]
mod tests {
    use striate_wire::{Connection, Request};

    use super::*;

    #[test]
    fn frames_are_followed_however_they_are_cut() {
        let mut connection = Connection::new(Vec::new());
        let mut ends = Vec::new();
        for len in [0, 1, 100] {
            connection.send_data(1, &vec![7; len]).unwrap();
            ends.push(connection.stream().len());
            connection.send_request(2, &Request::Ping).unwrap();
            ends.push(connection.stream().len());
        }
        let bytes = connection.stream();
        for step in 1..=bytes.len() {
            let mut frames = Frames::default();
            let mut at = 0;
            for piece in bytes.chunks(step) {
                let ended = frames.pass(piece);
                let range = at + 1..=at + piece.len();
                assert_eq!(ended, ends.iter().any(|end| range.contains(end)), "{step} {at}");
                at += piece.len();
                assert_eq!(frames.inside(), !ends.contains(&at), "{step} {at}");
            }
        }
    }
}
