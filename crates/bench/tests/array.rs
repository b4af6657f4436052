//! Benchmarks of datasets as a whole, small: every workload and library, verified; what our calls
//! cost; and errors that end all ranks.
//!
//! The peers run under `mpiexec`: a test starts this program again as the ranks of a job.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use striate_bench::array::workload::{
    ArrayIor, ArrayWorkload, CollPerf, Compressed, DefaultChunks, FlashFile, FlashIo, IorShape,
    NetcdfBench, Open, S3d, Whole,
};
use striate_bench::array::{
    self, ArrayApi, ArrayBenchError, ArrayGoals, ArrayOp, ArrayOptions, ArrayResults, CallMode,
    ChunkRule, Format, Layout, Scope, Straggler, Targets,
};
use striate_bench::io::LocalServers;
use striate_comm::{Comm, Threads};
use striate_store::remote::Client;

fn options(directory: &Path, contenders: &[ArrayApi]) -> ArrayOptions {
    ArrayOptions {
        contenders: contenders.to_vec(),
        repeat: 2,
        format: Format::Cdf5,
        fsync: false,
        verify: true,
        nonblocking: None,
        directory: directory.to_path_buf(),
        store: Some("test".into()),
        hints: Vec::new(),
        targets: None,
        mode: CallMode::Collective,
        made_by: None,
        goals: ArrayGoals {
            write: Some(0.0),
            read: Some(0.0),
            raw: Some(0.0),
            raw_read: None,
            compressor: Some(0.0),
        },
    }
}

fn small_flash(ranks: u64) -> FlashIo {
    FlashIo { blocks: 3, zones: 4, guard: 2, variables: 6, ..FlashIo::new(ranks) }
}

fn workloads(ranks: u64) -> Vec<Box<dyn ArrayWorkload>> {
    vec![
        Box::new(CollPerf { ranks, edge: 6, variables: 4 }),
        Box::new(small_flash(ranks)),
        Box::new(FlashIo { nonblocking: true, ..small_flash(ranks) }),
        Box::new(FlashIo { files: vec![FlashFile::Plot], guard: 0, ..small_flash(ranks) }),
        Box::new(S3d { ranks, edge: 5 }),
        Box::new(NetcdfBench { ranks, block: [4, 3, 2], steps: 7 }),
        Box::new(Whole { ranks, bytes: 100_001 }),
        Box::new(Whole { ranks, bytes: 8 }),
        Box::new(Open { ranks, variables: 40 }),
        Box::new(ior(ranks, IorShape::Line)),
        Box::new(ArrayIor { chunk: Some(24), ..ior(ranks, IorShape::Line) }),
        Box::new(ArrayIor { chunk: Some(40), ..ior(ranks, IorShape::Plane) }),
        Box::new(ior(ranks, IorShape::Records)),
        Box::new(compressed(ranks)),
        Box::new(DefaultChunks { ranks, rows: 3, elements: 5, rule: ChunkRule::NetcdfC }),
        Box::new(DefaultChunks { ranks, rows: 3, elements: 5, rule: ChunkRule::LastUnlimited }),
    ]
}

fn ior(ranks: u64, shape: IorShape) -> ArrayIor {
    ArrayIor { ranks, size: 320, block: 32, transfer: 32, chunk: None, shape }
}

fn compressed(ranks: u64) -> Compressed {
    Compressed { ranks, edge: 16, planes: 2, calls: 3, level: 4 }
}

/// Workloads that classic formats cannot hold.
fn has_several_unlimited(workload: &dyn ArrayWorkload) -> bool {
    workload.name().starts_with("default-chunks")
}

/// A library without datasets.
fn is_limit(api: ArrayApi) -> bool {
    matches!(api, ArrayApi::Raw | ArrayApi::DeflateAlone)
}

/// Whether a library writes netCDF-4 files, whatever format was asked for.
fn is_hdf5(api: ArrayApi) -> bool {
    matches!(api, ArrayApi::StriateNetcdf4 | ArrayApi::Hdf5(_) | ArrayApi::Netcdf4(_))
}

