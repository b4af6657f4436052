//! Files of other libraries, described and written further.
//!
//! `view.py` and `ncgen` make files with netCDF4, h5netcdf, h5py and netCDF-C. What [`describe`]
//! says about each must be what netCDF4 says; those that can be written again get attributes, a
//! variable and records, and all of it is read with netCDF4, h5py and `ncdump`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../oracle/cdl.rs"]
mod cdl;
mod extend;
#[path = "../netcdf_peers/tools.rs"]
#[allow(dead_code, reason = "its script is that of another test")]
mod tools;
mod view;
#[allow(dead_code, reason = "files are made by others")]
#[path = "../netcdf_peers/written.rs"]
mod written;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use striate_hdf5::File;
use striate_hdf5::netcdf::{NetcdfFile, NetcdfKind, describe};
use striate_testing::splitmix::SplitMix64;
use tools::run;

/// A command of `view.py`.
fn script(command: &str, directories: &[&Path]) {
    tools::script("netcdf_view/view.py", command, directories);
}

/// Files of all libraries, made once for all tests of a process.
fn made() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let directory = tools::directory("view");
        make(&directory);
        directory
    })
}

fn make(directory: &Path) {
    fs::create_dir(directory.join("unseen")).unwrap();
    fs::create_dir(directory.join("losses")).unwrap();
    script("make", &[directory]);
    for (number, text) in cdl::TEXTS.iter().enumerate() {
        let from = directory.join(format!("ncgen_{number}.cdl"));
        fs::write(&from, text).unwrap();
        let is_classic = ["group:", "types:", "string "].iter().all(|one| !text.contains(one));
        for (kind, name) in [("nc4", "model"), ("nc7", "classic")] {
            if kind == "nc4" || is_classic {
                let to = directory.join(format!("ncgen_{number}_{name}.nc"));
                run("ncgen", &["-k", kind, "-o", to.to_str().unwrap()], &from);
            }
        }
    }
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> =
        all.filter(|path| path.extension().is_some_and(|kind| kind == "nc")).collect();
    files.sort();
    files
}

fn described(path: &Path) -> NetcdfFile {
    let file = File::open(fs::read(path).unwrap()).unwrap();
    describe(&file).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn descriptions_are_what_netcdf4_says() {
    script("view", &[made()]);
    let files = files(made());
    for path in &files {
        view::check(path, &described(path));
    }
    assert!(files.len() >= 30, "{}", files.len());
}

#[test]
fn files_of_others_are_written_further() {
    let [more, grown] = ["more", "grown"].map(tools::directory);
    let mut count = 0;
    for path in files(made()) {
        let name = path.file_name().unwrap();
        if let Err(why) = described(&path).rewritable() {
            // Plain HDF5 has no dimensions.
            assert!(name.to_str().unwrap().starts_with("h5py_phony"), "{}: {why}", name.display());
            assert!(why.contains("have no scale"), "{why}");
            continue;
        }
        count += 1;
        let bytes = extend::with_more(&fs::read(&path).unwrap());
        fs::write(more.join(name), &bytes).unwrap();
        let bytes = extend::grown(&bytes);
        fs::write(grown.join(name), &bytes).unwrap();
        // NetCDF-C 4.9.0 crashes on variables of strings of a fixed length, also of these files as
        // they were.
        let has_fixed_strings = name.to_str().unwrap().starts_with("h5py_scales");
        let arguments: &[&str] = if has_fixed_strings { &["-h"] } else { &[] };
        for directory in [&more, &grown] {
            run("ncdump", arguments, &directory.join(name));
            run("h5dump", &[], &directory.join(name));
        }
    }
    script("compare", &[made(), &more]);
    script("compare", &[made(), &grown]);
    assert!(count >= 25, "{count}");
}

#[test]
fn files_of_which_a_commit_would_lose_something_are_not_rewritable() {
    let expected = [
        ("comment", "has a comment"),
        ("dimension_attribute", "attributes of a dimension"),
        ("external", "is stored in other files"),
        ("fill", "the fill value of \"/v\""),
        ("growing", "is not as long as its dimension \"x\""),
        ("shorter", "is not as long as its dimension \"x\""),
        ("two_links", "is another link"),
        ("type_attribute", "attributes of a type"),
        ("user_block", "a user block of 512 bytes"),
        ("virtual", "is virtual"),
    ];
    let files = files(&made().join("losses"));
    assert_eq!(files.len(), expected.len());
    for (path, (name, reason)) in files.iter().zip(expected) {
        assert_eq!(path.file_stem().unwrap(), name);
        let why = described(path).rewritable().unwrap_err();
        assert!(why.contains(reason), "{name}: {why}");
    }
}

#[test]
fn what_netcdf_cannot_see_is_named() {
    for path in files(&made().join("unseen")) {
        let found = described(&path);
        let mut paths: Vec<String> =
            found.unrepresented.iter().map(|one| one.path.to_string()).collect();
        paths.sort();
        // Of two links to an object, the first is the variable.
        let is_first = |name: &str| found.definition.variables.iter().any(|one| one.name == *name);
        let seen = if is_first("seen") { "seen" } else { "hard" };
        let other = if seen == "seen" { "/hard" } else { "/seen" };
        let mut expected: Vec<String> =
            ["CLASS", "reference", "two dimensions"].map(|name| format!("/{seen}@{name}")).to_vec();
        let names = [
            "/array",
            "/bits",
            "/dangling",
            "/external",
            "/half",
            "/null",
            "/number",
            "/references",
            "/soft",
            "/time",
            other,
        ];
        expected.extend(names.map(String::from));
        expected.sort();
        assert_eq!(paths, expected, "{}", path.display());
        assert_eq!(found.definition.variables.len(), 1);
        assert!(found.rewritable().is_err());
    }
}

#[test]
fn kinds_of_files_are_told_apart() {
    for path in files(made()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let kind = match name {
            _ if name.contains("classic") => NetcdfKind::Netcdf4Classic,
            _ if name.contains("phony") => NetcdfKind::Hdf5,
            _ => NetcdfKind::Netcdf4,
        };
        // Text 1 of ncgen has the name, but not the model.
        if name != "ncgen_1_model.nc" {
            assert_eq!(described(&path).kind, kind, "{name}");
        }
    }
}

#[test]
fn damaged_files_are_described_or_refused() {
    let random = &mut SplitMix64::new(7);
    let mut outcomes = [0; 3];
    // The old format has no checksums.
    for name in
        ["h5py_scales_earliest", "h5py_anonymous_earliest", "netcdf4_types", "ncgen_3_model"]
    {
        let bytes = fs::read(made().join(name).with_extension("nc")).unwrap();
        for _ in 0..400 {
            let mut damaged = bytes.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(damaged.len() as u64) as usize;
                damaged[at] = *random.pick(&[0, 1, 0x7f, 0x80, 0xff]);
            }
            let outcome = match extend::rewritten(&damaged) {
                Ok(true) => 0,
                Ok(false) => 1,
                Err(_) => 2,
            };
            outcomes[outcome] += 1;
        }
    }
    assert!(outcomes.iter().all(|&count| count > 0), "{outcomes:?}");
}
