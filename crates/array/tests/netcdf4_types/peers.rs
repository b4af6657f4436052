//! The same values in python's netCDF4 and h5py, and theirs here.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::{Path, PathBuf};
use std::process::Command;

use striate_array::format::{StorageLayout, StorageOptions};
use striate_array::{Dataset, Format, OpenMode, Options, Owner, Slab, Type, UserTypeClass, Values};
use striate_comm::Threads;
use tempfile::TempDir;

use super::{check_added, observation, string, write};

/// What is due, and a check of a file with both libraries.
const DUE: &str = r#"
import sys, numpy as np, h5py, netCDF4
HEIGHT, WIDTH = 6, 20
def string(n):
    return "" if n % 7 == 0 else f"größer {n}" * n if n % 7 == 3 else f"text {n}"
def flag(n): return [-3, 0, 900][n % 3]
def sequence(n): return [n * 10 + at - 300 for at in range(n % 5)]
def each(due, found, what):
    for at, one in enumerate(found.ravel()):
        assert due(at, one), (what, at, one)
def observation(n, one):
    return (one["station"] == n - 7 and one["cover"] == n % 3 and one["when"] == -n * 2**33
        and list(one["wind"]) == [n, 0.5, -n])
"#;

const CHECK: &str = r#"
path = sys.argv[1]
with netCDF4.Dataset(path) as data:
    for number in range(5):
        each(lambda n, one: one == flag(n), data[f"flags{number}"][...], "flags")
        each(observation, data[f"observations{number}"][...], "observations")
        each(lambda n, one: one == string(n), data[f"names{number}"][...], "names")
        each(lambda n, one: list(one) == sequence(n), data[f"lists{number}"][...], "lists")
    each(lambda n, one: list(one["both"]) == [n, n + 1], data["more/pairs"][...], "pairs")
    assert data["scalar"][...] == "first" and data["scalar"].one == "só"
    assert list(data.several) == ["a", "", "drei"], data.several
    assert data.enumtypes["flag"].enum_dict == {"low": -3, "mid": 0, "high": 900}
    assert observation(4, data["observations0"].first), data["observations0"].first
with h5py.File(path) as data:
    for number in range(5):
        each(lambda n, one: one == flag(n), data[f"flags{number}"][...], "flags")
        each(lambda n, one: one.tobytes() == bytes([n, 2, 3, 4, 255 - n]), data[f"hash{number}"][...], "hash")
        each(observation, data[f"observations{number}"][...], "observations")
        each(lambda n, one: one == string(n), data[f"names{number}"].asstr()[...], "names")
        each(lambda n, one: list(one) == sequence(n), data[f"lists{number}"][...], "lists")
        found = data[f"mixed{number}"].fields(["number", "name"])[...]
        each(lambda n, one: one["number"] == n and one["name"].decode() == string(n), found, "mixed")
    assert list(data.attrs["several"]) == ["a", "", "drei"]
"#;

const CHANGE: &str = r#"
path = sys.argv[1]
with netCDF4.Dataset(path, "r+") as data:
    for number in range(5):
        rows = 9 if number == 4 else 6
        names = data[f"names{number}"]
        for row in range(3):
            names[row, :] = np.array([string((6 + row) * WIDTH + at) for at in range(WIDTH)], dtype=object)
        if number == 4:
            for row in range(6, 9):
                names[row, :] = np.array([string(row * WIDTH + at) for at in range(WIDTH)], dtype=object)
    pair = data.createVLType("u8", "pair")
    added = data.createVariable("added", pair, ("x",))
    added[4] = np.array([1, 2**64 - 1], dtype="u8")
"#;

const MAKE: &str = r#"
path, kind = sys.argv[1:]
if kind == "netcdf4":
    with netCDF4.Dataset(path, "w") as data:
        data.createDimension("x", 40)
        data.createDimension("t", None)
        flag_t = data.createEnumType("i2", "flag", {"low": -3, "mid": 0, "high": 900})
        obs_t = data.createCompoundType(np.dtype([("station", "i2"), ("wind", "f4", 3), ("cover", "u1"), ("when", "i8")], align=True), "observation")
        list_t = data.createVLType("i4", "list")
        for name, of, dims in [("flags", flag_t, ("x",)), ("observations", obs_t, ("x",)), ("names", str, ("x",)),
                ("lists", list_t, ("x",)), ("later", str, ("t", "x")), ("never", str, ("t", "x"))]:
            data.createVariable(name, of, dims)
        data["flags"][:] = np.array([flag(n) for n in range(40)], "i2")
        obs = np.zeros(40, obs_t.dtype)
        for n in range(40):
            obs[n] = (n - 7, (n, 0.5, -n), n % 3, -n * 2**33)
        data["observations"][:] = obs
        data["names"][:] = np.array([string(n) for n in range(40)], object)
        for n in range(40):
            data["lists"][n] = np.array(sequence(n), "i4")
        data["later"][2, 5:7] = np.array(["five", "six"], object)
        data.setncattr_string("one", "a string")
        data.setncattr("several", ["x", "yy"])
