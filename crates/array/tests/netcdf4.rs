//! netCDF-4 files: what is written is read again, by ranks of any number, whatever the storage.

mod netcdf4_costs;
#[path = "netcdf4_types/mod.rs"]
mod types;

use std::path::Path;
use std::sync::Arc;

use striate_array::format::{ByteOrder, ChunkFilter, StorageLayout, StorageOptions};
use striate_array::{
    ArrayError, Dataset, Definition, Format, OpenMode, Options, Owner, Pending, Slab, Type, Values,
};
use striate_comm::{Comm, Threads};
use tempfile::TempDir;

fn chunked(shape: &[u64], filters: &[ChunkFilter]) -> StorageOptions {
    StorageOptions {
        layout: StorageLayout::Chunked(shape.to_vec()),
        filters: filters.to_vec(),
        byte_order: ByteOrder::Little,
    }
}

fn create(comm: &Arc<dyn Comm>, path: &Path) -> Result<Definition, ArrayError> {
    Dataset::create(comm, path, Format::Netcdf4, &Options::default())
}

/// Every rank writes a column of blocks, whose edges are not those of chunks, and reads a row.
#[test]
fn blocks_of_ranks_in_every_storage() {
    let filters = [ChunkFilter::Shuffle, ChunkFilter::Deflate(4), ChunkFilter::Fletcher32];
    let storages = [
        StorageOptions::default(),
        StorageOptions { byte_order: ByteOrder::Big, ..StorageOptions::default() },
        chunked(&[3, 5], &[]),
        chunked(&[16, 24], &[]),
        chunked(&[1, 24], &[]),
        chunked(&[3, 5], &filters),
        chunked(&[16, 24], &filters),
        chunked(&[5, 7], &[ChunkFilter::Zstd(3)]),
    ];
    let place = TempDir::new().unwrap();
    for ranks in [1, 2, 3, 4] {
        let path = place.path().join("blocks.nc");
        Threads::new(ranks)
            .try_run(|comm| {
                let mut define = create(&comm, &path)?;
                let y = define.dimension("y", 16)?;
                let x = define.dimension("x", 24)?;
                let mut variables = Vec::new();
                for (number, storage) in storages.iter().enumerate() {
                    let variable = define.variable(&format!("v{number}"), Type::Int, &[y, x])?;
                    define.storage(variable, storage.clone())?;
                    define.attribute(variable, "units", "K")?;
                    variables.push(variable);
                }
                define.attribute(Owner::Global, "title", "blocks")?;
                let mut data = define.end()?;
                let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
                let (low, high) = (24 * rank / ranks, 24 * (rank + 1) / ranks);
                let value = |y: u64, x: u64| (y * 100 + x) as i32;
                let block: Vec<i32> =
                    (0..16).flat_map(|y| (low..high).map(move |x| value(y, x))).collect();
                for &variable in &variables {
                    data.put_all(variable, &Slab::new(&[0, low], &[16, high - low]), &block)?;
                }
                data.sync()?;
                let rows = 16 * rank / ranks..16 * (rank + 1) / ranks;
                let expected: Vec<i32> =
                    rows.clone().flat_map(|y| (0..24).map(move |x| value(y, x))).collect();
                let slab = Slab::new(&[rows.start, 0], &[rows.end - rows.start, 24]);
                for (number, &variable) in variables.iter().enumerate() {
                    let mut read = vec![0; expected.len()];
                    data.get_all(variable, &slab, &mut read)?;
                    assert_eq!(read, expected, "storage {number}, {ranks} ranks");
                    // Every third column of every second row, as another type.
                    let sparse = Slab::new(&[1, 2], &[8, 7]).stride(&[2, 3]);
                    let mut read = vec![0_f64; 56];
                    data.get(variable, &sparse, &mut read)?;
                    let expected: Vec<f64> = (0..8)
                        .flat_map(|y| (0..7).map(move |x| f64::from(value(1 + 2 * y, 2 + 3 * x))))
                        .collect();
                    assert_eq!(read, expected, "storage {number}, {ranks} ranks, strided");
                }
                data.close()
            })
            .unwrap();
        // Another number of ranks.
        Threads::new(5 - ranks)
            .try_run(|comm| {
                let mut data =
                    Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default())?;
                assert_eq!(data.header().format, Format::Netcdf4);
                assert_eq!(data.attribute(Owner::Global, "title")?, &Values::from("blocks"));
                let expected: Vec<i32> =
                    (0..16).flat_map(|y| (0..24).map(move |x| y * 100 + x)).collect();
                for variable in data.variables() {
                    assert_eq!(data.attribute(variable, "units")?, &Values::from("K"));
                    let values = data.values(variable, &Slab::all())?;
                    assert_eq!(values, Values::from(expected.clone()), "{variable:?}");
                }
                data.close()
            })
            .unwrap();
    }
}

