//! Hints and statistics: the same access by three methods, and what each asks of the storage.
//!
//! Hints have ROMIO's names; Striate's own begin with `striate_`. The variable `STRIATE_HINTS` sets
//! them for programs that call `Hints::from_environment`, so that no program has to be changed to
//! try one.

use std::path::PathBuf;

use striate::prelude::*;

/// Each rank has every n-th block of so many bytes, and so many of them.
const BLOCK: u64 = 512;
const BLOCKS: u64 = 1000;

fn main() -> Result<(), FileError> {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join("striate-hints.dat");

    striate::run(4, |comm| {
        let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
        let byte = Datatype::from(Element::U8);
        let every_nth = Datatype::resized(&Datatype::bytes(BLOCK)?, 0, (ranks * BLOCK) as i64)?;
        let mine = vec![rank as u8; (BLOCK * BLOCKS) as usize];

        let mut operations = Vec::new();
        for method in ["posix", "list", "two-phase"] {
            let hints =
                Hints::default().with("striate_method", method)?.with("cb_buffer_size", "1MiB")?;
            let mode = Mode::CREATE | Mode::READ | Mode::WRITE | Mode::DELETE_ON_CLOSE;
            let mut file = File::open(&comm, &path, mode, &hints)?;
            file.set_view(View::new(rank * BLOCK, &byte, &every_nth)?)?;
            file.write_at_all(0, &mine)?;
            let mut back = vec![u8::MAX; mine.len()];
            file.read_at_all(0, &mut back)?;
            assert_eq!(back, mine);

            // What the calls of all ranks have cost, counted where requests reach the storage.
            let stats = file.stats_of_all()?;
            let sum =
                |count: fn(&striate::file::Stats) -> u64| stats.iter().map(count).sum::<u64>();
            let requests = sum(|stats| stats.operations);
            assert_eq!(sum(|stats| stats.wanted), 2 * ranks * BLOCK * BLOCKS);
            if rank == 0 {
                let resent = sum(|stats| stats.resent);
                println!("{method}: {requests} requests, {resent} bytes between ranks");
            }
            operations.push(requests);
            file.close()?;
        }
        // Block by block, in lists, and in a few large windows.
        assert!(operations.is_sorted_by(|more, fewer| more > fewer), "{operations:?}");
        if rank == 0 {
            println!("verified: {ranks} ranks, {BLOCKS} blocks of {BLOCK} bytes each");
        }
        Ok(())
    })
    .map(drop)
}
