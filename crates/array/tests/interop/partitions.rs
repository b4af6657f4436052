//! Other tools read the files of a partitioned dataset.

use std::path::PathBuf;

use striate_array::{Dataset, OpenMode, Options, Slab, Type};

use crate::tools::{ask, assert_valid, hex, printed, python, run, text};
use crate::{FORMATS, open, ranks};

const ROWS: u64 = 11;
const COLUMNS: u64 = 5;
const RECORDS: u64 = 3;
const COUNT: u64 = 4;

#[test]
fn masters_and_partitions_are_read_by_other_tools() {
    let directory = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let path = directory.path().join(format!("{}.nc", format.version()));
        let options = Options::default()
            .with("nc_partitioning_enabled", "enable")
            .and_then(|options| options.with("nc_num_partitions", &COUNT.to_string()))
            .unwrap();
        ranks(3, |comm| {
            let mut define = Dataset::create(&comm, &path, format, &options)?;
            let time = define.unlimited("time")?;
            let y = define.dimension("y", ROWS)?;
            let x = define.dimension("x", COLUMNS)?;
            let grid = define.variable("grid", Type::Short, &[y, x])?;
            let series = define.variable("series", Type::Double, &[time, x, y])?;
            let axis = define.variable("axis", Type::Int, &[x])?;
            define.attribute(grid, "units", "K")?;
            define.partition_along(series, y)?;
            let mut data = define.end()?;
            let first = comm.rank() == 0;
            let share = |count: u64| if first { count } else { 0 };
            let rows = share(ROWS);
            let values: Vec<i16> = (0..(rows * COLUMNS) as i16).collect();
            data.put_all(grid, &Slab::new(&[0, 0], &[rows, COLUMNS]), &values)?;
            let records = share(RECORDS);
            let values: Vec<i32> = (0..(records * ROWS * COLUMNS) as i32).collect();
            data.put_all(series, &Slab::new(&[0, 0, 0], &[records, COLUMNS, ROWS]), &values)?;
            data.put_all(axis, &Slab::all(), &[5, 6, 7, 8, 9])?;
            data.close()
        });
        let files: Vec<PathBuf> = ranks(1, |comm| {
            let data = open(&comm, &path);
            Ok(data.partitions().unwrap().iter().map(|info| info.file.clone()).collect())
        })
        .remove(0);
        assert_eq!(files.len() as u64, COUNT);
        assert_valid(&path);
        let master = run("ncdump", &[text(&path)]);
        assert_eq!(printed(&master, "axis"), [5.0, 6.0, 7.0, 8.0, 9.0].map(Some));
        for words in ["grid:partition_ranges = 0", "grid:units = \"K\"", ":partition_count = 4"] {
            assert!(master.contains(words), "{words}: {master}");
        }
        assert!(master.contains("time = UNLIMITED ; // (3 currently)"), "{master}");
        for (k, file) in (0..).zip(&files) {
            assert_valid(file);
            let (low, high) = (ROWS * k / COUNT, ROWS * (k + 1) / COUNT);
            let dump = run("ncdump", &[text(file)]);
            assert!(dump.contains(&format!("y = {} ;", high - low)), "{dump}");
            let suffix = if format.version() == 5 { "LL" } else { "" };
            let range = format!("range(y) = {low}{suffix}, {}{suffix} ;", high - 1);
            // Parentheses are escaped in names.
            assert!(dump.replace('\\', "").contains(&range), "{dump}");
            let grid: Vec<_> =
                (low * COLUMNS..high * COLUMNS).map(|value| Some(value as f64)).collect();
            assert_eq!(printed(&dump, "grid"), grid);
        }
        // Every element of the series, as Python reads it.
        for listed in ask(&[("dump", &files)]).iter().filter(|listed| listed.what == "series") {
            let k = files.iter().position(|file| *file == listed.file).unwrap() as u64;
            let rows = ROWS * k / COUNT..ROWS * (k + 1) / COUNT;
            assert_eq!(listed.shape, [RECORDS, COLUMNS, rows.end - rows.start]);
            let bytes: Vec<u8> = (0..RECORDS * COLUMNS)
                .flat_map(|line| rows.clone().map(move |row| (line * ROWS + row) as f64))
                .flat_map(f64::to_be_bytes)
                .collect();
            assert_eq!(listed.data, hex(&bytes));
        }
    }
}

/// Combines partitions by their coordinates, and compares with the written data.
const BY_COORDS: &str = r#"
import sys, numpy, xarray
records, shift = int(sys.argv[1]), float(sys.argv[2])
with xarray.open_mfdataset(sys.argv[3:], combine="by_coords", decode_times=False) as d:
    numpy.testing.assert_array_equal(d["y"], shift + 0.5 * numpy.arange(11))
    numpy.testing.assert_array_equal(d["x"], 7 * numpy.arange(5))
    numpy.testing.assert_array_equal(d["time"], 10.0 * numpy.arange(records))
    assert d["y"].attrs["units"] == "m", d["y"]
    numpy.testing.assert_array_equal(d["grid"].transpose("y", "x"), numpy.arange(55).reshape(11, 5))
    series = numpy.arange(records * 55).reshape(records, 5, 11)
    numpy.testing.assert_array_equal(d["series"].transpose("time", "x", "y"), series)
