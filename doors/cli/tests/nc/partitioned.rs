//! Partitioned datasets: divided and joined again, and one thing to all commands.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use striate_array::DatasetFiles;
use striate_server::Embedded;

use crate::corpus::Made;
use crate::tools::{answer, command, complaint, striate, told};

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The names in a directory.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// A dataset of three partitions, in a directory of its own and in two targets.
pub(crate) struct DividedDataset {
    pub(crate) directory: tempfile::TempDir,
    pub(crate) whole: PathBuf,
    pub(crate) master: PathBuf,
}

impl DividedDataset {
    pub(crate) fn new(targets: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let whole = crate::big(false).write(directory.path(), "whole.nc");
        let home = directory.path().join("home");
        fs::create_dir(&home).unwrap();
        let mut list = Vec::new();
        for target in targets {
            let target = directory.path().join(target);
            fs::create_dir_all(&target).unwrap();
            list.push(text(&target).to_owned());
        }
        let master = home.join("a.nc");
        let mut arguments = vec!["split".to_owned(), "-p".into(), "3".into()];
        if !list.is_empty() {
            arguments.extend(["--targets".into(), list.join(",")]);
        }
        arguments.extend([text(&whole).to_owned(), text(&master).to_owned()]);
        answer(striate(&arguments), "split");
        Self { directory, whole, master }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn partitions(&self) -> Vec<PathBuf> {
        let files = DatasetFiles::of(&self.master).unwrap();
        files.partitions.into_iter().map(|part| part.file).collect()
    }
}

pub(crate) fn same(one: impl AsRef<OsStr>, other: impl AsRef<OsStr>) {
    let compared = striate([OsStr::new("compare"), one.as_ref(), other.as_ref()]);
    assert_eq!(told(&compared), "no differences\n");
}

fn dumped(path: impl AsRef<OsStr>) -> Vec<u8> {
    let arguments = [OsStr::new("dump"), OsStr::new("-n"), OsStr::new("x"), path.as_ref()];
    answer(striate(arguments), "dump")
}

#[test]
fn what_is_joined_is_what_was_split() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    for target in ["t0", "t1", "t2"] {
        fs::create_dir(path(target)).unwrap();
    }
    let targets = ["t0", "t1", "t2"].map(|name| text(&path(name)).to_owned()).join(",");
    let mut divided = 0;
    for seed in 0..40 {
        let from = Made::new(seed + 500).write(directory.path(), "from.nc");
        let count = (2 + seed % 5).to_string();
        let ranks = (1 + seed % 4).to_string();
        let mut arguments = vec!["split", "--json", "-f", "-p", &count, "-n", &ranks];
        if seed % 2 == 0 {
            arguments.extend(["--targets", &targets]);
        }
        if seed % 3 == 0 {
            arguments.extend(["--min-ndims", "0"]);
        }
        let (master, back) = (path("parts.nc"), path("back.nc"));
        arguments.extend([text(&from), text(&master)]);
        let row: Value = serde_json::from_slice(&answer(striate(&arguments), seed)).unwrap();
        divided += u64::from(row["rows"][0]["partitions"].is_number());
        answer(striate(["join", "-f", "-n", "3", text(&master), text(&back)]), seed);
        // Byte for byte in definitions, their order and data.
        let expected = dumped(&from);
        assert!(dumped(&master) == expected, "{seed}");
        assert!(dumped(&back) == expected, "{seed}");
        same(&from, &master);
        same(&master, &back);
        let validated = striate(["validate", text(&master)]);
        assert!(validated.status.success(), "{seed}: {}", told(&validated));
        answer(striate(["info", text(&master)]), seed);
        answer(striate(["rm", text(&master)]), seed);
        assert_eq!(names(directory.path()), ["back.nc", "from.nc", "t0", "t1", "t2"]);
        for target in ["t0", "t1", "t2"] {
            assert!(names(&path(target)).is_empty());
        }
    }
    assert!(divided > 15, "{divided} of 40");
}

