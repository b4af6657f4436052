//! [`PatternRun`]: what one rank needs to carry out a pattern, and the files it is carried out on.

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use striate_comm::{Comm, CommExt, Reduction};
use striate_layout::striping::Striping;
use striate_store::Store;
use striate_store::remote::Client;

use super::content::Content;
use super::plan::{IoPlan, Pattern};
use super::scratch::{Scratch, remote};
use super::{Contender, IoBenchError, IoOp, IoOptions};

/// Bytes of a file that are verified or prepared at a time.
const CHUNK: usize = 1 << 20;

/// A pattern, for one rank.
pub(super) struct PatternRun {
    /// The ranks that share a file with this one.
    pub(super) sharing: Arc<dyn Comm>,
    pub(super) scratch: Scratch,
    /// Number of files.
    pub(super) files: u64,
    pub(super) file_bytes: u64,
    /// Bytes that all ranks want in one measurement.
    pub(super) wanted: u64,
    /// For writing and for reading; only one if they are alike.
    pub(super) plans: Vec<IoPlan>,
    /// The file and the part of it that this rank prepares and verifies.
    share: (u64, Range<u64>),
}

impl PatternRun {
    /// Collective; `name` is that of the files in `directory`. Those that are only read have been
    /// there before.
    pub(super) fn new(
        comm: &Arc<dyn Comm>,
        pattern: &dyn Pattern,
        options: &IoOptions,
        (directory, name): (&Path, &str),
        only_read: bool,
    ) -> Result<Self, IoBenchError> {
        let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
        let mut plans = vec![pattern.plan(rank, IoOp::Write)?];
        let reading = pattern.plan(rank, IoOp::Read)?;
        let alike = plans[0].file == reading.file && plans[0].steps == reading.steps;
        if comm.reduce_u64(Reduction::Min, u64::from(alike))? == 0 {
            plans.push(reading);
        }
        let files = pattern.files();
        let file_bytes = pattern.file_bytes()?;
        let (sharing, share) = if files == 1 {
            let share = file_bytes.div_ceil(ranks);
            let start = (rank * share).min(file_bytes);
            (Arc::clone(comm), (0, start..(start + share).min(file_bytes)))
        } else {
            // Every rank has a color, so every rank is in a group.
            let alone = comm.split(Some(rank), 0)?.unwrap_or_else(|| Arc::clone(comm));
            (alone, (rank, 0..file_bytes))
        };
        Ok(Self {
            sharing,
            scratch: Scratch::new(directory, name, files, &options.hints, rank == 0 && !only_read)
                .keeping(options.files.keep),
            files,
            file_bytes,
            wanted: comm.reduce_u64(Reduction::Sum, plans[0].bytes())?,
            plans,
            share,
        })
    }

    /// The plan for a direction.
    pub(super) fn plan_of(&self, op: IoOp) -> usize {
        if op == IoOp::Read { self.plans.len() - 1 } else { 0 }
    }

    /// Servers that hold bytes of a step of this rank, of all steps together; 0 if there are none.
    pub(super) fn servers(&self, plan: usize) -> Result<u64, IoBenchError> {
        let plan = &self.plans[plan];
        let Some(url) = remote(self.scratch.path(plan.file))? else { return Ok(0) };
        let file = Client::shared(&url)?.lookup(&url.path)?;
        let servers = NonZeroU32::new(file.servers.len() as u32);
        let (Some(strip), Some(servers)) = (NonZeroU64::new(file.strip), servers) else {
            return Ok(0);
        };
        let striping = Striping { strip, servers };
        let steps = 0..plan.steps.len();
        Ok(steps.map(|step| plan.servers(step, striping)).sum::<Result<u64, _>>()?)
    }

    /// Puts what it should hold into this rank's share of the files, without any engine.
    pub(super) fn prepare(&self) -> Result<(), IoBenchError> {
        let file = self.scratch.open(self.share.0, IoOp::Write)?;
        self.each_chunk(|content, start, chunk| {
            content.fill(start, chunk);
            Ok(file.write_at(start, chunk)?)
        })
    }

    /// Compares this rank's share of the files with what it should hold.
    pub(super) fn verify(&self, contender: &Contender) -> Result<(), IoBenchError> {
        let file = self.scratch.open(self.share.0, IoOp::Read)?;
        let (found, expected) = (file.len()?, self.file_bytes);
        if found != expected {
            return Err(IoBenchError::Length { contender: contender.label(), found, expected });
        }
        self.each_chunk(|content, start, chunk| {
            let got = file.read_at(start, chunk)?;
            if got < chunk.len() {
                let (contender, found) = (contender.label(), start + got as u64);
                return Err(IoBenchError::Length { contender, found, expected });
            }
            match content.mismatch(start, chunk) {
                None => Ok(()),
                Some(mismatch) => {
                    Err(IoBenchError::Written { contender: contender.label(), mismatch })
                }
            }
        })
    }

    fn each_chunk(
        &self,
        mut work: impl FnMut(Content, u64, &mut [u8]) -> Result<(), IoBenchError>,
    ) -> Result<(), IoBenchError> {
        let (file, range) = &self.share;
        let mut chunk = vec![0; CHUNK];
        for start in range.clone().step_by(CHUNK) {
            let len = (range.end - start).min(CHUNK as u64) as usize;
            work(Content { seed: *file }, start, &mut chunk[..len])?;
        }
        Ok(())
    }
}
