//! The functions of MPI that move no data, under their names.

use std::ffi::{c_char, c_int};

use crate::constants::{
    self as mpi, MPI_Comm, MPI_Count, MPI_Datatype, MPI_Errhandler, MPI_File, MPI_Group, MPI_Info,
    MPI_Offset,
};
use crate::entry::{self, export, on_file};
use crate::errhandlers::{self, CFunction, HandlerFunction};
use crate::errors::{Failure, Outcome};
use crate::handle::{self, HandleKind};
use crate::native::Native;
use crate::view::ViewArguments;
use crate::{call_record, management, open, shared_pointer, view};

type OpenFunction =
    unsafe extern "C" fn(MPI_Comm, *const c_char, c_int, MPI_Info, *mut MPI_File) -> c_int;
type CloseFunction = unsafe extern "C" fn(*mut MPI_File) -> c_int;
type DeleteFunction = unsafe extern "C" fn(*const c_char, MPI_Info) -> c_int;
type NumberFunction = unsafe extern "C" fn(MPI_File) -> c_int;
type HandleFunction = unsafe extern "C" fn(c_int) -> MPI_File;

// SAFETY: the types of these functions.
static OPEN: Native<OpenFunction> = unsafe { Native::new("PMPI_File_open\0") };
// SAFETY: as above.
static CLOSE: Native<CloseFunction> = unsafe { Native::new("PMPI_File_close\0") };
// SAFETY: as above.
static DELETE: Native<DeleteFunction> = unsafe { Native::new("PMPI_File_delete\0") };
// SAFETY: as above.
static NUMBER: Native<NumberFunction> = unsafe { Native::new("PMPI_File_c2f\0") };
// SAFETY: as above.
static HANDLE: Native<HandleFunction> = unsafe { Native::new("PMPI_File_f2c\0") };

/// Writes a result to where the program wants it.
///
/// # Safety
///
/// `to` is null or leads to a place for it.
unsafe fn give<T>(to: *mut T, value: Outcome<T>) -> Outcome {
    if to.is_null() {
        return Err(Failure::new(mpi::ERR_ARG, "the pointer for the result is null"));
    }
    // SAFETY: the caller's promise.
    unsafe { to.write(value?) };
    Ok(())
}

/// # Safety
///
/// As of the function of MPI.
unsafe fn open_file(
    comm: MPI_Comm,
    name: *const c_char,
    amode: c_int,
    info: MPI_Info,
    file: *mut MPI_File,
) -> c_int {
    // SAFETY: what the program gave, here and there.
    unsafe {
        match OPEN.get().filter(|_| open::is_excluded(name)) {
            Some(native) => native(comm, name, amode, info, file),
            None => open::open(comm, name, amode, info, file),
        }
    }
}

/// # Safety
///
/// As of the function of MPI.
unsafe fn close_file(file: *mut MPI_File) -> c_int {
    // SAFETY: what the program gave, here and there.
    unsafe {
        match open::to_close(file) {
            HandleKind::Ours(slot) => open::close(slot, file),
            HandleKind::Null => entry::alone("MPI_File_close", || Err(Failure::no_file())),
            HandleKind::Foreign => CLOSE.get().map_or(mpi::ERR_FILE, |native| native(file)),
        }
    }
}

/// # Safety
///
/// As of the function of MPI.
unsafe fn delete_file(name: *const c_char, info: MPI_Info) -> c_int {
    // SAFETY: what the program gave, here and there.
    unsafe {
        match DELETE.get().filter(|_| open::is_excluded(name)) {
            Some(native) => native(name, info),
            None => entry::alone("MPI_File_delete", || open::delete(name)),
        }
    }
}

fn number_of(file: MPI_File) -> c_int {
    match handle::find(file) {
        HandleKind::Ours(slot) => slot.number(),
        // SAFETY: a handle of the MPI's own, or none.
        _ => NUMBER.get().map_or(0, |native| unsafe { native(file) }),
    }
}

fn handle_of(number: c_int) -> MPI_File {
    match handle::by_number(number) {
        Some(slot) => slot.handle(),
        // SAFETY: a number of the MPI's own, or none.
        None => HANDLE.get().map_or_else(mpi::file_null, |native| unsafe { native(number) }),
    }
}

/// # Safety
///
/// `handler` leads to a place for a handle.
unsafe fn create_handler(function: Option<CFunction>, handler: *mut MPI_Errhandler) -> c_int {
    entry::alone("MPI_File_create_errhandler", || {
        let function = function.ok_or(Failure::new(mpi::ERR_ARG, "the function is null"))?;
        // SAFETY: the caller's promise.
        unsafe { give(handler, errhandlers::create(HandlerFunction::C(function))) }
    })
}

