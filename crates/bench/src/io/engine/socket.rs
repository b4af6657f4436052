//! Plain sockets to servers that only copy: the limit for files on servers.

use std::io;
use std::net::TcpStream;
use std::path::Path;

use super::{EngineReport, IoEngine, IoEngineError};
use crate::io::IoOp;
use crate::io::plan::{Call, IoPlan};
use crate::io::socket::{self, Sockets};

/// A rank's connections, one to each server.
#[derive(Debug)]
pub(super) struct SocketEngine {
    sockets: Sockets,
    streams: Vec<TcpStream>,
}

impl SocketEngine {
    pub(super) const fn new(sockets: Sockets) -> Self {
        Self { sockets, streams: Vec::new() }
    }
}

impl IoEngine for SocketEngine {
    fn open(&mut self, _path: &Path, op: IoOp, plan: &IoPlan) -> Result<(), IoEngineError> {
        if plan.filetype.runs() > 1 || !plan.memory_is_contiguous() {
            let text = "sockets move calls that are in one piece";
            return Err(io::Error::new(io::ErrorKind::Unsupported, text).into());
        }
        self.streams = self.sockets.connect(op, plan)?;
        Ok(())
    }

    fn write(&mut self, plan: &IoPlan, call: &Call, buffer: &[u8]) -> Result<(), IoEngineError> {
        Ok(socket::write(&mut self.streams, &buffer[plan.memory_of(call)])?)
    }

    fn read(&mut self, plan: &IoPlan, call: &Call, buffer: &mut [u8]) -> Result<(), IoEngineError> {
        Ok(socket::read(&mut self.streams, &mut buffer[plan.memory_of(call)])?)
    }

    fn sync(&mut self) -> Result<(), IoEngineError> {
        Ok(socket::sync(&mut self.streams)?)
    }

    fn close(&mut self) -> Result<Option<EngineReport>, IoEngineError> {
        self.streams.clear();
        Ok(None)
    }
}
