//! Libraries of other projects with the calls of `peer/dataset_calls.h`, each in a shared object of
//! its own: [`SharedLibrary`], and a file of it, [`LibraryFile`].
//!
//! Serial and parallel builds of netCDF and HDF5 have functions of the same names, so none of them
//! is linked into the program. The objects are embedded in it and opened when they are first used,
//! with names that are visible to themselves alone (`RTLD_LOCAL`). Functions of MPI are still found
//! in the whole program first, so a library that was preloaded in front of MPI-IO is used.
//!
//! `unsafe` is needed to call C; what makes it sound is that every pointer comes from a slice whose
//! length was compared with the counts here, and the number of dimensions is compared in C.

use std::ffi::{CStr, CString, c_char, c_double, c_int, c_void};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::IntoRawFd as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::ptr;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::libc;
use striate_array::Format;
use striate_datatype::parse_size;

use super::ArrayEngineError;
use super::c_library::{CLibrary, Hyperslab, c_string};
use crate::array::Hint;
use crate::array::plan::{Growth, SchemaDimension, Variable};

/// `struct striate_open`.
#[repr(C)]
struct OpenRequest {
    format: c_int,
    collective: c_int,
    alignment: u64,
    hints: *const *const c_char,
    hint_count: c_int,
}

/// `struct striate_storage`.
#[repr(C)]
struct StorageRequest {
    chunk: *const u64,
    deflate_level: c_int,
}

type Words = *const c_char;

/// `struct striate_dataset_calls`.
#[repr(C)]
struct CallTable {
    version: extern "C" fn() -> Words,
    error_string: unsafe extern "C" fn(c_int, *mut c_char, c_int),
    open: unsafe extern "C" fn(Words, *const OpenRequest, *mut isize) -> c_int,
    sync: unsafe extern "C" fn(isize) -> c_int,
    close: unsafe extern "C" fn(isize) -> c_int,
    dimension: unsafe extern "C" fn(isize, Words, u64, c_int, *mut c_int) -> c_int,
    variable: unsafe extern "C" fn(
        isize,
        Words,
        c_int,
        c_int,
        *const c_int,
        *const StorageRequest,
        *mut c_int,
    ) -> c_int,
    text: unsafe extern "C" fn(isize, c_int, Words, u64, Words) -> c_int,
    number: unsafe extern "C" fn(isize, c_int, Words, c_double) -> c_int,
    end: unsafe extern "C" fn(isize) -> c_int,
    find: unsafe extern "C" fn(isize, Words, *mut c_int) -> c_int,
    variables: unsafe extern "C" fn(isize, *mut c_int) -> c_int,
    get_number: unsafe extern "C" fn(isize, c_int, Words, *mut c_double) -> c_int,
    put: unsafe extern "C" fn(
        isize,
        c_int,
        c_int,
        *const u64,
        *const u64,
        c_int,
        *const c_void,
    ) -> c_int,
    get: unsafe extern "C" fn(
        isize,
        c_int,
        c_int,
        *const u64,
        *const u64,
        c_int,
        *mut c_void,
    ) -> c_int,
}

/// Held by the thread that is in a library: they are not thread-safe.
static LIBRARY: Mutex<()> = Mutex::new(());

fn enter() -> MutexGuard<'static, ()> {
    LIBRARY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A library of another project.
#[derive(Debug)]
pub(super) struct SharedLibrary {
    name: &'static str,
    object: &'static [u8],
    opened: OnceLock<Result<&'static CallTable, String>>,
}

impl std::fmt::Debug for CallTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CallTable")
    }
}

impl SharedLibrary {
    /// The library that people call `name`; `object` was built from one of `peer/*.c`.
    pub(super) const fn new(name: &'static str, object: &'static [u8]) -> Self {
        Self { name, object, opened: OnceLock::new() }
    }

    /// The library's own words.
    pub(super) fn version(&self) -> String {
        let words = self.calls().map(|calls| {
            // SAFETY: the library returns a constant string.
            let text = unsafe { CStr::from_ptr((calls.version)()) };
            text.to_string_lossy().trim_end_matches(" $").to_owned()
        });
        format!("{} {}", self.name, words.unwrap_or_else(|error| error.to_string()))
    }

    fn calls(&self) -> Result<&'static CallTable, ArrayEngineError> {
        let opened = self.opened.get_or_init(|| open_object(self.object));
        opened.as_ref().copied().map_err(|reason| {
            ArrayEngineError::from(io::Error::other(format!("cannot load {}: {reason}", self.name)))
        })
    }
}

