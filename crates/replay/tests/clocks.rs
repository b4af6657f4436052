//! What the clocks of threads show with `think`: never less than what passed for certain.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "modules of tests are shared")]

mod support;

use std::path::Path;
use std::sync::Arc;

use striate_recording::Recording;
use striate_replay::{Options, Outcome, ReplayTarget, Timing, replay};
use striate_stack::Function;
use support::{Story, close, file, open, read, stat, write};

const MS: u64 = 1_000_000;
const MADE: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL;

fn thinking(recording: &Recording, root: &Path, stack: Option<&str>) -> Outcome {
    let stack = stack.map(|text| Arc::new(striate_stages::parse_stack(text).unwrap()));
    let onto = ReplayTarget::Directory(root.to_path_buf());
    let options = Options { onto, stack, timing: Timing::Think, ..Options::default() };
    let outcome = replay(recording, &options).unwrap();
    assert_eq!(outcome.differences_count(), 0, "{:#?}", outcome.first_differences);
    assert_eq!(outcome.failures, [""; 0]);
    outcome
}

/// A thread that thinks for 4 ms, and calls that took 20 ms then.
#[test]
fn think_time_is_kept_and_calls_take_what_they_take() {
    let mut story = Story::default();
    let process = story.process(10, 1);
    let out = file(10, 1, "/data/out", MADE);
    story.call(process, 10, (0, 10 * MS), Function::Open, Ok(3), open(&out, 0));
    let written = (12 * MS, 22 * MS);
    story.call(process, 10, written, Function::Write, Ok(100), write(&out, false, 0, 100));
    story.call(process, 10, (24 * MS, 24 * MS), Function::Close, Ok(0), close(&out));
    let recording = story.recording();
    let root = tempfile::tempdir().unwrap();
    let fast = thinking(&recording, root.path(), None);
    assert_eq!(fast.time_recorded, 24 * MS);
    assert!(fast.time_replayed >= 4 * MS, "{}", fast.time_replayed);
    // What passed has all in it that the clocks have.
    assert!(fast.time_passed >= fast.time_replayed, "{fast:?}");
    let slow = "[[stage]]\nkind = 'throttle'\nlatency = '5ms'\n";
    let root = tempfile::tempdir().unwrap();
    let slow = thinking(&recording, root.path(), Some(slow));
    assert!(slow.time_replayed >= 19 * MS, "{}", slow.time_replayed);
    assert!(slow.total().time_replayed >= 15 * MS);
}

/// A child ends, its parent waited for that, and so did another process for what the child wrote.
#[test]
fn what_waits_for_others_waits_by_their_clocks() {
    let mut story = Story::default();
    let (parent, child) = (story.process(10, 1), story.process(11, 10));
    story.call(parent, 10, (0, MS), Function::Stat, Err(libc::ENOENT), stat("/data/out", None));
    let out = file(11, 1, "/data/out", MADE);
    story.call(child, 11, (2 * MS, 3 * MS), Function::Open, Ok(3), open(&out, 0));
    let written = (3 * MS, 4 * MS);
    story.call(child, 11, written, Function::Write, Ok(100), write(&out, false, 0, 100));
    story.call(child, 11, (4 * MS, 5 * MS), Function::Close, Ok(0), close(&out));
    let back = file(10, 1, "/data/out", libc::O_RDONLY);
    story.call(parent, 10, (7 * MS, 8 * MS), Function::Open, Ok(3), open(&back, 100));
    let got = (8 * MS, 9 * MS);
    story.call(parent, 10, got, Function::Read, Ok(100), read(&back, false, 0, 100));
    let recording = story.recording();
    let root = tempfile::tempdir().unwrap();
    let slow = "[[stage]]\nkind = 'throttle'\nlatency = '5ms'\n";
    // Six calls one after the other, 1 ms before the child, and 2 ms after it.
    let outcome = thinking(&recording, root.path(), Some(slow));
    assert!(outcome.time_replayed >= 33 * MS, "{}", outcome.time_replayed);
}

/// What stages write out when a process ends is told apart, and is on the clock. Rules are for
/// recorded paths also where a stage opens files for itself.
#[test]
fn the_end_of_a_process_is_on_the_clock() {
    let mut story = Story::default();
    let process = story.process(10, 1);
    for number in 0..3 {
        let out = file(10, number + 1, &format!("/data/{number}"), MADE);
        let at = number * 10;
        story.call(process, 10, (at, at + 1), Function::Open, Ok(3), open(&out, 0));
        let written = (at + 2, at + 3);
        story.call(process, 10, written, Function::Write, Ok(100), write(&out, false, 0, 100));
        story.call(process, 10, (at + 4, at + 5), Function::Close, Ok(0), close(&out));
    }
    let recording = story.recording();
    let root = tempfile::tempdir().unwrap();
    let stack = "[paths]\ninclude = ['/data']\n[[stage]]\nkind = 'combine'\nthreads = 1\n\
                 [[stage]]\nkind = 'throttle'\nlatency = '2ms'\npaths = ['/data']\n";
    let outcome = thinking(&recording, root.path(), Some(stack));
    // An open, a write and a close of each file.
    assert!(outcome.time_settling >= 18 * MS, "{}", outcome.time_settling);
    assert!(outcome.time_replayed >= outcome.time_settling, "{outcome:?}");
    assert_eq!(std::fs::read(root.path().join("data/2")).unwrap().len(), 100);
}

/// A program starts another in its place, which counts its files anew.
#[test]
fn files_of_another_program_in_the_same_process_are_others() {
    let mut story = Story::default();
    let (before, after) = (story.process(10, 1), story.process(10, 1));
    let first = file(10, 1, "/data/first", MADE);
    story.call(before, 10, (0, 1), Function::Open, Ok(3), open(&first, 0));
    story.call(before, 10, (2, 3), Function::Write, Ok(700), write(&first, false, 0, 700));
    // It is left open.
    let second = file(10, 1, "/data/second", MADE);
    story.call(after, 10, (20, 21), Function::Open, Ok(3), open(&second, 0));
    story.call(after, 10, (22, 23), Function::Write, Ok(90), write(&second, false, 0, 90));
    story.call(after, 10, (24, 25), Function::Close, Ok(0), close(&second));
    // A child of the second has its file, not that of the first.
    let child = story.process(11, 10);
    story.call(child, 11, (40, 41), Function::Write, Ok(10), write(&second, false, 90, 10));
    let recording = story.recording();
    let root = tempfile::tempdir().unwrap();
    thinking(&recording, root.path(), None);
    let size = |name: &str| std::fs::metadata(root.path().join("data").join(name)).unwrap().len();
    assert_eq!((size("first"), size("second")), (700, 100));
}
