//! Files that are written in parallel are read by other tools.

use std::path::{Path, PathBuf};

use striate_array::{
    ArrayError, Char, Dataset, Format, Options, Owner, Pending, Slab, Type, Values, VariableId,
};

use crate::tools::{PeerValue, ask, assert_valid, hex, printed, printed_text, run, text};
use crate::{FORMATS, ranks, types};

const ROWS: u64 = 8;
const COLUMNS: u64 = 7;
const RECORDS: u64 = 5;
const RANKS: u64 = 4;

/// The call that writes data.
#[derive(Clone, Copy)]
enum WriteCall {
    Collective,
    Independent,
    Nonblocking,
    Buffered,
}

const CALLS: [WriteCall; 4] =
    [WriteCall::Collective, WriteCall::Independent, WriteCall::Nonblocking, WriteCall::Buffered];

/// An element of a variable: a number that every type holds, and that as a character is a letter.
fn element(variable: usize, row: u64, column: u64) -> i32 {
    65 + ((variable as u64 * 5 + row * 11 + column * 3) % 26) as i32
}

/// Writes the rows of this rank: every `RANKS`-th of them, or none.
fn put(
    data: &mut Dataset,
    variable: VariableId,
    rows: u64,
    call: WriteCall,
) -> Result<(), ArrayError> {
    let (index, rank) = (variable.index(), data.comm().rank() as u64);
    let count = rows.saturating_sub(rank).div_ceil(RANKS);
    let start = if count == 0 { 0 } else { rank };
    let slab = Slab::new(&[start, 0], &[count, COLUMNS]).stride(&[RANKS, 1]);
    let numbers: Vec<i32> = (0..count)
        .flat_map(|k| (0..COLUMNS).map(move |x| element(index, rank + k * RANKS, x)))
        .collect();
    let letters: Vec<Char> = numbers.iter().map(|&number| Char(number as u8)).collect();
    let is_text = data.header().variables[index].external == Type::Char;
    let mut pending = Pending::new();
    macro_rules! put {
        ($memory:expr) => {
            match call {
                WriteCall::Collective => data.put_all(variable, &slab, $memory)?,
                WriteCall::Independent => data.put(variable, &slab, $memory)?,
                WriteCall::Nonblocking => data.iput(&mut pending, variable, &slab, $memory)?,
                WriteCall::Buffered => data.bput(&mut pending, variable, &slab, $memory)?,
            }
        };
    }
    if is_text {
        put!(&letters);
    } else {
        put!(&numbers);
    }
    match call {
        WriteCall::Collective | WriteCall::Independent => Ok(()),
        WriteCall::Nonblocking | WriteCall::Buffered => data.wait_all(pending),
    }
}

/// Writes a dataset with all the format has: types, records, fill values, attributes, and a
/// redefinition by which data moves.
fn write(path: &Path, format: Format) {
    ranks(RANKS as usize, |comm| {
        let mut define = Dataset::create(&comm, path, format, &Options::default())?;
        let time = define.unlimited("time")?;
        let y = define.dimension("y", ROWS)?;
        let x = define.dimension("x", COLUMNS)?;
        for external in types(format) {
            let fixed = define.variable(&format!("fixed_{external}"), external, &[y, x])?;
            define.attribute(fixed, "units", format!("of {external}"))?;
            define.variable(&format!("series_{external}"), external, &[time, x])?;
        }
        // Of these every second row is not written.
        let partly = define.variable("partly", Type::Double, &[time, x])?;
        define.attribute(partly, "_FillValue", -99.5)?;
        let holes = define.variable("holes", Type::Int, &[y, x])?;
        define.fill(partly, true);
        define.fill(holes, true);
        define.attribute(Owner::Global, "numbers", vec![1.5, -2.5])?;

        let mut data = define.end()?;
        data.grow(RECORDS)?;
        let all = 2 * types(format).count();
        for (number, variable) in data.variables().take(all).enumerate() {
            let rows = if number % 2 == 0 { ROWS } else { RECORDS };
            put(&mut data, variable, rows, CALLS[number / 2 % 4])?;
        }
        for (variable, rows) in [(partly, RECORDS), (holes, ROWS)] {
            let every_second: Vec<i32> = (0..rows)
                .step_by(2)
                .flat_map(|row| (0..COLUMNS).map(move |x| element(variable.index(), row, x)))
                .collect();
            let count = rows.div_ceil(2);
            let slab = Slab::new(&[0, 0], &[count, COLUMNS]).stride(&[2, 1]);
            if comm.rank() == 3 {
                data.put_all(variable, &slab, &every_second)?;
            } else {
                data.put_all(variable, &Slab::new(&[0, 0], &[0, 0]), &[0; 0])?;
            }
        }
        let mut define = data.redefine()?;
        define.attribute(Owner::Global, "history", "moved ".repeat(500))?;
        let late = define.variable("late", Type::Short, &[time, x])?;
        let mut data = define.end()?;
        put(&mut data, late, RECORDS, WriteCall::Nonblocking)?;
        data.close()
    });
}

