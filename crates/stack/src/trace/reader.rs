//! [`Trace`]: a trace that is read, up to where it is damaged.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use super::block::{BlockHeader, BlockInfo, Content, HEADER, MAGIC, PREAMBLE, VERSION, checksum};
use super::call::Record;
use super::decoder::Decoder;
use super::header::Header;
use super::varint::Input;

/// Why a file cannot be read as a trace at all.
#[derive(Debug, Error)]
pub enum TraceError {
    /// It cannot be read.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// It is something else.
    #[error("{} is not a trace", .0.display())]
    Foreign(PathBuf),
    /// It is of another version.
    #[error("{}: a trace of version {version}, which this program does not know", path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
    /// Not even who recorded it can be read.
    #[error("{}: {damage}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where and how.
        damage: Damage,
    },
}

/// Where a trace cannot be read any further, and why.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("damaged at byte {offset}: {reason}")]
pub struct Damage {
    /// Where in the file.
    pub offset: u64,
    /// What is wrong there.
    pub reason: String,
}

impl Damage {
    fn new(offset: u64, reason: &(impl ToString + ?Sized)) -> Self {
        Self { offset, reason: reason.to_string() }
    }
}

/// Where the bytes of a trace are.
#[derive(Debug)]
enum Source {
    File(File),
    Memory(Vec<u8>),
}

