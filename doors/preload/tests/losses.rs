//! What stages have acknowledged and cannot bring to storage is told when the program ends without
//! having been told: on standard error, and by the status 74 in the place of 0.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(dead_code, reason = "modules of tests are shared")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use support::{compile, library};
use tempfile::TempDir;

/// The bytes that the program writes, a hundred at a time.
const WRITTEN: u64 = 300_000;

/// The disk of these stages is full.
const FULL: &str =
    "[[stage]]\nkind = \"fault\"\nkinds = [\"write\"]\nerror = \"ENOSPC\"\nevery = 1\n";

struct LossDirectories {
    root: TempDir,
    program: PathBuf,
}

impl LossDirectories {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        for directory in ["work", "fast", "run"] {
            fs::create_dir(root.path().join(directory)).unwrap();
        }
        let program = compile("losses.c", root.path(), &[]);
        Self { root, program }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The variables of a stack; `ROOT` stands for the place.
    fn environment(&self, stack: &str) -> [(&'static str, PathBuf); 3] {
        let root = self.root.path().to_str().unwrap();
        let text = format!("[paths]\ninclude = [\"{root}/work\"]\n{stack}").replace("ROOT", root);
        let file = self.at("stack.toml");
        fs::write(&file, text).unwrap();
        [
            ("LD_PRELOAD", library().to_path_buf()),
            ("STRIATE_STACK", file),
            ("STRIATE_RUN_DIR", self.at("run")),
        ]
    }

    fn run(&self, how: &str, stack: &str) -> Output {
        let mut command = Command::new(&self.program);
        command.arg(how).current_dir(self.at("work")).envs(self.environment(stack));
        command.output().unwrap()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The bytes that a text says are lost.
fn lost(told: &str, stage: &str, file: &Path) -> u64 {
    let start = format!("striate: {stage}: {}: ", file.display());
    let line = told.lines().find_map(|line| line.strip_prefix(&start));
    let line = line.unwrap_or_else(|| panic!("{start}… is missing in: {told}"));
    assert!(line.contains("No space left on device"), "{line}");
    line.split(' ').next().unwrap().parse().unwrap()
}

fn write_back() -> String {
    format!("[[stage]]\nkind = \"write-back\"\n{FULL}")
}

#[test]
fn every_end_of_a_program_tells_what_is_lost() {
    let place = LossDirectories::new();
    for how in ["return", "atexit", "status 256", "_exit", "_Exit", "quick", "syscall", "thread"] {
        let output = place.run(how, &write_back());
        let (printed, told) = (text(&output.stdout), text(&output.stderr));
        assert!(printed.starts_with("acknowledged 3000\n"), "{how}: {printed}");
        assert_eq!(lost(&told, "write-back", &place.at("work/out")), WRITTEN, "{how}");
        assert_eq!(told.lines().count(), 1, "{how}: {told}");
        assert_eq!(output.status.code(), Some(74), "{how}: {told}");
        if how == "atexit" {
            assert!(printed.ends_with("bye\nbuffered\n"), "{printed}");
        }
    }
}

#[test]
fn a_status_of_the_program_and_signals_stay() {
    let place = LossDirectories::new();
    let output = place.run("status 3", &write_back());
    assert_eq!(output.status.code(), Some(3));
    lost(&text(&output.stderr), "write-back", &place.at("work/out"));
    for (how, signal) in [("TERM", libc_signal("TERM")), ("abort", libc_signal("ABRT"))] {
        let output = place.run(how, &write_back());
        let ended = std::os::unix::process::ExitStatusExt::signal(&output.status);
        assert_eq!(ended, Some(signal), "{how}");
        lost(&text(&output.stderr), "write-back", &place.at("work/out"));
    }
    // The other program's status is its own.
    let output = place.run("exec", &write_back());
    assert_eq!(output.status.code(), Some(0));
    lost(&text(&output.stderr), "write-back", &place.at("work/out"));
}

fn libc_signal(name: &str) -> i32 {
    match name {
        "TERM" => 15,
        _ => 6,
    }
}

#[test]
fn what_a_call_has_said_is_not_said_again() {
    let place = LossDirectories::new();
    let output = place.run("close", &write_back());
    assert_eq!(text(&output.stdout), "acknowledged 3000\nclose -1 28\n");
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
    // These close without an answer.
    for how in ["dup2", "close_range"] {
        let output = place.run(how, &write_back());
        assert_eq!(output.status.code(), Some(74), "{how}");
        assert_eq!(lost(&text(&output.stderr), "write-back", &place.at("work/out")), WRITTEN);
    }
    // A file without a name is not reported.
    let output = place.run("unlink", &write_back());
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), String::new()));
}

