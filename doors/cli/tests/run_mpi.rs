//! `striate run` with the launchers of a real MPI: which processes get which door, and what is
//! recorded of MPI-IO.
//!
//! The MPI is the one that `MPICC` names, for which the tests are built.
#![cfg(feature = "mpi")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod preloaded;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use preloaded::striate;
use serde_json::Value;

/// The name of the MPI in those of its programs.
fn mpi() -> &'static str {
    let compiler = std::env::var("MPICC").unwrap_or_default();
    if compiler.contains("mpich") { "mpich" } else { "openmpi" }
}

/// The words that start two ranks.
fn launcher() -> Vec<String> {
    let mut words = vec![format!("mpiexec.{}", mpi())];
    if mpi() == "openmpi" {
        words.extend(["--allow-run-as-root", "--oversubscribe"].map(str::to_owned));
    }
    words.extend(["-n", "2"].map(str::to_owned));
    words
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", stderr(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn run(directory: &Path, options: &[&str], words: &[&str]) -> Output {
    let mut command = striate();
    command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    command.arg("run").args(options).arg("--").args(words);
    command.current_dir(directory).output().unwrap()
}

/// A library that does nothing, for tests of which processes load it.
fn stand_in(directory: &Path) -> PathBuf {
    let library = directory.join("libdoor.so");
    fs::write(directory.join("door.c"), "int striate_stand_in = 1;\n").unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(directory.join("door.c"));
    stdout(&compiler.output().unwrap());
    library
}

fn compiled(directory: &Path, name: &str) -> PathBuf {
    let program = directory.join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
    let mut compiler = Command::new(format!("mpicc.{}", mpi()));
    compiler.args(["-O1", "-Wall", "-o"]).arg(&program);
    compiler.arg(source.join(name).with_extension("c"));
    stdout(&compiler.output().unwrap());
    program
}

const SAYS: &str = "echo \"$0: $LD_PRELOAD\"";

#[test]
fn ranks_get_both_doors_and_the_launcher_one() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let library = stand_in(place);
    let launcher = launcher();
    let mut words: Vec<&str> = launcher.iter().map(String::as_str).collect();
    words.extend(["sh", "-c", SAYS, "rank"]);
    let said = ["--quiet", "--mpiio", library.to_str().unwrap()];
    for wrapper in [&[][..], &["timeout", "60"]] {
        let words = [wrapper, &words].concat();
        let text = stdout(&run(place, &said, &words));
        let ranks: Vec<&str> = text.lines().filter(|line| line.starts_with("rank: ")).collect();
        assert_eq!(ranks.len(), 2, "{text}");
        for rank in ranks {
            let (_, list) = rank.split_once(": ").unwrap();
            let names: Vec<_> = list.split(':').map(|path| path.rsplit('/').next()).collect();
            assert_eq!(names, [Some("libstriate_preload.so"), Some("libdoor.so")], "{text}");
        }
    }
    let text = stdout(&run(place, &["--quiet", "--no-mpiio"], &words));
    assert!(text.contains("rank: ") && !text.contains("libdoor"), "{text}");
    // What has nothing to do with MPI has no door for it.
    let text = stdout(&run(place, &said, &["sh", "-c", SAYS, "other"]));
    assert!(text.contains("other: ") && !text.contains("libdoor"), "{text}");
    // A door that is not there is told before anything runs.
    let output = run(place, &["--mpiio", "/nowhere/door.so"], &words);
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("/nowhere/door.so") && output.stdout.is_empty());
}

#[test]
fn a_program_that_is_linked_with_mpi_is_a_rank_of_its_own() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let library = stand_in(place);
    let program = compiled(place, "strided");
    let said = ["--quiet", "--mpiio", library.to_str().unwrap()];
    let output = run(place, &said, &[program.to_str().unwrap(), "data.bin", "libraries"]);
    let text = stdout(&output);
    assert!(text.contains("libstriate_preload.so:") && text.contains("libdoor.so"), "{text}");
}

#[test]
fn calls_of_mpi_io_are_recorded_above_those_they_cause() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path();
    let program = compiled(place, "strided");
    let launcher = launcher();
    let mut words: Vec<&str> = launcher.iter().map(String::as_str).collect();
    words.extend([program.to_str().unwrap(), "data.bin"]);
    // The door is found beside the command, or where STRIATE_MPIIO says.
    let output = run(place, &["--trace", "traces"], &words);
    stdout(&output);
    let told = stderr(&output);
    let hint = "'cargo build -p striate-mpiio --features mpi' makes the door";
    assert!(!told.contains("no MPI-IO door"), "{told}{hint}");
    assert!(told.contains("  collective write"), "{told}");
    assert_eq!(fs::metadata(place.join("data.bin")).unwrap().len(), 2 * 64 * 1024);

    let answer = |arguments: &[&str]| {
        let output = striate().args(arguments).current_dir(place).output().unwrap();
        stdout(&output)
    };
    let stats = answer(&["trace", "stats", "traces", "--json", "--path", "*data.bin"]);
    let stats: Value = serde_json::from_str(&stats).unwrap();
    let layers = &stats["rows"][0]["layers"];
    for (function, calls, bytes) in [
        ("MPI_File_open", 2, 0),
        ("MPI_File_set_view", 2, 0),
        ("MPI_File_write_all", 2, 128 << 10),
        ("MPI_File_read_at", 2, 2 << 10),
        ("MPI_File_close", 2, 0),
    ] {
        let layer = &layers[function];
        assert_eq!((&layer["calls"], &layer["bytes"]), (&calls.into(), &bytes.into()), "{stats}");
        assert_eq!(layer["errors"], 0, "{stats}");
    }
    // All that is done with the file is done beneath a call of MPI-IO.
    let beneath = |what: &str| -> u64 {
        let layers = layers.as_object().unwrap().values();
        layers.map(|layer| layer["beneath"][what].as_u64().unwrap()).sum()
    };
    let total = &stats["rows"][0]["total"];
    assert_eq!(total["calls"], beneath("calls"), "{stats}");
    let moved = ["reads", "writes"].map(|way| total[way]["bytes"].as_u64().unwrap());
    assert_eq!(moved.iter().sum::<u64>(), beneath("bytes"), "{stats}");
    assert!(moved[1] >= 128 << 10, "{stats}");
    assert!(layers["MPI_File_open"]["beneath"]["calls"].as_u64() >= Some(2), "{stats}");

    let text = answer(&["report", "traces", "--text"]);
    assert!(text.contains("MPI-IO calls by rank") && text.contains("  rank 1  "), "{text}");
    let shown = answer(&["trace", "show", "traces", "--rank", "0", "--path", "*data.bin"]);
    let open = shown.find(" MPI_File_open(").unwrap();
    assert!(shown[open..].contains(" rank 0   open"), "{shown}");
}
