//! The preload door: `libstriate_preload.so` is loaded before the C library (`LD_PRELOAD`), defines
//! the functions by which programs use files, and passes the calls that a stage wants through the
//! stack.
//!
//! `STRIATE_STACK` names the configuration of the stack. Without it, and when anything is wrong
//! with it, the program runs as if the library were not loaded.
//!
//! The rule for every function here: unclear calls go to the C library ([`real`]). A descriptor
//! that no stage wants costs one table lookup ([`descriptor_table`]); calls from within the stack,
//! or from a child process that shares the memory (`vfork`), are not handled as calls of the
//! program; errors and `errno` are as the program expects them; a panic does not leave the library.

#![allow(clippy::inline_always, reason = "what a call costs is measured in nanoseconds")]

#[macro_use]
mod real;

mod allocator;
mod descriptor_table;
mod errno;
mod fork;
mod hooks;
mod init;
mod layer;
mod path;
mod signals;
mod spin;
mod stack_entry;
mod stream_mode;
mod version;

#[global_allocator]
static ALLOCATOR: allocator::OwnHeap = allocator::OwnHeap;
