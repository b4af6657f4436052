//! Strings and types of users: values of every kind in every storage, by ranks of any number.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "peers")]
mod peers;

use std::mem::offset_of;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use striate_array::format::{ChunkFilter, StorageLayout, StorageOptions};
use striate_array::{
    ArrayError, CompoundMember, Dataset, Elements, Format, OpenMode, Options, Owner, Pending, Raw,
    Slab, Type, UserTypeClass, Values, VariableId,
};
use striate_comm::{Comm, Threads};
use tempfile::TempDir;

use super::{chunked, create};

/// A compound with a gap and an array.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, bytemuck::Pod, bytemuck::Zeroable)]
struct Observation {
    station: i16,
    gap: [u8; 2],
    wind: [f32; 3],
    cover: u8,
    rest: [u8; 7],
    when: i64,
}

const HEIGHT: u64 = 6;
const WIDTH: u64 = 20;
/// The storages of the variables; the last one is along an unlimited dimension.
const STORAGES: usize = 5;

fn observation(number: u64) -> Observation {
    let wind = [number as f32, 0.5, -(number as f32)];
    let (station, cover) = (number as i16 - 7, (number % 3) as u8);
    let (gap, rest) = ([0; 2], [0; 7]);
    Observation { station, gap, wind, cover, rest, when: -(number as i64) << 33 }
}

/// Empty ones, long ones and some that are not ASCII.
fn string(number: u64) -> String {
    match number % 7 {
        0 => String::new(),
        3 => format!("größer {number}").repeat(number as usize),
        _ => format!("text {number}"),
    }
}

fn sequence(number: u64) -> Vec<i32> {
    (0..number % 5).map(|at| (number * 10 + at) as i32 - 300).collect()
}

/// A compound of a number, a string and a sequence of strings.
fn mixed(number: u64) -> Elements {
    let mut element = Elements::new();
    element.push_fixed(&(number as i32).to_ne_bytes());
    element.push_fixed(&[0; 4]);
    element.push_string(string(number).as_bytes());
    let names = (0..number % 3).map(|at| format!("{number}.{at}"));
    element.push_sequence((number % 3) as u32, Elements::strings(names));
    element
}

fn mixed_elements(numbers: impl Iterator<Item = u64>) -> Elements {
    let mut all = Elements::new();
    numbers.for_each(|number| all.append(mixed(number)));
    all
}

fn storage(number: usize) -> StorageOptions {
    let filters = [ChunkFilter::Shuffle, ChunkFilter::Deflate(2), ChunkFilter::Fletcher32];
    match number {
        0 => StorageOptions::default(),
        1 => StorageOptions { layout: StorageLayout::Contiguous, ..StorageOptions::default() },
        2 => chunked(&[4, 7], &[]),
        _ => chunked(&[4, 7], &filters),
    }
}

/// The variables of a storage.
#[derive(Clone, Copy, Debug)]
struct Kinds {
    flags: VariableId,
    hash: VariableId,
    observations: VariableId,
    names: VariableId,
    lists: VariableId,
    mixed: VariableId,
}

