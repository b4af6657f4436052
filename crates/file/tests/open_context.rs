//! Ranks that stay together from file to file: the next file knows nothing of the last.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use striate_comm::{Comm, Threads};
use striate_datatype::Datatype;
use striate_file::{ErrorKind, File, FileError, Hints, Mode, OpenContext, View};
use support::Watchdog;

const BOTH: Mode = Mode::READ.union(Mode::WRITE).union(Mode::CREATE);

/// Runs `body` as ranks on one node, on two, on one without memory in common, and alone.
fn run(body: impl Fn(&Arc<dyn Comm>, &Path) -> Result<(), FileError> + Sync) {
    let _watchdog = Watchdog::new(Duration::from_secs(180), "a test of parties");
    let jobs = [
        Threads::new(4),
        Threads::on_nodes(&[0, 0, 1, 1]),
        Threads::new(4).without_node_memory(),
        Threads::new(1),
    ];
    for job in jobs {
        let directory = tempfile::tempdir().unwrap();
        job.try_run(|comm| body(&comm, directory.path())).unwrap();
    }
}

fn open(party: OpenContext, path: &Path, mode: Mode, hints: &Hints) -> Result<File, FileError> {
    let (file, kept) = party.open(path, mode, hints);
    let file = file?;
    assert!(kept.is_none(), "the file has it");
    assert_eq!(file.position_shared()?, 0);
    Ok(file)
}

fn close(file: File) -> Result<OpenContext, FileError> {
    let (closed, party) = file.close_into_context();
    closed?;
    Ok(party.expect("nothing has failed"))
}

/// Each rank writes its place, and reads those of all.
fn exchange(comm: &Arc<dyn Comm>, file: &mut File, seed: u8) -> Result<(), FileError> {
    let (rank, size) = (comm.rank() as u64, comm.size());
    file.write_at_all(100 * rank, &[seed + rank as u8; 100])?;
    file.sync()?;
    let mut back = vec![0; 100 * size];
    assert_eq!(file.read_at_all(0, &mut back)?, 100 * size as u64);
    for (whose, part) in back.chunks(100).enumerate() {
        assert!(part.iter().all(|&byte| byte == seed + whose as u8));
    }
    Ok(())
}

#[test]
fn files_one_after_the_other() {
    run(|comm, place| {
        let mut party = OpenContext::new(comm)?;
        for number in 0..30 {
            let path = place.join(format!("{}", number % 3));
            let mut file = open(party, &path, BOTH, &Hints::default())?;
            exchange(comm, &mut file, number)?;
            // What the next must not see: a pointer that has moved, in either place.
            if number % 2 == 0 {
                file.set_view(View::bytes())?;
            }
            file.write_shared(&[number; 7])?;
            if number % 4 == 1 {
                file.set_atomicity(true)?;
            }
            let request = file.iwrite_at_all(100 * comm.rank() as u64, vec![number; 100]);
            if number % 5 == 0 {
                file.wait(request).1?;
            }
            party = close(file)?;
        }
        Ok(())
    });
}

#[test]
fn a_plain_file_after_one_that_was_sieved() {
    run(|comm, place| {
        let mut party = OpenContext::new(comm)?;
        let (byte, rank) = (Datatype::bytes(1)?, comm.rank() as u64);
        for _ in 0..3 {
            let hints = "striate_method=sieve".parse()?;
            let mut file = open(party, &place.join("sieved"), BOTH, &hints)?;
            let every_other = Datatype::resized(&byte, 0, 2)?;
            file.set_view(View::new(200 * rank, &byte, &every_other)?)?;
            file.write_at(0, &[7; 100])?;
            party = close(file)?;
            let mut file = open(party, &place.join("plain"), BOTH, &Hints::default())?;
            file.write_at(100 * rank, &[8; 100])?;
            exchange(comm, &mut file, 9)?;
            party = close(file)?;
        }
        Ok(())
    });
}

#[test]
fn a_party_outlives_opens_that_fail() {
    run(|comm, place| {
        let mut party = OpenContext::new(comm)?;
        for number in 0..5 {
            let (missing, kept) = party.open(place.join("none"), Mode::READ, &Hints::default());
            assert_eq!(missing.unwrap_err().kind(), ErrorKind::NoSuchFile);
            party = kept.expect("all ranks know");
            if comm.size() > 1 {
                let mode = if comm.rank() == 0 { BOTH } else { Mode::READ };
                let (unlike, kept) = party.open(place.join("file"), mode, &Hints::default());
                assert_eq!(unlike.unwrap_err().kind(), ErrorKind::NotSame);
                party = kept.expect("all ranks know");
            }
            let mode = BOTH | Mode::DELETE_ON_CLOSE;
            let mut file = open(party, &place.join("file"), mode, &Hints::default())?;
            exchange(comm, &mut file, number)?;
            party = close(file)?;
            comm.barrier()?;
            assert!(!place.join("file").exists());
        }
        Ok(())
    });
}

/// What is left of a call that has failed may be anywhere, so that no file comes after.
#[test]
fn no_party_is_left_of_a_call_that_failed() {
    run(|comm, place| {
        let party = OpenContext::new(comm)?;
        let mut file = open(party, &place.join("file"), BOTH, &Hints::default())?;
        exchange(comm, &mut file, 1)?;
        if comm.rank() == 0 {
            file.decline(FileError::Argument { call: "test", reason: "of no importance".into() });
        } else {
            file.sync().unwrap_err();
        }
        exchange(comm, &mut file, 2)?;
        let (closed, party) = file.close_into_context();
        closed?;
        assert_eq!(party.is_none(), comm.size() > 1);
        Ok(())
    });
}
