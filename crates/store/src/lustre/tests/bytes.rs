//! The byte layouts of `lustre_user.h`, field by field.

use super::super::control::{SET_STRIPE, TARGET_COUNT};
use super::super::*;

/// Fields of a structure, each with the offset that the header gives it.
pub(super) fn structure(len: usize, fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0; len];
    for (offset, field) in fields {
        bytes[*offset..offset + field.len()].copy_from_slice(field);
    }
    bytes
}

/// `lov_user_ost_data_v1`: 24 bytes.
fn object_bytes() -> Vec<u8> {
    structure(
        24,
        &[
            (0, &[0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11]), // l_ost_oi, first
            (8, &[0x01, 0, 0, 0, 0, 0, 0, 0]),                      // l_ost_oi, second
            (16, &[0x02, 0, 0, 0]),                                 // l_ost_gen
            (20, &[0x2A, 0, 0, 0]),                                 // l_ost_idx
        ],
    )
}

fn object() -> StripeObject {
    let id = ObjectId { first: 0x1122_3344_5566_7788, second: 1 };
    StripeObject { id, generation: 2, target: 42 }
}

fn v1() -> PlainLayout {
    PlainLayout {
        form: LayoutForm::V1,
        pattern: 1,
        owner: ObjectId { first: 0x0102_0304_0506_0708, second: 0x090A_0B0C_0D0E_0F10 },
        unit: 0x0010_0000,
        count: 4,
        start: 3,
        objects: Vec::new(),
    }
}

/// The 32 bytes that `lov_user_md_v1` and `lov_user_md_v3` have in common.
fn header(magic: [u8; 4]) -> Vec<u8> {
    structure(
        32,
        &[
            (0, &magic),                            // lmm_magic
            (4, &[0x01, 0, 0, 0]),                  // lmm_pattern: RAID0
            (8, &[8, 7, 6, 5, 4, 3, 2, 1]),         // lmm_oi, first
            (16, &[16, 15, 14, 13, 12, 11, 10, 9]), // lmm_oi, second
            (24, &[0x00, 0x00, 0x10, 0x00]),        // lmm_stripe_size: 1 MiB
            (28, &[0x04, 0x00]),                    // lmm_stripe_count
            (30, &[0x03, 0x00]),                    // lmm_stripe_offset
        ],
    )
}

#[track_caller]
fn both_ways(layout: &PlainLayout, bytes: &[u8]) {
    assert_eq!(layout.encode(ByteOrder::Little), bytes);
    assert_eq!(LustreLayout::decode(bytes).unwrap(), LustreLayout::Plain(layout.clone()));
    let big = layout.encode(ByteOrder::Big);
    assert_eq!(LustreLayout::decode(&big).unwrap(), LustreLayout::Plain(layout.clone()));
}

#[test]
fn version_1_is_32_bytes() {
    both_ways(&v1(), &header([0xD0, 0x0B, 0xD1, 0x0B]));
}

#[test]
fn version_1_in_the_other_order() {
    let expected = structure(
        32,
        &[
            (0, &[0x0B, 0xD1, 0x0B, 0xD0]),
            (4, &[0, 0, 0, 1]),
            (8, &[1, 2, 3, 4, 5, 6, 7, 8]),
            (16, &[9, 10, 11, 12, 13, 14, 15, 16]),
            (24, &[0x00, 0x10, 0x00, 0x00]),
            (28, &[0, 4]),
            (30, &[0, 3]),
        ],
    );
    assert_eq!(v1().encode(ByteOrder::Big), expected);
}

#[test]
fn objects_follow_of_24_bytes_each() {
    let layout = PlainLayout { objects: vec![object(); 4], ..v1() };
    let mut bytes = header([0xD0, 0x0B, 0xD1, 0x0B]);
    for _ in 0..4 {
        bytes.extend(object_bytes());
    }
    assert_eq!(bytes.len(), 32 + 4 * 24);
    both_ways(&layout, &bytes);
}

