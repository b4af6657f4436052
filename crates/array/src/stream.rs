//! [`WriteStream`] and [`ReadStream`]: memory as the stream of bytes in the file, packed and
//! converted in one pass.
//!
//! An access method asks for any range of the stream, cut anywhere. Whole elements are packed and
//! converted in pieces that stay in a core's cache, so that conversion needs no separate pass over
//! memory; elements that are cut by the range are converted one by one.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use striate_datatype::{Cursor, Datatype, Packer, TypeError};
use striate_file::{FileError, Gather, Memory, MemoryMut, Scatter};

use crate::format::{ByteOrder, Format, Type};
use crate::value::{Conversion, InRange, Kind};

/// Bytes that are packed and converted at once.
const PIECE: usize = 32 << 10;

/// A view with gaps between its rows: elements by their number in the order of the file.
pub(crate) trait RowSource: std::fmt::Debug + Sync {
    /// Copies the elements from `first` on into `packed`.
    fn fetch(&self, first: u64, packed: &mut [u8]);
}

/// The same, for writing.
pub(crate) trait RowSink: std::fmt::Debug {
    /// Copies `packed` to the elements from `first` on.
    fn store(&mut self, first: u64, packed: &[u8]);
}

/// The memory of elements to be written.
#[derive(Debug)]
pub(crate) enum WriteMemory<'a> {
    Dense(&'a [u8]),
    Typed {
        bytes: &'a [u8],
        origin: usize,
        datatype: Datatype,
        packer: Packer,
    },
    RowSource(Box<dyn RowSource + 'a>),
    /// A dense copy.
    Owned(Vec<u8>),
}

/// The memory for elements to be read.
#[derive(Debug)]
pub(crate) enum ReadMemory<'a> {
    Dense(&'a mut [u8]),
    Typed { bytes: &'a mut [u8], origin: usize, datatype: Datatype, packer: Packer },
    RowSource(Box<dyn RowSink + 'a>),
}

/// The order of elements in the file, where it is not that of the access: a type that takes the
/// bytes of the file, in their order, from the row-major stream of the access.
#[derive(Clone, Debug)]
pub(crate) struct StreamOrder {
    datatype: Datatype,
    packer: Packer,
}

impl StreamOrder {
    /// `None` if the orders are the same.
    pub(crate) fn new(datatype: Datatype) -> Result<Option<Box<Self>>, TypeError> {
        if datatype.runs() <= 1 && datatype.true_lower_bound() == 0 {
            return Ok(None);
        }
        let packer = Packer::new(&datatype, 1)?;
        Ok(Some(Box::new(Self { datatype, packer })))
    }

    /// Calls `visit` for runs of `count` elements of `size` bytes from number `first` on: their
    /// numbers in the order of the access.
    fn visit(
        &self,
        first: u64,
        count: u64,
        size: u64,
        mut visit: impl FnMut(Range<u64>) -> Result<(), FileError>,
    ) -> Result<(), FileError> {
        let mut cursor = Cursor::new(&self.datatype, 1)?;
        cursor.seek(first * size);
        let mut rest = count * size;
        while let Some(run) = cursor.next_run(rest) {
            let start = run.offset as u64 / size;
            visit(start..start + run.len / size)?;
            rest -= run.len;
        }
        Ok(())
    }
}

/// Elements to be written, as a stream of bytes in the file.
#[derive(Debug)]
pub(crate) struct WriteStream<'a> {
    bytes: WriteMemory<'a>,
    conversion: Conversion,
    elements: u64,
    order: Option<Box<StreamOrder>>,
    all_in_range: AtomicBool,
}

/// Memory for elements to be read, as a stream of bytes in the file.
#[derive(Debug)]
pub(crate) struct ReadStream<'a> {
    bytes: ReadMemory<'a>,
    conversion: Conversion,
    elements: u64,
    order: Option<Box<StreamOrder>>,
    all_in_range: bool,
    /// Elements of which only a part has arrived.
    cut: Vec<PartialElement>,
    scratch: Vec<u8>,
}

/// An element of which only a part has arrived.
#[derive(Clone, Copy, Debug)]
struct PartialElement {
    element: u64,
    bytes: [u8; 8],
    have: u8,
}

/// The elements of a range of the stream.
struct ElementRange {
    /// The bytes of an element that begins before the range.
    head: Range<usize>,
    /// Whole elements, by their numbers.
    whole: Range<u64>,
    /// The bytes of an element that ends after the range.
    tail: Range<usize>,
}

impl ElementRange {
    /// For `len` bytes from `position` on, with elements of `size` bytes.
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

/// The conversion of bytes that are already as in the file.
pub(crate) const RAW: Conversion = Conversion {
    memory: Kind::Text,
    external: Type::Char,
    format: Format::Cdf5,
    fill: [0; 8],
    byte_order: ByteOrder::Big,
};

impl<'a> WriteStream<'a> {
    /// Bytes that are already as in the file.
    pub(crate) const fn raw(bytes: &'a [u8]) -> Self {
        Self::new(WriteMemory::Dense(bytes), RAW, bytes.len() as u64)
    }

    pub(crate) const fn new(bytes: WriteMemory<'a>, conversion: Conversion, elements: u64) -> Self {
        Self { bytes, conversion, elements, order: None, all_in_range: AtomicBool::new(true) }
    }

    /// Sets the order of the elements in the file.
    pub(crate) fn set_order(&mut self, order: Option<Box<StreamOrder>>) {
        self.order = order;
    }

    /// The memory itself, if its bytes are those of the file and a description of it exists: it
    /// needs no copy then.
    pub(crate) fn as_memory(&self) -> Option<Memory<'_>> {
        if !self.conversion.is_identity() {
            return None;
        }
        match (&self.bytes, &self.order) {
            (WriteMemory::Dense(bytes), None) => Some((*bytes).into()),
            (WriteMemory::Owned(bytes), None) => Some(bytes.into()),
            (WriteMemory::Dense(bytes), Some(order)) => {
                Memory::new(bytes, 0, 1, &order.datatype).ok()
            }
            (WriteMemory::Typed { bytes, origin, datatype, .. }, None) => {
                Memory::new(bytes, *origin, 1, datatype).ok()
            }
            _ => None,
        }
    }

    /// Whether every value that was converted so far was in range.
    pub(crate) fn all_in_range(&self) -> bool {
        self.all_in_range.load(Ordering::Relaxed)
    }

    fn record_range(&self, in_range: InRange) {
        if in_range == InRange::NotAll {
            self.all_in_range.store(false, Ordering::Relaxed);
        }
    }

    /// Copies elements in the order of the file, without conversion.
    fn fetch(&self, first: u64, packed: &mut [u8]) -> Result<(), FileError> {
        let Some(order) = &self.order else { return self.fetch_in_rows(first, packed) };
        let (memory, external) = self.sizes();
        if let WriteMemory::Dense(bytes) = &self.bytes
            && memory == external
        {
            order.packer.pack_window(bytes, 0, first * external as u64, packed)?;
            return Ok(());
        }
        let count = (packed.len() / memory) as u64;
        let mut rest = packed;
        order.visit(first, count, external as u64, |run| {
            let len = (run.end - run.start) as usize * memory;
            let (part, after) = std::mem::take(&mut rest).split_at_mut(len);
            rest = after;
            self.fetch_in_rows(run.start, part)
        })
    }

    /// Copies elements in the order of the access, without conversion.
    fn fetch_in_rows(&self, first: u64, packed: &mut [u8]) -> Result<(), FileError> {
        let start = first * self.conversion.memory.size() as u64;
        match &self.bytes {
            WriteMemory::Dense(bytes) => {
                packed.copy_from_slice(&bytes[start as usize..][..packed.len()]);
            }
            WriteMemory::Owned(bytes) => {
                packed.copy_from_slice(&bytes[start as usize..][..packed.len()]);
            }
            WriteMemory::Typed { bytes, origin, packer, .. } => {
                packer.pack_window(bytes, *origin, start, packed)?;
            }
            WriteMemory::RowSource(rows) => rows.fetch(first, packed),
        }
        Ok(())
    }

    fn encode(&self, elements: Range<u64>, file: &mut [u8]) -> Result<(), FileError> {
        let (memory, external) = self.sizes();
        let dense = match &self.bytes {
            WriteMemory::Dense(bytes) => Some(*bytes),
            WriteMemory::Owned(bytes) => Some(bytes.as_slice()),
            _ => None,
        };
        if let Some(bytes) = dense.filter(|_| self.order.is_none()) {
            let packed = &bytes[elements.start as usize * memory..elements.end as usize * memory];
            self.record_range(self.conversion.encode(packed, file));
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
                self.record_range(self.conversion.encode(packed, piece));
            }
            first += count as u64;
        }
        Ok(())
    }

    const fn sizes(&self) -> (usize, usize) {
        (self.conversion.memory.size(), self.conversion.external.size() as usize)
    }

    /// The range of addresses over which the elements are scattered; `None` if there are no gaps.
    pub(crate) fn footprint(&self) -> Option<Range<usize>> {
        match &self.bytes {
            WriteMemory::Typed { bytes, .. } => {
                let start = bytes.as_ptr().addr();
                Some(start..start + bytes.len())
            }
            _ => None,
        }
    }

    /// A dense copy of all elements in the order of the file, which borrows nothing.
    pub(crate) fn into_owned<'o>(self) -> Result<WriteStream<'o>, FileError> {
        let mut packed = vec![0; self.elements as usize * self.conversion.memory.size()];
        self.fetch(0, &mut packed)?;
        Ok(WriteStream::new(WriteMemory::Owned(packed), self.conversion, self.elements))
    }
}

