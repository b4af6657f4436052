//! Offsets of variables in new files, by default and by hints; and `ndarray` arrays.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use ndarray::{Array2, Axis, s};
use striate_array::format::Header;
use striate_array::{ArrayError, Dataset, Format, Options, Slab, Type};
use striate_comm::Threads;

/// A small variable, a large one, and one with records.
fn create(path: &Path, options: &Options) -> Header {
    let headers = Threads::new(2).try_run(|comm| {
        let mut define = Dataset::create(&comm, path, Format::Cdf2, options)?;
        let time = define.unlimited("time")?;
        let few = define.dimension("few", 3)?;
        let many = define.dimension("many", 1 << 18)?;
        define.variable("small", Type::Short, &[few])?;
        define.variable("large", Type::Double, &[many])?;
        define.variable("tiny", Type::Byte, &[])?;
        define.variable("series", Type::Float, &[time, few])?;
        let data = define.end()?;
        let header = data.header().clone();
        data.close()?;
        Ok::<_, ArrayError>(header)
    });
    headers.unwrap().remove(0)
}

fn begins(header: &Header) -> [u64; 4] {
    std::array::from_fn(|i| header.variables[i].begin)
}

#[test]
fn large_variables_begin_on_pages_of_local_files() {
    let directory = tempfile::tempdir().unwrap();
    let header = create(&directory.path().join("a.nc"), &Options::default());
    let [small, large, tiny, series] = begins(&header);
    assert!(small < 1024, "the header takes no more than it needs");
    assert_eq!(large % 4096, 0);
    assert_eq!(tiny, large + (8 << 18), "small ones follow directly");
    assert_eq!(series, tiny + 4);
}

#[test]
fn everything_begins_on_stripes_of_servers() {
    let embedded = striate_server::Embedded::start(3).unwrap();
    let options = Options::default().with("striping_unit", "64KiB").unwrap();
    let header = create(Path::new(&format!("{}/a.nc", embedded.url())), &options);
    let [small, large, tiny, series] = begins(&header);
    assert_eq!([small % 65536, large % 65536, series % 65536], [0; 3]);
    assert_eq!(tiny, large + (8 << 18), "but small variables are not spread over stripes");
}

#[test]
fn hints_align_all_variables() {
    let directory = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    for (name, value) in [
        ("nc_header_align_size", "8KiB"),
        ("nc_var_align_size", "1000"),
        ("nc_record_align_size", "4KiB"),
    ] {
        options.set(name, value).unwrap();
    }
    let [small, large, tiny, series] = begins(&create(&directory.path().join("a.nc"), &options));
    assert!(small >= 8192);
    assert_eq!([small % 1000, large % 1000, tiny % 1000, series % 4096], [0; 4]);
    let error = options.set("nc_var_align_size", "many").unwrap_err().to_string();
    assert!(error.contains("nc_var_align_size") && error.contains("many"), "{error}");
}

#[test]
fn ndarray_arrays_are_written_and_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.nc");
    Threads::new(1)
        .try_run(|comm| {
            let mut define = Dataset::create(&comm, &path, Format::Cdf5, &Options::default())?;
            let (y, x) = (define.dimension("y", 4)?, define.dimension("x", 6)?);
            let field = define.variable("field", Type::Int, &[y, x])?;
            let mut data = define.end()?;
            // The inner part of an array with a frame, then its reversed transpose.
            let framed = Array2::from_shape_fn((6, 8), |(y, x)| (10 * y + x) as i64);
            data.put_all(field, &Slab::all(), framed.slice(s![1..5, 1..7]))?;
            let found = data.array::<i64>(field, &Slab::all())?;
            assert_eq!(found, framed.slice(s![1..5, 1..7]).into_dyn());
            let mut turned = Array2::<u16>::zeros((6, 4));
            let mut view = turned.view_mut().reversed_axes();
            view.invert_axis(Axis(0));
            data.get_all(field, &Slab::all(), view)?;
            assert_eq!(turned[[2, 3]], 13);
            assert_eq!(data.array::<i8>(field, &Slab::element(&[3, 5]))?[[0, 0]], 46);
            data.close()
        })
        .unwrap();
}
