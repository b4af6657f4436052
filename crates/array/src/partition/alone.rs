//! Access to divided variables by one rank alone: it opens the partitions that it needs by itself.
//!
//! A partition that ranks access each by itself has one handle per rank, whose locks know nothing of each
//! other. So these handles never write around the bytes that are wanted: no sieving.

use std::ops::Range;

use striate_comm::alone;
use striate_file::{File, Hints, Method, MethodChoice, Mode, Switch};

use super::Parted;
use super::exchange::{hand_out, pack};
use super::headers::part_ties;
use super::parcels::pieces_of;
use super::request::{Queue, Wanted};
use super::subfiles;
use super::work::Piece;
use crate::access::Access;
use crate::state::{State, read_header};
use crate::stream::{Incoming, Outgoing};
use crate::{ArrayError, Dataset, Options};

/// The partitions that something is wanted of.
fn busy(queues: &[Queue<Wanted>]) -> impl Iterator<Item = (usize, &Queue<Wanted>)> {
    queues.iter().enumerate().filter(|(_, queue)| !queue.items.is_empty())
}

/// The parts of a stream that are moved at a time.
fn rounds(queue: &Queue<Wanted>, buffer: u64) -> impl Iterator<Item = Range<u64>> {
    let count = queue.bytes().div_ceil(buffer);
    (0..count).map(move |round| queue.round(round, buffer)).filter(|range| !range.is_empty())
}

impl Dataset {
    /// Writes to partitions, this rank by itself.
    pub(crate) fn put_divided_alone(
        &mut self,
        accesses: &[Access<Outgoing<'_>>],
        queues: &[Queue<Wanted>],
    ) -> Result<(), ArrayError> {
        let buffer = self.options.partitioning.buffer;
        for (k, queue) in busy(queues) {
            let Some(part) = self.partition(k)? else { continue };
            for range in rounds(queue, buffer) {
                let bytes = pack(accesses, queue, range.clone())?;
                let mut rest = bytes.as_slice();
                let mut pieces = Vec::new();
                for (_, piece) in pieces_of(queue, range) {
                    let (bytes, behind) = rest.split_at(piece.bytes);
                    rest = behind;
                    let Piece { variable, extent, .. } = piece;
                    pieces.push(Piece { variable, extent, bytes });
                }
                part.put_pieces(&pieces, true)?;
            }
        }
        Ok(())
    }

    /// Reads from partitions, this rank by itself.
    pub(crate) fn get_divided_alone(
        &mut self,
        accesses: &mut [Access<Incoming<'_>>],
        queues: &[Queue<Wanted>],
    ) -> Result<(), ArrayError> {
        let buffer = self.options.partitioning.buffer;
        for (k, queue) in busy(queues) {
            let Some(part) = self.partition(k)? else { continue };
            for range in rounds(queue, buffer) {
                let mut bytes = vec![0; (range.end - range.start) as usize];
                let mut rest = bytes.as_mut_slice();
                let mut pieces = Vec::new();
                for (_, piece) in pieces_of(queue, range.clone()) {
                    let (bytes, behind) = rest.split_at_mut(piece.bytes);
                    rest = behind;
                    let Piece { variable, extent, .. } = piece;
                    pieces.push(Piece { variable, extent, bytes });
                }
                part.get_pieces(pieces, true)?;
                hand_out(accesses, queue, range, &bytes)?;
            }
        }
        Ok(())
    }

    /// A partition, opened by this rank alone.
    fn partition(&mut self, k: usize) -> Result<Option<&mut Dataset>, ArrayError> {
        let (hints, write) = (self.state.file.hints().clone(), self.state.write);
        let options = Options { hints: unsieved(hints), ..self.options.clone() };
        let Some(parted) = self.parted.as_deref_mut() else { return Ok(None) };
        if !parted.opened.contains_key(&k) {
            let part = parted.open_alone(k, write, &options)?;
            parted.opened.insert(k, part);
        }
        Ok(parted.opened.get_mut(&k))
    }
}

/// Hints by which only what is wanted is written.
fn unsieved(mut hints: Hints) -> Hints {
    hints.ds_write = Switch::Disable;
    if hints.method == MethodChoice::Fixed(Method::Sieve) {
        hints.method = MethodChoice::Auto;
    }
    hints
}

impl Parted {
    fn open_alone(&self, k: usize, write: bool, options: &Options) -> Result<Dataset, ArrayError> {
        let path = self.files[k].clone();
        let mode = if write { Mode::READ | Mode::WRITE } else { Mode::READ };
        let mut file = File::open(&alone(), &path, mode, &options.hints)?;
        // It may be new: its header is there from the end of its definition on.
        let mut header = read_header(&mut file, true)?;
        let ours = if self.foreign {
            subfiles::index_of(&header) == Some(k as u64)
        } else {
            part_ties(&header).is_some_and(|ties| {
                (ties.id == self.ties.id) && (ties.generation == self.ties.generation)
            })
        };
        if !ours {
            let reason = "it is not the one that it was when the dataset was opened".into();
            return Err(ArrayError::Partition { file: path.display().to_string(), reason });
        }
        header.records = self.logical.records;
        Ok(Dataset::new(State::new(file, path, header, options, write)?, options.clone()))
    }
}
