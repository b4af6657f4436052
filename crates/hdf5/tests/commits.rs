//! Commits in memory, read with this crate: at every step the file is the old or the new state.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[allow(dead_code, reason = "JSON is for the peers")]
#[path = "netcdf_peers/generated.rs"]
mod generated;
#[allow(dead_code, reason = "JSON is for the peers")]
#[path = "netcdf_peers/kind.rs"]
mod kind;
#[path = "netcdf_peers/read_back.rs"]
mod read_back;
#[path = "netcdf_peers/written.rs"]
mod written;

use generated::Generated;
use striate_hdf5::checksum::lookup3;
use striate_hdf5::model::{Address, ByteOrder, Layout};
use striate_hdf5::write::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, Storage,
    VariableDefinition, VariableFill,
};
use striate_hdf5::write::{
    Chunks, CommitStep, DataAlignment, Elements, FilePlan, Placement, PlanOptions, StoredChunk,
};
use striate_hdf5::{File, closed_superblock};
use written::Written;

fn dimension(name: &str, length: u64, unlimited: bool) -> DimensionDefinition {
    DimensionDefinition { group: 0, name: name.into(), length, unlimited }
}

fn variable(name: &str, dimensions: &[usize], storage: Storage) -> VariableDefinition {
    VariableDefinition {
        group: 0,
        name: name.into(),
        datatype: AtomicType::Int.datatype(ByteOrder::Little),
        dimensions: dimensions.to_vec(),
        storage,
        filters: Vec::new(),
        fill: VariableFill::Value,
        attributes: Vec::new(),
    }
}

/// Two variables that can grow along two dimensions, and one that cannot.
fn growing() -> FileDefinition {
    FileDefinition {
        dimensions: vec![
            dimension("t", 0, true),
            dimension("x", 3, true),
            dimension("y", 4, false),
        ],
        variables: vec![
            variable("a", &[0, 1], Storage::Chunked(vec![2, 2])),
            variable("b", &[1, 0, 2], Storage::Chunked(vec![1, 3, 4])),
            variable("c", &[2], Storage::Contiguous),
        ],
        ..FileDefinition::default()
    }
}

/// All elements of a variable: numbers that follow from their coordinates.
fn numbers(plan: &FilePlan, variable: usize) -> Elements {
    let definition = plan.definition();
    let sizes = definition.dataspace(&definition.variables[variable]).sizes();
    let number = |at| {
        let place = written::coordinates(at, &sizes);
        place.iter().fold(variable as i32, |all, &one| all * 100 + one as i32)
    };
    let count = sizes.iter().product();
    Elements::fixed((0..count).flat_map(|at| number(at).to_le_bytes()).collect::<Vec<u8>>())
}

/// The elements of a variable in a file.
fn read(bytes: &[u8], name: &str) -> (Vec<u64>, Vec<u8>) {
    let file = File::open(bytes).unwrap();
    let object = file.lookup(&file.root().unwrap(), name.as_bytes()).unwrap();
    let dataset = file.dataset(&object).unwrap();
    let mut values = vec![0; dataset.bytes().unwrap() as usize];
    file.read(&dataset, &mut values).unwrap();
    (dataset.dataspace.sizes(), values)
}

/// The state of a file: sizes and values of all variables.
fn state(bytes: &[u8]) -> Vec<(Vec<u64>, Vec<u8>)> {
    ["a", "b", "c"].map(|name| read(bytes, name)).to_vec()
}