// SAFETY (of the calls below): what the program gave is passed on as MPI defines it.
export! {
    "File_open"(comm: MPI_Comm, name: *const c_char, amode: c_int, info: MPI_Info, file: *mut MPI_File) -> c_int
        // SAFETY: what the program gave.
        => unsafe { open_file(comm, name, amode, info, file) };
    "File_close"(file: *mut MPI_File) -> c_int
        // SAFETY: what the program gave.
        => unsafe { close_file(file) };
    "File_delete"(name: *const c_char, info: MPI_Info) -> c_int
        // SAFETY: what the program gave.
        => unsafe { delete_file(name, info) };
    "File_c2f"(file: MPI_File) -> c_int => number_of(file);
    "File_f2c"(number: c_int) -> MPI_File => handle_of(number);
    "File_create_errhandler"(function: Option<CFunction>, handler: *mut MPI_Errhandler) -> c_int
        // SAFETY: what the program gave.
        => unsafe { create_handler(function, handler) };
    "File_set_errhandler"(file: MPI_File, handler: MPI_Errhandler) -> c_int => errhandlers::set(file, handler);
    "File_get_errhandler"(file: MPI_File, handler: *mut MPI_Errhandler) -> c_int
        // SAFETY: what the program gave.
        => unsafe { errhandlers::get(file, handler) };
    "File_call_errhandler"(file: MPI_File, code: c_int) -> c_int => errhandlers::call(file, code);
}

on_file! {
    "File_set_size" [MpiSetSize] (size: MPI_Offset) |open| management::set_size(open, size);
    "File_preallocate" [MpiPreallocate] (size: MPI_Offset) |open| management::preallocate(open, size);
    "File_get_size" [MpiGetSize] (size: *mut MPI_Offset) |open|
        // SAFETY: what the program gave.
        unsafe { give(size, management::size(open)) };
    "File_get_group"(group: *mut MPI_Group) |open|
        // SAFETY: what the program gave.
        unsafe { give(group, open.group.copy()) };
    "File_get_amode"(amode: *mut c_int) |open|
        // SAFETY: what the program gave.
        unsafe { give(amode, Ok(open.amode)) };
    "File_set_info" [MpiSetInfo] (info: MPI_Info) |open|
        // SAFETY: what the program gave.
        unsafe { management::set_info(open, info) };
    "File_get_info" [MpiGetInfo] (info: *mut MPI_Info) |open|
        // SAFETY: what the program gave.
        unsafe { give(info, management::get_info(open)) };
    "File_set_view" [MpiSetView] (
        displacement: MPI_Offset,
        etype: MPI_Datatype,
        filetype: MPI_Datatype,
        representation: *const c_char,
        info: MPI_Info
    ) |open| view::set(open, ViewArguments { displacement, etype, filetype, representation, info });
    "File_get_view" [MpiGetView] (
        displacement: *mut MPI_Offset,
        etype: *mut MPI_Datatype,
        filetype: *mut MPI_Datatype,
        representation: *mut c_char
    ) |open|
        // SAFETY: what the program gave.
        unsafe { view::get(open, displacement, etype, filetype, representation) };
    "File_seek" [MpiSeek] (offset: MPI_Offset, whence: c_int) |open| management::seek(open, offset, whence);
    "File_get_position" [MpiGetPosition] (offset: *mut MPI_Offset) |open|
        // SAFETY: what the program gave.
        unsafe { give(offset, management::position(open)) };
    "File_get_byte_offset"(offset: MPI_Offset, byte: *mut MPI_Offset) |open|
        // SAFETY: what the program gave.
        unsafe { give(byte, view::byte_offset(open, offset)) };
    "File_seek_shared" [MpiSeekShared] (offset: MPI_Offset, whence: c_int) |open| shared_pointer::seek(open, offset, whence);
    "File_get_position_shared" [MpiGetPositionShared] (offset: *mut MPI_Offset) |open|
        // SAFETY: what the program gave.
        unsafe { give(offset, shared_pointer::position(open)) };
    "File_get_type_extent"(datatype: MPI_Datatype, extent: *mut isize) |open|
        // SAFETY: what the program gave.
        unsafe { give(extent, view::extent(open, datatype).map(|extent| extent as isize)) };
    "File_get_type_extent_c"(datatype: MPI_Datatype, extent: *mut MPI_Count) |open|
        // SAFETY: what the program gave.
        unsafe { give(extent, view::extent(open, datatype)) };
    "File_set_atomicity" [MpiSetAtomicity] (atomic: c_int) |open| management::set_atomicity(open, atomic);
    "File_get_atomicity" [MpiGetAtomicity] (atomic: *mut c_int) |open|
        // SAFETY: what the program gave.
        unsafe { give(atomic, Ok(c_int::from(open.file.atomicity()))) };
    "File_sync" [MpiSync] () |open| management::sync(open);
}