/// Opens an object in memory, for as long as the process lives.
fn open_object(object: &[u8]) -> Result<&'static CallTable, String> {
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create("striate-peer-library", flags).map_err(io::Error::from);
    let file = file.map(File::from).and_then(|mut file| file.write_all(object).map(|()| file));
    let file = file.map_err(|error| error.to_string())?;
    // The loader takes objects of the same path for the same one, so the number must not be used
    // again: the file stays open.
    let path = CString::new(format!("/proc/self/fd/{}", file.into_raw_fd()));
    let path = path.map_err(|error| error.to_string())?;
    // SAFETY: the path ends with a zero, and the object was made by the build of this program.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let symbol = if library.is_null() {
        ptr::null_mut()
    } else {
        // SAFETY: the handle is open, and the name ends with a zero.
        unsafe { libc::dlsym(library, c"striate_dataset_calls".as_ptr()) }
    };
    if symbol.is_null() {
        // SAFETY: the last call failed, so there is an error, as a string.
        let reason = unsafe { CStr::from_ptr(libc::dlerror()) };
        return Err(reason.to_string_lossy().into_owned());
    }
    // SAFETY: it is a constant of this type in an object that is never closed.
    Ok(unsafe { &*symbol.cast::<CallTable>() })
}

/// How to open a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct OpenSetting<'b> {
    /// Of a new file; none opens a file for reading.
    pub(super) format: Option<Format>,
    /// Whether data calls are collective.
    pub(super) collective: bool,
    /// For MPI-IO; `nc_var_align_size` is also the alignment of objects in the file.
    pub(super) hints: &'b [Hint],
}

/// A file that a library has open. It is not closed when it is dropped, as that may be collective.
#[derive(Debug)]
pub(super) struct LibraryFile {
    calls: &'static CallTable,
    id: isize,
}

impl LibraryFile {
    /// Creates a file, or opens one for reading.
    pub(super) fn open(
        library: &SharedLibrary,
        path: &Path,
        setting: &OpenSetting<'_>,
    ) -> Result<Self, ArrayEngineError> {
        let calls = library.calls()?;
        let path = c_string(path.as_os_str().as_bytes())?;
        let words = setting.hints.iter().flat_map(|(name, value)| [name, value]);
        let words: Vec<CString> =
            words.map(|word| c_string(word.as_bytes())).collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
        let alignment = setting.hints.iter().rev().find(|hint| hint.0 == "nc_var_align_size");
        let request = OpenRequest {
            format: setting.format.map_or(0, |format| c_int::from(format.version())),
            collective: c_int::from(setting.collective),
            alignment: alignment.and_then(|hint| parse_size(&hint.1).ok()).unwrap_or(0),
            hints: pointers.as_ptr(),
            hint_count: setting.hints.len() as c_int,
        };
        let mut id = -1;
        let _alone = enter();
        // SAFETY: the path and the words of hints end with zeros; all outlive the call.
        let code = unsafe { (calls.open)(path.as_ptr(), &raw const request, &raw mut id) };
        let file = Self { calls, id };
        file.check(if setting.format.is_some() { "create" } else { "open" }, code)?;
        Ok(file)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), ArrayEngineError> {
        if code == 0 {
            return Ok(());
        }
        let mut text: [c_char; 512] = [0; 512];
        // SAFETY: the room is that of the buffer, which the function ends with a zero.
        let message = unsafe {
            (self.calls.error_string)(code, text.as_mut_ptr(), text.len() as c_int);
            CStr::from_ptr(text.as_ptr())
        };
        Err(ArrayEngineError::Peer { call, code, message: message.to_string_lossy().into_owned() })
    }

    /// Writes.
    pub(super) fn put(&self, part: Hyperslab<'_>, elements: &[u8]) -> Result<(), ArrayEngineError> {
        let (dimensions, ty) = part.check(elements.as_ptr(), elements.len())?;
        let (start, count) = (part.start.as_ptr(), part.count.as_ptr());
        let memory = elements.as_ptr().cast();
        let _alone = enter();
        // SAFETY: start and count are `dimensions` long, and the memory holds what they say.
        let code = unsafe {
            (self.calls.put)(self.id, part.variable, dimensions, start, count, ty, memory)
        };
        self.check("put", code)
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
            (self.calls.get)(self.id, part.variable, dimensions, start, count, ty, memory)
        };
        self.check("get", code)
    }

    /// Makes it durable, as far as the library does.
    pub(super) fn sync(&self) -> Result<(), ArrayEngineError> {
        let _alone = enter();
        // SAFETY: the file is open.
        self.check("sync", unsafe { (self.calls.sync)(self.id) })
    }

    /// Closes it.
    pub(super) fn close(self) -> Result<(), ArrayEngineError> {
        let _alone = enter();
        // SAFETY: the file is open, and not used any more.
        self.check("close", unsafe { (self.calls.close)(self.id) })
    }
}