/// Whether a library reads the files of another.
fn is_reader(reader: ArrayApi, writer: ArrayApi) -> bool {
    match reader {
        ArrayApi::Pnetcdf(_) => !is_hdf5(writer),
        ArrayApi::Hdf5(_) | ArrayApi::Netcdf4(_) => is_hdf5(writer),
        _ => !is_limit(reader),
    }
}

fn run(
    workload: &dyn ArrayWorkload,
    options: &ArrayOptions,
) -> Result<ArrayResults, ArrayBenchError> {
    let ranks = Threads::new(workload.ranks() as usize);
    let mut all = ranks.try_run(|comm| array::run(&comm, workload, options, &|_| {}))?;
    Ok(all.swap_remove(0))
}

/// All rows are there, and say what they should.
fn check(workload: &dyn ArrayWorkload, options: &ArrayOptions, results: &ArrayResults) {
    let name = workload.name();
    let plan = workload.plan(0).unwrap();
    let has_data = plan.bytes() > 0 || plan.files.iter().any(|file| !file.steps.is_empty());
    let each = if has_data { 4 } else { 2 };
    assert_eq!(results.rows.len(), each * options.contenders.len(), "{name}");
    let plans = (0..workload.ranks()).map(|rank| workload.plan(rank).unwrap());
    let bytes: u64 = plans.map(|plan| plan.bytes()).sum();
    for row in &results.rows {
        assert_eq!((row.samples.len(), row.verified), (options.repeat, true), "{row:?}");
        assert_eq!((row.workload, row.ranks), (name, workload.ranks()));
        assert!(row.median_mib_s > 0.0 && row.ci95[0] <= row.ci95[1], "{row:?}");
        let is_netcdf4 = row.api == "striate-netcdf4";
        let is_ours = row.api == "striate" || is_netcdf4;
        assert_eq!(row.cost.is_some(), is_ours && has_data, "{row:?}");
        let api = ArrayApi::named(row.api).unwrap();
        let others = options.contenders.iter().filter(|reader| **reader != api);
        let readers = others.filter(|reader| !is_limit(api) && is_reader(**reader, api));
        let is_own = options.made_by.is_none();
        assert_eq!(row.read_by.len(), if is_own { readers.count() } else { 0 }, "{row:?}");
        assert!(row.bytes > 0 && (row.bytes == bytes || !has_data), "{row:?}");
        if let Some(cost) = &row.cost {
            let mean = (bytes + row.ranks / 2) / row.ranks;
            // Rank 0 also writes down how many records there are, and that a file is whole.
            let more = plan.files.iter().map(|file| 8 * (file.steps.len() as u64 + 1)).sum::<u64>();
            // The metadata of a netCDF-4 file are written with every commit.
            let most = if is_netcdf4 { u64::MAX } else { mean + more };
            // Of compressed chunks nobody knows the size before.
            let least = if is_netcdf4 && name == "compressed" { 1 } else { mean };
            assert!((least..=most).contains(&cost.wanted), "asked for once: {row:?}");
            assert!(cost.operations > 0 || row.ranks > 1, "{row:?}");
        }
    }
    let ours = [ArrayApi::Striate, ArrayApi::StriateNetcdf4];
    let ours = options.contenders.iter().filter(|api| ours.contains(api)).count();
    let with_goal = results.ratios.iter().filter(|ratio| ratio.met == Some(true)).count();
    // PnetCDF's files have no chunks.
    let has_chunks = results.rows[0].chunk.is_some();
    let is_peer = |api: &ArrayApi| match api {
        ArrayApi::Pnetcdf(_) => !has_chunks,
        other => matches!(other, ArrayApi::Hdf5(_) | ArrayApi::Netcdf4(_)),
    };
    let peer = usize::from(options.contenders.iter().any(is_peer));
    let writes = options.contenders.iter().filter(|api| is_limit(**api)).count() * each / 2;
    assert_eq!(with_goal, ours * (peer * each + writes), "{results:?}");
}

