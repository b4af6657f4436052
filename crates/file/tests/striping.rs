//! Files on a Lustre that is not there: what the store learns of their stripes reaches the file.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

use striate_comm::Threads;
use striate_file::{File, Hints, Mode};
use striate_store::lustre::{
    ByteOrder, Creation, FileSystem, LayoutControl, LayoutForm, ObjectId, PlainLayout, StripeObject,
};
use striate_store::{PosixFile, PosixOptions};

/// A Lustre on which every file has four stripes of 128 KiB.
#[derive(Debug)]
struct Striped;

impl LayoutControl for Striped {
    fn file_system(&self, _: &Path) -> io::Result<FileSystem> {
        Ok(FileSystem::LUSTRE)
    }

    fn file_system_of(&self, _: BorrowedFd<'_>) -> io::Result<FileSystem> {
        Ok(FileSystem::LUSTRE)
    }

    fn create(&self, _: &Path, _: Creation) -> io::Result<OwnedFd> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn set_layout(&self, _: BorrowedFd<'_>, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    fn layout(&self, _: BorrowedFd<'_>) -> io::Result<Option<Vec<u8>>> {
        let object = |target| StripeObject { target, ..StripeObject::default() };
        let layout = PlainLayout {
            form: LayoutForm::V1,
            pattern: 1,
            owner: ObjectId::default(),
            unit: 128 << 10,
            count: 4,
            start: 0,
            objects: (0..4).map(object).collect(),
        };
        Ok(Some(layout.encode(ByteOrder::NATIVE)))
    }

    fn directory_default(&self, _: &Path) -> io::Result<Option<Vec<u8>>> {
        Ok(None)
    }

    fn targets(&self, _: &Path) -> io::Result<u32> {
        Ok(8)
    }
}

/// Requests by which four ranks write 800,004 bytes together.
fn requests(options: &PosixOptions, unit: Option<u64>) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let share = 200_001;
    let told = Threads::new(4).try_run(|comm| {
        let store = Arc::new(PosixFile::open(&path, options)?);
        let hints: Hints = "striate_method=two-phase;striate_exchange=messages;\
             cb_nodes=4;cb_buffer_size=128KiB"
            .parse()?;
        let mut file = File::on_store(&comm, store, Mode::READ | Mode::WRITE, &hints)?;
        assert_eq!(file.stripe_unit(), unit);
        file.write_at_all((share * comm.rank()) as u64, &vec![7_u8; share])?;
        file.stats_of_all()
    });
    assert_eq!(std::fs::read(&path).unwrap(), vec![7; 4 * share]);
    told.unwrap()[0].iter().map(|stats| stats.operations).sum()
}

#[test]
fn two_phase_follows_the_stripes() {
    let striped = PosixOptions { layouts: Some(Arc::new(Striped)), ..PosixOptions::create() };
    assert_eq!(requests(&striped, Some(128 << 10)), 7, "one for each stripe");
    assert_eq!(requests(&PosixOptions::create(), None), 8, "two for each quarter");
}

#[test]
fn elsewhere_hints_stay_as_they_were_given() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let run = Threads::new(2).try_run(|comm| {
        let hints: Hints = "striping_factor=4;striping_unit=1000;start_iodevice=3".parse()?;
        let mode = Mode::CREATE | Mode::READ | Mode::WRITE;
        let file = File::open(&comm, &path, mode, &hints)?;
        assert_eq!(file.striping(), None);
        assert_eq!(file.stripe_unit(), None);
        assert_eq!(file.hints(), &hints);
        file.close()
    });
    run.unwrap();
}
