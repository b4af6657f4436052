//! [`Input`]: the file that is imported, which may be a pipe that another program is still writing.
//!
//! Regular files are read as usual. Input that may block (a named pipe, a terminal) is opened and
//! read without blocking: a wait is a `poll` of a tenth of a second, after which the caller's
//! [`Progress`] decides whether to continue. So an import that waits for a program can be
//! interrupted. An interrupted input ends as an empty file does; the caller asks the progress why.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Chain, Cursor, ErrorKind, Read, Seek};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::progress::Progress;

/// Milliseconds of a wait.
const WAIT: i32 = 100;
/// Bytes of a pipe that are kept at most to find out what it is.
const LOOKED_AT_BYTES: usize = 64 << 20;
/// Bytes that are read at a time.
const BUFFER: usize = 256 << 10;

/// See the module.
#[derive(Debug)]
pub(super) struct Input<'p> {
    file: File,
    waits: bool,
    progress: &'p Progress,
}

/// An input from its beginning, after its first lines were looked at.
pub(super) type RewoundInput<'p> = Chain<Cursor<Vec<u8>>, BufReader<Input<'p>>>;

impl<'p> Input<'p> {
    pub(super) fn open(path: &Path, progress: &'p Progress) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
        let waits = !file.metadata()?.is_file();
        Ok(Self { file, waits, progress })
    }

    /// Lets `look` read some of it, and returns what it found with the whole input.
    pub(super) fn looked_at<T>(
        self,
        look: impl FnOnce(&mut dyn BufRead) -> io::Result<T>,
    ) -> io::Result<(T, RewoundInput<'p>)> {
        let keeps = self.waits;
        let input = BufReader::with_capacity(BUFFER, self);
        let mut first = InputStart { input, seen: Vec::new(), keeps };
        let found = look(&mut first)?;
        let InputStart { input, seen, .. } = first;
        if keeps {
            return Ok((found, Cursor::new(seen).chain(input)));
        }
        let mut input = input.into_inner();
        input.file.rewind()?;
        Ok((found, Cursor::new(seen).chain(BufReader::with_capacity(BUFFER, input))))
    }

    fn is_readable(&self) -> io::Result<bool> {
        let mut asked =
            libc::pollfd { fd: self.file.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: the array has one entry, which lives until the call returns; its descriptor is
        // open as long as `self`.
        let ready = unsafe { libc::poll(&raw mut asked, 1, WAIT) };
        if ready >= 0 {
            return Ok(ready > 0);
        }
        match io::Error::last_os_error() {
            error if error.kind() == ErrorKind::Interrupted => Ok(false),
            error => Err(error),
        }
    }
}

impl Read for Input<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.progress.is_stopped() {
                return Ok(0);
            }
            if self.waits && !self.is_readable()? {
                continue;
            }
            match self.file.read(into) {
                Err(error) if self.waits && error.kind() == ErrorKind::WouldBlock => {}
                read => return read,
            }
        }
    }
}

/// The beginning of an input, which is kept if it cannot be read again.
#[derive(Debug)]
struct InputStart<'p> {
    input: BufReader<Input<'p>>,
    seen: Vec<u8>,
    keeps: bool,
}

impl Read for InputStart<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(into)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for InputStart<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.seen.len() > LOOKED_AT_BYTES { Ok(&[]) } else { self.input.fill_buf() }
    }

    fn consume(&mut self, count: usize) {
        if self.keeps {
            let seen = self.input.buffer();
            self.seen.extend_from_slice(&seen[..count.min(seen.len())]);
        }
        self.input.consume(count);
    }
}
