//! Several processes that use the same files at a time observe what they would without Striate,
//! also where files are at another place meanwhile; and a process that is killed loses nothing that
//! other processes wrote, or that it had closed.
//!
//! Where it is said before which call of the kernel a process is killed, strace does it.
//!
//! `STRIATE_ROUNDS=100` tries so many sequences under each stack; `STRIATE_SEED=17` only that one.
//! `STRIATE_CALLS='openat write'` kills before these.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unreachable_pub, reason = "modules of tests are shared")]
#![allow(dead_code, missing_docs, unused_imports, reason = "modules of tests are shared")]

mod stacks;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use stacks::{Image, Stack, Workspace};
use striate_stages::recover::{self, RecoveryMode};

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
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/concurrent/writer.c");
        let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("concurrent-writer");
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
struct CommandedProcess {
    child: Child,
    to: ChildStdin,
    from: BufReader<ChildStdout>,
}

impl CommandedProcess {
    fn start(place: &Workspace, stack: &Stack) -> Self {
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
fn act(place: &Workspace, stack: &Stack, seed: u64) -> (Vec<String>, Image) {
    place.renew();
    std::fs::create_dir(place.work().join("d")).unwrap();
    let mut dice = Dice(seed);
    let mut processes: Vec<_> =
        (0..PROCESSES).map(|_| Some(CommandedProcess::start(place, stack))).collect();
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
        let process = processes[who].get_or_insert_with(|| CommandedProcess::start(place, stack));
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
    let place = Workspace::new();
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
fn nothing_is_left(place: &Workspace) {
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
fn in_turn_under_path_rewrite_of_existing_files() {
    same_under("path-rewrite, existing");
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

fn start_free(place: &Workspace, stack: &Stack, own: usize, rounds: usize, counts: bool) -> Child {
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
        assert!(written.any(|block| block == found), "{last} is not what any process wrote");
    }
}

fn at_a_time_under(name: &str) {
    let (place, stack) = (Workspace::new(), Stack::named(name));
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
fn at_a_time_under_path_rewrite_of_existing_files() {
    at_a_time_under("path-rewrite, existing");
}

#[test]
fn at_a_time_under_path_rewrite_in_the_background() {
    at_a_time_under("path-rewrite, background");
}

fn recover(place: &Workspace, stack: &Stack) {
    let text = stack.text(place.seen(), place.beside()).unwrap();
    let report =
        recover::recover(&striate_stages::parse_stack(&text).unwrap(), &[], RecoveryMode::Finish);
    assert_eq!((report.failures(), report.in_use.len()), (0, 0), "{report}");
}

fn one_is_killed_under(name: &str) {
    let (place, stack) = (Workspace::new(), Stack::named(name));
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

/// A process that is killed when one of its threads makes a call for the `nth` time, before it is
/// done. What it has done, or nothing if it ended by itself.
#[cfg(feature = "peers")]
fn killed_before(place: &Workspace, stack: &Stack, call: &str, nth: usize) -> Option<usize> {
    let library = format!("LD_PRELOAD={}", stacks::library().display());
    let kill = format!("inject={call}:signal=KILL:when={nth}");
    let mut command = place.command("strace", stack);
    command.env_remove("LD_PRELOAD").args(["-f", "-qq", "-o", "/dev/null", "-E", &library]);
    command.args(["-e", &format!("trace={call}"), "-e", &kill]).arg(writer());
    command.args(["free", "0", &PROCESSES.to_string(), "3", "0"]);
    let output = command.output().expect("strace");
    let done = String::from_utf8(output.stdout).unwrap().lines().count();
    (!output.status.success()).then_some(done)
}

/// Another process goes on with the files of one that was killed before any of its calls: its own
/// files replace those of the other, or the others are removed. What was replaced or removed does
/// not come back, and blocks no other process.
#[cfg(feature = "peers")]
fn one_is_killed_before_any_call_under(name: &str) {
    let (place, stack) = (Workspace::new(), Stack::named(name));
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
                let mut other = CommandedProcess::start(&place, stack);
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

/// Several processes write to a database in WAL mode and are killed: what they have committed is
/// there.
#[cfg(feature = "peers")]
#[test]
fn sqlite_keeps_its_commits_under_path_rewrite_of_existing_files() {
    let (place, stack) = (Workspace::new(), &Stack::EXISTING);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/concurrent/sqlite.py");
    let mut committed: BTreeSet<String> = BTreeSet::new();
    place.renew();
    for round in 0..number("STRIATE_ROUNDS").unwrap_or(3) {
        let start = |own: usize| {
            let mut command = place.command("python3", stack);
            let first = (round * 1_000_000).to_string();
            command.arg(&script).args(["write", &own.to_string(), &first]);
            command.stdout(Stdio::piped()).spawn().unwrap()
        };
        let mut children: Vec<_> = (0..2).map(start).collect();
        let outputs = children.iter_mut().map(|child| child.stdout.take().unwrap());
        let mut lines: Vec<_> = outputs.map(|out| BufReader::new(out).lines()).collect();
        // At any moment after each has begun.
        for lines in &mut lines {
            committed.extend(lines.take(1).map_while(Result::ok));
        }
        std::thread::sleep(Duration::from_micros(round * 7919 % 60_000 + 50_000));
        for child in &mut children {
            child.kill().unwrap();
            child.wait().unwrap();
        }
        committed.extend(lines.into_iter().flat_map(|lines| lines.map_while(Result::ok)));
        // The next processes find it as it is, or the recovery moves it to its destination.
        let reader = if round % 2 == 0 { &Stack::NATIVE } else { stack };
        if round % 2 == 0 {
            recover(&place, stack);
            nothing_is_left(&place);
        }
        let output = place.command("python3", reader).arg(&script).arg("read").output().unwrap();
        let found = String::from_utf8(output.stdout).unwrap();
        let mut found = found.lines();
        assert_eq!(found.next(), Some("ok"), "round {round}");
        let found: BTreeSet<String> = found.map(str::to_owned).collect();
        let lost: Vec<_> = committed.difference(&found).collect();
        assert!(lost.is_empty(), "round {round}: of {} are lost {lost:?}", committed.len());
    }
    assert!(committed.len() > 5);
}

/// Calls that change something. Not every machine has the older ones.
#[cfg(feature = "peers")]
const CHANGES: &str = "?open openat ?mkdir mkdirat ?rmdir ?chmod write pwrite64 copy_file_range ftruncate fchmod fchown \
    utimensat fsync ?rename renameat2 ?unlink unlinkat";
/// Those of them that are done otherwise if files need not be copied back.
#[cfg(feature = "peers")]
const CHANGES_ON_ONE: &str = "pwrite64 fchmod fsync ?rename renameat2 ?unlink unlinkat";

/// Files that are there, with several permissions and of an old time.
#[cfg(feature = "peers")]
const THERE: [(&str, usize, u32); 4] = [
    ("large", 2_500_000, 0o600),
    ("grows", 5000, 0o640),
    ("twice", 1_200_000, 0o600),
    ("locked", 200_000, 0o4711),
];

#[cfg(feature = "peers")]
fn old_time() -> std::time::SystemTime {
    std::time::SystemTime::UNIX_EPOCH + Duration::new(1_500_000_000, 123_456_789)
}

/// What was there, and what it is when the program has changed it.
#[cfg(feature = "peers")]
fn contents(name: &str, length: usize) -> [Vec<u8>; 2] {
    // Without zeros.
    let old: Vec<u8> = (0..length).map(|at| (at % 251) as u8 | 1).collect();
    let mut new = old.clone();
    let mut seed = 1_u32;
    let change = (0..1000).map(|_| {
        seed = seed.wrapping_mul(1_103_515_245).wrapping_add(12345);
        (seed >> 16) as u8
    });
    if name == "grows" {
        new.extend(change);
    } else {
        new.splice(100_000..101_000, change);
    }
    [old, new]
}

#[cfg(feature = "peers")]
fn put_files_there(place: &Workspace) {
    use std::os::unix::fs::PermissionsExt;
    place.renew();
    let fast = place.seen().join("fast");
    let _ = std::fs::remove_dir_all(&fast);
    std::fs::create_dir(&fast).unwrap();
    for (name, length, mode) in THERE {
        let path = place.work().join(name);
        let [old, _] = contents(name, length);
        std::fs::write(&path, old).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
        std::fs::File::options()
            .append(true)
            .open(&path)
            .unwrap()
            .set_modified(old_time())
            .unwrap();
    }
    std::fs::hard_link(place.work().join("twice"), place.work().join("also")).unwrap();
}

/// Nothing at the fast place, or on the way back, is for others than what it is a copy of.
#[cfg(feature = "peers")]
fn nothing_is_wider(place: &Workspace, context: &str) {
    use std::os::unix::fs::MetadataExt;
    let fast = [place.beside().join("fast"), place.seen().join("fast")];
    for path in fast.iter().flat_map(|fast| left_in(fast)).chain(left_in(&place.work())) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let Ok(found) = std::fs::symlink_metadata(&path) else { continue };
        if THERE.iter().all(|(there, ..)| *there != name) && name != "also" {
            let mode = found.mode() & 0o7777;
            // The data of the four files, or less.
            assert!([0o600, 0o640, 0o4711].contains(&mode), "{name} has {mode:o}: {context}");
        }
    }
    for moves in fast.map(|fast| fast.join(".striate-moves")) {
        if let Ok(found) = std::fs::metadata(&moves) {
            assert_eq!(found.mode() & 0o7777, 0o700, "{context}");
        }
    }
}

/// Each file is what it was, or what it became, as a whole. Returns how many have become something
/// else.
#[cfg(feature = "peers")]
fn are_whole(place: &Workspace, context: &str) -> usize {
    use std::os::unix::fs::MetadataExt;
    let mut changed = 0;
    for (name, length, mode) in THERE {
        let path = place.work().join(name);
        let found = std::fs::read(&path).unwrap();
        let about = std::fs::metadata(&path).unwrap();
        let which = contents(name, length).iter().position(|bytes| *bytes == found);
        let zeros: usize = found.iter().map(|byte| usize::from(*byte == 0)).sum();
        let Some(which) = which else {
            panic!("{name} has {} bytes, {zeros} of them 0: {context}", found.len())
        };
        // To write takes this permission away, also without a stack; but not from the superuser.
        let is_root = about.uid() == 0;
        let kept = if which == 1 && !is_root { mode & 0o777 } else { mode };
        assert_eq!(about.mode() & 0o7777, kept, "{name}, {which}: {context}");
        if which == 0 {
            assert_eq!(about.modified().unwrap(), old_time(), "{name}: {context}");
        }
        changed += which;
    }
    assert_eq!(
        std::fs::read(place.work().join("also")).unwrap(),
        std::fs::read(place.work().join("twice")).unwrap()
    );
    changed
}

/// Existing files are copied to fast storage, changed, and moved back, by a process that is killed
/// before each of its calls. They are as before or completely changed, and the next process finds
/// them so.
#[cfg(feature = "peers")]
fn files_that_are_there_stay_whole_under(stack: &Stack, changes: &str) {
    let place = Workspace::new();
    let calls = std::env::var("STRIATE_CALLS");
    let library = format!("LD_PRELOAD={}", stacks::library().display());
    let mut kills = 0;
    for call in calls.as_deref().unwrap_or(changes).split_whitespace() {
        for nth in 1.. {
            put_files_there(&place);
            let mut command = place.command("strace", stack);
            command.env_remove("LD_PRELOAD").args(["-f", "-qq", "-o", "/dev/null", "-E", &library]);
            command.args(["-e", &format!("trace={call}")]);
            command.args(["-e", &format!("inject={call}:signal=KILL:when={nth}")]);
            let output = command.arg(writer()).arg("change").output().expect("strace");
            let context = format!("killed before {call} {nth} under {}", stack.name);
            if output.status.success() {
                assert_eq!(are_whole(&place, "not killed"), THERE.len());
                break;
            }
            kills += 1;
            nothing_is_wider(&place, &context);
            if nth % 4 == 3 {
                let next = place.command(writer(), stack).arg("change").output().unwrap();
                assert!(next.status.success(), "{context}: {next:?}");
                // It appends once more, or for the first time.
                let grown = place.work().join("grows");
                let [_, new] = contents("grows", 5000);
                let found = std::fs::read(&grown).unwrap();
                assert!(found.starts_with(&new), "{context}");
                std::fs::File::options().write(true).open(&grown).unwrap().set_len(6000).unwrap();
                assert_eq!(are_whole(&place, &context), THERE.len(), "{context}");
            }
            recover(&place, stack);
            are_whole(&place, &context);
            nothing_is_left(&place);
            assert_eq!(left_in(&place.seen().join("fast")), [] as [PathBuf; 0], "{context}");
        }
    }
    assert!(kills > 40, "{kills} kills");
    println!("{kills} kills under {}", stack.name);
}

#[cfg(feature = "peers")]
#[test]
fn files_that_are_there_stay_whole() {
    files_that_are_there_stay_whole_under(&Stack::EXISTING, CHANGES);
}

#[cfg(feature = "peers")]
#[test]
fn files_that_are_there_stay_whole_on_one_file_system() {
    files_that_are_there_stay_whole_under(&Stack::EXISTING_BESIDE, CHANGES_ON_ONE);
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
