//! What the fuzz target of HDF5's filters asserts, as a plain function of bytes.
//!
//! The bytes are a pipeline, a filter mask, the size of a chunk, and the stored bytes of one:
//!
//! ```text
//! filters: 1 byte, then for each: id 2 bytes, parameters 1 byte, then 4 bytes for each
//! filter mask: 1 byte; size of the chunk: 2 bytes; stored bytes: the rest
//! ```
//!
//! All numbers are little-endian.
#![allow(dead_code, unreachable_pub, reason = "each target uses a part")]

use striate_hdf5::filter::{Pipeline, Scratch};
use striate_hdf5::model::Filter;

/// Bytes as a chunk with its pipeline.
pub fn hdf5_filter(bytes: &[u8]) {
    let Some((filters, filter_mask, len, stored)) = parse(bytes) else {
        return;
    };
    let pipeline = Pipeline::new(&filters);
    let mut scratch = Scratch::new();
    let mut chunk = vec![0xEE; len];
    let decoded = pipeline.decode(filter_mask, stored, &mut chunk, &mut scratch);
    // What was in the buffers before makes no difference.
    let mut again = vec![0x11; len];
    let twice = pipeline.decode(filter_mask, stored, &mut again, &mut scratch);
    assert_eq!(decoded, twice);
    match decoded {
        Ok(()) => assert_eq!(chunk, again, "every byte is decoded"),
        Err(error) => assert!(error.to_string().starts_with("filter ")),
    }
    // What can be encoded can be decoded.
    let Ok(encoded) = pipeline.encode(stored, &mut scratch) else {
        return;
    };
    let (filter_mask, encoded) = (encoded.filter_mask, encoded.bytes.to_vec());
    let mut back = vec![0xEE; stored.len()];
    let decoded = pipeline.decode(filter_mask, &encoded, &mut back, &mut scratch);
    // The n-bit filter loses the padding.
    if let Err(error) = &decoded {
        panic!("{error}");
    }
    assert!(back == stored || filters.iter().any(|filter| filter.id == 5));
}

type Chunk<'a> = (Vec<Filter>, u32, usize, &'a [u8]);

fn parse(bytes: &[u8]) -> Option<Chunk<'_>> {
    let (count, mut rest) = bytes.split_first()?;
    let mut filters = Vec::new();
    for at in 0..count % 5 {
        let (id, bytes) = rest.split_first_chunk::<2>()?;
        let (&count, bytes) = bytes.split_first()?;
        let (words, bytes) = bytes.split_at_checked(4 * usize::from(count))?;
        rest = bytes;
        let words = words.as_chunks::<4>().0;
        filters.push(Filter {
            id: u16::from_le_bytes(*id),
            name: "".into(),
            optional: at % 2 == 0,
            parameters: words.iter().map(|word| u32::from_le_bytes(*word)).collect(),
        });
    }
    let (&filter_mask, rest) = rest.split_first()?;
    let (len, stored) = rest.split_first_chunk::<2>()?;
    Some((filters, u32::from(filter_mask), usize::from(u16::from_le_bytes(*len)), stored))
}
