//! Imports of what strace and darshan-dxt-parser write: exact counts, and what is left out is told.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use striate_recording::import::{ImportFormat, Imported, Options, import, import_from};
use striate_recording::{Process, Recording};
use striate_trace::{Call, Record, Subject};

/// Imports a text; what it comes to, and the records with the processes that made them.
fn imported(text: &str, format: ImportFormat) -> (Imported, Recording, Vec<(u32, Record)>) {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("text");
    std::fs::write(&from, text).unwrap();
    let into = directory.path().join("out.trace");
    let (found, imported) = import(&from, &Options::default(), &into).unwrap();
    assert_eq!(found, format);
    let recording = Recording::in_memory(&into, std::fs::read(&into).unwrap()).unwrap();
    assert!(recording.complaints().is_empty(), "{:?}", recording.complaints());
    assert_eq!(recording.records_count(), imported.records);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2, "nothing is left behind");
    let pid = |index: usize| recording.processes()[index].header().origin.process;
    let records = recording.in_order().map(|(index, record)| (pid(index), record)).collect();
    (imported, recording, records)
}

fn kinds(records: &[(u32, Record)]) -> BTreeMap<&'static str, usize> {
    let mut kinds = BTreeMap::new();
    for (_, record) in records {
        *kinds.entry(record.call.kind().name()).or_default() += 1;
    }
    kinds
}