#[test]
fn a_commit_that_stops_anywhere_leaves_a_whole_state() {
    for growth_reserve in [0, 1 << 12] {
        let options = PlanOptions { growth_reserve, ..PlanOptions::default() };
        let mut file = Written::create(growing(), options);
        for round in 0..12_u64 {
            let before = state(&file.bytes);
            let (dimension, length) = if round % 3 == 2 { (1, 3 + round) } else { (0, round + 1) };
            file.plan.grow(dimension, length).unwrap();
            for number in 0..3 {
                file.put(number, &numbers(&file.plan, number));
            }
            // Values that were there before are the same, those of new chunks are not visible.
            let commit = file.plan.commit().unwrap();
            let mut changed = false;
            for step in &commit.steps {
                if let CommitStep::Write { address, bytes } = step
                    && *address != Address(0)
                {
                    // Half of a write, too.
                    let mut half = file.clone();
                    half.write_at(address.0, &bytes[..bytes.len() / 2]);
                    assert_eq!(shapes(&half.bytes), shapes_of(&before), "{round}");
                }
                file.step(step);
                changed |= matches!(step, CommitStep::Write { address: Address(0), .. });
                if !changed {
                    assert_eq!(shapes(&file.bytes), shapes_of(&before), "{round}");
                }
            }
            file.plan.committed();
            for (number, name) in ["a", "b", "c"].iter().enumerate() {
                let (_, values) = read(&file.bytes, name);
                assert_eq!(values, numbers(&file.plan, number).as_bytes(), "{round} {name}");
            }
            assert!(file.bytes.len() as u64 >= commit.end.0);
        }
    }
}

fn shapes(bytes: &[u8]) -> Vec<Vec<u64>> {
    shapes_of(&state(bytes))
}

fn shapes_of(state: &[(Vec<u64>, Vec<u8>)]) -> Vec<Vec<u64>> {
    state.iter().map(|(sizes, _)| sizes.clone()).collect()
}

#[test]
fn space_of_old_metadata_is_used_again() {
    let mut file = Written::create(growing(), PlanOptions::default());
    for number in 0..100 {
        let mut definition = file.plan.definition().clone();
        let text = AttributeDefinition::text("history", &"x".repeat(number % 7));
        definition.groups[0].attributes = vec![text];
        file.plan.redefine(definition).unwrap();
        file.commit();
    }
    let metadata = FilePlan::create(growing(), PlanOptions::default()).unwrap().end().0;
    assert!(file.plan.end().0 < 6 * metadata, "{} {metadata}", file.plan.end());
}

#[test]
fn a_commit_that_failed_keeps_what_the_file_may_refer_to() {
    let mut file = Written::create(growing(), PlanOptions::default());
    let before = file.bytes.clone();
    let mut written = Vec::new();
    for _ in 0..4 {
        // Nobody knows whether the superblock was written.
        for step in file.plan.commit().unwrap().steps {
            if let CommitStep::Write { address, bytes } = step
                && address != Address(0)
            {
                written.push(address.0..address.0 + bytes.len() as u64);
            }
        }
    }
    for (number, one) in written.iter().enumerate() {
        assert!(one.start >= before.len() as u64);
        assert!(written[..number].iter().all(|other| other.end <= one.start));
    }
}

#[test]
fn the_same_definitions_are_the_same_bytes() {
    for seed in 0..40 {
        let file = Generated::new(seed);
        assert_eq!(file.write(false).bytes, Generated::new(seed).write(false).bytes);
    }
}

#[test]
fn what_was_written_is_read() {
    for seed in 0..400 {
        let file = Generated::new(seed);
        let written = file.write(seed % 2 == 0);
        read_back::check(&written.bytes[..], &file, false);
    }
}

#[test]
fn chunks_and_contiguous_variables_are_aligned() {
    let alignment = DataAlignment { threshold: 16, alignment: 4096 };
    let options = PlanOptions { alignment, ..PlanOptions::default() };
    let mut file = Written::create(growing(), options);
    file.plan.grow(0, 9).unwrap();
    file.plan.grow(1, 5).unwrap();
    let mut addresses = Vec::new();
    for number in 0..3 {
        match file.plan.placement(number).unwrap() {
            Placement::Chunked(chunks) => {
                let definition = file.plan.definition();
                let sizes = definition.dataspace(&definition.variables[number]).sizes();
                let grid = chunks.grid(&sizes);
                for at in 0..grid.iter().product() {
                    let place = written::coordinates(at, &grid);
                    addresses.push((chunks.chunk(&place).unwrap().address.0, chunks.chunk_bytes()));
                }
            }
            Placement::Contiguous { address, size } => addresses.push((address.unwrap().0, *size)),
            Placement::Compact => {}
        }
    }
    addresses.sort_unstable();
    assert!(addresses.iter().all(|(address, _)| address % 4096 == 0));
    assert!(addresses.windows(2).all(|two| two[0].0 + two[0].1 <= two[1].0));
}

