//! `striate trace`: recordings by the real library, looked at, merged, cut, exported and imported.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

const SCRIPT: &str = "dd if=/dev/zero of=a.dat bs=1000 count=20 2>/dev/null; cat a.dat > b.dat; \
    mkdir d; mv b.dat d/c.dat; tail -c 100 d/c.dat; rm d/c.dat; rmdir d";

fn striate() -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_striate"));
    let library = program.with_file_name("libstriate_preload.so");
    assert!(
        library.exists(),
        "{} is missing: 'cargo build --workspace' makes it",
        library.display()
    );
    let mut command = Command::new(program);
    command.env("NO_COLOR", "1").env_remove("STRIATE_PRELOAD").env_remove("LD_PRELOAD");
    command
}

fn trace(directory: &Path, arguments: &[&str]) -> Output {
    striate().arg("trace").args(arguments).current_dir(directory).output().unwrap()
}

/// What a command prints; it must succeed and say nothing else.
fn answer(directory: &Path, arguments: &[&str]) -> String {
    let output = trace(directory, arguments);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{arguments:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(directory: &Path, arguments: &[&str]) -> Value {
    let mut all = vec!["--json"];
    all.extend(arguments);
    let document: Value = serde_json::from_str(&answer(directory, &all)).unwrap();
    document["rows"][0].clone()
}

fn refusal(directory: &Path, arguments: &[&str], status: i32) -> String {
    let output = trace(directory, arguments);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn recorded(directory: &Path) {
    let mut command = striate();
    command.args(["run", "--quiet", "--trace", "traces", "--", "sh", "-c", SCRIPT]);
    let output = command.current_dir(directory).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_recording_is_looked_at_merged_cut_and_exported() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    recorded(here);
    let shown = answer(here, &["show", "traces"]);
    let writes = shown.lines().filter(|line| line.contains(" write(") && line.contains("a.dat"));
    assert_eq!(writes.count(), 20, "{shown}");
    let first = answer(here, &["show", "traces", "--path", "a.dat", "--kind", "write", "-n", "1"]);
    assert!(first.contains("a.dat\", 1000, position 0) = 1000 <"), "{first}");
    let text = answer(here, &["stats", "traces"]);
    assert!(text.contains("19.53 KiB written by 20 calls"), "{text}");
    assert!(text.contains("by function") && text.contains("by file"), "{text}");
    let stats = json(here, &["stats", "traces"]);
    assert_eq!(stats["total"]["calls"].as_u64(), Some(shown.lines().count() as u64));
    assert_eq!(stats["functions"]["write"]["bytes"].as_u64(), Some(20_000));
    assert_eq!(stats["total"]["writes"]["sizes"][10].as_u64(), Some(20));

    let merged = json(here, &["merge", "traces", "-o", "run.trace"]);
    assert_eq!(merged["records"], stats["total"]["calls"]);
    assert_eq!(answer(here, &["show", "run.trace"]), shown);
    let again = json(here, &["stats", "run.trace"]);
    for field in ["total", "processes", "files", "functions", "began"] {
        assert_eq!(again[field], stats[field], "{field}");
    }
    answer(here, &["cut", "run.trace", "--path", "a.dat", "--kind", "write", "-o", "cut.trace"]);
    let cut = answer(here, &["show", "cut.trace"]);
    assert_eq!(cut, answer(here, &["show", "traces", "--path", "a.dat", "--kind", "write"]));

    let lines = answer(here, &["show", "run.trace", "--json"]);
    assert_eq!(lines, answer(here, &["export", "run.trace", "--format", "jsonl"]));
    let csv = answer(here, &["export", "run.trace", "--format", "csv"]);
    assert_eq!(csv.lines().count(), shown.lines().count() + 1);
    answer(here, &["export", "run.trace", "--format", "perfetto", "-o", "run.json"]);
    let events: Value = serde_json::from_slice(&fs::read(here.join("run.json")).unwrap()).unwrap();
    let calls = events["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    assert_eq!(calls.count(), shown.lines().count());
    let counters = answer(here, &["export", "run.trace", "--format", "darshan"]);
    let written = counters.lines().filter(|line| line.contains("\tPOSIX_BYTES_WRITTEN\t20000\t"));
    assert_eq!(written.count(), 1, "{counters}");
}

#[test]
fn what_is_wrong_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    recorded(here);
    assert!(refusal(here, &["show", "nowhere"], 1).contains("nowhere"));
    fs::write(here.join("text"), "text").unwrap();
    assert!(refusal(here, &["show", "text"], 1).contains("is not a trace"));
    assert!(refusal(here, &["show", "traces", "--kind", "raed"], 2).contains("'raed'"));
    assert!(refusal(here, &["show", "traces", "--from", "3h"], 2).contains("not a time"));
    assert!(refusal(here, &["show", "traces", "--path", "a["], 2).contains("pattern"));
    assert!(refusal(here, &["merge", "traces", "-o", "traces/a.trace"], 1).contains("part of"));
    assert!(refusal(here, &["import", "text", "-o", "b"], 1).contains("--format"));
    assert!(
        refusal(here, &["import", "text", "-o", "b", "--format", "strace"], 1).contains("line 1")
    );
    answer(here, &["merge", "traces", "-o", "run.trace"]);
    assert!(refusal(here, &["merge", "traces", "-o", "run.trace"], 1).contains("exists"));

    // A damaged one is read up to the damage.
    let bytes = fs::read(here.join("run.trace")).unwrap();
    fs::write(here.join("cut-off.trace"), &bytes[..bytes.len() * 2 / 3]).unwrap();
    let output = trace(here, &["show", "cut-off.trace"]);
    assert!(output.status.success() && !output.stdout.is_empty());
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("warning: ") && stderr.contains("damaged at byte"), "{stderr}");
}

#[test]
fn json_is_told_by_all_of_them() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    recorded(here);
    fs::write(here.join("strace.txt"), "1 1.5 unlink(\"/a\") = 0 <0.1>\n").unwrap();
    for (arguments, field) in [
        (&["stats", "traces"][..], "total"),
        (&["merge", "traces", "-o", "run.trace"], "records"),
        (&["cut", "run.trace", "--kind", "write", "-o", "cut.trace"], "records"),
        (&["export", "run.trace", "--format", "csv", "-o", "out.csv"], "bytes"),
        (&["import", "strace.txt", "-o", "in.trace"], "records"),
    ] {
        let row = json(here, arguments);
        assert!(row.get(field).is_some(), "{arguments:?}: {row}");
    }
    assert_eq!(
        json(here, &["export", "run.trace", "--format", "darshan", "-o", "d"])["format"],
        "darshan"
    );
    let said = refusal(here, &["export", "run.trace", "--format", "csv", "--json"], 2);
    assert!(said.contains("-o FILE"), "{said}");
    // One object in each line, as the help of it says.
    let shown = answer(here, &["show", "run.trace", "--json"]);
    assert!(shown.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{shown}");
    for arguments in [
        &["report", "traces"][..],
        &["report", "traces", "-o", "page.html"],
        &["compare", "traces", "run.trace"],
        &["replay", "traces", "--timing", "as-fast"],
    ] {
        let output = striate().arg("--json").args(arguments).current_dir(here).output().unwrap();
        assert!(output.status.success(), "{arguments:?}");
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(document["rows"][0].is_object(), "{arguments:?}: {document}");
    }
}

/// Sends the signal of Ctrl-C to a process once something holds.
fn interrupt_when(child: &std::process::Child, holds: impl Fn() -> bool) {
    while !holds() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let process = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
}

/// Whether a process has a file of this name open.
fn has_open(child: &std::process::Child, name: &str) -> bool {
    let links = fs::read_dir(format!("/proc/{}/fd", child.id())).into_iter().flatten().flatten();
    links.filter_map(|link| fs::read_link(link.path()).ok()).any(|path| path.ends_with(name))
}

#[test]
fn what_waits_can_be_interrupted() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let made = std::process::Command::new("mkfifo").arg(here.join("pipe")).status().unwrap();
    assert!(made.success());
    let spawn = |arguments: &[&str]| {
        let mut command = striate();
        command.arg("trace").args(arguments).current_dir(here);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    // No program ever writes into the pipe: neither to find out what it is, nor to read it.
    for format in [&[][..], &["--format", "strace"]] {
        let child = spawn(&[&["import", "pipe", "-o", "in.trace"], format].concat());
        interrupt_when(&child, || has_open(&child, "pipe"));
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("interrupted: nothing is left of in.trace"), "{said}");
        assert_eq!(fs::read_dir(here).unwrap().count(), 1);
    }
    // Nothing reads what is shown: there is more of it than a pipe takes.
    let line = |n| format!("1 1700000000.{n:06} unlink(\"/a/{n}\") = 0 <0.000001>\n");
    fs::write(here.join("strace.txt"), (0..20_000).map(line).collect::<String>()).unwrap();
    answer(here, &["import", "strace.txt", "-o", "run.trace"]);
    for arguments in [&["show", "run.trace"][..], &["export", "run.trace", "--format", "csv"]] {
        let mut child = spawn(arguments);
        // The pipe is full, and is not read before it has ended.
        let unread = || rustix::io::ioctl_fionread(child.stdout.as_ref().unwrap()).unwrap();
        interrupt_when(&child, || unread() >= 60_000);
        let status = child.wait().unwrap();
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert_eq!(status.code(), Some(1), "{said}");
        assert!(said.contains("is incomplete"), "{said}");
    }
}

#[test]
fn a_pipe_is_imported_as_a_file_is() {
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    let line = |n| format!("1 1700000000.{n:06} unlink(\"/a/{n}\") = 0 <0.000001>\n");
    fs::write(here.join("strace.txt"), (0..20_000).map(line).collect::<String>()).unwrap();
    let made = std::process::Command::new("mkfifo").arg(here.join("pipe")).status().unwrap();
    assert!(made.success());
    let mut writer = std::process::Command::new("sh");
    let mut writer =
        writer.args(["-c", "cat strace.txt > pipe"]).current_dir(here).spawn().unwrap();
    let imported = json(here, &["import", "pipe", "-o", "in.trace"]);
    assert_eq!((&imported["lines"], &imported["records"]), (&20_000.into(), &20_000.into()));
    assert!(writer.wait().unwrap().success());
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let directory = tempfile::tempdir().unwrap();
    let line = |n| format!("1 1700000000.{n:06} unlink(\"/a/{n}\") = 0 <0.000001>\n");
    let lines = (0..20_000).map(line).collect::<Vec<_>>().concat();
    fs::write(directory.path().join("strace.txt"), lines).unwrap();
    answer(directory.path(), &["import", "strace.txt", "-o", "run.trace"]);
    let mut command = striate();
    command.args(["trace", "show", "run.trace"]).current_dir(directory.path());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 10];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty());
}

