//! What the model in `layout` says a call costs is what is counted at the store.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use striate_comm::Threads;
use striate_datatype::{Cursor, Datatype};
use striate_file::{File, FileError, Hints, Memory, MemoryMut, Method, Mode, Stats, View};
use striate_layout::characteristics::{Access, AggregatorWork, PieceCount, two_phase_exact};
use striate_layout::file_domain::DomainKind;
use striate_store::{MemoryStore, Store};
use support::{PlainMemory, PlainView, Random, Watchdog, number_from, random_views};

const CASES: u64 = 1500;
/// Pieces that a list request carries at most, however few their regions are.
const PIECES_PER_LIST: u64 = 4096;

fn number(n: u64) -> NonZeroU64 {
    NonZeroU64::new(n).unwrap()
}

/// One rank's part: whole copies of a view, from its start on.
struct RankAccess {
    view: View,
    copies: u64,
    memory: PlainMemory,
    access: Access,
}

impl RankAccess {
    fn new(random: &mut Random, view: Option<PlainView>, some: &PlainView) -> Self {
        let copies = if view.is_none() || random.percent(10) { 0 } else { random.from(1, 12) };
        let view = view.unwrap_or_else(|| some.clone());
        let wanted = copies * view.size();
        let memory = PlainMemory::random(random, wanted, view.etype);
        // Whole copies on both sides: otherwise plain memory.
        let memory =
            if memory.len() == wanted { memory } else { PlainMemory::plain(random, wanted) };
        let view = view.view;
        let filetype = view.filetype();
        let described = match &memory.datatype {
            Some(datatype) => Access::new(datatype, memory.count, filetype, copies),
            None => Access::from_contiguous_memory(filetype, copies),
        };
        let access = described.unwrap().displaced(view.displacement() as i64).unwrap();
        Self { view, copies, memory, access }
    }

    fn file(&self) -> Datatype {
        let copies = Datatype::contiguous(self.copies, self.view.filetype()).unwrap();
        copies.displaced(self.view.displacement() as i64).unwrap()
    }
}

/// Bytes and operations of a sieve that cuts its range into windows of `buffer` bytes from the
/// first wanted byte on and leaves out those without one; by looking at every region.
fn sieve_on_a_grid(file: &Datatype, buffer: u64) -> (u64, u64) {
    if file.size() == 0 {
        return (0, 0);
    }
    let (low, high) = (file.true_lower_bound() as u64, file.true_upper_bound() as u64);
    let buffer = buffer.min(high - low);
    let mut windows: Vec<u64> = Cursor::new(file, 1)
        .unwrap()
        .flat_map(|run| {
            let Range { start, end } = run.offset as u64..run.end() as u64;
            (start - low) / buffer..=(end - 1 - low) / buffer
        })
        .collect();
    windows.dedup();
    let bytes = |i: &u64| (high - low - i * buffer).min(buffer);
    (windows.iter().map(bytes).sum(), windows.len() as u64)
}

fn pieces_of(access: &Access) -> u64 {
    match access.pieces(u64::MAX).unwrap() {
        PieceCount::Exactly(pieces) => pieces,
        PieceCount::AtLeast(_) => panic!("all pieces are looked at"),
    }
}

fn run(parts: &[RankAccess], hints: &Hints, write: bool) -> Vec<Stats> {
    let object = MemoryStore::new("object");
    let end = parts.iter().map(|part| part.file().true_upper_bound() as u64).max();
    object.set_len(end.unwrap_or(0)).unwrap();
    let all = Threads::new(parts.len()).try_run(|comm| {
        let part = &parts[comm.rank()];
        let store = Arc::new(object.clone());
        let mut file = File::on_store(&comm, store, Mode::READ | Mode::WRITE, hints)?;
        file.set_view(part.view.clone())?;
        let mut buffer = part.memory.buffer.clone();
        let PlainMemory { origin, count, datatype, .. } = &part.memory;
        let moved = match (write, datatype) {
            (true, Some(ty)) => file.write_at_all(0, Memory::new(&buffer, *origin, *count, ty)?)?,
            (true, None) => file.write_at_all(0, &buffer)?,
            (false, Some(ty)) => {
                file.read_at_all(0, MemoryMut::new(&mut buffer, *origin, *count, ty)?)?
            }
            (false, None) => file.read_at_all(0, &mut buffer)?,
        };
        assert_eq!(moved, part.access.wanted());
        file.stats_of_all()
    });
    all.unwrap().swap_remove(0)
}

