//! Datatypes in files with a data representation of the program, by the sizes that predefined types
//! have there.

use std::sync::Arc;

use mpi::ffi::MPI_Datatype;
use striate_datatype::Datatype;

use super::element::Element;
use super::envelope::{self, Combiner, Envelope};
use super::part::Part;
use super::signature::Signature;
use super::{TypeProblem, walk};

/// A datatype as a file holds it.
#[derive(Debug)]
pub(crate) struct InFile {
    /// Its bytes, in the order of the typemap.
    pub(crate) datatype: Datatype,
    /// Bytes of data.
    pub(crate) size: u64,
    signature: Arc<Signature>,
}

impl InFile {
    /// Predefined types that it is made of.
    pub(crate) fn items(&self) -> u64 {
        self.signature.items_within(self.size)
    }

    /// How many of them are completely in the first `bytes` bytes.
    pub(crate) fn whole_items(&self, bytes: u64) -> u64 {
        self.signature.items_within(bytes)
    }
}

/// The type that results from the same constructor calls on predefined types of these sizes.
pub(crate) fn in_file(
    raw: MPI_Datatype,
    bytes: &mut dyn FnMut(MPI_Datatype) -> Result<u32, TypeProblem>,
) -> Result<InFile, TypeProblem> {
    let part = walk::made_of(raw, &mut |raw| match Envelope::of(raw)?.combiner {
        Combiner::Named | Combiner::F90Real | Combiner::F90Complex | Combiner::F90Integer => {
            leaf(raw, bytes(raw)?).map(Some)
        }
        _ => Ok(None),
    })?;
    let (datatype, signature) = (part.in_external().clone(), part.signature);
    Ok(InFile { size: datatype.size(), datatype, signature })
}

fn leaf(raw: MPI_Datatype, external: u32) -> Result<Part, TypeProblem> {
    let measures = envelope::measure(raw)?;
    let native = u32::try_from(measures.size).map_err(|_| TypeProblem::Constructor)?;
    let part = Part::elements(Element::Foreign { native, external }, 1)?.measured(&measures)?;
    // Also if it has the same length as in memory, where copies may have gaps between them.
    Ok(Part { external: Some(Datatype::bytes(external.into())?), ..part })
}
