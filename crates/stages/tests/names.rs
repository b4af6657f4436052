//! Random sequences of operations on names and files, through stages that keep files elsewhere and
//! without them: every return value and the trees at the end are the same.
//!
//! `STRIATE_CASES=100000` for more, `STRIATE_CASE=17` for one, whose steps are printed.

#![allow(clippy::unwrap_used)]

mod name_steps;

use std::collections::HashMap;
use std::path::Path;

use name_steps::random::{Dice, step};
use name_steps::{NameStep, NamesProgram, PathForm, plain, tree};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

fn prepare(root: &Path) {
    std::fs::create_dir_all(root.join("a/b")).unwrap();
    std::os::unix::fs::symlink("a", root.join("link")).unwrap();
    std::os::unix::fs::symlink("x", root.join("to_x")).unwrap();
    std::os::unix::fs::symlink("../x", root.join("a/to_x")).unwrap();
    std::os::unix::fs::symlink("link/x", root.join("to_link_x")).unwrap();
    std::fs::write(root.join("a/b/z"), b"it was there before").unwrap();
}

/// A directory on another file system, where there is one.
fn far() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Whether the identities of files are looked at as well.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Asked,
    AndWho,
}

/// Identities of files: each file has one as long as it lives, and no two have the same. The file
/// system does not use numbers again.
#[derive(Default)]
struct Who {
    told: HashMap<(u64, u64), (u64, u64)>,
    real: HashMap<(u64, u64), (u64, u64)>,
}

impl Who {
    fn note(&mut self, model: &NamesProgram, program: &NamesProgram, about: &str) {
        let (Some(real), Some(told)) = (model.identity.get(), program.identity.get()) else {
            return;
        };
        assert_eq!(*self.told.entry(real).or_insert(told), told, "another one: {about}");
        assert_eq!(
            *self.real.entry(told).or_insert(real),
            real,
            "identity of another file: {about}"
        );
    }

    /// Asks for all that can be asked for, as if no stage could know what is asked next.
    fn ask(
        &mut self,
        model: &mut NamesProgram,
        program: &mut NamesProgram,
        dice: &mut Dice,
        about: &str,
    ) {
        let names = ["x", "y", "z", "a/x", "a/y", "a/b/x", "link/x", "to_x", "new/x"];
        let names = names.map(|name| NameStep::Stat(name.into(), PathForm::Absolute, true));
        let open = (0..model.open_files()).map(NameStep::Fstat);
        for step in names.into_iter().chain(open) {
            if dice.below(3) == 0 {
                let what = format!("{about}, then {step:?}");
                assert_eq!(program.step(&step), model.step(&step), "{what}");
                self.note(model, program, &what);
            }
        }
    }
}

/// Runs a case with a configuration, in which `ROOT`, `$ELSE` and `$FAR` stand for directories.
fn run(case: u64, configuration: &str, look: Look, told: bool) {
    let place = if look == Look::AndWho { far() } else { tempfile::tempdir().unwrap() };
    let (with, without) = (place.path().join("with"), place.path().join("plain"));
    let elsewhere = place.path().join("else");
    let far = far();
    std::fs::create_dir(&elsewhere).unwrap();
    prepare(&with);
    prepare(&without);
    let text = configuration
        .replace("ROOT", &with.display().to_string())
        .replace("$ELSE", &elsewhere.display().to_string())
        .replace("$FAR", &far.path().display().to_string());
    let stack = striate_stages::parse_stack(&text).unwrap().build().unwrap();
    let mut program = NamesProgram::new(stack, &with);
    let mut model = NamesProgram::new(plain(), &without);
    let mut dice = Dice::new(case);
    let mut who = Who::default();
    for at in 0..20 + dice.below(120) {
        let step = step(&mut dice, 2000);
        let expected = model.step(&step);
        let seen = program.step(&step);
        if told {
            println!("{at}: {step:?} -> {seen:?}");
        }
        assert_eq!(seen, expected, "case {case}, step {at}: {step:?}");
        if look == Look::AndWho {
            let about = format!("case {case}, step {at}: {step:?}");
            who.note(&model, &program, &about);
            who.ask(&mut model, &mut program, &mut dice, &about);
        }
    }
    let close = dice.below(2) == 0;
    model.finish(close).unwrap();
    program.finish(close).unwrap();
    let (left, right) = (tree(&with), tree(&without));
    let names =
        |tree: &std::collections::BTreeMap<String, _>| tree.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&left), names(&right), "case {case}");
    for (name, what) in &left {
        assert_eq!(what, &right[name], "case {case}: {name}");
    }
    for place in [&elsewhere, far.path()] {
        let left = tree(place).into_keys().collect::<Vec<_>>();
        assert!(left.is_empty(), "case {case}: {left:?}");
    }
}

fn run_all(configuration: &str) {
    look_at_all(configuration, Look::Asked);
}

fn look_at_all(configuration: &str, look: Look) {
    if let Some(case) = number("STRIATE_CASE") {
        return run(case, configuration, look, true);
    }
    for case in 0..number("STRIATE_CASES").unwrap_or(120) {
        run(case, configuration, look, false);
    }
}

const PATHS: &str = "[paths]\ninclude = [\"ROOT\"]\n[[stage]]\n";

#[test]
fn combine_is_not_noticed() {
    run_all(&format!("{PATHS}kind = \"combine\"\nlimit = \"1KiB\"\nmemory = \"1MiB\"\n"));
}

/// In a file system in memory, which does not use the numbers of removed files again.
#[test]
fn combine_changes_nobody() {
    if Path::new("/dev/shm").is_dir() {
        let stage = "kind = \"combine\"\nlimit = \"1KiB\"\nmemory = \"1MiB\"\nfiles = 4\n";
        look_at_all(&format!("{PATHS}{stage}"), Look::AndWho);
    }
}

#[test]
fn combine_with_a_log_elsewhere_and_few_files_is_not_noticed() {
    let options =
        "limit = \"1KiB\"\nmemory = \"1MiB\"\nfiles = 3\nthreads = 1\ndirectory = \"$ELSE\"";
    run_all(&format!("{PATHS}kind = \"combine\"\n{options}\n"));
}

const REWRITE: &str = "kind = \"path-rewrite\"\nrules = [{ from = \"ROOT\", to = \"$FAR\" }]\n";

#[test]
fn path_rewrite_is_not_noticed() {
    run_all(&format!("{PATHS}{REWRITE}"));
}

#[test]
fn path_rewrite_within_a_file_system_is_not_noticed() {
    run_all(&format!("{PATHS}{}", REWRITE.replace("$FAR", "$ELSE")));
}

#[test]
fn path_rewrite_in_the_background_is_not_noticed() {
    run_all(&format!("{PATHS}{REWRITE}background = true\n"));
}

#[test]
fn path_rewrite_of_existing_files_is_not_noticed() {
    run_all(&format!("{PATHS}{REWRITE}existing = true\n"));
}

#[test]
fn both_together_are_not_noticed() {
    run_all(&format!("{PATHS}kind = \"combine\"\nlimit = \"1KiB\"\n[[stage]]\n{REWRITE}"));
}