impl CLibrary for LibraryFile {
    fn dimension(&self, dimension: &SchemaDimension) -> Result<c_int, ArrayEngineError> {
        let name = c_string(dimension.name.as_bytes())?;
        let unlimited = c_int::from(dimension.growth == Growth::Unlimited);
        let mut id = -1;
        let _alone = enter();
        // SAFETY: the name ends with a zero, and there is room for the result.
        let code = unsafe {
            (self.calls.dimension)(self.id, name.as_ptr(), dimension.len, unlimited, &raw mut id)
        };
        self.check("define a dimension", code).map(|()| id)
    }

    fn variable(
        &self,
        variable: &Variable,
        dimensions: &[c_int],
    ) -> Result<c_int, ArrayEngineError> {
        let name = c_string(variable.name.as_bytes())?;
        let chunk = variable.storage.chunk.as_deref();
        let fits = chunk.is_none_or(|chunk| chunk.len() == dimensions.len());
        if !fits {
            let text = "chunks have another number of dimensions than the variable";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
        }
        let storage = StorageRequest {
            chunk: chunk.map_or(ptr::null(), <[u64]>::as_ptr),
            deflate_level: variable.storage.deflate.map_or(-1, c_int::from),
        };
        let (ty, count) = (variable.number.external().code() as c_int, dimensions.len() as c_int);
        let mut id = -1;
        let _alone = enter();
        // SAFETY: the name ends with a zero, dimensions and chunk are `count` long, and there is
        // room for the result.
        let code = unsafe {
            (self.calls.variable)(
                self.id,
                name.as_ptr(),
                ty,
                count,
                dimensions.as_ptr(),
                &raw const storage,
                &raw mut id,
            )
        };
        self.check("define a variable", code).map(|()| id)
    }

    fn text(&self, variable: c_int, name: &str, text: &str) -> Result<(), ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let (bytes, len) = (text.as_ptr().cast(), text.len() as u64);
        let _alone = enter();
        // SAFETY: the name ends with a zero, and the text has `len` bytes.
        let code = unsafe { (self.calls.text)(self.id, variable, name.as_ptr(), len, bytes) };
        self.check("set an attribute", code)
    }

    fn number(&self, variable: c_int, name: &str, n: f64) -> Result<(), ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let _alone = enter();
        // SAFETY: the name ends with a zero.
        let code = unsafe { (self.calls.number)(self.id, variable, name.as_ptr(), n) };
        self.check("set an attribute", code)
    }

    fn end(&self) -> Result<(), ArrayEngineError> {
        let _alone = enter();
        // SAFETY: the file is open.
        self.check("end definitions", unsafe { (self.calls.end)(self.id) })
    }

    fn find(&self, name: &str) -> Result<c_int, ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let mut id = -1;
        let _alone = enter();
        // SAFETY: the name ends with a zero, and there is room for the result.
        let code = unsafe { (self.calls.find)(self.id, name.as_ptr(), &raw mut id) };
        self.check("find a variable", code).map(|()| id)
    }

    fn variables(&self) -> Result<usize, ArrayEngineError> {
        let mut count = 0;
        let _alone = enter();
        // SAFETY: there is room for the result.
        let code = unsafe { (self.calls.variables)(self.id, &raw mut count) };
        self.check("count variables", code).map(|()| count as usize)
    }

    fn get_number(&self, variable: c_int, name: &str) -> Result<f64, ArrayEngineError> {
        let name = c_string(name.as_bytes())?;
        let mut number = 0.0;
        let _alone = enter();
        // SAFETY: the name ends with a zero; there is room for the result, which C checks to be
        // one.
        let code =
            unsafe { (self.calls.get_number)(self.id, variable, name.as_ptr(), &raw mut number) };
        self.check("read an attribute", code).map(|()| number)
    }
}
