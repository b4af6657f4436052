use std::fs;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use striate_comm::Threads;
use striate_server::Embedded;
use striate_store::remote::{Client, RemoteUrl};
use striate_store::store::Store;
use striate_store::{Fault, FaultPlan, Faulty, NullStore, Throttled};
use tempfile::TempDir;

use super::*;

const MIB: u64 = 1 << 20;

/// A way to make the store of a target, and which targets were asked for.
struct Stores<F> {
    make: F,
    opened: Mutex<Vec<String>>,
}

impl<F> fmt::Debug for Stores<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stores")
    }
}

impl<F> TargetStores for Stores<F>
where
    F: Fn(&str) -> Arc<dyn Store> + Send + Sync + UnwindSafe + RefUnwindSafe,
{
    fn open(&self, target: &StorageTarget) -> Result<Arc<dyn Store>, FileError> {
        self.opened.lock().unwrap().push(target.to_string());
        Ok((self.make)(&target.to_string()))
    }
}

fn stores<F: Fn(&str) -> Arc<dyn Store>>(make: F) -> Arc<Stores<F>> {
    Arc::new(Stores { make, opened: Mutex::default() })
}

/// A store that takes so many MiB per second.
fn slow(rate: u64) -> Arc<dyn Store> {
    Arc::new(Throttled::new(NullStore::new(), Duration::ZERO, Some(rate * MIB)))
}

fn targets(names: &[&str]) -> Vec<StorageTarget> {
    names.iter().map(|name| name.parse().unwrap()).collect()
}

/// Options with a cache of their own.
fn options(place: &TempDir) -> ProbeOptions {
    let cache = Some(place.path().join("cache"));
    ProbeOptions { size: MIB, cache, ..ProbeOptions::default() }
}

fn run(targets: &[StorageTarget], options: &ProbeOptions) -> Result<Probe, FileError> {
    Threads::new(1).try_run(|comm| probe(&comm, targets, options)).map(|mut found| found.remove(0))
}