const STRACE: &str = r#"100 1700000000.000100 execve("/usr/bin/prog", ["prog", "-x", "a b"], 0x7ffd /* 20 vars */) = 0 <0.000300>
100 1700000000.000500 brk(NULL)         = 0x5595969fa000 <0.000005>
100 1700000000.000600 openat(AT_FDCWD, "/etc/ld.so.cache", O_RDONLY|O_CLOEXEC) = 3 <0.000010>
100 1700000000.000650 newfstatat(3, "", {st_mode=S_IFREG|0644, st_size=1234, ...}, AT_EMPTY_PATH) = 0 <0.000004>
100 1700000000.000700 mmap(NULL, 1234, PROT_READ, MAP_PRIVATE, 3, 0) = 0x7fe218a7c000 <0.000006>
100 1700000000.000750 mmap(NULL, 8192, PROT_READ|PROT_WRITE, MAP_PRIVATE|MAP_ANONYMOUS, -1, 0) = 0x7fe218000000 <0.000006>
100 1700000000.000800 close(3)          = 0 <0.000003>
100 1700000000.001000 chdir("/work/dir") = 0 <0.000010>
100 1700000000.001100 openat(AT_FDCWD, "./sub/../x \"q\"\303\244.dat", O_RDWR|O_CREAT|O_TRUNC, 0644) = 3 <0.000110>
100 1700000000.001200 write(3, "abc\n\0d, (=)"..., 600) = 600 <0.000053>
100 1700000000.001300 pread64(3, "bc\n", 3, 1) = 3 <0.000039>
100 1700000000.001400 lseek(3, 10, SEEK_SET) = 10 <0.000038>
100 1700000000.001500 writev(3, [{iov_base="iov_len=99", iov_len=50}, {iov_base="b", iov_len=1}], 2) = 51 <0.000045>
100 1700000000.001600 preadv2(3, [{iov_base="aaa", iov_len=3}, {iov_base="aaaaa", iov_len=5}], 2, 2, 0) = 8 <0.000038>
100 1700000000.001700 fcntl(3, F_DUPFD_CLOEXEC, 0) = 4 <0.000044>
100 1700000000.001800 dup2(3, 50)       = 50 <0.000036>
100 1700000000.001900 copy_file_range(3, [0], 50, [5], 2, 0) = 2 <0.003925>
100 1700000000.002000 sendfile(50, 3, [0] => [3], 3) = 3 <0.000078>
100 1700000000.002100 fcntl(3, F_SETLK, {l_type=F_WRLCK, l_whence=SEEK_SET, l_start=0, l_len=0}) = 0 <0.000003>
100 1700000000.002200 openat(AT_FDCWD, "nope", O_RDONLY) = -1 ENOENT (No such file or directory) <0.000041>
100 1700000000.002300 clone(child_stack=NULL, flags=CLONE_CHILD_CLEARTID|CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7fe) = 101 <0.000398>
101 1700000000.002400 write(3, "x", 1 <unfinished ...>
100 1700000000.002450 wait4(-1,  <unfinished ...>
101 1700000000.002500 <... write resumed>) = 1 <0.000100>
101 1700000000.002550 close(3)          = 0 <0.000003>
101 1700000000.002560 execve("/bin/nope", ["nope"], 0x7ffd) = -1 ENOENT (No such file or directory) <0.000020>
101 1700000000.002570 execve("/bin/true", ["true"], 0x7ffd) = 0 <0.000020>
101 1700000000.002580 close(4)          = -1 EBADF (Bad file descriptor) <0.000002>
101 1700000000.002590 write(50, "y", 1) = 1 <0.000004>
101 1700000000.002600 exit_group(0)     = ?
101 1700000000.002650 +++ exited with 0 +++
100 1700000000.002700 <... wait4 resumed>[{WIFEXITED(s) && WEXITSTATUS(s) == 0}], 0, NULL) = 101 <0.000579>
100 1700000000.002710 --- SIGCHLD {si_signo=SIGCHLD, si_code=CLD_EXITED, si_pid=101, si_uid=0} ---
100 1700000000.002800 write(3, "z", 1)  = 1 <0.000004>
100 1700000000.002900 clone3({flags=CLONE_VM|CLONE_FS|CLONE_FILES|CLONE_SIGHAND|CLONE_THREAD, child_tid=0x7f}, 88 <unfinished ...>
102 1700000000.002950 write(1, "to the terminal", 15) = 15 <0.000004>
102 1700000000.003000 close(4)          = 0 <0.000003>
100 1700000000.003050 <... clone3 resumed> => {parent_tid=[102]}, 88) = 102 <0.000120>
102 1700000000.003100 openat(AT_FDCWD, "log", O_WRONLY|O_APPEND|O_CREAT, 0600) = 4 <0.000003>
this is not a line of strace
100 1700000000.003200 write(4, "line\n", 5) = 5 <0.000003>
102 1700000000.003250 read(0, 0x7ffd, 1024) = ? ERESTARTSYS (To be restarted if SA_RESTART is set) <0.500000>
102 1700000000.003300 +++ exited with 0 +++
100 1700000000.003400 newfstatat(AT_FDCWD, "/work", {st_mode=S_IFDIR|0755, st_size=4096, ...}, 0) = 0 <0.000048>
100 1700000000.003500 openat(AT_FDCWD, "..", O_RDONLY|O_DIRECTORY) = 5 <0.000053>
100 1700000000.003600 getdents64(5, 0x5595969c5ec0 /* 20 entries */, 32768) = 584 <0.000059>
100 1700000000.003650 getdents64(5, 0x5595969c5ec0 /* 0 entries */, 32768) = 0 <0.000039>
100 1700000000.003700 openat(5, "deep", O_RDONLY) = 6 <0.000053>
100 1700000000.003800 mkdirat(5, "xx", 0777) = 0 <0.000115>
100 1700000000.003900 rename("/tmp/w/xx", "yy") = 0 <0.000050>
100 1700000000.004000 unlinkat(AT_FDCWD, "yy", AT_REMOVEDIR) = 0 <0.000218>
100 1700000000.004100 fchdir(5)         = 0 <0.000040>
100 1700000000.004200 unlink("x")       = 0 <0.000041>
100 1700000000.004300 ftruncate(3, 7)   = 0 <0.000048>
100 1700000000.004400 fallocate(3, FALLOC_FL_KEEP_SIZE, 5, 10) = 0 <0.000052>
100 1700000000.004500 fsync(3)          = 0 <0.020574>
100 1700000000.004600 close_range(3, 4294967295, 0) = 0 <0.000007>
100 1700000000.004700 exit_group(0)     = ?
100 1700000000.004800 +++ exited with 0 +++
"#;