/// Two unlimited dimensions grow in turn; what was never written reads as the fill value.
#[test]
fn growth_in_two_directions() {
    let filters = [ChunkFilter::Shuffle, ChunkFilter::Deflate(1)];
    let place = TempDir::new().unwrap();
    for ranks in [1, 3] {
        let path = place.path().join("growth.nc");
        Threads::new(ranks)
            .try_run(|comm| {
                let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
                let mut define = create(&comm, &path)?;
                let t = define.unlimited("t")?;
                let s = define.unlimited("s")?;
                let storages = [chunked(&[2, 3], &[]), chunked(&[2, 3], &filters)];
                let mut variables = Vec::new();
                for (number, storage) in storages.into_iter().enumerate() {
                    let variable = define.variable(&format!("v{number}"), Type::Short, &[t, s])?;
                    define.storage(variable, storage)?;
                    define.attribute(variable, "_FillValue", -7_i16)?;
                    define.fill(variable, true);
                    variables.push(variable);
                }
                let mut data = define.end()?;
                // Of a model, element by element.
                let mut model = vec![vec![-7_i16; 40]; 40];
                let (mut rows, mut columns) = (0, 0);
                let steps = [(0, 0, 1, 2), (1, 1, 1, 1), (3, 0, 2, 5), (2, 7, 1, 3), (9, 9, 1, 1)];
                for (step, (y, x, height, width)) in steps.into_iter().enumerate() {
                    // Each rank its own rows, one below the other.
                    for of in 0..ranks {
                        let first = y + of * height;
                        for row in first..first + height {
                            for column in x..x + width {
                                model[row as usize][column as usize] =
                                    (10 * step as i16) + of as i16;
                            }
                        }
                        rows = rows.max(first + height);
                    }
                    columns = columns.max(x + width);
                    let values = vec![(10 * step as i16) + rank as i16; (height * width) as usize];
                    let slab = Slab::new(&[y + rank * height, x], &[height, width]);
                    for &variable in &variables {
                        data.put_all(variable, &slab, &values)?;
                    }
                    if step == 2 {
                        data.sync()?;
                    }
                }
                assert_eq!(data.dimension_len(t)?, rows);
                assert_eq!(data.dimension_len(s)?, columns);
                let expected: Vec<i16> = model[..rows as usize]
                    .iter()
                    .flat_map(|row| row[..columns as usize].to_vec())
                    .collect();
                for &variable in &variables {
                    let values = data.values(variable, &Slab::all())?;
                    assert_eq!(values, Values::from(expected.clone()), "{variable:?}");
                }
                // Further, after opening it again.
                data.close()?;
                let mut data =
                    Dataset::open(&comm, &path, OpenMode::ReadWrite, &Options::default())?;
                for &variable in &variables {
                    let values = data.values(variable, &Slab::all())?;
                    assert_eq!(values, Values::from(expected.clone()), "{variable:?} again");
                }
                for &variable in &variables {
                    let slab = Slab::new(&[rows + rank, 0], &[1, columns]);
                    data.put_all(variable, &slab, &vec![rank as i16; columns as usize])?;
                }
                assert_eq!(data.dimension_len(t)?, rows + ranks);
                let last = data.values(variables[1], &Slab::new(&[rows, 0], &[ranks, columns]))?;
                let expected: Vec<i16> =
                    (0..ranks).flat_map(|rank| vec![rank as i16; columns as usize]).collect();
                assert_eq!(last, Values::from(expected));
                data.close()
            })
            .unwrap();
    }
}

/// Independent writes of several ranks to parts of the same filtered chunks: each reads its own at
/// once, and all are there after the next collective call.
#[test]
fn independent_writes_to_filtered_chunks() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("independent.nc");
    Threads::new(4)
        .try_run(|comm| {
            let rank = comm.rank() as u64;
            let mut define = create(&comm, &path)?;
            let x = define.dimension("x", 64)?;
            let variable = define.variable("v", Type::Double, &[x])?;
            define.storage(variable, chunked(&[10], &[ChunkFilter::Deflate(6)]))?;
            let mut data = define.end()?;
            // Every fourth element.
            let slab = Slab::new(&[rank], &[16]).stride(&[4]);
            let values: Vec<f64> = (0..16).map(|i| (4 * i + rank) as f64).collect();
            data.put(variable, &slab, &values)?;
            let mut own = vec![0.0; 16];
            data.get(variable, &slab, &mut own)?;
            assert_eq!(own, values);
            data.sync()?;
            let expected: Vec<f64> = (0..64).map(f64::from).collect();
            assert_eq!(data.values(variable, &Slab::all())?, Values::from(expected.clone()));
            // Nonblocking ones, combined.
            let doubled: Vec<f64> = values.iter().map(|value| 2.0 * value).collect();
            let mut pending = Pending::new();
            data.iput(&mut pending, variable, &slab, &doubled)?;
            data.wait_all(pending)?;
            let expected: Vec<f64> = (0..64).map(|i| f64::from(2 * i)).collect();
            assert_eq!(data.values(variable, &Slab::all())?, Values::from(expected));
            data.close()
        })
        .unwrap();
}

