//! Definitions beyond the limits of a format are refused before anything is written; those within
//! work, also beyond 2³¹ or 2³² bytes. The large files are sparse.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use striate_array::{
    Char, DimensionId, Format, OpenMode, Options, Owner, Pending, Slab, Type, Values, VariableId,
};

use crate::{assert_valid, create, example, failures, message, open, place, ranks};

const GIB: u64 = 1 << 30;

/// A variable: its name, whether it has records, and its other dimensions, of bytes.
type Shape = (&'static str, bool, &'static [u64]);

fn define(define: &mut striate_array::Definition, shapes: &[Shape]) -> Vec<VariableId> {
    let time = define.unlimited("time").unwrap();
    let mut lens: Vec<(u64, DimensionId)> = Vec::new();
    let mut variables = Vec::new();
    for (name, is_record, shape) in shapes {
        let mut dimensions: Vec<DimensionId> = is_record.then_some(time).into_iter().collect();
        for &len in *shape {
            let known = lens.iter().find(|(other, _)| *other == len).map(|(_, id)| *id);
            let id = known.unwrap_or_else(|| define.dimension(&format!("d{len}"), len).unwrap());
            lens.push((len, id));
            dimensions.push(id);
        }
        variables.push(define.variable(name, Type::Byte, &dimensions).unwrap());
    }
    variables
}

/// Definitions beyond the limits, and their error texts.
const REFUSED: [(Format, &[Shape], &str); 9] = [
    (
        Format::Cdf1,
        &[("a", false, &[2, GIB]), ("b", false, &[4])],
        "variable 'a' takes 2147483648 bytes; 2147483644 are the most in CDF-1",
    ),
    (
        Format::Cdf1,
        &[("a", false, &[2, GIB]), ("b", true, &[4])],
        "variable 'a' takes 2147483648 bytes; 2147483644 are the most in CDF-1",
    ),
    (
        Format::Cdf1,
        &[("a", false, &[GIB]), ("b", false, &[GIB]), ("c", false, &[4])],
        "variable 'c' would begin at byte",
    ),
    (Format::Cdf1, &[("a", false, &[3 * GIB])], "dimension 'd3221225472' is too long"),
    (
        Format::Cdf1,
        &[("a", true, &[2, GIB]), ("b", true, &[4])],
        "a record of variable 'a' takes 2147483648 bytes",
    ),
    (
        Format::Cdf2,
        &[("a", false, &[4, GIB]), ("b", false, &[4])],
        "variable 'a' takes 4294967296 bytes; 4294967292 are the most in CDF-2",
    ),
    (
        Format::Cdf2,
        &[("a", true, &[4, GIB]), ("b", true, &[4])],
        "a record of variable 'a' takes 4294967296 bytes",
    ),
    (Format::Cdf5, &[("a", false, &[4, 1 << 61])], "variable 'a' takes 9223372036854775808 bytes"),
    (
        Format::Cdf5,
        &[("a", false, &[1 << 62]), ("b", false, &[1 << 62])],
        "variable 'b' would end beyond 2^63 - 1 bytes, which no file can reach",
    ),
];

#[test]
fn definitions_beyond_the_limits_are_refused_before_anything_is_written() {
    for (format, shapes, words) in REFUSED {
        let (_directory, path) = place();
        let messages = failures(2, |comm| {
            let mut new = create(&comm, &path, format);
            define(&mut new, shapes);
            new.end().map(drop)
        });
        for error in messages {
            assert!(error.contains(words), "{error}");
        }
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 0, "{words}");
    }
}

