//! [`Library`]: the functions of librados that are used, found at run time.
//!
//! The library is opened once and never closed. This module and those below it are the only ones
//! that call it; their interface is safe: [`cluster`] has connections and pools, [`operation`]
//! compound operations, [`lease`] its locks.

pub(super) mod cluster;
pub(super) mod lease;
pub(super) mod operation;

use std::env;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use nix::libc;

pub use cluster::{RadosSpace, use_configuration};

use super::error::RadosError;

/// The variable that names another file than [`FILE`].
const VARIABLE: &str = "STRIATE_LIBRADOS";
const FILE: &str = "librados.so.2";

/// Every object of librados is used through a pointer of this type.
pub(super) type Raw = *mut c_void;

/// The numbers of an attribute's comparison.
pub(super) const EQUAL: u8 = 1;
pub(super) const GREATER: u8 = 3;

/// `struct rados_cluster_stat_t`.
#[repr(C)]
#[derive(Debug, Default)]
pub(super) struct RawSpace {
    pub(super) kb: u64,
    pub(super) kb_used: u64,
    pub(super) kb_avail: u64,
    pub(super) objects: u64,
}

/// Declares the table and finds its functions.
macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, by their names without `rados_`.
        #[derive(Debug)]
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
        }

        impl Library {
            fn find(handle: Raw) -> Result<Self, String> {
                Ok(Self {
                    $($name: {
                        let symbol = symbol(handle, concat!("rados_", stringify!($name)))?;
                        // SAFETY: librados defines the function of this name with these arguments
                        // and this result (its interface has been stable since version 15), and the
                        // object is never closed.
                        unsafe {
                            std::mem::transmute::<Raw, unsafe extern "C" fn($($argument),*) $(-> $result)?>(symbol)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    version: fn(*mut c_int, *mut c_int, *mut c_int);
    create2: fn(*mut Raw, *const c_char, *const c_char, u64) -> c_int;
    conf_read_file: fn(Raw, *const c_char) -> c_int;
    conf_parse_env: fn(Raw, *const c_char) -> c_int;
    conf_set: fn(Raw, *const c_char, *const c_char) -> c_int;
    connect: fn(Raw) -> c_int;
    shutdown: fn(Raw);
    cluster_stat: fn(Raw, *mut RawSpace) -> c_int;
    ioctx_create: fn(Raw, *const c_char, *mut Raw) -> c_int;
    ioctx_destroy: fn(Raw);
    ioctx_set_namespace: fn(Raw, *const c_char);
    create_write_op: fn() -> Raw;
    release_write_op: fn(Raw);
    write_op_assert_exists: fn(Raw);
    write_op_create: fn(Raw, c_int, *const c_char);
    write_op_cmpxattr: fn(Raw, *const c_char, u8, *const c_char, usize);
    write_op_setxattr: fn(Raw, *const c_char, *const c_char, usize);
    write_op_rmxattr: fn(Raw, *const c_char);
    write_op_write: fn(Raw, *const c_char, usize, u64);
    write_op_truncate: fn(Raw, u64);
    write_op_remove: fn(Raw);
    write_op_omap_cmp: fn(Raw, *const c_char, u8, *const c_char, usize, *mut c_int);
    write_op_omap_set: fn(Raw, *const *const c_char, *const *const c_char, *const usize, usize);
    write_op_omap_rm_keys: fn(Raw, *const *const c_char, usize);
    create_read_op: fn() -> Raw;
    release_read_op: fn(Raw);
    read_op_cmpxattr: fn(Raw, *const c_char, u8, *const c_char, usize);
    read_op_getxattrs: fn(Raw, *mut Raw, *mut c_int);
    read_op_read: fn(Raw, u64, usize, *mut c_char, *mut usize, *mut c_int);
    read_op_omap_get_vals2: fn(Raw, *const c_char, *const c_char, u64, *mut Raw, *mut u8, *mut c_int);
    getxattrs_next: fn(Raw, *mut *const c_char, *mut *const c_char, *mut usize) -> c_int;
    getxattrs_end: fn(Raw);
    omap_get_next: fn(Raw, *mut *mut c_char, *mut *mut c_char, *mut usize) -> c_int;
    omap_get_end: fn(Raw);
    aio_create_completion2: fn(Raw, *const c_void, *mut Raw) -> c_int;
    aio_wait_for_complete: fn(Raw) -> c_int;
    aio_get_return_value: fn(Raw) -> c_int;
    aio_release: fn(Raw);
    aio_write_op_operate: fn(Raw, Raw, Raw, *const c_char, *mut i64, c_int) -> c_int;
    aio_read_op_operate: fn(Raw, Raw, Raw, *const c_char, c_int) -> c_int;
    lock_exclusive:
        fn(Raw, *const c_char, *const c_char, *const c_char, *const c_char, *mut libc::timeval, u8) -> c_int;
    lock_shared:
        fn(Raw, *const c_char, *const c_char, *const c_char, *const c_char, *const c_char, *mut libc::timeval, u8)
            -> c_int;
    unlock: fn(Raw, *const c_char, *const c_char, *const c_char) -> c_int;
    list_lockers:
        fn(Raw, *const c_char, *const c_char, *mut c_int, *mut c_char, *mut usize, *mut c_char, *mut usize,
            *mut c_char, *mut usize, *mut c_char, *mut usize) -> isize;
}

/// The address of a function.
fn symbol(handle: Raw, name: &str) -> Result<Raw, String> {
    let name = CString::new(name).map_err(|error| error.to_string())?;
    // SAFETY: the handle is open, and the name ends with a zero.
    let symbol = unsafe { libc::dlsym(handle, name.as_ptr()) };
    if symbol.is_null() { Err(last_failure()) } else { Ok(symbol) }
}

/// Why the last opening or search failed.
fn last_failure() -> String {
    // SAFETY: it gives null or a string that lasts until the next call of this thread.
    let message = unsafe {
        let message = libc::dlerror();
        (!message.is_null()).then(|| CStr::from_ptr(message))
    };
    message.map_or_else(|| "unknown".to_owned(), |text| text.to_string_lossy().into_owned())
}

fn open() -> Result<Library, String> {
    let file = env::var_os(VARIABLE).filter(|file| !file.is_empty());
    let file = file.unwrap_or_else(|| FILE.into());
    let path = CString::new(file.into_encoded_bytes()).map_err(|error| error.to_string())?;
    // SAFETY: the path ends with a zero. It is the library that the system or the user names, whose
    // initialisers run.
    let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if handle.is_null() { Err(last_failure()) } else { Library::find(handle) }
}

/// The library, opened by the first call.
pub(super) fn get() -> Result<&'static Library, RadosError> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY.get_or_init(open).as_ref().map_err(|reason| RadosError::Library(reason.clone()))
}

/// The version of librados that would be used, as `3.0.0`.
pub fn library_version() -> Result<String, RadosError> {
    let library = get()?;
    let (mut major, mut minor, mut extra) = (0, 0, 0);
    // SAFETY: it writes three numbers.
    unsafe { (library.version)(&raw mut major, &raw mut minor, &raw mut extra) };
    Ok(format!("{major}.{minor}.{extra}"))
}
