//! [`Costs`]: what requests, bytes and copies cost on a file system, measured and not assumed.
//!
//! [`try_out`] measures the file system with an unnamed file in the directory of the file, for some
//! milliseconds; `cache.rs` keeps the result. Corrections that later calls teach are in
//! [`crate::cost_model`].

mod cache;

use std::fs::{File, OpenOptions};
use std::hint::black_box;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use striate_datatype::{Datatype, Packer};
use striate_layout::characteristics::Method;
use striate_store::store::Store;

use crate::link_cost::LinkCost;
pub(crate) use cache::recall;

/// Numbers in [`Costs`].
pub(crate) const COSTS: usize = 20;

/// Seconds per request, byte and so on; and the factor by which the estimate of each method was
/// wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Costs {
    pub(crate) write_op: f64,
    /// For a byte from memory that is in no cache: the user's.
    pub(crate) write_byte: f64,
    /// For a byte from memory that is in a core's cache: a window's.
    pub(crate) hot_write_byte: f64,
    /// For a request while another rank writes to the same file.
    pub(crate) contended_op: f64,
    /// For a byte that the file has already.
    pub(crate) rewrite_byte: f64,
    pub(crate) read_op: f64,
    /// As for writes.
    pub(crate) read_byte: f64,
    pub(crate) hot_read_byte: f64,
    /// For a region of a list or of a description, where the store takes many at once.
    pub(crate) region: f64,
    /// Between a window and a user's memory.
    pub(crate) copy_byte: f64,
    /// The same, when another core has filled the window.
    pub(crate) handed_byte: f64,
    pub(crate) copy_run: f64,
    /// For the rendezvous of a collective call.
    pub(crate) rendezvous: f64,
    /// For the first such call on a file to make its windows.
    pub(crate) ring: f64,
    /// For a byte between nodes, on one link.
    pub(crate) link_byte: f64,
    /// In the order of [`Method::ALL`].
    pub(crate) corrections: [f64; 5],
}

impl Default for Costs {
    /// Those of a typical page cache, for stores that cannot be measured.
    fn default() -> Self {
        Self {
            write_op: 0.4e-6,
            write_byte: 1.0 / 4e9,
            hot_write_byte: 1.0 / 5e9,
            contended_op: 1e-6,
            rewrite_byte: 1.0 / 6e9,
            read_op: 0.3e-6,
            read_byte: 1.0 / 6e9,
            hot_read_byte: 1.0 / 8e9,
            region: 0.08e-6,
            copy_byte: 1.0 / 8e9,
            handed_byte: 1.0 / 5e9,
            copy_run: 2e-9,
            rendezvous: 20e-6,
            ring: 1e-3,
            link_byte: 1.0 / 1e9,
            corrections: [1.0; 5],
        }
    }
}

impl Costs {
    pub(crate) const fn to_array(self) -> [f64; COSTS] {
        let [a, b, c, d, e] = self.corrections;
        let Self { write_op, write_byte, hot_write_byte, contended_op, rewrite_byte, .. } = self;
        let Self { read_op, read_byte, hot_read_byte, copy_byte, handed_byte, .. } = self;
        let Self { region, copy_run, rendezvous, ring, link_byte, .. } = self;
        [
            write_op,
            write_byte,
            hot_write_byte,
            contended_op,
            rewrite_byte,
            read_op,
            read_byte,
            hot_read_byte,
            region,
            copy_byte,
            handed_byte,
            copy_run,
            rendezvous,
            ring,
            link_byte,
            a,
            b,
            c,
            d,
            e,
        ]
    }

    pub(crate) const fn from_array(array: [f64; COSTS]) -> Self {
        let [write_op, write_byte, hot_write_byte, contended_op, rewrite_byte, ..] = array;
        let [_, _, _, _, _, read_op, read_byte, hot_read_byte, region, copy_byte, ..] = array;
        let [.., handed_byte, copy_run, rendezvous, ring, link_byte, a, b, c, d, e] = array;
        Self {
            write_op,
            write_byte,
            hot_write_byte,
            contended_op,
            rewrite_byte,
            read_op,
            read_byte,
            hot_read_byte,
            region,
            copy_byte,
            handed_byte,
            copy_run,
            rendezvous,
            ring,
            link_byte,
            corrections: [a, b, c, d, e],
        }
    }

