//! [`MultiProcessWriter`]: writes the traces of several processes into one file.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

use crate::block::{
    BlockHeader, BlockInfo, Content, MAGIC, MULTI_PROCESS_VERSION, PREAMBLE, StoredBlock, checksum,
};
use crate::call::Record;
use crate::encoder::{Encoder, Timed};
use crate::header::{Header, encode_zero};
use crate::layer_codec::{FIRST_SHARD, LayerEncoder, LayerRecord};
use crate::preopened::{self, PreopenedFile};
use crate::reader::Damage;
use crate::trace_file::{Entry, MULTI_PROCESS_END, encode_table};
use crate::varint;

/// Entries of an index or a table that are kept in memory.
const MOST_ENTRIES: usize = 1024;
/// Blocks that are filled at a time. If there are more shards, those that are begun are written as
/// they are.
const MOST_SHARDS: usize = 32;
/// Preopened files in one block.
const MOST_PREOPENED: usize = 256;

/// A trace that becomes a part of a file.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Whose it is.
    pub header: &'a Header,
    /// The name of the file it comes from.
    pub source: &'a str,
    /// Time 0 of the recording it is cut from, by its own clock.
    pub zero: Option<i64>,
    /// Files that are open before its records begin.
    pub preopened: &'a [PreopenedFile],
}

/// Writes traces one after the other into one file: [`begin`](Self::begin), then records or stored
/// blocks, then the next. Memory is needed for the blocks of one process.
pub struct MultiProcessWriter {
    path: PathBuf,
    file: BufWriter<File>,
    length: u64,
    records: u64,
    /// Times in nanoseconds are counted from here on.
    clock: u64,
    shards: BTreeMap<u16, Encoder>,
    layers: LayerEncoder,
    current: Option<Entry>,
    count: u64,
    index: Vec<(u64, BlockInfo)>,
    last_index: u64,
    table: Vec<Entry>,
    last_table: u64,
    compression: CompressTable,
    scratch: Vec<u8>,
}

