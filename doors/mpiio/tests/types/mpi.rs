//! The MPI of the test: started once, with threads, and its types made by its own functions.

use std::ffi::{c_char, c_int, c_void};
use std::sync::Once;

use mpi::ffi::{self, MPI_Datatype};

/// As in `types.c`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PredefinedType {
    pub(crate) raw: MPI_Datatype,
    pub(crate) kind: c_char,
    pub(crate) external: u8,
    pub(crate) elements: u8,
    pub(crate) with_int: u8,
}

unsafe extern "C" {
    fn striate_mpiio_named_types(count: *mut usize) -> *const PredefinedType;
    static striate_mpiio_order_fortran: c_int;
    static striate_mpiio_distribute_block: c_int;
    static striate_mpiio_distribute_cyclic: c_int;
    static striate_mpiio_distribute_default: c_int;
    fn dlsym(handle: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// Starts the MPI, whose errors are returned from then on.
pub(crate) fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        let (universe, threading) =
            mpi::initialize_with_threading(mpi::Threading::Multiple).unwrap();
        assert_eq!(threading, mpi::Threading::Multiple, "tests run in threads");
        // The process ends without saying goodbye, as its threads do.
        std::mem::forget(universe);
        // SAFETY: all are constants.
        unsafe {
            let returned = ffi::RSMPI_ERRORS_RETURN;
            ok(ffi::MPI_Comm_set_errhandler(ffi::RSMPI_COMM_WORLD, returned));
            ok(ffi::MPI_Comm_set_errhandler(ffi::RSMPI_COMM_SELF, returned));
        }
    });
}

pub(crate) fn ok(code: c_int) {
    assert_eq!(code, 0, "an MPI function failed");
}

/// All predefined types that this MPI has.
pub(crate) fn named() -> Vec<PredefinedType> {
    start();
    let mut count = 0;
    // SAFETY: a constant array and its length.
    let all =
        unsafe { std::slice::from_raw_parts(striate_mpiio_named_types(&raw mut count), count) };
    all.iter().copied().filter(|named| !is_null(named.raw) && size(named.raw) > 0).collect()
}

pub(crate) fn is_null(raw: MPI_Datatype) -> bool {
    // SAFETY: a constant.
    raw == unsafe { ffi::RSMPI_DATATYPE_NULL }
}

pub(crate) fn size(raw: MPI_Datatype) -> i64 {
    let mut size = 0;
    // SAFETY: a datatype.
    ok(unsafe { ffi::MPI_Type_size_x(raw, &raw mut size) });
    size
}

pub(crate) fn name(raw: MPI_Datatype) -> String {
    let mut name = [0u8; 256];
    let mut len = 0;
    // SAFETY: a datatype, and room for the longest name.
    ok(unsafe { ffi::MPI_Type_get_name(raw, name.as_mut_ptr().cast(), &raw mut len) });
    String::from_utf8_lossy(&name[..len as usize]).into_owned()
}

/// Lower bound and extent, true lower bound and true extent.
pub(crate) fn extents(raw: MPI_Datatype) -> [i64; 4] {
    let mut extents = [0; 4];
    let [low, extent, true_low, true_extent] = &mut extents;
    // SAFETY: a datatype.
    unsafe {
        ok(ffi::MPI_Type_get_extent_x(raw, low, extent));
        ok(ffi::MPI_Type_get_true_extent_x(raw, true_low, true_extent));
    }
    extents
}

/// A type that a test has made. It is freed with it.
pub(crate) struct CreatedType(pub(crate) MPI_Datatype);

impl Drop for CreatedType {
    fn drop(&mut self) {
        // SAFETY: made by a constructor, and not shared.
        ok(unsafe { ffi::MPI_Type_free(&raw mut self.0) });
    }
}

impl CreatedType {
    /// What a constructor makes; none if it refuses.
    pub(crate) fn try_by(make: impl FnOnce(*mut MPI_Datatype) -> c_int) -> Option<Self> {
        // SAFETY: a constant.
        let mut raw = unsafe { ffi::RSMPI_DATATYPE_NULL };
        (make(&raw mut raw) == 0).then(|| Self(raw))
    }

    pub(crate) fn by(make: impl FnOnce(*mut MPI_Datatype) -> c_int) -> Self {
        Self::try_by(make).expect("the MPI makes the type")
    }

    pub(crate) fn commit(mut self) -> Self {
        // SAFETY: a type of ours.
        ok(unsafe { ffi::MPI_Type_commit(&raw mut self.0) });
        self
    }
}

pub(crate) fn contiguous(count: c_int, of: MPI_Datatype) -> CreatedType {
    // SAFETY: a datatype.
    CreatedType::by(|made| unsafe { ffi::MPI_Type_contiguous(count, of, made) })
}

pub(crate) fn order(fortran: bool) -> c_int {
    // SAFETY: a constant. In both MPIs the order of C is the number before.
    unsafe { striate_mpiio_order_fortran - c_int::from(!fortran) }
}

/// Kinds of distributions: block, cyclic, none.
pub(crate) fn distributions() -> [c_int; 3] {
    // SAFETY: constants. In both MPIs none is the number after.
    unsafe {
        let cyclic = striate_mpiio_distribute_cyclic;
        [striate_mpiio_distribute_block, cyclic, cyclic + 1]
    }
}

pub(crate) fn default_argument() -> c_int {
    // SAFETY: a constant.
    unsafe { striate_mpiio_distribute_default }
}

/// A function of the MPI that only some have.
pub(crate) fn function(name: &std::ffi::CStr) -> Option<*mut c_void> {
    // SAFETY: a name that ends; a null handle means all libraries.
    let found = unsafe { dlsym(std::ptr::null_mut(), name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

pub(crate) fn is_open_mpi() -> bool {
    function(c"ompi_mpi_int").is_some()
}
