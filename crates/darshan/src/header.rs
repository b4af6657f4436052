//! [`Header`]: what stands at the beginning of a log, the only part that is not compressed.
//!
//! Until format version 3.40 there is room for 16 modules and 32 partial flags, from 3.41 on for 64
//! of both. Modules were put between others twice (`H5D` in 3.20, `PNETCDF_VAR` in 3.41): numbers
//! are those of the newest version here.

use std::fmt;

use crate::LogError;
use crate::module::Module;

/// Identifies the byte order.
const MAGIC: u64 = 6_567_223;
/// Bytes of the header until 3.40, and from 3.41 on.
const SHORT: usize = 360;
const LONG: usize = 1328;

/// The version of the format of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Before the point.
    pub major: u32,
    /// After it: 0, 10, 20, 21, 41.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.major, self.minor)
    }
}

/// The order of bytes in numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The lowest first.
    Little,
    /// The highest first.
    Big,
}

impl ByteOrder {
    pub(crate) fn u64(self, bytes: &[u8], at: usize) -> Option<u64> {
        let bytes = bytes.get(at..at.checked_add(8)?)?.try_into().ok()?;
        Some(match self {
            Self::Little => u64::from_le_bytes(bytes),
            Self::Big => u64::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u32(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        })
    }

    pub(crate) fn i64(self, bytes: &[u8], at: usize) -> Option<i64> {
        self.u64(bytes, at).map(u64::cast_signed)
    }

    pub(crate) fn f64(self, bytes: &[u8], at: usize) -> Option<f64> {
        self.u64(bytes, at).map(f64::from_bits)
    }
}

/// How regions are packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Streams of zlib.
    Zlib,
    /// Streams of bzip2.
    Bzip2,
    /// They are not.
    None,
}

impl Compression {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Zlib => "zlib",
            Self::Bzip2 => "bzip2",
            Self::None => "none",
        }
    }
}

/// Where something is in the file, as it is packed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// The first byte.
    pub offset: u64,
    /// How many.
    pub length: u64,
}

/// The beginning of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version of the format.
    pub version: Version,
    /// The order of bytes.
    pub order: ByteOrder,
    /// How regions are packed.
    pub compression: Compression,
    /// A bit for each module that ran out of memory and left records out.
    partial: u64,
    pub(crate) job: Region,
    pub(crate) names: Region,
    regions: Vec<Region>,
    versions: Vec<u32>,
}

/// Whether bytes begin as a log does.
pub fn is_log(bytes: &[u8]) -> bool {
    version(bytes).is_some() && order(bytes).is_some()
}

/// The version at the beginning: `3.41`, and zeros.
fn version(bytes: &[u8]) -> Option<Version> {
    let text = bytes.get(..8)?;
    let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
    let (major, minor) = std::str::from_utf8(&text[..end]).ok()?.split_once('.')?;
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits.then(|| text.parse().ok()).flatten()
    };
    Some(Version { major: number(major)?, minor: number(minor)? })
}

fn order(bytes: &[u8]) -> Option<ByteOrder> {
    [ByteOrder::Little, ByteOrder::Big].into_iter().find(|order| order.u64(bytes, 8) == Some(MAGIC))
}

impl Header {
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, LogError> {
        let version = version(bytes).ok_or(LogError::Other)?;
        let order = order(bytes).ok_or(LogError::Other)?;
        if version.major != 3 {
            return Err(LogError::Version(version.to_string()));
        }
        let long = version.minor >= 41;
        let size = if long { LONG } else { SHORT };
        let header = bytes.get(..size).ok_or(LogError::Short(bytes.len()))?;
        let compression = match header[16] {
            0 => Compression::Zlib,
            1 => Compression::Bzip2,
            2 => Compression::None,
            other => return Err(LogError::Compression(other)),
        };
        let short = LogError::Short(bytes.len());
        let (count, partial, maps) = if long {
            (64, order.u64(header, 24), 32)
        } else {
            (16, order.u32(header, 20).map(u64::from), 24)
        };
        let mut partial = partial.ok_or_else(|| short.clone())?;
        let region = |place: usize| {
            let at = maps + place * 16;
            Some(Region { offset: order.u64(header, at)?, length: order.u64(header, at + 8)? })
        };
        let names = region(0).ok_or_else(|| short.clone())?;
        let regions: Option<Vec<Region>> = (1..=count).map(region).collect();
        let mut regions = regions.ok_or_else(|| short.clone())?;
        let after = maps + (count + 1) * 16;
        let versions: Option<Vec<u32>> =
            (0..count).map(|place| order.u32(header, after + place * 4)).collect();
        let mut versions = versions.ok_or(short)?;
        let newer = [(Module::H5D, 20), (Module::PNETCDF_VAR, 41)];
        for (module, since) in newer {
            if version.minor < since {
                let place = usize::from(module.0);
                regions.insert(place, Region::default());
                versions.insert(place, 0);
                let below = (1u64 << place) - 1;
                partial = (partial & below) | ((partial & !below) << 1);
            }
        }
        regions.resize(Module::MOST, Region::default());
        versions.resize(Module::MOST, 0);
        // The job record ends where the next region begins.
        let first = std::iter::once(&names).chain(&regions).find(|region| region.offset != 0);
        let end = first.map_or(bytes.len() as u64, |region| region.offset);
        let size = size as u64;
        let job = Region { offset: size, length: end.saturating_sub(size) };
        Ok(Self { version, order, compression, partial, job, names, regions, versions })
    }

    /// Where the records of a module are; nowhere, with length 0, if it has none.
    pub fn region(&self, module: Module) -> Region {
        self.regions.get(usize::from(module.0)).copied().unwrap_or_default()
    }

    /// The version of a module's records.
    pub fn module_version(&self, module: Module) -> u32 {
        self.versions.get(usize::from(module.0)).copied().unwrap_or(0)
    }

    /// Whether a module ran out of memory and left records out.
    pub fn is_partial(&self, module: Module) -> bool {
        u32::from(module.0) < u64::BITS && self.partial & (1 << module.0) != 0
    }

    /// The modules that have records or left some out.
    pub fn modules(&self) -> impl Iterator<Item = Module> + '_ {
        (0..Module::MOST as u8)
            .map(Module)
            .filter(|module| self.region(*module).length > 0 || self.is_partial(*module))
    }
}
