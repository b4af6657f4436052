//! The suite, on every back-end and through every wrapper.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use striate_store::conformance::{CloseToOpen, Opener, Subject, check};
use striate_store::lustre::{Creation, LayoutControl, SystemLayouts};
use striate_store::posix::{Intervention, SystemCall, SystemFaults};
use striate_store::{
    Coherent, Counted, ErrorKind, FaultPlan, Faulty, FileSystem, MemoryStore, NullStore, PosixFile,
    PosixOptions, Region, Store, Throttled, Traced, Uring,
};
use tempfile::TempDir;

/// Files in a directory of their own, opened in one way.
struct Files {
    directory: TempDir,
    options: PosixOptions,
    made: std::cell::Cell<u32>,
}

impl Files {
    fn on_disk(options: PosixOptions) -> Self {
        Self::at(std::env::temp_dir(), options)
    }

    fn at(place: impl AsRef<Path>, options: PosixOptions) -> Self {
        let directory = tempfile::tempdir_in(place).unwrap();
        Self { directory, options, made: std::cell::Cell::default() }
    }
}

impl Subject for Files {
    fn fresh(&self) -> Opener {
        self.made.set(self.made.get() + 1);
        let path = self.directory.path().join(format!("object-{}", self.made.get()));
        let options = self.options.clone();
        Box::new(move || Arc::new(PosixFile::open(&path, &options).unwrap()))
    }
}

fn options(uring: Uring) -> PosixOptions {
    PosixOptions { uring, ..PosixOptions::create() }
}

#[test]
fn posix_plain() {
    check(&Files::on_disk(options(Uring::Never)));
}

#[test]
fn posix_uring() {
    let directory = tempfile::tempdir().unwrap();
    let file = PosixFile::open(directory.path().join("probe"), &options(Uring::Always)).unwrap();
    if !file.uses_uring() {
        eprintln!("the system allows no rings: what is tested is that it does not matter");
    }
    check(&Files::on_disk(options(Uring::Always)));
}

#[test]
fn posix_on_tmpfs() {
    let place = Path::new("/dev/shm");
    if tempfile::tempdir_in(place).is_err() {
        eprintln!("skipped: {} cannot be written", place.display());
        return;
    }
    check(&Files::at(place, options(Uring::Auto)));
    check(&Files::at(place, options(Uring::Always)));
}

/// Whether the temporary directory's file system has direct I/O.
fn has_direct() -> bool {
    let directory = tempfile::tempdir().unwrap();
    let direct = PosixOptions { direct: true, ..PosixOptions::create() };
    match PosixFile::open(directory.path().join("probe"), &direct) {
        Ok(file) => {
            assert!(file.capabilities().alignment >= 4096);
            true
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
            eprintln!("skipped: {error}");
            false
        }
    }
}

#[test]
fn posix_direct() {
    if has_direct() {
        for uring in [Uring::Never, Uring::Always] {
            check(&Files::on_disk(PosixOptions { direct: true, ..options(uring) }));
        }
    }
}

#[test]
fn direct_beside_cached() {
    if has_direct() {
        let files = Files::on_disk(options(Uring::Auto));
        let turn = Arc::new(std::sync::atomic::AtomicU32::new(0));
        check(&|| -> Opener {
            files.made.set(files.made.get() + 1);
            let path = files.directory.path().join(format!("object-{}", files.made.get()));
            let turn = Arc::clone(&turn);
            Box::new(move || {
                let turn = turn.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                let direct = turn.is_multiple_of(2);
                let options = PosixOptions { direct, ..PosixOptions::create() };
                Arc::new(PosixFile::open(&path, &options).unwrap())
            })
        });
    }
}

/// A system that shortens and interrupts most transfers, and refuses what it can refuse.
#[derive(Debug, Default)]
struct Miserly(std::sync::atomic::AtomicUsize);

impl SystemFaults for Miserly {
    fn before(&self, call: SystemCall, _: u64, len: usize) -> Intervention {
        let n = self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        match (call, n % 4) {
            (SystemCall::Allocate, _) => Intervention::Fail(95),
            (SystemCall::RingSetup, _) => Intervention::Proceed,
            (_, 0) => Intervention::Fail(4),
            (_, 1) => Intervention::Shorten(len / 3),
            (_, 2) => Intervention::Shorten(len.saturating_sub(1)),
            _ => Intervention::Proceed,
        }
    }
}

#[test]
fn posix_of_a_miserly_system() {
    for uring in [Uring::Never, Uring::Always] {
        let faults: Option<Arc<dyn SystemFaults>> = Some(Arc::new(Miserly::default()));
        check(&Files::on_disk(PosixOptions { faults: faults.clone(), ..options(uring) }));
        if uring == Uring::Always && has_direct() {
            check(&Files::on_disk(PosixOptions { faults, direct: true, ..options(uring) }));
        }
    }
}

#[test]
fn memory() {
    check(&|| -> Opener {
        let store = MemoryStore::new("memory");
        Box::new(move || Arc::new(store.clone()))
    });
}

/// Handles with caches of their own, as clients of NFS have them.
#[test]
fn close_to_open_made_coherent() {
    check(&|| -> Opener {
        let server = MemoryStore::new("server");
        Box::new(move || Arc::new(Coherent::new(CloseToOpen::open(&server).unwrap())))
    });
}

