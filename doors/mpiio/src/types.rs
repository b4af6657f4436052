//! Datatypes of MPI as descriptions.

use std::ffi::c_int;
use std::sync::Arc;

use mpi::ffi;
use striate_datatype::{Datatype, TypeError};

use crate::constants::{self as mpi_constants, MPI_Datatype};

/// A datatype of MPI.
#[derive(Debug)]
pub(crate) struct Described {
    pub(crate) datatype: Datatype,
    pub(crate) size: u64,
    pub(crate) extent: i64,
    pub(crate) predefined: bool,
    pub(crate) contiguous: bool,
}

unsafe extern "C" {
    static striate_mpiio_combiners: [c_int; 5];
}

/// Why a datatype cannot be described.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TypeProblem {
    #[error("the datatype is null")]
    Null,
    #[error("the datatype is made in a way that is not understood")]
    Unknown,
    #[error(transparent)]
    Type(#[from] TypeError),
}

/// Describes a datatype.
pub(crate) fn describe(raw: MPI_Datatype) -> Result<Arc<Described>, TypeProblem> {
    if raw == mpi_constants::datatype_null() {
        return Err(TypeProblem::Null);
    }
    // SAFETY: a constant of C.
    let combiners = unsafe { striate_mpiio_combiners };
    let (mut ni, mut na, mut nd, mut combiner) = (0, 0, 0, 0);
    // SAFETY: the type exists; places for four numbers.
    unsafe {
        ffi::MPI_Type_get_envelope(raw, &raw mut ni, &raw mut na, &raw mut nd, &raw mut combiner);
    }
    let named = combiner == combiners[0];
    let datatype = if named {
        let (mut size, mut lb, mut extent) = (0, 0, 0);
        // SAFETY: the type exists; places for numbers.
        unsafe {
            ffi::MPI_Type_size(raw, &raw mut size);
            ffi::MPI_Type_get_extent(raw, &raw mut lb, &raw mut extent);
        }
        Datatype::resized(&Datatype::bytes(size as u64)?, 0, extent as i64)?
    } else {
        let mut ints = vec![0 as c_int; ni as usize];
        let mut addresses = vec![0; na as usize];
        let mut types = vec![mpi_constants::datatype_null(); nd as usize];
        // SAFETY: as long as the envelope says.
        unsafe {
            ffi::MPI_Type_get_contents(
                raw,
                ni,
                na,
                nd,
                ints.as_mut_ptr(),
                addresses.as_mut_ptr(),
                types.as_mut_ptr(),
            );
        }
        let child = describe(types[0])?;
        let ints64: Vec<i64> = ints.iter().map(|&i| i64::from(i)).collect();
        match combiner {
            x if x == combiners[1] => child.datatype.clone(),
            x if x == combiners[2] => Datatype::contiguous(ints64[0] as u64, &child.datatype)?,
            x if x == combiners[3] => {
                Datatype::vector(ints64[0] as u64, ints64[1] as u64, ints64[2], &child.datatype)?
            }
            x if x == combiners[4] => {
                Datatype::resized(&child.datatype, addresses[0] as i64, addresses[1] as i64)?
            }
            _ => return Err(TypeProblem::Unknown),
        }
    };
    let contiguous = datatype.is_contiguous() && datatype.extent() == datatype.size() as i64;
    Ok(Arc::new(Described {
        size: datatype.size(),
        extent: datatype.extent(),
        predefined: named,
        contiguous,
        datatype,
    }))
}
