//! Files that this crate wrote, described and written further, in memory.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "JSON is for the peers")]
#[path = "netcdf_peers/generated.rs"]
mod generated;
#[allow(dead_code, reason = "JSON is for the peers")]
#[path = "netcdf_peers/kind.rs"]
mod kind;
#[path = "netcdf_peers/read_back.rs"]
mod read_back;
#[allow(dead_code, reason = "some of it is for the peers")]
#[path = "netcdf_peers/resumed.rs"]
mod resumed;
#[path = "netcdf_peers/written.rs"]
mod written;

use generated::Generated;
use resumed::{canonical, described, extend};
use striate_hdf5::File;
use striate_hdf5::model::{Address, ByteOrder, Class, Datatype, Member};
use striate_hdf5::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, NetcdfKind, Storage,
    TypeDefinition, VariableDefinition, VariableFill,
};
use striate_hdf5::write::{Chunks, Elements, FilePlan, Placement, PlanOptions, StoredChunk};
use written::Written;

/// As many as the peers read.
const FILES: u64 = 320;

#[test]
fn a_file_is_described_as_it_was_defined() {
    for seed in 0..FILES {
        let file = Generated::new(seed);
        let found = described(&file.write(seed % 3 == 0).bytes);
        assert_eq!(canonical(&found.definition), canonical(&file.definition), "{seed}");
        assert_eq!(found.definition.properties, file.definition.properties);
        let classic = file.definition.classic_model;
        let kind = if classic { NetcdfKind::Netcdf4Classic } else { NetcdfKind::Netcdf4 };
        assert_eq!(found.kind, kind);
        assert_eq!(found.objects.len(), found.definition.variables.len());
        for (variable, dataset) in found.definition.variables.iter().zip(&found.objects) {
            assert_eq!(found.definition.dataspace(variable), dataset.dataspace, "{seed}");
        }
    }
}

#[test]
fn a_file_that_is_described_is_written_further() {
    for seed in 0..FILES {
        let file = Generated::new(seed);
        let (next, written) = extend(&file, &file.write(seed % 3 == 0).bytes, seed);
        read_back::check(&written.bytes[..], &next, false);
        let found = described(&written.bytes);
        assert_eq!(canonical(&found.definition), canonical(&next.definition), "{seed}");
        // Once more, from what was just written.
        let again = committed_again(&written.bytes);
        read_back::check(&again[..], &next, false);
    }
}

/// Another commit of the same definitions.
fn committed_again(bytes: &[u8]) -> Vec<u8> {
    let found = described(bytes);
    let placements = found.placements(&File::open(bytes).unwrap()).unwrap();
    let (end, options) = (Address(bytes.len() as u64), PlanOptions::default());
    let plan = FilePlan::resume(found.definition.clone(), placements, end, options).unwrap();
    let mut written = Written { plan, bytes: bytes.to_vec() };
    written.plan.redefine(found.definition.clone()).unwrap();
    written.commit();
    assert_eq!(described(&written.bytes).definition, found.definition);
    written.bytes
}

fn dimension(name: &str, length: u64, unlimited: bool) -> DimensionDefinition {
    DimensionDefinition { group: 0, name: name.into(), length, unlimited }
}

