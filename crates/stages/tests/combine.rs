//! combine beyond transparency: containers that stay, errors, limits, threads.

#![allow(clippy::unwrap_used)]

mod name_steps;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use name_steps::{MADE, NameStep, NamesProgram, Observed, PathForm, make, read, tree};
use striate_stack::{
    Configuration, Function, Kind, Kinds, Next, Op, Outcome, Placed, Stack, Stage,
};
use striate_stages::recover::{Fate, RecoveryMode, recover, unpack};

fn configuration(root: &Path, stage: &str) -> Configuration {
    let root = root.display();
    striate_stages::parse_stack(&format!("[paths]\ninclude = [\"{root}\"]\n[[stage]]\n{stage}\n"))
        .unwrap()
}

fn program(root: &Path, stage: &str) -> NamesProgram {
    NamesProgram::new(configuration(root, stage).build().unwrap(), root)
}

fn files(root: &Path) -> Vec<String> {
    tree(root).into_keys().filter(|name| !name.contains("combine")).collect()
}

#[test]
fn containers_stay_and_are_seen_by_the_next_program() {
    let place = tempfile::tempdir().unwrap();
    let (root, kept) = (place.path().join("root"), place.path().join("kept"));
    std::fs::create_dir_all(root.join("a")).unwrap();
    std::fs::create_dir(&kept).unwrap();
    let stage = format!("kind = \"combine\"\nunpack = false\ndirectory = \"{}\"", kept.display());
    let mut first = program(&root, &stage);
    for number in 0..20 {
        make(&mut first, &format!("a/f{number}"), format!("content {number}").as_bytes());
    }
    first.finish(true).unwrap();
    assert_eq!(files(&root), ["a"]);
    assert_eq!(files(&kept).len(), 0);
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 1);

    // One that reads, changes, removes and renames.
    let mut second = program(&root, &stage);
    assert_eq!(read(&mut second, "a/f3"), Observed::Bytes(b"content 3".to_vec()));
    let size = |seen| matches!(seen, Observed::Stat { size: 10, links: 1, mode: 0o644, .. });
    assert!(size(second.step(&NameStep::Stat("a/f12".into(), PathForm::Absolute, true))));
    assert_eq!(
        second.step(&NameStep::Unlink("a/f4".into(), PathForm::Absolute)),
        Observed::Number(0)
    );
    assert_eq!(read(&mut second, "a/f4"), Observed::Error(libc::ENOENT));
    make(&mut second, "a/f5", b"another");
    second.open("a/f6", PathForm::Absolute, libc::O_WRONLY | libc::O_APPEND, 0).unwrap();
    second.write(0, b" and more", None).unwrap();
    second.close(0).unwrap();
    assert_eq!(
        second.step(&NameStep::Rename("a/f7".into(), "a/g7".into(), 0)),
        Observed::Number(0)
    );
    make(&mut second, "a/temporary", b"in place of the eighth");
    let renamed = second.step(&NameStep::Rename("a/temporary".into(), "a/f8".into(), 0));
    assert_eq!(renamed, Observed::Number(0));
    second.finish(true).unwrap();

    // While one runs, another one leaves something.
    let mut third = program(&root, &stage);
    assert_eq!(read(&mut third, "a/new"), Observed::Error(libc::ENOENT));
    let mut fourth = program(&root, &stage);
    make(&mut fourth, "a/new", b"from the fourth");
    fourth.finish(true).unwrap();
    assert_eq!(read(&mut third, "a/new"), Observed::Bytes(b"from the fourth".to_vec()));
    assert_eq!(read(&mut third, "a/f5"), Observed::Bytes(b"another".to_vec()));
    assert_eq!(read(&mut third, "a/f6"), Observed::Bytes(b"content 6 and more".to_vec()));
    assert_eq!(read(&mut third, "a/f4"), Observed::Error(libc::ENOENT));
    assert_eq!(read(&mut third, "a/f7"), Observed::Error(libc::ENOENT));
    assert_eq!(read(&mut third, "a/g7"), Observed::Bytes(b"content 7".to_vec()));
    assert_eq!(read(&mut third, "a/f8"), Observed::Bytes(b"in place of the eighth".to_vec()));
    third.finish(true).unwrap();

    // Unpacked elsewhere, and then where they belong.
    let listed = unpack(&kept, None, RecoveryMode::List).unwrap();
    let copy = place.path().join("copy");
    let report = unpack(&kept, Some(&copy), RecoveryMode::Finish).unwrap();
    assert_eq!((report.failures(), report.files.len()), (0, listed.files.len()));
    let below = copy.join(root.canonicalize().unwrap().strip_prefix("/").unwrap());
    assert_eq!(std::fs::read(below.join("a/f5")).unwrap(), b"another");
    unpack(&kept, None, RecoveryMode::Finish).unwrap();
    assert_eq!(std::fs::read_dir(&kept).unwrap().count(), 0);
    let expected = 20 - 1 + 1;
    assert_eq!(std::fs::read_dir(root.join("a")).unwrap().count(), expected);
    assert_eq!(std::fs::read(root.join("a/f6")).unwrap(), b"content 6 and more");
    assert_eq!(std::fs::read(root.join("a/f19")).unwrap(), b"content 19");
    assert_eq!(std::fs::read(root.join("a/g7")).unwrap(), b"content 7");
}

