//! Removal of strips, several at a time.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::errno::Errno;

use super::library::cluster::PoolHandle;
use super::library::operation::WriteOperation;
use super::transfer::Window;

/// Removals under way at a time.
const DEPTH: usize = 64;

/// After this time, `meanwhile` is called again.
const INTERVAL: Duration = Duration::from_secs(5);

/// Removes the strips of a range that exist; calls `meanwhile` now and then.
pub(super) fn remove_strips(
    pool: &Arc<PoolHandle>,
    name: impl Fn(u64) -> String,
    strips: Range<u64>,
    mut meanwhile: impl FnMut() -> Result<(), Errno>,
) -> Result<(), Errno> {
    let mut window = Window::new(DEPTH);
    let mut called = Instant::now();
    let removed = |outcome: Result<(), Errno>| match outcome {
        Ok(()) | Err(Errno::ENOENT) => Ok(()),
        Err(errno) => Err(errno),
    };
    for strip in strips {
        let removal = WriteOperation::new(pool).remove().start(pool, &name(strip))?;
        if let Some((oldest, ())) = window.push(removal, ()) {
            removed(oldest.wait().1)?;
        }
        if called.elapsed() > INTERVAL {
            meanwhile()?;
            called = Instant::now();
        }
    }
    window.into_iter().try_for_each(|(removal, ())| removed(removal.wait().1))
}