#[test]
fn every_workload_is_measured_and_verified() {
    let directory = tempfile::tempdir().unwrap();
    for ranks in [1, 3, 4] {
        for workload in workloads(ranks) {
            let has_data = workload.name() != "open";
            let mut contenders = vec![ArrayApi::StriateNetcdf4];
            if !has_several_unlimited(workload.as_ref()) {
                contenders.push(ArrayApi::Striate);
                contenders.extend(ArrayApi::Netcdf.absence().is_none().then_some(ArrayApi::Netcdf));
            }
            contenders.extend(has_data.then_some(ArrayApi::Raw));
            let is_compressed = workload.name() == "compressed";
            contenders.extend(is_compressed.then_some(ArrayApi::DeflateAlone));
            let options = options(directory.path(), &contenders);
            let results = run(workload.as_ref(), &options).unwrap();
            check(workload.as_ref(), &options, &results);
        }
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
}

/// One library makes the files, once, and the contenders only read them.
#[test]
fn files_of_one_library_for_all() {
    let directory = tempfile::tempdir().unwrap();
    for (workload, op) in [
        (Box::new(Open { ranks: 2, variables: 5 }) as Box<dyn ArrayWorkload>, ArrayOp::Open),
        (Box::new(ior(2, IorShape::Line)), ArrayOp::Read),
    ] {
        let made_by = Some(ArrayApi::StriateNetcdf4);
        let contenders = [ArrayApi::Striate];
        let options = ArrayOptions { made_by, ..options(directory.path(), &contenders) };
        let results = run(workload.as_ref(), &options).unwrap();
        assert_eq!(results.rows.len(), if op == ArrayOp::Open { 1 } else { 2 });
        for row in results.rows {
            assert_eq!((row.op, row.api, row.made_by), (op, "striate", Some("striate-netcdf4")));
            assert_eq!((row.samples.len(), row.verified), (2, true));
        }
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
}

#[test]
fn independent_calls() {
    let directory = tempfile::tempdir().unwrap();
    let mode = CallMode::Independent;
    let contenders = [ArrayApi::Striate, ArrayApi::StriateNetcdf4];
    let options = ArrayOptions { mode, ..options(directory.path(), &contenders) };
    for shape in [IorShape::Line, IorShape::Plane] {
        let results = run(&ior(3, shape), &options).unwrap();
        assert!(results.rows.iter().all(|row| !row.collective && row.verified), "{shape:?}");
    }
}

/// The compressor alone refuses what it would not measure.
#[test]
fn the_compressor_alone_is_for_compressed_chunks() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), &[ArrayApi::DeflateAlone]);
    let results = run(&compressed(2), &options).unwrap();
    assert!(results.rows.iter().all(|row| row.verified && row.chunk == Some(1024)));
    let error = run(&ior(2, IorShape::Line), &options).unwrap_err().to_string();
    assert!(error.contains("not one variable of compressed chunks"), "{error}");
}

#[test]
fn all_formats_calls_of_both_kinds_and_durable_writes() {
    let directory = tempfile::tempdir().unwrap();
    for (format, nonblocking) in
        [(Format::Cdf1, false), (Format::Cdf2, true), (Format::Cdf5, true), (Format::Cdf5, false)]
    {
        let some: [Box<dyn ArrayWorkload>; 4] = [
            Box::new(CollPerf { ranks: 2, edge: 4, variables: 2 }),
            Box::new(small_flash(2)),
            Box::new(S3d { ranks: 2, edge: 4 }),
            Box::new(NetcdfBench { ranks: 2, block: [2, 3, 4], steps: 3 }),
        ];
        for workload in some {
            let options = ArrayOptions {
                format,
                nonblocking: Some(nonblocking),
                fsync: true,
                repeat: 1,
                ..options(directory.path(), &[ArrayApi::Striate, ArrayApi::Raw])
            };
            let results = run(workload.as_ref(), &options).unwrap();
            check(workload.as_ref(), &options, &results);
            let ours = results.rows.iter().filter(|row| row.api == "striate");
            assert!(ours.clone().all(|row| row.nonblocking == nonblocking));
            assert!(ours.clone().all(|row| row.format == format.to_string()));
        }
    }
}

