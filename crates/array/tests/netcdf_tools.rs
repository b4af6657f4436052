//! The formats compared with other programs: headers that netCDF-C and `PnetCDF` write are encoded
//! to the same bytes, they accept files with our layout, and what `ncvalidator` rejects is
//! reported.
//!
//! The programs are `ncgen` and `ncdump` (netcdf-bin), `ncmpigen` and `ncvalidator` (pnetcdf-bin).
//! The feature `peers` says that they are installed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod headers;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use headers::{header, sample};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use striate_array::format::{Alignment, Format, Header, Type, Violation, validate};

const FORMATS: [Format; 3] = [Format::Cdf1, Format::Cdf2, Format::Cdf5];

/// Whether a program succeeded.
fn ends_well(program: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    match command.status() {
        Ok(status) => status.success(),
        Err(error) => panic!("{program} is needed: {error}"),
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("temporary directories have such names")
}

fn errors(bytes: &[u8], file_len: u64) -> Vec<Violation> {
    validate(bytes, file_len).into_iter().filter(|violation| !violation.warning).collect()
}

const FULL: &str = r#"netcdf full {
dimensions: t = UNLIMITED ; x = 5 ; y = 3 ;
variables: byte a(x) ; a:units = "m" ; a:valid = 1b, 100b ; char c(y, x) ; short s ; double d(y) ;
    d:_FillValue = NaN ; float f(x, y) ; short r(t, y) ; byte q(t) ; double p(t, x) ;
:title = "with some of everything" ; :empty = "" ; :numbers = 1, 2, 3 ; :shorts = 1s, 2s, 3s ;
data: a = 1, 2, 3, 4, 5 ; c = "abcdefghijklmno" ; s = 7 ; d = 1, 2, 3 ; r = 1, 2, 3, 4, 5, 6 ;
    q = 1, 2 ; p = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 ;
f = 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 ; }"#;
const ALONE: &str = "netcdf alone { dimensions: t = UNLIMITED ; x = 3 ; variables: byte r(t, x) ; \
    data: r = 1, 2, 3, 4, 5, 6, 7, 8, 9 ; }";
const NO_RECORDS: &str = "netcdf no_records { dimensions: t = UNLIMITED ; x = 3 ; \
    variables: byte a(x) ; short r(t, x) ; double q(t) ; data: a = 1, 2, 3 ; }";
const NO_DATA: &str = "netcdf no_data { dimensions: t = UNLIMITED ; x = 3 ; \
    variables: byte a(x) ; short r(t, x) ; }";
const EMPTY: &str = "netcdf empty { }";
const MORE_TYPES: &str = "netcdf more_types { dimensions: x = 3 ; variables: ubyte a(x) ; ushort b(x) ; \
    uint c(x) ; int64 d(x) ; uint64 e(x) ; e:big = 18446744073709551615ull ; :signed = -1ll ; \
    data: a = 1, 2, 3 ; b = 1, 2, 3 ; c = 1, 2, 3 ; d = 1, 2, 3 ; e = 1, 2, 3 ; }";

#[test]
fn files_of_peers_are_valid_and_their_headers_encode_equally() {
    let directory = tempfile::tempdir().unwrap();
    let (cdl, file) = (directory.path().join("in.cdl"), directory.path().join("out.nc"));
    let texts = [FULL, ALONE, NO_RECORDS, NO_DATA, EMPTY, MORE_TYPES];
    for (text_of, format) in texts.iter().flat_map(|text| FORMATS.map(|format| (text, format))) {
        if *text_of == MORE_TYPES && format != Format::Cdf5 {
            continue;
        }
        fs::write(&cdl, text_of).unwrap();
        let kind = ["nc3", "nc6", "nc5"][format as usize];
        let version = format.version().to_string();
        let makers = [("ncgen", ["-k", kind]), ("ncmpigen", ["-v", &version])];
        for (maker, [option, value]) in makers {
            // ncmpigen supports neither NaN nor all types.
            if maker == "ncmpigen" && [FULL, MORE_TYPES].contains(text_of) {
                continue;
            }
            let arguments = [option, value, "-o", text(&file), text(&cdl)];
            assert!(ends_well(maker, &arguments), "{maker} {arguments:?}");
            let bytes = fs::read(&file).unwrap();
            let what = format!("{maker} {format} {text_of}");
            assert_eq!(errors(&bytes, bytes.len() as u64), [], "{what}");
            let (header, len) = Header::decode(&bytes).unwrap();
            assert_eq!(header.format, format, "{what}");
            assert_eq!(header.encode(), bytes[..len as usize], "{what}");
            // It extends a file without variables to a page.
            if maker == "ncgen" && *text_of != EMPTY {
                assert_eq!(header.end(), Some(bytes.len() as u64), "{what}");
            }
            same_layout(&header);
        }
    }
}

/// Without additional alignment the layout is unique.
fn same_layout(header: &Header) {
    let first = header.variables.iter().map(|variable| variable.begin).min();
    let is_packed = first.is_none_or(|first| first == header.encoded_len());
    let has_doubles = header.variables.iter().any(|variable| variable.external == Type::Double);
    if is_packed && !has_doubles {
        let mut arranged = header.clone();
        arranged.arrange(&Alignment::default(), None).unwrap();
        assert_eq!(arranged.encode(), header.encode());
    }
}

#[test]
fn our_files_are_valid_for_peers() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("ours.nc");
    let mut runner =
        TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let result = runner.run(&header(), |header| {
        let mut bytes = header.encode();
        bytes.resize(header.end().unwrap() as usize, 0);
        fs::write(&file, &bytes).unwrap();
        prop_assert!(ends_well("ncvalidator", &["-q", text(&file)]));
        prop_assert!(ends_well("ncdump", &[text(&file)]));
        Ok(())
    });
    result.unwrap();
}

#[test]
fn rejections_of_ncvalidator_are_reported() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("damaged.nc");
    for format in FORMATS {
        let header = sample(format);
        let mut bytes = header.encode();
        let header_len = bytes.len();
        bytes.resize(header.end().unwrap() as usize, 0);
        for at in 0..header_len {
            let was = bytes[at];
            for to in [was ^ 1, was ^ 0x80, was.wrapping_add(7)] {
                bytes[at] = to;
                // Checked for files without violations only, which takes fewer processes.
                if !validate(&bytes, bytes.len() as u64).is_empty() {
                    continue;
                }
                fs::write(&file, &bytes).unwrap();
                let accepted = ends_well("ncvalidator", &["-q", text(&file)]);
                assert!(accepted, "{format}: {was} to {to} at {at}");
            }
            bytes[at] = was;
        }
    }
}
