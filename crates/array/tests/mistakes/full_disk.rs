//! A full disk: the call fails on every rank, and existing data does not change.

use std::path::Path;

use striate_array::format::{ChunkFilter, StorageLayout, StorageOptions};
use striate_array::{Format, OpenMode, Options, Owner, Slab, Type, Values};

use crate::small_disk::small_disk;
use crate::{
    assert_example, assert_valid, create, example, example_variables, message, open, ranks,
};

fn assert_full(error: &str) {
    assert!(error.contains("No space left on device"), "{error}");
}

/// Bytes that a rank writes; those of four ranks exceed the disk.
const SHARE: u64 = 512 << 10;

fn options() -> [Options; 2] {
    let method = |name| Options::default().with("striate_method", name).unwrap();
    [method("posix"), method("two-phase")]
}

#[test]
fn new_datasets() {
    let Some(disk) = small_disk("full_disk::new_datasets") else { return };
    let path = disk.join("new.nc");
    for options in options() {
        for filled in [false, true] {
            ranks(4, |comm| {
                let mut define =
                    striate_array::Dataset::create(&comm, &path, Format::Cdf5, &options)?;
                let y = define.dimension("y", 4)?;
                let x = define.dimension("x", SHARE)?;
                let v = define.variable("v", Type::Byte, &[y, x])?;
                define.fill_all(filled);
                if filled {
                    assert_full(&message(define.end()));
                    comm.barrier()?;
                    let error = message(striate_array::Dataset::open(
                        &comm,
                        &path,
                        OpenMode::ReadOnly,
                        &options,
                    ));
                    assert!(error.contains("is unfinished"), "{error}");
                    return Ok(());
                }
                let mut data = define.end()?;
                let mine = Slab::new(&[comm.rank() as u64, 0], &[1, SHARE]);
                let bytes = vec![1_i8; SHARE as usize];
                assert_full(&message(data.put_all(v, &mine, &bytes)));
                assert_full(&message(data.put_all(v, &mine, &bytes)));
                // After an abort the space is free again.
                data.abort()?;
                assert!(!path.exists());
                comm.barrier()?;
                let mut data = example(&comm, &path, Format::Cdf1);
                data.sync()?;
                assert_example(&mut data);
                data.close()
            });
        }
    }
}

/// Fills the disk except for some bytes.
fn use_up(disk: &Path, left: u64) {
    let ballast = disk.join("ballast");
    let mut len = 2 << 20;
    while std::fs::write(&ballast, vec![0; len]).is_err() {
        len -= 4096;
    }
    std::fs::write(&ballast, vec![0; len - left as usize]).unwrap();
}

#[test]
fn records_that_do_not_fit() {
    let Some(disk) = small_disk("full_disk::records_that_do_not_fit") else { return };
    let path = disk.join("old.nc");
    for options in options() {
        let _ = std::fs::remove_file(disk.join("ballast"));
        ranks(1, |comm| example(&comm, &path, Format::Cdf2).close());
        use_up(&disk, 64 << 10);
        ranks(4, |comm| {
            let mut data =
                striate_array::Dataset::open(&comm, &path, OpenMode::ReadWrite, &options)?;
            let [grid, series, _] = example_variables(&data);
            // Many more records than fit.
            let mine = Slab::new(&[2 + 10_000 * comm.rank() as u64, 0], &[10_000, 6]);
            assert_full(&message(data.put_all(series, &mine, &vec![-1_i32; 60_000])));
            assert_eq!(data.header().records, 2, "they did not come to be");
            data.put_all(grid, &Slab::all(), &(0..24).collect::<Vec<i32>>())?;
            data.sync()?;
            assert_example(&mut data);
            data.close()
        });
        ranks(2, |comm| {
            let mut data = open(&comm, &path, OpenMode::ReadOnly);
            assert_example(&mut data);
            data.close()
        });
    }
}

#[test]
fn a_redefinition_that_does_not_fit() {
    let Some(disk) = small_disk("full_disk::a_redefinition_that_does_not_fit") else { return };
    let path = disk.join("old.nc");
    let large = 200 << 10;
    ranks(2, |comm| {
        let mut define = create(&comm, &path, Format::Cdf1);
        let x = define.dimension("x", large)?;
        let v = define.variable("v", Type::Byte, &[x])?;
        let mut data = define.end()?;
        data.put_all(v, &Slab::all(), &vec![3_i8; large as usize])?;
        data.close()
    });
    let before = std::fs::read(&path).unwrap();
    use_up(&disk, 16 << 10);
    ranks(2, |comm| {
        let mut define = open(&comm, &path, OpenMode::ReadWrite).redefine()?;
        define.attribute(Owner::Global, "long", "x".repeat(40 << 10))?;
        assert_full(&message(define.end()));
        Ok(())
    });
    // The dataset has not changed.
    assert!(std::fs::read(&path).unwrap().starts_with(&before));
    std::fs::remove_file(disk.join("ballast")).unwrap();
    ranks(2, |comm| {
        let mut define = open(&comm, &path, OpenMode::ReadWrite).redefine()?;
        define.attribute(Owner::Global, "long", "x".repeat(40 << 10))?;
        let mut data = define.end()?;
        let v = data.variable("v")?;
        assert_eq!(data.values(v, &Slab::all())?, vec![3_i8; large as usize].into());
        data.close()
    });
    assert_valid(&path);
}

