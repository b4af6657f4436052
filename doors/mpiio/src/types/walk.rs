//! The conversion of an MPI type: its constructor calls are decoded, and repeated with the
//! constructors of `striate_datatype`.
//!
//! Numbers of arguments come from the MPI, so a list that is shorter than expected is an error of
//! an unsupported MPI, never a panic.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use mpi::ffi::MPI_Datatype;
use striate_datatype::{Datatype, Distribution, Order, TypeError};

use super::element::Element;
use super::envelope::{self, ArrayConstants, Child, Combiner, Contents, Envelope, TypeMeasures};
use super::part::Part;
use super::{TypeProblem, cache, named};

/// Deepest nest of constructors. Types of real programs have fewer than ten; the limit bounds the
/// stack.
const MAX_NESTING: u32 = 256;

/// Finds parts that need not be decoded.
type LeafFinder<'a> = dyn FnMut(MPI_Datatype) -> Result<Option<Part>, TypeProblem> + 'a;

/// A derived type or one of Fortran's parameterised ones.
pub(super) fn describe(raw: MPI_Datatype, envelope: &Envelope) -> Result<Part, TypeProblem> {
    derived(raw, envelope, 0, &mut |child| {
        let described = match named::find(child) {
            Some(described) => Some(Arc::clone(described)),
            None => cache::find(child)?,
        };
        Ok(described.map(|described| described.part()))
    })
}

/// The result of a type's constructors on other leaves.
pub(super) fn made_of(raw: MPI_Datatype, leaves: &mut LeafFinder<'_>) -> Result<Part, TypeProblem> {
    known(raw, 0, leaves)
}

fn derived(
    raw: MPI_Datatype,
    envelope: &Envelope,
    depth: u32,
    leaves: &mut LeafFinder<'_>,
) -> Result<Part, TypeProblem> {
    if depth > MAX_NESTING {
        return Err(TypeProblem::Nesting { limit: MAX_NESTING });
    }
    let measures = envelope::measure(raw)?;
    if envelope.combiner == Combiner::Named {
        return named::unknown(&measures)?.measured(&measures);
    }
    let Contents { numbers, children } = envelope.contents(raw)?;
    let arguments = Arguments(&numbers);
    let part = match envelope.combiner {
        Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
            parameterised(envelope.combiner, &arguments, &measures)?
        }
        Combiner::Struct => structure(&arguments, &children, depth, leaves)?,
        combiner => {
            let [child] = children.as_slice() else { return Err(TypeProblem::Constructor) };
            let child = known(child.raw, depth, leaves)?;
            let call = ConstructorCall::new(combiner, &arguments)?;
            child.made_into(|of| call.of(of))?
        }
    };
    part.measured(&measures)
}

/// A type that another is made of.
fn known(raw: MPI_Datatype, depth: u32, leaves: &mut LeafFinder<'_>) -> Result<Part, TypeProblem> {
    match leaves(raw)? {
        Some(part) => Ok(part),
        None => derived(raw, &Envelope::of(raw)?, depth + 1, leaves),
    }
}

fn structure(
    arguments: &Arguments<'_>,
    children: &[Child],
    depth: u32,
    leaves: &mut LeafFinder<'_>,
) -> Result<Part, TypeProblem> {
    let [lengths, displacements] = arguments.lists()?;
    if children.len() != lengths.len() {
        return Err(TypeProblem::Constructor);
    }
    // There are often many fields of one type.
    let mut parts: HashMap<usize, Part> = HashMap::new();
    let mut fields = Vec::with_capacity(children.len());
    for ((&length, &displacement), child) in lengths.iter().zip(displacements).zip(children) {
        let part = match parts.entry(named::bits(child.raw)) {
            Entry::Occupied(part) => part.into_mut(),
            Entry::Vacant(room) => room.insert(known(child.raw, depth, leaves)?),
        };
        fields.push((unsigned("block length", length)?, displacement, part.clone()));
    }
    Part::structure(&fields)
}

