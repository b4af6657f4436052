//! path-rewrite beyond transparency: files keep their identity, several programs use one file, and
//! a file that cannot be moved is reported and stays.

#![allow(clippy::unwrap_used)]

mod name_steps;

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use name_steps::{NameStep, NamesProgram, Observed, PathForm, tree};
use rustix::io::Errno;
use striate_stack::{
    Action, Configuration, FileOrName, Function, Kind, Kinds, Next, Op, Outcome, Placed, Stack,
    Stage, StatInto, Target,
};
use striate_stages::recover::{Fate, RecoveryMode, finish_moves, recover};

const MADE: i32 = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
const THERE: i32 = libc::O_RDWR;

/// A slow and a fast place.
struct SlowAndFast {
    _slow: tempfile::TempDir,
    far: tempfile::TempDir,
    root: PathBuf,
}

impl SlowAndFast {
    fn new() -> Self {
        let slow = tempfile::tempdir().unwrap();
        let far = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
        let root = slow.path().canonicalize().unwrap().join("root");
        std::fs::create_dir(&root).unwrap();
        Self { _slow: slow, far, root }
    }

    fn configuration(&self, more: &str) -> Configuration {
        let (from, to) = (self.root.display(), self.far.path().display());
        let rules = format!("rules = [{{ from = \"{from}\", to = \"{to}\" }}]");
        let text = format!(
            "[paths]\ninclude = [\"{from}\"]\n[[stage]]\nkind = \"path-rewrite\"\n{rules}\n{more}\n"
        );
        striate_stages::parse_stack(&text).unwrap()
    }

    /// One of several programs under one stack. Locks belong to open files, so two of them in one
    /// process are to each other what two processes are.
    fn program(&self, more: &str) -> NamesProgram {
        NamesProgram::new(self.configuration(more).build().unwrap(), &self.root)
    }

    /// The bytes where the file belongs.
    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.root.join(name)).unwrap()
    }

    /// What is at the fast place.
    fn fast(&self) -> Vec<String> {
        tree(self.far.path()).into_keys().filter(|name| name.contains(".data")).collect()
    }

    fn is_clean(&self) {
        assert_eq!(tree(self.far.path()).into_keys().collect::<Vec<_>>(), [] as [String; 0]);
        assert!(!tree(&self.root).keys().any(|name| name.contains(".striate")));
    }
}

fn make(program: &mut NamesProgram, name: &str, flags: i32, bytes: &[u8]) -> usize {
    program.open(name, PathForm::Absolute, flags, 0o644).unwrap();
    let slot = program.last();
    assert_eq!(program.write(slot, bytes, None), Ok(bytes.len() as u64));
    slot
}

fn identity(path: &Path) -> (u64, u64) {
    let found = std::fs::symlink_metadata(path).unwrap();
    (found.dev(), found.ino())
}

/// What `fstat`, `stat` and both forms of `statx` say of an open file and its name, if they agree.
fn told(program: &NamesProgram, slot: usize, path: &Path) -> (u64, u64) {
    let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let target = Target { directory: libc::AT_FDCWD, path: &text, absolute: path };
    let file = program.file(slot);
    let route = program.stack.route(path);
    let mut all = Vec::new();
    for of in [FileOrName::File(file), FileOrName::Name(target)] {
        let route = if matches!(of, FileOrName::File(_)) { file.route() } else { &route };
        // SAFETY: numbers.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        // SAFETY: numbers.
        let mut more: libc::statx = unsafe { std::mem::zeroed() };
        let ask = |into: StatInto<'_>| {
            let mut op =
                Op { function: Function::Stat, route, action: Action::Stat { of, flags: 0, into } };
            program.stack.call(&mut op).unwrap();
        };
        ask(StatInto::Stat(&mut stat));
        ask(StatInto::Statx { mask: libc::STATX_BASIC_STATS, buffer: &mut more });
        all.push((stat.st_dev, stat.st_ino));
        all.push((libc::makedev(more.stx_dev_major, more.stx_dev_minor), more.stx_ino));
    }
    assert!(all.iter().all(|one| *one == all[0]), "{all:?}");
    all[0]
}

