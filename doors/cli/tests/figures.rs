//! The numbers of one recording are the same wherever they are told: `run`, `trace stats`,
//! `report`, `compare`.
#![cfg(feature = "peers")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use striate_datatype::Bytes;

/// Several processes, failures, duplicates, appends, mappings, copies within the kernel, calls
/// whose results stages do not see.
const PROGRAM: &str = r#"
import mmap, os, sys
os.makedirs("d"); f = open("d/a", "w+b", buffering=0); f.write(b"x" * 10000); f.seek(0); f.read(4000)
again = os.dup(f.fileno()); os.write(again, b"dup"); os.pread(again, 100, 50)
a = os.open("d/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
for n in range(3):
    if os.fork() == 0:
        os.write(a, b"child %d\n" % n); os.write(again, b"more"); os._exit(0)
for n in range(3): os.wait()
m = mmap.mmap(f.fileno(), 4096); m[0] = 7; m.flush()
out = os.open("d/out", os.O_WRONLY | os.O_CREAT); os.sendfile(out, f.fileno(), 0, 500)
copy = os.open("d/copy", os.O_RDWR | os.O_CREAT); os.copy_file_range(f.fileno(), copy, 300)
os.symlink("a", "d/l"); os.readlink("d/l"); os.chmod("d/a", 0o600); os.listdir("d"); os.rename("d/copy", "d/moved")
for wrong in [lambda: os.open("d/none", 0), lambda: os.stat("d/none"), lambda: os.readlink("d/a"),
              lambda: os.chmod("d/none", 0), lambda: os.listdir("d/none"), lambda: os.mkdir("d"), lambda: os.rmdir("d")]:
    try: wrong()
    except OSError: continue
    sys.exit(1)
assert not os.access("d/none", os.R_OK)
"#;

fn striate(place: &Path, args: &[&str]) -> Vec<u8> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    let output = command.args(args).current_dir(place).env_remove("LD_PRELOAD").output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {told}");
    output.stdout
}

fn row(json: &[u8]) -> Value {
    let document: Value = serde_json::from_slice(json).unwrap();
    document["rows"][0].clone()
}

/// The numbers that all commands tell.
#[derive(Debug, PartialEq, Eq)]
struct Numbers {
    processes: u64,
    calls: u64,
    failed: u64,
    bytes_read: u64,
    bytes_written: u64,
    files: u64,
    peak_read: u64,
    peak_written: u64,
}

