//! The limit: every rank writes the same bytes in one piece with plain `pwrite`, in the machine's
//! byte order. The files are not datasets.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use striate_comm::CommExt as _;
use striate_store::AlignedBuffer;

use super::{ArrayEngine, ArrayEngineError, EngineContext, RankCost, not_open};
use crate::array::memory::{Memory, buffer};
use crate::array::plan::FilePlan;

/// Bytes of a system call.
const CALL: usize = 1 << 20;

/// A file of the system.
#[derive(Debug)]
pub(super) struct RawEngine<'b> {
    context: EngineContext<'b>,
    file: Option<File>,
    /// Where this rank's bytes begin.
    first: u64,
    /// What gaps are left out of.
    packed: AlignedBuffer,
}

impl<'b> RawEngine<'b> {
    pub(super) fn new(context: EngineContext<'b>) -> Self {
        let files = context.plan.files.iter();
        let accesses = files.flat_map(|file| file.accesses().map(|one| one.bytes(&file.schema)));
        let packed = buffer(accesses.max().unwrap_or(0) as usize);
        Self { context, file: None, first: 0, packed }
    }

    fn plan(&self, file: usize) -> &'b FilePlan {
        &self.context.plan.files[file]
    }

    /// Where the ranks' parts begin.
    fn arrange(&mut self, file: usize) -> Result<(), ArrayEngineError> {
        let parts = self.context.comm.allgather_u64(self.plan(file).bytes())?;
        self.first = parts[..self.context.comm.rank()].iter().sum();
        Ok(())
    }

    /// Where a step begins.
    fn start(&self, file: usize, step: usize) -> u64 {
        let plan = self.plan(file);
        let before = plan.steps[..step].iter().flatten();
        self.first + before.map(|access| access.bytes(&plan.schema)).sum::<u64>()
    }
}

impl ArrayEngine for RawEngine<'_> {
    fn create(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError> {
        self.arrange(file)?;
        // The first rank creates it.
        let mut how = OpenOptions::new();
        let opened = how.read(true).write(true).create(true).truncate(false).open(path)?;
        self.file = Some(opened);
        Ok(())
    }

    fn open(&mut self, path: &Path, file: usize) -> Result<(), ArrayEngineError> {
        self.arrange(file)?;
        self.file = Some(File::open(path)?);
        Ok(())
    }

    fn inspect(&mut self, _file: usize) -> Result<(), ArrayEngineError> {
        Ok(())
    }

    fn write(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let plan = self.plan(file);
        let mut at = self.start(file, step);
        let to = self.file.as_ref().ok_or_else(not_open)?;
        for access in &plan.steps[step] {
            let number = plan.schema.variables[access.variable].number;
            let bytes = if let Some(range) = memory.dense(access, number) {
                &memory.buffers[access.area][range]
            } else {
                let packed = &mut self.packed[..access.bytes(&plan.schema) as usize];
                memory.pack(access, number, packed);
                packed
            };
            for piece in bytes.chunks(CALL) {
                to.write_all_at(piece, at)?;
                at += piece.len() as u64;
            }
        }
        Ok(())
    }

    fn read(
        &mut self,
        file: usize,
        step: usize,
        memory: &mut Memory,
    ) -> Result<(), ArrayEngineError> {
        let plan = self.plan(file);
        let mut at = self.start(file, step);
        let from = self.file.as_ref().ok_or_else(not_open)?;
        for access in &plan.steps[step] {
            let number = plan.schema.variables[access.variable].number;
            let dense = memory.dense(access, number);
            let bytes = match dense.clone() {
                Some(range) => &mut memory.buffers[access.area][range],
                None => &mut self.packed[..access.bytes(&plan.schema) as usize],
            };
            for piece in bytes.chunks_mut(CALL) {
                from.read_exact_at(piece, at)?;
                at += piece.len() as u64;
            }
            if dense.is_none() {
                let packed = &self.packed[..access.bytes(&plan.schema) as usize];
                memory.unpack(access, number, packed);
            }
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), ArrayEngineError> {
        Ok(self.file.as_ref().ok_or_else(not_open)?.sync_all()?)
    }

    fn close(&mut self) -> Result<Option<RankCost>, ArrayEngineError> {
        self.file = None;
        Ok(None)
    }
}
