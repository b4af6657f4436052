//! Several processes that use the same files at a time observe what they would without Striate, also where files are
//! at another place meanwhile; and who is killed takes nothing with it that others wrote, or that it had closed.
//!
//! Where it is said before which call of the kernel a process is killed, strace does it.
//!
//! `STRIATE_ROUNDS=100` tries so many sequences under each stack; `STRIATE_SEED=17` only that one.
//! `STRIATE_CALLS='openat write'` kills before these.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unreachable_pub, reason = "modules of tests are shared")]
#![allow(dead_code, missing_docs, unused_imports, reason = "modules of tests are shared")]

mod under;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use striate_stack::Configuration;
use striate_stack::recover::{self, Wanted};
use under::{Image, Place, Stack};

/// Processes at a time.
const PROCESSES: usize = 3;
/// Calls of one sequence.
const STEPS: usize = 150;
const ROUNDS: u64 = 6;
const NAMES: [&str; 4] = ["f0", "f1", "f2", "d/g0"];

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().expect("a number"))
}

fn writer() -> &'static Path {
    static WRITER: OnceLock<PathBuf> = OnceLock::new();
    WRITER.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/together/writer.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("together-writer");
        let made = program.with_extension(std::process::id().to_string());
        let output = Command::new("cc")
            .args(["-std=gnu17", "-O1", "-Wall", "-Wextra", "-Werror", "-o"])
            .args([&made, &source])
            .output()
            .expect("a C compiler");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::rename(&made, &program).unwrap();
        program
    })
}

/// Numbers that are the same for the same seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ z >> 31) % limit
    }
}

/// A line for one of the processes. What it does does not depend on what came before.
fn step(dice: &mut Dice) -> String {
    let slot = dice.below(6);
    let [name, other] = [(); 2].map(|()| NAMES[dice.below(4) as usize]);
    let (at, length, seed) = (dice.below(30_000), dice.below(9_000), dice.below(1 << 30));
    match dice.below(40) {
        0..=9 => format!("o{slot} 0 {length} {seed} {name}"),
        10..=14 => format!("w{slot} {at} {length} {seed} x"),
        15 | 16 => format!("w{slot} -1 {length} {seed} x"),
        17..=21 => format!("r{slot} {at} {length} {seed} x"),
        22 => format!("t{slot} {at} 0 0 x"),
        23..=25 => format!("c{slot} 0 0 0 x"),
        26 => format!("f{slot} 0 0 0 x"),
        27 => format!("y{slot} 0 0 0 x"),
        28 => format!("k{slot} 0 0 {seed} x"),
        29 => format!("a{slot} {at} 0 {seed} x"),
        30 => format!("e{slot} {at} 0 0 x"),
        31 => format!("M{slot} {at} 0 {seed} x"),
        32 => format!("F{slot} {at} {length} {seed} x"),
        33 | 34 => format!("S {seed} {name}"),
        35 => format!("T {at} {name}"),
        36 => format!("u {name}"),
        37 => format!("n {name} {other}"),
        38 => format!("l {name} {other}"),
        _ => format!("m {seed} {name}"),
    }
}

/// A process that does what it is told.
struct Obedient {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl Obedient {
    fn start(place: &Place, stack: &Stack) -> Self {
        let mut command = place.command(writer(), stack);
        let command = command.arg("obey").stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let to = child.stdin.take().unwrap();
        let from = BufReader::new(child.stdout.take().unwrap());
        Self { child, to, from }
    }

    fn tell(&mut self, line: &str) -> String {
        writeln!(self.to, "{line}").unwrap();
        let mut answer = String::new();
        self.from.read_line(&mut answer).unwrap();
        answer
    }

