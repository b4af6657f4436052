//! Darshan logs: what is read in them is what the package `darshan` of `PyPI` reads, in the logs
//! that it ships and in those that are written here, for versions, byte orders and compressions
//! that it does not ship.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};

use striate_report::compare::{self, Input};
use striate_report::{Options, darshan, page, text};
use striate_testing::darshan_log::{self, Order, Packed, example};

fn written(directory: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

#[test]
fn the_page_and_the_text_show_what_darshan_users_look_for() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = example(41, Order::Little, Packed::Zlib).bytes();
    let path = written(directory.path(), "job.darshan", &bytes);
    let (model, made) = darshan::read(&path, &Options::default()).unwrap();
    assert_eq!(made.unwrap().recording.records_count(), 10);
    let log = model.darshan.as_ref().unwrap();
    assert_eq!((log.job, log.ranks, log.run_ns), (4711, 2, 12_500_000_000));
    let sharing: Vec<_> = log.sharing.iter().map(|row| (row.ranks.as_str(), row.files)).collect();
    assert_eq!(sharing, [("all ranks", 1), ("one rank", 2)]);
    let mounts: Vec<_> = log.mounts.iter().map(|row| (row.path.as_str(), row.files)).collect();
    assert!(mounts.contains(&("/lustre", 2)) && mounts.contains(&("/home", 1)), "{mounts:?}");
    assert_eq!((model.totals.files, model.totals.ranks), (3, 2));
    assert_eq!(model.recording.complaints, [""; 0]);
    let shown = text::render(&model, &text::Style { width: 200, ..text::Style::default() });
    let page = page::render(&model);
    for words in [
        "4711",
        "2023-11-14 22:13:20 UTC",
        "./model -n 2",
        "/lustre",
        "ext4",
        "all ranks",
        "one rank",
        "independent",
        "collective",
        "nonblocking",
        "100K to 1M",
        "slowest",
        "10 reads and writes",
        "cb_nodes=4",
    ] {
        assert!(words == "ext4" || shown.contains(words), "{words} is missing in\n{shown}");
        assert!(words == "ext4" || page.contains(words), "{words} is missing in the page");
    }
    let json = serde_json::to_value(&model).unwrap();
    assert_eq!(json["darshan"]["job"], 4711);
    assert_eq!(json["darshan"]["layers"][0]["common_sizes"].as_array().unwrap().len(), 5);
}

#[test]
fn counters_alone_make_a_report_that_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let mut log = example(21, Order::Big, Packed::Bzip2);
    log.modules.retain(|module| module.number < darshan_log::DXT_POSIX);
    log.partial = 1 << darshan_log::POSIX;
    let path = written(directory.path(), "job.darshan", &log.bytes());
    let (model, made) = darshan::read(&path, &Options::default()).unwrap();
    assert!(made.is_none() && model.findings.is_empty());
    assert_eq!(model.recording.complaints.len(), 1);
    assert!(model.recording.complaints[0].contains("POSIX: the log is partial"));
    let shown = text::render(&model, &text::Style { width: 200, ..text::Style::default() });
    for words in ["the log is partial", "counters only", "DXT_ENABLE_IO_TRACE"] {
        assert!(shown.contains(words), "{words} is missing in\n{shown}");
    }
    assert!(!shown.contains("Nothing stands out"), "{shown}");
}

#[test]
fn a_log_that_is_cut_is_reported_as_far_as_it_goes() {
    let directory = tempfile::tempdir().unwrap();
    let bytes = example(41, Order::Little, Packed::Zlib).bytes();
    for length in (1328..bytes.len()).step_by(97) {
        let path = written(directory.path(), "cut.darshan", &bytes[..length]);
        let (model, _) = darshan::read(&path, &Options::default()).unwrap();
        assert!(!model.recording.complaints.is_empty(), "{length}");
        assert!(page::render(&model).contains("Some data could not be read"));
    }
    let path = written(directory.path(), "cut.darshan", &bytes[..1000]);
    let error = darshan::read(&path, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("ends within its header"), "{error}");
}

#[test]
fn two_logs_are_compared() {
    let directory = tempfile::tempdir().unwrap();
    let first = example(21, Order::Little, Packed::Zlib);
    let mut second = first.clone();
    second.modules[0].parts.pop();
    let open = |name: &str, log: &darshan_log::LogImage| {
        Input::open(&written(directory.path(), name, &log.bytes())).unwrap()
    };
    let found = compare::compare(&open("a.darshan", &first), &open("b.darshan", &second)).unwrap();
    let of = |subject: &str, what: &str| {
        let change = found.changes.iter().find(|c| c.subject == subject && c.what == what);
        change.map(|change| (change.a, change.b)).unwrap()
    };
    // The third record of POSIX has 5 reads: of rank 1, each counter is one more than its place.
    assert_eq!(of("POSIX", "POSIX_READS"), (13.0, 8.0));
    assert_eq!(of("MPI-IO", "MPIIO_COLL_READS"), (16.0, 16.0));
}

