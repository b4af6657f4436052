//! Memory that does not match the access.

use ndarray::{Array2, s};
use striate_array::{Dataset, Format, OpenMode, Pending, Sink, Slab, Source, Type, VariableId};
use striate_datatype::Datatype;

use crate::{
    assert_example, assert_valid, create, example, example_variables, message, open, place, ranks,
};

static FEW: [i32; 23] = [-9; 23];
static RIGHT: [i32; 24] = [-9; 24];

/// Tries to write and to read with memory that does not match, independently and on one of many
/// ranks.
fn refuse(
    data: &mut Dataset,
    variable: VariableId,
    slab: &Slab,
    words: &str,
    source: impl Fn() -> Source<'static, i32>,
    sink: impl FnOnce(&mut dyn FnMut(Sink<'_, i32>)),
) {
    let at_fault = data.comm().rank() == 1;
    let error = message(data.put(variable, slab, source()));
    assert!(error.contains(words), "{error}");
    let mut pending = Pending::new();
    let error = message(data.iput(&mut pending, variable, slab, source()));
    assert!(error.contains(words), "{error}");
    let nothing = Slab::new(&[0, 0], &[0, 0]);
    let failed = if at_fault {
        data.put_all(variable, slab, source())
    } else {
        data.put_all(variable, &nothing, &[0_i32; 0])
    };
    let error = message(failed);
    assert!(error.contains(words) && (at_fault || error.starts_with("rank 1: ")), "{error}");
    sink(&mut |sink| {
        let error = message(data.get(variable, slab, sink));
        assert!(error.contains(words), "{error}");
    });
}

#[test]
fn memory_that_does_not_fit() {
    let (_directory, path) = place();
    ranks(1, |comm| example(&comm, &path, Format::Cdf1).close());
    let before = std::fs::read(&path).unwrap();
    let slab = Slab::new(&[0, 0], &[4, 6]);
    ranks(3, |comm| {
        let mut data = open(&comm, &path, OpenMode::ReadWrite);
        let [grid, ..] = example_variables(&data);
        let data = &mut data;
        let mut buffer = [0; 24];
        let count = "23 elements in memory for 24 in the file";
        refuse(
            data,
            grid,
            &slab,
            count,
            || Source::new(&FEW),
            |get| get(Sink::new(&mut buffer[1..])),
        );
        refuse(
            data,
            grid,
            &slab,
            count,
            || Source::permuted(&FEW, &[1, 0]),
            |get| {
                get(Sink::permuted(&mut buffer[1..], &[1, 0]));
            },
        );
        for axes in [&[0_usize, 0][..], &[0], &[0, 2], &[0, 1, 0], &[]] {
            let words = format!("{axes:?} is not an order of 2 dimensions");
            refuse(
                data,
                grid,
                &slab,
                &words,
                || Source::permuted(&RIGHT, axes),
                |get| {
                    get(Sink::permuted(&mut buffer, axes));
                },
            );
        }
        let words = "3 strides of memory for 2 dimensions";
        refuse(
            data,
            grid,
            &slab,
            words,
            || Source::mapped(&RIGHT, &[6, 1, 1]),
            |get| {
                get(Sink::mapped(&mut buffer, &[6, 1, 1]));
            },
        );
        // Behind the end, before the beginning, and beyond 64 bits.
        for map in [[7, 1], [-6, 1], [i64::MAX, 1], [i64::MIN, 1]] {
            refuse(
                data,
                grid,
                &slab,
                "",
                || Source::mapped(&RIGHT, &map),
                |get| {
                    get(Sink::mapped(&mut buffer, &map));
                },
            );
        }
        let row = Datatype::bytes(6 * 4).unwrap();
        let words = "the memory's datatype has 72 bytes for 24 elements of 4";
        refuse(
            data,
            grid,
            &slab,
            words,
            || Source::typed(&RIGHT, 0, 3, &row),
            |get| {
                get(Sink::typed(&mut buffer, 0, 3, &row));
            },
        );
        refuse(
            data,
            grid,
            &slab,
            "",
            || Source::typed(&RIGHT, 1, 4, &row),
            |get| {
                get(Sink::typed(&mut buffer, 1, 4, &row));
            },
        );
        assert_eq!(buffer, [0; 24]);
        assert_example(data);
        Ok(())
    });
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn views_of_another_shape() {
    let (_directory, path) = place();
    ranks(2, |comm| {
        let mut data = example(&comm, &path, Format::Cdf1);
        let [grid, ..] = example_variables(&data);
        let slab = Slab::new(&[0, 0], &[4, 6]);
        let mut array = Array2::<i32>::from_elem((8, 12), -9);
        for (rows, columns) in [(6, 4), (4, 5), (3, 6)] {
            let words = format!("a view of shape [{rows}, {columns}] for [4, 6] elements");
            // Without gaps, with gaps, transposed.
            let dense = Array2::<i32>::zeros((rows, columns));
            assert!(message(data.put_all(grid, &slab, dense.view())).contains(&words));
            let part = array.slice(s![1..=rows, 1..=columns]);
            assert!(message(data.put_all(grid, &slab, part)).contains(&words));
            let part = array.slice_mut(s![1..=rows, 1..=columns]);
            assert!(message(data.get_all(grid, &slab, part)).contains(&words));
            let turned = Array2::<i32>::zeros((columns, rows));
            assert!(message(data.put_all(grid, &slab, turned.t())).contains(&words));
        }
        let one = ndarray::Array1::<i32>::zeros(24);
        let words = "a view of shape [24] for [4, 6] elements";
        assert!(message(data.put_all(grid, &slab, one.view())).contains(words));
        assert!(array.iter().all(|&value| value == -9));
        data.sync()?;
        assert_example(&mut data);
        data.close()
    });
    assert_valid(&path);
}

#[test]
fn origins_and_sizes_beyond_all_memory_are_refused() {
    let (_directory, path) = place();
    ranks(1, |comm| {
        let mut define = create(&comm, &path, Format::Cdf5);
        let huge = define.dimension("huge", 1 << 61)?;
        let few = define.dimension("few", 4)?;
        let sparse = define.variable("sparse", Type::Byte, &[huge])?;
        let small = define.variable("small", Type::Int, &[few])?;
        let mut data = define.end()?;
        let one = Datatype::bytes(4)?;
        let far = Source::typed(&[1_i32; 4], usize::MAX, 4, &one);
        assert!(message(data.put(small, &Slab::all(), far)).contains("outside"));
        let few = Source::typed(&[1_f64; 4], 0, 4, &one);
        assert!(message(data.put(sparse, &Slab::all(), few)).contains("datatype"));
        // A file may claim more elements than memory can hold.
        assert!(message(data.values(sparse, &Slab::all())).contains("no memory"));
        assert!(message(data.array::<f64>(sparse, &Slab::all())).contains("no memory"));
        data.abort()
    });
}
