//! Open contexts that are reused from file to file: the next file knows nothing of the last.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;

use striate_comm::Comm;
use striate_datatype::Datatype;
use striate_file::{ErrorKind, File, FileError, Hints, Mode, OpenContext, View};
use support::on_all_jobs;

const BOTH: Mode = Mode::READ.union(Mode::WRITE).union(Mode::CREATE);

/// Runs `body` as ranks on one node, on two, on one without shared memory, and as one rank.
fn run(body: impl Fn(&Arc<dyn Comm>, &Path) -> Result<(), FileError> + Sync) {
    on_all_jobs("a test of open contexts", body);
}

fn open(context: OpenContext, path: &Path, mode: Mode, hints: &Hints) -> Result<File, FileError> {
    let (file, given_back) = context.open(path, mode, hints);
    let file = file?;
    assert!(given_back.is_none(), "the file has it");
    assert_eq!(file.position_shared()?, 0);
    Ok(file)
}

fn close(file: File) -> Result<OpenContext, FileError> {
    let (closed, context) = file.close_into_context();
    closed?;
    Ok(context.expect("nothing has failed"))
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
        let mut context = OpenContext::new(comm)?;
        for number in 0..30 {
            let path = place.join(format!("{}", number % 3));
            let mut file = open(context, &path, BOTH, &Hints::default())?;
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
            context = close(file)?;
        }
        Ok(())
    });
}

#[test]
fn a_plain_file_after_one_that_was_sieved() {
    run(|comm, place| {
        let mut context = OpenContext::new(comm)?;
        let (byte, rank) = (Datatype::bytes(1)?, comm.rank() as u64);
        for _ in 0..3 {
            let hints = "striate_method=sieve".parse()?;
            let mut file = open(context, &place.join("sieved"), BOTH, &hints)?;
            let every_other = Datatype::resized(&byte, 0, 2)?;
            file.set_view(View::new(200 * rank, &byte, &every_other)?)?;
            file.write_at(0, &[7; 100])?;
            context = close(file)?;
            let mut file = open(context, &place.join("plain"), BOTH, &Hints::default())?;
            file.write_at(100 * rank, &[8; 100])?;
            exchange(comm, &mut file, 9)?;
            context = close(file)?;
        }
        Ok(())
    });
}

#[test]
fn a_context_outlives_opens_that_fail() {
    run(|comm, place| {
        let mut context = OpenContext::new(comm)?;
        for number in 0..5 {
            let (missing, given_back) =
                context.open(place.join("none"), Mode::READ, &Hints::default());
            assert_eq!(missing.unwrap_err().kind(), ErrorKind::NoSuchFile);
            context = given_back.expect("all ranks know");
            if comm.size() > 1 {
                let mode = if comm.rank() == 0 { BOTH } else { Mode::READ };
                let (unlike, given_back) =
                    context.open(place.join("file"), mode, &Hints::default());
                assert_eq!(unlike.unwrap_err().kind(), ErrorKind::NotSame);
                context = given_back.expect("all ranks know");
            }
            let mode = BOTH | Mode::DELETE_ON_CLOSE;
            let mut file = open(context, &place.join("file"), mode, &Hints::default())?;
            exchange(comm, &mut file, number)?;
            context = close(file)?;
            comm.barrier()?;
            assert!(!place.join("file").exists());
        }
        Ok(())
    });
}

/// After a failed call the context is not reused, since messages may still be under way.
#[test]
fn no_context_is_left_after_a_call_that_failed() {
    run(|comm, place| {
        let context = OpenContext::new(comm)?;
        let mut file = open(context, &place.join("file"), BOTH, &Hints::default())?;
        exchange(comm, &mut file, 1)?;
        if comm.rank() == 0 {
            file.decline(FileError::Argument { call: "test", reason: "of no importance".into() });
        } else {
            file.sync().unwrap_err();
        }
        exchange(comm, &mut file, 2)?;
        let (closed, context) = file.close_into_context();
        closed?;
        assert_eq!(context.is_none(), comm.size() > 1);
        Ok(())
    });
}
