use super::*;
use crate::error::ServerError;

fn file(name: &str, file: u64, servers: &[u32], size: u64) -> (String, FileRecord) {
    let servers = servers.to_vec();
    let record = FileRecord {
        file,
        strip: 10,
        servers,
        size,
        created_ms: 0,
        modified_ms: 0,
        truncations: 0,
        lens: Vec::new(),
    };
    (name.to_owned(), record)
}

fn inventory(files: Vec<(String, FileRecord)>, objects: [&[(u64, u64)]; 2]) -> Inventory {
    Inventory {
        servers: vec!["a".into(), "b".into()],
        files,
        dead: Vec::new(),
        objects: objects.map(|objects| Ok(objects.iter().copied().collect())).into(),
    }
}

fn found(inventory: &Inventory) -> Vec<String> {
    inventory.findings().iter().map(ToString::to_string).collect()
}

#[test]
fn a_whole_file_system_has_no_findings() {
    let files = vec![
        file("x", 1, &[0, 1], 25),
        file("y", 2, &[1], 0),
        // Written further since its size was recorded.
        file("z", 3, &[1, 0], 5),
    ];
    let all = inventory(files, [&[(1, 15), (3, 40)], &[(1, 10), (2, 0), (3, 50)]]);
    assert_eq!(all.findings(), []);
    assert_eq!((all.highest_file(), all.object_count()), (3, 5));
}

#[test]
fn missing_and_short_objects_are_found() {
    let missing = inventory(vec![file("x", 1, &[0, 1], 25)], [&[], &[(1, 10)]]);
    let text = found(&missing);
    assert_eq!(text.len(), 1, "{text:?}");
    assert!(text[0].contains("missing on a; 15 B of the file are lost"), "{text:?}");

    let cut = inventory(vec![file("x", 1, &[0, 1], 25)], [&[(1, 12)], &[(1, 10)]]);
    let text = found(&cut);
    assert_eq!(text.len(), 1, "{text:?}");
    assert!(text[0].contains("ends at 22 bytes, but 25 were recorded"), "{text:?}");

    let hole = inventory(vec![file("x", 1, &[0, 1], 25)], [&[(1, 15)], &[(1, 3)]]);
    let text = found(&hole);
    assert_eq!(text.len(), 1, "{text:?}");
    assert!(text[0].contains("may have holes") && text[0].contains("ends at 3 of 10"), "{text:?}");

    let never_made = inventory(vec![file("x", 1, &[0], 0)], [&[], &[]]);
    assert!(found(&never_made)[0].contains("no byte was recorded"));
}

#[test]
fn objects_that_nobody_has_are_found() {
    let mut all = inventory(vec![file("x", 5, &[0], 1)], [&[(5, 1), (2, 7)], &[(5, 1), (3, 3)]]);
    all.dead = vec![3, 4];
    let expected = [
        Finding::Dead { file: 3, objects: 1 },
        Finding::Dead { file: 4, objects: 0 },
        Finding::Orphan { server: "a".into(), object: 2, len: 7 },
        Finding::Misplaced { server: "b".into(), object: 5, len: 1, path: "x".into() },
    ];
    assert_eq!(all.findings(), expected);
}

#[test]
fn copies_that_were_not_finished_are_found() {
    let part = ".a.part-0123456789abcdef";
    let cut = file(&format!("run/{part}"), 1, &[0, 1], 25);
    let text = found(&inventory(vec![cut], [&[(1, 3)], &[]]));
    assert_eq!(text, [format!("file \"run/{part}\" is a copy that was not finished")]);
    for other in ["a.part-0123456789abcdef", ".a.part-0123456789abcde", ".a.part-x123456789abcdef"]
    {
        assert!(!super::is_unfinished_copy(other), "{other}");
    }
}

#[test]
fn what_cannot_be_checked_is_said() {
    let mut all = inventory(
        vec![file("x", 1, &[0, 1], 25), file("y", 2, &[0, 7], 1), file("z", 3, &[], 1)],
        [&[(1, 15), (2, 1)], &[]],
    );
    all.objects[1] = Err("it is down".into());
    let expected = [
        Finding::Unchecked { server: "b".into(), why: "it is down".into() },
        Finding::UnknownServer { path: "y".into(), file: 2, server: 7 },
        Finding::NoLayout { path: "z".into(), file: 3 },
    ];
    assert_eq!(all.findings(), expected);
}

#[test]
fn the_same_trouble_is_recognised() {
    let short = |file, len| Finding::ShortFile { path: "x".into(), file, size: len, recorded: 9 };
    assert!(short(1, 2).is_same(&short(1, 3)));
    assert!(!short(1, 2).is_same(&short(2, 2)));
    assert!(!short(1, 2).is_same(&Finding::Dead { file: 1, objects: 0 }));
}

#[test]
fn directories_are_read_and_not_changed() {
    use std::path::PathBuf;

    use crate::catalog::Catalog;
    use crate::directory::DataDirectory;
    use crate::objects::Objects;

    let place = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["a", "b"].map(|name| place.path().join(name)).into();
    assert!(Inventory::of_directories(&paths).is_err() && !paths[0].exists());
    for path in &paths {
        DataDirectory::open(path).unwrap();
        Objects::open(path, 1).unwrap().touch(1).unwrap();
    }
    let without = Inventory::of_directories(&paths).unwrap_err().to_string();
    assert!(without.contains("0 of the 2 directories have a catalogue"), "{without}");
    let catalog_path = paths[0].join("catalog.redb");
    let catalog = Catalog::open(&catalog_path).unwrap();
    catalog.set_servers(&["h:1".into(), "h:2".into()]).unwrap();
    catalog.create("x", 10, &[0, 1], true, 0).unwrap();
    drop(catalog);
    let before = std::fs::read(&catalog_path).unwrap();
    let all = Inventory::of_directories(&paths).unwrap();
    assert_eq!(all.findings(), []);
    assert_eq!((all.servers.len(), all.files.len(), all.object_count()), (2, 1, 2));
    assert!(std::fs::read(&catalog_path).unwrap() == before, "the catalogue was changed");
    let few = Inventory::of_directories(&paths[..1]).unwrap_err().to_string();
    assert!(few.contains("h:1, h:2"), "{few}");
    let _running = DataDirectory::open(&paths[1]).unwrap();
    assert!(matches!(Inventory::of_directories(&paths), Err(ServerError::InUse { .. })));
}
