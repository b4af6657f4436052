//! The C side, `peer/pnetcdf.c`, and a file of it: [`PnetcdfFile`].
//!
//! All calls are collective over the processes of the job, except those that begin a request.
//! `unsafe` is needed to call C; what makes it sound is that every pointer comes from a slice whose
//! length was compared with the counts here, and the number of dimensions is compared in C. Only
//! the two functions that begin a request ask more of their caller.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use striate_array::Format;

use super::super::ArrayEngineError;
use super::super::c_library::{CLibrary, Hyperslab, c_string};
use crate::array::CallMode;
use crate::array::plan::{Growth, SchemaDimension, Variable};
use crate::mpiio;

mod sys {
    use std::ffi::{c_char, c_double, c_int, c_void};

    unsafe extern "C" {
        pub(super) fn striate_pnetcdf_error_string(code: c_int, text: *mut c_char, room: c_int);
        pub(super) safe fn striate_pnetcdf_version() -> *const c_char;
        pub(super) fn striate_pnetcdf_open(
            path: *const c_char,
            format: c_int,
            component: c_int,
            hints: *const *const c_char,
            count: c_int,
            file: *mut c_int,
            found: *mut c_int,
        ) -> c_int;
        pub(super) safe fn striate_pnetcdf_independent(file: c_int) -> c_int;
        pub(super) safe fn striate_pnetcdf_sync(file: c_int) -> c_int;
        pub(super) safe fn striate_pnetcdf_close(file: c_int) -> c_int;
        pub(super) fn striate_pnetcdf_dimension(
            file: c_int,
            name: *const c_char,
            length: i64,
            dimension: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_pnetcdf_variable(
            file: c_int,
            name: *const c_char,
            ty: c_int,
            count: c_int,
            dimensions: *const c_int,
            variable: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_pnetcdf_text(
            file: c_int,
            variable: c_int,
            name: *const c_char,
            length: i64,
            text: *const c_char,
        ) -> c_int;
        pub(super) fn striate_pnetcdf_number(
            file: c_int,
            variable: c_int,
            name: *const c_char,
            number: c_double,
        ) -> c_int;
        pub(super) safe fn striate_pnetcdf_end(file: c_int) -> c_int;
        pub(super) fn striate_pnetcdf_find(
            file: c_int,
            name: *const c_char,
            variable: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_pnetcdf_variables(file: c_int, count: *mut c_int) -> c_int;
        pub(super) fn striate_pnetcdf_get_number(
            file: c_int,
            variable: c_int,
            name: *const c_char,
            number: *mut c_double,
        ) -> c_int;
        pub(super) fn striate_pnetcdf_put(
            file: c_int,
            variable: c_int,
            dimensions: c_int,
            start: *const i64,
            count: *const i64,
            ty: c_int,
            elements: *mut c_void,
            collective: c_int,
        ) -> c_int;
        pub(super) fn striate_pnetcdf_get(
            file: c_int,
            variable: c_int,
            dimensions: c_int,
            start: *const i64,
            count: *const i64,
            ty: c_int,
            elements: *mut c_void,
            collective: c_int,
        ) -> c_int;
        pub(super) fn striate_pnetcdf_begin_put(
            file: c_int,
            variable: c_int,
            dimensions: c_int,
            start: *const i64,
            count: *const i64,
            ty: c_int,
            elements: *mut c_void,
            request: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_pnetcdf_begin_get(
            file: c_int,
            variable: c_int,
            dimensions: c_int,
            start: *const i64,
            count: *const i64,
            ty: c_int,
            elements: *mut c_void,
            request: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_pnetcdf_wait_all(
            file: c_int,
            count: c_int,
            requests: *mut c_int,
            statuses: *mut c_int,
        ) -> c_int;
    }
}

/// The library's own words.
pub(super) fn version() -> String {
    let text = sys::striate_pnetcdf_version();
    // SAFETY: the library returns a constant string.
    let text = unsafe { CStr::from_ptr(text) };
    format!("PnetCDF {}", text.to_string_lossy())
}

/// Whether the library can be called: MPI runs, and is the one that it was built for.
pub(super) fn ready() -> Result<(), ArrayEngineError> {
    mpiio::ready().map_err(|_| ArrayEngineError::Absent("PnetCDF needs the ranks of an MPI job"))
}

fn check(call: &'static str, code: c_int) -> Result<(), ArrayEngineError> {
    if code == 0 {
        return Ok(());
    }
    let mut text: [c_char; 512] = [0; 512];
    // SAFETY: the room is that of the buffer, which the function ends with a zero.
    let message = unsafe {
        sys::striate_pnetcdf_error_string(code, text.as_mut_ptr(), text.len() as c_int);
        CStr::from_ptr(text.as_ptr())
    };
    Err(ArrayEngineError::Peer { call, code, message: message.to_string_lossy().into_owned() })
}

/// Offsets of MPI are signed; files have no more than those count.
fn signed(numbers: &[u64]) -> Vec<i64> {
    numbers.iter().map(|&number| number as i64).collect()
}

/// A request that was begun.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request(c_int);

/// A file that PnetCDF has open. It is not closed when it is dropped, as that is collective.
#[derive(Debug)]
pub(super) struct PnetcdfFile {
    id: c_int,
    mode: CallMode,
}

impl PnetcdfFile {
    /// Creates a file of that format, or opens one for reading.
    pub(super) fn open(
        path: &Path,
        format: Option<Format>,
        component: Option<&'static str>,
        hints: &[(String, String)],
    ) -> Result<Self, ArrayEngineError> {
        ready()?;
        let path = c_string(path.as_os_str().as_bytes())?;
        let words = hints.iter().flat_map(|(name, value)| [name, value]);
        let words: Vec<CString> =
            words.map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        let version = format.map_or(0, |format| c_int::from(format.version()));
        let which = component.map_or(-1, |name| c_int::from(name == "romio"));
        let (mut id, mut found) = (-1, 0);
        let call = if format.is_some() { "ncmpi_create" } else { "ncmpi_open" };
        // SAFETY: MPI runs; the path and `hints.len()` pairs of words end with zeros and outlive
        // the call.
        let code = unsafe {
            let count = hints.len() as c_int;
            let hints = pointers.as_ptr();
            sys::striate_pnetcdf_open(
                path.as_ptr(),
                version,
                which,
                hints,
                count,
                &raw mut id,
                &raw mut found,
            )
        };
        check(call, code)?;
        match (found, component) {
            (0, Some(component)) => Err(ArrayEngineError::NoComponent(component)),
            _ => Ok(Self { id, mode: CallMode::Collective }),
        }
    }

    /// Data calls that are not nonblocking are of this kind from now on. Collective; after
    /// definitions.
    pub(super) fn set_mode(&mut self, mode: CallMode) -> Result<(), ArrayEngineError> {
        if mode == CallMode::Independent {
            check("ncmpi_begin_indep_data", sys::striate_pnetcdf_independent(self.id))?;
        }
        self.mode = mode;
        Ok(())
    }

    /// Writes. The memory is the same afterwards, but the library turns it around in between.
    pub(super) fn put(
        &self,
        part: Hyperslab<'_>,
        elements: &mut [u8],
    ) -> Result<(), ArrayEngineError> {
        let (dimensions, ty) = part.check(elements.as_ptr(), elements.len())?;
        let [start, count] = [part.start, part.count].map(signed);
        let memory = elements.as_mut_ptr().cast();
        // SAFETY: start and count are `dimensions` long, and the memory holds what they say.
        let code = unsafe {
            let (start, count) = (start.as_ptr(), count.as_ptr());
            let all = c_int::from(self.mode == CallMode::Collective);
            sys::striate_pnetcdf_put(
                self.id,
                part.variable,
                dimensions,
                start,
                count,
                ty,
                memory,
                all,
            )
        };
        check("ncmpi_put_vara_all", code)
    }

    /// Reads.
    pub(super) fn get(
        &self,
        part: Hyperslab<'_>,
        elements: &mut [u8],
    ) -> Result<(), ArrayEngineError> {
        let (dimensions, ty) = part.check(elements.as_ptr(), elements.len())?;
        let [start, count] = [part.start, part.count].map(signed);
        let memory = elements.as_mut_ptr().cast();
        // SAFETY: start and count are `dimensions` long, and the memory has room for what they say.
        let code = unsafe {
            let (start, count) = (start.as_ptr(), count.as_ptr());
            let all = c_int::from(self.mode == CallMode::Collective);
            sys::striate_pnetcdf_get(
                self.id,
                part.variable,
                dimensions,
                start,
                count,
                ty,
                memory,
                all,
            )
        };
        check("ncmpi_get_vara_all", code)
    }

    /// Begins to write.
    ///
    /// # Safety
    ///
    /// `elements` points to `len` bytes that nothing else uses until the request was waited for, or
    /// ever again if it is not.
    pub(super) unsafe fn begin_put(
        &self,
        part: Hyperslab<'_>,
        elements: *mut u8,
        len: usize,
    ) -> Result<Request, ArrayEngineError> {
        let (dimensions, ty) = part.check(elements, len)?;
        let [start, count] = [part.start, part.count].map(signed);
        let memory = elements.cast::<c_void>();
        let mut request = 0;
        // SAFETY: start and count are `dimensions` long; the caller vouches for the memory.
        let code = unsafe {
            let (start, count) = (start.as_ptr(), count.as_ptr());
            sys::striate_pnetcdf_begin_put(
                self.id,
                part.variable,
                dimensions,
                start,
                count,
                ty,
                memory,
                &raw mut request,
            )
        };
        check("ncmpi_iput_vara", code).map(|()| Request(request))
    }

    /// Begins to read.
    ///
    /// # Safety
    ///
    /// As for [`PnetcdfFile::begin_put`].
    pub(super) unsafe fn begin_get(
        &self,
        part: Hyperslab<'_>,
        elements: *mut u8,
        len: usize,
    ) -> Result<Request, ArrayEngineError> {
        let (dimensions, ty) = part.check(elements, len)?;
        let [start, count] = [part.start, part.count].map(signed);
        let memory = elements.cast::<c_void>();
        let mut request = 0;
        // SAFETY: start and count are `dimensions` long; the caller vouches for the memory.
        let code = unsafe {
            let (start, count) = (start.as_ptr(), count.as_ptr());
            sys::striate_pnetcdf_begin_get(
                self.id,
                part.variable,
                dimensions,
                start,
                count,
                ty,
                memory,
                &raw mut request,
            )
        };
        check("ncmpi_iget_vara", code).map(|()| Request(request))
    }

    /// Carries out requests.
    pub(super) fn wait_all(&self, requests: &[Request]) -> Result<(), ArrayEngineError> {
        let mut ids: Vec<c_int> = requests.iter().map(|request| request.0).collect();
        let mut statuses = vec![0; ids.len()];
        let (count, ids, statuses) = (ids.len() as c_int, ids.as_mut_ptr(), statuses.as_mut_ptr());
        // SAFETY: there are `count` requests, and room for as many statuses.
        let code = unsafe { sys::striate_pnetcdf_wait_all(self.id, count, ids, statuses) };
        check("ncmpi_wait_all", code)
    }

    /// Makes it durable.
    pub(super) fn sync(&self) -> Result<(), ArrayEngineError> {
        check("ncmpi_sync", sys::striate_pnetcdf_sync(self.id))
    }

    /// Closes it.
    pub(super) fn close(self) -> Result<(), ArrayEngineError> {
        check("ncmpi_close", sys::striate_pnetcdf_close(self.id))
    }
}

impl CLibrary for PnetcdfFile {
    fn dimension(&self, dimension: &SchemaDimension) -> Result<c_int, ArrayEngineError> {
        let name = c_string(dimension.name.as_bytes())?;
        let len = match dimension.growth {
            Growth::Fixed => dimension.len,
            Growth::Unlimited => 0,
        };
        let mut id = -1;
        // SAFETY: the name ends with a zero, and there is room for the result.
        let code = unsafe {
            sys::striate_pnetcdf_dimension(self.id, name.as_ptr(), len as i64, &raw mut id)
        };
        check("ncmpi_def_dim", code).map(|()| id)
    }

    fn variable(
        &self,
        variable: &Variable,
        dimensions: &[c_int],
    ) -> Result<c_int, ArrayEngineError> {
        let name = c_string(variable.name.as_bytes())?;
        let mut id = -1;
        let (ty, count) = (variable.number.external().code() as c_int, dimensions.len() as c_int);
        let dims = dimensions.as_ptr();
        // SAFETY: the name ends with a zero, the dimensions are `count`, and there is room for the
        // result.
        let code = unsafe {
            let name = name.as_ptr();
            sys::striate_pnetcdf_variable(self.id, name, ty, count, dims, &raw mut id)
        };
        check("ncmpi_def_var", code).map(|()| id)
    }

    fn text(&self, variable: c_int, name: &str, text: &str) -> Result<(), ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let (bytes, len) = (text.as_ptr().cast(), text.len() as i64);
        // SAFETY: the name ends with a zero, and the text has `len` bytes.
        let code =
            unsafe { sys::striate_pnetcdf_text(self.id, variable, name.as_ptr(), len, bytes) };
        check("ncmpi_put_att_text", code)
    }

    fn number(&self, variable: c_int, name: &str, n: f64) -> Result<(), ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        // SAFETY: the name ends with a zero.
        let code = unsafe { sys::striate_pnetcdf_number(self.id, variable, name.as_ptr(), n) };
        check("ncmpi_put_att_double", code)
    }

    fn end(&self) -> Result<(), ArrayEngineError> {
        check("ncmpi_enddef", sys::striate_pnetcdf_end(self.id))
    }

    fn find(&self, name: &str) -> Result<c_int, ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let mut id = -1;
        // SAFETY: the name ends with a zero, and there is room for the result.
        let code = unsafe { sys::striate_pnetcdf_find(self.id, name.as_ptr(), &raw mut id) };
        check("ncmpi_inq_varid", code).map(|()| id)
    }

    fn variables(&self) -> Result<usize, ArrayEngineError> {
        let mut count = 0;
        // SAFETY: there is room for the result.
        let code = unsafe { sys::striate_pnetcdf_variables(self.id, &raw mut count) };
        check("ncmpi_inq_nvars", code).map(|()| count as usize)
    }

    fn get_number(&self, variable: c_int, name: &str) -> Result<f64, ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let mut number = 0.0;
        // SAFETY: the name ends with a zero; there is room for the result, which C checks to be
        // one.
        let code = unsafe {
            sys::striate_pnetcdf_get_number(self.id, variable, name.as_ptr(), &raw mut number)
        };
        check("ncmpi_get_att_double", code).map(|()| number)
    }
}
