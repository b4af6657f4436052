//! `striate bench array ior`: \[BARTZ\]'s patterns on a variable.

use clap::Args;
use striate_bench::array::workload::{ArrayIor, IorShape};
use striate_bench::array::{ArrayApi, ArrayGoals, CallMode};
use striate_datatype::Bytes;

use super::super::workloads::size;
use super::options::{ArraySetting, CommonArgs};
use crate::CommandError;

/// What is compared by default.
const USUAL: &[ArrayApi] = &[
    ArrayApi::StriateNetcdf4,
    ArrayApi::Hdf5(None),
    ArrayApi::Netcdf4(None),
    ArrayApi::Pnetcdf(None),
    ArrayApi::Raw,
];

/// Chunks of so many bytes are small ones.
const SMALL_CHUNK: u64 = 128 << 10;

/// Which rank has which blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern {
    /// A piece per rank.
    Disjoint,
    /// Blocks of so many stripes, dealt out in turn.
    Osts(u64),
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let stripes = text.strip_suffix("-ost").and_then(|stripes| stripes.parse().ok());
    match (text, stripes) {
        ("disjoint", _) => Ok(Pattern::Disjoint),
        (_, Some(stripes)) if (1..=1024).contains(&stripes) => Ok(Pattern::Osts(stripes)),
        _ => Err("it is disjoint, 1-ost, 2-ost, 5-ost, 10-ost …".into()),
    }
}

/// One variable in pieces or in stripes that are dealt out in turn (IOR with netCDF-4)
///
/// With the pattern 'disjoint' every rank has one piece of the variable. With '1-ost' blocks of one
/// stripe are dealt out in turn, so that each of as many ranks as there are servers uses one
/// server; with 'N-ost' blocks of N stripes. Variables and chunks begin on stripes.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench array ior --pattern disjoint --size 64MiB
  mpiexec -n 4 striate bench array ior --pattern 1-ost --independent
  mpiexec -n 4 striate bench array ior --chunk 128KiB --transfer 16MiB
  mpiexec -n 4 striate bench array ior --records --pattern 1-ost")]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command")]
pub(super) struct ArrayIorArgs {
    /// Which rank has what: disjoint, 1-ost, 2-ost, 5-ost, 10-ost …
    #[arg(long, value_name = "PATTERN", default_value = "disjoint", value_parser = pattern)]
    pattern: Pattern,
    /// Bytes of each rank; rounded up to whole blocks
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = size)]
    size: u64,
    /// Bytes of a stripe
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size)]
    stripe: u64,
    /// Bytes of a call [default: a stripe if disjoint, else a block]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    transfer: Option<u64>,
    /// Store the variable in chunks of so many bytes
    #[arg(long, value_name = "SIZE", value_parser = size)]
    chunk: Option<u64>,
    /// Give the variable two dimensions
    #[arg(long)]
    two_dimensional: bool,
    /// Let the variable grow by a record with each call of all ranks
    #[arg(long, conflicts_with_all = ["two_dimensional", "independent"])]
    records: bool,
    /// Every rank makes its own calls; otherwise all calls are collective
    #[arg(long)]
    independent: bool,
    /// Begin anywhere, not on stripes
    #[arg(long)]
    unaligned: bool,
    #[command(flatten)]
    common: CommonArgs,
}

impl ArrayIorArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let mode = if self.independent { CallMode::Independent } else { CallMode::Collective };
        let ior = self.workload()?;
        let setting = ArraySetting::new(4, self.goals())
            .mode(mode)
            .beside(USUAL)
            .aligned((!self.unaligned).then_some(self.stripe));
        self.common.run(json, &setting, |ranks| Box::new(ArrayIor { ranks, ..ior.clone() }))
    }

    fn goals(&self) -> ArrayGoals {
        let is_small = self.chunk.is_some_and(|chunk| chunk <= SMALL_CHUNK);
        let is_contiguous = self.chunk.is_none() && !self.records && !self.two_dimensional;
        let raw = is_contiguous.then_some(0.95);
        ArrayGoals {
            write: Some(if is_small || self.records { 3.0 } else { 1.2 }),
            read: Some(if is_small { 3.0 } else { 1.2 }),
            raw,
            raw_read: raw,
            compressor: None,
        }
    }

    /// For one rank.
    fn workload(&self) -> Result<ArrayIor, CommandError> {
        let (shape, block) = match (self.two_dimensional, self.records, self.pattern) {
            (_, true, Pattern::Disjoint) => (IorShape::Records, self.stripe),
            (_, true, Pattern::Osts(stripes)) => (IorShape::Records, stripes * self.stripe),
            (is_plane, _, pattern) => {
                let shape = if is_plane { IorShape::Plane } else { IorShape::Line };
                match pattern {
                    Pattern::Disjoint => (shape, self.size),
                    Pattern::Osts(stripes) => (shape, stripes * self.stripe),
                }
            }
        };
        let usual = if self.pattern == Pattern::Disjoint { self.stripe.min(block) } else { block };
        let transfer = self.transfer.unwrap_or(usual);
        let block = if self.pattern == Pattern::Disjoint && !self.records {
            self.size.next_multiple_of(transfer)
        } else {
            block
        };
        let is_whole = |size: u64, of: u64| size.is_multiple_of(of);
        let fits = is_whole(block, transfer)
            && is_whole(transfer, 8)
            && self.chunk.is_none_or(|chunk| is_whole(chunk, 8))
            && !(self.records && transfer != block);
        if !fits {
            return Err(CommandError::usage(
                format!(
                    "blocks of {} cannot be written in calls of {}",
                    Bytes(block),
                    Bytes(transfer)
                ),
                "blocks are multiples of the transfer, which is one of 8 bytes; so are chunks; \
                 records are written in one call each",
            ));
        }
        let size = self.size.next_multiple_of(block);
        Ok(ArrayIor { ranks: 1, size, block, transfer, chunk: self.chunk, shape })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_names() {
        assert_eq!(pattern("disjoint"), Ok(Pattern::Disjoint));
        assert_eq!(pattern("10-ost"), Ok(Pattern::Osts(10)));
        for wrong in ["", "ost", "0-ost", "-1-ost", "1-osts"] {
            assert!(pattern(wrong).is_err(), "{wrong}");
        }
    }
}
