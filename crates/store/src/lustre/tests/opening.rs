//! Tests of opening files: on a simulated Lustre, and on real file systems.

use std::os::fd::AsFd;
use std::sync::Arc;

use nix::libc;
use tempfile::TempDir;

use super::super::*;
use super::bytes::{composite_bytes, stripes};
use super::fake::FakeLustre;
use crate::store::Store;
use crate::{ErrorKind, PosixFile, PosixOptions};

const ASKED: StripeRequest = StripeRequest {
    count: Some(StripeCount::Of(4)),
    unit: Some(1 << 20),
    start: Some(3),
    over_composite: false,
};

struct Place {
    directory: TempDir,
    fake: Arc<FakeLustre>,
}

impl Place {
    fn new(fake: FakeLustre) -> Self {
        Self { directory: tempfile::tempdir().unwrap(), fake: Arc::new(fake) }
    }

    fn open(&self, options: &PosixOptions) -> Result<PosixFile, crate::StoreError> {
        let options = PosixOptions { layouts: Some(self.fake.clone()), ..options.clone() };
        PosixFile::open(self.directory.path().join("file"), &options)
    }

    fn create(&self, request: StripeRequest) -> PosixFile {
        let file = self.open(&creating(request)).unwrap();
        file.write_at(0, b"it can be written").unwrap();
        file
    }
}

fn creating(request: StripeRequest) -> PosixOptions {
    PosixOptions { striping: Some(request), ..PosixOptions::create() }
}

fn actual(file: &PosixFile) -> (u64, Option<u32>, Option<u32>) {
    let actual = file.striping().unwrap().actual.unwrap();
    let capabilities = file.capabilities();
    assert_eq!(capabilities.stripe_unit, Some(actual.unit));
    assert_eq!(capabilities.stripe_count, actual.count);
    (actual.unit, actual.count, actual.start)
}

fn difference(file: &PosixFile) -> &str {
    file.striping().unwrap().difference.as_deref().unwrap()
}

fn progressive() -> FakeLustre {
    let parts = [
        (1, 0x10, 0, 1 << 26, stripes(1 << 20, 1, &[3])),
        (2, 0, 1 << 26, u64::MAX, stripes(4 << 20, 0xFFFF, &[])),
    ];
    FakeLustre { default: composite_bytes(&parts, 0), default_shows: true, ..FakeLustre::default() }
}

#[test]
fn a_new_file_is_striped_before_it_is_written() {
    let place = Place::new(FakeLustre::default());
    let file = place.create(ASKED);
    assert_eq!(actual(&file), (1 << 20, Some(4), Some(3)));
    assert_eq!(file.striping().unwrap().difference, None);
    assert!(!file.capabilities().serial_writes);
    let calls = ["file_system", "directory_default", "targets", "create", "set", "layout"];
    assert_eq!(place.fake.calls(), calls);
}

#[test]
fn what_the_file_system_makes_of_it_is_reported() {
    let place = Place::new(FakeLustre { most: 2, ..FakeLustre::default() });
    let file = place.create(ASKED);
    assert_eq!(actual(&file), (1 << 20, Some(2), Some(3)));
    assert!(difference(&file).ends_with("but it has 2 stripes"), "{}", difference(&file));

    let place = Place::new(FakeLustre::default());
    let odd = StripeRequest { unit: Some(1000), count: Some(StripeCount::Of(99)), ..ASKED };
    let file = place.create(odd);
    assert_eq!(actual(&file), (65536, Some(8), Some(3)));
    assert!(difference(&file).ends_with("it has 8 stripes, its stripes have 65536 bytes"));

    let place = Place::new(FakeLustre::default());
    let all = StripeRequest { count: Some(StripeCount::All), unit: None, start: None, ..ASKED };
    let file = place.create(all);
    assert_eq!(actual(&file), (1 << 20, Some(8), Some(0)));
    assert_eq!(file.striping().unwrap().difference, None);
}

