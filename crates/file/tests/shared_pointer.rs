//! The shared pointer, in memory of the node or in a sidecar file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use striate_comm::{Comm, Threads};
use striate_datatype::Datatype;
use striate_file::{ErrorKind, File, FileError, Hints, Mode, Seek, View};
use support::on_all_jobs;

const BOTH: Mode = Mode::READ.union(Mode::WRITE).union(Mode::CREATE);

/// Runs `body` as four ranks on one node, on two, and on one without memory in common.
fn run(body: impl Fn(&Arc<dyn Comm>, &Path) -> Result<(), FileError> + Sync) {
    on_all_jobs("a test of shared pointers", |comm, directory| body(comm, &directory.join("file")));
}

fn open(comm: &Arc<dyn Comm>, path: &Path, mode: Mode) -> Result<File, FileError> {
    File::open(comm, path, mode, &Hints::default())
}

#[test]
fn each_record_has_a_place_of_its_own() {
    run(|comm, path| {
        let mut file = open(comm, path, BOTH)?;
        file.set_view(View::new(8, &Datatype::bytes(4)?, &Datatype::bytes(4)?)?)?;
        let (rank, size) = (comm.rank() as u8, comm.size());
        for number in 0..20 {
            file.write_shared(&[rank, number, rank, number])?;
        }
        comm.barrier()?;
        assert_eq!(file.position_shared()?, 20 * size as u64);
        let written = std::fs::read(path).unwrap();
        assert_eq!(written.len(), 8 + 80 * size);
        // Every rank's records are there, in its own order.
        for of in 0..size as u8 {
            let its = written[8..].chunks(4).filter(|record| record[0] == of);
            assert!(its.map(|record| record[3]).eq(0..20));
        }
        file.seek_shared(Seek::Start(0))?;
        let mut records = [0; 8];
        let mut seen = 0;
        while file.read_shared(&mut records)? == 8 {
            seen += 2;
        }
        let all = comm.allgather(&[seen])?.concat().iter().map(|n| usize::from(*n)).sum::<usize>();
        assert_eq!(all, 20 * size);
        file.close()
    });
}

#[test]
fn ordered_calls_go_by_rank() {
    run(|comm, path| {
        let mut file = open(comm, path, BOTH)?;
        let rank = comm.rank();
        for round in 0..5u8 {
            if rank == round as usize % comm.size() {
                file.write_shared(&[100 + round])?;
            }
            // Rank 0 writes nothing.
            file.write_ordered(&vec![rank as u8; rank])?;
        }
        let row: Vec<u8> = (0..comm.size()).flat_map(|rank| vec![rank as u8; rank]).collect();
        let rows: Vec<u8> = (0..5).flat_map(|r| [&[100 + r], row.as_slice()].concat()).collect();
        assert_eq!(file.position_shared()?, rows.len() as u64);
        assert_eq!(std::fs::read(path).unwrap(), rows);
        file.seek_shared(Seek::Start(1))?;
        let mut back = vec![9; rank];
        assert_eq!(file.read_ordered(&mut back)?, rank as u64);
        assert_eq!(back, vec![rank as u8; rank]);
        file.close()
    });
}

#[test]
fn seeks_views_and_appending() {
    run(|comm, path| {
        let mut file = open(comm, path, BOTH)?;
        file.set_size(24)?;
        file.seek_shared(Seek::End(-4))?;
        assert_eq!(file.position_shared()?, 20);
        comm.barrier()?;
        // The last to come has moved it before all seek from there.
        if comm.rank() + 1 == comm.size() {
            file.take_shared(10)?;
        }
        file.seek_shared(Seek::Current(-5))?;
        assert_eq!(file.position_shared()?, 25);
        let error = file.seek_shared(Seek::Current(-26)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        assert_eq!(file.position_shared()?, 25);
        if comm.size() > 1 {
            let error = file.seek_shared(Seek::Start(comm.rank() as u64)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::NotSame, "{error}");
        }
        // A new view begins at its start, also for a rank that was ahead.
        for view in 0..3 {
            let etype = Datatype::bytes(2)?;
            file.set_view(View::new(view, &etype, &etype)?)?;
            let mine = file.take_shared(1)?;
            assert!(mine < comm.size() as u64, "{mine}");
            if comm.size() > 1 {
                let etype = Datatype::bytes(1 + comm.rank() as u64)?;
                let refused = file.set_view(View::new(view, &etype, &etype)?).unwrap_err();
                assert_eq!(refused.kind(), ErrorKind::NotSame);
                assert!(file.position_shared()? > 0);
            }
        }
        file.close()?;
        let mut file = open(comm, path, BOTH | Mode::APPEND)?;
        assert!((24..).contains(&file.take_shared(1)?));
        comm.barrier()?;
        assert_eq!(file.position_shared()?, 24 + comm.size() as u64);
        file.close()
    });
}

#[test]
fn a_rank_that_cannot_take_part_leaves_no_rank_waiting() {
    run(|comm, path| {
        let mut file = open(comm, path, BOTH)?;
        file.set_view(View::new(0, &Datatype::bytes(4)?, &Datatype::bytes(4)?)?)?;
        let last = comm.rank() + 1 == comm.size();
        let bytes: &[u8] = if last { b"odd" } else { b"even" };
        let error = file.write_ordered(bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Argument, "{error}");
        assert_eq!(file.position_shared()?, 0);
        assert_eq!(file.write_ordered(b"even")?, 4);
        file.close()
    });
}

#[test]
fn the_sidecar_file_is_removed_at_close() {
    let nodes = Threads::on_nodes(&[0, 0, 1]);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let names = || {
        let entries = std::fs::read_dir(directory.path()).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    nodes
        .try_run(|comm| {
            let mut file = open(&comm, &path, BOTH)?;
            assert_eq!(file.position_shared()?, 0);
            file.set_view(View::new(0, &Datatype::bytes(2)?, &Datatype::bytes(2)?)?)?;
            comm.barrier()?;
            assert_eq!(names(), ["file"], "no rank has moved it");
            comm.barrier()?;
            file.write_shared(b"ab")?;
            comm.barrier()?;
            assert!(
                names().iter().any(|name| name.starts_with(".file.pointers-")),
                "{:?}",
                names()
            );
            // Another opening has a pointer of its own.
            let mut other = open(&comm, &path, BOTH)?;
            assert_eq!(other.position_shared()?, 0);
            other.seek_shared(Seek::Start(5))?;
            assert_eq!(file.position_shared()?, 3);
            other.close()?;
            file.close()
        })
        .unwrap();
    assert_eq!(names(), ["file"]);
}
