//! Several processes at one file, each with a world of one rank: locks and atomic mode between
//! those that know nothing of each other.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use striate_comm::Threads;
use striate_datatype::Datatype;
use striate_file::{File, FileError, Hints, Mode, View};
use support::{Watchdog, content};

const BOTH: Mode = Mode::READ.union(Mode::WRITE);
/// Describes the part of a child: role, number, path.
const PART: &str = "STRIATE_PROCESS";

const PROCESSES: u64 = 4;
const ROUNDS: u64 = 100;
const BLOCK: u64 = 24;
const BLOCKS: u64 = 300;

/// This test again, as another process with a part.
fn start(role: &str, number: u64, path: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "runs_as_a_child_process", "--nocapture"])
        .env(PART, format!("{role} {number} {}", path.display()))
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn all_succeed(children: Vec<Child>) {
    for mut child in children {
        assert!(child.wait().unwrap().success(), "a process failed; what it said is above");
    }
}

/// What a child does; nothing in the tests' own process.
#[test]
fn runs_as_a_child_process() {
    let Ok(part) = std::env::var(PART) else { return };
    let _watchdog = Watchdog::new(Duration::from_secs(180), &part);
    let mut words = part.splitn(3, ' ');
    let mut next = || words.next().unwrap();
    let (role, number, path) = (next(), next().parse().unwrap(), next());
    match role {
        "sieve" => interleave(number, path),
        writer if writer.starts_with("write:") => write_whole(number, path, &writer[6..]),
        reader => read_whole(path, &reader[5..]),
    }
    .unwrap();
}

fn alone(
    path: &str,
    hints: &str,
    work: impl Fn(&mut File) -> Result<(), FileError> + Sync,
) -> Result<(), FileError> {
    let hints: Hints = hints.parse()?;
    let body = |comm| {
        let mut file = File::open(&comm, path, BOTH, &hints)?;
        work(&mut file)?;
        file.close()
    };
    Threads::new(1).try_run(body).map(drop)
}

// ---- interleaved blocks, sieved ----

/// Process `number` owns every fourth block.
fn owned(number: u64) -> impl Iterator<Item = u64> {
    (0..BLOCKS).flat_map(move |i| {
        let start = (i * PROCESSES + number) * BLOCK;
        start..start + BLOCK
    })
}

fn interleave(number: u64, path: &str) -> Result<(), FileError> {
    alone(path, "striate_method=sieve;ind_wr_buffer_size=1000;ind_rd_buffer_size=700", |file| {
        let byte = Datatype::bytes(1)?;
        let blocks = Datatype::hvector(BLOCKS, BLOCK, (BLOCK * PROCESSES) as i64, &byte)?;
        file.set_view(View::new(number * BLOCK, &byte, &blocks)?)?;
        for round in 0..ROUNDS {
            let salt = 1000 * number + round;
            let data: Vec<u8> = owned(number).map(|at| content(at, salt)).collect();
            file.write_at(0, &data)?;
            let mut back = vec![0; data.len()];
            assert_eq!(file.read_at(0, &mut back)?, back.len() as u64);
            assert!(back == data, "process {number} lost bytes in round {round}");
        }
        Ok(())
    })
}

#[test]
fn interleaved_sieves_of_processes_lose_nothing() {
    let _watchdog = Watchdog::new(Duration::from_secs(180), "interleaved sieves");
    for directory in ["/dev/shm", "/tmp"] {
        let directory = tempfile::tempdir_in(directory).unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![0xEE; 100]).unwrap();
        all_succeed((0..PROCESSES).map(|number| start("sieve", number, &path)).collect());
        let file = std::fs::read(&path).unwrap();
        assert_eq!(file.len() as u64, BLOCK * BLOCKS * PROCESSES);
        for number in 0..PROCESSES {
            let salt = 1000 * number + ROUNDS - 1;
            let lost = owned(number).filter(|&at| file[at as usize] != content(at, salt)).count();
            assert_eq!(lost, 0, "bytes of process {number} are lost");
        }
    }
}

