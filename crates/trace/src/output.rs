//! [`Output`]: the file of a trace that is being written.
//!
//! The file is opened for each block and closed again: a descriptor that stayed open would be in
//! the program's table, and the program may close it and use its number for another file.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;

use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};
use striate_process::clock::Moment;
use striate_process::limits;
use striate_process::reopen::{self, Identity};

use crate::block::{BlockHeader, BlockInfo, Content, HEADER, MAGIC, PREAMBLE, VERSION, checksum};
use crate::encoder::Encoder;
use crate::header::Header;
use crate::layer_codec::{FIRST_SHARD, LayerEncoder};
use crate::{BLOCK, varint};

/// Entries of an index that are kept in memory.
const MOST_ENTRIES: usize = 1024;

/// Where blocks go.
pub struct Output {
    path: PathBuf,
    /// Which file it is.
    made: Identity,
    length: u64,
    start: Moment,
    entries: Vec<BlockInfo>,
    last_index: u64,
    records: u64,
    lost: u32,
    table: CompressTable,
    scratch: Vec<u8>,
}

/// What goes into a block.
struct Filled<'e> {
    content: Content,
    shard: u16,
    bytes: &'e [u8],
    count: u32,
    /// The first start and the last end, in ticks.
    span: (u64, u64),
}

impl fmt::Debug for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Output")
            .field("path", &self.path)
            .field("length", &self.length)
            .finish_non_exhaustive()
    }
}

