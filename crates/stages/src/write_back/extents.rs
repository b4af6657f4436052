//! [`Extents`]: bytes of a file that are buffered, and where they belong.
//!
//! Bytes lie in extents that do not overlap and do not cross the boundary of a block. Extents that
//! touch are not copied together: a write that goes on where an extent ends makes it longer, any
//! other makes a new one, and the runs of touching extents are found when they are written out. So
//! no order of writes costs more than its bytes.
//!
//! The extent that was written last is the *tail*. It is kept apart, so that a sequential stream
//! costs a comparison and a copy.

use std::collections::BTreeMap;
use std::ops::Range;

use smallvec::SmallVec;
use striate_stack::Memory;

/// What an extent costs beside its bytes, about.
const EXTENT: usize = 96;
/// From this many extents on a run is copied together rather than handed on in parts.
const MOST_PARTS: usize = 64;

/// Bytes buffered of one file.
#[derive(Debug)]
pub(super) struct Extents {
    block: u64,
    blocks: BTreeMap<u64, Block>,
    tail: Tail,
    /// What the extents in `blocks` cost.
    cost: usize,
}

/// The extents of a block, without the tail.
#[derive(Debug, Default)]
struct Block {
    /// How many bytes they have together.
    covered: u64,
    extents: BTreeMap<u64, Vec<u8>>,
}

/// The extent that was written last.
#[derive(Debug, Default)]
struct Tail {
    start: u64,
    /// Where it ends at the latest: where another extent or the next block starts.
    limit: u64,
    bytes: Vec<u8>,
}

impl Tail {
    fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }
}

/// What came of a sequential write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// It does not continue the tail.
    No,
    /// It was added.
    Yes,
    /// It was added, and took more memory.
    Grew,
    /// It was added, and the tail has reached the end of its block, or another extent.
    Full,
}

/// Touching extents of one block.
#[derive(Debug)]
pub(super) struct Run<'e> {
    /// Where it starts.
    pub(super) start: u64,
    parts: SmallVec<[&'e [u8]; 4]>,
}

impl<'e> Run<'e> {
    /// How many bytes it has.
    pub(super) fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Its bytes, to be written; copied to `staging` if they are too scattered.
    pub(super) fn memory<'m>(&self, staging: &'m mut Vec<u8>) -> Memory<'m>
    where
        'e: 'm,
    {
        if let [part] = self.parts[..] {
            return Memory::source(part);
        }
        if self.parts.len() > MOST_PARTS {
            staging.reserve_exact(self.len());
            self.parts.iter().for_each(|part| staging.extend_from_slice(part));
            return Memory::source(staging);
        }
        let vector = |part: &&[u8]| libc::iovec {
            iov_base: part.as_ptr().cast_mut().cast(),
            iov_len: part.len(),
        };
        let parts: SmallVec<[_; 4]> = self.parts.iter().map(vector).collect();
        // SAFETY: the parts live for `'e`, which outlives `'m`; a write only reads them.
        unsafe { Memory::from_parts(&parts) }
    }
}

impl Extents {
    /// None yet, in blocks of this size.
    pub(super) fn new(block: u64) -> Self {
        Self { block, blocks: BTreeMap::new(), tail: Tail::default(), cost: 0 }
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.tail.bytes.is_empty() && self.blocks.is_empty()
    }

    /// The memory they take.
    pub(super) fn cost(&self) -> usize {
        self.cost + self.tail.bytes.capacity()
    }

    /// Where the last of them ends; 0 if there are none.
    pub(super) fn end(&self) -> u64 {
        let tail = if self.tail.bytes.is_empty() { 0 } else { self.tail.end() };
        let last =
            self.blocks.last_key_value().and_then(|(_, block)| block.extents.last_key_value());
        last.map_or(0, |(start, bytes)| start + bytes.len() as u64).max(tail)
    }

