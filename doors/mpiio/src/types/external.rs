//! Conversion between memory and the stream of bytes of an external32 file.
//!
//! `striate_file` requests parts of the stream, cut at any byte. They are packed in pieces that
//! stay in a core's cache and converted there; the whole stream is never in memory. Elements that
//! are cut are converted one by one, and on reads kept until all their bytes have arrived.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use striate_datatype::{Datatype, PackError, Packer};
use striate_file::{FileError, Gather, Scatter};

use super::element::InRange;
use super::signature::{Run, Signature};
use super::{Described, TypeProblem};

/// Bytes of the file's stream that are converted at a time.
const PIECE: u64 = 32 << 10;

/// Bytes of the longest element, on either side.
const LONGEST: usize = 16;

/// How copies of a type lie in memory.
#[derive(Debug)]
struct Layout {
    packer: Packer,
    origin: usize,
    /// Where the first byte is, if they are one run.
    dense: Option<usize>,
    signature: Arc<Signature>,
}

impl Layout {
    fn new(len: usize, origin: usize, count: u64, of: &Described) -> Result<Self, FileError> {
        let no_external = |problem: TypeProblem| FileError::Argument {
            call: "external32",
            reason: problem.to_string(),
        };
        let signature = of.external().map_err(no_external)?.signature.repeated(count)?;
        let all = Datatype::contiguous(count, &of.datatype)?;
        let packer = Packer::new(&all, 1)?;
        packer.fits(len, origin)?;
        // Inside of the memory, as was just checked.
        let dense = (all.runs() == 1)
            .then(|| (origin as i64).wrapping_add(all.true_lower_bound()) as usize);
        Ok(Self { packer, origin, dense, signature })
    }

    /// The part of `range` that is converted next: it ends at an element boundary, except for the
    /// last part.
    fn piece(&self, range: &Range<u64>) -> Range<u64> {
        if range.end - range.start <= PIECE {
            return range.clone();
        }
        range.start..self.signature.locate(range.start + PIECE).external
    }

    /// The elements that have bytes in a part of the file's stream: where they lie in the stream of
    /// memory, and in the file's.
    fn elements(&self, range: &Range<u64>) -> [Range<u64>; 2] {
        let first = self.signature.locate(range.start);
        let last = self.signature.locate(range.end - 1);
        [first.native..last.native_end(), first.external..last.external_end()]
    }

    fn check(&self, position: u64, len: usize) -> Result<Range<u64>, PackError> {
        let size = self.signature.external();
        let end = position.checked_add(len as u64).filter(|&end| end <= size);
        let window = PackError::Window { start: position, len: len as u64, size };
        end.map(|end| position..end).ok_or(window)
    }
}

/// Memory that is converted and written to an external32 file.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    bytes: &'a [u8],
    layout: Layout,
    all_in_range: AtomicBool,
}

impl<'a> Outgoing<'a> {
    /// `count` copies of a type, the first of which has its origin at index `origin` of `bytes`.
    pub(crate) fn new(
        bytes: &'a [u8],
        origin: usize,
        count: u64,
        of: &Described,
    ) -> Result<Self, FileError> {
        let layout = Layout::new(bytes.len(), origin, count, of)?;
        Ok(Self { bytes, layout, all_in_range: AtomicBool::new(true) })
    }

    /// Whether every requested value could be converted: external32 has 4 bytes for a `long`, 2 for
    /// a wide character.
    pub(crate) fn all_in_range(&self) -> bool {
        self.all_in_range.load(Ordering::Relaxed)
    }

    /// Converts elements from `native`, which holds the stream of memory from byte `start` on.
    fn encode(&self, range: &Range<u64>, native: &[u8], start: u64, stream: &mut [u8]) {
        let base = range.start;
        self.layout.signature.runs(range.clone(), &mut |run: Run| {
            let mut rest = run;
            while let Some((whole, part)) = next_part(&mut rest, range) {
                let from = (part.native - start) as usize..(part.native_end() - start) as usize;
                let in_range = if whole {
                    let to = (part.external - base) as usize..(part.external_end() - base) as usize;
                    part.element.encode(&native[from], &mut stream[to])
                } else {
                    let mut element = [0; LONGEST];
                    let element = &mut element[..part.element.external() as usize];
                    let in_range = part.element.encode(&native[from], element);
                    let (cut, at) = cut(&part, range);
                    stream[at..at + cut.len()].copy_from_slice(&element[cut]);
                    in_range
                };
                if in_range == InRange::NotAll {
                    self.all_in_range.store(false, Ordering::Relaxed);
                }
            }
        });
    }
}

/// Takes from a run all elements that lie in `range` completely, or one that does not.
fn next_part(rest: &mut Run, range: &Range<u64>) -> Option<(bool, Run)> {
    if rest.count == 0 {
        return None;
    }
    let size = rest.element.external();
    let whole = if rest.external < range.start {
        0
    } else {
        rest.count.min((range.end - rest.external) / size)
    };
    let part = Run { count: whole.max(1), ..*rest };
    rest.native = part.native_end();
    rest.external = part.external_end();
    rest.count -= part.count;
    Some((whole > 0, part))
}

