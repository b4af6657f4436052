//! A partitioned dataset is one dataset to the program.

use striate_array::{ArrayError, Dataset, Format, OpenMode, Owner, Pending, Slab, Type};

use crate::{assert_valid, divided, names, open, ranks, temporary_dataset};

const ROWS: u64 = 10;
const COLUMNS: u64 = 7;

fn heat(row: u64, column: u64) -> f64 {
    (row * 100 + column) as f64 + 0.5
}

/// A dataset of a divided variable, a divided record variable, and a scalar.
fn write(ranks_: usize, path: &std::path::Path, count: u64, format: Format) {
    ranks(ranks_, |comm| {
        let mut define = Dataset::create(&comm, path, format, &divided(count))?;
        let time = define.unlimited("time")?;
        let y = define.dimension("y", ROWS)?;
        let x = define.dimension("x", COLUMNS)?;
        let heat_ = define.variable("heat", Type::Double, &[y, x])?;
        let series = define.variable("series", Type::Int, &[time, y])?;
        let step = define.variable("step", Type::Int, &[])?;
        define.attribute(heat_, "units", "K")?;
        define.attribute(Owner::Global, "title", "a test")?;
        let mut data = define.end()?;
        // Each rank has some columns, which are in all partitions.
        let (rank, size) = (comm.rank() as u64, comm.size() as u64);
        let columns = COLUMNS * rank / size..COLUMNS * (rank + 1) / size;
        let values: Vec<f64> =
            (0..ROWS).flat_map(|row| columns.clone().map(move |c| heat(row, c))).collect();
        let slab = Slab::new(&[0, columns.start], &[ROWS, columns.end - columns.start]);
        data.put_all(heat_, &slab, &values)?;
        data.put_all(step, &Slab::all(), &[7])?;
        let count = if rank == 0 { 3 } else { 0 };
        let records: Vec<i32> = (0..count * ROWS as i32).collect();
        data.put_all(series, &Slab::new(&[0, 0], &[count as u64, ROWS]), &records)?;
        assert_eq!(data.header().records, 3);
        data.close()
    });
}

fn check(data: &mut Dataset) -> Result<(), ArrayError> {
    let header = data.header();
    assert_eq!(header.records, 3);
    assert_eq!(header.attributes.len(), 1);
    assert_eq!(header.variables[0].attributes.len(), 1);
    let heat_ = data.variable("heat")?;
    assert_eq!(data.shape(heat_), [ROWS, COLUMNS]);
    let expected: Vec<f64> =
        (0..ROWS).flat_map(|row| (0..COLUMNS).map(move |c| heat(row, c))).collect();
    let mut found = vec![0.0; expected.len()];
    data.get_all(heat_, &Slab::all(), &mut found)?;
    assert_eq!(found, expected);
    assert_eq!(data.array::<f64>(heat_, &Slab::all())?.into_raw_vec_and_offset().0, expected);
    let series = data.variable("series")?;
    let mut found = vec![0; 5];
    data.get_all(series, &Slab::new(&[2, 1], &[1, 5]).stride(&[1, 2]), &mut found)?;
    assert_eq!(found, [21, 23, 25, 27, 29]);
    let step = data.variable("step")?;
    assert_eq!(data.values(step, &Slab::all())?, vec![7].into());
    // All at once.
    let (mut a, mut b, mut c) = ([0.0_f32; 2], [0_i64; 2], [0_i8; 1]);
    let mut pending = Pending::new();
    data.iget(&mut pending, heat_, &Slab::new(&[3, 6], &[2, 1]), &mut a)?;
    data.iget(&mut pending, series, &Slab::new(&[0, 4], &[2, 1]), &mut b)?;
    data.iget(&mut pending, step, &Slab::all(), &mut c)?;
    data.wait_all(pending)?;
    assert_eq!((a, b, c), ([306.5, 406.5], [4, 14], [7]));
    Ok(())
}

#[test]
fn any_number_of_ranks_writes_and_reads_any_number_of_partitions() {
    for (writers, count) in [(4, 4), (4, 2), (3, 7), (1, 3), (5, 3)] {
        let (directory, path) = temporary_dataset();
        let format = [Format::Cdf1, Format::Cdf2, Format::Cdf5][count as usize % 3];
        write(writers, &path, count, format);
        let files = names(directory.path());
        assert_eq!(files.len() as u64, 1 + count, "{files:?}");
        for file in &files {
            assert_valid(&directory.path().join(file));
        }
        for readers in [1, 2, 4, 6] {
            ranks(readers, |comm| {
                let mut data = open(&comm, &path, OpenMode::ReadOnly);
                assert_eq!(data.partitions().map(<[_]>::len), Some(count as usize));
                check(&mut data)?;
                data.close()
            });
        }
    }
}