#[test]
fn a_redefinition_beyond_the_limits_changes_nothing() {
    for (format, len, more) in [(Format::Cdf1, 2 * GIB - 4, 2), (Format::Cdf2, 4 * GIB - 4, 2)] {
        let (_directory, path) = place();
        ranks(1, |comm| example(&comm, &path, format).close());
        let before = std::fs::read(&path).unwrap();
        ranks(2, |comm| {
            let mut define = open(&comm, &path, OpenMode::ReadWrite).redefine()?;
            let large = define.dimension("large", len)?;
            let more = define.dimension("more", more)?;
            define.variable("too_large", Type::Byte, &[more, large])?;
            let error = message(define.end());
            assert!(error.contains("variable 'too_large' takes"), "{error}");
            Ok(())
        });
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}

/// Definitions within the limits. The last number is the number of records.
const HELD: [(Format, &[Shape], u64); 6] = [
    (Format::Cdf1, &[("a", false, &[4]), ("b", false, &[3, GIB])], 0),
    (Format::Cdf1, &[("a", false, &[4]), ("b", true, &[GIB]), ("c", true, &[5])], 6),
    (
        Format::Cdf2,
        &[("a", false, &[3 * GIB]), ("b", false, &[3 * GIB]), ("c", false, &[3 * GIB])],
        0,
    ),
    (Format::Cdf2, &[("a", false, &[7]), ("b", true, &[3 * GIB]), ("c", true, &[2, 3 * GIB])], 3),
    (
        Format::Cdf5,
        &[("a", false, &[9 * GIB]), ("b", false, &[9 * GIB]), ("c", true, &[9 * GIB])],
        5,
    ),
    (Format::Cdf5, &[("a", true, &[6 * GIB])], 4),
];

/// The last elements of every variable.
fn corner(shape: &[u64]) -> Slab {
    let len = shape.last().copied().unwrap_or(1).min(5);
    let start: Vec<u64> = shape
        .iter()
        .enumerate()
        .map(|(i, &n)| if i + 1 == shape.len() { n - len } else { n - 1 })
        .collect();
    let mut count = vec![1; shape.len()];
    if let Some(last) = count.last_mut() {
        *last = len;
    }
    Slab::new(&start, &count)
}

fn elements(shape: &[u64]) -> usize {
    shape.last().copied().unwrap_or(1).min(5) as usize
}

/// Asserts that the header and the length of a sparse file have no violations of the format.
fn assert_valid_beginning(path: &Path) {
    let file = std::fs::File::open(path).unwrap();
    let metadata = file.metadata().unwrap();
    assert!(metadata.blocks() * 512 < 8 << 20, "{} blocks are in use", metadata.blocks());
    let mut bytes = Vec::new();
    file.take(1 << 16).read_to_end(&mut bytes).unwrap();
    assert_eq!(striate_array::format::validate(&bytes, metadata.len()), []);
}

#[test]
fn definitions_within_the_limits_work() {
    for (format, shapes, records) in HELD {
        let (_directory, path) = place();
        ranks(2, |comm| {
            let mut new = create(&comm, &path, format);
            let variables = define(&mut new, shapes);
            let mut data = new.end()?;
            for (number, &variable) in variables.iter().enumerate() {
                let mut shape = data.shape(variable);
                if shapes[number].1 {
                    shape[0] = records;
                }
                // One rank writes the last elements, the other the first, and each reads those of
                // the other.
                let len = elements(&shape);
                let origin = Slab::new(&vec![0; shape.len()], &{
                    let mut count = vec![1; shape.len()];
                    *count.last_mut().unwrap() = len as u64;
                    count
                });
                let mine = if comm.rank() == 0 { &origin } else { &corner(&shape) };
                let value = 10 * number as i32 + comm.rank() as i32;
                data.put_all(variable, mine, &vec![value + 1; len])?;
                data.sync()?;
                let other = if comm.rank() == 0 { &corner(&shape) } else { &origin };
                let mut found = vec![0_i32; len];
                data.get_all(variable, other, &mut found)?;
                // In short variables both overlap: either value is possible.
                if shape.iter().product::<u64>() > 10 {
                    let expected = 10 * number as i32 + 1 - comm.rank() as i32 + 1;
                    assert_eq!(found, vec![expected; len]);
                }
            }
            data.close()
        });
        assert_valid_beginning(&path);
        ranks(3, |comm| {
            let mut data = open(&comm, &path, OpenMode::ReadOnly);
            assert_eq!(data.header().records, records);
            let variables: Vec<_> = data.variables().collect();
            for (number, variable) in variables.into_iter().enumerate() {
                let shape = data.shape(variable);
                if shape.iter().product::<u64>() > 10 {
                    let found = data.values(variable, &corner(&shape))?;
                    assert_eq!(found, Values::Byte(vec![10 * number as i8 + 2; elements(&shape)]));
                }
            }
            data.close()
        });
    }
}

#[test]
fn six_gibi_doubles() {
    let (_directory, path) = place();
    let len = 6 * GIB;
    let expected = [1.5_f64, -2.5, 3.5, 1e300];
    ranks(2, |comm| {
        let mut define = create(&comm, &path, Format::Cdf5);
        let n = define.dimension("n", len)?;
        let v = define.variable("v", Type::Double, &[n])?;
        let mut data = define.end()?;
        let half = 2 * comm.rank();
        let mine = Slab::new(&[len - 4 + half as u64], &[2]);
        data.put_all(v, &mine, &expected[half..half + 2])?;
        data.close()
    });
    assert_valid_beginning(&path);
    assert!(std::fs::metadata(&path).unwrap().len() > 8 * len);
    ranks(3, |comm| {
        let mut data = open(&comm, &path, OpenMode::ReadOnly);
        let v = data.variable("v")?;
        let mut found = [0.0_f64; 4];
        // Strides of half the length.
        data.get_all(v, &Slab::new(&[len - 4], &[4]), &mut found)?;
        assert_eq!(found.map(f64::to_bits), expected.map(f64::to_bits));
        let mut found = [7.0_f64; 2];
        data.get_all(v, &Slab::new(&[len / 2 - 1], &[2]).stride(&[len / 2]), &mut found)?;
        assert_eq!(found.map(f64::to_bits), [0.0, 1e300].map(f64::to_bits));
        data.close()
    });
}

#[test]
fn ten_thousand_variables() {
    const COUNT: usize = 10_000;
    let (_directory, path) = place();
    ranks(2, |comm| {
        let mut define = create(&comm, &path, Format::Cdf2);
        let time = define.unlimited("time")?;
        let x = define.dimension("x", 2)?;
        for i in 0..COUNT {
            let dimensions = if i % 2 == 0 { vec![time, x] } else { vec![x] };
            define.variable(&format!("variable_{i}"), Type::Int, &dimensions)?;
        }
        let mut data = define.end()?;
        let variables: Vec<_> = data.variables().collect();
        let values: Vec<[i32; 1]> = (0..COUNT as i32).map(|i| [2 * i]).collect();
        let mut pending = Pending::new();
        let rank = comm.rank() as u64;
        for (i, variable) in variables.into_iter().enumerate() {
            let slab = if i % 2 == 0 { Slab::element(&[0, rank]) } else { Slab::element(&[rank]) };
            data.iput(&mut pending, variable, &slab, &values[i])?;
        }
        data.wait_all(pending)?;
        data.close()
    });
    assert_valid(&path);
    ranks(3, |comm| {
        let mut data = open(&comm, &path, OpenMode::ReadOnly);
        let variables: Vec<_> = data.variables().collect();
        assert_eq!(variables.len(), COUNT);
        let mut found = vec![[0_i32; 2]; COUNT];
        let mut pending = Pending::new();
        for (&variable, buffer) in variables.iter().zip(&mut found) {
            data.iget(&mut pending, variable, &Slab::all(), buffer)?;
        }
        data.wait_all(pending)?;
        assert!(found.iter().zip(0..).all(|(found, i)| *found == [2 * i; 2]));
        data.close()
    });
}

#[test]
fn a_long_header() {
    let (_directory, path) = place();
    let long = "long".repeat(100_000);
    let name = |i: usize| format!("attribute_{i}");
    ranks(2, |comm| {
        let options = Options::default().with("nc_header_align_size", "1000000")?;
        let mut define = striate_array::Dataset::create(&comm, &path, Format::Cdf1, &options)?;
        let x = define.dimension("x", 3)?;
        let v = define.variable("v", Type::Char, &[x])?;
        define.attribute(v, "text", long.as_str())?;
        for i in 0..1000 {
            define.attribute(Owner::Global, &name(i), vec![i as i32; 20])?;
        }
        let mut data = define.end()?;
        data.put_all(v, &Slab::all(), Char::slice(b"abc"))?;
        data.close()
    });
    assert_valid(&path);
    let before = std::fs::metadata(&path).unwrap().len();
    assert!(before > 1_000_000);
    ranks(3, |comm| {
        let mut define = open(&comm, &path, OpenMode::ReadWrite).redefine()?;
        define.attribute(Owner::Global, "more", "there is room for this")?;
        let mut data = define.end()?;
        let v = data.variable("v")?;
        assert_eq!(data.attribute(v, "text")?, &Values::from(long.as_str()));
        assert_eq!(data.attribute(Owner::Global, &name(999))?, &vec![999; 20].into());
        assert_eq!(data.values(v, &Slab::all())?, "abc".into());
        data.close()
    });
    assert_valid(&path);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), before);
}
