//! Conversions between memory and files: against a slow twin, and against netCDF-C.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod edges;
#[cfg(feature = "peers")]
mod peer;
mod twin;

use striate_array::format::ByteOrder;
use striate_array::value::{Char, Conversion, InRange, Kind, Value, default_fill};
use striate_array::{Format, Type};
use twin::ExactNumber;

pub(crate) const FORMATS: [Format; 3] = [Format::Cdf1, Format::Cdf2, Format::Cdf5];

/// The fill value of the variables, which is not a default of netCDF.
const FILL: [u8; 8] = [0x5a, 0x3c, 0x99, 0x17, 0xe1, 0x42, 0x6b, 0xd8];

pub(crate) fn conversions() -> impl Iterator<Item = Conversion> {
    FORMATS.into_iter().flat_map(|format| {
        Type::ALL.into_iter().filter(move |external| external.is_in(format)).flat_map(
            move |external| {
                twin::KINDS.into_iter().filter(move |memory| memory.converts(external)).map(
                    move |memory| Conversion {
                        memory,
                        external,
                        format,
                        fill: FILL,
                        byte_order: ByteOrder::Big,
                    },
                )
            },
        )
    })
}

fn element(bytes: &[u8], size: usize, i: usize) -> &[u8] {
    &bytes[i * size..(i + 1) * size]
}

/// Elements for a conversion, at an odd address.
fn unaligned(bytes: &[u8]) -> Vec<u8> {
    let mut row = vec![0; 1];
    row.extend_from_slice(bytes);
    row
}

#[test]
fn encodes_as_the_twin_does() {
    for conversion in conversions() {
        let memory = edges::of(conversion.memory);
        let (size, external) = (conversion.memory.size(), conversion.external.size() as usize);
        let count = memory.len() / size;
        let mut file = vec![0xaa; count * external + 2];
        let end = file.len() - 1;
        let result = conversion.encode(&unaligned(&memory)[1..], &mut file[1..end]);
        assert_eq!((file[0], file[end]), (0xaa, 0xaa));

        let mut all = true;
        for i in 0..count {
            let value = ExactNumber::in_memory(conversion.memory, element(&memory, size, i));
            let expected = twin::converted(
                value,
                conversion.memory,
                &conversion,
                twin::kind_of(conversion.external),
            );
            all &= expected.is_some();
            let actual = element(&file[1..], external, i);
            let Some(expected) = expected else {
                assert_eq!(actual, &FILL[..external], "{value:?} by {conversion:?}");
                continue;
            };
            let mut actual = actual.to_vec();
            actual.reverse();
            if cfg!(target_endian = "big") {
                actual.reverse();
            }
            let actual = ExactNumber::in_memory(twin::kind_of(conversion.external), &actual);
            assert!(actual.is_same_as(expected), "{value:?} became {actual:?} by {conversion:?}");
        }
        assert_eq!(result == InRange::All, all, "{conversion:?}");
    }
}

#[test]
fn decodes_as_the_twin_does() {
    for conversion in conversions() {
        let outside = twin::kind_of(conversion.external);
        let native = edges::of(outside);
        let (size, external) = (conversion.memory.size(), outside.size());
        let count = native.len() / external;
        let mut file = native.clone();
        if cfg!(target_endian = "little") {
            file.chunks_exact_mut(external).for_each(<[u8]>::reverse);
        }
        let mut memory = vec![0xaa; count * size + 2];
        let end = memory.len() - 1;
        let result = conversion.decode(&unaligned(&file)[1..], &mut memory[1..end]);
        assert_eq!((memory[0], memory[end]), (0xaa, 0xaa));

        let mut all = true;
        for i in 0..count {
            let value = ExactNumber::in_memory(outside, element(&native, external, i));
            let expected = twin::converted(value, outside, &conversion, conversion.memory);
            all &= expected.is_some();
            let expected = expected.unwrap_or_else(|| twin::default_fill(conversion.memory));
            let actual = ExactNumber::in_memory(conversion.memory, element(&memory[1..], size, i));
            assert!(actual.is_same_as(expected), "{value:?} became {actual:?} by {conversion:?}");
        }
        assert_eq!(result == InRange::All, all, "{conversion:?}");
    }
}