// ---- atomic mode ----

const PIECES: u64 = 200;

fn strided() -> Result<View, FileError> {
    let byte = Datatype::bytes(1)?;
    View::new(10, &byte, &Datatype::hvector(PIECES, 16, 50, &byte)?)
}

/// Writes the whole region with one value, again and again.
fn write_whole(number: u64, path: &str, method: &str) -> Result<(), FileError> {
    let hints = format!("striate_method={method};ind_wr_buffer_size=512;striate_list_regions=5");
    alone(path, &hints, |file| {
        file.set_atomicity(true)?;
        file.set_view(strided()?)?;
        for round in 0..60 {
            let value = (number * 64 + round + 1) as u8;
            file.write_at(0, &vec![value; 16 * PIECES as usize])?;
        }
        Ok(())
    })
}

/// Never sees the bytes of two writes at once.
fn read_whole(path: &str, method: &str) -> Result<(), FileError> {
    let hints = format!("striate_method={method};ind_rd_buffer_size=300;striate_list_regions=7");
    alone(path, &hints, |file| {
        file.set_atomicity(true)?;
        assert!(file.atomicity());
        file.set_view(strided()?)?;
        for _ in 0..150 {
            let mut region = vec![0; 16 * PIECES as usize];
            assert_eq!(file.read_at(0, &mut region)?, region.len() as u64);
            let mixed = region.iter().any(|&byte| byte != region[0]);
            assert!(!mixed, "a read saw a mixture of writes");
        }
        Ok(())
    })
}

#[test]
fn atomic_writes_of_processes_take_effect_as_a_whole() {
    let _watchdog = Watchdog::new(Duration::from_secs(180), "atomic mode");
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    for method in ["posix", "sieve", "list", "datatype"] {
        let path = directory.path().join(method);
        let len = 10 + (PIECES - 1) * 50 + 16 + 30;
        std::fs::write(&path, vec![0; len as usize]).unwrap();
        let mut children: Vec<Child> =
            (0..3).map(|number| start(&format!("write:{method}"), number, &path)).collect();
        children.push(start(&format!("read:{method}"), 0, &path));
        all_succeed(children);
        let file = std::fs::read(&path).unwrap();
        let value = file[10];
        assert!(value > 0 && (value - 1) % 64 == 59, "{method}: the last round of a rank");
        for (at, &byte) in file.iter().enumerate() {
            let inside = at >= 10 && (at - 10) / 50 < PIECES as usize && (at - 10) % 50 < 16;
            assert_eq!(byte, if inside { value } else { 0 }, "{method}: byte {at}");
        }
    }
}

/// The same among the ranks of one world, collectively: one of the writes as a whole.
#[test]
fn atomic_collective_writes_take_effect_as_a_whole() {
    let _watchdog = Watchdog::new(Duration::from_secs(180), "atomic collective writes");
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    for method in ["auto", "posix", "sieve", "two-phase", "list", "datatype"] {
        let path = directory.path().join(method);
        let hints: Hints =
            format!("striate_method={method};ind_wr_buffer_size=512").parse().unwrap();
        for _ in 0..10 {
            let read = Threads::new(4).try_run(|comm| {
                let mut file = File::open(&comm, &path, BOTH | Mode::CREATE, &hints)?;
                file.set_atomicity(true)?;
                file.set_view(strided()?)?;
                let mut region = vec![comm.rank() as u8 + 1; 16 * PIECES as usize];
                file.write_at_all(0, &region)?;
                file.read_at_all(0, &mut region)?;
                file.close()?;
                Ok::<_, FileError>(region)
            });
            let read = read.unwrap();
            let value = read[0][0];
            let whole = read.iter().flatten().all(|&byte| byte == value);
            assert!(whole && (1..=4).contains(&value), "{method}: a mixture of writes");
        }
    }
}