    fn end(mut self) {
        drop(self.to);
        assert!(self.child.wait().unwrap().success());
    }
}

/// A sequence of calls by several processes in turn: what they answered, and what they left.
fn act(place: &Place, stack: &Stack, seed: u64) -> (Vec<String>, Image) {
    place.renew();
    std::fs::create_dir(place.work().join("d")).unwrap();
    let mut dice = Dice(seed);
    let mut processes: Vec<_> =
        (0..PROCESSES).map(|_| Some(Obedient::start(place, stack))).collect();
    let mut told = Vec::new();
    for number in 0..STEPS {
        let who = dice.below(PROCESSES as u64) as usize;
        let line = step(&mut dice);
        if dice.below(60) == 0
            && let Some(process) = processes[who].take()
        {
            // With all that it has open.
            process.end();
        }
        let process = processes[who].get_or_insert_with(|| Obedient::start(place, stack));
        let answer = process.tell(&line);
        told.push(format!("{number}: {who} {line} = {}", answer.trim_end()));
    }
    for process in processes.into_iter().flatten() {
        process.end();
    }
    (told, Image::of(&place.work(), |_| false))
}

fn same_under(name: &str) {
    let stack = Stack::named(name);
    let seeds: Vec<u64> = match number("STRIATE_SEED") {
        Some(seed) => vec![seed],
        None => (0..number("STRIATE_ROUNDS").unwrap_or(ROUNDS)).collect(),
    };
    let place = Place::new();
    let mut failures = String::new();
    for seed in seeds {
        let native = act(&place, &Stack::NATIVE, seed);
        let other = act(&place, stack, seed);
        if let Some(at) = (0..STEPS).find(|at| native.0[*at] != other.0[*at]) {
            let before = native.0[at.saturating_sub(3)..=at].join("\n    ");
            writeln!(failures, "seed {seed}:\n    {before}\n  + {}", other.0[at]).unwrap();
        }
        for line in native.1.difference(&other.1) {
            writeln!(failures, "seed {seed}: {line}").unwrap();
        }
        let left = left_in(&place.beside().join("fast"));
        if !left.is_empty() {
            writeln!(failures, "seed {seed}: left {left:?}").unwrap();
        }
    }
    assert!(failures.is_empty(), "under {name}:\n{failures}");
}

/// All files below a directory.
fn left_in(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(directory) else { return Vec::new() };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { left_in(&path) } else { vec![path] }).collect()
}

/// Neither at the fast place nor, hidden, where the files are.
fn nothing_is_left(place: &Place) {
    assert_eq!(left_in(&place.beside().join("fast")), [] as [PathBuf; 0]);
    let is_hidden = |path: &PathBuf| path.to_string_lossy().contains("/.striate");
    let hidden: Vec<_> = left_in(&place.work()).into_iter().filter(is_hidden).collect();
    assert_eq!(hidden, [] as [PathBuf; 0]);
}

#[test]
fn in_turn_without_stages() {
    same_under("no stages");
}

#[test]
fn in_turn_under_path_rewrite() {
    same_under("path-rewrite");
}

#[test]
fn in_turn_under_path_rewrite_in_the_background() {
    same_under("path-rewrite, background");
}

/// The bytes that a process writes in a round.
fn block(own: usize, round: usize) -> Vec<u8> {
    let mut seed = (own * 7919 + round) as u32;
    let mut next = || {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345);
        (seed >> 16) as u8
    };
    (0..1000).map(|_| next()).collect()
}

fn start_free(place: &Place, stack: &Stack, own: usize, rounds: usize, counts: bool) -> Child {
    let words = [own, PROCESSES, rounds, usize::from(counts)].map(|word| word.to_string());
    let mut command = place.command(writer(), stack);
    command.arg("free").args(words).stdout(Stdio::piped()).spawn().unwrap()
}

/// What each process has done is there, whole; `done` says how many rounds of each were.
fn check(work: &Path, done: &[usize], all: bool) {
    let common: Vec<_> =
        (0..3).map(|file| std::fs::read(work.join(format!("common{file}"))).unwrap()).collect();
    let records = std::fs::read_to_string(work.join("records")).unwrap();
    let lines: BTreeSet<_> = records.lines().collect();
    for (own, rounds) in done.iter().enumerate() {
        for round in 0..*rounds {
            let at = (round / 3 * PROCESSES + own) * 1000;
            let found = common[round % 3].get(at..at + 1000);
            assert!(found == Some(&block(own, round)[..]), "block {round} of {own} is lost");
            assert!(lines.contains(format!("{own:04} {round:08}").as_str()), "{own}, {round}");
        }
    }
    if all {
        assert_eq!(lines.len(), records.lines().count());
        assert_eq!(lines.len(), done.iter().sum::<usize>());
        let counter = std::fs::read_to_string(work.join("counter")).unwrap();
        assert_eq!(counter, lines.len().to_string());
    }
    for last in ["last0", "last1"] {
        let found = std::fs::read(work.join(last)).unwrap();
        let mut written =
            (0..done.len()).flat_map(|own| (0..500).map(move |round| block(own, round)));
        assert!(written.any(|block| block == found), "{last} is not what anybody wrote");
    }
}

fn at_a_time_under(name: &str) {
    let (place, stack) = (Place::new(), Stack::named(name));
    for _ in 0..number("STRIATE_ROUNDS").unwrap_or(2) {
        place.renew();
        let rounds = 40;
        let children: Vec<_> =
            (0..PROCESSES).map(|own| start_free(&place, stack, own, rounds, true)).collect();
        for child in children {
            let output = child.wait_with_output().unwrap();
            assert!(output.status.success(), "{:?}", output.status);
        }
        check(&place.work(), &[rounds; PROCESSES], true);
        nothing_is_left(&place);
    }
}

#[test]
fn at_a_time_without_stages() {
    at_a_time_under("no stages");
}

