//! A dataset on storage targets of which one is slow: probed, partitioned over the others, read as
//! one.
//!
//! The targets are directories, so that every file can be looked at with the tools that people
//! have. How fast they seem is a matter of a throttle in front of memory, which the probe writes to
//! instead: the same on every machine, whatever its disk is doing. The dataset itself is written to
//! the directories, unthrottled.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use striate_array::{
    ArrayError, Dataset, Format, OpenMode, Options, Owner, Sink, Slab, Source, Type,
};
use striate_bench::io::{ScratchDirectory, SignalCleanup};
use striate_comm::{Comm, Threads};
use striate_datatype::Bytes;
use striate_file::{FileError, Measured, Probe, StorageTarget, TargetStores, probe};
use striate_store::{MemoryStore, Store, Throttled};

use crate::number::{counted, short};
use crate::shell::{continued, own_command, quoted, quoted_path};
use crate::table::{Side, Table};
use crate::{CommandError, terminal};

/// Storage targets.
const TARGETS: usize = 4;
/// The one that is slow.
const SLOW: usize = 2;
/// Bytes per second of a target, and of the slow one: so few that a busy machine is not slower
/// still.
const RATES: [u64; 2] = [16 << 20, (16 << 20) / 9];
/// Bytes that are written to a target to find that out.
const PROBE: u64 = 1 << 20;
/// Ranks that write, each some of the longitudes, and ranks that read.
const RANKS: [usize; 2] = [4, 1];
/// Months, latitudes and longitudes.
const SHAPE: [u64; 3] = [12, 60, 120];
/// The dataset.
const NAME: &str = "climate.nc";

/// What was found out about a target.
#[derive(Debug, Serialize)]
pub(super) struct Target {
    name: String,
    mib_s: f64,
    /// Whether a partition lies on it.
    chosen: bool,
}

/// Where a part of the dataset lies.
#[derive(Debug, Serialize)]
pub(super) struct Partition {
    file: PathBuf,
    /// Its first and its last latitude, as indices.
    latitudes: [u64; 2],
    bytes: u64,
}

/// All that was done.
#[derive(Debug, Serialize)]
pub(super) struct Divided {
    dataset: PathBuf,
    targets: Vec<Target>,
    partitions: Vec<Partition>,
    /// Values that were read, all as they were written.
    values: u64,
    verified: bool,
    #[serde(skip)]
    kept: bool,
}

/// The rate of a target by its name.
#[derive(Debug)]
struct Throttles;

impl TargetStores for Throttles {
    fn open(&self, target: &StorageTarget) -> Result<Arc<dyn Store>, FileError> {
        let is_slow = target.base().ends_with(directory_name(SLOW));
        let rate = RATES[usize::from(is_slow)];
        let store = MemoryStore::new(target.to_string());
        Ok(Arc::new(Throttled::new(store, Duration::ZERO, Some(rate))))
    }
}

fn directory_name(target: usize) -> String {
    format!("target-{target}")
}

/// Runs in a directory that is removed afterwards, or in one that is kept.
pub(super) fn run(directory: &Path, keep: Option<&Path>) -> Result<Divided, CommandError> {
    let failed = |error: std::io::Error| {
        CommandError::failed(
            "cannot make directories for storage targets",
            error,
            "try another --dir",
        )
    };
    let scratch = ScratchDirectory::new(directory).map_err(failed)?;
    let _unfinished = keep.and_then(removed_if_new);
    let place = keep.unwrap_or_else(|| scratch.path());
    for target in 0..TARGETS {
        std::fs::create_dir_all(place.join(directory_name(target))).map_err(failed)?;
    }
    let done = divide(place, &scratch.path().join("samples"));
    let mut done = done.map_err(|error| {
        CommandError::failed("cannot write and read a partitioned dataset", error, "")
    })?;
    done.kept = keep.is_some();
    Ok(done)
}

/// A directory that is to be kept, but did not exist before, is removed if a signal ends the
/// program.
pub(super) fn removed_if_new(keep: &Path) -> Option<SignalCleanup> {
    let keep = keep.to_path_buf();
    (!keep.exists()).then(|| SignalCleanup::new(move || drop(std::fs::remove_dir_all(keep))))
}

