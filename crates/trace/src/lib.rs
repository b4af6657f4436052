//! The formats of traces and counters: what processes did with files, with writers and readers.
//!
//! `docs/trace-format.md` describes the format of traces. A trace is a file per process; those of
//! several processes can be put into one file ([`TraceFile`], [`MultiProcessWriter`]). It consists
//! of blocks that can each be read alone: a block defines the paths and open files that it refers
//! to. So the trace of a killed process is complete up to its last block, parts can be cut out, and
//! a reader needs the memory of one block, or one per shard ([`Trace::in_order`]). Calls of layers
//! above POSIX have blocks of their own ([`Trace::layer_records`]). [`count`] has the format of
//! counters.
//!
//! The crate links no stages: the stages that record and count use its writers, everything else its
//! readers.

mod block;
mod call;
pub mod count;
mod decoder;
mod encoder;
mod header;
mod layer_codec;
mod layer_records;
mod multi_process;
mod output;
mod preopened;
mod reader;
mod source;
mod time_order;
mod trace_file;
mod varint;
mod writer;

pub use striate_calls::{Detail, Function, Kind, Kinds, layer};
pub use striate_process::Origin;

pub use self::block::{BlockInfo, StoredBlock};
pub use self::call::{Call, Record, RecordedCall, Subject, TracedEnd, TracedFile};
pub use self::encoder::{Encoder, Timed};
pub use self::header::Header;
pub use self::layer_codec::{LayerEncoder, LayerRecord};
pub use self::layer_records::LayerRecords;
pub use self::multi_process::{MultiProcessWriter, Part};
pub use self::output::Output;
pub use self::preopened::PreopenedFile;
pub use self::reader::{Checked, Damage, Records, Trace, TraceError};
#[doc(hidden)]
pub use self::reader::{layer_records_in, records_in};
pub use self::time_order::{InOrder, ShardRecords};
pub use self::trace_file::TraceFile;
pub use self::writer::Writer;

/// Bytes of records in a block, before they are compressed; a block may be a little larger.
pub(crate) const BLOCK: usize = 64 << 10;
