//! Conversion of MPI datatypes to descriptions.
//!
//! [`describe`] decodes the constructor calls of a type and repeats them with those of
//! `striate_datatype`; the result is checked against the size and bounds that the MPI reports, and
//! cached with the type. So a type is converted once, and is never flattened.
//!
//! The bytes of a [`Described`] come in the order of MPI's typemap. In a file of external32 they
//! may have other sizes and displacements, which [`Described::external`] has; `external` converts.

mod cache;
mod element;
mod envelope;
mod extended;
pub(crate) mod external;
pub(crate) mod foreign;
mod named;
mod part;
mod signature;
mod walk;

use std::sync::{Arc, OnceLock};

use mpi::ffi::MPI_Datatype;
use striate_datatype::{Datatype, TypeError};
use thiserror::Error;

use envelope::Envelope;
use part::Part;
use signature::Signature;

/// Why a datatype cannot be used. To the program it is an error of class `MPI_ERR_TYPE`.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub(crate) enum TypeProblem {
    /// There is none.
    #[error("the datatype is MPI_DATATYPE_NULL")]
    Null,
    /// It is not committed.
    #[error("the datatype is not committed")]
    NotCommitted,
    /// A function of the MPI failed.
    #[error("{call} failed with code {code}")]
    Mpi {
        /// The function.
        call: &'static str,
        /// What it returned.
        code: i32,
    },
    /// It was made by a constructor that is not known here.
    #[error("the datatype was made by an unknown constructor")]
    Constructor,
    /// Too many constructors inside of each other.
    #[error("the datatype is made of types nested deeper than {limit}")]
    Nesting {
        /// The limit.
        limit: u32,
    },
    /// A description cannot hold it.
    #[error(transparent)]
    Description(#[from] TypeError),
    /// The result of the constructors has another size than the MPI reports.
    #[error("the datatype has {ours} bytes, but the MPI says {theirs}")]
    Size {
        /// Size of the result of the constructors.
        ours: u64,
        /// Size that the MPI reports.
        theirs: i64,
    },
    /// external32 does not define its elements.
    #[error("the datatype has elements that external32 does not define")]
    NoExternal,
}

/// An MPI datatype, described.
#[derive(Debug)]
pub(crate) struct Described {
    /// Its bytes in memory, in the order of the typemap; with the bounds that the MPI gives it.
    pub(crate) datatype: Datatype,
    /// Bytes of data in memory.
    pub(crate) size: u64,
    /// Where its first byte lies in memory.
    pub(crate) first: i64,
    /// Distance of copies in memory.
    pub(crate) extent: i64,
    /// Whether it is one of MPI's own, named types.
    pub(crate) predefined: bool,
    /// Whether any number of copies is one run of bytes.
    pub(crate) contiguous: bool,
    /// Whether its bytes in memory are those of external32.
    pub(crate) plain: bool,
    external: External,
}

/// A datatype as a file of external32 holds it.
#[derive(Clone, Debug)]
pub(crate) struct External {
    /// Its bytes in the file, in the order of the typemap.
    pub(crate) datatype: Datatype,
    /// Bytes of data in the file.
    pub(crate) size: u64,
    /// Distance of copies in the file.
    pub(crate) extent: i64,
    /// Whether they lie as in memory.
    as_in_memory: bool,
    /// How its elements convert.
    signature: Arc<Signature>,
}

impl Described {
    fn new(part: Part, predefined: bool) -> Self {
        let (size, extent) = (part.native.size(), part.native.extent());
        let outside = part.in_external().clone();
        let external = External {
            size: outside.size(),
            extent: outside.extent(),
            datatype: outside,
            as_in_memory: part.external.is_none(),
            signature: part.signature,
        };
        Self {
            contiguous: part.native.is_contiguous() && i64::try_from(size) == Ok(extent),
            size,
            first: part.native.true_lower_bound(),
            extent,
            predefined,
            plain: external.signature.is_plain(),
            datatype: part.native,
            external,
        }
    }

    /// The type as a file of external32 holds it: the result of the same constructor calls on
    /// elements with the sizes of external32. Strides in elements become other distances than in
    /// memory, displacements in bytes stay the same.
    pub(crate) fn external(&self) -> Result<&External, TypeProblem> {
        if self.external.signature.is_known() {
            Ok(&self.external)
        } else {
            Err(TypeProblem::NoExternal)
        }
    }

    /// The same type, with its bytes in memory displaced by this much.
    pub(crate) fn displaced(&self, by: i64) -> Result<Self, TypeProblem> {
        let datatype = self.datatype.displaced(by)?;
        Ok(Self {
            first: datatype.true_lower_bound(),
            datatype,
            external: self.external.clone(),
            predefined: false,
            ..*self
        })
    }

    /// The type as a part of other types.
    fn part(&self) -> Part {
        Part {
            native: self.datatype.clone(),
            external: (!self.external.as_in_memory).then(|| self.external.datatype.clone()),
            signature: Arc::clone(&self.external.signature),
        }
    }
}

/// The description of a type of MPI's own; none of any other.
#[inline]
pub(crate) fn predefined(raw: MPI_Datatype) -> Option<&'static Described> {
    named::find(raw).map(|described| &**described)
}

/// The description of a datatype that a program gives to a call of MPI-IO. It is made at the first
/// call, and then found in the cache.
pub(crate) fn describe(raw: MPI_Datatype) -> Result<Arc<Described>, TypeProblem> {
    if let Some(described) = named::find(raw) {
        return Ok(Arc::clone(described));
    }
    // SAFETY: a constant of the MPI binding.
    if named::bits(raw) == named::bits(unsafe { mpi::ffi::RSMPI_DATATYPE_NULL }) {
        return Err(TypeProblem::Null);
    }
    if let Some(described) = cache::find(raw)? {
        return Ok(described);
    }
    if !is_committed(raw) {
        return Err(TypeProblem::NotCommitted);
    }
    let part = walk::describe(raw, &Envelope::of(raw)?)?;
    cache::keep(raw, Arc::new(Described::new(part, false)))
}

/// Whether the type is committed; if the MPI cannot be asked, it is assumed to be.
fn is_committed(raw: MPI_Datatype) -> bool {
    static JUDGE: OnceLock<bool> = OnceLock::new();
    !*JUDGE.get_or_init(envelope::prepare_judge) || !envelope::is_refused(raw)
}
