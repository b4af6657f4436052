//! The same text of a corpus of datasets, the same verdict on damaged ones, and copies without
//! differences, compared with ncdump, ncgen, ncvalidator and ncmpidiff.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use striate_array::format::{Alignment, Attribute, Dimension, Header, Variable};
use striate_array::{Format, Type, Values};

use crate::corpus::{Draw, Made};
use crate::ncdump::{assert_same_dump, assert_same_text, tool};
use crate::tools::{answer, striate, told};
use crate::{big, rows};

/// Datasets of the corpus.
const CORPUS: u64 = 240;

const FORMATS: [(Format, &str); 3] =
    [(Format::Cdf1, "cdf1"), (Format::Cdf2, "cdf2"), (Format::Cdf5, "cdf5")];

#[test]
fn dumps_are_those_of_ncdump() {
    let directory = tempfile::tempdir().unwrap();
    let mut seen = [false; 5];
    for seed in 0..CORPUS {
        let made = Made::new(seed);
        let path = made.write(directory.path(), &format!("{seed} a.b.nc"));
        assert_same_dump(&[], &path);
        let header = &made.header;
        let has_records = header.dimensions.iter().any(Dimension::is_unlimited);
        seen[0] |= has_records && header.records == 0;
        seen[1] |= has_records && header.records > 1;
        seen[2] |= header.variables.iter().any(|variable| variable.dimensions.is_empty());
        seen[3] |= header.variables.iter().any(|variable| variable.dimensions.len() > 3);
        seen[4] |= header.variables.is_empty();
        if seed % 4 == 0 {
            let text = answer(striate([OsStr::new("header"), path.as_os_str()]), "header");
            assert_same_text(
                &text,
                &answer(tool("ncdump", [OsStr::new("-h"), path.as_os_str()]), "ncdump"),
                path.display(),
            );
            assert_same_dump(&["-c"], &path);
            assert_same_dump(&["-k"], &path);
            // ncdump's -s fails with CDF-5.
            if header.format != Format::Cdf5 {
                assert_same_dump(&["-s"], &path);
            }
            assert_same_dump(&["-p", "4,9", "-n", "other name"], &path);
            assert_same_dump(&["-l", "30", "-p", "9"], &path);
        }
        let plain = |variable: &&Variable| {
            variable.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        if let Some(variable) = header.variables.iter().find(plain) {
            assert_same_dump(&["-v", &variable.name], &path);
        }
    }
    assert_eq!(seen, [true; 5], "the corpus lacks something");
}

/// Units and calendars, and numbers of which some are far away.
#[test]
fn dates_are_those_of_ncdump() {
    let directory = tempfile::tempdir().unwrap();
    let units = [
        "days since 2000-1-1 0:0:0",
        "hours since 1990-01-01T12:00:00Z",
        "seconds since 1970-01-01",
        "minutes since 1582-10-10 10:20:30.25",
        "weeks since 1-1-1",
        "months since 1999-12-31 10:20:30",
        "years since 1900-03-01",
        "seasons since 2001-05-06",
        "Days since 1500-02-28",
        "m",
        "days from 2000-01-01",
    ];
    let calendars = [
        "",
        "gregorian",
        "standard",
        "proleptic_gregorian",
        "noleap",
        "all_leap",
        "360_day",
        "julian",
    ];
    let mut header = Header::new(Format::Cdf2);
    header.dimensions.push(Dimension::classic("x", 12));
    let mut made = Made { header, data: Vec::new() };
    let mut draw = Draw::new(7);
    for unit in units {
        for calendar in calendars {
            let name = format!("v{}", made.data.len());
            let mut attributes = vec![Attribute { name: "units".into(), values: unit.into() }];
            if !calendar.is_empty() {
                attributes.push(Attribute { name: "calendar".into(), values: calendar.into() });
            }
            let count = made.data.len() % 5 + 1;
            let list: Vec<i32> = (0..count as i32).map(|n| 100 * n - 50).collect();
            attributes.push(Attribute { name: "range".into(), values: Values::Int(list) });
            let values = (0..12).map(|n| match n {
                0..6 => draw.below(200_000) as f64 - 100_000.0,
                6..10 => draw.below(1_000_000) as f64 / 1024.0,
                10 => f64::NAN,
                _ => 0.0,
            });
            made.data.push(Values::Double(values.collect()));
            made.header
                .variables
                .push(Variable { attributes, ..Variable::new(name, Type::Double, vec![0]) });
        }
    }
    // The bounds of the first are times as well.
    let bounds = Attribute { name: "bounds".into(), values: "v80".into() };
    made.header.variables[0].attributes.push(bounds);
    made.header.arrange(&Alignment::default(), None).unwrap();
    let path = made.write(directory.path(), "times.nc");
    assert_same_dump(&["-t"], &path);
    // It escapes what XML needs in values, but not in names; ours are plain here.
    assert_same_dump(&["-x"], &path);
    assert_same_dump(&["-x", "-h"], &path);
    assert_same_dump(&["-t", "-h", "-l", "60"], &path);
}

/// What ncgen makes of the text that we print of a dataset.
fn generated(made: &Made, kind: &str, directory: &Path, name: &str) -> Option<PathBuf> {
    let path = made.write(directory, "source.nc");
    let text = directory.join("source.cdl");
    fs::write(&text, answer(striate([OsStr::new("dump"), path.as_os_str()]), "dump")).unwrap();
    let made = directory.join(name);
    let arguments = [OsStr::new("-k"), OsStr::new(kind), OsStr::new("-o"), made.as_os_str()];
    let output = tool("ncgen", arguments.into_iter().chain([text.as_os_str()]));
    (output.status.success() && made.exists()).then_some(made)
}

#[test]
fn files_of_ncgen_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let mut read = 0;
    for seed in 0..90 {
        let made = Made::tame(seed + 10_000);
        let kind = match made.header.format {
            Format::Cdf1 => "nc3",
            Format::Cdf2 => "nc6",
            _ => "nc5",
        };
        // ncgen does not take all text that ncdump prints.
        let Some(path) = generated(&made, kind, directory.path(), &format!("{seed}.nc")) else {
            continue;
        };
        assert_same_dump(&[], &path);
        let valid = striate([OsStr::new("validate"), path.as_os_str()]);
        assert!(valid.status.success(), "{seed}: {}", told(&valid));
        read += 1;
    }
    assert!(read >= 50, "ncgen made only {read} files");
}

