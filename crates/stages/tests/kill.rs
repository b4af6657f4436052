//! A program is killed at any moment: what it had closed is there after recovery, complete.
//!
//! `STRIATE_ROUNDS=200` for more.

#![allow(clippy::unwrap_used)]

mod name_steps;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::RwLock;
use std::time::Duration;

use name_steps::{NameStep, NamesProgram, PathForm};
use striate_stages::recover::{RecoveryMode, recover, unpack};

const NAMES: u64 = 60;

fn content(number: u64) -> Vec<u8> {
    let length = match number % 7 {
        0 => 0,
        rest => (number.wrapping_mul(0x9E37_79B9) % 9000 * rest) as usize,
    };
    (0..length).map(|at| (number as usize * 31 + at * 7 + at / 251) as u8).collect()
}

fn name(number: u64) -> String {
    let directory = ["", "a/", "a/b/"][(number % 3) as usize];
    format!("{directory}f{}", number % NAMES)
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n!{line}").unwrap();
    out.flush().unwrap();
}

/// The program. It says before and after each thing what it does.
#[test]
fn child() {
    let (Ok(root), Ok(text)) = (std::env::var("STRIATE_ROOT"), std::env::var("STRIATE_TEXT"))
    else {
        return;
    };
    let root = PathBuf::from(root);
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    let stack = striate_stages::parse_stack(&text).unwrap().build().unwrap();
    let mut program = NamesProgram::new(stack, &root);
    let start: u64 = std::env::var("STRIATE_START").unwrap().parse().unwrap();
    for number in start.. {
        if number % 11 == 10 {
            // Another one goes.
            let gone = number.wrapping_mul(17);
            say(&format!("begin {gone} remove"));
            program.step(&NameStep::Unlink(name(gone), PathForm::Absolute));
            say(&format!("end {gone} remove"));
        }
        say(&format!("begin {number}"));
        let renamed = number % 4 == 1;
        let path = if renamed { "a/temporary".to_owned() } else { name(number) };
        let flags = libc::O_CREAT | libc::O_TRUNC | libc::O_RDWR;
        program.open(&path, PathForm::Absolute, flags, 0o644).unwrap();
        for part in content(number).chunks(3000) {
            assert_eq!(program.write(0, part, None), Ok(part.len() as u64));
        }
        program.close(0).unwrap();
        if renamed {
            program.step(&NameStep::Rename(path, name(number), 0));
        }
        if number % 97 == 96 {
            program.step(&NameStep::List("a".into()));
        }
        say(&format!("end {number}"));
    }
}

#[derive(Default)]
struct Expected {
    /// What each name has, by the number of its content.
    files: HashMap<String, Option<u64>>,
    /// What was under way: a name, and what it is to have.
    begun: Option<(String, Option<u64>)>,
    last: u64,
}

impl Expected {
    fn hear(&mut self, line: &str) {
        let Some(line) = line.strip_prefix('!') else { return };
        let words: Vec<&str> = line.split(' ').collect();
        let (Some(what), Some(Ok(number))) = (words.first(), words.get(1).map(|n| n.parse()))
        else {
            return;
        };
        let new = if words.len() > 2 { None } else { Some(number) };
        if let Some(number) = new {
            self.last = number;
        }
        match *what {
            "begin" => self.begun = Some((name(number), new)),
            "end" => {
                self.files.insert(name(number), new);
                self.begun = None;
            }
            _ => {}
        }
    }

    fn check(&self, root: &Path, round: u64) {
        for (name, number) in &self.files {
            let found = std::fs::read(root.join(name)).ok();
            let expected = number.map(content);
            if let Some((begun, new)) = &self.begun
                && begun == name
            {
                let prefix = |bytes: &Vec<u8>| new.is_some_and(|n| content(n).starts_with(bytes));
                let gone = new.is_none() && found.is_none();
                assert!(
                    found == expected || gone || found.as_ref().is_some_and(prefix),
                    "round {round}: {name}, which was under way"
                );
                continue;
            }
            assert!(
                found == expected,
                "round {round}: {name} has {:?} bytes instead of {:?} ({number:?})",
                found.map(|bytes| bytes.len()),
                expected.map(|bytes| bytes.len())
            );
        }
    }
}

/// Nothing hidden is left anywhere.
fn check_clean(places: &[&Path]) {
    for place in places {
        for name in name_steps::tree(place).into_keys() {
            assert!(!name.contains(".striate"), "{name} is left");
        }
    }
}

