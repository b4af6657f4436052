//! The filter pipeline as its users see it: round trips, masks, bounds and threads.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::*;
use striate_hdf5::filter::{Encoded, FilterError, FilterFault, Pipeline, Scratch};
use striate_hdf5::model::Filter;

fn filter(id: u16, parameters: &[u32]) -> Filter {
    Filter { id, name: "".into(), optional: true, parameters: parameters.to_vec() }
}

fn mandatory(id: u16, parameters: &[u32]) -> Filter {
    Filter { optional: false, ..filter(id, parameters) }
}

fn decoded(pipeline: &Pipeline, encoded: &Encoded<'_>, len: usize) -> Result<Vec<u8>, FilterError> {
    let mut chunk = vec![0xEE; len];
    pipeline.decode(encoded.filter_mask, encoded.bytes, &mut chunk, &mut Scratch::new())?;
    Ok(chunk)
}

/// A filter that can be applied.
fn any_filter() -> impl Strategy<Value = Filter> {
    let kind = prop_oneof![
        (0_u32..10).prop_map(|level| (1, vec![level])),
        (0_u32..20).prop_map(|size| (2, vec![size])),
        Just((3, vec![])),
        Just((5, vec![3, 1, 0])),
        (1_u32..10).prop_map(|level| (307, vec![level])),
        (0_u32..5000).prop_map(|block| (32004, vec![block])),
        (1_u32..8).prop_map(|level| (32015, vec![level])),
        // Nobody has it.
        Just((999, vec![])),
    ];
    (kind, any::<bool>()).prop_map(|((id, parameters), optional)| {
        if optional || id == 999 { filter(id, &parameters) } else { mandatory(id, &parameters) }
    })
}

/// Bytes that compress well, badly or not at all.
fn any_chunk() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 0..3000),
        prop::collection::vec(0_u8..3, 0..3000),
        (0_usize..40_000, any::<u16>()).prop_map(|(len, step)| {
            (0..len).map(|at| ((at * usize::from(step)) >> 12) as u8).collect()
        }),
    ]
}

proptest! {
    #[test]
    fn what_is_encoded_decodes_to_the_same(
        filters in prop::collection::vec(any_filter(), 0..5),
        chunks in prop::collection::vec(any_chunk(), 1..4),
    ) {
        let pipeline = Pipeline::new(&filters);
        let (mut encoding, mut decoding) = (Scratch::new(), Scratch::new());
        for chunk in chunks {
            let encoded = pipeline.encode(&chunk, &mut encoding).unwrap();
            let mut back = vec![0xEE; chunk.len()];
            pipeline.decode(encoded.filter_mask, encoded.bytes, &mut back, &mut decoding).unwrap();
            prop_assert_eq!(&back, &chunk);
            // A chunk of another size is told.
            let longer = decoded(&pipeline, &encoded, chunk.len() + 1);
            prop_assert!(longer.is_err());
            for (at, filter) in filters.iter().enumerate() {
                let left_out = encoded.filter_mask >> at & 1 == 1;
                prop_assert!(!left_out || filter.optional);
                prop_assert!(left_out || filter.id != 999);
            }
        }
    }

    #[test]
    fn damaged_bytes_give_an_error_or_other_bytes(
        filters in prop::collection::vec(any_filter(), 1..4),
        chunk in any_chunk(),
        at: prop::sample::Index,
        flip in 1_u8..,
    ) {
        let pipeline = Pipeline::new(&filters);
        let mut scratch = Scratch::new();
        let encoded = pipeline.encode(&chunk, &mut scratch).unwrap();
        let mut bytes = encoded.bytes.to_vec();
        if let Some(byte) = (!bytes.is_empty()).then(|| at.index(bytes.len())) {
            bytes[byte] ^= flip;
        }
        let damaged = Encoded { bytes: &bytes, ..encoded };
        if let Err(error) = decoded(&pipeline, &damaged, chunk.len()) {
            prop_assert!(error.to_string().starts_with("filter "));
        }
    }
}

#[test]
fn a_checksum_finds_every_flipped_bit() {
    let pipeline = Pipeline::new(&[filter(2, &[4]), filter(3, &[])]);
    let chunk: Vec<u8> = (0..64).collect();
    let mut scratch = Scratch::new();
    let bytes = pipeline.encode(&chunk, &mut scratch).unwrap().bytes.to_vec();
    assert_eq!(bytes.len(), 68);
    for bit in 0..8 * bytes.len() {
        let mut bytes = bytes.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let error = decoded(&pipeline, &Encoded { bytes: &bytes, filter_mask: 0 }, 64).unwrap_err();
        assert!(matches!(error.fault, FilterFault::Checksum { .. }), "{error}");
        // Who does not want the checksum leaves it out, as a mask does.
        let unchecked = Encoded { bytes: &bytes[..64], filter_mask: 2 };
        assert!(decoded(&pipeline, &unchecked, 64).is_ok());
    }
}

#[test]
fn an_optional_filter_that_does_not_shrink_is_left_out() {
    let mut random = 7_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 56) as u8
    })
    .take(4096)
    .collect();
    for id in [1, 307, 32004, 32015] {
        let mut scratch = Scratch::new();
        let optional = Pipeline::new(&[filter(2, &[8]), filter(id, &[4]), filter(3, &[])]);
        let encoded = optional.encode(&noise, &mut scratch).unwrap();
        assert_eq!((encoded.filter_mask, encoded.bytes.len()), (0b010, 4096 + 4), "filter {id}");
        assert_eq!(decoded(&optional, &encoded, 4096).unwrap(), noise);
        let needed = Pipeline::new(&[filter(2, &[8]), mandatory(id, &[4]), filter(3, &[])]);
        let encoded = needed.encode(&noise, &mut scratch).unwrap();
        assert_eq!(encoded.filter_mask, 0);
        assert!(encoded.bytes.len() > 4096 + 4);
        assert_eq!(decoded(&needed, &encoded, 4096).unwrap(), noise);
    }
}

