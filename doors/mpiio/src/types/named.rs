//! Predefined types: a table that is made once and then only read, so that looking a type up takes
//! no lock.

use std::sync::{Arc, OnceLock};

use mpi::ffi::MPI_Datatype;
use striate_datatype::Datatype;

use super::element::Element;
use super::envelope::{self, NamedType, TypeMeasures};
use super::part::Part;
use super::signature::Signature;
use super::{Described, TypeProblem};

/// Slots of the table: a power of two, a few times as many as there are types.
const SLOTS: usize = 512;

/// Open addressing: a type is in the slot of its handle's hash or in one of the next.
struct Table {
    slots: Box<[Option<TableSlot>]>,
}

#[derive(Clone)]
struct TableSlot {
    bits: usize,
    described: Arc<Described>,
}

static TABLE: OnceLock<Table> = OnceLock::new();

/// The description of a predefined type; none of any other.
pub(super) fn find(raw: MPI_Datatype) -> Option<&'static Arc<Described>> {
    let table = TABLE.get_or_init(Table::of_this_mpi);
    let bits = bits(raw);
    let mut slots = table.probe(bits).map_while(|slot| table.slots[slot].as_ref());
    slots.find(|slot| slot.bits == bits).map(|slot| &slot.described)
}

/// The identity of a handle: a number, or an address.
pub(super) fn bits(raw: MPI_Datatype) -> usize {
    raw.0 as usize
}

impl Table {
    fn of_this_mpi() -> Self {
        let mut table = Self { slots: vec![None; SLOTS].into() };
        for &named in envelope::named_types() {
            // SAFETY: a constant of the MPI binding.
            let null = unsafe { mpi::ffi::RSMPI_DATATYPE_NULL };
            // A type that an MPI defines but does not support is null, or its size cannot be
            // determined.
            if bits(named.raw) == bits(null) {
                continue;
            }
            let Ok(described) = describe(named) else { continue };
            let bits = bits(named.raw);
            let is_free =
                |slot: &usize| table.slots[*slot].as_ref().is_none_or(|slot| slot.bits == bits);
            if let Some(slot) = table.probe(bits).find(is_free) {
                // Two names of one type have the same elements: the first is used.
                table.slots[slot].get_or_insert(TableSlot { bits, described: Arc::new(described) });
            }
        }
        table
    }

    /// The slots that a handle may be in, in order.
    #[expect(clippy::unused_self, reason = "the table's own order")]
    fn probe(&self, bits: usize) -> impl Iterator<Item = usize> + use<> {
        // Fibonacci hashing: the high bits of the product are well mixed.
        let first = ((bits as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize;
        (0..SLOTS).map(move |step| (first + step) % SLOTS)
    }
}

fn describe(named: NamedType) -> Result<Described, TypeProblem> {
    let measures = envelope::measure(named.raw)?;
    let part = elements(named, &measures)?.measured(&measures)?;
    Ok(Described::new(part, true))
}

/// The elements of the type at their places.
fn elements(named: NamedType, measures: &TypeMeasures) -> Result<Part, TypeProblem> {
    const INT: u64 = size_of::<std::ffi::c_int>() as u64;
    let size = measures.size.max(0) as u64;
    let count = u64::from(named.elements);
    let of_kind = if named.has_int() { size.saturating_sub(INT) } else { size };
    let digits = envelope::long_double_digits();
    let element = Element::of(named.kind(), of_kind / count, named.external, digits);
    let first = Part::elements(element, count)?;
    if !named.has_int() || size == 0 {
        return Ok(first);
    }
    let int = Part::elements(Element::Number(INT as u8), 1)?;
    let signature = Signature::sequence([&first, &int].map(|part| Arc::clone(&part.signature)))?;
    // As a C compiler lays out a struct of the two; in external32 nothing is aligned.
    let native = Datatype::structure(&[
        (1, 0, first.native.clone()),
        (1, of_kind.next_multiple_of(INT) as i64, int.native.clone()),
    ])?;
    let external = if signature.has_same_sizes() {
        None
    } else {
        Some(Datatype::bytes(signature.external())?)
    };
    Ok(Part { native, external, signature })
}

/// A predefined type that is not in the table: bytes of which nothing else is known.
pub(super) fn unknown(measures: &TypeMeasures) -> Result<Part, TypeProblem> {
    let size = u32::try_from(measures.size).map_err(|_| TypeProblem::Constructor)?;
    Part::elements(Element::Unknown(size), 1)
}