#[test]
fn what_cannot_be_written_out_stays_in_the_log() {
    let place = tempfile::tempdir().unwrap();
    let (root, logs) = (place.path().join("root"), place.path().join("logs"));
    std::fs::create_dir_all(root.join("a")).unwrap();
    std::fs::create_dir(&logs).unwrap();
    let stage = format!("kind = \"combine\"\ndirectory = \"{}\"", logs.display());
    let mut program = program(&root, &stage);
    make(&mut program, "a/lost", b"not lost");
    make(&mut program, "fine", b"fine");
    // Another process removes the directory.
    std::fs::remove_dir(root.join("a")).unwrap();
    assert!(program.finish(true).is_err());
    assert_eq!(std::fs::read(root.join("fine")).unwrap(), b"fine");
    let configuration = configuration(&root, &stage);
    let report = recover(&configuration, &[], RecoveryMode::Finish);
    assert_eq!((report.files.len(), report.failures()), (1, 1));
    assert!(report.to_string().contains("a/lost"), "{report}");
    std::fs::create_dir(root.join("a")).unwrap();
    let report = recover(&configuration, &[], RecoveryMode::Finish);
    assert!(matches!(report.files[0].fate, Fate::Finished), "{report}");
    assert_eq!(std::fs::read(root.join("a/lost")).unwrap(), b"not lost");
    assert_eq!(std::fs::read_dir(&logs).unwrap().count(), 0);
}

#[test]
fn logs_in_use_are_left_alone() {
    let place = tempfile::tempdir().unwrap();
    let (root, fast) = (place.path().join("root"), place.path().join("fast"));
    std::fs::create_dir(&root).unwrap();
    let rules =
        format!("rules = [{{ from = \"{}\", to = \"{}\" }}]", root.display(), fast.display());
    let stages = format!("kind = \"combine\"\n[[stage]]\nkind = \"path-rewrite\"\n{rules}");
    let mut program = program(&root, &stages);
    make(&mut program, "x", b"held");
    program.open("y", PathForm::Absolute, libc::O_CREAT | libc::O_WRONLY, 0o600).unwrap();
    program.write(0, b"elsewhere", None).unwrap();
    let configuration = configuration(&root, &stages);
    let report = recover(&configuration, std::slice::from_ref(&root), RecoveryMode::Finish);
    assert_eq!((report.files.len(), report.in_use.len()), (0, 2), "{report}");
    program.finish(true).unwrap();
    assert_eq!(std::fs::read(root.join("x")).unwrap(), b"held");
    assert_eq!(std::fs::read(root.join("y")).unwrap(), b"elsewhere");
    assert_eq!(files(&root), ["x", "y"]);
}

/// Counts what reaches it.
#[derive(Debug)]
struct Counter(Arc<AtomicUsize>);

