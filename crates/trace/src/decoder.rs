//! [`Decoder`]: the records in the bytes of a block.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_calls::{Detail, Function, Kind};

use crate::block::{BlockHeader, Content};
use crate::call::{Call, Record, RecordedCall, Subject, TracedEnd, TracedFile};
use crate::encoder::{AS_LONG, FILE, FOLLOWS, FULL, NOWHERE, PATH, PLACED, THREAD, WHOLE};
use crate::varint::{Input, unfold};

/// A path of these bytes.
pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

/// Takes the records out of a block, one by one.
#[derive(Debug)]
pub(crate) struct Decoder {
    header: BlockHeader,
    bytes: Vec<u8>,
    at: usize,
    before: u64,
    thread: u32,
    last: Option<LastDecoded>,
    paths: Vec<Arc<Path>>,
    files: HashMap<(u64, u32), Arc<TracedFile>>,
}

/// What the record before was, if it was a plain transfer.
#[derive(Debug)]
struct LastDecoded {
    function: Function,
    reads: bool,
    file: Arc<TracedFile>,
    end: u64,
    length: u64,
}

impl Decoder {
    pub(crate) fn new(header: BlockHeader, bytes: Vec<u8>) -> Self {
        Self {
            header,
            bytes,
            at: 0,
            before: 0,
            thread: 0,
            last: None,
            paths: Vec::new(),
            files: HashMap::new(),
        }
    }

    /// The next record, `None` after the last; `Err` if the bytes are not one.
    pub(crate) fn next(&mut self) -> Result<Option<Record>, ()> {
        // Taken out so that it can be read while the rest changes.
        let bytes = std::mem::take(&mut self.bytes);
        let mut input = Input(bytes.get(self.at..).unwrap_or_default());
        let record = if self.define(&mut input).is_none() {
            Err(())
        } else if input.is_empty() {
            Ok(None)
        } else {
            self.read(&mut input).map(Some).ok_or(())
        };
        self.at = bytes.len() - input.0.len();
        self.bytes = bytes;
        record
    }

    /// Takes in what is defined before a record.
    fn define(&mut self, input: &mut Input<'_>) -> Option<()> {
        while let Some(&(PATH | FILE | THREAD)) = input.0.first() {
            match input.byte()? {
                PATH => self.paths.push(path(input.bytes()?).into()),
                FILE => self.define_file(input)?,
                _ => self.thread = input.narrow()?,
            }
        }
        Some(())
    }

    fn read(&mut self, input: &mut Input<'_>) -> Option<Record> {
        match input.byte()? {
            FULL => self.full(input),
            head if head < FULL => self.like_before(head, input),
            _ => None,
        }
    }

    fn define_file(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (number, opener) = (input.number()?, input.narrow()?);
        let path = self.path(input)?.to_path_buf();
        let flags = input.narrow()? as i32;
        let file = TracedFile { opener, number, path, flags };
        self.files.insert((number, opener), Arc::new(file));
        Some(())
    }

    /// Start and length of time in nanoseconds.
    fn times(&mut self, input: &mut Input<'_>) -> Option<(u64, u64)> {
        self.before = self.before.wrapping_add_signed(input.signed()?);
        let duration = input.number()? as f64 * self.header.tick;
        Some((self.header.time(self.before), duration as u64))
    }

    fn like_before(&mut self, head: u8, input: &mut Input<'_>) -> Option<Record> {
        let (start, duration) = self.times(input)?;
        let last = self.last.as_mut()?;
        let offset = match head & (FOLLOWS | NOWHERE) {
            0 => Some(input.number()?),
            FOLLOWS => Some(last.end),
            NOWHERE => None,
            _ => return None,
        };
        let length = if head & AS_LONG == 0 { input.number()? } else { last.length };
        let result = if head & WHOLE == 0 { result(input)? } else { Some(Ok(length)) };
        let outcome = result.unwrap_or(Ok(0));
        last.length = length;
        last.end = offset.unwrap_or(0).wrapping_add(outcome.unwrap_or(0));
        let (file, placed) = (Arc::clone(&last.file), head & PLACED != 0);
        let call = if last.reads {
            Call::Read { file, placed, offset, length, flags: 0, parts: 1 }
        } else {
            Call::Write { file, placed, offset, length, flags: 0, parts: 1 }
        };
        let (function, known) = (last.function, result.is_some());
        Some(Record { function, thread: self.thread, start, duration, outcome, known, call })
    }

    fn full(&mut self, input: &mut Input<'_>) -> Option<Record> {
        let function = Function::of_code(input.byte()?)?;
        let kind = Kind::ALL.get(usize::from(input.byte()?)).copied()?;
        let (start, duration) = self.times(input)?;
        let result = result(input)?;
        let call = self.call(kind, input)?;
        // Older ones have 0, whatever the result; so has one that made another descriptor, which
        // was recorded after it.
        let untold = matches!(kind, Kind::ReadDirectory | Kind::Map | Kind::Notice);
        let result = result.filter(|_| self.has_results() || !untold);
        let (outcome, known) = (result.unwrap_or(Ok(0)), result.is_some());
        self.last = match &call {
            Call::Read { file, offset, length, flags: 0, parts: 1, .. }
            | Call::Write { file, offset, length, flags: 0, parts: 1, .. } => Some(LastDecoded {
                function,
                reads: kind == Kind::Read,
                file: Arc::clone(file),
                end: offset.unwrap_or(0).wrapping_add(outcome.unwrap_or(0)),
                length: *length,
            }),
            _ => None,
        };
        Some(Record { function, thread: self.thread, start, duration, outcome, known, call })
    }

    /// Whether the block has the results of all calls, and what else came with these.
    fn has_results(&self) -> bool {
        self.header.content == Content::Records
    }

