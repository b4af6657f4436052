//! Benchmarks as a whole, small: every engine and method, verified; and errors that end all ranks.

use std::path::Path;

use striate_bench::io::{
    self, Contender, FileChoice, IoApi, IoBenchError, IoGoals, IoOp, IoOptions, IoResults, Ior,
    Pattern, Repeated, paper_hints,
};
use striate_bench::workload::{Block3d, Flash, Strided, TileReader};
use striate_comm::Threads;
use striate_file::{Method, MethodChoice};

fn options(directory: &Path, contenders: Vec<Contender>) -> IoOptions {
    IoOptions {
        contenders,
        repeat: 2,
        write: true,
        read: true,
        collective: true,
        fsync: false,
        verify: true,
        include_open: false,
        directory: directory.to_path_buf(),
        local_directory: directory.to_path_buf(),
        files: FileChoice::default(),
        store: Some("test".into()),
        hints: paper_hints(4),
        goals: IoGoals { posix: Some(0.0), ..IoGoals::default() },
    }
}

fn everyone() -> Vec<Contender> {
    let ours = Method::ALL.map(MethodChoice::Fixed).into_iter().chain([MethodChoice::Auto]);
    let ours = ours.map(|method| Contender::striate(method, None));
    ours.chain([Contender::peer(IoApi::Posix)]).collect()
}

fn run(pattern: &dyn Pattern, options: &IoOptions) -> Result<IoResults, IoBenchError> {
    let ranks = Threads::new(pattern.ranks() as usize);
    let mut all = ranks.try_run(|comm| io::run(&comm, pattern, options, &|_| {}))?;
    Ok(all.swap_remove(0))
}

fn small_flash() -> Flash {
    Flash { processes: 3, blocks: 2, cells: 3, guard: 1, variables: 5, ..Flash::default() }
}

