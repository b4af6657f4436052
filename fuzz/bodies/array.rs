//! What the fuzz target of netCDF headers asserts, as a plain function of bytes.
//!
//! The tests of the crate run it too, with a stable compiler. The bytes are also taken with the
//! first four right, which a fuzzer would have to guess.
#![allow(dead_code, unreachable_pub, reason = "each target uses a part")]

use striate_array::format::{Alignment, Format, Header, Problem, validate};

/// Bytes as a file that begins with a header.
pub fn netcdf_header(bytes: &[u8]) {
    check(bytes);
    let formats = [Format::Cdf1, Format::Cdf2, Format::Cdf5];
    if let Some((&first, _)) = bytes.split_first().filter(|_| bytes.len() >= 4) {
        let magic = formats[usize::from(first) % 3].magic();
        if bytes[..4] != magic {
            check(&[&magic, &bytes[4..]].concat());
        }
    }
}

fn check(bytes: &[u8]) {
    let violations = validate(bytes, bytes.len() as u64);
    for violation in &violations {
        assert!(!violation.to_string().is_empty());
    }
    // The bytes may be the beginning of a longer file.
    let _ = validate(bytes, u64::MAX);
    let _ = validate(bytes, 0);
    match Header::decode(bytes) {
        Err(error) => {
            assert!(!error.to_string().is_empty());
            let told = violations.iter().any(|violation| !violation.warning);
            assert!(told, "a file that cannot be read violates the format: {error}");
            if let Problem::Truncated { needed } = error.problem {
                assert!(needed > bytes.len() as u64, "there is something to gain");
            }
        }
        Ok((header, len)) => check_header(bytes, &header, len),
    }
}

fn check_header(bytes: &[u8], header: &Header, len: u64) {
    let encoded = header.encode();
    assert_eq!(header.encoded_len(), encoded.len() as u64);
    // Names end at a zero; what was stored after it is not encoded.
    assert!(encoded.len() as u64 <= len, "what was decoded is encoded in no more bytes");
    check_again(header, &encoded);
    let (at, field) = header.records_field();
    assert_eq!(encoded[at as usize..][..field.len()], field);
    let part = Header::decode(&bytes[..len as usize - 1]).map_err(|error| error.problem);
    assert!(matches!(part, Err(Problem::Truncated { needed }) if needed <= len));

    let held = header.records_in(bytes.len() as u64);
    assert!(held <= bytes.len() as u64, "a record has a byte at least");
    let end = header.end();
    assert!(end.is_none_or(|end| end >= encoded.len() as u64));

    // Noise makes odd boundaries.
    let boundary = |index: usize| u64::from(bytes[index % bytes.len()]) << (index % 7);
    let alignment = Alignment {
        header: boundary(1),
        fixed: boundary(2),
        fixed_from: boundary(3),
        record: boundary(5),
    };
    for before in [None, Some(header)] {
        let mut arranged = header.clone();
        if let Err(error) = arranged.arrange(&alignment, before) {
            assert!(!error.to_string().is_empty());
            assert_eq!(arranged.encode(), encoded, "a failure changes nothing");
            continue;
        }
        assert_eq!(header.difference(&arranged), None);
        if before.is_some() {
            let mut moves = header.variables.iter().zip(&arranged.variables);
            assert!(moves.all(|(old, new)| old.begin <= new.begin), "something moved down");
        }
        check_again(&arranged, &arranged.encode());
        let end = arranged.end().unwrap_or(i64::MAX as u64);
        let layout = ["begins at", "begin at", "ends at", "follow the data", "stated size"];
        for violation in validate(&arranged.encode(), end) {
            let about_layout = layout.iter().any(|words| violation.what.contains(words));
            // Names may say so themselves, and what had an odd place keeps it.
            assert!(
                !about_layout || before.is_some() || violation.what.contains("name"),
                "{violation}"
            );
        }
    }
}

/// Encoded bytes decode to the same header.
fn check_again(header: &Header, encoded: &[u8]) {
    let (again, len) = Header::decode(encoded).expect("what is encoded can be decoded");
    assert_eq!(len, encoded.len() as u64);
    assert_eq!(header.difference(&again), None);
    assert_eq!(again.encode(), encoded);
}
