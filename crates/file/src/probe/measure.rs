//! Measures targets, several at once, each in bounded time.
//!
//! The bytes are written by threads of their own, which are not waited for longer than the limit: a
//! write that hangs in the system cannot be cancelled. Such a thread ends when the system call
//! returns, and removes its file then.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::{Builder, scope};
use std::time::{Duration, Instant};

use striate_store::AlignedBuffer;

use super::options::ProbeOptions;
use super::scratch::{ScratchFile, sweep};
use super::{Sample, StorageTarget};
use crate::FileError;

/// Bytes of a write.
const PIECE: usize = 4 << 20;

/// How long a target that has reached its limit may take to notice.
const GRACE: Duration = Duration::from_secs(2);

/// How long a target that was asked to stop may take to remove its file, while the caller waits.
/// Local files have no name any more, and files left on servers are removed by a later probe.
const FAREWELL: Duration = Duration::from_millis(700);

/// How often the request to stop is checked.
const LOOK: Duration = Duration::from_millis(50);

/// How far a target has come.
#[derive(Debug, Default)]
struct Progress {
    start: OnceLock<Instant>,
    bytes: AtomicU64,
}

/// Measures all targets, some at once; results in their order.
pub(super) fn measure_all(
    targets: &[StorageTarget],
    options: &ProbeOptions,
) -> Vec<Result<Sample, String>> {
    let data = Arc::new(probe_data(options.whole_size().min(PIECE as u64) as usize));
    let none = || Err("it was not measured".to_owned());
    let results: Vec<Mutex<Result<Sample, String>>> =
        targets.iter().map(|_| Mutex::new(none())).collect();
    let next = AtomicUsize::new(0);
    let lane = || {
        while let Some((target, result)) = {
            let mine = next.fetch_add(1, Ordering::Relaxed);
            targets.get(mine).zip(results.get(mine))
        } {
            let outcome = measure(target, options, &data);
            *result.lock().unwrap_or_else(PoisonError::into_inner) = outcome;
        }
    };
    scope(|scope| {
        for number in 1..lanes(targets.len(), options.at_once) {
            // One lane is enough to get all done.
            let _ = Builder::new().name(format!("probe-{number}")).spawn_scoped(scope, lane);
        }
        lane();
    });
    let unwrap = |result: Mutex<Result<Sample, String>>| {
        result.into_inner().unwrap_or_else(PoisonError::into_inner)
    };
    results.into_iter().map(unwrap).collect()
}

/// How many are measured at once: as many as allowed, but not some alone at the end if it can be
/// even.
fn lanes(targets: usize, at_once: usize) -> usize {
    let rounds = targets.div_ceil(at_once.max(1)).max(1);
    targets.div_ceil(rounds).max(1)
}

/// Bytes that no file system can make smaller.
fn probe_data(len: usize) -> AlignedBuffer {
    let mut data = AlignedBuffer::new(len);
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    for word in data.chunks_exact_mut(8) {
        // Xorshift: fast, and without a period that a compressor would see.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        word.copy_from_slice(&state.to_le_bytes());
    }
    data
}

/// Measures one target, and waits no longer than its limit and a little more.
fn measure(
    target: &StorageTarget,
    options: &ProbeOptions,
    data: &Arc<AlignedBuffer>,
) -> Result<Sample, String> {
    if options.is_stopped() {
        return Err("the probe was interrupted".to_owned());
    }
    let progress = Arc::new(Progress::default());
    let (sender, result) = sync_channel(1);
    let thread = Builder::new().name(format!("probe {target}"));
    let job = {
        let (target, options) = (target.clone(), options.clone());
        let (progress, data) = (Arc::clone(&progress), Arc::clone(data));
        move || {
            let outcome = write_all(&target, &options, &data, &progress);
            // A caller that does not wait any more has recorded the outcome already.
            let _ = sender.send(outcome);
        }
    };
    let begun = Instant::now();
    thread.spawn(job).map_err(|error| format!("no thread can be started: {error}"))?;
    match wait(&result, begun, options) {
        Ok(outcome) => outcome.map_err(|error| error.full()),
        Err(RecvTimeoutError::Disconnected) => Err("its measurement panicked".to_owned()),
        Err(RecvTimeoutError::Timeout) if options.is_stopped() => {
            Err("the probe was interrupted".to_owned())
        }
        Err(RecvTimeoutError::Timeout) => so_far(&progress).ok_or_else(|| {
            format!("nothing could be written within {:.1} s", options.limit.as_secs_f64())
        }),
    }
}

