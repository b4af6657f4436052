//! The C side, `peer/netcdf.c`, and a file of it: [`NetcdfFile`].
//!
//! `unsafe` is needed to call C; what makes it sound is that every pointer comes from a slice whose
//! length was compared with the counts here, and the number of dimensions is compared in C. The
//! library is not for several threads: a lock lets one call in at a time.

use std::ffi::{CStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use striate_array::Format;

use super::super::ArrayEngineError;
use super::super::c_library::{CLibrary, Hyperslab, c_string};
use crate::array::plan::Number;

mod sys {
    use std::ffi::{c_char, c_double, c_int, c_void};

    unsafe extern "C" {
        pub(super) fn striate_netcdf_error_string(code: c_int, text: *mut c_char, room: c_int);
        pub(super) safe fn striate_netcdf_version() -> *const c_char;
        pub(super) fn striate_netcdf_open(
            path: *const c_char,
            format: c_int,
            file: *mut c_int,
        ) -> c_int;
        pub(super) safe fn striate_netcdf_sync(file: c_int) -> c_int;
        pub(super) safe fn striate_netcdf_close(file: c_int) -> c_int;
        pub(super) fn striate_netcdf_dimension(
            file: c_int,
            name: *const c_char,
            length: u64,
            dimension: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_netcdf_variable(
            file: c_int,
            name: *const c_char,
            ty: c_int,
            count: c_int,
            dimensions: *const c_int,
            variable: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_netcdf_text(
            file: c_int,
            variable: c_int,
            name: *const c_char,
            length: u64,
            text: *const c_char,
        ) -> c_int;
        pub(super) fn striate_netcdf_number(
            file: c_int,
            variable: c_int,
            name: *const c_char,
            number: c_double,
        ) -> c_int;
        pub(super) safe fn striate_netcdf_end(file: c_int) -> c_int;
        pub(super) fn striate_netcdf_find(
            file: c_int,
            name: *const c_char,
            variable: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_netcdf_variables(file: c_int, count: *mut c_int) -> c_int;
        pub(super) fn striate_netcdf_get_number(
            file: c_int,
            variable: c_int,
            name: *const c_char,
            number: *mut c_double,
        ) -> c_int;
        pub(super) fn striate_netcdf_put(
            file: c_int,
            variable: c_int,
            dimensions: c_int,
            start: *const u64,
            count: *const u64,
            ty: c_int,
            elements: *const c_void,
        ) -> c_int;
        pub(super) fn striate_netcdf_get(
            file: c_int,
            variable: c_int,
            dimensions: c_int,
            start: *const u64,
            count: *const u64,
            ty: c_int,
            elements: *mut c_void,
        ) -> c_int;
    }
}

/// Held by the thread that is in the library.
static LIBRARY: Mutex<()> = Mutex::new(());

fn enter() -> MutexGuard<'static, ()> {
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The library's own words.
pub(super) fn version() -> String {
    let text = sys::striate_netcdf_version();
    // SAFETY: the library returns a constant string.
    let text = unsafe { CStr::from_ptr(text) };
    format!("netCDF {}", text.to_string_lossy().trim_end_matches(" $"))
}

fn check(call: &'static str, code: c_int) -> Result<(), ArrayEngineError> {
    if code == 0 {
        return Ok(());
    }
    let mut text: [c_char; 512] = [0; 512];
    // SAFETY: the room is that of the buffer, which the function ends with a zero.
    let message = unsafe {
        sys::striate_netcdf_error_string(code, text.as_mut_ptr(), text.len() as c_int);
        CStr::from_ptr(text.as_ptr())
    };
    Err(ArrayEngineError::Peer { call, code, message: message.to_string_lossy().into_owned() })
}

/// A file that netCDF has open.
#[derive(Debug)]
pub(super) struct NetcdfFile {
    id: c_int,
}

impl NetcdfFile {
    /// Creates a file of that format, or opens one for reading.
    pub(super) fn open(path: &Path, format: Option<Format>) -> Result<Self, ArrayEngineError> {
        let path = c_string(path.as_os_str().as_bytes())?;
        let version = format.map_or(0, |format| c_int::from(format.version()));
        let mut id = -1;
        let _alone = enter();
        // SAFETY: the path ends with a zero, and there is room for the result.
        let code = unsafe { sys::striate_netcdf_open(path.as_ptr(), version, &raw mut id) };
        check(if format.is_some() { "nc_create" } else { "nc_open" }, code)?;
        Ok(Self { id })
    }

    /// Writes.
    pub(super) fn put(&self, part: Hyperslab<'_>, elements: &[u8]) -> Result<(), ArrayEngineError> {
        let (dimensions, ty) = part.check(elements.as_ptr(), elements.len())?;
        let (start, count) = (part.start.as_ptr(), part.count.as_ptr());
        let memory = elements.as_ptr().cast();
        let _alone = enter();
        // SAFETY: start and count are `dimensions` long, and the memory holds what they say.
        let code = unsafe {
            sys::striate_netcdf_put(self.id, part.variable, dimensions, start, count, ty, memory)
        };
        check("nc_put_vara", code)
    }

    /// Reads.
    pub(super) fn get(
        &self,
        part: Hyperslab<'_>,
        elements: &mut [u8],
    ) -> Result<(), ArrayEngineError> {
        let (dimensions, ty) = part.check(elements.as_ptr(), elements.len())?;
        let (start, count) = (part.start.as_ptr(), part.count.as_ptr());
        let memory = elements.as_mut_ptr().cast();
        let _alone = enter();
        // SAFETY: start and count are `dimensions` long, and the memory has room for what they say.
        let code = unsafe {
            sys::striate_netcdf_get(self.id, part.variable, dimensions, start, count, ty, memory)
        };
        check("nc_get_vara", code)
    }

    /// Makes it durable, as far as the library does.
    pub(super) fn sync(&self) -> Result<(), ArrayEngineError> {
        let _alone = enter();
        check("nc_sync", sys::striate_netcdf_sync(self.id))
    }

    /// Closes it.
    pub(super) fn close(self) -> Result<(), ArrayEngineError> {
        let _alone = enter();
        check("nc_close", sys::striate_netcdf_close(self.id))
    }
}

impl CLibrary for NetcdfFile {
    fn dimension(&self, name: &str, len: u64) -> Result<c_int, ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let mut id = -1;
        let _alone = enter();
        // SAFETY: the name ends with a zero, and there is room for the result.
        let code =
            unsafe { sys::striate_netcdf_dimension(self.id, name.as_ptr(), len, &raw mut id) };
        check("nc_def_dim", code).map(|()| id)
    }

    fn variable(
        &self,
        name: &str,
        number: Number,
        dimensions: &[c_int],
    ) -> Result<c_int, ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let mut id = -1;
        let (ty, count) = (number.external().code() as c_int, dimensions.len() as c_int);
        let dims = dimensions.as_ptr();
        let _alone = enter();
        // SAFETY: the name ends with a zero, the dimensions are `count`, and there is room for the
        // result.
        let code = unsafe {
            let name = name.as_ptr();
            sys::striate_netcdf_variable(self.id, name, ty, count, dims, &raw mut id)
        };
        check("nc_def_var", code).map(|()| id)
    }

    fn text(&self, variable: c_int, name: &str, text: &str) -> Result<(), ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let (bytes, len) = (text.as_ptr().cast(), text.len() as u64);
        let _alone = enter();
        // SAFETY: the name ends with a zero, and the text has `len` bytes.
        let code =
            unsafe { sys::striate_netcdf_text(self.id, variable, name.as_ptr(), len, bytes) };
        check("nc_put_att_text", code)
    }

    fn number(&self, variable: c_int, name: &str, n: f64) -> Result<(), ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let _alone = enter();
        // SAFETY: the name ends with a zero.
        let code = unsafe { sys::striate_netcdf_number(self.id, variable, name.as_ptr(), n) };
        check("nc_put_att_double", code)
    }

    fn end(&self) -> Result<(), ArrayEngineError> {
        let _alone = enter();
        check("nc_enddef", sys::striate_netcdf_end(self.id))
    }

    fn find(&self, name: &str) -> Result<c_int, ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let mut id = -1;
        let _alone = enter();
        // SAFETY: the name ends with a zero, and there is room for the result.
        let code = unsafe { sys::striate_netcdf_find(self.id, name.as_ptr(), &raw mut id) };
        check("nc_inq_varid", code).map(|()| id)
    }

    fn variables(&self) -> Result<usize, ArrayEngineError> {
        let mut count = 0;
        let _alone = enter();
        // SAFETY: there is room for the result.
        let code = unsafe { sys::striate_netcdf_variables(self.id, &raw mut count) };
        check("nc_inq_nvars", code).map(|()| count as usize)
    }

    fn get_number(&self, variable: c_int, name: &str) -> Result<f64, ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let mut number = 0.0;
        let _alone = enter();
        // SAFETY: the name ends with a zero; there is room for the result, which C checks to be
        // one.
        let code = unsafe {
            sys::striate_netcdf_get_number(self.id, variable, name.as_ptr(), &raw mut number)
        };
        check("nc_get_att_double", code).map(|()| number)
    }
}
