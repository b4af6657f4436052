//! The system's own MPI-IO as a peer, in the same process: [`MpiIo`] is a file that it opened.
//!
//! Our ranks are processes of the same MPI, so both sides of a comparison run in turn in one job.
//! The calls are those of `peer/mpiio.c`, compiled by the wrapper (`MPICC`) of that MPI. Open MPI
//! has two implementations, OMPIO and ROMIO, and each file says which of them it is opened with.
//!
//! Our types are given to MPI as the constructors that the normal form is made of, so that it sees
//! as much structure as we do; runs of bytes become block lengths, not types of their own. A file
//! caches the types that it has used: repeated calls do not build them again.

mod sys;
mod types;

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use striate_comm::mpi;
use striate_datatype::Datatype;
use thiserror::Error;

pub use types::MpiType;

/// An MPI function that failed, in MPI's words.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{call}: {message} (code {code})")]
pub struct MpiFailure {
    /// The function.
    pub call: &'static str,
    /// What it returned.
    pub code: i32,
    /// What that means.
    pub message: String,
}

/// What went wrong with MPI-IO.
#[derive(Debug, Error)]
pub enum MpiIoError {
    /// MPI is not initialised, or has been finalised.
    #[error("MPI is not running: start with the ranks of an MPI job")]
    NotRunning,
    /// The build mixed two MPIs.
    #[error("this was built for {built}, but runs with {running:?}: rebuild with one MPICC")]
    OtherMpi {
        /// The MPI of `peer/mpiio.c`.
        built: &'static str,
        /// The MPI of the ranks, in its words.
        running: String,
    },
    /// This MPI has no such implementation of MPI-IO.
    #[error("there is no MPI-IO {component:?} here; there is {}", MpiIo::components().join(", "))]
    NoComponent {
        /// What was asked for.
        component: String,
    },
    /// MPI opened the file with another implementation than was asked for.
    #[error("{} was opened by {got:?} and not by {asked}", path.display())]
    Component {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        asked: &'static str,
        /// What came; empty if that is not known.
        got: String,
    },
    /// A path or hint that C cannot hold.
    #[error("{text:?} contains a zero byte")]
    ZeroByte {
        /// The path, or the hint's name or value.
        text: String,
    },
    /// A number that MPI cannot be given.
    #[error("{value} {what} are more than MPI can take")]
    TooLarge {
        /// What it counts.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// The memory does not hold all that the type describes.
    #[error("the type reaches from {low} to {high} relative to byte {origin} of {len} in memory")]
    Outside {
        /// The lowest offset of the data.
        low: i128,
        /// One past the highest.
        high: i128,
        /// Where offset 0 lies.
        origin: usize,
        /// Bytes of memory.
        len: usize,
    },
    /// A stream has another length than the data.
    #[error("a stream of {len} bytes for {size} bytes of data")]
    Stream {
        /// Bytes of the stream.
        len: usize,
        /// Bytes of data.
        size: u64,
    },
    /// Offsets of a file type have to ascend from 0.
    #[error("the type is not valid as a file view: its offsets do not ascend from 0")]
    NotAView,
    /// Fewer bytes were written than given, though MPI reported no error.
    #[error("{component} wrote {written} of {size} bytes to {}", path.display())]
    ShortWrite {
        /// The implementation.
        component: &'static str,
        /// The file.
        path: PathBuf,
        /// Bytes written.
        written: i64,
        /// Bytes given.
        size: u64,
    },
    /// MPI gives a type other bytes than we do.
    #[error("MPI takes the type for {theirs:?} instead of {ours:?} (first byte, span, size)")]
    Differs {
        /// The lowest offset, the bytes spanned and the bytes of data.
        ours: (i64, i64, u64),
        /// As MPI has it.
        theirs: (i64, i64, u64),
    },
    /// MPI refused a type, or the use of one.
    #[error("MPI refuses the type")]
    Type(#[source] MpiFailure),
    /// MPI failed at a file.
    #[error("{component} failed at {}", path.display())]
    File {
        /// The implementation.
        component: &'static str,
        /// The file.
        path: PathBuf,
        /// What failed.
        source: MpiFailure,
    },
}

fn check(call: &'static str, code: c_int) -> Result<(), MpiFailure> {
    if code == 0 {
        return Ok(());
    }
    let mut text: [c_char; 1024] = [0; 1024];
    // SAFETY: the room is that of the buffer, which the function ends with a zero.
    let message = unsafe {
        sys::striate_mpiio_error_string(code, text.as_mut_ptr(), text.len() as c_int);
        CStr::from_ptr(text.as_ptr())
    };
    Err(MpiFailure { call, code, message: message.to_string_lossy().into_owned() })
}

fn int(what: &'static str, value: u64) -> Result<c_int, MpiIoError> {
    c_int::try_from(value).map_err(|_| MpiIoError::TooLarge { what, value })
}

fn offset(value: u64) -> Result<i64, MpiIoError> {
    i64::try_from(value).map_err(|_| MpiIoError::TooLarge { what: "bytes of offset", value })
}

fn is_openmpi() -> bool {
    sys::striate_mpiio_is_openmpi() != 0
}

/// Whether MPI can be called, and is the one that the calls were compiled for.
pub(crate) fn ready() -> Result<(), MpiIoError> {
    if sys::striate_mpiio_is_running() == 0 {
        return Err(MpiIoError::NotRunning);
    }
    let running = mpi::library_version();
    if running.contains("Open MPI") == is_openmpi() {
        return Ok(());
    }
    let built = if is_openmpi() { "Open MPI" } else { "another MPI than Open MPI" };
    Err(MpiIoError::OtherMpi { built, running })
}

/// While this lives, files are opened with an implementation of MPI-IO, by other libraries as well.
#[cfg_attr(not(any(parallel_hdf5, parallel_netcdf)), expect(dead_code, reason = "of peers"))]
pub(crate) struct Preference {
    saved: [c_int; 2],
}

impl Preference {
    /// Prefers that component, if it is there.
    #[cfg_attr(not(any(parallel_hdf5, parallel_netcdf)), expect(dead_code, reason = "of peers"))]
    pub(crate) fn new(component: &str) -> Option<Self> {
        let mut saved = [0; 2];
        let romio = c_int::from(component == "romio");
        // SAFETY: there is room for the two numbers.
        let found = unsafe { sys::striate_mpiio_prefer(romio, saved.as_mut_ptr()) };
        (found != 0).then_some(Self { saved })
    }
}

impl Drop for Preference {
    fn drop(&mut self) {
        // SAFETY: these are the numbers that `new` was given.
        unsafe { sys::striate_mpiio_restore(self.saved.as_ptr()) };
    }
}

/// While this lives, errors of functions without a file return instead of ending the job.
struct ErrorsReturn {
    saved: [isize; 2],
}

impl ErrorsReturn {
    fn begin() -> Result<Self, MpiIoError> {
        ready()?;
        let mut saved = [0; 2];
        // SAFETY: MPI runs, and there is room for the two handles.
        let code = unsafe { sys::striate_mpiio_errors_return(saved.as_mut_ptr()) };
        check("MPI_Comm_set_errhandler", code).map_err(MpiIoError::Type)?;
        Ok(Self { saved })
    }
}

impl Drop for ErrorsReturn {
    fn drop(&mut self) {
        // SAFETY: these are the handles that `begin` was given, used once.
        unsafe { sys::striate_mpiio_errors_restore(self.saved.as_ptr()) };
    }
}

/// Types that a file keeps; accesses of a benchmark use a few again and again.
const KEPT_TYPES: usize = 16;

/// A file of all ranks of the job, opened with the system's MPI-IO.
///
/// [`MpiIo::close`] it, on all ranks: a file that is only dropped stays open, since a rank that
/// gives up alone must not wait for other ranks.
pub struct MpiIo {
    file: isize,
    component: &'static str,
    path: PathBuf,
    types: Vec<(Datatype, MpiType)>,
}

impl fmt::Debug for MpiIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (component, path) = (self.component, &self.path);
        f.debug_struct("MpiIo")
            .field("component", &component)
            .field("path", path)
            .finish_non_exhaustive()
    }
}