impl Gather for WriteStream<'_> {
    fn stream_len(&self) -> u64 {
        self.elements * self.conversion.external.size()
    }

    fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError> {
        let size = self.conversion.external.size() as usize;
        let split = ElementRange::new(position, stream.len(), size as u64);
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

impl ReadMemory<'_> {
    /// Copies packed elements of `size` bytes to those from `first` on, in the order of the access.
    fn store(&mut self, first: u64, packed: &[u8], size: usize) -> Result<(), FileError> {
        let start = first * size as u64;
        match self {
            Self::Typed { bytes, origin, packer, .. } => {
                packer.unpack_window(start, packed, bytes, *origin)?;
            }
            Self::RowSource(rows) => rows.store(first, packed),
            Self::Dense(bytes) => {
                bytes[start as usize..][..packed.len()].copy_from_slice(packed);
            }
        }
        Ok(())
    }
}

impl<'a> ReadStream<'a> {
    /// A buffer for bytes as in the file.
    pub(crate) const fn raw(bytes: &'a mut [u8]) -> Self {
        let len = bytes.len() as u64;
        Self::new(ReadMemory::Dense(bytes), RAW, len)
    }

    pub(crate) const fn new(bytes: ReadMemory<'a>, conversion: Conversion, elements: u64) -> Self {
        Self {
            bytes,
            conversion,
            elements,
            order: None,
            all_in_range: true,
            cut: Vec::new(),
            scratch: Vec::new(),
        }
    }

