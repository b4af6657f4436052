//! MPI-IO as a peer, under `mpiexec`: types, files and which implementation opens them.
//!
//! The first test starts this program again as the ranks of a job, which run the ignored ones.

#![cfg(feature = "mpi")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;
use std::sync::Arc;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use striate_bench::mpiio::{MpiIo, MpiIoError, MpiType};
use striate_bench::peer::{memory_pattern, stream_pattern};
use striate_comm::{Comm, CommError, mpi};
use striate_datatype::notation::Notation;
use striate_datatype::{Datatype, Packer};
use striate_testing::mpi_job;
use striate_testing::type_map::{TypeMap, any_notation};

const TYPES: usize = 500;

/// Runs a test as a job and returns what it printed.
fn run(test: &str, directory: &Path, variables: &[(&str, &str)]) -> String {
    let directory = directory.to_str().unwrap();
    let directory = std::iter::once(("STRIATE_TEST_DIRECTORY", directory));
    let variables: Vec<_> = directory.chain(variables.iter().copied()).collect();
    mpi_job::run_test(test, &variables)
}

#[test]
fn types() {
    let directory = tempfile::tempdir().unwrap();
    run("ranks_compare_types", directory.path(), &[]);
}

#[test]
fn files() {
    let directory = tempfile::tempdir().unwrap();
    run("ranks_write_and_read", directory.path(), &[]);
    run("ranks_with_nothing", directory.path(), &[]);
}

#[test]
fn the_library_says_which_component_it_selected() {
    let directory = tempfile::tempdir().unwrap();
    let output = run("ranks_open_in_turn", directory.path(), &[("OMPI_MCA_io_base_verbose", "10")]);
    if !mpi_job::is_openmpi() {
        return;
    }
    let ranks = 4;
    let count = |name: &str| output.matches(&format!("Selected io module {name}")).count();
    assert_eq!((count("ompio"), count("romio")), (2 * ranks, 2 * ranks), "{output}");
}

#[test]
fn a_job_ends_though_nobody_closed_its_files() {
    let directory = tempfile::tempdir().unwrap();
    run("ranks_drop_files", directory.path(), &[]);
}

fn directory() -> std::path::PathBuf {
    std::env::var_os("STRIATE_TEST_DIRECTORY").expect("started by another test").into()
}

fn ranks(body: impl FnOnce(&dyn Comm)) {
    mpi::run(|comm: Arc<dyn Comm>| {
        body(&*comm);
        Ok::<_, CommError>(())
    })
    .unwrap();
}

/// Types of more than one run.
fn random_notations() -> impl Iterator<Item = Notation> {
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let strategy = any_notation();
    std::iter::repeat_with(move || strategy.new_tree(&mut runner).unwrap().current())
        .filter(|notation| TypeMap::of(notation).offsets.len() < 100_000)
        .filter(|notation| notation.build().unwrap().depth() > 0)
        .take(TYPES)
}

#[test]
#[ignore = "a rank of the job that `types` starts"]
fn ranks_compare_types() {
    ranks(|_| {
        let mut kinds = std::collections::BTreeMap::new();
        for notation in random_notations() {
            let datatype = notation.build().unwrap();
            let name = format!("{:?}", datatype.root().kind());
            let kind = name.split([' ', '{']).next().unwrap().to_owned();
            *kinds.entry(kind).or_insert(0) += 1;
            for count in [1, 3] {
                compare(&datatype, count, &format!("{count} of {notation}"));
            }
        }
        assert_eq!(kinds.len(), 5, "all kinds of loops: {kinds:?}");
        for (count, len, lb, extent) in [(3, 5, 0, 5), (3, 5, -2, 9), (4, 0, 0, 0), (4, 0, -3, 8)] {
            let bytes = Datatype::bytes(len).unwrap();
            let bytes = Datatype::resized(&bytes, lb, extent).unwrap();
            compare(&bytes, count, &format!("{count} of {bytes:?}"));
        }

        let huge = Datatype::bytes(1 << 40).unwrap();
        assert!(matches!(MpiType::build(&huge), Err(MpiIoError::TooLarge { .. })));
        let nothing = MpiType::build(&Datatype::bytes(0).unwrap()).unwrap();
        let many = nothing.pack(&[], 0, 1 << 31, &mut []);
        assert!(matches!(many, Err(MpiIoError::TooLarge { .. })), "{many:?}");
    });
}