#[test]
fn errors_name_the_filter() {
    let message = |filters: &[Filter]| {
        let pipeline = Pipeline::new(filters);
        let bytes = [0; 40];
        let error = decoded(&pipeline, &Encoded { bytes: &bytes, filter_mask: 0 }, 40).unwrap_err();
        error.to_string()
    };
    assert_eq!(
        message(&[filter(32013, &[])]),
        "filter 32013 (zfp): not decoded here; the plug-in is H5Z-ZFP"
    );
    assert_eq!(
        message(&[Filter { name: "mine".into(), ..filter(999, &[]) }]),
        "filter 999 (mine): not a registered filter; only the plug-in that wrote the chunk can \
         decode it"
    );
    assert_eq!(message(&[filter(1, &[4])]), "filter 1 (deflate): damaged data: no zlib data");
    assert_eq!(
        message(&[filter(2, &[])]),
        "filter 2 (shuffle): unusable parameters: there is none"
    );
    // A chunk that says that the filter was not applied is read.
    let pipeline = Pipeline::new(&[filter(999, &[])]);
    assert!(pipeline.check_decoding().is_err());
    assert!(pipeline.check_encoding().is_ok(), "it is left out");
    assert_eq!(decoded(&pipeline, &Encoded { bytes: &[1, 2], filter_mask: 1 }, 2), Ok(vec![1, 2]));
    let pipeline = Pipeline::new(&[mandatory(32000, &[])]);
    assert!(pipeline.check_decoding().is_ok());
    assert_eq!(pipeline.check_encoding().unwrap_err().fault, FilterFault::NoEncoder);
    assert_eq!(
        pipeline.encode(&[1], &mut Scratch::new()).unwrap_err().fault,
        FilterFault::NoEncoder
    );
}

#[test]
fn a_small_stream_of_many_bytes_is_refused() {
    // 4 MiB of zeros, given as a chunk of 4 KiB.
    for id in [1, 307, 32004, 32015] {
        let pipeline = Pipeline::new(&[filter(id, &[9])]);
        let zeros = vec![0; 4 << 20];
        let mut scratch = Scratch::new();
        let encoded = pipeline.encode(&zeros, &mut scratch).unwrap();
        assert!(encoded.bytes.len() < zeros.len() / 50);
        assert!(decoded(&pipeline, &encoded, 4096).is_err());
        assert_eq!(decoded(&pipeline, &encoded, zeros.len()).unwrap(), zeros);
    }
}

#[test]
fn bytes_behind_a_deflated_stream_are_no_data() {
    let pipeline = Pipeline::new(&[filter(1, &[4])]);
    let chunk = vec![7; 500];
    let mut scratch = Scratch::new();
    let mut bytes = pipeline.encode(&chunk, &mut scratch).unwrap().bytes.to_vec();
    bytes.extend([1, 2, 3, 4, 5]);
    assert_eq!(decoded(&pipeline, &Encoded { bytes: &bytes, filter_mask: 0 }, 500).unwrap(), chunk);
}

#[test]
fn more_filters_than_a_mask_has_bits() {
    let pipeline = Pipeline::new(&vec![filter(2, &[2]); 33]);
    let encoded = Encoded { bytes: &[1, 2], filter_mask: u32::MAX };
    assert!(matches!(
        decoded(&pipeline, &encoded, 2).unwrap_err().fault,
        FilterFault::Unsupported(_)
    ));
    assert!(pipeline.encode(&[1, 2], &mut Scratch::new()).is_err());
    let pipeline = Pipeline::new(&vec![filter(2, &[2]); 32]);
    let mut scratch = Scratch::new();
    let chunk = [1, 2, 3, 4, 5];
    let encoded = pipeline.encode(&chunk, &mut scratch).unwrap();
    assert_eq!(decoded(&pipeline, &encoded, 5).unwrap(), chunk);
    // No filter at all.
    let pipeline = Pipeline::new(&[]);
    assert!(pipeline.is_empty());
    assert_eq!(pipeline.encode(&chunk, &mut scratch).unwrap().bytes, chunk);
    assert!(decoded(&pipeline, &Encoded { bytes: &chunk, filter_mask: 0 }, 4).is_err());
}

#[test]
fn threads_share_a_pipeline() {
    let pipeline = &Pipeline::new(&[filter(2, &[4]), filter(1, &[4]), filter(3, &[])]);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let (mut encoding, mut decoding) = (Scratch::new(), Scratch::new());
                for round in 0..20 {
                    let chunk: Vec<u8> = (0..10_000 + 100 * thread + round)
                        .flat_map(|at: u32| (at * (thread + 3)).to_le_bytes())
                        .collect();
                    let encoded = pipeline.encode(&chunk, &mut encoding).unwrap();
                    assert!(encoded.bytes.len() < chunk.len() / 2);
                    let mut back = vec![0; chunk.len()];
                    pipeline.decode(0, encoded.bytes, &mut back, &mut decoding).unwrap();
                    assert!(back == chunk);
                }
            });
        }
    });
}