/// Defines all kinds in all storages.
fn define(comm: &Arc<dyn Comm>, path: &Path) -> Result<(Dataset, Vec<Kinds>), ArrayError> {
    let mut define = create(comm, path)?;
    let flag =
        define.enumeration("flag", Type::Short, &[("low", -3), ("mid", 0), ("high", 900)])?;
    let hash = define.opaque("hash", 5)?;
    let observation = define.compound(
        "observation",
        size_of::<Observation>(),
        &[
            CompoundMember::new("station", offset_of!(Observation, station), Type::Short),
            CompoundMember::array("wind", offset_of!(Observation, wind), Type::Float, &[3]),
            CompoundMember::new("cover", offset_of!(Observation, cover), Type::UByte),
            CompoundMember::new("when", offset_of!(Observation, when), Type::Int64),
        ],
    )?;
    let list = define.sequence("list", Type::Int)?;
    let names = define.sequence("names", Type::String)?;
    let mixed = define.compound(
        "mixed",
        40,
        &[
            CompoundMember::new("number", 0, Type::Int),
            CompoundMember::new("name", 8, Type::String),
            CompoundMember::new("names", 24, names),
        ],
    )?;
    let y = define.dimension("y", HEIGHT)?;
    let x = define.dimension("x", WIDTH)?;
    let t = define.unlimited("t")?;
    let mut all = Vec::new();
    for number in 0..STORAGES {
        let first = if number == STORAGES - 1 { t } else { y };
        let mut variable = |name: &str, of: Type| {
            let variable = define.variable(&format!("{name}{number}"), of, &[first, x])?;
            define.storage(variable, storage(number))?;
            Ok::<_, ArrayError>(variable)
        };
        all.push(Kinds {
            flags: variable("flags", flag.into())?,
            hash: variable("hash", hash.into())?,
            observations: variable("observations", observation.into())?,
            names: variable("names", Type::String)?,
            lists: variable("lists", list.into())?,
            mixed: variable("mixed", mixed.into())?,
        });
    }
    let group = define.group("more")?;
    let both = CompoundMember::array("both", 0, Type::UByte, &[2]);
    let pair = define.compound("pair", 2, &[both])?;
    define.variable("pairs", pair, &[x])?;
    define.enter(striate_array::GroupId::ROOT)?;
    let scalar = define.variable("scalar", Type::String, &[])?;
    define.attribute(scalar, "one", Values::strings(["só"]))?;
    define.attribute(Owner::Global, "several", Values::strings(["a", "", "drei"]))?;
    let value = Elements::fixed(900_i16.to_ne_bytes());
    define.attribute(group, "flag", Values::stored(flag, value))?;
    let value = Elements::fixed(bytemuck::bytes_of(&self::observation(4)));
    define.attribute(all[0].observations, "first", Values::stored(observation, value))?;
    define.attribute(all[0].mixed, "mixed", Values::stored(mixed, mixed_elements(3..5)))?;
    Ok((define.end()?, all))
}

/// The numbers of the elements of a block.
fn block(rows: Range<u64>, columns: Range<u64>) -> impl Iterator<Item = u64> + Clone {
    rows.flat_map(move |row| columns.clone().map(move |column| row * WIDTH + column))
}

fn flag(number: u64) -> i16 {
    [-3, 0, 900][number as usize % 3]
}

fn hash(number: u64) -> [u8; 5] {
    [number as u8, 2, 3, 4, 255 - number as u8]
}

/// Writes what is due in a block. Collective.
fn put(
    data: &mut Dataset,
    of: Kinds,
    rows: Range<u64>,
    columns: Range<u64>,
) -> Result<(), ArrayError> {
    let slab = Slab::new(
        &[rows.start, columns.start],
        &[rows.end - rows.start, columns.end - columns.start],
    );
    let numbers = block(rows, columns);
    let flags: Vec<i16> = numbers.clone().map(flag).collect();
    data.put_all(of.flags, &slab, &flags)?;
    let hashes: Vec<[u8; 5]> = numbers.clone().map(hash).collect();
    let observations: Vec<Observation> = numbers.clone().map(observation).collect();
    let names: Vec<String> = numbers.clone().map(string).collect();
    let mut pending = Pending::new();
    data.iput(&mut pending, of.hash, &slab, Raw::slice(&hashes))?;
    data.iput(&mut pending, of.observations, &slab, Raw::slice(&observations))?;
    data.iput_elements(&mut pending, of.names, &slab, &Elements::strings(&names))?;
    data.iput_elements(&mut pending, of.mixed, &slab, &mixed_elements(numbers.clone()))?;
    data.wait_all(pending)?;
    let lists: Vec<Vec<i32>> = numbers.map(sequence).collect();
    data.put_sequences_all(of.lists, &slab, &lists)
}