impl Stage for Counter {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Open, Kind::Write, Kind::Close, Kind::Stat, Kind::Unlink, Kind::Read])
    }

    fn classification(&self) -> striate_stack::Classification {
        name_steps::Nothing.classification()
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        self.0.fetch_add(1, Ordering::Relaxed);
        next.call(op)
    }
}

/// A stack of a stage with a counter below it.
fn counted(root: &Path, stage: &str) -> (NamesProgram, Arc<AtomicUsize>) {
    let table: toml::Table = toml::from_str(stage).unwrap();
    let name = table["kind"].as_str().unwrap().to_owned();
    let mut options = table;
    options.remove("kind");
    let stage_type = striate_stages::stage_type(&name).unwrap();
    let count = Arc::new(AtomicUsize::new(0));
    let all = striate_stack::Paths::all;
    let stages = vec![
        Placed { name: stage_type.name, paths: all(), stage: (stage_type.build)(options).unwrap() },
        Placed { name: "counter", paths: all(), stage: Box::new(Counter(Arc::clone(&count))) },
    ];
    (NamesProgram::new(Stack::new(all(), stages), root), count)
}

#[test]
fn small_files_reach_storage_once_or_never() {
    let place = tempfile::tempdir().unwrap();
    let (mut program, count) = counted(place.path(), "kind = \"combine\"");
    for round in 0..10 {
        for number in 0..100 {
            make(&mut program, &format!("f{number}"), format!("{round}").as_bytes());
            assert_eq!(
                read(&mut program, &format!("f{number}")),
                Observed::Bytes(format!("{round}").into())
            );
        }
    }
    for number in 50..100 {
        let unlinked = program.step(&NameStep::Unlink(format!("f{number}"), PathForm::Absolute));
        assert_eq!(unlinked, Observed::Number(0));
    }
    assert_eq!(count.load(Ordering::Relaxed), 0);
    program.finish(true).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 3 * 50);
    assert_eq!(files(place.path()).len(), 50);
}

#[test]
fn limits_make_real_files() {
    let place = tempfile::tempdir().unwrap();
    let options = "limit = \"10KiB\"\nmemory = \"1MiB\"\nfiles = 30";
    let (mut program, count) = counted(place.path(), &format!("kind = \"combine\"\n{options}"));
    program.open("large", PathForm::Absolute, MADE, 0o644).unwrap();
    program.write(0, &[7; 10_240], None).unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 0);
    program.write(0, b"8", None).unwrap();
    assert!(place.path().join("large").exists());
    program.close(0).unwrap();
    assert_eq!(std::fs::metadata(place.path().join("large")).unwrap().len(), 10_241);
    for number in 0..29 {
        make(&mut program, &format!("f{number}"), b"x");
    }
    assert!(!place.path().join("f0").exists());
    make(&mut program, "f29", b"x");
    assert!(place.path().join("f0").exists() && place.path().join("f29").exists());
    // More bytes than the log may have: it is emptied, and goes on.
    for number in 0..300 {
        make(&mut program, &format!("g{}", number % 25), &[number as u8; 10_000]);
    }
    program.finish(true).unwrap();
    for number in 0..25 {
        let expected = vec![(275 + number) as u8; 10_000];
        assert_eq!(std::fs::read(place.path().join(format!("g{number}"))).unwrap(), expected);
    }
}

/// Says that storage is full, for files below a directory, while it is told to.
#[derive(Debug)]
struct Full(Arc<AtomicBool>, std::path::PathBuf);

impl Stage for Full {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Write])
    }

    fn classification(&self) -> striate_stack::Classification {
        name_steps::Nothing.classification()
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        match &op.action {
            striate_stack::Action::Write { file, .. }
                if self.0.load(Ordering::Relaxed) && file.path().starts_with(&self.1) =>
            {
                Err(rustix::io::Errno::NOSPC)
            }
            _ => next.call(op),
        }
    }
}

