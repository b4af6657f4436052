//! Errors of partitioned datasets are equal on all ranks, and leave no files.

use std::path::Path;

use striate_array::{ArrayError, Dataset, Format, OpenMode, Options, Owner, Slab, Type, Values};
use striate_comm::Threads;

use crate::{divided, names, open, ranks, temporary_dataset};

/// A dataset of six rows and records, in three partitions.
fn example(path: &Path, options: &Options) {
    ranks(2, |comm| {
        let mut define = Dataset::create(&comm, path, Format::Cdf5, options)?;
        let time = define.unlimited("time")?;
        let y = define.dimension("y", 6)?;
        let x = define.dimension("x", 4)?;
        let a = define.variable("a", Type::Int, &[y, x])?;
        let b = define.variable("b", Type::Int, &[time, y, x])?;
        let c = define.variable("c", Type::Int, &[x])?;
        let mut data = define.end()?;
        data.put_all(a, &Slab::all(), &(0..24).collect::<Vec<i32>>())?;
        let records = Slab::new(&[0, 0, 0], &[2, 6, 4]);
        data.put_all(b, &records, &(0..48).collect::<Vec<i32>>())?;
        data.put_all(c, &Slab::all(), &[1, 2, 3, 4])?;
        data.close()
    });
}

fn part(directory: &Path, k: usize) -> std::path::PathBuf {
    let name = names(directory).into_iter().find(|name| name.contains(&format!(".part000{k}-")));
    directory.join(name.unwrap())
}

/// The error with which every rank fails to open a dataset.
fn open_error(path: &Path, mode: OpenMode) -> String {
    let mut errors = Vec::new();
    for count in [1, 2, 5] {
        let results = Threads::new(count)
            .run(|comm| Dataset::open(&comm, path, mode, &Options::default()).map(|_| ()));
        errors.extend(results.into_iter().map(|result| result.unwrap_err().to_string()));
    }
    assert!(errors.iter().all(|text| *text == errors[0]), "{errors:?}");
    errors.remove(0)
}

fn assert_open_error(path: &Path, part: &Path, words: &str) {
    let error = open_error(path, OpenMode::ReadOnly);
    let name = part.file_name().unwrap().to_str().unwrap();
    assert!(error.contains(name) && error.contains(words), "{error}");
}

#[test]
fn damaged_partitions_are_errors_that_name_them() {
    let (directory, path) = temporary_dataset();
    let directory = directory.path();
    example(&path, &divided(3));
    let second = part(directory, 1);
    let whole = std::fs::read(&second).unwrap();
    // Missing.
    std::fs::rename(&second, directory.join("elsewhere")).unwrap();
    assert_open_error(&path, &second, "No such file");
    // Of another dataset.
    let other = directory.join("other.nc");
    example(&other, &divided(3));
    let theirs = names(directory).into_iter().find(|name| name.starts_with("other.part0001"));
    let theirs = directory.join(theirs.unwrap());
    std::fs::copy(&theirs, &second).unwrap();
    assert_open_error(&path, &second, "it is of another dataset");
    // Another partition of the same.
    std::fs::copy(part(directory, 0), &second).unwrap();
    assert_open_error(&path, &second, "it is partition 0, not 1");
    // Not a netCDF file, unfinished, truncated, not a partition.
    std::fs::write(&second, b"something else").unwrap();
    assert_open_error(&path, &second, "not a netCDF classic file");
    let mut unfinished = whole.clone();
    unfinished[..3].copy_from_slice(b"cdf");
    std::fs::write(&second, &unfinished).unwrap();
    assert_open_error(&path, &second, "is unfinished");
    std::fs::write(&second, &whole[..whole.len() - 1]).unwrap();
    assert_open_error(
        &path,
        &second,
        &format!("it has {} bytes of {}", whole.len() - 1, whole.len()),
    );
    ranks(1, |comm| {
        let plain = Dataset::create(&comm, &second, Format::Cdf5, &Options::default())?;
        plain.end()?.close()
    });
    assert_open_error(&path, &second, "it is no partition");
    // Fewer records than the master states.
    let mut fewer = whole.clone();
    fewer[11] -= 1;
    std::fs::write(&second, &fewer).unwrap();
    assert_open_error(&path, &second, "it has 1 records, the master states 2");
    // More records are accepted: the number in the master is used.
    let mut more = whole.clone();
    more[11] += 1;
    std::fs::write(&second, &more).unwrap();
    ranks(2, |comm| {
        let data = open(&comm, &path, OpenMode::ReadOnly);
        assert_eq!(data.header().records, 2);
        data.close()
    });
    // Of an older generation.
    std::fs::write(&second, &whole).unwrap();
    ranks(2, |comm| {
        let mut define = open(&comm, &path, OpenMode::ReadWrite).redefine()?;
        define.attribute(Owner::Global, "more", 1)?;
        define.end()?.close()
    });
    std::fs::write(&second, &whole).unwrap();
    assert_open_error(&path, &second, "it is of generation 1, the master of 2");
}

