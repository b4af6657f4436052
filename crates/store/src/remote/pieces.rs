//! [`RemoteRequest`]: the parts of a request by server, and their places in memory.
//!
//! A server sends and receives the bytes of its strips one after the other. Inside of a strip they
//! follow each other in the stream of the request, too, so where the stream lies together in memory
//! every strip is one piece of it, however many runs it has in the file. Runs are the server's
//! business.

use std::ops::Range;

use striate_datatype::{Datatype, Packer, TypeError};
use striate_layout::striping::{Share, Striping};
use striate_wire::{Bytes, TypeId};

use crate::error::Malformed;
use crate::store::{MemoryPlacement, Region, TypedRequest};

/// Steps in which the first byte on a server must be found; servers allow for as many.
const SEARCH: u64 = 1 << 22;

/// What a request means.
pub(super) enum RemoteRequest<'r> {
    /// `len` bytes at `offset`, which are those of memory from index `memory` on.
    Contiguous {
        offset: u64,
        len: u64,
        memory: usize,
    },
    List(&'r [Region]),
    Typed(Box<Typed<'r>>),
}

/// A described request.
pub(super) struct Typed<'r> {
    request: &'r TypedRequest,
    pub(super) id: TypeId,
    pub(super) encoding: Vec<u8>,
    /// All copies that are touched, as one type with the file's offsets.
    copies: Datatype,
    memory: StreamMemory,
}

/// How the stream of a request lies in memory.
enum StreamMemory {
    /// Together, from this index on.
    Contiguous(usize),
    /// As the packer says.
    Packed(Box<Packer>),
}

/// Bytes of a request that one server has next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// Of memory.
    Memory(Range<usize>),
    /// Of the stream of memory that a packer knows.
    Stream(Range<u64>),
}

impl Piece {
    pub(super) const fn len(&self) -> usize {
        match self {
            Self::Memory(range) => range.end - range.start,
            Self::Stream(range) => (range.end - range.start) as usize,
        }
    }

    /// Cuts the first `len` bytes off.
    pub(super) fn split_off(&mut self, len: usize) -> Self {
        match self {
            Self::Memory(range) => {
                let first = range.start..range.start + len;
                range.start = first.end;
                Self::Memory(first)
            }
            Self::Stream(range) => {
                let first = range.start..range.start + len as u64;
                range.start = first.end;
                Self::Stream(first)
            }
        }
    }
}

impl<'r> Typed<'r> {
    /// The request, which has been checked against its memory.
    pub(super) fn new(request: &'r TypedRequest) -> Result<Self, Malformed> {
        let unusable = |side| move |source: TypeError| Malformed::Description { side, source };
        let copies = request.file.as_type().map_err(unusable("file"))?;
        let encoding = request.file.datatype.encode();
        let id = TypeId::of(&encoding);
        let MemoryPlacement { origin, datatype, count, .. } = &request.memory;
        let all = Datatype::contiguous(*count, datatype).map_err(unusable("memory"))?;
        let memory = if all.is_contiguous() {
            StreamMemory::Contiguous((*origin as i64).wrapping_add(all.true_lower_bound()) as usize)
        } else {
            StreamMemory::Packed(Box::new(Packer::new(&all, 1).map_err(unusable("memory"))?))
        };
        Ok(Self { request, id, encoding, copies, memory })
    }

    /// Whether it can be shared out: its bytes ascend, and their first on every server are found
    /// soon.
    pub(super) fn is_found(&self, striping: Striping) -> bool {
        let stream = self.stream(&(0..u64::MAX));
        (0..striping.servers.get()).all(|server| {
            Share::of(striping, server, &self.copies, stream.clone())
                .and_then(|mut share| share.next_within(SEARCH))
                .is_ok()
        })
    }

    /// The positions in the file's stream of what lies in a range of the file.
    fn stream(&self, within: &Range<u64>) -> Range<u64> {
        let file = &self.request.file;
        let before = |offset: u64| {
            let offset = i64::try_from(offset).unwrap_or(i64::MAX);
            let before = self.copies.bytes_before(1, offset).unwrap_or(0);
            before.clamp(file.start, file.start + file.len)
        };
        before(within.start)..before(within.end)
    }

