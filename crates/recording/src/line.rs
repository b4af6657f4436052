//! A record as one line, like those of strace.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;

use striate_trace::layer::LayerSort;
use striate_trace::{Call, Detail, Function, LayerRecord, Record};

use crate::constants::{
    self, ACCESS, AT_FLAGS, FALLOCATE, FCNTL, FLOCK, LOCK, RENAME, TRANSFER, WHENCE,
};
use crate::filter::paths_of;

/// The call with its arguments, as `pwrite("/data/a", 600, at 1000)`.
pub fn call(record: &Record) -> String {
    let mut words: Vec<String> = Vec::new();
    let [first, second] = paths_of(record);
    words.extend(first.map(quoted));
    words.extend(second.map(quoted));
    match &record.call {
        Call::Open { flags, mode, .. } => {
            words.push(constants::open_flags(*flags));
            if flags & (libc::O_CREAT | libc::O_TMPFILE & !libc::O_DIRECTORY) != 0 {
                words.push(format!("{mode:#o}"));
            }
        }
        Call::Close { descriptor, .. } => words.push(format!("descriptor {descriptor}")),
        Call::Read { placed, offset, length, flags, parts, .. }
        | Call::Write { placed, offset, length, flags, parts, .. } => {
            words.push(length.to_string());
            match (placed, offset) {
                (true, Some(offset)) => words.push(format!("at {offset}")),
                // It is where the file was.
                (false, Some(offset)) => words.push(format!("position {offset}")),
                (_, None) => {}
            }
            if *parts != 1 {
                words.push(format!("{parts} parts"));
            }
            if *flags != 0 {
                words.push(constants::flags(TRANSFER, *flags, ""));
            }
        }
        Call::Seek { offset, whence, .. } => {
            words.push(offset.to_string());
            words.push(constants::name(WHENCE, *whence).map_or(whence.to_string(), str::to_owned));
        }
        Call::Truncate { length, .. } => words.push(length.to_string()),
        Call::Allocate { mode, offset, length, .. } => {
            words.push(constants::flags(FALLOCATE, *mode, "0"));
            words.push(format!("{length} at {offset}"));
        }
        Call::Stat { flags, size, .. } => {
            if *flags != 0 {
                words.push(constants::flags(AT_FLAGS, *flags, "0"));
            }
            words.extend(size.map(|size| format!("size {size}")));
        }
        Call::Rename { flags, .. } if *flags != 0 => {
            words.push(constants::flags(RENAME, flags.cast_signed(), "0"));
        }
        Call::Unlink { flags, .. } if *flags != 0 => {
            words.push(constants::flags(AT_FLAGS, *flags, "0"));
        }
        Call::MakeDirectory { mode, .. } => words.push(format!("{mode:#o}")),
        Call::Duplicate { descriptor, .. } => words.push(format!("new descriptor {descriptor}")),
        Call::Control { command, argument, .. } => {
            words.push(constants::name(FCNTL, *command).map_or(command.to_string(), str::to_owned));
            words.push(format!("{argument:#x}"));
        }
        Call::Map { offset, length, writable, .. } => {
            words.push(format!("{length} at {offset}"));
            if *writable {
                words.push("MAP_SHARED".to_owned());
            }
        }
        Call::CopyRange { from, to, length } | Call::SendFile { from, to, length } => {
            words.push(length.to_string());
            words.extend(from.at.map(|at| format!("from {at}")));
            words.extend(to.at.map(|at| format!("to {at}")));
        }
        Call::Sync { .. }
        | Call::ReadDirectory { .. }
        | Call::Rename { .. }
        | Call::Unlink { .. } => {}
        Call::Notice { detail, .. } => notice_words(record.function, detail, &mut words),
    }
    format!("{}({})", record.function.name(), words.join(", "))
}

/// What else a call said of which stages only have notice.
fn notice_words(function: Function, detail: &Detail<Arc<Path>>, words: &mut Vec<String>) {
    words.extend(detail.text.as_deref().map(quoted));
    let [first, second, third, fourth] = detail.numbers;
    match function {
        Function::Access => words.push(constants::flags(ACCESS, first as i32, "F_OK")),
        Function::Chmod | Function::Mknod => words.push(format!("{first:#o}")),
        Function::Chown => {
            words.extend([first, second].map(|id| (id as u32 as i32).to_string()));
        }
        Function::Flock => words.push(constants::flags(FLOCK, first as i32, "0")),
        Function::Fcntl if first != 0 => {
            let command = first as i32;
            words.push(constants::name(FCNTL, command).map_or(command.to_string(), str::to_owned));
            let how = i32::from(second as u16);
            words.push(constants::name(LOCK, how).map_or(how.to_string(), str::to_owned));
            words.push(format!("{} at {}", fourth.cast_signed(), third.cast_signed()));
        }
        Function::Truncate => words.push(first.to_string()),
        Function::SyncFileRange | Function::Readahead | Function::Fadvise => {
            words.push(format!("{second} at {first}"));
        }
        Function::Splice => words.push(third.to_string()),
        _ => {}
    }
    if detail.flags != 0 {
        words.push(constants::flags(AT_FLAGS, detail.flags, "0"));
    }
}

/// A call of a layer with its arguments, as `MPI_File_write_at_all("/data/a", 600, at 1000)`.
pub fn layer_call(layer: &LayerRecord) -> String {
    let mut words = vec![quoted(&layer.path)];
    if has_length(layer.function.sort()) {
        words.push(layer.length.to_string());
    }
    words.extend(layer.offset.map(|offset| format!("at {offset}")));
    if layer.count > 0 {
        words.push(format!("{} elements", layer.count));
    }
    format!("{}({})", layer.function.name(), words.join(", "))
}

/// What came of a call of a layer: bytes, or the class of the error.
pub fn layer_outcome(layer: &LayerRecord) -> String {
    match layer.outcome {
        Ok(value) => value.to_string(),
        Err(class) => error_class(class),
    }
}

/// The name of an error of MPI. The numbers of classes depend on the MPI, so only the number is
/// shown.
pub(crate) fn error_class(class: i32) -> String {
    format!("error class {class}")
}

/// Whether calls of a sort say how many bytes they want.
pub(crate) const fn has_length(sort: LayerSort) -> bool {
    matches!(sort, LayerSort::Read | LayerSort::Write | LayerSort::Size)
}

/// What came of it: the number, or the error; `?` if that was not recorded.
pub fn outcome(record: &Record) -> String {
    match record.result() {
        Some(Ok(value)) => value.to_string(),
        Some(Err(error)) => format!("-1 {}", constants::error(error)),
        // As strace says it.
        None => "?".to_owned(),
    }
}

/// A time as seconds with six digits behind the point.
pub fn seconds(nanoseconds: u64) -> String {
    let micro = nanoseconds / 1000;
    format!("{}.{:06}", micro / 1_000_000, micro % 1_000_000)
}

/// A path in quotes; what would upset a terminal is escaped.
fn quoted(path: &Path) -> String {
    let mut text = String::from("\"");
    for part in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        for c in part.valid().chars() {
            if c == '"' || c == '\\' || c.is_control() {
                text.extend(c.escape_default());
            } else {
                text.push(c);
            }
        }
        for byte in part.invalid() {
            let _ = write!(text, "\\x{byte:02x}");
        }
    }
    text.push('"');
    text
}