fn names(path: &Path) -> Vec<String> {
    let entries = fs::read_dir(path).unwrap();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

#[test]
fn a_throttled_target_is_not_chosen() {
    let place = tempfile::tempdir().unwrap();
    let stores = stores(|name| slow(if name == "b" { 2 } else { 60 }));
    let options = ProbeOptions { size: 4 * MIB, stores: Some(stores), ..options(&place) };
    let found = run(&targets(&["a", "b", "c", "d"]), &options).unwrap();
    // A throttled store is never faster than it says, on no machine.
    assert!(found.targets[1].bandwidth() <= 2.0 * MIB as f64);
    assert!(found.targets.iter().all(|measured| measured.bandwidth() <= 60.0 * MIB as f64));
    let chosen: Vec<String> = found.chosen().map(ToString::to_string).collect();
    assert_eq!(chosen, ["a", "c", "d"]);
    assert_eq!(found.choice.order[3], 1);
    assert!(found.age.is_none() && found.failed().next().is_none());
    let text = found.to_string();
    assert!(text.starts_with("3 of 4 targets, ") && text.contains("(all: "), "{text}");
}

#[test]
fn directories_are_measured_and_left_as_they_were() {
    let place = tempfile::tempdir().unwrap();
    let [a, b] = ["a", "b"].map(|name| place.path().join(name));
    for path in [&a, &b] {
        fs::create_dir(path).unwrap();
    }
    let options = ProbeOptions { size: 5 * MIB + 1, ..options(&place) };
    let found =
        run(&[StorageTarget::directory(&a), StorageTarget::directory(&b)], &options).unwrap();
    for measured in &found.targets {
        let sample = measured.outcome.as_ref().unwrap();
        assert_eq!(sample.bytes, 5 * MIB + 4096);
        assert!(sample.bandwidth() > 0.0);
    }
    assert_eq!(found.size, 5 * MIB + 4096);
    assert!(names(&a).is_empty() && names(&b).is_empty());
}

#[test]
fn targets_that_fail_say_why_and_are_not_chosen() {
    let place = tempfile::tempdir().unwrap();
    let [good, missing, file] = ["good", "missing", "file"].map(|name| place.path().join(name));
    fs::create_dir(&good).unwrap();
    fs::write(&file, b"").unwrap();
    let targets = [&missing, &good, &file].map(StorageTarget::directory);
    let found = run(&targets, &options(&place)).unwrap();
    assert_eq!(found.choice.chosen, [1]);
    let failed: Vec<_> = found.failed().collect();
    assert_eq!(failed.len(), 2);
    assert!(failed[0].1.contains("No such file") && failed[0].1.contains("missing"), "{failed:?}");
    assert!(failed[1].1.contains("Not a directory"), "{failed:?}");
    assert!(found.to_string().contains("2 failed"));
    assert!(!place.path().join("cache").exists(), "what failed is not cached");
    assert!(names(&good).is_empty());
}

#[test]
fn a_directory_that_may_not_be_written_fails() {
    // On /proc no file can be created, not even by root.
    let place = tempfile::tempdir().unwrap();
    let found = run(&targets(&["/proc/self"]), &options(&place)).unwrap();
    assert!(found.targets[0].outcome.is_err());
    // Nothing else is there.
    assert_eq!(found.choice.chosen, [0]);
}

#[test]
fn errors_and_panics_of_a_store_concern_its_target_only() {
    #[derive(Debug)]
    struct Panics;
    impl TargetStores for Panics {
        fn open(&self, target: &StorageTarget) -> Result<Arc<dyn Store>, FileError> {
            match target.to_string().as_str() {
                "panics" => panic!("on purpose"),
                "full" => {
                    let fault = "out-of-space@1:write".parse::<Fault>().unwrap();
                    Ok(Arc::new(Faulty::new(NullStore::new(), Arc::new(FaultPlan::new([fault])))))
                }
                _ => Ok(slow(100)),
            }
        }
    }
    let place = tempfile::tempdir().unwrap();
    let options = ProbeOptions { stores: Some(Arc::new(Panics)), ..options(&place) };
    let found = run(&targets(&["panics", "well", "full"]), &options).unwrap();
    assert_eq!(found.choice.chosen, [1]);
    let failed: Vec<_> = found.failed().map(|(_, reason)| reason).collect();
    assert!(failed[0].contains("panicked") && failed[1].contains("No space left"), "{failed:?}");
}

#[test]
fn what_was_written_within_the_limit_counts() {
    let place = tempfile::tempdir().unwrap();
    let limited = |rate, limit| {
        let stores = Some(stores(move |_| slow(rate)) as Arc<dyn TargetStores>);
        let limit = Duration::from_millis(limit);
        let valid = Duration::ZERO;
        let options = ProbeOptions { size: 64 * MIB, limit, valid, stores, ..options(&place) };
        run(&targets(&["a"]), &options).unwrap().targets.remove(0).outcome
    };
    let sample = limited(40, 150).unwrap();
    assert!((4 * MIB..=8 * MIB).contains(&sample.bytes), "{sample:?}");
    assert!(sample.bandwidth() <= 40.0 * MIB as f64);
    // A target that accepts no byte for longer than the limit.
    let reason = limited(1, 10).unwrap_err();
    assert!(reason.contains("nothing could be written"), "{reason}");
}

#[test]
fn a_probe_can_be_stopped() {
    let place = tempfile::tempdir().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&stop);
    // The signal comes while the first target is opened.
    let stores = stores(move |_| {
        seen.store(true, Ordering::Relaxed);
        slow(1)
    });
    let options = ProbeOptions { stop: Some(stop), stores: Some(stores), ..options(&place) };
    let found = Threads::new(2).run(|comm| probe(&comm, &targets(&["a", "b", "c"]), &options));
    for rank in found {
        assert!(matches!(rank, Err(FileError::Interrupted { .. })), "{rank:?}");
    }
    assert!(!place.path().join("cache").exists());
}

#[test]
fn ranks_share_the_targets_and_agree() {
    let place = tempfile::tempdir().unwrap();
    let stores = stores(|name| slow(if name == "/d3" { 1 } else { 50 }));
    let all: Vec<String> = (0..7).map(|i| format!("/d{i}")).collect();
    let all = targets(&all.iter().map(String::as_str).collect::<Vec<_>>());
    let options = ProbeOptions { stores: Some(Arc::clone(&stores) as _), ..options(&place) };
    let found = Threads::new(3).try_run(|comm| probe(&comm, &all, &options)).unwrap();
    let mut opened = stores.opened.lock().unwrap().clone();
    opened.sort();
    assert_eq!(opened, all.iter().map(ToString::to_string).collect::<Vec<_>>());
    assert!(!found[0].choice.is_chosen(3));
    assert!(found.iter().all(|probe| probe.choice == found[0].choice));
    // Many ranks and few targets.
    let few = Threads::new(4).try_run(|comm| probe(&comm, &all[..2], &options)).unwrap();
    assert!(few.iter().all(|probe| probe.targets.len() == 2 && probe.failed().next().is_none()));
    // None at all.
    let none = Threads::new(2).try_run(|comm| probe(&comm, &[], &options)).unwrap();
    assert!(none[1].choice.chosen.is_empty());
}

#[test]
fn ranks_that_name_different_targets_fail_together() {
    let place = tempfile::tempdir().unwrap();
    let options = options(&place);
    let found = Threads::new(3).run(|comm| {
        let name = if comm.rank() == 1 { "/x" } else { "/y" };
        probe(&comm, &targets(&[name]), &options)
    });
    for rank in found {
        let text = rank.unwrap_err().to_string();
        assert!(text.contains("rank 1") && text.contains("not those of rank 0"), "{text}");
    }
}

