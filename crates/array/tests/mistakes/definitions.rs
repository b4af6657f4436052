//! Definitions that are not possible, or that differ between ranks.

use striate_array::{ArrayError, Dataset, Definition, Format, OpenMode, Owner, Type};

use crate::{assert_example, assert_told, create, example, failures, message, open, place, ranks};

/// The definitions of every rank, except where `odd` differs.
fn define(define: &mut Definition, odd: Option<&str>) -> Result<(), ArrayError> {
    let is = |what: &str| odd == Some(what);
    if is("one dimension more in front") {
        define.dimension("w", 2)?;
    }
    let time = if is("no unlimited dimension") {
        define.dimension("time", 3)?
    } else {
        define.unlimited("time")?
    };
    let y = define.dimension("y", if is("a length") { 5 } else { 4 })?;
    let x = define.dimension(if is("a dimension's name") { "xx" } else { "x" }, 6)?;
    let external = if is("a type") { Type::Float } else { Type::Double };
    let dimensions = if is("the order of dimensions") { [x, y] } else { [y, x] };
    if is("the order of variables") {
        define.variable("wind", Type::Int, &[time, x])?;
    }
    let heat = define.variable("heat", external, &dimensions)?;
    if !is("a variable less") && !is("the order of variables") {
        define.variable("wind", Type::Int, &[time, x])?;
    }
    if is("a variable more") {
        define.variable("rain", Type::Int, &[time, x])?;
    }
    let units = if is("an attribute's text") { "C" } else { "K" };
    define.attribute(heat, "units", units)?;
    if is("an attribute's type") {
        define.attribute(heat, "scale", 1.5_f32)?;
    } else {
        define.attribute(heat, "scale", if is("an attribute's value") { 2.5 } else { 1.5_f64 })?;
    }
    if !is("an attribute less") {
        define.attribute(Owner::Global, "title", "one")?;
    }
    if is("filling") {
        define.fill(heat, true);
    }
    Ok(())
}

/// Differences, and their error texts.
const DIFFERENCES: [(&str, &str); 15] = [
    ("no unlimited dimension", "dimension 'time' has length 3, not unlimited"),
    ("one dimension more in front", "dimension 0 is 'w', not 'time'"),
    ("a length", "dimension 'y' has length 5, not 4"),
    ("a dimension's name", "dimension 2 is 'xx', not 'x'"),
    ("a type", "variable 'heat' is of type float, not double"),
    ("the order of dimensions", "variable 'heat' has the dimensions (x, y), not (y, x)"),
    ("the order of variables", "variable 0 is 'wind', not 'heat'"),
    ("a variable less", "1 variables, not 2: 'wind' is missing"),
    ("a variable more", "3 variables, not 2: 'rain' is too many"),
    ("an attribute's text", "attribute 'units' of variable 'heat' is \"C\", not \"K\""),
    ("an attribute's type", "attribute 'scale' of variable 'heat' is of type float, not double"),
    ("an attribute's value", "attribute 'scale' of variable 'heat' has 2.5 as value 0, not 1.5"),
    ("an attribute less", "0 attributes of the dataset, not 1: 'title' is missing"),
    ("filling", "whether variable 'heat' is filled"),
    ("the format", "the format is CDF-2, not CDF-5"),
];

#[test]
fn ranks_that_differ_are_named_with_what_they_differ_in() {
    for (odd, words) in DIFFERENCES {
        for at_fault in 1..4 {
            let (_directory, path) = place();
            let messages = failures(4, |comm| {
                let is_odd = comm.rank() == at_fault;
                let format =
                    if is_odd && odd == "the format" { Format::Cdf2 } else { Format::Cdf5 };
                let mut new = create(&comm, &path, format);
                define(&mut new, is_odd.then_some(odd))?;
                new.end().map(drop)
            });
            assert_told(&messages, at_fault, words);
            assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "{odd}");
        }
    }
}