/// Compounds with strings and sequences, in attributes, in the header, and in sequences.
#[test]
fn values_of_variable_length_survive() {
    let little = |atomic: AtomicType| atomic.datatype(ByteOrder::Little);
    let string = little(AtomicType::String);
    let sequence = Datatype::new(16, Class::Sequence { base: Box::new(little(AtomicType::Short)) });
    let array = Class::Array { base: Box::new(string.clone()), dimensions: vec![2] };
    let member = |name: &str, offset, datatype| Member { name: name.into(), offset, datatype };
    let members = vec![
        member("number", 0, little(AtomicType::Int)),
        member("text", 8, string),
        member("row", 24, sequence.clone()),
        member("texts", 40, Datatype::new(32, array)),
    ];
    let compound = Datatype::new(72, Class::Compound { members });
    let rows = Datatype::new(16, Class::Sequence { base: Box::new(compound.clone()) });
    let element = |number: u8| {
        let mut out = Elements::fixed([number, 0, 0, 0, 0, 0, 0, 0]);
        out.push_string(format!("text {number}").as_bytes());
        out.push_sequence(2, Elements::fixed([number, 0, number, 1]));
        out.push_string(b"");
        out.push_null();
        out
    };
    let mut two = element(1);
    two.append(element(2));
    let mut row = Elements::new();
    row.push_sequence(2, two.clone());
    row.push_null();
    let named = |name: &str, datatype: &Datatype| TypeDefinition {
        group: 0,
        name: name.into(),
        datatype: datatype.clone(),
    };
    let file = FileDefinition {
        dimensions: vec![dimension("x", 2, false)],
        types: vec![named("row", &sequence), named("compound", &compound), named("rows", &rows)],
        variables: vec![VariableDefinition {
            group: 0,
            name: "v".into(),
            datatype: compound.clone(),
            dimensions: vec![0],
            storage: Storage::Compact(two.clone()),
            filters: Vec::new(),
            fill: VariableFill::Value,
            attributes: vec![
                AttributeDefinition::new("compound", compound, two),
                AttributeDefinition::new("rows", rows, row),
                AttributeDefinition::strings("strings", ["a", "", "ü"]),
            ],
        }],
        ..FileDefinition::default()
    };
    let written = Written::create(file.clone(), PlanOptions::default());
    let found = described(&written.bytes);
    assert_eq!(found.definition, file);
    let again = committed_again(&written.bytes);
    assert_eq!(described(&again).definition, file);
    let texts = found.definition.variables[0].attributes[2].texts().unwrap();
    assert_eq!(texts, ["a", "", "ü"]);
}

/// A dataset of very many chunks of which hardly any are stored, as others make them.
#[test]
fn a_sparse_variable_costs_what_is_stored() {
    let stored = |address, size| StoredChunk { address: Address(address), size, filter_mask: 0 };
    let sizes = [1 << 40, 3];
    let chunks = [
        (vec![5, 0], stored(1000, 12)),
        (vec![1 << 30, 0], stored(1012, 12)),
        (vec![(1 << 30) + 1, 0], stored(1024, 12)),
        (vec![(1 << 30) + 2, 0], stored(2048, 12)),
    ];
    let existing = Chunks::existing(&[1, 3], 4, false, &sizes, chunks.clone());
    for (place, one) in &chunks {
        assert_eq!(existing.chunk(place), Some(*one));
    }
    assert_eq!(existing.chunk(&[6, 0]), None);
    assert_eq!(existing.boxes().len(), 1);
    let definition = FileDefinition {
        dimensions: vec![dimension("t", sizes[0], true), dimension("x", 3, false)],
        variables: vec![VariableDefinition {
            group: 0,
            name: "v".into(),
            datatype: AtomicType::Int.datatype(ByteOrder::Little),
            dimensions: vec![0, 1],
            storage: Storage::Chunked(vec![1, 3]),
            filters: Vec::new(),
            fill: VariableFill::Value,
            attributes: Vec::new(),
        }],
        ..FileDefinition::default()
    };
    let placements = vec![Placement::Chunked(existing)];
    let (end, options) = (Address(4096), PlanOptions::default());
    let plan = FilePlan::resume(definition, placements, end, options).unwrap();
    let mut written = Written { plan, bytes: vec![0; 4096] };
    let Address(address) = written.plan.claim(0, &[7, 0]).unwrap();
    written.write_at(address, &[1; 12]);
    written.commit();
    let file = File::open(&written.bytes[..]).unwrap();
    let found = described(&written.bytes);
    let places = file.chunks(&found.objects[0], std::ops::Bound::Unbounded, 100).unwrap();
    let places: Vec<u64> = places.iter().map(|one| one.offset[0]).collect();
    assert_eq!(places, [5, 7, 1 << 30, (1 << 30) + 1, (1 << 30) + 2]);
}