    /// Where the tail ends.
    #[inline]
    pub(super) fn tail_end(&self) -> u64 {
        self.tail.end()
    }

    /// Adds bytes that continue the tail, if they do.
    #[inline]
    pub(super) fn append(&mut self, at: u64, bytes: &[u8]) -> Appended {
        let tail = &mut self.tail;
        let end = at + bytes.len() as u64;
        if at != tail.end() || end > tail.limit {
            return Appended::No;
        }
        let room = tail.bytes.capacity();
        if room - tail.bytes.len() < bytes.len() && !grow(&mut tail.bytes, bytes.len(), self.block)
        {
            return Appended::No;
        }
        tail.bytes.extend_from_slice(bytes);
        if end == tail.limit {
            Appended::Full
        } else if tail.bytes.capacity() == room {
            Appended::Yes
        } else {
            Appended::Grew
        }
    }

    /// Adds bytes anywhere; they replace those that were there.
    pub(super) fn put(&mut self, at: u64, memory: &Memory<'_>) {
        self.park();
        let (mut from, end) = (at, at + memory.len() as u64);
        while from < end {
            let number = from / self.block;
            let to = end.min((number + 1) * self.block);
            let block = self.blocks.entry(number).or_default();
            self.cost = block.put(from..to, at, memory, self.cost);
            from = to;
        }
        self.choose_tail(end);
    }

    /// Puts the tail among the others.
    fn park(&mut self) {
        let bytes = std::mem::take(&mut self.tail.bytes);
        if !bytes.is_empty() {
            let block = self.blocks.entry(self.tail.start / self.block).or_default();
            block.covered += bytes.len() as u64;
            self.cost += EXTENT + bytes.capacity();
            block.extents.insert(self.tail.start, bytes);
        }
        self.tail = Tail::default();
    }

    /// Makes the extent that ends here the tail, if something may still be added to it.
    fn choose_tail(&mut self, end: u64) {
        let Some(last) = end.checked_sub(1) else { return };
        let number = last / self.block;
        let limit = (number + 1) * self.block;
        let Some(block) = self.blocks.get_mut(&number) else { return };
        let limit = block.extents.range(end..).next().map_or(limit, |(start, _)| *start);
        let Some((&start, bytes)) = block.extents.range(..end).next_back() else { return };
        if limit == end || start + bytes.len() as u64 != end {
            return;
        }
        let Some(bytes) = block.extents.remove(&start) else { return };
        block.covered -= bytes.len() as u64;
        self.cost -= EXTENT + bytes.capacity();
        if block.extents.is_empty() {
            self.blocks.remove(&number);
        }
        self.tail = Tail { start, limit, bytes };
    }

    /// A full block, of those that a write of this range has met.
    pub(super) fn complete(&self, range: Range<u64>) -> Option<Range<u64>> {
        let mut numbers = range.start / self.block..=range.end.saturating_sub(1) / self.block;
        let number = numbers.find(|number| self.covered_of(*number) == self.block)?;
        Some(number * self.block..(number + 1) * self.block)
    }

    fn covered_of(&self, number: u64) -> u64 {
        let tail = self.tail.start / self.block == number;
        let tail = if tail { self.tail.bytes.len() as u64 } else { 0 };
        self.blocks.get(&number).map_or(tail, |block| block.covered + tail)
    }

    /// The tail, if it should be written out now: it has reached the end of its block and is at
    /// least half of it, so that it is a sequential stream which does not come back; and does not
    /// fill the block together with others.
    pub(super) fn due_tail(&self) -> Option<(u64, &[u8])> {
        let tail = &self.tail;
        let length = tail.bytes.len() as u64;
        let streamed = length * 2 >= self.block && tail.end().is_multiple_of(self.block);
        let alone =
            || length == self.block || self.covered_of(tail.start / self.block) < self.block;
        (streamed && alone()).then_some((tail.start, tail.bytes.as_slice()))
    }

