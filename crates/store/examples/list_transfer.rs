//! How long a list of 64 regions takes by the plain loop and by `io_uring`, for the decision that
//! `posix.rs` records.
//!
//! `cargo run --release -p striate-store --example list_transfer -- DIRECTORY`
#![allow(clippy::unwrap_used, reason = "a measurement")]

use std::time::Instant;

use striate_store::{AlignedBuffer, PosixFile, PosixOptions, Region, Store, Uring};

const REGIONS: usize = 64;

fn main() {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "/tmp".to_owned());
    let path = std::path::Path::new(&directory).join("striate-list-transfer");
    println!("microseconds per list of {REGIONS} regions, median; {directory}");
    println!("{:>8} {:>8} {:>6} {:>10} {:>10}", "region", "cache", "op", "plain", "io_uring");
    for direct in [false, true] {
        for len in [64, 512, 4096, 16 << 10, 64 << 10] {
            if direct && len < 4096 {
                continue;
            }
            // Gaps of the length of a region: neighbours would be one vectored call.
            let region = |n: usize| Region { memory: n * len, offset: (2 * n * len) as u64, len };
            let regions: Vec<_> = (0..REGIONS).map(region).collect();
            let mut times = Vec::new();
            for uring in [Uring::Never, Uring::Always] {
                let options = PosixOptions { direct, uring, ..PosixOptions::create() };
                let file = match PosixFile::open(&path, &options) {
                    Ok(file) => file,
                    Err(error) => {
                        println!("{error}");
                        return;
                    }
                };
                assert_eq!(file.uses_uring(), uring == Uring::Always, "no ring to be had");
                let mut memory = AlignedBuffer::new(REGIONS * len);
                file.write_list(&regions, &memory).unwrap();
                times.push((
                    median(direct, || file.write_list(&regions, &memory).unwrap()),
                    median(direct, || {
                        file.read_list(&regions, &mut memory).unwrap();
                    }),
                ));
            }
            let cache = if direct { "around" } else { "through" };
            for (op, plain, ring) in
                [("write", times[0].0, times[1].0), ("read", times[0].1, times[1].1)]
            {
                println!("{len:>8} {cache:>8} {op:>6} {plain:>10.1} {ring:>10.1}");
            }
        }
    }
    std::fs::remove_file(path).unwrap();
}

fn median(slow: bool, mut work: impl FnMut()) -> f64 {
    let samples = if slow { 50 } else { 500 };
    let mut times: Vec<_> = (0..samples)
        .map(|_| {
            let begin = Instant::now();
            work();
            begin.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e6
}
