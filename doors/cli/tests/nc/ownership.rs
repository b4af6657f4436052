//! Which partitions a master may delete: those that name it, and nothing else.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use striate_array::Values;
use striate_array::format::Header;

use crate::partitioned::{DividedDataset, names, same};
use crate::tools::{answer, command, complaint, striate, told};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// What a command says that must not block.
fn ends(arguments: &[&str]) -> Output {
    let mut child =
        command(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let limit = Instant::now() + Duration::from_secs(60);
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > limit {
            child.kill().unwrap();
            panic!("{arguments:?} does not end");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

/// Copies everything in a directory into another one.
fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            copy_all(&entry.path(), &to.join(entry.file_name()));
        } else {
            fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
        }
    }
}

/// Changes the attributes of a file in the space of its header.
fn change(path: &Path, change: impl Fn(&mut Header)) {
    let mut bytes = fs::read(path).unwrap();
    let magic = bytes[..4].to_vec();
    bytes[..3].copy_from_slice(b"CDF");
    let (mut header, len) = Header::decode(&bytes).unwrap();
    change(&mut header);
    let new = header.encode();
    let room = header.variables.iter().map(|variable| variable.begin).min().unwrap() as usize;
    assert!(new.len() <= room, "{} bytes in a room of {room}", new.len());
    bytes[..len as usize].fill(0);
    bytes[..new.len()].copy_from_slice(&new);
    bytes[..4].copy_from_slice(&magic);
    fs::write(path, bytes).unwrap();
}

/// Makes a dataset one as earlier versions wrote them.
fn make_old(partitions: &[PathBuf]) {
    for file in partitions {
        change(file, |header| {
            header.attributes.retain(|it| !it.name.starts_with("partition_master"));
        });
    }
}

/// A master that lists files by other names.
fn foreign(of: &Path, at: &Path, list: &[String]) {
    fs::copy(of, at).unwrap();
    let mut bytes = fs::read(at).unwrap();
    let (mut header, _) = Header::decode(&bytes).unwrap();
    for attribute in &mut header.attributes {
        if attribute.name == "partition_files" {
            attribute.values = Values::from(list.join("\n").as_str());
        }
    }
    let end = header.encoded_len();
    for variable in &mut header.variables {
        variable.begin = end + 4;
    }
    bytes = header.encode();
    bytes.resize(bytes.len() + (64 << 10), 0);
    fs::write(at, bytes).unwrap();
}

#[test]
fn a_copy_of_a_master_takes_nothing_along() {
    let divided = DividedDataset::new(&["home", "home/below", "elsewhere"]);
    let parts = divided.partitions();
    let all_there = || parts.iter().all(|part| part.is_file());
    let copies = ["home/copy.nc", "copy.nc", "home/link.nc", "home/symbolic.nc"];
    for name in copies {
        let copy = divided.path(name);
        match name {
            "home/link.nc" => fs::hard_link(&divided.master, &copy).unwrap(),
            "home/symbolic.nc" => symlink(&divided.master, &copy).unwrap(),
            _ => drop(fs::copy(&divided.master, &copy).unwrap()),
        }
        let said = told(&ends(&["rm", text(&copy)]));
        assert!(said.contains("was a copy of") && said.contains("home/a.nc"), "{said}");
        assert!(said.contains("kept"), "{said}");
        assert!(all_there() && copy.symlink_metadata().is_err(), "{name}");
    }
    // Nor does it when something takes its name, or when it is renamed.
    let copy = divided.path("home/copy.nc");
    let whole = text(&divided.whole);
    for arguments in
        [vec!["copy", "-f", whole, text(&copy)], vec!["split", "-f", "-p", "2", whole, text(&copy)]]
    {
        fs::copy(&divided.master, &copy).unwrap();
        answer(striate(&arguments), "over a copy");
        assert!(all_there());
        answer(striate(["rm", text(&copy)]), "rm");
    }
    fs::copy(&divided.master, &copy).unwrap();
    let other = divided.path("home/other.nc");
    answer(striate(["mv", text(&copy), text(&other)]), "mv");
    let said = complaint(["mv", text(&other), text(divided.directory.path())], 1);
    assert!(said.contains("copy"), "{said}");
    let plain = divided.path("plain.nc");
    fs::copy(&divided.whole, &plain).unwrap();
    answer(striate(["mv", "--force", text(&plain), text(&other)]), "mv");
    assert!(all_there());
    same(&divided.whole, &divided.master);
    answer(striate(["rm", text(&divided.master)]), "rm");
    assert!(parts.iter().all(|part| !part.exists()));
}

