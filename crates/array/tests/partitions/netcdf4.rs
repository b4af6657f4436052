//! Partitions that are netCDF-4 files: groups, several unlimited dimensions, chunks and filters.

use std::path::Path;

use striate_array::format::{ByteOrder, ChunkFilter, StorageLayout, StorageOptions};
use striate_array::{
    ArrayError, Dataset, DatasetFiles, DatasetKind, Format, GroupId, IfExists, OpenMode, Options,
    Owner, Ownership, Slab, Type, Values,
};

use crate::{divided, names, open, ranks, temporary_dataset};

const X: u64 = 7;

fn chunks(shape: &[u64], filters: &[ChunkFilter], byte_order: ByteOrder) -> StorageOptions {
    let layout = StorageLayout::Chunked(shape.to_vec());
    StorageOptions { layout, filters: filters.to_vec(), byte_order }
}

const PACKED: [ChunkFilter; 2] = [ChunkFilter::Shuffle, ChunkFilter::Deflate(2)];

/// A value of the variable of that path.
fn value(path: &str, index: usize) -> i32 {
    path.len() as i32 * 10_000 + index as i32
}

/// Two groups, of which the second has a group; variables of the same name in all of them, and two
/// unlimited dimensions. What belongs to a group is not defined at one time.
fn create(path: &Path, ranks_: usize, count: u64) {
    ranks(ranks_, |comm| {
        let mut define = Dataset::create(&comm, path, Format::Netcdf4, &divided(count))?;
        let time = define.unlimited("time")?;
        let x = define.dimension("x", X)?;
        let first = define.group("first")?;
        let level = define.unlimited("level")?;
        let heat = define.variable("heat", Type::Int, &[time, x])?;
        define.storage(heat, chunks(&[2, 5], &PACKED, ByteOrder::Little))?;
        define.enter(GroupId::ROOT)?;
        let second = define.group("second")?;
        let inner = define.group("inner")?;
        let y = define.dimension("y", 5)?;
        let cube = define.variable("heat", Type::Int, &[level, y, time])?;
        define.storage(cube, chunks(&[1, 4, 3], &[], ByteOrder::Big))?;
        define.attribute(cube, "units", "K")?;
        define.fill(cube, true);
        define.enter(GroupId::ROOT)?;
        define.variable("heat", Type::Int, &[x, x])?;
        define.variable("x", Type::Int, &[x])?;
        define.enter(second)?;
        // Without a dimension that can be divided.
        define.variable("both", Type::Int, &[time, level])?;
        define.attribute(Owner::Group(inner), "note", "of a group")?;
        define.attribute(Owner::Group(first), "number", vec![3])?;
        let mut data = define.end()?;
        write(&mut data, &[("time", 3), ("first/level", 2)])?;
        data.close()
    });
}

/// Gives dimensions their lengths, and writes everything: each rank a range of the first
/// dimension.
fn write(data: &mut Dataset, lengths: &[(&str, u64)]) -> Result<(), ArrayError> {
    for (name, len) in lengths {
        data.grow_dimension(data.dimension(name)?, *len)?;
    }
    let (rank, size) = (data.comm().rank() as u64, data.comm().size() as u64);
    for variable in data.variables().collect::<Vec<_>>() {
        let of = &data.header().variables[variable.index()];
        let path = data.header().path(of.group, &of.name);
        let shape = data.shape(variable);
        let rows = shape[0] * rank / size..shape[0] * (rank + 1) / size;
        let row: u64 = shape[1..].iter().product();
        let values: Vec<i32> =
            (rows.start * row..rows.end * row).map(|at| value(&path, at as usize)).collect();
        let mut start = vec![0; shape.len()];
        let mut count = shape.clone();
        (start[0], count[0]) = (rows.start, rows.end - rows.start);
        data.put_all(variable, &Slab::new(&start, &count), &values)?;
    }
    Ok(())
}

