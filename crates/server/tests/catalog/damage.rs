//! Files that are cut, strange or from the future: a clear error, never a panic, never a catalogue
//! that forgot something.

use std::fs::{self, OpenOptions};
use std::path::Path;

use redb::TableDefinition;
use striate_server::catalog::{Catalog, CatalogError};

use crate::model::Model;
use crate::simulated_disk::{Chance, SimulatedDisk};

fn filled() -> (SimulatedDisk, Catalog) {
    let disk = SimulatedDisk::new();
    let catalog = Catalog::on_backend(disk.clone()).unwrap();
    fill(&catalog);
    (disk, catalog)
}

fn fill(catalog: &Catalog) {
    catalog.set_servers(&["io0:7070".to_owned()]).unwrap();
    for i in 0..200 {
        catalog.create(&format!("run/file {i}"), 512, &[0], true, 1).unwrap();
    }
    catalog.remove("run/file 7").unwrap();
}

fn opens_whole_or_says_why(path: &Path, expected: &Model) -> bool {
    match Catalog::open(path) {
        Ok(catalog) => {
            assert_eq!(Model::of(&catalog, expected.created), *expected);
            true
        }
        Err(CatalogError::Damaged { .. } | CatalogError::NotACatalog { .. }) => false,
        Err(error) => panic!("{error:?}"),
    }
}

#[test]
fn a_cut_file_opens_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let (disk, catalog) = filled();
    let expected = Model::of(&catalog, 200);
    let in_use = disk.content();
    drop(catalog);
    let closed = disk.content();
    let mut chance = Chance(4);
    // As it was while in use, as a crash leaves it, and as it was closed.
    for content in [in_use, closed] {
        fs::write(&path, &content).unwrap();
        assert!(opens_whole_or_says_why(&path, &expected));
        for cut in 0..150 {
            let len = match cut {
                0..40 => cut,
                40..80 => chance.of(content.len() as u64 / 4096) * 4096,
                80 => content.len() as u64 - 1,
                _ => chance.of(content.len() as u64),
            };
            fs::write(&path, &content[..len as usize]).unwrap();
            opens_whole_or_says_why(&path, &expected);
        }
        // Longer by pages is no harm: a crash can leave some that were to be given back.
        for more in [1, 3, 256] {
            let mut longer = content.clone();
            longer.resize(content.len() + more * 4096, 0);
            fs::write(&path, &longer).unwrap();
            assert!(opens_whole_or_says_why(&path, &expected), "{more} pages more");
        }
        fs::write(&path, [&content[..], b"more"].concat()).unwrap();
        opens_whole_or_says_why(&path, &expected);
    }
}

/// The catalogue of `content` with one bit flipped is whole, or says that it is not; or it has
/// undone its last change and says so. Returns whether it said something.
fn flipped_is_noticed(content: &[u8], bit: usize, whole: &[&Model]) -> bool {
    let mut flipped = content.to_vec();
    flipped[bit / 8] ^= 1 << (bit % 8);
    match Catalog::on_backend(SimulatedDisk::with_content(flipped)) {
        Ok(catalog) => {
            let found = Model::of(&catalog, whole[0].created);
            let allowed = if catalog.last_change_undone() { whole } else { &whole[..1] };
            assert!(allowed.iter().any(|&model| *model == found), "bit {bit}: unseen damage");
            catalog.last_change_undone()
        }
        Err(CatalogError::Damaged { .. } | CatalogError::NotACatalog { .. }) => true,
        Err(error) => panic!("bit {bit}: {error:?}"),
    }
}

#[test]
fn a_flipped_bit_never_changes_anything_unseen() {
    let (disk, catalog) = filled();
    let before = Model::of(&catalog, 200);
    let file = catalog.lookup("run/file 9").unwrap().file;
    catalog.record(file, 12_345, 99).unwrap();
    let after = Model::of(&catalog, 200);
    let in_use = disk.content();
    drop(catalog);
    let closed = disk.content();
    let mut chance = Chance(11);
    let mut seen = 0;
    // Closed in order, nothing is undone.
    for (content, whole) in [(&closed, &[&after][..]), (&in_use, &[&after, &before][..])] {
        // The header; pages that are in use, most of which are at the start; all.
        let cases = std::env::var("STRIATE_CASES").ok().and_then(|text| text.parse().ok());
        for i in 0..cases.unwrap_or(450) {
            let within = [320, 256 << 10, content.len()][i % 3];
            let bit = chance.of(within.min(content.len()) as u64 * 8) as usize;
            seen += u32::from(flipped_is_noticed(content, bit, whole));
        }
    }
    assert!(seen > 10, "only {seen} flips met something");
}

