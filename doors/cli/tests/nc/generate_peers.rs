//! Files that `striate nc generate` makes, beside those of `ncgen` from the same texts.
//!
//! The texts are in `cdl/`. The first line of each says for which formats it is compared, and
//! `storage` if `ncdump -s` is compared too. Where `ncgen` 4.9.0 is wrong there is no text:
//!
//! * `_` or missing values for compound types, their fields, enumerations (it fails or writes
//!   noise) and variable-length types (it writes one fill value);
//! * characters along an unlimited dimension that are shorter than the others (values move), and
//!   texts shorter than the last dimension of a record variable (it crashes);
//! * unlimited dimensions around a fixed one (an assertion fails); vlen types of char (no values);
//! * `\x` in texts; the sign of untyped attributes with negative and very large values;
//! * types are written in another order if one refers to a later kind.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use crate::tools::{answer, striate, told};

/// Our names of formats, and those of `ncgen`.
const FORMATS: [(&str, &str); 5] = [
    ("cdf1", "nc3"),
    ("cdf2", "nc6"),
    ("cdf5", "nc5"),
    ("netcdf4", "nc4"),
    ("netcdf4-classic", "nc7"),
];

/// Texts that there are at least.
const TEXTS: usize = 78;

fn tool(name: &str, arguments: &[&str]) -> Output {
    let output = Command::new(name).args(arguments).env("LC_ALL", "C").output();
    output.unwrap_or_else(|error| panic!("{name}: {error} (netcdf-bin has it)"))
}

/// What `ncdump` prints of a file.
fn dump(options: &[&str], path: &str) -> String {
    let arguments = [options, &["-n", "x", path]].concat();
    let printed = answer(tool("ncdump", &arguments), path);
    // What tells the two programs apart.
    let differs = |line: &&str| line.contains("_NCProperties") || line.contains("_SuperblockV");
    let text = String::from_utf8_lossy(&printed).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !differs(line)).collect();
    lines.join("\n")
}

/// An interpreter with netCDF4: `STRIATE_PYTHON`, or a virtual environment in the target directory,
/// which is created when it is first needed.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        if let Some(given) = std::env::var_os("STRIATE_PYTHON") {
            return given.into();
        }
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("python-netcdf");
        let python = home.join("bin/python");
        let has = Command::new(&python).args(["-c", "import netCDF4"]).output();
        if !has.is_ok_and(|output| output.status.success()) {
            answer(tool("python3", &["-m", "venv", home.to_str().unwrap()]), "venv");
            let install = ["-m", "pip", "install", "--quiet", "netCDF4"];
            answer(tool(python.to_str().unwrap(), &install), "pip");
        }
        python
    })
}

/// Python's netCDF4 finds the same in both files of each pair.
fn assert_equal_in_python(pairs: &[(String, String)]) {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nc/generate_peer.py");
    let mut child = Command::new(python())
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = child.stdin.take().unwrap();
    for (ours, theirs) in pairs {
        writeln!(lines, "{ours}\t{theirs}").unwrap();
    }
    drop(lines);
    let output = child.wait_with_output().unwrap();
    let expected = format!("{} pairs, 0 differences", pairs.len());
    assert!(told(&output).contains(&expected), "{}", told(&output));
}

#[test]
fn files_are_those_of_ncgen() {
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let texts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nc/cdl");
    let mut pairs = Vec::new();
    let mut found = 0;
    let mut wrong = Vec::new();
    for entry in fs::read_dir(texts).unwrap() {
        let text = entry.unwrap().path();
        let name = text.file_stem().unwrap().to_str().unwrap();
        let first = fs::read_to_string(&text).unwrap().lines().next().unwrap().to_owned();
        let words = first.strip_prefix("// formats:").unwrap_or_else(|| panic!("{name}"));
        let (formats, rest) = words.split_once(',').unwrap_or((words, ""));
        found += 1;
        for format in formats.split_whitespace() {
            let (ours, theirs) =
                (path(&format!("{name}-{format}.nc")), path(&format!("{name}-{format}-ncgen.nc")));
            let text = text.to_str().unwrap();
            let about = format!("{name} {format}");
            let kind = FORMATS.iter().find(|one| one.0 == format).map(|one| one.1);
            if let Some(kind) = kind {
                answer(tool("ncgen", &["-k", kind, "-o", &theirs, text]), &about);
                answer(striate(["generate", "--format", format, text, &ours]), &about);
            } else {
                assert_eq!(format, "default", "{name}");
                answer(tool("ncgen", &["-o", &theirs, text]), &about);
                answer(striate(["generate", text, "-o", &ours]), &about);
            }
            // The formats themselves are compared by netCDF4.
            let mut options: Vec<&[&str]> = vec![&["-p", "9,17"]];
            if rest.trim() == "storage" {
                options.push(&["-s"]);
            }
            for options in options {
                let (ours, theirs) = (dump(options, &ours), dump(options, &theirs));
                if ours != theirs {
                    wrong.push(format!("{about} {options:?}:\n{ours}\nbut ncgen:\n{theirs}\n"));
                }
            }
            pairs.push((ours, theirs));
        }
    }
    assert!(wrong.is_empty(), "{} differ\n{}", wrong.len(), wrong.join("\n"));
    assert!(found >= TEXTS, "only {found} texts");
    assert!(pairs.len() > 170, "only {} files", pairs.len());
    assert_equal_in_python(&pairs);
}
