//! `striate bench array compressed` and `default-chunks`: what formats with chunks add.

use clap::Args;
use striate_bench::array::workload::{Compressed, DefaultChunks};
use striate_bench::array::{ArrayApi, ArrayGoals, ArrayOp, ArrayResults, ArrayRow, ChunkRule};
use striate_statistics::Ratio;

use super::super::workloads::size;
use super::options::{ArraySetting, CommonArgs};
use crate::CommandError;

/// Compressed chunks: deflate after shuffle, in collective calls
///
/// The field is a slope with noise, in chunks of one plane each, which ranks write whole. The API
/// deflate-alone compresses the same chunks in one thread per rank and writes nothing.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench array compressed --edge 128 --api striate-netcdf4,deflate-alone
  mpiexec -n 4 striate bench array compressed --level 4 --repeat 9")]
pub(super) struct CompressedArgs {
    /// Elements along both edges of a plane; with 512 a chunk has 1 MiB
    #[arg(long, value_name = "N", default_value_t = 512, value_parser = clap::value_parser!(u64).range(1..=16384))]
    edge: u64,
    /// Planes of a rank in a call
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    planes: u64,
    /// Calls
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    calls: u64,
    /// The level of deflate
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(0..=9))]
    level: u8,
    #[command(flatten)]
    common: CommonArgs,
}

impl CompressedArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let goals = ArrayGoals { write: Some(1.8), compressor: Some(0.9), ..ArrayGoals::default() };
        let setting = ArraySetting::new(4, goals).beside(&[
            ArrayApi::StriateNetcdf4,
            ArrayApi::Hdf5(None),
            ArrayApi::Netcdf4(None),
            ArrayApi::DeflateAlone,
        ]);
        let &Self { edge, planes, calls, level, .. } = self;
        self.common
            .run(json, &setting, |ranks| Box::new(Compressed { ranks, edge, planes, calls, level }))
    }
}

/// Default chunks of a variable whose dimensions are all unlimited, by two rules
///
/// netCDF-C's rule of old gives chunks of one element to such a variable, ours gives the last
/// dimension the whole chunk. The variable is written by rows, one more in each call. It is far
/// smaller with the old rule, and rates are compared.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench array default-chunks --api striate-netcdf4
  mpiexec -n 4 striate bench array default-chunks --old-row 128B")]
pub(super) struct DefaultChunksArgs {
    /// Rows
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    rows: u64,
    /// Bytes of each rank in a row
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size)]
    row: u64,
    /// The same for the old rule
    #[arg(long, value_name = "SIZE", default_value = "512B", value_parser = size)]
    old_row: u64,
    #[command(flatten)]
    common: CommonArgs,
}

/// What the rule must gain.
const GAIN: f64 = 1000.0;

impl DefaultChunksArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let setting = ArraySetting::new(4, ArrayGoals::default()).beside(&[
            ArrayApi::StriateNetcdf4,
            ArrayApi::Hdf5(None),
            ArrayApi::Netcdf4(None),
        ]);
        let workloads = |ranks| {
            [(ChunkRule::LastUnlimited, self.row), (ChunkRule::NetcdfC, self.old_row)]
                .map(|(rule, row)| {
                    let elements = row.div_ceil(8);
                    let rows = self.rows;
                    Box::new(DefaultChunks { ranks, rows, elements, rule }) as Box<_>
                })
                .into()
        };
        self.common.run_all(json, &setting, workloads, |all| match all {
            [new, old] => gains(new, old),
            _ => Vec::new(),
        })
    }
}

/// How many times faster every library is with the new rule, and ours with it than the others with
/// the old one: what a program gains that comes from there.
fn gains(new: &ArrayResults, old: &ArrayResults) -> Vec<Ratio> {
    let ours = ArrayApi::StriateNetcdf4.name();
    let goal = |new: &ArrayRow| (new.op == ArrayOp::Write).then_some(GAIN);
    let about = |new: &ArrayRow| {
        format!(
            "{} with default chunks of variables that are unlimited in all dimensions, {}",
            new.op.name(),
            new.scope.name(),
        )
    };
    let gain = |(new, old): (&ArrayRow, &ArrayRow)| {
        let name = format!("{}, {}: ours over netCDF-C's old rule", about(new), new.api);
        Ratio::within(name, &new.samples, &old.samples, goal(new))
    };
    let change = |new: &ArrayRow| {
        let comparable =
            |old: &&ArrayRow| old.api != ours && old.op == new.op && old.scope == new.scope;
        let over = |old: &ArrayRow| {
            let name =
                format!("{}: {ours}, our rule, over {}, netCDF-C's old rule", about(new), old.api);
            Ratio::within(name, &new.samples, &old.samples, goal(new))
        };
        old.rows.iter().filter(comparable).filter_map(over).collect::<Vec<_>>()
    };
    let within = new.rows.iter().zip(&old.rows).filter_map(gain);
    within.chain(new.rows.iter().filter(|row| row.api == ours).flat_map(change)).collect()
}
