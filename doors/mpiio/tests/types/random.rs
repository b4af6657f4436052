//! Random types, made by the MPI.

use std::ffi::c_int;

use mpi::ffi::{self, MPI_Aint, MPI_Datatype};
use striate_testing::splitmix::SplitMix64;

use crate::mpi_types::{self, CreatedType};

/// Reproducible by its seed.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) const fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.draw()
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        low + self.below((high - low) as u64 + 1) as i64
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }

    fn ints(&mut self, len: usize, low: i64, high: i64) -> Vec<c_int> {
        (0..len).map(|_| self.between(low, high) as c_int).collect()
    }
}

/// A type, and how it was made.
pub(crate) struct Tried {
    pub(crate) made: CreatedType,
    pub(crate) story: String,
    /// What the MPIs are known to err in.
    pub(crate) quirks: Quirks,
}

/// MPICH counts the place of a struct's field that has no data in true bounds, or crashes when it
/// packs it, and makes such structs of cyclic arrays; what it packs of negative extents is not what
/// their bounds say; Open MPI places copies of such structs wrongly, and takes a stride of minus
/// one byte for plus one.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each stands for one error of an MPI")]
pub(crate) struct Quirks {
    pub(crate) empty_field: bool,
    pub(crate) minus_one: bool,
    pub(crate) distributed: bool,
    pub(crate) negative: bool,
}

impl Quirks {
    fn or(self, other: Self) -> Self {
        Self {
            empty_field: self.empty_field || other.empty_field,
            minus_one: self.minus_one || other.minus_one,
            distributed: self.distributed || other.distributed,
            negative: self.negative || other.negative,
        }
    }
}

enum Base {
    Named(MPI_Datatype),
    CreatedType(CreatedType),
}

impl Base {
    fn raw(&self) -> MPI_Datatype {
        match self {
            Self::Named(raw) => *raw,
            Self::CreatedType(made) => made.0,
        }
    }
}

/// A type of up to `depth` constructors above a predefined one; none if the MPI has refused one.
pub(crate) fn derived(random: &mut Random, named: &[MPI_Datatype], depth: u32) -> Option<Tried> {
    let mut base = |random: &mut Random| {
        if depth > 1 && random.below(4) > 0 {
            let Tried { made, story, quirks } = derived(random, named, depth - 1)?;
            Some((Base::CreatedType(made), story, quirks))
        } else {
            let index = random.below(named.len() as u64) as usize;
            Some((Base::Named(named[index]), format!("named {index}"), Quirks::default()))
        }
    };
    if random.below(12) == 0 {
        return structure(random, &mut base);
    }
    let (of, inner, mut quirks) = base(random)?;
    let (made, story) = of_one(random, of.raw())?;
    let [_, extent, ..] = mpi_types::extents(of.raw());
    quirks.negative |= extent < 0;
    quirks.distributed |= story.starts_with("darray");
    let is_minus_one = |word: &str| story.starts_with(word) && story.ends_with(" -1");
    quirks.minus_one |=
        is_minus_one("hvector") || (is_minus_one("vector") && extent == 1) || extent == -1;
    Some(Tried { made, story: format!("{story} of {inner}"), quirks })
}

fn structure(
    random: &mut Random,
    base: &mut impl FnMut(&mut Random) -> Option<(Base, String, Quirks)>,
) -> Option<Tried> {
    let count = random.between(0, 4) as usize;
    let mut fields = Vec::new();
    for _ in 0..count {
        fields.push(base(random)?);
    }
    let lengths = random.ints(count, 0, 3);
    let mut at = 0;
    let mut displacements: Vec<MPI_Aint> = Vec::new();
    for (length, (field, ..)) in lengths.iter().zip(&fields) {
        let [low, extent, ..] = mpi_types::extents(field.raw());
        displacements.push((at - low + random.between(-3, 9)) as MPI_Aint);
        at += i64::from(*length) * extent.abs() + random.between(0, 8);
    }
    let types: Vec<_> = fields.iter().map(|(field, ..)| field.raw()).collect();
    // SAFETY: lists of `count` entries.
    let made = CreatedType::try_by(|made| unsafe {
        ffi::MPI_Type_create_struct(
            count as c_int,
            lengths.as_ptr(),
            displacements.as_ptr(),
            types.as_ptr(),
            made,
        )
    })?;
    let stories: Vec<_> = fields.iter().map(|(_, story, _)| story.as_str()).collect();
    let stories = stories.join(", ");
    let mut quirks = fields.iter().map(|field| field.2).fold(Quirks::default(), Quirks::or);
    quirks.empty_field |=
        lengths.iter().zip(&types).any(|(&length, &of)| length == 0 || mpi_types::size(of) == 0);
    Some(Tried { made, story: format!("struct {lengths:?} {displacements:?} ({stories})"), quirks })
}

