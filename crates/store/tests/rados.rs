//! Files on a Ceph cluster.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::sync::Arc;

use striate_store::conformance::{Opener, Subject, check};
use striate_store::rados::{RadosCreation, RadosFile, RadosNamespace, RadosUrl, use_configuration};
use striate_store::{ErrorKind, Store};
use striate_testing::CephCluster;

/// A namespace of the cluster of this program.
fn namespace(name: &str) -> RadosNamespace {
    use_configuration(Some(&CephCluster::shared().configuration()));
    let url: RadosUrl = format!("rados://data/{name}/").parse().unwrap();
    RadosNamespace::open(&url).unwrap()
}

fn creation(strip: u64) -> RadosCreation {
    RadosCreation { create: true, exclusive: false, strip }
}

/// Files of a namespace.
struct PooledFiles {
    namespace: RadosNamespace,
    strip: u64,
    made: Cell<u32>,
}

impl Subject for PooledFiles {
    fn fresh(&self) -> Opener {
        self.made.set(self.made.get() + 1);
        let (namespace, name) = (self.namespace.clone(), format!("file-{}", self.made.get()));
        let creation = creation(self.strip);
        Box::new(move || Arc::new(RadosFile::open_in(&namespace, &name, &creation).unwrap()))
    }
}

#[test]
fn conformance_with_usual_strips() {
    check(&PooledFiles { namespace: namespace("usual"), strip: 4 << 20, made: Cell::default() });
}

#[test]
fn conformance_with_small_strips_and_windows() {
    let namespace = namespace("small").with_window(2, 3);
    check(&PooledFiles { namespace, strip: 65_000, made: Cell::default() });
}

/// Runs `rados` on the objects of a namespace of the pool `data`.
fn rados(namespace: &str, arguments: &[&str]) -> String {
    let all = [&["--pool", "data", "--namespace", namespace], arguments].concat();
    CephCluster::shared().ceph("rados", &all)
}

fn objects(namespace: &str) -> Vec<String> {
    let mut all: Vec<_> = rados(namespace, &["ls"]).lines().map(str::to_owned).collect();
    all.sort_unstable();
    all
}

fn head_of(file: &RadosFile) -> String {
    format!("striate.{}.head", file.info().id)
}

fn new_file(namespace: &RadosNamespace, name: &str, strip: u64) -> RadosFile {
    RadosFile::open_in(namespace, name, &creation(strip)).unwrap()
}

fn read_all(store: &dyn Store) -> Vec<u8> {
    let mut all = vec![9; store.len().unwrap() as usize];
    assert_eq!(store.read_at(0, &mut all).unwrap(), all.len());
    all
}

