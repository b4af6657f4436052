//! `striate nc` on netCDF-4 and other HDF5 files, beside ncdump, ncgen, h5py, netCDF4-python and
//! readers of Zarr.
#![cfg(feature = "peers")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "nc4/damaged.rs"]
mod damaged;
#[allow(dead_code, reason = "JSON is for the tests of the writer")]
#[path = "../../../crates/hdf5/tests/netcdf_peers/generated.rs"]
mod generated;
#[path = "nc4/index.rs"]
mod index;
#[path = "nc4/info.rs"]
mod info;
#[allow(dead_code, reason = "JSON is for the tests of the writer")]
#[path = "../../../crates/hdf5/tests/netcdf_peers/kind.rs"]
mod kind;
#[path = "nc/ncdump.rs"]
mod ncdump;
#[path = "nc4/ncml.rs"]
mod ncml;
#[path = "../../../crates/hdf5/tests/oracle/cdl.rs"]
mod oracle_texts;
#[path = "nc4/python.rs"]
mod python;
#[path = "nc4/recover.rs"]
mod recover;
#[path = "nc4/texts.rs"]
mod texts;
#[allow(dead_code, reason = "of what all tests of the command use")]
#[path = "nc/tools.rs"]
mod tools;
#[allow(dead_code, reason = "files are written once")]
#[path = "../../../crates/hdf5/tests/netcdf_peers/written.rs"]
mod written;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use generated::Generated;
use ncdump::{assert_same_dump, assert_same_text, tool};
use striate_server::Embedded;
use tools::{answer, striate, told};

/// Files that are drawn from seeds.
const DRAWN: u64 = 48;

/// A file that ncgen makes of a text.
fn generate(directory: &Path, name: &str, kind: &str, text: &str) -> Option<PathBuf> {
    let (source, made) = (directory.join("source.cdl"), directory.join(name));
    fs::write(&source, text).unwrap();
    let arguments = [OsStr::new("-k"), OsStr::new(kind), OsStr::new("-o"), made.as_os_str()];
    let output = tool("ncgen", arguments.into_iter().chain([source.as_os_str()]));
    (output.status.success() && made.exists()).then_some(made)
}

/// The same text with all options that say what is printed.
fn assert_all_dumps(path: &Path) {
    for options in [&[][..], &["-h"], &["-s"], &["-c"]] {
        assert_same_dump(options, path);
    }
}

/// The first variable whose name needs no escape on a command line.
fn plain_variable(path: &Path) -> Option<String> {
    let output = striate([OsStr::new("header"), OsStr::new("--json"), path.as_os_str()]);
    let document: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let row = &document["rows"][0];
    let groups = row["groups"].as_array().unwrap().iter().chain([row]);
    let variables = groups.flat_map(|group| group["variables"].as_array().unwrap());
    let mut names = variables.map(|variable| variable["name"].as_str().unwrap().to_owned());
    names.find(|name| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'))
}

#[test]
fn texts_of_users_are_those_of_ncdump() {
    let directory = tempfile::tempdir().unwrap();
    for (number, text) in texts::TEXTS.iter().chain(&oracle_texts::TEXTS).enumerate() {
        let name = format!("text{number}.nc");
        let path = generate(directory.path(), &name, "nc4", text)
            .unwrap_or_else(|| panic!("ncgen does not take text {number}"));
        if text.contains("none:_NoFill") {
            // What nobody wrote is whatever is in ncdump's memory.
            assert_same_dump(&["-h", "-s"], &path);
            assert_same_dump(&["-v", "chunked,summed,big,flat,time"], &path);
            continue;
        }
        assert_all_dumps(&path);
        assert_same_dump(&["-k"], &path);
        assert_same_dump(&["-t", "-p", "4,9", "-l", "40", "-n", "other"], &path);
        if let Some(variable) = plain_variable(&path) {
            assert_same_dump(&["-v", &variable], &path);
        }
    }
}

/// The texts that `striate nc generate` is tested with.
#[test]
fn texts_for_generate_are_those_of_ncdump() {
    let directory = tempfile::tempdir().unwrap();
    let texts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nc/cdl");
    let mut dumped = 0;
    for entry in fs::read_dir(texts).unwrap() {
        let text = entry.unwrap().path();
        let source = fs::read_to_string(&text).unwrap();
        let name = text.with_extension("nc");
        let name = name.file_name().unwrap().to_str().unwrap();
        // Some say what ncgen does not take.
        let Some(path) = generate(directory.path(), name, "nc4", &source) else { continue };
        dumped += 1;
        assert_all_dumps(&path);
        if let Some(variable) = plain_variable(&path) {
            assert_same_dump(&["-v", &variable], &path);
        }
    }
    assert!(dumped >= 60, "ncgen took {dumped} texts only");
}

/// Ncdump takes the first group with dimensions for that of a dimension which is in no outer group,
/// and so names another dimension; ours is right.
#[test]
fn dimensions_of_other_groups_have_their_path() {
    let directory = tempfile::tempdir().unwrap();
    let text = "netcdf paths { dimensions: n = 2 ; group: a { dimensions: n = 3 ; }
        group: b { variables: int v(/a/n) ; data: v = 6, 7, 8 ; } }";
    let path = generate(directory.path(), "paths.nc", "nc4", text).unwrap();
    let theirs = answer(tool("ncdump", [path.as_os_str()]), "ncdump");
    let theirs = String::from_utf8(theirs).unwrap();
    assert!(theirs.contains("int v(/n) ;"), "{theirs}");
    let ours = answer(striate([OsStr::new("dump"), path.as_os_str()]), "dump");
    assert_eq!(String::from_utf8(ours).unwrap(), theirs.replace("int v(/n) ;", "int v(/a/n) ;"));
}

