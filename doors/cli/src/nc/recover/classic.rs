//! Classic files: the mark of unfinished ones, the number of records, and the length.

use std::path::Path;

use striate_array::Format;
use striate_array::format::Header;
use striate_store::Store;

use super::{NcRecoverArgs, RecoveredFile, RecoveredState, change};
use crate::CommandError;
use crate::nc::signal_watch::SignalWatch;
use crate::nc::validate;
use crate::number::counted;

/// Where the number of records is.
const RECORDS_AT: u64 = 4;

pub(super) fn look(
    path: &Path,
    store: &dyn Store,
    args: &NcRecoverArgs,
    interrupt: &SignalWatch,
) -> Result<RecoveredFile, CommandError> {
    let (mut bytes, _, size) = validate::header(store)?;
    let is_unfinished = bytes.starts_with(b"cdf");
    let begin: Vec<u8> = bytes.iter().take(12).copied().collect();
    let mut row = RecoveredFile::new(path, RecoveredState::Whole, size);
    if is_unfinished {
        bytes[..3].copy_from_slice(b"CDF");
    }
    let header = match Header::decode(&bytes) {
        Ok((header, _)) => header,
        Err(error) => {
            row.state = RecoveredState::Damaged;
            row.found(error.to_string(), "'striate nc validate FILE' shows all that is wrong");
            return Ok(row);
        }
    };
    row.format = Some(header.format.to_string());
    row.variables = Some(header.variables.len());
    if is_unfinished {
        row.state = RecoveredState::Unfinished;
        // A redefinition moves data between the places of the old header and those of a new one.
        row.found(
            "its writer ended before the first sync, or while a redefinition moved data; which of \
             its values were written, or where they are, is not known",
            "the program that wrote it has to write it again",
        );
        return Ok(row);
    }
    let room = header.records_in(size);
    let has_records = header.variables.iter().any(|variable| header.is_record(variable));
    let is_open = header.records == Header::STREAMING;
    row.records = has_records.then_some(if is_open { room } else { header.records });
    if has_records && (is_open || room != header.records) {
        let more = room.wrapping_sub(header.records);
        let what = if is_open {
            format!("the header does not say how many records there are; the file has {room}")
        } else if room > header.records {
            let are = counted(more, "record");
            format!("{are} behind the last one that the header counts: not synced")
        } else {
            let lost = counted(header.records - room, "record");
            format!("{lost} that the header counts, not whole in the file: it is cut off")
        };
        row.state = if !is_open && room < header.records {
            RecoveredState::Damaged
        } else {
            RecoveredState::Synced
        };
        if args.records {
            let number = match header.format {
                Format::Cdf1 | Format::Cdf2 => {
                    u32::try_from(room).ok().map(|room| room.to_be_bytes().to_vec())
                }
                _ => Some(room.to_be_bytes().to_vec()),
            };
            let Some(number) = number else {
                row.found(what, "the format cannot count so many");
                return Ok(row);
            };
            change(path, (0, &begin), size, interrupt, |file| {
                Ok(file.write_at(RECORDS_AT, &number)?)
            })?;
            row.state = RecoveredState::Synced;
            row.records = Some(room);
            row.done(format!("{what}; the header counts {room} now"));
        } else {
            row.found(what, format!("--records sets the number to {room}"));
        }
    }
    missing_values(&header, size, &mut row);
    Ok(row)
}

/// Fixed variables that are not whole in the file.
fn missing_values(header: &Header, size: u64, row: &mut RecoveredFile) {
    let fixed = header.variables.iter().filter(|variable| !header.is_record(variable));
    let cut: Vec<&str> = fixed
        .filter(|variable| {
            let all =
                header.shape(variable).iter().fold(1, |all: u64, &len| all.saturating_mul(len));
            header.values_within(variable, size) < all
        })
        .map(|variable| variable.name.as_str())
        .collect();
    let Some(first) = cut.first() else { return };
    let others = match cut.len() - 1 {
        0 => String::new(),
        more => format!(", and of {more} more"),
    };
    row.state = RecoveredState::Damaged;
    row.found(
        format!("values of '{first}'{others} are not in the file: it is cut off"),
        "obtain it again from its source, or have it written again",
    );
}
