//! [`Target`]: the part of an access that lies on this server, piece by piece.

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;

use striate_datatype::{Datatype, Packer, TypeError};
use striate_layout::striping::{Part, Share, Striping};
use striate_store::store::Placement;
use striate_wire::{Access, Bytes, Descriptions, Failure, FailureCode};

/// Steps in which the next part of a description must be found; some hundred milliseconds.
const SEARCH: u64 = 1 << 22;

/// What is wrong with a description that could be decoded.
pub(super) fn unusable(error: &TypeError) -> Failure {
    let code = match error {
        TypeError::Scattered { .. } => FailureCode::Unsupported,
        _ => FailureCode::Malformed,
    };
    Failure::new(code, format!("the description cannot be used: {error}"))
}

/// What an access means on this server.
pub(super) struct Target {
    striping: Striping,
    index: u32,
    pub(super) bytes: TargetBytes,
}

/// The bytes of the whole file that are meant.
pub(super) enum TargetBytes {
    Contiguous(Range<u64>),
    List(Vec<(u64, u32)>),
    Typed {
        /// All copies that are touched, as one type.
        copies: Datatype,
        packer: Packer,
        stream: Range<u64>,
        /// Mean length of a run.
        run: f64,
    },
}

impl Target {
    pub(super) fn new(access: &Access, descriptions: &Descriptions) -> Result<Self, Failure> {
        let share = &access.share;
        let strip = NonZeroU64::new(share.strip);
        let servers = NonZeroU32::new(share.servers);
        let (Some(strip), Some(servers)) = (strip, servers) else {
            let text = "a file has strips and servers";
            return Err(Failure::new(FailureCode::Malformed, text));
        };
        let bytes = match &access.bytes {
            Bytes::Contiguous { offset, len } => TargetBytes::Contiguous(*offset..offset + len),
            Bytes::List(regions) => TargetBytes::List(regions.clone()),
            &Bytes::Typed { id, displacement, start, len } => {
                let Some(datatype) = descriptions.get(&id) else {
                    let text = format!("datatype {id} is not known here (any more)");
                    return Err(Failure::new(FailureCode::UnknownType, text));
                };
                let datatype = Datatype::clone(&datatype);
                let placement = Placement { displacement, datatype, start, len };
                let copies = placement.as_type().map_err(|error| unusable(&error))?;
                let packer = Packer::new(&copies, 1).map_err(|error| unusable(&error))?;
                let run = copies.size() as f64 / copies.runs().max(1) as f64;
                TargetBytes::Typed { copies, packer, stream: start..start + len, run }
            }
        };
        Ok(Self { striping: Striping { strip, servers }, index: share.index, bytes })
    }

    /// One past the last byte of the object that may be meant, and how many bytes are at most.
    pub(super) fn reach(&self) -> (u64, u64) {
        let (end, bytes) = match &self.bytes {
            TargetBytes::Contiguous(range) => (range.end, range.end - range.start),
            TargetBytes::List(regions) => {
                regions.iter().fold((0, 0), |(end, bytes), &(offset, len)| {
                    let len = u64::from(len);
                    (end.max(offset + len), bytes + len)
                })
            }
            TargetBytes::Typed { copies, stream, .. } => {
                (copies.true_upper_bound().max(0) as u64, stream.end - stream.start)
            }
        };
        // Contiguous bytes are dealt out evenly; of other accesses all may be for this server.
        let end = self.striping.object_range(self.index, 0..end).end;
        (end, bytes.min(end))
    }

    /// The parts in the order of the stream; with `object_len` only those in front of an object's
    /// end.
    pub(super) fn parts(&self, object_len: Option<u64>) -> Result<Parts<'_>, Failure> {
        let limit = object_len.map_or(u64::MAX, |len| self.striping.offset_of(self.index, len));
        let (striping, index) = (self.striping, self.index);
        let cut = |range: Range<u64>| range.start.min(limit)..range.end.min(limit);
        Ok(match &self.bytes {
            TargetBytes::Contiguous(range) => {
                // In the object they lie together.
                let range = cut(range.clone());
                let object = striping.object_range(index, range.clone());
                Parts::One((!object.is_empty()).then(|| Part {
                    file: range.start..range.start + (object.end - object.start),
                    stream: 0..object.end - object.start,
                    object: object.start,
                }))
            }
            TargetBytes::List(regions) => {
                Parts::List { regions: regions.iter(), striping, index, limit }
            }
            TargetBytes::Typed { copies, stream, .. } => {
                let limit = i64::try_from(limit).unwrap_or(i64::MAX);
                let end = copies
                    .bytes_before(1, limit)
                    .map_err(|error| unusable(&error))?
                    .min(stream.end);
                let stream = stream.start.min(end)..end;
                Parts::Typed(
                    Share::of(striping, index, copies, stream).map_err(|error| unusable(&error))?,
                )
            }
        })
    }
}

/// See [`Target::parts`].
pub(super) enum Parts<'t> {
    One(Option<Part>),
    List { regions: std::slice::Iter<'t, (u64, u32)>, striping: Striping, index: u32, limit: u64 },
    Typed(Share<'t>),
}

impl Iterator for Parts<'_> {
    type Item = Result<Part, Failure>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::One(part) => part.take().map(Ok),
            Self::Typed(share) => {
                share.next_within(SEARCH).map_err(|error| unusable(&error)).transpose()
            }
            Self::List { regions, striping, index, limit } => loop {
                let &(offset, len) = regions.next()?;
                let end = (offset + u64::from(len)).min(*limit);
                let object = striping.object_range(*index, offset.min(end)..end);
                if !object.is_empty() {
                    let len = object.end - object.start;
                    return Some(Ok(Part { file: 0..len, stream: 0..len, object: object.start }));
                }
            },
        }
    }
}
