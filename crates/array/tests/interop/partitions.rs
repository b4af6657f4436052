//! The files of a partitioned dataset are files like any other.

use std::path::PathBuf;

use striate_array::{Dataset, Options, Slab, Type};

use crate::tools::{ask, assert_valid, hex, printed, run, text};
use crate::{FORMATS, open, ranks};

const ROWS: u64 = 11;
const COLUMNS: u64 = 5;
const RECORDS: u64 = 3;
const COUNT: u64 = 4;

#[test]
fn masters_and_partitions_are_read_by_others() {
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
        for told in ask(&[("dump", &files)]).iter().filter(|told| told.what == "series") {
            let k = files.iter().position(|file| *file == told.file).unwrap() as u64;
            let rows = ROWS * k / COUNT..ROWS * (k + 1) / COUNT;
            assert_eq!(told.shape, [RECORDS, COLUMNS, rows.end - rows.start]);
            let bytes: Vec<u8> = (0..RECORDS * COLUMNS)
                .flat_map(|line| rows.clone().map(move |row| (line * ROWS + row) as f64))
                .flat_map(f64::to_be_bytes)
                .collect();
            assert_eq!(told.data, hex(&bytes));
        }
    }
}