impl Source {
    /// Reads some bytes; 0 at the end.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read_at(into, at),
            Self::Memory(bytes) => {
                let from = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
                let from = from.unwrap_or_default();
                let count = from.len().min(into.len());
                into[..count].copy_from_slice(&from[..count]);
                Ok(count)
            }
        }
    }

    fn read_exact_at(&self, mut into: &mut [u8], mut at: u64) -> io::Result<()> {
        while !into.is_empty() {
            match self.read_at(into, at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => {
                    into = &mut into[count..];
                    at += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn len(&self) -> Option<u64> {
        match self {
            Self::File(file) => file.metadata().ok().map(|data| data.len()),
            Self::Memory(bytes) => Some(bytes.len() as u64),
        }
    }
}

/// A trace. It is read as it is asked for.
#[derive(Clone, Debug)]
pub struct Trace {
    path: PathBuf,
    file: Arc<Source>,
    header: Header,
    /// Where blocks begin that come after the header.
    body: u64,
}

impl Trace {
    /// Opens one.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file =
            File::open(path).map_err(|error| TraceError::Io { path: path.to_path_buf(), error })?;
        Self::new(path, Source::File(file))
    }

    /// One whose bytes are in memory; errors call it by this name.
    pub fn in_memory(name: &Path, bytes: Vec<u8>) -> Result<Self, TraceError> {
        Self::new(name, Source::Memory(bytes))
    }

    fn new(path: &Path, file: Source) -> Result<Self, TraceError> {
        let io = |error| TraceError::Io { path: path.to_path_buf(), error };
        let mut preamble = [0; PREAMBLE];
        match file.read_exact_at(&mut preamble, 0) {
            Err(error) if error.kind() != io::ErrorKind::UnexpectedEof => return Err(io(error)),
            result if result.is_err() || preamble[..8] != *MAGIC => {
                return Err(TraceError::Foreign(path.to_path_buf()));
            }
            _ => {}
        }
        let version = u32::from_le_bytes(std::array::from_fn(|n| preamble[8 + n]));
        if version != VERSION {
            return Err(TraceError::Version { path: path.to_path_buf(), version });
        }
        let at = PREAMBLE as u64;
        let damaged = |damage| TraceError::Damaged { path: path.to_path_buf(), damage };
        let (block, bytes) = read_block(&file, at)
            .and_then(|block| block.ok_or_else(|| Damage::new(at, "it ends here")))
            .map_err(damaged)?;
        let header = match block.content {
            Content::Header => Header::decode(&bytes),
            _ => None,
        };
        let header = header.ok_or_else(|| damaged(Damage::new(at, "no header")))?;
        let body = at + (HEADER as u64) + u64::from(block.stored);
        Ok(Self { path: path.to_path_buf(), file: Arc::new(file), header, body })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Who recorded it.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// Where its blocks of records are, by its index, or by going through it if it has none because the
    /// process was killed. The damage where that ended, if it did.
    pub fn blocks(&self) -> (Vec<BlockInfo>, Option<Damage>) {
        match self.index() {
            Some(blocks) => (blocks, None),
            None => self.scan(),
        }
    }

    /// The blocks as the index tells, if the trace is complete.
    fn index(&self) -> Option<Vec<BlockInfo>> {
        const END: u64 = HEADER as u64 + 16;
        let length = self.file.len()?;
        let (end, content) = read_block(&self.file, length.checked_sub(END)?).ok()??;
        let mut content = Input(&content);
        let mut at = u64::from_le_bytes(content.fixed()?);
        let records = u64::from_le_bytes(content.fixed()?);
        if end.content != Content::End {
            return None;
        }
        let mut parts = Vec::new();
        while at != 0 {
            let (header, content) = read_block(&self.file, at).ok()??;
            let (before, part) = index_part(&content)?;
            // Each is after the one before, so that there is an end to it.
            if header.content != Content::Index || before >= at {
                return None;
            }
            parts.push(part);
            at = before;
        }
        let blocks: Vec<BlockInfo> = parts.into_iter().rev().flatten().collect();
        let sum: u64 = blocks.iter().map(|block| u64::from(block.count)).sum();
        (sum == records).then_some(blocks)
    }

    /// The blocks as they follow each other.
    fn scan(&self) -> (Vec<BlockInfo>, Option<Damage>) {
        let (mut blocks, mut at) = (Vec::new(), self.body);
        loop {
            match read_header(&self.file, at) {
                Ok(Some(header)) => {
                    if header.content == Content::Records {
                        let BlockHeader { shard, count, from, until, .. } = header;
                        blocks.push(BlockInfo { offset: at, shard, count, from, until });
                    }
                    at += HEADER as u64 + u64::from(header.stored);
                }
                Ok(None) => return (blocks, None),
                Err(damage) => return (blocks, Some(damage)),
            }
        }
    }

    /// The records as they are in the file: those of a thread in their order.
    pub fn records(&self) -> Records {
        Records {
            file: Arc::clone(&self.file),
            at: self.body,
            decoder: None,
            lost: 0,
            ended: false,
        }
    }

    /// The records of one block.
    pub fn block(&self, block: &BlockInfo) -> Result<Vec<Record>, Damage> {
        let mut records = self.records();
        records.at = block.offset;
        let mut found = Vec::new();
        for _ in 0..block.count {
            found.extend(records.next().transpose()?);
        }
        Ok(found)
    }

    /// The records by the time at which calls ended: those of a thread in their order.
    pub fn in_order(&self) -> InOrder {
        let (blocks, damage) = self.blocks();
        let mut shards: BTreeMap<u16, Shard> = BTreeMap::new();
        for block in blocks {
            let shard = shards.entry(block.shard).or_insert_with(|| Shard {
                blocks: VecDeque::new(),
                records: self.records(),
                left: 0,
                until: 0,
            });
            shard.blocks.push_back((block.offset, block.count));
        }
        let mut order =
            InOrder { shards: shards.into_values().collect(), heads: BinaryHeap::new(), damage };
        for shard in 0..order.shards.len() {
            order.refill(shard);
        }
        order
    }
}

/// The records in the content of a block, up to what is not one, with times as if a tick was a
/// nanosecond: for tests that try all sorts of bytes.
#[doc(hidden)]
pub fn records_in(content: Vec<u8>) -> Vec<Record> {
    let header = BlockHeader {
        content: Content::Records,
        compressed: false,
        shard: 0,
        stored: 0,
        raw: 0,
        count: 0,
        lost: 0,
        ticks: 0,
        nanoseconds: 0,
        tick: 1.0,
        from: 0,
        until: 0,
        checksum: 0,
    };
    let mut decoder = Decoder::new(header, content);
    std::iter::from_fn(|| decoder.next().ok().flatten()).collect()
}

fn index_part(content: &[u8]) -> Option<(u64, Vec<BlockInfo>)> {
    let mut input = Input(content);
    let before = input.number()?;
    let mut part = Vec::new();
    let mut offset = 0_u64;
    for _ in 0..input.number()? {
        offset = offset.checked_add(input.number()?)?;
        let shard = u16::try_from(input.number()?).ok()?;
        let (count, from) = (input.narrow()?, input.number()?);
        let until = from.checked_add(input.number()?)?;
        part.push(BlockInfo { offset, shard, count, from, until });
    }
    Some((before, part))
}

/// The header of the block at an offset; `None` if the file ends there.
fn read_header(file: &Source, at: u64) -> Result<Option<BlockHeader>, Damage> {
    let mut bytes = [0; HEADER];
    match file.read_exact_at(&mut bytes[..1], at) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        begun => begun.and_then(|()| file.read_exact_at(&mut bytes[1..], at + 1)),
    }
    .map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Damage::new(at, "it ends within the header of a block"),
        _ => Damage::new(at, &error),
    })?;
    BlockHeader::decode(&bytes).map(Some).map_err(|reason| Damage::new(at, reason))
}

