//! netCDF-4 and other HDF5 files: the state that the superblock names, and what lies behind it.

use std::path::Path;

use striate_hdf5::netcdf::{NetcdfKind, describe};
use striate_hdf5::{File, Reason, closed_superblock};
use striate_store::Store;

use super::{NcRecoverArgs, RecoveredFile, RecoveredState, change};
use crate::CommandError;
use crate::nc::hdf5_file::StoreSource;
use crate::nc::signal_watch::SignalWatch;
use crate::number::bytes;

/// Flags of a superblock: open for writing; by one writer beside readers.
const OPEN: u32 = 0b101;
/// Bytes of a superblock of version 2 or 3 with addresses of 8 bytes.
const SUPERBLOCK: usize = 48;
/// The first object header of a file of ours lies behind its superblock.
const HEADER: &[u8] = b"OHDR";

const AGAIN: &str = "the program that wrote it has to write it again";

/// A file without the signature of any format.
pub(super) fn without_superblock(
    path: &Path,
    store: &dyn Store,
) -> Result<RecoveredFile, CommandError> {
    let size = store.len()?;
    let mut begin = [0; SUPERBLOCK + HEADER.len()];
    let read = store.read_at(0, &mut begin)?;
    let is_empty = begin[..read.min(SUPERBLOCK)].iter().all(|&byte| byte == 0);
    let mut row = RecoveredFile::new(path, RecoveredState::Unsynced, size);
    if size == 0 {
        row.found("it is empty: its writer ended before anything was written", AGAIN);
    } else if is_empty {
        let of = if begin[SUPERBLOCK..] == *HEADER { " of a netCDF-4 file" } else { "" };
        row.found(
            format!("there is no superblock{of}: its writer ended before its first sync"),
            AGAIN,
        );
    } else {
        row.state = RecoveredState::Damaged;
        row.found("it is neither a netCDF file nor an HDF5 file", "");
    }
    Ok(row)
}

/// A file with a superblock.
pub(super) fn look(
    path: &Path,
    store: Box<dyn Store>,
    args: &NcRecoverArgs,
    interrupt: &SignalWatch,
) -> Result<RecoveredFile, CommandError> {
    let size = store.len()?;
    let mut row = RecoveredFile::new(path, RecoveredState::Whole, size);
    let file = match File::open_recording(StoreSource::new(store)) {
        Ok(file) => file,
        Err(error) => {
            row.state = RecoveredState::Damaged;
            let hint = match error.reason {
                Reason::FileTruncated { .. } => "obtain it again from its source",
                _ => "'striate nc validate FILE' shows all that is wrong with it",
            };
            row.found(error.to_string(), hint);
            return Ok(row);
        }
    };
    let known = file.superblock().clone();
    let described = describe(&file);
    if let Ok(described) = &described {
        let definition = &described.definition;
        row.format = Some(match described.kind {
            NetcdfKind::Netcdf4 => "netCDF-4".to_owned(),
            NetcdfKind::Netcdf4Classic => "netCDF-4 (classic model)".to_owned(),
            NetcdfKind::Hdf5 => "HDF5".to_owned(),
        });
        row.variables = Some(definition.variables.len());
        let unlimited = definition.dimensions.iter().find(|dimension| dimension.unlimited);
        row.records = unlimited.map(|dimension| dimension.length);
    }
    row.end = Some(known.end);
    let used = match described.and_then(|_| file.used_space()) {
        Ok(used) => used,
        Err(error) => {
            row.state = RecoveredState::Damaged;
            let hint = "nothing is changed; 'striate nc validate FILE' shows all that is wrong";
            row.found(error.to_string(), hint);
            return Ok(row);
        }
    };
    row.unused = used.unused_before(known.end.min(size));
    // What a writer refers to, the file has: it was read. An end before it was not updated.
    let is_stale = used.end() > known.end;
    let end = if is_stale { size } else { known.end };
    let behind = size - end;
    let is_open = known.version >= 2 && known.consistency_flags & OPEN != 0;
    if is_open || is_stale || behind > 0 {
        row.state = RecoveredState::Synced;
    }
    let mut begin = vec![0; SUPERBLOCK.min((size - known.location) as usize)];
    striate_hdf5::Source::read_at(file.source(), known.location, &mut begin)
        .map_err(|error| CommandError::failed(format!("cannot read {}", row.file), error, ""))?;
    drop(file);
    if is_open || is_stale {
        let mut what = Vec::new();
        if is_open {
            what.push("it is marked as open for writing: its writer did not close it".to_owned());
        }
        if is_stale {
            what.push(format!(
                "the superblock ends it at byte {}, and structures lie behind that",
                known.end
            ));
        }
        let what = what.join("; ");
        let closed = closed_superblock(&begin, is_stale.then_some(end));
        match closed {
            Some(closed) if args.clear => {
                change(path, (known.location, &begin), size, interrupt, |file| {
                    Ok(file.write_at(known.location, &closed)?)
                })?;
                begin[..closed.len()].copy_from_slice(&closed);
                row.end = Some(end);
                row.done(what);
            }
            Some(_) => {
                row.found(what, "all metadata can be read; --clear sets it right, as h5clear does");
            }
            None => row.found(what, "'h5clear --increment' sets it right"),
        }
    }
    if behind > 0 {
        let what =
            format!("{} behind the end of that state, which nothing refers to", bytes(behind));
        // Data that were never synced may be of a writer that is not dead.
        let is_settled = !is_open || args.clear;
        if args.truncate && is_settled {
            change(path, (known.location, &begin), size, interrupt, |file| Ok(file.set_len(end)?))?;
            row.size = end;
            row.done(format!("{what}, are cut off"));
        } else if args.truncate {
            row.found(what, "the mark has to be removed first, by --clear");
        } else {
            row.found(what, "--truncate gives them back");
        }
    }
    Ok(row)
}
