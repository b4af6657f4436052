//! Failures during an exchange: no rank waits forever, and all ranks get the error.

use std::path::PathBuf;

use striate_array::{Dataset, Format, OpenMode, Options, Pending, Slab, Type};

use crate::small_disk::small_disk;
use crate::{divided, names, open, ranks, temporary_dataset};

/// Wrong arguments of one rank fail the call on all ranks, and do nothing else.
#[test]
fn a_rank_with_a_bad_slab() {
    let (_directory, path) = temporary_dataset();
    for (count, partitions) in [(3, 2), (2, 3), (3, 3)] {
        ranks(count, |comm| {
            let mut define = Dataset::create(&comm, &path, Format::Cdf5, &divided(partitions))?;
            let y = define.dimension("y", 6)?;
            let v = define.variable("v", Type::Byte, &[y, y])?;
            let mut data = define.end()?;
            let end = if comm.rank() == 1 { 7 } else { 6 };
            let values = vec![1_i8; 6 * end as usize];
            let error = data.put_all(v, &Slab::new(&[0, 0], &[end, 6]), &values).unwrap_err();
            assert!(error.to_string().contains("reach beyond the length 6"), "{error}");
            let mut buffer = vec![1_i8; 6 * end as usize];
            let error = data.get_all(v, &Slab::new(&[0, 0], &[end, 6]), &mut buffer).unwrap_err();
            assert!(error.to_string().contains("reach beyond the length 6"), "{error}");
            data.put_all(v, &Slab::all(), &[1_i8; 36])?;
            // A value out of range is an error on all ranks; the others are written.
            let last = if comm.rank() == 1 { 1000 } else { 3 };
            let row = comm.rank() as u64;
            let put = data.put_all(v, &Slab::new(&[row, 0], &[1, 2]), &[2, last]);
            assert!(put.unwrap_err().to_string().contains("out of the range"));
            assert_eq!(data.array::<i8>(v, &Slab::element(&[row, 0]))?[[0, 0]], 2);
            data.close()
        });
    }
}

/// One of several targets is full: the call fails on every rank, and an abort removes all files.
#[test]
fn a_target_that_is_full() {
    let Some(disk) = small_disk("failures::a_target_that_is_full") else { return };
    let (directory, path) = temporary_dataset();
    let targets = format!("{},{}", directory.path().display(), disk.display());
    let columns = 4 << 20;
    for (count, partitions) in [(1, 2), (2, 4), (4, 2), (5, 3)] {
        for buffer in ["64K", "32M"] {
            let options = divided(partitions)
                .with("nc_partition_targets", &targets)
                .and_then(|options| options.with("nc_probe", "disable"))
                .and_then(|options| options.with("nc_partition_buffer", buffer))
                .unwrap();
            ranks(count, |comm| {
                let mut define = Dataset::create(&comm, &path, Format::Cdf5, &options)?;
                let y = define.dimension("y", partitions)?;
                let x = define.dimension("x", columns)?;
                let v = define.variable("v", Type::Byte, &[y, x])?;
                let mut data = define.end()?;
                let (rank, size) = (comm.rank() as u64, comm.size() as u64);
                let (low, high) = (columns * rank / size, columns * (rank + 1) / size);
                let slab = Slab::new(&[0, low], &[partitions, high - low]);
                let values = vec![1_i8; (partitions * (high - low)) as usize];
                let error = data.put_all(v, &slab, &values).unwrap_err().to_string();
                assert!(error.contains("No space left"), "{error}");
                let mut pending = Pending::new();
                data.iput(&mut pending, v, &slab, &values)?;
                let error = data.wait_all(pending).unwrap_err().to_string();
                assert!(error.contains("No space left"), "{error}");
                // It can still be read, and written where there is space.
                let mut back = vec![0_i8; partitions as usize];
                data.get_all(v, &Slab::new(&[0, rank], &[partitions, 1]), &mut back)?;
                let first = Slab::new(&[0, 0], &[u64::from(rank == 0), 3]);
                data.put_all(v, &first, &vec![7_i8; if rank == 0 { 3 } else { 0 }])?;
                assert_eq!(data.array::<i8>(v, &Slab::element(&[0, 2]))?[[0, 0]], 7);
                comm.barrier()?;
                data.abort()
            });
            assert_eq!(names(&disk), [""; 0]);
            assert_eq!(names(directory.path()), [""; 0]);
        }
    }
}

/// There is no space to move data: the dataset does not change.
#[test]
fn a_redefinition_without_space() {
    let Some(disk) = small_disk("failures::a_redefinition_without_space") else { return };
    let path = disk.join("data.nc");
    let rows = 700 << 10;
    ranks(2, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Cdf5, &divided(2))?;
        let y = define.dimension("y", rows / 2)?;
        let x = define.dimension("x", 2)?;
        let v = define.variable("v", Type::Byte, &[y, x])?;
        let mut data = define.end()?;
        data.put_all(v, &Slab::all(), &vec![5_i8; rows as usize])?;
        data.sync()?;
        let mut define = data.redefine()?;
        define.attribute(v, "large", "x".repeat(300 << 10))?;
        let error = define.end().unwrap_err().to_string();
        assert!(error.contains("No space left"), "{error}");
        comm.barrier()?;
        let mut data = open(&comm, &path, OpenMode::ReadOnly);
        assert!(data.array::<i8>(v, &Slab::all())?.iter().all(|&value| value == 5));
        Ok(())
    });
}

/// Partitions on I/O servers, each on one server; the master on the servers or local.
#[test]
fn on_servers() {
    let embedded = striate_server::Embedded::start(3).unwrap();
    let (_directory, local) = temporary_dataset();
    let remote = PathBuf::from(format!("{}/run/data.nc", embedded.url()));
    for path in [local, remote] {
        let options = Options::default()
            .with("nc_partitioning_enabled", "enable")
            .and_then(|it| it.with("nc_partition_targets", &format!("{}/parts", embedded.url())))
            .and_then(|it| it.with("nc_probe", "disable"))
            .unwrap();
        // The second dataset replaces the first.
        for factor in [1, 2] {
            ranks(2, |comm| {
                let mut define = Dataset::create(&comm, &path, Format::Cdf5, &options)?;
                let y = define.dimension("y", 9)?;
                let v = define.variable("v", Type::Int, &[y, y])?;
                let mut data = define.end()?;
                let rank = comm.rank() as u64;
                let values: Vec<i32> = (0..81).map(|n| n * factor).collect();
                if rank == 0 {
                    data.put(v, &Slab::all(), &values)?;
                }
                data.close()
            });
            ranks(3, |comm| {
                let mut data = open(&comm, &path, OpenMode::ReadWrite);
                let files: Vec<_> = data.partitions().unwrap().iter().map(|it| &it.file).collect();
                assert_eq!(files.len(), 3);
                assert!(files.iter().all(|file| file.to_string_lossy().contains("/parts/")));
                let v = data.variable("v")?;
                let mut row = [0; 9];
                data.get_all(v, &Slab::new(&[5, 0], &[1, 9]), &mut row)?;
                assert_eq!(row[8], 53 * factor);
                data.close()
            });
        }
    }
}