/// Compares elements of a slab, which have these numbers, with what is due.
fn check(data: &mut Dataset, of: Kinds, slab: &Slab, numbers: &[u64]) -> Result<(), ArrayError> {
    let mut flags = vec![0_i64; numbers.len()];
    data.get_all(of.flags, slab, &mut flags)?;
    assert!(
        flags.iter().eq(numbers.iter().map(|&one| i64::from(flag(one))).collect::<Vec<_>>().iter())
    );
    let mut hashes = vec![[0_u8; 5]; numbers.len()];
    data.get(of.hash, slab, Raw::slice_mut(&mut hashes))?;
    assert_eq!(hashes, numbers.iter().map(|&one| hash(one)).collect::<Vec<_>>());
    let mut observations = vec![observation(0); numbers.len()];
    data.get_all(of.observations, slab, Raw::slice_mut(&mut observations))?;
    assert_eq!(observations, numbers.iter().map(|&one| observation(one)).collect::<Vec<_>>());
    let names = data.strings(of.names, slab)?;
    assert_eq!(names, numbers.iter().map(|&one| string(one)).collect::<Vec<_>>());
    let lists: Vec<Vec<i32>> = data.sequences(of.lists, slab)?;
    assert_eq!(lists, numbers.iter().map(|&one| sequence(one)).collect::<Vec<_>>());
    let lists: Vec<Vec<f64>> = data.sequences(of.lists, slab)?;
    assert_eq!(lists.concat().len(), numbers.iter().map(|&one| sequence(one).len()).sum::<usize>());
    let found = data.elements_all(of.mixed, slab)?;
    assert_eq!(found, mixed_elements(numbers.iter().copied()));
    Ok(())
}

/// The variables of a file that was opened.
fn kinds(data: &Dataset) -> Vec<Kinds> {
    let of = |name: &str, number: usize| data.variable(&format!("{name}{number}")).unwrap();
    let kinds = |number| Kinds {
        flags: of("flags", number),
        hash: of("hash", number),
        observations: of("observations", number),
        names: of("names", number),
        lists: of("lists", number),
        mixed: of("mixed", number),
    };
    (0..STORAGES).map(kinds).collect()
}

/// Writes all of a file with so many ranks, in blocks that cut chunks.
fn write(path: &Path, ranks: usize) {
    Threads::new(ranks)
        .try_run(|comm| {
            let (mut data, all) = define(&comm, path)?;
            let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
            let columns = WIDTH * rank / ranks..WIDTH * (rank + 1) / ranks;
            for of in all {
                for rows in [3..HEIGHT, 0..3] {
                    put(&mut data, of, rows, columns.clone())?;
                }
            }
            let pairs = data.variable("more/pairs")?;
            let of_pairs: Vec<[u8; 2]> =
                columns.clone().map(|column| [column as u8, column as u8 + 1]).collect();
            let slab = Slab::new(&[columns.start], &[columns.end - columns.start]);
            data.put_all(pairs, &slab, Raw::slice(&of_pairs))?;
            let scalar = data.variable("scalar")?;
            let only_here = if rank == 0 { &["first"][..] } else { &[] };
            if rank == 0 {
                data.put_strings(scalar, &Slab::all(), only_here)?;
                assert_eq!(data.strings(scalar, &Slab::all())?, ["first"], "before it is written");
            }
            data.sync()?;
            assert_eq!(data.strings(scalar, &Slab::all())?, ["first"]);
            data.close()
        })
        .unwrap();
}

/// Reads all of a file with so many ranks.
fn read(path: &Path, ranks: usize) {
    Threads::new(ranks)
        .try_run(|comm| {
            let mut data = Dataset::open(&comm, path, OpenMode::ReadOnly, &Options::default())?;
            assert_eq!(data.hidden(), []);
            let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
            let rows = HEIGHT * rank / ranks..HEIGHT * (rank + 1) / ranks;
            for of in kinds(&data) {
                let slab = Slab::new(&[rows.start, 0], &[rows.end - rows.start, WIDTH]);
                let numbers: Vec<u64> = block(rows.clone(), 0..WIDTH).collect();
                check(&mut data, of, &slab, &numbers)?;
                let slab = Slab::new(&[1, 2], &[2, 6]).stride(&[3, 3]);
                let numbers: Vec<u64> = [1, 4]
                    .into_iter()
                    .flat_map(|y| (0..6).map(move |x| y * WIDTH + 2 + 3 * x))
                    .collect();
                check(&mut data, of, &slab, &numbers)?;
                // Transposed in memory.
                let mut transposed = vec![observation(0); 12];
                let sink = striate_array::Sink::permuted(Raw::slice_mut(&mut transposed), &[1, 0]);
                data.get_all(of.observations, &slab, sink)?;
                let turned: Vec<_> = (0..6)
                    .flat_map(|x| (0..2).map(move |y| observation((1 + 3 * y) * WIDTH + 2 + 3 * x)))
                    .collect();
                assert_eq!(transposed, turned);
            }
            check_definitions(&data)?;
            data.close()
        })
        .unwrap();
}