/// The expected values, and which elements are missing.
fn expected(path: &Path, format: Format) -> Vec<(PeerValue, Vec<bool>)> {
    let mut variables = Vec::new();
    for external in types(format) {
        variables.push((format!("fixed_{external}"), external, ROWS, None));
        variables.push((format!("series_{external}"), external, RECORDS, None));
    }
    variables.push(("partly".into(), Type::Double, RECORDS, Some(Values::from(-99.5))));
    variables.push(("holes".into(), Type::Int, ROWS, Some(Values::from(-2_147_483_647))));
    variables.push(("late".into(), Type::Short, RECORDS, None));
    let listed = variables.into_iter().enumerate().map(|(index, (what, external, rows, fill))| {
        let mut data = String::new();
        let mut mask = Vec::new();
        for (row, column) in (0..rows).flat_map(|row| (0..COLUMNS).map(move |x| (row, x))) {
            let missing = fill.as_ref().filter(|_| row % 2 == 1);
            let number = element(index, row, column);
            mask.push(missing.is_some());
            data += &hex(&missing.map_or_else(|| of_type(external, number), Values::to_bytes));
        }
        let shape = vec![rows, COLUMNS];
        (PeerValue { file: path.into(), what, external, shape, data }, mask)
    });
    listed.collect()
}

/// The bytes of a small number in a file.
pub(crate) fn of_type(external: Type, number: i32) -> Vec<u8> {
    let values: Values = match external {
        Type::Byte => (number as i8).into(),
        Type::Char => Values::Char(vec![number as u8]),
        Type::Short => (number as i16).into(),
        Type::Int => number.into(),
        Type::Float => (number as f32).into(),
        Type::Double => f64::from(number).into(),
        Type::UByte => (number as u8).into(),
        Type::UShort => (number as u16).into(),
        Type::UInt => (number as u32).into(),
        Type::Int64 => i64::from(number).into(),
        Type::UInt64 => (number as u64).into(),
        other => unreachable!("{other} is in no classic file"),
    };
    values.to_bytes()
}

#[test]
fn tools_of_netcdf_and_pnetcdf_read_our_files() {
    let directory = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let path = directory.path().join(format!("ours-{format}.nc"));
        write(&path, format);
        assert_valid(&path);
        assert_eq!(run("ncdump", &["-k", text(&path)]).trim(), format.kind());
        for tool in ["ncdump", "ncmpidump"] {
            let dump = run(tool, &[&path]);
            for line in [
                "time = UNLIMITED ; // (5 currently)",
                "double partly(time, x) ;",
                "partly:_FillValue = -99.5 ;",
                "fixed_char:units = \"of char\" ;",
                ":numbers = 1.5, -2.5 ;",
            ] {
                assert!(dump.contains(line), "{tool}: no {line} in\n{dump}");
            }
            for (index, (listed, mask)) in expected(&path, format).into_iter().enumerate() {
                let cells = (0..listed.shape[0])
                    .flat_map(|row| (0..COLUMNS).map(move |column| element(index, row, column)));
                let what = &listed.what;
                if listed.external == Type::Char {
                    let letters: String = cells.map(|cell| char::from(cell as u8)).collect();
                    assert_eq!(printed_text(&dump, what), letters, "{tool} on {what}");
                } else {
                    let cells = cells.zip(mask).map(|(cell, m)| (!m).then_some(f64::from(cell)));
                    let cells: Vec<_> = cells.collect();
                    assert_eq!(printed(&dump, what), cells, "{tool} on {what}");
                }
            }
        }
        // For PnetCDF, the copy of netCDF-C is equal.
        let copy = directory.path().join(format!("copy-{format}.nc"));
        run("nccopy", &[&path, &copy]);
        run("ncmpidiff", &[&path, &copy]);
        // So is that of NCO, which reads every variable.
        let through = directory.path().join(format!("through-{format}.nc"));
        run("ncks", &["-h", "-O", text(&path), text(&through)]);
        run("ncmpidiff", &[&path, &through]);
    }
}