#[test]
fn datasets_that_others_have_moved_keep_their_partitions() {
    // Plain mv of the master; of its directory, with partitions below and elsewhere.
    let divided = DividedDataset::new(&["home", "home/below", "elsewhere"]);
    let renamed = divided.path("home/b.nc");
    fs::rename(&divided.master, &renamed).unwrap();
    let moved = divided.path("moved");
    fs::rename(divided.path("home"), &moved).unwrap();
    let list = [moved.clone(), moved.join("below"), divided.path("elsewhere")];
    // The partitions of the moved directory are listed relative to it.
    answer(striate(["rm", text(&moved.join("b.nc"))]), "rm");
    assert_eq!(names(&list[0]), ["below"]);
    assert!(names(&list[1]).is_empty() && names(&list[2]).is_empty());

    // A copy of the whole directory is another dataset; so is a restored one in its old place.
    let divided = DividedDataset::new(&["home", "home/below"]);
    let backup = divided.path("backup");
    copy_all(&divided.path("home"), &backup);
    answer(striate(["rm", text(&divided.master)]), "rm");
    assert_eq!(names(&divided.path("home")), ["below"]);
    same(&divided.whole, backup.join("a.nc"));
    copy_all(&backup, &divided.path("home"));
    answer(striate(["rm", text(&backup.join("a.nc"))]), "rm");
    assert_eq!((names(&backup), names(&backup.join("below")).len()), (vec!["below".into()], 0));
    same(&divided.whole, &divided.master);

    // Renamed by us, then restored: they know the new name.
    let renamed = divided.path("home/much_longer_a_name.nc");
    answer(striate(["mv", text(&divided.master), text(&renamed)]), "mv");
    fs::remove_dir_all(&backup).unwrap();
    copy_all(&divided.path("home"), &backup);
    fs::remove_dir_all(divided.path("home")).unwrap();
    copy_all(&backup, &divided.path("home"));
    same(&divided.whole, &renamed);
    // Renamed by other programs after that, nothing proves whose they are.
    fs::rename(&renamed, &divided.master).unwrap();
    let said = complaint(["rm", text(&divided.master)], 1);
    assert!(said.contains("much_longer_a_name.nc") && said.contains("--adopt"), "{said}");
    same(&divided.whole, &divided.master);
    answer(striate(["mv", "--adopt", text(&divided.master), text(&renamed)]), "mv");
    answer(striate(["rm", text(&renamed)]), "rm");
    assert_eq!(names(&divided.path("home")), ["below"]);
    assert!(names(&divided.path("home/below")).is_empty());
}

#[test]
fn datasets_of_earlier_versions_are_removed_with_care() {
    let divided = DividedDataset::new(&["home", "home/below"]);
    let parts = divided.partitions();
    make_old(&parts);
    same(&divided.whole, &divided.master);
    let copy = divided.path("home/copy.nc");
    fs::copy(&divided.master, &copy).unwrap();
    assert!(told(&ends(&["rm", text(&copy)])).contains("copy of"));
    assert!(parts.iter().all(|part| part.exists()));
    // Under another name it may be a copy whose original was renamed.
    fs::rename(&divided.master, &copy).unwrap();
    assert!(complaint(["rm", text(&copy)], 1).contains("--adopt"));
    fs::rename(&copy, &divided.master).unwrap();
    answer(striate(["rm", text(&divided.master)]), "rm");
    assert!(parts.iter().all(|part| !part.exists()));
    // On a target elsewhere they do not say where their master is.
    let divided = DividedDataset::new(&["elsewhere"]);
    let parts = divided.partitions();
    make_old(&parts);
    same(&divided.whole, &divided.master);
    assert!(complaint(["rm", text(&divided.master)], 1).contains("earlier version"));
    let said = complaint(["rm", "--adopt", text(&divided.master)], 1);
    assert!(said.contains("--outside"), "{said}");
    assert!(parts.iter().all(|part| part.exists()));
    answer(striate(["rm", "--adopt", "--outside", text(&divided.master)]), "rm");
    assert!(parts.iter().all(|part| !part.exists()));
}