#[test]
fn lines_of_strace_become_records() {
    let (imported, recording, records) = imported(STRACE, ImportFormat::Strace);
    let wanted = BTreeMap::from([
        ("open", 6),
        ("close", 8),
        ("read", 2),
        ("write", 6),
        ("seek", 1),
        ("sync", 1),
        ("truncate", 1),
        ("allocate", 1),
        ("stat", 2),
        ("rename", 1),
        ("unlink", 2),
        ("mkdir", 1),
        ("readdir", 2),
        ("dup", 2),
        ("mmap", 1),
        ("copy_file_range", 1),
        ("sendfile", 1),
        // Two changes of the directory are among them.
        ("other", 3),
    ]);
    assert_eq!(kinds(&records), wanted);
    assert_eq!(imported.malformed, 1);
    assert_eq!(imported.first_malformed[0].1, "this is not a line of strace");
    assert_eq!(imported.unended, 1);
    assert_eq!(imported.elsewhere, BTreeMap::from([("close".into(), 1), ("write".into(), 1)]));
    let skipped = [
        ("brk", 1),
        ("clone", 1),
        ("clone3", 1),
        ("execve", 3),
        ("exit_group", 2),
        ("mmap", 1),
        ("wait4", 1),
    ];
    let skipped = skipped.map(|(name, count)| (name.to_owned(), count));
    assert_eq!(imported.skipped, BTreeMap::from(skipped));
    // The parent, its child, and what that became.
    assert_eq!(imported.processes, 3);
    let commands: Vec<_> = recording.processes().iter().map(Process::command).collect();
    assert_eq!(commands, ["prog -x a b", "prog -x a b", "true"]);
    assert_eq!(recording.processes()[1].header().origin.parent, 100);
    // The child inherited the file.
    let preopened = recording.processes()[1].preopened().unwrap();
    assert_eq!(preopened.len(), 1);
    assert_eq!(
        (preopened[0].descriptors.as_slice(), preopened[0].position),
        (&[3, 4, 50][..], Some(64))
    );
    assert_eq!(recording.processes()[2].preopened().unwrap()[0].descriptors, [50]);
}

#[test]
fn places_and_paths_follow_from_the_calls() {
    let (_, _, records) = imported(STRACE, ImportFormat::Strace);
    let data = "/work/dir/x \"q\"ä.dat";
    let transfers: Vec<_> = records
        .iter()
        .filter_map(|(pid, record)| match &record.call {
            Call::Read { file, placed, offset, length, parts, .. }
            | Call::Write { file, placed, offset, length, parts, .. } => {
                let name = file.path.to_str().unwrap() == data;
                Some((*pid, name, *placed, *offset, *length, *parts, record.outcome.unwrap()))
            }
            _ => None,
        })
        .collect();
    assert_eq!(
        transfers,
        [
            (100, true, false, Some(0), 600, 1, 600),
            (100, true, true, Some(1), 3, 1, 3),
            (100, true, false, Some(10), 51, 2, 51),
            (100, true, true, Some(2), 8, 2, 8),
            // 61, and three that were sent there.
            (101, true, false, Some(64), 1, 1, 1),
            (101, true, false, Some(65), 1, 1, 1),
            (100, true, false, Some(66), 1, 1, 1),
            (100, false, false, None, 5, 1, 5),
        ]
    );
    let names: Vec<String> = records
        .iter()
        .filter(|(_, record)| !matches!(record.call, Call::Open { .. }))
        .filter_map(|(_, record)| record.call.path())
        .map(|path| path.display().to_string())
        .collect();
    let wanted = [
        "/work/dir",
        "/work",
        "/work",
        "/work",
        "/work/xx",
        "/tmp/w/xx",
        "/work/dir/yy",
        "/work/x",
    ];
    assert_eq!(names, wanted);
    let opened: Vec<_> = records
        .iter()
        .filter_map(|(_, record)| match &record.call {
            Call::Open { path, size, flags, mode, .. } => {
                Some((path.display().to_string(), *size, *flags, *mode, record.outcome))
            }
            _ => None,
        })
        .collect();
    assert_eq!(opened[1].0, data);
    assert_eq!((opened[1].1, opened[1].3, opened[1].4), (Some(0), 0o644, Ok(3)));
    assert_eq!(opened[1].2, libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC);
    assert_eq!((opened[2].0.as_str(), opened[2].4), ("/work/dir/nope", Err(libc::ENOENT)));
    assert_eq!((opened[3].0.as_str(), opened[5].0.as_str()), ("/work/dir/log", "/work/deep"));
    let size = records.iter().find_map(|(_, record)| match &record.call {
        Call::Stat { of: Subject::File(_), size, .. } => *size,
        _ => None,
    });
    assert_eq!(size, Some(1234));
    // A call in two lines lasts as it says.
    let child = records.iter().find(|(pid, _)| *pid == 101).unwrap();
    assert_eq!(child.1.duration, 100_000);
}