/// One value out of range at any position of a long row is found, and changes no other.
#[test]
fn a_single_value_out_of_range_is_found_at_any_position() {
    let fill = default_fill(Type::Short);
    let conversion = Conversion {
        memory: Kind::F64,
        external: Type::Short,
        format: Format::Cdf1,
        fill,
        byte_order: ByteOrder::Big,
    };
    for at in [None, Some(0), Some(1), Some(1023), Some(1024), Some(2047), Some(4999)] {
        let mut memory: Vec<f64> = (0..5000).map(f64::from).collect();
        if let Some(at) = at {
            memory[at] = 1e9;
        }
        let mut file = vec![0; 10_000];
        let result = conversion.encode(bytemuck::cast_slice(&memory), &mut file);
        assert_eq!(result == InRange::All, at.is_none());
        for (i, bytes) in file.chunks_exact(2).enumerate() {
            let expected = if Some(i) == at { -32_767 } else { i as i16 };
            assert_eq!(bytes, expected.to_be_bytes(), "{i} with {at:?}");
        }
    }
}

#[test]
fn conversion_in_place_exists_exactly_for_types_with_the_same_bits() {
    for conversion in conversions() {
        let mut bytes = edges::of(conversion.memory);
        let original = bytes.clone();
        let unsigned_byte = conversion.format != Format::Cdf5
            && (conversion.memory, conversion.external) == (Kind::U8, Type::Byte);
        let same = conversion.memory.is_same(conversion.external) || unsigned_byte;
        assert_eq!(conversion.in_place(&mut bytes).is_some(), same, "{conversion:?}");
        if same {
            let mut file = vec![0; original.len()];
            assert_eq!(conversion.encode(&original, &mut file), InRange::All);
            assert_eq!(bytes, file, "{conversion:?}");
            assert!(conversion.in_place(&mut bytes).is_some());
        }
        assert_eq!(bytes, original, "{conversion:?}");
    }
}

#[test]
fn text_is_copied() {
    let conversion = Conversion {
        memory: Char::KIND,
        external: Type::Char,
        format: Format::Cdf1,
        fill: FILL,
        byte_order: ByteOrder::Big,
    };
    let text: Vec<u8> = (0..=255).collect();
    let mut file = vec![0; 256];
    assert_eq!(conversion.encode(&text, &mut file), InRange::All);
    assert_eq!(file, text);
    let mut memory = vec![0; 256];
    assert_eq!(conversion.decode(&file, &mut memory), InRange::All);
    assert_eq!(memory, text);
}

#[test]
fn default_fill_values_are_those_of_netcdf() {
    let expected: [&[u8]; 11] = [
        &(-127i8).to_be_bytes(),
        &[0],
        &(-32_767i16).to_be_bytes(),
        &(-2_147_483_647i32).to_be_bytes(),
        &[0x7c, 0xf0, 0, 0],
        &[0x47, 0x9e, 0, 0, 0, 0, 0, 0],
        &[255],
        &65_535u16.to_be_bytes(),
        &4_294_967_295u32.to_be_bytes(),
        &(-9_223_372_036_854_775_806i64).to_be_bytes(),
        &18_446_744_073_709_551_614u64.to_be_bytes(),
    ];
    for (external, expected) in Type::ALL.into_iter().zip(expected) {
        let fill = default_fill(external);
        assert_eq!(&fill[..expected.len()], expected, "{external}");
        assert_eq!(expected.len() as u64, external.size());
        assert!(fill[expected.len()..].iter().all(|&byte| byte == 0));
    }
    assert_eq!((9.969_209_968_386_869e36_f64 as f32).to_bits(), 0x7cf0_0000);
    assert_eq!(9.969_209_968_386_869e36_f64.to_bits(), 0x479e_0000_0000_0000);
}

#[test]
#[should_panic(expected = "not equally many elements")]
fn slices_of_different_counts_are_refused() {
    let conversion = Conversion {
        memory: Kind::F64,
        external: Type::Short,
        format: Format::Cdf1,
        fill: FILL,
        byte_order: ByteOrder::Big,
    };
    let _ = conversion.encode(&[0; 16], &mut [0; 6]);
}