/// Fortran's types of a precision and range. Memory has the size that the MPI says; external32 has
/// one that follows from the parameters alone.
fn parameterised(
    combiner: Combiner,
    arguments: &Arguments<'_>,
    measures: &TypeMeasures,
) -> Result<Part, TypeProblem> {
    let size = measures.size.max(0) as u64;
    let digits = envelope::long_double_digits();
    if combiner == Combiner::F90Integer {
        let external = match arguments.number(0)? {
            ..=2 => 1,
            3..=4 => 2,
            5..=9 => 4,
            10..=18 => 8,
            _ => 16,
        };
        return Part::elements(Element::of(b'i', size, external, digits), 1);
    }
    let (precision, range) = (arguments.number(0)?, arguments.number(1)?);
    let external = match (precision, range) {
        (16.., _) | (_, 308..) => 16,
        (7.., _) | (_, 38..) => 8,
        _ => 4,
    };
    let count = if combiner == Combiner::F90Complex { 2 } else { 1 };
    // Up to 18 digits are what a long double of the x87 has.
    let kind = if external == 16 && precision <= 18 { b'x' } else { b'f' };
    Part::elements(Element::of(kind, size / count, external, digits), count)
}

/// The arguments of a constructor, in order.
struct Arguments<'n>(&'n [i64]);

impl<'n> Arguments<'n> {
    fn number(&self, at: usize) -> Result<i64, TypeProblem> {
        self.0.get(at).copied().ok_or(TypeProblem::Constructor)
    }

    fn count(&self, at: usize, what: &'static str) -> Result<u64, TypeProblem> {
        Ok(unsigned(what, self.number(at)?)?)
    }

    fn list(&self, at: usize, len: usize) -> Result<&'n [i64], TypeProblem> {
        let end = at.checked_add(len).ok_or(TypeProblem::Constructor)?;
        self.0.get(at..end).ok_or(TypeProblem::Constructor)
    }

    /// Block lengths and displacements, behind their number.
    fn lists(&self) -> Result<[&'n [i64]; 2], TypeProblem> {
        let len = self.count(0, "count")? as usize;
        Ok([self.list(1, len)?, self.list(len.saturating_add(1), len)?])
    }
}

fn unsigned(what: &'static str, value: i64) -> Result<u64, TypeError> {
    u64::try_from(value).map_err(|_| TypeError::Negative { what, value })
}

/// The call of a constructor that takes one type.
enum ConstructorCall<'n> {
    Dup,
    Contiguous(u64),
    Vector {
        count: u64,
        block: u64,
        stride: i64,
    },
    Hvector {
        count: u64,
        block: u64,
        stride: i64,
    },
    Indexed(Vec<(u64, i64)>),
    Hindexed(Vec<(u64, i64)>),
    IndexedBlock {
        block: u64,
        displacements: &'n [i64],
    },
    HindexedBlock {
        block: u64,
        displacements: &'n [i64],
    },
    Subarray {
        sizes: Vec<u64>,
        subsizes: Vec<u64>,
        starts: Vec<u64>,
        order: Order,
    },
    Darray {
        rank: u64,
        sizes: Vec<u64>,
        distributions: Vec<Distribution>,
        grid: Vec<u64>,
        order: Order,
    },
    Resized {
        lower_bound: i64,
        extent: i64,
    },
}

impl<'n> ConstructorCall<'n> {
    fn new(combiner: Combiner, arguments: &Arguments<'n>) -> Result<Self, TypeProblem> {
        let vector = || {
            let count = arguments.count(0, "count")?;
            Ok::<_, TypeProblem>((count, arguments.count(1, "block length")?, arguments.number(2)?))
        };
        let blocks = || {
            let [lengths, displacements] = arguments.lists()?;
            let pairs = lengths.iter().zip(displacements);
            let pairs = pairs.map(|(&len, &at)| Ok((unsigned("block length", len)?, at)));
            Ok::<_, TypeProblem>(pairs.collect::<Result<Vec<_>, TypeError>>()?)
        };
        let equal_blocks = || {
            let count = arguments.count(0, "count")? as usize;
            Ok::<_, TypeProblem>((arguments.count(1, "block length")?, arguments.list(2, count)?))
        };
        Ok(match combiner {
            Combiner::Dup => Self::Dup,
            Combiner::Contiguous => Self::Contiguous(arguments.count(0, "count")?),
            Combiner::Vector => {
                let (count, block, stride) = vector()?;
                Self::Vector { count, block, stride }
            }
            Combiner::Hvector => {
                let (count, block, stride) = vector()?;
                Self::Hvector { count, block, stride }
            }
            Combiner::Indexed => Self::Indexed(blocks()?),
            Combiner::Hindexed => Self::Hindexed(blocks()?),
            Combiner::IndexedBlock => {
                let (block, displacements) = equal_blocks()?;
                Self::IndexedBlock { block, displacements }
            }
            Combiner::HindexedBlock => {
                let (block, displacements) = equal_blocks()?;
                Self::HindexedBlock { block, displacements }
            }
            Combiner::Subarray => Self::subarray(arguments)?,
            Combiner::Darray => Self::darray(arguments)?,
            Combiner::Resized => {
                Self::Resized { lower_bound: arguments.number(0)?, extent: arguments.number(1)? }
            }
            _ => return Err(TypeProblem::Constructor),
        })
    }