#[test]
fn names_are_made_moved_listed_and_removed() {
    let namespace = namespace("names");
    assert_eq!(namespace.list("").unwrap(), []);
    assert_eq!(namespace.stat("a").unwrap_err().kind(), ErrorKind::NotFound);
    for (name, len) in [("run/b", 10), ("run/a", 300), ("other", 0)] {
        new_file(&namespace, name, 100).write_at(0, &vec![1; len]).unwrap();
    }
    let listed = |prefix| -> Vec<_> {
        namespace.list(prefix).unwrap().into_iter().map(|file| (file.name, file.size)).collect()
    };
    let named = |name: &str, size| (name.to_owned(), size);
    assert_eq!(listed(""), [named("other", 0), named("run/a", 300), named("run/b", 10)]);
    assert_eq!(listed("run/"), [named("run/a", 300), named("run/b", 10)]);
    let (page, more) = namespace.list_page("", Some("other"), 1).unwrap();
    assert_eq!((page[0].name.as_str(), page.len(), more), ("run/a", 1, true));

    let exclusive = RadosCreation { exclusive: true, ..creation(100) };
    let error = RadosFile::open_in(&namespace, "run/a", &exclusive).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    let error = namespace.rename("run/a", "run/b", false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
    assert_eq!(namespace.rename("x", "y", true).unwrap_err().kind(), ErrorKind::NotFound);
    let open = RadosFile::open_in(&namespace, "run/a", &RadosCreation::default()).unwrap();
    namespace.rename("run/a", "run/b", true).unwrap();
    namespace.rename("run/b", "run/b", true).unwrap();
    assert_eq!(listed("run/"), [named("run/b", 300)]);
    open.write_at(300, b"more").unwrap();
    assert_eq!(namespace.stat("run/b").unwrap().size, 304, "a handle survives a renaming");

    namespace.remove("run/b").unwrap();
    namespace.remove("other").unwrap();
    assert_eq!(namespace.remove("other").unwrap_err().kind(), ErrorKind::NotFound);
    let error = open.write_at(1000, &[1; 500]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
    assert_eq!(open.len().unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(objects("names"), ["striate.catalogue"], "nothing is left");
}

#[test]
fn one_of_many_creates_a_file() {
    let namespace = namespace("creators");
    let exclusive = RadosCreation { exclusive: true, ..creation(100) };
    let created: usize = std::thread::scope(|scope| {
        let create = || RadosFile::open_in(&namespace, "one", &exclusive);
        let all: Vec<_> = (0..8).map(|_| scope.spawn(create)).collect();
        let outcomes = all.into_iter().map(|thread| thread.join().unwrap());
        outcomes
            .map(|outcome| match outcome {
                Ok(_) => 1,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::AlreadyExists, "{error}");
                    0
                }
            })
            .sum()
    });
    assert_eq!(created, 1);
    assert_eq!(objects("creators").len(), 2, "the catalogue and one head");
}

#[test]
fn a_cut_is_seen_by_handles_that_know_the_old_length() {
    let namespace = namespace("cuts");
    let (one, two) = (new_file(&namespace, "f", 100), new_file(&namespace, "f", 100));
    one.write_at(0, &[1; 1000]).unwrap();
    assert_eq!(read_all(&two), [1; 1000]);
    two.set_len(50).unwrap();
    let mut back = [9; 1000];
    assert_eq!(one.read_at(0, &mut back).unwrap(), 50);
    assert_eq!((back[49], back[50]), (1, 9));
    one.write_at(60, &[2; 10]).unwrap();
    let expected = [&[1; 50][..], &[0; 10], &[2; 10]].concat();
    assert_eq!(read_all(&two), expected);
    two.set_len(500).unwrap();
    assert_eq!(read_all(&one)[70..], [0; 430]);
    assert_eq!(objects("cuts").len(), 3, "the catalogue, the head and one strip");
}

#[test]
fn a_cut_that_was_interrupted_is_finished() {
    let namespace = namespace("interrupted");
    let file = new_file(&namespace, "f", 100);
    file.write_at(0, &[1; 1000]).unwrap();
    // As a client leaves it that is killed between the mark and the removal of strips.
    let head = head_of(&file);
    for (name, value) in [("size", 250), ("cutting", 250), ("cuts", 1)] {
        rados(
            "interrupted",
            &["setxattr", &head, &format!("striate.{name}"), &format!("{value:016x}")],
        );
    }
    file.set_len(1000).unwrap();
    let expected = [&[1; 250][..], &[0; 750]].concat();
    assert_eq!(read_all(&file), expected);
    assert!(!rados("interrupted", &["listxattr", &head]).contains("cutting"));
    assert_eq!(objects("interrupted").len(), 2 + 3);
}

#[test]
fn a_removal_that_was_interrupted_is_finished() {
    let namespace = namespace("dead");
    let file = new_file(&namespace, "f", 100);
    file.write_at(0, &[1; 1000]).unwrap();
    let id = file.info().id;
    rados("dead", &["rmomapkey", "striate.catalogue", "f/f"]);
    rados("dead", &["setomapval", "striate.catalogue", &format!("d/{id}"), "1"]);
    assert_eq!(namespace.bury_dead().unwrap(), 1);
    assert_eq!(namespace.bury_dead().unwrap(), 0);
    assert_eq!(objects("dead"), ["striate.catalogue"]);
}

#[test]
fn the_ranges_of_a_dead_client_are_free() {
    let namespace = namespace("ranges");
    let file = new_file(&namespace, "f", 100);
    let held = file.lock(0..10, striate_store::LockKind::Exclusive).unwrap();
    let table = rados("ranges", &["getxattr", &head_of(&file), "striate.locks"]);
    assert!(table.contains("x 0 10 "), "{table}");
    drop(held);
    let table = "7\nx 0 100 1 0123456789abcdef\n";
    rados("ranges", &["setxattr", &head_of(&file), "striate.locks", table]);
    drop(file.lock(50..60, striate_store::LockKind::Shared).unwrap());
    let table = rados("ranges", &["getxattr", &head_of(&file), "striate.locks"]);
    assert!(!table.contains("0123456789abcdef"), "{table}");
}

#[test]
fn damage_is_named() {
    let namespace = namespace("damage");
    let file = new_file(&namespace, "f", 100);
    file.write_at(0, &[1; 250]).unwrap();
    let head = head_of(&file);
    let reopen = || RadosFile::open_in(&namespace, "f", &RadosCreation::default());
    rados("damage", &["rmxattr", &head, "striate.strip"]);
    let message = reopen().unwrap_err().to_string();
    assert!(message.contains(&head) && message.contains("striate.strip is missing"), "{message}");
    rados("damage", &["setxattr", &head, "striate.strip", "0000000000000000"]);
    assert!(reopen().unwrap_err().to_string().contains("strips are of no bytes"));
    rados("damage", &["setxattr", &head, "striate.version", "2"]);
    assert!(reopen().unwrap_err().to_string().contains("version 2"));
    rados("damage", &["rm", &head]);
    let message = reopen().unwrap_err().to_string();
    assert!(message.contains(&head) && message.contains("is missing"), "{message}");
    rados("damage", &["setomapval", "striate.catalogue", "f/f", "nonsense"]);
    let message = reopen().unwrap_err().to_string();
    assert!(message.contains("striate.catalogue") && message.contains("'f'"), "{message}");
}

#[test]
fn strips_that_are_missing_are_gaps() {
    let namespace = namespace("gaps");
    let file = new_file(&namespace, "f", 100);
    file.write_at(0, &[1; 300]).unwrap();
    rados("gaps", &["rm", &format!("striate.{}.{:016x}", file.info().id, 1)]);
    let expected = [[1; 100], [0; 100], [1; 100]].concat();
    assert_eq!(read_all(&file), expected);
}

#[test]
fn what_may_not_be_used_is_refused() {
    namespace("rights");
    let open = |url: &str| RadosFile::open(&url.parse().unwrap(), &creation(100));
    let refused = |url: &str| {
        let error = open(url).unwrap_err();
        (error.kind(), error.to_string())
    };
    let (kind, message) = refused("rados://missing/rights/f");
    assert_eq!(kind, ErrorKind::NotFound, "{message}");
    assert!(message.contains("no pool 'missing'"), "{message}");
    open("rados://data/rights/f").unwrap().write_at(0, b"abc").unwrap();
    let (kind, message) = refused("rados://reader@data/rights/g");
    assert_eq!(kind, ErrorKind::Denied, "{message}");
    let (_, message) = refused("rados://nobody@data/rights/g");
    assert!(message.contains("client.nobody"), "{message}");
    let (_, message) = refused("rados://data/rights/");
    assert!(message.contains("names no file"), "{message}");
    let url = "rados://reader@data/rights/f".parse().unwrap();
    let file = RadosFile::open(&url, &RadosCreation::default()).unwrap();
    assert_eq!(read_all(&file), b"abc");
    let error = file.write_at(0, b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
    let error = RadosFile::open(&"rados://data/rights/g".parse().unwrap(), &creation(1 << 40));
    assert_eq!(error.unwrap_err().kind(), ErrorKind::Unsupported);
}
