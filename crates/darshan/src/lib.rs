//! Darshan logs: bytes in, structures out.
//!
//! A log is a header, a job record, names of files, and one region for each module that recorded
//! something. All but the header is compressed. [`Log::parse`] reads the header, the job and the
//! names; the records of a module are handed to a function one after the other ([`Log::counters`],
//! [`Log::segments`], [`Log::layouts`]), so that memory does not grow with their number.
//!
//! The format is that of the logs of Darshan 3.0 to 3.5 (format versions 3.00 to 3.41), in both
//! byte orders. Records of older versions of a module are converted to the newest. Nothing is
//! trusted: what does not fit is [`Damage`], with the reason in words, and what came before it is
//! kept.

mod counters;
mod dxt;
mod header;
mod job;
mod lustre;
mod module;
mod names;
mod region;

use std::collections::HashMap;

use thiserror::Error;

pub use self::counters::{FileRecord, MpiIo, MpiIoTime, Posix, PosixTime, Stdio, StdioTime};
pub use self::dxt::{Direction, Segment, Traced};
pub use self::header::{ByteOrder, Compression, Header, Region, Version, is_log};
pub use self::job::{Job, Mount};
pub use self::lustre::Layout;
pub use self::module::Module;

use self::region::Reader;

/// Why bytes are not a log that can be read at all.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum LogError {
    /// They are something else.
    #[error("it is not a Darshan log")]
    Other,
    /// They end within the header.
    #[error("the Darshan log ends within its header, after {0} bytes")]
    Short(usize),
    /// Logs of this version are built differently.
    #[error("Darshan logs of version {0} are not read; 3.00 to 3.41 are")]
    Version(String),
    /// The regions are packed in an unknown way.
    #[error("the Darshan log has an unknown compression type ({0})")]
    Compression(u8),
}

/// A region that cannot be read to its end.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{region}: {reason}; {records} records before it are used")]
pub struct Damage {
    /// The region: a module, or the job and the names.
    pub region: String,
    /// Why.
    pub reason: String,
    /// Records that were read before.
    pub records: u64,
}

/// A log whose records can be read.
#[derive(Clone, Debug)]
pub struct Log<'a> {
    bytes: &'a [u8],
    /// The header.
    pub header: Header,
    /// The job; what of its record cannot be read is zeros and empty texts.
    pub job: Job,
    /// Paths by record id.
    names: HashMap<u64, String>,
    /// What of job and names cannot be read.
    pub damage: Vec<Damage>,
}

impl<'a> Log<'a> {
    /// Reads header, job and names.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, LogError> {
        let header = Header::parse(bytes)?;
        let mut damage = Vec::new();
        let (job, found) = job::read(bytes, &header);
        damage.extend(found.map(|reason| Damage { region: "job".into(), reason, records: 0 }));
        let (names, found) = names::read(bytes, &header);
        damage.extend(found);
        Ok(Self { bytes, header, job, names, damage })
    }

    /// The path that a record is about, if the log has it. What is not UTF-8 in it is replaced.
    pub fn name(&self, id: u64) -> Option<&str> {
        self.names.get(&id).map(String::as_str)
    }

    /// How many names there are.
    pub fn names(&self) -> usize {
        self.names.len()
    }

    /// The modules that recorded something.
    pub fn modules(&self) -> impl Iterator<Item = Module> + '_ {
        self.header.modules()
    }

    /// The mount that a path is on: the one with the longest path.
    pub fn mount(&self, path: &str) -> Option<&Mount> {
        let holds = |mount: &&Mount| {
            let under = path.strip_prefix(mount.path.as_str());
            under.is_some_and(|rest| {
                rest.is_empty() || rest.starts_with('/') || mount.path.ends_with('/')
            })
        };
        self.job.mounts.iter().filter(holds).max_by_key(|mount| mount.path.len())
    }

    /// Hands the records of POSIX, MPI-IO or STDIO to a function. None of another module.
    pub fn counters(
        &self,
        module: Module,
        each: &mut dyn FnMut(&FileRecord),
    ) -> Result<u64, Damage> {
        self.damaged(module, |reader, count| counters::read(self, module, reader, count, each))
    }

    /// Hands the reads and writes that DXT recorded at the POSIX or MPI-IO layer to a function.
    pub fn segments(
        &self,
        module: Module,
        each: &mut dyn FnMut(&Traced, Segment),
    ) -> Result<u64, Damage> {
        self.damaged(module, |reader, count| dxt::read(self, module, reader, count, each))
    }

    /// Hands the layouts of files on Lustre to a function.
    pub fn layouts(&self, each: &mut dyn FnMut(&Layout)) -> Result<u64, Damage> {
        let module = Module::LUSTRE;
        self.damaged(module, |reader, count| lustre::read(self, reader, count, each))
    }

    fn damaged(
        &self,
        module: Module,
        read: impl FnOnce(&mut Reader<'_>, &mut u64) -> Result<(), String>,
    ) -> Result<u64, Damage> {
        let mut records = 0;
        let region = self.header.region(module);
        if region.length == 0 {
            return Ok(0);
        }
        let mut reader = Reader::new(self.bytes, region, &self.header);
        read(&mut reader, &mut records).map(|()| records).map_err(|reason| Damage {
            region: module.name(),
            reason,
            records,
        })
    }
}