#[test]
fn valid_is_what_ncvalidator_finds_valid() {
    let directory = tempfile::tempdir().unwrap();
    let mut wrong = 0;
    for seed in 0..45 {
        let made = Made::new(seed);
        let path = made.write(directory.path(), "whole.nc");
        let ours = striate([OsStr::new("validate"), path.as_os_str()]);
        let theirs = tool("ncvalidator", [OsStr::new("-q"), path.as_os_str()]);
        assert!(ours.status.success() && theirs.status.success(), "{seed}: {}", told(&ours));

        let bytes = made.bytes();
        for (damage, damaged) in damages(seed, &made.header, &bytes) {
            let path = directory.path().join("damaged.nc");
            fs::write(&path, damaged).unwrap();
            let ours = striate([OsStr::new("validate"), path.as_os_str()]);
            let theirs = tool("ncvalidator", [OsStr::new("-q"), path.as_os_str()]);
            let verdicts = (ours.status.code(), theirs.status.code().map(|code| code.min(1)));
            assert_eq!(verdicts, (Some(1), Some(1)), "{seed}, {damage}: {}", told(&ours));
            wrong += 1;
        }
    }
    assert!(wrong > 200, "only {wrong} damaged files");
}

/// The file, damaged in ways that all tools find.
fn damages(seed: u64, header: &Header, bytes: &[u8]) -> Vec<(&'static str, Vec<u8>)> {
    let mut draw = Draw::new(seed + 77);
    let wide = if header.format == Format::Cdf5 { 8 } else { 4 };
    let len = header.encoded_len();
    let with = |at: usize, new: &[u8]| {
        let mut bytes = bytes.to_vec();
        bytes[at..at + new.len()].copy_from_slice(new);
        bytes
    };
    let mut found = vec![
        ("magic", with(draw.below(3) as usize, b"X")),
        ("version", with(3, &[*[0, 3, 4, 6, 9, 255].get(draw.below(6) as usize).unwrap()])),
        ("unfinished", with(0, b"cdf")),
    ];
    if !header.dimensions.is_empty() {
        found.push(("tag of dimensions", with(4 + wide, &[0, 0, 0, 0xb])));
        found.push(("many dimensions", with(4 + wide + 4, &[0x7f, 0xff, 0xff, 0xff])));
    }
    if let Some(last) = header.variables.last() {
        // The end of the header: type, size and begin of the last variable.
        let begin = if header.format == Format::Cdf1 { 4 } else { 8 };
        let kind = len as usize - begin - wide - 4;
        // What is cut off reads as zeros elsewhere, so something must be lost by that.
        found.push(("header cut off", bytes[..len as usize - begin].to_vec()));
        found.push(("type", with(kind, &[0, 0, 0, 12])));
        found.push(("begin in the header", with(len as usize - begin, &vec![0; begin])));
        if !last.dimensions.is_empty() && last.attributes.is_empty() {
            let absent = 4 + wide;
            found.push(("dimension id", with(kind - absent - wide, &vec![0x11; wide])));
        }
    }
    found
}

