//! The model on the paper's workloads gives the paper's numbers \[CHING\].
//!
//! Operations and data accessed at the paper's rounding (MB = 2²⁰), data resent within 5 %.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use striate_bench::workload::{Block3d, Flash, TileReader, Workload};
use striate_layout::characteristics::{Access, Characteristics, Settings, characteristics};

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
    assert_eq!((list.operations, datatype.operations), (1, 1));
    assert_eq!(datatype.region_size, 320 << 10);
}
