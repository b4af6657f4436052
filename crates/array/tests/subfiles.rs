//! Sub-files of PnetCDF are read as one dataset. `data/subfiles/README.md` describes how the files
//! were made.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use striate_array::cdl::{self, Data};
use striate_array::{ArrayError, Dataset, DatasetFiles, DatasetKind, OpenMode, Options, Slab};
use striate_comm::Threads;
use tempfile::TempDir;

const WHOLE: [(&str, usize); 4] = [("plane", 3), ("four", 4), ("middle", 4), ("records", 2)];

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/subfiles")
}

fn master(name: &str) -> PathBuf {
    data().join(format!("{name}.nc"))
}

/// A copy of a dataset's files, to be damaged.
fn copied(name: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(data()).unwrap() {
        let entry = entry.unwrap();
        let file = entry.file_name().into_string().unwrap();
        if file.starts_with(&format!("{name}.nc")) {
            fs::copy(entry.path(), directory.path().join(file)).unwrap();
        }
    }
    let master = directory.path().join(format!("{name}.nc"));
    (directory, master)
}

fn open(path: &Path, mode: OpenMode, options: &Options) -> Result<Vec<()>, ArrayError> {
    Threads::new(2).try_run(|comm| Dataset::open(&comm, path, mode, options).map(drop))
}

fn refused(path: &Path) -> String {
    open(path, OpenMode::ReadOnly, &Options::default()).unwrap_err().to_string()
}

/// The CDL of a dataset.
fn printed(path: &Path, name: &str) -> String {
    let texts = Threads::new(1).try_run(|comm| {
        let mut dataset = Dataset::open(&comm, path, OpenMode::ReadOnly, &Options::default())?;
        let header = dataset.header().clone();
        let ids: Vec<_> = dataset.variables().collect();
        let mut read = |index: usize, start: &[u64], count: &[u64]| {
            dataset.values(ids[index], &Slab::new(start, count))
        };
        let mut text = Vec::new();
        let options = cdl::DumpOptions { data: Data::All, ..cdl::DumpOptions::default() };
        cdl::dump(&header, name, &options, &mut read, &mut text).unwrap();
        dataset.close()?;
        Ok::<_, ArrayError>(String::from_utf8(text).unwrap())
    });
    texts.unwrap().remove(0)
}

#[test]
fn subfiles_are_read_as_one_dataset() {
    for (name, _) in WHOLE {
        let expected = fs::read_to_string(data().join(format!("{name}.cdl"))).unwrap();
        assert_eq!(printed(&master(name), name), expected);
    }
}

#[test]
fn ranks_read_subfiles_collectively() {
    for (name, count) in WHOLE {
        for ranks in 1..=5 {
            let read = Threads::new(ranks).try_run(|comm| {
                let mut dataset =
                    Dataset::open(&comm, master(name), OpenMode::ReadOnly, &Options::default())?;
                assert_eq!(dataset.partitions().unwrap().len(), count);
                let mut all = Vec::new();
                for id in dataset.variables() {
                    let shape = dataset.shape(id);
                    let elements = shape.iter().product::<u64>() as usize;
                    let mut together = vec![0.0_f64; elements];
                    dataset.get_all(id, &Slab::all(), &mut together)?;
                    let mut alone = vec![0.0_f64; elements];
                    dataset.get(id, &Slab::all(), &mut alone)?;
                    assert_eq!(together, alone, "{name} by {ranks}");
                    all.push(together);
                }
                // A sync changes nothing.
                dataset.sync()?;
                dataset.close()?;
                Ok::<_, ArrayError>(all)
            });
            let read = read.unwrap();
            assert!(read.iter().all(|values| *values == read[0]));
            // Values are consecutive numbers, with a start for each variable.
            for values in &read[0] {
                let counted = (0..values.len()).map(|n| values[0] + n as f64);
                assert_eq!(*values, counted.collect::<Vec<_>>());
            }
        }
    }
}