#[test]
fn a_file_is_itself_wherever_its_bytes_are() {
    for (more, before) in [("", false), ("", true), ("existing = true", true)] {
        let places = SlowAndFast::new();
        let path = places.root.join("x");
        if before {
            std::fs::write(&path, b"old").unwrap();
        }
        let mut program = places.program(more);
        let slot = make(&mut program, "x", MADE, b"fast ");
        let there = identity(&path);
        assert_eq!(told(&program, slot, &path), there);
        assert_eq!(places.fast().len(), 1);
        // It goes home while it is open, and stays the same file.
        program.stack.share(program.file(slot)).unwrap();
        assert_eq!((told(&program, slot, &path), identity(&path)), (there, there));
        assert_eq!(places.read("x"), b"fast ");
        program.write(slot, b"slow", None).unwrap();
        assert_eq!(places.read("x"), b"fast slow");
        program.finish(true).unwrap();
        assert_eq!(identity(&path), there);
        places.is_clean();
    }
}

#[test]
fn a_file_that_was_there_is_replaced_as_a_whole() {
    for more in ["", "background = true", "existing = true"] {
        let places = SlowAndFast::new();
        let path = places.root.join("x");
        std::fs::write(&path, b"old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
        let mut program = places.program(more);
        let flags = if more.starts_with("existing") { THERE } else { MADE };
        let slot = make(&mut program, "x", flags, b"new bytes");
        // An open file stays the old one, and never has a part of the new one in it.
        let before = std::fs::File::open(&path).unwrap();
        program.close(slot).unwrap();
        program.finish(true).unwrap();
        assert_eq!(places.read("x"), b"new bytes");
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o7777, 0o640);
        let mut seen = String::new();
        std::io::Read::read_to_string(&mut &before, &mut seen).unwrap();
        assert_eq!(seen, if flags == MADE { "" } else { "old" });
        places.is_clean();
    }
}

#[test]
fn a_file_with_several_names_stays_the_same_file() {
    let places = SlowAndFast::new();
    let path = places.root.join("x");
    std::fs::write(&path, b"old").unwrap();
    std::fs::hard_link(&path, places.root.join("also")).unwrap();
    let there = identity(&path);
    let mut program = places.program("");
    make(&mut program, "x", MADE, b"new bytes");
    assert_eq!((places.fast().len(), places.read("also")), (1, Vec::new()));
    program.finish(true).unwrap();
    assert_eq!((identity(&path), places.read("also")), (there, b"new bytes".to_vec()));
    places.is_clean();
}

#[test]
fn programs_use_one_file_until_the_last_has_closed_it() {
    for more in ["", "background = true"] {
        let places = SlowAndFast::new();
        let [mut one, mut two] = [(); 2].map(|()| places.program(more));
        make(&mut one, "x", MADE, b"one ");
        two.open("x", PathForm::Absolute, THERE | libc::O_APPEND, 0).unwrap();
        two.write(0, b"two ", None).unwrap();
        assert_eq!(
            one.step(&NameStep::Read(0, 100, Some(0))),
            Observed::Bytes(b"one two ".to_vec())
        );
        // To share it with a child does not bring it home as long as the other uses it.
        one.stack.share(one.file(0)).unwrap();
        assert_eq!((places.fast().len(), places.read("x").len()), (1, 0));
        let path = places.root.join("x");
        assert_eq!(told(&one, 0, &path), identity(&path));
        one.close(0).unwrap();
        // What it does in the background it does now: later, it might find the file unused.
        one.stack.settle_all().unwrap();
        assert_eq!(places.read("x"), b"");
        two.write(0, b"again", None).unwrap();
        let renamed = one.step(&NameStep::Rename("x".into(), "y".into(), 0));
        assert_eq!(renamed, Observed::Number(0));
        two.close(0).unwrap();
        two.stack.settle_all().unwrap();
        assert_eq!(places.read("y"), b"one two again");
        one.finish(true).unwrap();
        two.finish(true).unwrap();
        places.is_clean();
    }
}

