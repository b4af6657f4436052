//! [`Costs`]: the cost of accesses to objects on this machine, measured when a server starts.
//!
//! They only decide between two correct ways: bytes with gaps can be moved run by run, or together
//! with the bytes between them.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use rustix::fs::OFlags;

/// Seconds of a system call, and of a byte that it moves.
#[derive(Clone, Copy, Debug)]
struct AccessCost {
    call: f64,
    byte: f64,
}

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Costs {
    read: AccessCost,
    write: AccessCost,
}

/// Seconds of a byte between a chunk and another.
const COPY: f64 = 1.0 / 15e9;

impl Default for Costs {
    /// Typical times of a page cache.
    fn default() -> Self {
        let read = AccessCost { call: 0.3e-6, byte: 1.0 / 10e9 };
        Self { read, write: AccessCost { call: 0.6e-6, byte: 1.0 / 8e9 } }
    }
}

impl Costs {
    /// Tries the file system of a directory with a nameless file, for a millisecond or two.
    pub(crate) fn measure(directory: &Path) -> Self {
        let nameless = OpenOptions::new()
            .read(true)
            .write(true)
            .mode(0o600)
            .custom_flags(OFlags::TMPFILE.bits() as i32)
            .open(directory);
        nameless.and_then(|file| try_out(&file)).unwrap_or_default()
    }

    /// Whether `runs` runs of `bytes` bytes together are better read with all that they span.
    pub(crate) fn reads_whole(&self, runs: f64, bytes: f64, span: f64) -> bool {
        let AccessCost { call, byte } = self.read;
        call + span * byte + bytes * COPY < runs * call + bytes * byte
    }

    /// Whether they are better written by reading what they span, changing it and writing it back.
    pub(crate) fn writes_whole(&self, runs: f64, bytes: f64, span: f64) -> bool {
        let (read, write) = (self.read, self.write);
        let back = read.call + write.call + span * (read.byte + write.byte) + bytes * COPY;
        back < runs * write.call + bytes * write.byte
    }
}

fn try_out(file: &File) -> io::Result<Costs> {
    const LONG: usize = 64 << 10;
    const SHORT: usize = 1 << 10;
    const SHORTS: u64 = 32;
    const TRIES: u64 = 8;
    let mut buffer = vec![1; LONG];
    for i in 0..4 {
        file.write_all_at(&buffer, i * LONG as u64)?;
    }
    // Every second one: runs have gaps.
    let places = || (0..SHORTS).map(|i| 2 * i * SHORT as u64);
    let long = best(TRIES, |i| file.write_all_at(&buffer, i % 4 * LONG as u64))?;
    let short =
        best(TRIES, |_| places().try_for_each(|at| file.write_all_at(&buffer[..SHORT], at)))?;
    let write = way(long / LONG as f64, short / SHORTS as f64, SHORT);
    let long = best(TRIES, |i| file.read_exact_at(&mut buffer, i % 4 * LONG as u64))?;
    let short =
        best(TRIES, |_| places().try_for_each(|at| file.read_exact_at(&mut buffer[..SHORT], at)))?;
    let read = way(long / LONG as f64, short / SHORTS as f64, SHORT);
    Ok(Costs { read, write })
}

fn way(byte: f64, short: f64, bytes: usize) -> AccessCost {
    AccessCost { call: (short - bytes as f64 * byte).max(1e-8), byte }
}

/// Seconds of the fastest of some tries: what disturbs only ever adds.
fn best(tries: u64, mut work: impl FnMut(u64) -> io::Result<()>) -> io::Result<f64> {
    (0..tries).try_fold(f64::INFINITY, |best, i| {
        let start = Instant::now();
        work(i)?;
        Ok(best.min(start.elapsed().as_secs_f64()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_long_runs_are_moved_alone_and_many_short_ones_together() {
        let directory = tempfile::tempdir().unwrap();
        for costs in [Costs::default(), Costs::measure(directory.path())] {
            assert!(!costs.reads_whole(2.0, 20_000.0, 200_000.0), "{costs:?}");
            assert!(!costs.writes_whole(2.0, 20_000.0, 200_000.0), "{costs:?}");
            assert!(costs.reads_whole(4000.0, 32_000.0, 64_000.0), "{costs:?}");
            assert!(costs.writes_whole(4000.0, 32_000.0, 64_000.0), "{costs:?}");
        }
        assert!(Costs::measure(Path::new("/does/not/exist")).read.call > 0.0);
    }
}
