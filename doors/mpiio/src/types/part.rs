//! An MPI type during its conversion to a description.

use std::sync::Arc;

use striate_datatype::{Cursor, Datatype, TypeError};

use super::TypeProblem;
use super::element::Element;
use super::envelope::TypeMeasures;
use super::signature::Signature;

/// A type, or a part of one, in memory and in external32.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// Its bytes in memory.
    pub(super) native: Datatype,
    /// Its bytes in a file of external32, if its layout differs from that in memory. There the type
    /// is the result of the same constructor calls on elements of other sizes.
    pub(super) external: Option<Datatype>,
    pub(super) signature: Arc<Signature>,
}

impl Part {
    /// Contiguous elements.
    pub(super) fn elements(element: Element, count: u64) -> Result<Self, TypeProblem> {
        let signature = Signature::run(element, count)?;
        let native = Datatype::bytes(signature.native())?;
        let external = if signature.has_same_sizes() {
            None
        } else {
            Some(Datatype::bytes(signature.external())?)
        };
        Ok(Self { native, external, signature })
    }

    /// The result of a constructor on this type alone.
    pub(super) fn made_into(
        &self,
        constructor: impl Fn(&Datatype) -> Result<Datatype, TypeError>,
    ) -> Result<Self, TypeProblem> {
        let native = constructor(&self.native)?;
        let external = self.external.as_ref().map(&constructor).transpose()?;
        // Whatever the displacements, the result has the type a whole number of times.
        let copies = native.size().checked_div(self.native.size()).unwrap_or(0);
        let signature = self.signature.repeated(copies)?;
        Ok(Self { native, external, signature })
    }

    /// A struct of (count, displacement, part).
    pub(super) fn structure(fields: &[(u64, i64, Self)]) -> Result<Self, TypeProblem> {
        let native: Vec<_> =
            fields.iter().map(|(count, at, part)| (*count, *at, part.native.clone())).collect();
        let native = struct_of(&native)?;
        let external = if fields.iter().all(|(.., part)| part.external.is_none()) {
            None
        } else {
            let fields: Vec<_> = fields
                .iter()
                .map(|(count, at, part)| (*count, *at, part.in_external().clone()))
                .collect();
            Some(struct_of(&fields)?)
        };
        let signatures = fields.iter().map(|(count, _, part)| part.signature.repeated(*count));
        let signature = Signature::sequence(signatures.collect::<Result<Vec<_>, _>>()?)?;
        Ok(Self { native, external, signature })
    }

    /// Its bytes in a file of external32.
    pub(super) const fn in_external(&self) -> &Datatype {
        match &self.external {
            Some(external) => external,
            None => &self.native,
        }
    }

    /// The same with the bounds that the MPI gives it. MPI implementations differ in the padding of
    /// extents and in keeping bounds of inner types: the bounds of the program's MPI are used.
    ///
    /// True bounds are not compared: MPICH counts parts without data, and Open MPI errs when a
    /// stride is minus one byte.
    pub(super) fn measured(mut self, measures: &TypeMeasures) -> Result<Self, TypeProblem> {
        let native = &self.native;
        if i64::try_from(native.size()) != Ok(measures.size) {
            return Err(TypeProblem::Size { ours: native.size(), theirs: measures.size });
        }
        let bounds = (measures.lower_bound, measures.extent);
        if (native.lower_bound(), native.extent()) != bounds {
            self.native = Datatype::resized(native, bounds.0, bounds.1)?;
        }
        Ok(self)
    }
}

/// Most runs of a struct that is listed run by run.
const MAX_RUNS: u64 = 1 << 24;

/// A struct. A struct with more different parts than a description may have, such as many accesses
/// that a library has collected, is a list of its runs.
fn struct_of(fields: &[(u64, i64, Datatype)]) -> Result<Datatype, TypeError> {
    let made = Datatype::structure(fields);
    if !matches!(made, Err(TypeError::TooManyLoops { .. })) {
        return made;
    }
    let runs = fields.iter().try_fold(0u64, |sum, (count, _, of)| {
        sum.checked_add(count.checked_mul(of.runs())?).filter(|&runs| runs <= MAX_RUNS)
    });
    let Some(runs) = runs else { return made };
    let mut blocks = Vec::with_capacity(runs as usize);
    for (count, displacement, of) in fields {
        for run in Cursor::new(of, *count)? {
            let at = displacement.checked_add(run.offset);
            blocks.push((run.len, at.ok_or(TypeError::Overflow { what: "displacement" })?));
        }
    }
    Datatype::hindexed(&blocks, &Datatype::bytes(1)?)
}