#[test]
fn the_same_wherever_they_are_told() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("p.py"), PROGRAM).unwrap();
    let run = ["--json", "run", "--summary", "run.json", "--trace", "traces", "--"];
    striate(place.path(), &[&run[..], &["python3", "-S", "p.py"]].concat());

    let number = |value: &Value| value.as_u64().unwrap_or_else(|| panic!("{value}"));
    let told = row(&std::fs::read(place.path().join("run.json")).unwrap());
    let of_run = Numbers {
        processes: told["processes"].as_array().unwrap().len() as u64,
        calls: number(&told["calls"]),
        failed: number(&told["failed"]),
        bytes_read: number(&told["bytes_read"]),
        bytes_written: number(&told["bytes_written"]),
        files: number(&told["files"]),
        peak_read: number(&told["peak"]["read"]),
        peak_written: number(&told["peak"]["written"]),
    };

    let told = row(&striate(place.path(), &["--json", "trace", "stats", "traces"]));
    let total = &told["total"];
    let of_stats = Numbers {
        processes: told["processes"].as_array().unwrap().len() as u64,
        calls: number(&total["calls"]),
        failed: number(&total["errors"]),
        bytes_read: number(&total["bytes_read"]),
        bytes_written: number(&total["bytes_written"]),
        files: number(&told["files_count"]),
        peak_read: number(&told["peak"]["read"]),
        peak_written: number(&told["peak"]["written"]),
    };
    assert_eq!(number(&total["unknown"]), 0);

    let told = row(&striate(place.path(), &["--json", "report", "traces"]));
    let (totals, sums) = (&told["totals"], &told["totals"]["sums"]);
    let calls = sums["calls"].as_object().unwrap().values().map(number).sum();
    let of_report = Numbers {
        processes: number(&totals["processes"]),
        calls,
        failed: number(&sums["failed"]),
        bytes_read: number(&sums["bytes_read"]),
        bytes_written: number(&sums["bytes_written"]),
        files: number(&totals["files"]),
        peak_read: number(&totals["peak"]["read"]),
        peak_written: number(&totals["peak"]["written"]),
    };
    assert_eq!(totals["files_exact"], Value::Bool(true));

    let told = row(&striate(place.path(), &["--json", "compare", "traces", "traces"]));
    let changes = told["changes"].as_array().unwrap();
    let compared = |what: &str| {
        let change = changes.iter().find(|one| one["subject"] == "all" && one["what"] == what);
        let change = change.unwrap_or_else(|| panic!("{what} is not compared: {told}"));
        assert_eq!(change["a"], change["b"], "{what}");
        change["a"].as_f64().unwrap() as u64
    };
    let of_compare = Numbers {
        processes: compared("processes"),
        calls: compared("calls"),
        failed: compared("failed calls"),
        bytes_read: compared("bytes read"),
        bytes_written: compared("bytes written"),
        files: compared("files"),
        peak_read: compared("peak read rate"),
        peak_written: compared("peak write rate"),
    };

    assert_eq!(of_run, of_stats);
    assert_eq!(of_stats, of_report);
    assert_eq!(of_stats, of_compare);
    // Three children that end at once, and what failed is known to have.
    let Numbers { processes, failed, files, .. } = of_stats;
    assert!(processes >= 4 && failed >= 8 && files >= 9, "{of_stats:?}");
    // What was copied counts as both. The interpreter may read files of its own.
    let least = [4000 + 100 + 500 + 300, 10_000 + 3 + 3 * 8 + 3 * 4 + 500 + 300];
    let Numbers { bytes_read, bytes_written, peak_read, peak_written, .. } = of_stats;
    assert!(bytes_read >= least[0] && bytes_written >= least[1], "{of_stats:?}");
    assert!((1..=bytes_read).contains(&peak_read), "{of_stats:?}");
    assert!((1..=bytes_written).contains(&peak_written), "{of_stats:?}");

    // Text says the same, in the same words.
    let text = |args: &[&str]| String::from_utf8(striate(place.path(), args)).unwrap();
    let [stats, page] = [&["trace", "stats", "traces"][..], &["report", "traces"][..]].map(text);
    let [read, written] = [peak_read, peak_written].map(|rate| format!("{}/s", Bytes(rate)));
    assert!(stats.contains(&format!("at most {read} read and {written} written")), "{stats}");
    let page = page.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(page.contains(&format!("at most {read} were read and {written} written")), "{page}");
}

#[test]
fn a_run_that_is_not_recorded_tells_neither_files_nor_peak_rates() {
    let place = tempfile::tempdir().unwrap();
    let run = ["--json", "run", "--summary", "run.json", "--", "touch", "a"];
    striate(place.path(), &run);
    let told = row(&std::fs::read(place.path().join("run.json")).unwrap());
    assert!(told["calls"].as_u64().unwrap() > 0, "{told}");
    assert!(told.get("files").is_none() && told.get("peak").is_none(), "{told}");
}

#[test]
fn what_came_of_calls_is_recorded_of_all() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("p.py"), PROGRAM).unwrap();
    let run = ["run", "--quiet", "--trace", "traces", "--", "python3", "-S", "p.py"];
    striate(place.path(), &run);
    let shown = striate(place.path(), &["trace", "show", "traces", "--path", "**/d/*"]);
    let shown = String::from_utf8(shown).unwrap();
    assert!(!shown.contains("= ?"), "{shown}");
    for (call, result) in [
        ("readlink(", "d/l\", \"a\") = 1 "),
        ("readlink(", "d/a\") = -1 EINVAL "),
        ("access(", "d/none\", R_OK) = -1 ENOENT "),
        ("chmod(", "d/a\", 0o600) = 0 "),
        ("chmod(", "d/none\", 0o0) = -1 ENOENT "),
        ("opendir(", "d/none\") = -1 ENOENT "),
        ("mmap(", ") = 0 "),
        ("symlink(", "\"a\") = 0 "),
    ] {
        let found = shown.lines().any(|line| line.contains(call) && line.contains(result));
        assert!(found, "{call}…{result}: {shown}");
    }
}