    fn subarray(arguments: &Arguments<'n>) -> Result<Self, TypeProblem> {
        let dimensions = arguments.count(0, "dimensions")? as usize;
        let list = |index: usize, what| {
            let at = dimensions.saturating_mul(index).saturating_add(1);
            counts(arguments.list(at, dimensions)?, what)
        };
        Ok(Self::Subarray {
            sizes: list(0, "size")?,
            subsizes: list(1, "subsize")?,
            starts: list(2, "start")?,
            order: order(arguments.number(dimensions.saturating_mul(3).saturating_add(1))?),
        })
    }

    fn darray(arguments: &Arguments<'n>) -> Result<Self, TypeProblem> {
        let dimensions = arguments.count(2, "dimensions")? as usize;
        let list = |index: usize| {
            let at = dimensions.saturating_mul(index).saturating_add(3);
            arguments.list(at, dimensions)
        };
        let pairs = list(1)?.iter().zip(list(2)?);
        let distributions = pairs.map(|(&kind, &argument)| distribution(kind, argument));
        Ok(Self::Darray {
            rank: arguments.count(1, "rank")?,
            sizes: counts(list(0)?, "size")?,
            distributions: distributions.collect::<Result<_, _>>()?,
            grid: counts(list(3)?, "process count")?,
            order: order(arguments.number(dimensions.saturating_mul(4).saturating_add(3))?),
        })
    }

    fn of(&self, child: &Datatype) -> Result<Datatype, TypeError> {
        match self {
            Self::Dup => Ok(child.dup()),
            Self::Contiguous(count) => Datatype::contiguous(*count, child),
            Self::Vector { count, block, stride } => {
                Datatype::vector(*count, *block, *stride, child)
            }
            Self::Hvector { count, block, stride } => {
                Datatype::hvector(*count, *block, *stride, child)
            }
            Self::Indexed(blocks) => Datatype::indexed(blocks, child),
            Self::Hindexed(blocks) => Datatype::hindexed(blocks, child),
            Self::IndexedBlock { block, displacements } => {
                Datatype::indexed_block(*block, displacements, child)
            }
            Self::HindexedBlock { block, displacements } => {
                Datatype::hindexed_block(*block, displacements, child)
            }
            Self::Subarray { sizes, subsizes, starts, order } => {
                Datatype::subarray(sizes, subsizes, starts, *order, child)
            }
            Self::Darray { rank, sizes, distributions, grid, order } => {
                Datatype::darray(*rank, sizes, distributions, grid, *order, child)
            }
            Self::Resized { lower_bound, extent } => {
                Datatype::resized(child, *lower_bound, *extent)
            }
        }
    }
}

fn counts(numbers: &[i64], what: &'static str) -> Result<Vec<u64>, TypeProblem> {
    let counts = numbers.iter().map(|&number| unsigned(what, number));
    Ok(counts.collect::<Result<_, _>>()?)
}

fn order(word: i64) -> Order {
    if word == ArrayConstants::of_this_mpi().fortran { Order::Fortran } else { Order::C }
}

fn distribution(kind: i64, argument: i64) -> Result<Distribution, TypeError> {
    let words = ArrayConstants::of_this_mpi();
    let length = if argument == words.default {
        None
    } else {
        Some(unsigned("distribution argument", argument)?)
    };
    Ok(if kind == words.block {
        Distribution::Block(length)
    } else if kind == words.cyclic {
        Distribution::Cyclic(length.unwrap_or(1))
    } else {
        Distribution::None
    })
}