/// Reads everything, in both modes.
fn check(data: &mut Dataset) -> Result<(), ArrayError> {
    for variable in data.variables().collect::<Vec<_>>() {
        let of = data.header().variables[variable.index()].clone();
        let path = data.header().path(of.group, &of.name);
        let len = data.shape(variable).iter().product::<u64>() as usize;
        let expected: Vec<i32> = (0..len).map(|at| value(&path, at)).collect();
        assert_eq!(data.values(variable, &Slab::all())?, Values::Int(expected.clone()), "{path}");
        let mut found = vec![0; len];
        data.get_all(variable, &Slab::all(), &mut found)?;
        assert_eq!(found, expected, "{path}");
    }
    Ok(())
}

#[test]
fn groups_and_storage_are_those_of_the_dataset() {
    for (writers, readers, count) in [(1, 3, 3), (4, 1, 2), (2, 4, 5), (5, 2, 3)] {
        let (directory, path) = temporary_dataset();
        create(&path, writers, count);
        ranks(readers, |comm| {
            let mut data = open(&comm, &path, OpenMode::ReadOnly);
            assert_eq!(data.partitions().map(<[_]>::len), Some(count as usize));
            let stored = |name: &str| -> Result<_, ArrayError> {
                let variable = data.variable(name)?;
                Ok(data.header().variables[variable.index()].storage.clone())
            };
            assert_eq!(stored("first/heat")?, chunks(&[2, 5], &PACKED, ByteOrder::Little));
            let cube = chunks(&[1, 4, 3], &[], ByteOrder::Big);
            assert_eq!(stored("second/inner/heat")?, cube);
            let shape = |name: &str| Ok::<_, ArrayError>(data.shape(data.variable(name)?));
            assert_eq!(shape("second/inner/heat")?, [2, 5, 3]);
            assert_eq!(shape("second/both")?, [3, 2]);
            let inner = data.header().groups.iter().find(|group| group.name == "inner").unwrap();
            assert_eq!(inner.attributes[0].values, Values::from("of a group"));
            assert!(data.header().attributes.is_empty(), "{:?}", data.header().attributes);
            check(&mut data)?;
            data.close()
        });
        // Each partition is a file of its own, with the groups of the dataset.
        let files = names(directory.path());
        assert_eq!(files.len() as u64, 1 + count, "{files:?}");
        for (k, file) in files.iter().filter(|file| file.contains(".part")).enumerate() {
            ranks(1, |comm| {
                let file = directory.path().join(file);
                let part = Dataset::open_raw(&comm, &file, &Options::default())?;
                assert_eq!(part.format_of("first/heat")?, part.format_of("heat")?);
                let index = part.attribute(Owner::Global, "partition_index")?;
                assert_eq!(*index, Values::Int64(vec![k as i64]));
                let cube = part.variable("second/inner/heat")?;
                let of = |k: u64| 5 * k / count;
                let (k, next) = (k as u64, k as u64 + 1);
                let range = Values::Int64(vec![of(k) as i64, of(next) as i64 - 1]);
                assert_eq!(*part.attribute(cube, "range(y)")?, range);
                let len = of(next) - of(k);
                assert_eq!(part.shape(cube), [2, len, 3]);
                let layout = &part.header().variables[cube.index()].storage.layout;
                assert_eq!(*layout, StorageLayout::Chunked(vec![1, len.min(4), 3]));
                // A copy of the coordinate.
                assert_eq!(part.shape(part.variable("x")?).len(), 1);
                part.close()
            });
        }
    }
}

trait FormatOf {
    fn format_of(&self, variable: &str) -> Result<Type, ArrayError>;
}

impl FormatOf for Dataset {
    fn format_of(&self, variable: &str) -> Result<Type, ArrayError> {
        Ok(self.header().variables[self.variable(variable)?.index()].external)
    }
}

