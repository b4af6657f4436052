//! Faults by name, at random points, under every method: an error on every rank, no hang, and
//! nothing changed that was not to be written. Then the same file works again.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod faulty;
mod support;

use std::sync::Arc;
use std::time::Duration;

use faulty::FaultyStore;
use striate_comm::Threads;
use striate_datatype::Datatype;
use striate_file::{File, FileError, Hints, Memory, MemoryMut, Mode, View};
use striate_store::{MemoryStore, Store};
use support::{
    PlainMemory, PlainView, Random, Watchdog, content, number_from, random_threads, random_views,
};

const CASES: u64 = 1200;
const BOTH: Mode = Mode::READ.union(Mode::WRITE);
const METHODS: [&str; 6] = ["auto", "posix", "sieve", "two-phase", "list", "datatype"];
const OLD: u64 = 1;
const FIRST: u64 = 2;
const SECOND: u64 = 3;

fn watchdog(name: &str) -> Watchdog {
    Watchdog::new(Duration::from_secs(180), name)
}

fn image(object: &MemoryStore) -> Vec<u8> {
    let mut image = vec![0; object.len().unwrap() as usize];
    object.read_at(0, &mut image).unwrap();
    image
}

/// What a rank does in every call of a case.
struct FaultyAccess {
    view: PlainView,
    memory: PlainMemory,
    places: Vec<u64>,
}

impl FaultyAccess {
    /// Writes what belongs there after the call numbered `salt`.
    fn write(&self, file: &mut File, salt: u64, together: bool) -> Result<u64, FileError> {
        let mut buffer = self.memory.buffer.clone();
        for (&index, &place) in self.memory.stream.iter().zip(&self.places) {
            buffer[index] = content(place, salt);
        }
        let PlainMemory { origin, count, datatype, .. } = &self.memory;
        let memory = match datatype {
            Some(datatype) => Memory::new(&buffer, *origin, *count, datatype)?,
            None => Memory::from(&buffer),
        };
        if together { file.write_at_all(0, memory) } else { file.write_at(0, memory) }
    }

    /// Reads, and compares where it succeeds. Gaps of memory stay whatever happens.
    fn read(&self, file: &mut File, salt: u64, together: bool) -> Result<u64, FileError> {
        let mut buffer = self.memory.buffer.clone();
        let PlainMemory { origin, count, datatype, .. } = &self.memory;
        let memory = match datatype {
            Some(datatype) => MemoryMut::new(&mut buffer, *origin, *count, datatype)?,
            None => MemoryMut::from(&mut buffer),
        };
        let done = if together { file.read_at_all(0, memory) } else { file.read_at(0, memory) };
        let mut expected = self.memory.buffer.clone();
        for (&index, &place) in self.memory.stream.iter().zip(&self.places) {
            expected[index] = if done.is_ok() { content(place, salt) } else { buffer[index] };
        }
        assert_eq!(buffer, expected, "what was read");
        done
    }
}

/// The outcome of a rank's first call, and whether its store failed in it.
type RankOutcome = (Result<u64, String>, bool);

fn random_parts(random: &mut Random, ranks: usize) -> Vec<FaultyAccess> {
    let views = random_views(random, ranks);
    let some = views.iter().flatten().next().cloned().unwrap_or_else(PlainView::bytes);
    views
        .into_iter()
        .map(|view| {
            let idle = view.is_none() || random.percent(10);
            let view = view.unwrap_or_else(|| some.clone());
            let len = if idle { 0 } else { random.mostly_small(1, 2000).min(20 * view.size()) };
            let memory = PlainMemory::random(random, len, view.etype);
            let places = view.offsets(0, memory.len());
            FaultyAccess { view, memory, places }
        })
        .collect()
}

/// A store that fails or panics, if it is to, at one of its first requests.
fn random_store(random: &mut Random, object: &MemoryStore, panics: bool) -> Arc<FaultyStore> {
    let kinds = ["error", "out-of-space", "torn-write", "short-read", "short-write", "delay=2ms"];
    if random.percent(40) {
        return FaultyStore::new(object, "");
    }
    let at = random.mostly_small(1, 12);
    if panics {
        return FaultyStore::panicking(object, at);
    }
    let kind = random.pick(&kinds);
    let of = match kind {
        "error" => random.pick(&["", ":read", ":write", ":lock"]),
        "out-of-space" => ":write",
        _ => "",
    };
    FaultyStore::new(object, &format!("{kind}@{at}{of}"))
}

