//! Reading the header of a file when its length is not known: 64 KiB first, then as much as
//! decoding asks for.

use std::sync::Arc;

use striate_file::File;

use crate::ArrayError;
use crate::file_state::agree_among;
use crate::format::{DecodeError, Header, Problem};

/// Longer headers are not read: no program writes them, and a header is held in memory.
const LONGEST_HEADER: u64 = 1 << 30;
/// Bytes that are read first.
const FIRST_READ: u64 = 64 << 10;

/// What to do with a file whose magic number says that its writer has not finished it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnfinishedFile {
    Refuse,
    /// Read it like any other.
    Accept,
}

/// A header that was read.
#[derive(Debug)]
pub(crate) struct FoundHeader {
    pub(crate) header: Header,
    /// Its bytes; the magic number is that of a finished file.
    pub(crate) bytes: Vec<u8>,
}

/// Reads and decodes the header of a file of `file_len` bytes. `read` reads at an offset, and
/// returns fewer bytes than the buffer has only at the end of the file.
pub(crate) fn read_growing<E>(
    file_len: u64,
    unfinished: UnfinishedFile,
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, E>,
) -> Result<Result<FoundHeader, DecodeError>, E> {
    let mut bytes = Vec::new();
    let mut wanted = FIRST_READ;
    loop {
        let have = bytes.len();
        bytes.resize(wanted.min(file_len) as usize, 0);
        let got = read(have as u64, &mut bytes[have..])?;
        bytes.truncate(have + got);
        if unfinished == UnfinishedFile::Accept && bytes.starts_with(b"cdf") {
            bytes[..3].copy_from_slice(b"CDF");
        }
        match Header::decode(&bytes) {
            Ok((header, len)) => {
                bytes.truncate(len as usize);
                return Ok(Ok(FoundHeader { header, bytes }));
            }
            Err(DecodeError { problem: Problem::Truncated { needed }, .. })
                if (bytes.len() as u64) < file_len && needed <= file_len.min(LONGEST_HEADER) =>
            {
                wanted = needed.max(2 * wanted).min(LONGEST_HEADER);
            }
            Err(error) => return Ok(Err(error)),
        }
    }
}

/// Reads the header on rank 0 and broadcasts it. Collective.
pub(crate) fn read_header(
    file: &mut File,
    unfinished: UnfinishedFile,
) -> Result<Header, ArrayError> {
    let comm = Arc::clone(file.comm());
    let name = file.name();
    let read = if comm.rank() == 0 { read_on_rank_0(file, unfinished).map(Some) } else { Ok(None) };
    let found = agree_among(comm.as_ref(), read)?;
    let (header, mut bytes) =
        found.map_or((None, Vec::new()), |(header, bytes)| (Some(header), bytes));
    comm.broadcast(0, &mut bytes)?;
    match header {
        Some(header) => Ok(header),
        // Rank 0 has decoded the same bytes.
        None => Header::decode(&bytes)
            .map(|(mut header, _)| {
                let records = bytes.last_chunk::<8>().map_or(0, |last| u64::from_le_bytes(*last));
                header.records = records;
                header
            })
            .map_err(|source| ArrayError::Header { file: name, source }),
    }
}

/// The header, and its bytes followed by the number of records.
fn read_on_rank_0(
    file: &mut File,
    unfinished: UnfinishedFile,
) -> Result<(Header, Vec<u8>), ArrayError> {
    let name = file.name();
    let file_len = file.size()?;
    let read = read_growing(file_len, unfinished, |offset, bytes| {
        file.read_at(offset, bytes).map(|got| got as usize)
    })?;
    let FoundHeader { mut header, mut bytes } = match read {
        Ok(found) => found,
        Err(DecodeError { problem: Problem::Unfinished { .. }, .. }) => {
            return Err(ArrayError::Unfinished { file: name });
        }
        Err(source) => return Err(ArrayError::Header { file: name, source }),
    };
    if header.records == Header::STREAMING {
        header.records = header.records_in(file_len);
    }
    bytes.extend_from_slice(&header.records.to_le_bytes());
    Ok((header, bytes))
}