fn check_definitions(data: &Dataset) -> Result<(), ArrayError> {
    let names: Vec<&str> = data.header().types.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(names, ["flag", "hash", "observation", "list", "names", "mixed", "pair"]);
    let types: Vec<_> = data.types().collect();
    let flag = data.user_type(types[0])?;
    let members = [("low", -3), ("mid", 0), ("high", 900)];
    let members = members.map(|(name, value)| (name.to_string(), value)).to_vec();
    assert_eq!(flag.class, UserTypeClass::Enumeration { base: Type::Short, members });
    assert_eq!(data.user_type(types[1])?.class, UserTypeClass::Opaque);
    assert_eq!(types[1].size(), 5);
    let UserTypeClass::Compound(members) = &data.user_type(types[2])?.class else { panic!() };
    assert_eq!(members[1], CompoundMember::array("wind", 4, Type::Float, &[3]));
    assert_eq!(data.user_type(types[3])?.class, UserTypeClass::Sequence(Type::Int));
    assert_eq!(data.header().type_name(types[6].into()), "more/pair");
    let several = Values::strings(["a", "", "drei"]);
    assert_eq!(data.attribute(Owner::Global, "several")?, &several);
    assert_eq!(data.attribute(data.variable("scalar")?, "one")?.as_text(), Some("só"));
    let first = data.attribute(data.variable("observations0")?, "first")?;
    let bytes = Elements::fixed(bytemuck::bytes_of(&observation(4)));
    assert_eq!(first, &Values::stored(types[2], bytes));
    let mixed = data.attribute(data.variable("mixed0")?, "mixed")?;
    assert_eq!(mixed, &Values::stored(types[5], mixed_elements(3..5)));
    Ok(())
}

#[test]
fn all_kinds_in_every_storage() {
    let place = TempDir::new().unwrap();
    for ranks in [1, 2, 3, 4] {
        let path = place.path().join("kinds.nc");
        write(&path, ranks);
        read(&path, 5 - ranks);
    }
}

/// A file that exists is written further: values are replaced, attributes and variables added.
#[test]
fn an_existing_file_is_written_further() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("further.nc");
    write(&path, 2);
    Threads::new(3)
        .try_run(|comm| {
            let data = Dataset::open(&comm, &path, OpenMode::ReadWrite, &Options::default())?;
            let mut define = data.redefine()?;
            let x = define.dimensions().nth(1).unwrap();
            let pair = define.sequence("pair", Type::UInt64)?;
            let added = define.variable("added", pair, &[x])?;
            define.attribute(added, "note", Values::strings(["x", "y"]))?;
            let mut data = define.end()?;
            let all = kinds(&data);
            let (rank, grown) = (comm.rank() as u64, HEIGHT + comm.rank() as u64);
            for (number, of) in all.iter().enumerate() {
                // Each rank replaces a row by what is due in another one.
                let slab = Slab::new(&[rank, 0], &[1, WIDTH]);
                let strings: Vec<String> = block(grown..grown + 1, 0..WIDTH).map(string).collect();
                data.put_strings_all(of.names, &slab, &strings)?;
                if number == STORAGES - 1 {
                    // The last rank's row makes the dimension longer for all.
                    put(&mut data, *of, grown..grown + 1, 0..WIDTH)?;
                }
            }
            let mine: &[Vec<u64>] = if rank == 1 { &[vec![1, u64::MAX], vec![]] } else { &[] };
            let slab = Slab::new(&[4], &[mine.len() as u64]);
            data.put_sequences_all(added, &slab, mine)?;
            data.close()
        })
        .unwrap();
    Threads::new(2)
        .try_run(|comm| {
            let mut data = Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default())?;
            check_added(&mut data)?;
            data.close()
        })
        .unwrap();
}

