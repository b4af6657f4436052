//! On a terminal: tables and paragraphs fit, long commands end when they are asked to, and the tour
//! of the guide works.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod on_terminal;
mod preloaded;

use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use on_terminal::run;

#[test]
fn answers_fit_the_terminal() {
    preloaded::library();
    let directory = tempfile::tempdir().unwrap();
    for name in ["one", "two"] {
        fs::create_dir(directory.path().join(name)).unwrap();
    }
    for script in [
        "striate quickstart --edge 16 --dir one",
        "striate stack list",
        "striate stack check before-and-after",
        "striate bench strided --total 64KiB --method all --dir one --repeat 2",
        "striate bench ior -b 64k -t 16k --servers 2 -a striate,socket --dir one --repeat 2",
        "striate bench array coll-perf --edge 8 --ranks 2 --dir one --repeat 2",
        "striate probe one two --size 64KiB",
        "striate describe 'vector(768, 3KiB, stride=7596)'",
        "striate run -- sh -c 'for i in $(seq 40); do head -c $((i * 300)) /dev/zero >one/$i; done'",
        "striate doctor",
        "striate --help",
    ] {
        for columns in [80, 60] {
            let session = run(script, columns, directory.path());
            assert_eq!(session.status, Some(0), "{script}: {}", session.text);
            // What can be pasted is not broken: remedies of the doctor.
            let wide = session.too_wide(columns);
            let wide: Vec<_> = wide.iter().filter(|line| !line.contains("cargo build")).collect();
            assert!(wide.is_empty(), "{script}, {columns}: {wide:#?}");
        }
    }
    // All columns, if they are asked for.
    let script = "striate bench strided --total 64KiB --dir one --repeat 2";
    let narrow = run(script, 80, directory.path()).text;
    assert!(
        narrow.contains("--wide shows more: ") && !narrow.contains("  region size\n"),
        "{narrow}"
    );
    let wide = run(&format!("{script} --wide"), 80, directory.path()).text;
    assert!(wide.contains("  region size\n") && !wide.contains("--wide shows"), "{wide}");
    let wide = run(&format!("{script} | cat"), 80, directory.path()).text;
    assert!(wide.contains("  region size\n"), "{wide}");
    let said = run(&format!("COLUMNS=200 {script}"), 80, directory.path()).text;
    assert!(said.contains("  region size\n"), "{said}");
}

/// The commands that the quickstart ends with work as they are printed.
#[test]
fn what_to_try_next_can_be_pasted() {
    let directory = tempfile::tempdir().unwrap();
    let session = run("striate quickstart --edge 8", 80, directory.path());
    let next = session.text.split("\nNext\n").nth(1).unwrap();
    let joined = next.replace(" \\\n", "");
    let commands = joined.lines().map(str::trim).filter(|line| line.contains("striate "));
    let mut tried = 0;
    for command in commands.filter(|line| !line.starts_with('#')) {
        // The remaining commands take long.
        if ["--keep", "describe", "report", "--help"].iter().any(|word| command.contains(word)) {
            let session = run(command, 80, directory.path());
            assert_eq!(session.status, Some(0), "{command}: {}", session.text);
            tried += 1;
        }
    }
    assert_eq!(tried, 4, "{next}");
    assert!(directory.path().join("climate/climate.nc").is_file());
    assert!(directory.path().join("block.svg").is_file());
    // The directory of the report stays, and is removed here.
    let mut commands = next.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let kept = commands.find_map(|line| line.split(" report ").nth(1)).unwrap();
    fs::remove_dir_all(Path::new(kept.trim_end_matches(" \\")).parent().unwrap()).unwrap();
}

fn started(arguments: &[&str]) -> Child {
    let mut command = preloaded::striate();
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Whether there is anything in or below a directory.
fn holds_something(directory: &Path) -> bool {
    fs::read_dir(directory).unwrap().next().is_some()
}

#[test]
fn what_is_interrupted_says_so_and_leaves_nothing() {
    for arguments in [
        &["quickstart", "--edge", "200"][..],
        &["bench", "ior", "-b", "8m", "-t", "1m", "-i", "100000"],
        &["bench", "block3d", "--edge", "100", "--servers", "2", "-i", "100000"],
        &["bench", "array", "coll-perf", "--edge", "32", "-i", "100000"],
    ] {
        let directory = tempfile::tempdir().unwrap();
        let place = directory.path().to_str().unwrap();
        let mut child = started(&[arguments, &["--dir", place]].concat());
        let begun = Instant::now();
        while !holds_something(directory.path()) {
            assert!(begun.elapsed() < Duration::from_secs(120), "{arguments:?} writes nothing");
            assert!(child.try_wait().unwrap().is_none(), "{arguments:?} ended by itself");
            std::thread::sleep(Duration::from_millis(5));
        }
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        let status = child.wait().unwrap();
        assert_eq!(status.signal(), Some(2), "{arguments:?}: {status}");
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(said.starts_with("striate: interrupted: ") && said.contains("removed"), "{said}");
        assert!(!holds_something(directory.path()), "{arguments:?} left something");
    }
    // The file of a probe has no name; the process has it open.
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().to_str().unwrap();
    let mut child = started(&["probe", place, "--size", "4GiB", "--limit", "600s"]);
    let begun = Instant::now();
    while !has_open(&child, place) {
        assert!(begun.elapsed() < Duration::from_secs(120), "the probe writes nothing");
        assert!(child.try_wait().unwrap().is_none(), "the probe ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    let process = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("it was interrupted; what it wrote is removed"), "{said}");
    assert!(!holds_something(directory.path()));
}

/// Whether a process has a file open whose name has these words in it.
fn has_open(child: &Child, words: &str) -> bool {
    let descriptors = fs::read_dir(format!("/proc/{}/fd", child.id()));
    let links = descriptors.into_iter().flatten().flatten();
    let mut names = links.filter_map(|link| fs::read_link(link.path()).ok());
    names.any(|name| name.to_string_lossy().contains(words))
}