/// Definitions of classic files in files of the classic model.
#[test]
fn the_classic_model_is_that_of_ncdump() {
    let directory = tempfile::tempdir().unwrap();
    for (number, text) in texts::CLASSIC.iter().chain(&oracle_texts::TEXTS[..2]).enumerate() {
        let name = format!("classic{number}.nc");
        let path = generate(directory.path(), &name, "nc7", text).unwrap();
        assert_all_dumps(&path);
        for options in [&["-k"][..], &["-x"], &["-x", "-h"], &["-t"]] {
            assert_same_dump(options, &path);
        }
    }
}

/// Files of our writer, and those that ncgen makes of their text.
#[test]
fn drawn_files_are_those_of_ncdump() {
    let directory = tempfile::tempdir().unwrap();
    let mut again = 0;
    for seed in 0..DRAWN {
        let made = Generated::new(seed);
        let path = directory.path().join(format!("drawn{seed}.nc"));
        fs::write(&path, made.write(false).bytes).unwrap();
        assert_same_dump(&["-s"], &path);
        let text = answer(tool("ncdump", [path.as_os_str()]), seed);
        let text = String::from_utf8_lossy(&text);
        if let Some(path) = generate(directory.path(), "again.nc", "nc4", &text) {
            again += 1;
            assert_same_dump(&["-s"], &path);
            fs::remove_file(path).unwrap();
        }
    }
    assert!(again >= 40, "ncgen took {again} texts only");
}

/// What h5py and netCDF4-python write, with and without conventions of netCDF.
#[test]
fn files_of_python_are_those_of_ncdump() {
    let directory = tempfile::tempdir().unwrap();
    python::run("make.py", &[directory.path().as_os_str()]);
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 12, "{files:?}");
    for path in files.iter().filter(|path| !path.to_str().unwrap().contains("unrepresented")) {
        assert_all_dumps(path);
    }
}

#[test]
fn what_netcdf_cannot_represent_is_named() {
    let directory = tempfile::tempdir().unwrap();
    python::run("make.py", &[directory.path().as_os_str()]);
    let path = directory.path().join("unrepresented.h5");
    let output = striate([OsStr::new("dump"), path.as_os_str()]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    let (text, errors) =
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap());
    assert!(text.contains("int plain(phony_dim_0) ;"), "{text}");
    assert!(text.contains(" plain = 1, 2, 3 ;"), "{text}");
    for name in ["references", "bits"] {
        assert!(errors.contains(&format!("/{name}: ")), "{errors}");
        assert!(!text.contains(name), "{text}");
    }
}

/// Variables whose elements are in other files are named; all others are read, copied and compared.
#[test]
fn elements_in_other_files_are_named() {
    let directory = tempfile::tempdir().unwrap();
    python::run("make.py", &[directory.path().as_os_str()]);
    let path = directory.path().join("unrepresented_elsewhere.h5");
    let copy = directory.path().join("copy.nc");
    let output = striate([OsStr::new("dump"), path.as_os_str()]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("cannot read the data of 'e'"), "{}", told(&output));
    assert!(told(&output).contains(" a = 1, 2, 3 ;"), "{}", told(&output));
    let output = striate(["compare".as_ref(), path.as_os_str(), path.as_os_str()]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    for expected in [": v: its elements are in other datasets", ": e: ", "no differences in what"] {
        assert!(told(&output).contains(expected), "{}", told(&output));
    }
    let output = striate(["copy".as_ref(), path.as_os_str(), copy.as_os_str()]);
    assert_eq!(output.status.code(), Some(1), "{}", told(&output));
    assert!(told(&output).contains("'e' cannot be copied: its elements are"), "{}", told(&output));
    let words = ["copy", "-x", "v,e"].map(OsStr::new);
    answer(striate(words.into_iter().chain([path.as_os_str(), copy.as_os_str()])), "copy");
    let dumped = answer(striate([OsStr::new("dump"), copy.as_os_str()]), "dump");
    assert!(String::from_utf8(dumped).unwrap().contains(" a = 1, 2, 3 ;"));
    let moved = directory.path().join("moved.h5");
    answer(striate(["mv".as_ref(), path.as_os_str(), moved.as_os_str()]), "mv");
    answer(striate(["rm".as_ref(), moved.as_os_str()]), "rm");
}

#[test]
fn servers_and_user_blocks_are_as_good_as_files() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Embedded::start(2).unwrap();
    let path = generate(directory.path(), "x.nc", "nc4", oracle_texts::TEXTS[2]).unwrap();
    let expected = answer(striate([OsStr::new("dump"), path.as_os_str()]), "dump");
    let url = format!("{}/some/x.nc", servers.url());
    let copy = ["fs".as_ref(), "cp".as_ref(), path.as_os_str(), url.as_ref()];
    let copied = std::process::Command::new(env!("CARGO_BIN_EXE_striate")).args(copy).output();
    answer(copied.unwrap(), &url);
    assert_same_text(&answer(striate(["dump", &url]), &url), &expected, &url);
    for command in ["header", "info", "validate"] {
        answer(striate([command, &url]), &url);
    }
    let plain = fs::read(&path).unwrap();
    for block in [512, 2048] {
        let moved = directory.path().join("y.nc");
        fs::write(&moved, [vec![b'#'; block], plain.clone()].concat()).unwrap();
        let arguments = ["dump".as_ref(), "-n".as_ref(), "x".as_ref(), moved.as_os_str()];
        assert_same_text(&answer(striate(arguments), block), &expected, block);
    }
}