#[test]
fn the_formula_and_the_count_agree() {
    let watchdog = Watchdog::new(Duration::from_secs(180), "characteristics");
    let cases = match number_from("STRIATE_CASE") {
        Some(case) => case..case + 1,
        None => 0..number_from("STRIATE_CASES").unwrap_or(CASES),
    };
    for case in cases {
        watchdog.at(format!("case {case} of the characteristics"));
        let random = &mut Random::new(case ^ 0xC0DE);
        let ranks = random.from(2, 9);
        let views = random_views(random, ranks as usize);
        let some = views.iter().flatten().next().cloned().unwrap_or_else(PlainView::bytes);
        let parts: Vec<RankAccess> =
            views.into_iter().map(|view| RankAccess::new(random, view, &some)).collect();
        let accesses: Vec<Access> = parts.iter().map(|part| part.access.clone()).collect();
        if accesses.iter().all(|access| access.wanted() == 0) {
            continue;
        }

        let method = Method::ALL[(case % 5) as usize];
        let (unit, targets, x) = (random.from(16, 600), random.from(1, 6), random.from(1, 3));
        let (window, regions) = (random.from(40, 3000), random.from(1, 64));
        let units = number(unit);
        let target_count = NonZeroU32::new(targets as u32).unwrap();
        let (name, kind) = match random.below(5) {
            0 => ("even", DomainKind::Even),
            1 => ("aligned", DomainKind::Aligned { unit: units }),
            2 => ("static-cycling", DomainKind::StaticCycling { unit: units }),
            3 => ("group-cycling", DomainKind::GroupCycling { unit: units, targets: target_count }),
            _ => {
                let x = NonZeroU32::new(x as u32).unwrap();
                ("x-target", DomainKind::XTarget { unit: units, targets: target_count, x })
            }
        };
        let hints = format!(
            "striate_method={method};striate_exchange=messages;cb_nodes={ranks};\
             cb_buffer_size={window};striate_domains={name};striping_unit={unit};\
             striping_factor={targets};striate_x_targets={x};striate_list_regions={regions};\
             ind_rd_buffer_size={window};ind_wr_buffer_size={window}"
        );
        let write = random.percent(50);
        let stats = run(&parts, &hints.parse().unwrap(), write);

        let work = two_phase_exact(&accesses, kind, number(ranks), number(window)).unwrap();
        for (rank, (stats, part)) in stats.iter().zip(&parts).enumerate() {
            let access = &part.access;
            let AggregatorWork { accessed, operations, resent, .. } = work[rank];
            let expected = match method {
                Method::Posix => (access.wanted(), pieces_of(access), 0),
                // A request of bounded length may also end inside of a region.
                Method::List if pieces_of(access) > PIECES_PER_LIST => continue,
                Method::List => (access.wanted(), access.regions().div_ceil(regions), 0),
                Method::Datatype => (access.wanted(), u64::from(access.wanted() > 0), 0),
                Method::Sieve => {
                    let (accessed, operations) = sieve_on_a_grid(&part.file(), window);
                    (accessed, operations, 0)
                }
                Method::TwoPhase => (accessed, operations, resent),
            };
            let counted = (stats.accessed, stats.operations, stats.resent);
            let what = if write { "write" } else { "read" };
            assert_eq!(
                counted, expected,
                "case {case}, rank {rank}: (accessed, operations, resent) of a {method} {what}, {hints}"
            );
            assert_eq!(stats.wanted, access.wanted(), "case {case}, rank {rank}: wanted");
        }
    }
}

#[test]
fn the_call_report_tells_method_domains_and_way() {
    let reports = Threads::new(2).try_run(|comm| {
        let hints: Hints = "striate_method=two-phase;striate_domains=even".parse()?;
        let store = Arc::new(MemoryStore::new("object"));
        let mut file = File::on_store(&comm, store, Mode::READ | Mode::WRITE, &hints)?;
        file.write_at_all(4 * comm.rank() as u64, &[1; 4])?;
        Ok::<_, FileError>(file.last_call().copied())
    });
    for report in reports.unwrap() {
        let report = report.unwrap();
        assert_eq!((report.method, report.domains), (Method::TwoPhase, Some("even")));
        assert_eq!(report.in_memory, Some(true));
        assert_eq!(report.stats.wanted, 4);
    }
}

#[test]
fn calls_are_counted_by_method_and_timed_on_request() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    Threads::new(2)
        .try_run(|comm| {
            let mode = Mode::READ | Mode::WRITE | Mode::CREATE;
            let hints: Hints = "striate_method=two-phase".parse()?;
            let mut file = File::open(&comm, &path, mode, &hints)?;
            file.write_at_all(comm.rank() as u64 * 1000, &[1; 1000])?;
            assert_eq!(file.usage().calls(Method::TwoPhase), 1);
            assert!(file.usage().io.is_zero() && file.usage().exchange.is_zero());
            file.measure_time();
            let request = file.iwrite_at_all(comm.rank() as u64 * 1000, vec![1; 1000]);
            file.wait(request).1?;
            file.write_at_all(comm.rank() as u64 * 1000, &[1; 1000])?;
            let usage = file.usage();
            assert_eq!(usage.calls(Method::TwoPhase), 3);
            assert_eq!(file.stats().calls, 3);
            assert!(!usage.exchange.is_zero());
            // Some rank has written.
            let io = comm.allgather(&[u8::from(!usage.io.is_zero())])?.concat();
            assert!(io.contains(&1));
            file.close()
        })
        .unwrap();
}
