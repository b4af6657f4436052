//! Rates of a file in a pool of Ceph, for `benches/rados`: `rados_rates URL CASE SECONDS`.
//!
//! Cases: `write` and `read`, 256 MiB in one request; `strided-write` and `strided-read`, every
//! other block of 4 KiB as one description; `single-write` and `single-read`, the same blocks as
//! single requests of 16 threads. Each is repeated for that time. Prints MiB/s.

use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use striate_datatype::Datatype;
use striate_store::rados::{RadosCreation, RadosFile, RadosNamespace, RadosUrl};
use striate_store::{MemoryPlacement, Placement, Store, TypedRequest};

const MIB: usize = 1 << 20;
/// Bytes of the large requests.
const LARGE: usize = 256 * MIB;
/// Blocks of the strided ones, which lie twice as far apart.
const BLOCK: usize = 4096;
const BLOCKS: usize = 8192;
const THREADS: usize = 16;

fn strided() -> Result<TypedRequest, Box<dyn Error>> {
    let block = Datatype::bytes(BLOCK as u64)?;
    let datatype = Datatype::resized(&block, 0, 2 * BLOCK as i64)?;
    let len = (BLOCKS * BLOCK) as u64;
    let file = Placement { displacement: 0, datatype, start: 0, len };
    Ok(TypedRequest { file, memory: MemoryPlacement::contiguous(0, len) })
}

/// Carries out `once`, which moves so many bytes, until the time has passed; returns MiB/s.
fn repeated(
    seconds: f64,
    bytes: usize,
    mut once: impl FnMut() -> Result<(), Box<dyn Error>>,
) -> Result<f64, Box<dyn Error>> {
    let begin = Instant::now();
    let mut moved = 0;
    while begin.elapsed().as_secs_f64() < seconds {
        once()?;
        moved += bytes;
    }
    Ok(moved as f64 / MIB as f64 / begin.elapsed().as_secs_f64())
}

/// Single requests of one block by several threads, in the order of the blocks; returns MiB/s.
fn single(
    seconds: f64,
    request: impl Fn(u64, &mut [u8]) -> Result<(), striate_store::StoreError> + Sync,
) -> Result<f64, Box<dyn Error>> {
    let next = AtomicU64::new(0);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        let work = || {
            let mut block = vec![7; BLOCK];
            while begin.elapsed().as_secs_f64() < seconds {
                let index = next.fetch_add(1, Ordering::Relaxed) % BLOCKS as u64;
                request(index * 2 * BLOCK as u64, &mut block)?;
            }
            Ok(())
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| match thread.join() {
            Ok(done) => done,
            Err(panic) => std::panic::resume_unwind(panic),
        })
    })
    .map_err(|error: striate_store::StoreError| Box::new(error) as Box<dyn Error>)?;
    let bytes = next.load(Ordering::Relaxed) as usize * BLOCK;
    Ok(bytes as f64 / MIB as f64 / begin.elapsed().as_secs_f64())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [url, case, seconds] = &arguments[..] else {
        return Err("rados_rates URL CASE SECONDS".into());
    };
    let url: RadosUrl = url.parse()?;
    let seconds: f64 = seconds.parse()?;
    // Other limits than the usual ones, to choose these.
    let number = |name: &str, usual| {
        std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
    };
    let namespace =
        RadosNamespace::open(&url)?.with_window(number("DEPTH", 16), number("EXTENTS", 64));
    let creation = RadosCreation { create: true, ..RadosCreation::default() };
    let file = RadosFile::open_in(&namespace, &url.name, &creation)?;
    let mut memory = vec![7; LARGE];
    let blocks = BLOCKS * BLOCK;
    let request = strided()?;
    let failed = |error| Box::new(error) as Box<dyn Error>;
    if case.ends_with("read") && file.len()? < LARGE as u64 {
        file.write_at(0, &memory)?;
    }
    let rate = match case.as_str() {
        "write" => repeated(seconds, LARGE, || file.write_at(0, &memory).map_err(failed))?,
        "read" => {
            repeated(seconds, LARGE, || file.read_at(0, &mut memory).map(drop).map_err(failed))?
        }
        "strided-write" => {
            repeated(seconds, blocks, || file.write_typed(&request, &memory).map_err(failed))?
        }
        "strided-read" => repeated(seconds, blocks, || {
            file.read_typed(&request, &mut memory).map(drop).map_err(failed)
        })?,
        "single-write" => single(seconds, |offset, block| file.write_at(offset, block))?,
        "single-read" => single(seconds, |offset, block| file.read_at(offset, block).map(drop))?,
        _ => return Err(format!("unknown case {case}").into()),
    };
    println!("{rate:.1}");
    Ok(())
}
