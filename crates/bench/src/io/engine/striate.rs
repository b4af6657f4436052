//! Files of Striate.

use std::path::Path;
use std::sync::Arc;

use striate_comm::Comm;
use striate_datatype::{Datatype, Element};
use striate_file::{File, Hints, Memory, MemoryMut, Mode, View};

use super::{EngineReport, IoEngine, IoEngineError, not_open, whole};
use crate::io::IoOp;
use crate::io::plan::{Call, IoPlan};

/// A file of ours, by one method.
#[derive(Debug)]
pub(super) struct StriateEngine {
    comm: Arc<dyn Comm>,
    hints: Hints,
    collective: bool,
    file: Option<File>,
}

impl StriateEngine {
    pub(super) fn new(comm: &Arc<dyn Comm>, hints: Hints, collective: bool) -> Self {
        Self { comm: Arc::clone(comm), hints, collective, file: None }
    }

    fn file(&mut self) -> Result<&mut File, IoEngineError> {
        self.file.as_mut().ok_or_else(not_open)
    }
}

impl IoEngine for StriateEngine {
    fn open(&mut self, path: &Path, op: IoOp, plan: &IoPlan) -> Result<(), IoEngineError> {
        let mode = match op {
            IoOp::Write => Mode::READ | Mode::WRITE | Mode::CREATE,
            IoOp::Read => Mode::READ,
        };
        let mut file = File::open(&self.comm, path, mode, &self.hints)?;
        let byte = Datatype::element(Element::U8);
        file.set_view(View::new(0, &byte, &plan.filetype)?)?;
        self.file = Some(file);
        Ok(())
    }

    fn write(&mut self, plan: &IoPlan, call: &Call, buffer: &[u8]) -> Result<(), IoEngineError> {
        let collective = self.collective;
        let file = self.file()?;
        let memory = if plan.memory_is_contiguous() {
            Memory::from(&buffer[plan.memory_of(call)])
        } else {
            Memory::new(buffer, call.origin, plan.memory_count, &plan.memory)?
        };
        if collective {
            file.write_at_all(call.offset, memory)?;
        } else {
            file.write_at(call.offset, memory)?;
        }
        Ok(())
    }

    fn read(&mut self, plan: &IoPlan, call: &Call, buffer: &mut [u8]) -> Result<(), IoEngineError> {
        let collective = self.collective;
        let file = self.file()?;
        let memory = if plan.memory_is_contiguous() {
            MemoryMut::from(&mut buffer[plan.memory_of(call)])
        } else {
            MemoryMut::new(buffer, call.origin, plan.memory_count, &plan.memory)?
        };
        let got = if collective {
            file.read_at_all(call.offset, memory)?
        } else {
            file.read_at(call.offset, memory)?
        };
        whole(got, plan.call_bytes())
    }

    fn sync(&mut self) -> Result<(), IoEngineError> {
        Ok(self.file()?.sync()?)
    }

    fn close(&mut self) -> Result<Option<EngineReport>, IoEngineError> {
        let file = self.file.take().ok_or_else(not_open)?;
        let report = EngineReport { stats: file.stats(), last: file.last_call().copied() };
        file.close()?;
        Ok(Some(report))
    }
}