#[test]
fn growth_moves_no_chunk() {
    for growth_reserve in [0, 256, 1 << 20] {
        let options = PlanOptions { growth_reserve, ..PlanOptions::default() };
        let mut plan = FilePlan::create(growing(), options).unwrap();
        let mut known = std::collections::BTreeMap::new();
        for round in 0..40_u64 {
            let dimension = usize::from(round % 5 == 4);
            let length = plan.definition().dimensions[dimension].length + round % 3;
            plan.grow(dimension, length).unwrap();
            for number in 0..2 {
                let Some(Placement::Chunked(chunks)) = plan.placement(number) else { panic!() };
                let definition = plan.definition();
                let sizes = definition.dataspace(&definition.variables[number]).sizes();
                let grid = chunks.grid(&sizes);
                for at in 0..grid.iter().product() {
                    let place = written::coordinates(at, &grid);
                    let address = chunks.chunk(&place).unwrap().address;
                    let first = *known.entry((number, place)).or_insert(address);
                    assert_eq!(first, address);
                }
            }
        }
        let mut addresses: Vec<_> = known.values().collect();
        addresses.sort_unstable();
        addresses.dedup();
        assert_eq!(addresses.len(), known.len());
    }
}

#[test]
fn definitions_that_cannot_be_written_are_refused() {
    let refuse = |change: &dyn Fn(&mut FileDefinition)| {
        let mut definition = growing();
        change(&mut definition);
        assert!(FilePlan::create(definition, PlanOptions::default()).is_err());
    };
    refuse(&|file| file.variables[0].storage = Storage::Contiguous);
    refuse(&|file| file.variables[0].storage = Storage::Chunked(vec![2]));
    refuse(&|file| file.variables[0].storage = Storage::Chunked(vec![0, 1]));
    refuse(&|file| file.variables[0].storage = Storage::Chunked(vec![1 << 20, 1 << 20]));
    refuse(&|file| file.variables[0].dimensions = vec![7, 8]);
    refuse(&|file| file.variables[0].name = "b".into());
    refuse(&|file| file.variables[0].name = "x/y".into());
    refuse(&|file| file.variables[0].group = 1);
    refuse(&|file| file.variables[2].storage = Storage::Compact(Elements::fixed([0; 15])));
    refuse(&|file| file.dimensions[2].length = u64::MAX / 4);
    refuse(&|file| {
        file.dimensions[2].length = 30_000;
        file.variables[2].storage = Storage::Compact(Elements::fixed(vec![0; 120_000]));
    });
    refuse(&|file| file.groups.clear());
    let mut plan = FilePlan::create(growing(), PlanOptions::default()).unwrap();
    assert!(plan.grow(2, 5).is_err());
    assert!(plan.grow(1, 2).is_err());
    assert!(plan.grow(0, u64::MAX / 2).is_err());
}

/// The plan of a file that is read.
/// What nothing refers to can be cut off: the file has the same values without it.
#[test]
fn nothing_is_behind_the_used_space() {
    for seed in 0..60 {
        let made = Generated::new(seed);
        let bytes = made.write(seed % 2 == 0).bytes;
        let file = File::open_recording(bytes.as_slice()).unwrap();
        let used = file.used_space().unwrap();
        let end = file.superblock().end;
        assert!(used.end() <= end && end == bytes.len() as u64, "{seed}");
        assert!(used.unused_before(end).is_some_and(|unused| unused < end), "{seed}");
        let mut cut = bytes[..used.end() as usize].to_vec();
        let closed = closed_superblock(&bytes, Some(used.end())).unwrap();
        cut[..closed.len()].copy_from_slice(&closed);
        read_back::check(cut.as_slice(), &made, false);
        // One byte less is too few.
        let last = used.end() as usize - 1;
        let closed = closed_superblock(&bytes, Some(last as u64)).unwrap();
        cut.truncate(last);
        cut[..closed.len()].copy_from_slice(&closed);
        let missing = File::open_recording(cut.as_slice()).and_then(|file| file.used_space());
        assert!(missing.is_err() || missing.unwrap().end() > last as u64, "{seed}");
    }
}