/// Calls on a path: how many of each kind, and how many bytes.
#[cfg(feature = "peers")]
fn counts(directory: &Path, recording: &str, path: &str) -> Vec<(String, u64)> {
    let mut counts = std::collections::BTreeMap::new();
    for line in answer(directory, &["show", recording, "--json", "--path", path]).lines() {
        let row: Value = serde_json::from_str(line).unwrap();
        let kind = row["kind"].as_str().unwrap().to_owned();
        if ["read", "write"].contains(&kind.as_str()) {
            *counts.entry(format!("{kind} bytes")).or_insert(0) += row["result"].as_u64().unwrap();
        }
        *counts.entry(kind).or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// The same program by our own library and by strace: the same calls on its files.
#[cfg(feature = "peers")]
#[test]
fn an_import_of_strace_has_the_calls_that_we_record() {
    const PROGRAM: &str = "
import os
os.mkdir('d')
f = os.open('d/data', os.O_CREAT | os.O_RDWR)
for n in range(50):
    os.write(f, b'x' * (100 + n))
    os.pread(f, 64, n)
os.lseek(f, 10, 0)
while os.read(f, 1000): pass
os.writev(f, [b'a' * 7, b'b'])
os.preadv(f, [bytearray(3), bytearray(5)], 2)
g = os.dup(f)
os.close(g)
os.fsync(f)
os.fdatasync(f)
os.ftruncate(f, 300)
os.fstat(f)
if os.fork() == 0:
    os.write(f, b'child')
    os._exit(0)
os.wait()
os.write(f, b'parent')
os.close(f)
a = os.open('d/log', os.O_CREAT | os.O_WRONLY | os.O_APPEND)
os.write(a, b'line')
os.close(a)
os.rename('d/log', 'd/log2')
try: os.open('d/nothing', os.O_RDONLY)
except OSError: pass
os.unlink('d/log2')
os.unlink('d/data')
os.rmdir('d')
";
    let directory = tempfile::tempdir().unwrap();
    let here = directory.path();
    fs::write(here.join("program.py"), PROGRAM).unwrap();
    let program = ["python3", "-S", "-E", "program.py"];
    let mut run = striate();
    run.args(["run", "--quiet", "--trace", "own", "--"]).args(program).current_dir(here);
    assert!(run.output().unwrap().status.success());
    for (name, options) in
        [("plain", &["-f", "-ttt", "-T"][..]), ("paths", &["-f", "-ttt", "-T", "-y"])]
    {
        let text = format!("{name}.txt");
        let mut strace = Command::new("strace");
        strace.args(options).args(["-o", &text]).args(program).current_dir(here);
        let output = strace.output().expect("strace is installed");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let recording = format!("{name}.trace");
        let from = here.to_str().unwrap();
        let arguments = ["import", &text, "--directory", from, "-o", &recording];
        let imported = json(here, &arguments);
        assert_eq!(imported["malformed"].as_u64(), Some(0), "{imported}");
        for path in ["**/d", "**/d/data", "**/d/log", "**/d/log2", "**/d/nothing"] {
            assert_eq!(counts(here, &recording, path), counts(here, "own", path), "{name} {path}");
        }
        // And as many transfers as strace has lines of them.
        let lines = fs::read_to_string(here.join(&text)).unwrap();
        let told = |call: &str| lines.lines().filter(|line| line.contains(call)).count() as u64;
        let stats = json(here, &["stats", &recording]);
        let of = |function: &str| stats["functions"][function]["calls"].as_u64().unwrap_or(0);
        let elsewhere = |name: &str| imported["elsewhere"][name].as_u64().unwrap_or(0);
        assert_eq!(of("write") + elsewhere("write"), told(" write("));
        assert_eq!(of("pread") + elsewhere("pread64"), told(" pread64("));
        assert_eq!(of("lseek") + elsewhere("lseek"), told(" lseek("));
        assert_eq!(of("fsync"), told(" fsync("));
    }
}
