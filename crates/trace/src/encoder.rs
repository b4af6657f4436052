//! [`Encoder`]: records as the bytes of a block.
//!
//! Most records of most programs are like the one before: the same function on the same file, the
//! same length, where the last one ended. Such a record takes a byte and its times. All else is
//! written in full.

use std::path::Path;

use striate_calls::{Function, Kind};

use crate::call::{Call, Subject, TracedEnd, TracedFile};
use crate::{BLOCK, varint};

/// First bytes of what is in a block. Below [`FULL`] it is a transfer like the one before, and the
/// byte consists of the bits below.
pub(crate) const FULL: u8 = 0x80;
pub(crate) const PATH: u8 = 0x81;
pub(crate) const FILE: u8 = 0x82;
pub(crate) const THREAD: u8 = 0x83;

/// The call says where.
pub(crate) const PLACED: u8 = 1;
/// It happens where the one before ended.
pub(crate) const FOLLOWS: u8 = 2;
/// It is as long as the one before.
pub(crate) const AS_LONG: u8 = 4;
/// It moved as many bytes as it was to.
pub(crate) const WHOLE: u8 = 8;
/// The offset is not known.
pub(crate) const NOWHERE: u8 = 16;

/// Files and paths that are remembered as defined. When two want one place, the other is defined
/// again.
const REMEMBERED: usize = 256;
/// A record without paths takes less.
const MOST_RECORD: usize = 128;

/// When a call was made and how long it took, in ticks.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    /// When it began.
    pub start: u64,
    /// When it ended.
    pub end: u64,
}

/// A call on files that are described elsewhere.
type BorrowedCall<'c> = Call<&'c TracedFile, &'c Path>;

/// What the record before was, if it was a plain transfer.
#[derive(Clone, Copy, Debug, Default)]
struct LastEncoded {
    function: u8,
    kind: u8,
    file: u64,
    opener: u32,
    end: u64,
    length: u64,
}

/// Collects the records of a block.
#[derive(Debug)]
pub struct Encoder {
    /// The records, and room for more: they are written where they stay.
    room: Vec<u8>,
    /// Bytes of it that are records.
    used: usize,
    count: u32,
    /// The start of the record before.
    before: u64,
    /// The first start and the last end.
    span: (u64, u64),
    thread: u32,
    last: Option<LastEncoded>,
    files: Box<[(u64, u32); REMEMBERED]>,
    /// Where in the bytes a path is, its length, and its number.
    paths: Box<[(u32, u32, u32); REMEMBERED]>,
    next_path: u32,
}

impl Default for Encoder {
    fn default() -> Self {
        Self::new()
    }
}

impl Encoder {
    /// One without records.
    pub fn new() -> Self {
        let mut encoder = Self {
            // So that nothing is allocated while records are collected.
            room: vec![0; BLOCK + (20 << 10)],
            used: 0,
            count: 0,
            before: 0,
            span: (u64::MAX, 0),
            thread: 0,
            last: None,
            files: Box::new([(u64::MAX, 0); REMEMBERED]),
            paths: Box::new([(0, 0, u32::MAX); REMEMBERED]),
            next_path: 0,
        };
        encoder.clear();
        encoder
    }

    /// Begins a new block.
    pub fn clear(&mut self) {
        self.used = 0;
        self.count = 0;
        self.before = 0;
        self.span = (u64::MAX, 0);
        self.thread = 0;
        self.last = None;
        self.files.fill((u64::MAX, 0));
        self.paths.fill((0, 0, u32::MAX));
        self.next_path = 0;
    }

    /// The records, encoded.
    pub fn bytes(&self) -> &[u8] {
        &self.room[..self.used]
    }

    fn append(&mut self, bytes: &[u8]) {
        let end = self.used + bytes.len();
        if self.room.len() < end {
            self.room.resize(end + BLOCK, 0);
        }
        self.room[self.used..end].copy_from_slice(bytes);
        self.used = end;
    }

    /// Where the next record goes; there is room for one.
    #[inline]
    fn place(&mut self) -> &mut [u8] {
        if self.room.len() < self.used + MOST_RECORD {
            self.room.resize(self.used + BLOCK, 0);
        }
        &mut self.room[self.used..]
    }

    /// How many records there are.
    pub const fn count(&self) -> u32 {
        self.count
    }

    /// The first start and the last end, in ticks.
    pub const fn span(&self) -> (u64, u64) {
        self.span
    }

    /// Whether there are enough for a block.
    pub fn is_full(&self) -> bool {
        self.used >= BLOCK
    }

    /// Adds a record.
    #[inline]
    pub fn push(
        &mut self,
        thread: u32,
        function: Function,
        timed: Timed,
        outcome: Option<Result<u64, i32>>,
        call: &BorrowedCall<'_>,
    ) {
        if thread != self.thread {
            self.set_thread(thread);
        }
        match call {
            Call::Read { file, placed, offset, length, flags: 0, parts: 1 }
            | Call::Write { file, placed, offset, length, flags: 0, parts: 1 } => {
                let now = LastEncoded {
                    function: function as u8,
                    kind: call.kind() as u8,
                    file: file.number,
                    opener: file.opener,
                    end: offset.unwrap_or(0),
                    length: *length,
                };
                self.transfer(now, timed, outcome, (*placed, *offset), call);
            }
            _ => {
                self.full(function, timed, outcome, call);
                self.last = None;
            }
        }
        self.count += 1;
        self.span = (self.span.0.min(timed.start), self.span.1.max(timed.end));
    }

