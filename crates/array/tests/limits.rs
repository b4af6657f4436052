//! The limits of each format, equal to those of netCDF-C and `PnetCDF`.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod headers;

use headers::{attribute, dimension, variable};
use striate_array::format::{Alignment, Format, Header, LimitError, Type, validate};

const FORMATS: [Format; 3] = [Format::Cdf1, Format::Cdf2, Format::Cdf5];
const GIB: u64 = 1 << 30;

/// A header of byte variables of such sizes; `records` are per record.
fn of_sizes(format: Format, fixed: &[u64], records: &[u64]) -> Header {
    let mut header = Header { dimensions: vec![dimension("t", 0)], ..Header::new(format) };
    for (index, &size) in fixed.iter().chain(records).enumerate() {
        // Two dimensions, because one cannot be so long.
        let id = header.dimensions.len() as u32;
        header.dimensions.push(dimension(&format!("x{index}"), size.div_ceil(GIB)));
        header.dimensions.push(dimension(&format!("y{index}"), size.min(GIB)));
        let shape = if index < fixed.len() { vec![id, id + 1] } else { vec![0, id, id + 1] };
        header.variables.push(variable(&format!("v{index}"), Type::Byte, &shape));
    }
    header
}

fn arranged(mut header: Header) -> Result<Header, LimitError> {
    let before = header.clone();
    match header.arrange(&Alignment::default(), None) {
        Ok(()) => Ok(header),
        Err(error) => {
            assert_eq!(header, before, "nothing has changed");
            Err(error)
        }
    }
}

/// The formats that can store variables of such sizes.
fn holders(fixed: &[u64], records: &[u64]) -> Vec<u8> {
    let holds = |format: &Format| arranged(of_sizes(*format, fixed, records)).is_ok();
    FORMATS.into_iter().filter(holds).map(Format::version).collect()
}

#[test]
fn only_the_last_variable_may_be_large() {
    assert_eq!(holders(&[GIB, 8], &[]), [1, 2, 5]);
    // CDF-1 cannot address offsets beyond 2 GiB.
    assert_eq!(holders(&[GIB, GIB, 8], &[]), [2, 5]);
    assert_eq!(holders(&[2 * GIB, 8], &[]), [2, 5]);
    assert_eq!(holders(&[2 * GIB], &[]), [1, 2, 5]);
    assert_eq!(holders(&[8, 8 * GIB], &[]), [1, 2, 5]);
    assert_eq!(holders(&[8 * GIB, 8], &[]), [5]);
    assert_eq!(holders(&[8 * GIB], &[8]), [5]);
    assert_eq!(holders(&[8], &[8, 8 * GIB]), [1, 2, 5]);
    assert_eq!(holders(&[8], &[8 * GIB, 8]), [5]);
    assert_eq!(holders(&[], &[3 * GIB, 8]), [2, 5]);
}

#[test]
fn large_sizes_are_stated_as_the_format_says() {
    for (size, stated) in [(GIB, GIB), (3 * GIB, 3 * GIB), (8 * GIB, u64::from(u32::MAX))] {
        for format in [Format::Cdf1, Format::Cdf2] {
            let header = arranged(of_sizes(format, &[size], &[])).unwrap();
            assert_eq!(header.variables[0].stated_size, stated);
            let file_len = header.end().unwrap();
            assert_eq!(validate(&header.encode(), file_len), []);
        }
        let header = arranged(of_sizes(Format::Cdf5, &[size], &[])).unwrap();
        assert_eq!(header.variables[0].stated_size, size);
    }
}

#[test]
fn dimensions_have_a_longest_length() {
    let with = |format, len| {
        arranged(Header { dimensions: vec![dimension("x", len)], ..Header::new(format) })
    };
    for (format, most) in [
        (Format::Cdf1, (1 << 31) - 4),
        (Format::Cdf2, (1 << 32) - 4),
        (Format::Cdf5, (1 << 63) - 4),
    ] {
        assert!(with(format, most).is_ok());
        assert!(matches!(with(format, most + 1), Err(LimitError::Length { .. })));
    }
    assert_eq!(
        with(Format::Cdf1, 3_000_000_000).unwrap_err().to_string(),
        "dimension 'x' is too long with 3000000000: 2147483644 is the most in CDF-1; \
         CDF-2 can hold it"
    );
}

