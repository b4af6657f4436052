//! What a kill -9 takes away: under write-back at most what was not synced, under path-rewrite and
//! combine nothing that was closed.
//!
//! `STRIATE_ROUNDS=100` kills so many programs in each test.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unreachable_pub, reason = "modules of tests are shared")]
#![allow(dead_code, missing_docs, unused_imports, reason = "modules of tests are shared")]

mod stacks;

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::thread::sleep;
use std::time::{Duration, Instant};

use stacks::{LONGEST, Stack, Workspace};
use striate_stages::recover::{self, RecoveryMode};

/// How many programs are killed in each test, if not said otherwise.
const ROUNDS: u64 = 6;

fn rounds() -> std::ops::Range<u64> {
    let said = std::env::var("STRIATE_ROUNDS").ok();
    0..said.map_or(ROUNDS, |text| text.parse().expect("a number"))
}

/// Compiles the program that writes.
fn writer() -> &'static Path {
    static WRITER: OnceLock<PathBuf> = OnceLock::new();
    WRITER.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kills/writer.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("writer");
        let output = Command::new("cc")
            .args(["-O2", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&program, &source])
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program
    })
}

/// As in `writer.c`.
fn mixed(z: u64) -> u64 {
    let z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn value(generation: u64, place: u64) -> u8 {
    mixed(generation << 32 | place) as u8
}

/// Runs the writer under a stack, kills it after some steps, and returns what it told.
fn killed(place: &Workspace, stack: &Stack, mode: &str, round: u64) -> Vec<Vec<String>> {
    place.renew();
    let (out, errors) = (place.beside().join("told"), place.beside().join("errors"));
    let target = if mode == "files" { place.work() } else { place.work().join("file") };
    let mut child = place
        .command(writer(), stack)
        .args([mode, &round.to_string()])
        .arg(target)
        .stdin(Stdio::null())
        .stdout(File::create(&out).unwrap())
        .stderr(File::create(&errors).unwrap())
        .spawn()
        .unwrap();
    // Not before it has begun, and then at any moment.
    let until = Instant::now() + LONGEST;
    while fs::metadata(&out).unwrap().len() < 200 && Instant::now() < until {
        sleep(Duration::from_millis(1));
    }
    sleep(Duration::from_micros(mixed(round + 77) % 60_000));
    let ended = child.try_wait().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let errors = fs::read_to_string(&errors).unwrap();
    assert_eq!(ended, None, "{} ended by itself: {errors}", stack.name);
    let told = fs::read_to_string(&out).unwrap();
    told.lines().map(|line| line.split(' ').map(str::to_owned).collect()).collect()
}

fn numbers<const N: usize>(words: &[String]) -> [u64; N] {
    let numbers: Vec<u64> = words.iter().map(|word| word.parse().unwrap()).collect();
    numbers.try_into().unwrap()
}

/// Every byte is what the last write that was synced left there, or a later one; where nothing was
/// synced it may be missing.
fn check_bytes(told: &[Vec<String>], found: &[u8]) {
    // For each byte the steps that may have left it as it is; 0 stands for nothing.
    let mut left: Vec<Vec<u64>> = Vec::new();
    let mut dirty: Vec<std::ops::Range<usize>> = Vec::new();
    for words in told {
        match words[0].as_str() {
            "w" => {
                let [generation, offset, length] = numbers(&words[1..]);
                let range = offset as usize..(offset + length) as usize;
                if left.len() < range.end {
                    left.resize(range.end, vec![0]);
                }
                left[range.clone()].iter_mut().for_each(|steps| steps.push(generation));
                dirty.push(range);
            }
            "s" => {
                for range in dirty.drain(..) {
                    for steps in &mut left[range] {
                        *steps = steps.split_off(steps.len() - 1);
                    }
                }
            }
            other => panic!("told: {other}"),
        }
    }
    assert!(found.len() <= left.len(), "{} bytes, {} were written", found.len(), left.len());
    for (place, steps) in left.iter().enumerate() {
        let at = place as u64;
        let is_there = |byte: u8| {
            steps.iter().any(|step| if *step == 0 { byte == 0 } else { byte == value(*step, at) })
        };
        match found.get(place) {
            Some(byte) => {
                assert!(is_there(*byte), "byte {place} is {byte:#x}, written by none of {steps:?}");
            }
            None => assert_eq!(steps[0], 0, "byte {place} was synced and is missing"),
        }
    }
}

fn write_back_keeps_what_was_synced(stack: &str) {
    let place = Workspace::new();
    for round in rounds() {
        let mode = if round % 3 == 2 { "append" } else { "bytes" };
        let told = killed(&place, Stack::named(stack), mode, round);
        let found = fs::read(place.work().join("file")).unwrap();
        check_bytes(&told, &found);
    }
}

#[test]
fn write_back() {
    write_back_keeps_what_was_synced("write-back");
}

#[test]
fn write_back_in_small_blocks() {
    write_back_keeps_what_was_synced("write-back, small");
}

/// What a name may stand for: a whole file, or as much of it as was written, of these steps; or
/// nothing.
#[derive(Default)]
struct Allowed {
    /// The last step that ended.
    whole: Option<(u64, u64)>,
    /// Steps after it that may have begun.
    begun: Vec<(u64, u64)>,
    missing: bool,
}

fn allowed(told: &[Vec<String>]) -> BTreeMap<String, Allowed> {
    let mut names: BTreeMap<String, Allowed> = BTreeMap::new();
    for words in told {
        let name = words[2].clone();
        match words[0].as_str() {
            "b" => {
                let [generation, length] = numbers(&[words[1].clone(), words[3].clone()]);
                names
                    .entry(name)
                    .or_insert_with(|| Allowed { missing: true, ..Allowed::default() })
                    .begun
                    .push((generation, length));
            }
            "c" => {
                let entry = names.get_mut(&name).unwrap();
                *entry = Allowed { whole: entry.begun.pop(), ..Allowed::default() };
            }
            "m" => {
                let file = names[&name].whole.unwrap();
                names.get_mut(&name).unwrap().missing = true;
                let to = names
                    .entry(words[3].clone())
                    .or_insert_with(|| Allowed { missing: true, ..Allowed::default() });
                to.begun.push(file);
            }
            "n" => {
                let file = names.remove(&name).unwrap().whole;
                names.insert(words[3].clone(), Allowed { whole: file, ..Allowed::default() });
            }
            other => panic!("told: {other}"),
        }
    }
    names
}

/// All files that were closed are there, and nothing is that was never written.
fn check_files(told: &[Vec<String>], directory: &Path) {
    let names = allowed(told);
    let bytes = |(generation, length): (u64, u64)| -> Vec<u8> {
        (0..length).map(|place| value(generation, place)).collect()
    };
    for (name, entry) in &names {
        match fs::read(directory.join(name)) {
            Err(_) => {
                assert!(entry.missing || entry.whole.is_none(), "{name} was closed and is missing");
            }
            Ok(found) => {
                let is_whole = entry.whole.is_some_and(|file| bytes(file) == found);
                let is_begun = entry.begun.iter().any(|file| bytes(*file).starts_with(&found));
                assert!(
                    is_whole || is_begun,
                    "{name} has {} bytes: not those of {:?}, nor of {:?}",
                    found.len(),
                    entry.whole,
                    entry.begun
                );
            }
        }
    }
    for entry in fs::read_dir(directory).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(names.contains_key(&name), "{name} was never made");
    }
}

