//! The real binary, as people and scripts call it: answers, exit status, JSON, colours.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;
#[cfg(feature = "mpi")]
use striate_testing::mpi_job;

fn striate(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_striate"));
    command.args(arguments).env("LC_ALL", "C.UTF-8").env_remove("NO_COLOR");
    command.env_remove("CLICOLOR_FORCE").env_remove("CLICOLOR");
    command
}

fn output(arguments: &[&str]) -> Output {
    striate(arguments).output().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The answer of a command that succeeds.
fn answer(arguments: &[&str]) -> String {
    let output = output(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", stderr(&output));
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
    stdout(&output)
}

/// The answer of the quickstart in a directory of its own: it leaves a report there.
fn quickstart(arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    answer(&[&["quickstart", "--dir", place], arguments].concat())
}

/// The complaint of a command that does not.
fn complaint(arguments: &[&str], status: i32) -> String {
    let output = output(arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr(&output));
    assert!(output.stdout.is_empty(), "{}", stdout(&output));
    stderr(&output)
}

fn document(arguments: &[&str]) -> Value {
    let document: Value = serde_json::from_str(&answer(arguments)).unwrap();
    assert_eq!(document["striate"], env!("CARGO_PKG_VERSION"));
    let command = document["command"].as_array().unwrap();
    assert_eq!(command.len(), arguments.len() + 1);
    let machine = &document["machine"];
    assert!(machine["cores"].as_u64() > Some(0) && machine["memory"].as_u64() > Some(0));
    assert!(machine["kernel"].is_string());
    assert!(document["ratios"].is_array());
    document
}

#[test]
fn help_of_every_command_has_an_example() {
    for command in ["describe", "quickstart", "bench", "probe", "completions"] {
        assert!(answer(&["--help"]).contains(command));
        let help = answer(&[command, "--help"]);
        assert!(help.contains("Examples:") && help.contains("--json"), "{help}");
    }
    assert!(answer(&["doctor", "--help"]).contains("Examples:"));
    for workload in ["pack", "tile-reader", "block3d", "flash", "strided", "ior"] {
        assert!(answer(&["bench", "--help"]).contains(workload));
        let help = answer(&["bench", workload, "--help"]);
        assert!(help.contains("Examples:") && help.contains("--json"), "{help}");
    }
}

#[test]
fn json_is_one_document_wherever_help_offers_it() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    for arguments in [
        &["describe", "i32"][..],
        &["probe", place, "--size", "4KiB"],
        &["stack", "list"],
        &["stack", "show", "count"],
        &["stack", "check", "count"],
        &["stack", "recover", "combine", place],
        &["completions", "bash"],
    ] {
        let document = document(&[arguments, &["--json"]].concat());
        assert!(document["rows"].is_array(), "{arguments:?}: {document}");
    }
}

#[test]
fn version() {
    assert_eq!(answer(&["--version"]), format!("striate {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn called_wrongly_is_2() {
    complaint(&[], 2);
    complaint(&["frobnicate"], 2);
    complaint(&["describe"], 2);
    complaint(&["describe", "i32", "--count", "many"], 2);
    complaint(&["quickstart", "--edge", "0"], 2);
    complaint(&["completions", "tcsh"], 2);
    complaint(&["bench"], 2);
}

#[test]
fn failed_is_1() {
    let text = complaint(&["describe", "i32", "--svg", "/nonexistent/directory/a.svg"], 1);
    assert!(text.starts_with("error: cannot write /nonexistent/directory/a.svg: "), "{text}");
    assert!(text.contains("\n  hint: "), "{text}");
    let text = complaint(&["quickstart", "--edge", "100000"], 1);
    assert!(text.contains("needs 10.66 PiB of memory"), "{text}");
    assert!(text.contains("  hint: use a smaller array: --edge "), "{text}");
}

#[test]
fn files_and_memory_that_are_not_there_are_refused_before_anything_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    for arguments in [
        &["ior", "-b", "100t"][..],
        &["ior", "-b", "100t", "-t", "1m"],
        &["ior", "-b", "100t", "-t", "100t", "-F"],
        &["ior", "-b", "1m", "-t", "1k", "-s", "100000000"],
        &["strided", "--block", "1GiB", "--total", "100TiB"],
        &["block3d", "--edge", "100000", "--method", "datatype"],
        &["tile-reader", "--frames", "1000000", "--method", "datatype"],
        &["mount", "--size", "100TiB"],
        &["array", "whole", "--size", "100TiB"],
        &["array", "whole", "--size", "8388607TiB"],
        &["coll-perf", "--edge", "1048576", "--variables", "10000"],
        &["s3d", "--edge", "1048576"],
        &["array", "flash", "--blocks", "1000000", "--zones", "1000", "--variables", "1000"],
        &["netcdf-bench", "--steps", "1000000", "--block", "1x1x1", "--ranks", "4096"],
        &["array", "open", "--variables", "10000000", "--ranks", "4096"],
    ] {
        let text = complaint(&[&["bench"], arguments, &["--dir", place]].concat(), 1);
        assert!(text.contains(" needs ") && text.contains("  hint: use "), "{arguments:?}: {text}");
        assert!(text.contains("of memory, but ") || text.contains(" are free there"), "{text}");
    }
    let text = complaint(&["probe", place, "--size", "1TiB"], 1);
    assert!(text.contains("the probe needs 1 TiB in ") && text.contains("--size"), "{text}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn ior_keeps_the_file_that_it_is_given() {
    let directory = tempfile::tempdir().unwrap();
    let ior = |arguments: &[&str]| {
        let all = [&["bench", "ior", "-b", "64k", "-t", "16k", "-n", "2"], arguments].concat();
        striate(&all).current_dir(&directory).output().unwrap()
    };
    let kept = ior(&["-w", "-k", "-o", "data"]);
    assert!(stdout(&kept).contains("\nKept: data\n"), "{}", stderr(&kept));
    assert_eq!(directory.path().join("data").metadata().unwrap().len(), 128 << 10);
    let read = ior(&["-r", "-o", "data"]);
    assert_eq!(read.status.code(), Some(0), "{}", stderr(&read));
    let refused = ior(&["-w", "-o", "data"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(stderr(&refused).contains("data is there already"), "{}", stderr(&refused));
    assert!(stderr(&refused).contains("--overwrite"), "{}", stderr(&refused));
    assert_eq!(ior(&["-w", "-o", "data", "--overwrite"]).status.code(), Some(0));
    assert_eq!(ior(&["-w", "-k", "-F"]).status.code(), Some(0));
    let mut left: Vec<_> =
        std::fs::read_dir(&directory).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["testFile.0", "testFile.1"]);
}

#[test]
fn an_error_in_the_notation_has_a_caret() {
    let text = complaint(&["describe", "vector(3, 2 of f6, stride=3)"], 2);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("error: cannot read the description: column 16: expected"));
    assert_eq!(lines[2], "    vector(3, 2 of f6, stride=3)");
    assert_eq!(lines[3], "                   ^");
    assert!(lines[5].starts_with("  hint: "), "{text}");

    let text = complaint(&["describe", "subarray([4,6] of f32, [2,2] at [3,1])"], 2);
    assert!(text.contains("dimension 0") && text.contains("hint: in each dimension"), "{text}");
    complaint(&["describe", ""], 2);
    complaint(&["describe", &"contiguous(1 of ".repeat(1000)], 2);
    complaint(&["describe", "contiguous(-3 of i32)"], 2);
    complaint(&["describe", "contiguous(9223372036854775807 of i32)"], 2);
    complaint(&["describe", "i32", "--count", "9223372036854775807"], 2);
}

#[test]
fn describe_tells_what_there_is() {
    let text = answer(&["describe", "vector(768, 3KiB, stride=7596)", "--runs", "2"]);
    for line in [
        "  vector       count 768, stride 7596 bytes",
        "    bytes 3072",
        "Size          2,359,296 bytes (2.25 MiB)",
        "Extent        5,829,204 bytes (5.56 MiB)",
        "Runs          768, 3,072 bytes on average",
        "File view     yes: offsets ascend without overlap",
        "   7,596   3,072",
    ] {
        assert!(text.lines().any(|found| found == line), "no line '{line}' in\n{text}");
    }
    assert!(text.contains("as a list of regions 12,288 bytes (12 KiB)"), "{text}");
    assert!(!text.contains("15,192"), "more runs than asked for:\n{text}");
    assert!(text.contains('█') && text.contains("one row = 7,596 bytes"), "{text}");
}

#[test]
fn describe_knows_odd_types() {
    for notation in [
        "bytes(0)",
        "byte",
        "struct()",
        "vector(10, 1 of i32, stride=-2)",
        "indexed([3 at 5, 2 at 0] of f64)",
        "resized(i32, lb=-8, extent=-4)",
        "vector(5, 3 of f64, stride=2)",
        "bytes(9223372036854775807)",
        "hindexed([1 at -9223372036854775807, 1 at -1])",
        "darray([64,64] of f64, dist=[block, cyclic(2)], grid=[2,2], rank=1)",
        "struct(1 of i32 at 0, 3 of f64 at 8, 2 of vector(3, 1, stride=2) at 100)",
    ] {
        for count in ["0", "1", "3"] {
            // Copies of the largest type there is do not fit.
            if !(count == "3" && notation.contains("92233720")) {
                answer(&["describe", notation, "--count", count]);
                answer(&["describe", notation, "--count", count, "--json"]);
            }
        }
    }
    let backwards = answer(&["describe", "vector(10, 1 of i32, stride=-2)"]);
    assert!(backwards.contains("no: there are negative offsets"), "{backwards}");
}

#[test]
fn a_billion_runs_are_described_at_once() {
    for (notation, binary) in [
        ("vector(1000000000, 1 of f64, stride=3)", 24),
        ("vector(1000000000, 1 of f64, stride=-3)", 24),
        ("contiguous(1000 of vector(1000, 1 of vector(1000, 1, stride=2), stride=3))", 40),
    ] {
        let row = &document(&["describe", notation, "--json"])["rows"][0];
        assert!(row["runs"].as_u64() >= Some(999_000_000), "{row}");
        assert!(row["binary_bytes"].as_u64() <= Some(binary), "{row}");
        let text = answer(&["describe", notation]);
        assert!(text.contains("Picture"), "{text}");
    }
}

#[test]
fn describe_in_json_has_all_fields() {
    let arguments =
        ["describe", "subarray([4,6] of f32, [2,2] at [1,1])", "--json", "--count", "2"];
    let document = document(&arguments);
    let row = &document["rows"][0];
    for (field, value) in [
        ("copies", 2),
        ("size", 32),
        ("extent", 192),
        ("lower_bound", 0),
        ("true_lower_bound", 28),
        ("true_upper_bound", 156),
        ("runs", 4),
        ("list_bytes", 64),
    ] {
        assert_eq!(row[field], value, "{field} of {row}");
    }
    assert_eq!(row["monotonic"], true);
    assert_eq!(row["density"], 0.25);
    assert_eq!(row["first_runs"][1]["offset"], 52);
    assert_eq!(row["first_runs"][1]["length"], 8);
    assert_eq!(row["loops_normal"].as_array().unwrap().len(), 3);
    assert!(row["loops_written"].is_array() && row["binary_bytes"].is_u64());
    // What is normal can be described in turn.
    let normal = row["normal"].as_str().unwrap();
    let again = &self::document(&["describe", normal, "--json"])["rows"][0];
    assert_eq!((&again["size"], &again["runs"]), (&row["size"], &row["runs"]));
}

#[test]
fn a_drawing_is_written() {
    let path = std::env::temp_dir().join(format!("striate-drawing-{}.svg", std::process::id()));
    let file = path.to_str().unwrap();
    let text = answer(&["describe", "vector(768, 3KiB, stride=7596)", "--svg", file]);
    assert!(text.contains(file));
    let svg = std::fs::read_to_string(&path).unwrap();
    assert!(svg.starts_with("<svg xmlns=") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("one row = 7,596 bytes") && svg.contains("vector(768"), "{svg}");
    answer(&["describe", "bytes(0)", "--svg", file]);
    assert!(std::fs::read_to_string(&path).unwrap().contains("no bytes"));
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn ascii_where_it_is_wanted_or_needed() {
    let notation = "indexed_block(1, at [0, 5, 7, 20, 33, 41, 52, 66])";
    assert!(!answer(&["describe", notation]).is_ascii());
    assert!(answer(&["describe", notation, "--ascii"]).is_ascii());
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    for arguments in [&["describe", notation][..], &["quickstart", "--edge", "4", "--dir", place]] {
        let output = striate(arguments).env("LC_ALL", "C").output().unwrap();
        assert!(stdout(&output).is_ascii(), "{}", stdout(&output));
    }
}

#[test]
fn colours_on_request_only() {
    let arguments = ["describe", "f6"];
    assert!(!complaint(&arguments, 2).contains('\x1b'));
    let forced = striate(&arguments).env("CLICOLOR_FORCE", "1").output().unwrap();
    assert!(stderr(&forced).contains("\x1b["), "{}", stderr(&forced));
    let refused = striate(&arguments).env("NO_COLOR", "1").output().unwrap();
    assert!(!stderr(&refused).contains('\x1b'));
    assert!(!answer(&["describe", "i32"]).contains('\x1b'));
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(answer(&["completions", shell]).contains("quickstart"), "{shell}");
    }
}

#[test]
fn quickstart_verifies_and_compares() {
    let text = quickstart(&["--edge", "20"]);
    assert!(text.contains("  [10,10,10] at [0,10,0]  "), "{text}");
    assert!(text.contains("Verified: every block"), "{text}");
    assert!(text.contains("Verified: every byte of every file"), "{text}");
    // Once in a file, once on servers.
    for method in ["posix", "sieve", "two-phase", "list", "datatype", "auto:"] {
        let lines = text.lines().filter(|line| line.starts_with(&format!("  {method} ")));
        assert_eq!(lines.count(), 2, "{text}");
    }
    assert!(text.contains("on 4 I/O servers") && text.contains("per server"), "{text}");
    assert!(text.contains(" quickstart --edge 600\n"), "{text}");
    // Why one method ties with another here, and not there.
    assert!(text.contains("a system call for every region, as 'posix' is"), "{text}");
    // Four targets, one of them slow; on a busy machine another may seem so.
    let verdicts = |word: &str| text.lines().filter(|line| line.trim_end().ends_with(word)).count();
    assert_eq!(verdicts(" kept") + verdicts(" dropped"), 4, "{text}");
    assert!(verdicts(" kept") > 0 && verdicts(" dropped") > 0, "{text}");
    assert!(text.contains("read as one array") && text.contains("ncdump -h"), "{text}");
    assert!(text.contains("requests of this program") && text.contains("/report.html"), "{text}");
}

#[test]
fn quickstart_keeps_a_dataset_to_look_at() {
    let directory = tempfile::tempdir().unwrap();
    let kept = directory.path().join("climate");
    let text = quickstart(&["--edge", "4", "--keep", kept.to_str().unwrap()]);
    let master = kept.join("climate.nc");
    assert!(text.contains(&format!("ncdump -h {}", master.display())), "{text}");
    let dump = answer(&["nc", "header", master.to_str().unwrap()]);
    assert!(dump.contains("float air(time, lat, lon)"), "{dump}");
    // And the report of its own I/O.
    assert!(kept.join("report.html").is_file());
    let report = answer(&["report", kept.join("quickstart.trace").to_str().unwrap()]);
    assert!(report.contains("array.two-phase"), "{report}");
}

#[test]
fn quickstart_in_json_has_blocks_and_methods() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let arguments = ["quickstart", "--edge", "20", "--ranks", "8", "--json", "--dir", place];
    let document = document(&arguments);
    let rows = document["rows"].as_array().unwrap();
    let blocks: Vec<_> = rows.iter().filter(|row| row["rank"].is_u64()).collect();
    assert_eq!(blocks.len(), 8);
    assert!(blocks.iter().all(|row| row["verified"] == true && row["runs"] == 100));
    let divided = rows.iter().find(|row| row["partitions"].is_array()).unwrap();
    assert_eq!(
        (&divided["verified"], divided["targets"].as_array().unwrap().len()),
        (&true.into(), 4)
    );
    let on_servers =
        |row: &Value| row["store"].as_str().is_some_and(|store| store.starts_with("striate://"));
    for (op, servers) in [("write", false), ("write", true), ("read", false), ("read", true)] {
        let methods: Vec<_> =
            rows.iter().filter(|row| row["op"] == op && on_servers(row) == servers).collect();
        assert_eq!(methods.len(), 6);
        assert!(methods.iter().all(|row| row.get("requests").is_some() == servers), "{methods:?}");
        assert!(methods.iter().all(|row| row["verified"] == true), "{methods:?}");
        let operations: Vec<_> = methods.iter().map(|row| row["operations"].as_u64()).collect();
        assert_eq!(operations[..5], [Some(100), Some(1), Some(1), Some(2), Some(1)]);
        assert_eq!(methods[2]["method"], "two-phase");
        assert_eq!((&methods[2]["wanted"], &methods[2]["resent"]), (&4000.into(), &3000.into()));
        assert!(methods[0].get("resent").is_none());
        assert_eq!(methods[0]["region_size"], 40);
        assert!(methods.iter().all(|row| row["median_mib_s"].as_f64() > Some(0.0)));
    }
}

#[test]
fn quickstart_knows_edges_that_do_not_divide() {
    for (edge, ranks) in [("7", "12"), ("3", "64"), ("1", "1"), ("10", "13")] {
        let text = quickstart(&["--edge", edge, "--ranks", ranks]);
        assert!(text.contains("Verified"), "{text}");
    }
}

#[test]
fn bench_pack_measures_and_verifies() {
    let arguments =
        ["bench", "pack", "--case", "vector-64", "--samples", "2", "--sample-time", "0", "--json"];
    let document = document(&arguments);
    let rows = document["rows"].as_array().unwrap();
    for implementation in ["striate", "memcpy", "loop"] {
        for (size, direction) in
            [("cache", "pack"), ("cache", "unpack"), ("large", "pack"), ("large", "unpack")]
        {
            let row = rows
                .iter()
                .find(|row| {
                    row["implementation"] == implementation
                        && row["size"] == size
                        && row["direction"] == direction
                })
                .unwrap_or_else(|| panic!("no row of {implementation} {size} {direction}"));
            assert_eq!(row["case"], "vector-64");
            assert_eq!(row["samples"].as_array().unwrap().len(), 2);
            assert!(row["median_gb_s"].as_f64() > Some(0.0));
        }
    }
    let with_mpi = cfg!(feature = "mpi");
    assert_eq!(rows.iter().any(|row| row["implementation"] == "mpich"), with_mpi);
    assert_eq!(rows.iter().any(|row| row["implementation"] == "openmpi"), with_mpi);
    let ratios = document["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), if with_mpi { 8 } else { 4 });
    for ratio in ratios {
        let met = ratio["value"].as_f64() >= ratio["goal"].as_f64();
        assert_eq!(ratio["met"].as_bool(), Some(met), "{ratio}");
    }
}

#[test]
fn bench_pack_names_its_cases_when_asked_for_another() {
    let complaint = complaint(&["bench", "pack", "--case", "no-such"], 2);
    assert!(complaint.contains("no case has 'no-such'") && complaint.contains("flash"));
}

/// A benchmark of file I/O in a directory of its own, which is empty afterwards.
fn bench(arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let mut all = vec!["bench"];
    all.extend(arguments);
    all.extend(["--dir", directory.path().to_str().unwrap(), "--json"]);
    let document = document(&all);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
    for row in document["rows"].as_array().unwrap() {
        for field in ["workload", "api", "store", "op"] {
            assert!(row[field].is_string(), "{field} of {row}");
        }
        for field in ["ranks", "block", "bytes"] {
            assert!(row[field].as_u64() > Some(0), "{field} of {row}");
        }
        assert!(row["collective"].is_boolean() && row["verified"].is_boolean(), "{row}");
        assert!(row["median_mib_s"].as_f64() > Some(0.0), "{row}");
        assert_eq!(row["ci95"].as_array().unwrap().len(), 2);
        for field in ["method", "wanted", "accessed", "operations", "region_size"] {
            assert_eq!(row.get(field).is_some(), row["api"] == "striate", "{field} of {row}");
        }
    }
    document
}

/// The rows of one direction, in order.
fn rows<'d>(document: &'d Value, op: &str) -> Vec<&'d Value> {
    document["rows"].as_array().unwrap().iter().filter(|row| row["op"] == op).collect()
}

#[test]
fn bench_tile_reader_counts_as_the_paper() {
    let document = bench(&["tile-reader", "--frames", "2", "--repeat", "2"]);
    assert!(rows(&document, "write").is_empty());
    let rows = rows(&document, "read");
    let operations: Vec<_> = rows.iter().map(|row| row["operations"].as_u64()).collect();
    assert_eq!(operations[..5], [Some(768), Some(2), Some(1), Some(12), Some(1)]);
    assert_eq!(rows[1]["accessed"], 5_829_204);
    assert_eq!((&rows[2]["accessed"], &rows[2]["domains"]), (&1_782_528.into(), &"even".into()));
    assert_eq!((&rows[5]["method"], rows[5]["chosen"].is_string()), (&"auto".into(), true));
    assert!(rows.iter().all(|row| row["ranks"] == 6 && row["wanted"] == 2_359_296));
    assert!(rows.iter().all(|row| row["samples"].as_array().unwrap().len() == 2));

    let small = ["tile-reader", "--columns", "2", "--rows", "1", "--tile", "30x20"];
    let document =
        bench(&[&small[..], &["--overlap", "4x0", "--op", "write,read", "--tuned"]].concat());
    assert_eq!(document["rows"].as_array().unwrap().len(), 2);
}

#[test]
fn bench_block3d_takes_any_grid() {
    let document = bench(&["block3d", "--edge", "10", "--grid", "3x1x2", "--repeat", "1"]);
    for op in ["write", "read"] {
        assert_eq!(rows(&document, op).len(), 6);
        assert!(rows(&document, op).iter().all(|row| row["ranks"] == 6 && row["bytes"] == 4000));
    }
    let document = bench(&["block3d", "--edge", "9", "-n", "5", "--tuned", "--independent"]);
    let row = rows(&document, "write")[0];
    assert_eq!((&row["collective"], &row["method"]), (&false.into(), &"auto".into()));
}

#[test]
fn bench_flash_spares_guard_cells() {
    let document = bench(&["flash", "--blocks", "2", "--cells", "4", "-n", "3", "--repeat", "1"]);
    let writes = rows(&document, "write");
    assert_eq!(writes[0]["operations"], 2 * 4 * 4 * 4 * 24);
    assert_eq!(writes[0]["region_size"], 8);
    assert_eq!(writes[4]["operations"], 1);
}

#[test]
fn bench_strided_compares_with_plain_calls() {
    let document = bench(&[
        "strided",
        "--block",
        "1k",
        "--count",
        "20",
        "--api",
        "striate,posix",
        "--method",
        "list,auto",
        "--goal",
        "posix=0",
        "--goal",
        "best=1e9",
        "--repeat",
        "3",
        "--fsync",
        "--hint",
        "striate_list_regions=5",
    ]);
    for op in ["write", "read"] {
        let rows = rows(&document, op);
        assert_eq!(rows.len(), 3);
        assert_eq!((&rows[0]["operations"], &rows[0]["block"]), (&4.into(), &1024.into()));
        assert_eq!((&rows[2]["api"], rows[2].get("method")), (&"posix".into(), None));
    }
    let ratios = document["ratios"].as_array().unwrap();
    assert_eq!(ratios.len(), 4);
    for (ratio, met) in ratios.iter().zip([true, false, true, false]) {
        assert_eq!(ratio["met"], met, "{ratio}");
        assert!(ratio["name"].as_str().unwrap().contains("striate auto over"), "{ratio}");
    }
    let text = answer(&["bench", "strided", "--total", "1m", "--no-verify", "-i", "1"]);
    assert!(text.contains("strided: 4 ranks, collective") && text.contains("not verified"));
}

#[test]
fn bench_ior_speaks_ior() {
    let arguments = ["ior", "-a", "POSIX,striate", "-b", "64k", "-t", "16k", "-s", "3", "-i", "2"];
    let document = bench(&[&arguments[..], &["-F", "-C", "-e", "-z"]].concat());
    let reads = rows(&document, "read");
    assert_eq!((&reads[0]["api"], &reads[1]["api"]), (&"posix".into(), &"striate".into()));
    assert_eq!(reads[0]["file_per_process"], true);
    assert_eq!((&reads[1]["block"], &reads[1]["transfer"]), (&65_536.into(), &16_384.into()));
    assert_eq!(reads[1]["wanted"], 3 * 65_536);
    let document = bench(&[&arguments[..], &["-c", "-C", "-r", "-W", "-R"]].concat());
    assert!(rows(&document, "write").is_empty());
    assert_eq!(rows(&document, "read")[0]["collective"], true);
}

#[test]
fn bench_called_wrongly_is_2() {
    for (arguments, words) in [
        (&["strided", "--block", "0"][..], "at least 1 byte"),
        (&["strided", "--method", "magic"], "two-phase"),
        (&["strided", "--domains", "round"], "static-cycling"),
        (&["strided", "--api", "hdf5"], "there is no API 'hdf5'"),
        (&["strided", "--api", "mpiio"], "MPI"),
        (&["strided", "--hint", "cb_nodes"], "has no value"),
        (&["strided", "--hint", "cb_nodes=0"], "cb_nodes"),
        (&["strided", "--goal", "fast"], "not a number"),
        (&["strided", "--count", "1", "--total", "1m"], "cannot be used with"),
        (&["strided", "--independent", "--method", "two-phase"], "collective calls"),
        (&["strided", "--op", "append"], "append"),
        (&["block3d", "--grid", "2x2"], "3 numbers"),
        (&["block3d", "--grid", "2x2x2", "-n", "4"], "8 ranks, but there are 4"),
        (&["tile-reader", "--columns", "2", "-n", "5"], "2 ranks, but there are 5"),
        (&["tile-reader", "--overlap", "2000x1"], "--overlap"),
        (&["flash", "--blocks", "0"], "0"),
        (&["ior", "-b", "10", "-t", "3"], "multiple"),
        (&["ior", "-b", "1000t", "-t", "1"], "smaller"),
        (&["ior", "-n", "0"], "0"),
        (&["ior", "--api", "socket"], "servers"),
        (&["strided", "--servers", "2", "--api", "striate,socket"], "calls in one piece"),
        (&["ior", "--servers", "2", "--api", "posix"], "only supports files of file systems"),
        (&["ior", "--servers", "0"], "0"),
        (&["ior", "--servers", "2", "--store", "striate://h"], "cannot be used with"),
        (&["ior", "--store", "/tmp"], "begins neither"),
        (&["ior", "--servers", "2", "--strip", "5"], "512"),
        (&["ior", "--delay", "1ms"], "--servers"),
        (&["ior", "--servers", "2", "--delay", "5"], "not a duration"),
    ] {
        let mut all = vec!["bench"];
        all.extend(arguments);
        let text = complaint(&all, 2);
        assert!(text.starts_with("error: ") && text.contains(words), "{arguments:?}: {text}");
    }
}

#[test]
fn bench_that_cannot_be_done_is_1() {
    let text = complaint(&["bench", "strided", "--dir", "/nonexistent"], 1);
    assert!(text.contains("cannot make the file /nonexistent/striate-bench-"), "{text}");
    assert!(text.contains("  hint: --dir names the directory"), "{text}");
    complaint(&["quickstart", "--edge", "4", "--dir", "/nonexistent"], 1);
    let text = complaint(&["bench", "strided", "--total", "1000t", "--block", "1g"], 1);
    assert!(text.contains("of memory, but"), "{text}");
}

#[test]
fn an_interrupted_benchmark_leaves_no_file() {
    let directory = tempfile::tempdir().unwrap();
    let entries = || std::fs::read_dir(&directory).unwrap().count();
    let dir = directory.path().to_str().unwrap();
    let mut child = striate(&["bench", "strided", "--repeat", "100000", "--dir", dir])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    while entries() == 0 {
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert!(child.try_wait().unwrap().is_none(), "it ended before it began");
    }
    let signal = Command::new("kill").arg("-INT").arg(child.id().to_string()).status().unwrap();
    assert!(signal.success());
    assert_eq!(child.wait().unwrap().code(), None, "it ends by the signal");
    assert_eq!(entries(), 0);
}

/// The binary under the launcher of its MPI, with so many ranks at most.
#[cfg(feature = "mpi")]
fn mpiexec(ranks: usize, arguments: &[&str]) -> Output {
    let mut command = mpi_job::mpiexec(ranks.min(mpi_job::ranks()));
    command.arg(env!("CARGO_BIN_EXE_striate")).args(arguments);
    command.env("LC_ALL", "C.UTF-8").output().unwrap()
}

#[cfg(feature = "mpi")]
#[test]
fn bench_under_mpi_has_peers_and_one_voice() {
    let directory = tempfile::tempdir().unwrap();
    let dir = directory.path().to_str().unwrap();
    let output = mpiexec(
        3,
        &[
            "bench",
            "strided",
            "--total",
            "100k",
            "--api",
            "striate,mpiio,posix",
            "--repeat",
            "2",
            "--goal",
            "0",
            "--json",
            "--dir",
            dir,
        ],
    );
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // One document only.
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    let apis: Vec<_> = rows(&document, "read").iter().map(|row| row["api"].clone()).collect();
    assert!(apis.contains(&"mpiio-romio".into()) && apis.contains(&"striate".into()), "{apis:?}");
    let ranks = mpi_job::ranks().min(3);
    assert!(document["rows"].as_array().unwrap().iter().all(|row| row["ranks"] == ranks));
    let ratios = document["ratios"].as_array().unwrap();
    assert!(ratios[0]["name"].as_str().unwrap().contains("over mpiio-"), "{ratios:?}");
    assert_eq!(ratios[0]["met"], true);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");

    let output = mpiexec(2, &["bench", "ior", "-c", "--dir", "/nonexistent"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(stderr(&output).matches("error: cannot finish the benchmark").count(), 1);
    let output = mpiexec(2, &["bench", "ior", "-F", "--api", "mpiio"]);
    assert_eq!(output.status.code(), Some(2));
    assert_eq!(stderr(&output).matches("error: ").count(), 1, "{}", stderr(&output));
}

/// The outcome of `describe -` with these bytes as input.
fn described(input: &[u8]) -> Output {
    let mut child = striate(&["describe", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn a_list_too_long_for_an_argument_comes_from_standard_input() {
    let blocks: Vec<String> = (0..20_000).map(|i| format!("{} at {}", i % 7 + 1, i * 13)).collect();
    let output = described(format!("indexed([{}])\n", blocks.join(", ")).as_bytes());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let document: Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["rows"][0]["runs"], 20_000);

    for nonsense in [&b""[..], b"vector(", b"\xff\xfe"] {
        let output = described(nonsense);
        assert!(matches!(output.status.code(), Some(1 | 2)) && output.stdout.is_empty());
        assert!(stderr(&output).starts_with("error: "), "{}", stderr(&output));
    }
}