/// Every workload in every layout, on servers that are all fast: what is compared, not how fast it
/// is.
#[test]
fn layouts_are_written_and_read_on_servers() {
    let directory = tempfile::tempdir().unwrap();
    let bandwidth = 1 << 30;
    let servers = LocalServers::start(3, directory.path(), |settings| {
        settings.bandwidth = Some(bandwidth);
    });
    let servers = Arc::new(servers.unwrap());
    let url = servers.url().to_owned();
    let targets = Targets {
        url: url.clone(),
        count: 3,
        bandwidth,
        straggler: Straggler { target: 1, mean: 9.0, seed: 1 },
        probe_size: 4096,
        servers: Some(servers),
    };
    let contenders = Layout::ALL.map(ArrayApi::Layout);
    let options =
        ArrayOptions { targets: Some(targets), repeat: 5, ..options(Path::new(&url), &contenders) };
    let some: [Box<dyn ArrayWorkload>; 3] = [
        Box::new(CollPerf { ranks: 2, edge: 6, variables: 2 }),
        Box::new(small_flash(2)),
        Box::new(S3d { ranks: 2, edge: 5 }),
    ];
    for workload in some {
        let results = run(workload.as_ref(), &options).unwrap();
        assert_eq!(results.rows.len(), 4 * contenders.len());
        for row in &results.rows {
            let layout = row.layout.unwrap();
            assert!(row.verified && row.read_by.is_empty() && row.spread.is_some(), "{row:?}");
            assert_eq!(row.slower.len(), if layout == Layout::Healthy { 0 } else { 5 }, "{row:?}");
            let exchange = row.exchange.as_ref();
            assert_eq!(exchange.is_some(), layout != Layout::Plain, "{row:?}");
            if let Some(exchange) = exchange {
                assert!(exchange.partitions.iter().all(|n| (2..=3).contains(n)), "{row:?}");
                assert!(exchange.shares.iter().all(|share| (0.0..1.0).contains(share)), "{row:?}");
            }
            if layout == Layout::Partitioned {
                assert_eq!(exchange.unwrap().partitions, [3; 5]);
            }
        }
        // Of each direction: two of data alone and whole each, the spread, three exchanges.
        assert_eq!(results.ratios.len(), 2 * (3 + 3 + 1 + 3), "{:?}", results.ratios);
    }
    let client = Client::shared(&url.parse().unwrap()).unwrap();
    assert!(client.list("").unwrap().is_empty(), "files are left");
}

/// A variable of one dimension stays in the master, so there is nothing to compare.
#[test]
fn a_layout_that_divides_nothing_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let servers = Arc::new(LocalServers::start(2, directory.path(), |_| {}).unwrap());
    let url = servers.url().to_owned();
    let targets = Targets {
        url: url.clone(),
        count: 2,
        bandwidth: 1 << 30,
        straggler: Straggler { target: 0, mean: 9.0, seed: 1 },
        probe_size: 4096,
        servers: Some(servers),
    };
    let contenders = [ArrayApi::Layout(Layout::Partitioned)];
    let options = ArrayOptions { targets: Some(targets), ..options(Path::new(&url), &contenders) };
    let error = run(&Whole { ranks: 1, bytes: 4096 }, &options).unwrap_err().to_string();
    assert!(error.contains("striate-partitioned") && error.contains("no partitions"), "{error}");
}

/// I/O operations of all ranks together, when one of two aggregates everything.
fn operations(workload: &dyn ArrayWorkload, op: ArrayOp, nonblocking: bool) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let hint = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let options = ArrayOptions {
        nonblocking: Some(nonblocking),
        hints: vec![hint("striate_method", "two-phase"), hint("cb_nodes", "1")],
        ..options(directory.path(), &[ArrayApi::Striate])
    };
    let results = run(workload, &options).unwrap();
    let row = results.rows.iter().find(|row| row.op == op && row.scope == Scope::Data).unwrap();
    // The mean of two ranks, of which one has none.
    row.cost.as_ref().unwrap().operations * row.ranks
}

