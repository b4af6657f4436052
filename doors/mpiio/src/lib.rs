//! The door for unmodified MPI programs: every `MPI_File_*` function, carried out by Striate's files.
//!
//! The library is loaded before the MPI's (`LD_PRELOAD`) and defines its functions of files again, under both
//! their names. `functions.rs` and `data_functions.rs` list them; each finds its [`handle::Slot`] and does its work
//! on the [`open::Open`] file in it. A file that an exclusion names is left to the MPI, with all calls on it.

#![cfg(feature = "mpi")]

mod access;
mod constants;
mod data_functions;
mod datarep;
mod entry;
mod errors;
mod file_system;
mod fortran;
mod functions;
mod grequest;
mod group;
mod handle;
mod handlers;
mod info;
mod load;
mod lock;
mod management;
mod memory;
mod native;
mod open;
mod raised;
mod record;
mod request;
mod seats;
mod settings;
mod shared;
mod site;
mod split;
mod stats;
mod status;
mod types;
mod view;
