//! A program is killed before each of the system calls that change something, its own and those of
//! the stages: files that were whole before are whole, as they were or as they were to become, and
//! what it was told is done is done.
//!
//! `STRIATE_KILLS=1000` tries all calls, not only some of each.
#![cfg(feature = "peers")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![expect(unreachable_pub, reason = "modules of tests are shared")]
#![allow(dead_code, missing_docs, unused_imports, reason = "modules of tests are shared")]

mod stacks;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use stacks::{Stack, Workspace};
use striate_stages::recover::{self, RecoveryMode};
use striate_unmodified::kills::Victim;

/// As in `replacer.c`.
fn content(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|place| b'a' + ((seed * 7 + place) % 23) as u8).collect()
}

const LONG: usize = 30_000;

fn begin(place: &Workspace) {
    place.renew();
    let work = place.work();
    for n in 0..3 {
        fs::write(work.join(format!("old{n}")), content(n, LONG)).unwrap();
    }
    for (seed, name) in [(50, "keep"), (51, "grown"), (52, "gone")] {
        fs::write(work.join(name), content(seed, LONG)).unwrap();
    }
}

fn recover(place: &Workspace, text: &str) {
    let configuration = striate_stages::parse_stack(text).unwrap();
    let report = recover::recover(&configuration, &[place.work()], RecoveryMode::Finish);
    assert_eq!((report.failures(), report.in_use.len()), (0, 0), "{report}");
    place.unpack();
}

/// What was whole is whole, and what was said to be done is.
fn check(place: &Workspace, told: &str, context: &str) {
    let read = |name: &str| fs::read(place.work().join(name)).ok();
    let said = |line: String| told.lines().any(|other| other == line);
    for n in 0..3 {
        let (old, new) = (content(n, LONG), content(100 + n, 5000 + 9000 * n));
        let found = read(&format!("old{n}")).unwrap_or_else(|| panic!("old{n} is gone: {context}"));
        let done = said(format!("replaced {n}"));
        assert!(found == new || found == old && !done, "old{n}, {} bytes: {context}", found.len());
        if said(format!("made {n}")) {
            let made = content(200 + n, 100 + 12000 * n);
            assert!(read(&format!("made{n}")) == Some(made), "made{n}: {context}");
        }
    }
    assert!(read("keep") == Some(content(50, LONG)), "keep: {context}");
    let (before, grown) = (content(51, LONG), read("grown").unwrap_or_default());
    let after = [&before[..], b"MORE"].concat();
    assert!(grown == after || grown == before && !said("grown 0".into()), "grown: {context}");
    let gone = read("gone");
    let whole = gone == Some(content(52, LONG)) && !said("gone 0".into());
    assert!(gone.is_none() || whole, "gone: {context}");
    for entry in fs::read_dir(place.work()).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(!name.starts_with('.'), "{name} is left: {context}");
    }
}

fn compiled(place: &Workspace) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/kills/replacer.c");
    let program = place.beside().join("replacer");
    let mut compiler = Command::new("cc");
    compiler.args(["-O2", "-Wall", "-Werror", "-o"]).arg(&program).arg(source);
    let output = compiler.output().expect("a C compiler");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

fn killed_everywhere_under(name: &str) {
    let (place, stack) = (Workspace::new(), Stack::named(name));
    let program = compiled(&place);
    begin(&place);
    let text = stack.text(place.seen(), place.beside()).unwrap();
    let file = place.beside().join("stack.toml");
    fs::write(&file, &text).unwrap();
    fs::create_dir_all(place.beside().join("run")).unwrap();
    let variable = |name: &str, path: &Path| (name.to_owned(), path.to_str().unwrap().to_owned());
    let victim = Victim {
        words: vec![program.to_str().unwrap().into()],
        variables: vec![
            variable("LD_PRELOAD", stacks::library()),
            variable("STRIATE_STACK", &file),
            variable("STRIATE_RUN_DIR", &place.beside().join("run")),
        ],
        directory: place.work(),
    };
    let points = victim.points();
    let mut kills = 0;
    for point in &points {
        begin(&place);
        let Some(output) = victim.killed_at(point) else { continue };
        kills += 1;
        recover(&place, &text);
        let told = String::from_utf8(output.stdout).unwrap();
        check(
            &place,
            &told,
            &format!("{name}: killed before {} {}\n{told}", point.call, point.nth),
        );
    }
    assert!(kills * 2 > points.len(), "{kills} of {}", points.len());
}

macro_rules! stacks {
    ($($test:ident $name:literal;)*) => {
        $(#[test] fn $test() { killed_everywhere_under($name); })*
    };
}

stacks! {
    write_back "write-back, small";
    align "align";
    combine "combine";
    container "container";
    path_rewrite "path-rewrite";
    all_together "full";
}