    /// The tail, if there is nothing else.
    pub(super) fn lone_tail(&self) -> Option<(u64, &[u8])> {
        let lone = self.blocks.is_empty() && !self.tail.bytes.is_empty();
        lone.then_some((self.tail.start, self.tail.bytes.as_slice()))
    }

    /// How many more bytes the tail can take from here on, if it ends here.
    pub(super) fn room(&self, at: u64) -> u64 {
        if at == self.tail.end() { self.tail.limit.saturating_sub(at) } else { 0 }
    }

    /// The first `count` bytes of the tail are written. If those were all, the next tail starts
    /// where it ended, in the same memory.
    pub(super) fn tail_written(&mut self, count: usize) {
        let tail = &mut self.tail;
        tail.start += count as u64;
        if count < tail.bytes.len() {
            tail.bytes.drain(..count);
            return;
        }
        tail.bytes.clear();
        self.begin_tail();
    }

    /// Takes the tail away. The next one starts where it ended, in this memory, which has nothing
    /// in it.
    pub(super) fn detach_tail(&mut self, spare: Vec<u8>) -> (u64, Vec<u8>) {
        let start = self.tail.start;
        self.tail.start = self.tail.end();
        let bytes = std::mem::replace(&mut self.tail.bytes, spare);
        self.begin_tail();
        (start, bytes)
    }

    /// A tail that has no bytes yet can have as many as there is room.
    fn begin_tail(&mut self) {
        let tail = &mut self.tail;
        let number = tail.start / self.block;
        let next = self.blocks.get(&number);
        let next = next.and_then(|block| block.extents.range(tail.start..).next());
        tail.limit = next.map_or((number + 1) * self.block, |(start, _)| *start);
        let before = self.blocks.get(&number);
        let before = before.and_then(|block| block.extents.range(..tail.start).next_back());
        if before.is_some_and(|(start, bytes)| start + bytes.len() as u64 > tail.start) {
            tail.limit = tail.start;
        }
    }

    /// The first run of extents that meets a range. The tail is among the others from then on.
    pub(super) fn run(&mut self, range: &Range<u64>) -> Option<Run<'_>> {
        self.park();
        let first = self.first_in(range)?;
        let extents = &self.blocks.get(&(first / self.block))?.extents;
        // Back to where the run starts …
        let mut start = first;
        for (at, bytes) in extents.range(..first).rev() {
            if at + bytes.len() as u64 != start {
                break;
            }
            start = *at;
        }
        // … and on to its end.
        let mut run = Run { start, parts: SmallVec::new() };
        let mut end = start;
        for (at, bytes) in extents.range(start..) {
            if *at != end {
                break;
            }
            end += bytes.len() as u64;
            run.parts.push(bytes);
        }
        Some(run)
    }

    /// Where the first extent starts that meets a range.
    fn first_in(&self, range: &Range<u64>) -> Option<u64> {
        let numbers = range.start / self.block..=range.end.saturating_sub(1) / self.block;
        self.blocks.range(numbers).find_map(|(_, block)| {
            let before = block.extents.range(..=range.start).next_back();
            let reaches =
                |(start, bytes): &(&u64, &Vec<u8>)| **start + bytes.len() as u64 > range.start;
            let later = block.extents.range(range.start.saturating_add(1)..range.end).next();
            before.filter(reaches).or(later).map(|(start, _)| *start)
        })
    }

    /// Bytes of a run, from its start on, are written.
    pub(super) fn run_written(&mut self, start: u64, count: usize) {
        let number = start / self.block;
        let Some(block) = self.blocks.get_mut(&number) else { return };
        let end = start + count as u64;
        while let Some((&at, _)) = block.extents.range(start..end).next() {
            let Some(mut bytes) = block.extents.remove(&at) else { return };
            self.cost -= EXTENT + bytes.capacity();
            block.covered -= bytes.len() as u64;
            let written = (end - at) as usize;
            if written < bytes.len() {
                bytes.drain(..written);
                self.cost += EXTENT + bytes.capacity();
                block.covered += bytes.len() as u64;
                block.extents.insert(end, bytes);
            }
        }
        if block.extents.is_empty() {
            self.blocks.remove(&number);
        }
    }

    /// Forgets all, and gives the memory back.
    pub(super) fn clear(&mut self) {
        *self = Self::new(self.block);
    }

    /// Gives back memory that is not in use.
    pub(super) fn shrink(&mut self) {
        if self.tail.bytes.is_empty() {
            self.tail = Tail::default();
        }
    }

    /// The parts of extents that lie in a range.
    fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &[u8])> {
        let numbers = range.start / self.block..=range.end.saturating_sub(1) / self.block;
        let clip = move |start: u64, bytes| clip(start, bytes, &range);
        let tail = clip(self.tail.start, &self.tail.bytes);
        let extents = self.blocks.range(numbers).flat_map(|(_, block)| &block.extents);
        extents.filter_map(move |(start, bytes)| clip(*start, bytes)).chain(tail)
    }

    /// How many bytes of a range there are.
    pub(super) fn covered(&self, range: Range<u64>) -> u64 {
        if range.is_empty() {
            return 0;
        }
        self.pieces(range).map(|(_, bytes)| bytes.len() as u64).sum()
    }

    /// Copies what there is of a range over memory that stands for it.
    pub(super) fn overlay(&self, at: u64, memory: &mut Memory<'_>) {
        if memory.is_empty() {
            return;
        }
        for (start, bytes) in self.pieces(at..at + memory.len() as u64) {
            memory.fill((start - at) as usize, bytes);
        }
    }
}