/// What `striate stack recover` does.
fn finish_what_is_left(place: &Workspace, stack: &Stack) {
    let text = stack.text(place.seen(), place.beside()).unwrap();
    let configuration = striate_stages::parse_stack(&text).unwrap();
    let report = recover::recover(&configuration, &[place.work()], RecoveryMode::Finish);
    assert_eq!(report.failures(), 0, "{report:?}");
}

/// All files below a directory.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}

fn keeps_what_was_closed(stack: &str) {
    let place = Workspace::new();
    for round in rounds() {
        let stack = Stack::named(stack);
        let told = killed(&place, stack, "files", round);
        finish_what_is_left(&place, stack);
        check_files(&told, &place.work());
        // To do it again does nothing.
        finish_what_is_left(&place, stack);
        check_files(&told, &place.work());
        assert_eq!(files_below(&place.beside().join("fast")), [] as [PathBuf; 0]);
    }
}

#[test]
fn path_rewrite() {
    keeps_what_was_closed("path-rewrite");
}

#[test]
fn path_rewrite_in_the_background() {
    keeps_what_was_closed("path-rewrite, background");
}

#[test]
fn combine() {
    keeps_what_was_closed("combine");
}

/// The checks see what they are there for: without a stack nothing at all is lost.
#[test]
fn without_stages() {
    let place = Workspace::new();
    let told = killed(&place, &Stack::NATIVE, "bytes", 1);
    let mut found = fs::read(place.work().join("file")).unwrap();
    check_bytes(&told, &found);
    let last = told.iter().rposition(|words| words[0] == "s").expect("some was synced");
    let synced = told[..last].iter().rfind(|words| words[0] == "w").unwrap();
    let [_, offset, _] = numbers(&synced[1..]);
    found[offset as usize] ^= 0x55;
    let seen = std::panic::catch_unwind(|| check_bytes(&told, &found)).is_err();
    assert!(seen || found.len() < 100, "a wrong byte was not seen");
    let told = killed(&place, &Stack::NATIVE, "files", 2);
    check_files(&told, &place.work());
}