#[test]
fn nobody_goes_to_the_fast_place_with_what_another_writes_where_it_belongs() {
    let places = SlowAndFast::new();
    std::fs::write(places.root.join("x"), b"0123456789").unwrap();
    let [mut one, mut two] = [(); 2].map(|()| places.program(""));
    one.open("x", PathForm::Absolute, THERE, 0).unwrap();
    make(&mut two, "x", MADE, b"two");
    one.write(0, b"one", Some(3)).unwrap();
    assert_eq!((places.fast().len(), places.read("x")), (0, b"twoone".to_vec()));
    two.close(0).unwrap();
    one.close(0).unwrap();
    places.is_clean();
}

#[test]
fn a_removed_file_leaves_nothing() {
    let places = SlowAndFast::new();
    let [mut one, mut two] = [(); 2].map(|()| places.program(""));
    make(&mut one, "x", MADE, b"bytes");
    assert_eq!(two.step(&NameStep::Unlink("x".into(), PathForm::Absolute)), Observed::Number(0));
    assert_eq!(one.step(&NameStep::Read(0, 9, Some(0))), Observed::Bytes(b"bytes".to_vec()));
    assert!(finish_moves(&places.configuration("")).files.is_empty());
    one.close(0).unwrap();
    assert_eq!(tree(&places.root).len(), 0);
    places.is_clean();
}

#[test]
fn what_others_wrote_is_not_overwritten() {
    let places = SlowAndFast::new();
    let mut program = places.program("");
    make(&mut program, "x", MADE, b"under the stack");
    // Not under the stack.
    std::fs::write(places.root.join("x"), b"by another").unwrap();
    assert_eq!(program.close(0), Err(Errno::STALE));
    assert_eq!((places.read("x"), places.fast().len()), (b"by another".to_vec(), 1));
    drop(program);
    let configuration = places.configuration("");
    let report = recover(&configuration, &[], RecoveryMode::Finish);
    assert_eq!(report.failures(), 1, "{report}");
    assert!(matches!(report.files[0].fate, Fate::Failed(_)));
    // A user has looked at both, and keeps both.
    std::fs::rename(places.root.join("x"), places.root.join("y")).unwrap();
    assert_eq!(recover(&configuration, &[], RecoveryMode::Finish).failures(), 0);
    assert_eq!(places.read("y"), b"by another");
    assert_eq!(places.read("x"), b"under the stack");
    places.is_clean();
}

#[test]
fn what_cannot_be_moved_is_told_and_kept() {
    let places = SlowAndFast::new();
    let mut program = places.program("");
    make(&mut program, "x", MADE, b"bytes");
    let (device, inode) = identity(&places.root.join("x"));
    let in_the_way = places.root.join(format!(".striate-move-{device}-{inode}"));
    std::fs::create_dir(&in_the_way).unwrap();
    assert_eq!(program.close(0), Err(Errno::EXIST));
    // The program goes on seeing it.
    program.open("x", PathForm::Absolute, libc::O_RDONLY, 0).unwrap();
    assert_eq!(program.step(&NameStep::Read(0, 9, None)), Observed::Bytes(b"bytes".to_vec()));
    std::fs::remove_dir(&in_the_way).unwrap();
    program.finish(true).unwrap();
    assert_eq!(places.read("x"), b"bytes");
    places.is_clean();
}