    #[cold]
    fn set_thread(&mut self, thread: u32) {
        self.thread = thread;
        let place = self.place();
        place[0] = THREAD;
        self.used += 1 + varint::put(&mut place[1..], u64::from(thread));
    }

    #[inline]
    fn transfer(
        &mut self,
        mut now: LastEncoded,
        timed: Timed,
        outcome: Option<Result<u64, i32>>,
        (placed, offset): (bool, Option<u64>),
        call: &BorrowedCall<'_>,
    ) {
        if let Some(last) = self.last
            && (last.function, last.kind, last.file, last.opener)
                == (now.function, now.kind, now.file, now.opener)
        {
            let mut head = if placed { PLACED } else { 0 };
            let before = std::mem::replace(&mut self.before, timed.start);
            let place = self.place();
            let mut used = 1 + times(&mut place[1..], timed, before);
            match offset {
                None => head |= NOWHERE,
                Some(offset) if offset == last.end => head |= FOLLOWS,
                Some(offset) => used += varint::put(&mut place[used..], offset),
            }
            if now.length == last.length {
                head |= AS_LONG;
            } else {
                used += varint::put(&mut place[used..], now.length);
            }
            if outcome == Some(Ok(now.length)) {
                head |= WHOLE;
            } else {
                used += varint::put(&mut place[used..], folded_result(outcome));
            }
            place[0] = head;
            self.used += used;
        } else {
            let function = Function::of_code(now.function).unwrap_or(Function::Other);
            self.full(function, timed, outcome, call);
        }
        now.end = now.end.wrapping_add(outcome.and_then(Result::ok).unwrap_or(0));
        self.last = Some(now);
    }

    fn full(
        &mut self,
        function: Function,
        timed: Timed,
        outcome: Option<Result<u64, i32>>,
        call: &BorrowedCall<'_>,
    ) {
        // Definitions go before the record that needs them, which is kept apart meanwhile.
        let mut fields = Fields { place: [0; MOST_RECORD], used: 0 };
        fields.byte(FULL);
        fields.byte(function as u8);
        fields.byte(call.kind() as u8);
        let used = fields.used;
        let before = std::mem::replace(&mut self.before, timed.start);
        fields.used += times(&mut fields.place[used..], timed, before);
        fields.number(folded_result(outcome));
        self.arguments(call, &mut fields);
        self.append(&fields.place[..fields.used]);
    }

    fn arguments(&mut self, call: &BorrowedCall<'_>, fields: &mut Fields) {
        match call {
            Call::Open { file, path, flags, mode, size } => {
                self.put_file(fields, file);
                self.put_path(fields, path);
                fields.number(u64::from(*flags as u32));
                fields.number(u64::from(*mode));
                fields.maybe(*size);
            }
            Call::Close { file, descriptor, last } => {
                self.put_file(fields, file);
                fields.signed((*descriptor).into());
                fields.byte((*last).into());
            }
            Call::Read { file, placed, offset, length, flags, parts }
            | Call::Write { file, placed, offset, length, flags, parts } => {
                self.put_file(fields, file);
                fields.byte((*placed).into());
                fields.maybe(*offset);
                fields.number(*length);
                fields.number(u64::from(*flags as u32));
                fields.number(u64::from(*parts));
            }
            Call::Seek { file, offset, whence } => {
                self.put_file(fields, file);
                fields.signed(*offset);
                fields.signed((*whence).into());
            }
            Call::Sync { file, data_only } => {
                self.put_file(fields, file);
                fields.byte((*data_only).into());
            }
            Call::Truncate { file, length } => {
                self.put_file(fields, file);
                fields.number(*length);
            }
            Call::Allocate { file, mode, offset, length } => {
                self.put_file(fields, file);
                fields.number(u64::from(*mode as u32));
                fields.number(*offset);
                fields.number(*length);
            }
            Call::Stat { of, flags, size, mode } => {
                self.put_subject(fields, of);
                fields.number(u64::from(*flags as u32));
                fields.maybe(*size);
                fields.maybe(mode.map(u64::from));
            }
            Call::Rename { from, to, flags } => {
                self.put_path(fields, from);
                self.put_path(fields, to);
                fields.number(u64::from(*flags));
            }
            Call::Unlink { path, flags } => {
                self.put_path(fields, path);
                fields.number(u64::from(*flags as u32));
            }
            Call::MakeDirectory { path, mode } => {
                self.put_path(fields, path);
                fields.number(u64::from(*mode));
            }
            Call::ReadDirectory { path } => self.put_path(fields, path),
            Call::Duplicate { file, descriptor } => {
                self.put_file(fields, file);
                fields.signed((*descriptor).into());
            }
            Call::Control { file, descriptor, command, argument } => {
                self.put_file(fields, file);
                fields.signed((*descriptor).into());
                fields.signed((*command).into());
                fields.number(*argument);
            }
            Call::Map { file, offset, length, writable } => {
                self.put_file(fields, file);
                fields.number(*offset);
                fields.number(*length);
                fields.byte((*writable).into());
            }
            Call::CopyRange { from, to, length } | Call::SendFile { from, to, length } => {
                self.put_end(fields, from);
                self.put_end(fields, to);
                fields.number(*length);
            }
            Call::Notice { of, detail } => {
                self.put_subject(fields, of);
                fields.byte(detail.text.is_some().into());
                if let Some(text) = detail.text {
                    self.put_path(fields, text);
                }
                fields.number(u64::from(detail.flags as u32));
                detail.numbers.iter().for_each(|number| fields.number(*number));
            }
        }
    }