#[test]
fn a_redefinition_that_differs_leaves_the_file_as_it_was() {
    let (_directory, path) = place();
    ranks(1, |comm| example(&comm, &path, Format::Cdf1).close());
    let before = std::fs::read(&path).unwrap();
    let messages = failures(3, |comm| {
        let mut define = open(&comm, &path, OpenMode::ReadWrite).redefine()?;
        let long = "x".repeat(if comm.rank() == 2 { 5000 } else { 4000 });
        define.attribute(Owner::Global, "history", long)?;
        define.end().map(drop)
    });
    assert_told(&messages, 2, "attribute 'history' of the dataset is");
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn calls_of_only_some_ranks_do_not_hang() {
    let (_directory, path) = place();
    let results = striate_comm::Threads::new(3).run(|comm| {
        let mut define = create(&comm, &path, Format::Cdf1);
        if comm.rank() == 1 {
            define.dimension("", 1)?;
        }
        define.end()?.close()
    });
    let messages: Vec<String> = results.into_iter().map(message).collect();
    assert_told(&messages, 1, "the name \"\" is empty");
}

#[test]
fn names() {
    let long = "n".repeat(257);
    let bad = [
        ("", "is empty"),
        ("a/b", "contains '/'"),
        ("tab\there", "contains a control character"),
        ("space ", "ends with a space"),
        ("+x", "begins with neither"),
        (" x", "begins with neither"),
        (long.as_str(), "is longer than 256 bytes"),
    ];
    let (_directory, path) = place();
    ranks(1, |comm| {
        let mut define = create(&comm, &path, Format::Cdf5);
        let x = define.dimension("x", 1)?;
        let v = define.variable("v", Type::Int, &[x])?;
        for (name, words) in bad {
            for error in [
                message(define.dimension(name, 1)),
                message(define.unlimited(name)),
                message(define.variable(name, Type::Int, &[])),
                message(define.attribute(Owner::Global, name, 1)),
                message(define.attribute(v, name, 1)),
                message(define.rename_dimension(x, name)),
                message(define.rename_variable(v, name)),
            ] {
                // Of a long name the beginning is shown.
                let shown = format!("{name:?}");
                assert!(
                    error.contains(words) && error.contains(&shown[..shown.len().min(60)]),
                    "{error}"
                );
            }
        }
        for good in ["ü", "_x", "0", "日本", "a b", "x+y.z@w", &long[1..]] {
            define.dimension(good, 1)?;
            define.variable(good, Type::Int, &[])?;
            define.attribute(v, good, 1)?;
        }
        define.end()?.close()
    });
    crate::assert_valid(&path);
}

#[test]
fn duplicates_and_unknowns() {
    let (_directory, path) = place();
    ranks(1, |comm| {
        let mut define = create(&comm, &path, Format::Cdf1);
        let x = define.dimension("x", 2)?;
        let y = define.dimension("y", 2)?;
        let v = define.variable("v", Type::Int, &[x])?;
        let w = define.variable("w", Type::Int, &[x])?;
        for error in [message(define.dimension("x", 3)), message(define.unlimited("x"))] {
            assert_eq!(error, "there is a dimension 'x' already");
        }
        assert_eq!(message(define.rename_dimension(y, "x")), "there is a dimension 'x' already");
        for error in
            [message(define.variable("v", Type::Int, &[])), message(define.rename_variable(w, "v"))]
        {
            assert_eq!(error, "there is a variable 'v' already");
        }
        // A name is free after a rename.
        define.rename_variable(v, "u")?;
        define.rename_variable(w, "v")?;
        assert_eq!(message(define.remove_attribute(v, "gone")), "there is no attribute 'gone'");

        // Ids of another dataset, which has more.
        let (_directory, other) = place();
        let mut more = create(&comm, &other, Format::Cdf1);
        let dimensions: Vec<_> = (0..9).map(|i| more.dimension(&format!("d{i}"), 1)).collect();
        let far = *dimensions[8].as_ref().unwrap();
        let variables: Vec<_> =
            (0..9).map(|i| more.variable(&format!("v{i}"), Type::Int, &[])).collect();
        let strange = *variables[8].as_ref().unwrap();
        more.abort()?;
        assert!(!other.exists());
        let unknown = "there is no dimension 'number 8'";
        assert_eq!(message(define.variable("n", Type::Int, &[far])), unknown);
        assert_eq!(message(define.rename_dimension(far, "n")), unknown);
        let unknown = "there is no variable 'number 8'";
        assert_eq!(message(define.attribute(strange, "a", 1)), unknown);
        assert_eq!(message(define.attribute(strange, "_FillValue", 1)), unknown);
        assert_eq!(message(define.remove_attribute(strange, "a")), unknown);
        assert_eq!(message(define.rename_variable(strange, "a")), unknown);
        define.fill(strange, true);
        let mut data = define.end()?;
        assert_eq!(message(data.variable("w")), "there is no variable 'w'");
        assert_eq!(message(data.dimension("z")), "there is no dimension 'z'");
        assert_eq!(message(data.dimension_len(far)), "there is no dimension 'number 8'");
        assert_eq!(message(data.attribute(strange, "a")), unknown);
        assert_eq!(message(data.attribute(v, "a")), "there is no attribute 'a'");
        assert_eq!(data.shape(strange), [0; 0]);
        assert_eq!(message(data.put(strange, &striate_array::Slab::all(), &[1])), unknown);
        assert_eq!(message(data.get_all(strange, &striate_array::Slab::all(), &mut [1])), unknown);
        data.close()
    });
    crate::assert_valid(&path);
}

#[test]
fn types_that_the_format_does_not_have() {
    let new = [Type::UByte, Type::UShort, Type::UInt, Type::Int64, Type::UInt64];
    for format in [Format::Cdf1, Format::Cdf2] {
        let (_directory, path) = place();
        ranks(1, |comm| {
            let mut define = create(&comm, &path, format);
            for external in new {
                let error = message(define.variable("v", external, &[]));
                let expected =
                    format!("variable 'v' is of type {external}, which {format} does not have");
                assert_eq!(error, expected);
                let values = striate_array::Values::from_bytes(external, &[0; 8]);
                let error = message(define.attribute(Owner::Global, "a", values));
                let expected =
                    format!("attribute 'a' is of type {external}, which {format} does not have");
                assert_eq!(error, expected);
            }
            define.end()?.close()
        });
    }
}

#[test]
fn dimensions_that_cannot_be_used() {
    let (_directory, path) = place();
    ranks(1, |comm| {
        let mut define = create(&comm, &path, Format::Cdf5);
        let error = message(define.dimension("none", 0));
        assert_eq!(error, "dimension 'none': a length of 0 stands for the unlimited dimension");
        let x = define.dimension("x", 2)?;
        let time = define.unlimited("time")?;
        let error = message(define.unlimited("again"));
        assert_eq!(error, "unlimited dimension 'again': 'time' is one already");
        let error = message(define.variable("v", Type::Int, &[x, time]));
        assert_eq!(error, "variable 'v': the unlimited dimension 'time' must be its first");
        let error = message(define.variable("v", Type::Int, &[time, time]));
        assert_eq!(error, "variable 'v': the unlimited dimension 'time' must be its first");
        let v = define.variable("v", Type::Short, &[time, x])?;
        for values in [
            striate_array::Values::Int(vec![1]),
            striate_array::Values::Short(vec![]),
            striate_array::Values::Short(vec![1, 2]),
        ] {
            let error = message(define.attribute(v, "_FillValue", values));
            let expected = "attribute '_FillValue': it must be one short, as variable 'v' is";
            assert_eq!(error, expected);
        }
        let one = define.dimension("one", 1)?;
        define.variable("flat", Type::Int, &vec![one; 1025])?;
        let error = message(define.end());
        assert_eq!(error, "variable 'flat' has 1025 dimensions; 1024 are the most");
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0);

        let mut define = create(&comm, &path, Format::Cdf5);
        let one = define.dimension("one", 1)?;
        let flat = define.variable("flat", Type::Int, &vec![one; 1024])?;
        let mut data = define.end()?;
        data.put_all(flat, &striate_array::Slab::all(), &[7])?;
        assert_eq!(data.values(flat, &striate_array::Slab::all())?, 7.into());
        data.close()
    });
    crate::assert_valid(&path);
}