#[test]
fn composite_directories_are_left_alone_unless_asked() {
    let place = Place::new(progressive());
    let file = place.create(ASKED);
    assert_eq!(actual(&file), (4 << 20, Some(8), None), "the last component, on every target");
    assert!(difference(&file).contains("(PFL), which is not overridden"), "{}", difference(&file));
    let calls = ["file_system", "directory_default", "layout", "targets"];
    assert_eq!(place.fake.calls(), calls);

    let place = Place::new(progressive());
    let file = place.create(StripeRequest { over_composite: true, ..ASKED });
    assert_eq!(actual(&file), (1 << 20, Some(4), Some(3)));
    assert_eq!(file.striping().unwrap().difference, None);
}

#[test]
fn a_default_that_nobody_understands_is_left_alone() {
    let place = Place::new(FakeLustre {
        default: vec![7; 40],
        default_shows: true,
        ..FakeLustre::default()
    });
    let file = place.create(ASKED);
    assert!(difference(&file).ends_with("is not understood, and not overridden"));
    assert_eq!(file.capabilities().stripe_unit, None);
    assert!(!place.fake.calls().contains(&"set"));
}

#[test]
fn a_plain_default_is_no_obstacle() {
    let place = Place::new(FakeLustre { default_shows: true, ..FakeLustre::default() });
    assert_eq!(actual(&place.create(ASKED)), (1 << 20, Some(4), Some(3)));
}

#[test]
fn an_error_says_what_was_asked_and_leaves_nothing_behind() {
    let place = Place::new(FakeLustre { refusal: Some(libc::EINVAL), ..FakeLustre::default() });
    let error = place.open(&creating(ASKED)).unwrap_err();
    assert!(
        error.to_string().ends_with(
            "/file: it cannot have 4 stripes of 1048576 bytes from OST 3 on: \
             Invalid argument (os error 22)"
        ),
        "{error}"
    );
    assert_eq!(error.io_error().and_then(io::Error::raw_os_error), Some(libc::EINVAL));
    assert_eq!(std::fs::read_dir(place.directory.path()).unwrap().count(), 0);

    let place = Place::new(FakeLustre { refusal: Some(libc::ENOSPC), ..FakeLustre::default() });
    assert!(place.open(&creating(ASKED)).unwrap_err().is_out_of_space());

    let place = Place::new(FakeLustre::default());
    let beyond = StripeRequest { start: Some(70_000), ..ASKED };
    let error = place.open(&creating(beyond)).unwrap_err().to_string();
    assert!(error.contains("from OST 70000 on: Invalid argument"), "{error}");
    assert!(!place.fake.calls().contains(&"create"));
}

#[test]
fn where_layouts_cannot_be_set_the_default_is_used() {
    for code in [libc::ENOTTY, libc::EOPNOTSUPP, libc::EEXIST] {
        let place = Place::new(FakeLustre { refusal: Some(code), ..FakeLustre::default() });
        let file = place.create(ASKED);
        assert_eq!(actual(&file), (1 << 20, Some(1), Some(5)));
        let text = difference(&file);
        let expected = if code == libc::EEXIST { "keeps its layout" } else { "takes no layout: " };
        assert!(text.contains("it has 1 stripe, it starts at OST 5: "), "{text}");
        assert!(text.contains(expected), "{text}");
    }
}

#[test]
fn a_layout_that_is_ignored_in_silence_is_noticed() {
    let place = Place::new(FakeLustre { ignores: true, ..FakeLustre::default() });
    let exclusive = PosixOptions { exclusive: true, ..creating(ASKED) };
    let file = place.open(&exclusive).unwrap();
    file.write_at(0, b"x").unwrap();
    assert_eq!(actual(&file), (1 << 20, Some(1), Some(5)), "opened again, with the default");
    assert!(difference(&file).contains("did not set the layout"), "{}", difference(&file));
}

