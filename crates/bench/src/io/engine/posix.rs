//! The limit: plain `pwrite` and `pread` of every piece, by every rank, and nothing else.
//!
//! For large pieces this is what the system can do; for small ones it is what a naive program does.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Engine, EngineError, Report, not_open};
use crate::io::Op;
use crate::io::plan::{Call, Plan};

/// A file of the system.
#[derive(Debug, Default)]
pub(super) struct Posix {
    file: Option<File>,
}

impl Posix {
    fn file(&self) -> Result<&File, EngineError> {
        self.file.as_ref().ok_or_else(not_open)
    }
}

impl Engine for Posix {
    fn open(&mut self, path: &Path, op: Op, _plan: &Plan) -> Result<(), EngineError> {
        let file = OpenOptions::new().read(true).write(op == Op::Write).open(path)?;
        self.file = Some(file);
        Ok(())
    }

    fn write(&mut self, plan: &Plan, call: &Call, buffer: &[u8]) -> Result<(), EngineError> {
        let file = self.file()?;
        for piece in plan.pieces(call)? {
            let start = call.origin + piece.memory as usize;
            file.write_all_at(&buffer[start..start + piece.len as usize], piece.file as u64)?;
        }
        Ok(())
    }

    fn read(&mut self, plan: &Plan, call: &Call, buffer: &mut [u8]) -> Result<(), EngineError> {
        let file = self.file()?;
        for piece in plan.pieces(call)? {
            let start = call.origin + piece.memory as usize;
            let part = &mut buffer[start..start + piece.len as usize];
            file.read_exact_at(part, piece.file as u64)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), EngineError> {
        Ok(self.file()?.sync_all()?)
    }

    fn close(&mut self) -> Result<Option<Report>, EngineError> {
        self.file = None;
        Ok(None)
    }
}