#[test]
fn a_foreign_master_deletes_nothing() {
    let divided = DividedDataset::new(&[]);
    let parts = divided.partitions();
    let evil = divided.path("evil");
    fs::create_dir(&evil).unwrap();
    let absolute: Vec<String> = parts.iter().map(|part| text(part).to_owned()).collect();
    let name = |part: &PathBuf| part.file_name().unwrap().to_str().unwrap().to_owned();
    let dotted: Vec<String> = parts.iter().map(|part| format!("../home/{}", name(part))).collect();
    symlink(divided.path("home"), evil.join("sub")).unwrap();
    let linked: Vec<String> = parts.iter().map(|part| format!("sub/{}", name(part))).collect();
    for list in [&absolute, &dotted, &linked] {
        for flags in [&["rm"][..], &["rm", "--force"], &["rm", "--force", "--adopt", "--outside"]] {
            let master = evil.join("a.nc");
            foreign(&divided.master, &master, list);
            let said = told(&ends(&[flags, &[text(&master)]].concat()));
            assert!(said.contains("was a copy of"), "{said}");
            assert!(parts.iter().all(|part| part.exists()), "{list:?} {flags:?}");
        }
    }
    // Also while the victim's master goes by another name.
    fs::rename(&divided.master, divided.path("home/b.nc")).unwrap();
    for list in [&absolute, &dotted, &linked] {
        let master = evil.join("a.nc");
        foreign(&divided.path("home/b.nc"), &master, list);
        assert!(complaint(["rm", text(&master)], 1).contains("--adopt"));
        assert!(complaint(["rm", "--adopt", text(&master)], 1).contains("--outside"));
        assert!(told(&ends(&["rm", "--force", text(&master)])).contains("kept"));
        assert!(parts.iter().all(|part| part.exists()), "{list:?}");
    }
    // A list of links to files of other datasets.
    let precious = divided.path("precious.nc");
    fs::copy(&parts[0], &precious).unwrap();
    fs::remove_file(&parts[0]).unwrap();
    symlink(&precious, &parts[0]).unwrap();
    let master = divided.path("home/b.nc");
    let said = complaint(["rm", text(&master)], 1);
    assert!(said.contains("a symbolic link"), "{said}");
    answer(striate(["rm", "--force", text(&master)]), "rm");
    assert!(precious.exists() && parts[0].symlink_metadata().is_ok() && !parts[1].exists());
}

#[test]
fn empty_files_go_only_with_the_writer_that_made_them() {
    let divided = DividedDataset::new(&[]);
    let parts = divided.partitions();
    fs::write(&parts[1], "").unwrap();
    let said = complaint(["rm", text(&divided.master)], 1);
    assert!(said.contains("it is empty"), "{said}");
    answer(striate(["rm", "--force", text(&divided.master)]), "rm");
    assert!(!parts[0].exists() && parts[1].exists() && !parts[2].exists());
    // A writer that was killed between the names of its partitions and their headers.
    let divided = DividedDataset::new(&[]);
    let parts = divided.partitions();
    let mut bytes = fs::read(&divided.master).unwrap();
    bytes[..3].copy_from_slice(b"cdf");
    fs::remove_file(&divided.master).unwrap();
    fs::write(divided.path("home/a.nc.unpublished"), bytes).unwrap();
    fs::remove_file(&parts[2]).unwrap();
    fs::write(&parts[2], "").unwrap();
    let like = divided.path("home/a.part0007-notours.nc");
    fs::write(&like, "").unwrap();
    answer(striate(["rm", text(&divided.master)]), "rm");
    assert_eq!(names(&divided.path("home")), ["a.part0007-notours.nc"]);
}