#[test]
fn calls_cost_as_many_operations_as_the_workload_says() {
    let perf = CollPerf { ranks: 2, edge: 8, variables: 4 };
    assert_eq!(operations(&perf, ArrayOp::Write, false), 4, "one for each variable");
    assert_eq!(operations(&perf, ArrayOp::Read, false), 4, "one for each variable");
    let steps = NetcdfBench { ranks: 2, block: [4, 4, 4], steps: 10 };
    // The number of records is written when the file becomes a whole one.
    assert_eq!(operations(&steps, ArrayOp::Write, false), 10, "one for each time step");
    assert_eq!(operations(&steps, ArrayOp::Read, false), 10, "one for each time step");
    let s3d = S3d { ranks: 2, edge: 4 };
    assert_eq!(operations(&s3d, ArrayOp::Write, false), 4, "one for each variable");
    assert_eq!(operations(&s3d, ArrayOp::Write, true), 2, "one for all, the mean rounded up");
    let flash = small_flash(2);
    let variables = (6 + 6) + 2 * (6 + 4);
    assert_eq!(operations(&flash, ArrayOp::Write, false), variables, "one for each variable");
    assert!(
        operations(&flash, ArrayOp::Write, true) <= 4,
        "one for each file, the mean rounded up"
    );
}

#[test]
fn plans_have_the_sizes_of_the_papers() {
    let plan = Whole { ranks: 1, bytes: 64 }.plan(0).unwrap();
    assert_eq!((plan.bytes(), plan.memory()), (64, 64));
    let perf = CollPerf { ranks: 4, edge: 128, variables: 4 }.plan(1).unwrap();
    assert_eq!((perf.bytes(), perf.memory()), (32 << 20, 32 << 20));
    let s3d = S3d { ranks: 4, edge: 50 }.plan(1).unwrap();
    assert_eq!(s3d.bytes(), 16 * 50 * 50 * 50 * 8);
    let flash = FlashIo::new(4).plan(3).unwrap();
    let checkpoint: u64 = 80 * 16 * 16 * 16 * 10 * 8;
    let about = 80 * (1 + 1 + 15) * 4;
    assert_eq!(flash.files[0].bytes(), checkpoint + about + 80 * 12 * 8);
    assert_eq!(flash.files[1].bytes(), checkpoint / 5 + about + 80 * 12 * 4);
    assert_eq!(flash.files[2].bytes(), 80 * 17 * 17 * 17 * 4 * 4 + about + 80 * 12 * 4);
}

#[test]
fn a_directory_that_is_not_there_ends_all_ranks() {
    let workload = CollPerf { ranks: 3, edge: 2, variables: 1 };
    let options = options(Path::new("/nonexistent"), &[ArrayApi::Striate]);
    let error = run(&workload, &options).unwrap_err();
    assert!(matches!(error, ArrayBenchError::Rank { .. }), "{error}");
    assert!(error.to_string().contains("striate cannot create /nonexistent/"), "{error}");
}

#[test]
fn a_library_that_is_not_there_ends_all_ranks() {
    // Ranks are threads here, so PnetCDF is not there in any build.
    let directory = tempfile::tempdir().unwrap();
    let workload = CollPerf { ranks: 3, edge: 2, variables: 1 };
    let error = run(&workload, &options(directory.path(), &[ArrayApi::Pnetcdf(None)])).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("pnetcdf cannot be used for") && text.contains("not there"), "{text}");
}

#[test]
fn sizes_beyond_all_and_other_ranks_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), &[ArrayApi::Striate]);
    let error = run(&CollPerf { ranks: 1, edge: 1 << 30, variables: 1 }, &options).unwrap_err();
    assert!(matches!(error, ArrayBenchError::TooLarge), "{error}");
    let workload = S3d { ranks: 3, edge: 2 };
    let other = |comm: Arc<dyn Comm>| array::run(&comm, &workload, &options, &|_| {});
    let error = Threads::new(2).try_run(other).unwrap_err();
    assert!(matches!(error, ArrayBenchError::Ranks { workload: 3, ranks: 2 }), "{error}");
}

#[test]
fn names_of_libraries_come_back() {
    for api in ArrayApi::ALL {
        assert_eq!(ArrayApi::named(api.name()), Some(api));
    }
    assert_eq!(ArrayApi::named("hdf6"), None);
}

#[cfg(feature = "mpi")]
mod peers {
    use striate_comm::{CommError, mpi};
    use striate_testing::mpi_job;

    use super::*;

