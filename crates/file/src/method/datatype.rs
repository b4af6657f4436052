//! Datatype I/O: one request that carries the descriptions of both sides; the store expands them.

use striate_store::store::{Store, TypedRequest};

use crate::FileError;
use crate::access::FileSide;
use crate::memory::{Memory, MemoryMut, Shape};

fn request(file: &FileSide, shape: &Shape) -> TypedRequest {
    TypedRequest { file: file.placement().clone(), memory: shape.placement().clone() }
}

pub(crate) fn read(
    store: &dyn Store,
    file: &FileSide,
    to: &mut MemoryMut<'_>,
) -> Result<u64, FileError> {
    Ok(store.read_typed(&request(file, &to.shape), to.bytes())?)
}

pub(crate) fn write(
    store: &dyn Store,
    file: &FileSide,
    from: &Memory<'_>,
) -> Result<(), FileError> {
    Ok(store.write_typed(&request(file, &from.shape), from.bytes())?)
}
