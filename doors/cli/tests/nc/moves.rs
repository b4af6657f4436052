//! Datasets that are renamed and removed as one thing.

use std::fs;
use std::path::{Path, PathBuf};

use crate::corpus::Made;
use crate::partitioned::{DividedDataset, names, same};
use crate::tools::{answer, complaint, striate, told};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn mv(from: &Path, to: &Path) {
    answer(striate(["mv", text(from), text(to)]), "mv");
}

fn sub_files(name: &str, to: &Path) -> PathBuf {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/array/tests/data/subfiles");
    for entry in fs::read_dir(data).unwrap() {
        let entry = entry.unwrap();
        let file = entry.file_name().into_string().unwrap();
        if file.starts_with(&format!("{name}.nc")) {
            fs::copy(entry.path(), to.join(file)).unwrap();
        }
    }
    to.join(format!("{name}.nc"))
}

#[test]
fn a_master_gets_another_name_beside_its_partitions() {
    let divided = DividedDataset::new(&[]);
    let before = divided.partitions();
    let to = divided.path("home/b.nc");
    mv(&divided.master, &to);
    same(&divided.whole, &to);
    assert!(!divided.master.exists());
    assert!(before.iter().all(|file| file.exists()));
    // In whatever way the directory is called.
    let again = divided.path("home/../home/c.nc");
    mv(&to, &again);
    same(&divided.whole, &again);
    assert_eq!(names(&divided.path("home")).len(), 4);
}

#[test]
fn partitions_beside_a_master_go_with_it() {
    let divided = DividedDataset::new(&[]);
    let other = divided.path("other");
    fs::create_dir(&other).unwrap();
    let output = striate(["mv", "--json", text(&divided.master), text(&other)]);
    let row = &crate::rows(&output)[0];
    assert_eq!(row["partitions"].as_array().unwrap().len(), 3);
    assert!(names(&divided.path("home")).is_empty());
    assert_eq!(names(&other).len(), 4);
    same(&divided.whole, other.join("a.nc"));
    // All of it has gone: the directory itself can move.
    fs::rename(&other, divided.path("home/other")).unwrap();
    same(&divided.whole, divided.path("home/other/a.nc"));
}

#[test]
fn other_partitions_stay() {
    // Beside, below and elsewhere; those below are listed by names that must change.
    let divided = DividedDataset::new(&["home", "home/below", "elsewhere"]);
    let before = divided.partitions();
    let other = divided.path("other");
    fs::create_dir(&other).unwrap();
    let to = other.join("b.nc");
    mv(&divided.master, &to);
    same(&divided.whole, &to);
    assert!(!before[0].exists() && before[1].exists() && before[2].exists());
    assert_eq!(names(&divided.path("home")), ["below"]);
    assert_eq!(names(&other).len(), 2);
    let validated = striate(["validate", text(&to)]);
    assert!(validated.status.success(), "{}", told(&validated));
    // And back.
    mv(&to, &divided.master);
    same(&divided.whole, &divided.master);
    assert!(names(&other).is_empty());
    answer(striate(["rm", text(&divided.master)]), "rm");
    assert_eq!(names(&divided.path("home")), ["below"]);
    assert!(names(&divided.path("home/below")).is_empty());
    assert!(names(&divided.path("elsewhere")).is_empty());
}

#[test]
fn names_that_are_taken_are_kept() {
    let divided = DividedDataset::new(&[]);
    let plain = Made::new(4).write(divided.directory.path(), "plain.nc");
    let precious = fs::read(&plain).unwrap();
    let said = complaint(["mv", text(&divided.master), text(&plain)], 1);
    assert!(said.contains("exists") && said.contains("--force"), "{said}");
    assert_eq!(fs::read(&plain).unwrap(), precious);
    // A file that has the name of a partition there.
    let other = divided.path("other");
    fs::create_dir(&other).unwrap();
    let name = divided.partitions()[1].file_name().unwrap().to_owned();
    fs::write(other.join(&name), "precious").unwrap();
    let said = complaint(["mv", "--force", text(&divided.master), text(&other)], 1);
    assert!(said.contains(name.to_str().unwrap()), "{said}");
    assert_eq!(fs::read(other.join(&name)).unwrap(), b"precious");
    assert_eq!(names(&other).len(), 1);
    same(&divided.whole, &divided.master);
    // What is replaced goes with its partitions.
    answer(striate(["mv", "--force", text(&plain), text(&divided.master)]), "mv");
    assert_eq!(names(&divided.path("home")), ["a.nc"]);
    assert_eq!(fs::read(&divided.master).unwrap(), precious);
    let said = complaint(["mv", text(&divided.master), text(&divided.master)], 1);
    assert!(said.contains("exists"), "{said}");
    complaint(["mv", text(&divided.path("no_such.nc")), text(&plain)], 1);
}