#[test]
fn present_partitions_can_be_read() {
    let (directory, path) = temporary_dataset();
    example(&path, &divided(3));
    let second = part(directory.path(), 1);
    std::fs::remove_file(&second).unwrap();
    let partial = Options::default().with("nc_partitions_partial", "enable").unwrap();
    for count in [1, 2, 4] {
        ranks(count, |comm| {
            let mut data = Dataset::open(&comm, &path, OpenMode::ReadWrite, &partial)?;
            let missing = |k: usize| data.partitions().unwrap()[k].missing.is_some();
            assert_eq!([0, 1, 2].map(missing), [false, true, false]);
            let (a, b, c) = (data.variable("a")?, data.variable("b")?, data.variable("c")?);
            // Rows 2 and 3 are missing.
            let mut rows = vec![0; 8];
            data.get_all(a, &Slab::new(&[0, 0], &[2, 4]), &mut rows)?;
            assert_eq!(rows, (0..8).collect::<Vec<i32>>());
            let beyond = data.array::<i32>(a, &Slab::new(&[4, 0], &[2, 4]))?;
            assert_eq!(beyond[[1, 3]], 23);
            // A stride may skip them.
            let slab = Slab::new(&[1, 0, 0], &[1, 2, 4]).stride(&[1, 4, 1]);
            assert_eq!(data.array::<i32>(b, &slab)?[[0, 1, 0]], 40);
            assert_eq!(data.array::<i32>(c, &Slab::all())?[[3]], 4);
            let mut all = vec![0; 24];
            let names = |error: ArrayError| {
                let error = error.to_string();
                assert!(error.contains("part0001") && error.contains("No such file"), "{error}");
            };
            names(data.get_all(a, &Slab::all(), &mut all).unwrap_err());
            names(data.get(a, &Slab::element(&[2, 0]), &mut all[..1]).unwrap_err());
            names(data.put(a, &Slab::element(&[3, 0]), &[1]).unwrap_err());
            names(data.put_all(b, &Slab::new(&[2, 0, 0], &[1, 1, 4]), &[1; 4]).unwrap_err());
            names(data.grow(5).unwrap_err());
            data.put_all(a, &Slab::new(&[0, 0], &[2, 4]), &rows)?;
            comm.barrier()?;
            names(data.redefine().map(|_| ()).unwrap_err());
            Ok(())
        });
    }
}

#[test]
fn an_access_of_one_rank_to_a_missing_partition_is_an_error_of_all() {
    let (directory, path) = temporary_dataset();
    example(&path, &divided(3));
    std::fs::remove_file(part(directory.path(), 1)).unwrap();
    let partial = Options::default().with("nc_partitions_partial", "enable").unwrap();
    ranks(3, |comm| {
        let mut data = Dataset::open(&comm, &path, OpenMode::ReadOnly, &partial)?;
        let a = data.variable("a")?;
        let row = [0, 2, 5][comm.rank()];
        let mut values = [0; 4];
        let error = data.get_all(a, &Slab::new(&[row, 0], &[1, 4]), &mut values).unwrap_err();
        assert!(error.to_string().contains("part0001"), "{error}");
        data.close()
    });
}

#[test]
fn a_partition_can_be_opened_read_only() {
    let (directory, path) = temporary_dataset();
    example(&path, &divided(3));
    let second = part(directory.path(), 1);
    ranks(2, |comm| {
        let mut data = open(&comm, &second, OpenMode::ReadOnly);
        assert!(data.partitions().is_none());
        let a = data.variable("a")?;
        assert_eq!(data.shape(a), [2, 4]);
        assert_eq!(data.values(a, &Slab::all())?, (8..16).collect::<Vec<i32>>().into());
        assert_eq!(*data.attribute(a, "range(y)")?, Values::Int64(vec![2, 3]));
        assert_eq!(*data.attribute(Owner::Global, "partition_index")?, Values::Int64(vec![1]));
        data.close()
    });
    let error = open_error(&second, OpenMode::ReadWrite);
    assert!(error.contains("it is a part of 'data.nc'"), "{error}");
}

