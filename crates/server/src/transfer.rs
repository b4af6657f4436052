//! [`Engine`]: reads and writes, between a connection and an object.
//!
//! Every access is a sequence of [`Part`]s, one for each strip of this server that it touches,
//! computed from its description one after another: there is no list of regions, and the strips of
//! other servers are not visited. Bytes pass through chunks of a fixed size. A part with gaps is
//! read as a whole and gathered, or run by run, whichever is cheaper; writes likewise.

mod target;
mod work;

use std::io::{Read, Write};
use std::sync::Arc;

use striate_layout::striping::Part;
use striate_store::Bandwidth;
use striate_wire::{
    Access, Bytes, Connection, Descriptions, Failure, FailureCode, FrameKind, Header, Malformed,
    Reply, WireError,
};

use crate::buffers::{Buffers, CHUNK};
use crate::objects::{Objects, failed};
use crate::statistics::Statistics;
use target::Target;
use work::Work;

/// What a server carries out data requests with.
#[derive(Debug)]
pub struct Engine {
    /// Where the bytes are.
    pub objects: Objects,
    /// The datatypes that clients sent.
    pub descriptions: Descriptions,
    /// The memory that data passes through.
    pub buffers: Buffers,
    /// What data passes through, in both directions.
    pub link: Bandwidth,
    /// What was done.
    pub statistics: Arc<Statistics>,
}

/// A failure to be reported to the client, or a connection that is of no further use.
enum TransferError {
    Reported(Failure),
    Lost(WireError),
}

impl From<Failure> for TransferError {
    fn from(failure: Failure) -> Self {
        Self::Reported(failure)
    }
}

impl From<WireError> for TransferError {
    fn from(error: WireError) -> Self {
        Self::Lost(error)
    }
}

impl Engine {
    /// Answers a read. An error means that the connection is of no further use.
    pub fn read<S: Read + Write>(
        &self,
        connection: &mut Connection<S>,
        id: u64,
        access: &Access,
    ) -> Result<(), WireError> {
        match self.try_read(connection, id, access) {
            Ok(()) => Ok(()),
            Err(TransferError::Reported(failure)) => self.send_failure(connection, id, &failure),
            Err(TransferError::Lost(error)) => Err(error),
        }
    }

    /// Carries out a write, whose data follows on the connection. An error means that the
    /// connection is of no further use.
    pub fn write<S: Read + Write>(
        &self,
        connection: &mut Connection<S>,
        id: u64,
        access: &Access,
    ) -> Result<(), WireError> {
        let mut ended = false;
        // Before anything is written: a sync that fails meanwhile may concern it.
        let start = self.objects.durability.start();
        match self.try_write(connection, id, access, &mut ended) {
            Ok(bytes) => {
                self.objects.durability.changed(access.object);
                connection.send_reply(id, &Reply::Written { bytes, start })
            }
            Err(TransferError::Lost(error)) => Err(error),
            Err(TransferError::Reported(failure)) => {
                while !ended {
                    let header = next_data(connection, id)?;
                    connection.skip(&header)?;
                    ended = header.len == 0;
                }
                self.send_failure(connection, id, &failure)
            }
        }
    }

    fn send_failure<S: Write>(
        &self,
        connection: &mut Connection<S>,
        id: u64,
        failure: &Failure,
    ) -> Result<(), WireError> {
        self.statistics.failures.add(1);
        connection.send_failure(id, failure)
    }

