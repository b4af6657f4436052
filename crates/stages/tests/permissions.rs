//! Permissions under combine: random sequences of an unprivileged user, in directories and on files
//! whose permissions change, with and without the stage.
//!
//! `STRIATE_CASES=10000` for more, `STRIATE_CASE=17` for one, whose steps are printed.

#![allow(clippy::unwrap_used)]

mod name_steps;

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::Path;

use name_steps::random::{Dice, step};
use name_steps::{NameStep, NamesProgram, Observed, PathForm, plain, tree};
use rustix::io::Errno;
use striate_stages::recover::{RecoveryMode, recover};

const NOBODY: u32 = 65534;

/// While it lives, the superuser's thread has another user. A thread of another user stays what
/// they are.
struct Nobody(bool);

impl Nobody {
    fn new() -> Self {
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            set_user(NOBODY);
        }
        Self(is_root)
    }
}

impl Drop for Nobody {
    fn drop(&mut self) {
        if self.0 {
            set_user(0);
        }
    }
}

/// Of this thread alone: the C library would do it for all.
fn set_user(user: u32) {
    let same = -1i64;
    // SAFETY: a system call without memory.
    let done = unsafe { libc::syscall(libc::SYS_setresuid, same, i64::from(user), same) };
    assert_eq!(done, 0);
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn directories(root: &Path) {
    for name in ["", "a", "a/b", "closed"] {
        std::fs::create_dir(root.join(name)).unwrap();
        std::fs::write(root.join(name).join("z"), b"there").unwrap();
    }
    std::os::unix::fs::symlink("a", root.join("link")).unwrap();
    if rustix::process::geteuid().is_root() {
        for name in ["", "z", "a", "a/z", "a/b", "a/b/z"] {
            chown(root.join(name), Some(NOBODY), None).unwrap();
        }
    }
    // Of another user if that can be; not to be changed in any case.
    set_mode(&root.join("closed"), 0o555);
}

/// Lets files be removed again.
fn open_up(root: &Path) {
    for name in ["", "a", "a/b", "new", "a/c", "closed"] {
        let path = root.join(name);
        if path.is_dir() {
            set_mode(&path, 0o755);
        }
    }
}

fn permission(dice: &mut Dice) -> NameStep {
    let of = |dice: &mut Dice, list: &[&str]| list[dice.below(list.len())].to_owned();
    let modes = [0o755, 0o755, 0o755, 0o555, 0o444, 0o333, 0o000];
    let mode = modes[dice.below(modes.len())];
    match dice.below(3) {
        0 => NameStep::Chmod(of(dice, &["a", "a/b", "new", "link"]), mode),
        1 => NameStep::Chmod(of(dice, &["x", "a/x", "a/y", "a/b/x"]), mode & 0o666),
        _ => {
            let flags = libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY;
            NameStep::Open(
                of(dice, &["closed/x", "closed/z", "a/x", "x"]),
                PathForm::Absolute,
                flags,
                mode,
            )
        }
    }
}

fn run(case: u64, told: bool) {
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    let (with, without) = (place.path().join("with"), place.path().join("plain"));
    directories(&with);
    directories(&without);
    let text = format!(
        "[paths]\ninclude = [\"{}\"]\n[[stage]]\nkind = \"combine\"\nlimit = \"1KiB\"\nfiles = 5\n",
        with.display()
    );
    {
        let _nobody = Nobody::new();
        let mut program =
            NamesProgram::new(striate_stages::parse_stack(&text).unwrap().build().unwrap(), &with);
        let mut model = NamesProgram::new(plain(), &without);
        let mut dice = Dice::new(case);
        for at in 0..20 + dice.below(80) {
            let step =
                if dice.below(5) == 0 { permission(&mut dice) } else { step(&mut dice, 2000) };
            let expected = model.step(&step);
            let seen = program.step(&step);
            if told {
                println!("{at}: {step:?} -> {seen:?}");
            }
            assert_eq!(seen, expected, "case {case}, step {at}: {step:?}");
        }
        // What could not be written then would have to wait.
        model.step(&NameStep::Chmod("a".into(), 0o755));
        program.step(&NameStep::Chmod("a".into(), 0o755));
        model.finish(true).unwrap();
        program.finish(true).unwrap();
    }
    open_up(&with);
    open_up(&without);
    let (left, right) = (tree(&with), tree(&without));
    assert!(left.keys().eq(right.keys()), "case {case}: {:?}", left.keys());
    for (name, what) in &left {
        assert_eq!(what, &right[name], "case {case}: {name}");
    }
}

#[test]
fn who_may_not_is_told_so_under_combine() {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(case) = number("STRIATE_CASE") {
        return run(case, true);
    }
    for case in 0..number("STRIATE_CASES").unwrap_or(150) {
        run(case, false);
    }
}

/// Another process takes the permission away while files are held.
#[test]
fn files_that_may_not_be_made_any_more_stay_in_the_log() {
    let place = tempfile::tempdir().unwrap();
    set_mode(place.path(), 0o755);
    let (root, logs) = (place.path().join("root"), place.path().join("logs"));
    directories(&root);
    std::fs::create_dir(&logs).unwrap();
    set_mode(&logs, 0o777);
    let text = format!(
        "[paths]\ninclude = [\"{}\"]\n[[stage]]\nkind = \"combine\"\ndirectory = \"{}\"\n",
        root.display(),
        logs.display()
    );
    let configuration = striate_stages::parse_stack(&text).unwrap();
    {
        let _nobody = Nobody::new();
        let mut program = NamesProgram::new(configuration.build().unwrap(), &root);
        let made = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
        for (path, error) in [
            ("a/x", None),
            ("y", None),
            ("closed/x", Some(libc::EACCES)),
            ("z/x", Some(libc::ENOTDIR)),
        ] {
            let opened = program.open(path, PathForm::Absolute, made, 0o400);
            assert_eq!(opened.err().map(Errno::raw_os_error), error, "{path}");
            if error.is_none() {
                let slot = program.last();
                program.write(slot, b"held", None).unwrap();
                program.close(slot).unwrap();
            }
        }
        // It may be read, but not written again.
        let again = NameStep::Open("y".into(), PathForm::Absolute, libc::O_RDWR, 0);
        assert_eq!(program.step(&again), Observed::Error(libc::EACCES));
        set_mode(&root.join("a"), 0o555);
        assert_eq!(program.open("a/more", PathForm::Absolute, made, 0o600), Err(Errno::ACCESS));
        let stat = program.step(&NameStep::Stat("a/x".into(), PathForm::Absolute, true));
        assert!(matches!(stat, Observed::Stat { size: 4, mode: 0o400, .. }), "{stat:?}");
        assert_eq!(program.finish(true), Err(Errno::ACCESS));
        assert_eq!(std::fs::read(root.join("y")).unwrap(), b"held");
        assert!(!root.join("a/x").exists());
    }
    set_mode(&root.join("a"), 0o755);
    if rustix::process::geteuid().is_root() {
        // The superuser does not do what others have written down.
        let report = recover(&configuration, &[], RecoveryMode::Finish);
        assert_eq!((report.files.len(), report.failures()), (0, 1), "{report}");
        assert!(report.to_string().contains("belongs to user 65534"), "{report}");
        assert!(!root.join("a/x").exists());
    }
    let _nobody = Nobody::new();
    let report = recover(&configuration, &[], RecoveryMode::Finish);
    assert_eq!((report.files.len(), report.failures()), (1, 0), "{report}");
    assert_eq!(std::fs::read(root.join("a/x")).unwrap(), b"held");
    assert_eq!(std::fs::read_dir(&logs).unwrap().count(), 0);
}
