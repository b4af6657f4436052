//! Files of I/O servers, shown by a mount.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "modules of tests are shared")]

#[path = "support/servers.rs"]
mod servers;

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use rustix::io::Errno;
use servers::ServerMount;
use striate_mount::{Mounted, Options, UnmountKind};
use striate_store::Store as _;
use striate_store::remote::{RemoteFile, RemoteOptions};

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn shell(at: &Path, script: &str) -> String {
    let mut command = Command::new("timeout");
    let output = command.args(["120", "sh", "-ec", script]).current_dir(at).output().unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{script}: {}: {told}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn number(error: &std::io::Error) -> Option<i32> {
    error.raw_os_error()
}

#[test]
fn files_are_those_of_the_servers() {
    let mut mount = ServerMount::of("run");
    let large: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    fs::write(mount.point("large"), &large).unwrap();
    assert!(fs::read(mount.point("large")).unwrap() == large);
    let url = mount.client.url("run/large");
    let file = RemoteFile::open_with(&mount.client, &url, &RemoteOptions::default()).unwrap();
    let mut bytes = vec![0; large.len()];
    assert_eq!(file.read_at(0, &mut bytes).unwrap(), large.len());
    assert!(bytes == large);
    // As listings know it, since it was closed.
    assert_eq!(mount.client.lookup("run/large").unwrap().size, 3_000_000);
    file.write_at(10, b"from elsewhere").unwrap();
    file.set_len(100).unwrap();
    let shown = fs::read(mount.point("large")).unwrap();
    assert_eq!((shown.len(), &shown[10..24]), (100, &b"from elsewhere"[..]));
    drop(file);
    // In the middle, behind the end, cut, and appended to.
    let mut file = File::options().read(true).write(true).open(mount.point("large")).unwrap();
    file.write_all_at(b"middle", 50).unwrap();
    file.write_all_at(b"behind", 9000).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 9006);
    let mut gap = [1; 8900];
    file.read_exact_at(&mut gap, 100).unwrap();
    assert!(gap.iter().all(|byte| *byte == 0));
    file.set_len(60).unwrap();
    file.seek(SeekFrom::Start(50)).unwrap();
    let mut rest = Vec::new();
    file.read_to_end(&mut rest).unwrap();
    assert!(rest.starts_with(b"middle") && rest.len() == 10);
    file.sync_all().unwrap();
    drop(file);
    let mut file = File::options().append(true).open(mount.point("large")).unwrap();
    file.write_all(b"end").unwrap();
    assert_eq!(fs::metadata(mount.point("large")).unwrap().len(), 63);
    drop(file);
    fs::write(mount.point("large"), b"new").unwrap();
    assert_eq!(fs::read(mount.point("large")).unwrap(), b"new");
    assert_eq!(mount.end().unwrap(), UnmountKind::Unmounted);
    assert_eq!(mount.client.stat("run/large").unwrap().size, 3);
    assert!(names(&mount.point("")).is_empty());
}

