//! The paper's workloads cost what the paper says \[CHING\], in the model and counted at the store.
//!
//! Operations and data accessed at the paper's rounding (MB = 2²⁰), data resent within 5 %. What is
//! counted are calls of the real file by thread ranks, on a store that keeps no bytes.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use striate_bench::io::{IoOp, paper_hints};
use striate_bench::workload::{Block3d, Flash, TileReader, Workload};
use striate_comm::Threads;
use striate_datatype::Datatype;
use striate_file::{File, FileError, Memory, MemoryMut, MethodChoice, Mode, Stats, View};
use striate_layout::characteristics::{Access, Characteristics, Method, Settings, characteristics};
use striate_store::{AlignedBuffer, NullStore, Store};

fn model(workload: &dyn Workload) -> [Characteristics; 5] {
    let accesses: Vec<Access> = (0..workload.ranks())
        .map(|rank| {
            let access = workload.access(rank).unwrap();
            let (memory, file) = (&access.memory, &access.file);
            Access::new(memory, access.memory_count, file, access.file_count).unwrap()
        })
        .collect();
    characteristics(&accesses, &Settings::default()).unwrap()
}

/// What one call by `method` costs a client, counted at the store: the mean over the ranks.
fn counted(workload: &(dyn Workload + Sync), method: Method, op: IoOp) -> Characteristics {
    let ranks = workload.ranks();
    let mut hints = paper_hints(ranks);
    hints.method = MethodChoice::Fixed(method);
    let store = NullStore::new();
    store.set_len(workload.access(0).unwrap().file.extent() as u64).unwrap();
    let all = Threads::new(ranks as usize)
        .try_run(|comm| -> Result<Stats, FileError> {
            let access = workload.access(comm.rank() as u64)?;
            let store: Arc<dyn Store> = Arc::new(store.clone());
            let mut file = File::on_store(&comm, store, Mode::READ | Mode::WRITE, &hints)?;
            file.set_view(View::new(0, &Datatype::bytes(1)?, &access.file)?)?;
            let mut memory = AlignedBuffer::new(access.memory.upper_bound() as usize);
            let (count, datatype) = (access.memory_count, &access.memory);
            match op {
                IoOp::Read => {
                    file.read_at_all(0, MemoryMut::new(&mut memory, 0, count, datatype)?)?
                }
                IoOp::Write => file.write_at_all(0, Memory::new(&memory, 0, count, datatype)?)?,
            };
            assert_eq!(file.last_call().unwrap().method, method);
            let stats = file.stats();
            file.close()?;
            Ok(stats)
        })
        .unwrap();
    let sum: Stats = all.into_iter().sum();
    let mean = |sum: u64| (sum + ranks / 2) / ranks;
    Characteristics {
        method,
        wanted: mean(sum.wanted),
        accessed: mean(sum.accessed),
        operations: mean(sum.operations),
        at_least: false,
        resent: (method == Method::TwoPhase).then(|| mean(sum.resent)),
        region_size: sum.region_size(),
    }
}

/// What is counted must be what the model says: both ways, by every method that is named.
fn assert_counted_as_modelled(workload: &(dyn Workload + Sync), op: IoOp, methods: &[Method]) {
    for model in model(workload).iter().filter(|model| methods.contains(&model.method)) {
        let counted = counted(workload, model.method, op);
        let figures =
            |row: &Characteristics| (row.method, row.wanted, row.accessed, row.operations);
        assert_eq!(figures(&counted), figures(model), "{}, {op:?}", workload.name());
        if let Some(resent) = model.resent {
            assert_near(counted.resent, resent as f64 / f64::from(1 << 20));
        }
    }
}

fn mb(bytes: u64, digits: usize) -> String {
    format!("{:.digits$}", bytes as f64 / f64::from(1 << 20))
}

fn assert_near(bytes: Option<u64>, paper_mb: f64) {
    let ours = bytes.unwrap() as f64 / f64::from(1 << 20);
    assert!((ours / paper_mb - 1.0).abs() <= 0.05, "resent {ours:.3} MB, in the paper {paper_mb}");
}

#[test]
fn tile_reader() {
    let [posix, sieve, two_phase, list, datatype] = model(&TileReader::default());
    for row in [&posix, &list, &datatype] {
        assert_eq!((mb(row.wanted, 2), mb(row.accessed, 2)), ("2.25".into(), "2.25".into()));
        assert_eq!((row.region_size, row.resent), (3 << 10, None));
    }
    assert_eq!((posix.operations, list.operations, datatype.operations), (768, 12, 1));
    assert_eq!((mb(sieve.accessed, 2), sieve.operations), ("5.56".into(), 2));
    assert_eq!((mb(two_phase.accessed, 2), two_phase.operations), ("1.70".into(), 1));
    assert_near(two_phase.resent, 1.50);
}

#[test]
fn three_dimensional_block() {
    let [posix, sieve, two_phase, list, datatype] = model(&Block3d::default());
    for row in [&posix, &list, &datatype] {
        assert_eq!((mb(row.wanted, 0), mb(row.accessed, 0)), ("103".into(), "103".into()));
        assert_eq!(row.region_size, 1_200);
    }
    assert_eq!((posix.operations, list.operations, datatype.operations), (90_000, 1_407, 1));
    // The paper prints 412 MB, the size of the 300 planes that hold a block (411.99 MB). By its own
    // definition, first to last byte, a block reaches 300 rows and a half short of that (411.3 MB).
    assert_eq!((sieve.accessed, sieve.operations), (431_278_800, 103));
    let whole_planes = 300 * 600 * 600 * 4;
    assert_eq!(mb(whole_planes, 0), "412");
    assert_eq!(whole_planes - sieve.accessed, 300 * 2400 + 1200);
    assert_eq!((mb(two_phase.accessed, 0), two_phase.operations), ("103".into(), 26));
    assert_near(two_phase.resent, 77.2);
}

#[test]
fn flash_checkpoint() {
    let [posix, _, _, list, datatype] = model(&Flash::default());
    assert_eq!(mb(posix.wanted, 1), "7.5");
    assert_eq!((posix.operations, posix.region_size, posix.at_least), (983_040, 8, false));
    // 24 file regions are one request by the paper's limit; ours also ends after 4,096 pieces.
    assert_eq!((list.operations, datatype.operations), (983_040 / 4096, 1));
    assert_eq!(datatype.region_size, 320 << 10);
}

#[test]
fn tile_reader_counted() {
    assert_counted_as_modelled(&TileReader::default(), IoOp::Read, &Method::ALL);
}

#[test]
fn three_dimensional_block_counted() {
    for op in [IoOp::Read, IoOp::Write] {
        assert_counted_as_modelled(&Block3d::default(), op, &Method::ALL);
    }
}

#[test]
fn flash_checkpoint_counted() {
    let flash = Flash::default();
    for op in [IoOp::Read, IoOp::Write] {
        assert_counted_as_modelled(&flash, op, &Method::ALL);
    }
    assert_eq!(counted(&flash, Method::Posix, IoOp::Write).region_size, 8);
}