fn on_full(root: &Path, stage: &str, full: &Path) -> (NamesProgram, Arc<AtomicBool>) {
    let mut options: toml::Table = toml::from_str(stage).unwrap();
    let name = options.remove("kind").unwrap();
    let stage_type = striate_stages::stage_type(name.as_str().unwrap()).unwrap();
    let is_full = Arc::new(AtomicBool::new(true));
    let all = striate_stack::Paths::all;
    let below = Box::new(Full(Arc::clone(&is_full), full.to_path_buf()));
    let stages = vec![
        Placed { name: stage_type.name, paths: all(), stage: (stage_type.build)(options).unwrap() },
        Placed { name: "full", paths: all(), stage: below },
    ];
    (NamesProgram::new(Stack::new(all(), stages), root), is_full)
}

#[test]
fn a_full_disk_is_told_and_nothing_is_lost() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    let (mut program, is_full) = on_full(root, "kind = \"combine\"", root);
    for number in 0..20 {
        make(&mut program, &format!("f{number}"), b"some bytes");
    }
    program.open("open", PathForm::Absolute, MADE, 0o644).unwrap();
    program.write(0, b"more", None).unwrap();
    let full = Observed::Error(libc::ENOSPC);
    assert_eq!(program.step(&NameStep::SettleAll), full);
    assert_eq!(program.step(&NameStep::Sync(0)), full);
    assert_eq!(program.step(&NameStep::List(".".into())), full);
    assert_eq!(read(&mut program, "f7"), Observed::Bytes(b"some bytes".to_vec()));
    // What is needed for the files to be recovered is there.
    let logs = || std::fs::read_dir(root).unwrap().filter_map(Result::ok);
    assert!(logs().any(|entry| entry.file_name().to_string_lossy().ends_with(".log")));
    is_full.store(false, Ordering::Relaxed);
    program.finish(true).unwrap();
    assert_eq!(files(root).len(), 21);
    for (name, (_, bytes)) in tree(root) {
        assert_eq!(bytes, if name == "open" { &b"more"[..] } else { b"some bytes" }, "{name}");
    }
}

#[test]
fn a_full_fast_place_is_not_noticed() {
    let place = tempfile::tempdir().unwrap();
    let (root, fast) = (place.path().join("root"), place.path().join("fast"));
    std::fs::create_dir(&root).unwrap();
    let (from, to) = (root.display(), fast.display());
    let stage =
        format!("kind = \"path-rewrite\"\nrules = [{{ from = \"{from}\", to = \"{to}\" }}]");
    let (mut program, is_full) = on_full(&root, &stage, &fast);
    is_full.store(false, Ordering::Relaxed);
    program.open("x", PathForm::Absolute, MADE, 0o644).unwrap();
    program.write(0, b"fast ", None).unwrap();
    assert_eq!(std::fs::metadata(root.join("x")).unwrap().len(), 0);
    is_full.store(true, Ordering::Relaxed);
    program.write(0, b"slow", None).unwrap();
    assert_eq!(std::fs::read(root.join("x")).unwrap(), b"fast slow");
    program.finish(true).unwrap();
    assert!(!fast.exists() || std::fs::read_dir(&fast).unwrap().count() == 0);
}

/// Threads of one program, each with descriptors of its own.
fn in_threads(
    stack: &Stack,
    root: &Path,
    work: impl Fn(usize, &dyn Fn(&str, i32) -> Outcome) + Sync,
) {
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let work = &work;
            scope.spawn(move || {
                let cycle = |path: &str, flags: i32| -> Outcome {
                    let absolute = root.join(path);
                    let text = std::ffi::CString::new(absolute.to_str().unwrap()).unwrap();
                    let target = striate_stack::Target {
                        directory: libc::AT_FDCWD,
                        path: &text,
                        absolute: &absolute,
                    };
                    let file = stack.open(Function::Open, target, flags, 0o644).unwrap()?;
                    let bytes = format!("{path} {thread}");
                    let memory = striate_stack::Memory::source(bytes.as_bytes());
                    let action =
                        striate_stack::Action::Write { file: &file, memory, at: None, flags: 0 };
                    stack.call(&mut Op::on(&file, Function::Write, action))?;
                    let descriptor = file.raw_descriptor();
                    let last = file.remove_descriptor(descriptor);
                    let action = striate_stack::Action::Close { file: &file, descriptor, last };
                    stack.call(&mut Op::on(&file, Function::Close, action))
                };
                work(thread, &cycle);
            });
        }
    });
}

