//! Chunks that the HDF5 library and its plug-ins wrote are decoded, and ours are decoded by them.
//!
//! The other side is `peer.py`, with h5py and hdf5plugin.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use striate_hdf5::filter::{Pipeline, Scratch};
use striate_hdf5::model::Filter;

/// A chunk with its pipeline.
struct Case {
    name: String,
    /// The type of the elements, as numpy writes it.
    elements: String,
    filters: Vec<Filter>,
    filter_mask: u32,
    stored: Vec<u8>,
    chunk: Vec<u8>,
}

#[test]
fn chunks_of_the_library_are_decoded() {
    let directory = tempfile::tempdir().unwrap();
    ask("write", directory.path());
    let cases = read_cases(directory.path());
    let mut scratch = Scratch::new();
    let mut again = Scratch::new();
    let mut applied: BTreeMap<String, usize> = BTreeMap::new();
    let mut failures = Vec::new();
    for case in &cases {
        let pipeline = Pipeline::new(&case.filters);
        let mut chunk = vec![0xEE; case.chunk.len()];
        let result = pipeline.decode(case.filter_mask, &case.stored, &mut chunk, &mut scratch);
        if result.is_err() || chunk != case.chunk {
            failures.push(format!("{}: {result:?}", case.name));
            continue;
        }
        if case.filter_mask == 0 {
            *applied.entry(case.name.split(' ').next().unwrap().to_owned()).or_default() += 1;
        }
        // What leaves no choice to the encoder is encoded to the same bytes.
        let is_fixed = case.filters.iter().all(|filter| matches!(filter.id, 2 | 3 | 5));
        if is_fixed && case.filter_mask == 0 {
            let mandatory: Vec<Filter> = case
                .filters
                .iter()
                .map(|filter| Filter { optional: false, ..filter.clone() })
                .collect();
            let pipeline = Pipeline::new(&mandatory);
            let encoded = pipeline.encode(&case.chunk, &mut again).unwrap();
            assert!(encoded.bytes == case.stored, "{}: encoded otherwise", case.name);
        }
    }
    let shown = failures.iter().take(20).cloned().collect::<Vec<_>>().join("\n");
    assert!(failures.is_empty(), "{} of {} chunks:\n{shown}", failures.len(), cases.len());
    // Every variant was really applied to some chunks, but Blosc's level 0, which copies.
    assert!(applied.len() >= 44 && applied.values().all(|&count| count > 0), "{applied:?}");
    assert!(cases.len() > 5000, "{}", cases.len());
}

#[test]
fn our_chunks_are_decoded_by_the_library() {
    let directory = tempfile::tempdir().unwrap();
    let cases = our_cases();
    write_cases(directory.path(), &cases);
    let read = ask("read", directory.path());
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(read.lines().collect::<Vec<_>>(), names);
}

fn our_cases() -> Vec<Case> {
    let filter = |id: u16, parameters: &[u32]| Filter {
        id,
        name: "".into(),
        optional: true,
        parameters: parameters.to_vec(),
    };
    let mut cases = Vec::new();
    let mut scratch = Scratch::new();
    for (elements, size) in [("|u1", 1), ("<i2", 2), (">f4", 4), ("<f8", 8), ("|V12", 12)] {
        let shuffle = filter(2, &[size]);
        let checksum = filter(3, &[]);
        let mut pipelines = vec![vec![shuffle.clone()], vec![checksum.clone()]];
        let compressors = (0..10).map(|level| filter(1, &[level]));
        let compressors = compressors.chain([1, 9].map(|level| filter(307, &[level])));
        let compressors = compressors.chain([0, 100].map(|block| filter(32004, &[block])));
        let compressors = compressors.chain([1, 3, 15].map(|level| filter(32015, &[level])));
        for compressor in compressors {
            pipelines.push(vec![compressor.clone()]);
            pipelines.push(vec![shuffle.clone(), compressor.clone()]);
            let needed = Filter { optional: false, ..compressor.clone() };
            pipelines.push(vec![shuffle.clone(), needed, checksum.clone()]);
            pipelines.push(vec![checksum.clone(), compressor]);
        }
        for filters in pipelines {
            let pipeline = Pipeline::new(&filters);
            for (kind, count) in [("ramp", 1), ("ramp", 1000), ("noise", 777), ("ramp", 40_000)] {
                let chunk: Vec<u8> = (0..count * size)
                    .map(|at| match kind {
                        "ramp" => (at >> 3) as u8,
                        _ => (at.wrapping_mul(0x9E37_79B1).wrapping_mul(at | 1) >> 23) as u8,
                    })
                    .collect();
                let encoded = pipeline.encode(&chunk, &mut scratch).unwrap();
                let ids: Vec<u16> = filters.iter().map(|filter| filter.id).collect();
                cases.push(Case {
                    name: format!("{ids:?} {elements} {kind} {count}"),
                    elements: elements.to_owned(),
                    filters: filters.clone(),
                    filter_mask: encoded.filter_mask,
                    stored: encoded.bytes.to_vec(),
                    chunk,
                });
            }
        }
    }
    cases
}

