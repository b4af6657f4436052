//! Classification of single calls: their class, their sums, their file and their size.

use std::path::Path;

use striate_recording::figures;
use striate_trace::{Call, Kind, Record, RecordedCall, Subject};

use crate::model::{Class, SizeRow, Sums, Transfers};

pub(super) fn class(kind: Kind) -> Class {
    match kind {
        Kind::Read | Kind::SendFile => Class::Read,
        Kind::Write | Kind::CopyRange => Class::Write,
        Kind::Sync => Class::Sync,
        _ => Class::Metadata,
    }
}

/// What one call adds.
pub(super) fn sums(class: Class, record: &Record) -> Sums {
    let mut sums = Sums { failed: u64::from(record.failed()), ..Sums::default() };
    *sums.calls.of_mut(class) = 1;
    *sums.time_ns.of_mut(class) = record.duration;
    let moved = figures::moved(record);
    (sums.bytes_read, sums.bytes_written) = (moved.read, moved.written);
    sums
}

/// Whether a call has to do with names, sizes and the like in the file system.
pub(super) fn is_about_names<F, P>(call: &Call<F, P>) -> bool {
    match call {
        Call::Open { .. }
        | Call::Close { .. }
        | Call::Stat { .. }
        | Call::Rename { .. }
        | Call::Unlink { .. }
        | Call::MakeDirectory { .. }
        | Call::ReadDirectory { .. }
        | Call::Truncate { .. }
        | Call::Notice { of: Subject::Name(_), .. } => true,
        Call::Read { .. }
        | Call::Write { .. }
        | Call::Seek { .. }
        | Call::Sync { .. }
        | Call::Allocate { .. }
        | Call::Duplicate { .. }
        | Call::Control { .. }
        | Call::Map { .. }
        | Call::CopyRange { .. }
        | Call::SendFile { .. }
        | Call::Notice { of: Subject::File(_), .. } => false,
    }
}

/// The file that a call is about; of two, the first.
pub(super) fn path(call: &RecordedCall) -> Option<&Path> {
    let of_end = || match call {
        Call::CopyRange { to, .. } | Call::SendFile { to, .. } => to.file.as_ref(),
        _ => None,
    };
    let of_file = || call.file().or_else(of_end).map(|file| file.path.as_path());
    call.path().map(|path| &**path).or_else(of_file)
}

pub(super) fn size_row(place: u32) -> SizeRow {
    let from = if place == 0 { 0 } else { 1u64 << (place - 1) };
    let below = if place == 0 { 0 } else { 1u64.checked_shl(place).unwrap_or(u64::MAX) };
    SizeRow { from, below, ..SizeRow::default() }
}

pub(super) fn count_size(
    sizes: &mut [SizeRow],
    asked: u64,
    direction: impl Fn(&mut SizeRow) -> &mut Transfers,
    moved: u64,
    time: u64,
) {
    if let Some(row) = sizes.get_mut((64 - asked.leading_zeros()) as usize) {
        direction(row).add(moved, time);
    }
}
