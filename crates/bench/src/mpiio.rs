//! The system's own MPI-IO as a peer, in the same process: [`MpiIo`] is a file that it opened.
//!
//! Our ranks are processes of the same MPI, so both sides of a comparison run in turn in one job. The
//! calls are those of `peer/mpiio.c`, compiled by the wrapper (`MPICC`) of that MPI. Open MPI has two
//! implementations, OMPIO and ROMIO, and each file says which of them it is opened with.
//!
//! Our types are given to MPI as the constructors that the normal form is made of, so that it sees as
//! much structure as we do; runs of bytes become block lengths, not types of their own. A file keeps the
//! types that it met: repeated calls do not build them anew.

use std::ffi::{CStr, CString, c_char, c_int};
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use striate_comm::mpi;
use striate_datatype::{Datatype, Loop, Node};
use thiserror::Error;

mod sys {
    use std::ffi::{c_char, c_int, c_void};

    unsafe extern "C" {
        pub(super) safe fn striate_mpiio_is_openmpi() -> c_int;
        pub(super) safe fn striate_mpiio_is_running() -> c_int;
        pub(super) fn striate_mpiio_error_string(code: c_int, text: *mut c_char, room: c_int);
        pub(super) fn striate_mpiio_errors_return(saved: *mut isize) -> c_int;
        pub(super) fn striate_mpiio_errors_restore(saved: *const isize);

        pub(super) safe fn striate_mpiio_byte() -> isize;
        pub(super) fn striate_mpiio_contiguous(
            count: c_int,
            child: isize,
            made: *mut isize,
        ) -> c_int;
        pub(super) fn striate_mpiio_hvector(
            count: c_int,
            block: c_int,
            stride: i64,
            child: isize,
            made: *mut isize,
        ) -> c_int;
        pub(super) fn striate_mpiio_hindexed_block(
            count: c_int,
            block: c_int,
            offsets: *const i64,
            child: isize,
            made: *mut isize,
        ) -> c_int;
        pub(super) fn striate_mpiio_hindexed(
            count: c_int,
            blocks: *const c_int,
            offsets: *const i64,
            child: isize,
            made: *mut isize,
        ) -> c_int;
        pub(super) fn striate_mpiio_struct(
            count: c_int,
            blocks: *const c_int,
            offsets: *const i64,
            children: *const isize,
            made: *mut isize,
        ) -> c_int;
        pub(super) fn striate_mpiio_resized(
            child: isize,
            lb: i64,
            extent: i64,
            made: *mut isize,
        ) -> c_int;
        pub(super) fn striate_mpiio_bounds(ty: isize, bounds: *mut i64) -> c_int;
        pub(super) fn striate_mpiio_commit(ty: isize) -> c_int;
        pub(super) fn striate_mpiio_free(ty: isize);
        pub(super) fn striate_mpiio_pack(
            memory: *const c_void,
            count: c_int,
            ty: isize,
            stream: *mut c_void,
            room: c_int,
            position: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_mpiio_unpack(
            stream: *const c_void,
            len: c_int,
            position: *mut c_int,
            memory: *mut c_void,
            count: c_int,
            ty: isize,
        ) -> c_int;

        pub(super) fn striate_mpiio_open(
            romio: c_int,
            path: *const c_char,
            create: c_int,
            hints: *const *const c_char,
            count: c_int,
            file: *mut isize,
            found: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_mpiio_implementation(file: isize) -> *const c_char;
        pub(super) fn striate_mpiio_hint(
            file: isize,
            index: c_int,
            name: *mut c_char,
            name_room: c_int,
            value: *mut c_char,
            value_room: c_int,
            found: *mut c_int,
        ) -> c_int;
        pub(super) fn striate_mpiio_close(file: isize) -> c_int;
        pub(super) fn striate_mpiio_sync(file: isize) -> c_int;
        pub(super) fn striate_mpiio_set_view(
            file: isize,
            displacement: i64,
            filetype: isize,
        ) -> c_int;
        pub(super) fn striate_mpiio_write(
            file: isize,
            collective: c_int,
            offset: i64,
            memory: *const c_void,
            count: c_int,
            ty: isize,
            bytes: *mut i64,
        ) -> c_int;
        pub(super) fn striate_mpiio_read(
            file: isize,
            collective: c_int,
            offset: i64,
            memory: *mut c_void,
            count: c_int,
            ty: isize,
            bytes: *mut i64,
        ) -> c_int;
    }
}

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
    #[error("this was built for {built}, but runs with {running:?}: build anew with one MPICC")]
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
    /// MPI opened the file with another implementation than it was told to.
    #[error("{} was opened by {got:?} and not by {asked}", path.display())]
    Component {
        /// The file.
        path: PathBuf,
        /// What was asked for.
        asked: &'static str,
        /// What came; empty if that cannot be told.
        got: String,
    },
    /// A path or hint that C cannot hold.
    #[error("{text:?} contains a zero byte")]
    ZeroByte {
        /// The path, or the hint's name or value.
        text: String,
    },
    /// A number that MPI cannot be given.
    #[error("{value} {what} are more than MPI can be told")]
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
fn ready() -> Result<(), MpiIoError> {
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

/// A description as a type of MPI, ready for use.
#[derive(Debug)]
pub struct MpiType {
    raw: RawType,
    size: u64,
    extent: i64,
    /// The lowest offset of the data, and one past the highest.
    span: (i64, i64),
}

impl MpiType {
    /// Builds the type. MPI has to be initialised.
    pub fn build(datatype: &Datatype) -> Result<Self, MpiIoError> {
        let _errors = ErrorsReturn::begin()?;
        let (lb, extent) = (datatype.lower_bound(), datatype.extent());
        let size = datatype.size();
        let mut raw = RawType::of(datatype.root(), datatype.first_offset())?;
        let bounds = raw.bounds()?;
        if (bounds.lb, bounds.extent) != (lb, extent) {
            raw = raw.resized(lb, extent)?;
        }
        // What MPI takes for other bytes than we do would leave the memory that was checked.
        let RawBounds { true_lb, true_extent, size: raw_size, .. } = raw.bounds()?;
        let ours = (datatype.true_lower_bound(), datatype.true_extent() as i64, size);
        let theirs = (true_lb, true_extent, raw_size);
        if size > 0 && ours != theirs || raw_size != size {
            return Err(MpiIoError::Differs { ours, theirs });
        }
        // SAFETY: the type exists.
        let code = unsafe { sys::striate_mpiio_commit(raw.0) };
        check("MPI_Type_commit", code).map_err(MpiIoError::Type)?;
        let span = (datatype.true_lower_bound(), datatype.true_upper_bound());
        Ok(Self { raw, size, extent, span })
    }

    /// Gathers `count` copies from `memory` into `stream` with `MPI_Pack`.
    pub fn pack(
        &self,
        memory: &[u8],
        origin: usize,
        count: u64,
        stream: &mut [u8],
    ) -> Result<(), MpiIoError> {
        let count = self.fit(memory.len(), origin, count)?;
        let room = self.stream(count, stream.len())?;
        let _errors = ErrorsReturn::begin()?;
        let mut position = 0;
        // SAFETY: all data of the copies lies in `memory`, and the stream has the room it says.
        let code = unsafe {
            let first = memory.as_ptr().wrapping_add(origin).cast();
            let to = stream.as_mut_ptr().cast();
            sys::striate_mpiio_pack(first, count, self.raw.0, to, room, &raw mut position)
        };
        check("MPI_Pack", code).map_err(MpiIoError::Type)
    }

    /// Scatters `stream` to `count` copies in `memory` with `MPI_Unpack`.
    pub fn unpack(
        &self,
        stream: &[u8],
        memory: &mut [u8],
        origin: usize,
        count: u64,
    ) -> Result<(), MpiIoError> {
        let count = self.fit(memory.len(), origin, count)?;
        let len = self.stream(count, stream.len())?;
        let _errors = ErrorsReturn::begin()?;
        let mut position = 0;
        // SAFETY: all data of the copies lies in `memory`, and the stream has the length it says.
        let code = unsafe {
            let first = memory.as_mut_ptr().wrapping_add(origin).cast();
            let from = stream.as_ptr().cast();
            sys::striate_mpiio_unpack(from, len, &raw mut position, first, count, self.raw.0)
        };
        check("MPI_Unpack", code).map_err(MpiIoError::Type)
    }

    /// Checks that the data of `count` copies lies in the memory; the count as MPI takes it.
    fn fit(&self, len: usize, origin: usize, count: u64) -> Result<c_int, MpiIoError> {
        let count = int("copies", count)?;
        if count > 0 && self.size > 0 {
            let last = i128::from(count - 1) * i128::from(self.extent);
            let low = i128::from(self.span.0) + last.min(0);
            let high = i128::from(self.span.1) + last.max(0);
            let (before, behind) = (origin as i128, len as i128 - origin as i128);
            if low < -before || high > behind {
                return Err(MpiIoError::Outside { low, high, origin, len });
            }
        }
        Ok(count)
    }

    fn stream(&self, count: c_int, len: usize) -> Result<c_int, MpiIoError> {
        let size = self.size_of(count);
        if len as u64 != size {
            return Err(MpiIoError::Stream { len, size });
        }
        int("bytes of stream", size)
    }

    fn size_of(&self, count: c_int) -> u64 {
        self.size.saturating_mul(count as u64)
    }
}

/// Bounds that MPI gives a type.
struct RawBounds {
    lb: i64,
    extent: i64,
    true_lb: i64,
    true_extent: i64,
    size: u64,
}

/// A type of MPI that is ours to free.
#[derive(Debug)]
struct RawType(isize);

impl Drop for RawType {
    fn drop(&mut self) {
        if sys::striate_mpiio_is_running() != 0 {
            // SAFETY: the type exists and is not used again; whatever was made of it outlives it.
            unsafe { sys::striate_mpiio_free(self.0) };
        }
    }
}

/// What a loop repeats: bytes are blocks of MPI's own type.
struct Part {
    ty: Option<RawType>,
    block: c_int,
}

impl Part {
    fn of(node: &Node) -> Result<Self, MpiIoError> {
        Ok(match node.kind() {
            Loop::Bytes => Self { ty: None, block: int("bytes of a run", node.size())? },
            _ => Self { ty: Some(RawType::of(node, 0)?), block: 1 },
        })
    }

    fn handle(&self) -> isize {
        self.ty.as_ref().map_or_else(|| sys::striate_mpiio_byte(), |ty| ty.0)
    }
}

impl RawType {
    /// Adopts what a constructor made.
    fn made(
        call: &'static str,
        construct: impl FnOnce(*mut isize) -> c_int,
    ) -> Result<Self, MpiIoError> {
        let mut made = 0;
        check(call, construct(&raw mut made)).map_err(MpiIoError::Type)?;
        Ok(Self(made))
    }

    /// The type of a loop whose first byte lies at `at`.
    fn of(node: &Node, at: i64) -> Result<Self, MpiIoError> {
        match node.kind() {
            Loop::Bytes => {
                let part = Part::of(node)?;
                if at == 0 { Self::contiguous(part.block, part.handle()) } else { part.at(&[at]) }
            }
            Loop::Contig { count, child } => {
                let (count, child) = (int("copies", *count)?, Self::of(child, 0)?);
                let bounds = child.bounds()?;
                if bounds.extent == bounds.true_extent {
                    Self::contiguous(count, child.0)?.displaced(at)
                } else {
                    let part = Part { ty: Some(child), block: 1 };
                    part.repeated(count, bounds.true_extent)?.displaced(at)
                }
            }
            Loop::Vector { count, stride, child } => {
                Part::of(child)?.repeated(int("copies", *count)?, *stride)?.displaced(at)
            }
            Loop::BlockIndexed { offsets, child } => {
                let offsets: Vec<i64> = offsets.iter().map(|offset| offset + at).collect();
                Part::of(child)?.at(&offsets)
            }
            Loop::Indexed { blocks, child, stride } => {
                let offsets: Vec<i64> = blocks.iter().map(|block| block.offset + at).collect();
                // Where runs of bytes touch, a block is a longer run.
                let touch = matches!(child.kind(), Loop::Bytes) && child.size() as i64 == *stride;
                let unit = if touch { child.size() } else { 1 };
                let lens: Vec<c_int> = blocks
                    .iter()
                    .map(|block| int("children of a block", block.len.saturating_mul(unit)))
                    .collect::<Result<_, _>>()?;
                if touch {
                    return Self::hindexed(&lens, &offsets, sys::striate_mpiio_byte());
                }
                let mut child = Self::of(child, 0)?;
                let bounds = child.bounds()?;
                if bounds.extent != *stride {
                    child = child.resized(bounds.lb, *stride)?;
                }
                Self::hindexed(&lens, &offsets, child.0)
            }
            Loop::Struct { fields } => {
                let offsets: Vec<i64> = fields.iter().map(|field| field.offset + at).collect();
                let parts: Vec<Part> =
                    fields.iter().map(|field| Part::of(&field.child)).collect::<Result<_, _>>()?;
                let lens: Vec<c_int> = parts.iter().map(|part| part.block).collect();
                let types: Vec<isize> = parts.iter().map(Part::handle).collect();
                let count = int("fields", fields.len() as u64)?;
                let (lens, offsets, types) = (lens.as_ptr(), offsets.as_ptr(), types.as_ptr());
                // SAFETY: the lists have `count` entries, and the types exist.
                Self::made("MPI_Type_create_struct", |made| unsafe {
                    sys::striate_mpiio_struct(count, lens, offsets, types, made)
                })
            }
        }
    }

    fn contiguous(count: c_int, child: isize) -> Result<Self, MpiIoError> {
        // SAFETY: the child exists.
        Self::made("MPI_Type_contiguous", |made| unsafe {
            sys::striate_mpiio_contiguous(count, child, made)
        })
    }

    fn hindexed(lens: &[c_int], offsets: &[i64], child: isize) -> Result<Self, MpiIoError> {
        let count = int("blocks", lens.len().min(offsets.len()) as u64)?;
        // SAFETY: both lists have `count` entries, and the child exists.
        Self::made("MPI_Type_create_hindexed", |made| unsafe {
            sys::striate_mpiio_hindexed(count, lens.as_ptr(), offsets.as_ptr(), child, made)
        })
    }

    fn resized(&self, lb: i64, extent: i64) -> Result<Self, MpiIoError> {
        // SAFETY: the type exists.
        Self::made("MPI_Type_create_resized", |made| unsafe {
            sys::striate_mpiio_resized(self.0, lb, extent, made)
        })
    }

    fn displaced(self, by: i64) -> Result<Self, MpiIoError> {
        if by == 0 { Ok(self) } else { Part { ty: Some(self), block: 1 }.at(&[by]) }
    }

    fn bounds(&self) -> Result<RawBounds, MpiIoError> {
        let mut bounds = [0; 5];
        // SAFETY: the type exists, and there is room for the five numbers.
        let code = unsafe { sys::striate_mpiio_bounds(self.0, bounds.as_mut_ptr()) };
        check("MPI_Type_get_extent", code).map_err(MpiIoError::Type)?;
        let [lb, extent, true_lb, true_extent, size] = bounds;
        Ok(RawBounds { lb, extent, true_lb, true_extent, size: size as u64 })
    }
}

impl Part {
    fn repeated(&self, count: c_int, stride: i64) -> Result<RawType, MpiIoError> {
        if stride == -1 {
            // Open MPI 4 takes this number for "as far as the child reaches".
            let child = RawType::contiguous(self.block, self.handle())?;
            return RawType::contiguous(count, child.resized(0, stride)?.0);
        }
        // SAFETY: the child exists.
        RawType::made("MPI_Type_create_hvector", |made| unsafe {
            sys::striate_mpiio_hvector(count, self.block, stride, self.handle(), made)
        })
    }

    fn at(&self, offsets: &[i64]) -> Result<RawType, MpiIoError> {
        let count = int("blocks", offsets.len() as u64)?;
        let (list, child) = (offsets.as_ptr(), self.handle());
        // SAFETY: the list has `count` entries, and the child exists.
        RawType::made("MPI_Type_create_hindexed_block", |made| unsafe {
            sys::striate_mpiio_hindexed_block(count, self.block, list, child, made)
        })
    }
}

/// Types that a file keeps; accesses of a benchmark use a few again and again.
const KEPT_TYPES: usize = 16;

/// A file of all ranks of the job, opened with the system's MPI-IO.
///
/// [`MpiIo::close`] it, on all ranks: a file that is only dropped stays open, since a rank that gives up
/// alone must not wait for the others.
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
        // SAFETY: MPI runs, all texts end with a zero and outlive the call, and there are two for each
        // of the `count` hints.
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

    /// The hints that the file uses, as far as MPI tells: Open MPI tells those it was given only.
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

    /// Makes copies of `filetype` from byte `displacement` on what the file consists of. Collective.
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
    /// Returns the number of bytes as MPI tells it. Beyond the end of the file that is less only where
    /// the implementation cares: OMPIO when reading alone, ROMIO for data in one piece.
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