fn check_added(data: &mut Dataset) -> Result<(), ArrayError> {
    assert_eq!(data.hidden(), []);
    for (number, of) in kinds(data).into_iter().enumerate() {
        let due = |row: u64| if row < 3 { HEIGHT + row } else { row };
        let rows = if number == STORAGES - 1 { HEIGHT + 3 } else { HEIGHT };
        let expected: Vec<String> =
            (0..rows).flat_map(|row| block(due(row)..due(row) + 1, 0..WIDTH)).map(string).collect();
        assert_eq!(data.strings(of.names, &Slab::all())?, expected);
    }
    let added = data.variable("added")?;
    let lists: Vec<Vec<u64>> = data.sequences(added, &Slab::new(&[3], &[4]))?;
    assert_eq!(lists, [vec![], vec![1, u64::MAX], vec![], vec![]]);
    Ok(())
}

/// Independent writes wait until the ranks meet; strings that nobody wrote are the fill value.
#[test]
fn independent_writes_and_fill_values() {
    let place = TempDir::new().unwrap();
    for (number, storage) in [storage(0), storage(1), storage(2), storage(3)].iter().enumerate() {
        let path = place.path().join("independent.nc");
        Threads::new(3)
            .try_run(|comm| {
                let mut define = create(&comm, &path)?;
                let y = define.dimension("y", HEIGHT)?;
                let x = define.dimension("x", WIDTH)?;
                let plain = define.variable("plain", Type::String, &[y, x])?;
                let filled = define.variable("filled", Type::String, &[y, x])?;
                define.attribute(filled, "_FillValue", Values::strings(["none"]))?;
                define.fill(filled, true);
                for variable in [plain, filled] {
                    define.storage(variable, storage.clone())?;
                }
                let mut data = define.end()?;
                // Diagonals, in parts, one over the other.
                let rank = comm.rank() as u64;
                for round in ["old", "new"] {
                    for variable in [plain, filled] {
                        let slab = Slab::new(&[0, 2 * rank], &[2, 3]).stride(&[3, 6]);
                        let mine: Vec<String> =
                            (0..6).map(|at| format!("{round} {rank} {at}")).collect();
                        data.put_strings(variable, &slab, &mine)?;
                        assert_eq!(data.strings(variable, &slab)?, mine);
                    }
                }
                data.sync()?;
                for (variable, fill) in [(plain, ""), (filled, "none")] {
                    let found = data.strings(variable, &Slab::all())?;
                    for (at, text) in found.iter().enumerate() {
                        let (row, column) = (at as u64 / WIDTH, at as u64 % WIDTH);
                        let is_written = row % 3 == 0 && column < 18 && column.is_multiple_of(2);
                        let of = 3 * (row / 3) + column / 6;
                        let due = if is_written {
                            format!("new {} {of}", column % 6 / 2)
                        } else {
                            fill.into()
                        };
                        assert_eq!(*text, due, "storage {number}, row {row}, column {column}");
                    }
                }
                data.close()
            })
            .unwrap();
    }
}