/// Filtered chunks are written beside the old ones until the disk is full: the last whole state
/// stays, for this dataset and for the next one that opens the file.
#[test]
fn filtered_chunks() {
    let Some(disk) = small_disk("full_disk::filtered_chunks") else { return };
    let path = disk.join("filtered.nc");
    let chunk = 64 << 10;
    // Room for one state, not for two.
    use_up(&disk, 400 << 10);
    ranks(2, |comm| {
        let options = Options::default();
        let mut define = striate_array::Dataset::create(&comm, &path, Format::Netcdf4, &options)?;
        let x = define.dimension("x", 4 * chunk)?;
        let v = define.variable("v", Type::Byte, &[x])?;
        define.storage(
            v,
            StorageOptions {
                layout: StorageLayout::Chunked(vec![chunk]),
                filters: vec![ChunkFilter::Fletcher32],
                ..StorageOptions::default()
            },
        )?;
        let mut data = define.end()?;
        let mine = Slab::new(&[2 * chunk * comm.rank() as u64], &[2 * chunk]);
        let mut last = 0_i8;
        let error = loop {
            let bytes = vec![last + 1; 2 * chunk as usize];
            match data.put_all(v, &mine, &bytes).and_then(|()| data.sync()) {
                Ok(()) => last += 1,
                Err(error) => break error.to_string(),
            }
        };
        assert_full(&error);
        assert!(last > 0);
        let whole = |values: Values| {
            let Values::Byte(values) = values else { panic!("{values:?}") };
            let first = values[0];
            assert!(values.iter().all(|value| *value == first), "a mixture");
            assert!([last, last + 1].contains(&first), "{first} instead of {last}");
        };
        whole(data.values(v, &Slab::all())?);
        // There may be no space for the end either.
        let _ = data.close();
        comm.barrier()?;
        let mut data = striate_array::Dataset::open(&comm, &path, OpenMode::ReadOnly, &options)?;
        whole(data.values(v, &Slab::all())?);
        data.close()
    });
}

/// Independent writes go to the file long before they are in it. When the disk is full, the write
/// fails on its rank, the sync on all; what was synced before stays, and once there is space again,
/// what waits is written.
#[test]
fn independent_writes_to_filtered_chunks() {
    let Some(disk) = small_disk("full_disk::independent_writes_to_filtered_chunks") else { return };
    let path = disk.join("independent.nc");
    let chunk = 16 << 10;
    for partial in [false, true] {
        let _ = std::fs::remove_file(disk.join("ballast"));
        ranks(2, |comm| {
            let options = Options::default().with("nc_chunk_cache", "20000")?;
            let mut define =
                striate_array::Dataset::create(&comm, &path, Format::Netcdf4, &options)?;
            let x = define.dimension("x", 16 * chunk)?;
            let v = define.variable("v", Type::Byte, &[x])?;
            define.storage(
                v,
                StorageOptions {
                    layout: StorageLayout::Chunked(vec![chunk]),
                    filters: vec![ChunkFilter::Fletcher32],
                    ..StorageOptions::default()
                },
            )?;
            let mut data = define.end()?;
            let rank = comm.rank() as u64;
            let count = if partial { chunk - 1 } else { chunk };
            let put = |data: &mut striate_array::Dataset, number: u64, value: i8| {
                let slab = Slab::new(&[(2 * number + rank) * chunk], &[count]);
                data.put(v, &slab, &vec![value; count as usize])
            };
            for number in 0..4 {
                put(&mut data, number, 1)?;
            }
            data.sync()?;
            // A copy of the file is what a killed program leaves from here on.
            if rank == 0 {
                use_up(&disk, 60 << 10);
            }
            comm.barrier()?;
            let written: Vec<bool> =
                (0..8).map(|number| put(&mut data, number, 2).is_ok()).collect();
            assert!(written.contains(&false), "{written:?}");
            comm.barrier()?;
            assert_full(&message(put(&mut data, 7, 2)));
            let error = message(data.sync());
            assert_full(&error);
            let mut other = striate_array::Dataset::open(
                &comm,
                &path,
                OpenMode::ReadOnly,
                &Options::default(),
            )?;
            let Values::Byte(values) = other.values(v, &Slab::all())? else { panic!("no bytes") };
            for (at, value) in values.iter().enumerate() {
                let at = at as u64;
                let due = i8::from(at < 8 * chunk && at % chunk < count);
                assert_eq!(*value, due, "{at}");
            }
            other.close()?;
            comm.barrier()?;
            if rank == 0 {
                std::fs::remove_file(disk.join("ballast")).unwrap();
            }
            comm.barrier()?;
            // Those that were told to have failed are written again.
            for (number, _) in written.iter().enumerate().filter(|(_, done)| !**done) {
                put(&mut data, number as u64, 2)?;
            }
            data.sync()?;
            let Values::Byte(values) = data.values(v, &Slab::all())? else { panic!("no bytes") };
            for (at, value) in values.iter().enumerate() {
                let is_written = at as u64 % chunk < count;
                assert_eq!(*value, if is_written { 2 } else { 0 }, "{at}");
            }
            data.close()
        });
        assert!(std::fs::metadata(&path).is_ok());
    }
}

