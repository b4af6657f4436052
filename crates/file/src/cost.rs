//! What things cost here: measured, not assumed.
//!
//! [`CostModel::measure`] tries the file system with a nameless file in the directory that matters,
//! for some milliseconds, once per device and process. From then on every call that was carried
//! out corrects the estimate for its method.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Instant;

use striate_datatype::{Datatype, Packer};
use striate_layout::characteristics::Method;

/// Seconds per thing; and how far the estimate of each method was off, as a factor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    pub(crate) write_op: f64,
    pub(crate) write_byte: f64,
    /// For a request while another rank writes to the same file.
    pub(crate) contended_op: f64,
    /// For a byte that the file has already.
    pub(crate) rewrite_byte: f64,
    pub(crate) read_op: f64,
    pub(crate) read_byte: f64,
    pub(crate) copy_byte: f64,
    pub(crate) copy_run: f64,
    /// For one collective call to come together and to end.
    pub(crate) meet: f64,
    /// In the order of [`Method::ALL`].
    pub(crate) corrections: [f64; 5],
}

impl Default for Costs {
    /// What a page cache of our days costs, for stores that cannot be tried.
    fn default() -> Self {
        Self {
            write_op: 0.4e-6,
            write_byte: 1.0 / 4e9,
            contended_op: 1e-6,
            rewrite_byte: 1.0 / 6e9,
            read_op: 0.3e-6,
            read_byte: 1.0 / 8e9,
            copy_byte: 1.0 / 8e9,
            copy_run: 2e-9,
            meet: 20e-6,
            corrections: [1.0; 5],
        }
    }
}

impl Costs {
    pub(crate) const fn to_array(self) -> [f64; 14] {
        let [a, b, c, d, e] = self.corrections;
        let Self { write_op, write_byte, contended_op, rewrite_byte, .. } = self;
        let Self { read_op, read_byte, copy_byte, copy_run, meet, .. } = self;
        [
            write_op,
            write_byte,
            contended_op,
            rewrite_byte,
            read_op,
            read_byte,
            copy_byte,
            copy_run,
            meet,
            a,
            b,
            c,
            d,
            e,
        ]
    }

    pub(crate) const fn from_array(array: [f64; 14]) -> Self {
        let [write_op, write_byte, contended_op, rewrite_byte, read_op, ..] = array;
        let [.., read_byte, copy_byte, copy_run, meet, a, b, c, d, e] = array;
        Self {
            write_op,
            write_byte,
            contended_op,
            rewrite_byte,
            read_op,
            read_byte,
            copy_byte,
            copy_run,
            meet,
            corrections: [a, b, c, d, e],
        }
    }

    pub(crate) fn correction(&self, method: Method) -> f64 {
        Method::ALL
            .iter()
            .zip(self.corrections)
            .find(|(m, _)| **m == method)
            .map_or(1.0, |(_, c)| c)
    }
}

/// How much one call moves the correction of its method: down, and up. What disturbs a call only
/// ever makes it slower, so good news is believed sooner.
const LEARNING: (f64, f64) = (0.3, 0.1);

/// What is known about the costs of a device, for reads and for writes. Clones share what they learn.
#[derive(Clone, Debug, Default)]
pub struct CostModel(Arc<Mutex<Known>>);

#[derive(Clone, Copy, Debug, Default)]
struct Known {
    reads: Costs,
    writes: Costs,
}

impl CostModel {
    /// The costs of the device that `directory` is on, tried once per process. Directories that
    /// refuse a nameless file get the costs of memory.
    pub fn measure(directory: &Path) -> Self {
        static DEVICES: OnceLock<Mutex<HashMap<u64, CostModel>>> = OnceLock::new();
        let Ok(metadata) = directory.metadata() else { return Self::default() };
        let devices = DEVICES.get_or_init(Mutex::default);
        let mut devices = devices.lock().unwrap_or_else(PoisonError::into_inner);
        let model = devices.entry(metadata.dev()).or_insert_with(|| {
            let costs = try_out(directory);
            Self(Arc::new(Mutex::new(Known { reads: costs, writes: costs })))
        });
        model.clone()
    }

    pub(crate) fn costs(&self, write: bool) -> Costs {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if write { known.writes } else { known.reads }
    }