/// Tests of this program run at the same time. A child that is being started has copies of all open
/// files until it executes its program, and with them the locks of a recovery: so no child is
/// started while another test recovers.
static STARTING: RwLock<()> = RwLock::new(());

fn kill_and_recover(configuration: &str) {
    let place = tempfile::tempdir().unwrap();
    let far = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let root = place.path().join("root");
    std::fs::create_dir(&root).unwrap();
    let text = configuration
        .replace("ROOT", &root.display().to_string())
        .replace("$FAR", &far.path().display().to_string());
    let parsed = striate_stages::parse_stack(&text).unwrap();
    let rounds: u64 =
        std::env::var("STRIATE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(8);
    let mut expected = Expected::default();
    for round in 0..rounds {
        let starting = STARTING.write().unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env("STRIATE_ROOT", &root)
            .env("STRIATE_TEXT", &text)
            .env("STRIATE_START", (expected.last + 1).to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        drop(starting);
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut killer = None;
        for line in out.lines() {
            let Ok(line) = line else { break };
            expected.hear(&line);
            if killer.is_none() && line.starts_with('!') {
                // The first things are done: from now on at any moment.
                let process = child.id();
                let wait = Duration::from_micros((round * 7919) % 150_000);
                killer = Some(std::thread::spawn(move || {
                    std::thread::sleep(wait);
                    // SAFETY: the child is ours and was not waited for yet.
                    unsafe { libc::kill(process as i32, libc::SIGKILL) };
                }));
            }
        }
        child.wait().unwrap();
        killer.expect("the child has said something").join().unwrap();
        let places = [root.clone()];
        let no_start = STARTING.read().unwrap();
        let listed = recover(&parsed, &places, RecoveryMode::List);
        let report = recover(&parsed, &places, RecoveryMode::Finish);
        assert_eq!(report.failures(), 0, "round {round}: {report}");
        assert!(report.in_use.is_empty(), "round {round}: {report}");
        assert_eq!(listed.files.len(), report.files.len());
        assert!(recover(&parsed, &places, RecoveryMode::Finish).files.is_empty());
        let kept = text.contains("unpack = false");
        if kept {
            let unpacked = unpack(far.path(), None, RecoveryMode::Finish).unwrap();
            assert_eq!(unpacked.failures(), 0, "round {round}: {unpacked}");
        }
        drop(no_start);
        expected.check(&root, round);
        expected.begun = None;
        // What was under way is as it is now.
        for (name, number) in &mut expected.files {
            let found = std::fs::read(root.join(name)).ok();
            if found != number.map(content) {
                *number = None;
                let _ = std::fs::remove_file(root.join(name));
            }
        }
        check_clean(&[&root, far.path()]);
    }
    assert!(expected.files.len() > 1);
}

const PATHS: &str = "[paths]\ninclude = [\"ROOT\"]\n[[stage]]\n";

#[test]
fn combine_loses_nothing_that_was_closed() {
    kill_and_recover(&format!(
        "{PATHS}kind = \"combine\"\nlimit = \"64KiB\"\nmemory = \"2MiB\"\nthreads = 2\n"
    ));
}

#[test]
fn combine_with_a_log_elsewhere_loses_nothing_that_was_closed() {
    kill_and_recover(&format!(
        "{PATHS}kind = \"combine\"\nlimit = \"64KiB\"\nmemory = \"4MiB\"\ndirectory = \"$FAR\"\n"
    ));
}

#[test]
fn path_rewrite_loses_nothing_that_was_closed() {
    kill_and_recover(&format!(
        "{PATHS}kind = \"path-rewrite\"\nrules = [{{ from = \"ROOT\", to = \"$FAR\" }}]\n"
    ));
}

#[test]
fn path_rewrite_in_the_background_loses_nothing_that_was_closed() {
    let rules = "rules = [{ from = \"ROOT\", to = \"$FAR\" }]\nbackground = true\n";
    kill_and_recover(&format!("{PATHS}kind = \"path-rewrite\"\n{rules}"));
}

#[test]
fn containers_lose_nothing_that_was_closed() {
    let options = "unpack = false\ndirectory = \"$FAR\"\nmemory = \"4MiB\"";
    kill_and_recover(&format!("{PATHS}kind = \"combine\"\n{options}\n"));
}
