//! [`Writer`]: writes a trace from records that were read or imported, not recorded in this
//! process.

use std::io;
use std::path::{Path, PathBuf};

use striate_process::clock::Moment;

use crate::call::Record;
use crate::encoder::{Encoder, Timed};
use crate::header::Header;
use crate::layer_codec::{LayerEncoder, LayerRecord};
use crate::output::Output;

/// Writes a trace.
#[derive(Debug)]
pub struct Writer {
    output: Output,
    encoder: Encoder,
    layers: LayerEncoder,
    clock: u64,
}

impl Writer {
    /// A new file; there must be none of that name.
    pub fn create(path: impl Into<PathBuf>, header: &Header) -> io::Result<Self> {
        // A tick is a nanosecond.
        let start = Moment { ticks: header.clock, nanoseconds: header.clock };
        let output = Output::create(path.into(), header, start)?;
        let (encoder, layers) = (Encoder::new(), LayerEncoder::new());
        Ok(Self { output, encoder, layers, clock: header.clock })
    }

    /// Adds a record. Those of a thread come in their order.
    pub fn write(&mut self, record: &Record) -> io::Result<()> {
        let end = record.start.saturating_add(record.duration);
        let timed = Timed { start: record.start, end };
        let call = record.call.map(|file| &**file, |path| &**path);
        self.encoder.push(record.thread, record.function, timed, record.result(), &call);
        if self.encoder.is_full() { self.flush() } else { Ok(()) }
    }

    /// Adds a call of a layer. They come in the order in which they ended.
    pub fn write_layer(&mut self, record: &LayerRecord) -> io::Result<()> {
        self.layers.push(record.thread, &record.call());
        if self.layers.is_full() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        let now = self.clock.saturating_add(1);
        let now = Moment { ticks: now, nanoseconds: now };
        self.output.write(0, &mut self.encoder, now)?;
        self.output.write_layers(&mut self.layers, now)
    }

    /// Writes what is still in memory, and the index.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush()?;
        self.output.finish()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.output.path()
    }
}