fn divide(place: &Path, samples: &Path) -> Result<Divided, ArrayError> {
    let path = place.join(NAME);
    let targets: Vec<StorageTarget> =
        (0..TARGETS).map(|n| StorageTarget::directory(place.join(directory_name(n)))).collect();
    let mut options = Options::default()
        .with("nc_partitioning_enabled", "enable")?
        .with("nc_probe", "enable")?
        .with("nc_probe_size", &PROBE.to_string())?;
    options.partitioning.targets.clone_from(&targets);
    options.probe.cache = Some(samples.to_path_buf());
    options.probe.stores = Some(Arc::new(Throttles));
    let mut probes = Threads::new(RANKS[0]).try_run(|comm| {
        // The dataset takes what is known already.
        let found = probe(&comm, &targets, &options.probe)?;
        write(&comm, &path, &options)?;
        Ok::<_, ArrayError>(found)
    })?;
    let found: Probe = probes.swap_remove(0);
    let mut read = Threads::new(RANKS[1]).try_run(|comm| read(&comm, &path))?;
    let (partitions, values) = read.swap_remove(0);
    let judge = |(n, measured): (usize, &Measured)| Target {
        name: measured.target.to_string(),
        mib_s: measured.bandwidth() / f64::from(1 << 20),
        chosen: found.choice.is_chosen(n),
    };
    let targets = found.targets.iter().enumerate().map(judge).collect();
    Ok(Divided { dataset: path, targets, partitions, values, verified: true, kept: false })
}

/// The temperature of a month at a place, in kelvin, about.
fn temperature([month, latitude, longitude]: [u64; 3]) -> f32 {
    let north = (latitude as f32 + 0.5) / SHAPE[1] as f32 * 2.0 - 1.0;
    let season = (month as f32 / SHAPE[0] as f32 * std::f32::consts::TAU).cos();
    let sea = (longitude as f32 / SHAPE[2] as f32 * 3.0 * std::f32::consts::TAU).sin();
    302.0 - 45.0 * north * north - 12.0 * season * north + 2.0 * sea
}

/// Defines the dataset, and writes it: every rank has a range of all longitudes, partitions have
/// ranges of latitudes, so data changes hands.
fn write(comm: &Arc<dyn Comm>, path: &Path, options: &Options) -> Result<(), ArrayError> {
    let [months, latitudes, longitudes] = SHAPE;
    let mut define = Dataset::create(comm, path, Format::Cdf2, options)?;
    let time = define.unlimited("time")?;
    let lat = define.dimension("lat", latitudes)?;
    let lon = define.dimension("lon", longitudes)?;
    define.attribute(Owner::Global, "title", "Climate of a planet that is not ours")?;
    let mut coordinates = Vec::new();
    for (name, dimension, units) in [
        ("lat", lat, "degrees_north"),
        ("lon", lon, "degrees_east"),
        ("time", time, "months since 2000-01-01"),
    ] {
        let variable = define.variable(name, Type::Double, &[dimension])?;
        define.attribute(variable, "units", units)?;
        coordinates.push(variable);
    }
    let air = define.variable("air", Type::Float, &[time, lat, lon])?;
    define.attribute(air, "long_name", "air temperature at the surface")?;
    define.attribute(air, "units", "K")?;
    let mut data = define.end()?;

    let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
    let part = |len: u64| len * rank / ranks..len * (rank + 1) / ranks;
    let degrees = |index: u64, len: u64, all: f64| (index as f64 + 0.5) / len as f64 * all;
    let values = |len: u64, value: &dyn Fn(u64) -> f64| part(len).map(value).collect::<Vec<_>>();
    let tables = [
        (latitudes, values(latitudes, &|i| degrees(i, latitudes, 180.0) - 90.0)),
        (longitudes, values(longitudes, &|i| degrees(i, longitudes, 360.0))),
        (months, values(months, &|i| i as f64)),
    ];
    for (variable, (len, values)) in coordinates.iter().zip(&tables) {
        let range = part(*len);
        let slab = Slab::new(&[range.start], &[range.end - range.start]);
        data.put_all(*variable, &slab, Source::new(values))?;
    }
    let own = part(longitudes);
    for month in 0..months {
        let places = (0..latitudes).flat_map(|lat| own.clone().map(move |lon| [month, lat, lon]));
        let values: Vec<f32> = places.map(temperature).collect();
        let slab = Slab::new(&[month, 0, own.start], &[1, latitudes, own.end - own.start]);
        data.put_all(air, &slab, Source::new(&values))?;
    }
    data.close()
}

/// Reads the dataset as one array and compares every value.
fn read(comm: &Arc<dyn Comm>, path: &Path) -> Result<(Vec<Partition>, u64), ArrayError> {
    let mut data = Dataset::open(comm, path, OpenMode::ReadOnly, &Options::default())?;
    let air = data.variable("air")?;
    let [months, latitudes, longitudes] = SHAPE;
    let mut values = vec![0.0f32; (months * latitudes * longitudes) as usize];
    data.get_all(air, &Slab::new(&[0, 0, 0], &SHAPE), Sink::new(&mut values))?;
    let place = |index: u64| {
        [index / longitudes / latitudes, index / longitudes % latitudes, index % longitudes]
    };
    let wrong = values
        .iter()
        .zip(0..)
        .find(|(value, index)| value.to_bits() != temperature(place(*index)).to_bits());
    if let Some((value, index)) = wrong {
        let reason = format!("air{:?} is {value}, which is not what was written", place(index));
        return Err(ArrayError::Partition { file: path.display().to_string(), reason });
    }
    let records = months;
    let partitions = data.partitions().unwrap_or_default().iter().map(|partition| {
        let range = partition.variables.first().map_or(0..0, |part| part.indices.clone());
        Partition {
            file: partition.file.clone(),
            latitudes: [range.start, range.end.saturating_sub(1)],
            bytes: partition.fixed_end + records * partition.record_size,
        }
    });
    let found = (partitions.collect(), values.len() as u64);
    data.close()?;
    Ok(found)
}

