//! The formats: encoded headers decode to the same, damage is reported, and layouts agree with a
//! twin.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod headers;

use headers::{alignment, dimension, grown, header, sample};
use proptest::prelude::*;
use striate_array::format::{
    Alignment, DecodeError, Dimension, Format, Header, Problem, Type, Values, check_name, validate,
};

const FORMATS: [Format; 3] = [Format::Cdf1, Format::Cdf2, Format::Cdf5];

fn file_of(header: &Header) -> Vec<u8> {
    let mut bytes = header.encode();
    bytes.resize(header.end().unwrap() as usize, 0);
    bytes
}

fn problem(bytes: &[u8]) -> Problem {
    Header::decode(bytes).expect_err("it is damaged").problem
}

fn violations(bytes: &[u8]) -> Vec<String> {
    validate(bytes, bytes.len() as u64).iter().map(ToString::to_string).collect()
}

proptest! {
    #[test]
    fn encoded_headers_decode_to_the_same(header in header()) {
        let bytes = header.encode();
        let len = bytes.len() as u64;
        prop_assert_eq!(header.encoded_len(), len);
        prop_assert_eq!(Header::decode(&bytes), Ok((header.clone(), len)));
        // Data follows.
        let longer = [&bytes[..], &[0xFF; 9]].concat();
        prop_assert_eq!(Header::decode(&longer), Ok((header.clone(), len)));
        let (at, field) = header.records_field();
        prop_assert_eq!(&bytes[at as usize..][..field.len()], &field[..]);
        prop_assert_eq!(violations(&file_of(&header)), Vec::<String>::new());
        prop_assert_eq!(header.difference(&header), None);
    }

    #[test]
    fn a_truncated_header_needs_more_bytes(header in header()) {
        let bytes = header.encode();
        for len in 0..bytes.len() {
            let error = Header::decode(&bytes[..len]).expect_err("it is not whole");
            let Problem::Truncated { needed } = error.problem else { panic!("{error}") };
            prop_assert!((len as u64) < needed && needed <= bytes.len() as u64, "{needed}");
            prop_assert!(!validate(&bytes[..len], len as u64).is_empty());
        }
    }

    #[test]
    fn a_damaged_byte_does_not_panic(header in header(), to in any::<u8>()) {
        let mut bytes = file_of(&header);
        let len = header.encoded_len() as usize;
        for at in 0..len {
            let was = std::mem::replace(&mut bytes[at], to);
            let violations = validate(&bytes, bytes.len() as u64);
            match Header::decode(&bytes) {
                Ok((decoded, _)) => {
                    let again = decoded.encode();
                    prop_assert_eq!(&Header::decode(&again).unwrap().0.encode(), &again);
                }
                Err(error) => prop_assert!(
                    violations.iter().any(|violation| !violation.warning), "{} at {at}", error
                ),
            }
            bytes[at] = was;
        }
    }

    #[test]
    fn a_new_layout_agrees_with_the_twin(header in header(), alignment in alignment()) {
        let mut arranged = header;
        arranged.arrange(&alignment, None).unwrap();
        let places: Vec<u64> = arranged.variables.iter().map(|variable| variable.begin).collect();
        prop_assert_eq!(places, slow_layout(&arranged, &alignment));
        check_places(&arranged)?;
    }

    #[test]
    fn a_layout_grows_without_moving_down(
        (before, after) in grown(), alignment in alignment(),
    ) {
        let mut after = after;
        after.arrange(&alignment, Some(&before)).unwrap();
        check_places(&after)?;
        let pairs = || before.variables.iter().zip(&after.variables);
        for (old, new) in pairs() {
            prop_assert!(old.begin <= new.begin, "{} moved down", old.name);
        }
        let first = before.variables.iter().map(|variable| variable.begin).min();
        let fits = first.is_none_or(|first| after.encoded_len() <= first);
        if fits && before.variables.len() == after.variables.len() {
            prop_assert!(pairs().all(|(old, new)| old.begin == new.begin));
        }
        // Arranging again changes nothing.
        let mut again = after.clone();
        again.arrange(&alignment, Some(&after)).unwrap();
        prop_assert_eq!(again, after);
    }
}