#[test]
fn reserved_names_are_refused() {
    let (directory, path) = temporary_dataset();
    ranks(2, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Cdf5, &divided(2))?;
        let x = define.dimension("x", 2)?;
        let v = define.variable("v", Type::Int, &[x])?;
        for (owner, name) in [
            (Owner::Global, "striate_dataset_id"),
            (Owner::Global, "partition_files"),
            (v.into(), "partition_ranges"),
            (v.into(), "range(x)"),
        ] {
            let error = define.attribute(owner, name, "mine").unwrap_err().to_string();
            assert!(error.contains(name) && error.contains("is reserved"), "{error}");
        }
        define.attribute(v, "partition_files", "not reserved here")?;
        define.abort()
    });
    assert_eq!(names(directory.path()), [""; 0]);
    // Plain datasets may have them.
    ranks(1, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Cdf5, &Options::default())?;
        define.attribute(Owner::Global, "partition_count", 3)?;
        define.end()?.close()?;
        assert!(open(&comm, &path, OpenMode::ReadWrite).partitions().is_none());
        Ok(())
    });
}

#[test]
fn impossible_divisions_are_refused_and_leave_no_files() {
    let (directory, path) = temporary_dataset();
    let lost = directory.path().join("no-such-directory").display().to_string();
    let lost = divided(3).with("nc_partition_targets", &lost).unwrap();
    let hint = divided(3).with("nc_partition_dims", "v:z").unwrap();
    for (options, par_dim_id, words) in [
        (divided(3), Some("z"), "par_dim_id of variable 'v': it has no dimension 'z'"),
        (divided(3), Some("time"), "'time' is unlimited and cannot be divided"),
        (hint, None, "nc_partition_dims of variable 'v': it has no dimension 'z'"),
        (lost, None, "no-such-directory"),
    ] {
        for count in [1, 2, 5] {
            let results = Threads::new(count).run(|comm| -> Result<(), ArrayError> {
                let mut define = Dataset::create(&comm, &path, Format::Cdf1, &options)?;
                let time = define.unlimited("time")?;
                let y = define.dimension("y", 9)?;
                let v = define.variable("v", Type::Int, &[time, y])?;
                if let Some(par_dim_id) = par_dim_id {
                    define.attribute(v, "par_dim_id", par_dim_id)?;
                }
                let ended = define.end();
                comm.barrier()?;
                ended.map(|_| ())
            });
            for result in results {
                let error = result.unwrap_err().to_string();
                assert!(error.contains(words), "{error}");
            }
            let left = names(directory.path());
            assert_eq!(left, [""; 0]);
        }
    }
}

#[test]
fn abort_does_not_change_published_datasets() {
    let (directory, path) = temporary_dataset();
    let define = |comm: &_| -> Result<Dataset, ArrayError> {
        let mut define = Dataset::create(comm, &path, Format::Cdf5, &divided(3))?;
        let y = define.dimension("y", 9)?;
        define.variable("v", Type::Int, &[y, y])?;
        define.end()
    };
    for count in [1, 2, 5] {
        ranks(count, |comm| {
            let mut data = define(&comm)?;
            let v = data.variable("v")?;
            data.put_all(v, &Slab::all(), &[1; 81])?;
            data.put(v, &Slab::element(&[8, 8]), &[2])?;
            data.abort()
        });
        assert_eq!(names(directory.path()), [""; 0]);
    }
    example(&path, &divided(3));
    let before = names(directory.path());
    ranks(2, |comm| {
        define(&comm)?.abort()?;
        // Aborting a redefinition of a new dataset deletes the dataset.
        define(&comm)?.redefine()?.abort()
    });
    assert_eq!(names(directory.path()), before);
    // A published dataset is not deleted.
    ranks(2, |comm| {
        let mut data = define(&comm)?;
        data.sync()?;
        data.abort()?;
        open(&comm, &path, OpenMode::ReadWrite).redefine()?.abort()
    });
    let after = names(directory.path());
    assert_eq!(after.len(), 4);
    assert!(after != before);
    ranks(2, |comm| {
        assert_eq!(open(&comm, &path, OpenMode::ReadOnly).header().variables.len(), 1);
        Ok(())
    });
}