#[test]
fn other_forms_of_strace_are_read() {
    // With -y: files that were open before are known; the current directory too.
    let with_paths = "\
7 1700000000.000100 write(5</data/a b.dat>, \"abc\", 3) = 3 <0.000010>\n\
7 1700000000.000150 write(1</dev/pts/0<char 136:0>>, \"abc\", 3) = 3 <0.000010>\n\
7 1700000000.000160 read(0<pipe:[77]>, \"abc\", 3) = 3 <0.000010>\n\
7 1700000000.000170 sendto(8<TCP:[127.0.0.1:80->127.0.0.1:5000]>, \"a\", 1, 0, NULL, 0) = 1 <0.000010>\n\
7 1700000000.000200 lseek(5</data/a b.dat>, 0, SEEK_CUR) = 13 <0.000010>\n\
7 1700000000.000300 write(5</data/a b.dat>, \"abc\", 3) = 3 <0.000010>\n\
7 1700000000.000400 openat(AT_FDCWD</work>, \"x\", O_RDONLY) = 6</work/x> <0.000010>\n\
7 1700000000.000500 close(6</work/x>(deleted)) = 0 <0.000010>\n";
    let (imported_, recording, records) = imported(with_paths, ImportFormat::Strace);
    let offsets: Vec<_> = records
        .iter()
        .filter_map(|(_, record)| match &record.call {
            Call::Write { offset, file, .. } => {
                assert_eq!(file.path, Path::new("/data/a b.dat"));
                Some(*offset)
            }
            _ => None,
        })
        .collect();
    assert_eq!(offsets, [None, Some(13)]);
    assert_eq!(records.len(), 5);
    assert_eq!((imported_.elsewhere["write"], imported_.elsewhere["read"]), (1, 1));
    assert_eq!(imported_.skipped["sendto"], 1);
    assert_eq!(recording.processes()[0].preopened().unwrap()[0].descriptors, [5]);

    // As it is written on standard error, without times, then with other times.
    let pids = "\
openat(AT_FDCWD, \"/a\", O_RDONLY) = 3\n\
vfork(strace: Process 9 attached\n\
 <unfinished ...>\n\
[pid     9] close(3)                    = 0\n\
[pid     8] <... vfork resumed>)        = 9\n\
[pid     8] read(3, \"\", 10)             = 0\n\
[pid     9] +++ exited with 0 +++\n\
close(3)                                = 0\n";
    let (imported_, _, records) = imported(pids, ImportFormat::Strace);
    assert_eq!((records.len(), imported_.processes), (4, 2), "{imported_:?}");
    for times in ["15:04:05.123456 ", "15:04:05 ", "     0.000123 "] {
        let text = format!("{times}creat(\"/a\", 0600) = 3 <0.5>\n{times}close(3) = 0\n");
        let (_, _, records) = imported(&text, ImportFormat::Strace);
        assert_eq!(records.len(), 2, "{times}");
    }
}

