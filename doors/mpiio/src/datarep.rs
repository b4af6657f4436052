//! Data representations that a program registers, with its own conversion functions.
//!
//! They are called by the thread that calls MPI, once for a whole access, since they may call MPI
//! themselves. So an access needs memory for its data as it is in the file.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Mutex, PoisonError};

use crate::constants::{self as mpi, MPI_Count, MPI_Datatype, MPI_Offset};
use crate::entry::{self, export};
use crate::errors::{Failure, Outcome, check};
use crate::types::foreign::{self, InFile};
use crate::types::{Described, TypeProblem};
use crate::view::KeptType;

/// `MPI_Datarep_conversion_function`.
type Convert = unsafe extern "C" fn(
    *mut c_void,
    MPI_Datatype,
    c_int,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;

/// `MPI_Datarep_conversion_function_c`.
type ConvertLarge = unsafe extern "C" fn(
    *mut c_void,
    MPI_Datatype,
    MPI_Count,
    *mut c_void,
    MPI_Offset,
    *mut c_void,
) -> c_int;

/// `MPI_Datarep_extent_function`.
type Extent = unsafe extern "C" fn(MPI_Datatype, *mut isize, *mut c_void) -> c_int;

/// A function that converts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ConversionFunction {
    Int(Convert),
    Large(ConvertLarge),
}

/// A representation, from when it is registered to the end of the process.
#[derive(Debug)]
pub(crate) struct Registered {
    name: CString,
    /// Without one, memory is as the file is.
    pub(crate) read: Option<ConversionFunction>,
    pub(crate) write: Option<ConversionFunction>,
    extent: Extent,
    state: *mut c_void,
}

// SAFETY: what the state is, only the program's functions know; they are called by threads of the
// program.
unsafe impl Send for Registered {}
// SAFETY: as above.
unsafe impl Sync for Registered {}

static ALL: Mutex<Vec<&'static Registered>> = Mutex::new(Vec::new());

/// The representation of that name.
pub(crate) fn find(name: &CStr) -> Option<&'static Registered> {
    let all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    all.iter().copied().find(|known| known.name.as_c_str() == name)
}

impl Registered {
    pub(crate) fn name(&self) -> &CStr {
        &self.name
    }

    /// A type as a file of this representation holds it.
    pub(crate) fn in_file(&self, datatype: MPI_Datatype) -> Result<InFile, TypeProblem> {
        foreign::in_file(datatype, &mut |predefined| {
            let mut extent = 0;
            // SAFETY: the program's function, called as MPI says.
            let code = unsafe { (self.extent)(predefined, &raw mut extent, self.state) };
            match u32::try_from(extent) {
                Ok(extent) if code == mpi::SUCCESS && extent > 0 => Ok(extent),
                _ => Err(TypeProblem::Mpi { call: "the program's extent function", code }),
            }
        })
    }
}

/// An access whose memory a function of the program converts.
#[derive(Debug)]
pub(crate) struct Converted {
    representation: &'static Registered,
    function: ConversionFunction,
    /// The program's buffer; a number, since other threads keep it, too, but never use it.
    address: usize,
    datatype: KeptType,
    in_file: InFile,
    /// What the file holds.
    pub(crate) bytes: Vec<u8>,
}

impl Converted {
    /// Room for `len` bytes of the file.
    pub(crate) fn new(
        representation: &'static Registered,
        function: ConversionFunction,
        (address, datatype, described): (*mut c_void, MPI_Datatype, &Described),
        in_file: InFile,
        len: u64,
    ) -> Outcome<Self> {
        let (mut bytes, room) = (Vec::new(), len as usize);
        let full = |_| Failure::new(mpi::ERR_NO_MEM, "no memory to convert data in");
        bytes.try_reserve_exact(room).map_err(full)?;
        bytes.resize(room, 0);
        let datatype = KeptType::new(datatype, described)?;
        Ok(Self { representation, function, address: address as usize, datatype, in_file, bytes })
    }

    /// Has the first `len` bytes of what the file holds converted, from or to the program's buffer.
    pub(crate) fn convert(&mut self, len: u64) -> Outcome {
        let (each, size) = (self.in_file.items(), self.in_file.size);
        let all = len / size * each + self.in_file.whole_items(len % size);
        // A function counts with an int; where one call is too short, others go on at copies of the
        // type.
        let at_once = match self.function {
            ConversionFunction::Int(_) => c_int::MAX as u64 / each * each,
            ConversionFunction::Large(_) => all,
        };
        if at_once == 0 && all > 0 {
            return Err(Failure::new(mpi::ERR_COUNT, "a datatype has too many items"));
        }
        let mut position = 0;
        while position < all {
            let count = at_once.min(all - position);
            let file = self.bytes[(position / each * size) as usize..].as_mut_ptr().cast();
            let (user, of) = (self.address as *mut c_void, self.datatype.raw());
            let (at, state) = (position as MPI_Offset, self.representation.state);
            // SAFETY: the program's function, called as MPI says: its buffer is left to the call
            // until that is complete, and so many items are behind the place in ours.
            check(unsafe {
                match self.function {
                    ConversionFunction::Int(convert) => {
                        convert(user, of, count as c_int, file, at, state)
                    }
                    ConversionFunction::Large(convert) => {
                        convert(user, of, count as MPI_Count, file, at, state)
                    }
                }
            })
            .map_err(|_| {
                Failure::new(mpi::ERR_CONVERSION, "the program's function did not convert")
            })?;
            position += count;
        }
        Ok(())
    }
}

/// # Safety
///
/// `name` is null or a C string, and the functions are as MPI demands.
unsafe fn register(
    name: *const c_char,
    [read, write]: [Option<ConversionFunction>; 2],
    extent: Option<Extent>,
    state: *mut c_void,
) -> Outcome {
    let wrong = |reason| Err(Failure::new(mpi::ERR_ARG, reason));
    if name.is_null() {
        return wrong("the name is null");
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    if name.is_empty() || name.count_bytes() >= mpi::MAX_DATAREP_STRING as usize {
        return wrong("the name is empty or too long");
    }
    let Some(extent) = extent else { return wrong("there is no extent function") };
    let predefined = matches!(name.to_bytes(), b"native" | b"internal" | b"external32");
    let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
    if predefined || all.iter().any(|known| known.name.as_c_str() == name) {
        return Err(Failure::new(mpi::ERR_DUP_DATAREP, "the representation is already registered"));
    }
    let name = name.to_owned();
    all.push(Box::leak(Box::new(Registered { name, read, write, extent, state })));
    Ok(())
}

export! {
    "Register_datarep"(
        name: *const c_char,
        read: Option<Convert>,
        write: Option<Convert>,
        extent: Option<Extent>,
        state: *mut c_void
    ) -> c_int => entry::alone("MPI_Register_datarep", || {
        let functions = [read, write].map(|function| function.map(ConversionFunction::Int));
        // SAFETY: what the program gave.
        unsafe { register(name, functions, extent, state) }
    });
    "Register_datarep_c"(
        name: *const c_char,
        read: Option<ConvertLarge>,
        write: Option<ConvertLarge>,
        extent: Option<Extent>,
        state: *mut c_void
    ) -> c_int => entry::alone("MPI_Register_datarep_c", || {
        let functions = [read, write].map(|function| function.map(ConversionFunction::Large));
        // SAFETY: what the program gave.
        unsafe { register(name, functions, extent, state) }
    });
}
