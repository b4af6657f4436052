//! Memory as the stream of bytes that the file holds: packing and conversion in one pass.
//!
//! The file room asks for any part of the stream, cut anywhere. Whole elements are packed and converted
//! in pieces that stay in a core's cache, so that the conversion costs no pass of its own through
//! memory; elements that a part cuts are converted alone.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use striate_datatype::Packer;
use striate_file::{FileError, Gather, Scatter};

use crate::format::{Format, Type};
use crate::value::{Conversion, InRange, Kind};

/// Bytes that are packed before they are converted.
const PIECE: usize = 32 << 10;

/// Rows of a view that has gaps: its elements in order, by their number.
pub(crate) trait Rows: std::fmt::Debug + Sync {
    /// Copies the elements from `first` on into `packed`.
    fn fetch(&self, first: u64, packed: &mut [u8]);
}

/// The same, to be changed.
pub(crate) trait RowsMut: std::fmt::Debug {
    /// Copies `packed` to the elements from `first` on.
    fn store(&mut self, first: u64, packed: &[u8]);
}

/// Where the elements to be written are.
#[derive(Debug)]
pub(crate) enum Bytes<'a> {
    Dense(&'a [u8]),
    Typed {
        bytes: &'a [u8],
        origin: usize,
        packer: Packer,
    },
    Rows(Box<dyn Rows + 'a>),
    /// Copied, dense.
    Owned(Vec<u8>),
}

/// Where the elements that are read go.
#[derive(Debug)]
pub(crate) enum BytesMut<'a> {
    Dense(&'a mut [u8]),
    Typed { bytes: &'a mut [u8], origin: usize, packer: Packer },
    Rows(Box<dyn RowsMut + 'a>),
}

/// Elements on their way to the file.
#[derive(Debug)]
pub(crate) struct Outgoing<'a> {
    bytes: Bytes<'a>,
    conversion: Conversion,
    elements: u64,
    all_in_range: AtomicBool,
}

/// Elements on their way from the file.
#[derive(Debug)]
pub(crate) struct Incoming<'a> {
    bytes: BytesMut<'a>,
    conversion: Conversion,
    elements: u64,
    all_in_range: bool,
    /// Elements of which a part has come, and which bytes.
    cut: Vec<Cut>,
    scratch: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Cut {
    element: u64,
    bytes: [u8; 8],
    have: u8,
}

/// How a part of the stream meets elements.
struct Split {
    /// Bytes of an element that began before.
    head: Range<usize>,
    /// Whole elements, by their numbers.
    whole: Range<u64>,
    /// Bytes of an element that goes on behind.
    tail: Range<usize>,
}

impl Split {
    /// Of `len` bytes from `position` on, with elements of `size` bytes.
    fn new(position: u64, len: usize, size: u64) -> Self {
        let end = position + len as u64;
        let first = position / size;
        let begun = (position % size) as usize;
        if begun > 0 && end < (first + 1) * size {
            let head = begun..begun + len;
            return Self { head, whole: first + 1..first + 1, tail: 0..0 };
        }
        let head = if begun > 0 { begun..size as usize } else { 0..0 };
        let whole = position.div_ceil(size)..end / size;
        Self { head, whole, tail: 0..(end % size) as usize }
    }
}

/// Bytes that are as the file holds them.
const RAW: Conversion =
    Conversion { memory: Kind::Text, external: Type::Char, format: Format::Cdf5, fill: [0; 8] };

impl<'a> Outgoing<'a> {
    /// Bytes that are as the file holds them.
    pub(crate) const fn raw(bytes: &'a [u8]) -> Self {
        Self::new(Bytes::Dense(bytes), RAW, bytes.len() as u64)
    }

    pub(crate) const fn new(bytes: Bytes<'a>, conversion: Conversion, elements: u64) -> Self {
        Self { bytes, conversion, elements, all_in_range: AtomicBool::new(true) }
    }

    /// Whether every value that was asked for could be converted.
    pub(crate) fn all_in_range(&self) -> bool {
        self.all_in_range.load(Ordering::Relaxed)
    }

    fn note(&self, in_range: InRange) {
        if in_range == InRange::NotAll {
            self.all_in_range.store(false, Ordering::Relaxed);
        }
    }

    /// Copies the elements as they are in memory.
    fn fetch(&self, first: u64, packed: &mut [u8]) -> Result<(), FileError> {
        let start = first * self.conversion.memory.size() as u64;
        match &self.bytes {
            Bytes::Dense(bytes) => {
                packed.copy_from_slice(&bytes[start as usize..][..packed.len()]);
            }
            Bytes::Owned(bytes) => {
                packed.copy_from_slice(&bytes[start as usize..][..packed.len()]);
            }
            Bytes::Typed { bytes, origin, packer } => {
                packer.pack_window(bytes, *origin, start, packed)?;
            }
            Bytes::Rows(rows) => rows.fetch(first, packed),
        }
        Ok(())
    }

    fn encode(&self, elements: Range<u64>, file: &mut [u8]) -> Result<(), FileError> {
        let (memory, external) = self.sizes();
        let dense = match &self.bytes {
            Bytes::Dense(bytes) => Some(*bytes),
            Bytes::Owned(bytes) => Some(bytes.as_slice()),
            _ => None,
        };
        if let Some(bytes) = dense {
            let packed = &bytes[elements.start as usize * memory..elements.end as usize * memory];
            self.note(self.conversion.encode(packed, file));
            return Ok(());
        }
        let mut first = elements.start;
        let same = self.conversion.memory.is_same(self.conversion.external);
        let mut scratch = if same { Vec::new() } else { vec![0; PIECE.min(file.len() * memory)] };
        for piece in file.chunks_mut(PIECE / memory.max(external) * external) {
            let count = piece.len() / external;
            if same {
                self.fetch(first, piece)?;
                let _ = self.conversion.in_place(piece);
            } else {
                let packed = &mut scratch[..count * memory];
                self.fetch(first, packed)?;
                self.note(self.conversion.encode(packed, piece));
            }
            first += count as u64;
        }
        Ok(())
    }

    const fn sizes(&self) -> (usize, usize) {
        (self.conversion.memory.size(), self.conversion.external.size() as usize)
    }

    /// The addresses between which the elements lie with gaps between them.
    pub(crate) fn footprint(&self) -> Option<Range<usize>> {
        match &self.bytes {
            Bytes::Typed { bytes, .. } => {
                let start = bytes.as_ptr().addr();
                Some(start..start + bytes.len())
            }
            _ => None,
        }
    }

    /// A copy of all elements, dense and in the order of the file, that borrows nothing.
    pub(crate) fn into_owned<'o>(self) -> Result<Outgoing<'o>, FileError> {
        let mut packed = vec![0; self.elements as usize * self.conversion.memory.size()];
        self.fetch(0, &mut packed)?;
        Ok(Outgoing::new(Bytes::Owned(packed), self.conversion, self.elements))
    }
}

impl Gather for Outgoing<'_> {
    fn stream_len(&self) -> u64 {
        self.elements * self.conversion.external.size()
    }

    fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError> {
        let size = self.conversion.external.size() as usize;
        let split = Split::new(position, stream.len(), size as u64);
        let (head, rest) = stream.split_at_mut(split.head.len());
        if !head.is_empty() {
            let mut element = [0; 8];
            self.encode(split.whole.start - 1..split.whole.start, &mut element[..size])?;
            head.copy_from_slice(&element[split.head]);
        }
        let (whole, tail) = rest.split_at_mut(rest.len() - split.tail.len());
        if !whole.is_empty() {
            self.encode(split.whole.clone(), whole)?;
        }
        if !tail.is_empty() {
            let mut element = [0; 8];
            self.encode(split.whole.end..split.whole.end + 1, &mut element[..size])?;
            tail.copy_from_slice(&element[split.tail]);
        }
        Ok(())
    }
}

impl<'a> Incoming<'a> {
    /// Room for bytes as the file holds them.
    pub(crate) const fn raw(bytes: &'a mut [u8]) -> Self {
        let len = bytes.len() as u64;
        Self::new(BytesMut::Dense(bytes), RAW, len)
    }

    pub(crate) const fn new(bytes: BytesMut<'a>, conversion: Conversion, elements: u64) -> Self {
        Self {
            bytes,
            conversion,
            elements,
            all_in_range: true,
            cut: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Whether every value that has come could be converted.
    pub(crate) const fn all_in_range(&self) -> bool {
        self.all_in_range
    }

    fn decode(&mut self, elements: Range<u64>, file: &[u8]) -> Result<(), FileError> {
        let (memory, external) =
            (self.conversion.memory.size(), self.conversion.external.size() as usize);
        if let BytesMut::Dense(bytes) = &mut self.bytes {
            let packed =
                &mut bytes[elements.start as usize * memory..elements.end as usize * memory];
            self.all_in_range &= self.conversion.decode(file, packed) == InRange::All;
            return Ok(());
        }
        self.scratch.resize(PIECE, 0);
        let mut first = elements.start;
        for piece in file.chunks(PIECE / memory.max(external) * external) {
            let count = piece.len() / external;
            let packed = &mut self.scratch[..count * memory];
            self.all_in_range &= self.conversion.decode(piece, packed) == InRange::All;
            match &mut self.bytes {
                BytesMut::Typed { bytes, origin, packer } => {
                    packer.unpack_window(first * memory as u64, packed, bytes, *origin)?;
                }
                BytesMut::Rows(rows) => rows.store(first, packed),
                BytesMut::Dense(_) => {}
            }
            first += count as u64;
        }
        Ok(())
    }

    /// Keeps a part of an element until the rest has come.
    fn keep(&mut self, element: u64, range: Range<usize>, part: &[u8]) -> Result<(), FileError> {
        let size = self.conversion.external.size() as usize;
        let found = self.cut.iter().position(|cut| cut.element == element);
        let index = found.unwrap_or_else(|| {
            self.cut.push(Cut { element, bytes: [0; 8], have: 0 });
            self.cut.len() - 1
        });
        let cut = &mut self.cut[index];
        cut.have += range.len() as u8;
        cut.bytes[range].copy_from_slice(part);
        if cut.have as usize >= size {
            let Cut { bytes, .. } = self.cut.swap_remove(index);
            self.decode(element..element + 1, &bytes[..size])?;
        }
        Ok(())
    }

    /// Zeros for what lies beyond the end of the file.
    pub(crate) fn scatter_zeros(&mut self, from: u64) -> Result<(), FileError> {
        let zeros = [0; 4096];
        let mut position = from;
        while position < self.stream_len() {
            let len = (self.stream_len() - position).min(zeros.len() as u64);
            self.scatter(position, &zeros[..len as usize])?;
            position += len;
        }
        Ok(())
    }
}

impl Scatter for Incoming<'_> {
    fn stream_len(&self) -> u64 {
        self.elements * self.conversion.external.size()
    }

    fn scatter(&mut self, position: u64, stream: &[u8]) -> Result<(), FileError> {
        let split = Split::new(position, stream.len(), self.conversion.external.size());
        let (head, rest) = stream.split_at(split.head.len());
        if !head.is_empty() {
            self.keep(split.whole.start - 1, split.head, head)?;
        }
        let (whole, tail) = rest.split_at(rest.len() - split.tail.len());
        if !whole.is_empty() {
            self.decode(split.whole.clone(), whole)?;
        }
        if !tail.is_empty() {
            self.keep(split.whole.end, split.tail, tail)?;
        }
        Ok(())
    }
}

/// Several streams, one behind the other.
#[derive(Debug)]
pub(crate) struct Stacked<P> {
    parts: Vec<P>,
    /// Where each begins, and where the last ends.
    starts: Vec<u64>,
}

impl<P> Stacked<P> {
    pub(crate) fn new(parts: Vec<P>, len: impl Fn(&P) -> u64) -> Self {
        let mut starts = vec![0];
        let mut end = 0;
        for part in &parts {
            end += len(part);
            starts.push(end);
        }
        Self { parts, starts }
    }

    /// The parts that `len` bytes from `position` on lie in: which, from where in it, how many.
    fn meet(
        &self,
        position: u64,
        len: usize,
    ) -> impl Iterator<Item = (usize, u64, usize)> + use<'_, P> {
        let end = position + len as u64;
        let first = self.starts.partition_point(|&start| start <= position).saturating_sub(1);
        let parts = first..self.parts.len();
        parts.take_while(move |&part| self.starts[part] < end).filter_map(move |part| {
            let (low, high) = (position.max(self.starts[part]), end.min(self.starts[part + 1]));
            (low < high).then(|| (part, low - self.starts[part], (high - low) as usize))
        })
    }
}

/// A part of a stream.
#[derive(Debug)]
pub(crate) struct Part<'s, 'm> {
    pub(crate) of: &'s Outgoing<'m>,
    pub(crate) range: Range<u64>,
}

impl Gather for Part<'_, '_> {
    fn stream_len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError> {
        self.of.gather(self.range.start + position, stream)
    }
}

impl Gather for Stacked<Part<'_, '_>> {
    fn stream_len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError> {
        let mut rest = stream;
        for (part, position, len) in self.meet(position, rest.len()) {
            let (this, behind) = rest.split_at_mut(len);
            self.parts[part].gather(position, this)?;
            rest = behind;
        }
        Ok(())
    }
}

impl Scatter for Stacked<&mut Incoming<'_>> {
    fn stream_len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn scatter(&mut self, position: u64, stream: &[u8]) -> Result<(), FileError> {
        let mut rest = stream;
        let meet: Vec<_> = self.meet(position, stream.len()).collect();
        for (part, position, len) in meet {
            let (this, behind) = rest.split_at(len);
            self.parts[part].scatter(position, this)?;
            rest = behind;
        }
        Ok(())
    }
}