#[test]
fn names_come_and_go() {
    let mut mount = ServerMount::new();
    let create = |path: &str| {
        let layout = striate_store::remote::Layout::default();
        mount.client.create(path, &layout, true).unwrap();
    };
    create("theirs/deep/f");
    create("theirs/g");
    assert_eq!(names(&mount.point("")), ["theirs"]);
    assert_eq!(names(&mount.point("theirs")), ["deep", "g"]);
    assert!(mount.point("theirs/deep").is_dir() && mount.point("theirs/deep/f").is_file());
    fs::create_dir_all(mount.point("d/e")).unwrap();
    assert_eq!(number(&fs::create_dir(mount.point("d")).unwrap_err()), Some(libc::EEXIST));
    assert_eq!(names(&mount.point("d")), ["e"]);
    fs::write(mount.point("d/e/f"), b"x").unwrap();
    fs::rename(mount.point("d"), mount.point("h")).unwrap();
    assert_eq!(fs::read(mount.point("h/e/f")).unwrap(), b"x");
    assert!(!mount.point("d").exists());
    assert_eq!(number(&fs::remove_dir(mount.point("h")).unwrap_err()), Some(libc::ENOTEMPTY));
    fs::rename(mount.point("h/e/f"), mount.point("theirs/g")).unwrap();
    assert_eq!(fs::read(mount.point("theirs/g")).unwrap(), b"x");
    // It is still there, although nothing is in it.
    assert!(names(&mount.point("h/e")).is_empty());
    fs::remove_dir(mount.point("h/e")).unwrap();
    fs::remove_dir(mount.point("h")).unwrap();
    let number_of = |name: &str| fs::metadata(mount.point(name)).unwrap().ino();
    let before = number_of("theirs/g");
    fs::rename(mount.point("theirs/g"), mount.point("g")).unwrap();
    assert_eq!(number_of("g"), before);
    // Over one that is there, or not.
    fs::write(mount.point("other"), b"yy").unwrap();
    let onto = |flags| {
        let cwd = rustix::fs::CWD;
        rustix::fs::renameat_with(cwd, mount.point("other"), cwd, mount.point("g"), flags)
    };
    assert_eq!(onto(rustix::fs::RenameFlags::NOREPLACE), Err(Errno::EXIST));
    assert_eq!(onto(rustix::fs::RenameFlags::EXCHANGE), Err(Errno::INVAL));
    assert_eq!(onto(rustix::fs::RenameFlags::empty()), Ok(()));
    assert_eq!(fs::read(mount.point("g")).unwrap(), b"yy");
    fs::remove_file(mount.point("g")).unwrap();
    assert_eq!(number(&fs::remove_file(mount.point("g")).unwrap_err()), Some(libc::ENOENT));
    fs::remove_dir_all(mount.point("theirs")).unwrap();
    assert!(names(&mount.point("")).is_empty());
    let long = "x".repeat(256);
    let error = File::create(mount.point(&long)).unwrap_err();
    assert_eq!(number(&error), Some(libc::ENAMETOOLONG));
    for n in 0..1500 {
        create(&format!("many/{}/{n:04}", n % 3));
        create(&format!("many/file-{n:04}"));
    }
    assert_eq!(names(&mount.point("many")).len(), 1503);
    assert_eq!(names(&mount.point("many/1")).len(), 500);
    mount.end().unwrap();
}

#[test]
fn open_files_outlive_their_names() {
    let mut mount = ServerMount::of("below");
    let open = |name: &str| {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        options.open(mount.point(name)).unwrap()
    };
    let mut file = open("a");
    file.write_all(b"first").unwrap();
    fs::remove_file(mount.point("a")).unwrap();
    file.write_all(b", second").unwrap();
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).unwrap();
    file.read_to_string(&mut text).unwrap();
    assert_eq!(text, "first, second");
    let about = file.metadata().unwrap();
    assert_eq!((about.nlink(), about.len()), (0, 13));
    assert!(names(&mount.point("")).is_empty());
    // Another of the same name, and one that is renamed over it.
    let old = open("a");
    old.write_all_at(b"old", 0).unwrap();
    fs::write(mount.point("b"), b"new").unwrap();
    fs::rename(mount.point("b"), mount.point("a")).unwrap();
    let mut bytes = [0; 3];
    old.read_exact_at(&mut bytes, 0).unwrap();
    assert_eq!(&bytes, b"old");
    assert_eq!(fs::read(mount.point("a")).unwrap(), b"new");
    assert_eq!(names(&mount.point("")), ["a"]);
    assert_eq!(mount.client.list("").unwrap().len(), 3);
    drop((file, old));
    mount.end().unwrap();
    let left: Vec<_> = mount.client.list("").unwrap().into_iter().map(|file| file.path).collect();
    assert_eq!(left, ["below/a"]);
}

