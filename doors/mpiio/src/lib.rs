//! The MPI-IO door: every `MPI_File_*` function of an unmodified MPI program, carried out by
//! Striate's files.
//!
//! The library is loaded before the MPI's (`LD_PRELOAD`) and redefines its file functions, under
//! both their names. `functions.rs` and `data_functions.rs` list them; each finds its
//! [`handle::FileSlot`] and does its work on the [`open::Open`] file in it. A file that an
//! exclusion names is left to the MPI, with all calls on it.

#![cfg(feature = "mpi")]

mod access;
mod call_record;
mod constants;
mod context_cache;
mod data_functions;
mod datarep;
mod entry;
mod errhandlers;
mod errors;
mod fortran;
mod functions;
mod grequest;
mod grequest_errors;
mod group;
mod handle;
mod info;
mod library_load;
mod management;
mod memory;
mod native;
mod open;
mod request;
mod romio_hints_file;
mod romio_prefix;
mod settings;
mod shared_pointer;
mod split_collective;
mod stats;
mod status;
mod thread_level;
mod types;
mod view;
