//! [`Trace`]: reads the trace of one process, up to where it is damaged.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use thiserror::Error;

use crate::block::{BlockHeader, BlockInfo, Content, HEADER, StoredBlock};
use crate::call::Record;
use crate::decoder::Decoder;
use crate::header::Header;
use crate::layer_codec::{LayerDecoder, LayerRecord};
use crate::layer_records::LayerRecords;
use crate::preopened::{self, PreopenedFile};
use crate::source::Source;
use crate::time_order::{InOrder, ShardRecords};
use crate::trace_file::{MULTI_PROCESS_END, TraceFile};
use crate::varint::Input;

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
    /// It has the records of several processes, where one was wanted.
    #[error("{}: a recording of {count} processes, not of one", path.display())]
    Several {
        /// The file.
        path: PathBuf,
        /// How many there are.
        count: usize,
    },
    /// Not even its header can be read.
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
    pub(crate) fn new(offset: u64, reason: &(impl ToString + ?Sized)) -> Self {
        Self { offset, reason: reason.to_string() }
    }
}

/// What is found when all blocks of a trace are looked at.
#[derive(Clone, Debug, Default)]
pub struct Checked {
    /// The blocks of records that can be read: those before any damage.
    pub blocks: Vec<BlockInfo>,
    /// The blocks with calls of layers that can be read.
    pub layer_blocks: Vec<BlockInfo>,
    /// How many records the process could not write.
    pub lost: u64,
    /// Where it cannot be read any further, if so.
    pub damage: Option<Damage>,
}

/// The trace of one process: a file, or a part of one. It is read as it is asked for.
#[derive(Clone, Debug)]
pub struct Trace {
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<Source>,
    pub(crate) header: Header,
    pub(crate) zero: Option<i64>,
    /// Where blocks begin that come after the header.
    pub(crate) body: u64,
    /// What is there or after it belongs to others.
    pub(crate) end: u64,
    /// Its place among the traces of its file.
    pub(crate) number: u32,
    /// How the file was called that it came from, if it is a part of one.
    pub(crate) source: Option<String>,
    /// The damage of the file it came from, or that of this file where its end is missing.
    pub(crate) damage: Option<Damage>,
    /// Whether it is all there is in its file, which has an index of its own.
    pub(crate) alone: bool,
}