#[test]
fn reopened_datasets_grow_and_get_variables() {
    for (first, second, count) in [(2, 3, 2), (3, 1, 4), (1, 5, 3)] {
        let (_directory, path) = temporary_dataset();
        create(&path, first, count);
        ranks(second, |comm| {
            let mut data = open(&comm, &path, OpenMode::ReadWrite);
            check(&mut data)?;
            write(&mut data, &[("time", 9), ("first/level", 4)])?;
            let mut define = data.redefine()?;
            define.enter(GroupId::ROOT)?;
            let z = define.dimension("z", 6)?;
            let at = |name: &str| define.header().dimensions.iter().position(|it| it.name == name);
            let (time, x) = (at("time").unwrap(), at("x").unwrap());
            let [time, x] = [time, x].map(|at| define.dimensions().nth(at).unwrap());
            define.rename_dimension(x, "longitude")?;
            let both = define.variable("both", Type::Int, &[z, time])?;
            define.storage(both, chunks(&[2, 2], &PACKED, ByteOrder::Big))?;
            define.variable("z", Type::Int, &[z])?;
            define.group("new")?;
            define.variable("heat", Type::Int, &[time, z, x])?;
            let mut data = define.end()?;
            write(&mut data, &[("time", 11)])?;
            data.sync()?;
            check(&mut data)?;
            data.close()
        });
        for (readers, len) in [(1, 11), (4, 12)] {
            ranks(readers, |comm| {
                let mut data = open(&comm, &path, OpenMode::ReadWrite);
                assert_eq!(data.shape(data.variable("new/heat")?), [len, 6, X]);
                check(&mut data)?;
                // Once more with what was read.
                write(&mut data, &[("time", 12)])?;
                data.sync()?;
                check(&mut data)?;
                data.close()
            });
        }
    }
}

#[test]
fn independent_writes_to_any_partition_are_read() {
    let (_directory, path) = temporary_dataset();
    ranks(4, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Netcdf4, &divided(2))?;
        let time = define.unlimited("time")?;
        let x = define.dimension("x", 12)?;
        let plain = define.variable("plain", Type::Int, &[time, x])?;
        let packed = define.variable("packed", Type::Int, &[x, time])?;
        define.storage(packed, chunks(&[5, 1], &PACKED, ByteOrder::Little))?;
        let mut data = define.end()?;
        data.grow_dimension(time, 8)?;
        let (rank, size) = (comm.rank() as u64, comm.size() as u64);
        for round in 0..2 {
            // Every rank writes to both partitions, and all to the same chunks.
            for row in (0..8).filter(|row| (row + round) % size == rank) {
                let values: Vec<i32> =
                    (0..12).map(|x| (round * 1000 + row * 12 + x) as i32).collect();
                data.put(plain, &Slab::new(&[row, 0], &[1, 12]), &values)?;
                data.put(packed, &Slab::new(&[0, row], &[12, 1]), &values)?;
                // A rank reads what it wrote, in any way.
                let mut found = vec![0; 6];
                let slab = Slab::new(&[0, row], &[6, 1]).stride(&[2, 1]);
                data.get(packed, &slab, &mut found)?;
                assert!(found.iter().zip(values.iter().step_by(2)).all(|(a, b)| a == b));
            }
            data.sync()?;
            for variable in [plain, packed] {
                let mut found = vec![0; 96];
                data.get(variable, &Slab::all(), &mut found)?;
                let at = |n: u64| if variable == plain { n } else { n % 8 * 12 + n / 8 };
                assert!((0..96).all(|n| found[n as usize] == (round * 1000 + at(n)) as i32));
            }
            comm.barrier()?;
        }
        // The next collective write carries out what waits.
        data.put(packed, &Slab::element(&[rank, rank]), &[77])?;
        let mut found = vec![0; 1];
        data.get_all(packed, &Slab::element(&[rank, rank]), &mut found)?;
        assert_eq!(found, [77]);
        data.put_all(packed, &Slab::element(&[11 - rank, rank]), &[78])?;
        data.get_all(packed, &Slab::element(&[(rank + 1) % size, (rank + 1) % size]), &mut found)?;
        assert_eq!(found, [77]);
        // Chunks that were written since the last sync are known to all.
        comm.barrier()?;
        for of in 0..size {
            data.get(packed, &Slab::element(&[11 - of, of]), &mut found)?;
            assert_eq!(found, [78]);
            data.get(packed, &Slab::element(&[of, of]), &mut found)?;
            assert_eq!(found, [77]);
        }
        data.close()
    });
}

