//! `--json` of every subcommand: what it prints is JSON, or it is refused with a precise message.
//!
//! The subcommands are those that `--help` lists, at every level, so that a new one without an
//! entry fails the test.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod preloaded;

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use preloaded::striate;
use serde_json::Value;
use striate_hdf5::model::ByteOrder;
use striate_hdf5::write::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, Storage,
    VariableDefinition, VariableFill,
};
use striate_hdf5::write::{CommitStep, FilePlan, PlanOptions};
use striate_server::Embedded;

/// What a command prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Printed {
    /// A document with the version, the command line, the machine and rows.
    Document,
    /// An object in each line.
    Lines,
    /// A document on standard error, since standard output is the program's.
    DocumentOnStderr,
    /// Nothing: the combination is refused.
    Refused,
}
use Printed::{Document, DocumentOnStderr, Lines, Refused};

/// Set by `./test --no-lab`: nodes of namespaces cannot be built here.
const NO_LAB: &str = "STRIATE_NO_LAB";

/// A call of each subcommand, in an order in which they succeed; `URL` is that of servers, `HOST`
/// the address in it, `LAB` is the name of a lab.
const CALLS: &[(&str, Printed)] = &[
    ("describe vector(3,2,stride=4)", Document),
    ("quickstart --edge 8 --dir scratch", Document),
    ("bench pack --samples 3 --case vector", Document),
    ("bench tile-reader --frames 1 --method datatype --dir scratch", Document),
    ("bench block3d --edge 12 --method datatype --dir scratch", Document),
    ("bench flash --blocks 1 --method datatype --dir scratch", Document),
    ("bench strided --total 64KiB --dir scratch", Document),
    ("bench ior -b 64k -t 16k --dir scratch", Document),
    ("bench array coll-perf --edge 4 --ranks 2 --dir scratch", Document),
    ("bench array flash --blocks 1 --ranks 2 --dir scratch", Document),
    ("bench array s3d --edge 3 --ranks 2 --dir scratch", Document),
    ("bench array netcdf-bench --steps 3 --ranks 2 --dir scratch", Document),
    ("bench array whole --size 64KiB --dir scratch", Document),
    ("bench array open --variables 20 --ranks 2 --dir scratch", Document),
    ("bench array ior --size 64KiB --ranks 2 --dir scratch", Document),
    ("bench array compressed --edge 8 --ranks 2 --dir scratch", Document),
    (
        "bench array default-chunks --rows 4 --row 1KiB --old-row 64 --ranks 2 --dir scratch",
        Document,
    ),
    ("bench coll-perf --edge 4 --ranks 2 --dir scratch", Document),
    ("bench flash-io --blocks 1 --ranks 2 --dir scratch", Document),
    ("bench s3d --edge 3 --ranks 2 --dir scratch", Document),
    ("bench netcdf-bench --steps 3 --ranks 2 --dir scratch", Document),
    ("bench insitu --case overhead --rounds 3 --repeat 1 --dir scratch", Document),
    ("bench mount --size 1MiB --repeat 1 --dir scratch", Document),
    ("serve --print-config", Document),
    ("fs cp small URL/run/", Document),
    ("fs ls URL", Document),
    ("fs stat URL/run/small", Document),
    ("fs mv URL/run/small URL/run/other", Document),
    ("fs df URL", Document),
    ("fs health URL", Document),
    ("fs stats URL", Document),
    ("fs accept URL HOST", Document),
    ("fs rm URL/run/other", Document),
    ("fsck URL", Document),
    ("nc header a.nc", Document),
    ("nc dump a.nc", Document),
    ("nc dump -k a.nc", Refused),
    ("nc dump -x a.nc", Refused),
    ("nc info a.nc", Document),
    ("nc generate a.cdl generated.nc", Document),
    ("nc info --chunks h.nc", Document),
    ("nc header h.nc", Document),
    ("nc dump h.nc", Document),
    ("nc dump -x h.nc", Refused),
    ("nc validate h.nc", Document),
    ("nc recover h.nc a.nc", Document),
    ("nc index h.nc -o h.json", Document),
    ("nc index h.nc", Refused),
    ("nc copy a.nc b.nc", Document),
    ("nc split --min-ndims 0 --partitions 2 a.nc parts.nc", Document),
    ("nc join parts.nc whole.nc", Document),
    ("nc compare a.nc b.nc", Document),
    ("nc validate a.nc", Document),
    ("nc mv b.nc c.nc", Document),
    ("nc rm c.nc", Document),
    ("probe scratch --size 4KiB", Document),
    ("lab up --nodes 2 --name LAB", Document),
    ("lab status LAB", Document),
    ("lab link n2 --lab LAB --cut", Document),
    ("lab kill n2 --lab LAB", Document),
    ("lab start n2 --lab LAB", Document),
    ("lab run --lab LAB -- true", DocumentOnStderr),
    ("lab down LAB", Document),
    ("run --trace traces -- cp small copied", DocumentOnStderr),
    ("trace show traces", Lines),
    ("trace stats traces", Document),
    ("trace merge traces -o all.trace", Document),
    ("trace cut traces --kind write -o cut.trace", Document),
    ("trace export traces --format csv", Refused),
    ("trace import program.strace -o imported", Document),
    ("report traces", Document),
    ("report --text traces", Refused),
    ("compare traces all.trace", Document),
    ("replay traces --root scratch/replay", Document),
    ("mount source point --background", Lines),
    ("umount point", Document),
    ("stack list", Document),
    ("stack list --markdown", Refused),
    ("stack show count", Document),
    ("stack check count", Document),
    ("stack recover combine source", Document),
    ("stack unpack source", Document),
    ("doctor", Document),
    ("completions bash", Document),
];