impl Trace {
    /// Opens one. A file of several is an error; see [`TraceFile`].
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        let file =
            File::open(path).map_err(|error| TraceError::Io { path: path.to_path_buf(), error })?;
        TraceFile::new(path, Source::File(file))?.into_one(path)
    }

    /// One whose bytes are in memory; errors call it by this name.
    pub fn in_memory(name: &Path, bytes: Vec<u8>) -> Result<Self, TraceError> {
        TraceFile::new(name, Source::Memory(bytes))?.into_one(name)
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The process that recorded it.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// What the file was called that it came from: its own name, or another one if it was merged.
    pub fn source(&self) -> &str {
        let own = || self.path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        self.source.as_deref().unwrap_or_else(own)
    }

    /// Time 0 of the recording that it was cut from, in nanoseconds of its clock.
    pub const fn zero(&self) -> Option<i64> {
        self.zero
    }

    /// The block at an offset of this trace.
    pub(crate) fn block_at(&self, at: u64) -> Result<Option<(BlockHeader, Vec<u8>)>, Damage> {
        if at >= self.end { Ok(None) } else { self.file.block(at) }
    }

    /// The files that were open when the records begin, if it was cut from another.
    pub fn preopened(&self) -> Result<Vec<PreopenedFile>, Damage> {
        let (mut preopened, mut at) = (Vec::new(), self.body);
        while let Some((header, content)) = self.block_at(at)? {
            match header.content {
                Content::PreopenedFiles => preopened.extend(
                    preopened::decode(&content)
                        .ok_or_else(|| Damage::new(at, "no list of files"))?,
                ),
                _ => break,
            }
            at += header.size();
        }
        Ok(preopened)
    }

    /// Looks at all blocks without taking them apart.
    pub fn check(&self) -> Checked {
        let (mut checked, mut at, mut stored) = (Checked::default(), self.body, Vec::new());
        while at < self.end {
            match self.file.stored(at, &mut stored) {
                Ok(Some(header)) => {
                    checked.lost += u64::from(header.lost);
                    match header.info(at) {
                        Some(block) if block.is_of_layer() => checked.layer_blocks.push(block),
                        info => checked.blocks.extend(info),
                    }
                    at += header.size();
                }
                Ok(None) => break,
                Err(damage) => {
                    checked.damage = Some(damage);
                    return checked;
                }
            }
        }
        checked.damage.clone_from(&self.damage);
        checked
    }

    /// A block as it is stored, to be put into another trace.
    pub fn stored(&self, block: &BlockInfo) -> Result<StoredBlock, Damage> {
        let mut bytes = Vec::new();
        match self.file.stored(block.offset, &mut bytes)? {
            Some(header) => Ok(StoredBlock { header, bytes }),
            None => Err(Damage::new(block.offset, "records are missing")),
        }
    }

    /// Where its blocks of records are, by its index, or by going through it if it has none because
    /// the process was killed. The damage where that ended, if it did.
    pub fn blocks(&self) -> (Vec<BlockInfo>, Option<Damage>) {
        let (mut blocks, damage) = self.all_blocks();
        blocks.retain(|block| !block.is_of_layer());
        (blocks, damage)
    }

    /// Where its blocks with calls of layers are, in the same way.
    pub fn layer_blocks(&self) -> (Vec<BlockInfo>, Option<Damage>) {
        let (mut blocks, damage) = self.all_blocks();
        blocks.retain(BlockInfo::is_of_layer);
        (blocks, damage)
    }

    fn all_blocks(&self) -> (Vec<BlockInfo>, Option<Damage>) {
        match self.index() {
            Some(blocks) => (blocks, self.damage.clone()),
            None => self.scan(),
        }
    }

    /// The blocks according to the index, if the file is complete.
    fn index(&self) -> Option<Vec<BlockInfo>> {
        let end = HEADER as u64 + if self.alone { 16 } else { MULTI_PROCESS_END as u64 };
        let (end, content) = self.file.block(self.file.len()?.checked_sub(end)?).ok()??;
        let mut content = Input(&content);
        let mut at = u64::from_le_bytes(content.fixed()?);
        let records = u64::from_le_bytes(content.fixed()?);
        if end.content != Content::End {
            return None;
        }
        let (mut parts, mut sum) = (Vec::new(), 0);
        while at != 0 {
            let (header, content) = self.file.block(at).ok()??;
            let (before, part) = index_part(&content, !self.alone)?;
            // Each is after the one before, so that there is an end to it.
            if header.content != Content::Index || before >= at {
                return None;
            }
            sum += part.iter().map(|(_, block)| u64::from(block.count)).sum::<u64>();
            parts.push(part);
            at = before;
        }
        let blocks = parts.into_iter().rev().flatten();
        let ours = blocks.filter(|(number, _)| *number == u64::from(self.number));
        (sum == records).then(|| ours.map(|(_, block)| block).collect())
    }

    /// The blocks as they follow each other.
    fn scan(&self) -> (Vec<BlockInfo>, Option<Damage>) {
        let (mut blocks, mut at) = (Vec::new(), self.body);
        while at < self.end {
            match self.file.header(at) {
                Ok(Some(header)) => {
                    blocks.extend(header.info(at));
                    at += header.size();
                }
                Ok(None) => break,
                Err(damage) => return (blocks, Some(damage)),
            }
        }
        (blocks, self.damage.clone())
    }

    /// The records as they are in the file: those of a thread in their order.
    pub fn records(&self) -> Records {
        Records { trace: self.clone(), at: self.body, decoder: None, lost: 0, ended: false }
    }

    /// The records of one block.
    pub fn block(&self, block: &BlockInfo) -> Result<Vec<Record>, Damage> {
        let mut records = self.records();
        records.go_to(block.offset);
        let mut found = Vec::new();
        for _ in 0..block.count {
            found.extend(records.next().transpose()?);
        }
        Ok(found)
    }

    /// The records of some blocks of one shard.
    pub fn shard(&self, blocks: impl IntoIterator<Item = BlockInfo>) -> ShardRecords {
        ShardRecords::new(self.records(), blocks)
    }

    /// The calls of layers in these blocks, in the order in which they ended.
    pub fn layer_records(&self, blocks: impl IntoIterator<Item = BlockInfo>) -> LayerRecords {
        LayerRecords::new(self, blocks)
    }

    /// The records by the time at which calls ended: those of a thread in their order.
    pub fn in_order(&self) -> InOrder {
        let (blocks, damage) = self.blocks();
        InOrder::new(self, blocks, damage)
    }

    /// The records of these blocks by the time at which calls ended.
    pub fn in_order_of(&self, blocks: Vec<BlockInfo>) -> InOrder {
        InOrder::new(self, blocks, None)
    }
}

