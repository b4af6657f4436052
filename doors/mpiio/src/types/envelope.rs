//! The envelope of an MPI datatype: its constructor, arguments, size and extent.
//!
//! An [`Envelope`] is one call of a constructor. Both forms of it, with `int` and with large
//! counts, are read into one list of 64-bit numbers: except for arrays, the arguments have the same
//! order in both.

use std::ffi::{c_char, c_int};

use mpi::ffi::MPI_Datatype;

use super::TypeProblem;

/// The constructors, numbered as in `types.c`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Combiner {
    Named,
    Dup,
    Contiguous,
    Vector,
    Hvector,
    Indexed,
    Hindexed,
    IndexedBlock,
    HindexedBlock,
    Struct,
    Subarray,
    Darray,
    F90Real,
    F90Complex,
    F90Integer,
    Resized,
}

impl Combiner {
    const ALL: [Self; 16] = [
        Self::Named,
        Self::Dup,
        Self::Contiguous,
        Self::Vector,
        Self::Hvector,
        Self::Indexed,
        Self::Hindexed,
        Self::IndexedBlock,
        Self::HindexedBlock,
        Self::Struct,
        Self::Subarray,
        Self::Darray,
        Self::F90Real,
        Self::F90Complex,
        Self::F90Integer,
        Self::Resized,
    ];

    /// Whether a type of this constructor belongs to the MPI, which frees it itself.
    pub(super) const fn is_predefined(self) -> bool {
        matches!(self, Self::Named | Self::F90Real | Self::F90Complex | Self::F90Integer)
    }
}

/// As in `types.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct Lengths {
    combiner: i64,
    integers: i64,
    addresses: i64,
    counts: i64,
    types: i64,
}

/// Size and bounds of a type, according to the MPI. As in `types.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TypeMeasures {
    pub(super) size: i64,
    pub(super) lower_bound: i64,
    pub(super) extent: i64,
    pub(super) true_lower_bound: i64,
    pub(super) true_extent: i64,
}

/// A predefined type. As in `types.c`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(super) struct NamedType {
    pub(super) raw: MPI_Datatype,
    kind: c_char,
    /// Bytes of an element in external32.
    pub(super) external: u8,
    /// Elements of the kind.
    pub(super) elements: u8,
    with_int: u8,
}

impl NamedType {
    /// The letter of its elements' kind.
    pub(super) const fn kind(self) -> u8 {
        self.kind as u8
    }

    /// Whether a C `int` follows the elements.
    pub(super) const fn has_int(self) -> bool {
        self.with_int != 0
    }
}

#[link(name = "striate_mpiio_types", kind = "static")]
unsafe extern "C" {
    fn striate_mpiio_type_envelope(raw: MPI_Datatype, lengths: *mut Lengths) -> c_int;
    fn striate_mpiio_type_contents(
        raw: MPI_Datatype,
        lengths: *const Lengths,
        integers: *mut c_int,
        addresses: *mut i64,
        counts: *mut i64,
        types: *mut MPI_Datatype,
    ) -> c_int;
    fn striate_mpiio_type_measures(raw: MPI_Datatype, measures: *mut TypeMeasures) -> c_int;
    fn striate_mpiio_type_judge() -> c_int;
    fn striate_mpiio_type_is_refused(raw: MPI_Datatype) -> c_int;
    fn striate_mpiio_named_types(count: *mut usize) -> *const NamedType;
    static striate_mpiio_order_fortran: c_int;
    static striate_mpiio_distribute_block: c_int;
    static striate_mpiio_distribute_cyclic: c_int;
    static striate_mpiio_distribute_default: c_int;
    static striate_mpiio_long_double_digits: c_int;
}

/// The constants of the array constructors.
#[derive(Clone, Copy, Debug)]
pub(super) struct ArrayConstants {
    pub(super) fortran: i64,
    pub(super) block: i64,
    pub(super) cyclic: i64,
    pub(super) default: i64,
}

impl ArrayConstants {
    pub(super) fn of_this_mpi() -> Self {
        // SAFETY: constants that are never written.
        unsafe {
            Self {
                fortran: striate_mpiio_order_fortran.into(),
                block: striate_mpiio_distribute_block.into(),
                cyclic: striate_mpiio_distribute_cyclic.into(),
                default: striate_mpiio_distribute_default.into(),
            }
        }
    }
}

/// Bits of a `long double`'s significand.
pub(super) fn long_double_digits() -> i32 {
    // SAFETY: a constant that is never written.
    unsafe { striate_mpiio_long_double_digits }
}

/// All predefined types of this MPI.
pub(super) fn named_types() -> &'static [NamedType] {
    let mut count = 0;
    // SAFETY: the function returns the start of a constant array and its length.
    unsafe {
        let first = striate_mpiio_named_types(&raw mut count);
        std::slice::from_raw_parts(first, count)
    }
}