/// The twin: the layout found by trying every offset.
fn slow_layout(header: &Header, alignment: &Alignment) -> Vec<u64> {
    fn next(mut at: u64, boundaries: &[u64]) -> u64 {
        while boundaries.iter().any(|&boundary| !at.is_multiple_of(boundary.next_multiple_of(4))) {
            at += 1;
        }
        at
    }
    let mut at = next(header.encoded_len(), &[alignment.header]);
    let mut places = vec![0; header.variables.len()];
    for (variable, place) in header.variables.iter().zip(&mut places) {
        if header.is_record(variable) {
            continue;
        }
        let size = header.slab_size(variable).unwrap();
        let aligned = if size < alignment.fixed_from { 1 } else { alignment.fixed };
        // The alignment is rounded up to a multiple of the element's size.
        let natural = variable.external.size().max(4);
        at = next(at, &[aligned.next_multiple_of(natural)]);
        *place = at;
        at = next(at + size, &[4]);
    }
    let records: Vec<usize> =
        (0..places.len()).filter(|&index| header.is_record(&header.variables[index])).collect();
    let size = |&index: &usize| header.variables[index].external.size();
    let natural = records.iter().map(size).max().unwrap_or(4).max(4);
    at = next(at, &[alignment.record.next_multiple_of(natural)]);
    for index in records {
        places[index] = at;
        at = next(at + header.slab_size(&header.variables[index]).unwrap(), &[4]);
    }
    places
}

/// Every byte of the file has one owner at most: checked byte by byte, over three records.
fn check_places(header: &Header) -> Result<(), TestCaseError> {
    let mut owners: Vec<Option<usize>> = vec![None; header.encoded_len() as usize];
    owners.fill(Some(usize::MAX));
    let stride = header.record_size().unwrap();
    for (index, variable) in header.variables.iter().enumerate() {
        let slab = header.slab_size(variable).unwrap();
        let copies = if header.is_record(variable) { 3 } else { 1 };
        prop_assert_eq!(variable.begin % 4, 0);
        prop_assert_eq!(variable.stated_size, slab.next_multiple_of(4));
        for copy in 0..copies {
            let begin = (variable.begin + copy * stride) as usize;
            let end = begin + slab as usize;
            owners.resize(owners.len().max(end), None);
            for (at, owner) in owners[begin..end].iter_mut().enumerate() {
                prop_assert!(owner.is_none(), "{} at {}", &variable.name, begin + at);
                *owner = Some(index);
            }
        }
    }
    let three = Header { records: 3, ..header.clone() };
    // Only padding follows the last byte.
    let end = three.end().unwrap();
    let longest = owners.len() as u64;
    prop_assert!((longest..longest + 4).contains(&end), "{end} for {longest}");
    for len in [end - 1, end, end + stride] {
        let held = three.records_in(len);
        let all_there = |records: u64| {
            let mut ends = header.variables.iter().filter(|variable| header.is_record(variable));
            ends.all(|variable| {
                variable.begin + (records - 1) * stride + header.slab_size(variable).unwrap() <= len
            })
        };
        if stride > 0 {
            prop_assert!(held == 0 || all_there(held));
            prop_assert!(!all_there(held + 1));
        }
    }
    Ok(())
}