fn compare(datatype: &Datatype, count: u64, context: &str) {
    let packer = Packer::new(datatype, count).unwrap();
    let built = MpiType::build(datatype).unwrap_or_else(|error| panic!("{context}: {error:?}"));
    let last = (count - 1) as i64 * datatype.extent();
    let origin = -(datatype.true_lower_bound() + last.min(0)).min(0);
    let high = (datatype.true_upper_bound() + last.max(0)).max(0);
    let (origin, len) = (origin as usize, (origin + high) as usize);
    let memory: Vec<u8> = (0..len).map(memory_pattern).collect();
    let mut streams = [vec![0; packer.size() as usize], vec![0; packer.size() as usize]];
    packer.pack(&memory, origin, &mut streams[0]).unwrap();
    built.pack(&memory, origin, count, &mut streams[1]).unwrap();
    assert!(streams[0] == streams[1], "pack: {context}");

    let stream: Vec<u8> = (0..packer.size() as usize).map(stream_pattern).collect();
    let mut memories = [memory.clone(), memory];
    packer.unpack(&stream, &mut memories[0], origin).unwrap();
    built.unpack(&stream, &mut memories[1], origin, count).unwrap();
    assert!(memories[0] == memories[1], "unpack: {context}");

    if packer.size() > 0 {
        let short = built.pack(&memories[0][..len - 1], origin, count, &mut streams[0]);
        assert!(matches!(short, Err(MpiIoError::Outside { .. })) || high == 0, "{context}");
    }
}

/// Bytes of a block, blocks of a rank, and bytes before the first.
const BLOCK: usize = 24;
const BLOCKS: usize = 50;
const HEADER: usize = 5;

/// What a rank stores in a byte.
fn value(rank: usize, block: usize, byte: usize) -> u8 {
    (rank * 97 + block * 31 + byte * 7 + 1) as u8
}

#[test]
#[ignore = "a rank of the job that `files` starts"]
fn ranks_write_and_read() {
    ranks(|comm| {
        for component in MpiIo::components() {
            for collective in [true, false] {
                interleave(comm, component, collective);
            }
        }
        refusals();
    });
}

/// Rank r holds every n-th block of the file, and every third word of its memory.
fn interleave(comm: &dyn Comm, component: &str, collective: bool) {
    let (rank, ranks) = (comm.rank(), comm.size());
    let path = directory().join(format!("{component}-{collective}"));
    let hints = [("romio_cb_write", if collective { "enable" } else { "disable" })];
    let mut file = MpiIo::open_with_hints(component, &path, true, &hints).unwrap();
    assert_eq!(file.component(), component);
    let known = file.hints().unwrap();
    let given = known.iter().find(|(name, _)| name == hints[0].0).map(|(_, value)| &**value);
    assert_eq!(given, Some(hints[0].1), "{known:?}");

    let block = Datatype::bytes(BLOCK as u64).unwrap();
    let view = Datatype::resized(&block, 0, (ranks * BLOCK) as i64).unwrap();
    file.set_view((HEADER + rank * BLOCK) as u64, &view).unwrap();
    let words = Datatype::hvector((BLOCK / 8) as u64, 1, 24, &Datatype::bytes(8).unwrap());
    let words = Datatype::resized(&words.unwrap(), 0, 3 * BLOCK as i64).unwrap();

    let origin = 7;
    let mut memory = vec![0; origin + 3 * BLOCK * BLOCKS];
    for (block, byte) in all_bytes() {
        memory[origin + place(block, byte)] = value(rank, block, byte);
    }
    // In two calls, so that the second uses the type that the first built.
    let half = BLOCKS as u64 / 2;
    for (offset, origin) in [(0, origin), (half * BLOCK as u64, origin + 3 * BLOCK * half as usize)]
    {
        if collective {
            file.write_at_all(offset, &memory, origin, &words, half).unwrap();
        } else {
            file.write_at(offset, &memory, origin, &words, half).unwrap();
        }
    }
    file.sync().unwrap();
    comm.barrier().unwrap();

    let bytes = std::fs::read(&path).unwrap();
    assert_eq!(bytes.len(), HEADER + ranks * BLOCK * BLOCKS);
    for writer in 0..ranks {
        for (block, byte) in all_bytes() {
            let at = HEADER + (block * ranks + writer) * BLOCK + byte;
            assert_eq!(bytes[at], value(writer, block, byte), "{component} {collective} {at}");
        }
    }

    let mut back = vec![0; memory.len()];
    let count = BLOCKS as u64;
    let read = if collective {
        file.read_at_all(0, &mut back, origin, &words, count).unwrap()
    } else {
        file.read_at(0, &mut back, origin, &words, count).unwrap()
    };
    assert_eq!(read, (BLOCK * BLOCKS) as u64);
    assert!(back == memory, "{component} {collective}");

    let outside = file.write_at(0, &memory, 0, &words, count + 1);
    assert!(matches!(outside, Err(MpiIoError::Outside { .. })), "{outside:?}");
    let backward = Datatype::hvector(2, 1, -8, &block).unwrap();
    assert!(matches!(file.set_view(0, &backward), Err(MpiIoError::NotAView)));
    file.close().unwrap();
}

