//! `striate run --mount`: programs that make their system calls by themselves, with the directory
//! mounted for them only.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod preloaded;

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use preloaded::striate;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use striate_testing::copy_program;
use striate_trace::Trace;
use tempfile::TempDir;

/// Makes files by system calls of its own, reads them again, and ends with a status.
const PROGRAM: &str = r#"
static long call(long number, long a, long b, long c, long d) {
    long result;
    register long r10 __asm__("r10") = d;
    __asm__ volatile("syscall" : "=a"(result)
        : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10) : "rcx", "r11", "memory");
    return result;
}
int main(void) {
    char name[] = "file-000", text[] = "content of file 000\n", back[sizeof text];
    for (int n = 0; n < 200; n++) {
        for (int i = 0, rest = n; i < 3; i++, rest /= 10)
            name[7 - i] = text[18 - i] = '0' + rest % 10;
        long file = call(2, (long)name, 0102 | 01000, 0644, 0);
        if (file < 0) return 1;
        if (call(1, file, (long)text, sizeof text - 1, 0) != sizeof text - 1) return 2;
        if (call(17, file, (long)back, sizeof back - 1, 0) != sizeof text - 1) return 3;
        for (unsigned i = 0; i < sizeof text - 1; i++) if (back[i] != text[i]) return 4;
        if (call(3, file, 0, 0, 0) != 0) return 5;
    }
    return 7;
}
"#;