#[test]
fn samples_are_reused_while_they_are_valid() {
    let place = tempfile::tempdir().unwrap();
    let stores = stores(|_| slow(1000));
    let options = ProbeOptions { stores: Some(Arc::clone(&stores) as _), ..options(&place) };
    let probed = || stores.opened.lock().unwrap().len();
    let (ab, ba) = (targets(&["/a", "/b"]), targets(&["/b", "/a"]));
    let first = run(&ab, &options).unwrap();
    assert_eq!((probed(), first.age), (2, None));

    // In any order, with another δ, on any number of ranks.
    let again = run(&ba, &ProbeOptions { delta: 0.5, ..options.clone() }).unwrap();
    assert_eq!(again.targets[1].outcome, first.targets[0].outcome);
    assert!(again.age.is_some() && again.to_string().contains("s ago"));
    Threads::new(2).try_run(|comm| probe(&comm, &ab, &options)).unwrap();
    assert_eq!(probed(), 2);

    // By another process: from the file.
    let cache = Cache::new(&ab, &options);
    cache.forget();
    assert!(run(&ab, &options).unwrap().age.is_some());
    assert_eq!(probed(), 2);

    // Not for another size, other targets, or when it shall not be.
    run(&ab, &ProbeOptions { size: 2 * MIB, ..options.clone() }).unwrap();
    run(&targets(&["/a", "/c"]), &options).unwrap();
    run(&ab, &ProbeOptions { valid: Duration::ZERO, ..options.clone() }).unwrap();
    assert_eq!(probed(), 8);

    // Not when it is too old.
    std::thread::sleep(Duration::from_millis(5));
    run(&ab, &ProbeOptions { valid: Duration::from_millis(1), ..options.clone() }).unwrap();
    assert_eq!(probed(), 10);

    // Not from a damaged file; it is written anew.
    for damage in [&b""[..], b"striate-probe 1\n", b"\xFF\xFE"] {
        cache.forget();
        fs::write(cache.file(), damage).unwrap();
        let before = probed();
        run(&ab, &options).unwrap();
        assert_eq!(probed(), before + 2);
        cache.forget();
        assert!(run(&ab, &options).unwrap().age.is_some());
    }
}

#[test]
fn samples_from_the_future_and_of_others_do_not_count() {
    let place = tempfile::tempdir().unwrap();
    let stores = stores(|_| slow(1000));
    let options = ProbeOptions { stores: Some(stores), ..options(&place) };
    let all = targets(&["/a"]);
    let cache = Cache::new(&all, &options);
    let probe = || {
        cache.forget();
        run(&all, &options).unwrap().age
    };
    assert_eq!(probe(), None);
    assert!(probe().is_some());
    let cached = record::SampleFile::from_text(&fs::read_to_string(cache.file()).unwrap()).unwrap();
    let future = record::SampleFile { time: cached.time + 1_000_000_000, ..cached.clone() };
    let foreign = record::SampleFile { key: "elsewhere".into(), ..cached };
    for wrong in [future, foreign] {
        fs::write(cache.file(), wrong.to_text()).unwrap();
        assert_eq!(probe(), None);
    }
}

#[test]
fn without_a_directory_samples_are_cached_in_the_process() {
    let place = tempfile::tempdir().unwrap();
    let blocked = place.path().join("file");
    fs::write(&blocked, b"").unwrap();
    let stores = stores(|_| slow(1000));
    let cache = Some(blocked.join("below"));
    let options = ProbeOptions { cache, stores: Some(stores), ..options(&place) };
    assert!(run(&targets(&["/a"]), &options).unwrap().age.is_none());
    assert!(run(&targets(&["/a"]), &options).unwrap().age.is_some());
    Cache::new(&targets(&["/a"]), &options).forget();
    assert!(run(&targets(&["/a"]), &options).unwrap().age.is_none());
}

#[test]
fn servers_are_measured_one_by_one_and_left_as_they_were() {
    let place = tempfile::tempdir().unwrap();
    let servers = Embedded::start(3).unwrap();
    let url: RemoteUrl = servers.url().parse().unwrap();
    let client = Client::shared(&url).unwrap();
    let base: StorageTarget = format!("{}/run", servers.url()).parse().unwrap();
    let mut all = base.each().unwrap();
    assert_eq!(all.len(), 3);
    all.push(format!("{base}#7").parse().unwrap());
    let found = run(&all, &options(&place)).unwrap();
    let well = |measured: &Measured| measured.outcome.is_ok();
    assert_eq!(found.targets.iter().map(well).collect::<Vec<_>>(), [true, true, true, false]);
    assert!(found.targets[..3].iter().all(|m| m.outcome.as_ref().unwrap().bytes == MIB));
    assert!(client.list("").unwrap().is_empty());
    for server in client.servers().unwrap() {
        assert!(client.objects(&server).unwrap().is_empty());
    }
}
