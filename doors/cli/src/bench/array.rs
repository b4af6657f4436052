//! `striate bench array`: benchmarks of datasets, compared with PnetCDF, HDF5 and netCDF.

mod chunks;
mod ior;
mod layouts;
mod options;
mod render;

use clap::{Args, Subcommand, ValueEnum};
use striate_bench::array::ArrayGoals;
use striate_bench::array::workload::{CollPerf, FlashFile, FlashIo, NetcdfBench, Open, S3d, Whole};

use self::options::{ArraySetting, CommonArgs};
use super::workloads::{dimensions, size};
use crate::CommandError;

/// Datasets (netCDF files), compared with PnetCDF, parallel HDF5 and netCDF
///
/// Each workload is written to new files and read back, by every library in turn. Rows come twice:
/// for the data calls alone, and for everything from create or open to close. Every element is
/// verified, and in the first repetition every library also reads the files of the others.
///
/// With --layouts, our datasets are written to servers within the program, as one shared file and
/// as partitions. Each server has a bandwidth, and one of them is slower, by a factor that is drawn
/// for each repetition, as the load of storage systems fluctuates. All layouts of a repetition have
/// the same factor.
#[derive(Debug, Args)]
#[command(after_help = "\
Some workloads can be given without 'array': striate bench coll-perf, s3d, netcdf-bench and
flash-io. 'striate bench flash' is a different benchmark: FLASH's access pattern on a plain file.

Examples:
  striate bench array coll-perf                                  our datasets, ranks as threads
  mpiexec -n 4 striate bench array s3d --api striate,pnetcdf     with --features mpi
  mpiexec -n 4 striate bench array flash --repeat 9 --dir /dev/shm
  striate bench array whole --size 1GiB --api striate,raw        compared with plain pwrite
  mpiexec -n 4 striate bench array ior --pattern 1-ost --api striate-netcdf4,hdf5,netcdf4,pnetcdf,raw
  mpiexec -n 4 striate bench array compressed --api striate-netcdf4,hdf5,deflate-alone
  mpiexec -n 4 striate bench array open --files-of netcdf --format netcdf4 --api striate-netcdf4,netcdf4
  striate bench array s3d --servers 12 --bandwidth 16MiB --straggler 9 \\
      --layouts plain,partitioned,chosen,healthy                 partitions, one server slow")]
pub(crate) struct ArrayArgs {
    #[command(subcommand)]
    workload: Datasets,
}

#[derive(Debug, Subcommand)]
enum Datasets {
    CollPerf(CollPerfArgs),
    #[command(alias = "flash-io")]
    Flash(FlashIoArgs),
    S3d(S3dArgs),
    NetcdfBench(NetcdfBenchArgs),
    Whole(WholeArgs),
    Open(OpenArgs),
    Ior(ior::ArrayIorArgs),
    Compressed(chunks::CompressedArgs),
    DefaultChunks(chunks::DefaultChunksArgs),
}

impl ArrayArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        match &self.workload {
            Datasets::CollPerf(args) => args.run(json),
            Datasets::Flash(args) => args.run(json),
            Datasets::S3d(args) => args.run(json),
            Datasets::NetcdfBench(args) => args.run(json),
            Datasets::Whole(args) => args.run(json),
            Datasets::Open(args) => args.run(json),
            Datasets::Ior(args) => args.run(json),
            Datasets::Compressed(args) => args.run(json),
            Datasets::DefaultChunks(args) => args.run(json),
        }
    }
}

/// Most elements of a rank along a dimension.
const MOST: u64 = 1 << 20;

fn goals(write: f64, read: f64) -> ArrayGoals {
    ArrayGoals { write: Some(write), read: Some(read), raw: None, raw_read: None, compressor: None }
}

/// Datasets: four variables of integers in blocks over the ranks (PnetCDF's `coll_perf`)
///
/// The variables have three dimensions, in blocks over a grid of ranks; each is a collective call.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench coll-perf --edge 64 --ranks 8
  mpiexec -n 4 striate bench coll-perf --api striate,pnetcdf,pnetcdf-romio,netcdf")]
pub(super) struct CollPerfArgs {
    /// Elements of a rank along each dimension
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    edge: u64,
    /// Variables
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    variables: u64,
    /// Use nonblocking calls, and wait for all of them together
    #[arg(long)]
    nonblocking: bool,
    #[command(flatten)]
    common: CommonArgs,
}

impl CollPerfArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let setting = ArraySetting::new(4, goals(1.0, 1.0)).nonblocking(self.nonblocking);
        self.common.run(json, &setting, |ranks| {
            let (edge, variables) = (self.edge, self.variables);
            Box::new(CollPerf { ranks, edge, variables })
        })
    }
}

/// One of FLASH's files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum File {
    Checkpoint,
    Plot,
    Corners,
}

