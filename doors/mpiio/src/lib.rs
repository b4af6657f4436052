//! The door for unmodified MPI programs: every `MPI_File_*` function, carried out by Striate's files.

#![cfg(feature = "mpi")]

mod types;
