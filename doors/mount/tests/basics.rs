//! What programs do with files works on a mount as on the source.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "modules of tests are shared")]

mod support;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};

use support::Mount;

/// Stacks that differ in how a mount goes about them.
const STACKS: &[&str] = &[
    "",
    "[[stage]]\nkind = \"count\"\n",
    "[[stage]]\nkind = \"write-back\"\nblock = \"4KiB\"\n",
    "[[stage]]\nkind = \"combine\"\n",
    "[[stage]]\nkind = \"path-rewrite\"\nrules = [{ from = \"SOURCE\", to = \"BESIDE/fast\" }]\n",
];

fn everywhere(test: impl Fn(&Mount)) {
    for stack in STACKS {
        let text = format!("[paths]\ninclude = [\"SOURCE\"]\n{stack}");
        test(&Mount::with(&text));
    }
    // As it is where the kernel does not help, and where it may believe what it was told.
    test(&Mount::of("", |options| options.passthrough = false));
    test(&Mount::of("", |options| options.cache = std::time::Duration::from_secs(1)));
}

#[test]
fn files_are_written_and_read() {
    everywhere(|mount| {
        fs::write(mount.point("a"), b"hello").unwrap();
        assert_eq!(fs::read(mount.point("a")).unwrap(), b"hello");
        let mut file = File::options().read(true).write(true).open(mount.point("a")).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        file.write_all(b", world").unwrap();
        assert_eq!(file.metadata().unwrap().len(), 12);
        assert_eq!(fs::metadata(mount.point("a")).unwrap().len(), 12);
        file.write_all_at(b"H", 0).unwrap();
        assert_eq!(fs::read(mount.point("a")).unwrap(), b"Hello, world");
        file.set_len(5).unwrap();
        assert_eq!(fs::read(mount.point("a")).unwrap(), b"Hello");
        file.sync_all().unwrap();
        drop(file);
        let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 7 % 251) as u8).collect();
        fs::write(mount.point("large"), &large).unwrap();
        assert!(fs::read(mount.point("large")).unwrap() == large);
        let copied = fs::copy(mount.point("large"), mount.point("copy")).unwrap();
        assert_eq!(copied, large.len() as u64);
        assert!(fs::read(mount.point("copy")).unwrap() == large);
    });
}

#[test]
fn what_was_closed_is_on_the_source() {
    everywhere(|mount| {
        fs::write(mount.point("a"), b"hello").unwrap();
        // Stages that hold files beyond their close write them when the directory is listed.
        assert_eq!(fs::read_dir(mount.point("")).unwrap().count(), 3);
        assert_eq!(fs::read(mount.source("a")).unwrap(), b"hello");
        fs::write(mount.source("b"), b"from there").unwrap();
        assert_eq!(fs::read(mount.point("b")).unwrap(), b"from there");
        fs::write(mount.source("b"), b"other").unwrap();
        assert_eq!(fs::read(mount.point("b")).unwrap(), b"other");
        fs::remove_file(mount.source("b")).unwrap();
    });
}

#[test]
fn names_come_and_go() {
    everywhere(|mount| {
        fs::create_dir_all(mount.point("d/e")).unwrap();
        fs::write(mount.point("d/e/f"), b"x").unwrap();
        fs::rename(mount.point("d"), mount.point("g")).unwrap();
        assert_eq!(fs::read(mount.point("g/e/f")).unwrap(), b"x");
        fs::hard_link(mount.point("g/e/f"), mount.point("link")).unwrap();
        let (one, other) = (mount.point("g/e/f"), mount.point("link"));
        let number = |path: &std::path::Path| fs::metadata(path).unwrap().ino();
        assert_eq!(number(&one), number(&other));
        assert_eq!(fs::metadata(&one).unwrap().nlink(), 2);
        symlink("g/e/f", mount.point("soft")).unwrap();
        assert_eq!(fs::read(mount.point("soft")).unwrap(), b"x");
        assert_eq!(fs::read_link(mount.point("soft")).unwrap().to_str(), Some("g/e/f"));
        let mut names: Vec<_> =
            fs::read_dir(mount.point("")).unwrap().map(|e| e.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["g", "link", "soft", "tmp", "work"]);
        assert!(fs::remove_dir(mount.point("g")).is_err());
        fs::remove_dir_all(mount.point("g")).unwrap();
        assert_eq!(fs::metadata(&other).unwrap().nlink(), 1);
        assert!(fs::read(mount.point("soft")).is_err());
    });
}

#[test]
fn open_files_outlive_their_names() {
    everywhere(|mount| {
        let mut file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(mount.point("a"))
            .unwrap();
        file.write_all(b"first").unwrap();
        fs::remove_file(mount.point("a")).unwrap();
        file.write_all(b", second").unwrap();
        let mut text = String::new();
        file.seek(SeekFrom::Start(0)).unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "first, second");
        let about = file.metadata().unwrap();
        assert_eq!((about.nlink(), about.len()), (0, 13));
        // A file that another is renamed over.
        fs::write(mount.point("old"), b"old").unwrap();
        fs::write(mount.point("new"), b"new").unwrap();
        let old = File::open(mount.point("old")).unwrap();
        fs::rename(mount.point("new"), mount.point("old")).unwrap();
        let mut bytes = [0; 3];
        old.read_exact_at(&mut bytes, 0).unwrap();
        assert_eq!(&bytes, b"old");
        assert_eq!(fs::read(mount.point("old")).unwrap(), b"new");
    });
}

#[test]
fn attributes_are_kept() {
    everywhere(|mount| {
        fs::write(mount.point("a"), b"x").unwrap();
        fs::set_permissions(mount.point("a"), fs::Permissions::from_mode(0o640)).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::new(1_000_000_000, 123_456_789);
        File::options().write(true).open(mount.point("a")).unwrap().set_modified(time).unwrap();
        let here = fs::metadata(mount.point("a")).unwrap();
        assert_eq!((here.mode() & 0o7777, here.modified().unwrap()), (0o640, time));
        let there = fs::metadata(mount.source("a")).unwrap();
        assert_eq!((there.mode(), there.mtime_nsec()), (here.mode(), here.mtime_nsec()));
    });
}
