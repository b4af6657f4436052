//! Failures in the middle of an exchange: nobody waits for ever, and all ranks learn of it.

use std::path::PathBuf;
use std::process::Command;

use striate_array::{Dataset, Format, Options, Pending, Slab, Type};

use crate::{divided, names, open, place, ranks};

/// A rank that cannot even say what it wants fails the call on all, and nothing else.
#[test]
fn a_rank_with_a_bad_slab() {
    let (_directory, path) = place();
    for (count, partitions) in [(3, 2), (2, 3), (3, 3)] {
        ranks(count, |comm| {
            let mut define = Dataset::create(&comm, &path, Format::Cdf5, &divided(partitions))?;
            let y = define.dimension("y", 6)?;
            let v = define.variable("v", Type::Byte, &[y, y])?;
            let mut data = define.end()?;
            let end = if comm.rank() == 1 { 7 } else { 6 };
            let values = vec![1_i8; 6 * end as usize];
            let told = data.put_all(v, &Slab::new(&[0, 0], &[end, 6]), &values).unwrap_err();
            assert!(told.to_string().contains("reach beyond the length 6"), "{told}");
            let mut room = vec![1_i8; 6 * end as usize];
            let told = data.get_all(v, &Slab::new(&[0, 0], &[end, 6]), &mut room).unwrap_err();
            assert!(told.to_string().contains("reach beyond the length 6"), "{told}");
            data.put_all(v, &Slab::all(), &[1_i8; 36])?;
            // A value that does not fit is told everywhere; the others are moved.
            let last = if comm.rank() == 1 { 1000 } else { 3 };
            let row = comm.rank() as u64;
            let put = data.put_all(v, &Slab::new(&[row, 0], &[1, 2]), &[2, last]);
            assert!(put.unwrap_err().to_string().contains("out of the range"));
            assert_eq!(data.array::<i8>(v, &Slab::element(&[row, 0]))?[[0, 0]], 2);
            data.close()
        });
    }
}

const DISK: &str = "STRIATE_TEST_PARTITIONS_DISK";

/// A disk of one MiB if this process has it; otherwise runs the test in one that does.
fn disk(test: &str) -> Option<PathBuf> {
    if let Some(disk) = std::env::var_os(DISK) {
        return Some(disk.into());
    }
    let directory = tempfile::tempdir().unwrap();
    let disk = directory.path().to_str().unwrap();
    let script = format!(
        "mount -t tmpfs -o size=1m tmpfs '{disk}' && exec '{}' --exact failures::{test}",
        std::env::current_exe().unwrap().display()
    );
    let output = Command::new("unshare")
        .args(["--mount", "--map-root-user", "sh", "-c", &script])
        .env(DISK, disk)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.contains("1 passed"), "{told}{errors}");
    None
}

/// One target of several is full: the call fails on every rank, the old dataset stays, and an abort
/// leaves nothing.
#[test]
fn a_target_that_is_full() {
    let Some(disk) = disk("a_target_that_is_full") else { return };
    let (directory, path) = place();
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
                let told = data.put_all(v, &slab, &values).unwrap_err().to_string();
                assert!(told.contains("No space left"), "{told}");
                let mut pending = Pending::new();
                data.iput(&mut pending, v, &slab, &values)?;
                let told = data.wait_all(pending).unwrap_err().to_string();
                assert!(told.contains("No space left"), "{told}");
                // It can still be read, and what has room written.
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

/// There is no room to move data to: the dataset stays as it was.
#[test]
fn a_redefinition_without_room() {
    let Some(disk) = disk("a_redefinition_without_room") else { return };
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
        let told = define.end().unwrap_err().to_string();
        assert!(told.contains("No space left"), "{told}");
        comm.barrier()?;
        let mut data = open(&comm, &path, false);
        assert!(data.array::<i8>(v, &Slab::all())?.iter().all(|&value| value == 5));
        Ok(())
    });
}

/// Partitions on I/O servers, each on one of them; the master there or here.
#[test]
fn on_servers() {
    let embedded = striate_server::Embedded::start(3).unwrap();
    let (_directory, local) = place();
    let remote = PathBuf::from(format!("{}/run/data.nc", embedded.url()));
    for path in [local, remote] {
        let options = Options::default()
            .with("nc_partitioning_enabled", "enable")
            .and_then(|it| it.with("nc_partition_targets", &format!("{}/parts", embedded.url())))
            .and_then(|it| it.with("nc_probe", "disable"))
            .unwrap();
        // The second time it replaces the first.
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
                let mut data = open(&comm, &path, true);
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