    /// The same for ranks on several nodes, whose links are known.
    pub(crate) fn between_nodes(self, nodes: usize, link: LinkCost) -> Self {
        // Ranks gather and spread what they know in so many steps.
        let steps = 2.0 * f64::from(nodes.next_power_of_two().ilog2());
        let rendezvous = self.rendezvous + steps * link.latency;
        Self { rendezvous, link_byte: link.byte, ..self }
    }

    pub(crate) fn correction(&self, method: Method) -> f64 {
        Method::ALL
            .iter()
            .zip(self.corrections)
            .find(|(m, _)| **m == method)
            .map_or(1.0, |(_, c)| c)
    }
}

/// The costs of I/O servers: the round trip of a request is measured; the cost of bytes is assumed,
/// and corrected by later calls.
pub(crate) fn ask_servers(store: &dyn Store) -> Costs {
    const TRIES: usize = 8;
    let mut costs = Costs::default();
    try_copies(&mut costs);
    // An error of the servers is returned by the next request.
    let op = best(TRIES, |_| store.len().map(drop)).unwrap_or(100e-6);
    let byte = 1.0 / 1.5e9;
    Costs {
        write_op: op,
        contended_op: op,
        read_op: op,
        write_byte: byte,
        hot_write_byte: byte,
        rewrite_byte: byte,
        read_byte: byte,
        hot_read_byte: byte,
        region: 0.05e-6,
        ..costs
    }
}

/// The costs of an object store: the round trip of a request is measured by the first byte, whose
/// block stays cached and is mostly that of a header; the cost of bytes is assumed.
pub(crate) fn ask_objects(store: &dyn Store) -> Costs {
    let mut costs = Costs::default();
    try_copies(&mut costs);
    // An error is returned by the next request.
    let op = best(1, |_| store.read_at(0, &mut [0]).map(drop)).unwrap_or(10e-3);
    let byte = 1.0 / 300e6;
    Costs { read_op: op, read_byte: byte, hot_read_byte: byte, region: 0.05e-6, ..costs }
}

/// Measures the costs of the device that `directory` is on. One that refuses unnamed files gets the
/// defaults.
pub(crate) fn try_out(directory: &Path) -> Costs {
    let mut costs = Costs::default();
    try_copies(&mut costs);
    let unnamed = OpenOptions::new()
        .read(true)
        .write(true)
        .mode(0o600)
        .custom_flags(rustix::fs::OFlags::TMPFILE.bits() as i32)
        .open(directory);
    if let Ok(file) = unnamed {
        // A file system that is full or broken keeps the defaults; the calls that follow return the
        // error.
        let _ = try_file(&file, &mut costs);
    }
    costs
}

fn try_file(file: &File, costs: &mut Costs) -> std::io::Result<()> {
    const WINDOW: usize = 256 << 10;
    /// In sum larger than a core's cache.
    const WINDOWS: usize = 12;
    const SMALL: usize = 64;
    const PAGE: usize = 4096;
    const PAGES: u64 = 64;
    const CROWD: f64 = 16.0;
    let mut buffer = vec![1u8; WINDOW * WINDOWS];
    let at = |i: usize| (i * WINDOW) as u64;
    let per_byte = |seconds: f64| seconds / WINDOW as f64;
    let part = |i: usize| i * WINDOW..(i + 1) * WINDOW;

    let cold = best(WINDOWS, |i| file.write_all_at(&buffer[part(i)], at(i)))?;
    let hot = best(4, |i| file.write_all_at(&buffer[part(0)], at(WINDOWS + i)))?;
    let again = best(4, |i| file.write_all_at(&buffer[part(0)], at(i)))?;
    costs.write_byte = per_byte(cold);
    // Cached memory is not slower: if it seems so, the measurement was disturbed.
    costs.hot_write_byte = per_byte(hot.min(cold));
    costs.rewrite_byte = per_byte(again);
    let small = |i: usize| (16 * i as u64..16 * i as u64 + 16).map(|place| place * 128);
    let short =
        best(8, |i| small(i).try_for_each(|at| file.write_all_at(&buffer[..SMALL], at)))? / 16.0;
    costs.write_op = (short - SMALL as f64 * costs.rewrite_byte).max(1e-8);

    // Several writers at a time, each on every fourth new page, exclude each other: what a request
    // costs then.
    let new = at(2 * WINDOWS);
    let contended = best(3, |round| {
        std::thread::scope(|scope| {
            let all = [0, 1, 2, 3].map(|who| {
                let page = &buffer[..PAGE];
                let at = move |i| new + (4 * i + who) * PAGE as u64;
                let pages = round as u64 * PAGES..(round as u64 + 1) * PAGES;
                scope.spawn(move || {
                    pages.into_iter().try_for_each(|i| file.write_all_at(page, at(i)))
                })
            });
            all.into_iter().try_for_each(|thread| thread.join().unwrap_or(Ok(())))
        })
    })? / (4 * PAGES) as f64;
    // A longer wait is due to other work on the machine, and will not last.
    let most = CROWD * costs.write_op;
    costs.contended_op =
        (contended - PAGE as f64 * costs.hot_write_byte).clamp(costs.write_op, most);

    let cold = best(WINDOWS, |i| file.read_exact_at(&mut buffer[part(i)], at(i)))?;
    let hot = best(4, |i| file.read_exact_at(&mut buffer[part(0)], at(i)))?;
    costs.read_byte = per_byte(cold);
    costs.hot_read_byte = per_byte(hot.min(cold));
    let short =
        best(8, |i| small(i).try_for_each(|at| file.read_exact_at(&mut buffer[..SMALL], at)))?
            / 16.0;
    costs.read_op = (short - SMALL as f64 * costs.hot_read_byte).max(1e-8);
    costs.region = 0.2 * costs.read_op;
    Ok(())
}