#[test]
fn tasks_that_appear_before_their_call_returns_find_their_parent() {
    // Two processes are being made at the same time.
    let text = "\
1 1700000000.000100 open(\"/a\", O_RDONLY) = 3 <0.000010>\n\
1 1700000000.000200 fork() = 2 <0.000010>\n\
2 1700000000.000300 open(\"/b\", O_RDONLY) = 4 <0.000010>\n\
1 1700000000.000400 fork( <unfinished ...>\n\
2 1700000000.000500 fork( <unfinished ...>\n\
3 1700000000.000600 close(4) = 0 <0.000010>\n\
4 1700000000.000700 close(4) = -1 EBADF (Bad file descriptor) <0.000010>\n\
2 1700000000.000800 <... fork resumed>) = 3 <0.000300>\n\
1 1700000000.000900 <... fork resumed>) = 4 <0.000500>\n\
3 1700000000.001000 read(3, \"\", 5) = 0 <0.000010>\n";
    let (imported, _, records) = imported(text, ImportFormat::Strace);
    assert_eq!(imported.malformed, 0, "{imported:?}");
    assert_eq!(imported.elsewhere, BTreeMap::from([("close".into(), 1)]));
    let closed: Vec<_> = records
        .iter()
        .filter(|(_, record)| matches!(record.call, Call::Close { .. }))
        .map(|(pid, record)| (*pid, record.call.file().unwrap().path.clone(), record.start))
        .collect();
    assert_eq!(
        closed,
        [(3, PathBuf::from("/b"), 1_700_000_000_000_600_000 - 1_700_000_000_000_100_000)]
    );
    assert_eq!(records.last().unwrap().0, 3);
}

/// Two ranks and two files, as the documentation shows them; one file is striped, one has threads.
const DXT: &str = "\
# darshan log version: 3.41
# exe: ./ior -a POSIX
# uid: 1000
# jobid: 4242
# start_time: 1700000000
# nprocs: 2
# run time: 1.5

# ***************************************************
# DXT_POSIX module data
# ***************************************************

# DXT, file_id: 16457598720760448348, file_name: /scratch/test/shared file
# DXT, rank: 0, hostname: node-a
# DXT, write_count: 2, read_count: 1
# DXT, mnt_pt: /scratch, fs_type: lustre
# DXT, Lustre stripe_size: 1048576, Lustre stripe_count: 2
# DXT, Lustre OST obdidx: 3 4
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)  [OST]
 X_POSIX       0  write        0               0       262144      0.0029      0.0032  [  3]
 X_POSIX       0  write        1         1048576      1048576      0.0032      0.0035  [  3]  [  4]
 X_POSIX       0   read        0               0       262144      0.0148      0.0158  [  3]

# DXT, file_id: 16457598720760448348, file_name: /scratch/test/shared file
# DXT, rank: 1, hostname: node-b
# DXT, write_count: 1, read_count: 0
# DXT, mnt_pt: /scratch, fs_type: lustre
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_POSIX       1  write        0          262144       262144      0.0030      0.0040

# DXT, file_id: 7, file_name: /scratch/test/own.0
# DXT, rank: 0, hostname: node-a
# DXT, write_count: 1, read_count: 0
# DXT, mnt_pt: /scratch, fs_type: lustre
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)  [Thread]
 X_POSIX       0  write        0               0          100      0.0010      0.0020  [77]
 X_POSIX       0  write        oops

# ***************************************************
# DXT_MPIIO module data
# ***************************************************

# DXT, file_id: 16457598720760448348, file_name: /scratch/test/shared file
# DXT, rank: 0, hostname: node-a
# Module    Rank  Wt/Rd  Segment          Offset       Length    Start(s)      End(s)
 X_MPIIO       0  write        0               0       262144      0.0029      0.0032
";