#[test]
fn copies_are_the_same_in_all_formats() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name);
    let mut copies = 0;
    for seed in 0..16 {
        let made = Made::new(seed + 500);
        let from = made.write(directory.path(), "from.nc");
        let text =
            answer(tool("ncdump", [OsStr::new("-n"), OsStr::new("x"), from.as_os_str()]), seed);
        let fits = |format: Format| {
            let all = |list: &[Attribute]| {
                list.iter().all(|attribute| attribute.values.external().is_in(format))
            };
            all(&made.header.attributes)
                && made
                    .header
                    .variables
                    .iter()
                    .all(|v| v.external.is_in(format) && all(&v.attributes))
        };
        for (format, name) in FORMATS {
            let ranks = (1 + seed % 3).to_string();
            let (there, back) = (path("there.nc"), path("back.nc"));
            let copy = |from: &Path, to: &Path, format: &str| {
                let options = ["copy", "-f", "-n", ranks.as_str(), "--format", format];
                let paths = [from, to].map(Path::as_os_str);
                striate(options.iter().map(OsStr::new).chain(paths))
            };
            let copied = copy(&from, &there, name);
            if !fits(format) {
                assert_eq!(copied.status.code(), Some(1), "{seed} {name}: {}", told(&copied));
                assert!(told(&copied).contains("does not have"), "{}", told(&copied));
                continue;
            }
            answer(copied, format!("{seed} {name}"));
            let own = FORMATS.iter().find(|(format, _)| *format == made.header.format).unwrap().1;
            answer(copy(&there, &back, own), format!("{seed} back from {name}"));
            for copied in [&there, &back] {
                let about = format!("{seed} {name} {}", copied.display());
                let arguments = [OsStr::new("-n"), OsStr::new("x"), copied.as_os_str()];
                assert_same_text(&answer(tool("ncdump", arguments), &about), &text, &about);
                let compared =
                    striate([OsStr::new("compare"), from.as_os_str(), copied.as_os_str()]);
                assert_eq!(told(&compared), "no differences\n", "{about}");
                let valid = tool("ncvalidator", [copied.as_os_str()]);
                assert!(valid.status.success(), "{about}: {}", told(&valid));
                assert_eq!(
                    fs::read(copied).unwrap()[3],
                    if *copied == there { format.version() } else { made.header.format.version() }
                );
            }
            if !made.has_nan() {
                let found = tool("ncmpidiff", [from.as_os_str(), back.as_os_str()]);
                assert!(found.status.success(), "{seed} {name}: {}", told(&found));
            }
            copies += 2;
        }
    }
    assert!(copies > 45, "only {copies} copies");
    // Nothing is left of names that copies had on the way.
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 3);
}

#[test]
fn differences_are_told() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let write = |name: &str, text: &str| {
        fs::write(path("text.cdl"), text).unwrap();
        answer(tool("ncgen", ["-k", "nc5", "-o", &path(name), &path("text.cdl")]), name);
        path(name)
    };
    let a = write("a.nc", "netcdf a { dimensions: t = UNLIMITED; x = 3; variables: int v(t, x); v:units = \"m\";
        double d(x); char c(x); int64 only; data: v = 1,2,3,4,5,6; d = 1, NaN, 3; c = \"abc\"; only = 1; }");
    let b = write("b.nc", "netcdf b { dimensions: t = UNLIMITED; x = 3; variables: int v(t, x); v:units = \"km\";
        double d(x); char c(x); :title = \"t\"; data: v = 1,2,3,9,5,7; d = 1.25, NaN, 3; c = \"abd\"; }");
    for ranks in ["1", "2", "5"] {
        let output = striate(["compare", "-n", ranks, &a, &b]);
        assert_eq!(output.status.code(), Some(1));
        let expected = "\
attribute 'title': in the second only
variable 'v', attribute 'units': \"m\" <> \"km\"
variable 'only': in the first only
variable 'v': 2 of 6 values differ, first at (1, 0): 4 <> 9; they differ by at most 5
variable 'd': 1 of 3 values differ, first at (0): 1. <> 1.25; they differ by at most 0.25
variable 'c': 1 of 3 values differ, first at (2): \"c\" <> \"d\"
";
        assert_eq!(told(&output), expected);
    }
    assert!(striate(["compare", &a, &a]).status.success());
    let output = striate(["compare", "--data-only", "--tolerance", "1", "--json", &a, &b]);
    let rows = rows(&output);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert_eq!((&rows[0]["variable"], &rows[0]["differing"]), (&"v".into(), &1.into()));
    assert_eq!(rows[0]["index"], serde_json::json!([1, 0]));
    assert_eq!(rows[0]["largest_difference"], 5.0);
    let output = striate(["compare", "--header-only", "--json", &a, &b]);
    assert_eq!(crate::rows(&output).len(), 3);
}

#[test]
fn large_copies_are_those_of_pnetcdf() {
    let directory = tempfile::tempdir().unwrap();
    for large in [false, true] {
        let from = big(large).write(directory.path(), "from.nc");
        let to = directory.path().join("to.nc");
        let paths = [from.as_os_str(), to.as_os_str()];
        let options = ["copy", "-f", "-n", "2"].map(OsStr::new);
        answer(striate(options.into_iter().chain(paths)), "copy");
        let found = tool("ncmpidiff", paths);
        assert!(found.status.success(), "{}", told(&found));
    }
}