#[test]
fn errors_name_a_format_that_fits() {
    let said = |header: Header| arranged(header).unwrap_err().to_string();
    assert_eq!(
        said(of_sizes(Format::Cdf1, &[3 * GIB, 8], &[])),
        "variable 'v0' takes 3221225472 bytes; 2147483644 are the most in CDF-1 for one that others \
         follow; CDF-2 can hold it"
    );
    assert_eq!(
        said(of_sizes(Format::Cdf2, &[], &[8 * GIB, 8])),
        "a record of variable 'v0' takes 8589934592 bytes; 4294967292 are the most in CDF-2 for one \
         that others follow; CDF-5 can hold it"
    );
    assert_eq!(
        said(of_sizes(Format::Cdf1, &[GIB, GIB, 8], &[])),
        "variable 'v2' would begin at byte 2147483884; 2147483647 is the last that CDF-1 can \
         address; CDF-2 can hold it"
    );
    let mut header = Header::new(Format::Cdf2);
    header.variables.push(variable("v", Type::UInt, &[]));
    assert_eq!(said(header), "variable 'v' is of type uint, which CDF-2 does not have; CDF-5 does");
    let mut header = Header::new(Format::Cdf1);
    header.variables.push(variable("v", Type::Int, &[]));
    header.variables[0].attributes.push(attribute("flag", 1_u64));
    assert_eq!(
        said(header),
        "attribute 'flag' of variable 'v' is of type uint64, which CDF-1 does not have; CDF-5 does"
    );
    let mut header = Header { records: u64::from(u32::MAX), ..Header::new(Format::Cdf2) };
    assert!(said(header.clone()).contains("4294967294 is the most in CDF-2; CDF-5 can hold it"));
    header.records -= 1;
    assert!(arranged(header).is_ok());
    let mut header = Header { dimensions: vec![dimension("x", 1)], ..Header::new(Format::Cdf5) };
    header.variables.push(variable("v", Type::Byte, &[0; 1025]));
    assert_eq!(said(header.clone()), "variable 'v' has 1025 dimensions; 1024 are the most");
    header.variables[0].dimensions.pop();
    assert!(arranged(header).is_ok());
}

#[test]
fn nothing_ends_beyond_the_largest_file() {
    let exbi = 1_u64 << 60;
    assert_eq!(holders(&[7 * exbi], &[]), [5]);
    assert_eq!(holders(&[exbi, 6 * exbi], &[]), [5]);
    assert_eq!(holders(&[4 * exbi, 4 * exbi], &[]), [0; 0]);
    assert_eq!(holders(&[], &[4 * exbi, 4 * exbi]), [0; 0]);
    let mut header = of_sizes(Format::Cdf5, &[], &[exbi]);
    header.records = 7;
    assert!(arranged(header.clone()).is_ok());
    header.records = 8;
    let end = LimitError::End { variable: "v0".into() };
    assert_eq!(arranged(header), Err(end.clone()));
    // A product beyond 64 bits.
    let mut header = of_sizes(Format::Cdf5, &[4 * exbi], &[]);
    header.variables[0].dimensions.extend([1, 1]);
    assert!(matches!(arranged(header), Err(LimitError::Size { holder: None, .. })));
    let mut header = of_sizes(Format::Cdf1, &[4 * exbi], &[]);
    header.variables[0].dimensions.extend([1, 1]);
    assert!(matches!(arranged(header), Err(LimitError::Length { .. } | LimitError::End { .. })));
    assert_eq!(
        arranged(of_sizes(Format::Cdf5, &[7 * exbi, exbi], &[])),
        Err(LimitError::End { variable: "v1".into() })
    );
}