/// A file of the classic format with a fixed variable of numbers, one of text and a global
/// attribute.
const CDL: &str = "netcdf a { dimensions: x = 3 ; n = 2 ; variables: double v(x) ; char t(x, n) ; \
                   :title = \"none\" ; data: v = 1.5, NaN, -2 ; t = \"ab\", \"cd\", \"ef\" ; }";

fn dataset(path: &Path) {
    let mut bytes = b"CDF\x01".to_vec();
    let name = |bytes: &mut Vec<u8>, text: &str| {
        bytes.extend((text.len() as u32).to_be_bytes());
        bytes.extend(text.bytes());
        bytes.resize(bytes.len().next_multiple_of(4), 0);
    };
    let words = |bytes: &mut Vec<u8>, words: &[u32]| {
        for word in words {
            bytes.extend(word.to_be_bytes());
        }
    };
    words(&mut bytes, &[0, 10, 2]);
    name(&mut bytes, "x");
    words(&mut bytes, &[3]);
    name(&mut bytes, "n");
    words(&mut bytes, &[2, 12, 1]);
    name(&mut bytes, "title");
    words(&mut bytes, &[2]);
    name(&mut bytes, "none");
    words(&mut bytes, &[11, 2]);
    // Both variables are as long as all before their data: names, dimensions, attributes, type,
    // size, begin.
    let (v, t) = (4 + 4 + 4 + 4 + 8 + 12, 4 + 4 + 4 + 8 + 8 + 12);
    let begin = (bytes.len() + v + t) as u32;
    name(&mut bytes, "v");
    words(&mut bytes, &[1, 0, 0, 0, 6, 24, begin]);
    name(&mut bytes, "t");
    words(&mut bytes, &[2, 0, 1, 0, 0, 2, 8, begin + 24]);
    assert_eq!(bytes.len(), begin as usize, "{CDL}");
    for value in [1.5, f64::NAN, -2.0] {
        bytes.extend(value.to_be_bytes());
    }
    bytes.extend(b"abcdef\0\0");
    fs::write(path, bytes).unwrap();
}