#[test]
fn what_servers_do_not_know_is_refused() {
    let mount = ServerMount::new();
    let path = mount.point("f");
    fs::write(&path, b"x").unwrap();
    let refused = |result: std::io::Result<()>, expected: i32| {
        assert_eq!(number(&result.unwrap_err()), Some(expected));
    };
    refused(fs::hard_link(&path, mount.point("g")), libc::EPERM);
    refused(std::os::unix::fs::symlink("f", mount.point("g")), libc::EPERM);
    let pipe = rustix::fs::mknodat(
        rustix::fs::CWD,
        mount.point("p"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o644),
        0,
    );
    assert_eq!(pipe, Err(Errno::PERM));
    let mode = fs::metadata(&path).unwrap().mode() & 0o7777;
    fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    refused(fs::set_permissions(&path, fs::Permissions::from_mode(mode ^ 0o111)), libc::EPERM);
    let owner = fs::metadata(&path).unwrap().uid();
    std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
    if owner == 0 {
        refused(std::os::unix::fs::chown(&path, Some(1234), None), libc::EPERM);
    }
    let set = rustix::fs::setxattr(&path, "user.a", b"b", rustix::fs::XattrFlags::empty());
    assert_eq!(set, Err(Errno::OPNOTSUPP));
    let mut room = [0_u8; 8];
    assert_eq!(rustix::fs::getxattr(&path, "user.a", &mut room[..]), Err(Errno::OPNOTSUPP));
    let file = File::options().write(true).open(&path).unwrap();
    let punch = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
    // SAFETY: a descriptor and numbers.
    assert_eq!(unsafe { libc::fallocate(file.as_raw_fd(), punch, 0, 1) }, -1);
    assert_eq!(number(&std::io::Error::last_os_error()), Some(libc::EOPNOTSUPP));
    // SAFETY: the same.
    assert_eq!(unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, 100_000) }, 0);
    assert_eq!(fs::metadata(&path).unwrap().len(), 100_000);
    let space = rustix::fs::statvfs(mount.point("")).unwrap();
    assert!(space.f_blocks > 0 && space.f_namemax == 255);
}

#[test]
fn times_are_those_of_the_servers_or_what_programs_said_last() {
    let mount = ServerMount::new();
    let path = mount.point("f");
    let modified = || fs::metadata(&path).unwrap().modified().unwrap();
    let file = File::create(&path).unwrap();
    file.write_all_at(b"x", 0).unwrap();
    let past = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000);
    file.set_modified(past).unwrap();
    assert_eq!(modified(), past);
    drop(file);
    assert_eq!(modified(), past);
    // Another client changes it, and then this one.
    std::thread::sleep(Duration::from_millis(20));
    let info = mount.client.stat("f").unwrap();
    mount.client.record(&info, info.size).unwrap();
    assert!(modified() > past);
    shell(&mount.point(""), "touch -d 2001-09-09 f; touch f");
    let touched = modified();
    assert!(touched > past);
    std::thread::sleep(Duration::from_millis(20));
    shell(&mount.point(""), "touch -d 2001-09-09 f; echo y >>f");
    assert!(modified() > touched);
    let info = mount.client.lookup("f").unwrap();
    let told = SystemTime::UNIX_EPOCH + Duration::from_millis(info.modified_ms);
    assert!(modified() >= told && modified() < told + Duration::from_secs(60));
}

#[test]
fn processes_and_mounts_see_each_other() {
    let mount = ServerMount::new();
    let other = mount.another("second");
    let script = "for n in $(seq 40); do echo \"$0 $n 0123456789\" >>log; done";
    let start = |at: &Path, name: &str| {
        Command::new("sh").args(["-ec", script, name]).current_dir(at).spawn().unwrap()
    };
    let (one, two) = (mount.point(""), other.point().to_path_buf());
    let children = [start(&one, "a"), start(&one, "b"), start(&two, "c"), start(&two, "d")];
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    for at in [&one, &two] {
        let log = fs::read_to_string(at.join("log")).unwrap();
        let mut lines: Vec<_> = log.lines().collect();
        lines.sort_unstable();
        lines.dedup();
        assert_eq!(lines.len(), 160);
        assert!(lines.iter().all(|line| line.ends_with(" 0123456789")));
    }
    // What one writes the other reads at once.
    let (here, there) =
        (File::create(one.join("f")).unwrap(), File::create(two.join("f")).unwrap());
    for n in 0..20_u64 {
        here.write_all_at(&n.to_le_bytes(), 8 * n).unwrap();
        assert_eq!(there.metadata().unwrap().len(), 8 * (n + 1));
        assert_eq!(fs::read(two.join("f")).unwrap()[8 * n as usize..], n.to_le_bytes());
    }
    drop((here, there));
    other.end().unwrap();
}