    /// Corrects the estimate for `method` by what a call really took.
    pub(crate) fn learn(&self, write: bool, method: Method, estimate: f64, took: f64) {
        if !(estimate > 0.0 && estimate.is_finite() && took > 0.0) {
            return;
        }
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let costs = if write { &mut known.writes } else { &mut known.reads };
        for (known, correction) in Method::ALL.iter().zip(&mut costs.corrections) {
            if *known == method {
                // `estimate` has a correction in it, though perhaps not the newest.
                let right = (*correction * took / estimate).clamp(0.125, 8.0);
                let weight = if right < *correction { LEARNING.0 } else { LEARNING.1 };
                *correction += (right - *correction) * weight;
            }
        }
    }
}

fn try_out(directory: &Path) -> Costs {
    let mut costs = Costs::default();
    (costs.copy_byte, costs.copy_run) = try_copies();
    let nameless = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32)
        .open(directory);
    if let Ok(file) = nameless {
        // A file system that is full or broken keeps the defaults; the call itself will tell.
        let _ = try_file(&file, &mut costs);
    }
    costs
}

fn try_file(file: &File, costs: &mut Costs) -> std::io::Result<()> {
    const WINDOW: usize = 256 << 10;
    const WINDOWS: u64 = 4;
    const SMALL: usize = 64;
    const CONTENDED: u64 = 256;
    let mut buffer = vec![1u8; WINDOW];
    let time = |work: &mut dyn FnMut(u64) -> std::io::Result<()>, times: u64| {
        // The best of some: what disturbs only ever adds.
        let mut best = f64::INFINITY;
        for i in 0..times {
            let start = Instant::now();
            work(i)?;
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok::<_, std::io::Error>(best)
    };
    let long = time(&mut |i| file.write_all_at(&buffer, i * WINDOW as u64), WINDOWS)?;
    let short = time(
        &mut |i| (0..16).try_for_each(|j| file.write_all_at(&buffer[..SMALL], (16 * i + j) * 128)),
        8,
    )? / 16.0;
    costs.write_byte = long / WINDOW as f64;
    costs.write_op = (short - SMALL as f64 * costs.write_byte).max(1e-8);
    let again = time(&mut |i| file.write_all_at(&buffer, i * WINDOW as u64), WINDOWS)?;
    costs.rewrite_byte = again / WINDOW as f64;
    // Two at a time, both of whom wait for each other: what one request costs all together.
    let start = Instant::now();
    std::thread::scope(|scope| {
        let both = [0, 1].map(|half| {
            let buffer = &buffer;
            scope.spawn(move || {
                (0..CONTENDED).try_for_each(|i| {
                    file.write_all_at(&buffer[..SMALL], (2 * i + half) * SMALL as u64)
                })
            })
        });
        both.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
    })?;
    let contended = start.elapsed().as_secs_f64() / (2 * CONTENDED) as f64;
    costs.contended_op = (contended - SMALL as f64 * costs.write_byte).max(costs.write_op);
    let long = time(&mut |i| file.read_exact_at(&mut buffer, i * WINDOW as u64), WINDOWS)?;
    let short = time(
        &mut |i| {
            (0..16).try_for_each(|j| file.read_exact_at(&mut buffer[..SMALL], (16 * i + j) * 128))
        },
        8,
    )? / 16.0;
    costs.read_byte = long / WINDOW as f64;
    costs.read_op = (short - SMALL as f64 * costs.read_byte).max(1e-8);
    Ok(())
}

/// Seconds per byte and per run of a copy.
fn try_copies() -> (f64, f64) {
    const LEN: usize = 128 << 10;
    let source = vec![1u8; 2 * LEN];
    let mut target = vec![0u8; LEN];
    let mut rate = |block: u64| {
        let count = LEN as u64 / block;
        let byte = Datatype::bytes(1)?;
        let packer = Packer::new(&Datatype::vector(count, block, 2 * block as i64, &byte)?, 1)?;
        let mut best = f64::INFINITY;
        for _ in 0..4 {
            let start = Instant::now();
            let _ = packer.pack(black_box(&source), 0, black_box(&mut target));
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok::<_, striate_datatype::TypeError>(best)
    };
    let default = Costs::default();
    let (Ok(long), Ok(short)) = (rate(16 << 10), rate(64)) else {
        return (default.copy_byte, default.copy_run);
    };
    let byte = long / LEN as f64;
    (byte, ((short - long) / (LEN as f64 / 64.0)).max(0.2e-9))
}
