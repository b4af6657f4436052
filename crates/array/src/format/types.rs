//! [`Format`] and [`Type`]: the formats of netCDF files and their external types.

use std::fmt;
use std::str::FromStr;

use super::UserTypeId;

/// One of the formats of netCDF files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// Classic: offsets of 32 bits.
    Cdf1,
    /// 64-bit offset: offsets of 64 bits, sizes of 32.
    Cdf2,
    /// 64-bit data: offsets and sizes of 64 bits, and unsigned and 64-bit types.
    Cdf5,
    /// HDF5 with the conventions of netCDF-4: groups, chunks, filters, several unlimited
    /// dimensions.
    Netcdf4,
    /// The same, restricted to what the classic formats can define (`NC_CLASSIC_MODEL`).
    Netcdf4Classic,
}

impl Format {
    /// All formats.
    pub const ALL: [Self; 5] =
        [Self::Cdf1, Self::Cdf2, Self::Cdf5, Self::Netcdf4, Self::Netcdf4Classic];

    /// Whether a file of the format is an HDF5 file.
    pub const fn is_hdf5(self) -> bool {
        matches!(self, Self::Netcdf4 | Self::Netcdf4Classic)
    }

    /// Whether definitions are limited to those of the classic model: one group, and one unlimited
    /// dimension that is the first of its variables.
    pub const fn is_classic_model(self) -> bool {
        !matches!(self, Self::Netcdf4)
    }

    /// The version byte after `CDF` in a file; 4 for HDF5 files, which have another magic number.
    pub const fn version(self) -> u8 {
        match self {
            Self::Cdf1 => 1,
            Self::Cdf2 => 2,
            Self::Netcdf4 | Self::Netcdf4Classic => 4,
            Self::Cdf5 => 5,
        }
    }

    /// The classic format with that version byte.
    pub const fn from_version(version: u8) -> Option<Self> {
        match version {
            1 => Some(Self::Cdf1),
            2 => Some(Self::Cdf2),
            5 => Some(Self::Cdf5),
            _ => None,
        }
    }

    /// The magic number of a file.
    pub const fn magic(self) -> [u8; 4] {
        match self {
            Self::Netcdf4 | Self::Netcdf4Classic => *b"\x89HDF",
            _ => [b'C', b'D', b'F', self.version()],
        }
    }

    /// The magic number of an unfinished classic file, which no other reader accepts.
    pub const fn unfinished_magic(self) -> [u8; 4] {
        [b'c', b'd', b'f', self.version()]
    }

    /// Length of a dimension at most, as in netCDF-C.
    pub const fn max_length(self) -> u64 {
        match self {
            Self::Cdf1 => i32::MAX as u64 - 3,
            Self::Cdf2 => u32::MAX as u64 - 3,
            Self::Cdf5 | Self::Netcdf4 | Self::Netcdf4Classic => i64::MAX as u64 - 3,
        }
    }

    /// Size of a variable, or of one record of it, that others can follow, at most.
    pub const fn max_size(self) -> u64 {
        self.max_length()
    }

    /// Offset of a variable at most.
    pub const fn max_begin(self) -> u64 {
        match self {
            Self::Cdf1 => i32::MAX as u64,
            _ => i64::MAX as u64,
        }
    }

    /// Number of records at most. The next number means that it is not known.
    pub const fn max_records(self) -> u64 {
        match self {
            Self::Cdf1 | Self::Cdf2 => u32::MAX as u64 - 1,
            _ => i64::MAX as u64,
        }
    }

    /// Bytes of a number in a header.
    pub(super) const fn number_len(self) -> u64 {
        match self {
            Self::Cdf1 | Self::Cdf2 => 4,
            _ => 8,
        }
    }

    /// Bytes of an offset in a header.
    pub(super) const fn offset_len(self) -> u64 {
        match self {
            Self::Cdf1 => 4,
            _ => 8,
        }
    }

    /// The name that `ncdump -k` prints.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Cdf1 => "classic",
            Self::Cdf2 => "64-bit offset",
            Self::Cdf5 => "cdf5",
            Self::Netcdf4 => "netCDF-4",
            Self::Netcdf4Classic => "netCDF-4 classic model",
        }
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Netcdf4 | Self::Netcdf4Classic => f.pad(self.kind()),
            _ => write!(f, "CDF-{}", self.version()),
        }
    }
}

