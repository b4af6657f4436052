//! [`Stage`]: one filter of a pipeline with its parameters understood.

use super::bitshuffle::Bitshuffle;
use super::codecs::{bzip2_decode, bzip2_encode};
use super::nbit::Nbit;
use super::scale_offset::ScaleOffset;
use super::szip::Szip;
use super::{Codecs, FilterFault, blosc, fletcher32, lz4, lzf, registry, shuffle};

/// What a filter does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Deflate {
        level: u32,
    },
    Shuffle {
        size: usize,
    },
    Fletcher32,
    Szip(Szip),
    Nbit(Nbit),
    ScaleOffset(ScaleOffset),
    Bzip2 {
        level: u32,
    },
    Lzf,
    Blosc,
    Lz4 {
        block: usize,
    },
    Bitshuffle(Bitshuffle),
    Zstd {
        level: i32,
    },
    /// Changed the values once; nothing is to be undone.
    Quantized,
    /// Cannot be applied.
    Refused(FilterFault),
}

impl Stage {
    /// A filter that cannot be applied is an error only when a chunk asks for it.
    pub(super) fn new(id: u16, parameters: &[u32]) -> Self {
        let first = parameters.first().copied();
        let made = match id {
            registry::DEFLATE => Ok(Self::Deflate { level: first.unwrap_or(6).min(9) }),
            registry::SHUFFLE => match first {
                Some(size) => Ok(Self::Shuffle { size: size as usize }),
                None => Err(FilterFault::Parameters("there is none")),
            },
            registry::FLETCHER32 => Ok(Self::Fletcher32),
            registry::SZIP => Szip::new(parameters).map(Self::Szip),
            registry::NBIT => Nbit::new(parameters).map(Self::Nbit),
            registry::SCALE_OFFSET => ScaleOffset::new(parameters).map(Self::ScaleOffset),
            registry::BZIP2 => Ok(Self::Bzip2 { level: first.unwrap_or(9).clamp(1, 9) }),
            registry::LZF => Ok(Self::Lzf),
            registry::BLOSC => Ok(Self::Blosc),
            registry::LZ4 => Ok(Self::Lz4 { block: first.unwrap_or(0) as usize }),
            registry::BITSHUFFLE => Bitshuffle::new(parameters).map(Self::Bitshuffle),
            registry::ZSTD => {
                let level = first.map_or(3, u32::cast_signed);
                Ok(Self::Zstd { level: level.clamp(-100, 22) })
            }
            registry::BITGROOM | registry::GRANULAR_BITROUND => Ok(Self::Quantized),
            _ => Err(match registry::registered(id) {
                Some(entry) => FilterFault::Plugin { plugin: entry.plugin },
                None => FilterFault::Unknown,
            }),
        };
        made.unwrap_or_else(Self::Refused)
    }

    /// The most bytes that a filter makes of so many.
    pub(super) fn bound(&self, len: usize) -> usize {
        match self {
            Self::Shuffle { .. } | Self::Quantized => len,
            Self::Fletcher32 => len.saturating_add(fletcher32::LEN),
            _ => len.saturating_add(len / 8).saturating_add(1024),
        }
    }

    /// A filter that is only useful if its output is shorter than its input.
    pub(super) fn compresses(&self) -> bool {
        !matches!(self, Self::Shuffle { .. } | Self::Fletcher32 | Self::Quantized)
    }

    /// Whether there is an encoder.
    pub(super) fn check_encoding(&self) -> Result<(), FilterFault> {
        match self {
            Self::Refused(fault) => Err(fault.clone()),
            Self::Szip(_)
            | Self::ScaleOffset(_)
            | Self::Lzf
            | Self::Blosc
            | Self::Bitshuffle(_)
            | Self::Quantized => Err(FilterFault::NoEncoder),
            _ => Ok(()),
        }
    }

    /// If what was encoded is the beginning of the input, as it is, its length.
    pub(super) fn decode_in_place(&self, input: &[u8]) -> Option<Result<usize, FilterFault>> {
        match self {
            Self::Fletcher32 => Some(fletcher32::verified(input)),
            Self::Quantized => Some(Ok(input.len())),
            Self::Nbit(Nbit::Unchanged) | Self::ScaleOffset(ScaleOffset::Unchanged) => {
                Some(Ok(input.len()))
            }
            _ => None,
        }
    }

    /// The number of bytes after decoding.
    pub(super) fn decode(
        &self,
        input: &[u8],
        output: &mut [u8],
        codecs: &mut Codecs,
    ) -> Result<usize, FilterFault> {
        match self {
            Self::Deflate { .. } => codecs.inflate(input, output),
            Self::Shuffle { size } => {
                let to = prefix(output, input.len())?;
                shuffle::unshuffle(*size, input, to);
                Ok(input.len())
            }
            Self::Fletcher32 => {
                let len = fletcher32::verified(input)?;
                prefix(output, len)?.copy_from_slice(&input[..len]);
                Ok(len)
            }
            Self::Szip(szip) => szip.decode(input, output, &mut codecs.block),
            Self::Nbit(nbit) => nbit.decode(input, output),
            Self::ScaleOffset(scale_offset) => scale_offset.decode(input, output),
            Self::Bzip2 { .. } => bzip2_decode(input, output),
            Self::Lzf => lzf::decode(input, output),
            Self::Blosc => blosc::decode(input, output, codecs),
            Self::Lz4 { .. } => lz4::decode(input, output),
            Self::Bitshuffle(bitshuffle) => bitshuffle.decode(input, output, codecs),
            Self::Zstd { .. } => codecs.zstd_decode(input, output),
            Self::Quantized => {
                prefix(output, input.len())?.copy_from_slice(input);
                Ok(input.len())
            }
            Self::Refused(fault) => Err(fault.clone()),
        }
    }

    /// The number of bytes after encoding, unless there is no room for them.
    pub(super) fn encode(
        &self,
        input: &[u8],
        output: &mut [u8],
        codecs: &mut Codecs,
    ) -> Result<Option<usize>, FilterFault> {
        match self {
            Self::Deflate { level } => Ok(codecs.deflate(*level, input, output)),
            Self::Shuffle { size } => {
                shuffle::shuffle(*size, input, prefix(output, input.len())?);
                Ok(Some(input.len()))
            }
            Self::Fletcher32 => {
                let (data, sum) =
                    prefix(output, input.len() + fletcher32::LEN)?.split_at_mut(input.len());
                data.copy_from_slice(input);
                sum.copy_from_slice(&fletcher32::checksum(input).to_le_bytes());
                Ok(Some(input.len() + fletcher32::LEN))
            }
            Self::Nbit(nbit) => nbit.encode(input, output),
            Self::Bzip2 { level } => Ok(bzip2_encode(*level, input, output)),
            Self::Lz4 { block } => Ok(lz4::encode(*block, input, output, &mut codecs.block)),
            Self::Zstd { level } => Ok(codecs.zstd_encode(*level, input, output)),
            Self::Refused(_)
            | Self::Szip(_)
            | Self::ScaleOffset(_)
            | Self::Lzf
            | Self::Blosc
            | Self::Bitshuffle(_)
            | Self::Quantized => self.check_encoding().and(Err(FilterFault::NoEncoder)),
        }
    }
}

/// The first bytes of a buffer that holds all that there can be.
fn prefix(buffer: &mut [u8], len: usize) -> Result<&mut [u8], FilterFault> {
    let limit = buffer.len();
    buffer.get_mut(..len).ok_or(FilterFault::TooLong { limit })
}