fn write_cases(directory: &Path, cases: &[Case]) {
    let mut index = String::new();
    for case in cases {
        let filters: Vec<String> = case
            .filters
            .iter()
            .map(|filter| {
                let words = [u32::from(filter.id), u32::from(filter.optional)];
                let words = words.iter().chain(&filter.parameters).map(u32::to_string);
                words.collect::<Vec<_>>().join(",")
            })
            .collect();
        writeln!(
            index,
            "{}\t{}\t{}\t{}\t{}\t{}",
            case.name,
            case.elements,
            case.filter_mask,
            case.stored.len(),
            case.chunk.len(),
            filters.join(";")
        )
        .unwrap();
    }
    fs::write(directory.join("index"), index).unwrap();
    let stored: Vec<u8> = cases.iter().flat_map(|case| case.stored.iter().copied()).collect();
    fs::write(directory.join("stored"), stored).unwrap();
    let chunks: Vec<u8> = cases.iter().flat_map(|case| case.chunk.iter().copied()).collect();
    fs::write(directory.join("chunks"), chunks).unwrap();
}

fn read_cases(directory: &Path) -> Vec<Case> {
    let index = fs::read_to_string(directory.join("index")).unwrap();
    let stored = fs::read(directory.join("stored")).unwrap();
    let chunks = fs::read(directory.join("chunks")).unwrap();
    let (mut stored, mut chunks) = (&stored[..], &chunks[..]);
    let mut take = |line: &str| {
        let fields: Vec<&str> = line.split('\t').collect();
        let [name, elements, mask, stored_len, chunk_len, filters] = fields[..] else {
            panic!("{line}");
        };
        let filters = filters.split(';').map(|filter| {
            let words: Vec<u32> = filter.split(',').map(|word| word.parse().unwrap()).collect();
            Filter {
                id: words[0] as u16,
                name: "".into(),
                optional: words[1] == 1,
                parameters: words[2..].to_vec(),
            }
        });
        Case {
            name: name.to_owned(),
            elements: elements.to_owned(),
            filters: filters.collect(),
            filter_mask: mask.parse().unwrap(),
            stored: stored.split_off(..stored_len.parse().unwrap()).unwrap().to_vec(),
            chunk: chunks.split_off(..chunk_len.parse().unwrap()).unwrap().to_vec(),
        }
    };
    index.lines().map(&mut take).collect()
}

/// What a command of `peer.py` prints.
fn ask(command: &str, directory: &Path) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/filter_peers/peer.py");
    run(python(), &[script.to_str().unwrap(), command, directory.to_str().unwrap()])
}

fn run(program: &Path, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{} {arguments:?}: {error}", program.display());
    String::from_utf8(output.stdout).unwrap()
}

/// An interpreter with h5py and hdf5plugin: `STRIATE_PYTHON`, or a virtual environment in the
/// target directory, which is created when it is first needed.
fn python() -> &'static Path {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    PYTHON.get_or_init(|| {
        if let Some(given) = std::env::var_os("STRIATE_PYTHON") {
            return given.into();
        }
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let home = target.join("python-hdf5");
        let python = home.join("bin/python");
        let asked = Command::new(&python).args(["-c", "import h5py, hdf5plugin"]).output();
        if !asked.is_ok_and(|output| output.status.success()) {
            run(Path::new("python3"), &["-m", "venv", home.to_str().unwrap()]);
            run(&python, &["-m", "pip", "install", "--quiet", "h5py", "hdf5plugin"]);
        }
        python
    })
}