#[test]
fn a_damaged_or_foreign_partition_is_named() {
    let (directory, path) = temporary_dataset();
    create(&path, 2, 3);
    let part = names(directory.path()).into_iter().find(|name| name.contains(".part0001")).unwrap();
    let part = directory.path().join(part);
    let whole = std::fs::read(&part).unwrap();
    let refusal = || {
        let opened = ranks(1, |comm| {
            let opened = Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default());
            Ok(opened.err().map(|error| error.to_string()))
        });
        opened[0].clone().unwrap_or_default()
    };
    std::fs::write(&part, &whole[..whole.len() / 2]).unwrap();
    let text = refusal();
    assert!(text.contains(".part0001"), "{text}");
    let other =
        names(directory.path()).into_iter().find(|name| name.contains(".part0002")).unwrap();
    std::fs::copy(directory.path().join(other), &part).unwrap();
    assert!(refusal().contains("it is partition 2, not 1"), "{}", refusal());
    std::fs::remove_file(&part).unwrap();
    assert!(refusal().contains(".part0001"), "{}", refusal());
    // What is left can be read.
    ranks(2, |comm| {
        let options = Options::default().with("nc_partitions_partial", "enable").unwrap();
        let mut data = Dataset::open(&comm, &path, OpenMode::ReadOnly, &options)?;
        let heat = data.variable("heat")?;
        let mut found = vec![0; 2 * X as usize];
        data.get_all(heat, &Slab::new(&[0, 0], &[2, X]), &mut found)?;
        assert!(data.get_all(heat, &Slab::new(&[3, 0], &[1, X]), &mut found[..7]).is_err());
        data.close()
    });
    std::fs::write(&part, &whole).unwrap();
    assert_eq!(refusal(), "");
    // A partition is not written by itself.
    let alone = ranks(1, |comm| {
        let opened = Dataset::open(&comm, &part, OpenMode::ReadWrite, &Options::default());
        Ok(opened.err().map(|error| error.to_string()).unwrap_or_default())
    });
    assert!(alone[0].contains("opened for writing as a whole"), "{alone:?}");
}

#[test]
fn renamed_and_removed_as_one() {
    let (directory, path) = temporary_dataset();
    create(&path, 2, 3);
    let place = directory.path().join("other");
    std::fs::create_dir(&place).unwrap();
    for to in [directory.path().join("new.nc"), place.join("data.nc")] {
        let from =
            if to.starts_with(&place) { directory.path().join("new.nc") } else { path.clone() };
        DatasetFiles::of(&from).unwrap().rename(&to, IfExists::Fail).unwrap();
        assert!(!from.exists());
        let files = DatasetFiles::of(&to).unwrap();
        assert!(matches!(files.kind, DatasetKind::Partitioned { .. }));
        assert!(files.partitions.iter().all(|part| part.ownership == Ownership::Own), "{files:?}");
        ranks(2, |comm| {
            let mut data = open(&comm, &to, OpenMode::ReadWrite);
            check(&mut data)?;
            write(&mut data, &[("time", 4)])?;
            data.close()?;
            let mut data = open(&comm, &to, OpenMode::ReadWrite);
            check(&mut data)?;
            write(&mut data, &[("time", 3)])?;
            data.close()
        });
    }
    // A copy of the master owns nothing.
    let copy = place.join("copy.nc");
    std::fs::copy(place.join("data.nc"), &copy).unwrap();
    assert_eq!(DatasetFiles::of(&copy).unwrap().copy_of(), Some(place.join("data.nc").as_path()));
    assert_eq!(DatasetFiles::of(&copy).unwrap().remove().unwrap(), [copy]);
    let removed = DatasetFiles::of(place.join("data.nc")).unwrap().remove().unwrap();
    assert_eq!(removed.len(), 4, "{removed:?}");
    assert_eq!(names(&place), Vec::<String>::new());
}