#[test]
fn a_copy_that_was_interrupted_is_begun_again() {
    let places = SlowAndFast::new();
    std::fs::write(places.root.join("x"), b"old").unwrap();
    let mut program = places.program("");
    make(&mut program, "x", MADE, b"new bytes");
    program.stack.share(program.file(0)).unwrap();
    program.close(0).unwrap();
    make(&mut program, "x", MADE, b"newer bytes");
    // As if the process had been killed in the middle of a copy: the journal says so.
    let moves = places.far.path().join(".striate-moves");
    let journal = std::fs::read_dir(&moves).unwrap().map(|entry| entry.unwrap().path());
    let journal = journal.into_iter().find(|path| path.extension().unwrap() == "journal").unwrap();
    let text = std::fs::read_to_string(&journal).unwrap().replace("state open", "state copying");
    let body = text.rsplit_once("end ").unwrap().0;
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, body.as_bytes()) as u32;
    std::fs::write(&journal, format!("{body}end {sum:08x}\n")).unwrap();
    std::fs::write(places.root.join("x"), b"newer").unwrap();
    drop(program);
    let report = recover(&places.configuration(""), &[], RecoveryMode::Finish);
    assert_eq!((report.failures(), report.files.len()), (0, 1), "{report}");
    assert_eq!(places.read("x"), b"newer bytes");
    places.is_clean();
}

/// Says that nothing can be made or written below a directory.
#[derive(Debug)]
struct Refusing(PathBuf, Errno);

impl Stage for Refusing {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Open])
    }

    fn classification(&self) -> striate_stack::Classification {
        name_steps::Nothing.classification()
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        match &op.action {
            Action::Open { target, flags, .. }
                if flags & libc::O_ACCMODE != libc::O_RDONLY
                    && target.absolute.starts_with(&self.0) =>
            {
                Err(self.1)
            }
            _ => next.call(op),
        }
    }
}

fn refusing(places: &SlowAndFast, directory: &Path, error: Errno) -> NamesProgram {
    let (from, to) = (places.root.display(), places.far.path().display());
    let rules = format!("rules = [{{ from = \"{from}\", to = \"{to}\" }}]");
    let stage_type = striate_stages::stage_type("path-rewrite").unwrap();
    let all = striate_stack::Paths::all;
    let stage = (stage_type.build)(toml::from_str(&rules).unwrap()).unwrap();
    let below = Box::new(Refusing(directory.to_path_buf(), error));
    let stages = vec![
        Placed { name: stage_type.name, paths: all(), stage },
        Placed { name: "refusing", paths: all(), stage: below },
    ];
    NamesProgram::new(Stack::new(all(), stages), &places.root)
}

#[test]
fn errors_of_the_destination_are_those_of_the_program() {
    for error in [Errno::ACCESS, Errno::ROFS] {
        let places = SlowAndFast::new();
        std::fs::write(places.root.join("old"), b"old").unwrap();
        let mut program = refusing(&places, &places.root.clone(), error);
        for name in ["new", "old"] {
            assert_eq!(program.open(name, PathForm::Absolute, MADE, 0o644), Err(error), "{name}");
        }
        program.finish(true).unwrap();
        assert_eq!(places.read("old"), b"old");
        places.is_clean();
    }
}

#[test]
fn a_fast_place_that_cannot_be_used_is_not_noticed() {
    for error in [Errno::ACCESS, Errno::NOSPC, Errno::INVAL] {
        let places = SlowAndFast::new();
        let mut program = refusing(&places, places.far.path(), error);
        make(&mut program, "x", MADE | libc::O_EXCL, b"bytes");
        assert_eq!(places.read("x"), b"bytes");
        program.finish(true).unwrap();
        places.is_clean();
    }
    // It is not even a directory, but it was not there when the stack was built.
    let places = SlowAndFast::new();
    let mut program = places.program("");
    std::fs::write(places.far.path().join(".striate-moves"), b"").unwrap();
    make(&mut program, "x", MADE, b"bytes");
    assert_eq!(places.read("x"), b"bytes");
    program.finish(true).unwrap();
}

#[test]
fn who_finds_a_file_of_a_program_that_was_killed_goes_on_with_it() {
    let places = SlowAndFast::new();
    let mut one = places.program("");
    make(&mut one, "x", MADE, b"written ");
    // Its locks go, as those of a process that is killed.
    drop(one);
    let mut two = places.program("");
    two.open("x", PathForm::Absolute, THERE | libc::O_APPEND, 0).unwrap();
    two.write(0, b"and more", None).unwrap();
    two.close(0).unwrap();
    assert_eq!(places.read("x"), b"written and more");
    places.is_clean();
}