#[test]
fn large_datasets_are_split_in_batches() {
    let directory = tempfile::tempdir().unwrap();
    for large in [false, true] {
        let from = crate::big(large).write(directory.path(), "from.nc");
        let parts = directory.path().join("parts.nc");
        let back = directory.path().join("back.nc");
        // From whole to partitioned, to other partitions, to whole.
        answer(striate(["split", "-f", "-p", "5", "-n", "3", text(&from), text(&parts)]), "split");
        let other = ["split", "-f", "-p", "2", "--dim", "c=k", "--dim", "fixed=none"];
        answer(striate(other.into_iter().chain([text(&parts), text(&parts)])), "split again");
        assert_eq!(DatasetFiles::of(&parts).unwrap().partitions.len(), 2);
        same(&from, &parts);
        answer(striate(["join", "-f", text(&parts), text(&back)]), "join");
        same(&from, &back);
        // Nothing is left of the first partitions.
        let left = names(directory.path());
        assert_eq!(left.iter().filter(|name| name.contains(".part")).count(), 2, "{left:?}");
        // A copy is one file, and takes the place of all.
        answer(striate(["copy", "-f", text(&parts), text(&parts)]), "copy");
        same(&from, &parts);
        assert_eq!(names(directory.path()), ["back.nc", "from.nc", "parts.nc"]);
    }
}

#[test]
fn info_tells_where_parts_are() {
    let divided = DividedDataset::new(&["t0", "t1"]);
    let output = striate(["info", "--json", text(&divided.master)]);
    let row = &crate::rows(&output)[0];
    let found = &row["partitions"];
    assert_eq!((&found["by"], &found["whole"]), (&"striate".into(), &true.into()));
    let files = found["files"].as_array().unwrap();
    assert_eq!(files.len(), 3);
    for (index, (row, file)) in files.iter().zip(divided.partitions()).enumerate() {
        assert_eq!(row["index"], index);
        assert_eq!(row["file"], text(&file));
        assert_eq!(row["target"], text(&divided.path(["t0", "t1"][index % 2])));
        assert_eq!(row["size"], fs::metadata(&file).unwrap().len());
        let held = &row["variables"][0];
        assert_eq!((&held["variable"], &held["dimension"]), (&"fixed".into(), &"n".into()));
        assert_eq!(held["first"], 1501 * index / 3);
        assert_eq!(held["last"], 1501 * (index + 1) / 3 - 1);
    }
    let variables = row["variables"].as_array().unwrap();
    let kept: Vec<&Value> = variables.iter().filter(|it| it.get("begin").is_some()).collect();
    assert_eq!(kept.len(), 1);
    assert_eq!(kept[0]["name"], "d");
    let shown = told(&striate(["info", text(&divided.master)]));
    assert!(shown.contains("3 partitions, all there"), "{shown}");
    assert!(shown.contains("n 0..499 of fixed, a"), "{shown}");
    // The rest is told also if one is missing.
    fs::remove_file(&divided.partitions()[1]).unwrap();
    let output = striate(["info", "--json", text(&divided.master)]);
    let found = &crate::rows(&output)[0]["partitions"];
    assert_eq!(found["whole"], false);
    assert!(found["files"][1]["problem"].as_str().unwrap().contains("o such file"), "{found}");
    assert!(found["files"][1].get("size").is_none());
    let shown = told(&striate(["info", text(&divided.master)]));
    assert!(shown.contains("with problems") && shown.contains("o such file"), "{shown}");
}

#[test]
fn the_file_as_it_is_can_be_seen() {
    let divided = DividedDataset::new(&[]);
    let header = |arguments: &[&str]| {
        let all = [&["header"], arguments, &[text(&divided.master)]].concat();
        String::from_utf8(answer(striate(all), "header")).unwrap()
    };
    let whole = answer(striate(["header", "-n", "a", text(&divided.whole)]), "header");
    assert_eq!(header(&[]).as_bytes(), whole);
    let raw = header(&["--raw"]);
    assert!(raw.contains("partition_files") && raw.contains("double a ;"), "{raw}");
    let dump = ["dump", "--raw", "-v", "d", text(&divided.master)];
    assert!(
        String::from_utf8(answer(striate(dump), "dump")).unwrap().contains("striate_dataset_id")
    );
    // A partition is a file like others, of which one thing can be told.
    let part = &divided.partitions()[0];
    let shown = String::from_utf8(answer(striate(["header", text(part)]), "header")).unwrap();
    assert!(shown.contains("partition_index = 0"), "{shown}");
}