#[test]
fn rows_of_dxt_become_records() {
    let (imported, recording, records) = imported(DXT, ImportFormat::Dxt);
    assert_eq!((imported.records, imported.processes), (5, 2));
    assert_eq!((imported.malformed, imported.skipped["X_MPIIO"]), (1, 1));
    let wrong = DXT.lines().position(|line| line.contains("oops")).unwrap() as u64 + 1;
    assert_eq!(imported.first_malformed[0].0, wrong, "{:?}", imported.first_malformed);
    let told: Vec<_> = records
        .iter()
        .map(|(pid, record)| {
            let (kind, file) = (record.call.kind().name(), record.call.file().unwrap());
            let name = file.path.file_name().unwrap().to_str().unwrap().to_owned();
            (*pid, kind, name, record.start, record.duration, record.outcome.unwrap())
        })
        .collect();
    // In the order of time, not of files.
    let shared = || "shared file".to_owned();
    assert_eq!(
        told,
        [
            (1, "write", "own.0".to_owned(), 1_000_000, 1_000_000, 100),
            (1, "write", shared(), 2_900_000, 300_000, 262_144),
            (2, "write", shared(), 3_000_000, 1_000_000, 262_144),
            (1, "write", shared(), 3_200_000, 300_000, 1_048_576),
            (1, "read", shared(), 14_800_000, 1_000_000, 262_144),
        ]
    );
    assert_eq!(records[0].1.thread, 77);
    let origins: Vec<_> = recording
        .processes()
        .iter()
        .map(|process| process.header().origin.clone())
        .map(|origin| (origin.rank, origin.host, origin.command.join(" ")))
        .collect();
    let command = "./ior -a POSIX".to_owned();
    assert_eq!(
        origins,
        [(Some(0), "node-a".into(), command.clone()), (Some(1), "node-b".into(), command)]
    );
    assert_eq!(recording.began(), 1_700_000_000_000_000_000);
    // How files were opened is not told: all are known to be open.
    assert_eq!(recording.processes()[0].preopened().unwrap().len(), 2);
}

#[test]
fn many_rows_of_many_ranks_are_sorted() {
    let mut text = String::from("# DXT, file_id: 1, file_name: /a\n");
    // More than are sorted in memory at a time, with times that go back in every file.
    for n in 0..450_000_u64 {
        if n % 50_000 == 0 {
            writeln!(text, "# DXT, file_id: {n}, file_name: /file-{n}").unwrap();
        }
        let (rank, time) = (n % 3, (n % 50_000) as f64 / 1000.0);
        let (offset, end) = (n * 8, time + 0.001);
        writeln!(text, "X_POSIX {rank} write {n} {offset} 8 {time:.4} {end:.4}").unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("out.trace");
    let options = Options { format: Some(ImportFormat::Dxt), ..Options::default() };
    let name = Path::new("text");
    let imported = import_from(&mut text.as_bytes(), &options, name, &into).unwrap();
    assert_eq!((imported.records, imported.processes, imported.malformed), (450_000, 3, 0));
    let recording = Recording::open(&into).unwrap();
    let (mut count, mut last) = (0, 0);
    for (_, record) in recording.in_order() {
        assert!(record.start >= last);
        (count, last) = (count + 1, record.start);
    }
    assert_eq!(count, 450_000);
}

#[test]
fn what_cannot_be_imported_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("text");
    let into = directory.path().join("out.trace");
    std::fs::write(&from, "neither this\nnor that\n").unwrap();
    let error = import(&from, &Options::default(), &into).unwrap_err();
    assert!(error.to_string().contains("neither the output of strace"), "{error}");
    let options = Options { format: Some(ImportFormat::Strace), ..Options::default() };
    let error = import(&from, &options, &into).unwrap_err();
    assert!(error.to_string().contains("line 1: neither this"), "{error}");
    assert!(import(&directory.path().join("nothing"), &options, &into).is_err());
    assert!(!into.exists());
    std::fs::write(&into, "").unwrap();
    std::fs::write(&from, STRACE).unwrap();
    let error = import(&from, &options, &into).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
}
