//! MPI-IO of the MPI library of this job, as a peer.

use std::path::Path;

use super::{EngineReport, IoEngine, IoEngineError, not_open, whole};
use crate::io::IoOp;
use crate::io::plan::{Call, IoPlan};
use crate::mpiio::MpiIo;

/// A file of one of MPI's implementations of MPI-IO.
#[derive(Debug)]
pub(super) struct MpiIoEngine {
    component: &'static str,
    collective: bool,
    file: Option<MpiIo>,
}

impl MpiIoEngine {
    pub(super) const fn new(component: &'static str, collective: bool) -> Self {
        Self { component, collective, file: None }
    }

    fn file(&mut self) -> Result<&mut MpiIo, IoEngineError> {
        self.file.as_mut().ok_or_else(not_open)
    }
}

fn failed(error: impl std::error::Error + Send + Sync + 'static) -> IoEngineError {
    IoEngineError::Peer(Box::new(error))
}

impl IoEngine for MpiIoEngine {
    fn open(&mut self, path: &Path, op: IoOp, plan: &IoPlan) -> Result<(), IoEngineError> {
        let mut file = MpiIo::open(self.component, path, op == IoOp::Write).map_err(failed)?;
        file.set_view(0, &plan.filetype).map_err(failed)?;
        self.file = Some(file);
        Ok(())
    }

    fn write(&mut self, plan: &IoPlan, call: &Call, buffer: &[u8]) -> Result<(), IoEngineError> {
        let collective = self.collective;
        let file = self.file()?;
        let (memory, count) = (&plan.memory, plan.memory_count);
        let done = if collective {
            file.write_at_all(call.offset, buffer, call.origin, memory, count)
        } else {
            file.write_at(call.offset, buffer, call.origin, memory, count)
        };
        done.map(drop).map_err(failed)
    }

    fn read(&mut self, plan: &IoPlan, call: &Call, buffer: &mut [u8]) -> Result<(), IoEngineError> {
        let collective = self.collective;
        let file = self.file()?;
        let (memory, count) = (&plan.memory, plan.memory_count);
        let got = if collective {
            file.read_at_all(call.offset, buffer, call.origin, memory, count)
        } else {
            file.read_at(call.offset, buffer, call.origin, memory, count)
        };
        whole(got.map_err(failed)?, plan.call_bytes())
    }

    fn sync(&mut self) -> Result<(), IoEngineError> {
        self.file()?.sync().map_err(failed)
    }

    fn close(&mut self) -> Result<Option<EngineReport>, IoEngineError> {
        self.file.take().ok_or_else(not_open)?.close().map_err(failed)?;
        Ok(None)
    }
}