/// The records in the content of a block, up to what is not one, with times as if a tick was a
/// nanosecond: for tests that try all sorts of bytes.
#[doc(hidden)]
pub fn records_in(content: Vec<u8>) -> Vec<Record> {
    let mut decoder = Decoder::new(header_for_tests(), content);
    std::iter::from_fn(|| decoder.next().ok().flatten()).collect()
}

/// The same for a block with calls of layers.
#[doc(hidden)]
pub fn layer_records_in(content: Vec<u8>) -> Vec<LayerRecord> {
    let mut decoder = LayerDecoder::new(header_for_tests(), content);
    std::iter::from_fn(|| decoder.next().ok().flatten()).collect()
}

fn header_for_tests() -> BlockHeader {
    BlockHeader {
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
    }
}

/// Where the index before is, and the blocks with the number of their process.
fn index_part(content: &[u8], of_several: bool) -> Option<(u64, Vec<(u64, BlockInfo)>)> {
    let mut input = Input(content);
    let before = input.number()?;
    let mut part = Vec::new();
    let mut offset = 0_u64;
    for _ in 0..input.number()? {
        offset = offset.checked_add(input.number()?)?;
        let number = if of_several { input.number()? } else { 0 };
        let shard = u16::try_from(input.number()?).ok()?;
        let (count, from) = (input.narrow()?, input.number()?);
        let until = from.checked_add(input.number()?)?;
        part.push((number, BlockInfo { offset, shard, count, from, until }));
    }
    Some((before, part))
}

/// Records as they are in the file. After damage there is nothing more.
#[derive(Debug)]
pub struct Records {
    trace: Trace,
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

    /// Where it reads.
    pub(crate) const fn offset(&self) -> u64 {
        self.at
    }

    /// Goes on with another block.
    pub(crate) fn go_to(&mut self, offset: u64) {
        (self.at, self.decoder) = (offset, None);
    }

    pub(crate) fn step(&mut self) -> Result<Option<Record>, Damage> {
        loop {
            if let Some(decoder) = &mut self.decoder {
                let record = decoder.next();
                let wrong = |()| Damage::new(self.at, "the block before has an unknown record");
                if let Some(record) = record.map_err(wrong)? {
                    return Ok(Some(record));
                }
                self.decoder = None;
            }
            let Some((header, bytes)) = self.trace.block_at(self.at)? else {
                // What its source lacked, it lacks too.
                return self.trace.damage.take().map_or(Ok(None), Err);
            };
            let info = header.info(self.at);
            self.at += header.size();
            if info.is_some_and(|info| !info.is_of_layer()) {
                self.lost += u64::from(header.lost);
                self.decoder = Some(Decoder::new(header, bytes));
            }
        }
    }
}

/// What an iterator over records returns for a step: nothing comes after the end or after damage.
pub(crate) fn until_damage<T>(
    ended: &mut bool,
    step: Result<Option<T>, Damage>,
) -> Option<Result<T, Damage>> {
    let next = step.transpose();
    *ended = !matches!(next, Some(Ok(_)));
    next
}

impl Iterator for Records {
    type Item = Result<Record, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let step = self.step();
        until_damage(&mut self.ended, step)
    }
}