#[test]
fn superblocks_are_closed() {
    let bytes = Generated::new(1).write(false).bytes;
    let closed = closed_superblock(&bytes, None).unwrap();
    assert_eq!(closed, bytes[..closed.len()]);
    // Marked as open, by the library, with the checksum of that.
    let mut open = bytes.clone();
    open[8] = 3;
    open[11] = 5;
    let sum = lookup3(&open[..44]);
    open[44..48].copy_from_slice(&sum.to_le_bytes());
    assert_eq!(File::open(open.as_slice()).unwrap().superblock().consistency_flags, 5);
    let closed = closed_superblock(&open, Some(bytes.len() as u64)).unwrap();
    open[..closed.len()].copy_from_slice(&closed);
    let file = File::open(open.as_slice()).unwrap();
    assert_eq!((file.superblock().consistency_flags, file.superblock().version), (0, 3));
    open[20] ^= 1;
    assert_eq!(closed_superblock(&open, None), None, "its checksum is wrong");
    assert_eq!(closed_superblock(b"CDF\x01", None), None);
}

fn resumed(bytes: &[u8], definition: &FileDefinition, options: PlanOptions) -> FilePlan {
    let file = File::open(bytes).unwrap();
    let root = file.root().unwrap();
    let placements = definition.variables.iter().map(|variable| {
        let object = file.lookup(&root, variable.name.as_bytes()).unwrap();
        let dataset = file.dataset(&object).unwrap();
        match &dataset.layout {
            Layout::Compact { .. } => Placement::Compact,
            Layout::Contiguous { address, size } => {
                Placement::Contiguous { address: *address, size: *size }
            }
            Layout::Chunked(layout) => {
                let chunks = file.chunks(&dataset, std::ops::Bound::Unbounded, usize::MAX).unwrap();
                let chunks = chunks.into_iter().map(|one| {
                    let place = one.offset.iter().zip(&layout.chunk).map(|(at, len)| at / len);
                    let (address, filter_mask) = (one.address, one.filter_mask);
                    (place.collect(), StoredChunk { address, size: one.size as u32, filter_mask })
                });
                let sizes = dataset.dataspace.sizes();
                let element = layout.element_size;
                Placement::Chunked(Chunks::existing(&layout.chunk, element, false, &sizes, chunks))
            }
            other => panic!("{other:?}"),
        }
    });
    let placements = placements.collect();
    let end = Address(bytes.len() as u64);
    FilePlan::resume(definition.clone(), placements, end, options).unwrap()
}

#[test]
fn a_file_that_was_read_is_written_further() {
    for alignment in [1, 512] {
        let alignment = DataAlignment { threshold: 0, alignment };
        let options = PlanOptions { alignment, ..PlanOptions::default() };
        let mut file = Written::create(growing(), options);
        for round in 1..8_u64 {
            file.plan.grow(0, round * 2).unwrap();
            if round % 2 == 0 {
                file.plan.grow(1, round + 3).unwrap();
            }
            for number in 0..3 {
                file.put(number, &numbers(&file.plan, number));
            }
            file.commit();
            // Nothing has changed since.
            assert_eq!(file.plan.commit().unwrap().steps, [CommitStep::Sync]);
            let definition = file.plan.definition().clone();
            let next = resumed(&file.bytes, &definition, options);
            for number in 0..3 {
                let sizes = definition.dataspace(&definition.variables[number]).sizes();
                let (Some(Placement::Chunked(old)), Some(Placement::Chunked(new))) =
                    (file.plan.placement(number), next.placement(number))
                else {
                    assert_eq!(file.plan.placement(number), next.placement(number));
                    continue;
                };
                let grid = old.grid(&sizes);
                for at in 0..grid.iter().product() {
                    let place = written::coordinates(at, &grid);
                    assert_eq!(old.chunk(&place), new.chunk(&place));
                }
            }
            file.plan = next;
        }
    }
}

#[test]
fn a_regular_file_is_read_as_boxes() {
    let mut definition = growing();
    definition.dimensions[0].length = 20;
    let file = Written::create(definition.clone(), PlanOptions::default());
    let next = resumed(&file.bytes, &definition, PlanOptions::default());
    for number in 0..2 {
        let Some(Placement::Chunked(chunks)) = next.placement(number) else { panic!() };
        assert_eq!(chunks.boxes().len(), 1);
        assert_eq!(next.placement(number), file.plan.placement(number));
    }
}
