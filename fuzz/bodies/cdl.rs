//! What the fuzz target of CDL asserts, as a plain function of bytes.
//!
//! The tests of the crate run it too, with a stable compiler. The bytes are also taken as what is
//! within a group, which a fuzzer would have to guess.
#![allow(dead_code, unreachable_pub, reason = "each target uses a part")]

use striate_array::cdl::parse::{CdlDocument, CdlType, parse};
use striate_hdf5::model::ByteOrder;
use striate_hdf5::write::Elements;

/// The most bytes of elements of a variable that are read.
const ELEMENTS: u64 = 1 << 16;

/// Bytes as a text.
pub fn cdl_text(bytes: &[u8]) {
    check(bytes);
    if !bytes.starts_with(b"netcdf") {
        check(&[b"netcdf a {", bytes, b"}"].concat());
    }
}

fn check(bytes: &[u8]) {
    let lines = bytes.split(|&byte| byte == b'\n').count() as u64;
    match parse(bytes) {
        Err(error) => {
            assert!(!error.problem.is_empty());
            assert!((1..=lines).contains(&error.line), "{error}");
            assert!(error.column >= 1 && error.column <= bytes.len() as u64 + 1, "{error}");
        }
        Ok(document) => check_document(&document),
    }
}

fn check_document(document: &CdlDocument<'_>) {
    let _ = document.needed_format();
    for (number, one) in document.types.iter().enumerate() {
        assert_eq!(document.datatype(CdlType::User(number), ByteOrder::Little).size, one.size);
    }
    let of_groups = document.groups.iter().flat_map(|group| &group.attributes);
    let of_variables = document.variables.iter().flat_map(|variable| &variable.attributes);
    for attribute in of_groups.chain(of_variables) {
        if let Ok(values) = document.values(attribute, ByteOrder::Big) {
            let size = document.size(attribute.of) as usize;
            assert_eq!(values.len() % size, 0, "an attribute is of whole elements");
        }
    }
    for variable in &document.variables {
        let size = u64::from(document.size(variable.of));
        let Ok(mut reader) = document.elements(variable, ByteOrder::Little) else { continue };
        let total = reader.total();
        if total.saturating_mul(size) > ELEMENTS {
            continue;
        }
        // In one piece, and in two.
        let mut parts = reader.clone();
        let (mut whole, mut other) = (Elements::new(), Elements::new());
        let read = reader.read(total, &mut whole);
        let half = total / 2;
        let halves =
            parts.read(half, &mut other).and_then(|()| parts.read(total - half, &mut other));
        assert_eq!(read, halves);
        if read.is_ok() {
            assert_eq!(whole.len() as u64, total * size);
            assert_eq!(whole, other);
        }
    }
}
