//! Constants of the MPI that the door is built for. Numbers come with rsmpi's bindings, handles by
//! a small structure that is filled in by C (`shim.c`), because they are macros there.

use std::ffi::{CStr, c_char, c_int};

use mpi::ffi;
pub(crate) use mpi::ffi::{
    MPI_Comm, MPI_Count, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info, MPI_Offset,
    MPI_Request, MPI_Status,
};

/// What `shim.c` knows.
#[repr(C)]
struct Constants {
    built_for: *const c_char,
    byte: MPI_Datatype,
    errors_abort: MPI_Errhandler,
    errhandler_null: MPI_Errhandler,
}

unsafe extern "C" {
    static striate_mpiio_constants: Constants;
}

/// The name of the MPI that the door is built for.
pub(crate) fn built_for() -> &'static str {
    // SAFETY: a constant of C, which points to a literal.
    let text = unsafe { CStr::from_ptr(striate_mpiio_constants.built_for) };
    text.to_str().unwrap_or("an MPI")
}

macro_rules! handles {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $value:expr;)*) => {$(
        $(#[$doc])*
        #[inline]
        pub(crate) fn $name() -> $type {
            // SAFETY: a constant of C that is never written.
            unsafe { $value }
        }
    )*};
}

handles! {
    /// `MPI_BYTE`.
    byte: MPI_Datatype = striate_mpiio_constants.byte;
    /// `MPI_DATATYPE_NULL`.
    datatype_null: MPI_Datatype = ffi::RSMPI_DATATYPE_NULL;
    /// `MPI_COMM_NULL`.
    comm_null: MPI_Comm = ffi::RSMPI_COMM_NULL;
    /// `MPI_COMM_SELF`.
    comm_self: MPI_Comm = ffi::RSMPI_COMM_SELF;
    /// `MPI_COMM_WORLD`.
    comm_world: MPI_Comm = ffi::RSMPI_COMM_WORLD;
    /// `MPI_FILE_NULL`.
    file_null: MPI_File = ffi::RSMPI_FILE_NULL;
    /// `MPI_INFO_NULL`.
    info_null: MPI_Info = ffi::RSMPI_INFO_NULL;
    /// `MPI_GROUP_NULL`.
    group_null: MPI_Group = ffi::RSMPI_GROUP_NULL;
    /// `MPI_STATUS_IGNORE`.
    status_ignore: *mut MPI_Status = ffi::RSMPI_STATUS_IGNORE;
    /// `MPI_ERRHANDLER_NULL`.
    errhandler_null: MPI_Errhandler = striate_mpiio_constants.errhandler_null;
    /// `MPI_ERRORS_RETURN`.
    errors_return: MPI_Errhandler = ffi::RSMPI_ERRORS_RETURN;
    /// `MPI_ERRORS_ARE_FATAL`.
    errors_are_fatal: MPI_Errhandler = ffi::RSMPI_ERRORS_ARE_FATAL;
    /// `MPI_ERRORS_ABORT`; where there is none, `MPI_ERRORS_ARE_FATAL`.
    errors_abort: MPI_Errhandler = striate_mpiio_constants.errors_abort;
}

macro_rules! numbers {
    ($($name:ident = $constant:ident),* $(,)?) => {
        $(pub(crate) const $name: c_int = ffi::$constant as c_int;)*
    };
}

numbers! {
    SUCCESS = MPI_SUCCESS,
    ERR_ACCESS = MPI_ERR_ACCESS,
    ERR_AMODE = MPI_ERR_AMODE,
    ERR_ARG = MPI_ERR_ARG,
    ERR_BAD_FILE = MPI_ERR_BAD_FILE,
    ERR_BUFFER = MPI_ERR_BUFFER,
    ERR_COMM = MPI_ERR_COMM,
    ERR_CONVERSION = MPI_ERR_CONVERSION,
    ERR_COUNT = MPI_ERR_COUNT,
    ERR_DUP_DATAREP = MPI_ERR_DUP_DATAREP,
    ERR_FILE = MPI_ERR_FILE,
    ERR_FILE_EXISTS = MPI_ERR_FILE_EXISTS,
    ERR_FILE_IN_USE = MPI_ERR_FILE_IN_USE,
    ERR_INFO = MPI_ERR_INFO,
    ERR_INTERN = MPI_ERR_INTERN,
    ERR_IN_STATUS = MPI_ERR_IN_STATUS,
    ERR_IO = MPI_ERR_IO,
    ERR_NOT_SAME = MPI_ERR_NOT_SAME,
    ERR_NO_MEM = MPI_ERR_NO_MEM,
    ERR_NO_SPACE = MPI_ERR_NO_SPACE,
    ERR_NO_SUCH_FILE = MPI_ERR_NO_SUCH_FILE,
    ERR_OTHER = MPI_ERR_OTHER,
    ERR_QUOTA = MPI_ERR_QUOTA,
    ERR_READ_ONLY = MPI_ERR_READ_ONLY,
    ERR_TYPE = MPI_ERR_TYPE,
    ERR_UNSUPPORTED_DATAREP = MPI_ERR_UNSUPPORTED_DATAREP,
    ERR_UNSUPPORTED_OPERATION = MPI_ERR_UNSUPPORTED_OPERATION,
    MODE_CREATE = MPI_MODE_CREATE,
    MODE_RDONLY = MPI_MODE_RDONLY,
    MODE_WRONLY = MPI_MODE_WRONLY,
    MODE_RDWR = MPI_MODE_RDWR,
    MODE_DELETE_ON_CLOSE = MPI_MODE_DELETE_ON_CLOSE,
    MODE_UNIQUE_OPEN = MPI_MODE_UNIQUE_OPEN,
    MODE_EXCL = MPI_MODE_EXCL,
    MODE_APPEND = MPI_MODE_APPEND,
    MODE_SEQUENTIAL = MPI_MODE_SEQUENTIAL,
    SEEK_SET = MPI_SEEK_SET,
    SEEK_CUR = MPI_SEEK_CUR,
    SEEK_END = MPI_SEEK_END,
    MAX_DATAREP_STRING = MPI_MAX_DATAREP_STRING,
    MAX_INFO_KEY = MPI_MAX_INFO_KEY,
    THREAD_MULTIPLE = MPI_THREAD_MULTIPLE,
    UNDEFINED = MPI_UNDEFINED,
}

/// `MPI_DISPLACEMENT_CURRENT`.
pub(crate) const DISPLACEMENT_CURRENT: MPI_Offset = ffi::MPI_DISPLACEMENT_CURRENT as MPI_Offset;
