//! [`Row`]: a record with its fields by name, for text formats.

use serde::Serialize;
use striate_trace::{Call, Function, LayerRecord, Record, TracedEnd};

use crate::constants;
use crate::filter::paths_of;
use crate::line;
use crate::nested::Entry;
use crate::recording::Process;

/// A record as a flat row; what does not apply is absent. Times are nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs, reason = "the fields are those of `Call`, and what is said here")]
#[serde(rename_all = "snake_case")]
pub struct Row {
    /// When the call began, since the start of the recording.
    pub start: u64,
    pub duration: u64,
    pub process: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    pub host: String,
    pub thread: u32,
    pub function: &'static str,
    pub kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The second path, of calls that have two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// The number of the open file, and the process that opened it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opener: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub descriptor: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<u64>,
    /// The call said where.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub placed: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parts: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flags: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whence: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// It is the last descriptor (`close`), without what is not needed to read (`fsync`), or goes
    /// to the file (`mmap`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truth: Option<bool>,
    /// Neither this nor an error is present if the result of the call was not recorded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Elements that were asked for, of calls of layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// All ranks called it together, of calls of layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub collective: Option<bool>,
    /// The function of a layer that it was called for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub above: Option<&'static str>,
}

/// What [`Row::kind`] says of calls of MPI-IO.
pub const MPI_IO: &str = "mpi-io";

impl Row {
    /// The row of an entry.
    pub fn of(process: &Process, entry: &Entry) -> Self {
        match entry {
            Entry::Layer(layer) => Self::of_layer(process, layer),
            Entry::Call(record, above) => {
                let above = above.as_ref().map(|layer| layer.function.name());
                Self { above, ..Self::new(process, record) }
            }
        }
    }

    fn of_layer(process: &Process, layer: &LayerRecord) -> Self {
        let origin = &process.header().origin;
        let mut row = Self {
            start: layer.start,
            duration: layer.duration,
            process: origin.process,
            rank: origin.rank,
            host: origin.host.clone(),
            thread: layer.thread,
            function: layer.function.name(),
            kind: MPI_IO,
            path: Some(layer.path.to_string_lossy().into_owned()),
            file: (layer.file != 0).then_some(layer.file),
            offset: layer.offset.map(Into::into),
            result: layer.outcome.ok(),
            error: layer.outcome.err().map(line::error_class),
            collective: Some(layer.function.is_collective()),
            ..Self::default()
        };
        if line::has_length(layer.function.sort()) {
            row.length = Some(layer.length);
        }
        if layer.count > 0 {
            row.count = Some(layer.count);
        }
        row
    }

    /// The row of a record.
    pub fn new(process: &Process, record: &Record) -> Self {
        let origin = &process.header().origin;
        let file = record.call.file();
        let [path, to] =
            paths_of(record).map(|path| path.map(|path| path.to_string_lossy().into_owned()));
        let row = Self {
            start: record.start,
            duration: record.duration,
            process: origin.process,
            rank: origin.rank,
            host: origin.host.clone(),
            thread: record.thread,
            function: record.function.name(),
            kind: record.call.kind().name(),
            path,
            to,
            file: file.map(|file| file.number),
            opener: file.map(|file| file.opener),
            result: record.result().and_then(Result::ok),
            error: record.result().and_then(Result::err).map(constants::error),
            ..Self::default()
        };
        row.with_arguments(record)
    }

    fn with_arguments(mut self, record: &Record) -> Self {
        match &record.call {
            Call::Open { flags, mode, size, .. } => {
                (self.flags, self.mode, self.size) = (Some((*flags).into()), Some(*mode), *size);
            }
            Call::Close { descriptor, last, .. } => {
                (self.descriptor, self.truth) = (Some(*descriptor), Some(*last));
            }
            Call::Read { placed, offset, length, flags, parts, .. }
            | Call::Write { placed, offset, length, flags, parts, .. } => {
                (self.placed, self.offset) = (Some(*placed), offset.map(Into::into));
                (self.length, self.parts) = (Some(*length), Some(*parts));
                self.flags = (*flags != 0).then_some((*flags).into());
            }
            Call::Seek { offset, whence, .. } => {
                (self.offset, self.whence) = (Some((*offset).into()), Some(*whence));
            }
            Call::Sync { data_only, .. } => self.truth = Some(*data_only),
            Call::Truncate { length, .. } => self.length = Some(*length),
            Call::Allocate { mode, offset, length, .. } => {
                self.flags = Some((*mode).into());
                (self.offset, self.length) = (Some((*offset).into()), Some(*length));
            }
            Call::Stat { flags, size, mode, .. } => {
                (self.flags, self.size, self.mode) = (Some((*flags).into()), *size, *mode);
            }
            Call::Rename { flags, .. } => self.flags = Some((*flags).into()),
            Call::Unlink { flags, .. } => self.flags = Some((*flags).into()),
            Call::MakeDirectory { mode, .. } => self.mode = Some(*mode),
            Call::Duplicate { descriptor, .. } => self.descriptor = Some(*descriptor),
            Call::Control { descriptor, command, argument, .. } => {
                (self.descriptor, self.command) = (Some(*descriptor), Some(*command));
                self.length = Some(*argument);
            }
            Call::Map { offset, length, writable, .. } => {
                (self.offset, self.length) = (Some((*offset).into()), Some(*length));
                self.truth = Some(*writable);
            }
            Call::CopyRange { from, to, length } | Call::SendFile { from, to, length } => {
                let TracedEnd { at, descriptor, .. } = from;
                (self.offset, self.to_offset) = (at.map(Into::into), to.at);
                (self.length, self.descriptor) = (Some(*length), Some(*descriptor));
            }
            Call::Notice { detail, .. } => {
                let text = detail.text.as_ref().map(|text| text.to_string_lossy().into_owned());
                self.to = self.to.or(text);
                self.flags = (detail.flags != 0).then_some(detail.flags.into());
                let first = detail.numbers[0];
                match record.function {
                    Function::Access | Function::Chmod | Function::Mknod => {
                        self.mode = u32::try_from(first).ok();
                    }
                    Function::Flock => self.command = i32::try_from(first).ok(),
                    Function::Fcntl => {
                        self.command = i32::try_from(first).ok();
                        self.offset = Some(detail.numbers[2].cast_signed().into());
                        self.length = Some(detail.numbers[3]);
                    }
                    Function::Truncate => self.length = Some(first),
                    _ => {}
                }
            }
            Call::ReadDirectory { .. } => {}
        }
        self
    }
}
