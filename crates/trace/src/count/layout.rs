//! The file of counters, version 1. All numbers are little-endian.
//!
//! | bytes | what |
//! | --- | --- |
//! | 0 | `STRCOUNT` |
//! | 8 | version, u32 |
//! | 12 | how many shards follow, u32 |
//! | 16, 20 | process and parent, u32 each |
//! | 24 | rank, i32: -1 if the process has none |
//! | 28 | what ticks are, u32: 1 nanoseconds, 2 ticks of the processor |
//! | 32 | when it began, in nanoseconds since 1970, u64 |
//! | 40, 48 | the same moment in ticks and in nanoseconds of the monotonic clock |
//! | 56, 64 | a later moment in both: so one knows how long a tick is |
//! | 72 | when the process ended, in nanoseconds since 1970; 0 if that was not noted |
//! | 80 | the place of the stage in its stack, from 0, u32 |
//! | 84 | bytes of the command line, u32 |
//! | 128 | the label of the stage, 64 bytes, zeros after it |
//! | 192 | the host, 64 bytes, zeros after it |
//! | 256 | the command line, up to 1024 bytes, a zero after each argument |
//! | 1280 | endings of file names, 56 × 16 bytes, zeros after each |
//! | 4096 | shards of 8192 bytes |
//!
//! A shard is [`Shard`]: all its numbers are u64. Parts of the file that were never written read as
//! zeros.

use std::sync::atomic::AtomicU64;

use striate_calls::layer::{LayerFunction, LayerSort};

pub(crate) const MAGIC: &[u8; 8] = b"STRCOUNT";
pub(crate) const VERSION: u32 = 1;
pub(crate) const HEADER: usize = 4096;
pub(crate) const SHARD: usize = size_of::<Shard>();
/// One per thread that counts at a time; the first is for threads that have none of their own.
pub const SHARDS: usize = 64;
pub(crate) const SIZE: usize = HEADER + SHARD * SHARDS;

pub(crate) const START: usize = 40;
pub(crate) const LATER: usize = 56;
pub(crate) const ENDED: usize = 72;
pub(crate) const LABEL: usize = 128;
pub(crate) const HOST: usize = 192;
pub(crate) const NAME: usize = 64;
pub(crate) const COMMAND: usize = 256;
pub(crate) const MOST_COMMAND: usize = 1024;
pub(crate) const ENDINGS: usize = 1280;
pub(crate) const ENDING: usize = 16;

/// More than the largest number of a function.
pub(crate) const FUNCTIONS: usize = 144;
/// Lengths of transfers by powers of two: place n counts those below 2ⁿ that are not in the place
/// before.
pub const BUCKETS: usize = 48;
/// The last stands for all that have no place of their own.
pub(crate) const MOST_ENDINGS: usize = 56;

/// Calls of layers by what they do, and whether ranks make them together: first those that they
/// make alone.
pub(crate) const LAYERS: usize = 2 * LayerSort::ALL.len();

/// Where calls of a function of a layer are counted.
pub const fn layer_place(function: LayerFunction) -> usize {
    let side = if function.is_collective() { LayerSort::ALL.len() } else { 0 };
    side + function.sort() as usize
}

/// What is known of the calls of a function.
#[derive(Debug, Default)]
#[repr(C)]
pub struct FunctionCell {
    /// How many there were.
    pub calls: AtomicU64,
    /// How many of them failed.
    pub errors: AtomicU64,
    /// Bytes that they moved.
    pub bytes: AtomicU64,
    /// Ticks that they took.
    pub ticks: AtomicU64,
}

/// What is known of the calls on files with an ending.
#[derive(Debug, Default)]
#[repr(C)]
pub struct EndingCell {
    /// How many there were.
    pub calls: AtomicU64,
    /// Bytes read.
    pub read: AtomicU64,
    /// Bytes written.
    pub written: AtomicU64,
    /// Ticks that they took.
    pub ticks: AtomicU64,
}

/// What some thread has counted.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Shard {
    /// By the number of the function.
    pub functions: [FunctionCell; FUNCTIONS],
    /// Reads by their lengths.
    pub reads: [AtomicU64; BUCKETS],
    /// Writes by their lengths.
    pub writes: [AtomicU64; BUCKETS],
    /// By the endings of file names.
    pub endings: [EndingCell; MOST_ENDINGS],
    /// Ticks that the counting itself took, estimated from samples.
    pub own: AtomicU64,
    /// Files that were written before there were any have zeros here.
    pub layers: [FunctionCell; LAYERS],
    /// Bytes that were moved out of files. Zero in older files, too.
    pub bytes_read: AtomicU64,
    /// Bytes that were moved into files. Zero in older files, too.
    pub bytes_written: AtomicU64,
    pub(crate) unused: [AtomicU64; 69],
}

const _: () = assert!(SHARD == 8192 && HEADER.is_multiple_of(align_of::<Shard>()));
const _: () = assert!(ENDINGS + MOST_ENDINGS * ENDING <= HEADER);