pub(super) fn check(call: &'static str, code: c_int) -> Result<(), TypeProblem> {
    if code == 0 { Ok(()) } else { Err(TypeProblem::Mpi { call, code }) }
}

/// Size and bounds of the type, according to the MPI.
pub(super) fn measure(raw: MPI_Datatype) -> Result<TypeMeasures, TypeProblem> {
    let mut measures = TypeMeasures::default();
    // SAFETY: the caller's handle is a datatype, or the MPI returns an error.
    let code = unsafe { striate_mpiio_type_measures(raw, &raw mut measures) };
    check("MPI_Type_get_extent_x", code).map(|()| measures)
}

/// Makes [`is_refused`] usable; called once.
pub(super) fn prepare_judge() -> bool {
    // SAFETY: MPI is initialised, and the caller makes sure that no other thread is here.
    unsafe { striate_mpiio_type_judge() == 0 }
}

/// Whether the MPI refuses to communicate with the type, because it is not committed.
/// [`prepare_judge`] has succeeded.
pub(super) fn is_refused(raw: MPI_Datatype) -> bool {
    // SAFETY: nothing is packed; the communicator exists.
    unsafe { striate_mpiio_type_is_refused(raw) != 0 }
}

/// A handle that `MPI_Type_get_contents` gave us.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) raw: MPI_Datatype,
    /// Whether it is a reference that has to be released.
    is_ours: bool,
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.is_ours {
            // SAFETY: get_contents made it for us, and nothing else refers to it.
            // There is nothing to do about a failure.
            let _ = unsafe { mpi::ffi::PMPI_Type_free(&raw mut self.raw) };
        }
    }
}

/// The call that made a type.
#[derive(Debug)]
pub(super) struct Envelope {
    pub(super) combiner: Combiner,
    lengths: Lengths,
}

/// Its arguments.
#[derive(Debug)]
pub(super) struct Contents {
    /// All numbers, in the order of the constructor's arguments. Arrays with large counts are put
    /// in the order of those without.
    pub(super) numbers: Vec<i64>,
    pub(super) children: Vec<Child>,
}

impl Envelope {
    pub(super) fn of(raw: MPI_Datatype) -> Result<Self, TypeProblem> {
        let mut lengths = Lengths::default();
        // SAFETY: the caller's handle is a datatype, or the MPI returns an error.
        let code = unsafe { striate_mpiio_type_envelope(raw, &raw mut lengths) };
        check("MPI_Type_get_envelope", code)?;
        let combiner = usize::try_from(lengths.combiner).ok();
        let combiner = combiner.and_then(|number| Combiner::ALL.get(number)).copied();
        Ok(Self { combiner: combiner.ok_or(TypeProblem::Constructor)?, lengths })
    }

    /// The arguments of `raw`, whose envelope this is.
    pub(super) fn contents(&self, raw: MPI_Datatype) -> Result<Contents, TypeProblem> {
        const CALL: &str = "MPI_Type_get_contents";
        let Lengths { integers, addresses, counts, types, .. } = self.lengths;
        // An MPI may check the address of a list without entries.
        let room = |len: i64| len.max(1) as usize;
        let mut int_list: Vec<c_int> = vec![0; room(integers)];
        let mut address_list: Vec<i64> = vec![0; room(addresses)];
        let mut count_list: Vec<i64> = vec![0; room(counts)];
        let mut raw_types = vec![raw; room(types)];
        // SAFETY: each list has the length that the MPI asked for, which is that of the envelope.
        let code = unsafe {
            striate_mpiio_type_contents(
                raw,
                &raw const self.lengths,
                int_list.as_mut_ptr(),
                address_list.as_mut_ptr(),
                count_list.as_mut_ptr(),
                raw_types.as_mut_ptr(),
            )
        };
        check(CALL, code)?;
        let mut children = Vec::with_capacity(raw_types.len());
        for &raw in raw_types.iter().take(types as usize) {
            let is_ours = !Self::of(raw)?.combiner.is_predefined();
            children.push(Child { raw, is_ours });
        }
        let ints: Vec<i64> = int_list.into_iter().take(integers as usize).map(i64::from).collect();
        // Large counts of arrays are between the number of dimensions and the remaining ints.
        let before = match self.combiner {
            Combiner::Subarray => ints.len().min(1),
            Combiner::Darray => ints.len().min(3),
            _ => ints.len(),
        };
        let (ints, after) = ints.split_at(before);
        let (addresses, counts) =
            (&address_list[..addresses as usize], &count_list[..counts as usize]);
        let numbers = [ints, addresses, counts, after].concat();
        Ok(Contents { numbers, children })
    }
}
