//! The posix method: one request per piece that is contiguous in memory and in the file.

use striate_datatype::{Cursor, Piece, Pieces};
use striate_store::store::Store;

use crate::FileError;
use crate::access::FileSide;
use crate::memory::{ContentMut, Memory, MemoryMut, Shape};

/// The pieces of an access, from byte `skip` of its stream on: index in memory, offset in the file,
/// length.
pub(crate) fn pieces<'a>(
    file: &'a FileSide,
    shape: &'a Shape,
    skip: u64,
) -> Result<impl Iterator<Item = (usize, u64, usize)> + use<'a>, FileError> {
    let place = shape.placement();
    let mut memory = Cursor::new(&place.datatype, place.count)?;
    memory.seek(skip);
    let mut walk = file.walk()?;
    walk.seek(file.placement().start + skip);
    let mut pieces = Pieces::new(memory, walk);
    let mut left = file.len().saturating_sub(skip);
    Ok(std::iter::from_fn(move || {
        let Piece { memory, file, len } = pieces.next_piece(left)?;
        left -= len;
        // Inside of the buffer and not negative: checked when memory and view were described.
        Some(((place.origin as i64 + memory) as usize, file as u64, len as usize))
    }))
}

pub(crate) fn read(
    store: &dyn Store,
    file: &FileSide,
    to: &mut MemoryMut<'_>,
) -> Result<u64, FileError> {
    let MemoryMut { content: ContentMut::Bytes(bytes), shape } = to else { return Ok(0) };
    let mut total = 0;
    for (memory, offset, len) in pieces(file, shape, 0)? {
        let got = store.read_at(offset, &mut bytes[memory..memory + len])?;
        total += got as u64;
        if got < len {
            break;
        }
    }
    Ok(total)
}

pub(crate) fn write(
    store: &dyn Store,
    file: &FileSide,
    from: &Memory<'_>,
) -> Result<(), FileError> {
    for (memory, offset, len) in pieces(file, &from.shape, 0)? {
        store.write_at(offset, &from.bytes()[memory..memory + len])?;
    }
    Ok(())
}
