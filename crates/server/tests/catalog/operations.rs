//! Every operation, and every way it is refused.

use std::path::PathBuf;

use striate_server::catalog::{Catalog, CatalogError, FileRecord};
use tempfile::TempDir;

use crate::simulated_disk::SimulatedDisk;

fn with_servers(n: u32) -> (TempDir, PathBuf, Catalog) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let catalog = Catalog::open(&path).unwrap();
    catalog.set_servers(&addresses(n)).unwrap();
    (directory, path, catalog)
}

fn addresses(n: u32) -> Vec<String> {
    (0..n).map(|i| format!("io{i}:7070")).collect()
}

fn make(catalog: &Catalog, name: &str) -> FileRecord {
    let (record, created) = catalog.create(name, 512, &[0], true, 5).unwrap();
    assert!(created);
    record
}

fn names(catalog: &Catalog, prefix: &str) -> Vec<String> {
    let (entries, more) = catalog.list(prefix, None, 1000).unwrap();
    assert!(!more);
    entries.into_iter().map(|(name, _)| name).collect()
}

fn dead(catalog: &Catalog) -> Vec<u64> {
    catalog.dead(None, 1000).unwrap().0.iter().map(|record| record.file).collect()
}

macro_rules! refused {
    ($attempt:expr, $error:pat) => {
        let error = $attempt.unwrap_err();
        assert!(matches!(error, $error), "{error:?}");
        assert!(!error.to_string().is_empty());
    };
}

#[test]
fn a_created_file_is_found_and_stays() {
    let (_directory, path, catalog) = with_servers(4);
    let (record, created) = catalog.create("/run/out", 65536, &[2, 3, 0], true, 7).unwrap();
    let expected = FileRecord {
        file: record.file,
        strip: 65536,
        servers: vec![2, 3, 0],
        size: 0,
        created_ms: 7,
        modified_ms: 7,
        truncations: 0,
        lens: Vec::new(),
    };
    assert!(created);
    assert_eq!(record, expected);
    assert_eq!(catalog.lookup("run/out").unwrap(), expected);
    drop(catalog);
    let catalog = Catalog::open(&path).unwrap();
    assert_eq!(catalog.lookup("/run/out").unwrap(), expected);
    assert_eq!(catalog.servers().unwrap(), addresses(4));
}

#[test]
fn creating_what_exists_finds_it_unless_exclusive() {
    let (_directory, _path, catalog) = with_servers(2);
    let record = make(&catalog, "a");
    // Neither the layout nor the time of the second attempt count.
    assert_eq!(catalog.create("a", 1024, &[1], false, 9).unwrap(), (record, false));
    refused!(catalog.create("a", 512, &[0], true, 9), CatalogError::Exists { .. });
}

#[test]
fn what_is_not_there_is_not_found() {
    let (_directory, _path, catalog) = with_servers(1);
    make(&catalog, "d/a");
    refused!(catalog.lookup("b"), CatalogError::NotFound { .. });
    refused!(catalog.lookup("d"), CatalogError::NotFound { .. });
    refused!(catalog.remove("b"), CatalogError::NotFound { .. });
    refused!(catalog.rename("b", "c", true), CatalogError::NotFound { .. });
    refused!(catalog.record(99, 1, 1), CatalogError::UnknownFile { file: 99 });
}

#[test]
fn bad_names_are_refused_everywhere() {
    let (_directory, _path, catalog) = with_servers(1);
    make(&catalog, "a");
    refused!(catalog.create("b/", 512, &[0], false, 1), CatalogError::BadName(_));
    refused!(catalog.lookup("../a"), CatalogError::BadName(_));
    refused!(catalog.remove(""), CatalogError::BadName(_));
    refused!(catalog.rename("a", "x//y", true), CatalogError::BadName(_));
    refused!(catalog.rename("./a", "b", true), CatalogError::BadName(_));
    assert_eq!(names(&catalog, ""), ["a"]);
}

#[test]
fn no_file_lies_below_another() {
    let (_directory, _path, catalog) = with_servers(1);
    make(&catalog, "a/b/c");
    make(&catalog, "a-b");
    make(&catalog, "a.b");
    let create = |name| catalog.create(name, 512, &[0], false, 1);
    refused!(create("a"), CatalogError::IsADirectory { .. });
    refused!(create("a/b"), CatalogError::IsADirectory { .. });
    refused!(create("a/b/c/d"), CatalogError::NotADirectory { .. });
    refused!(create("a/b/c/d/e"), CatalogError::NotADirectory { .. });
    refused!(catalog.rename("a-b", "a/b", true), CatalogError::IsADirectory { .. });
    refused!(catalog.rename("a-b", "a.b/x", true), CatalogError::NotADirectory { .. });
    // Not below itself either, nor in the place of its own directory.
    refused!(catalog.rename("a-b", "a-b/x", true), CatalogError::NotADirectory { .. });
    refused!(catalog.rename("a/b/c", "a/b", true), CatalogError::IsADirectory { .. });
    make(&catalog, "a/bc");
    make(&catalog, "ab");
    catalog.remove("a/b/c").unwrap();
    make(&catalog, "a/b");
    assert_eq!(names(&catalog, ""), ["a-b", "a.b", "a/b", "a/bc", "ab"]);
}