/// The first dimension of what waits.
const X: u64 = 1 << 10;

/// Strings and pieces of partitions that were written independently wait on when a sync fails.
#[test]
fn independent_writes_wait_on_after_a_sync_that_failed() {
    let test = "full_disk::independent_writes_wait_on_after_a_sync_that_failed";
    let Some(disk) = small_disk(test) else { return };
    for count in [1, 2] {
        let path = disk.join(format!("{count}.nc"));
        let mut options = Options::default();
        if count > 1 {
            options = options.with("nc_partitioning_enabled", "enable").unwrap();
            options = options.with("nc_num_partitions", &count.to_string()).unwrap();
        }
        ranks(2, |comm| {
            let mut define =
                striate_array::Dataset::create(&comm, &path, Format::Netcdf4, &options)?;
            let x = define.dimension("x", X)?;
            let y = define.dimension("y", 64)?;
            let texts = define.variable("texts", Type::String, &[x])?;
            let numbers = define.variable("numbers", Type::Int, &[x, y])?;
            define.storage(
                numbers,
                StorageOptions {
                    layout: StorageLayout::Chunked(vec![64, 64]),
                    filters: vec![ChunkFilter::Fletcher32],
                    ..StorageOptions::default()
                },
            )?;
            let mut data = define.end()?;
            data.sync()?;
            if comm.rank() == 0 {
                use_up(&disk, 60 << 10);
            }
            comm.barrier()?;
            let half = Slab::new(&[comm.rank() as u64 * X / 2], &[X / 2]);
            let text: Vec<String> = (0..X).map(|number| format!("{number} ").repeat(20)).collect();
            let own = |rank: usize| rank * X as usize / 2..(rank + 1) * X as usize / 2;
            data.put_strings(texts, &half, &text[own(comm.rank())])?;
            // In partitions of the own group and of the other one.
            let rows = Slab::new(&[comm.rank() as u64 * 32, 0], &[8, 64]).stride(&[64, 1]);
            data.put(numbers, &rows, &vec![7; 8 * 64])?;
            for _ in 0..2 {
                assert_full(&message(data.sync()));
            }
            // The rank sees what it wrote.
            assert_eq!(data.strings(texts, &half)?, text[own(comm.rank())]);
            if count == 1 || comm.rank() == 0 {
                let mut found = vec![0; 8 * 64];
                data.get(numbers, &rows, &mut found)?;
                assert!(found.iter().all(|&one| one == 7));
            }
            comm.barrier()?;
            if comm.rank() == 0 {
                std::fs::remove_file(disk.join("ballast")).unwrap();
            }
            comm.barrier()?;
            data.sync()?;
            assert_eq!(data.strings(texts, &Slab::all())?, text);
            let mut found = vec![0; (X * 64) as usize];
            data.get_all(numbers, &Slab::all(), &mut found)?;
            for (at, &one) in found.iter().enumerate() {
                let row = at as u64 / 64;
                let is_written = row.is_multiple_of(32) && row < 512;
                assert_eq!(one, if is_written { 7 } else { 0 }, "row {row}");
            }
            data.close()
        });
        for file in std::fs::read_dir(&disk).unwrap() {
            let file = file.unwrap().path();
            if file.is_dir() { std::fs::remove_dir_all(file) } else { std::fs::remove_file(file) }
                .unwrap();
        }
    }
}