/// Groups with dimensions of their own and of their parents; definitions are added later.
#[test]
fn groups_and_redefinition() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("groups.nc");
    Threads::new(2)
        .try_run(|comm| {
            let mut define = create(&comm, &path)?;
            let x = define.dimension("x", 4)?;
            let top = define.variable("v", Type::Int, &[x])?;
            let outer = define.group("outer")?;
            let y = define.dimension("x", 3)?;
            let middle = define.variable("v", Type::Int, &[y])?;
            define.attribute(outer, "note", "in a group")?;
            let inner = define.group("inner")?;
            let bottom = define.variable("v", Type::Int64, &[y, x])?;
            assert!(define.group("a/b").is_err());
            define.enter(outer)?;
            assert!(matches!(define.group("inner"), Err(ArrayError::Exists { .. })));
            let mut data = define.end()?;
            let half = |len: u64| {
                let low = len * comm.rank() as u64 / 2;
                (low, len * (comm.rank() as u64 + 1) / 2 - low)
            };
            for (variable, len) in [(top, 4), (middle, 3)] {
                let (low, count) = half(len);
                let values: Vec<i32> = (low..low + count).map(|i| i as i32).collect();
                data.put_all(variable, &Slab::new(&[low], &[count]), &values)?;
            }
            let (low, count) = half(4);
            let slab = Slab::new(&[0, low], &[3, count]);
            data.put_all(bottom, &slab, &vec![comm.rank() as i64; 3 * count as usize])?;
            let mut define = data.redefine()?;
            define.enter(inner)?;
            let added = define.variable("added", Type::Float, &[x])?;
            define.attribute(added, "scale", 2.5_f64)?;
            define.attribute(Owner::Global, "later", vec![1_i32, 2])?;
            let mut data = define.end()?;
            let (low, count) = half(4);
            data.put_all(added, &Slab::new(&[low], &[count]), &vec![1.5_f32; count as usize])?;
            data.close()
        })
        .unwrap();
    Threads::new(3)
        .try_run(|comm| {
            let mut data = Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default())?;
            let mut values =
                |name: &str| data.variable(name).and_then(|v| data.values(v, &Slab::all()));
            assert_eq!(values("v")?, Values::from(vec![0, 1, 2, 3]));
            assert_eq!(values("outer/v")?, Values::from(vec![0, 1, 2]));
            assert_eq!(values("outer/inner/v")?, Values::from([0_i64, 0, 1, 1].repeat(3)));
            assert_eq!(values("outer/inner/added")?, Values::from(vec![1.5_f32; 4]));
            assert_eq!(data.attribute(Owner::Global, "later")?, &Values::from(vec![1, 2]));
            assert_eq!(data.hidden(), []);
            data.close()
        })
        .unwrap();
}

/// Arguments that cannot be are refused before anything happens.
#[test]
fn mistakes_are_told() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("mistakes.nc");
    Threads::new(2)
        .try_run(|comm| {
            let mut define = Dataset::create(&comm, &path, Format::Cdf5, &Options::default())?;
            let x = define.dimension("x", 4)?;
            let v = define.variable("v", Type::Int, &[x])?;
            assert!(define.storage(v, chunked(&[2], &[])).is_err());
            assert!(define.group("g").is_err());
            define.abort()?;

            let mut define = create(&comm, &path)?;
            let x = define.dimension("x", 4)?;
            let t = define.unlimited("t")?;
            let v = define.variable("v", Type::Int, &[x, t])?;
            assert!(define.storage(v, chunked(&[1, 1], &[ChunkFilter::Deflate(10)])).is_err());
            define.storage(v, chunked(&[5, 1], &[]))?;
            let told = define.end().unwrap_err().to_string();
            assert!(told.contains("chunks of [5, 1]"), "{told}");

            let mut define = create(&comm, &path)?;
            let t = define.unlimited("t")?;
            let v = define.variable("v", Type::Int, &[t])?;
            let mut data = define.end()?;
            let told = data.put(v, &Slab::new(&[0], &[2]), &[1, 2]).unwrap_err().to_string();
            assert!(told.contains("grow_dimension"), "{told}");
            data.grow_dimension(t, 2)?;
            data.put(v, &Slab::new(&[0], &[2]), &[1, 2])?;
            data.grow(5)?;
            assert_eq!(data.dimension_len(t)?, 5);
            data.close()?;
            let mut data = Dataset::open(&comm, &path, OpenMode::ReadWrite, &Options::default())?;
            assert_eq!(data.dimension_len(t)?, 5);
            data.grow(6)?;
            data.close()?;
            // Definitions that are aborted leave what was written before them.
            let mut data = Dataset::open(&comm, &path, OpenMode::ReadWrite, &Options::default())?;
            data.grow(7)?;
            let mut define = data.redefine()?;
            define.attribute(Owner::Global, "note", "aborted")?;
            define.abort()?;
            let data = Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default())?;
            assert_eq!(data.dimension_len(t)?, 7);
            assert_eq!(data.header().attributes, []);
            data.close()?;

            let mut define = create(&comm, &path)?;
            define.dimension("x", 4 + comm.rank() as u64)?;
            let told = define.end().unwrap_err().to_string();
            assert!(told.contains("rank 1"), "{told}");
            Ok::<(), ArrayError>(())
        })
        .unwrap();
}
