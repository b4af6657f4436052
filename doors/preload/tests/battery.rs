//! The battery of POSIX and Linux calls on files (`battery/battery.c`), without Striate and under
//! every stack: every return value, every error, and the files that are left, with their names,
//! sizes, modes, links and bytes.
//!
//! What cannot be the same is normalised in [`told`], and listed in docs/preload.md under *What
//! differs*.
//!
//! `STRIATE_BATTERY='sizes locks'` runs only these cases.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, reason = "modules of tests are shared")]

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use striate_unmodified::{Ended, Image, LONGEST, run};
use support::library;

/// Stages beside those of `etc/stacks`: each alone, small, and all that go together. `WORK`,
/// `FAST`, `KEPT` and `RUN` stand for directories.
const STACKS: &[(&str, &str)] = &[
    ("no stages", ""),
    (
        "small write-back",
        "[[stage]]\nkind = \"write-back\"\nblock = \"4KiB\"\nmemory = \"64KiB\"\n",
    ),
    ("small read-ahead", "[[stage]]\nkind = \"read-ahead\"\nwindow = \"8KiB\"\n"),
    ("small combine", "[[stage]]\nkind = \"combine\"\nlimit = \"8KiB\"\nmemory = \"64KiB\"\n"),
    ("container", "[[stage]]\nkind = \"combine\"\nunpack = false\ndirectory = \"KEPT\"\n"),
    ("align", "[[stage]]\nkind = \"align\"\nstripe = \"4KiB\"\n"),
    (
        "path-rewrite",
        "[[stage]]\nkind = \"path-rewrite\"\nrules = [{ from = \"WORK\", to = \"FAST\" }]\n",
    ),
    (
        "path-rewrite, existing",
        "[[stage]]\nkind = \"path-rewrite\"\nrules = [{ from = \"WORK\", to = \"FAST\" }]\nexisting = true\n",
    ),
    (
        "all",
        "[[stage]]\nkind = \"count\"\n[[stage]]\nkind = \"trace\"\ndirectory = \"RUN\"\n\
         [[stage]]\nkind = \"combine\"\n\
         [[stage]]\nkind = \"path-rewrite\"\nrules = [{ from = \"WORK\", to = \"FAST\" }]\nexisting = true\n\
         [[stage]]\nkind = \"write-back\"\nblock = \"16KiB\"\n[[stage]]\nkind = \"read-ahead\"\n\
         [[stage]]\nkind = \"align\"\nstripe = \"8KiB\"\n[[stage]]\nkind = \"throttle\"\nlatency = \"2us\"\n",
    ),
];

/// Makes trouble on purpose.
const NOT_TRIED: &str = "faults.toml";

/// Where the battery is run. Both parts are of one file system: what a file system can do is not
/// the stages' matter.
struct BatteryDirectories {
    root: tempfile::TempDir,
    program: PathBuf,
}

impl BatteryDirectories {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
        let root = tempfile::Builder::new().prefix("striate-test-").tempdir_in(root).unwrap();
        let program = root.path().join("battery");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/battery/battery.c");
        let output = Command::new("cc")
            .args(["-O1", "-w", "-U_FORTIFY_SOURCE", "-pthread", "-o"])
            .args([&program, &source])
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { root, program }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.root.path().join(name)
    }

    /// The stages of a stack for this place.
    fn text(&self, stages: &str) -> String {
        let mut stages = stages.to_owned();
        for (word, name) in [("WORK", "work"), ("FAST", "fast"), ("KEPT", "kept"), ("RUN", "run")] {
            stages = stages.replace(word, self.at(name).to_str().unwrap());
        }
        let paths = format!("[paths]\ninclude = [\"{}\"]\n", self.at("work").display());
        paths + &stages
    }

    /// Runs the battery; without Striate if there is no stack.
    fn run(&self, stack: Option<&str>) -> (Ended, Image) {
        use std::os::unix::fs::DirBuilderExt;
        for name in ["work", "fast", "kept", "run"] {
            let _ = fs::remove_dir_all(self.at(name));
            fs::DirBuilder::new().mode(0o700).create(self.at(name)).unwrap();
        }
        let mut command = Command::new(&self.program);
        command.current_dir(self.at("work")).env("LC_ALL", "C").env_remove("STRIATE_STACK");
        if let Ok(cases) = std::env::var("STRIATE_BATTERY") {
            command.args(cases.split_whitespace());
        }
        if let Some(text) = stack {
            striate_stages::parse_stack(text).unwrap();
            fs::write(self.at("stack.toml"), text).unwrap();
            command.env("STRIATE_STACK", self.at("stack.toml"));
            command.env("STRIATE_RUN_DIR", self.at("run")).env("LD_PRELOAD", library());
        }
        let ended = run(&mut command, LONGEST);
        let report = striate_stages::recover::unpack(
            &self.at("kept"),
            None,
            striate_stages::recover::RecoveryMode::Finish,
        );
        assert_eq!(report.unwrap().failures(), 0);
        (ended, Image::of(&self.at("work"), |_| false))
    }
}