/// A directory with a program that is linked statically, if that can be made here.
fn place() -> Option<TempDir> {
    if !cfg!(target_arch = "x86_64") || !Path::new("/dev/fuse").exists() {
        eprintln!("skipped: the program is for x86-64, and needs /dev/fuse");
        return None;
    }
    let place = TempDir::new().unwrap();
    fs::create_dir(place.path().join("work")).unwrap();
    fs::write(place.path().join("program.c"), PROGRAM).unwrap();
    let mut compiler = Command::new("cc");
    compiler.args(["-static", "-O1", "-o", "program", "program.c"]).current_dir(place.path());
    assert!(compiler.status().unwrap().success(), "cc -static works where the tests run");
    Some(place)
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn run(place: &TempDir, words: &[&str]) -> Output {
    striate().arg("run").args(words).current_dir(place.path().join("work")).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn files(work: &Path) -> Vec<(PathBuf, String)> {
    let entries = fs::read_dir(work).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect();
    files.sort();
    files
}

#[test]
fn a_static_program_is_told_to_have_made_its_calls_by_itself() {
    let Some(place) = place() else { return };
    let output = run(&place, &["--", "../program"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("program is linked statically and made its calls by itself"), "{said}");
    assert!(said.contains("striate run --mount") && said.contains("'striate mount'"), "{said}");
    assert!(!said.contains("no calls on files"), "{said}");
    let output = run(&place, &["--json", "--", "../program"]);
    let told: Value = serde_json::from_slice(&output.stderr).unwrap();
    assert!(told["rows"][0]["unseen"][0].as_str().unwrap().ends_with("/program"), "{told}");
    // Also behind a shell.
    let output =
        run(&place, &["--", "sh", "-c", "for n in 1 2 3 4 5 6 7 8 9; do ../program; done"]);
    assert!(stderr(&output).contains("made its calls by itself"), "{}", stderr(&output));
    let output = run(&place, &["--", "ls"]);
    assert!(!stderr(&output).contains("by itself"), "{}", stderr(&output));
}

#[test]
fn stages_serve_a_static_program() {
    let Some(place) = place().filter(|_| is_root()) else { return };
    let work = place.path().join("work");
    let output = run(&place, &["--quiet", "--", "../program"]);
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let expected = files(&work);
    assert_eq!(expected.len(), 200);
    for kind in ["combine", "write-back", "trace"] {
        for (path, _) in files(&work) {
            fs::remove_file(path).unwrap();
        }
        fs::write(place.path().join("stack.toml"), format!("[[stage]]\nkind = '{kind}'\n"))
            .unwrap();
        // Recordings are asked for with each.
        let stack = ["--stack", "../stack.toml"];
        let stack = if kind == "trace" { &[][..] } else { &stack };
        let words = ["--mount", "--trace", "../traces"];
        let output = run(&place, &[&words, stack, &["--", "../program"]].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(7), "{kind}: {said}");
        // The summary is that of the preload way.
        assert!(
            said.starts_with("striate: ") && said.contains("3.91 KiB written"),
            "{kind}: {said}"
        );
        assert!(said.contains(" in ") && said.contains("traces ("), "{kind}: {said}");
        assert!(files(&work) == expected, "{kind}: the files are others");
        let mut written = 0;
        for entry in fs::read_dir(place.path().join("traces")).unwrap() {
            let trace = Trace::open(&entry.unwrap().path()).unwrap();
            let is_program =
                trace.header().origin.command.first().is_some_and(|name| name.contains("program"));
            let writes = trace.records().map(Result::unwrap);
            let writes = writes.filter(|record| record.function.name() == "pwrite");
            written += if is_program { writes.count() } else { 0 };
        }
        assert_eq!(written, 200, "{kind}");
        fs::remove_dir_all(place.path().join("traces")).unwrap();
    }
    // Only the program has seen a mount, and nothing else is left.
    assert!(!fs::read_to_string("/proc/self/mounts").unwrap().contains(work.to_str().unwrap()));
    assert!(files(&work) == expected);
}

#[test]
fn the_program_is_as_if_it_ran_without_a_mount() {
    let Some(place) = place().filter(|_| is_root()) else { return };
    let work = place.path().join("work").canonicalize().unwrap();
    let script = "pwd; umask; ulimit -n; echo x >f; stat -c %a f; touch ../beside";
    let bare = Command::new("sh").args(["-c", script]).current_dir(&work).output().unwrap();
    fs::remove_file(work.join("f")).unwrap();
    let output = run(&place, &["--mount", "--quiet", "--", "sh", "-c", script]);
    assert_eq!(output.stdout, bare.stdout, "{}", stderr(&output));
    assert!(place.path().join("beside").exists());
    // Another directory than the working directory.
    fs::create_dir(place.path().join("there")).unwrap();
    let output =
        run(&place, &["--mount=../there", "--", "sh", "-c", "echo abc >../there/g; echo d >h"]);
    assert!(stderr(&output).contains("4 B written"), "{}", stderr(&output));
    assert_eq!(fs::read(place.path().join("there/g")).unwrap(), b"abc\n");
    for (script, status) in [("exit 3", 3), ("kill -KILL $$", 137)] {
        let output = run(&place, &["--mount", "--quiet", "--", "sh", "-c", script]);
        assert_eq!((output.status.code(), stderr(&output)), (Some(status), String::new()));
    }
    assert_eq!(run(&place, &["--mount", "--", "no-such-program"]).status.code(), Some(127));
    let output = run(&place, &["--mount=nowhere", "--", "true"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("no such directory"), "{}", stderr(&output));
}

#[test]
fn signals_reach_the_program_and_children_that_outlive_it_are_waited_for() {
    let Some(place) = place().filter(|_| is_root()) else { return };
    let work = place.path().join("work");
    fs::write(place.path().join("stack.toml"), "[[stage]]\nkind = 'combine'\n").unwrap();
    let outlive = "(while [ ! -e go ]; do sleep 0.05; done; echo late >late) >/dev/null 2>&1 & echo early >early";
    let words = ["--mount", "--quiet", "--stack", "../stack.toml", "--", "sh", "-c", outlive];
    let mut child = striate().arg("run").args(words).current_dir(&work).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "it has not waited for the child of its program");
    fs::write(work.join("go"), "").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert_eq!(fs::read(work.join("early")).unwrap(), b"early\n");
    assert_eq!(fs::read(work.join("late")).unwrap(), b"late\n");

    let script =
        "trap 'echo ended >ended; exit 9' TERM; echo >started; while :; do sleep 0.05; done";
    let words = ["--mount", "--quiet", "--", "sh", "-c", script];
    let mut child = striate().arg("run").args(words).current_dir(&work).spawn().unwrap();
    let until = Instant::now() + Duration::from_secs(60);
    while !work.join("started").exists() {
        assert!(Instant::now() < until, "not started");
        std::thread::sleep(Duration::from_millis(10));
    }
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(9));
    assert_eq!(fs::read(work.join("ended")).unwrap(), b"ended\n");
}

/// By a user namespace, or with a sentence that says why there is none.
#[test]
fn other_users_need_user_namespaces() {
    let Some(place) = place().filter(|_| is_root()) else { return };
    let work = place.path().join("work");
    let script = format!(
        "chmod 755 '{0}'; mkdir '{0}/tmp'; chown 65534:65534 '{0}/work' '{0}/tmp'",
        place.path().display()
    );
    assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
    let program = place.path().join("striate");
    copy_program(env!("CARGO_BIN_EXE_striate"), &program);
    let as_user = |words: &[&str]| {
        let mut command = Command::new(&program);
        command.args(words).current_dir(&work).env("TMPDIR", place.path().join("tmp"));
        command.env("NO_COLOR", "1").uid(65534).gid(65534).stdin(Stdio::null());
        command.output().unwrap()
    };
    let output = as_user(&["run", "--mount", "--", "../program"]);
    let said = stderr(&output);
    if output.status.code() == Some(7) {
        assert!(said.contains("3.91 KiB written"), "{said}");
        assert_eq!(files(&work).len(), 200);
        return;
    }
    eprintln!("not possible here: {said}");
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("hint: "), "{said}");
}
