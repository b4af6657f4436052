//! List I/O: requests that carry lists of regions, up to a limit of file regions each.

use striate_layout::characteristics::PIECES_PER_LIST_REQUEST;
use striate_store::store::{Region, Store};

use crate::FileError;
use crate::access::FileSide;
use crate::memory::{ContentMut, Memory, MemoryMut, Shape};
use crate::method::posix::pieces;

/// Calls `carry_out` with requests of at most `limit` file regions, until it returns `false`.
fn requests(
    file: &FileSide,
    shape: &Shape,
    limit: u64,
    mut carry_out: impl FnMut(&[Region]) -> Result<bool, FileError>,
) -> Result<(), FileError> {
    let mut request: Vec<Region> = Vec::new();
    let (mut regions, mut end) = (0, None);
    for (memory, offset, len) in pieces(file, shape, 0)? {
        let new_region = end != Some(offset);
        if (new_region && regions == limit) || request.len() as u64 == PIECES_PER_LIST_REQUEST {
            if !carry_out(&request)? {
                return Ok(());
            }
            request.clear();
            regions = 0;
        }
        regions += u64::from(new_region || request.is_empty());
        request.push(Region { memory, offset, len });
        end = Some(offset + len as u64);
    }
    if !request.is_empty() {
        carry_out(&request)?;
    }
    Ok(())
}

pub(crate) fn read(
    store: &dyn Store,
    file: &FileSide,
    to: &mut MemoryMut<'_>,
    limit: u64,
) -> Result<u64, FileError> {
    let MemoryMut { content: ContentMut::Bytes(bytes), shape } = to else { return Ok(0) };
    let mut total = 0;
    requests(file, shape, limit, |regions| {
        let got = store.read_list(regions, bytes)?;
        total += got;
        Ok(got == regions.iter().map(|region| region.len as u64).sum::<u64>())
    })?;
    Ok(total)
}

pub(crate) fn write(
    store: &dyn Store,
    file: &FileSide,
    from: &Memory<'_>,
    limit: u64,
) -> Result<(), FileError> {
    requests(file, &from.shape, limit, |regions| {
        store.write_list(regions, from.bytes())?;
        Ok(true)
    })
}
