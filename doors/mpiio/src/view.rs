//! Views of files (`MPI_File_set_view`): the datatypes that the program gave, and the view that
//! they describe.

use std::ffi::{CStr, c_char};

use mpi::ffi;
use striate_datatype::Datatype;
use striate_file::View;

use crate::constants::{self as mpi_constants, MPI_Datatype, MPI_Info, MPI_Offset};
use crate::datarep::{self, Registered};
use crate::errors::{Failure, Outcome, check};
use crate::info;
use crate::open::Open;
use crate::types::{Described, describe};

/// How the bytes of a file represent data.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Representation {
    /// As they lie in memory.
    Native,
    /// As the implementation likes, which is the same here.
    Internal,
    /// As the standard says, for every machine.
    External32,
    /// As functions of the program say.
    Registered(&'static Registered),
}

impl Representation {
    /// The representation of that name.
    fn named(name: &CStr) -> Outcome<Self> {
        match name.to_bytes() {
            b"native" => Ok(Self::Native),
            b"internal" => Ok(Self::Internal),
            b"external32" => Ok(Self::External32),
            _ => datarep::find(name).map(Self::Registered).ok_or(Failure::new(
                mpi_constants::ERR_UNSUPPORTED_DATAREP,
                "the data representation is not known",
            )),
        }
    }

    fn name(self) -> &'static CStr {
        match self {
            Self::Native => c"native",
            Self::Internal => c"internal",
            Self::External32 => c"external32",
            Self::Registered(registered) => registered.name(),
        }
    }

    /// A type as the file holds it.
    fn in_file(self, raw: MPI_Datatype, described: &Described) -> Outcome<Datatype> {
        Ok(match self {
            Self::Native | Self::Internal => described.datatype.clone(),
            Self::External32 => described.external()?.datatype.clone(),
            Self::Registered(registered) => registered.in_file(raw)?.datatype,
        })
    }
}

/// A datatype of the program that is kept beyond the call that gave it.
#[derive(Debug)]
pub(crate) struct KeptType {
    raw: MPI_Datatype,
    predefined: bool,
}

// SAFETY: a handle names a datatype from any thread.
unsafe impl Send for KeptType {}

impl KeptType {
    pub(crate) fn new(raw: MPI_Datatype, described: &Described) -> Outcome<Self> {
        if described.predefined {
            return Ok(Self { raw, predefined: true });
        }
        let mut copy = mpi_constants::datatype_null();
        // SAFETY: the type exists, as it could be described.
        check(unsafe { ffi::MPI_Type_dup(raw, &raw mut copy) })?;
        Ok(Self { raw: copy, predefined: false })
    }

    /// The type, for as long as it is kept.
    pub(crate) const fn raw(&self) -> MPI_Datatype {
        self.raw
    }

    /// A handle for the program: predefined types themselves, others as copies, which it frees.
    fn handle(&self) -> Outcome<MPI_Datatype> {
        if self.predefined {
            return Ok(self.raw);
        }
        let mut copy = mpi_constants::datatype_null();
        // SAFETY: the type is ours.
        check(unsafe { ffi::MPI_Type_dup(self.raw, &raw mut copy) })?;
        Ok(copy)
    }
}

impl Drop for KeptType {
    fn drop(&mut self) {
        if !self.predefined {
            // SAFETY: the type is ours, and this is its end.
            let _ = unsafe { ffi::MPI_Type_free(&raw mut self.raw) };
        }
    }
}

/// The view of a file as the program gave it.
#[derive(Debug)]
pub(crate) struct ProgramView {
    displacement: MPI_Offset,
    etype: KeptType,
    filetype: KeptType,
    pub(crate) representation: Representation,
    /// Bytes of an etype in the file.
    pub(crate) etype_size: u64,
}

impl ProgramView {
    /// That of a file that was just opened.
    pub(crate) fn bytes() -> Self {
        let byte = || KeptType { raw: mpi_constants::byte(), predefined: true };
        Self {
            displacement: 0,
            etype: byte(),
            filetype: byte(),
            representation: Representation::Native,
            etype_size: 1,
        }
    }
}

/// The arguments of `MPI_File_set_view`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ViewArguments {
    pub(crate) displacement: MPI_Offset,
    pub(crate) etype: MPI_Datatype,
    pub(crate) filetype: MPI_Datatype,
    pub(crate) representation: *const c_char,
    pub(crate) info: MPI_Info,
}