#[test]
fn validate_looks_at_partitions() {
    let divided = DividedDataset::new(&["t0"]);
    let all = |expected: i32| {
        let output = striate(["validate", text(&divided.master)]);
        assert_eq!(output.status.code(), Some(expected), "{}", told(&output));
        told(&output)
    };
    assert_eq!(all(0).matches(": valid CDF-5").count(), 4);
    let [first, second, third] = divided.partitions().try_into().unwrap();
    let bytes = fs::read(&second).unwrap();
    fs::write(&second, &bytes[..bytes.len() - 100]).unwrap();
    fs::copy(&first, &third).unwrap();
    let said = all(1);
    assert_eq!(said.matches(": valid CDF-5").count(), 2, "{said}");
    assert!(said.contains("it is partition 0, not 2"), "{said}");
    fs::remove_file(&first).unwrap();
    assert!(all(1).contains("o such file"));
    // The other commands refuse a dataset that is not whole.
    let to = divided.path("to.nc");
    for arguments in [
        vec!["dump", text(&divided.master)],
        vec!["copy", text(&divided.master), text(&to)],
        vec!["join", text(&divided.master), text(&to)],
        vec!["compare", text(&divided.master), text(&divided.whole)],
    ] {
        let said = complaint(&arguments, 1);
        assert!(said.contains(".part0000-") && said.contains("nc info"), "{arguments:?}: {said}");
    }
    assert!(!to.exists());
}

#[test]
fn what_exists_is_kept() {
    let divided = DividedDataset::new(&[]);
    let before = names(&divided.path("home"));
    let said = complaint(["split", "-p", "2", text(&divided.whole), text(&divided.master)], 1);
    assert!(said.contains("it exists") && said.contains("--force"), "{said}");
    assert_eq!(names(&divided.path("home")), before);
    // Nor does a mistake in what is asked for change anything.
    for wrong in ["a=no_such", "a=t", "no_such=n"] {
        let arguments = ["split", "-f", "-p", "2", "--dim", wrong];
        let arguments = arguments.into_iter().chain([text(&divided.whole), text(&divided.master)]);
        let said = complaint(arguments, 1);
        let variable = wrong.split('=').next().unwrap();
        assert!(said.contains(&format!("variable '{variable}'")), "{said}");
        assert_eq!(names(&divided.path("home")), before);
        same(&divided.whole, &divided.master);
    }
    let missing = divided.path("no/such");
    let to = divided.path("to.nc");
    let arguments = ["split", "-p", "2", "--targets", text(&missing)];
    let said = complaint(arguments.into_iter().chain([text(&divided.whole), text(&to)]), 1);
    assert!(said.contains("no/such"), "{said}");
    assert_eq!(names(divided.directory.path()), ["home", "whole.nc"]);
}

#[test]
fn a_split_that_is_interrupted_is_whole_or_not_there() {
    let directory = tempfile::tempdir().unwrap();
    let from = crate::big(false).write(directory.path(), "from.nc");
    let target = directory.path().join("t");
    fs::create_dir(&target).unwrap();
    for after in [0, 10, 30, 60, 120] {
        let to = directory.path().join("to.nc");
        let arguments = ["split", "-p", "3", "--targets", text(&target), text(&from), text(&to)];
        let mut child =
            command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // Wherever it is by then.
        std::thread::sleep(Duration::from_millis(after));
        let id = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.success(), to.exists());
        if to.exists() {
            same(&from, &to);
            answer(striate(["rm", text(&to)]), "rm");
        }
        assert_eq!(names(directory.path()), ["from.nc", "t"]);
        assert!(names(&target).is_empty());
    }
}

#[test]
fn a_split_that_fails_leaves_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let from = crate::big(false).write(directory.path(), "from.nc");
    let to = directory.path().join("to.nc");
    // Files may not become larger than 4 MiB.
    let script = "trap '' XFSZ; ulimit -f 4096; exec \"$0\" nc split -p 3 \"$1\" \"$2\"";
    let output = Command::new("bash")
        .args(["-c", script, env!("CARGO_BIN_EXE_striate"), text(&from), text(&to)])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert_eq!(names(directory.path()), ["from.nc"], "{}", told(&output));
}