#[test]
fn a_move_that_was_interrupted_goes_on() {
    let divided = DividedDataset::new(&["home", "home/below"]);
    let other = divided.path("other");
    fs::create_dir(&other).unwrap();
    // As far as to the first partition, a part of the last, and a master that was begun.
    let parts = divided.partitions();
    let there = |file: &Path| other.join(file.file_name().unwrap());
    fs::hard_link(&parts[0], there(&parts[0])).unwrap();
    let bytes = fs::read(&parts[2]).unwrap();
    let name = there(&parts[2]).display().to_string();
    fs::write(format!("{name}.moving"), &bytes[..5000]).unwrap();
    fs::write(other.join("a.nc.moving"), "CDF").unwrap();
    same(&divided.whole, &divided.master);
    mv(&divided.master, &other);
    same(&divided.whole, other.join("a.nc"));
    assert_eq!(names(&other).len(), 3);
    assert_eq!(names(&divided.path("home")), ["below"]);
    // Further than that: everything is there twice, the old name is not.
    let third = divided.path("third");
    fs::create_dir(&third).unwrap();
    for file in names(&other) {
        fs::copy(other.join(&file), third.join(&file)).unwrap();
    }
    let from = other.join("a.nc");
    answer(striate(["mv", "--force", text(&from), text(&third)]), "mv");
    same(&divided.whole, third.join("a.nc"));
    assert!(names(&other).is_empty());
    // A copy that is another one's by now is not taken for such a rest.
    let fourth = divided.path("fourth");
    fs::create_dir(&fourth).unwrap();
    let last = names(&third).into_iter().find(|name| name.contains(".part0002-")).unwrap();
    let mut bytes = fs::read(third.join(&last)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(fourth.join(&last), &bytes).unwrap();
    let said = complaint(["mv", text(&third.join("a.nc")), text(&fourth)], 1);
    assert!(said.contains(&last), "{said}");
    assert_eq!(fs::read(fourth.join(&last)).unwrap(), bytes);
    same(&divided.whole, third.join("a.nc"));
}

#[test]
fn datasets_move_to_another_file_system() {
    let Ok(other) = tempfile::tempdir_in("/dev/shm") else { return };
    let divided = DividedDataset::new(&["home", "elsewhere"]);
    let to = other.path().join("b.nc");
    mv(&divided.master, &to);
    same(&divided.whole, &to);
    assert!(names(&divided.path("home")).is_empty());
    assert_eq!(names(&divided.path("elsewhere")).len(), 1);
    assert_eq!(names(other.path()).len(), 3);
    // A plain file as well.
    let plain = Made::new(4).write(divided.directory.path(), "plain.nc");
    let bytes = fs::read(&plain).unwrap();
    mv(&plain, other.path());
    assert_eq!(fs::read(other.path().join("plain.nc")).unwrap(), bytes);
    assert!(!plain.exists());
    answer(striate(["rm", text(&to)]), "rm");
    assert!(names(&divided.path("elsewhere")).is_empty());
}

#[test]
fn only_whole_datasets_move() {
    let divided = DividedDataset::new(&[]);
    let other = divided.path("other");
    fs::create_dir(&other).unwrap();
    let part = &divided.partitions()[2];
    let said = complaint(["mv", text(part), text(&other)], 1);
    assert!(said.contains("a part of 'a.nc'"), "{said}");
    fs::remove_file(part).unwrap();
    let said = complaint(["mv", text(&divided.master), text(&other)], 1);
    assert!(said.contains(".part0002-") && said.contains("does not exist"), "{said}");
    assert!(names(&other).is_empty());
    let bytes = Made::new(4).bytes();
    fs::write(divided.path("u.nc"), [b"cdf", &bytes[3..]].concat()).unwrap();
    let said = complaint(["mv", text(&divided.path("u.nc")), text(&other)], 1);
    assert!(said.contains("unfinished"), "{said}");
}

/// Killed after the new master was published: both masters list the partitions that stay.
#[test]
fn an_old_master_that_was_left_takes_nothing_with_it() {
    let divided = DividedDataset::new(&["home", "elsewhere"]);
    let old = fs::read(&divided.master).unwrap();
    let beside = names(&divided.path("home")).into_iter().filter(|name| name != "a.nc");
    let beside: Vec<String> = beside.collect();
    let other = divided.path("other");
    fs::create_dir(&other).unwrap();
    let to = other.join("a.nc");
    mv(&divided.master, &other);
    assert_eq!(names(&divided.path("home")), Vec::<String>::new());
    fs::write(&divided.master, old).unwrap();
    for name in beside {
        fs::hard_link(other.join(&name), divided.path("home").join(&name)).unwrap();
    }
    fs::write(divided.path("home/a.nc.moved"), text(&to)).unwrap();
    answer(striate(["rm", text(&divided.master)]), "rm");
    assert_eq!(names(&divided.path("home")), Vec::<String>::new());
    same(&divided.whole, &to);
}

#[test]
fn sub_files_are_renamed_after_their_master() {
    let directory = tempfile::tempdir().unwrap();
    let master = sub_files("plane", directory.path());
    let whole = directory.path().join("whole.nc");
    answer(striate(["join", text(&master), text(&whole)]), "join");
    let to = directory.path().join("b.nc");
    mv(&master, &to);
    same(&whole, &to);
    assert_eq!(names(directory.path()).len(), 5);
    let sub = directory.path().join("sub");
    fs::create_dir(&sub).unwrap();
    mv(&to, &sub);
    same(&whole, sub.join("b.nc"));
    assert_eq!(names(directory.path()), ["sub", "whole.nc"]);
    // Joined in its own place, nothing is left of them.
    answer(striate(["join", "-f", text(&sub.join("b.nc")), text(&sub.join("b.nc"))]), "join");
    assert_eq!(names(&sub), ["b.nc"]);
    same(&whole, sub.join("b.nc"));
    // Files that only have the names of sub-files are kept.
    let master = sub_files("four", &sub);
    let taken = directory.path().join("c.nc.subfile_2.nc");
    fs::write(&taken, "precious").unwrap();
    let said = complaint(["mv", text(&master), text(&directory.path().join("c.nc"))], 1);
    assert!(said.contains("c.nc.subfile_2.nc"), "{said}");
    assert_eq!(fs::read(&taken).unwrap(), b"precious");
    assert_eq!(names(directory.path()), ["c.nc.subfile_2.nc", "sub", "whole.nc"]);
    answer(striate(["rm", text(&master)]), "rm");
    assert_eq!(names(&sub), ["b.nc"]);
}

#[test]
fn what_is_removed_is_gone() {
    let divided = DividedDataset::new(&["t0", "t1"]);
    let output = striate(["rm", "--json", text(&divided.master), text(&divided.whole)]);
    let rows = crate::rows(&output);
    assert_eq!(rows[0]["removed"].as_array().unwrap().len(), 4);
    assert_eq!(rows[1]["removed"].as_array().unwrap().len(), 1);
    for directory in ["home", "t0", "t1"] {
        assert!(names(&divided.path(directory)).is_empty());
    }
    let said = complaint(["rm", text(&divided.master)], 1);
    assert!(said.contains("o such file"), "{said}");
    answer(striate(["rm", "--force", text(&divided.master)]), "rm");
}

#[test]
fn what_is_not_its_own_is_left() {
    let divided = DividedDataset::new(&["t0"]);
    let parts = divided.partitions();
    fs::remove_file(&parts[0]).unwrap();
    let other = Made::new(4).bytes();
    fs::write(&parts[1], &other).unwrap();
    let said = complaint(["rm", text(&divided.master)], 1);
    assert!(said.contains(".part0000-") && said.contains("does not exist"), "{said}");
    assert!(said.contains(".part0001-") && said.contains("no partition"), "{said}");
    assert!(divided.master.exists() && parts[2].exists());
    let output = striate(["rm", "--force", text(&divided.master)]);
    assert!(told(&output).contains(".part0000-"), "{}", told(&output));
    assert!(output.status.success() && !divided.master.exists() && !parts[2].exists());
    assert_eq!(fs::read(&parts[1]).unwrap(), other);
    // A part alone, and what is no dataset.
    let divided = DividedDataset::new(&["t0"]);
    let part = &divided.partitions()[0];
    assert!(complaint(["rm", text(part)], 1).contains("a part of 'a.nc'"));
    fs::write(divided.path("text"), "this is no netCDF file, but long enough to be one").unwrap();
    let said = complaint(["rm", "--force", text(&divided.path("text"))], 1);
    assert!(said.contains("not datasets") && divided.path("text").exists(), "{said}");
}

#[test]
fn what_was_interrupted_is_removed() {
    let divided = DividedDataset::new(&["t0"]);
    // A removal that came as far as to the first partition.
    fs::remove_file(&divided.partitions()[0]).unwrap();
    fs::rename(&divided.master, divided.path("home/a.nc.removed")).unwrap();
    answer(striate(["rm", text(&divided.master)]), "rm");
    assert!(names(&divided.path("home")).is_empty() && names(&divided.path("t0")).is_empty());
    // A writer that was killed.
    let divided = DividedDataset::new(&["t0"]);
    let mut bytes = fs::read(&divided.master).unwrap();
    bytes[..3].copy_from_slice(b"cdf");
    fs::remove_file(&divided.partitions()[2]).unwrap();
    fs::write(divided.path("home/a.nc.unpublished"), bytes).unwrap();
    fs::remove_file(&divided.master).unwrap();
    answer(striate(["rm", text(&divided.master)]), "rm");
    assert!(names(&divided.path("home")).is_empty() && names(&divided.path("t0")).is_empty());
}