#[test]
fn mistakes_are_told() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("mistakes.nc");
    Threads::new(2)
        .try_run(|comm| {
            for format in [Format::Cdf1, Format::Cdf5, Format::Netcdf4Classic] {
                let mut define = Dataset::create(&comm, &path, format, &Options::default())?;
                let told = define.variable("s", Type::String, &[]).unwrap_err().to_string();
                assert!(told.contains("'s' is of type string"), "{told}");
                let told = define.opaque("o", 3).unwrap_err().to_string();
                assert!(told.contains("has no types of users"), "{told}");
                let several = Values::strings(["a", "b"]);
                assert!(define.attribute(Owner::Global, "several", several).is_err());
                define.abort()?;
            }
            let mut define = create(&comm, &path)?;
            let x = define.dimension("x", 3)?;
            let one = define.opaque("one", 3)?;
            assert!(define.opaque("one", 4).is_err(), "twice");
            assert!(define.opaque("none", 0).is_err());
            assert!(define.enumeration("e", Type::Float, &[("a", 1)]).is_err());
            assert!(define.enumeration("e", Type::Byte, &[("a", 128)]).is_err());
            assert!(define.enumeration("e", Type::Byte, &[("a", 1), ("a", 2)]).is_err());
            let far = [CompoundMember::new("far", 6, Type::Int)];
            assert!(define.compound("c", 8, &far).is_err());
            let twice = [CompoundMember::new("a", 0, Type::Int), CompoundMember::new("b", 2, one)];
            assert!(define.compound("c", 8, &twice).is_err());
            let wrong = Values::stored(one, Elements::fixed([1, 2]));
            assert!(define.attribute(Owner::Global, "wrong", wrong).is_err());
            let names = define.variable("names", Type::String, &[x])?;
            let opaque = define.variable("opaque", one, &[x])?;
            define.attribute(names, "_FillValue", Values::strings(["-"]))?;
            assert!(define.attribute(names, "_FillValue", "-").is_err(), "text is no string");
            let mut data = define.end()?;
            let all = Slab::all();
            let told = data.put_all(names, &all, Raw::slice(&[0_u8; 48])).unwrap_err().to_string();
            assert!(told.contains("variable length"), "{told}");
            let told = data.put_all(names, &all, &[1, 2, 3]).unwrap_err().to_string();
            assert!(told.contains("holds string"), "{told}");
            let told = data.put_strings_all(names, &all, &["a"]).unwrap_err().to_string();
            assert!(told.contains("1 elements in memory for 3"), "{told}");
            assert!(data.put_strings_all(names, &all, &["a", "b\0", "c"]).is_err());
            let forged = Elements::fixed([7; 48]);
            assert!(data.put_elements_all(names, &all, &forged).is_err(), "forged descriptors");
            assert!(data.put_all(opaque, &all, Raw::slice(&[0_u8; 8])).is_err());
            assert!(data.put_strings(opaque, &all, &["a", "b", "c"]).is_err());
            // One rank is wrong: all are told, and none waits for it.
            let mine: &[&str] = if comm.rank() == 1 { &["a", "b"] } else { &["a", "b", "c"] };
            let told = data.put_strings_all(names, &all, mine).unwrap_err().to_string();
            assert!(told.contains("2 elements"), "{told}");
            data.put_strings_all(names, &all, &["a", "b", "c"])?;
            data.close()
        })
        .unwrap();
}

/// Damaged heaps and descriptors are errors or other values, and nothing worse.
#[test]
fn damaged_heaps_are_errors() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("damaged.nc");
    write(&path, 1);
    let whole = std::fs::read(&path).unwrap();
    let mut errors = 0;
    let heaps: Vec<usize> =
        whole.windows(4).enumerate().filter(|(_, it)| it == b"GCOL").map(|(at, _)| at).collect();
    assert!(heaps.len() > 3);
    for (number, heap) in heaps.iter().enumerate() {
        for (at, byte) in [(0, b'X'), (8, 255), (14, 255), (16, 9), (24, 255), (30, 1)] {
            let mut bytes = whole.clone();
            bytes[heap + at] = byte.wrapping_add(number as u8);
            std::fs::write(&path, &bytes).unwrap();
            let results = Threads::new(1).run(|comm| {
                let mut data =
                    Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default())?;
                for of in kinds(&data) {
                    data.strings(of.names, &Slab::all())?;
                    data.elements(of.mixed, &Slab::all())?;
                }
                data.close()
            });
            errors += results.iter().filter(|result| result.is_err()).count();
        }
    }
    assert!(errors > heaps.len(), "{errors} errors of {} heaps", heaps.len());
}