#[test]
fn at_a_time_under_path_rewrite() {
    at_a_time_under("path-rewrite");
}

#[test]
fn at_a_time_under_path_rewrite_in_the_background() {
    at_a_time_under("path-rewrite, background");
}

fn recover(place: &Place, stack: &Stack) {
    let text = stack.text(place.seen(), place.beside()).unwrap();
    let report = recover::recover(&Configuration::parse(&text).unwrap(), &[], Wanted::Finish);
    assert_eq!((report.failures(), report.in_use.len()), (0, 0), "{report}");
}

fn one_is_killed_under(name: &str) {
    let (place, stack) = (Place::new(), Stack::named(name));
    for round in 0..number("STRIATE_ROUNDS").unwrap_or(ROUNDS) {
        place.renew();
        let mut children: Vec<_> = [300, 60, 60]
            .into_iter()
            .enumerate()
            .map(|(own, rounds)| start_free(&place, stack, own, rounds, false))
            .collect();
        let mut killed = children.remove(0);
        let mut told = BufReader::new(killed.stdout.take().unwrap()).lines();
        // At any moment after the first things are done.
        let mut done = usize::from(told.next().is_some_and(|line| line.is_ok()));
        std::thread::sleep(Duration::from_micros(round * 7919 % 60_000));
        killed.kill().unwrap();
        killed.wait().unwrap();
        done += told.map_while(Result::ok).count();
        for child in children {
            assert!(child.wait_with_output().unwrap().status.success());
        }
        recover(&place, stack);
        check(&place.work(), &[done, 60, 60], false);
        nothing_is_left(&place);
    }
}

#[test]
fn one_is_killed_under_path_rewrite() {
    one_is_killed_under("path-rewrite");
}

#[test]
fn one_is_killed_under_path_rewrite_in_the_background() {
    one_is_killed_under("path-rewrite, background");
}

/// What changes names and makes files durable. Between these little happens that others could see.
#[cfg(feature = "peers")]
const CALLS: &str = "rename renameat2 unlink unlinkat fsync";

/// A process that is killed when one of its threads makes a call for the `nth` time, before it is done. What it has
/// done, or nothing if it ended by itself.
#[cfg(feature = "peers")]
fn killed_before(place: &Place, stack: &Stack, call: &str, nth: usize) -> Option<usize> {
    let library = format!("LD_PRELOAD={}", under::library().display());
    let kill = format!("inject={call}:signal=KILL:when={nth}");
    let mut command = place.command("strace", stack);
    command.env_remove("LD_PRELOAD").args(["-f", "-qq", "-o", "/dev/null", "-E", &library]);
    command.args(["-e", &format!("trace={call}"), "-e", &kill]).arg(writer());
    command.args(["free", "0", &PROCESSES.to_string(), "3", "0"]);
    let output = command.output().expect("strace");
    let done = String::from_utf8(output.stdout).unwrap().lines().count();
    (!output.status.success()).then_some(done)
}

/// Another process goes on with the files of one that was killed before any of its calls: its own files replace those of
/// the other, or the others are removed. What was replaced or removed does not come back, and is in nobody's way.
#[cfg(feature = "peers")]
fn one_is_killed_before_any_call_under(name: &str) {
    let (place, stack) = (Place::new(), Stack::named(name));
    let calls = std::env::var("STRIATE_CALLS");
    for call in calls.as_deref().unwrap_or(CALLS).split(' ') {
        let mut kills = 0;
        for (nth, removes) in (1..).flat_map(|nth| [(nth, false), (nth, true)]) {
            place.renew();
            let Some(done) = killed_before(&place, stack, call, nth) else { break };
            kills += 1;
            let context = format!("killed before {call} {nth}, after {done} rounds");
            println!("{context}");
            if removes {
                let mut other = Obedient::start(&place, stack);
                for last in ["last0", "last1"] {
                    other.tell(&format!("u {last}"));
                }
                other.end();
                recover(&place, stack);
                for last in ["last0", "last1"] {
                    assert!(!place.work().join(last).exists(), "{last} is back: {context}");
                }
            } else {
                let other = start_free(&place, stack, 1, 3, false).wait_with_output().unwrap();
                assert!(other.status.success(), "{context}");
                recover(&place, stack);
                check(&place.work(), &[done, 3], false);
            }
            nothing_is_left(&place);
        }
        assert!(kills > 0, "there is no {call}");
    }
}

#[cfg(feature = "peers")]
#[test]
fn one_is_killed_before_any_call_under_path_rewrite() {
    one_is_killed_before_any_call_under("path-rewrite");
}

#[cfg(feature = "peers")]
#[test]
fn one_is_killed_before_any_call_under_path_rewrite_in_the_background() {
    one_is_killed_before_any_call_under("path-rewrite, background");
}
