//! Partitions are created on the targets that the probe finds fast.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use striate_array::{Dataset, Format, OpenMode, Options, Slab, Type};
use striate_file::{FileError, StorageTarget, TargetStores};
use striate_store::store::Store;
use striate_store::{NullStore, Throttled};

use crate::{divided, ranks};

/// Fake targets: those whose name ends with `slow` are many times slower.
#[derive(Debug, Default)]
struct FakeTargets {
    opened: AtomicUsize,
}

impl TargetStores for FakeTargets {
    fn open(&self, target: &StorageTarget) -> Result<Arc<dyn Store>, FileError> {
        self.opened.fetch_add(1, Ordering::Relaxed);
        let latency = if target.to_string().ends_with("slow") { 1000 } else { 1 };
        let store = NullStore::new();
        Ok(Arc::new(Throttled::new(store, Duration::from_millis(latency), None)))
    }
}

struct ProbeSetup {
    _directory: tempfile::TempDir,
    path: PathBuf,
    options: Options,
    stores: Arc<FakeTargets>,
}

fn setup(targets: &[&str]) -> ProbeSetup {
    let directory = tempfile::tempdir().unwrap();
    let targets: Vec<String> = targets
        .iter()
        .map(|name| {
            let target = directory.path().join(name);
            std::fs::create_dir(&target).unwrap();
            target.display().to_string()
        })
        .collect();
    let stores = Arc::new(FakeTargets::default());
    let mut options = divided(1)
        .with("nc_num_partitions", "targets")
        .and_then(|it| it.with("nc_partition_targets", &targets.join(",")))
        .and_then(|it| it.with("nc_probe_size", "64KiB"))
        // On a busy machine the fast targets are still faster than that.
        .and_then(|it| it.with("nc_probe_delta", "0.9"))
        .unwrap();
    options.probe.stores = Some(Arc::clone(&stores) as Arc<dyn TargetStores>);
    options.probe.cache = Some(directory.path().join("cache"));
    let path = directory.path().join("data.nc");
    ProbeSetup { _directory: directory, path, options, stores }
}

/// Creates a dataset; returns the directories of its partitions, and its probe result.
fn write(count: usize, path: &Path, options: &Options) -> (Vec<String>, Option<String>) {
    let all = ranks(count, |comm| {
        let mut define = Dataset::create(&comm, path, Format::Cdf5, options)?;
        let y = define.dimension("y", 12)?;
        let x = define.dimension("x", 5)?;
        let heat = define.variable("heat", Type::Int, &[y, x])?;
        let mut data = define.end()?;
        data.put_all(heat, &Slab::all(), &(0..60).collect::<Vec<i32>>())?;
        data.close()?;
        let mut data = Dataset::open(&comm, path, OpenMode::ReadOnly, &Options::default())?;
        let heat = data.variable("heat")?;
        let mut found = [0; 60];
        data.get_all(heat, &Slab::all(), &mut found)?;
        assert!(found.into_iter().eq(0..60));
        let files = data.partitions().unwrap_or_default().iter();
        let directory = |file: &Path| {
            let parent = file.parent().and_then(Path::file_name);
            parent.unwrap_or_default().to_string_lossy().into_owned()
        };
        let directories: Vec<String> = files.map(|info| directory(&info.file)).collect();
        let probe = data.partition_probe().map(str::to_owned);
        data.close()?;
        Ok((directories, probe))
    });
    all.into_iter().next().unwrap()
}

#[test]
fn slow_targets_are_dropped() {
    for count in [1, 3] {
        let setup = setup(&["a", "slow", "b", "c"]);
        let (directories, probe) = write(count, &setup.path, &setup.options);
        assert_eq!(directories, ["a", "b", "c"]);
        let probe = probe.unwrap();
        assert!(probe.starts_with("3 of 4 targets, "), "{probe}");
        let dropped: Vec<_> = probe.lines().filter(|line| line.ends_with("\tdropped")).collect();
        assert!(dropped.len() == 1 && dropped[0].contains("/slow\t"), "{probe}");
    }
}

#[test]
fn samples_are_cached() {
    let mut setup = setup(&["a", "slow", "b"]);
    write(2, &setup.path, &setup.options);
    write(2, &setup.path, &setup.options);
    assert_eq!(setup.stores.opened.load(Ordering::Relaxed), 3);
    setup.options.set("nc_probe_valid", "0").unwrap();
    write(2, &setup.path, &setup.options);
    assert_eq!(setup.stores.opened.load(Ordering::Relaxed), 6);
}

#[test]
fn targets_are_not_probed_if_disabled_or_nothing_is_divided() {
    let setup = setup(&["a", "slow", "b"]);
    let off = setup.options.clone().with("nc_probe", "disable").unwrap();
    assert_eq!(write(2, &setup.path, &off), (["a", "slow", "b"].map(str::to_owned).into(), None));
    let whole = setup.options.clone().with("min_ndims", "2").unwrap();
    assert_eq!(write(2, &setup.path, &whole), (Vec::new(), None));
    assert_eq!(setup.stores.opened.load(Ordering::Relaxed), 0);
}

#[test]
fn a_single_remaining_target_gets_all_partitions() {
    let setup = setup(&["a", "slow"]);
    let (directories, _) = write(2, &setup.path, &setup.options);
    assert_eq!(directories, ["a", "a"]);
}

#[test]
fn fewer_partitions_than_targets_avoid_the_slow_ones() {
    let setup = setup(&["slow", "a", "b", "c"]);
    let options = setup.options.clone().with("nc_num_partitions", "2").unwrap();
    let (directories, _) = write(2, &setup.path, &options);
    assert!(directories.len() == 2 && !directories.contains(&"slow".into()), "{directories:?}");
}