#[test]
fn ranges_of_subfiles_are_listed() {
    Threads::new(2)
        .try_run(|comm| {
            let dataset =
                Dataset::open(&comm, master("middle"), OpenMode::ReadOnly, &Options::default())?;
            let parts = dataset.partitions().unwrap();
            let ranges: Vec<_> =
                parts.iter().map(|part| part.variables[0].indices.clone()).collect();
            assert_eq!(ranges, [0..3, 3..5, 5..7, 7..9]);
            assert!(
                parts.iter().all(|part| part.variables[0].dimension == 1 && part.missing.is_none())
            );
            assert!(parts.iter().all(|part| part.fixed_end > 0));
            Ok::<_, ArrayError>(())
        })
        .unwrap();
    let files = DatasetFiles::of(master("plane")).unwrap();
    assert_eq!((&files.kind, files.partitions.len()), (&DatasetKind::SubFiles, 3));
    assert_eq!(files.problems().count(), 0);
}

#[test]
fn subfiles_cannot_be_written() {
    let (_directory, path) = copied("plane");
    let error = open(&path, OpenMode::ReadWrite, &Options::default()).unwrap_err().to_string();
    assert!(error.contains("plane.nc") && error.contains("read only"), "{error}");
}

#[test]
fn lost_data_is_detected() {
    let error = refused(&master("lost"));
    assert!(error.contains("lost.nc.subfile_0.nc") && error.contains("lost"), "{error}");
    let error = refused(&master("uncounted"));
    assert!(error.contains("uncounted.nc.subfile_0.nc") && error.contains("1 records"), "{error}");
}

#[test]
fn damaged_subfiles_are_errors_that_name_them() {
    let spoil = |name: &str, spoil: &dyn Fn(&Path), expected: &str| {
        let (directory, path) = copied(name);
        spoil(directory.path());
        let error = refused(&path);
        assert!(error.contains("subfile_1.nc") && error.contains(expected), "{error}");
        // The other partitions can be read.
        let partial = Options::default().with("nc_partitions_partial", "enable").unwrap();
        Threads::new(3)
            .try_run(|comm| {
                let mut dataset = Dataset::open(&comm, &path, OpenMode::ReadOnly, &partial)?;
                let a = dataset.variables().next().unwrap();
                let rank = dataset.shape(a).len();
                let first = dataset.array::<f64>(a, &Slab::element(&vec![0; rank]))?;
                assert_eq!(first.iter().copied().collect::<Vec<_>>(), [0.0]);
                let all = dataset.values(a, &Slab::all()).unwrap_err().to_string();
                assert!(all.contains("subfile_1.nc"), "{all}");
                Ok::<_, ArrayError>(())
            })
            .unwrap();
    };
    for (name, _) in WHOLE {
        let file = |at: &Path, k: usize| at.join(format!("{name}.nc.subfile_{k}.nc"));
        spoil(name, &|at| fs::remove_file(file(at, 1)).unwrap(), "o such file");
        let first_twice = |at: &Path| {
            fs::copy(file(at, 0), file(at, 1)).unwrap();
        };
        spoil(name, &first_twice, "sub-file 0");
        let master_instead = |at: &Path| {
            fs::copy(at.join(format!("{name}.nc")), file(at, 1)).unwrap();
        };
        spoil(name, &master_instead, "no sub-file");
        let cut = |at: &Path| {
            let bytes = fs::read(file(at, 1)).unwrap();
            fs::write(file(at, 1), &bytes[..bytes.len() - 8]).unwrap();
        };
        let expected = if name == "records" { "2 records" } else { "bytes of" };
        spoil(name, &cut, expected);
    }
}

#[test]
fn damaged_masters_are_refused() {
    // The ranges, dimensions and counts of a master, each damaged in its bytes.
    for (what, from, to) in [
        ("range(y).subfile.1", "range(y).subfile.1", "range(z).subfile.1"),
        ("dimids_org", "ndims_org", "ndims_orx"),
        ("par_dim_index", "par_dim_index", "par_dim_indez"),
    ] {
        let (_directory, path) = copied("plane");
        let mut bytes = fs::read(&path).unwrap();
        let found = bytes.windows(from.len()).position(|part| part == from.as_bytes()).unwrap();
        bytes[found..found + to.len()].copy_from_slice(to.as_bytes());
        fs::write(&path, bytes).unwrap();
        let error = refused(&path);
        assert!(error.contains("plane.nc") && error.contains("variable 'a'"), "{what}: {error}");
    }
}