#[test]
fn layouts_are_checked() {
    let (_directory, _path, catalog) = with_servers(2);
    let create = |strip, servers: &[u32]| catalog.create("a", strip, servers, false, 1);
    refused!(create(0, &[0]), CatalogError::EmptyStrip { .. });
    refused!(create(512, &[]), CatalogError::NoServers { .. });
    refused!(create(512, &[0, 2]), CatalogError::UnknownServer { server: 2, servers: 2, .. });
    refused!(create(512, &[1, 0, 1]), CatalogError::RepeatedServer { server: 1, .. });
    assert!(catalog.is_empty().unwrap());
}

#[test]
fn lists_go_by_prefix_and_page_by_page() {
    let (_directory, _path, catalog) = with_servers(1);
    for name in ["run/b", "run/a", "runaway", "other", "run-1", "rü"] {
        make(&catalog, name);
    }
    assert_eq!(names(&catalog, ""), ["other", "run-1", "run/a", "run/b", "runaway", "rü"]);
    assert_eq!(names(&catalog, "/run"), ["run-1", "run/a", "run/b", "runaway"]);
    assert_eq!(names(&catalog, "run/"), ["run/a", "run/b"]);
    assert!(names(&catalog, "run/b/").is_empty());
    let page = |prefix, after, limit| {
        let (entries, more) = catalog.list(prefix, after, limit).unwrap();
        (entries.into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" "), more)
    };
    assert_eq!(page("run", None, 2), ("run-1 run/a".to_owned(), true));
    assert_eq!(page("run", Some("run/a"), 2), ("run/b runaway".to_owned(), false));
    assert_eq!(page("run", Some("/run/a"), 1), ("run/b".to_owned(), true));
    assert_eq!(page("run", Some("run/aa"), 1), ("run/b".to_owned(), true));
    assert_eq!(page("run/", Some("a"), 9), ("run/a run/b".to_owned(), false));
    assert_eq!(page("run/", Some("z"), 9), (String::new(), false));
    assert_eq!(page("run/", None, 0), (String::new(), true));
    assert_eq!(page("none", None, 0), (String::new(), false));
    let record = catalog.lookup("run/a").unwrap();
    assert_eq!(catalog.list("run/a", None, 9).unwrap().0, [("run/a".to_owned(), record)]);
}

#[test]
fn rename_moves_the_file_and_replaces_only_if_asked() {
    let (_directory, _path, catalog) = with_servers(1);
    let (a, b) = (make(&catalog, "a"), make(&catalog, "b"));
    assert_eq!(catalog.rename("a", "d/c", false).unwrap(), None);
    assert_eq!(catalog.lookup("d/c").unwrap(), a);
    refused!(catalog.lookup("a"), CatalogError::NotFound { .. });
    refused!(catalog.rename("b", "d/c", false), CatalogError::Exists { .. });
    assert_eq!(catalog.rename("b", "b", false).unwrap(), None);
    assert_eq!(catalog.rename("b", "d/c", true).unwrap(), Some(a.clone()));
    assert_eq!(catalog.lookup("d/c").unwrap(), b);
    assert_eq!(catalog.dead(None, 9).unwrap(), (vec![a.clone()], false));
    // Ids lead to the new names.
    catalog.record(b.file, 77, 8).unwrap();
    assert_eq!(catalog.lookup("d/c").unwrap().size, 77);
    refused!(catalog.record(a.file, 1, 1), CatalogError::UnknownFile { .. });
}

#[test]
fn the_dead_stay_until_they_are_buried_and_ids_are_not_used_again() {
    let (_directory, path, catalog) = with_servers(3);
    let files: Vec<u64> = (0..5).map(|i| make(&catalog, &format!("f{i}")).file).collect();
    for i in [3, 1, 4] {
        assert_eq!(catalog.remove(&format!("f{i}")).unwrap().file, files[i]);
    }
    assert_eq!(dead(&catalog), [files[1], files[3], files[4]]);
    let (page, more) = catalog.dead(Some(files[1]), 1).unwrap();
    assert_eq!((page[0].file, more), (files[3], true));
    assert_eq!(catalog.dead(Some(files[4]), 1).unwrap(), (vec![], false));
    refused!(catalog.bury(files[0]), CatalogError::Alive { .. });
    catalog.bury(files[3]).unwrap();
    catalog.bury(files[3]).unwrap(); // as a client would that did not hear the answer
    assert_eq!(dead(&catalog), [files[1], files[4]]);
    catalog.bury(files[1]).unwrap();
    catalog.bury(files[4]).unwrap();
    for i in [0, 2] {
        catalog.remove(&format!("f{i}")).unwrap();
        assert!(!catalog.is_empty().unwrap());
        catalog.bury(files[i]).unwrap();
    }
    assert!(catalog.is_empty().unwrap());
    drop(catalog);
    let catalog = Catalog::open(&path).unwrap();
    assert_eq!(make(&catalog, "f0").file, files[4] + 1);
}