#[test]
fn a_count_reserves_no_more_than_the_bytes_can_hold() {
    // A reservation for so many elements would overflow and panic.
    for (tag, count) in [(10_u32, 1_u64 << 58), (12, 1 << 58), (11, 1 << 57)] {
        let mut bytes = b"CDF\x05\0\0\0\0\0\0\0\0".to_vec();
        for list in [10, 12, 11] {
            let (tag, count) = if list == tag { (tag, count) } else { (0, 0) };
            bytes.extend(tag.to_be_bytes());
            bytes.extend(count.to_be_bytes());
            if count > 0 {
                break;
            }
        }
        assert!(matches!(problem(&bytes), Problem::Truncated { needed } if needed > count));
        let reported = violations(&bytes);
        assert!(
            reported.len() == 1 && reported[0].contains("do not fit into the file"),
            "{reported:?}"
        );
        let len = bytes.len();
        bytes[len - 8..].copy_from_slice(&[0x7F; 8]);
        assert!(matches!(problem(&bytes), Problem::Count { .. }));
    }
}

#[test]
fn other_files_are_recognised() {
    assert_eq!(problem(b"\x89HDF\r\n\x1a\n0000"), Problem::Hdf5);
    let block = [&[0; 1024][..], b"\x89HDF\r\n\x1a\n"].concat();
    assert_eq!(Header::decode(&block), Err(DecodeError { at: 1024, problem: Problem::Hdf5 }));
    assert_eq!(problem(b"PK\x03\x04"), Problem::Magic { found: *b"PK\x03\x04" });
    assert_eq!(problem(b"PK"), Problem::Magic { found: *b"PK\0\0" });
    assert_eq!(problem(b"CDF\x03"), Problem::Version { version: 3 });
    for format in FORMATS {
        let mut bytes = file_of(&sample(format));
        bytes[..4].copy_from_slice(&format.unfinished_magic());
        assert_eq!(problem(&bytes), Problem::Unfinished { format });
        assert_eq!(violations(&bytes).len(), 1, "the rest is sound");
        bytes[..4].copy_from_slice(&format.magic());
        assert!(Header::decode(&bytes).is_ok());
    }
}

#[test]
fn an_empty_list_may_have_its_tag() {
    let with_tags = [&b"CDF\x01\0\0\0\0"[..], &[0, 0, 0, 10, 0, 0, 0, 0], &[0; 16]].concat();
    assert_eq!(Header::decode(&with_tags), Ok((Header::new(Format::Cdf1), 32)));
    let wrong = [&b"CDF\x01\0\0\0\0"[..], &[0, 0, 0, 11, 0, 0, 0, 0], &[0; 16]].concat();
    assert!(matches!(problem(&wrong), Problem::Tag { expected: 10, found: 11, .. }));
    let absent = [&b"CDF\x01\0\0\0\0"[..], &[0, 0, 0, 0, 0, 0, 0, 1], &[0; 16]].concat();
    assert!(matches!(problem(&absent), Problem::Tag { expected: 10, found: 0, .. }));
}

/// A change to a valid header, and a check of the problem that decoding reports.
type Damage = (fn(&mut Header), fn(&Problem) -> bool);