fn digits(mask: &[bool]) -> String {
    mask.iter().map(|&missing| if missing { '1' } else { '0' }).collect()
}

#[test]
fn python_reads_our_files() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths: Vec<PathBuf> = Vec::new();
    for format in FORMATS {
        let path = directory.path().join(format!("ours-{format}.nc"));
        write(&path, format);
        paths.push(path);
    }
    let listed = ask(&[("dump", &paths)]);
    let commands = [("xarray", &paths[..]), ("masks", &paths), ("nans", &paths)];
    let [by_xarray, masks, nans] = commands.map(|command| ask(&[command]));
    for (path, format) in paths.iter().zip(FORMATS) {
        let of_file = |listed: &[PeerValue]| -> Vec<PeerValue> {
            let listed = listed.iter().filter(|one| one.file == *path);
            listed.filter(|one| !one.what.contains(':')).cloned().collect()
        };
        let expected = expected(path, format);
        let values: Vec<PeerValue> = expected.iter().map(|(listed, _)| listed.clone()).collect();
        assert_eq!(of_file(&listed), values);
        assert_eq!(of_file(&by_xarray), values);
        let found: Vec<(String, String)> =
            of_file(&masks).into_iter().map(|one| (one.what, one.data)).collect();
        let right: Vec<(String, String)> =
            expected.iter().map(|(listed, mask)| (listed.what.clone(), digits(mask))).collect();
        assert_eq!(found, right);
        // xarray makes NaN of what an attribute says is missing.
        let (_, mask) = expected.iter().find(|(listed, _)| listed.what == "partly").unwrap();
        for one in of_file(&nans) {
            let is_partly = one.what == "partly";
            let missing = if is_partly { digits(mask) } else { "0".repeat(one.data.len()) };
            assert_eq!(one.data, missing, "{}", one.what);
        }
        // Attributes are present.
        let attribute = |what: &str| {
            let found = listed.iter().find(|one| one.file == *path && one.what == what);
            found.unwrap_or_else(|| panic!("no {what}")).data.clone()
        };
        assert_eq!(attribute(":history"), hex("moved ".repeat(500).as_bytes()));
        assert_eq!(attribute(":numbers"), hex(&Values::from(vec![1.5, -2.5]).to_bytes()));
        assert_eq!(attribute("partly:_FillValue"), hex(&Values::from(-99.5).to_bytes()));
        assert_eq!(attribute("fixed_short:units"), hex(b"of short"));
    }
}

/// A file of 48 GiB, almost all of it holes.
#[test]
fn python_reads_data_at_large_offsets() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("far.nc");
    let len = 6 << 30;
    let values = [1.5, -2.5, 3.5, 1e300];
    ranks(2, |comm| {
        let mut define = Dataset::create(&comm, &path, Format::Cdf5, &Options::default())?;
        let n = define.dimension("n", len)?;
        let v = define.variable("v", Type::Double, &[n])?;
        let mut data = define.end()?;
        let half = 2 * comm.rank();
        let mine = Slab::new(&[len - 4 + half as u64], &[2]);
        data.put_all(v, &mine, &values[half..half + 2])?;
        data.close()
    });
    let listed = ask(&[("tail", std::slice::from_ref(&path))]);
    assert_eq!(listed[0].data, hex(&Values::from(values.to_vec()).to_bytes()));
}
