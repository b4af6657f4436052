//! [`LogRecord`]: a file in a log, as bytes.
//!
//! ```text
//! log    = header (4096 bytes) entry*
//! header = "STRCOMB1" version:u32 0:u32 generation:u64 index:u64 process:u64 host:64 bytes 0…
//! entry  = magic:u32 state:u32 | length:u64 generation:u64 time:u64 replaces:u64
//!          modified:i64 nanoseconds:u32 mode:u32 kind:u32 directory:u32 name:u32 0:u32 data:u64 | crc:u32 0:u32
//!          directory name data 0…    (to a multiple of 8)
//! index  = (offset of an entry):u64* count:u64 crc:u64     (at the end of a sealed log)
//! ```
//!
//! Numbers are little endian. The checksum (CRC-32C) is that of what stands between the bars and of
//! all that follows it. `state` may be changed later, all else may not. An entry counts if its
//! generation is the log's, it is alive, and no later one replaces it.

use crc_fast::{CrcAlgorithm, Digest};

/// The first bytes of a log.
pub(super) const LOG_MAGIC: &[u8; 8] = b"STRCOMB1";
/// The version of its format.
pub(super) const VERSION: u32 = 1;
/// Where entries start.
pub(super) const FIRST: u64 = 4096;
/// How long the header of an entry is.
pub(super) const HEADER: usize = 88;

const MAGIC: u32 = 0x5249_5453;
const ALIVE: u32 = 1;
pub(super) const DEAD: u32 = 2;
/// The checksum covers the header from here …
const COVERED: usize = 8;
/// … to here, where it is.
const CHECKSUM: usize = 80;

/// What an entry says of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameState {
    /// It is a file with this content.
    File,
    /// It no longer exists.
    Removed,
}

/// A file as it goes into a log.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRecord<'a> {
    pub(super) said: NameState,
    /// The path of its directory.
    pub(super) directory: &'a [u8],
    pub(super) name: &'a [u8],
    pub(super) mode: u32,
    /// Seconds and nanoseconds.
    pub(super) modified: (i64, u32),
    /// The entry of the same log that this one takes the place of, or 0.
    pub(super) replaces: u64,
    /// When it was added, in nanoseconds: of two entries for a name, the later one counts.
    pub(super) time: u64,
    pub(super) data: &'a [u8],
}

impl LogRecord<'_> {
    /// How long it is in the log.
    pub(super) fn length(&self) -> u64 {
        let length = HEADER + self.directory.len() + self.name.len() + self.data.len();
        length.next_multiple_of(8) as u64
    }

    /// Where its data are in it.
    pub(super) fn data_at(&self) -> u64 {
        (HEADER + self.directory.len() + self.name.len()) as u64
    }

    /// Its header.
    pub(super) fn header(&self, generation: u64) -> [u8; HEADER] {
        let mut header = [0; HEADER];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &MAGIC.to_le_bytes());
        put(4, &ALIVE.to_le_bytes());
        put(8, &self.length().to_le_bytes());
        put(16, &generation.to_le_bytes());
        put(24, &self.time.to_le_bytes());
        put(32, &self.replaces.to_le_bytes());
        put(40, &self.modified.0.to_le_bytes());
        put(48, &self.modified.1.to_le_bytes());
        put(52, &self.mode.to_le_bytes());
        put(56, &(if self.said == NameState::File { 1u32 } else { 2 }).to_le_bytes());
        put(60, &(self.directory.len() as u32).to_le_bytes());
        put(64, &(self.name.len() as u32).to_le_bytes());
        put(72, &(self.data.len() as u64).to_le_bytes());
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        for part in [&header[COVERED..CHECKSUM], self.directory, self.name, self.data] {
            digest.update(part);
        }
        header[CHECKSUM..CHECKSUM + 4].copy_from_slice(&(digest.finalize() as u32).to_le_bytes());
        header
    }
}

/// The header of an entry that was read, not yet checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) alive: bool,
    pub(super) length: u64,
    pub(super) time: u64,
    pub(super) replaces: u64,
    pub(super) modified: (i64, u32),
    pub(super) mode: u32,
    pub(super) said: NameState,
    pub(super) directory: usize,
    pub(super) name: usize,
    pub(super) data: usize,
    checksum: u32,
}

impl Header {
    /// Reads one; `None` if it cannot be one of this generation, or if it would not fit into
    /// `room`.
    pub(super) fn read(bytes: &[u8; HEADER], generation: u64, room: u64) -> Option<Self> {
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        let short = |at: usize| u32::from_le_bytes(std::array::from_fn(|n| bytes[at + n]));
        let said = match short(56) {
            1 => NameState::File,
            2 => NameState::Removed,
            _ => return None,
        };
        let header = Self {
            alive: short(4) == ALIVE,
            length: long(8),
            time: long(24),
            replaces: long(32),
            modified: (long(40) as i64, short(48)),
            mode: short(52),
            said,
            directory: short(60) as usize,
            name: short(64) as usize,
            data: usize::try_from(long(72)).ok()?,
            checksum: short(CHECKSUM),
        };
        let parts = header.directory.checked_add(header.name)?.checked_add(HEADER)?;
        let length = parts.checked_add(header.data)?.checked_next_multiple_of(8)?;
        let right = short(0) == MAGIC
            && matches!(short(4), ALIVE | DEAD)
            && long(16) == generation
            && header.length == length as u64
            && header.length <= room;
        right.then_some(header)
    }

    /// Whether header and body are what was written.
    pub(super) fn is_whole(&self, bytes: &[u8; HEADER], body: &[u8]) -> bool {
        let mut digest = Digest::new(CrcAlgorithm::Crc32Iscsi);
        digest.update(&bytes[COVERED..CHECKSUM]);
        digest.update(body);
        digest.finalize() as u32 == self.checksum
    }

    /// How long the body is, without what fills it up.
    pub(super) fn body(&self) -> usize {
        self.directory + self.name + self.data
    }
}