/// Datasets: FLASH's checkpoint and its two plot files (FLASH I/O)
///
/// Each rank has blocks of cells with guard cells around them, and the variables of a cell lie
/// together in memory; a file has them one by one, without guard cells. The checkpoint has all
/// variables as doubles, the plot files have four as floats, of cells and of their corners. Striate
/// uses the memory directly; the other libraries need contiguous elements, so these are copied
/// first, as FLASH does, which is part of the measured time. With ten variables of 16³ cells a rank
/// writes 25 MiB to the checkpoint, with FLASH's 24 (--variables 24) 60 MiB.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench array flash --blocks 8 --ranks 4
  mpiexec -n 4 striate bench array flash --api striate,pnetcdf,pnetcdf-romio --files checkpoint")]
pub(super) struct FlashIoArgs {
    /// Blocks of a rank
    #[arg(long, value_name = "N", default_value_t = 80, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    blocks: u64,
    /// Cells of a block along each dimension
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    zones: u64,
    /// Guard cells on each side of a block
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u64).range(0..=1_000))]
    guard: u64,
    /// Variables of a cell
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    variables: u64,
    /// Which files
    #[arg(
        long,
        value_enum,
        value_name = "FILE",
        value_delimiter = ',',
        default_value = "checkpoint,plot,corners"
    )]
    files: Vec<File>,
    /// Use nonblocking calls, and wait for all calls of a file together
    #[arg(long)]
    nonblocking: bool,
    #[command(flatten)]
    common: CommonArgs,
}

impl FlashIoArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let setting = ArraySetting::new(4, goals(2.0, 1.0)).nonblocking(self.nonblocking);
        let files = [File::Checkpoint, File::Plot, File::Corners].into_iter().zip(FlashFile::ALL);
        let files = files.filter(|(file, _)| self.files.contains(file)).map(|(_, file)| file);
        let files: Vec<FlashFile> = files.collect();
        self.common.run(json, &setting, |ranks| {
            Box::new(FlashIo {
                blocks: self.blocks,
                zones: self.zones,
                guard: self.guard,
                variables: self.variables,
                nonblocking: self.nonblocking,
                files: files.clone(),
                ..FlashIo::new(ranks)
            })
        })
    }
}

/// Datasets: S3D's checkpoint, a cube of cells in blocks over the ranks (S3D I/O)
///
/// Pressure and temperature have three dimensions, the velocity (3) and species (11) one more
/// before. The calls of a file are nonblocking and waited for together, as in S3D.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench s3d --edge 32
  mpiexec -n 4 striate bench s3d --api striate,pnetcdf --repeat 9")]
pub(super) struct S3dArgs {
    /// Cells of a rank along each dimension
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=MOST))]
    edge: u64,
    /// Use blocking calls, one after another
    #[arg(long)]
    blocking: bool,
    #[command(flatten)]
    common: CommonArgs,
}

impl S3dArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let setting = ArraySetting::new(4, goals(1.5, 1.0)).nonblocking(!self.blocking);
        self.common.run(json, &setting, |ranks| Box::new(S3d { ranks, edge: self.edge }))
    }
}

/// Datasets: a variable that grows by a record per time step (NetCDF-bench)
///
/// Each rank writes its block of every time step in a collective call, and reads them back the same
/// way.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench netcdf-bench --block 32x256x16
  mpiexec -n 4 striate bench netcdf-bench --api striate,pnetcdf,netcdf")]
pub(super) struct NetcdfBenchArgs {
    /// Elements of a rank in a time step; the paper also has 32x256x16
    #[arg(long, value_name = "ZxYxX", default_value = "16x32x4", value_parser = dimensions::<3>)]
    block: [u64; 3],
    /// Time steps
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    steps: u64,
    #[command(flatten)]
    common: CommonArgs,
}

impl NetcdfBenchArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        self.common.run(json, &ArraySetting::new(4, goals(1.0, 1.0)), |ranks| {
            Box::new(NetcdfBench { ranks, block: self.block, steps: self.steps })
        })
    }
}

/// One variable of doubles in one call, compared with plain `pwrite` of as many bytes
///
/// Plain system calls (raw) move the machine's own bytes, 1 MiB at a time, from the same memory; a
/// dataset swaps them during the transfer.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench array whole --size 256MiB --dir /dev/shm
  striate bench array whole --goal raw=0.9 --repeat 15")]
pub(super) struct WholeArgs {
    /// Bytes of the variable
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = size)]
    size: u64,
    #[command(flatten)]
    common: CommonArgs,
}

impl WholeArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let goals = ArrayGoals { raw: Some(0.85), ..goals(1.0, 1.0) };
        self.common.run(json, &ArraySetting::new(1, goals).beside_raw(), |ranks| {
            Box::new(Whole { ranks, bytes: self.size })
        })
    }
}

/// Create and open a dataset with many variables
///
/// Each has three dimensions and two attributes. All ranks open the file, and look for a variable.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate bench array open --variables 10000
  mpiexec -n 4 striate bench array open --api striate,pnetcdf,netcdf --repeat 9")]
pub(super) struct OpenArgs {
    /// Variables
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    variables: u64,
    #[command(flatten)]
    common: CommonArgs,
}

impl OpenArgs {
    pub(super) fn run(&self, json: bool) -> Result<(), CommandError> {
        let setting = ArraySetting::new(4, goals(1.0, 1.0)).without_data();
        self.common.run(json, &setting, |ranks| Box::new(Open { ranks, variables: self.variables }))
    }
}
