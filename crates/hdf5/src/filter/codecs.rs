//! [`Codecs`]: compressors that keep memory between chunks.
//!
//! Deflate is libdeflate both ways: its streams are zlib's, and it compresses in two thirds of the
//! time of the fastest one in Rust.

use std::fmt;

use bzip2::{Action, Compress, Compression, Decompress, Status};
use libdeflater::{CompressionLvl, DecompressionError};

use super::FilterFault;

/// Compressors, made when the first chunk needs them, and memory for parts of chunks.
#[derive(Default)]
pub(super) struct Codecs {
    deflate: Option<(u32, libdeflater::Compressor)>,
    inflate: Option<libdeflater::Decompressor>,
    zstd_encoder: Option<(i32, zstd::bulk::Compressor<'static>)>,
    zstd_decoder: Option<zstd::bulk::Decompressor<'static>>,
    /// A block of a chunk.
    pub(super) block: Vec<u8>,
    /// Shuffled bytes of a block.
    pub(super) planes: Vec<u8>,
}

impl fmt::Debug for Codecs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Codecs").finish_non_exhaustive()
    }
}

impl Codecs {
    /// The number of bytes of a zlib stream.
    pub(super) fn inflate(
        &mut self,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, FilterFault> {
        let limit = output.len();
        let inflate = self.inflate.get_or_insert_default();
        inflate.zlib_decompress(input, output).map_err(|error| match error {
            DecompressionError::BadData => FilterFault::Damaged("no zlib data"),
            DecompressionError::InsufficientSpace => FilterFault::TooLong { limit },
        })
    }

    /// The length of a zlib stream, unless there is no room for it.
    pub(super) fn deflate(&mut self, level: u32, input: &[u8], output: &mut [u8]) -> Option<usize> {
        if self.deflate.as_ref().is_none_or(|(made_for, _)| *made_for != level) {
            let lvl = CompressionLvl::new(level as i32).unwrap_or_default();
            self.deflate = Some((level, libdeflater::Compressor::new(lvl)));
        }
        let (_, deflate) = self.deflate.as_mut()?;
        deflate.zlib_compress(input, output).ok()
    }

    /// The number of bytes of a Zstandard frame.
    pub(super) fn zstd_decode(
        &mut self,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, FilterFault> {
        let fault = FilterFault::Damaged("no Zstandard data, or too long");
        if self.zstd_decoder.is_none() {
            self.zstd_decoder = zstd::bulk::Decompressor::new().ok();
        }
        let decoder = self.zstd_decoder.as_mut().ok_or(fault.clone())?;
        decoder.decompress_to_buffer(input, output).map_err(|_| fault)
    }

    /// The length of a Zstandard frame, unless there is no room for it.
    pub(super) fn zstd_encode(
        &mut self,
        level: i32,
        input: &[u8],
        output: &mut [u8],
    ) -> Option<usize> {
        if self.zstd_encoder.as_ref().is_none_or(|(made_for, _)| *made_for != level) {
            self.zstd_encoder = Some((level, zstd::bulk::Compressor::new(level).ok()?));
        }
        let (_, encoder) = self.zstd_encoder.as_mut()?;
        encoder.compress_to_buffer(input, output).ok()
    }
}

/// The number of bytes of a bzip2 stream.
pub(super) fn bzip2_decode(input: &[u8], output: &mut [u8]) -> Result<usize, FilterFault> {
    let damaged = FilterFault::Damaged("no bzip2 data");
    let mut decoder = Decompress::new(false);
    loop {
        let before = (decoder.total_in(), decoder.total_out());
        let rest = &mut output[before.1 as usize..];
        let status = decoder.decompress(&input[before.0 as usize..], rest);
        match status.map_err(|_| damaged.clone())? {
            Status::StreamEnd => return Ok(decoder.total_out() as usize),
            _ if (decoder.total_in(), decoder.total_out()) != before => {}
            _ if decoder.total_out() == output.len() as u64 => {
                return Err(FilterFault::TooLong { limit: output.len() });
            }
            _ => return Err(damaged),
        }
    }
}

/// The length of a bzip2 stream, unless there is no room for it.
pub(super) fn bzip2_encode(level: u32, input: &[u8], output: &mut [u8]) -> Option<usize> {
    let mut encoder = Compress::new(Compression::new(level), 0);
    loop {
        let before = (encoder.total_in(), encoder.total_out());
        let rest = &mut output[before.1 as usize..];
        match encoder.compress(&input[before.0 as usize..], rest, Action::Finish).ok()? {
            Status::StreamEnd => return Some(encoder.total_out() as usize),
            _ if (encoder.total_in(), encoder.total_out()) == before => return None,
            _ => {}
        }
    }
}
