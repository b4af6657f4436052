//! Collective calls on a file system whose clients see each other's writes late, as NFS: each rank
//! has a handle with a cache of its own.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;

use striate_comm::{Comm, Threads};
use striate_datatype::Datatype;
use striate_file::{File, FileError, Hints, Mode, View};
use striate_store::conformance::CloseToOpen;
use striate_store::{Coherent, Counted, MemoryStore, Store};

const RANKS: usize = 4;
const BLOCK: usize = 64;
const BLOCKS: usize = 256;

/// Each rank reads all, then all write their blocks of 64 bytes, dealt in turn, with a gap after
/// each round, and read all again. Returns whether a rank has seen something old.
fn sees_old_bytes(
    method: &str,
    comm: &Arc<dyn Comm>,
    store: Arc<dyn Store>,
    synced: bool,
) -> Result<bool, FileError> {
    let hints: Hints = format!("striate_method={method};cb_nodes=2").parse().unwrap();
    let mut file = File::on_store(comm, store, Mode::READ | Mode::WRITE, &hints)?;
    let round = BLOCK * (RANKS + 1);
    let mut all = vec![0; BLOCKS * round];
    file.read_at(0, &mut all[..])?;
    let (byte, block) = (Datatype::bytes(1).unwrap(), Datatype::bytes(BLOCK as u64).unwrap());
    let dealt = Datatype::resized(&block, 0, round as i64).unwrap();
    let first = (BLOCK * comm.rank()) as u64;
    file.set_view(View::new(first, &byte, &dealt).unwrap())?;
    let mine = vec![1 + comm.rank() as u8; BLOCK * BLOCKS];
    file.write_at_all(0, &mine[..])?;
    if synced {
        file.sync()?;
    }
    file.set_view(View::bytes())?;
    let len = file.read_at(0, &mut all[..])? as usize;
    file.close()?;
    let right = |(at, byte): (usize, &u8)| match at % round / BLOCK {
        RANKS => *byte == 9,
        rank => usize::from(*byte) == 1 + rank,
    };
    Ok(!all[..len].iter().enumerate().all(right))
}

fn server() -> MemoryStore {
    let server = MemoryStore::new("server");
    server.write_at(0, &vec![9; BLOCKS * BLOCK * (RANKS + 1)]).unwrap();
    server
}

#[test]
fn others_see_a_collective_write_when_it_has_returned() {
    for method in ["auto", "posix", "sieve", "two-phase", "list", "datatype"] {
        for synced in [false, true] {
            let server = server();
            let old = Threads::new(RANKS).try_run(|comm| {
                let store = Coherent::new(CloseToOpen::open(&server)?);
                sees_old_bytes(method, &comm, Arc::new(store), synced)
            });
            assert!(old.unwrap().iter().all(|old| !old), "{method}, synced: {synced}");
        }
    }
}

/// Otherwise the test above would show nothing.
#[test]
fn without_coherence_they_do_not() {
    let server = server();
    let old = Threads::new(RANKS).try_run(|comm| {
        let store = CloseToOpen::open(&server)?;
        sees_old_bytes("posix", &comm, Arc::new(store), true)
    });
    assert!(old.unwrap().iter().any(|old| *old));
}

/// What it costs: one synchronisation for each window, not for each block.
#[test]
fn a_collective_write_synchronises_its_windows() {
    let server = server();
    let syncs = Threads::new(RANKS).try_run(|comm| -> Result<u64, FileError> {
        let counted = Arc::new(Counted::new(CloseToOpen::open(&server)?));
        let store = Arc::new(Coherent::new(Arc::clone(&counted)));
        sees_old_bytes("two-phase", &comm, store, false)?;
        Ok(counted.counts().write.operations)
    });
    // 80 KiB are one window.
    assert_eq!(syncs.unwrap().iter().sum::<u64>(), 1);
}