#[test]
fn a_dataset_is_replaced_as_a_whole() {
    let (directory, path) = temporary_dataset();
    let files = |count: usize| {
        let names = names(directory.path());
        assert_eq!(names.len(), count, "{names:?}");
        names
    };
    example(&path, &divided(3));
    let first = files(4);
    // Exclusive: an existing dataset does not change.
    let exclusive = Options { exclusive: true, ..divided(2) };
    let results = Threads::new(2)
        .run(|comm| Dataset::create(&comm, &path, Format::Cdf5, &exclusive).map(|_| ()));
    for result in results {
        assert!(result.unwrap_err().to_string().contains("data.nc"));
    }
    assert_eq!(files(4), first);
    // While a new dataset is written, the old one is complete.
    ranks(2, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Cdf5, &divided(2))?;
        let y = define.dimension("y", 9)?;
        let v = define.variable("v", Type::Int, &[y, y])?;
        let mut data = define.end()?;
        data.put_all(v, &Slab::all(), &[1; 81])?;
        let old = open(&comm, &path, OpenMode::ReadOnly);
        assert_eq!(old.header().variables.len(), 3);
        old.close()?;
        data.sync()?;
        let new = open(&comm, &path, OpenMode::ReadOnly);
        assert_eq!(new.header().variables.len(), 1);
        new.close()?;
        data.put_all(v, &Slab::all(), &[2; 81])?;
        data.close()
    });
    let second = files(3);
    assert!(first.iter().all(|name| !second.contains(name) || name == "data.nc"));
    // An unpublished dataset of a killed writer.
    ranks(2, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Cdf5, &divided(3))?;
        let y = define.dimension("y", 9)?;
        define.variable("v", Type::Int, &[y, y])?;
        drop(define.end()?);
        Ok(())
    });
    files(3 + 4);
    // A file of another dataset under a listed name is not deleted.
    let is_new = |name: &String| name.contains(".part") && !second.contains(name);
    let new = names(directory.path()).into_iter().find(is_new).unwrap();
    let theirs = directory.path().join(new);
    std::fs::write(&theirs, b"theirs").unwrap();
    example(&path, &divided(3));
    std::fs::remove_file(&theirs).unwrap();
    files(4);
    // A plain dataset that replaces it also removes its partitions.
    example(&path, &Options::default());
    assert_eq!(files(1), ["data.nc"]);
    // A partitioned dataset replaces the plain one.
    example(&path, &divided(3));
    files(4);
}

#[test]
fn nothing_to_divide_is_a_plain_file() {
    let (directory, path) = temporary_dataset();
    let one = divided(1);
    let in_directory = Options::default().with("nc_partitioning_enabled", "true").unwrap();
    let deep = divided(4).with("min_ndims", "3").unwrap();
    for options in [one, in_directory, deep] {
        example(&path, &options);
        assert_eq!(names(directory.path()), ["data.nc"]);
        ranks(2, |comm| {
            let data = open(&comm, &path, OpenMode::ReadOnly);
            assert!(data.partitions().is_none());
            assert_eq!(data.header().attributes, []);
            data.close()
        });
    }
}

#[test]
fn redefinitions_that_would_move_data_are_refused() {
    let (directory, path) = temporary_dataset();
    example(&path, &divided(3));
    let before: Vec<Vec<u8>> = names(directory.path())
        .iter()
        .map(|n| std::fs::read(directory.path().join(n)).unwrap())
        .collect();
    for name in ["a", "c"] {
        ranks(2, |comm| {
            let mut define = open(&comm, &path, OpenMode::ReadWrite).redefine()?;
            let v = define.variables().nth(usize::from(name == "c") * 2).unwrap();
            define.attribute(v, "par_dim_id", "x")?;
            let error = define.end().unwrap_err().to_string();
            assert!(error.contains(&format!("par_dim_id of variable '{name}'")), "{error}");
            Ok(())
        });
    }
    let after: Vec<Vec<u8>> = names(directory.path())
        .iter()
        .map(|n| std::fs::read(directory.path().join(n)).unwrap())
        .collect();
    assert_eq!(before, after);
}

#[test]
fn options_of_rank_0_are_used() {
    let (directory, path) = temporary_dataset();
    ranks(3, |comm| {
        let options = if comm.rank() == 0 { divided(2) } else { Options::default() };
        let mut define = Dataset::create(&comm, &path, Format::Cdf2, &options)?;
        let y = define.dimension("y", 9)?;
        define.variable("v", Type::Int, &[y, y])?;
        define.end()?.close()
    });
    assert_eq!(names(directory.path()).len(), 3);
}