impl FromStr for Format {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        match lower.as_str() {
            "netcdf4" | "netcdf-4" | "nc4" => return Ok(Self::Netcdf4),
            "netcdf4-classic" | "netcdf-4-classic" | "nc7" => return Ok(Self::Netcdf4Classic),
            _ => {}
        }
        let digits = lower.trim_start_matches("cdf").trim_start_matches('-');
        match digits.parse().ok().and_then(Self::from_version) {
            Some(format) => Ok(format),
            None => Err(format!(
                "'{text}' is no format; there are cdf1, cdf2, cdf5, netcdf4 and netcdf4-classic"
            )),
        }
    }
}

/// An external type: the type of an element in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// 8-bit signed integer.
    Byte,
    /// Text.
    Char,
    /// 16-bit signed integer.
    Short,
    /// 32-bit signed integer.
    Int,
    /// 32-bit floating point.
    Float,
    /// 64-bit floating point.
    Double,
    /// 8-bit unsigned integer; CDF-5 and netCDF-4 only, as are those below.
    UByte,
    /// 16-bit unsigned integer.
    UShort,
    /// 32-bit unsigned integer.
    UInt,
    /// 64-bit signed integer.
    Int64,
    /// 64-bit unsigned integer.
    UInt64,
    /// Text of any length; netCDF-4 only, as are those below.
    String,
    /// Text of that many bytes at most, with zeros behind it: HDF5's strings of a fixed length,
    /// which netCDF programs see as strings.
    Text(u32),
    /// A type that a program defined.
    User(UserTypeId),
}

impl From<UserTypeId> for Type {
    fn from(id: UserTypeId) -> Self {
        Self::User(id)
    }
}

impl Type {
    /// The types of numbers and characters, by their codes in classic files.
    pub const ALL: [Self; 11] = [
        Self::Byte,
        Self::Char,
        Self::Short,
        Self::Int,
        Self::Float,
        Self::Double,
        Self::UByte,
        Self::UShort,
        Self::UInt,
        Self::Int64,
        Self::UInt64,
    ];

    /// The type with that code.
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1..=11 => Some(Self::ALL[code as usize - 1]),
            _ => None,
        }
    }

    /// Its code in classic files, and that of netCDF for others.
    pub const fn code(self) -> u32 {
        match self {
            Self::Byte => 1,
            Self::Char => 2,
            Self::Short => 3,
            Self::Int => 4,
            Self::Float => 5,
            Self::Double => 6,
            Self::UByte => 7,
            Self::UShort => 8,
            Self::UInt => 9,
            Self::Int64 => 10,
            Self::UInt64 => 11,
            Self::String | Self::Text(_) => 12,
            Self::User(id) => id.number.saturating_add(32),
        }
    }

    /// Whether values are numbers.
    pub const fn is_number(self) -> bool {
        !matches!(self, Self::Char | Self::String | Self::Text(_) | Self::User(_))
    }

    /// Bytes of an element; of a value of variable length those of its descriptor.
    pub const fn size(self) -> u64 {
        match self {
            Self::String => striate_hdf5::write::DESCRIPTOR as u64,
            Self::Text(size) => size as u64,
            Self::User(id) => id.size(),
            Self::Byte | Self::Char | Self::UByte => 1,
            Self::Short | Self::UShort => 2,
            Self::Int | Self::Float | Self::UInt => 4,
            Self::Double | Self::Int64 | Self::UInt64 => 8,
        }
    }

    /// The name in CDL.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Byte => "byte",
            Self::Char => "char",
            Self::Short => "short",
            Self::Int => "int",
            Self::Float => "float",
            Self::Double => "double",
            Self::UByte => "ubyte",
            Self::UShort => "ushort",
            Self::UInt => "uint",
            Self::Int64 => "int64",
            Self::UInt64 => "uint64",
            Self::String | Self::Text(_) => "string",
            Self::User(_) => "a user-defined type",
        }
    }

    /// Whether a format has the type.
    pub const fn is_in(self, format: Format) -> bool {
        match format {
            Format::Netcdf4 => true,
            Format::Cdf5 => self.code() <= 11,
            _ => self.code() <= 6,
        }
    }
}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
