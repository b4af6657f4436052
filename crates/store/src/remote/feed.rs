//! [`Feed`]: the pieces of one server, frame by frame, between memory and a connection.
//!
//! Bytes travel straight between the caller's memory and the socket where a frame is made of few
//! pieces; where pieces are many and small, or memory has a type of its own, they pass through a
//! buffer of one frame.

use std::io::{IoSlice, IoSliceMut, Read, Write};

use striate_wire::limits::MAX_DATA;
use striate_wire::{Connection, Header, Malformed, WireError};

use super::pieces::{Piece, RemoteRequest};
use super::unsynced::Kept;

/// Most pieces of a frame that go to the system one by one.
const SLICES: usize = 128;

/// Bytes of a frame.
pub(super) const FRAME: usize = MAX_DATA as usize;

/// See the module.
pub(super) struct Feed<'w> {
    wanted: &'w RemoteRequest<'w>,
    pieces: Box<dyn Iterator<Item = Piece> + 'w>,
    next: Option<Piece>,
}

impl<'w> Feed<'w> {
    pub(super) fn new(
        wanted: &'w RemoteRequest<'w>,
        mut pieces: Box<dyn Iterator<Item = Piece> + 'w>,
    ) -> Self {
        let next = pieces.next();
        Self { wanted, pieces, next }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.next.is_none()
    }

    /// The next pieces, of at most `most` bytes.
    fn take(&mut self, most: usize) -> Vec<Piece> {
        let mut pieces: Vec<Piece> = Vec::new();
        let mut left = most;
        while left > 0
            && let Some(mut piece) = self.next.take()
        {
            let first = piece.split_off(piece.len().min(left));
            left -= first.len();
            // Strips of one server alone lie next to each other.
            match (pieces.last_mut(), &first) {
                (Some(Piece::Memory(last)), Piece::Memory(range)) if last.end == range.start => {
                    last.end = range.end;
                }
                (Some(Piece::Stream(last)), Piece::Stream(range)) if last.end == range.start => {
                    last.end = range.end;
                }
                _ => pieces.push(first),
            }
            self.next = if piece.len() > 0 { Some(piece) } else { self.pieces.next() };
        }
        pieces
    }

    /// Sends the next frame. Its bytes are kept too, as long as there is room for all of them.
    pub(super) fn send<S: Write>(
        &mut self,
        connection: &mut Connection<S>,
        id: u64,
        memory: &[u8],
        bounce: &mut Vec<u8>,
        kept: &mut Option<Kept>,
    ) -> Result<(), WireError> {
        let pieces = self.take(FRAME);
        if let Some(ranges) = in_memory(&pieces) {
            let slices: Vec<_> = ranges.map(|range| IoSlice::new(&memory[range])).collect();
            keep(kept, &slices);
            return connection.send_data_parts(id, &slices);
        }
        bounce.clear();
        for piece in &pieces {
            match piece {
                Piece::Memory(range) => bounce.extend_from_slice(&memory[range.clone()]),
                Piece::Stream(range) => {
                    let from = bounce.len();
                    bounce.resize(from + piece.len(), 0);
                    if let Some((packer, origin)) = self.wanted.packer() {
                        // The request was checked against the memory.
                        let _ =
                            packer.pack_window(memory, origin, range.start, &mut bounce[from..]);
                    }
                }
            }
        }
        keep(kept, &[IoSlice::new(bounce)]);
        connection.send_data(id, bounce)
    }

    /// Receives the frame that a header announces.
    pub(super) fn receive<S: Read>(
        &mut self,
        connection: &mut Connection<S>,
        header: &Header,
        memory: &mut [u8],
        bounce: &mut Vec<u8>,
    ) -> Result<(), WireError> {
        let pieces = self.take(header.len as usize);
        let expected: usize = pieces.iter().map(Piece::len).sum();
        if expected != header.len as usize || expected == 0 {
            let expected = expected as u64;
            return Err(Malformed::DataLen { expected, found: header.len }.into());
        }
        if let Some(mut slices) = slices_of(&pieces, memory) {
            return connection.receive_data_parts(header, &mut slices);
        }
        bounce.resize(expected, 0);
        connection.receive_data(header, bounce)?;
        self.put(&pieces, bounce, memory);
        Ok(())
    }

    /// Puts zeros where all pieces lie.
    pub(super) fn clear(mut self, memory: &mut [u8]) {
        let zeros = vec![0; FRAME];
        while !self.is_empty() {
            let pieces = self.take(FRAME);
            self.put(&pieces, &zeros, memory);
        }
    }

    fn put(&self, pieces: &[Piece], mut bytes: &[u8], memory: &mut [u8]) {
        for piece in pieces {
            let (these, rest) = bytes.split_at(piece.len());
            bytes = rest;
            match piece {
                Piece::Memory(range) => memory[range.clone()].copy_from_slice(these),
                Piece::Stream(range) => {
                    if let Some((packer, origin)) = self.wanted.packer() {
                        // The request was checked against the memory.
                        let _ = packer.unpack_window(range.start, these, memory, origin);
                    }
                }
            }
        }
    }
}

/// Keeps a frame; if there is no room for it, nothing of the request.
fn keep(kept: &mut Option<Kept>, parts: &[IoSlice<'_>]) {
    let Some(all) = kept else { return };
    match all.frame(parts.iter().map(|part| part.len()).sum()) {
        Some(frame) => parts.iter().for_each(|part| frame.extend_from_slice(part)),
        None => *kept = None,
    }
}

/// The ranges of memory that the pieces are, if they are such and not too many.
fn in_memory(pieces: &[Piece]) -> Option<impl Iterator<Item = std::ops::Range<usize>> + '_> {
    let few = pieces.len() <= SLICES && pieces.iter().all(|p| matches!(p, Piece::Memory(_)));
    few.then(|| {
        pieces.iter().filter_map(|piece| match piece {
            Piece::Memory(range) => Some(range.clone()),
            Piece::Stream(_) => None,
        })
    })
}

/// The same as slices to read into, if the ranges ascend.
fn slices_of<'m>(pieces: &[Piece], memory: &'m mut [u8]) -> Option<Vec<IoSliceMut<'m>>> {
    let mut slices = Vec::with_capacity(pieces.len());
    let (mut rest, mut from) = (memory, 0);
    for range in in_memory(pieces)? {
        if range.start < from {
            return None;
        }
        let (_, after) = rest.split_at_mut(range.start - from);
        let (slice, after) = after.split_at_mut(range.end - range.start);
        slices.push(IoSliceMut::new(slice));
        (rest, from) = (after, range.end);
    }
    Some(slices)
}
