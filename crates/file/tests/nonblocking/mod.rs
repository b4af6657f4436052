//! Checks of nonblocking collective calls, and of the shared pointer, for ranks of any kind: each
//! is a collective function, which all ranks run in a directory of theirs.
#![allow(unreachable_pub, reason = "a program of its own, too")]

use std::path::Path;
use std::sync::Arc;

use striate_comm::Comm;
use striate_datatype::Datatype;
use striate_file::{ErrorKind, File, FileError, Hints, Mode, Seek, View};

/// A check, run by all ranks together.
pub type Check = fn(&Arc<dyn Comm>, &Path) -> Result<(), FileError>;

/// All checks.
pub const CHECKS: &[(&str, Check)] = &[
    ("requests of two files are waited for crosswise", crosswise),
    ("a blocking call lets nonblocking ones make progress", during_a_blocking_call),
    ("requests complete by progress alone", by_progress),
    ("calls of one file keep their order", in_order),
    ("a file with requests is dropped", dropped),
    ("a nonblocking call fails alike on all ranks", fails_alike),
    ("the shared pointer", shared_pointer),
];

const BLOCK: usize = 3000;
const BLOCKS: usize = 40;

/// By two-phase and by whatever seems best.
fn each_method(
    comm: &Arc<dyn Comm>,
    body: impl Fn(&Hints) -> Result<(), FileError>,
) -> Result<(), FileError> {
    for hints in ["striate_method=two-phase;cb_buffer_size=16384", "striate_method=auto"] {
        body(&hints.parse()?)?;
        comm.barrier()?;
    }
    Ok(())
}

/// A file of which each rank sees every so-manieth block.
fn interleaved(comm: &Arc<dyn Comm>, path: &Path, hints: &Hints) -> Result<File, FileError> {
    let mode = Mode::READ | Mode::WRITE | Mode::CREATE;
    let mut file = File::open(comm, path, mode, hints)?;
    let (byte, size) = (Datatype::bytes(1)?, comm.size() * BLOCK);
    let block = Datatype::resized(&Datatype::bytes(BLOCK as u64)?, 0, size as i64)?;
    file.set_view(View::new((comm.rank() * BLOCK) as u64, &byte, &block)?)?;
    Ok(file)
}

fn data(rank: usize, salt: u8) -> Vec<u8> {
    (0..BLOCKS * BLOCK).map(|at| (at / 7) as u8 ^ rank as u8 ^ salt).collect()
}

fn check(file: &mut File, salt: u8) -> Result<(), FileError> {
    let (comm, mut back) = (Arc::clone(file.comm()), vec![0; BLOCKS * BLOCK]);
    // What others wrote is seen, too.
    comm.barrier()?;
    assert_eq!(file.read_at_all(0, &mut back)?, back.len() as u64);
    assert!(back == data(comm.rank(), salt), "rank {} reads what it wrote", comm.rank());
    Ok(())
}

fn crosswise(comm: &Arc<dyn Comm>, directory: &Path) -> Result<(), FileError> {
    each_method(comm, |hints| {
        let mut a = interleaved(comm, &directory.join("a"), hints)?;
        let mut b = interleaved(comm, &directory.join("b"), hints)?;
        for round in 0..3 {
            let (salt_a, salt_b) = (2 * round + 1, 2 * round + 2);
            let on_a = a.iwrite_at_all(0, data(comm.rank(), salt_a));
            let on_b = b.iwrite_at_all(0, data(comm.rank(), salt_b));
            if comm.rank().is_multiple_of(2) {
                a.wait(on_a).1?;
                b.wait(on_b).1?;
            } else {
                b.wait(on_b).1?;
                a.wait(on_a).1?;
            }
            check(&mut a, salt_a)?;
            check(&mut b, salt_b)?;
        }
        a.close()?;
        b.close()
    })
}

fn during_a_blocking_call(comm: &Arc<dyn Comm>, directory: &Path) -> Result<(), FileError> {
    each_method(comm, |hints| {
        let mut a = interleaved(comm, &directory.join("a"), hints)?;
        let mut b = interleaved(comm, &directory.join("b"), hints)?;
        let on_a = a.iwrite_at_all(0, data(comm.rank(), 9));
        if comm.rank() == 0 {
            b.write_at_all(0, &data(0, 8))?;
            a.wait(on_a).1?;
        } else {
            a.wait(on_a).1?;
            b.write_at_all(0, &data(comm.rank(), 8))?;
        }
        check(&mut a, 9)?;
        check(&mut b, 8)?;
        a.close()?;
        b.close()
    })
}

