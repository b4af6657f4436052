//! [`TraceFile`]: the traces in a file, of one process or of several.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::block::{
    Content, HEADER, MAGIC, MULTI_PROCESS_VERSION, OLDER_VERSIONS, OLDER_VERSIONS_OF_SEVERAL,
    PREAMBLE, VERSION,
};
use crate::header::{Header, decode_zero};
use crate::reader::{Damage, Trace, TraceError};
use crate::source::Source;
use crate::varint::{Input, push, push_bytes};

/// Bytes of the end of a file of several traces.
pub(crate) const MULTI_PROCESS_END: usize = 24;

/// The traces in a file.
#[derive(Debug)]
pub struct TraceFile {
    /// One for each process whose header can be read.
    pub traces: Vec<Trace>,
    /// Why others may be missing.
    pub damage: Option<Damage>,
}

impl TraceFile {
    /// Opens a file. It is opened again whenever something is read, so that there can be many.
    pub fn open(path: &Path) -> Result<Self, TraceError> {
        Self::new(path, Source::Path(path.to_path_buf()))
    }

    /// One whose bytes are in memory; errors call it by this name.
    pub fn in_memory(name: &Path, bytes: Vec<u8>) -> Result<Self, TraceError> {
        Self::new(name, Source::Memory(bytes))
    }

    pub(crate) fn new(path: &Path, source: Source) -> Result<Self, TraceError> {
        let mut preamble = [0; PREAMBLE];
        match source.read_at(&mut preamble, 0) {
            Err(error) => return Err(TraceError::Io { path: path.to_path_buf(), error }),
            Ok(PREAMBLE) if preamble[..8] == *MAGIC => {}
            Ok(_) => return Err(TraceError::Foreign(path.to_path_buf())),
        }
        let version = u32::from_le_bytes(std::array::from_fn(|n| preamble[8 + n]));
        let opening = Opening { path: path.to_path_buf(), source: Arc::new(source) };
        let file = if version == VERSION || OLDER_VERSIONS.contains(&version) {
            opening
                .trace(PREAMBLE as u64, u64::MAX, 0)
                .map(|trace| Self { traces: vec![Trace { alone: true, ..trace }], damage: None })
        } else if version == MULTI_PROCESS_VERSION || OLDER_VERSIONS_OF_SEVERAL.contains(&version) {
            Ok(opening.by_table().unwrap_or_else(|| opening.by_scan()))
        } else {
            return Err(TraceError::Version { path: opening.path, version });
        };
        file.map_err(|damage| TraceError::Damaged { path: opening.path, damage })
    }

    /// The only one there is.
    pub(crate) fn into_one(mut self, path: &Path) -> Result<Trace, TraceError> {
        let path = path.to_path_buf();
        match (self.traces.len(), self.traces.pop(), self.damage) {
            (1, Some(trace), _) => Ok(trace),
            (0, _, Some(damage)) => Err(TraceError::Damaged { path, damage }),
            (count, ..) => Err(TraceError::Several { path, count }),
        }
    }
}

/// A file that is being opened.
struct Opening {
    path: PathBuf,
    source: Arc<Source>,
}

impl Opening {
    /// The trace whose header is at an offset.
    fn trace(&self, at: u64, end: u64, number: u32) -> Result<Trace, Damage> {
        let block = self.source.block(at)?;
        let (block, content) = block.ok_or_else(|| Damage::new(at, "it ends here"))?;
        let header = match block.content {
            Content::Header => Header::decode(&content),
            _ => None,
        };
        Ok(Trace {
            path: self.path.clone(),
            file: Arc::clone(&self.source),
            header: header.ok_or_else(|| Damage::new(at, "no header"))?,
            zero: decode_zero(&content),
            body: at + block.size(),
            end,
            number,
            source: None,
            damage: None,
            alone: false,
        })
    }

    /// The traces according to the table at the end, if the file is complete.
    fn by_table(&self) -> Option<TraceFile> {
        const END: u64 = (HEADER + MULTI_PROCESS_END) as u64;
        let (end, content) = self.source.block(self.source.len()?.checked_sub(END)?).ok()??;
        if end.content != Content::End {
            return None;
        }
        let mut content = Input(content.get(16..)?);
        let mut at = u64::from_le_bytes(content.fixed()?);
        let mut parts = Vec::new();
        while at != 0 {
            let (block, content) = self.source.block(at).ok()??;
            let (before, part) = decode_table(&content)?;
            if block.content != Content::Processes || before >= at {
                return None;
            }
            parts.push(part);
            at = before;
        }
        let mut file = TraceFile { traces: Vec::new(), damage: None };
        for (number, entry) in (0..).zip(parts.into_iter().rev().flatten()) {
            let end = entry.at.checked_add(entry.length)?;
            match self.trace(entry.at, end, number) {
                Ok(mut trace) => {
                    (trace.source, trace.damage) = (Some(entry.source), entry.damage);
                    file.traces.push(trace);
                }
                Err(damage) => {
                    file.damage.get_or_insert(damage);
                }
            }
        }
        Some(file)
    }

    /// The traces as they follow each other, up to where that ends.
    fn by_scan(&self) -> TraceFile {
        let (mut traces, mut at): (Vec<Trace>, _) = (Vec::new(), PREAMBLE as u64);
        let damage = loop {
            match self.source.header(at) {
                Ok(None) => break Damage::new(at, "it ends without its table of processes"),
                Err(damage) => break damage,
                Ok(Some(block)) => {
                    if block.content == Content::Header {
                        if let Some(before) = traces.last_mut() {
                            before.end = at;
                        }
                        match self.trace(at, u64::MAX, traces.len() as u32) {
                            Ok(trace) => traces.push(trace),
                            Err(damage) => break damage,
                        }
                    }
                    at += block.size();
                }
            }
        };
        if let Some(last) = traces.last_mut() {
            last.end = at;
            last.damage = Some(damage.clone());
        }
        TraceFile { traces, damage: Some(damage) }
    }
}

/// What the table says of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// Where its header begins, and how many bytes there are until those of others.
    pub(crate) at: u64,
    pub(crate) length: u64,
    /// The name of the file it came from, and its damage.
    pub(crate) source: String,
    pub(crate) damage: Option<Damage>,
}

pub(crate) fn encode_table(before: u64, entries: &[Entry]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, before);
    push(&mut bytes, entries.len() as u64);
    for entry in entries {
        push(&mut bytes, entry.at);
        push(&mut bytes, entry.length);
        push_bytes(&mut bytes, entry.source.as_bytes());
        match &entry.damage {
            None => push(&mut bytes, 0),
            Some(damage) => {
                push(&mut bytes, 1);
                push(&mut bytes, damage.offset);
                push_bytes(&mut bytes, damage.reason.as_bytes());
            }
        }
    }
    bytes
}

fn decode_table(content: &[u8]) -> Option<(u64, Vec<Entry>)> {
    let mut input = Input(content);
    let text = |input: &mut Input<'_>| Some(String::from_utf8_lossy(input.bytes()?).into_owned());
    let before = input.number()?;
    let mut entries = Vec::new();
    for _ in 0..input.number()? {
        let (at, length) = (input.number()?, input.number()?);
        let source = text(&mut input)?;
        let damage = match input.number()? {
            0 => None,
            1 => Some(Damage { offset: input.number()?, reason: text(&mut input)? }),
            _ => return None,
        };
        entries.push(Entry { at, length, source, damage });
    }
    Some((before, entries))
}