/// `MPI_File_set_view`.
pub(crate) fn set(open: &mut Open, wanted: ViewArguments) -> Outcome {
    let checked = check_view(open, wanted);
    let (of_program, view, entries) = open.agreed(checked)?;
    let hints = open.take_hints(entries);
    open.file.set_view_and_hints(view, hints.as_ref())?;
    open.details.offset = Some(of_program.displacement);
    open.view = of_program;
    Ok(())
}

/// The view, and hints that come with it.
type Checked = (ProgramView, View, Vec<(String, String)>);

fn check_view(open: &mut Open, wanted: ViewArguments) -> Outcome<Checked> {
    open.no_split()?;
    let displacement = displacement(open, wanted.displacement)?;
    if wanted.representation.is_null() {
        return Err(Failure::new(mpi_constants::ERR_ARG, "the data representation is null"));
    }
    // SAFETY: the program's C string.
    let representation = Representation::named(unsafe { CStr::from_ptr(wanted.representation) })?;
    let etype = describe(wanted.etype)?;
    let filetype = describe(wanted.filetype)?;
    // SAFETY: the program's info.
    let entries = unsafe { info::entries(wanted.info) }?;
    let etypes = representation.in_file(wanted.etype, &etype)?;
    let filetypes = representation.in_file(wanted.filetype, &filetype)?;
    // Types that overlap themselves are for files that are only read.
    let only_read = open.amode & mpi_constants::MODE_RDONLY != 0;
    let view = if only_read { View::for_reading } else { View::new };
    let view = view(displacement as u64, &etypes, &filetypes)?;
    let of_program = ProgramView {
        displacement,
        etype: KeptType::new(wanted.etype, &etype)?,
        filetype: KeptType::new(wanted.filetype, &filetype)?,
        representation,
        etype_size: etypes.size(),
    };
    Ok((of_program, view, entries))
}

/// Where the view begins. `MPI_DISPLACEMENT_CURRENT` is for files that are only gone through from
/// the start to the end, and such files have no other.
fn displacement(open: &mut Open, wanted: MPI_Offset) -> Outcome<MPI_Offset> {
    if open.is_sequential() {
        if wanted != mpi_constants::DISPLACEMENT_CURRENT {
            return Err(Failure::new(
                mpi_constants::ERR_UNSUPPORTED_OPERATION,
                "a sequential file has no other displacement than the current one",
            ));
        }
        // Where the shared pointer is, the only one that such a file has.
        let position = open.file.position_shared()?.saturating_mul(open.view.etype_size);
        return Ok(open.file.view().byte_offset(position)? as MPI_Offset);
    }
    if wanted < 0 {
        return Err(Failure::new(mpi_constants::ERR_ARG, "the displacement is negative"));
    }
    Ok(wanted)
}

/// `MPI_File_get_view`.
///
/// # Safety
///
/// Everything leads to places as the function of MPI demands.
pub(crate) unsafe fn get(
    open: &Open,
    displacement: *mut MPI_Offset,
    etype: *mut MPI_Datatype,
    filetype: *mut MPI_Datatype,
    representation: *mut c_char,
) -> Outcome {
    let view = &open.view;
    let name = view.representation.name();
    // SAFETY: the caller's promise; the name is shorter than MPI_MAX_DATAREP_STRING.
    unsafe {
        displacement.write(view.displacement);
        etype.write(view.etype.handle()?);
        filetype.write(view.filetype.handle()?);
        representation.copy_from_nonoverlapping(name.as_ptr(), name.to_bytes_with_nul().len());
    }
    Ok(())
}

/// Bytes from one element of a type to the next, in the file.
pub(crate) fn extent(open: &Open, datatype: MPI_Datatype) -> Outcome<i64> {
    let described = describe(datatype)?;
    Ok(match open.view.representation {
        Representation::Native | Representation::Internal => described.extent,
        Representation::External32 => described.external()?.extent,
        Representation::Registered(registered) => registered.in_file(datatype)?.datatype.extent(),
    })
}

/// `MPI_File_get_byte_offset`.
pub(crate) fn byte_offset(open: &Open, offset: MPI_Offset) -> Outcome<MPI_Offset> {
    open.not_sequential()?;
    let position = u64::try_from(offset)
        .ok()
        .and_then(|offset| offset.checked_mul(open.view.etype_size))
        .ok_or(Failure::new(mpi_constants::ERR_ARG, "the offset is negative or too large"))?;
    Ok(open.file.view().byte_offset(position)? as MPI_Offset)
}