/// With the package of others.
#[cfg(feature = "peers")]
mod peers {
    use std::collections::BTreeMap;
    use std::process::Command;

    use serde_json::Value;
    use striate_darshan::{Direction, Log, Module};

    use super::*;

    /// A python that has darshan: `STRIATE_PYTHON`, or one beside what cargo builds, which is made
    /// when it is needed.
    fn python() -> PathBuf {
        if let Some(given) = std::env::var_os("STRIATE_PYTHON") {
            return given.into();
        }
        let home = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap().join("python");
        let python = home.join("bin/python");
        let run = |program: &Path, arguments: &[&str]| {
            Command::new(program).args(arguments).status().is_ok_and(|status| status.success())
        };
        if !run(&python, &["-c", "import darshan"]) {
            let venv = ["-m", "venv", home.to_str().unwrap()];
            assert!(python.exists() || run(Path::new("python3"), &venv));
            assert!(run(&python, &["-m", "pip", "install", "--quiet", "darshan"]));
        }
        python
    }

    /// The logs that the package ships.
    fn shipped() -> Vec<PathBuf> {
        let code = "import darshan, os; print(os.path.dirname(darshan.__file__))";
        let output = Command::new(python()).args(["-c", code]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut found = Vec::new();
        let mut open = vec![PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())];
        while let Some(directory) = open.pop() {
            for entry in std::fs::read_dir(directory).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    open.push(path);
                } else if path.extension().is_some_and(|ending| ending == "darshan") {
                    found.push(path);
                }
            }
        }
        found.sort();
        assert!(found.len() >= 5, "{found:?}");
        found
    }

    fn dumped(logs: &[PathBuf]) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/darshan/dump.py");
        let output = Command::new(python()).arg(script).args(logs).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    #[test]
    fn the_logs_that_it_ships_are_read_alike() {
        let logs = shipped();
        let all = dumped(&logs);
        for path in &logs {
            same(path, &all[path.to_str().unwrap()]);
        }
    }

    #[test]
    fn logs_of_other_versions_are_read_alike() {
        let directory = tempfile::tempdir().unwrap();
        let mut logs = Vec::new();
        for minor in [0, 10, 20, 21, 41] {
            for order in [Order::Little, Order::Big] {
                // Its reader turns the bytes of old records around that it fills in itself.
                if order == Order::Big && minor < 20 {
                    continue;
                }
                let name = format!("{minor}-{order:?}.darshan");
                let log = known_to_the_package(example(minor, order, Packed::Zlib));
                logs.push((written(directory.path(), &name, &log.bytes()), log));
            }
        }
        let paths: Vec<PathBuf> = logs.iter().map(|log| log.0.clone()).collect();
        let all = dumped(&paths);
        for (path, log) in logs {
            same(&path, &all[path.to_str().unwrap()]);
            // The package is built without bzip2: what it reads in the same log with zlib counts.
            let bytes = darshan_log::LogImage { packed: Packed::Bzip2, ..log }.bytes();
            let twin = written(directory.path(), "twin.darshan", &bytes);
            same(&twin, &all[path.to_str().unwrap()]);
        }
    }

    /// A log with the extended traces of Darshan 3.2: the package (3.5.0) does not read those with
    /// threads. Components of layouts that are not used make it read memory that it has freed:
    /// there are none.
    fn known_to_the_package(mut log: darshan_log::LogImage) -> darshan_log::LogImage {
        if log.minor == 41 {
            let layouts =
                log.modules.iter_mut().find(|module| module.number == darshan_log::LUSTRE);
            layouts.unwrap().parts = vec![darshan_log::layout(log.order, 12, 2, 0)];
            let is_traces =
                |module: &darshan_log::ModuleImage| module.number >= darshan_log::DXT_POSIX;
            log.modules.retain(|module| !is_traces(module));
            let older = example(21, log.order, log.packed).modules;
            log.modules.extend(older.into_iter().filter(is_traces));
        }
        log
    }

    /// A log is the same to both.
    fn same(path: &Path, told: &Value) {
        let what = path.display();
        let bytes = std::fs::read(path).unwrap();
        let log = Log::parse(&bytes).unwrap();
        assert_eq!(log.damage, [], "{what}");
        let job = &told["job"];
        assert_eq!(job["uid"], log.job.user, "{what}");
        assert_eq!(job["jobid"], log.job.id, "{what}");
        assert_eq!(job["nprocs"], log.job.processes, "{what}");
        assert_eq!(job["start_time_sec"], (log.job.start_ns / 1_000_000_000) as i64, "{what}");
        assert_eq!(job["end_time_sec"], (log.job.end_ns / 1_000_000_000) as i64, "{what}");
        let seconds = log.job.length_ns as f64 / 1e9;
        assert!((job["run_time"].as_f64().unwrap() - seconds).abs() < 1e-6, "{what}");
        assert_eq!(job["metadata"], serde_json::to_value(&log.job.metadata).unwrap(), "{what}");
        // A command line that fills the record has no end for its reader, which then has no mounts
        // either.
        let command = told["exe"].as_str().unwrap();
        if !command.is_empty() {
            assert_eq!(command.trim(), log.job.command, "{what}");
            let pairs = |mounts: Vec<(String, String)>| {
                let mut mounts = mounts;
                mounts.sort();
                mounts
            };
            let text = |value: &Value| value.as_str().unwrap().to_owned();
            let theirs = told["mounts"].as_array().unwrap().iter();
            let theirs = theirs.map(|pair| (text(&pair[0]), text(&pair[1]))).collect();
            let ours = log.job.mounts.iter();
            let ours = ours.map(|mount| (mount.path.clone(), mount.kind.clone())).collect();
            assert_eq!(pairs(ours), pairs(theirs), "{what}");
        }
        for (id, name) in told["names"].as_object().unwrap() {
            assert_eq!(log.name(id.parse().unwrap()), name.as_str(), "{what}");
        }
        assert_eq!(log.names(), told["names"].as_object().unwrap().len(), "{what}");
        let ours: BTreeMap<String, u32> = log
            .modules()
            .map(|module| (module.name(), log.header.module_version(module)))
            .collect();
        assert_eq!(told["modules"], serde_json::to_value(ours).unwrap(), "{what}");

        for module in [Module::POSIX, Module::MPI_IO, Module::STDIO] {
            let mut ours = Vec::new();
            log.counters(module, &mut |record| {
                let bits: Vec<u64> = record.times.iter().map(|time| time.to_bits()).collect();
                ours.push(serde_json::json!([record.id, record.rank, record.counters, bits]));
            })
            .unwrap();
            let theirs = told["records"].get(module.name());
            let mut theirs = theirs.and_then(Value::as_array).cloned().unwrap_or_default();
            // It loses the last times of these records when it makes room for newer counters.
            if module == Module::POSIX && [2, 3].contains(&log.header.module_version(module)) {
                for record in ours.iter_mut().chain(&mut theirs) {
                    let times = record[3].as_array_mut().unwrap();
                    times.truncate(times.len() - 4);
                }
            }
            assert_eq!(ours, theirs, "{what}: {}", module.name());
            totals(path, &log, module, &theirs);
        }
        for module in [Module::DXT_POSIX, Module::DXT_MPI_IO] {
            let mut ours = Vec::new();
            log.segments(module, &mut |traced, segment| {
                let direction =
                    if segment.direction == Direction::Write { "write" } else { "read" };
                ours.push(serde_json::json!([
                    traced.id,
                    traced.rank,
                    traced.host,
                    direction,
                    segment.offset.unwrap_or(-1),
                    segment.length,
                    segment.start.to_bits(),
                    segment.end.to_bits(),
                ]));
            })
            .unwrap();
            let theirs = told["segments"].get(module.name());
            let theirs = theirs.and_then(Value::as_array).cloned().unwrap_or_default();
            assert_eq!(ours, theirs, "{what}: {}", module.name());
        }
        let mut ours = Vec::new();
        log.layouts(&mut |layout| {
            let stripes = [layout.stripe_size, layout.stripe_count];
            ours.push(serde_json::json!([layout.id, stripes, layout.targets]));
        })
        .unwrap();
        assert_eq!(told["layouts"], Value::Array(ours), "{what}");
    }

    /// What the report tells of a layer is the sum over the records that the package reads.
    fn totals(path: &Path, log: &Log<'_>, module: Module, theirs: &[Value]) {
        let (model, _) = darshan::read(path, &Options::default()).unwrap();
        let about = model.darshan.unwrap();
        let name = module.name();
        let Some(row) = about.layer(&name) else { return assert!(theirs.is_empty()) };
        let names = match module {
            Module::POSIX => striate_darshan::Posix::NAMES,
            Module::MPI_IO => striate_darshan::MpiIo::NAMES,
            _ => striate_darshan::Stdio::NAMES,
        };
        for (place, counter) in names.iter().enumerate() {
            let Some(ours) = row.counters.get(*counter) else { continue };
            let values = theirs.iter().map(|record| record[2][place].as_i64().unwrap().max(0));
            assert_eq!(*ours, values.sum::<i64>(), "{}: {counter}", path.display());
        }
        assert_eq!(about.ranks, u64::try_from(log.job.processes).unwrap());
        // The most frequent size is the one that occurs most often over all records.
        let Some(first) = names.iter().position(|name| name.ends_with("ACCESS1_ACCESS")) else {
            return;
        };
        let mut sizes: BTreeMap<i64, u64> = BTreeMap::new();
        for record in theirs {
            for place in first..first + 4 {
                let (size, times) = (record[2][place].as_i64(), record[2][place + 4].as_u64());
                *sizes.entry(size.unwrap()).or_default() += times.unwrap();
            }
        }
        let most = sizes.values().copied().max().filter(|most| *most > 0);
        assert_eq!(row.common_sizes.first().map(|(_, times)| *times), most, "{}", path.display());
    }
}