/// Waits for a result up to the limit; after a request to stop, only for a moment.
fn wait<T>(
    result: &Receiver<T>,
    begun: Instant,
    options: &ProbeOptions,
) -> Result<T, RecvTimeoutError> {
    let mut longest = options.limit.saturating_add(GRACE);
    loop {
        match result.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {
                let spent = begun.elapsed();
                if options.is_stopped() {
                    longest = longest.min(spent.saturating_add(FAREWELL));
                }
                if spent >= longest {
                    return Err(RecvTimeoutError::Timeout);
                }
            }
            other => return other,
        }
    }
}

/// The result of a target that has not finished.
fn so_far(progress: &Progress) -> Option<Sample> {
    let bytes = progress.bytes.load(Ordering::Acquire);
    let seconds = progress.start.get()?.elapsed().as_secs_f64();
    (bytes > 0 && seconds > 0.0).then_some(Sample { bytes, seconds, direct: false })
}

/// Writes to a target; bypasses the page cache, if that works.
fn write_all(
    target: &StorageTarget,
    options: &ProbeOptions,
    data: &AlignedBuffer,
    progress: &Progress,
) -> Result<Sample, FileError> {
    let sample = match write_once(target, options, data, progress, true) {
        // Some file systems open a file for direct I/O, and refuse the first write.
        Err(FileError::Store(error)) if is_refusal(&error) => {
            write_once(target, options, data, progress, false)?
        }
        other => other?,
    };
    if options.stores.is_none() && target.is_remote() && target.number().is_none_or(|n| n == 0) {
        // For other users of the servers; the target was measured.
        let _ = sweep(target);
    }
    Ok(sample)
}

fn is_refusal(error: &striate_store::StoreError) -> bool {
    let invalid = rustix::io::Errno::INVAL.raw_os_error();
    let raw = error.io_error().and_then(std::io::Error::raw_os_error);
    error.operation() == striate_store::Operation::Write && raw == Some(invalid)
}

fn write_once(
    target: &StorageTarget,
    options: &ProbeOptions,
    data: &AlignedBuffer,
    progress: &Progress,
    direct: bool,
) -> Result<Sample, FileError> {
    let scratch = ScratchFile::open(target, options.stores.as_deref(), direct)?;
    let size = options.whole_size();
    let start = *progress.start.get_or_init(Instant::now);
    let mut bytes = 0;
    while bytes < size && (bytes == 0 || start.elapsed() < options.limit) {
        if options.is_stopped() {
            return Err(FileError::Interrupted { call: "probe" });
        }
        let piece = (size - bytes).min(data.len() as u64);
        scratch.store.write_at(bytes, &data[..piece as usize])?;
        bytes += piece;
        progress.bytes.store(bytes, Ordering::Release);
        if let Some(written) = &options.written {
            written.fetch_add(piece, Ordering::Relaxed);
        }
    }
    if !scratch.direct {
        scratch.store.sync()?;
    }
    let seconds = start.elapsed().as_secs_f64().max(1e-9);
    let direct = scratch.direct;
    scratch.remove()?;
    Ok(Sample { bytes, seconds, direct })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_even() {
        for (targets, at_once, expected) in
            [(0, 4, 1), (1, 4, 1), (4, 4, 4), (5, 4, 3), (6, 4, 3), (9, 4, 3), (10, 0, 1)]
        {
            assert_eq!(lanes(targets, at_once), expected, "{targets} {at_once}");
        }
    }
}