fn run_case(case: u64) {
    let random = &mut Random::new(case ^ 0xFA17);
    let ranks = random.from(2, 6) as usize;
    let (threads, nodes) = random_threads(random, ranks);
    let write = random.percent(60);
    let together = random.percent(75);
    // Out of an independent call a panic may go on as it likes.
    let panics = together && random.percent(15);
    let parts = random_parts(random, ranks);
    let hints = format!(
        "striate_method={};striate_domains={};cb_buffer_size={};ind_rd_buffer_size={};\
         ind_wr_buffer_size={};striate_list_regions={};cb_nodes={};striping_unit=100{}",
        METHODS[(case % 6) as usize],
        random.pick(&["auto", "even", "static-cycling", "x-target"]),
        random.from(40, 900),
        random.from(40, 900),
        random.from(40, 900),
        random.from(1, 20),
        random.from(1, ranks as u64),
        if random.percent(30) { ";striate_exchange=messages" } else { "" },
    );
    let hints: Hints = hints.parse().unwrap();

    let object = MemoryStore::new("object");
    let end = parts.iter().flat_map(|part| &part.places).max().map_or(0, |last| last + 1);
    // A read is never short; a write may have to extend the object.
    let len = if write { random.from(0, end + 500) } else { end + random.below(100) };
    let before: Vec<u8> = (0..len).map(|at| content(at, OLD)).collect();
    object.write_at(0, &before).unwrap();
    let stores: Vec<Arc<FaultyStore>> =
        (0..ranks).map(|_| random_store(random, &object, panics)).collect();

    let results = threads.run(|comm| -> Result<RankOutcome, FileError> {
        let (part, store) = (&parts[comm.rank()], &stores[comm.rank()]);
        let mut file = File::on_store(&comm, Arc::clone(store) as _, BOTH, &hints)?;
        file.set_view(part.view.view.clone())?;
        store.arm(true);
        let done = if write {
            part.write(&mut file, FIRST, together)
        } else {
            part.read(&mut file, OLD, together)
        };
        store.arm(false);
        comm.barrier()?;
        if comm.rank() == 0 && write {
            check_outside(&image(&object), &before, &parts);
        }
        comm.barrier()?;
        let failed = store.failures() > 0;
        // What was found has nothing to do with what comes.
        let wanted = part.memory.len();
        assert_eq!(part.write(&mut file, SECOND, true)?, wanted, "write after a fault");
        assert_eq!(part.read(&mut file, SECOND, true)?, wanted, "read after a fault");
        file.close()?;
        Ok((done.map_err(|error| error.to_string()), failed))
    });

    let story = format!(
        "case {case} (STRIATE_CASE={case}): nodes {nodes}, {} {}, {hints}",
        if together { "collective" } else { "independent" },
        if write { "write" } else { "read" },
    );
    let ended: Vec<RankOutcome> = results
        .into_iter()
        .enumerate()
        .map(|(rank, result)| {
            result.unwrap_or_else(|error| panic!("{story}: rank {rank}: {error}"))
        })
        .collect();
    let failed: Vec<usize> = (0..ranks).filter(|&rank| ended[rank].1).collect();
    for (rank, (done, own)) in ended.iter().enumerate() {
        let must_fail = if together { !failed.is_empty() } else { *own };
        match done {
            Ok(moved) => {
                assert!(!must_fail, "{story}: rank {rank} succeeded although {failed:?} failed");
                assert_eq!(*moved, parts[rank].memory.len(), "{story}: rank {rank}");
            }
            Err(error) => {
                assert!(must_fail, "{story}: rank {rank} failed: {error}");
                let named = failed.iter().any(|rank| error.contains(&format!("rank {rank}")));
                assert!(*own || named, "{story}: rank {rank}: {error} names none of {failed:?}");
            }
        }
    }
}

