//! The stages that measure and disturb: what they count, and which operations they hit.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;

use std::path::Path;
use std::sync::Barrier;

use program::Program;
use rustix::io::Errno;
use striate_stack::{Function, Kind};
use striate_trace::count::{Counters, Report};

const NEW: i32 = libc::O_CREAT | libc::O_RDWR;

fn counting(directory: &Path, more: &str) -> Program {
    Program::new(&format!(
        "[paths]\n[[stage]]\nkind = 'count'\nlabel = 'top'\ndirectory = '{}'\n{more}",
        directory.display()
    ))
}

/// All files of counters in a directory, added up.
fn counted(directory: &Path) -> Counters {
    let mut sum = Counters::default();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|ending| ending == "count") {
            sum.add(&Counters::read(&path).unwrap());
        }
    }
    sum
}

#[test]
fn all_is_counted_and_there_before_the_process_ends() {
    let directory = tempfile::tempdir().unwrap();
    let program = counting(directory.path(), "");
    let path = directory.path().join("data.nc");
    let file = program.open(&path, NEW).unwrap();
    for _ in 0..10 {
        program.write(&file, &[1; 1000], None).unwrap();
    }
    program.write(&file, &[1; 64], Some(5)).unwrap();
    let mut buffer = [0; 4096];
    assert_eq!(program.read(&file, &mut buffer, Some(9_000)), Ok(1000));
    assert_eq!(program.read(&file, &mut buffer, None), Ok(0));
    assert_eq!(program.seek(&file, -1, libc::SEEK_SET), Err(Errno::INVAL));
    program.stat(&path).unwrap();
    program.close(&file).unwrap();
    assert_eq!(program.open(&directory.path().join("absent"), 0).err(), Some(Errno::NOENT));

    let counters = counted(directory.path());
    assert_eq!((counters.label.as_str(), counters.processes.len()), ("top", 1));
    assert_eq!((counters.processes[0].process, counters.ended), (std::process::id(), 0));
    let of = |function: Function| {
        let found = counters.functions().find(|(other, _)| *other == function).unwrap().1;
        (found.calls, found.errors, found.bytes)
    };
    assert_eq!(of(Function::Write), (10, 0, 10_000));
    assert_eq!(of(Function::Pwrite), (1, 0, 64));
    assert_eq!(of(Function::Pread), (1, 0, 1000));
    assert_eq!(of(Function::Read), (1, 0, 0));
    assert_eq!(of(Function::Lseek), (1, 1, 0));
    assert_eq!(of(Function::Open), (2, 1, 0));
    assert_eq!((of(Function::Stat), of(Function::Close)), ((1, 0, 0), (1, 0, 0)));
    assert_eq!(counters.all().calls, 18);
    assert_eq!(counters.of_kind(Kind::Write).bytes, 10_064);
    assert!(counters.all().seconds > 0.0);
    // 64 bytes are 2⁶, and so in the place before 2⁷.
    assert_eq!((counters.writes[7], counters.writes[10]), (1, 10));
    assert_eq!((counters.reads[0], counters.reads[10]), (1, 1));
    let endings = counters.endings["nc"];
    assert_eq!((endings.calls, endings.read, endings.written), (16, 1000, 10_064));

    program.stack.finish().unwrap();
    let counters = counted(directory.path());
    assert_eq!(counters.ended, 1);
    let report = Report(&counters).to_string();
    assert!(
        report.starts_with("striate (top): 1 process, 18 calls, 2 failed, 1,000 B read"),
        "{report}"
    );
    assert!(report.contains("\n  *.nc"), "{report}");
}

#[test]
fn threads_count_apart_and_together() {
    let directory = tempfile::tempdir().unwrap();
    let program = counting(directory.path(), "");
    let path = directory.path().join("data");
    let file = program.open(&path, NEW).unwrap();
    // More than there are seats, all at once.
    let together = Barrier::new(80);
    std::thread::scope(|scope| {
        for _ in 0..80 {
            scope.spawn(|| {
                together.wait();
                for _ in 0..100 {
                    program.write(&file, b"abc", Some(0)).unwrap();
                }
                together.wait();
            });
        }
    });
    let counters = counted(directory.path());
    let writes = counters.of_kind(Kind::Write);
    assert_eq!((writes.calls, writes.bytes), (8000, 24_000));
    assert!(counters.own > 0.0);
}

#[test]
fn what_ended_threads_have_counted_stays() {
    let directory = tempfile::tempdir().unwrap();
    let program = counting(directory.path(), "");
    let file = program.open(&directory.path().join("data"), NEW).unwrap();
    // Many more than there are seats, of which each is used again and again.
    for _ in 0..200 {
        std::thread::scope(|scope| {
            for _ in 0..5 {
                scope.spawn(|| program.write(&file, b"abc", Some(0)).unwrap());
            }
        });
    }
    let writes = counted(directory.path()).of_kind(Kind::Write);
    assert_eq!((writes.calls, writes.bytes), (1000, 3000));
}

