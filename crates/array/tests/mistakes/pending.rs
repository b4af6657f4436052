//! Pending accesses that are waited for on another dataset, or after a redefinition.

use striate_array::{Format, OpenMode, Owner, Pending, Slab};

use crate::{assert_told, example, failures, message, open, place, ranks};

#[test]
fn accesses_of_another_dataset_are_refused() {
    let (directory, path) = place();
    let other = directory.path().join("other.nc");
    ranks(1, |comm| {
        let first = example(&comm, &path, Format::Cdf5);
        let mut second = example(&comm, &other, Format::Cdf5);
        let (grid, values) = (first.variable("grid")?, [-77; 24]);
        let mut pending = Pending::new();
        first.iput(&mut pending, grid, &Slab::all(), &values)?;
        let words = message(second.iput(&mut pending, grid, &Slab::all(), &values));
        assert!(words.contains("another dataset"), "{words}");
        let words = message(second.wait(pending));
        assert!(words.contains("another dataset"), "{words}");
        first.close()?;
        second.close()
    });
}

#[test]
fn accesses_from_before_a_redefinition_are_refused_on_all_ranks() {
    let (_directory, path) = place();
    let messages = failures(3, |comm| {
        let data = example(&comm, &path, Format::Cdf2);
        let (grid, values) = (data.variable("grid")?, [-77; 24]);
        let mut pending = Pending::new();
        // The error of one rank is an error of all.
        if comm.rank() == 1 {
            data.iput(&mut pending, grid, &Slab::all(), &values)?;
        }
        let mut define = data.redefine()?;
        define.attribute(Owner::Global, "note", "x".repeat(5000))?;
        let mut data = define.end()?;
        let result = data.wait_all(pending);
        data.close()?;
        result
    });
    assert_told(&messages, 1, "redefined");
    ranks(1, |comm| {
        let mut data = open(&comm, &path, OpenMode::ReadOnly);
        let grid = data.variable("grid")?;
        assert!(data.array::<i32>(grid, &Slab::all())?.iter().all(|&value| value != -77));
        data.close()
    });
}