#[test]
fn version_3_has_a_pool_name_of_16_bytes_at_32() {
    let pool = PoolName::new("flash").unwrap();
    let mut bytes = header([0xD0, 0x0B, 0xD3, 0x0B]);
    bytes.extend(structure(16, &[(0, b"flash")])); // lmm_pool_name
    assert_eq!(bytes.len(), 48);
    both_ways(&PlainLayout { form: LayoutForm::V3(pool), ..v1() }, &bytes);

    for _ in 0..4 {
        bytes.extend(object_bytes());
    }
    let objects = vec![object(); 4];
    both_ways(&PlainLayout { form: LayoutForm::V3(pool), objects, ..v1() }, &bytes);
}

#[test]
fn specific_targets_are_version_3_with_objects() {
    let mut bytes = header([0xD0, 0x0B, 0xD5, 0x0B]);
    bytes.extend([0; 16]);
    let objects: Vec<_> =
        [7, 0, 9, 300].map(|target| StripeObject { target, ..StripeObject::default() }).into();
    for target in [[7, 0], [0, 0], [9, 0], [0x2C, 1]] {
        bytes.extend(structure(24, &[(20, &target)]));
    }
    both_ways(
        &PlainLayout { form: LayoutForm::Specific(PoolName::default()), objects, ..v1() },
        &bytes,
    );
}

#[test]
fn pool_names_have_15_bytes_at_most() {
    assert_eq!(PoolName::new("fifteen_letters").unwrap().to_string(), "fifteen_letters");
    assert!(PoolName::new("sixteen__letters").is_none());
    assert!(PoolName::new("a\0b").is_none());
    assert!(PoolName::new("").unwrap().is_empty());
}

/// `lov_comp_md_v1` of 32 bytes, `lov_comp_md_entry_v1` of 48 bytes each, and their layouts.
pub(super) fn composite_bytes(entries: &[(u32, u32, u64, u64, Vec<u8>)], mirrors: u16) -> Vec<u8> {
    let mut table = Vec::new();
    let mut layouts: Vec<u8> = Vec::new();
    let first = 32 + 48 * entries.len();
    for (id, flags, start, end, layout) in entries {
        table.extend(structure(
            48,
            &[
                (0, &id.to_le_bytes()),                                // lcme_id
                (4, &flags.to_le_bytes()),                             // lcme_flags
                (8, &start.to_le_bytes()),                             // lcme_extent.e_start
                (16, &end.to_le_bytes()),                              // lcme_extent.e_end
                (24, &((first + layouts.len()) as u32).to_le_bytes()), // lcme_offset
                (28, &(layout.len() as u32).to_le_bytes()),            // lcme_size
                (32, &[5, 0, 0, 0]),                                   // lcme_layout_gen
                (36, &[0xFF; 8]),                                      // lcme_time_and_id
                (44, &[0xEE; 4]), // lcme_dstripe_count, _cstripe_count, _compr_*
            ],
        ));
        layouts.extend(layout);
    }
    let size = (first + layouts.len()) as u32;
    let mut bytes = structure(
        32,
        &[
            (0, &[0xD0, 0x0B, 0xD6, 0x0B]),              // lcm_magic
            (4, &size.to_le_bytes()),                    // lcm_size
            (8, &[9, 0, 0, 0]),                          // lcm_layout_gen
            (12, &[2, 0]),                               // lcm_flags
            (14, &(entries.len() as u16).to_le_bytes()), // lcm_entry_count
            (16, &mirrors.to_le_bytes()),                // lcm_mirror_count, less one
            (18, &[0xEE; 14]),                           // lcm_ec_count, lcm_padding
        ],
    );
    bytes.extend(table);
    bytes.extend(layouts);
    bytes
}

pub(super) fn stripes(unit: u32, count: u16, targets: &[u32]) -> Vec<u8> {
    let objects = targets.iter().map(|&target| StripeObject { target, ..object() }).collect();
    PlainLayout { unit, count, objects, ..v1() }.encode(ByteOrder::Little)
}

const INIT: u32 = 0x10;
const STALE: u32 = 0x01;
const EXTENSION: u32 = 0x40;
const MIB: u32 = 1 << 20;
const NO_END: u64 = u64::MAX;