/// An HDF5 file that netCDF-4 can read, with a variable that nobody wrote.
fn hdf5_dataset(path: &Path) {
    let dimension = DimensionDefinition { group: 0, name: "x".into(), length: 5, unlimited: false };
    let variable = VariableDefinition {
        group: 0,
        name: "v".into(),
        datatype: AtomicType::Int.datatype(ByteOrder::Little),
        dimensions: vec![0],
        storage: Storage::Chunked(vec![2]),
        filters: Vec::new(),
        fill: VariableFill::Value,
        attributes: vec![AttributeDefinition::text("units", "m")],
    };
    let definition = FileDefinition {
        dimensions: vec![dimension],
        variables: vec![variable],
        ..FileDefinition::default()
    };
    let mut plan = FilePlan::create(definition, PlanOptions::default()).unwrap();
    let file = fs::File::create(path).unwrap();
    for step in plan.commit().unwrap().steps {
        match step {
            CommitStep::Write { address, bytes } => file.write_all_at(&bytes, address.0).unwrap(),
            CommitStep::Extend { length } => file.set_len(length).unwrap(),
            CommitStep::Sync => {}
        }
    }
}

fn called(words: &[&str], directory: &Path) -> Output {
    let mut command = striate();
    command.args(words).current_dir(directory).env("LC_ALL", "C.UTF-8").stdin(Stdio::null());
    command.env("TMPDIR", directory).output().unwrap()
}

/// The subcommands below this one that have none themselves, as words.
fn leaves(words: &[&str], found: &mut BTreeSet<String>) {
    let output = called(&[words, &["--help"]].concat(), Path::new("."));
    let help = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && help.contains("--json"), "{words:?}: {help}");
    let Some((_, listed)) = help.split_once("\nCommands:\n") else {
        found.insert(words.join(" "));
        return;
    };
    let names = listed.lines().take_while(|line| !line.is_empty());
    // Names are indented by two, what a long explanation goes on with by more.
    let names = names.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for name in names.map(|line| line.split_whitespace().next().unwrap()) {
        if name != "help" {
            leaves(&[words, &[name]].concat(), found);
        }
    }
}

fn document(words: &str, text: &[u8]) -> Value {
    let document: Value = serde_json::from_slice(text)
        .unwrap_or_else(|error| panic!("{words}: {error}: {}", String::from_utf8_lossy(text)));
    assert_eq!(document["striate"], env!("CARGO_PKG_VERSION"), "{words}");
    for field in ["command", "rows", "ratios"] {
        assert!(document[field].is_array(), "{words}: {field}");
    }
    assert!(document["machine"]["kernel"].is_string(), "{words}");
    document
}