#[test]
fn headers_that_would_be_misread_are_refused() {
    let damages: [Damage; 9] = [
        (|h| h.dimensions[1].len = 0, |p| matches!(p, Problem::SecondUnlimited { .. })),
        (
            |h| h.variables[1].dimensions.reverse(),
            |p| matches!(p, Problem::UnlimitedNotFirst { .. }),
        ),
        (|h| h.variables[0].dimensions[0] = 7, |p| matches!(p, Problem::DimensionId { id: 7, .. })),
        (|h| h.variables[1].name = "a".into(), |p| matches!(p, Problem::Duplicate { .. })),
        (|h| h.dimensions[1].name = "t".into(), |p| matches!(p, Problem::Duplicate { .. })),
        (|h| h.variables[0].begin = 64, |p| matches!(p, Problem::BeginInHeader { begin: 64, .. })),
        (|h| h.variables[0].dimensions = vec![1; 1025], |p| matches!(p, Problem::Rank { .. })),
        (
            |h| (h.variables[0].dimensions, h.variables[0].begin) = (vec![1; 64], 1 << 20),
            |p| matches!(p, Problem::Size { .. }),
        ),
        (
            |h| h.attributes.push(h.attributes[0].clone()),
            |p| matches!(p, Problem::Duplicate { .. }),
        ),
    ];
    for format in FORMATS {
        for (index, (damage, is_right)) in damages.iter().enumerate() {
            let mut header = sample(format);
            damage(&mut header);
            let problem = problem(&header.encode());
            assert!(is_right(&problem), "{index}: {problem}");
            let reported = violations(&file_of(&sample(format)));
            assert_eq!(reported, Vec::<String>::new());
            assert!(!validate(&header.encode(), u64::MAX >> 1).is_empty());
        }
    }
    let mut header = sample(Format::Cdf1);
    header.variables[0].external = Type::Int64;
    assert!(matches!(problem(&header.encode()), Problem::TypeNotInFormat { .. }));
    let mut header = sample(Format::Cdf1);
    header.variables[0].begin = 1 << 31;
    assert!(matches!(problem(&header.encode()), Problem::BeginTooFar { .. }));
    let mut header = sample(Format::Cdf5);
    header.records = 1 << 63;
    assert!(matches!(problem(&header.encode()), Problem::Records { .. }));
    header.records = 1 << 62;
    assert!(matches!(problem(&header.encode()), Problem::Size { .. }));
}

#[test]
fn harmless_problems_are_reported_by_validation_only() {
    for format in FORMATS {
        let header = sample(format);
        let sound = file_of(&header);
        let last = sound.len() - 1;

        let mut wrong_size = header.clone();
        wrong_size.variables[0].stated_size += 8;
        let reported = violations(&file_of(&wrong_size));
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(
            reported[0].starts_with("warning: ") && reported[0].contains("stated size"),
            "{reported:?}"
        );
        let (decoded, len) = Header::decode(&wrong_size.encode()).unwrap();
        assert_eq!((decoded.encode(), len), (wrong_size.encode(), header.encoded_len()));

        let mut bad_name = header.clone();
        bad_name.variables[0].name = " ".into();
        assert!(violations(&file_of(&bad_name))[0].contains("ends with a space"));
        assert!(Header::decode(&bad_name.encode()).is_ok());

        // The name of the first dimension is one byte long.
        let at = sound.iter().position(|&byte| byte == b't').unwrap() + 1;
        let mut padding = sound.clone();
        padding[at] = 1;
        assert_eq!(
            violations(&padding),
            [format!("at byte {at}: the padding of a name is not zero")]
        );
        assert_eq!(Header::decode(&padding).unwrap().0.encode(), header.encode());

        let reported = violations(&sound[..last - 5]);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].contains("it holds 1 of 2 records"), "{reported:?}");
        let reported = violations(&[&sound[..], &[0; 17]].concat());
        assert_eq!(reported, [format!("warning: at byte {}: 17 bytes follow the data", last + 1)]);
        let reported = violations(&sound[..header.variables[0].begin as usize + 2]);
        assert_eq!(reported.len(), 1, "{reported:?}");
        assert!(reported[0].contains("3 bytes before the end of variable 'a'"), "{reported:?}");

        let mut overlap = header.clone();
        overlap.variables[2].begin = overlap.variables[1].begin + 4;
        let reported = violations(&file_of(&overlap));
        assert!(
            reported[0].contains("'q' begins at") && reported[0].contains("in variable 'r'"),
            "{reported:?}"
        );
        let mut odd = header.clone();
        odd.variables[0].begin -= 1;
        let reported = violations(&file_of(&odd));
        assert!(
            reported.iter().any(|reported| reported.contains("no multiple of 4")),
            "{reported:?}"
        );
    }
}

