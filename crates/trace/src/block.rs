//! Blocks: the units of a trace file after its first sixteen bytes, each with a header and a
//! checksum.

use crate::varint::Input;

/// The first bytes of a trace, before its version.
pub(crate) const MAGIC: &[u8; 8] = b"STRTRACE";
/// The trace of one process. The older ones are without results of calls that stages only have
/// notice of ([`Content::RecordsWithoutResults`]), and the first of them without calls of layers.
pub(crate) const VERSION: u32 = 5;
/// Traces of several processes, one after the other; blocks of older traces may be among them.
pub(crate) const MULTI_PROCESS_VERSION: u32 = 6;
/// Older versions of [`VERSION`].
pub(crate) const OLDER_VERSIONS: [u32; 2] = [1, 3];
/// Older versions of [`MULTI_PROCESS_VERSION`].
pub(crate) const OLDER_VERSIONS_OF_SEVERAL: [u32; 2] = [2, 4];
/// Magic, version, and four bytes that are zero.
pub(crate) const PREAMBLE: usize = 16;
/// The first bytes of a block.
pub(crate) const BLOCK_MAGIC: [u8; 4] = *b"SBLK";
/// Bytes of a block before its content.
pub(crate) const HEADER: usize = 72;
/// Larger contents are damage.
pub(crate) const MOST: usize = 4 << 20;

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Content {
    /// The process that recorded it: [`Header`](crate::Header).
    Header = 1,
    /// Records of versions 1 to 4: without the results of calls that stages only have notice of.
    RecordsWithoutResults = 2,
    /// Where blocks of records are.
    Index = 3,
    /// Where the last index is: the end of a complete trace.
    End = 4,
    /// Files that were open before the records begin.
    PreopenedFiles = 5,
    /// Where the traces of processes are.
    Processes = 6,
    /// Calls of layers above POSIX.
    Layer = 7,
    /// Records.
    Records = 8,
}

impl Content {
    const fn of_code(code: u8) -> Option<Self> {
        match code {
            1 => Some(Self::Header),
            2 => Some(Self::RecordsWithoutResults),
            3 => Some(Self::Index),
            4 => Some(Self::End),
            5 => Some(Self::PreopenedFiles),
            6 => Some(Self::Processes),
            7 => Some(Self::Layer),
            8 => Some(Self::Records),
            _ => None,
        }
    }
}

/// What is said before the content of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BlockHeader {
    pub(crate) content: Content,
    pub(crate) compressed: bool,
    pub(crate) shard: u16,
    /// Bytes in the file.
    pub(crate) stored: u32,
    /// Bytes when they are not compressed.
    pub(crate) raw: u32,
    pub(crate) count: u32,
    /// Records that could not be written before these.
    pub(crate) lost: u32,
    /// A moment in ticks and nanoseconds, and the length of a tick: how times are to be read.
    pub(crate) ticks: u64,
    pub(crate) nanoseconds: u64,
    pub(crate) tick: f64,
    /// The first start and the last end in nanoseconds.
    pub(crate) from: u64,
    pub(crate) until: u64,
    pub(crate) checksum: u32,
}

impl BlockHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        let mut at = 0;
        let mut put = |what: &[u8]| {
            bytes[at..at + what.len()].copy_from_slice(what);
            at += what.len();
        };
        put(&BLOCK_MAGIC);
        put(&[self.content as u8, self.compressed.into()]);
        put(&self.shard.to_le_bytes());
        for number in [self.stored, self.raw, self.count, self.lost] {
            put(&number.to_le_bytes());
        }
        let times = [self.ticks, self.nanoseconds, self.tick.to_bits(), self.from, self.until];
        for number in times {
            put(&number.to_le_bytes());
        }
        put(&self.checksum.to_le_bytes());
        let own = checksum(&bytes[..HEADER - 4]);
        bytes[HEADER - 4..].copy_from_slice(&own.to_le_bytes());
        bytes
    }

    /// `Err` says what is wrong.
    pub(crate) fn decode(bytes: &[u8; HEADER]) -> Result<Self, &'static str> {
        let mut input = Input(bytes);
        if input.fixed() != Some(BLOCK_MAGIC) {
            return Err("no block begins here");
        }
        let own = u32::from_le_bytes(std::array::from_fn(|n| bytes[HEADER - 4 + n]));
        if own != checksum(&bytes[..HEADER - 4]) {
            return Err("the header of a block has another checksum");
        }
        Self::fields(&mut input).ok_or("the header of a block is invalid")
    }

    fn fields(input: &mut Input<'_>) -> Option<Self> {
        let narrow = |input: &mut Input<'_>| input.fixed().map(u32::from_le_bytes);
        let wide = |input: &mut Input<'_>| input.fixed().map(u64::from_le_bytes);
        let header = Self {
            content: Content::of_code(input.byte()?)?,
            compressed: match input.byte()? {
                0 => false,
                1 => true,
                _ => return None,
            },
            shard: u16::from_le_bytes(input.fixed()?),
            stored: narrow(input)?,
            raw: narrow(input)?,
            count: narrow(input)?,
            lost: narrow(input)?,
            ticks: wide(input)?,
            nanoseconds: wide(input)?,
            tick: f64::from_bits(wide(input)?),
            from: wide(input)?,
            until: wide(input)?,
            checksum: narrow(input)?,
        };
        let sizes = header.stored as usize <= MOST && header.raw as usize <= MOST;
        (sizes && header.tick.is_finite() && header.tick > 0.0).then_some(header)
    }

    /// Bytes that the block takes in the file.
    pub(crate) const fn size(&self) -> u64 {
        HEADER as u64 + self.stored as u64
    }

    /// What an index says of it, if it has records or calls of layers.
    pub(crate) fn info(&self, offset: u64) -> Option<BlockInfo> {
        let Self { shard, count, from, until, .. } = *self;
        let info = BlockInfo { offset, shard, count, from, until };
        match self.content {
            Content::Records | Content::RecordsWithoutResults => {
                (!info.is_of_layer()).then_some(info)
            }
            Content::Layer => info.is_of_layer().then_some(info),
            _ => None,
        }
    }

    /// A time in ticks as nanoseconds.
    pub(crate) fn time(&self, ticks: u64) -> u64 {
        let since = ticks.wrapping_sub(self.ticks) as i64;
        self.nanoseconds.saturating_add_signed((since as f64 * self.tick) as i64)
    }
}

/// CRC-32C.
pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Where records are, and from when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockInfo {
    /// Where the block begins in the file.
    pub offset: u64,
    /// Records of one shard are in the order in which calls ended; those of a thread are in one
    /// shard.
    pub shard: u16,
    /// How many records there are.
    pub count: u32,
    /// When the first call began, in nanoseconds of the monotonic clock.
    pub from: u64,
    /// When the last ended.
    pub until: u64,
}

impl BlockInfo {
    /// Whether it has calls of layers above POSIX.
    pub const fn is_of_layer(&self) -> bool {
        self.shard >= crate::layer_codec::FIRST_SHARD
    }
}

/// A block as it is stored in a trace, to be put into another.
#[derive(Clone, Debug)]
pub struct StoredBlock {
    pub(crate) header: BlockHeader,
    pub(crate) bytes: Vec<u8>,
}
