//! A partitioned dataset over probed storage targets: one dataset, one file per target.
//!
//! A probe writes a little to each target and finds those that are fast right now, so that one slow
//! target does not slow down the others. Here the targets are directories; they can as well be I/O
//! servers (`striate://host:port/path`) or storage targets of Lustre (`/lustre/run#3`).
#![allow(clippy::float_cmp, reason = "numbers come back as they were written")]

use std::path::PathBuf;
use std::time::Duration;

use striate::prelude::*;

/// Rows and columns of the dataset's variable.
const ROWS: u64 = 60;
const COLUMNS: u64 = 1000;

fn main() -> Result<(), ArrayError> {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let directory = directory.join("striate-partitioned");
    let targets: Vec<PathBuf> = (0..3).map(|i| directory.join(format!("target{i}"))).collect();
    for target in &targets {
        std::fs::create_dir_all(target).expect("directories can be made");
    }

    striate::run(4, |comm| {
        let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);

        // The ranks share the targets to be measured, and all get the same answer. Samples of
        // earlier runs are not used.
        let options = ProbeOptions {
            size: 1 << 20,
            valid: Duration::ZERO,
            cache: Some(directory.clone()),
            ..ProbeOptions::default()
        };
        let stores: Vec<_> = targets.iter().map(StorageTarget::directory).collect();
        let found = probe(&comm, &stores, &options)?;
        let chosen: Vec<String> = found.chosen().map(ToString::to_string).collect();

        // With "nc_probe" enabled, which is the default, a dataset does the same by itself.
        let options = Options::from_environment()?
            .with("nc_partitioning_enabled", "enable")?
            .with("nc_partition_targets", &chosen.join(","))?
            .with("nc_probe", "disable")?;
        let path = directory.join("weather.nc");
        let mut define = Dataset::create(&comm, &path, Format::Cdf5, &options)?;
        let y = define.dimension("y", ROWS)?;
        let x = define.dimension("x", COLUMNS)?;
        let heat = define.variable("heat", Type::Double, &[y, x])?;
        let mut data = define.end()?;

        // Each rank writes columns, which lie in all partitions.
        let width = COLUMNS / ranks;
        let columns = Slab::new(&[0, rank * width], &[ROWS, width]);
        data.put_all(heat, &columns, &vec![rank as f64; (ROWS * width) as usize])?;
        data.sync()?;

        // And reads those of the next rank.
        let next = (rank + 1) % ranks;
        let mut values = vec![f64::NAN; (ROWS * width) as usize];
        data.get_all(heat, &Slab::new(&[0, next * width], &[ROWS, width]), &mut values)?;
        assert!(values.iter().all(|&value| value == next as f64));

        // A dataset on one target is a plain file.
        let partitions = data.partitions().map_or(1, <[_]>::len);
        assert_eq!(partitions, chosen.len());
        data.close()?;
        if rank == 0 {
            println!("probed: {found}");
            println!("verified: one dataset in {partitions} files, read and written by all ranks");
            std::fs::remove_dir_all(&directory).expect("the directory was made here");
        }
        Ok(())
    })
    .map(drop)
}
