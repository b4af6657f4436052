//! [`Reader`]: the bytes of a region, unpacked as they are asked for.
//!
//! A region is one compressed stream or several after each other, one for each rank that wrote. How
//! much may come out is bounded by what went in, so that a small file cannot keep a reader busy for
//! ever.

use std::io::{self, Read};

use bzip2::bufread::BzDecoder;
use flate2::{Decompress, FlushDecompress, Status};

use crate::header::{Compression, Header, Region};

/// Bytes that come out of any region.
const FREE: u64 = 64 << 20;
/// Bytes that come out for each that went in, beyond these. Records of zeros reach 1,032 with zlib.
const RATIO: u64 = 1100;

enum Stream<'a> {
    Zlib(Box<Zlib<'a>>),
    Bzip2(Box<BzDecoder<&'a [u8]>>),
    Plain(&'a [u8]),
}

/// A stream of zlib. A reader of the library takes one that is cut for one that ends.
struct Zlib<'a> {
    state: Decompress,
    bytes: &'a [u8],
    ended: bool,
}

impl Read for Zlib<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.ended && !buffer.is_empty() {
            let before = (self.state.total_in(), self.state.total_out());
            let status = self.state.decompress(self.bytes, buffer, FlushDecompress::None)?;
            let taken = self.state.total_in() - before.0;
            let read = self.state.total_out() - before.1;
            self.bytes = &self.bytes[taken as usize..];
            self.ended = status == Status::StreamEnd;
            if read > 0 {
                return Ok(read as usize);
            }
            if !self.ended && taken == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(0)
    }
}

/// The bytes of a region.
pub(crate) struct Reader<'a> {
    stream: Option<Stream<'a>>,
    /// What was not given to a stream yet.
    rest: &'a [u8],
    compression: Compression,
    /// Bytes that the file lacks.
    missing: u64,
    /// Bytes that may still come.
    left: u64,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8], region: Region, header: &Header) -> Self {
        let end = region.offset.saturating_add(region.length);
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        let rest = &bytes[place(region.offset)..place(end).max(place(region.offset))];
        let missing = region.length - rest.len() as u64;
        let left = FREE.saturating_add((rest.len() as u64).saturating_mul(RATIO));
        Self { stream: None, rest, compression: header.compression, missing, left }
    }

    /// Fills a buffer; false at the end of the region. A region that ends within the buffer is
    /// damaged.
    pub(crate) fn fill(&mut self, buffer: &mut [u8]) -> Result<bool, String> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read(&mut buffer[filled..])? {
                0 if filled == 0 => {
                    return if self.missing > 0 { Err(self.lacking()) } else { Ok(false) };
                }
                0 if self.missing > 0 => return Err(self.lacking()),
                0 => return Err("it ends within a record".into()),
                read => filled += read,
            }
        }
        Ok(true)
    }

    /// As [`fill`](Self::fill) where something has to follow.
    pub(crate) fn require(&mut self, buffer: &mut [u8]) -> Result<(), String> {
        if self.fill(buffer)? { Ok(()) } else { Err("it ends within a record".into()) }
    }

    fn lacking(&self) -> String {
        format!("the file ends {} bytes before it does", self.missing)
    }

    /// Some bytes, at least one before the end of the region.
    pub(crate) fn read(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        loop {
            let Some(stream) = &mut self.stream else {
                if self.rest.is_empty() {
                    return Ok(0);
                }
                let rest = std::mem::take(&mut self.rest);
                self.stream = Some(match self.compression {
                    Compression::Zlib => {
                        let state = Decompress::new(true);
                        Stream::Zlib(Box::new(Zlib { state, bytes: rest, ended: false }))
                    }
                    Compression::Bzip2 => Stream::Bzip2(Box::new(BzDecoder::new(rest))),
                    Compression::None => Stream::Plain(rest),
                });
                continue;
            };
            let read = match stream {
                Stream::Zlib(stream) => stream.read(buffer),
                Stream::Bzip2(stream) => stream.read(buffer),
                Stream::Plain(bytes) => bytes.read(buffer),
            };
            let read = read.map_err(|error| match self.missing {
                0 => format!("it cannot be unpacked: {error}"),
                _ => self.lacking(),
            })?;
            if read > 0 || buffer.is_empty() {
                let enough = "its uncompressed data is longer than any log".to_owned();
                self.left = self.left.checked_sub(read as u64).ok_or(enough)?;
                return Ok(read);
            }
            // The end of a stream: another one may follow.
            let taken = self.stream.take();
            let before = match taken {
                Some(Stream::Zlib(stream)) => stream.bytes,
                Some(Stream::Bzip2(stream)) => stream.into_inner(),
                _ => &[],
            };
            self.rest = before;
        }
    }

    /// Bytes until a zero, without it; `None` at the end of the region.
    pub(crate) fn text(
        &mut self,
        buffer: &mut Buffered,
        most: usize,
    ) -> Result<Option<Vec<u8>>, String> {
        let mut text = Vec::new();
        loop {
            if buffer.is_empty() && !buffer.refill(self)? {
                return if text.is_empty() {
                    Ok(None)
                } else {
                    Err("it ends within a name".into())
                };
            }
            let part = buffer.rest();
            let end = part.iter().position(|byte| *byte == 0);
            let taken = end.unwrap_or(part.len());
            if text.len() + taken > most {
                return Err("a name in it is longer than any path".into());
            }
            text.extend_from_slice(&part[..taken]);
            buffer.at += taken + usize::from(end.is_some());
            if end.is_some() {
                return Ok(Some(text));
            }
        }
    }
}

/// Bytes that were read ahead of names, which are short.
pub(crate) struct Buffered {
    bytes: Vec<u8>,
    at: usize,
    end: usize,
}

impl Buffered {
    pub(crate) fn new() -> Self {
        Self { bytes: vec![0; 32 << 10], at: 0, end: 0 }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.at..self.end]
    }

    fn is_empty(&self) -> bool {
        self.at == self.end
    }

    fn refill(&mut self, reader: &mut Reader<'_>) -> Result<bool, String> {
        (self.at, self.end) = (0, reader.read(&mut self.bytes)?);
        if self.end == 0 && reader.missing > 0 {
            return Err(reader.lacking());
        }
        Ok(self.end > 0)
    }

    /// Exactly so many bytes; false at the end of the region.
    pub(crate) fn fill(
        &mut self,
        reader: &mut Reader<'_>,
        into: &mut [u8],
    ) -> Result<bool, String> {
        let mut filled = 0;
        while filled < into.len() {
            if self.is_empty() && !self.refill(reader)? {
                return if filled == 0 { Ok(false) } else { Err("it ends within a name".into()) };
            }
            let read = self.rest().read(&mut into[filled..]).unwrap_or(0);
            self.at += read;
            filled += read;
        }
        Ok(true)
    }
}