/// After a write that may have failed, bytes are old, or new where they were to be written.
fn check_outside(after: &[u8], before: &[u8], parts: &[FaultyAccess]) {
    let mut meant = vec![false; after.len()];
    for &place in parts.iter().flat_map(|part| &part.places) {
        if let Some(meant) = meant.get_mut(place as usize) {
            *meant = true;
        }
    }
    assert!(after.len() >= before.len(), "the object was cut");
    for (at, &byte) in after.iter().enumerate() {
        let old = before.get(at).copied().unwrap_or(0);
        let new = meant[at] && byte == content(at as u64, FIRST);
        assert!(byte == old || new, "byte {at}, meant: {}, was {old}, is {byte}", meant[at]);
    }
}

fn run_group(group: u64) {
    let watchdog = watchdog("faults");
    let cases: Vec<u64> = match number_from("STRIATE_CASE") {
        Some(case) if case % 2 != group => Vec::new(),
        Some(case) => vec![case],
        None => (group..number_from("STRIATE_CASES").unwrap_or(CASES)).step_by(2).collect(),
    };
    for case in cases {
        watchdog.at(format!("case {case} of the faults"));
        run_case(case);
    }
}

#[test]
fn faults_at_random_points_even_cases() {
    run_group(0);
}

#[test]
fn faults_at_random_points_odd_cases() {
    run_group(1);
}

fn open(
    comm: &Arc<dyn striate_comm::Comm>,
    object: &MemoryStore,
    mode: Mode,
    hints: &str,
) -> Result<File, FileError> {
    File::on_store(comm, Arc::new(object.clone()), mode, &hints.parse()?)
}

