//! Recordings of real programs by `strace`, imported and replayed: no call is left out, and all
//! come out as recorded.
//!
//! The feature `peers` says that the programs are installed: see `PACKAGES` in `./test`.
#![cfg(feature = "peers")]
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::process::Command;

use striate_recording::Recording;
use striate_recording::import::{self, Imported};
use striate_replay::{Options, ReplayTarget, Timing, replay};
use striate_stack::Kind;

/// What has to be among the calls of a recording, so that it is known to be one.
type Has = &'static [(&'static str, u64)];

/// Records a script, imports what strace wrote, replays that, and compares.
fn trip(script: &str, has: Has) -> Imported {
    let place = tempfile::tempdir().unwrap();
    let [work, home, root] = ["work", "home", "root"].map(|name| place.path().join(name));
    for directory in [&work, &home] {
        fs::create_dir(directory).unwrap();
    }
    let told = place.path().join("strace.txt");
    let mut strace = Command::new("strace");
    // As docs/traces.md says.
    strace.args(["-f", "-ttt", "-T", "-y", "-s", "256", "-o"]).arg(&told);
    strace.args(["sh", "-ec", script]).current_dir(&work).env("HOME", &home);
    strace.envs([("LC_ALL", "C"), ("PYTHONDONTWRITEBYTECODE", "1")]).env_remove("LD_PRELOAD");
    let output = strace.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));

    let trace = place.path().join("run.trace");
    let (_, imported) = import::import(&told, &import::Options::default(), &trace).unwrap();
    assert_eq!((imported.malformed, imported.annotated), (0, true), "{imported:?}");
    let recording = Recording::open(&trace).unwrap();
    let counted = |name: &str| -> u64 {
        let calls = recording.in_order().filter(|(_, record)| record.function.name() == name);
        calls.count() as u64
    };
    for (name, least) in has {
        assert!(counted(name) >= *least, "{name}: {} of at least {least}", counted(name));
    }
    assert!(recording.in_order().all(|(_, record)| record.known));
    assert!(recording.in_order().any(|(_, record)| record.call.kind() == Kind::Map));

    let options = Options {
        onto: ReplayTarget::Directory(root),
        timing: Timing::AsFast,
        most_differences: 50,
        ..Options::default()
    };
    let outcome = replay(&recording, &options).unwrap();
    assert!(outcome.skipped.is_empty(), "left out: {:?}", outcome.skipped);
    assert!(outcome.noted.is_empty(), "only told: {:?}", outcome.noted);
    assert!(outcome.first_differences.is_empty(), "{:#?}", outcome.first_differences);
    assert!(outcome.failures.is_empty() && outcome.waits_given_up == 0, "{:?}", outcome.failures);
    assert_eq!(outcome.total().calls, imported.records);
    imported
}

/// Files, links of both sorts, and directories.
const TREE: &str = "mkdir -p d/sub/deep; for i in 1 2 3; do head -c ${i}000 /dev/zero > d/f$i; done; \
    ln -s f1 d/link; ln -s /nowhere/at/all d/dangling; ln d/f2 d/hard; echo x > d/sub/deep/y; chmod 755 d/f3;";

#[test]
fn tar() {
    let script = format!(
        "{TREE} tar cf a.tar d; mkdir out; tar xf a.tar -C out; tar tf a.tar > list; \
         tar rf a.tar d/f1; rm -r out; if tar xf none.tar 2>/dev/null; then exit 1; fi"
    );
    trip(
        &script,
        &[("getdents", 6), ("readlink", 2), ("symlink", 4), ("link", 2), ("utimensat", 5)],
    );
}

#[test]
fn git() {
    let git = "git -c user.name=a -c user.email=a@b";
    let script = format!(
        "git init -q r; cd r; echo hello > a; mkdir s; echo b > s/b; git add .; {git} commit -qm x; \
         git checkout -qb side; echo more >> a; git mv s/b c; {git} commit -qam y; git diff HEAD~1 > ../diff; \
         git checkout -q -; {git} merge -q side; git status > ../status; git gc -q; git log --oneline > ../log"
    );
    trip(&script, &[("access", 10), ("rename", 3), ("fstatat", 10)]);
}