/// The caches of [`close_to_open_made_coherent`] are what the suite would find.
#[test]
fn without_coherence_others_do_not_see_a_write() {
    let server = MemoryStore::new("server");
    server.write_at(0, b"old").unwrap();
    let [writer, reader] = [(); 2].map(|()| CloseToOpen::open(&server).unwrap());
    let seen = || {
        let mut buffer = [0; 3];
        reader.read_at(0, &mut buffer).unwrap();
        buffer
    };
    assert_eq!(&seen(), b"old");
    writer.write_at(0, b"new").unwrap();
    reader.revalidate().unwrap();
    assert_eq!(&seen(), b"old", "it is not on the server");
    writer.sync().unwrap();
    assert_eq!(&seen(), b"old", "the reader does not ask");
    reader.revalidate().unwrap();
    assert_eq!(&seen(), b"new");
}

/// A mount that says that it is of another kind.
#[derive(Debug)]
struct Mounted(FileSystem);

impl LayoutControl for Mounted {
    fn file_system(&self, _: &Path) -> std::io::Result<FileSystem> {
        Ok(self.0)
    }

    fn file_system_of(&self, _: BorrowedFd<'_>) -> std::io::Result<FileSystem> {
        Ok(self.0)
    }

    fn targets(&self, path: &Path) -> std::io::Result<u32> {
        SystemLayouts.targets(path)
    }

    fn create(&self, path: &Path, how: Creation) -> std::io::Result<OwnedFd> {
        SystemLayouts.create(path, how)
    }

    fn set_layout(&self, file: BorrowedFd<'_>, layout: &[u8]) -> std::io::Result<()> {
        SystemLayouts.set_layout(file, layout)
    }

    fn layout(&self, file: BorrowedFd<'_>) -> std::io::Result<Option<Vec<u8>>> {
        SystemLayouts.layout(file)
    }

    fn directory_default(&self, path: &Path) -> std::io::Result<Option<Vec<u8>>> {
        SystemLayouts.directory_default(path)
    }
}

#[test]
fn files_are_used_as_their_file_system_needs() {
    let directory = tempfile::tempdir().unwrap();
    let made = std::sync::atomic::AtomicU32::new(0);
    for (magic, close_to_open, locks, serial, aligned) in [
        (0x6969, true, true, false, false),
        (0x1983_0326, true, false, false, true),
        (0x4750_4653, false, true, false, true),
        (0x00C3_6400, false, true, false, true),
        (0xEF53, false, true, true, false),
        (0x6573_5546, false, true, false, false),
    ] {
        let kind = FileSystem::from_type(magic);
        let layouts: Option<Arc<dyn LayoutControl>> = Some(Arc::new(Mounted(kind)));
        let options = PosixOptions { layouts, ..PosixOptions::create() };
        let file = PosixFile::open(directory.path().join("file"), &options).unwrap();
        let can = file.capabilities();
        assert_eq!(file.file_system(), Some(kind));
        assert_eq!(file.is_close_to_open(), close_to_open, "{kind}");
        assert_eq!((can.locks, can.serial_writes), (locks, serial), "{kind}");
        assert_eq!(can.stripe_unit.is_some(), aligned, "{kind}");
        if close_to_open {
            check(&|| -> Opener {
                let path = directory
                    .path()
                    .join(format!("{}", made.fetch_add(1, std::sync::atomic::Ordering::Relaxed)));
                let options = options.clone();
                Box::new(move || Arc::new(Coherent::new(PosixFile::open(&path, &options).unwrap())))
            });
        }
    }
}

/// The suite on a wrapper around memory.
fn check_wrapped<S: Store + 'static>(
    wrap: impl Fn(MemoryStore) -> S + Clone + Send + Sync + 'static,
) {
    check(&|| -> Opener {
        let store = MemoryStore::new("memory");
        let wrap = wrap.clone();
        Box::new(move || Arc::new(wrap(store.clone())))
    });
}

#[test]
fn counted() {
    check_wrapped(Counted::new);
}

#[test]
fn traced() {
    check_wrapped(|store| Traced::new(store, 10));
}

#[test]
fn throttled() {
    check_wrapped(|store| Throttled::new(store, Duration::from_micros(10), Some(1 << 34)));
}

#[test]
fn faulty_in_ways_nobody_may_notice() {
    check_wrapped(|store| {
        let plan: FaultPlan = "short-read@1+,short-write@1+,interrupted@1+".parse().unwrap();
        Faulty::new(store, plan)
    });
}

#[test]
fn wrappers_around_a_shared_store() {
    check(&|| -> Opener {
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new("memory"));
        Box::new(move || Arc::new(Traced::new(Counted::new(Arc::clone(&store)), 1)))
    });
}

#[test]
fn null_keeps_the_length_only() {
    let store = NullStore::new();
    store.write_at(10, b"abc").unwrap();
    store.write_list(&[Region { memory: 0, offset: 20, len: 2 }], b"xy").unwrap();
    let mut back = [9; 30];
    assert_eq!(store.clone().read_at(0, &mut back).unwrap(), 22);
    assert!(back[..22].iter().all(|&byte| byte == 0));
    assert!(back[22..].iter().all(|&byte| byte == 9));
    store.set_len(5).unwrap();
    assert_eq!(store.len().unwrap(), 5);
    store.preallocate(7).unwrap();
    assert_eq!(store.len().unwrap(), 7);
    assert!(store.write_at(u64::MAX, b"a").unwrap_err().is_malformed());
    assert!(store.lock(0..5, striate_store::LockKind::Exclusive).is_ok());
}
