//! The end of a mount: stages write out what they buffer, and the record shows the progress.

use std::io;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use rustix::io::Errno;

use crate::error::MountError;
use crate::guard::Guard;
use crate::mount_record::RecordWriter;
use crate::mount_syscalls;
use crate::mounted::MountedBackend;
use crate::settling_note::SettlingNote;

/// Interval of progress reports.
const INTERVAL: Duration = Duration::from_millis(100);

/// How much is left to be written at the end of a mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settling {
    /// Files that were held back when it ended.
    pub held: u64,
    /// Files that are not on the source yet.
    pub left: u64,
}

/// Writes buffered data. The record and the guard are released at the end, also after errors.
pub(crate) fn settle(
    served: &dyn MountedBackend,
    mut record: Option<RecordWriter>,
    guard: Option<Guard>,
    show: &mut dyn FnMut(Settling),
) -> Result<(), MountError> {
    let held = served.held();
    if let Some(record) = &mut record {
        record.settling(held.files);
    }
    let directory = served.directory();
    let note = match (&directory, &record) {
        (Some(directory), Some(record)) if held.files + held.open > 0 => {
            // A source that cannot be written to has nothing to wait for.
            SettlingNote::leave(directory, record.record()).ok()
        }
        _ => None,
    };
    let settled = while_showing(served, held.files, |settling| {
        if let Some(record) = &mut record {
            record.progress(settling.left);
        }
        show(settling);
    });
    let error = settled.as_ref().err().map(ToString::to_string);
    match (note, &error, &record) {
        (Some(note), Some(error), Some(record)) => note.failed(record.record(), error),
        (Some(note), ..) => note.remove(),
        (None, ..) => {}
    }
    if let Some(guard) = guard {
        // If it stays, 'striate umount' lifts it.
        let _ = guard.lift();
    }
    if let Some(record) = record {
        record.end(error);
    }
    settled
}

/// Writes buffered data, in another thread; reports now and then how much is left.
fn while_showing(
    served: &dyn MountedBackend,
    held: u64,
    mut show: impl FnMut(Settling),
) -> Result<(), MountError> {
    std::thread::scope(|scope| {
        let (sender, done) = channel();
        let settle = move || {
            let _ = sender.send(served.settle());
        };
        if std::thread::Builder::new().spawn_scoped(scope, settle).is_err() {
            return served.settle();
        }
        loop {
            match done.recv_timeout(INTERVAL) {
                Ok(settled) => return settled,
                Err(RecvTimeoutError::Timeout) => {
                    show(Settling { held, left: served.held().files.min(held) });
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(MountError::Unsettled(Errno::IO));
                }
            }
        }
    })
}

/// Unmounts what is at a point, lazily if asked to. `false` if a program still uses it.
pub fn unmount(point: &Path, lazily: bool) -> io::Result<bool> {
    mount_syscalls::unmount(point, lazily)
}