/// Which bytes of an element lie in `range`, and where there.
fn cut(element: &Run, range: &Range<u64>) -> (Range<usize>, usize) {
    let low = range.start.max(element.external);
    let high = range.end.min(element.external_end());
    let bytes = (low - element.external) as usize..(high - element.external) as usize;
    (bytes, (low - range.start) as usize)
}

impl Gather for Outgoing<'_> {
    fn stream_len(&self) -> u64 {
        self.layout.signature.external()
    }

    fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError> {
        let layout = &self.layout;
        let mut left = layout.check(position, stream.len())?;
        let mut scratch = Vec::new();
        while left.start < left.end {
            let range = layout.piece(&left);
            let piece =
                &mut stream[(range.start - position) as usize..(range.end - position) as usize];
            let [native, external] = layout.elements(&range);
            let packed = (native.end - native.start) as usize;
            if let Some(first) = layout.dense {
                let from = &self.bytes[first + native.start as usize..][..packed];
                self.encode(&range, from, native.start, piece);
            } else if layout.signature.has_same_sizes() && external == range {
                layout.packer.pack_window(self.bytes, layout.origin, native.start, piece)?;
                let start = range.start;
                layout.signature.runs(range.clone(), &mut |run| {
                    let at = (run.external - start) as usize..(run.external_end() - start) as usize;
                    run.element.encode_in_place(&mut piece[at]);
                });
            } else {
                scratch.resize(packed, 0);
                layout.packer.pack_window(self.bytes, layout.origin, native.start, &mut scratch)?;
                self.encode(&range, &scratch, native.start, piece);
            }
            left.start = range.end;
        }
        Ok(())
    }
}

/// Memory that is filled from an external32 file.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    bytes: &'a mut [u8],
    layout: Layout,
    /// Elements of which a part has arrived, by their positions in the file's stream.
    cut: HashMap<u64, PartialElement>,
    scratch: Vec<u8>,
}

/// An element of which a part has arrived.
#[derive(Clone, Copy, Debug, Default)]
struct PartialElement {
    bytes: [u8; LONGEST],
    have: u8,
}

impl<'a> Incoming<'a> {
    /// `count` copies of a type, the first of which has its origin at index `origin` of `bytes`.
    pub(crate) fn new(
        bytes: &'a mut [u8],
        origin: usize,
        count: u64,
        of: &Described,
    ) -> Result<Self, FileError> {
        let layout = Layout::new(bytes.len(), origin, count, of)?;
        Ok(Self { bytes, layout, cut: HashMap::new(), scratch: Vec::new() })
    }

    /// Converts whole elements: `stream` holds the part `range` of the file's stream.
    fn decode(&mut self, range: &Range<u64>, stream: &[u8]) -> Result<(), FileError> {
        let layout = &self.layout;
        let [native, _] = layout.elements(range);
        let len = (native.end - native.start) as usize;
        let room = if let Some(first) = layout.dense {
            &mut self.bytes[first + native.start as usize..][..len]
        } else {
            self.scratch.resize(len, 0);
            &mut self.scratch[..]
        };
        layout.signature.runs(range.clone(), &mut |run| {
            let from =
                (run.external - range.start) as usize..(run.external_end() - range.start) as usize;
            let to =
                (run.native - native.start) as usize..(run.native_end() - native.start) as usize;
            run.element.decode(&stream[from], &mut room[to]);
        });
        if layout.dense.is_none() {
            layout.packer.unpack_window(native.start, &self.scratch, self.bytes, layout.origin)?;
        }
        Ok(())
    }

    /// Keeps bytes of one element until the rest has arrived.
    fn keep(&mut self, element: &Run, bytes: Range<usize>, part: &[u8]) -> Result<(), FileError> {
        let size = element.element.external() as usize;
        let cut = self.cut.entry(element.external).or_default();
        cut.have += bytes.len() as u8;
        cut.bytes[bytes].copy_from_slice(part);
        if usize::from(cut.have) >= size {
            let whole = cut.bytes;
            self.cut.remove(&element.external);
            self.decode(&(element.external..element.external_end()), &whole[..size])?;
        }
        Ok(())
    }
}

impl Scatter for Incoming<'_> {
    fn stream_len(&self) -> u64 {
        self.layout.signature.external()
    }

    fn scatter(&mut self, position: u64, stream: &[u8]) -> Result<(), FileError> {
        let mut left = self.layout.check(position, stream.len())?;
        while left.start < left.end {
            let element = self.layout.signature.locate(left.start);
            let last = self.layout.signature.locate(left.end - 1);
            let at = |range: &Range<u64>| {
                (range.start - position) as usize..(range.end - position) as usize
            };
            // The complete elements end where the last one begins, if that is cut.
            let whole_end = if last.external_end() > left.end { last.external } else { left.end };
            if element.external < left.start || whole_end <= left.start {
                let range = left.start..left.end.min(element.external_end());
                let (bytes, _) = cut(&element, &range);
                self.keep(&element, bytes, &stream[at(&range)])?;
                left.start = range.end;
            } else {
                let range = self.layout.piece(&(left.start..whole_end));
                self.decode(&range, &stream[at(&range)])?;
                left.start = range.end;
            }
        }
        Ok(())
    }
}