#[test]
fn composite_layouts_have_components() {
    let bytes = composite_bytes(
        &[
            (1, INIT, 0, 1 << 26, stripes(MIB, 1, &[3])),
            (2, 0, 1 << 26, NO_END, stripes(4 * MIB, 8, &[])),
        ],
        0,
    );
    let decoded = LustreLayout::decode(&bytes).unwrap();
    let LustreLayout::Composite(composite) = &decoded else { panic!("{decoded:?}") };
    assert_eq!((composite.generation, composite.flags, composite.mirrors), (9, 2, 1));
    let parts: Vec<_> = composite
        .components
        .iter()
        .map(|part| (part.id, part.flags, part.start, part.end, part.generation, part.mirror()))
        .collect();
    assert_eq!(parts, [(1, INIT, 0, 1 << 26, 5, 0), (2, 0, 1 << 26, NO_END, 5, 0)]);
    let first = composite.components[0].layout.as_ref().unwrap();
    assert_eq!((first.unit, first.count, first.objects[0].target), (MIB, 1, 3));

    let expected = Striping { unit: 4 << 20, count: Some(8), start: None, components: 2 };
    assert_eq!(decoded.striping(None), Some(expected), "as the last component");
}

#[test]
fn mirrors_that_are_stale_and_components_that_extend_are_passed_over() {
    let bytes = composite_bytes(
        &[
            (0x0001_0001, INIT | STALE, 0, NO_END, stripes(MIB, 2, &[1, 2])),
            (0x0002_0001, INIT, 0, 1 << 30, stripes(2 * MIB, 3, &[7, 8, 9])),
            (0x0002_0002, EXTENSION, 1 << 30, NO_END, stripes(64 * MIB, 3, &[])),
            (0x0003_0001, INIT, 0, NO_END, stripes(8 * MIB, 5, &[0, 1, 2, 3, 4])),
        ],
        2,
    );
    let decoded = LustreLayout::decode(&bytes).unwrap();
    let LustreLayout::Composite(composite) = &decoded else { panic!("{decoded:?}") };
    assert_eq!(composite.mirrors, 3);
    assert_eq!(composite.components[3].mirror(), 3);
    let expected = Striping { unit: 2 << 20, count: Some(3), start: Some(7), components: 4 };
    assert_eq!(decoded.striping(None), Some(expected));
}

#[test]
fn components_on_metadata_targets_and_elsewhere_have_no_stripes() {
    let mut on_metadata = stripes(MIB, 0, &[]);
    on_metadata[4..8].copy_from_slice(&[0, 1, 0, 0]); // LOV_PATTERN_MDT
    let foreign = structure(20, &[(0, &[0xD0, 0x0B, 0xD7, 0x0B]), (4, &[4, 0, 0, 0])]);
    assert_eq!(LustreLayout::decode(&foreign), Ok(LustreLayout::Foreign));
    assert_eq!(LustreLayout::decode(&on_metadata).unwrap().striping(None), None);
    let bytes = composite_bytes(
        &[
            (0x0001_0001, INIT, 0, NO_END, foreign),
            (0x0002_0001, INIT, 0, 1 << 20, on_metadata),
            (0x0002_0002, INIT, 1 << 20, NO_END, stripes(MIB, 0xFFFF, &[])),
        ],
        1,
    );
    let decoded = LustreLayout::decode(&bytes).unwrap();
    let LustreLayout::Composite(composite) = &decoded else { panic!("{decoded:?}") };
    assert_eq!(composite.components[0].layout, None);
    let all = Striping { unit: 1 << 20, count: Some(12), start: None, components: 3 };
    assert_eq!(decoded.striping(Some(12)), Some(all), "a count of -1 means every target");
    assert_eq!(decoded.striping(None).unwrap().count, None);
}

#[test]
fn codes_of_the_calls() {
    // _IOW('f', 154, long) and _IOR('f', 168, long) where a long has 8 bytes.
    if size_of::<std::ffi::c_long>() == 8 && cfg!(target_arch = "x86_64") {
        assert_eq!(SET_STRIPE, 0x4008_669A);
        assert_eq!(TARGET_COUNT, 0x8008_66A8);
    }
    assert!(FileSystem::from_type(0x0BD0_0BD0).is_lustre());
    assert!(!FileSystem::from_type(0xEF53).is_lustre());
    assert!(
        FileSystem::from_type(0xFFFF_FFFF_9123_683E).traits().serial_writes,
        "extended by its sign"
    );
}
