//! The functions of MPI that move data, under their names: each with a count of `int` and, as `_c`, with a
//! large one.

use std::ffi::{c_int, c_void};

use crate::access::{Access, At, Direction, Ranks, blocking};
use crate::constants::{
    self as mpi, MPI_Count, MPI_Datatype, MPI_File, MPI_Offset, MPI_Request, MPI_Status,
};
use crate::entry::{self, on_file};
use crate::errors::Failure;
use crate::handle::{self, Found};
use crate::memory::Buffer;
use crate::native::Native;
use crate::request::start;
use crate::split::{Kind, begin, end};

/// A function, twice: with a count of either size.
macro_rules! counted {
    ($name:literal ($($before:ident: $type:ty),*) ($($after:ident: $after_type:ty),*) |$open:ident, $buffer:ident| $body:expr) => {
        counted!($name "", c_int, ($($before: $type),*) ($($after: $after_type),*) |$open, $buffer| $body);
        counted!($name "_c", MPI_Count, ($($before: $type),*) ($($after: $after_type),*) |$open, $buffer| $body);
    };
    ($name:literal $suffix:literal, $count:ty, ($($before:ident: $type:ty),*) ($($after:ident: $after_type:ty),*) |$open:ident, $buffer:ident| $body:expr) => {
        on_file! {
            $name $suffix (
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
    ($direction:ident, $at:expr, $ranks:ident) => {
        Access { direction: Direction::$direction, at: $at, ranks: Ranks::$ranks }
    };
}

/// Functions that end when the data is moved.
macro_rules! blocking {
    ($($name:literal: $direction:ident, $ranks:ident;)*) => {$(
        counted!($name (offset: MPI_Offset) (status: *mut MPI_Status) |open, buffer|
            // SAFETY: what the program gave.
            unsafe { blocking(open, access!($direction, At::Offset(offset), $ranks), buffer, status) });
    )*};
    ($($name:literal: $direction:ident, $at:ident, $ranks:ident;)*) => {$(
        counted!($name () (status: *mut MPI_Status) |open, buffer|
            // SAFETY: what the program gave.
            unsafe { blocking(open, access!($direction, At::$at, $ranks), buffer, status) });
    )*};
}

/// Functions that begin to move data.
macro_rules! nonblocking {
    ($($name:literal: $direction:ident, $ranks:ident;)*) => {$(
        counted!($name (offset: MPI_Offset) (request: *mut MPI_Request) |open, buffer|
            // SAFETY: what the program gave.
            unsafe { start(open, access!($direction, At::Offset(offset), $ranks), buffer, request) });
    )*};
    ($($name:literal: $direction:ident, $at:ident, $ranks:ident;)*) => {$(
        counted!($name () (request: *mut MPI_Request) |open, buffer|
            // SAFETY: what the program gave.
            unsafe { start(open, access!($direction, At::$at, $ranks), buffer, request) });
    )*};
}

/// The two halves of functions that all ranks call.
macro_rules! split {
    ($($first:literal, $second:literal: $direction:ident, $at:ident;)*) => {$(
        counted!($first () () |open, buffer|
            begin(open, access!($direction, At::$at, Together), buffer));
        split!(end $second: access!($direction, At::$at, Together));
    )*};
    ($($first:literal, $second:literal: $direction:ident;)*) => {$(
        counted!($first (offset: MPI_Offset) () |open, buffer|
            begin(open, access!($direction, At::Offset(offset), Together), buffer));
        split!(end $second: access!($direction, At::Offset(0), Together));
    )*};
    (end $second:literal: $access:expr) => {
        on_file! {
            $second(address: *mut c_void, status: *mut MPI_Status) |open|
                // SAFETY: what the program gave.
                unsafe { end(open, const { Kind::of($access) }, address, status) };
        }
    };
}

blocking! {
    "File_read_at": Read, Alone;
    "File_read_at_all": Read, Together;
    "File_write_at": Write, Alone;
    "File_write_at_all": Write, Together;
}
blocking! {
    "File_read": Read, Individual, Alone;
    "File_read_all": Read, Individual, Together;
    "File_write": Write, Individual, Alone;
    "File_write_all": Write, Individual, Together;
    "File_read_shared": Read, Shared, Alone;
    "File_write_shared": Write, Shared, Alone;
    "File_read_ordered": Read, Shared, Together;
    "File_write_ordered": Write, Shared, Together;
}
nonblocking! {
    "File_iread_at": Read, Alone;
    "File_iread_at_all": Read, Together;
    "File_iwrite_at": Write, Alone;
    "File_iwrite_at_all": Write, Together;
}
nonblocking! {
    "File_iread": Read, Individual, Alone;
    "File_iread_all": Read, Individual, Together;
    "File_iwrite": Write, Individual, Alone;
    "File_iwrite_all": Write, Individual, Together;
    "File_iread_shared": Read, Shared, Alone;
    "File_iwrite_shared": Write, Shared, Alone;
}
split! {
    "File_read_at_all_begin", "File_read_at_all_end": Read;
    "File_write_at_all_begin", "File_write_at_all_end": Write;
}
split! {
    "File_read_all_begin", "File_read_all_end": Read, Individual;
    "File_write_all_begin", "File_write_all_end": Write, Individual;
    "File_read_ordered_begin", "File_read_ordered_end": Read, Shared;
    "File_write_ordered_begin", "File_write_ordered_end": Write, Shared;
}
