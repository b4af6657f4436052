//! [`LayerRecord`]: a call of a layer above POSIX in a trace; its encoder and decoder.
//!
//! Such calls have blocks of their own. A call of a layer ends after all calls that it caused, so
//! in one sequence with these it would follow all of them. In two sequences both are in the order
//! of time, and a reader can read one of them alone.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use striate_calls::layer::{LayerCall, LayerFunction};

use crate::block::BlockHeader;
use crate::varint::{Input, fold, push, push_bytes};
use crate::{BLOCK, decoder};

/// Shards from here on have calls of layers.
pub(crate) const FIRST_SHARD: u16 = 0x8000;

const CALL: u8 = 0x80;
const PATH: u8 = 0x81;
const THREAD: u8 = 0x83;

/// A call of a layer, its thread, its times and its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayerRecord {
    /// The function that the program called.
    pub function: LayerFunction,
    /// The thread, as the kernel numbers them.
    pub thread: u32,
    /// When it began, in nanoseconds of the monotonic clock.
    pub start: u64,
    /// How many nanoseconds it took.
    pub duration: u64,
    /// How many bytes were moved, or the class of the error.
    pub outcome: Result<u64, i32>,
    /// The file.
    pub path: Arc<Path>,
    /// Identifies the files that the process has open in the layer; 0 if the call is on none.
    pub file: u64,
    /// Where, as the call said it.
    pub offset: Option<i64>,
    /// How many bytes were asked for; of a call about sizes, the size.
    pub length: u64,
    /// How many elements were asked for.
    pub count: u64,
}

impl LayerRecord {
    /// When it ended.
    pub const fn end(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }

    /// As the door has it, where a tick is a nanosecond.
    pub(crate) fn call(&self) -> LayerCall<'_> {
        LayerCall {
            function: self.function,
            path: &self.path,
            file: self.file,
            offset: self.offset,
            length: self.length,
            count: self.count,
            outcome: self.outcome,
            start: self.start,
            end: self.end(),
        }
    }
}

/// Collects the calls of a block.
#[derive(Debug)]
pub struct LayerEncoder {
    bytes: Vec<u8>,
    count: u32,
    /// The start of the call before.
    before: u64,
    /// The first start and the last end.
    span: (u64, u64),
    thread: u32,
    paths: HashMap<Box<Path>, u64>,
}

impl Default for LayerEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl LayerEncoder {
    /// One without calls.
    pub fn new() -> Self {
        Self {
            bytes: Vec::new(),
            count: 0,
            before: 0,
            span: (u64::MAX, 0),
            thread: 0,
            paths: HashMap::new(),
        }
    }

    /// Begins a new block.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.paths.clear();
        (self.count, self.before, self.span, self.thread) = (0, 0, (u64::MAX, 0), 0);
    }

    /// The calls, encoded.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// How many calls there are.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The first start and the last end, in ticks.
    pub const fn span(&self) -> (u64, u64) {
        self.span
    }

    /// Whether there are enough for a block.
    pub fn is_full(&self) -> bool {
        self.bytes.len() >= BLOCK
    }

    /// Adds a call.
    pub fn push(&mut self, thread: u32, call: &LayerCall<'_>) {
        if thread != self.thread {
            self.thread = thread;
            self.bytes.push(THREAD);
            push(&mut self.bytes, thread.into());
        }
        let path = self.path(call.path);
        let bytes = &mut self.bytes;
        bytes.push(CALL);
        push(bytes, call.function as u64);
        let since = call.start.wrapping_sub(self.before) as i64;
        push(bytes, fold(since));
        push(bytes, call.end.saturating_sub(call.start));
        push(bytes, crate::encoder::folded(call.outcome));
        push(bytes, path);
        push(bytes, call.file);
        bytes.push(call.offset.is_some().into());
        if let Some(offset) = call.offset {
            push(bytes, fold(offset));
        }
        push(bytes, call.length);
        push(bytes, call.count);
        self.before = call.start;
        self.count += 1;
        self.span = (self.span.0.min(call.start), self.span.1.max(call.end));
    }

    /// The number of a path, which is defined if it was not yet.
    fn path(&mut self, path: &Path) -> u64 {
        if let Some(number) = self.paths.get(path) {
            return *number;
        }
        let number = self.paths.len() as u64;
        self.paths.insert(path.into(), number);
        self.bytes.push(PATH);
        push_bytes(&mut self.bytes, path.as_os_str().as_encoded_bytes());
        number
    }
}

/// Takes the calls out of a block, one by one.
#[derive(Debug)]
pub(crate) struct LayerDecoder {
    header: BlockHeader,
    bytes: Vec<u8>,
    at: usize,
    before: u64,
    thread: u32,
    paths: Vec<Arc<Path>>,
}

impl LayerDecoder {
    pub(crate) fn new(header: BlockHeader, bytes: Vec<u8>) -> Self {
        Self { header, bytes, at: 0, before: 0, thread: 0, paths: Vec::new() }
    }

    /// The next call, `None` after the last; `Err` if the bytes are not one.
    pub(crate) fn next(&mut self) -> Result<Option<LayerRecord>, ()> {
        // Taken out so that it can be read while the rest changes.
        let bytes = std::mem::take(&mut self.bytes);
        let mut input = Input(bytes.get(self.at..).unwrap_or_default());
        let record = if self.define(&mut input).is_none() {
            Err(())
        } else if input.is_empty() {
            Ok(None)
        } else {
            self.call(&mut input).map(Some).ok_or(())
        };
        self.at = bytes.len() - input.0.len();
        self.bytes = bytes;
        record
    }

    /// Takes in what is defined before a call.
    fn define(&mut self, input: &mut Input<'_>) -> Option<()> {
        while let Some(&(PATH | THREAD)) = input.0.first() {
            match input.byte()? {
                PATH => self.paths.push(decoder::path(input.bytes()?).into()),
                _ => self.thread = input.narrow()?,
            }
        }
        Some(())
    }

    fn call(&mut self, input: &mut Input<'_>) -> Option<LayerRecord> {
        if input.byte()? != CALL {
            return None;
        }
        let function = LayerFunction::of_code(u16::try_from(input.number()?).ok()?)?;
        self.before = self.before.wrapping_add_signed(input.signed()?);
        let duration = (input.number()? as f64 * self.header.tick) as u64;
        let outcome = decoder::outcome(input)?;
        let path = self.paths.get(usize::try_from(input.number()?).ok()?).cloned()?;
        let file = input.number()?;
        let offset = if decoder::truth(input)? { Some(input.signed()?) } else { None };
        let (length, count) = (input.number()?, input.number()?);
        let start = self.header.time(self.before);
        let thread = self.thread;
        Some(LayerRecord {
            function,
            thread,
            start,
            duration,
            outcome,
            path,
            file,
            offset,
            length,
            count,
        })
    }
}