#[test]
fn of_several_threads_one_makes_a_name() {
    let far = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for stage in [
        "kind = \"combine\"\nmemory = \"1MiB\"\nfiles = 50".to_owned(),
        format!(
            "kind = \"path-rewrite\"\nrules = [{{ from = \"ROOT\", to = \"{}\" }}]",
            far.path().display()
        ),
        format!(
            "kind = \"path-rewrite\"\nbackground = true\nrules = [{{ from = \"ROOT\", to = \"{}\" }}]",
            far.path().display()
        ),
    ] {
        let place = tempfile::tempdir().unwrap();
        let root = place.path();
        let stage = stage.replace("ROOT", &root.display().to_string());
        let stack = configuration(root, &stage).build().unwrap();
        let made = AtomicUsize::new(0);
        in_threads(&stack, root, |thread, cycle| {
            for number in 0..60 {
                let exclusive = libc::O_CREAT | libc::O_EXCL | libc::O_WRONLY;
                match cycle(&format!("common{number}"), exclusive) {
                    Ok(_) => {
                        made.fetch_add(1, Ordering::Relaxed);
                    }
                    Err(error) => assert_eq!(error, rustix::io::Errno::EXIST),
                }
                cycle(
                    &format!("own{thread}_{number}"),
                    libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY,
                )
                .unwrap();
                if number % 20 == 19 {
                    stack.settle_all().unwrap();
                }
            }
        });
        assert_eq!(made.load(Ordering::Relaxed), 60);
        stack.finish().unwrap();
        assert_eq!(std::fs::read_dir(root).unwrap().count(), 60 * 5, "{stage}");
        for thread in 0..4 {
            let name = format!("own{thread}_7");
            let bytes = std::fs::read_to_string(root.join(&name)).unwrap();
            assert_eq!(bytes, format!("{name} {thread}"));
        }
        assert_eq!(std::fs::read_dir(far.path()).unwrap().count(), 0);
    }
}

#[test]
fn nonsense_is_refused() {
    for stage in [
        "kind = \"combine\"\nlimit = \"much\"",
        "kind = \"combine\"\nlimit = \"1GiB\"",
        "kind = \"combine\"\nunpack = false",
        "kind = \"combine\"\nthreads = 0",
        "kind = \"combine\"\ndirectory = \"here\"",
        "kind = \"combine\"\nunknown = 1",
        "kind = \"path-rewrite\"",
        "kind = \"path-rewrite\"\nrules = []",
        "kind = \"path-rewrite\"\nrules = [{ from = \"/a\", to = \"b\" }]",
        "kind = \"path-rewrite\"\nrules = [{ from = \"/a\", to = \"/a/b\" }]",
    ] {
        assert!(striate_stages::parse_stack(&format!("[[stage]]\n{stage}\n")).is_err(), "{stage}");
    }
}

#[test]
fn the_log_is_not_in_the_way() {
    let place = tempfile::tempdir().unwrap();
    std::fs::create_dir(place.path().join("d")).unwrap();
    let mut program = program(place.path(), "kind = \"combine\"");
    make(&mut program, "d/x", b"short-lived");
    assert_eq!(
        program.step(&NameStep::Unlink("d/x".into(), PathForm::Absolute)),
        Observed::Number(0)
    );
    assert_eq!(program.step(&NameStep::Rmdir("d".into())), Observed::Number(0));
    program.finish(true).unwrap();
    assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
}

/// A replay has a stage for each process: what they hide while they work must not be the same file.
#[test]
fn stages_of_one_process_do_not_meet_in_hidden_files() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    let work = |who: usize| {
        let mut program = program(root, "kind = \"combine\"");
        for round in 0..150 {
            let (name, bytes) = (format!("{who}-{round}"), vec![b'a' + who as u8; 500 + who]);
            program.open(&name, PathForm::Absolute, MADE, 0o644).unwrap();
            program.write(0, &bytes, None).unwrap();
            assert_eq!(
                program.step(&NameStep::Unlink(name, PathForm::Absolute)),
                Observed::Number(0)
            );
            // It has no name, and becomes a real file all the same.
            program.share_all();
            assert_eq!(program.step(&NameStep::Read(0, 1000, Some(0))), Observed::Bytes(bytes));
            program.close(0).unwrap();
        }
        program.finish(true).unwrap();
    };
    std::thread::scope(|scope| {
        for who in 0..4 {
            scope.spawn(move || work(who));
        }
    });
    assert_eq!(std::fs::read_dir(root).unwrap().count(), 0);
}

