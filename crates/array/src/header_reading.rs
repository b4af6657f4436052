//! Reading the header of a file when its length is not known: 64 KiB first, then as much as
//! decoding asks for.

use std::sync::Arc;

use striate_file::File;

use crate::ArrayError;
use crate::file_state::agree_among;
use crate::format::{DecodeError, Format, Header, Problem};
use crate::netcdf4::{self, OpenedNetcdf4, Superblock};

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

/// The definitions of a file.
#[derive(Debug)]
pub(crate) enum FileDefinitions {
    /// The header of a classic file.
    Classic(Header),
    /// Those of an HDF5 file, and its layout.
    Netcdf4(Box<OpenedNetcdf4>),
}

impl FileDefinitions {
    /// The header, which leaves an empty one.
    pub(crate) fn take_header(&mut self) -> Header {
        let header = match self {
            Self::Classic(header) => header,
            Self::Netcdf4(opened) => &mut opened.header,
        };
        let empty = Header::new(header.format);
        std::mem::replace(header, empty)
    }
}

/// Reads the definitions on rank 0 and broadcasts them, for callers to which the format does not
/// matter. Collective.
pub(crate) fn read_header(
    file: &mut File,
    unfinished: UnfinishedFile,
) -> Result<Header, ArrayError> {
    match read_definitions(file, unfinished)? {
        FileDefinitions::Classic(header) => Ok(header),
        FileDefinitions::Netcdf4(opened) => Ok(opened.header),
    }
}

/// Reads the definitions on rank 0 and broadcasts them. Collective.
pub(crate) fn read_definitions(
    file: &mut File,
    unfinished: UnfinishedFile,
) -> Result<FileDefinitions, ArrayError> {
    read_definitions_with(file, unfinished, None)
}

/// The same, with a superblock of rank 0 in the place of the one in the file. Collective.
pub(crate) fn read_definitions_with(
    file: &mut File,
    unfinished: UnfinishedFile,
    superblock: Option<&Superblock>,
) -> Result<FileDefinitions, ArrayError> {
    let comm = Arc::clone(file.comm());
    let read = if comm.rank() == 0 {
        read_on_rank_0(file, unfinished, superblock).map(Some)
    } else {
        Ok(None)
    };
    let (found, mut bytes) = match agree_among(comm.as_ref(), read)? {
        Some(ReadByRank0::Classic(header, bytes)) => (Some(header), bytes),
        Some(ReadByRank0::Netcdf4(message)) => (None, message),
        None => (None, Vec::new()),
    };
    comm.broadcast(0, &mut bytes)?;
    match found {
        Some(header) => Ok(FileDefinitions::Classic(header)),
        None if bytes.starts_with(&Format::Netcdf4.magic()) => {
            let opened = netcdf4::decode_metadata(file, superblock, bytes)?;
            Ok(FileDefinitions::Netcdf4(Box::new(opened)))
        }
        // Rank 0 has decoded the same bytes.
        None => Header::decode(&bytes)
            .map(|(mut header, _)| {
                let records = bytes.last_chunk::<8>().map_or(0, |last| u64::from_le_bytes(*last));
                header.records = records;
                FileDefinitions::Classic(header)
            })
            .map_err(|source| ArrayError::Header { file: file.name(), source }),
    }
}

/// What rank 0 has read.
enum ReadByRank0 {
    /// The header of a classic file, and its bytes and the number of records, from which other
    /// ranks decode the same.
    Classic(Header, Vec<u8>),
    /// Metadata of an HDF5 file, which all ranks decode together.
    Netcdf4(Vec<u8>),
}

fn read_on_rank_0(
    file: &mut File,
    unfinished: UnfinishedFile,
    superblock: Option<&Superblock>,
) -> Result<ReadByRank0, ArrayError> {
    let name = file.name();
    let file_len = file.size()?;
    if netcdf4::is_hdf5(file, file_len)? {
        return netcdf4::read_metadata(file, superblock).map(ReadByRank0::Netcdf4);
    }
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
    Ok(ReadByRank0::Classic(header, bytes))
}