#[test]
fn a_new_dataset_replaces_one_and_an_abort_leaves_it() {
    let (directory, path) = temporary_dataset();
    create(&path, 2, 3);
    let before = names(directory.path());
    ranks(2, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Netcdf4Classic, &divided(2))?;
        let x = define.dimension("x", 8)?;
        define.variable("a", Type::Int, &[x, x])?;
        define.end()?.abort()
    });
    assert_eq!(names(directory.path()), before);
    ranks(2, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Netcdf4Classic, &divided(2))?;
        let x = define.dimension("x", 8)?;
        let a = define.variable("a", Type::Int, &[x, x])?;
        let mut data = define.end()?;
        data.put_all(a, &Slab::all(), &vec![5; 64])?;
        data.close()
    });
    assert_eq!(names(directory.path()).len(), 3, "{:?}", names(directory.path()));
    // What cannot be stored is refused before there are files.
    ranks(2, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Netcdf4, &divided(2))?;
        let time = define.unlimited("time")?;
        let x = define.dimension("x", 8)?;
        let a = define.variable("a", Type::Int, &[time, x])?;
        let layout = StorageLayout::Contiguous;
        define.storage(a, StorageOptions { layout, ..StorageOptions::default() })?;
        let refused = define.end().unwrap_err().to_string();
        assert!(refused.contains("cannot be contiguous"), "{refused}");
        Ok(())
    });
    assert_eq!(names(directory.path()).len(), 3);
}

/// Strings and elements of users' types are in the master, beside variables that are divided.
#[test]
fn strings_and_types_of_users_stay_in_the_master() {
    let (_directory, path) = temporary_dataset();
    ranks(3, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Netcdf4, &divided(2))?;
        let (y, x) = (define.dimension("y", 6)?, define.dimension("x", X)?);
        let sky = define.enumeration("sky", Type::Byte, &[("clear", 0), ("cloudy", 1)])?;
        let heat = define.variable("heat", Type::Int, &[y, x])?;
        let names = define.variable("names", Type::String, &[y, x])?;
        let skies = define.variable("skies", sky, &[y, x])?;
        let mut data = define.end()?;
        let rank = comm.rank() as u64;
        let own = Slab::new(&[2 * rank, 0], &[2, X]);
        data.put_all(heat, &own, &vec![rank as i32; 14])?;
        data.put_strings_all(names, &own, &vec![format!("of rank {rank}"); 14])?;
        data.put_all(skies, &own, &vec![(rank % 2) as i8; 14])?;
        data.close()
    });
    ranks(2, |comm| {
        let mut data = open(&comm, &path, OpenMode::ReadOnly);
        let partitions = data.partitions().unwrap_or_default();
        let of_each = partitions.iter().map(|one| one.variables.len()).collect::<Vec<_>>();
        assert_eq!(of_each, [1, 1], "only 'heat' is divided");
        for rank in 0..3 {
            let own = Slab::new(&[2 * rank, 0], &[2, X]);
            let (heat, names) = (data.variable("heat")?, data.variable("names")?);
            let skies = data.variable("skies")?;
            assert_eq!(data.values(heat, &own)?, Values::Int(vec![rank as i32; 14]));
            assert_eq!(data.strings(names, &own)?, vec![format!("of rank {rank}"); 14]);
            let mut found = vec![0_i8; 14];
            data.get(skies, &own, &mut found)?;
            assert_eq!(found, vec![(rank % 2) as i8; 14]);
        }
        data.close()
    });
    ranks(2, |comm| {
        let refused = path.with_extension("refused");
        let mut define = Dataset::create(&comm, &refused, Format::Netcdf4, &divided(2))?;
        let y = define.dimension("y", 6)?;
        let names = define.variable("names", Type::String, &[y])?;
        define.partition_along(names, y)?;
        let error = define.end().unwrap_err().to_string();
        assert!(error.contains("'names'") && error.contains("master"), "{error}");
        Ok(())
    });
}

