//! Extended traces (DXT): each read and write of a file by a rank, with its offset and times.

use crate::Log;
use crate::module::Module;
use crate::region::Reader;

/// Bytes of the record before the segments, and of the name of the host in it.
const RECORD: usize = 104;
const HOST: usize = 64;

/// Whether bytes were read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Read.
    Read,
    /// Written.
    Write,
}

/// Whose segments follow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traced {
    /// The file's record id.
    pub id: u64,
    /// The rank.
    pub rank: i64,
    /// Its host.
    pub host: String,
    /// Writes that follow.
    pub writes: u64,
    /// Reads that follow.
    pub reads: u64,
}

/// A read or a write.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Segment {
    /// Which.
    pub direction: Direction,
    /// Offset in the file; the first versions do not have it for MPI-IO.
    pub offset: Option<i64>,
    /// How many bytes.
    pub length: i64,
    /// Seconds since the job began.
    pub start: f64,
    /// Seconds since the job began.
    pub end: f64,
    /// The thread, since Darshan 3.3.
    pub thread: Option<u64>,
}

pub(crate) fn read(
    log: &Log<'_>,
    module: Module,
    reader: &mut Reader<'_>,
    count: &mut u64,
    each: &mut dyn FnMut(&Traced, Segment),
) -> Result<(), String> {
    let version = log.header.module_version(module);
    let (threads, offsets) = match (module, version) {
        (Module::DXT_POSIX, 2) | (Module::DXT_MPI_IO, 3) => (true, true),
        (Module::DXT_MPI_IO, 1) => (false, false),
        (Module::DXT_POSIX, 1) | (Module::DXT_MPI_IO, 2) => (false, true),
        _ => return Err(format!("records of version {version} are not read")),
    };
    let order = log.header.order;
    let mut record = [0; RECORD];
    let mut segment = vec![0; if threads { 40 } else { 32 }];
    while reader.fill(&mut record)? {
        let word = |at: usize| order.i64(&record, at).unwrap_or(0);
        let host = &record[24..24 + HOST];
        let end = host.iter().position(|byte| *byte == 0).unwrap_or(HOST);
        let counted = |at: usize| {
            u64::try_from(word(at)).map_err(|_| "a record has a negative count".to_owned())
        };
        let traced = Traced {
            id: word(0).cast_unsigned(),
            rank: word(8),
            host: String::from_utf8_lossy(&host[..end]).into_owned(),
            writes: counted(88)?,
            reads: counted(96)?,
        };
        for (direction, number) in
            [(Direction::Write, traced.writes), (Direction::Read, traced.reads)]
        {
            for _ in 0..number {
                reader.require(&mut segment)?;
                let word = |at: usize| order.i64(&segment, at).unwrap_or(0);
                let seconds = |at: usize| order.f64(&segment, at).unwrap_or(0.0);
                let found = Segment {
                    direction,
                    offset: offsets.then(|| word(0)),
                    length: word(8),
                    start: seconds(16),
                    end: seconds(24),
                    thread: threads.then(|| word(32).cast_unsigned()),
                };
                *count += 1;
                each(&traced, found);
            }
        }
    }
    Ok(())
}