fn of_one(random: &mut Random, of: MPI_Datatype) -> Option<(CreatedType, String)> {
    let story;
    let count = random.between(0, 4) as c_int;
    let block = random.between(0, 3) as c_int;
    // SAFETY: all lists have as many entries as is said, and `of` is a datatype.
    let made = unsafe {
        match random.below(12) {
            0 => {
                story = format!("contiguous {count}");
                CreatedType::try_by(|made| ffi::MPI_Type_contiguous(count, of, made))
            }
            1 => {
                let stride = random.between(-5, 6) as c_int;
                story = format!("vector {count} {block} {stride}");
                CreatedType::try_by(|made| ffi::MPI_Type_vector(count, block, stride, of, made))
            }
            2 => {
                let stride = random.between(-70, 90) as MPI_Aint;
                story = format!("hvector {count} {block} {stride}");
                CreatedType::try_by(|made| {
                    ffi::MPI_Type_create_hvector(count, block, stride, of, made)
                })
            }
            kind @ 3..=6 => return lists(random, kind, count, block, of),
            7 => return subarray(random, of),
            8 => return darray(random, of),
            9 | 10 => {
                let low = random.between(-20, 20) as MPI_Aint;
                let extent = random.between(-10, 90) as MPI_Aint;
                story = format!("resized {low} {extent}");
                CreatedType::try_by(|made| ffi::MPI_Type_create_resized(of, low, extent, made))
            }
            _ => {
                story = "dup".to_owned();
                CreatedType::try_by(|made| ffi::MPI_Type_dup(of, made))
            }
        }
    };
    Some((made?, story))
}

fn lists(
    random: &mut Random,
    kind: u64,
    count: c_int,
    block: c_int,
    of: MPI_Datatype,
) -> Option<(CreatedType, String)> {
    let n = count as usize;
    let lengths = random.ints(n, 0, 3);
    let elements = random.ints(n, -4, 9);
    let bytes: Vec<_> = (0..n).map(|_| random.between(-60, 150) as MPI_Aint).collect();
    // SAFETY: all lists have `count` entries, and `of` is a datatype.
    let made = unsafe {
        CreatedType::try_by(|made| match kind {
            3 => ffi::MPI_Type_indexed(count, lengths.as_ptr(), elements.as_ptr(), of, made),
            4 => ffi::MPI_Type_create_hindexed(count, lengths.as_ptr(), bytes.as_ptr(), of, made),
            5 => ffi::MPI_Type_create_indexed_block(count, block, elements.as_ptr(), of, made),
            _ => ffi::MPI_Type_create_hindexed_block(count, block, bytes.as_ptr(), of, made),
        })
    };
    Some((made?, format!("lists {kind} block {block} {lengths:?} {elements:?} {bytes:?}")))
}

fn subarray(random: &mut Random, of: MPI_Datatype) -> Option<(CreatedType, String)> {
    let n = random.between(1, 3) as usize;
    let sizes = random.ints(n, 1, 5);
    let subsizes: Vec<_> =
        sizes.iter().map(|&size| random.between(1, size.into()) as c_int).collect();
    let starts: Vec<_> = sizes
        .iter()
        .zip(&subsizes)
        .map(|(size, subsize)| random.between(0, (size - subsize).into()) as c_int)
        .collect();
    let order = mpi_types::order(random.below(2) == 0);
    // SAFETY: all lists have `n` entries, and `of` is a datatype.
    let made = CreatedType::try_by(|made| unsafe {
        ffi::MPI_Type_create_subarray(
            n as c_int,
            sizes.as_ptr(),
            subsizes.as_ptr(),
            starts.as_ptr(),
            order,
            of,
            made,
        )
    })?;
    Some((made, format!("subarray {sizes:?} {subsizes:?} {starts:?} order {order}")))
}

fn darray(random: &mut Random, of: MPI_Datatype) -> Option<(CreatedType, String)> {
    let n = random.between(1, 3) as usize;
    let kinds = mpi_types::distributions();
    let sizes = random.ints(n, 1, 9);
    let (mut grid, mut distributions, mut arguments) = (Vec::new(), Vec::new(), Vec::new());
    for &size in &sizes {
        let kind = random.below(3) as usize;
        let processes = if kind == 2 { 1 } else { random.between(1, 3) as c_int };
        let argument = match kind {
            0 if random.below(2) == 0 => {
                (size + processes - 1) / processes + random.between(0, 1) as c_int
            }
            1 if random.below(2) == 0 => random.between(1, 3) as c_int,
            _ => mpi_types::default_argument(),
        };
        grid.push(processes);
        distributions.push(kinds[kind]);
        arguments.push(argument);
    }
    let processes: c_int = grid.iter().product();
    let rank = random.between(0, i64::from(processes) - 1) as c_int;
    let order = mpi_types::order(random.below(2) == 0);
    // SAFETY: all lists have `n` entries, and `of` is a datatype.
    let made = CreatedType::try_by(|made| unsafe {
        ffi::MPI_Type_create_darray(
            processes,
            rank,
            n as c_int,
            sizes.as_ptr(),
            distributions.as_ptr(),
            arguments.as_ptr(),
            grid.as_ptr(),
            order,
            of,
            made,
        )
    })?;
    let story = format!(
        "darray rank {rank} {sizes:?} {distributions:?} {arguments:?} {grid:?} order {order}"
    );
    Some((made, story))
}