    fn call(&self, kind: Kind, input: &mut Input<'_>) -> Option<RecordedCall> {
        Some(match kind {
            Kind::Open => Call::Open {
                file: self.file(input)?,
                path: self.path(input)?,
                flags: bits(input)?,
                mode: input.narrow()?,
                size: maybe(input)?,
            },
            Kind::Close => Call::Close {
                file: self.file(input)?,
                descriptor: small(input)?,
                last: truth(input)?,
            },
            Kind::Read => {
                let (file, placed, offset) = (self.file(input)?, truth(input)?, maybe(input)?);
                let (length, flags, parts) = (input.number()?, bits(input)?, input.narrow()?);
                Call::Read { file, placed, offset, length, flags, parts }
            }
            Kind::Write => {
                let (file, placed, offset) = (self.file(input)?, truth(input)?, maybe(input)?);
                let (length, flags, parts) = (input.number()?, bits(input)?, input.narrow()?);
                Call::Write { file, placed, offset, length, flags, parts }
            }
            Kind::Seek => Call::Seek {
                file: self.file(input)?,
                offset: input.signed()?,
                whence: small(input)?,
            },
            Kind::Sync => Call::Sync { file: self.file(input)?, data_only: truth(input)? },
            Kind::Truncate => Call::Truncate { file: self.file(input)?, length: input.number()? },
            Kind::Allocate => Call::Allocate {
                file: self.file(input)?,
                mode: bits(input)?,
                offset: input.number()?,
                length: input.number()?,
            },
            Kind::Stat => {
                let (of, flags, size) = (self.subject(input)?, bits(input)?, maybe(input)?);
                let mode = if self.has_results() { maybe(input)? } else { None };
                let mode = mode.map(u32::try_from).transpose().ok()?;
                Call::Stat { of, flags, size, mode }
            }
            Kind::Rename => Call::Rename {
                from: self.path(input)?,
                to: self.path(input)?,
                flags: input.narrow()?,
            },
            Kind::Unlink => Call::Unlink { path: self.path(input)?, flags: bits(input)? },
            Kind::MakeDirectory => {
                Call::MakeDirectory { path: self.path(input)?, mode: input.narrow()? }
            }
            Kind::ReadDirectory => Call::ReadDirectory { path: self.path(input)? },
            Kind::Duplicate => {
                Call::Duplicate { file: self.file(input)?, descriptor: small(input)? }
            }
            Kind::Control => Call::Control {
                file: self.file(input)?,
                descriptor: small(input)?,
                command: small(input)?,
                argument: input.number()?,
            },
            Kind::Map => Call::Map {
                file: self.file(input)?,
                offset: input.number()?,
                length: input.number()?,
                writable: truth(input)?,
            },
            Kind::CopyRange => {
                let (from, to) = (self.end(input)?, self.end(input)?);
                Call::CopyRange { from, to, length: input.number()? }
            }
            Kind::SendFile => {
                let (from, to) = (self.end(input)?, self.end(input)?);
                Call::SendFile { from, to, length: input.number()? }
            }
            Kind::Notice => {
                let of = self.subject(input)?;
                let detail =
                    if self.has_results() { self.detail(input)? } else { Detail::default() };
                Call::Notice { of, detail }
            }
        })
    }

    fn detail(&self, input: &mut Input<'_>) -> Option<Detail<Arc<Path>>> {
        let text = if truth(input)? { Some(self.path(input)?) } else { None };
        let mut detail = Detail { text, flags: bits(input)?, numbers: [0; 4] };
        for number in &mut detail.numbers {
            *number = input.number()?;
        }
        Some(detail)
    }

    fn file(&self, input: &mut Input<'_>) -> Option<Arc<TracedFile>> {
        self.files.get(&(input.number()?, input.narrow()?)).cloned()
    }

    fn path(&self, input: &mut Input<'_>) -> Option<Arc<Path>> {
        self.paths.get(usize::try_from(input.number()?).ok()?).cloned()
    }

    fn subject(&self, input: &mut Input<'_>) -> Option<Subject<Arc<TracedFile>, Arc<Path>>> {
        match input.byte()? {
            0 => self.file(input).map(Subject::File),
            1 => self.path(input).map(Subject::Name),
            _ => None,
        }
    }

    fn end(&self, input: &mut Input<'_>) -> Option<TracedEnd<Arc<TracedFile>>> {
        let file = if truth(input)? { Some(self.file(input)?) } else { None };
        Some(TracedEnd { file, descriptor: small(input)?, at: maybe(input)? })
    }
}

/// An outcome that may not be known.
#[expect(clippy::option_option, reason = "a result that may be absent, unless the bytes end")]
fn result(input: &mut Input<'_>) -> Option<Option<Result<u64, i32>>> {
    outcome(input).map(|outcome| (outcome != Err(0)).then_some(outcome))
}

pub(crate) fn outcome(input: &mut Input<'_>) -> Option<Result<u64, i32>> {
    let number = input.number()?;
    let value = number >> 1;
    Some(if number & 1 == 0 { Ok(value) } else { Err(i32::try_from(value).ok()?) })
}

fn bits(input: &mut Input<'_>) -> Option<i32> {
    input.narrow().map(u32::cast_signed)
}

fn small(input: &mut Input<'_>) -> Option<i32> {
    i32::try_from(unfold(input.number()?)).ok()
}

pub(crate) fn truth(input: &mut Input<'_>) -> Option<bool> {
    match input.byte()? {
        0 => Some(false),
        1 => Some(true),
        _ => None,
    }
}

#[expect(clippy::option_option, reason = "a number that may be absent, unless the bytes end")]
fn maybe(input: &mut Input<'_>) -> Option<Option<u64>> {
    input.number().map(|number| number.checked_sub(1))
}