#[test]
fn targets_can_be_probed() {
    let directory = tempfile::tempdir().unwrap();
    let from = Made::new(502).write(directory.path(), "from.nc");
    let targets: Vec<String> = (0..3)
        .map(|n| {
            let target = directory.path().join(format!("t{n}"));
            fs::create_dir(&target).unwrap();
            text(&target).to_owned()
        })
        .collect();
    let cache = directory.path().join("cache");
    let to = directory.path().join("to.nc");
    let output = command(["split", "--json", "--probe", "--targets", &targets.join(",")])
        .args(["--min-ndims", "0", text(&from), text(&to)])
        .env("STRIATE_CACHE_DIR", &cache)
        .env("STRIATE_HINTS", "nc_probe_size=64k")
        .output()
        .unwrap();
    let row: Value = serde_json::from_slice(&answer(output, "split")).unwrap();
    let told = row["rows"][0]["probe"].as_str().unwrap();
    assert!(told.contains("of 3 targets"), "{told}");
    same(&from, &to);
}

#[test]
fn servers_are_targets() {
    let servers = Embedded::start(3).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let from = crate::big(false).write(directory.path(), "from.nc");
    let url = format!("{}/run/a.nc", servers.url());
    let targets = servers.url();
    // One partition on each server.
    answer(striate(["split", "--targets", &targets, text(&from), &url]), "split");
    let output = striate(["info", "--json", &url]);
    let files = crate::rows(&output)[0]["partitions"]["files"].as_array().unwrap().clone();
    assert_eq!(files.len(), 3);
    let mut on: Vec<String> = files.iter().map(|row| row["servers"].to_string()).collect();
    on.sort();
    on.dedup();
    assert_eq!(on.len(), 3, "{on:?}");
    same(&from, &url);
    assert!(striate(["validate", &url]).status.success());
    let renamed = format!("{}/old/b.nc", servers.url());
    answer(striate(["mv", &url, &renamed]), "mv");
    same(&from, &renamed);
    assert!(complaint(["header", &url], 1).contains("a.nc"));
    let again = format!("{}/old/c.nc", servers.url());
    answer(striate(["mv", &renamed, &again]), "mv");
    let back = directory.path().join("back.nc");
    answer(striate(["join", &again, text(&back)]), "join");
    same(&from, &back);
    let elsewhere = complaint(["mv", &again, text(&directory.path().join("x.nc"))], 1);
    assert!(elsewhere.contains("copied there"), "{elsewhere}");
    answer(striate(["rm", &again]), "rm");
    let client = striate_store::remote::Client::shared(&servers.url().parse().unwrap()).unwrap();
    assert_eq!(client.list("").unwrap().len(), 0);
}

#[test]
fn sub_files_of_pnetcdf_are_joined() {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/array/tests/data/subfiles");
    let directory = tempfile::tempdir().unwrap();
    for name in ["plane", "four", "middle", "records"] {
        let master = data.join(format!("{name}.nc"));
        let expected = fs::read(data.join(format!("{name}.cdl"))).unwrap();
        assert!(answer(striate(["dump", text(&master)]), name) == expected, "{name}");
        let to = directory.path().join(format!("{name}.nc"));
        answer(striate(["join", text(&master), text(&to)]), name);
        assert!(answer(striate(["dump", text(&to)]), name) == expected, "{name}");
        same(&master, &to);
        let raw = answer(striate(["header", "--raw", text(&master)]), name);
        assert!(String::from_utf8(raw).unwrap().contains("_PnetCDF_SubFiling.num_subfiles"));
        let shown = told(&striate(["info", text(&master)]));
        assert!(shown.contains("all there, sub-files of PnetCDF"), "{shown}");
    }
    let said = complaint(["join", text(&data.join("lost.nc")), "/no/such/place"], 1);
    assert!(said.contains("subfile_0.nc") && said.contains("lost"), "{said}");
}