#[test]
fn a_child_has_not_lost_what_its_parent_wrote() {
    let place = LossDirectories::new();
    let output = place.run("fork", &write_back());
    assert_eq!(text(&output.stdout), "acknowledged 3000\nchild 0\n");
    assert_eq!(output.status.code(), Some(74));
    assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
}

#[test]
fn combine_tells_what_it_could_not_write() {
    let place = LossDirectories::new();
    let stack = format!("[[stage]]\nkind = \"combine\"\nlimit = \"1MiB\"\n{FULL}");
    let output = place.run("return", &stack);
    let told = text(&output.stderr);
    assert_eq!(lost(&told, "combine", &place.at("work/out")), WRITTEN, "{told}");
    assert_eq!(output.status.code(), Some(74), "{told}");
    // It was not closed, but is in the log all the same, and comes when there is room again.
    assert!(told.contains("stack recover"), "{told}");
    let text = "[[stage]]\nkind = \"combine\"\nlimit = \"1MiB\"\n";
    let configuration = striate_stages::parse_stack(text).unwrap();
    let wanted = striate_stages::recover::RecoveryMode::Finish;
    let report = striate_stages::recover::recover(&configuration, &[place.at("work")], wanted);
    assert_eq!(report.failures(), 0, "{report}");
    assert_eq!(fs::read(place.at("work/out")).unwrap().len() as u64, WRITTEN);
}

/// A full disk of its own, as a program meets it: a part is written, and the rest is told.
#[test]
fn on_a_full_disk_what_is_told_is_what_is_missing() {
    let place = LossDirectories::new();
    let work = place.at("work");
    for (stack, stage) in [
        ("[[stage]]\nkind = \"write-back\"\n", "write-back"),
        ("[[stage]]\nkind = \"write-back\"\nblock = \"4KiB\"\n", ""),
        ("[[stage]]\nkind = \"combine\"\nlimit = \"1MiB\"\n", "combine"),
        (
            "[[stage]]\nkind = \"path-rewrite\"\nrules = [{ from = \"ROOT/work\", to = \"ROOT/fast\" }]\n",
            "path-rewrite",
        ),
    ] {
        let variables =
            place.environment(stack).map(|(name, value)| format!("{name}='{}'", value.display()));
        // The mount ends with its namespace. Nothing is left for a shell there but to say what is
        // on the disk.
        let script = format!(
            "mount -t tmpfs -o size=200k tmpfs '{0}' && cd '{0}' && {{ env {1} '{2}' return; \
             echo status $?; stat -c 'size %s' out 2>/dev/null; }}",
            work.display(),
            variables.join(" "),
            place.program.display()
        );
        let output = Command::new("unshare")
            .args(["--mount", "--map-root-user", "sh", "-c", &script])
            .output()
            .unwrap();
        let (printed, told) = (text(&output.stdout), text(&output.stderr));
        let number = |word: &str| -> u64 {
            let found = printed.lines().find_map(|line| line.strip_prefix(word)).unwrap_or("0");
            found.trim().parse().unwrap()
        };
        assert_eq!(number("status "), 74, "{stack}{printed}{told}");
        let acknowledged = number("acknowledged ") * 100;
        if stage.is_empty() {
            // Later writes have failed, and said so.
            assert!(acknowledged < WRITTEN, "{printed}");
            let missing = lost(&told, "write-back", &work.join("out"));
            assert_eq!(number("size ") + missing, acknowledged, "{printed}{told}");
        } else if stage == "write-back" {
            let missing = lost(&told, stage, &work.join("out"));
            assert_eq!((acknowledged, number("size ") + missing), (WRITTEN, WRITTEN), "{told}");
        } else {
            assert_eq!(acknowledged, WRITTEN);
            assert_eq!(lost(&told, stage, &work.join("out")), WRITTEN, "{told}");
        }
        let _ = fs::remove_dir_all(place.at("fast"));
        fs::create_dir(place.at("fast")).unwrap();
    }
}