impl fmt::Debug for MultiProcessWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MultiProcessWriter")
            .field("path", &self.path)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl MultiProcessWriter {
    /// A new file; there must be none of that name.
    pub fn create(path: impl Into<PathBuf>) -> io::Result<Self> {
        let path = path.into();
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
        Self::on(file, path)
    }

    /// The same in an existing, empty file.
    pub fn on(file: File, path: PathBuf) -> io::Result<Self> {
        let mut file = BufWriter::with_capacity(256 << 10, file);
        let mut preamble = [0; PREAMBLE];
        preamble[..8].copy_from_slice(MAGIC);
        preamble[8..12].copy_from_slice(&MULTI_PROCESS_VERSION.to_le_bytes());
        file.write_all(&preamble)?;
        Ok(Self {
            path,
            file,
            length: PREAMBLE as u64,
            records: 0,
            clock: 0,
            shards: BTreeMap::new(),
            layers: LayerEncoder::new(),
            current: None,
            count: 0,
            index: Vec::new(),
            last_index: 0,
            table: Vec::new(),
            last_table: 0,
            compression: CompressTable::large(),
            scratch: Vec::new(),
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How many records there are so far.
    pub const fn records(&self) -> u64 {
        self.records
    }

    /// Begins the trace of a process.
    pub fn begin(&mut self, part: &Part<'_>) -> io::Result<()> {
        self.end_trace()?;
        self.clock = part.header.clock;
        let (at, source) = (self.length, part.source.to_owned());
        self.current = Some(Entry { at, length: 0, source, damage: None });
        let mut header = part.header.encode();
        encode_zero(&mut header, part.zero);
        self.plain(Content::Header, &header)?;
        for some in part.preopened.chunks(MOST_PREOPENED) {
            self.plain(Content::PreopenedFiles, &preopened::encode(some))?;
        }
        Ok(())
    }

    /// The trace that is being written could not be read further where it came from.
    pub fn set_damage(&mut self, damage: Damage) {
        if let Some(current) = &mut self.current {
            current.damage = Some(damage);
        }
    }

    /// Adds a record of a shard. Those of a shard come in the order in which calls ended, and those
    /// of a thread are in one shard.
    pub fn write(&mut self, shard: u16, record: &Record) -> io::Result<()> {
        if !self.shards.contains_key(&shard) && self.shards.len() >= MOST_SHARDS {
            self.flush_shards()?;
        }
        let encoder = self.shards.entry(shard).or_default();
        let end = record.start.saturating_add(record.duration);
        let timed = Timed { start: record.start, end };
        let call = record.call.map(|file| &**file, |path| &**path);
        encoder.push(record.thread, record.function, timed, record.result(), &call);
        if encoder.is_full()
            && let Some(mut encoder) = self.shards.remove(&shard)
        {
            self.flush(shard, &encoder)?;
            encoder.clear();
            self.shards.insert(shard, encoder);
        }
        Ok(())
    }

    /// Adds a call of a layer. They come in the order in which they ended.
    pub fn write_layer(&mut self, record: &LayerRecord) -> io::Result<()> {
        self.layers.push(record.thread, &record.call());
        if self.layers.is_full() { self.flush_layers() } else { Ok(()) }
    }

    /// Adds a block as another trace has it.
    pub fn copy(&mut self, block: &StoredBlock) -> io::Result<()> {
        let at = self.length;
        self.append(block.header, &block.bytes)?;
        self.indexed(block.header, at)
    }

    fn indexed(&mut self, header: BlockHeader, at: u64) -> io::Result<()> {
        if let Some(info) = header.info(at) {
            self.records += u64::from(info.count);
            self.index.push((self.count, info));
        }
        if self.index.len() >= MOST_ENTRIES { self.write_index() } else { Ok(()) }
    }

    fn flush(&mut self, shard: u16, encoder: &Encoder) -> io::Result<()> {
        if encoder.count() == 0 {
            return Ok(());
        }
        let bytes = encoder.bytes();
        let header = BlockHeader { shard, count: encoder.count(), ..self.header_of(bytes) };
        self.compressed(header, encoder.span(), bytes)
    }

    fn flush_layers(&mut self) -> io::Result<()> {
        if self.layers.count() == 0 {
            return Ok(());
        }
        let mut layers = std::mem::take(&mut self.layers);
        let (content, shard, count) = (Content::Layer, FIRST_SHARD, layers.count());
        let header = BlockHeader { content, shard, count, ..self.header_of(layers.bytes()) };
        self.compressed(header, layers.span(), layers.bytes())?;
        layers.clear();
        self.layers = layers;
        Ok(())
    }

    /// Writes a block, compressed if that makes it shorter.
    fn compressed(
        &mut self,
        mut header: BlockHeader,
        (first, last): (u64, u64),
        bytes: &[u8],
    ) -> io::Result<()> {
        (header.from, header.until) = (header.time(first), header.time(last));
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.resize(get_maximum_output_size(bytes.len()), 0);
        let at = self.length;
        let compressed = compress_into_with_table(bytes, &mut scratch, &mut self.compression);
        let written = match compressed {
            Ok(length) if length < bytes.len() => {
                let stored = &scratch[..length];
                (header.compressed, header.stored) = (true, length as u32);
                header.checksum = checksum(stored);
                self.append(header, stored)
            }
            _ => self.append(header, bytes),
        };
        self.scratch = scratch;
        written?;
        self.indexed(header, at)
    }

    fn flush_shards(&mut self) -> io::Result<()> {
        for (shard, encoder) in std::mem::take(&mut self.shards) {
            self.flush(shard, &encoder)?;
        }
        self.flush_layers()
    }

    fn header_of(&self, bytes: &[u8]) -> BlockHeader {
        BlockHeader {
            content: Content::Records,
            compressed: false,
            shard: 0,
            stored: bytes.len() as u32,
            raw: bytes.len() as u32,
            count: 0,
            lost: 0,
            // A tick is a nanosecond.
            ticks: self.clock,
            nanoseconds: self.clock,
            tick: 1.0,
            from: 0,
            until: 0,
            checksum: checksum(bytes),
        }
    }

    fn plain(&mut self, content: Content, bytes: &[u8]) -> io::Result<()> {
        self.append(BlockHeader { content, ..self.header_of(bytes) }, bytes)
    }

    fn append(&mut self, header: BlockHeader, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(&header.encode())?;
        self.file.write_all(bytes)?;
        self.length += header.size();
        Ok(())
    }

    fn end_trace(&mut self) -> io::Result<()> {
        self.flush_shards()?;
        let Some(mut entry) = self.current.take() else { return Ok(()) };
        entry.length = self.length - entry.at;
        self.table.push(entry);
        self.count += 1;
        if self.table.len() >= MOST_ENTRIES { self.write_table() } else { Ok(()) }
    }

    fn write_index(&mut self) -> io::Result<()> {
        let mut content = Vec::new();
        varint::push(&mut content, self.last_index);
        varint::push(&mut content, self.index.len() as u64);
        let mut before = 0;
        for (process, entry) in self.index.drain(..) {
            for number in [
                entry.offset - before,
                process,
                entry.shard.into(),
                entry.count.into(),
                entry.from,
                entry.until.saturating_sub(entry.from),
            ] {
                varint::push(&mut content, number);
            }
            before = entry.offset;
        }
        let at = self.length;
        self.plain(Content::Index, &content)?;
        self.last_index = at;
        Ok(())
    }

    fn write_table(&mut self) -> io::Result<()> {
        let content = encode_table(self.last_table, &self.table);
        self.table.clear();
        let at = self.length;
        self.plain(Content::Processes, &content)?;
        self.last_table = at;
        Ok(())
    }

    /// Writes what is still in memory, the index, the table of processes and the end.
    pub fn finish(mut self) -> io::Result<()> {
        self.end_trace()?;
        self.write_index()?;
        self.write_table()?;
        let mut content = [0; MULTI_PROCESS_END];
        content[..8].copy_from_slice(&self.last_index.to_le_bytes());
        content[8..16].copy_from_slice(&self.records.to_le_bytes());
        content[16..].copy_from_slice(&self.last_table.to_le_bytes());
        self.plain(Content::End, &content)?;
        self.file.flush()
    }
}