impl Divided {
    /// Its heading.
    pub(super) fn heading() -> String {
        let [rate, slow] = RATES.map(|rate| short(rate as f64 / f64::from(1 << 20)));
        format!(
            "A dataset on storage targets: {TARGETS} directories, probed as if they had {rate} MiB/s, one of \
             them {slow}"
        )
    }

    /// Whether it can still be looked at.
    pub(super) const fn is_kept(&self) -> bool {
        self.kept
    }

    /// What was done, for people.
    pub(super) fn text(&self) -> String {
        let base = self.dataset.parent().unwrap_or(Path::new(""));
        let within = |path: &Path| path.strip_prefix(base).unwrap_or(path).display().to_string();
        let mut table =
            Table::new(&[("target", Side::Left), ("MiB/s", Side::Right), ("", Side::Left)]);
        for target in &self.targets {
            let verdict = if target.chosen { "kept" } else { "dropped" };
            table.row([within(Path::new(&target.name)), short(target.mib_s), verdict.into()]);
        }
        let mut text = table.render();
        let [months, latitudes, longitudes] = SHAPE;
        let _ = writeln!(
            text,
            "Temperatures of {months} months at {latitudes} × {longitudes} places, written by {} to \
             {}, each a netCDF file:",
            counted(RANKS[0] as u64, "rank"),
            counted(self.partitions.len() as u64, "partition"),
        );
        let mut table =
            Table::new(&[("file", Side::Left), ("latitudes", Side::Left), ("size", Side::Right)]);
        for partition in &self.partitions {
            let [first, last] = partition.latitudes;
            let latitudes = format!("{first}–{last}");
            table.row([within(&partition.file), latitudes, Bytes(partition.bytes).to_string()]);
        }
        text.push_str(&table.render());
        let _ = writeln!(
            text,
            "Verified: {} of '{NAME}', read as one array by {}, are what was written.",
            counted(self.values, "value"),
            counted(RANKS[1] as u64, "rank"),
        );
        if self.kept {
            let part = self.partitions.first().map(|part| part.file.display().to_string());
            let _ = writeln!(text, "Look at the master, a partition, and the dataset:");
            let dataset = quoted_path(&self.dataset);
            let part = quoted(&part.unwrap_or_default());
            let own = own_command();
            let commands: [&[&str]; 3] =
                [&["ncdump -h", &dataset], &["ncdump", &part], &[&own, "nc header", &dataset]];
            for words in commands {
                let _ = writeln!(text, "{}", continued(words, terminal::width()));
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_target_is_left_out_and_nothing_is_left() {
        let directory = tempfile::tempdir().unwrap();
        let done = run(directory.path(), None).unwrap();
        let chosen: Vec<bool> = done.targets.iter().map(|target| target.chosen).collect();
        // On a busy machine one more may seem slow.
        assert!(!chosen[SLOW] && chosen.contains(&true), "{chosen:?}");
        assert_eq!(done.partitions.len(), chosen.iter().filter(|chosen| **chosen).count());
        let latitudes = done.partitions.iter().map(|part| part.latitudes);
        let end = latitudes.fold(0, |next, [first, last]| {
            assert_eq!(first, next);
            last + 1
        });
        assert_eq!(end, SHAPE[1]);
        assert_eq!(done.values, SHAPE.iter().product::<u64>());
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
    }

    #[test]
    fn what_is_kept_is_there() {
        let directory = tempfile::tempdir().unwrap();
        let kept = directory.path().join("kept");
        let done = run(directory.path(), Some(&kept)).unwrap();
        assert!(kept.join(NAME).is_file());
        assert_eq!(std::fs::read_dir(kept.join(directory_name(SLOW))).unwrap().count(), 0);
        for part in &done.partitions {
            assert_eq!(std::fs::metadata(&part.file).unwrap().len(), part.bytes);
        }
        let text = done.text();
        assert!(text.contains("ncdump -h ") && text.contains("dropped"), "{text}");
        // Once more in the same place.
        run(directory.path(), Some(&kept)).unwrap();
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }
}
