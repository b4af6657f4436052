//! Implicit index: all chunks one after the other.

use std::ops::ControlFlow;

use super::{ChunkVisitor, Indexed};
use crate::model::{Address, Chunk};
use crate::walk::Walk;
use crate::{Error, Reason, Result, Structure};

pub(super) fn visit(
    walk: &Walk<'_>,
    indexed: &Indexed<'_>,
    address: Address,
    visitor: &mut ChunkVisitor<'_>,
) -> Result<ControlFlow<()>> {
    let count = indexed.grid.count();
    let available = walk.available(address);
    let needed = count.checked_mul(indexed.bytes);
    if needed.is_none_or(|needed| needed > available) {
        let reason = Reason::Truncated { needed: needed.unwrap_or(u64::MAX), available };
        return Err(Error::at(Structure::Chunk, address, reason));
    }
    for number in indexed.first_number()..count {
        let Some(offset) = indexed.grid.offset(number) else { continue };
        let address = Address(address.0 + number * indexed.bytes);
        let chunk = Chunk { offset, address, size: indexed.bytes, filter_mask: 0 };
        if visitor(chunk)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}