/// Where a directory stands for `/`, files that stages open for themselves are those of the
/// program.
#[test]
fn stages_choose_by_paths_beneath_the_root() {
    struct Opens(AtomicUsize);
    impl std::fmt::Debug for Opens {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Opens")
        }
    }
    impl Stage for &'static Opens {
        fn kinds(&self) -> Kinds {
            Kinds::of(&[Kind::Open])
        }
        fn classification(&self) -> striate_stack::classification::Classification {
            use striate_stack::classification::*;
            Classification {
                scope: Scope::Both,
                interference: Interference::OneOperation,
                state: State::Stateless,
                meaning: Meaning::Kept,
            }
        }
        fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
            self.0.fetch_add(1, Ordering::Relaxed);
            next.call(op)
        }
    }
    let place = tempfile::tempdir().unwrap();
    let root = place.path().canonicalize().unwrap();
    std::fs::create_dir(root.join("data")).unwrap();
    for rooted in [false, true] {
        let opens: &'static Opens = Box::leak(Box::new(Opens(AtomicUsize::new(0))));
        let paths = || striate_stack::Paths::new(Some(&["/data".to_owned()]), &[]).unwrap();
        let stage_type = striate_stages::stage_type("combine").unwrap();
        let combine = Placed {
            name: stage_type.name,
            paths: paths(),
            stage: (stage_type.build)(toml::Table::new()).unwrap(),
        };
        let counted = Placed { name: "opens", paths: paths(), stage: Box::new(opens) };
        let mut stack = Stack::new(paths(), vec![combine, counted]);
        if rooted {
            stack = stack.rooted_at(root.clone());
        }
        let directory = std::fs::File::open(&root).unwrap();
        let name = format!("data/{rooted}");
        let absolute = Path::new("/").join(&name);
        let path = std::ffi::CString::new(name.clone()).unwrap();
        let directory = std::os::fd::AsRawFd::as_raw_fd(&directory);
        let target = striate_stack::Target { directory, path: &path, absolute: &absolute };
        let file = stack.open(Function::Open, target, MADE, 0o644).unwrap().unwrap();
        stack.share(&file).unwrap();
        stack.finish().unwrap();
        assert!(root.join(name).is_file());
        // It is opened again for the program, by the path that this said; and written out, by the
        // one that the kernel tells.
        assert_eq!(opens.0.load(Ordering::Relaxed), if rooted { 2 } else { 1 });
    }
}

#[test]
fn stacks_above_each_other_keep_their_files() {
    let parse = |text: &str| striate_stages::parse_stack(text).unwrap();
    let upper = parse("[paths]\ninclude = ['/data']\n[[stage]]\nkind = 'write-back'\n");
    let lower = parse("[[stage]]\nkind = 'throttle'\nlatency = '1us'\npaths = ['*.nc']\n");
    let stack = upper.above(&lower).unwrap().build().unwrap();
    let stages = |path: &str| {
        let placed = stack.stages().iter().filter(|placed| placed.paths.cover(Path::new(path)));
        placed.map(|placed| placed.name).collect::<Vec<_>>()
    };
    assert_eq!(stages("/data/x"), ["write-back"]);
    assert_eq!(stages("/data/x.nc"), ["write-back", "throttle"]);
    assert_eq!(stages("/other/x.nc"), ["throttle"]);
    // Of the system, by default.
    assert_eq!(stages("/usr/lib/x.nc"), [""; 0]);
    // What may not be above each other is told.
    assert!(upper.above(&upper).is_err_and(|error| error.to_string().contains("in a row")));
}