    fn try_read<S: Read + Write>(
        &self,
        connection: &mut Connection<S>,
        id: u64,
        access: &Access,
    ) -> Result<(), TransferError> {
        let file = self.objects.find(access.object)?;
        let object_len = match &file {
            Some(file) => {
                let metadata = file.metadata();
                metadata.map_err(|error| failed("look at", access.object, &error))?.len()
            }
            None => 0,
        };
        let target = Target::new(access, &self.descriptions)?;
        let [mut out, mut stage] = self.buffers.take()?;
        connection.queue_reply(id, &Reply::Reading { object_len })?;
        let Some(file) = file else { return Ok(connection.flush()?) };
        let mut reader = Work::new(self, &file, access.object, &target)?;
        self.count(&access.bytes);
        let mut filled = 0;
        for part in target.parts(Some(object_len))? {
            let part = part?;
            self.statistics.parts.add(1);
            let mut left = part.stream.clone();
            // A part that fits in a frame is not cut, since its gaps may be read with it.
            let bytes = (left.end - left.start) as usize;
            if filled > 0 && filled + bytes > CHUNK && bytes <= CHUNK / 2 {
                self.send(connection, id, &out[..filled])?;
                filled = 0;
            }
            while !left.is_empty() {
                let take = (left.end - left.start).min((CHUNK - filled) as u64);
                let now = left.start..left.start + take;
                reader.gather(&part, now, &mut out[filled..filled + take as usize], &mut stage)?;
                left.start += take;
                filled += take as usize;
                if filled == CHUNK {
                    self.send(connection, id, &out)?;
                    filled = 0;
                }
            }
        }
        match filled {
            0 => Ok(connection.flush()?),
            _ => Ok(self.send(connection, id, &out[..filled])?),
        }
    }

    fn send<S: Write>(
        &self,
        connection: &mut Connection<S>,
        id: u64,
        bytes: &[u8],
    ) -> Result<(), WireError> {
        self.link.pass(bytes.len() as u64);
        self.statistics.bytes_read.add(bytes.len() as u64);
        connection.send_data(id, bytes)
    }

    fn try_write<S: Read + Write>(
        &self,
        connection: &mut Connection<S>,
        id: u64,
        access: &Access,
        ended: &mut bool,
    ) -> Result<u64, TransferError> {
        let target = Target::new(access, &self.descriptions)?;
        let file = self.objects.existing(access.object, "write to")?;
        let (end, bytes) = target.reach();
        self.objects.check_room(access.object, &file, end, bytes)?;
        let [mut incoming, mut stage] = self.buffers.take()?;
        let mut writer = Work::new(self, &file, access.object, &target)?;
        self.count(&access.bytes);
        let mut parts = target.parts(None)?;
        let mut part: Option<Part> = None;
        let mut total = 0;
        loop {
            let header = next_data(connection, id)?;
            let len = header.len as usize;
            connection.receive_data(&header, &mut incoming[..len])?;
            if len == 0 {
                *ended = true;
                break;
            }
            self.link.pass(len as u64);
            total += len as u64;
            let mut bytes = &incoming[..len];
            while !bytes.is_empty() {
                let current = match part.take() {
                    Some(part) => part,
                    None => parts.next().transpose()?.ok_or_else(|| surplus(access))?,
                };
                let take = (current.stream.end - current.stream.start).min(bytes.len() as u64);
                let now = current.stream.start..current.stream.start + take;
                let (these, rest) = bytes.split_at(take as usize);
                writer.scatter(&current, now, these, &mut stage)?;
                bytes = rest;
                let left = current.stream.start + take..current.stream.end;
                if left.is_empty() {
                    self.statistics.parts.add(1);
                } else {
                    part = Some(Part { stream: left, ..current });
                }
            }
        }
        self.statistics.bytes_written.add(total);
        if part.is_some() || parts.next().transpose()?.is_some() {
            let text = format!(
                "cannot write to object {:016x}: its data ended after {total} bytes, and more belong to it",
                access.object
            );
            return Err(Failure::new(FailureCode::Malformed, text).into());
        }
        Ok(total)
    }

    fn count(&self, bytes: &Bytes) {
        let counter = match bytes {
            Bytes::Contiguous { .. } => &self.statistics.contiguous_requests,
            Bytes::List(_) => &self.statistics.list_requests,
            Bytes::Typed { .. } => &self.statistics.typed_requests,
        };
        counter.add(1);
    }
}

fn surplus(access: &Access) -> Failure {
    let text =
        format!("cannot write to object {:016x}: more data came than belongs to it", access.object);
    Failure::new(FailureCode::Malformed, text)
}

/// The next frame, which must be data of this request.
fn next_data<S: Read>(connection: &mut Connection<S>, id: u64) -> Result<Header, WireError> {
    let header = connection.receive_header()?;
    if header.kind != FrameKind::Data || header.id != id {
        let expected = "data of the write that is under way";
        return Err(Malformed::Unexpected { expected, found: header.kind }.into());
    }
    Ok(header)
}