/// The block at an offset, with its content as it was before it was compressed.
fn read_block(file: &Source, at: u64) -> Result<Option<(BlockHeader, Vec<u8>)>, Damage> {
    let Some(header) = read_header(file, at)? else { return Ok(None) };
    let mut stored = vec![0; header.stored as usize];
    file.read_exact_at(&mut stored, at + HEADER as u64).map_err(|error| match error.kind() {
        io::ErrorKind::UnexpectedEof => Damage::new(at, "it ends within a block"),
        _ => Damage::new(at, &error),
    })?;
    if checksum(&stored) != header.checksum {
        return Err(Damage::new(at, "a block has another checksum"));
    }
    if !header.compressed {
        return Ok(Some((header, stored)));
    }
    let mut raw = vec![0; header.raw as usize];
    match lz4_flex::block::decompress_into(&stored, &mut raw) {
        Ok(length) if length == raw.len() => Ok(Some((header, raw))),
        Ok(_) => Err(Damage::new(at, "a block has another length")),
        Err(error) => Err(Damage::new(at, &error)),
    }
}

/// Records as they are in the file. After damage there is nothing more.
#[derive(Debug)]
pub struct Records {
    file: Arc<Source>,
    at: u64,
    decoder: Option<Decoder>,
    lost: u64,
    ended: bool,
}

impl Records {
    /// How many records the process could not write, as far as was read.
    pub const fn lost(&self) -> u64 {
        self.lost
    }

    fn step(&mut self) -> Result<Option<Record>, Damage> {
        loop {
            if let Some(decoder) = &mut self.decoder {
                let record = decoder.next();
                let wrong =
                    |()| Damage::new(self.at, "the block before has something unknown in it");
                if let Some(record) = record.map_err(wrong)? {
                    return Ok(Some(record));
                }
                self.decoder = None;
            }
            let Some((header, bytes)) = read_block(&self.file, self.at)? else { return Ok(None) };
            self.at += HEADER as u64 + u64::from(header.stored);
            if header.content == Content::Records {
                self.lost += u64::from(header.lost);
                self.decoder = Some(Decoder::new(header, bytes));
            }
        }
    }
}

impl Iterator for Records {
    type Item = Result<Record, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.step().transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The blocks of a shard.
#[derive(Debug)]
struct Shard {
    blocks: VecDeque<(u64, u32)>,
    records: Records,
    /// Records of the current block.
    left: u32,
    /// What the records so far are ordered by.
    until: u64,
}

impl Shard {
    fn next(&mut self) -> Result<Option<(u64, Record)>, Damage> {
        while self.left == 0 {
            let Some((offset, count)) = self.blocks.pop_front() else { return Ok(None) };
            (self.records.at, self.records.decoder, self.left) = (offset, None, count);
        }
        self.left -= 1;
        let Some(record) = self.records.step()? else {
            return Err(Damage::new(self.records.at, "records are missing"));
        };
        // Within a shard the order stands, whatever the clock said.
        self.until = self.until.max(record.start.saturating_add(record.duration));
        Ok(Some((self.until, record)))
    }
}

/// Records by the time at which calls ended. Damage is told when all that could be read has been.
#[derive(Debug)]
pub struct InOrder {
    shards: Vec<Shard>,
    heads: BinaryHeap<Reverse<Head>>,
    damage: Option<Damage>,
}

/// The next record of a shard.
#[derive(Debug)]
struct Head {
    until: u64,
    shard: usize,
    record: Box<Record>,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.until, self.shard).cmp(&(other.until, other.shard))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl InOrder {
    fn refill(&mut self, shard: usize) {
        match self.shards[shard].next() {
            Ok(None) => {}
            Ok(Some((until, record))) => {
                self.heads.push(Reverse(Head { until, shard, record: Box::new(record) }));
            }
            Err(damage) => {
                self.damage.get_or_insert(damage);
            }
        }
    }
}

impl Iterator for InOrder {
    type Item = Result<Record, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.heads.pop() {
            Some(Reverse(head)) => {
                self.refill(head.shard);
                Some(Ok(*head.record))
            }
            None => self.damage.take().map(Err),
        }
    }
}
