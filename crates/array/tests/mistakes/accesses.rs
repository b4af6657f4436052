//! Slabs outside of their variable, on one rank of a collective call or in an independent one.

use striate_array::{Format, OpenMode, Owner, Pending, Slab, Type};

use crate::{
    FORMATS, assert_example, assert_told, assert_valid, create, example, example_variables,
    failures, message, open, place, ranks,
};

/// Slabs of `grid`, which is 4 × 6, and what is wrong with them.
fn outside() -> Vec<(Slab, &'static str)> {
    vec![
        (
            Slab::new(&[4, 0], &[1, 1]),
            "start 4, count 1, stride 1 reach beyond the length 4 of dimension 0",
        ),
        (
            Slab::new(&[0, 1], &[1, 6]),
            "start 1, count 6, stride 1 reach beyond the length 6 of dimension 1",
        ),
        (
            Slab::new(&[5, 0], &[0, 1]),
            "start 5, count 0, stride 1 reach beyond the length 4 of dimension 0",
        ),
        (
            Slab::new(&[0, 0], &[1, 4]).stride(&[1, 2]),
            "start 0, count 4, stride 2 reach beyond the length 6",
        ),
        (Slab::new(&[0, 0], &[u64::MAX, 1]), "reach beyond the length 4 of dimension 0"),
        (Slab::new(&[u64::MAX, 0], &[2, 1]), "reach beyond the length 4 of dimension 0"),
        (
            Slab::new(&[1, 0], &[2, 1]).stride(&[u64::MAX, 1]),
            "reach beyond the length 4 of dimension 0",
        ),
        (Slab::new(&[0, 0], &[1, 1]).stride(&[1, 0]), "the stride of dimension 1 is 0"),
        (Slab::new(&[0], &[1]), "1 starts for 2 dimensions"),
        (Slab::new(&[0, 0], &[1, 1, 1]), "3 counts for 2 dimensions"),
        (Slab::new(&[0, 0], &[1, 1]).stride(&[1]), "1 strides for 2 dimensions"),
        (Slab::new(&[], &[]), "0 starts for 2 dimensions"),
    ]
}

#[test]
fn a_slab_outside_on_one_rank_is_an_error_of_all_and_changes_nothing() {
    let (_directory, path) = place();
    for format in FORMATS {
        ranks(1, |comm| example(&comm, &path, format).close());
        ranks(4, |comm| {
            let mut data = open(&comm, &path, OpenMode::ReadWrite);
            let [grid, ..] = example_variables(&data);
            let rank = comm.rank() as u64;
            for (number, (bad, words)) in outside().into_iter().enumerate() {
                let at_fault = number % 4;
                let own = Slab::new(&[rank, 0], &[1, 6]);
                let slab = if comm.rank() == at_fault { bad } else { own };
                let error = message(data.put_all(grid, &slab, &[-1; 6]));
                assert!(
                    error.contains(words) && error.contains("put_all of variable 'grid'"),
                    "{error}"
                );
                assert_eq!(
                    error.starts_with(&format!("rank {at_fault}: ")),
                    comm.rank() != at_fault
                );
                let mut buffer = [-7; 6];
                let error = message(data.get_all(grid, &slab, &mut buffer));
                assert!(
                    error.contains(words) && error.contains("get_all of variable 'grid'"),
                    "{error}"
                );
                // The other ranks may have read their slabs before they get the error.
                assert!(buffer == [-7; 6] || comm.rank() != at_fault, "nothing was read");
                // An independent call does not affect the other ranks.
                if comm.rank() == at_fault {
                    assert!(message(data.put(grid, &slab, &[-1; 6])).contains(words));
                    assert!(message(data.get(grid, &slab, &mut buffer)).contains(words));
                    assert!(message(data.array::<i32>(grid, &slab)).contains(words));
                    assert!(message(data.values(grid, &slab)).contains(words));
                    let mut pending = Pending::new();
                    assert!(
                        message(data.iput(&mut pending, grid, &slab, &[-1; 6])).contains(words)
                    );
                    assert!(
                        message(data.bput(&mut pending, grid, &slab, &[-1; 6])).contains(words)
                    );
                    assert!(
                        message(data.iget(&mut pending, grid, &slab, &mut buffer)).contains(words)
                    );
                    assert!(pending.is_empty());
                }
            }
            assert_example(&mut data);
            // No rank writes before all have checked.
            comm.barrier()?;
            // The dataset can be used further.
            let own = Slab::new(&[rank, 0], &[1, 6]);
            data.put_all(grid, &own, &[rank as i32; 6])?;
            let mut column = [0; 4];
            data.get_all(grid, &Slab::new(&[0, rank], &[4, 1]), &mut column)?;
            assert_eq!(column, [0, 1, 2, 3]);
            data.close()
        });
        assert_valid(&path);
    }
}