#[test]
fn read_only_datasets_cannot_be_changed() {
    let (_directory, path) = place();
    ranks(1, |comm| example(&comm, &path, Format::Cdf2).close());
    let before = std::fs::read(&path).unwrap();
    ranks(3, |comm| {
        let mut data = open(&comm, &path, OpenMode::ReadOnly);
        let [grid, ..] = crate::example_variables(&data);
        let slab = striate_array::Slab::element(&[0, 0]);
        let only = |call: &str| {
            format!("{call} of variable 'grid': the dataset was opened for reading only")
        };
        assert_eq!(message(data.put(grid, &slab, &[7])), only("put"));
        assert!(message(data.put_all(grid, &slab, &[7])).ends_with(&only("put_all")));
        let mut pending = striate_array::Pending::new();
        assert_eq!(message(data.iput(&mut pending, grid, &slab, &[7])), only("iput"));
        assert_eq!(message(data.bput(&mut pending, grid, &slab, &[7])), only("bput"));
        assert!(pending.is_empty());
        data.wait_all(pending)?;
        assert!(
            message(data.grow(9))
                .contains("growth to 9 records: the dataset was opened for reading only")
        );
        data.sync()?;
        assert_example(&mut data);
        data.close()?;
        let error = message(open(&comm, &path, OpenMode::ReadOnly).redefine());
        assert!(error.contains("redefinition: the dataset was opened for reading only"), "{error}");
        Ok(())
    });
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[test]
fn abort_deletes_new_datasets_only() {
    let (_directory, path) = place();
    // A new dataset is deleted.
    for step in 0..3 {
        ranks(2, |comm| {
            let mut define = create(&comm, &path, Format::Cdf1);
            let x = define.dimension("x", 6)?;
            define.variable("v", Type::Int, &[x])?;
            match step {
                0 => define.abort(),
                1 => define.end()?.abort(),
                _ => {
                    let mut define = define.end()?.redefine()?;
                    define.variable("w", Type::Int, &[x])?;
                    define.abort()
                }
            }
        });
        assert!(!path.exists(), "step {step}");
    }
    // An existing one is not.
    ranks(1, |comm| example(&comm, &path, Format::Cdf1).close());
    let before = std::fs::read(&path).unwrap();
    ranks(2, |comm| {
        open(&comm, &path, OpenMode::ReadWrite).abort()?;
        let mut define = open(&comm, &path, OpenMode::ReadWrite).redefine()?;
        define.attribute(Owner::Global, "long", "x".repeat(3000))?;
        define.abort()
    });
    assert_eq!(std::fs::read(&path).unwrap(), before);
    // A dataset is not new any more after a sync.
    ranks(2, |comm| {
        let mut data = example(&comm, &path, Format::Cdf1);
        data.sync()?;
        data.abort()
    });
    ranks(2, |comm| {
        let mut data = open(&comm, &path, OpenMode::ReadOnly);
        assert_example(&mut data);
        data.close()
    });
}

#[test]
fn a_redefinition_of_nothing_changes_nothing() {
    let (_directory, path) = place();
    ranks(1, |comm| example(&comm, &path, Format::Cdf1).close());
    let before = std::fs::read(&path).unwrap();
    ranks(2, |comm| -> Result<(), ArrayError> {
        let mut define = open(&comm, &path, OpenMode::ReadWrite).redefine()?;
        define.attribute(Owner::Global, "passing", 1)?;
        define.remove_attribute(Owner::Global, "passing")?;
        define.end().and_then(Dataset::close)
    });
    assert_eq!(std::fs::read(&path).unwrap(), before);
}