#[test]
fn a_named_file_stays_if_asked_and_is_not_written_over_unasked() {
    let directory = tempfile::tempdir().unwrap();
    let ior = Ior {
        ranks: 2,
        block: 4096,
        transfer: 1024,
        segments: 2,
        file_per_process: false,
        reorder: false,
        random: false,
    };
    let name = directory.path().join("kept");
    let mut options = options(directory.path(), vec![Contender::peer(IoApi::Posix)]);
    options.files = FileChoice { name: Some(name.clone()), keep: true, overwrite: false };
    run(&ior, &options).unwrap();
    assert_eq!(std::fs::metadata(&name).unwrap().len(), ior.file_bytes().unwrap());
    // It is in the way of the next one, but can be read, and is still there.
    let error = run(&ior, &options).unwrap_err().to_string();
    assert!(error.contains("kept is there already"), "{error}");
    let reads = IoOptions { write: false, ..options.clone() };
    let reads = IoOptions { files: FileChoice { keep: false, ..options.files.clone() }, ..reads };
    assert_eq!(run(&ior, &reads).unwrap().rows.len(), 1);
    assert!(name.exists());
    let error = run(&Ior { segments: 1, ..ior.clone() }, &reads).unwrap_err().to_string();
    assert!(error.contains("has 16384 bytes, but the pattern has 8192"), "{error}");
    options.files.overwrite = true;
    run(&ior, &options).unwrap();
    assert!(name.exists());
    options.files.keep = false;
    run(&ior, &options).unwrap();
    assert!(!name.exists());
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

#[test]
fn every_method_is_measured_and_verified_on_every_pattern() {
    let directory = tempfile::tempdir().unwrap();
    let wall = TileReader { tile: (20, 10), overlap: (4, 3), ..TileReader::default() };
    let ior = Ior {
        ranks: 3,
        block: 4096,
        transfer: 1024,
        segments: 3,
        file_per_process: false,
        reorder: true,
        random: false,
    };
    let patterns: [Box<dyn Pattern>; 6] = [
        Box::new(Repeated { workload: wall, steps: 3 }),
        Box::new(Repeated::once(Block3d::near_cubic(13, 6))),
        Box::new(Repeated::once(Block3d::near_cubic(2, 12))),
        Box::new(Repeated::once(small_flash())),
        Box::new(Repeated::once(Strided { ranks: 4, block: 100, count: 50 })),
        Box::new(ior),
    ];
    for pattern in patterns {
        let results = run(pattern.as_ref(), &options(directory.path(), everyone())).unwrap();
        assert_eq!(results.rows.len(), 2 * 7, "{}", pattern.name());
        for row in &results.rows {
            assert_eq!((row.samples.len(), row.verified), (2, true), "{row:?}");
            assert_eq!((row.workload, row.ranks), (pattern.name(), pattern.ranks()));
            assert!(row.median_mib_s > 0.0 && row.ci95[0] <= row.ci95[1], "{row:?}");
            assert_eq!(row.cost.is_some(), row.api == "striate", "{row:?}");
            assert_eq!(row.chosen.is_some(), row.method.as_deref() == Some("auto"), "{row:?}");
        }
        // Over plain system calls, and auto over the best method; both ways.
        assert_eq!(results.ratios.len(), 4, "{:?}", results.ratios);
        assert_eq!(results.ratios.iter().filter(|ratio| ratio.met == Some(true)).count(), 2);
    }
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
}

#[test]
fn independent_calls_files_of_their_own_and_reads_alone() {
    let directory = tempfile::tempdir().unwrap();
    let contenders =
        vec![Contender::striate(MethodChoice::Auto, None), Contender::peer(IoApi::Posix)];
    let ior = Ior {
        ranks: 4,
        block: 3000,
        transfer: 500,
        segments: 2,
        file_per_process: true,
        reorder: true,
        random: true,
    };
    let independent = IoOptions {
        collective: false,
        fsync: true,
        include_open: true,
        ..options(directory.path(), contenders)
    };
    let results = run(&ior, &independent).unwrap();
    assert_eq!(results.rows.len(), 4);
    assert!(results.rows.iter().all(|row| row.file_per_process && !row.collective));
    assert!(results.rows.iter().all(|row| row.transfer == Some(500) && row.bytes == 24_000));

    let reading = IoOptions { write: false, ..independent };
    let shared = Ior { file_per_process: false, ..ior };
    let results = run(&shared, &reading).unwrap();
    assert!(results.rows.iter().all(|row| row.op == IoOp::Read));
    assert_eq!(results.rows.len(), 2);
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
}

#[test]
fn a_directory_that_is_not_there_ends_all_ranks() {
    let pattern = Repeated::once(Strided { ranks: 3, block: 10, count: 2 });
    let error = run(&pattern, &options(Path::new("/nonexistent"), everyone())).unwrap_err();
    assert!(matches!(error, IoBenchError::Rank { rank: 0, .. }), "{error}");
    assert!(error.to_string().contains("cannot make the file /nonexistent/"), "{error}");
}

#[test]
fn an_engine_that_is_not_there_ends_all_ranks() {
    let directory = tempfile::tempdir().unwrap();
    let pattern = Repeated::once(Strided { ranks: 3, block: 10, count: 2 });
    let contenders = vec![Contender::peer(IoApi::MpiIo("nothing"))];
    let error = run(&pattern, &options(directory.path(), contenders)).unwrap_err();
    assert!(error.to_string().contains("mpiio-nothing cannot"), "{error}");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0, "files are left");
}

#[test]
fn a_pattern_for_other_ranks_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = options(directory.path(), everyone());
    let pattern = Repeated::once(Strided { ranks: 3, block: 10, count: 2 });
    let error =
        Threads::new(2).try_run(|comm| io::run(&comm, &pattern, &options, &|_| {})).unwrap_err();
    assert!(matches!(error, IoBenchError::Ranks { pattern: 3, ranks: 2 }), "{error}");
}