    fn put_subject(&mut self, fields: &mut Fields, of: &Subject<&TracedFile, &Path>) {
        match of {
            Subject::File(file) => {
                fields.byte(0);
                self.put_file(fields, file);
            }
            Subject::Name(path) => {
                fields.byte(1);
                self.put_path(fields, path);
            }
        }
    }

    fn put_end(&mut self, fields: &mut Fields, end: &TracedEnd<&TracedFile>) {
        fields.byte(end.file.is_some().into());
        if let Some(file) = end.file {
            self.put_file(fields, file);
        }
        fields.signed(end.descriptor.into());
        fields.maybe(end.at);
    }

    /// Refers to a file, which is defined before the record if it was not yet.
    fn put_file(&mut self, fields: &mut Fields, file: &TracedFile) {
        let place = file.number as usize % REMEMBERED;
        if self.files[place] != (file.number, file.opener) {
            let path = self.path_number(&file.path);
            self.files[place] = (file.number, file.opener);
            let mut definition = Fields { place: [0; MOST_RECORD], used: 0 };
            definition.byte(FILE);
            definition.number(file.number);
            definition.number(file.opener.into());
            definition.number(path.into());
            definition.number(u64::from(file.flags as u32));
            self.append(&definition.place[..definition.used]);
        }
        fields.number(file.number);
        fields.number(file.opener.into());
    }

    fn put_path(&mut self, fields: &mut Fields, path: &Path) {
        let number = self.path_number(path);
        fields.number(number.into());
    }

    /// The number of a path, which is defined if it was not yet.
    fn path_number(&mut self, path: &Path) -> u32 {
        let text = path.as_os_str().as_encoded_bytes();
        let place = hash(text) as usize % REMEMBERED;
        let (at, length, number) = self.paths[place];
        let known = self.bytes().get(at as usize..at as usize + length as usize);
        if number != u32::MAX && known == Some(text) {
            return number;
        }
        let number = self.next_path;
        self.next_path += 1;
        let room = self.place();
        room[0] = PATH;
        self.used += 1 + varint::put(&mut room[1..], text.len() as u64);
        let at = self.used;
        self.append(text);
        self.paths[place] = (at as u32, text.len() as u32, number);
        number
    }
}

/// Writes when a call began, from `before` on, and how long it took; returns how many bytes that
/// takes.
#[inline]
fn times(place: &mut [u8], timed: Timed, before: u64) -> usize {
    let since = timed.start.wrapping_sub(before) as i64;
    let used = varint::put(place, varint::fold(since));
    used + varint::put(&mut place[used..], timed.end.saturating_sub(timed.start))
}

/// FNV-1a: for a few bytes, where no adversary wants collisions.
fn hash(text: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3);
    let hash = text.iter().fold(0xCBF2_9CE4_8422_2325, step);
    hash ^ hash >> 32
}

/// An outcome as a number: even if the call succeeded.
pub(crate) fn folded(outcome: Result<u64, i32>) -> u64 {
    match outcome {
        Ok(value) => value << 1,
        Err(error) => u64::from(error.unsigned_abs()) << 1 | 1,
    }
}

/// The same for one that may not be known: an error without a number.
fn folded_result(outcome: Option<Result<u64, i32>>) -> u64 {
    outcome.map_or(1, folded)
}

/// The fields of a record.
struct Fields {
    place: [u8; MOST_RECORD],
    used: usize,
}

impl Fields {
    fn byte(&mut self, byte: u8) {
        if let Some(place) = self.place.get_mut(self.used) {
            *place = byte;
            self.used += 1;
        }
    }

    fn number(&mut self, number: u64) {
        self.used += varint::put(&mut self.place[self.used..], number);
    }

    fn signed(&mut self, number: i64) {
        self.number(varint::fold(number));
    }

    /// Nothing is 0, and a number one more than it is.
    fn maybe(&mut self, number: Option<u64>) {
        self.number(number.map_or(0, |number| number.wrapping_add(1)));
    }
}

const _: () = assert!(Kind::COUNT < FULL as usize);