#[test]
fn journals_of_others_are_not_believed() {
    let divided = DividedDataset::new(&["home", "elsewhere"]);
    let victim = DividedDataset::new(&[]);
    let parts = victim.partitions();
    let planted = divided.path("home/a.nc.removed");
    let list: Vec<String> = parts.iter().map(|part| text(part).to_owned()).collect();
    foreign(&victim.master, &planted, &list);
    answer(striate(["rm", text(&divided.master)]), "rm");
    assert!(
        names(&divided.path("home")).is_empty() && names(&divided.path("elsewhere")).is_empty()
    );
    assert!(parts.iter().all(|part| part.exists()));
    // With no dataset of the name, what is planted is all there is.
    foreign(&victim.master, &planted, &list);
    let said = told(&ends(&["rm", text(&divided.master)]));
    assert!(said.contains("was a copy of"), "{said}");
    assert!(parts.iter().all(|part| part.exists()));
    // What is no journal is in the way, and so is what another user has left there.
    let journal = victim.path("home/a.nc.removed");
    fs::write(&journal, "my own notes about what I have removed from this directory").unwrap();
    let said = complaint(["rm", text(&victim.master)], 1);
    assert!(said.contains("in the way"), "{said}");
    assert!(journal.exists() && parts.iter().all(|part| part.exists()));
    fs::remove_file(&journal).unwrap();
    let by_root = std::os::unix::fs::chown(&victim.master, Some(1), None).is_ok();
    if by_root {
        fs::copy(&victim.master, &journal).unwrap();
        std::os::unix::fs::chown(&journal, Some(1), None).unwrap();
        let said = complaint(["rm", text(&victim.master)], 1);
        assert!(said.contains("another user"), "{said}");
        fs::rename(&victim.master, victim.path("home/elsewhere.nc")).unwrap();
        let said = complaint(["rm", text(&victim.master)], 1);
        assert!(said.contains("is not trusted"), "{said}");
        assert!(parts.iter().all(|part| part.exists()));
    }
    // A new dataset does not sweep away what only has the name of an unfinished one.
    let notes = victim.path("home/n.nc.unpublished");
    fs::write(&notes, "notes").unwrap();
    let new = victim.path("home/n.nc");
    let split = ["split", "-p", "2", text(&victim.whole), text(&new)];
    assert!(complaint(split, 1).contains("in the way"));
    assert_eq!(fs::read(&notes).unwrap(), b"notes");
}

#[test]
fn what_is_no_file_is_told_and_not_waited_for() {
    let divided = DividedDataset::new(&[]);
    let part = divided.partitions()[1].clone();
    let kept = divided.path("kept");
    fs::rename(&part, &kept).unwrap();
    let (master, out) = (text(&divided.master).to_owned(), divided.path("out.nc"));
    let whole = text(&divided.whole).to_owned();
    let all: Vec<Vec<&str>> = vec![
        vec!["info", &master],
        vec!["rm", &master],
        vec!["dump", &master],
        vec!["copy", &master, text(&out)],
        vec!["join", &master, text(&out)],
        vec!["validate", &master],
        vec!["compare", &master, &whole],
        vec!["mv", &master, text(divided.directory.path())],
    ];
    let fifo = |path: &Path| {
        assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
    };
    for what in ["a FIFO", "a socket", "directory"] {
        match what {
            "a FIFO" => fifo(&part),
            "a socket" => drop(std::os::unix::net::UnixListener::bind(&part).unwrap()),
            _ => fs::create_dir(&part).unwrap(),
        }
        for arguments in &all {
            let output = ends(arguments);
            let said = told(&output);
            assert!(said.to_lowercase().contains(&what.to_lowercase()), "{arguments:?}: {said}");
            assert!(arguments[0] == "info" || !output.status.success(), "{arguments:?}");
        }
        assert!(part.exists() && divided.master.exists() && !out.exists());
        if what == "directory" { fs::remove_dir(&part) } else { fs::remove_file(&part) }.unwrap();
    }
    fs::rename(&kept, &part).unwrap();
    same(&divided.whole, &divided.master);
    // As a dataset.
    let pipe = divided.path("pipe.nc");
    fifo(&pipe);
    let pipe = text(&pipe);
    let all: [&[&str]; 7] = [
        &["info", pipe],
        &["rm", pipe],
        &["dump", pipe],
        &["header", pipe],
        &["copy", pipe, text(&out)],
        &["validate", pipe],
        &["compare", pipe, &whole],
    ];
    for arguments in all {
        let output = ends(arguments);
        assert!(told(&output).contains("a FIFO") && !output.status.success(), "{arguments:?}");
    }
}