impl MpiIo {
    /// The implementations that the MPI of this build has: `ompio` and `romio`, or `romio` alone.
    pub fn components() -> Vec<&'static str> {
        if is_openmpi() { vec!["ompio", "romio"] } else { vec!["romio"] }
    }

    /// Opens a file to read and write. Collective over `MPI_COMM_WORLD`.
    pub fn open(component: &str, path: &Path, create: bool) -> Result<Self, MpiIoError> {
        Self::open_with_hints(component, path, create, &[])
    }

    /// As [`MpiIo::open`], with hints as names and values. Collective.
    pub fn open_with_hints(
        component: &str,
        path: &Path,
        create: bool,
        hints: &[(&str, &str)],
    ) -> Result<Self, MpiIoError> {
        let _errors = ErrorsReturn::begin()?;
        let no_component = || MpiIoError::NoComponent { component: component.to_owned() };
        let asked = Self::components()
            .into_iter()
            .find(|&known| known == component)
            .ok_or_else(no_component)?;
        let c_path = c_string(path.as_os_str().as_bytes())?;
        let texts: Vec<CString> = hints
            .iter()
            .flat_map(|&(name, value)| [name, value])
            .map(|text| c_string(text.as_bytes()))
            .collect::<Result<_, _>>()?;
        let pointers: Vec<*const c_char> = texts.iter().map(|text| text.as_ptr()).collect();
        let count = int("hints", hints.len() as u64)?;
        let (mut file, mut found) = (0, 0);
        // SAFETY: MPI runs, all texts end with a zero and outlive the call, and there are two for
        // each of the `count` hints.
        let code = unsafe {
            sys::striate_mpiio_open(
                c_int::from(asked == "romio"),
                c_path.as_ptr(),
                c_int::from(create),
                pointers.as_ptr(),
                count,
                &raw mut file,
                &raw mut found,
            )
        };
        let opened = Self { file, component: asked, path: path.to_owned(), types: Vec::new() };
        opened.check("MPI_File_open", code)?;
        if found == 0 {
            return Err(no_component());
        }
        // SAFETY: the file is open; the answer is a constant text.
        let got = unsafe { CStr::from_ptr(sys::striate_mpiio_implementation(file)) };
        let got = got.to_string_lossy().into_owned();
        if got == asked {
            return Ok(opened);
        }
        let path = path.to_owned();
        opened.close()?;
        Err(MpiIoError::Component { path, asked, got })
    }

    /// The implementation that the file was opened with, as found out from the open file.
    pub const fn component(&self) -> &'static str {
        self.component
    }

    /// The hints that the file uses, as far as MPI reports them: Open MPI reports only those it was
    /// given.
    pub fn hints(&self) -> Result<Vec<(String, String)>, MpiIoError> {
        let mut hints = Vec::new();
        loop {
            let (mut name, mut value, mut found) = ([0; 512], [0; 2048], 0);
            // SAFETY: the file is open; both texts have the room given and are ended with a zero.
            let code = unsafe {
                sys::striate_mpiio_hint(
                    self.file,
                    int("hints", hints.len() as u64)?,
                    name.as_mut_ptr(),
                    name.len() as c_int,
                    value.as_mut_ptr(),
                    value.len() as c_int,
                    &raw mut found,
                )
            };
            self.check("MPI_File_get_info", code)?;
            if found == 0 {
                return Ok(hints);
            }
            // SAFETY: the call has ended both texts with a zero.
            let texts = unsafe { (CStr::from_ptr(name.as_ptr()), CStr::from_ptr(value.as_ptr())) };
            let owned = |text: &CStr| text.to_string_lossy().into_owned();
            hints.push((owned(texts.0), owned(texts.1)));
        }
    }

    /// Makes copies of `filetype` from byte `displacement` on what the file consists of.
    /// Collective.
    pub fn set_view(&mut self, displacement: u64, filetype: &Datatype) -> Result<(), MpiIoError> {
        if !filetype.is_monotonic() {
            return Err(MpiIoError::NotAView);
        }
        let (displacement, file) = (offset(displacement)?, self.file);
        let filetype = self.keep(filetype)?.raw.0;
        // SAFETY: the file is open, and the type exists.
        let code = unsafe { sys::striate_mpiio_set_view(file, displacement, filetype) };
        self.check("MPI_File_set_view", code)
    }

    /// Writes `count` copies of `datatype` from byte `offset` of the view on. Collective.
    pub fn write_at_all(
        &mut self,
        offset: u64,
        memory: &[u8],
        origin: usize,
        datatype: &Datatype,
        count: u64,
    ) -> Result<(), MpiIoError> {
        self.write("MPI_File_write_at_all", true, offset, (memory, origin), datatype, count)
    }

    /// Writes `count` copies of `datatype` from byte `offset` of the view on, by itself.
    pub fn write_at(
        &mut self,
        offset: u64,
        memory: &[u8],
        origin: usize,
        datatype: &Datatype,
        count: u64,
    ) -> Result<(), MpiIoError> {
        self.write("MPI_File_write_at", false, offset, (memory, origin), datatype, count)
    }

    /// Reads into `count` copies of `datatype` from byte `offset` of the view on. Collective.
    ///
    /// Returns the number of bytes that MPI reports. Beyond the end of the file that is less only
    /// where the implementation cares: OMPIO when reading alone, ROMIO for data in one piece.
    pub fn read_at_all(
        &mut self,
        offset: u64,
        memory: &mut [u8],
        origin: usize,
        datatype: &Datatype,
        count: u64,
    ) -> Result<u64, MpiIoError> {
        self.read("MPI_File_read_at_all", true, offset, (memory, origin), datatype, count)
    }

    /// As [`MpiIo::read_at_all`], by itself.
    pub fn read_at(
        &mut self,
        offset: u64,
        memory: &mut [u8],
        origin: usize,
        datatype: &Datatype,
        count: u64,
    ) -> Result<u64, MpiIoError> {
        self.read("MPI_File_read_at", false, offset, (memory, origin), datatype, count)
    }

    /// Sees to it that what was written is stored and visible to all ranks. Collective.
    pub fn sync(&mut self) -> Result<(), MpiIoError> {
        // SAFETY: the file is open.
        self.check("MPI_File_sync", unsafe { sys::striate_mpiio_sync(self.file) })
    }

    /// Closes the file. Collective.
    pub fn close(self) -> Result<(), MpiIoError> {
        // SAFETY: the file is open, and not used again.
        self.check("MPI_File_close", unsafe { sys::striate_mpiio_close(self.file) })
    }

    fn write(
        &mut self,
        call: &'static str,
        collective: bool,
        at: u64,
        (memory, origin): (&[u8], usize),
        datatype: &Datatype,
        count: u64,
    ) -> Result<(), MpiIoError> {
        let (at, file) = (offset(at)?, self.file);
        let ty = self.keep(datatype)?;
        let count = ty.fit(memory.len(), origin, count)?;
        let (raw, size) = (ty.raw.0, ty.size_of(count));
        let mut written = 0;
        // SAFETY: the file is open, the type exists, and all data of the copies lies in `memory`.
        let code = unsafe {
            let first = memory.as_ptr().wrapping_add(origin).cast();
            let collective = c_int::from(collective);
            sys::striate_mpiio_write(file, collective, at, first, count, raw, &raw mut written)
        };
        self.check(call, code)?;
        if u64::try_from(written) == Ok(size) {
            return Ok(());
        }
        let (component, path) = (self.component, self.path.clone());
        Err(MpiIoError::ShortWrite { component, path, written, size })
    }

    fn read(
        &mut self,
        call: &'static str,
        collective: bool,
        at: u64,
        (memory, origin): (&mut [u8], usize),
        datatype: &Datatype,
        count: u64,
    ) -> Result<u64, MpiIoError> {
        let (at, file) = (offset(at)?, self.file);
        let ty = self.keep(datatype)?;
        let count = ty.fit(memory.len(), origin, count)?;
        let raw = ty.raw.0;
        let mut bytes = 0;
        // SAFETY: the file is open, the type exists, and all data of the copies lies in `memory`.
        let code = unsafe {
            let first = memory.as_mut_ptr().wrapping_add(origin).cast();
            let collective = c_int::from(collective);
            sys::striate_mpiio_read(file, collective, at, first, count, raw, &raw mut bytes)
        };
        self.check(call, code)?;
        Ok(bytes.max(0) as u64)
    }

    /// The type as MPI's, built if it is new.
    fn keep(&mut self, datatype: &Datatype) -> Result<&MpiType, MpiIoError> {
        let known = self.types.iter().position(|(known, _)| known == datatype);
        let index = if let Some(index) = known {
            index
        } else {
            let built = MpiType::build(datatype)?;
            if self.types.len() == KEPT_TYPES {
                self.types.remove(0);
            }
            self.types.push((datatype.clone(), built));
            self.types.len() - 1
        };
        Ok(&self.types[index].1)
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<(), MpiIoError> {
        check(call, code).map_err(|source| MpiIoError::File {
            component: self.component,
            path: self.path.clone(),
            source,
        })
    }
}

fn c_string(bytes: &[u8]) -> Result<CString, MpiIoError> {
    CString::new(bytes)
        .map_err(|_| MpiIoError::ZeroByte { text: String::from_utf8_lossy(bytes).into_owned() })
}