#[test]
fn an_empty_or_strange_file_is_not_taken_for_a_new_catalogue() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    for content in
        [&b""[..], b"x", &[0; 8], b"a text, quite long enough to be something", &vec![0; 65536]]
    {
        fs::write(&path, content).unwrap();
        let error = Catalog::open(&path).unwrap_err();
        assert!(
            matches!(error, CatalogError::Damaged { .. } | CatalogError::NotACatalog { .. }),
            "{error:?}"
        );
        assert!(error.to_string().contains(path.to_str().unwrap()), "{error}");
        assert_eq!(fs::read(&path).unwrap(), content);
    }
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    let error = Catalog::open(&path).unwrap_err();
    assert!(matches!(error, CatalogError::System { attempt: "open", .. }), "{error:?}");
    let nowhere = directory.path().join("none").join("catalog");
    let error = Catalog::open(&nowhere).unwrap_err();
    assert!(matches!(error, CatalogError::System { attempt: "create", .. }), "{error:?}");
    assert!(error.io_error().is_some());
}

#[test]
fn another_database_is_not_a_catalogue() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let other = redb::Database::create(&path).unwrap();
    let writing = other.begin_write().unwrap();
    writing.open_table(TableDefinition::<u64, u64>::new("meta")).unwrap();
    writing.commit().unwrap();
    drop(other);
    let error = Catalog::open(&path).unwrap_err();
    assert!(matches!(error, CatalogError::NotACatalog { .. }), "{error:?}");
}

#[test]
fn a_newer_format_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    drop(Catalog::open(&path).unwrap());
    let database = redb::Database::open(&path).unwrap();
    let writing = database.begin_write().unwrap();
    let meta = TableDefinition::<&str, u64>::new("meta");
    writing.open_table(meta).unwrap().insert("format", 3).unwrap();
    writing.commit().unwrap();
    drop(database);
    let error = Catalog::open(&path).unwrap_err();
    assert!(matches!(error, CatalogError::NewerFormat { found: 3, known: 2, .. }), "{error:?}");
    assert!(error.to_string().ends_with("a newer version is needed"), "{error}");
}

/// A catalogue of format 1 is one of today afterwards, with all that was in it.
#[test]
fn the_first_format_is_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let catalog = Catalog::open(&path).unwrap();
    fill(&catalog);
    let expected = catalog.list("", None, 1000).unwrap();
    drop(catalog);
    let database = redb::Database::open(&path).unwrap();
    let writing = database.begin_write().unwrap();
    {
        let meta = TableDefinition::<&str, u64>::new("meta");
        writing.open_table(meta).unwrap().insert("format", 1).unwrap();
        let mut names = writing.open_table(TableDefinition::<&str, &[u8]>::new("names")).unwrap();
        for (name, record) in &expected.0 {
            let mut record = postcard::to_stdvec(record).unwrap();
            // Neither truncations nor lengths of objects.
            assert_eq!(record.split_off(record.len() - 2), [0, 0]);
            names.insert(&**name, &*record).unwrap();
        }
        writing.delete_table(TableDefinition::<u32, [u8; 16]>::new("storage")).unwrap();
    }
    writing.commit().unwrap();
    drop(database);
    for _ in 0..2 {
        let catalog = Catalog::open(&path).unwrap();
        assert_eq!(catalog.list("", None, 1000).unwrap(), expected);
        assert!(catalog.storage().unwrap().is_empty());
    }
}

#[test]
fn an_interrupted_creation_is_begun_anew() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let unfinished = directory.path().join("catalog.new");
    fs::write(&unfinished, vec![0; 100_000]).unwrap();
    let catalog = Catalog::open(&path).unwrap();
    fill(&catalog);
    assert!(!unfinished.exists());
    drop(catalog);
    assert_eq!(Catalog::open(&path).unwrap().list("", None, 1000).unwrap().0.len(), 199);
}

#[test]
fn only_one_server_uses_it() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("catalog");
    let unfinished = OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(directory.path().join("catalog.new"))
        .unwrap();
    unfinished.lock().unwrap();
    let error = Catalog::open(&path).unwrap_err();
    assert!(matches!(error, CatalogError::InUse { .. }), "{error:?}");
    drop(unfinished);
    let catalog = Catalog::open(&path).unwrap();
    let error = Catalog::open(&path).unwrap_err();
    assert!(matches!(error, CatalogError::InUse { .. }), "{error:?}");
    drop(catalog);
    Catalog::open(&path).unwrap();
}
