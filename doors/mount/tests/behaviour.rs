//! What file systems do beside reading and writing: attributes, permissions, locks, mappings,
//! special files; and what becomes of faults.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "modules of tests are shared")]

mod support;

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::RenameFlags as Flags;
use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{
    Action, Classification, Kind, Kinds, Next, Op, Outcome, Paths, Placed, Stack, Stage,
};
use support::Mount;

const WRITE_BACK: &str = "[paths]\ninclude = [\"SOURCE\"]\n[[stage]]\nkind = \"write-back\"\n";
const COMBINE: &str = "[paths]\ninclude = [\"SOURCE\"]\n[[stage]]\nkind = \"combine\"\n";

fn each(test: impl Fn(&Mount)) {
    for stack in ["", WRITE_BACK, COMBINE] {
        test(&Mount::with(stack));
    }
}

/// A command has to succeed; what it says.
fn said(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn shell(at: &Path, script: &str) -> String {
    said(Command::new("sh").args(["-ec", script]).current_dir(at))
}

/// A user other than the superuser, with a supplementary group.
fn as_nobody(at: &Path, script: &str) -> std::process::Output {
    let mut command = Command::new("sh");
    command.args(["-c", script]).current_dir(at).uid(65534).gid(65534);
    command.output().unwrap()
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[test]
fn extended_attributes_are_those_of_the_source() {
    each(|mount| {
        let path = mount.point("f");
        fs::write(&path, "x").unwrap();
        rustix::fs::setxattr(&path, "user.colour", b"blue", rustix::fs::XattrFlags::empty())
            .unwrap();
        let mut room = [0_u8; 64];
        let length = rustix::fs::getxattr(&path, "user.colour", &mut room[..]).unwrap();
        assert_eq!(&room[..length], b"blue");
        let length = rustix::fs::getxattr(mount.source("f"), "user.colour", &mut room[..]).unwrap();
        assert_eq!(&room[..length], b"blue");
        let length = rustix::fs::listxattr(&path, &mut room[..]).unwrap();
        assert!(room[..length].starts_with(b"user.colour\0"));
        // Also while it is open.
        let open = File::open(&path).unwrap();
        rustix::fs::fsetxattr(&open, "user.size", b"large", rustix::fs::XattrFlags::empty())
            .unwrap();
        let length = rustix::fs::fgetxattr(&open, "user.size", &mut room[..]).unwrap();
        assert_eq!(&room[..length], b"large");
        rustix::fs::fremovexattr(&open, "user.size").unwrap();
        let short: &mut [u8] = &mut [0; 2];
        assert_eq!(
            rustix::fs::getxattr(&path, "user.colour", short),
            Err(rustix::io::Errno::RANGE)
        );
        rustix::fs::removexattr(&path, "user.colour").unwrap();
        assert_eq!(
            rustix::fs::getxattr(&path, "user.colour", &mut room[..]),
            Err(rustix::io::Errno::NODATA)
        );
    });
}

#[test]
fn special_files_work() {
    each(|mount| {
        let at = mount.point("");
        shell(
            &at,
            "mkfifo fifo; (echo hello >fifo) & cat fifo >read; wait; test $(cat read) = hello",
        );
        assert!(fs::metadata(mount.source("fifo")).unwrap().file_type().is_fifo());
        let socket = std::os::unix::net::UnixListener::bind(mount.point("socket")).unwrap();
        drop(std::os::unix::net::UnixStream::connect(mount.point("socket")).unwrap());
        drop(socket);
        if is_root() {
            shell(&at, "mknod null c 1 3 && echo gone >null");
            let about = fs::metadata(mount.source("null")).unwrap();
            assert_eq!(about.rdev(), libc::makedev(1, 3));
        }
    });
}

#[test]
fn masks_and_special_rights_are_respected() {
    each(|mount| {
        let at = mount.point("");
        shell(&at, "umask 027; echo x >f; mkdir d; umask 0; echo x >open; chmod 4755 f");
        let mode = |name: &str| fs::metadata(mount.point(name)).unwrap().mode() & 0o7777;
        assert_eq!([mode("f"), mode("d"), mode("open")], [0o4755, 0o750, 0o666]);
        if is_root() {
            shell(&at, "chmod 777 .; chmod 4777 f; chmod 6777 open");
            assert!(as_nobody(&at, "echo y >>f").status.success());
            assert!(as_nobody(&at, ": >open").status.success());
            assert_eq!([mode("f"), mode("open")], [0o777, 0o777]);
        }
    });
}

#[test]
fn other_users_are_themselves() {
    if !is_root() {
        return;
    }
    each(|mount| {
        let at = mount.point("");
        shell(
            &at,
            "chmod 755 .; echo secret >private; chmod 600 private; mkdir shared; chmod 777 shared; mkdir group; chgrp 1234 group; chmod 2777 group",
        );
        // The directories above are the test's own.
        let mut above = mount.source("");
        while above.pop() && above.starts_with("/dev/shm/s") {
            fs::set_permissions(&above, fs::Permissions::from_mode(0o755)).unwrap();
        }
        assert!(!as_nobody(&at, "cat private").status.success());
        assert!(!as_nobody(&at, "echo x >mine").status.success());
        let made = as_nobody(
            &at,
            "cd shared; umask 077; echo x >f; mkdir d; ln -s f s; mkfifo p; echo x >../group/f",
        );
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        assert_eq!(shell(&at, "cat shared/f"), "x\n");
        shell(&at, "ls shared group");
        for name in ["f", "d", "s", "p"] {
            let about = fs::symlink_metadata(mount.source("shared").join(name)).unwrap();
            assert_eq!((about.uid(), about.gid()), (65534, 65534), "{name}");
        }
        let about = fs::metadata(mount.source("group/f")).unwrap();
        assert_eq!((about.uid(), about.gid()), (65534, 1234));
        assert!(!as_nobody(&at, "chown 0 shared/f").status.success());
        assert!(
            as_nobody(&at, "chmod 640 shared/f; rm shared/s; mv shared/f shared/g")
                .status
                .success()
        );
    });
}

#[test]
fn locks_hold_among_processes_of_the_mount() {
    each(|mount| {
        let at = mount.point("");
        shell(
            &at,
            "echo x >lock; exec 9<lock; flock -x 9; ! flock -n lock true; exec 9<&-; flock -n lock true",
        );
        let program = "import fcntl,os,sys\nf=open('lock','r+')\nfcntl.lockf(f,fcntl.LOCK_EX|fcntl.LOCK_NB)\nif os.fork()==0:\n g=open('lock','r+')\n try: fcntl.lockf(g,fcntl.LOCK_EX|fcntl.LOCK_NB)\n except OSError: os._exit(7)\n os._exit(0)\nsys.exit(0 if os.waitstatus_to_exitcode(os.wait()[1])==7 else 1)";
        said(Command::new("python3").args(["-c", program]).current_dir(&at));
    });
}

/// Memory as direct requests want it.
#[repr(align(4096))]
struct Block([u8; 8192]);

#[test]
fn direct_requests_and_flags_that_change() {
    each(|mount| {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let Ok(file) = options.custom_flags(libc::O_DIRECT).open(mount.point("direct")) else {
            return;
        };
        let block = Block([7; 8192]);
        file.write_all_at(&block.0, 4096).unwrap();
        let mut back = Block([0; 8192]);
        file.read_exact_at(&mut back.0, 4096).unwrap();
        assert!(back.0 == block.0);
        assert_eq!(fs::metadata(mount.point("direct")).unwrap().len(), 12288);
        // A descriptor that begins to append.
        let file = File::create(mount.point("later")).unwrap();
        file.write_all_at(b"0123456789", 0).unwrap();
        let appends = rustix::fs::OFlags::APPEND | rustix::fs::OFlags::WRONLY;
        rustix::fs::fcntl_setfl(&file, appends).unwrap();
        (&file).write_all(b"end").unwrap();
        assert_eq!(fs::read(mount.point("later")).unwrap(), b"0123456789end");
    });
}

#[test]
fn descriptors_that_are_inherited_go_on_after_a_close() {
    each(|mount| {
        let at = mount.point("");
        // Every child closes what it inherited when it ends.
        shell(
            &at,
            "{ for n in 1 2 3 4 5; do sh -c \"echo $n\"; done; } >out; test \"$(echo $(cat out))\" = '1 2 3 4 5'",
        );
        shell(
            &at,
            "exec 5>gone; echo a >&5; rm gone; sh -c 'echo b >&5'; echo c >&5; test $(stat -L -c %s /proc/$$/fd/5) = 6",
        );
        shell(
            &at,
            "exec 5>there; echo a >&5; sh -c 'echo b >&5'; mv there moved; sh -c 'echo c >&5'; echo d >&5; test $(wc -l <moved) = 4",
        );
    });
}

#[test]
fn exchanging_and_not_replacing() {
    each(|mount| {
        let [a, b, c] = ["a", "b", "c"].map(|name| mount.point(name));
        fs::write(&a, "1").unwrap();
        fs::write(&b, "22").unwrap();
        fs::create_dir(&c).unwrap();
        fs::write(c.join("f"), "333").unwrap();
        let rename = |from: &Path, to: &Path, flags| {
            let cwd = rustix::fs::CWD;
            rustix::fs::renameat_with(cwd, from, cwd, to, flags)
        };
        assert_eq!(rename(&a, &b, Flags::NOREPLACE), Err(rustix::io::Errno::EXIST));
        rename(&a, &b, Flags::EXCHANGE).unwrap();
        assert_eq!((fs::read(&a).unwrap(), fs::read(&b).unwrap()), (b"22".into(), b"1".into()));
        rename(&a, &c, Flags::EXCHANGE).unwrap();
        assert_eq!(
            (fs::read(a.join("f")).unwrap(), fs::read(&c).unwrap()),
            (b"333".into(), b"22".into())
        );
    });
}

#[test]
fn space_is_told_and_holes_are_found() {
    each(|mount| {
        let file =
            File::options().read(true).write(true).create_new(true).open(mount.point("f")).unwrap();
        file.set_len(1 << 20).unwrap();
        file.write_all_at(&[1; 4096], 512 << 10).unwrap();
        // SAFETY: a descriptor and numbers.
        let data = unsafe { libc::lseek(file.as_raw_fd(), 0, libc::SEEK_DATA) };
        let native = File::open(mount.source("f")).unwrap();
        // SAFETY: the same.
        assert_eq!(data, unsafe { libc::lseek(native.as_raw_fd(), 0, libc::SEEK_DATA) });
        let [here, there] =
            [mount.point(""), mount.source("")].map(|path| rustix::fs::statvfs(&path).unwrap());
        assert_eq!(
            (here.f_blocks, here.f_files, here.f_namemax),
            (there.f_blocks, there.f_files, there.f_namemax)
        );
    });
}

#[test]
fn many_names_are_listed_while_they_change() {
    let mount = Mount::plain();
    let directory = mount.point("many");
    fs::create_dir(&directory).unwrap();
    for n in 0..3000 {
        File::create(directory.join(format!("file-{n:05}"))).unwrap();
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 3000);
    for (count, entry) in fs::read_dir(&directory).unwrap().enumerate() {
        if count % 2 == 0 {
            fs::remove_file(entry.unwrap().path()).unwrap();
        }
    }
    assert_eq!(fs::read_dir(mount.source("many")).unwrap().count(), 1500);
    // With what the kernel may keep.
    let mount = Mount::of("", |options| options.cache = std::time::Duration::from_secs(5));
    for n in 0..2000 {
        File::create(mount.point(&format!("file-{n:05}"))).unwrap();
    }
    let listed = said(Command::new("ls").arg("-l").arg(mount.point("")));
    assert_eq!(listed.lines().count(), 2003);
}

#[test]
fn processes_see_each_other_at_once() {
    for stack in ["", WRITE_BACK, COMBINE] {
        let mount = Mount::with(stack);
        let at = mount.point("");
        // One appends lines and says so by a pipe, the other looks at once.
        let program = "import os\nf=os.open('log',os.O_CREAT|os.O_WRONLY|os.O_APPEND)\nr,w=os.pipe()\nr2,w2=os.pipe()\nif os.fork()==0:\n g=os.open('log',os.O_RDONLY)\n for n in range(300):\n  os.read(r,1)\n  assert os.fstat(g).st_size==10*(n+1)\n  assert os.stat('log').st_size==10*(n+1)\n  assert os.pread(g,20,10*n)==b'%09d\\n'%n\n  os.write(w2,b'.')\n os._exit(0)\nfor n in range(300):\n os.write(f,b'%09d\\n'%n)\n os.write(w,b'.')\n if not os.read(r2,1): break\nassert os.waitstatus_to_exitcode(os.wait()[1])==0";
        said(Command::new("timeout").args(["60", "python3", "-c", program]).current_dir(&at));
    }
}

#[test]
fn static_programs_and_raw_calls_pass_through() {
    let place = tempfile::tempdir().unwrap();
    let source = "#include <fcntl.h>\n#include <sys/syscall.h>\n#include <unistd.h>\nint main(void){long f=syscall(SYS_openat,AT_FDCWD,\"raw\",O_CREAT|O_WRONLY,0644);long n=syscall(SYS_write,f,\"raw\\n\",4);return n==4&&!syscall(SYS_close,f)?0:1;}";
    fs::write(place.path().join("raw.c"), source).unwrap();
    shell(place.path(), "cc -O1 -static -o raw raw.c");
    let text = "[paths]\ninclude = [\"SOURCE\"]\n[[stage]]\nkind = \"count\"\ndirectory = \"BESIDE/run\"\n";
    let mut mount = Mount::with(text);
    said(Command::new(place.path().join("raw")).current_dir(mount.point("")));
    assert_eq!(fs::read(mount.source("raw")).unwrap(), b"raw\n");
    mount.end();
    let counted = fs::read_dir(mount.beside().join("run")).unwrap().next().unwrap().unwrap().path();
    let counters = striate_trace::count::Counters::read(&counted).unwrap();
    let calls: Vec<_> = counters
        .functions()
        .map(|(function, calls)| (function.name(), calls.calls, calls.bytes))
        .collect();
    assert!(calls.contains(&("pwrite", 1, 4)), "{calls:?}");
    assert!(calls.contains(&("open", 1, 0)) && calls.contains(&("close", 1, 0)), "{calls:?}");
}

/// A stage that dies when it sees what it is to die of.
#[derive(Debug)]
struct Dies(&'static AtomicBool);

impl Stage for Dies {
    fn kinds(&self) -> Kinds {
        Kinds::ALL
    }

    fn classification(&self) -> Classification {
        Classification {
            scope: Scope::Both,
            interference: Interference::OneOperation,
            state: State::Stateless,
            meaning: Meaning::Kept,
        }
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let deadly =
            matches!(op.action.kind(), Kind::Read | Kind::Write | Kind::Unlink | Kind::Open);
        assert!(!(deadly && self.0.load(Ordering::SeqCst)), "it dies of this on purpose");
        if let Action::Rename { .. } = op.action {
            panic!("and always of that");
        }
        next.call(op)
    }
}

#[test]
fn a_stage_that_panics_is_an_error_and_the_mount_lives_on() {
    static DEADLY: AtomicBool = AtomicBool::new(false);
    let stage = Placed { name: "dies", paths: Paths::all(), stage: Box::new(Dies(&DEADLY)) };
    let mount = Mount::built(Stack::new(Paths::all(), vec![stage]));
    let file = File::create(mount.point("f")).unwrap();
    DEADLY.store(true, Ordering::SeqCst);
    for _ in 0..20 {
        let error = file.write_at(b"x", 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EIO));
        assert_eq!(fs::read(mount.point("f")).unwrap_err().raw_os_error(), Some(libc::EIO));
        assert!(fs::remove_file(mount.point("f")).is_err());
        assert!(fs::rename(mount.point("f"), mount.point("g")).is_err());
    }
    DEADLY.store(false, Ordering::SeqCst);
    file.write_all_at(b"alive", 0).unwrap();
    assert_eq!(fs::read(mount.point("f")).unwrap(), b"alive");
    assert_eq!(fs::read(mount.source("f")).unwrap(), b"alive");
}

#[test]
fn what_a_close_finds_out_is_its_error() {
    let text = format!(
        "{WRITE_BACK}[[stage]]\nkind = \"fault\"\nkinds = [\"write\"]\nerror = \"ENOSPC\"\nevery = 1\n"
    );
    let mount = Mount::with(&text);
    let file = File::create(mount.point("f")).unwrap();
    (&file).write_all(b"held back").unwrap();
    let descriptor = std::os::fd::IntoRawFd::into_raw_fd(file);
    // SAFETY: it is not used any more.
    assert_eq!(unsafe { libc::close(descriptor) }, -1);
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::ENOSPC));
}

#[test]
fn a_busy_mount_is_taken_away_all_the_same() {
    let mut mount = Mount::with(WRITE_BACK);
    let file = File::create(mount.point("f")).unwrap();
    (&file).write_all(b"held back").unwrap();
    mount.end();
    assert_eq!(fs::read(mount.source("f")).unwrap(), b"held back");
    assert!(fs::read_dir(mount.point("")).unwrap().next().is_none());
    let error = (&file).write_all(b"too late").unwrap_err();
    assert_eq!(error.raw_os_error(), Some(libc::ENOTCONN));
}