fn by_progress(comm: &Arc<dyn Comm>, directory: &Path) -> Result<(), FileError> {
    each_method(comm, |hints| {
        let mut file = interleaved(comm, &directory.join("a"), hints)?;
        let mut requests: Vec<_> =
            (1..4).map(|salt| file.iwrite_at_all(0, data(comm.rank(), salt))).collect();
        // It may be called by the way, and the file may be used and moved meanwhile.
        let mut file = Box::new(file);
        while !requests[2].is_complete() {
            file.progress();
            assert_eq!(file.position(), 0);
            std::thread::yield_now();
        }
        assert!(requests.iter().all(striate_file::Request::is_complete));
        let calls = file.stats().calls;
        for request in requests.drain(..) {
            assert_eq!(file.wait(request).1?, (BLOCKS * BLOCK) as u64);
        }
        assert!(file.stats().calls >= 3 && file.stats().calls == calls);
        check(&mut file, 3)?;
        file.close()
    })
}

fn in_order(comm: &Arc<dyn Comm>, directory: &Path) -> Result<(), FileError> {
    each_method(comm, |hints| {
        let mut file = interleaved(comm, &directory.join("a"), hints)?;
        let write = file.iwrite_at_all(0, data(comm.rank(), 5));
        let read = file.iread_at_all(0, vec![0; BLOCKS * BLOCK]);
        let again = file.iwrite_at_all(0, data(comm.rank(), 6));
        file.wait(again).1?;
        assert!(read.is_complete() && write.is_complete());
        let (back, got) = file.wait(read);
        assert_eq!(got?, back.len() as u64);
        assert!(back == data(comm.rank(), 5));
        file.wait(write).1?;
        // A request that is not waited for is completed before the next collective call.
        let _request = file.iwrite_at_all(0, data(comm.rank(), 7));
        check(&mut file, 7)?;
        file.close()
    })
}

fn dropped(comm: &Arc<dyn Comm>, directory: &Path) -> Result<(), FileError> {
    each_method(comm, |hints| {
        let mut file = interleaved(comm, &directory.join("a"), hints)?;
        let first = file.iwrite_at_all(0, data(comm.rank(), 1));
        let second = file.iwrite_at_all(0, data(comm.rank(), 2));
        for _ in 0..=comm.rank() {
            file.progress();
        }
        // The calls are not waited for, and are lost.
        drop((first, second, file));
        comm.barrier()?;
        let mut file = interleaved(comm, &directory.join("b"), hints)?;
        file.write_at_all(0, &data(comm.rank(), 3))?;
        check(&mut file, 3)?;
        file.close()
    })
}

fn fails_alike(comm: &Arc<dyn Comm>, directory: &Path) -> Result<(), FileError> {
    each_method(comm, |hints| {
        let mut file = interleaved(comm, &directory.join("a"), hints)?;
        let wrong =
            FileError::Caller { reason: "a datatype that is not committed".into(), number: 3 };
        let failed = if comm.rank() + 1 == comm.size() {
            let request = file.idecline(wrong);
            file.wait(request).1
        } else {
            let request = file.iwrite_at_all(0, data(comm.rank(), 1));
            file.wait(request).1
        };
        let error = failed.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Caller(3), "{error}");
        file.write_at_all(0, &data(comm.rank(), 2))?;
        check(&mut file, 2)?;
        file.close()
    })
}

fn shared_pointer(comm: &Arc<dyn Comm>, directory: &Path) -> Result<(), FileError> {
    let path = directory.join("shared");
    let mode = Mode::READ | Mode::WRITE | Mode::CREATE;
    let mut file = File::open(comm, &path, mode, &Hints::default())?;
    let size = comm.size();
    for _ in 0..10 {
        file.write_shared(&[comm.rank() as u8; 100])?;
    }
    file.sync()?;
    let written = std::fs::read(&path).unwrap_or_default();
    assert_eq!(written.len(), 1000 * size);
    for rank in 0..size as u8 {
        let its = written.chunks(100).filter(|record| **record == [rank; 100]);
        assert_eq!(its.count(), 10);
    }
    file.seek_shared(Seek::End(0))?;
    file.write_ordered(&vec![comm.rank() as u8; 10 + comm.rank()])?;
    file.sync()?;
    let written = std::fs::read(&path).unwrap_or_default();
    let ordered = (0..size).flat_map(|rank| vec![rank as u8; 10 + rank]);
    assert!(written[1000 * size..].iter().copied().eq(ordered));
    file.close()
}