/// Independent writes to filtered chunks of partitions, in partitions of the own group and of
/// others, are more than may wait in memory. What waits in the file goes with the next sync.
#[test]
fn independent_writes_beyond_the_cache() {
    const ROWS: u64 = 48;
    const COLUMNS: u64 = 40;
    for (count, parts, cache) in [(1, 2, "1"), (2, 2, "300"), (3, 2, "20000"), (4, 5, "2000")] {
        let (_directory, path) = temporary_dataset();
        let lengths = ranks(count, |comm| {
            let options = divided(parts).with("nc_chunk_cache", cache)?;
            let mut define = Dataset::create(&comm, &path, Format::Netcdf4, &options)?;
            let time = define.unlimited("time")?;
            let y = define.dimension("y", ROWS)?;
            let x = define.dimension("x", COLUMNS)?;
            let packed = define.variable("packed", Type::Int, &[y, x])?;
            define.storage(packed, chunks(&[5, 7], &PACKED, ByteOrder::Little))?;
            let grown = define.variable("grown", Type::Int, &[time, y])?;
            define.storage(grown, chunks(&[2, 9], &PACKED, ByteOrder::Big))?;
            let mut data = define.end()?;
            let (rank, size) = (comm.rank() as u64, comm.size() as u64);
            let mut lengths = Vec::new();
            for round in 0..6 {
                // Every rank has columns in all chunks of all partitions.
                for column in (rank..COLUMNS).step_by(comm.size()) {
                    for (half, count) in [(0, 20), (20, ROWS - 20)] {
                        let slab = Slab::new(&[half, column], &[count, 1]);
                        let values: Vec<i32> = (half..half + count)
                            .map(|row| (round * 1_000_000 + row * 1000 + column) as i32)
                            .collect();
                        data.put(packed, &slab, &values)?;
                    }
                    if column % 9 == 0 {
                        let mut found = vec![0; ROWS as usize];
                        data.get(packed, &Slab::new(&[0, column], &[ROWS, 1]), &mut found)?;
                        let due =
                            (0..ROWS).map(|row| (round * 1_000_000 + row * 1000 + column) as i32);
                        assert!(found.into_iter().eq(due), "its own writes");
                    }
                }
                if round == 2 {
                    // Growth takes space while pieces wait in the file.
                    data.grow_dimension(time, 4)?;
                }
                if round == 4 {
                    let (start, end) = (ROWS * rank / size, ROWS * (rank + 1) / size);
                    let own = Slab::new(&[0, start], &[4, end - start]);
                    data.put(grown, &own, &vec![9; 4 * (end - start) as usize])?;
                }
                data.sync()?;
                lengths.push(std::fs::metadata(&path).map_or(0, |it| it.len()));
                let mut found = vec![0; (ROWS * COLUMNS) as usize];
                data.get_all(packed, &Slab::all(), &mut found)?;
                for (at, found) in found.iter().enumerate() {
                    let (row, column) = (at as u64 / COLUMNS, at as u64 % COLUMNS);
                    assert_eq!(
                        *found,
                        (round * 1_000_000 + row * 1000 + column) as i32,
                        "{row} {column}"
                    );
                }
            }
            let mut found = vec![0; (4 * ROWS) as usize];
            data.get_all(grown, &Slab::all(), &mut found)?;
            assert!(found.iter().all(|&one| one == 9), "{found:?}");
            data.close()?;
            Ok(lengths)
        });
        // What waited in the file of the master is not part of it.
        let longest = lengths.iter().flatten().max().unwrap();
        assert!(*longest < 100_000, "{lengths:?}");
        ranks(2, |comm| {
            let mut data = open(&comm, &path, OpenMode::ReadOnly);
            let packed = data.variable("packed")?;
            let Values::Int(found) = data.values(packed, &Slab::all())? else {
                panic!("no numbers")
            };
            let due = (0..ROWS * COLUMNS)
                .map(|at| (5_000_000 + at / COLUMNS * 1000 + at % COLUMNS) as i32);
            assert!(found.into_iter().eq(due));
            data.close()
        });
    }
}

