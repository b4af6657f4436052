//! Tests: malformed layouts are refused, without a panic and without much memory.

use proptest::prelude::*;

use super::super::*;
use super::bytes::{composite_bytes, stripes};

fn objects(layout: &LustreLayout) -> usize {
    let of = |plain: &PlainLayout| plain.objects.len();
    match layout {
        LustreLayout::Plain(plain) => of(plain),
        LustreLayout::Composite(composite) => {
            composite.components.iter().map(|part| part.layout.as_ref().map_or(0, of)).sum()
        }
        LustreLayout::Foreign => 0,
    }
}

/// Decodes, asks for everything, and checks that no more came out than went in.
fn survive(bytes: &[u8]) {
    if let Ok(layout) = LustreLayout::decode(bytes) {
        assert!(objects(&layout) <= bytes.len() / 24);
        if let LustreLayout::Composite(composite) = &layout {
            assert!(composite.components.len() <= bytes.len() / 48);
        }
        let _ = (layout.striping(Some(3)), layout.needs_targets(), layout.is_composite());
    }
}

fn sample() -> Vec<u8> {
    let parts = [
        (1, 0x10, 0, 1 << 26, stripes(1 << 20, 2, &[3, 4])),
        (2, 0, 1 << 26, u64::MAX, stripes(4 << 20, 8, &[])),
    ];
    composite_bytes(&parts, 0)
}

#[test]
fn every_truncation_is_refused() {
    for whole in [sample(), stripes(1 << 20, 3, &[1, 2, 3])] {
        assert!(LustreLayout::decode(&whole).is_ok());
        for len in 0..whole.len() {
            let decoded = LustreLayout::decode(&whole[..len]);
            // Without its objects, it is the layout of a directory.
            let template = len == 32 && decoded.as_ref().is_ok_and(|layout| objects(layout) == 0);
            assert!(decoded.is_err() || template, "{len} of {}", whole.len());
        }
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let text = |bytes: &[u8]| LustreLayout::decode(bytes).unwrap_err().to_string();
    assert_eq!(text(&[]), "the layout has 0 bytes where 4 are needed");
    assert_eq!(
        text(b"not a layout at all, but some text"),
        "0x6e6f7420 is not the magic number of a known layout"
    );
    assert!(text(&vec![0; (1 << 16) + 1]).contains("65536 at most"));
    // One of the joined files of Lustre 1.
    let joined = [0xD0, 0x0B, 0xD2, 0x0B];
    assert!(text(&joined).contains("0x0bd20bd0"));
}

#[test]
fn components_do_not_share_bytes() {
    // 600 components that all point to one layout of 1000 objects: 14 MB out of 53 KB.
    let targets: Vec<u32> = (0..1000).collect();
    let mut parts = vec![(1, 0x10, 0, u64::MAX, stripes(1 << 20, 1000, &targets))];
    parts.resize(600, (2, 0x10, 0, u64::MAX, Vec::new()));
    let mut bytes = composite_bytes(&parts, 0);
    let (offset, size) = (bytes[32 + 24..32 + 28].to_vec(), bytes[32 + 28..32 + 32].to_vec());
    for entry in 0..600 {
        bytes[32 + 48 * entry + 24..][..4].copy_from_slice(&offset);
        bytes[32 + 48 * entry + 28..][..4].copy_from_slice(&size);
    }
    assert_eq!(LustreLayout::decode(&bytes), Err(LayoutError::Overlap));
}

#[test]
fn a_composite_inside_of_a_composite_is_refused() {
    let bytes = composite_bytes(&[(1, 0x10, 0, u64::MAX, sample())], 0);
    assert_eq!(LustreLayout::decode(&bytes), Err(LayoutError::Unknown { magic: 0x0BD6_0BD0 }));
}

proptest! {
    #[test]
    fn noise_is_survived(mut bytes in prop::collection::vec(any::<u8>(), 0..400), kind in 0..8_u8) {
        if let Some(front) = bytes.get_mut(..4) {
            front.copy_from_slice(&[0xD0, 0x0B, 0xD1 + kind, 0x0B]);
        }
        survive(&bytes);
    }

    #[test]
    fn changed_bytes_are_survived(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        whole in prop_oneof![Just(sample()), Just(stripes(1 << 20, 3, &[1, 2, 3]))],
    ) {
        let mut bytes = whole;
        for (index, value) in changes {
            let at = index.index(bytes.len());
            bytes[at] = value;
        }
        survive(&bytes);
    }

    #[test]
    fn what_is_encoded_is_decoded(
        pattern in any::<u32>(), unit in any::<u32>(), start in any::<u16>(),
        owner in any::<(u64, u64)>(), pool in "[a-z0-9_]{0,15}", form in 0..3_usize,
        objects in prop::collection::vec(any::<(u64, u64, u32, u32)>(), 0..20),
        big in any::<bool>(),
    ) {
        let pool = PoolName::new(&pool).unwrap();
        let layout = PlainLayout {
            form: [LayoutForm::V1, LayoutForm::V3(pool), LayoutForm::Specific(pool)][form],
            pattern,
            owner: ObjectId { first: owner.0, second: owner.1 },
            unit,
            count: objects.len() as u16,
            start,
            objects: objects.into_iter().map(|(first, second, generation, target)| {
                StripeObject { id: ObjectId { first, second }, generation, target }
            }).collect(),
        };
        let order = if big { ByteOrder::Big } else { ByteOrder::Little };
        prop_assert_eq!(LustreLayout::decode(&layout.encode(order)), Ok(LustreLayout::Plain(layout)));
    }
}