else:
    with h5py.File(path, "w") as data:
        data.create_dataset("names", data=[string(n) for n in range(40)], dtype=h5py.string_dtype(), chunks=(7,), compression="gzip")
        data.create_dataset("fixed", data=np.array([f"f{n}" for n in range(40)], "S6"))
        big = np.dtype([("station", ">i2"), ("wind", ">f4", 3), ("cover", "u1"), ("when", ">i8"), ("text", "S3")])
        data["big_t"] = big
        obs = np.zeros(40, big)
        for n in range(40):
            obs[n] = (n - 7, (n, 0.5, -n), n % 3, -n * 2**33, b"ab")
        data.create_dataset("big", data=obs, dtype=data["big_t"], chunks=(9,), compression="gzip")
        data["flag_t"] = h5py.enum_dtype({"low": -3, "mid": 0, "high": 900}, basetype=">i2")
        data.create_dataset("flags", data=np.array([flag(n) for n in range(40)], ">i2"), dtype=data["flag_t"])
        data.create_dataset("lists", (40,), h5py.vlen_dtype(np.dtype("i4")), maxshape=(None,))
        for n in range(40):
            data["lists"][n] = np.array(sequence(n), "i4")
"#;

fn python(script: &str, arguments: &[&str], path: &Path) {
    let python = std::env::var_os("STRIATE_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
    let output = Command::new(python)
        .args(["-c", &format!("{DUE}{script}")])
        .arg(path)
        .args(arguments)
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
}

#[test]
fn peers_read_all_kinds() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("kinds.nc");
    for ranks in [1, 3] {
        write(&path, ranks);
        python(CHECK, &[], &path);
        // What python cannot show, ncdump does.
        let output = Command::new("ncdump").args(["-v", "mixed3"]).arg(&path).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{told}");
        for due in [r#"{4, "text 4", {"4.0"}}"#, r#"{5, "text 5", {"5.0", "5.1"}}"#] {
            assert!(text.contains(due), "{text}");
        }
        let output = Command::new("h5dump").arg(&path).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// netCDF-C changes a file of ours, and what it wrote is read.
#[test]
fn peers_write_our_files_further() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("changed.nc");
    write(&path, 2);
    python(CHANGE, &[], &path);
    Threads::new(2)
        .try_run(|comm| {
            let mut data = Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default())?;
            check_added(&mut data)?;
            data.close()
        })
        .unwrap();
}

#[test]
fn files_of_netcdf4_are_read_and_written_further() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("theirs.nc");
    python(MAKE, &["netcdf4"], &path);
    let numbers: Vec<u64> = (0..40).collect();
    let strings: Vec<String> = numbers.iter().map(|&one| string(one)).collect();
    Threads::new(2)
        .try_run(|comm| {
            let mut data = Dataset::open(&comm, &path, OpenMode::ReadWrite, &Options::default())?;
            assert_eq!(data.hidden(), []);
            let of = |name: &str| data.variable(name).unwrap();
            let (names, lists, later, never, flags) =
                (of("names"), of("lists"), of("later"), of("never"), of("flags"));
            assert_eq!(data.attribute(Owner::Global, "one")?.as_text(), Some("a string"));
            let several = Values::strings(["x", "yy"]);
            assert_eq!(data.attribute(Owner::Global, "several")?, &several);
            assert_eq!(data.strings(names, &Slab::all())?, strings);
            let found: Vec<Vec<i32>> = data.sequences(lists, &Slab::all())?;
            assert_eq!(found, numbers.iter().map(|&one| super::sequence(one)).collect::<Vec<_>>());
            let found = data.strings(later, &Slab::new(&[2, 4], &[1, 4]))?;
            assert_eq!(found, ["", "five", "six", ""]);
            assert_eq!(data.strings(never, &Slab::all())?, vec![""; 120]);
            let mut found = vec![0_i16; 40];
            data.get_all(flags, &Slab::all(), &mut found)?;
            assert_eq!(found, numbers.iter().map(|&one| super::flag(one)).collect::<Vec<_>>());
            // A contiguous variable of theirs is changed in place, a chunked one grows.
            let rank = comm.rank() as u64;
            let mine = [format!("rank {rank}")];
            data.put_strings_all(names, &Slab::element(&[10 + rank]), &mine)?;
            data.put_strings_all(later, &Slab::element(&[4, rank]), &mine)?;
            data.close()
        })
        .unwrap();
    let script = r#"
with netCDF4.Dataset(sys.argv[1]) as data:
    due = lambda n, one: one == (f"rank {n - 10}" if n in (10, 11) else string(n))
    each(due, data["names"][...], "names")
    assert data["later"].shape == (5, 40)
    assert list(data["later"][4, :3]) == ["rank 0", "rank 1", ""], data["later"][4, :3]
    assert list(data["later"][2, 4:8]) == ["", "five", "six", ""], data["later"][2, 4:8]
    each(observation, data["observations"][...], "observations")
"#;
    python(script, &[], &path);
}

