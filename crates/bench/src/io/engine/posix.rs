//! The limit: plain `pwrite` and `pread` of every piece, by every rank.
//!
//! For large pieces this is what the system can do; for small ones it is what a naive program does.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{EngineReport, IoEngine, IoEngineError, not_open};
use crate::io::IoOp;
use crate::io::plan::{Call, IoPlan};

/// A file of the system.
#[derive(Debug, Default)]
pub(super) struct PosixEngine {
    file: Option<File>,
}

impl PosixEngine {
    fn file(&self) -> Result<&File, IoEngineError> {
        self.file.as_ref().ok_or_else(not_open)
    }
}

impl IoEngine for PosixEngine {
    fn open(&mut self, path: &Path, op: IoOp, _plan: &IoPlan) -> Result<(), IoEngineError> {
        let file = OpenOptions::new().read(true).write(op == IoOp::Write).open(path)?;
        self.file = Some(file);
        Ok(())
    }

    fn write(&mut self, plan: &IoPlan, call: &Call, buffer: &[u8]) -> Result<(), IoEngineError> {
        let file = self.file()?;
        for piece in plan.pieces(call)? {
            let start = call.origin + piece.memory as usize;
            file.write_all_at(&buffer[start..start + piece.len as usize], piece.file as u64)?;
        }
        Ok(())
    }

    fn read(&mut self, plan: &IoPlan, call: &Call, buffer: &mut [u8]) -> Result<(), IoEngineError> {
        let file = self.file()?;
        for piece in plan.pieces(call)? {
            let start = call.origin + piece.memory as usize;
            let part = &mut buffer[start..start + piece.len as usize];
            file.read_exact_at(part, piece.file as u64)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), IoEngineError> {
        Ok(self.file()?.sync_all()?)
    }

    fn close(&mut self) -> Result<Option<EngineReport>, IoEngineError> {
        self.file = None;
        Ok(None)
    }
}