#[test]
fn programs_work_on_servers() {
    let mount = ServerMount::new();
    let at = mount.point("");
    shell(&at, "mkdir in; for n in $(seq 30); do seq $n 500 >in/$n; done; tar cf all.tar in");
    shell(&at, "mkdir out; tar xmf all.tar --no-same-permissions --no-same-owner -C out");
    shell(
        &at,
        "diff -r in out/in; cp -r in copy; diff -r in copy; rm -r in copy; ls out/in | wc -l",
    );
    let git = "export GIT_CONFIG_GLOBAL=/dev/null GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b; git init -q origin; cd origin; seq 1000 >f; git add f; git commit -qm one; cd ..; git clone -q --no-hardlinks origin clone; cd clone; git fsck --strict; cmp f ../origin/f; git status --porcelain";
    assert_eq!(shell(&at, git), "");
    let database = "sqlite3 db 'pragma journal_mode=JOURNAL; create table t(a); begin; with recursive n(i) as (select 1 union all select i + 1 from n where i < 2000) insert into t select i from n; commit; begin; delete from t; rollback; select sum(a) from t; pragma integrity_check;'; sqlite3 db 'select count(*) from t'; rm db*";
    for journal in ["delete", "wal"] {
        let told = shell(&at, &database.replace("JOURNAL", journal));
        assert_eq!(told, format!("{journal}\n2001000\nok\n2000\n"));
    }
}

/// A stack between servers and programs: a mount of a mount.
#[test]
fn a_stack_stands_on_a_mount_of_servers() {
    let mount = ServerMount::new();
    fs::create_dir(mount.point("d")).unwrap();
    let above = mount.beside("above");
    fs::create_dir(&above).unwrap();
    let stack = striate_stages::parse_stack("[[stage]]\nkind = \"write-back\"\n").unwrap();
    let options = Options::new(mount.point("d"), &above);
    let upper = Mounted::new(&options, stack.build().unwrap()).unwrap();
    let mut file = File::create(above.join("f")).unwrap();
    for n in 0..100 {
        writeln!(file, "{n}").unwrap();
    }
    assert_eq!(fs::metadata(mount.point("d/f")).unwrap().len(), 0);
    drop(file);
    assert_eq!(fs::metadata(mount.point("d/f")).unwrap().len(), 290);
    assert_eq!(shell(&above, "wc -l <f").trim(), "100");
    upper.end().unwrap();
}

#[test]
fn servers_that_are_gone_are_errors_and_no_obstacle() {
    let mut mount = ServerMount::new();
    let file =
        File::options().read(true).write(true).create_new(true).open(mount.point("f")).unwrap();
    file.write_all_at(b"before", 0).unwrap();
    mount.servers.take().unwrap().drain();
    let mut bytes = [0; 6];
    let errors = [
        file.read_at(&mut bytes, 0).unwrap_err(),
        file.write_at(b"after", 0).unwrap_err(),
        fs::metadata(mount.point("g")).unwrap_err(),
        fs::read_dir(mount.point("")).and_then(|mut all| all.next().unwrap()).unwrap_err(),
        File::create(mount.point("g")).unwrap_err(),
        fs::remove_file(mount.point("f")).unwrap_err(),
    ];
    for error in &errors {
        assert_eq!(number(error), Some(libc::EIO), "{errors:?}");
    }
    let ended = mount.end();
    assert!(ended.is_err(), "what was written could not be told to the servers");
    assert!(names(&mount.point("")).is_empty());
    drop(file);
}