#[test]
fn every_subcommand_prints_json_or_refuses_it() {
    preloaded::library();
    let directory = tempfile::tempdir().unwrap();
    for name in ["scratch", "scratch/replay", "source", "point"] {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    fs::write(directory.path().join("small"), "small").unwrap();
    let strace = "10 1700000000.000001 openat(AT_FDCWD, \"f\", O_RDONLY) = 3 <0.000010>\n\
                  10 1700000000.000100 read(3, \"\", 4096) = 0 <0.000005>\n\
                  10 1700000000.000200 close(3) = 0 <0.000001>\n";
    fs::write(directory.path().join("program.strace"), strace).unwrap();
    dataset(&directory.path().join("a.nc"));
    fs::write(directory.path().join("a.cdl"), CDL).unwrap();
    hdf5_dataset(&directory.path().join("h.nc"));
    let servers = Embedded::start(2).unwrap();

    let mut expected = BTreeSet::new();
    leaves(&[], &mut expected);
    // It serves until a signal ends it, below.
    assert!(expected.len() > 50 && expected.contains("serve"), "{expected:?}");
    for leaf in &expected {
        let has_entry = |(words, _): &&(&str, Printed)| {
            words
                .strip_prefix(leaf.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        };
        assert!(CALLS.iter().any(|call| has_entry(&call)), "no call of 'striate {leaf}' is tested");
    }
    let lab = format!("json-{}", std::process::id());
    let has_labs = std::env::var_os(NO_LAB).is_none();
    for &(words, printed) in CALLS.iter().filter(|(words, _)| has_labs || !words.contains("LAB")) {
        let line = words.replace("URL", &servers.url()).replace("LAB", &lab);
        let line = line.replace("HOST", servers.url().trim_start_matches("striate://"));
        let mut words: Vec<&str> = line.split(' ').collect();
        words.insert(words.iter().position(|word| *word == "--").unwrap_or(words.len()), "--json");
        let output = called(&words, directory.path());
        let (stdout, stderr) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
        let status = output.status.code();
        match printed {
            Document => {
                assert_eq!(status, Some(0), "{line}: {stderr}");
                document(&line, stdout);
            }
            DocumentOnStderr => {
                assert_eq!(status, Some(0), "{line}: {stderr}");
                document(&line, &output.stderr);
            }
            Lines => {
                assert_eq!(status, Some(0), "{line}: {stderr}");
                let text = std::str::from_utf8(stdout).unwrap();
                assert!(!text.is_empty(), "{line}");
                for text in text.lines() {
                    let value: Value = serde_json::from_str(text).unwrap();
                    assert!(value.is_object(), "{line}: {text}");
                }
            }
            Refused => {
                assert_eq!(status, Some(2), "{line}: {stderr}");
                let named = stderr.contains("'--json'") || stderr.contains("--json");
                assert!(stdout.is_empty() && named, "{line}: {stderr}");
            }
        }
    }
}

#[test]
fn a_server_prints_one_line_of_json() {
    let mut child: Child = Command::new(env!("CARGO_BIN_EXE_striate"))
        .args(["serve", "--embedded", "1", "--log", "off", "--json"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    assert!(child.wait().unwrap().success());
    let value: Value = serde_json::from_str(&line).unwrap();
    assert!(value["url"].as_str().unwrap().starts_with("striate://"), "{line}");
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "");
}

#[test]
fn datasets_in_json_have_definitions_and_values() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("a.nc");
    dataset(&file);
    let row = |words: &[&str]| {
        let output = called(&[&["nc"], words, &["--json", "a.nc"]].concat(), directory.path());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        document("nc", &output.stdout)["rows"][0].clone()
    };
    let header = row(&["header"]);
    assert_eq!(header["name"], "a");
    assert_eq!(header["kind"], "classic");
    assert_eq!(header["dimensions"][1]["name"], "n");
    let title = serde_json::json!({ "name": "title", "type": "char", "value": "none" });
    assert_eq!(header["attributes"], Value::Array(vec![title]));
    assert_eq!(header["variables"][1]["shape"], serde_json::json!([3, 2]));
    assert!(header["variables"][0].get("values").is_none());
    assert_eq!(row(&["dump", "-h"]), header);
    let values = |row: &Value, index: usize| row["variables"][index]["values"].clone();
    let dump = row(&["dump"]);
    assert_eq!(values(&dump, 0), serde_json::json!([1.5, "NaN", -2.0]));
    assert_eq!(values(&dump, 1), serde_json::json!(["ab", "cd", "ef"]));
    let one = row(&["dump", "-v", "t"]);
    assert_eq!((values(&one, 0), values(&one, 1)), (Value::Null, values(&dump, 1)));

    // Without its end, a file has values that are not known.
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() - 8 - 8]).unwrap();
    let output = called(&["nc", "dump", "--json", "a.nc"], directory.path());
    assert_eq!(output.status.code(), Some(1));
    let cut = &document("nc dump", &output.stdout)["rows"][0];
    assert_eq!(values(cut, 0), serde_json::json!([1.5, "NaN", null]));
    assert_eq!(values(cut, 1), serde_json::json!([null, null, null]));
    let output = called(&["nc", "dump", "--json", "-v", "w", "a.nc"], directory.path());
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
}