#[test]
fn a_file_that_exists_keeps_its_layout() {
    let place = Place::new(FakeLustre::default());
    drop(place.create(ASKED));
    place.fake.calls();

    let file = place.create(StripeRequest { count: Some(StripeCount::Of(2)), ..ASKED });
    assert_eq!(actual(&file), (1 << 20, Some(4), Some(3)));
    assert!(
        difference(&file)
            .ends_with("it has 4 stripes: the file was there before and keeps its layout")
    );
    assert!(!place.fake.calls().contains(&"set"));
    assert_eq!(place.create(ASKED).striping().unwrap().difference, None);

    let exclusive = PosixOptions { exclusive: true, ..creating(ASKED) };
    assert_eq!(place.open(&exclusive).unwrap_err().kind(), ErrorKind::AlreadyExists);
    place.fake.calls();

    let file = place.open(&PosixOptions::read_only()).unwrap();
    assert_eq!(actual(&file), (1 << 20, Some(4), Some(3)));
    assert_eq!(file.striping().unwrap().difference, None, "nothing was asked for");
    assert_eq!(place.fake.calls(), ["file_system_of", "layout"]);

    let other = StripeRequest { start: Some(0), ..StripeRequest::default() };
    let options = PosixOptions { striping: Some(other), ..PosixOptions::read_write() };
    let file = place.open(&options).unwrap();
    assert!(difference(&file).contains("it starts at OST 3: the file was there before"));
}

#[test]
fn other_file_systems_are_asked_one_question() {
    let ext4 =
        || FakeLustre { file_system: FileSystem::from_type(0xEF53), ..FakeLustre::default() };
    for (options, call) in [
        (creating(ASKED), "file_system"),
        (creating(StripeRequest::default()), "file_system_of"),
        (PosixOptions::create(), "file_system_of"),
    ] {
        let place = Place::new(ext4());
        let file = place.open(&options).unwrap();
        assert_eq!(place.fake.calls(), [call]);
        assert_eq!(file.striping(), None);
        let capabilities = file.capabilities();
        assert_eq!((capabilities.stripe_unit, capabilities.stripe_count), (None, None));
        assert!(capabilities.serial_writes);
    }
    let place = Place::new(ext4());
    assert_eq!(targets_by(&*place.fake, place.directory.path()).unwrap(), None);
    assert_eq!(place.fake.calls(), ["file_system"]);
}

#[test]
fn targets_are_counted() {
    let place = Place::new(FakeLustre { targets: 156, ..FakeLustre::default() });
    assert_eq!(targets_by(&*place.fake, place.directory.path()).unwrap(), Some(156));
}

#[test]
fn the_systems_calls_work_where_there_is_no_lustre() {
    let places = [tempfile::tempdir().ok(), tempfile::tempdir_in("/dev/shm").ok()];
    for directory in places.into_iter().flatten() {
        let path = directory.path().join("file");
        assert!(!SystemLayouts.file_system(directory.path()).unwrap().is_lustre());
        assert_eq!(targets(directory.path()).unwrap(), None);
        assert!(targets(&path).is_err(), "not there");

        let how = Creation { read: true, mode: 0o600 };
        let file = SystemLayouts.create(&path, how).unwrap();
        assert!(!SystemLayouts.file_system_of(file.as_fd()).unwrap().is_lustre());
        let code = |result: io::Result<()>| result.unwrap_err().raw_os_error();
        assert_eq!(code(SystemLayouts.create(&path, how).map(drop)), Some(libc::EEXIST));
        // These know neither the attribute nor the calls.
        assert_eq!(SystemLayouts.layout(file.as_fd()).unwrap(), None);
        assert_eq!(SystemLayouts.directory_default(directory.path()).unwrap(), None);
        let layout = ASKED.layout(None).unwrap().encode(ByteOrder::NATIVE);
        assert_eq!(code(SystemLayouts.set_layout(file.as_fd(), &layout)), Some(libc::ENOTTY));
        assert_eq!(code(SystemLayouts.targets(directory.path()).map(drop)), Some(libc::ENOTTY));
        let long = vec![0; (1 << 16) + 1];
        assert_eq!(code(SystemLayouts.set_layout(file.as_fd(), &long)), Some(libc::E2BIG));

        let file = PosixFile::open(directory.path().join("other"), &creating(ASKED)).unwrap();
        file.write_at(0, b"as ever").unwrap();
        assert_eq!(file.striping(), None);
    }
    let nowhere = PosixFile::open("/nowhere/at/all/file", &creating(ASKED)).unwrap_err();
    assert_eq!(nowhere.kind(), ErrorKind::NotFound);
}