fn clip<'b>(start: u64, bytes: &'b [u8], range: &Range<u64>) -> Option<(u64, &'b [u8])> {
    let from = range.start.max(start);
    let to = range.end.min(start + bytes.len() as u64);
    (from < to).then(|| (from, &bytes[(from - start) as usize..(to - start) as usize]))
}

/// Makes room for more bytes in an extent that goes on. Returns whether there is.
#[cold]
fn grow(bytes: &mut Vec<u8>, more: usize, block: u64) -> bool {
    let doubled = bytes.capacity().saturating_mul(2).min(block as usize);
    let wanted = doubled.max(bytes.len() + more);
    bytes.try_reserve_exact(wanted - bytes.len()).is_ok()
}

impl Block {
    /// Puts a range of memory, whose first byte belongs at `origin`, among the extents. `cost` is
    /// that of all extents; it is returned as it is then.
    fn put(
        &mut self,
        range: Range<u64>,
        origin: u64,
        memory: &Memory<'_>,
        mut cost: usize,
    ) -> usize {
        let mut at = range.start;
        while at < range.end {
            let next =
                self.extents.range(at + 1..range.end).next().map_or(range.end, |(start, _)| *start);
            let source = (at - origin) as usize;
            if let Some((start, bytes)) = self.extents.range_mut(..=at).next_back() {
                let end = *start + bytes.len() as u64;
                if end > at {
                    let to = end.min(range.end);
                    let place = (at - *start) as usize..(to - *start) as usize;
                    memory.take(source, &mut bytes[place]);
                    at = to;
                    continue;
                }
                if end == at {
                    let room = bytes.capacity();
                    memory.append_to(source..source + (next - at) as usize, bytes);
                    cost += bytes.capacity() - room;
                    self.covered += next - at;
                    at = next;
                    continue;
                }
            }
            let mut bytes = Vec::with_capacity((next - at) as usize);
            memory.append_to(source..source + (next - at) as usize, &mut bytes);
            cost += EXTENT + bytes.capacity();
            self.covered += next - at;
            self.extents.insert(at, bytes);
            at = next;
        }
        cost
    }
}

#[cfg(test)]
mod tests;