#[test]
fn files_of_h5py_are_read() {
    let place = TempDir::new().unwrap();
    let path = place.path().join("theirs.h5");
    python(MAKE, &["h5py"], &path);
    let numbers: Vec<u64> = (0..40).collect();
    Threads::new(2)
        .try_run(|comm| {
            let mut data = Dataset::open(&comm, &path, OpenMode::ReadOnly, &Options::default())?;
            assert_eq!(data.hidden(), []);
            let names = data.variable("names")?;
            let strings: Vec<String> = numbers.iter().map(|&one| string(one)).collect();
            assert_eq!(data.strings(names, &Slab::all())?, strings);
            let fixed = data.variable("fixed")?;
            assert_eq!(data.header().variables[fixed.index()].external, Type::Text(6));
            assert_eq!(data.strings(fixed, &Slab::new(&[9], &[2]))?, ["f9", "f10"]);
            let flags = data.variable("flags")?;
            let mut found = vec![0_i16; 40];
            data.get_all(flags, &Slab::all(), &mut found)?;
            assert_eq!(found, numbers.iter().map(|&one| super::flag(one)).collect::<Vec<_>>());
            let mut raw = vec![0_i16; 40];
            data.get_all(flags, &Slab::all(), striate_array::Raw::slice_mut(&mut raw))?;
            assert_eq!(raw, found, "raw elements have the byte order of the machine");
            // Packed members with the highest byte first.
            let big = data.variable("big")?;
            let Type::User(of) = data.header().variables[big.index()].external else { panic!() };
            let UserTypeClass::Compound(members) = data.user_type(of)?.class.clone() else {
                panic!()
            };
            let offsets: Vec<u32> = members.iter().map(|member| member.offset).collect();
            assert_eq!(offsets, [0, 2, 14, 15, 23]);
            let size = of.size() as usize;
            let mut bytes = vec![0_u8; 3 * size];
            let slab = Slab::new(&[7], &[3]).stride(&[10]);
            data.get_all(big, &slab, striate_array::Raw::slice_mut(&mut bytes))?;
            for (element, number) in bytes.chunks(size).zip([7, 17, 27]) {
                let due = observation(number);
                let mut packed = due.station.to_ne_bytes().to_vec();
                packed.extend(due.wind.iter().flat_map(|one| one.to_ne_bytes()));
                packed.push(due.cover);
                packed.extend(due.when.to_ne_bytes());
                packed.extend(b"ab\0");
                assert_eq!(element, packed);
            }
            let lists: Vec<Vec<i64>> = data.sequences(data.variable("lists")?, &Slab::all())?;
            let due = numbers
                .iter()
                .map(|&one| super::sequence(one).into_iter().map(i64::from).collect());
            assert_eq!(lists, due.collect::<Vec<Vec<i64>>>());
            data.close()
        })
        .unwrap();
}

/// Records that only another variable has: chunks of strings that are not in the file.
#[test]
fn strings_that_nobody_wrote_are_empty_for_all() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("words.nc");
    let options = Options::default();
    Threads::new(2)
        .try_run(|comm| {
            let mut define = Dataset::create(&comm, &path, Format::Netcdf4, &options)?;
            let (time, x) = (define.unlimited("time")?, define.dimension("x", 2)?);
            let number = define.variable("number", Type::Int, &[time, x])?;
            for (name, is_filled) in [("filled", true), ("unfilled", false)] {
                let words = define.variable(name, Type::String, &[time, x])?;
                define.fill(words, is_filled);
                let layout = StorageLayout::Chunked(vec![1, 2]);
                define.storage(words, StorageOptions { layout, ..StorageOptions::default() })?;
            }
            let mut data = define.end()?;
            for name in ["filled", "unfilled"] {
                let words = data.variable(name)?;
                data.put_strings_all(words, &Slab::new(&[1, 0], &[1, 2]), &["one", "two"])?;
            }
            data.put_all(number, &Slab::new(&[0, 0], &[4, 2]), &[7; 8])?;
            data.close()
        })
        .unwrap();
    let script = "import sys, h5py, netCDF4\n\
        due = ['', '', 'one', 'two', '', '', '', '']\n\
        with netCDF4.Dataset(sys.argv[1]) as data:\n\
        \x20   for name in ['filled', 'unfilled']: assert list(data[name][...].ravel()) == due, data[name][...]\n\
        with h5py.File(sys.argv[1]) as data:\n\
        \x20   for name in ['filled', 'unfilled']: assert list(data[name].asstr()[...].ravel()) == due\n";
    python(script, &[], &path);
    let dumped = Command::new("ncdump").arg(&path).output().unwrap();
    assert!(dumped.status.success(), "{}", String::from_utf8_lossy(&dumped.stderr));
    let mut data =
        Dataset::open(&striate_comm::alone(), &path, OpenMode::ReadOnly, &options).unwrap();
    for name in ["filled", "unfilled"] {
        let found = data.strings(data.variable(name).unwrap(), &Slab::all()).unwrap();
        assert_eq!(found, ["", "", "one", "two", "", "", "", ""]);
    }
    data.close().unwrap();
}