#[test]
fn record_sets_size_and_time() {
    let (_directory, _path, catalog) = with_servers(1);
    let before = make(&catalog, "a");
    catalog.record(before.file, 1 << 40, 99).unwrap();
    let after = catalog.lookup("a").unwrap();
    assert_eq!(after, FileRecord { size: 1 << 40, modified_ms: 99, ..before });
}

#[test]
fn the_table_of_servers_keeps_what_files_use() {
    let (_directory, _path, catalog) = with_servers(4);
    catalog.create("a", 512, &[2, 0], true, 1).unwrap();
    let dead = catalog.create("b", 512, &[3], true, 1).unwrap().0;
    catalog.remove("b").unwrap();
    let moved: Vec<String> = (0..5).map(|i| format!("new{i}:7070")).collect();
    catalog.set_servers(&moved).unwrap();
    assert_eq!(catalog.servers().unwrap(), moved);
    // A dead file's objects must still be found.
    refused!(catalog.set_servers(&moved[..3]), CatalogError::ServersInUse { asked: 3, used: 4 });
    catalog.bury(dead.file).unwrap();
    catalog.set_servers(&moved[..3]).unwrap();
    let error = catalog.set_servers(&[]).unwrap_err();
    assert_eq!(error.to_string(), "the table of servers cannot be cut to 0: files use the first 3");
    let twice = ["x".to_owned(), "y".to_owned(), "x".to_owned()];
    refused!(catalog.set_servers(&twice), CatalogError::RepeatedAddress { .. });
    assert_eq!(catalog.servers().unwrap(), moved[..3]);
}

#[test]
fn a_change_costs_one_sync_and_no_change_none() {
    let disk = SimulatedDisk::new();
    let catalog = Catalog::on_backend(disk.clone()).unwrap();
    catalog.set_servers(&addresses(2)).unwrap();
    let syncs = |work: &dyn Fn()| {
        let (before, grown) = (disk.syncs(), disk.growths());
        work();
        (disk.syncs() - before) - (disk.growths() - grown)
    };
    assert_eq!(syncs(&|| drop(make(&catalog, "a"))), 1);
    assert_eq!(syncs(&|| drop(catalog.create("a", 512, &[0], false, 1).unwrap())), 0);
    assert_eq!(syncs(&|| drop(catalog.create("a", 512, &[0], true, 1).unwrap_err())), 0);
    assert_eq!(syncs(&|| catalog.record(1, 5, 5).unwrap()), 1);
    assert_eq!(syncs(&|| drop(catalog.rename("a", "b", false).unwrap())), 1);
    assert_eq!(syncs(&|| drop(catalog.rename("b", "b", false).unwrap())), 0);
    assert_eq!(syncs(&|| catalog.set_servers(&addresses(2)).unwrap()), 0);
    assert_eq!(syncs(&|| drop(catalog.remove("b").unwrap())), 1);
    assert_eq!(syncs(&|| catalog.bury(1).unwrap()), 1);
    assert_eq!(syncs(&|| catalog.bury(1).unwrap()), 0);
    assert_eq!(syncs(&|| drop(catalog.list("", None, 9).unwrap())), 0);
}

#[test]
fn a_failing_disk_is_reported_and_no_change_is_taken_after_it() {
    let disk = SimulatedDisk::new();
    let catalog = Catalog::on_backend(disk.clone()).unwrap();
    catalog.set_servers(&addresses(1)).unwrap();
    let record = make(&catalog, "a");
    disk.fail_after(1);
    let error = catalog.create("b", 512, &[0], true, 1).unwrap_err();
    assert_eq!(error.io_error().unwrap().to_string(), "the power failed");
    refused!(catalog.create("c", 512, &[0], true, 1), CatalogError::Database(_));
    assert_eq!(catalog.lookup("a").unwrap(), record);
}

#[test]
fn growth_is_rare() {
    let disk = SimulatedDisk::new();
    let catalog = Catalog::on_backend(disk.clone()).unwrap();
    catalog.set_servers(&addresses(1)).unwrap();
    for i in 0..3000 {
        make(&catalog, &format!("directory {}/a file with a name {i}", i % 7));
    }
    for i in (0..3000).step_by(2) {
        catalog.remove(&format!("directory {}/a file with a name {i}", i % 7)).unwrap();
    }
    assert!(disk.growths() < 20, "{} growths", disk.growths());
}

#[test]
fn readers_and_writers_share_it() {
    let (_directory, _path, catalog) = with_servers(1);
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let catalog = &catalog;
            scope.spawn(move || {
                for i in 0..25 {
                    // All four race for the same names; one creates each.
                    catalog.create(&format!("f{i}"), 512, &[0], false, writer).unwrap();
                    assert!(!catalog.list("f", None, 100).unwrap().0.is_empty());
                }
            });
        }
    });
    let (entries, _) = catalog.list("", None, 100).unwrap();
    let mut files: Vec<u64> = entries.iter().map(|(_, record)| record.file).collect();
    files.sort_unstable();
    assert_eq!(files, (1..=25).collect::<Vec<u64>>());
}