    fn piece(&self, stream: &Range<u64>) -> Piece {
        let from = |position: u64| position - self.request.file.start + self.request.memory.start;
        let (start, end) = (from(stream.start), from(stream.end));
        match &self.memory {
            StreamMemory::Contiguous(first) => {
                Piece::Memory(first + start as usize..first + end as usize)
            }
            StreamMemory::Packed(_) => Piece::Stream(start..end),
        }
    }
}

impl RemoteRequest<'_> {
    /// The request as a server understands it: of a list only the regions that it has something of,
    /// and those that touch in the file as one.
    pub(super) fn bytes(&self, striping: Striping, server: u32) -> Bytes {
        match self {
            &Self::Contiguous { offset, len, .. } => Bytes::Contiguous { offset, len },
            Self::List(regions) => {
                let mut list: Vec<(u64, u32)> = Vec::new();
                for region in *regions {
                    let (offset, len) = (region.offset, region.len as u32);
                    if striping.object_range(server, offset..region.end()).is_empty() {
                        continue;
                    }
                    match list.last_mut() {
                        Some((start, before))
                            if *start + u64::from(*before) == offset
                                && before.checked_add(len).is_some() =>
                        {
                            *before += len;
                        }
                        _ => list.push((offset, len)),
                    }
                }
                Bytes::List(list)
            }
            Self::Typed(typed) => {
                let file = &typed.request.file;
                let (displacement, start, len) = (file.displacement, file.start, file.len);
                Bytes::Typed { id: typed.id, displacement, start, len }
            }
        }
    }

    /// How many bytes of the request lie before `end` in the file.
    pub(super) fn before(&self, end: u64) -> u64 {
        match self {
            &Self::Contiguous { offset, len, .. } => end.saturating_sub(offset).min(len),
            Self::List(regions) => {
                regions.iter().map(|r| end.saturating_sub(r.offset).min(r.len as u64)).sum()
            }
            Self::Typed(typed) => typed.stream(&(0..end)).end - typed.request.file.start,
        }
    }

    /// Whether a server has any of the bytes.
    pub(super) fn concerns(&self, striping: Striping, server: u32) -> bool {
        self.pieces(striping, server, 0..u64::MAX).next().is_some()
    }

    /// The bytes that a server has within a range of the file, in the order in which they travel.
    pub(super) fn pieces(
        &self,
        striping: Striping,
        server: u32,
        within: Range<u64>,
    ) -> Box<dyn Iterator<Item = Piece> + '_> {
        let clip = move |range: Range<u64>| {
            let end = range.end.min(within.end);
            range.start.max(within.start).min(end)..end
        };
        match self {
            &Self::Contiguous { offset, len, memory } => {
                let parts = Share::of_range(striping, server, clip(offset..offset + len));
                Box::new(parts.map(move |part| {
                    let index = |at: u64| memory + (at - offset) as usize;
                    Piece::Memory(index(part.file.start)..index(part.file.end))
                }))
            }
            Self::List(regions) => Box::new(regions.iter().flat_map(move |region| {
                let range = clip(region.offset..region.offset + region.len as u64);
                Share::of_range(striping, server, range).map(move |part| {
                    let index = |at: u64| region.memory + (at - region.offset) as usize;
                    Piece::Memory(index(part.file.start)..index(part.file.end))
                })
            })),
            Self::Typed(typed) => {
                let stream = typed.stream(&clip(0..u64::MAX));
                // A type that could not be shared out was refused before.
                let parts = Share::of(striping, server, &typed.copies, stream).ok();
                Box::new(parts.into_iter().flatten().map(|part| typed.piece(&part.stream)))
            }
        }
    }

    /// The packer of memory that does not lie together.
    pub(super) fn packer(&self) -> Option<(&Packer, usize)> {
        match self {
            Self::Typed(typed) => match &typed.memory {
                StreamMemory::Packed(packer) => Some((packer, typed.request.memory.origin)),
                StreamMemory::Contiguous(_) => None,
            },
            _ => None,
        }
    }
}