/// The example stacks, for this place.
fn examples() -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../etc/stacks");
    let mut examples = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name == NOT_TRIED {
            continue;
        }
        let document: toml::Table = fs::read_to_string(&path).unwrap().parse().unwrap();
        let mut stages = document["stage"].clone();
        for stage in stages.as_array_mut().unwrap() {
            let stage = stage.as_table_mut().unwrap();
            stage.remove("paths");
            if stage.contains_key("rules") {
                let rule = "rules = [{ from = \"WORK\", to = \"FAST\" }]";
                stage["rules"] = rule.parse::<toml::Table>().unwrap()["rules"].clone();
            }
            if stage.contains_key("directory") {
                stage["directory"] = "RUN".into();
            }
        }
        let mut text = toml::Table::new();
        text.insert("stage".into(), stages);
        examples.push((name, toml::to_string(&text).unwrap()));
    }
    examples.sort();
    assert!(examples.len() >= 8, "{examples:?}");
    examples
}

/// What the program has told, without what cannot be the same under a stack.
fn told(ended: &Ended, stages: &str) -> String {
    let mut told = String::new();
    for line in ended.stdout.lines() {
        // A file that is moved to its destination when it is closed is another inode from then on.
        let moved = stages.contains("path-rewrite") && line == "same after close 0";
        told.push_str(if moved { "same after close 1" } else { line });
        told.push('\n');
    }
    told
}

/// Where two texts part, with the case and some lines before.
fn parting(native: &str, other: &str) -> Option<String> {
    let (native, other): (Vec<_>, Vec<_>) = (native.lines().collect(), other.lines().collect());
    let place = (0..native.len().max(other.len())).find(|at| native.get(*at) != other.get(*at))?;
    let case = native[..place].iter().rev().find(|line| line.starts_with('[')).unwrap_or(&"");
    let before = native[place.saturating_sub(3)..place].join("\n    ");
    let line = |lines: &[&str]| lines.get(place).map_or("(nothing)", |line| *line).to_owned();
    Some(format!("{case}\n    {before}\n  - {}\n  + {}", line(&native), line(&other)))
}

#[test]
fn every_call_answers_the_same_under_every_stack() {
    let place = BatteryDirectories::new();
    let native = place.run(None);
    assert!(native.0.status.is_some_and(|status| status.success()), "{:?}", native.0);
    let again = place.run(None);
    assert_eq!(parting(&native.0.stdout, &again.0.stdout), None, "the battery repeats itself");
    assert_eq!(native.1.difference(&again.1), [] as [String; 0]);
    let mut stacks = examples();
    stacks.extend(STACKS.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())));
    let mut failures = Vec::new();
    for (name, stages) in &stacks {
        let (ended, image) = place.run(Some(&place.text(stages)));
        let mut differences: Vec<String> =
            parting(&told(&native.0, stages), &told(&ended, stages)).into_iter().collect();
        differences.extend(native.1.difference(&image));
        if ended.status != native.0.status {
            differences.push(format!("it ended with {:?}", ended.status));
        }
        if !differences.is_empty() {
            differences.push(ended.stderr.clone());
            failures.push(format!("under {name}: {}", differences.join("\n  ")));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
