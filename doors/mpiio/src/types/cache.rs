//! The cache of descriptions: attributes of the MPI's types.
//!
//! An attribute holds one reference to a [`Described`]. It is set once and never replaced, so that
//! a call that finds it may take its own reference: it is dropped when the program frees the type,
//! which no call uses then. A duplicate of a type shares the description.

use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use mpi::ffi::{self, MPI_Datatype};

use super::envelope::check;
use super::{Described, TypeProblem};

/// The attribute's key, or why there is none.
fn key() -> Result<c_int, TypeProblem> {
    static KEY: OnceLock<Result<c_int, c_int>> = OnceLock::new();
    let key = KEY.get_or_init(|| {
        let mut key = 0;
        // SAFETY: both functions have the signatures that MPI requires, and exist as long as the
        // process.
        let code = unsafe {
            ffi::PMPI_Type_create_keyval(
                Some(copy),
                Some(delete),
                &raw mut key,
                std::ptr::null_mut(),
            )
        };
        if code == 0 { Ok(key) } else { Err(code) }
    });
    key.map_err(|code| TypeProblem::Mpi { call: "MPI_Type_create_keyval", code })
}

/// The description that the type has.
pub(super) fn find(raw: MPI_Datatype) -> Result<Option<Arc<Described>>, TypeProblem> {
    let mut value: *mut c_void = std::ptr::null_mut();
    let mut is_there = 0;
    // SAFETY: the value of our key is an address, which is stored where the third argument says.
    let code =
        unsafe { ffi::PMPI_Type_get_attr(raw, key()?, (&raw mut value).cast(), &raw mut is_there) };
    check("MPI_Type_get_attr", code)?;
    if is_there == 0 || value.is_null() {
        return Ok(None);
    }
    // SAFETY: the value is the reference that `keep` or `copy` made; it is dropped when the type is
    // freed, which does not happen while the type is used.
    Ok(Some(unsafe { taken(value) }))
}

/// Attaches a description to a type; if another thread was faster, its description is used.
pub(super) fn keep(
    raw: MPI_Datatype,
    described: Arc<Described>,
) -> Result<Arc<Described>, TypeProblem> {
    static SETTING: Mutex<()> = Mutex::new(());
    let _setting = SETTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(other) = find(raw)? {
        return Ok(other);
    }
    let value = Arc::into_raw(Arc::clone(&described)).cast_mut().cast::<c_void>();
    // SAFETY: the key is ours, and so is the value, which from here on belongs to the attribute.
    let code = unsafe { ffi::PMPI_Type_set_attr(raw, key()?, value) };
    if let Err(problem) = check("MPI_Type_set_attr", code) {
        // SAFETY: made above, and not taken by the MPI.
        drop(unsafe { Arc::from_raw(value.cast::<Described>()) });
        return Err(problem);
    }
    Ok(described)
}

/// Another reference to what an attribute's value refers to.
///
/// # Safety
/// `value` is the value of an attribute of our key that is still set.
unsafe fn taken(value: *mut c_void) -> Arc<Described> {
    let value = value.cast::<Described>();
    // SAFETY: the caller's.
    unsafe {
        Arc::increment_strong_count(value);
        Arc::from_raw(value)
    }
}

/// Called when a type is duplicated.
unsafe extern "C" fn copy(
    _: MPI_Datatype,
    _: c_int,
    _: *mut c_void,
    value: *mut c_void,
    copy: *mut c_void,
    is_copied: *mut c_int,
) -> c_int {
    // SAFETY: MPI calls this with the value of our key, and with addresses for the answer.
    unsafe {
        let another = Arc::into_raw(taken(value)).cast_mut().cast::<c_void>();
        copy.cast::<*mut c_void>().write(another);
        is_copied.write(1);
    }
    0
}

/// Called when a type is freed.
unsafe extern "C" fn delete(
    _: MPI_Datatype,
    _: c_int,
    value: *mut c_void,
    _: *mut c_void,
) -> c_int {
    // SAFETY: the value is a reference that `keep` or `copy` made; MPI gives it back once.
    drop(unsafe { Arc::from_raw(value.cast::<Described>()) });
    0
}