/// All ranks but rank 1 do something sound.
#[test]
fn arguments_of_one_rank_are_an_error_of_all() {
    let watchdog = watchdog("invalid arguments");
    let object = MemoryStore::new("object");
    let unit = Datatype::bytes(4).unwrap();
    let view = View::new(0, &unit, &unit).unwrap();
    for method in METHODS {
        for trouble in ["mode", "etype", "offset", "end"] {
            watchdog.at(format!("{method}, {trouble}"));
            let results = Threads::new(3).try_run(|comm| {
                let bad = comm.rank() == 1;
                let mode = if bad && trouble == "mode" { Mode::READ } else { BOTH };
                let mut file = open(&comm, &object, mode, &format!("striate_method={method}"))?;
                file.set_view(view.clone())?;
                let len = if bad && trouble == "etype" { 7 } else { 8 };
                let offset = match trouble {
                    "offset" if bad => u64::MAX,
                    "end" if bad => (i64::MAX as u64) / 4,
                    _ => 2 * comm.rank() as u64,
                };
                let data = vec![comm.rank() as u8; len];
                let first = file.write_at_all(offset, &data).map_err(|error| error.to_string());
                let request = file.iwrite_at_all(offset, data);
                let later = file.wait(request).1.map_err(|error| error.to_string());
                // The file goes on working.
                let mut back = [0; 4];
                let read = file.read_at_all(0, &mut back)?;
                file.close()?;
                Ok::<_, FileError>((first, later, read))
            });
            for (rank, (first, later, _)) in results.unwrap().into_iter().enumerate() {
                for done in [first, later] {
                    let error = done.expect_err("every rank gets an error");
                    let named = rank == 1 || error.contains("rank 1");
                    assert!(named, "{method}, {trouble}, rank {rank}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_rank_that_ends_or_panics_is_named_to_those_that_go_on() {
    let watchdog = watchdog("a rank that ends");
    for method in METHODS {
        for nodes in [[0, 0, 0, 0], [0, 0, 1, 1], [0, 1, 2, 3]] {
            for panics in [false, true] {
                watchdog.at(format!("{method} on {nodes:?}, panics: {panics}"));
                let object = MemoryStore::new("object");
                let results = Threads::on_nodes(&nodes).run(|comm| {
                    let hints = format!("striate_method={method};cb_buffer_size=64");
                    let mut file = open(&comm, &object, BOTH, &hints)?;
                    let at = 500 * comm.rank() as u64;
                    file.write_at_all(at, &[1; 500])?;
                    if comm.rank() == 2 {
                        assert!(!panics, "on purpose");
                        return Ok(0);
                    }
                    file.write_at_all(at, &[2; 500])
                });
                for (rank, result) in results.into_iter().enumerate().filter(|(rank, _)| *rank != 2)
                {
                    let error = result.expect_err("it cannot succeed alone").to_string();
                    assert!(error.contains("rank 2"), "{method}, {nodes:?}, rank {rank}: {error}");
                }
            }
        }
    }
}

/// In the middle of a call: the others find out while they wait for its data.
#[test]
fn a_rank_that_ends_inside_of_a_call_leaves_no_rank_waiting() {
    let watchdog = watchdog("a rank that is gone");
    for method in METHODS {
        for nodes in [[0, 0, 0], [0, 1, 2], [0, 0, 1]] {
            watchdog.at(format!("{method} on {nodes:?}"));
            let object = MemoryStore::new("object");
            let results = Threads::on_nodes(&nodes).run(|comm| {
                let store = if comm.rank() == 1 {
                    FaultyStore::panicking(&object, 2)
                } else {
                    FaultyStore::new(&object, "")
                };
                let hints: Hints =
                    format!("striate_method={method};cb_buffer_size=64;cb_nodes=3").parse()?;
                let mut file = File::on_store(&comm, Arc::clone(&store) as _, BOTH, &hints)?;
                let byte = Datatype::bytes(1)?;
                let blocks = Datatype::hvector(100, 5, 3 * 5 + 2, &byte)?;
                file.set_view(View::new(5 * comm.rank() as u64, &byte, &blocks)?)?;
                store.arm(true);
                let done = file.write_at_all(0, &[3; 500]).map_err(|error| error.to_string());
                store.arm(false);
                Ok::<_, FileError>((done, store.failures() > 0))
            });
            let ended: Vec<_> = results.into_iter().map(Result::unwrap).collect();
            let failed = ended.iter().any(|(_, failed)| *failed);
            for (rank, (done, _)) in ended.iter().enumerate() {
                assert_eq!(done.is_err(), failed, "{method}, {nodes:?}, rank {rank}: {done:?}");
                if let Err(error) = done {
                    assert!(rank == 1 || error.contains("rank 1"), "{method}: {error}");
                }
            }
        }
    }
}

/// A rank loses the others after any number of its calls: it gets an error, and so do all that
/// depended on it.
#[test]
fn a_rank_that_loses_its_connection_inside_of_a_call_leaves_no_rank_waiting() {
    let watchdog = watchdog("a rank that loses touch");
    let byte = Datatype::bytes(1).unwrap();
    let blocks = Datatype::hvector(100, 5, 3 * 5 + 2, &byte).unwrap();
    for nodes in [[0, 0, 0], [0, 1, 2], [0, 0, 1]] {
        for write in [true, false] {
            for calls in 0..40 {
                watchdog.at(format!("{calls} calls on {nodes:?}, write: {write}"));
                let object = MemoryStore::new("object");
                object.set_len(2000).unwrap();
                let results = Threads::on_nodes(&nodes).run(|comm| {
                    let rank = comm.rank() as u64;
                    let cut = faulty::comm::LostComm::new(&comm);
                    let shared: Arc<dyn striate_comm::Comm> = Arc::clone(&cut) as _;
                    let hints = "striate_method=two-phase;cb_buffer_size=64;cb_nodes=3";
                    let mut file = open(&shared, &object, BOTH, hints)?;
                    file.set_view(View::new(5 * rank, &byte, &blocks)?)?;
                    if rank == 1 {
                        cut.after(calls);
                    }
                    let mut data = [3; 500];
                    let done = if write {
                        file.write_at_all(0, &data)
                    } else {
                        file.read_at_all(0, &mut data)
                    };
                    done?;
                    // A rank that succeeded waits until all ranks have ended the call.
                    shared.barrier()?;
                    Ok::<_, FileError>(())
                });
                let ended: Vec<_> = results
                    .into_iter()
                    .map(|result| result.map_err(|error| error.to_string()))
                    .collect();
                let all_alike = ended.iter().all(|one| one.is_ok() == ended[0].is_ok());
                assert!(all_alike, "{calls} calls on {nodes:?}, write: {write}: {ended:?}");
                for error in ended.into_iter().filter_map(Result::err) {
                    assert!(error.contains("rank 1"), "{calls} calls on {nodes:?}: {error}");
                }
            }
        }
    }
}
