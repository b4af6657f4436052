//! [`Socket`]: a TCP stream whose loss is an error and never a signal.
//!
//! A process that writes to a stream whose other side is gone gets `SIGPIPE`, which ends it unless
//! it set another disposition. Rust programs ignore the signal from their start; C programs that
//! use this code through a door do not. So every byte is sent by one `sendmsg` with `MSG_NOSIGNAL`.
//! The standard library does that for plain writes only: its vectored write, which frames and TLS
//! use, is `writev`, which has no flags.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// Parts that the kernel takes in one call (`UIO_MAXIOV`); with more, it takes none.
const MOST_PARTS: usize = 1024;

/// A TCP stream; see the module.
#[derive(Debug)]
pub struct Socket(TcpStream);

impl Socket {
    /// The stream, for its settings and its end. A direct write to it can end the process by
    /// `SIGPIPE`.
    pub fn stream(&self) -> &TcpStream {
        &self.0
    }
}

impl From<TcpStream> for Socket {
    fn from(stream: TcpStream) -> Self {
        Self(stream)
    }
}

impl Read for Socket {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_vectored(parts)
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(bytes)])
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let parts = &parts[..parts.len().min(MOST_PARTS)];
        let nothing = &mut SendAncillaryBuffer::default();
        Ok(sendmsg(&self.0, parts, nothing, SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn more_parts_than_the_kernel_takes_leave_in_turns() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut here = Socket::from(listener.accept().unwrap().0);
        let bytes: Vec<u8> = (0..3 * MOST_PARTS + 5).map(|i| i as u8).collect();
        let mut parts: Vec<IoSlice<'_>> = bytes.chunks(1).map(IoSlice::new).collect();
        crate::stream::write_all(&mut here, &mut parts).unwrap();
        drop(here);
        let mut came = Vec::new();
        Socket::from(there).read_to_end(&mut came).unwrap();
        assert!(came == bytes);
    }
}