fn all_bytes() -> impl Iterator<Item = (usize, usize)> {
    (0..BLOCKS).flat_map(|block| (0..BLOCK).map(move |byte| (block, byte)))
}

fn place(block: usize, byte: usize) -> usize {
    3 * BLOCK * block + byte / 8 * 24 + byte % 8
}

fn refusals() {
    let missing = directory().join("missing");
    for component in MpiIo::components() {
        let error = MpiIo::open(component, &missing, false).unwrap_err();
        let MpiIoError::File { source, .. } = &error else { panic!("{error:?}") };
        assert_eq!(source.call, "MPI_File_open");
        assert!(
            source.message.contains("MPI_ERR_NO_SUCH_FILE") || !mpi_job::is_openmpi(),
            "{source}"
        );
    }
    let unknown = MpiIo::open("nfs", &missing, true);
    assert!(matches!(unknown, Err(MpiIoError::NoComponent { .. })), "{unknown:?}");
    let zero = MpiIo::open_with_hints("romio", &missing, true, &[("a\0", "b")]);
    assert!(matches!(zero, Err(MpiIoError::ZeroByte { .. })), "{zero:?}");
    assert!(!missing.exists());
}

/// A rank without data takes part with an empty view.
#[test]
#[ignore = "a rank of the job that `files` starts"]
fn ranks_with_nothing() {
    ranks(|comm| {
        for component in MpiIo::components() {
            let path = directory().join(format!("{component}-nothing"));
            let mut file = MpiIo::open(component, &path, true).unwrap();
            let len = if comm.rank() == 1 { 3 } else { 0 };
            let some = Datatype::resized(&Datatype::bytes(len).unwrap(), 0, 4).unwrap();
            file.set_view(0, &some).unwrap();
            file.write_at_all(0, &[7; 3], 0, &Datatype::bytes(len).unwrap(), 1).unwrap();
            file.close().unwrap();
            assert_eq!(std::fs::read(path).unwrap(), [7; 3]);
        }
    });
}

/// Files of both implementations are open at the same time, and each goes its own way.
#[test]
#[ignore = "a rank of the job that another test starts"]
fn ranks_open_in_turn() {
    ranks(|comm| {
        let mut files = Vec::new();
        for round in 0..2 {
            for component in MpiIo::components() {
                let path = directory().join(format!("{component}{round}"));
                let file = MpiIo::open(component, &path, true).unwrap();
                assert_eq!(file.component(), component);
                files.push((path, file));
            }
        }
        let byte = Datatype::bytes(1).unwrap();
        for (_, file) in &mut files {
            file.write_at_all(comm.rank() as u64, &[7], 0, &byte, 1).unwrap();
            file.sync().unwrap();
            comm.barrier().unwrap();
            let mut more = vec![0; comm.size() + 3];
            let read = file.read_at(0, &mut more, 0, &byte, comm.size() as u64 + 3).unwrap();
            assert_eq!(read, comm.size() as u64, "{file:?} ends");
        }
        for (path, file) in files {
            file.close().unwrap();
            assert_eq!(std::fs::read(path).unwrap(), vec![7; comm.size()]);
        }
    });
}

#[test]
#[ignore = "a rank of the job that another test starts"]
fn ranks_drop_files() {
    ranks(|_| {
        for component in MpiIo::components() {
            let mut file = MpiIo::open(component, &directory().join(component), true).unwrap();
            let byte = Datatype::bytes(1).unwrap();
            file.write_at_all(0, &[7], 0, &byte, 1).unwrap();
        }
    });
}