print("the same")
"#;

#[test]
fn partitions_are_combined_by_their_coordinates() {
    let directory = tempfile::tempdir().unwrap();
    for format in FORMATS {
        let path = directory.path().join(format!("{}.nc", format.version()));
        let options = Options::default()
            .with("nc_partitioning_enabled", "enable")
            .and_then(|options| options.with("nc_num_partitions", &COUNT.to_string()))
            .unwrap();
        let series_of = |records: std::ops::Range<u64>| -> Vec<f64> {
            (records.start * 55..records.end * 55).map(|value| value as f64).collect()
        };
        ranks(3, |comm| {
            let mut define = Dataset::create(&comm, &path, format, &options)?;
            let (time, y, x) =
                (define.unlimited("time")?, define.dimension("y", 11)?, define.dimension("x", 5)?);
            let ys = define.variable("y", Type::Double, &[y])?;
            define.attribute(ys, "units", "m")?;
            let grid = define.variable("grid", Type::Short, &[y, x])?;
            let series = define.variable("series", Type::Double, &[time, x, y])?;
            let times = define.variable("time", Type::Double, &[time])?;
            let xs = define.variable("x", Type::Int, &[x])?;
            define.partition_along(series, y)?;
            let mut data = define.end()?;
            let values: Vec<i16> = (0..55).collect();
            data.put_all(grid, &Slab::all(), &values)?;
            // Coordinates are written after the data, and twice.
            data.put_all(xs, &Slab::all(), &[0, 7, 14, 21, 28])?;
            data.put_all(ys, &Slab::all(), &[1.0; 11])?;
            data.sync()?;
            let places: Vec<f64> = (0..11).map(|row| 100.0 + 0.5 * f64::from(row)).collect();
            data.put_all(ys, &Slab::all(), &places)?;
            let all = Slab::new(&[0, 0, 0], &[2, 5, 11]);
            data.put_all(series, &all, &series_of(0..2))?;
            // Independently, by one rank.
            if comm.rank() == 1 {
                data.put(times, &Slab::new(&[0], &[2]), &[0.0, 10.0])?;
            }
            data.close()
        });
        let (files, _) = ranks(1, |comm| {
            let data = open(&comm, &path);
            let files: Vec<PathBuf> =
                data.partitions().unwrap().iter().map(|info| info.file.clone()).collect();
            Ok((files, data.close()))
        })
        .remove(0);
        let together = |records: &str, shift: &str| {
            let mut arguments = vec!["-c", BY_COORDS, records, shift];
            arguments.extend(files.iter().map(|file| text(file)));
            assert_eq!(run(python(), &arguments), "the same\n");
        };
        together("2", "100");
        for file in &files {
            assert_valid(file);
        }
        // Opened again: another record, and other coordinates.
        ranks(2, |comm| {
            let mut data = Dataset::open(&comm, &path, OpenMode::ReadWrite, &Options::default())?;
            let [series, times, ys] =
                ["series", "time", "y"].map(|name| data.variable(name).unwrap());
            let record = Slab::new(&[2, 0, 0], &[1, 5, 11]);
            data.put_all(series, &record, &series_of(2..3))?;
            data.put_all(times, &Slab::element(&[2]), &[20.0])?;
            let places: Vec<f64> = (0..11).map(|row| -3.0 + 0.5 * f64::from(row)).collect();
            data.put_all(ys, &Slab::all(), &places)?;
            data.close()
        });
        together("3", "-3");
        // Redefined: additions do not change existing data.
        ranks(2, |comm| {
            let data = Dataset::open(&comm, &path, OpenMode::ReadWrite, &options)?;
            let mut define = data.redefine()?;
            let (y, x) = (define.dimensions().nth(1).unwrap(), define.dimensions().nth(2).unwrap());
            let z = define.dimension("z", 2)?;
            define.variable("z", Type::Float, &[z])?;
            let cube = define.variable("cube", Type::Byte, &[y, z, x])?;
            let mut data = define.end()?;
            data.put_all(cube, &Slab::all(), &[1_i8; 110])?;
            data.close()
        });
        together("3", "-3");
        let master = run("ncdump", &["-h", text(&path)]);
        for words in ["grid:partition_note = \"This scalar holds no data", "join THIS_FILE"] {
            assert!(master.contains(words), "{words}: {master}");
        }
        // The program does not see these attributes.
        ranks(1, |comm| {
            let data = open(&comm, &path);
            assert!(data.header().attributes.is_empty());
            data.close()
        });
    }
}