/// Seconds of the fastest of some tries: disturbances only ever add to it.
fn best<E>(tries: usize, mut work: impl FnMut(usize) -> Result<(), E>) -> Result<f64, E> {
    let mut best = f64::INFINITY;
    for i in 0..tries {
        let start = Instant::now();
        work(i)?;
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(best)
}

/// Copies from a window to memory that is in no cache.
fn try_copies(costs: &mut Costs) {
    const LEN: usize = 128 << 10;
    /// In sum larger than a core's cache.
    const TARGETS: usize = 24;
    let mut source = vec![1u8; 2 * LEN];
    let mut targets = vec![1u8; TARGETS * LEN];
    let packer = |block: u64| {
        let byte = Datatype::bytes(1)?;
        let vector = Datatype::vector(LEN as u64 / block, block, 2 * block as i64, &byte)?;
        Packer::new(&vector, 1)
    };
    let (Ok(long), Ok(short)) = (packer(16 << 10), packer(64)) else { return };
    let mut copy = |packer: &Packer, source: &[u8], i: usize| {
        let start = Instant::now();
        // It fits.
        let _ = packer.pack(black_box(source), 0, black_box(&mut targets[i * LEN..(i + 1) * LEN]));
        start.elapsed().as_secs_f64()
    };
    let fastest = |times: &mut dyn Iterator<Item = f64>| times.fold(f64::INFINITY, f64::min);
    let plain = fastest(&mut (0..TARGETS).map(|i| copy(&long, &source, i)));
    let scattered = fastest(&mut (0..TARGETS).map(|i| copy(&short, &source, i)));
    let handed = fastest(&mut (0..6).map(|i| {
        std::thread::scope(|scope| scope.spawn(|| source.fill(i as u8)).join().ok());
        copy(&long, &source, i)
    }));
    costs.copy_byte = plain / LEN as f64;
    costs.copy_run = ((scattered - plain) / (LEN as f64 / 64.0)).max(0.2e-9);
    costs.handed_byte = (handed / LEN as f64).max(costs.copy_byte);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measured_costs_are_positive() {
        let directory = tempfile::tempdir().unwrap();
        let costs = try_out(directory.path());
        for seconds in costs.to_array() {
            assert!(seconds > 0.0 && seconds.is_finite(), "{costs:?}");
        }
        assert!(costs.hot_write_byte <= costs.write_byte && costs.hot_read_byte <= costs.read_byte);
        assert_eq!(Costs::from_array(costs.to_array()), costs);
        let distinct: [f64; COSTS] = std::array::from_fn(|i| i as f64);
        assert_eq!(
            Costs::from_array(distinct).to_array().map(f64::to_bits),
            distinct.map(f64::to_bits)
        );
    }
}