#[test]
fn records_that_do_not_exist() {
    let (_directory, path) = place();
    ranks(3, |comm| {
        let mut data = example(&comm, &path, Format::Cdf1);
        let [_, series, _] = example_variables(&data);
        let words = "start 2, count 1, stride 1 reach beyond the length 2 of dimension 0";
        let third = Slab::new(&[2, 0], &[1, 6]);
        assert!(message(data.get(series, &third, &mut [0; 6])).contains(words));
        let mine = if comm.rank() == 1 { third.clone() } else { Slab::new(&[0, 0], &[1, 6]) };
        assert!(message(data.get_all(series, &mine, &mut [0; 6])).contains(words));
        // A put that fails adds no records, on any rank.
        let bad = if comm.rank() == 1 { Slab::new(&[9, 0], &[1, 7]) } else { third.clone() };
        message(data.put_all(series, &bad, &[0; 6]));
        assert_eq!(data.header().records, 2);
        // Neither does an empty slab, wherever it begins.
        data.put_all(series, &Slab::new(&[7, 0], &[1, 0]), &[0; 0])?;
        data.put_all(series, &Slab::new(&[7, 0], &[0, 6]), &[0; 0])?;
        data.put(series, &Slab::new(&[7, 0], &[0, 6]), &[0; 0])?;
        data.sync()?;
        assert_eq!(data.header().records, 2);
        data.close()
    });
    assert_valid(&path);
}

#[test]
fn more_records_than_can_be_counted() {
    for (format, most) in [(Format::Cdf1, u64::from(u32::MAX) - 1), (Format::Cdf5, i64::MAX as u64)]
    {
        let (_directory, path) = place();
        ranks(2, |comm| {
            let mut data = example(&comm, &path, format);
            let [_, series, _] = example_variables(&data);
            let error = message(data.put_all(series, &Slab::element(&[most, 0]), &[1]));
            let words = format!("{} records are more than {format} can count", most + 1);
            assert!(error.contains(&words), "{error}");
            // Beyond the size of any file.
            for (start, count) in [([u64::MAX, 0], [1, 1]), ([1 << 62, 0], [1, 1])] {
                message(data.put_all(series, &Slab::new(&start, &count), &[1]));
            }
            message(data.grow(u64::MAX));
            assert_eq!(data.header().records, 2);
            data.sync()?;
            assert_example(&mut data);
            data.close()
        });
        assert_valid(&path);
    }
}

#[test]
fn more_elements_than_can_be_counted() {
    let (_directory, path) = place();
    ranks(2, |comm| {
        let mut data = example(&comm, &path, Format::Cdf5);
        let [_, series, _] = example_variables(&data);
        let slab = Slab::new(&[0, 0], &[1 << 62, 6]);
        message(data.put_all(series, &slab, &[1]));
        message(data.put(series, &slab, &[1]));
        let nothing = Slab::new(&[0, 0], &[1 << 62, 0]);
        data.put(series, &nothing, &[0; 0])?;
        data.sync()?;
        assert_example(&mut data);
        data.close()
    });
}

#[test]
fn text_and_numbers_do_not_convert() {
    let (_directory, path) = place();
    let messages = failures(3, |comm| {
        let mut data = example(&comm, &path, Format::Cdf5);
        let [grid, _, name] = example_variables(&data);
        let text = striate_array::Char::slice(b"abcdef");
        let row = Slab::new(&[0, 0], &[1, 6]);
        assert_eq!(
            message(data.put(grid, &row, text)),
            "variable 'grid' holds int, which does not convert to or from Text"
        );
        let error = "variable 'name' holds char, which does not convert to or from ";
        assert_eq!(message(data.put(name, &Slab::all(), b"abcdef")), format!("{error}U8"));
        assert_eq!(message(data.get(name, &Slab::all(), &mut [0.0_f64; 6])), format!("{error}F64"));
        assert_eq!(message(data.array::<i8>(name, &Slab::all())), format!("{error}I8"));
        let failed = if comm.rank() == 2 {
            data.put_all(name, &Slab::all(), &[1_i32; 6])
        } else {
            data.put_all(name, &Slab::all(), text)
        };
        data.sync()?;
        assert_example(&mut data);
        data.close()?;
        failed
    });
    assert_told(&messages, 2, "variable 'name' holds char, which does not convert to or from I32");
}

#[test]
fn slabs_of_all_and_of_scalars() {
    let (_directory, path) = place();
    ranks(2, |comm| {
        let mut define = create(&comm, &path, Format::Cdf1);
        let scalar = define.variable("scalar", Type::Double, &[])?;
        define.attribute(Owner::Global, "empty", striate_array::Values::Int(vec![]))?;
        let mut data = define.end()?;
        assert!(message(data.put(scalar, &Slab::element(&[0]), &[1.0])).contains("1 starts for 0"));
        assert!(
            message(data.put(scalar, &Slab::all(), &[1.0, 2.0]))
                .contains("2 elements in memory for 1 in the file")
        );
        data.put_all(scalar, &Slab::element(&[]), &[4.5])?;
        assert_eq!(data.values(scalar, &Slab::all())?, 4.5.into());
        assert!(data.attribute(Owner::Global, "empty")?.is_empty());
        data.close()
    });
    assert_valid(&path);
}