    /// All contenders of this program.
    fn everyone() -> Vec<ArrayApi> {
        // MPICH has ROMIO alone.
        let has = |api: &ArrayApi| mpi_job::is_openmpi() || *api != ArrayApi::Hdf5(Some("ompio"));
        let all = ArrayApi::ALL.into_iter().filter(|api| api.absence().is_none());
        all.filter(has).collect()
    }

    fn datasets_and_raw() -> Vec<ArrayApi> {
        everyone().into_iter().filter(|api| *api != ArrayApi::DeflateAlone).collect()
    }

    #[test]
    fn pnetcdf_is_there_with_open_mpi_alone() {
        let absence = ArrayApi::Pnetcdf(None).absence();
        if mpi_job::is_openmpi() {
            assert_eq!((absence, ArrayApi::Netcdf.absence()), (None, None), "is it installed?");
            assert!(ArrayApi::Pnetcdf(None).version().unwrap().starts_with("PnetCDF 1."));
        } else {
            assert!(absence.unwrap().contains("libpnetcdf-dev"), "{absence:?}");
        }
    }

    #[test]
    fn parallel_hdf5_is_there_with_both_mpis_and_netcdf_with_open_mpi_alone() {
        assert_eq!(ArrayApi::Hdf5(None).absence(), None, "is it installed?");
        let version = ArrayApi::Hdf5(None).version().unwrap();
        assert!(version.starts_with("parallel HDF5 1."), "{version}");
        let netcdf = ArrayApi::Netcdf4(None);
        if mpi_job::is_openmpi() {
            assert_eq!(netcdf.absence(), None, "is it installed?");
            // Each library is itself, with the others in the same process.
            let version = netcdf.version().unwrap();
            assert!(version.starts_with("parallel netCDF 4."), "{version}");
            assert!(ArrayApi::Netcdf.version().unwrap().starts_with("netCDF 4."));
        } else {
            assert!(netcdf.absence().unwrap().contains("libnetcdf-mpi-dev"));
        }
    }

    #[test]
    fn every_library_reads_what_every_other_wrote() {
        let directory = tempfile::tempdir().unwrap();
        let variables = [("STRIATE_TEST_DIRECTORY", directory.path().to_str().unwrap())];
        mpi_job::run_test("peers::ranks_measure_everyone", &variables);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
    }

    #[test]
    #[ignore = "a rank of the job that another test starts"]
    fn ranks_measure_everyone() {
        let directory = std::env::var_os("STRIATE_TEST_DIRECTORY").expect("started by another");
        mpi::run(|comm: Arc<dyn Comm>| {
            for workload in workloads(comm.size() as u64) {
                let mut contenders = everyone();
                let is_open = workload.name() == "open";
                contenders.retain(|api| match api {
                    ArrayApi::Raw => !is_open,
                    ArrayApi::DeflateAlone => workload.name() == "compressed",
                    api => is_hdf5(*api) || !has_several_unlimited(workload.as_ref()),
                });
                let options = options(Path::new(&directory), &contenders);
                let results = array::run(&comm, workload.as_ref(), &options, &|_| {}).unwrap();
                check(workload.as_ref(), &options, &results);
            }
            for nonblocking in [false, true] {
                for format in [Format::Cdf1, Format::Cdf2] {
                    let options = ArrayOptions {
                        nonblocking: Some(nonblocking),
                        format,
                        fsync: true,
                        hints: vec![("nc_var_align_size".into(), "512".into())],
                        ..options(Path::new(&directory), &datasets_and_raw())
                    };
                    let workload = small_flash(comm.size() as u64);
                    let results = array::run(&comm, &workload, &options, &|_| {}).unwrap();
                    check(&workload, &options, &results);
                }
            }
            let ranks = comm.size() as u64;
            for shape in [IorShape::Line, IorShape::Plane] {
                let mode = CallMode::Independent;
                let directory = Path::new(&directory);
                let options = ArrayOptions { mode, ..options(directory, &datasets_and_raw()) };
                let workload = ior(ranks, shape);
                let results = array::run(&comm, &workload, &options, &|_| {}).unwrap();
                check(&workload, &options, &results);
            }
            Ok::<_, CommError>(())
        })
        .unwrap();
    }
}