#[test]
fn a_copy_of_the_process_counts_anew() {
    let directory = tempfile::tempdir().unwrap();
    let program = counting(directory.path(), "");
    let file = program.open(&directory.path().join("a.dat"), NEW).unwrap();
    program.write(&file, b"abc", None).unwrap();
    program.stack.settle_all().unwrap();
    program.stack.start_anew();
    program.write(&file, b"de", None).unwrap();
    let counters = counted(directory.path());
    assert_eq!(counters.processes.len(), 2);
    let sums = counters.endings["dat"];
    assert_eq!((sums.calls, sums.written), (3, 5));
}

#[test]
fn what_are_no_counters_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let program = counting(directory.path(), "");
    drop(program.open(&directory.path().join("a"), NEW).unwrap());
    let mut files = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let file = files.find(|path| path.extension().is_some()).unwrap();
    let good = std::fs::read(&file).unwrap();
    let read = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        Counters::read(&file)
            .map(|counters| counters.all().calls)
            .map_err(|error| error.to_string())
    };
    assert_eq!(read(&good), Ok(1));
    // A part of a file, as of a disk that was full, is read as far as it goes.
    assert_eq!(read(&good[..good.len() - 1]), Ok(1));
    assert_eq!(read(&good[..4096]), Ok(0));
    assert!(read(&good[..1000]).is_err_and(|error| error.contains("truncated")));
    assert!(read(b"").is_err_and(|error| error.contains("not a file of counters")));
    let mut newer = good.clone();
    newer[8] = 2;
    assert!(read(&newer).is_err_and(|error| error.contains("version 2")));
    for at in (0..4096).step_by(5) {
        let mut damaged = good[..4096 + 8192].to_vec();
        damaged[at] ^= 0xFF;
        let _ = read(&damaged);
    }
}

#[test]
fn operations_fail_as_said() {
    let directory = tempfile::tempdir().unwrap();
    let stage = |text: &str| format!("[paths]\n[[stage]]\nkind = 'fault'\n{text}");
    let path = directory.path().join("data");

    let program = Program::new(&stage("every = 3\nerror = 'ENOSPC'\nkinds = ['write']"));
    let file = program.open(&path, NEW).unwrap();
    let outcomes: Vec<_> = (0..6).map(|_| program.write(&file, b"ab", None)).collect();
    let full = Err(Errno::NOSPC);
    assert_eq!(outcomes, [Ok(2), Ok(2), full, Ok(2), Ok(2), full]);
    assert_eq!(std::fs::read(&path).unwrap(), b"abababab");
    program.close(&file).unwrap();

    let program = Program::new(&stage("nth = 1\nshort = true"));
    let file = program.open(&path, NEW).unwrap();
    let mut buffer = [0; 8];
    assert_eq!(program.read(&file, &mut buffer, None), Ok(4));
    assert_eq!(program.read(&file, &mut buffer[4..], None), Ok(4));
    assert_eq!(&buffer, b"abababab");
    program.close(&file).unwrap();

    let program = Program::new(&stage("nth = 1\nkinds = ['close']\nerror = 'EDQUOT'"));
    let file = program.open(&path, NEW).unwrap();
    let descriptor = file.raw_descriptor();
    assert_eq!(program.close(&file), Err(Errno::DQUOT));
    // SAFETY: asks only.
    assert_eq!(unsafe { libc::fcntl(descriptor, libc::F_GETFD) }, -1);

    let program = Program::new(&stage("nth = 2\nkinds = ['open']\nerror = 'EMFILE'"));
    program.close(&program.open(&path, NEW).unwrap()).unwrap();
    assert_eq!(program.open(&path, NEW).err(), Some(Errno::MFILE));
}

#[test]
fn a_throttle_changes_no_result() {
    let directory = tempfile::tempdir().unwrap();
    let program = Program::new(
        "[paths]\n[[stage]]\nkind = 'throttle'\nlatency = '150us'\nbandwidth = '100MiB/s'\n\
         [[stage]]\nkind = 'throttle'\nkinds = ['sync']\nlatency = '1ms'",
    );
    let path = directory.path().join("data");
    let file = program.open(&path, NEW).unwrap();
    assert_eq!(program.write(&file, &[7; 10_000], None), Ok(10_000));
    assert_eq!(program.write(&file, &[8; 10], Some(3)), Ok(10));
    assert_eq!(program.sync(&file), Ok(0));
    assert_eq!(program.read(&file, &mut [0; 100], Some(9950)), Ok(50));
    assert_eq!(program.seek(&file, -1, libc::SEEK_SET), Err(Errno::INVAL));
    assert_eq!(program.close(&file), Ok(0));
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 10_000);
}

#[test]
fn stages_may_repeat_where_that_makes_sense() {
    let chain = |kinds: &[&str]| {
        let stages = kinds.iter().map(|kind| format!("[[stage]]\nkind = '{kind}'\n"));
        striate_stages::parse_stack(&stages.collect::<String>())
            .map(drop)
            .map_err(|error| error.to_string())
    };
    assert!(chain(&["count", "count"]).is_err_and(|error| error.contains("in a row")));
    assert!(chain(&["coumt"]).is_err_and(|error| error.contains("there are count")));
}