    /// Sets the order of the elements in the file.
    pub(crate) fn set_order(&mut self, order: Option<Box<StreamOrder>>) {
        self.order = order;
    }

    /// Whether [`ReadStream::as_memory`] is the memory.
    pub(crate) fn is_plain(&mut self) -> bool {
        self.as_memory().is_some()
    }

    /// The memory itself, if its bytes are those of the file and a description of it exists: it
    /// needs no copy then.
    pub(crate) fn as_memory(&mut self) -> Option<MemoryMut<'_>> {
        if !self.conversion.is_identity() {
            return None;
        }
        match (&mut self.bytes, &self.order) {
            (ReadMemory::Dense(bytes), None) => Some((&mut **bytes).into()),
            (ReadMemory::Dense(bytes), Some(order)) => {
                MemoryMut::new(bytes, 0, 1, &order.datatype).ok()
            }
            (ReadMemory::Typed { bytes, origin, datatype, .. }, None) => {
                MemoryMut::new(bytes, *origin, 1, datatype).ok()
            }
            _ => None,
        }
    }

    /// Whether every value that was converted so far was in range.
    pub(crate) const fn all_in_range(&self) -> bool {
        self.all_in_range
    }

    fn decode(&mut self, elements: Range<u64>, file: &[u8]) -> Result<(), FileError> {
        let (memory, external) =
            (self.conversion.memory.size(), self.conversion.external.size() as usize);
        if let ReadMemory::Dense(bytes) = &mut self.bytes
            && self.order.is_none()
        {
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
            match &self.order {
                None => self.bytes.store(first, packed, memory)?,
                Some(order) => {
                    let (bytes, mut rest) = (&mut self.bytes, &*packed);
                    order.visit(first, count as u64, external as u64, |run| {
                        let len = (run.end - run.start) as usize * memory;
                        let (part, after) = rest.split_at(len);
                        rest = after;
                        bytes.store(run.start, part, memory)
                    })?;
                }
            }
            first += count as u64;
        }
        Ok(())
    }

    /// Stores a part of an element until the rest has arrived.
    fn store_part(
        &mut self,
        element: u64,
        range: Range<usize>,
        part: &[u8],
    ) -> Result<(), FileError> {
        let size = self.conversion.external.size() as usize;
        let found = self.cut.iter().position(|cut| cut.element == element);
        let index = found.unwrap_or_else(|| {
            self.cut.push(PartialElement { element, bytes: [0; 8], have: 0 });
            self.cut.len() - 1
        });
        let cut = &mut self.cut[index];
        cut.have += range.len() as u8;
        cut.bytes[range].copy_from_slice(part);
        if cut.have as usize >= size {
            let PartialElement { bytes, .. } = self.cut.swap_remove(index);
            self.decode(element..element + 1, &bytes[..size])?;
        }
        Ok(())
    }

    /// Sets the elements from byte `from` of the stream on to zeros, for data beyond the end of the
    /// file.
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