impl Output {
    /// Makes a new file. Times of records will be given as ticks; `start` is a moment before them.
    pub fn create(path: PathBuf, header: &Header, start: Moment) -> io::Result<Self> {
        let content = header.encode();
        limits::refresh();
        limits::admit((PREAMBLE + HEADER + content.len()) as u64)?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&path)?;
        let mut output = Self {
            path,
            made: reopen::identity(&file)?,
            length: PREAMBLE as u64,
            start,
            entries: Vec::with_capacity(MOST_ENTRIES),
            last_index: 0,
            records: 0,
            lost: 0,
            table: CompressTable::large(),
            scratch: vec![0; HEADER + get_maximum_output_size(BLOCK + (24 << 10))],
        };
        let mut preamble = [0; PREAMBLE];
        preamble[..8].copy_from_slice(MAGIC);
        preamble[8..12].copy_from_slice(&VERSION.to_le_bytes());
        file.write_all_at(&preamble, 0)?;
        output.append(&file, output.plain(Content::Header, &content), &content)?;
        Ok(output)
    }

    fn plain(&self, content: Content, bytes: &[u8]) -> BlockHeader {
        BlockHeader {
            content,
            compressed: false,
            shard: 0,
            stored: bytes.len() as u32,
            raw: bytes.len() as u32,
            count: 0,
            lost: 0,
            ticks: self.start.ticks,
            nanoseconds: self.start.nanoseconds,
            tick: 1.0,
            from: 0,
            until: 0,
            checksum: 0,
        }
    }

    /// Where it goes.
    pub fn path(&self) -> &std::path::Path {
        &self.path
    }

    /// Writes the records of an encoder, and empties it in any case. `now` is a moment after them.
    pub fn write(&mut self, shard: u16, encoder: &mut Encoder, now: Moment) -> io::Result<()> {
        if encoder.count() == 0 {
            return Ok(());
        }
        let (bytes, count, span) = (encoder.bytes(), encoder.count(), encoder.span());
        let content = Content::Records;
        let written = self.write_block(&Filled { content, shard, bytes, count, span }, now);
        if written.is_err() {
            self.lost = self.lost.saturating_add(encoder.count());
        }
        encoder.clear();
        written
    }

    /// The same for calls of layers.
    pub fn write_layers(&mut self, encoder: &mut LayerEncoder, now: Moment) -> io::Result<()> {
        if encoder.count() == 0 {
            return Ok(());
        }
        let (bytes, count, span) = (encoder.bytes(), encoder.count(), encoder.span());
        let (content, shard) = (Content::Layer, FIRST_SHARD);
        let filled = Filled { content, shard, bytes, count, span };
        let written = self.write_block(&filled, now);
        if written.is_err() {
            self.lost = self.lost.saturating_add(encoder.count());
        }
        encoder.clear();
        written
    }

    fn write_block(&mut self, filled: &Filled<'_>, now: Moment) -> io::Result<()> {
        let Filled { content, shard, bytes, count, span } = *filled;
        let mut header = BlockHeader {
            shard,
            count,
            lost: self.lost,
            ticks: now.ticks,
            nanoseconds: now.nanoseconds,
            tick: self.start.nanoseconds_per_tick(now),
            ..self.plain(content, bytes)
        };
        (header.from, header.until) = (header.time(span.0), header.time(span.1));
        let mut scratch = std::mem::take(&mut self.scratch);
        let most = HEADER + get_maximum_output_size(bytes.len());
        if scratch.len() < most {
            scratch.resize(most, 0);
        }
        let compressed = compress_into_with_table(bytes, &mut scratch[HEADER..], &mut self.table);
        let offset = self.length;
        let file = reopen::open_again(&self.path, self.made);
        let written = match compressed {
            Ok(length) if length < bytes.len() => {
                header.compressed = true;
                header.stored = length as u32;
                header.checksum = checksum(&scratch[HEADER..HEADER + length]);
                // In one piece: a concurrent reader sees whole blocks.
                scratch[..HEADER].copy_from_slice(&header.encode());
                file.and_then(|file| self.append_whole(&file, &scratch[..HEADER + length]))
            }
            _ => file.and_then(|file| self.append(&file, header, bytes)),
        };
        self.scratch = scratch;
        written?;
        self.lost = 0;
        self.records += u64::from(header.count);
        let BlockHeader { count, from, until, .. } = header;
        self.entries.push(BlockInfo { offset, shard, count, from, until });
        if self.entries.len() >= MOST_ENTRIES { self.write_index() } else { Ok(()) }
    }

    fn append(&mut self, file: &File, mut header: BlockHeader, content: &[u8]) -> io::Result<()> {
        header.checksum = checksum(content);
        let mut bytes = Vec::with_capacity(HEADER + content.len());
        bytes.extend_from_slice(&header.encode());
        bytes.extend_from_slice(content);
        self.append_whole(file, &bytes)
    }

    /// What could not be written whole will be written over.
    fn append_whole(&mut self, file: &File, bytes: &[u8]) -> io::Result<()> {
        limits::admit(self.length + bytes.len() as u64)?;
        file.write_all_at(bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    fn write_index(&mut self) -> io::Result<()> {
        let mut content = Vec::new();
        varint::push(&mut content, self.last_index);
        varint::push(&mut content, self.entries.len() as u64);
        let mut before = 0;
        for entry in self.entries.drain(..) {
            varint::push(&mut content, entry.offset - before);
            varint::push(&mut content, entry.shard.into());
            varint::push(&mut content, entry.count.into());
            varint::push(&mut content, entry.from);
            varint::push(&mut content, entry.until.saturating_sub(entry.from));
            before = entry.offset;
        }
        let at = self.length;
        let file = reopen::open_again(&self.path, self.made)?;
        self.append(&file, self.plain(Content::Index, &content), &content)?;
        self.last_index = at;
        Ok(())
    }

    /// Writes the index and the end. More may follow, and another end.
    pub fn finish(&mut self) -> io::Result<()> {
        if !self.entries.is_empty() || self.last_index == 0 {
            self.write_index()?;
        }
        let mut content = [0; 16];
        content[..8].copy_from_slice(&self.last_index.to_le_bytes());
        content[8..].copy_from_slice(&self.records.to_le_bytes());
        let file = reopen::open_again(&self.path, self.made)?;
        self.append(&file, self.plain(Content::End, &content), &content)
    }
}
