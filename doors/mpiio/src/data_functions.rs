//! The functions of MPI that move data, under their names: each with a count of `int` and, as `_c`,
//! with a large one.

use std::ffi::{c_int, c_void};

use crate::access::{Access, Coordination, Direction, FilePosition, blocking};
use crate::call_record;
use crate::constants::{
    self as mpi, MPI_Count, MPI_Datatype, MPI_File, MPI_Offset, MPI_Request, MPI_Status,
};
use crate::entry::{self, on_file};
use crate::errors::Failure;
use crate::handle::{self, HandleKind};
use crate::memory::Buffer;
use crate::native::Native;
use crate::request::start;
use crate::split_collective::{SplitKind, begin, end};

/// A function, twice: with a count of either size.
macro_rules! counted {
    ($name:literal [$function:ident] ($($before:ident: $type:ty),*) ($($after:ident: $after_type:ty),*) |$open:ident, $buffer:ident| $body:expr) => {
        counted!($name "" [$function] c_int, ($($before: $type),*) ($($after: $after_type),*) |$open, $buffer| $body);
        counted!($name "_c" [$function] MPI_Count, ($($before: $type),*) ($($after: $after_type),*) |$open, $buffer| $body);
    };
    ($name:literal $suffix:literal [$function:ident] $count:ty, ($($before:ident: $type:ty),*) ($($after:ident: $after_type:ty),*) |$open:ident, $buffer:ident| $body:expr) => {
        on_file! {
            $name $suffix [$function] (
                $($before: $type,)*
                address: *mut c_void,
                count: $count,
                datatype: MPI_Datatype
                $(, $after: $after_type)*
            ) |$open| {
                let $buffer = Buffer { address, count: i64::from(count), datatype };
                $body
            };
        }
    };
}

macro_rules! access {
    ($direction:ident, $at:expr, $coordination:ident) => {
        Access {
            direction: Direction::$direction,
            at: $at,
            coordination: Coordination::$coordination,
        }
    };
}

/// Functions that end when the data is moved.
macro_rules! blocking {
    ($($name:literal: $function:ident, $direction:ident, $coordination:ident;)*) => {$(
        counted!($name [$function] (offset: MPI_Offset) (status: *mut MPI_Status) |open, buffer|
            // SAFETY: what the program gave.
            unsafe { blocking(open, access!($direction, FilePosition::Offset(offset), $coordination), buffer, status) });
    )*};
    ($($name:literal: $function:ident, $direction:ident, $at:ident, $coordination:ident;)*) => {$(
        counted!($name [$function] () (status: *mut MPI_Status) |open, buffer|
            // SAFETY: what the program gave.
            unsafe { blocking(open, access!($direction, FilePosition::$at, $coordination), buffer, status) });
    )*};
}

/// Functions that begin to move data.
macro_rules! nonblocking {
    ($($name:literal: $function:ident, $direction:ident, $coordination:ident;)*) => {$(
        counted!($name [$function] (offset: MPI_Offset) (request: *mut MPI_Request) |open, buffer|
            // SAFETY: what the program gave.
            unsafe { start(open, access!($direction, FilePosition::Offset(offset), $coordination), buffer, request) });
    )*};
    ($($name:literal: $function:ident, $direction:ident, $at:ident, $coordination:ident;)*) => {$(
        counted!($name [$function] () (request: *mut MPI_Request) |open, buffer|
            // SAFETY: what the program gave.
            unsafe { start(open, access!($direction, FilePosition::$at, $coordination), buffer, request) });
    )*};
}

/// The two halves of functions that all ranks call.
macro_rules! split {
    ($($first:literal $begin:ident, $second:literal $end:ident: $direction:ident, $at:ident;)*) => {$(
        counted!($first [$begin] () () |open, buffer|
            begin(open, access!($direction, FilePosition::$at, Collective), buffer));
        split!(end $second $end: access!($direction, FilePosition::$at, Collective));
    )*};
    ($($first:literal $begin:ident, $second:literal $end:ident: $direction:ident;)*) => {$(
        counted!($first [$begin] (offset: MPI_Offset) () |open, buffer|
            begin(open, access!($direction, FilePosition::Offset(offset), Collective), buffer));
        split!(end $second $end: access!($direction, FilePosition::Offset(0), Collective));
    )*};
    (end $second:literal $end:ident: $access:expr) => {
        on_file! {
            $second [$end] (address: *mut c_void, status: *mut MPI_Status) |open|
                // SAFETY: what the program gave.
                unsafe { end(open, const { SplitKind::of($access) }, address, status) };
        }
    };
}

blocking! {
    "File_read_at": MpiReadAt, Read, Independent;
    "File_read_at_all": MpiReadAtAll, Read, Collective;
    "File_write_at": MpiWriteAt, Write, Independent;
    "File_write_at_all": MpiWriteAtAll, Write, Collective;
}
blocking! {
    "File_read": MpiRead, Read, Individual, Independent;
    "File_read_all": MpiReadAll, Read, Individual, Collective;
    "File_write": MpiWrite, Write, Individual, Independent;
    "File_write_all": MpiWriteAll, Write, Individual, Collective;
    "File_read_shared": MpiReadShared, Read, Shared, Independent;
    "File_write_shared": MpiWriteShared, Write, Shared, Independent;
    "File_read_ordered": MpiReadOrdered, Read, Shared, Collective;
    "File_write_ordered": MpiWriteOrdered, Write, Shared, Collective;
}
nonblocking! {
    "File_iread_at": MpiIreadAt, Read, Independent;
    "File_iread_at_all": MpiIreadAtAll, Read, Collective;
    "File_iwrite_at": MpiIwriteAt, Write, Independent;
    "File_iwrite_at_all": MpiIwriteAtAll, Write, Collective;
}
nonblocking! {
    "File_iread": MpiIread, Read, Individual, Independent;
    "File_iread_all": MpiIreadAll, Read, Individual, Collective;
    "File_iwrite": MpiIwrite, Write, Individual, Independent;
    "File_iwrite_all": MpiIwriteAll, Write, Individual, Collective;
    "File_iread_shared": MpiIreadShared, Read, Shared, Independent;
    "File_iwrite_shared": MpiIwriteShared, Write, Shared, Independent;
}
split! {
    "File_read_at_all_begin" MpiReadAtAllBegin, "File_read_at_all_end" MpiReadAtAllEnd: Read;
    "File_write_at_all_begin" MpiWriteAtAllBegin, "File_write_at_all_end" MpiWriteAtAllEnd: Write;
}
split! {
    "File_read_all_begin" MpiReadAllBegin, "File_read_all_end" MpiReadAllEnd: Read, Individual;
    "File_write_all_begin" MpiWriteAllBegin, "File_write_all_end" MpiWriteAllEnd: Write, Individual;
    "File_read_ordered_begin" MpiReadOrderedBegin, "File_read_ordered_end" MpiReadOrderedEnd: Read, Shared;
    "File_write_ordered_begin" MpiWriteOrderedBegin, "File_write_ordered_end" MpiWriteOrderedEnd: Write, Shared;
}