impl Scatter for ReadStream<'_> {
    fn stream_len(&self) -> u64 {
        self.elements * self.conversion.external.size()
    }

    fn scatter(&mut self, position: u64, stream: &[u8]) -> Result<(), FileError> {
        let split = ElementRange::new(position, stream.len(), self.conversion.external.size());
        let (head, rest) = stream.split_at(split.head.len());
        if !head.is_empty() {
            self.store_part(split.whole.start - 1, split.head, head)?;
        }
        let (whole, tail) = rest.split_at(rest.len() - split.tail.len());
        if !whole.is_empty() {
            self.decode(split.whole.clone(), whole)?;
        }
        if !tail.is_empty() {
            self.store_part(split.whole.end, split.tail, tail)?;
        }
        Ok(())
    }
}

/// Several streams, one after the other.
#[derive(Debug)]
pub(crate) struct ConcatenatedStreams<P> {
    parts: Vec<P>,
    /// Start of each stream, and the end of the last.
    starts: Vec<u64>,
}

impl<P> ConcatenatedStreams<P> {
    pub(crate) fn new(parts: Vec<P>, len: impl Fn(&P) -> u64) -> Self {
        let mut starts = vec![0];
        let mut end = 0;
        for part in &parts {
            end += len(part);
            starts.push(end);
        }
        Self { parts, starts }
    }

    /// The streams that overlap `len` bytes from `position` on: index, position in the stream,
    /// length.
    fn overlapping(
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

/// A range of a stream.
#[derive(Debug)]
pub(crate) struct StreamPart<'s, 'm> {
    pub(crate) of: &'s WriteStream<'m>,
    pub(crate) range: Range<u64>,
}

impl Gather for StreamPart<'_, '_> {
    fn stream_len(&self) -> u64 {
        self.range.end - self.range.start
    }

    fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError> {
        self.of.gather(self.range.start + position, stream)
    }
}

impl Gather for ConcatenatedStreams<StreamPart<'_, '_>> {
    fn stream_len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn gather(&self, position: u64, stream: &mut [u8]) -> Result<(), FileError> {
        let mut rest = stream;
        for (part, position, len) in self.overlapping(position, rest.len()) {
            let (this, after) = rest.split_at_mut(len);
            self.parts[part].gather(position, this)?;
            rest = after;
        }
        Ok(())
    }
}

impl Scatter for ConcatenatedStreams<&mut ReadStream<'_>> {
    fn stream_len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn scatter(&mut self, position: u64, stream: &[u8]) -> Result<(), FileError> {
        let mut rest = stream;
        let parts: Vec<_> = self.overlapping(position, stream.len()).collect();
        for (part, position, len) in parts {
            let (this, after) = rest.split_at(len);
            self.parts[part].scatter(position, this)?;
            rest = after;
        }
        Ok(())
    }
}