#[test]
fn python() {
    let script = r#"cat > p.py <<'END'
import fcntl, json, mmap, os, shutil, tempfile
os.makedirs("x/y", exist_ok=True)
with open("x/y/a.json", "w") as f: json.dump(list(range(1000)), f)
json.load(open("x/y/a.json"))
with tempfile.TemporaryFile(dir=".") as f: f.write(b"abc" * 1000); f.seek(0); f.read()
with tempfile.NamedTemporaryFile(dir=".") as f: f.write(b"abc")
shutil.copytree("x", "z"); os.rename("z", "w")
m = open("m", "w+b"); m.truncate(8192); memory = mmap.mmap(m.fileno(), 8192); memory[0] = 1; memory.flush()
fcntl.flock(m, fcntl.LOCK_EX); fcntl.lockf(m, fcntl.LOCK_EX)
os.symlink("m", "l"); os.readlink("l"); os.chmod("m", 0o600); os.utime("m"); os.access("nope", os.R_OK)
for _ in os.walk("."): pass
d = os.open(".", os.O_RDONLY); os.fchdir(d); os.listdir(d); os.stat("m", dir_fd=d); os.open("m", os.O_RDONLY, dir_fd=d)
if os.fork() == 0:
    os.write(m.fileno(), b"child"); os._exit(0)
os.wait()
source = os.open("x/y/a.json", os.O_RDONLY); os.sendfile(m.fileno(), source, 0, 100)
os.copy_file_range(source, m.fileno(), 50)
shutil.rmtree("w")
for wrong in [lambda: os.rmdir("x"), lambda: os.open("m/no", 0), lambda: os.mkdir("x"), lambda: os.readlink("m")]:
    try: wrong()
    except OSError: pass
END
python3 -S p.py"#;
    let has: Has =
        &[("flock", 1), ("chdir", 1), ("sendfile", 1), ("copy_file_range", 1), ("mmap", 5)];
    trip(script, has);
}

#[test]
fn sqlite() {
    let script = "for mode in delete wal; do sqlite3 $mode.db \"pragma journal_mode=$mode; create table t(a,b); \
        insert into t values(1,2); begin; insert into t select a+1,b from t; commit; begin; delete from t; rollback; \
        vacuum;\" > out; done; sqlite3 wal.db 'select count(*) from t' > count & \
        sqlite3 delete.db 'select count(*) from t' > other; wait";
    trip(script, &[("fcntl", 20), ("pwrite", 5), ("unlink", 1), ("ftruncate", 1)]);
}

#[test]
fn coreutils() {
    let script = format!(
        "{TREE} cp -a d copy; cp -r d plain; cp --reflink=never d/f1 one; mv copy/f1 copy/moved; mv copy renamed; \
         ln -f d/f3 again; ln -s d/f3 soft; ln -sf f2 soft; printf '3\\n1\\n2\\n' > numbers; sort numbers -o sorted; sort -u numbers > unique; \
         dd if=d/f3 of=dd bs=512 2>/dev/null; dd if=d/f3 of=dd bs=100 seek=7 count=3 conv=notrunc,fsync 2>/dev/null; \
         install -D -m 640 d/f1 deep/er/f1; install -d made; find . -name 'f*' > found; find d -type l -delete; \
         du -a d > sizes; touch new d/f1; touch -d 2001-01-01 new; touch -r d/f2 new; chmod 600 new; chmod -R u+w plain; \
         truncate -s 5000 new; split -b 1000 d/f3 piece; cat piece* > joined; cmp joined d/f3; mkdir -p a/b/c; rmdir a/b/c; \
         mktemp -p . name.XXXX > made/name; tee copied < numbers > /dev/null; head -c 10 d/f3 > head; tail -c 10 d/f3 > tail; \
         wc d/f2 > count; stat d/f2 > about; ls -laR . > list; cp -u numbers sorted; sync new; rm -r renamed plain deep; \
         if mv none other 2>/dev/null; then exit 1; fi; if rmdir d 2>/dev/null; then exit 1; fi"
    );
    let has: Has = &[
        ("getdents", 10),
        ("symlink", 4),
        ("link", 2),
        ("rename", 2),
        ("utimensat", 5),
        ("unlink", 10),
        ("chmod", 3),
    ];
    trip(&script, has);
}

#[test]
fn rsync() {
    let script = format!(
        "{TREE} rsync -a d/ copy/; echo z >> d/f1; rm d/hard; rsync -a --delete d/ copy/; rsync -aH d/ linked/"
    );
    trip(&script, &[("rename", 4), ("chmod", 1), ("symlink", 2), ("utimensat", 4)]);
}