/// Reference files of netCDF-C have them; ncdump shows the names without.
#[test]
fn zeros_at_the_end_of_a_name_are_no_part_of_it() {
    let mut header = Header::new(Format::Cdf2);
    header.dimensions.push(Dimension::classic("ppnnnnnn", 7));
    let mut bytes = file_of(&header);
    let at = bytes.windows(8).position(|it| it == b"ppnnnnnn").unwrap();
    bytes[at + 2..at + 8].fill(0);
    let (read, _) = Header::decode(&bytes).unwrap();
    assert_eq!(read.dimensions[0].name, "pp");
    // It is not what the specification says.
    assert_eq!(violations(&bytes).len(), 1, "{:?}", violations(&bytes));
}

#[test]
fn names_are_those_of_netcdf() {
    for good in ["a", "_x", "9", "ü", "a b", "a.b:c@d(e)", &"n".repeat(256), "日本"] {
        assert_eq!(check_name(good), Ok(()), "{good}");
    }
    for bad in ["", "/", "a/b", "a ", " a", "-a", "a\n", "a\x7f", "\0", &"n".repeat(257)] {
        assert!(check_name(bad).is_err(), "{bad:?}");
    }
}

#[test]
fn streaming_records_extend_to_the_end() {
    for format in FORMATS {
        let mut header = sample(format);
        let len = header.end().unwrap();
        header.records = Header::STREAMING;
        let bytes = header.encode();
        let (decoded, _) = Header::decode(&bytes).unwrap();
        assert_eq!(decoded.records, Header::STREAMING);
        assert_eq!(decoded.records_in(len), 2);
        assert_eq!(decoded.records_in(len - 7), 1);
        assert_eq!(decoded.records_in(0), 0);
        assert_eq!(decoded.end(), None);
        assert!(validate(&bytes, len).is_empty());
    }
}

#[test]
fn differences_are_described() {
    let header = sample(Format::Cdf5);
    let said = |change: fn(&mut Header)| {
        let mut other = header.clone();
        change(&mut other);
        header.difference(&other).unwrap()
    };
    assert_eq!(said(|h| h.format = Format::Cdf1), "the format is CDF-1, not CDF-5");
    assert_eq!(said(|h| h.dimensions[1].len = 6), "dimension 'x' has length 6, not 5");
    assert_eq!(said(|h| h.dimensions[0].len = 6), "dimension 't' has length 6, not unlimited");
    assert_eq!(said(|h| h.dimensions[0].name = "u".into()), "dimension 0 is 'u', not 't'");
    assert_eq!(
        said(|h| h.dimensions.push(dimension("z", 1))),
        "3 dimensions, not 2: 'z' is too many"
    );
    assert_eq!(said(|h| h.variables.truncate(2)), "2 variables, not 3: 'q' is missing");
    assert_eq!(
        said(|h| h.variables[0].external = Type::UByte),
        "variable 'a' is of type ubyte, not byte"
    );
    assert_eq!(
        said(|h| h.variables[1].dimensions = vec![0]),
        "variable 'r' has the dimensions (t), not (t, x)"
    );
    assert_eq!(
        said(|h| h.variables[0].attributes[0].values = "km".into()),
        "attribute 'units' of variable 'a' is \"km\", not \"m\""
    );
    assert_eq!(
        said(|h| h.variables[0].attributes[1].values = vec![1.5, 2.0].into()),
        "attribute 'valid' of variable 'a' has 2 as value 1, not NaN"
    );
    assert_eq!(
        said(|h| h.attributes.clear()),
        "0 attributes of the dataset, not 1: 'title' is missing"
    );
    let mut other = header.clone();
    (other.records, other.variables[0].begin) = (9, 9);
    assert_eq!(header.difference(&other), None);
}

#[test]
fn values_are_compared_by_their_bits() {
    let nan = |bits| Values::Double(vec![f64::from_bits(bits)]);
    let quiet = f64::NAN.to_bits();
    assert!(nan(quiet).is_same(&nan(quiet)));
    assert!(!nan(quiet).is_same(&nan(quiet | 1)));
    assert!(!Values::from(0.0_f32).is_same(&Values::from(-0.0_f32)));
}