/// Ranks access partitions of all groups by themselves between collective writes that add elements
/// and move chunks, without a sync: they see what was written, and write to what is new.
#[test]
fn all_ranks_know_what_collective_writes_have_placed() {
    const WIDTH: u64 = 23;
    for (count, parts) in [(2, 2), (4, 2), (3, 5), (4, 3)] {
        let (_directory, path) = temporary_dataset();
        ranks(count, |comm| {
            let (rank, size) = (comm.rank() as u64, comm.size() as u64);
            let mut define = Dataset::create(&comm, &path, Format::Netcdf4, &divided(parts))?;
            let time = define.unlimited("time")?;
            let x = define.dimension("x", WIDTH)?;
            // Two that grow in turn, so that chunks of one are not at equal distances.
            let boxed = [define.variable("a", Type::Int, &[time, x])?, {
                let b = define.variable("b", Type::Int, &[time, x])?;
                define.storage(b, chunks(&[1, 3], &[], ByteOrder::Big))?;
                b
            }];
            let packed = define.variable("packed", Type::Int, &[x, time])?;
            define.storage(packed, chunks(&[4, 3], &PACKED, ByteOrder::Little))?;
            let mut data = define.end()?;
            let at = |round: u64, row: u64, x: u64| (round * 10_000 + row * 100 + x) as i32;
            for round in 0..80_u64 {
                // Each round adds a row, and writes the one before again.
                let rows = round.saturating_sub(1)..round + 1;
                for variable in boxed {
                    let row = if round == 40 { rows.start } else { round };
                    let (start, end) = (WIDTH * rank / size, WIDTH * (rank + 1) / size);
                    let values: Vec<i32> = (start..end).map(|x| at(round, row, x)).collect();
                    data.put_all(variable, &Slab::new(&[row, start], &[1, end - start]), &values)?;
                }
                let (start, end) = (WIDTH * rank / size, WIDTH * (rank + 1) / size);
                let slab = Slab::new(&[start, rows.start], &[end - start, rows.end - rows.start]);
                let values: Vec<i32> = (start..end)
                    .flat_map(|x| rows.clone().map(move |row| at(round, row, x)))
                    .collect();
                data.put_all(packed, &slab, &values)?;
                comm.barrier()?;
                // The rank's turn to look; others have handles of several rounds before.
                if (round + rank) % 3 == 0 {
                    let mut found = vec![0; WIDTH as usize];
                    if round != 40 {
                        data.get(boxed[1], &Slab::new(&[round, 0], &[1, WIDTH]), &mut found)?;
                        assert!((0..).zip(&found).all(|(x, it)| *it == at(round, round, x)));
                    }
                    for row in rows.clone() {
                        data.get(packed, &Slab::new(&[0, row], &[WIDTH, 1]), &mut found)?;
                        assert!((0..).zip(&found).all(|(x, it)| *it == at(round, row, x)));
                    }
                }
                comm.barrier()?;
                // New elements are written by a rank of any group, and read by the next one.
                if round != 40 {
                    let x = (round * 7 + 11 * rank) % WIDTH;
                    let x_of_next = (round * 7 + 11 * ((rank + 1) % size)) % WIDTH;
                    data.put(boxed[0], &Slab::element(&[round, x]), &[-5])?;
                    comm.barrier()?;
                    let mut found = [0];
                    data.get(boxed[0], &Slab::element(&[round, x_of_next]), &mut found)?;
                    assert_eq!(found, [-5], "{round}");
                    data.put(packed, &Slab::element(&[x, round]), &[-6])?;
                    data.get(packed, &Slab::element(&[x, round]), &mut found)?;
                    assert_eq!(found, [-6], "{round}");
                }
                if round == 55 {
                    data.sync()?;
                }
            }
            // Growth without data, too.
            data.grow_dimension(time, 100)?;
            data.put(boxed[0], &Slab::element(&[99, (rank * 9) % WIDTH]), &[12])?;
            comm.barrier()?;
            let mut found = [0];
            data.get(boxed[0], &Slab::element(&[99, ((rank + 1) % size * 9) % WIDTH]), &mut found)?;
            assert_eq!(found, [12]);
            data.close()
        });
    }
}
