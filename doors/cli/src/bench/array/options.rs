//! The common part of the benchmarks of datasets: options, and the run over ranks.

use std::path::Path;
use std::sync::Arc;

use clap::Args;
use striate_bench::array::{
    self, ArrayApi, ArrayBenchError, ArrayGoals, ArrayOptions, ArrayProgress, ArrayResults,
    ArrayWorkload, CallMode, Format,
};
use striate_comm::{Comm, CommExt, Reduction};

use super::super::store::{BenchStore, StoreArgs};
use striate_statistics::Ratio;

use super::super::{
    check_memory as check_memory_for, check_space as check_space_for, progress_bar, ratio_table,
    said_when_interrupted, show,
};
use super::layouts::LayoutArgs;
use super::render::render;
use crate::document::Document;
use crate::{CommandError, ranks, terminal};

/// Options of every benchmark of datasets.
#[derive(Debug, Args)]
pub(super) struct CommonArgs {
    /// Ranks: threads, unless mpiexec started the program
    #[arg(short = 'n', long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=4096))]
    ranks: Option<u64>,
    /// Libraries, in turn: striate, striate-netcdf4 (netCDF-4 files, whatever --format says),
    /// hdf5 and netcdf4 (parallel HDF5 and netCDF-C), pnetcdf, each with the MPI-IO implementation
    /// that MPI selects or with the one named at the end (pnetcdf-ompio, hdf5-romio …), netcdf
    /// (serial: rank 0 writes for all), raw (plain pwrite of as many bytes, in one piece per rank),
    /// deflate-alone (compresses the same chunks, one thread per rank, and writes nothing). By
    /// default striate and in an MPI job pnetcdf, for workloads with chunks striate-netcdf4, hdf5
    /// and netcdf4, if they were built in
    #[arg(short = 'a', long, value_name = "API", value_delimiter = ',', ignore_case = true)]
    api: Vec<String>,
    /// Repetitions of everything; the results are medians
    #[arg(short = 'i', long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    repeat: u32,
    #[command(flatten)]
    place: StoreArgs,
    #[command(flatten)]
    layouts: LayoutArgs,
    /// The format of the files: cdf1, cdf2 or cdf5
    #[arg(long, value_name = "FORMAT", default_value = "cdf5")]
    format: Format,
    /// A hint for the datasets, passed to all libraries that accept hints, with PnetCDF's, ROMIO's
    /// or Striate's name; may be repeated
    #[arg(long = "hint", value_name = "NAME=VALUE", value_parser = hint)]
    hints: Vec<(String, String)>,
    /// Include making the data durable in a write
    #[arg(short = 'e', long)]
    fsync: bool,
    /// The library that makes the files, once: all others only open and read them
    #[arg(long, value_name = "API", ignore_case = true)]
    files_of: Option<String>,
    /// Do not verify
    #[arg(long)]
    no_verify: bool,
    /// Required ratio: over the fastest parallel library in writes (write=R), in reads (read=R) or
    /// both (R), over plain system calls in writes (raw=R) and reads (raw-read=R), and over the
    /// compressor alone in writes (deflate=R)
    #[arg(long = "goal", value_name = "[WHAT=]R", value_parser = goal)]
    goals: Vec<ArrayGoals>,
}

/// What differs between the benchmarks.
#[derive(Clone, Debug)]
pub(super) struct ArraySetting {
    ranks: u64,
    goals: ArrayGoals,
    nonblocking: Option<bool>,
    mode: CallMode,
    usual: &'static [ArrayApi],
    data: bool,
    align: Option<u64>,
}

/// What is compared by default.
const CLASSIC: &[ArrayApi] = &[ArrayApi::Striate, ArrayApi::Pnetcdf(None)];

/// The same, with plain system calls.
const CLASSIC_AND_RAW: &[ArrayApi] = &[ArrayApi::Striate, ArrayApi::Pnetcdf(None), ArrayApi::Raw];

impl ArraySetting {
    /// The default number of ranks, and the default goals.
    pub(super) const fn new(ranks: u64, goals: ArrayGoals) -> Self {
        Self {
            ranks,
            goals,
            nonblocking: None,
            mode: CallMode::Collective,
            usual: CLASSIC,
            data: true,
            align: None,
        }
    }

    /// Whether calls are begun, and waited for together.
    pub(super) const fn nonblocking(self, nonblocking: bool) -> Self {
        Self { nonblocking: Some(nonblocking), ..self }
    }

    /// Plain system calls take part by default.
    pub(super) const fn beside_raw(self) -> Self {
        self.beside(CLASSIC_AND_RAW)
    }

    /// These take part by default, if they are there.
    pub(super) const fn beside(self, usual: &'static [ArrayApi]) -> Self {
        Self { usual, ..self }
    }

    /// Whether ranks make their calls together.
    pub(super) const fn mode(self, mode: CallMode) -> Self {
        Self { mode, ..self }
    }

    /// What begins in files at multiples of so many bytes, unless a hint says otherwise.
    pub(super) const fn aligned(self, align: Option<u64>) -> Self {
        Self { align, ..self }
    }

    /// No data is moved.
    pub(super) const fn without_data(self) -> Self {
        Self { data: false, ..self }
    }
}

fn hint(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("hints are written NAME=VALUE")?;
    array::check_hint(name, value).map_err(|error| error.to_string())?;
    Ok((name.to_owned(), value.to_owned()))
}

fn goal(text: &str) -> Result<ArrayGoals, String> {
    let (what, ratio) = text.split_once('=').unwrap_or(("", text));
    let ratio: f64 = ratio.parse().map_err(|_| format!("'{ratio}' is not a number"))?;
    if !ratio.is_finite() || ratio < 0.0 {
        return Err("it must be 0 or more".into());
    }
    let none = ArrayGoals::default();
    match what {
        "" => Ok(ArrayGoals { write: Some(ratio), read: Some(ratio), ..none }),
        "write" => Ok(ArrayGoals { write: Some(ratio), ..none }),
        "read" => Ok(ArrayGoals { read: Some(ratio), ..none }),
        "raw" => Ok(ArrayGoals { raw: Some(ratio), ..none }),
        "raw-read" => Ok(ArrayGoals { raw_read: Some(ratio), ..none }),
        "deflate" => Ok(ArrayGoals { compressor: Some(ratio), ..none }),
        _ => Err(format!("'{what}' is none of write, read, raw, raw-read, deflate")),
    }
}

impl CommonArgs {
    /// Runs a benchmark and prints what it found. `workload` is asked for the number of ranks that
    /// there are.
    pub(super) fn run(
        &self,
        json: bool,
        setting: &ArraySetting,
        workload: impl Fn(u64) -> Box<dyn ArrayWorkload> + Sync,
    ) -> Result<(), CommandError> {
        self.run_all(json, setting, |ranks| vec![workload(ranks)], |_| Vec::new())
    }

    /// The same for several workloads, one after the other; `compare` has ratios between them.
    pub(super) fn run_all(
        &self,
        json: bool,
        setting: &ArraySetting,
        workloads: impl Fn(u64) -> Vec<Box<dyn ArrayWorkload>> + Sync,
        compare: impl Fn(&[ArrayResults]) -> Vec<Ratio>,
    ) -> Result<(), CommandError> {
        let contenders = self.contenders(setting)?;
        let made_by =
            self.files_of.as_deref().map(|name| self.library(name, setting)).transpose()?;
        let bar = progress_bar();
        let _interrupted = said_when_interrupted(&bar, "what the benchmark wrote is removed");
        let found = ranks::run(self.ranks.unwrap_or(setting.ranks), |comm| {
            let ranks = comm.size() as u64;
            if let Some(asked) = self.ranks.filter(|asked| *asked != ranks) {
                return Err(CommandError::usage(
                    format!("--ranks says {asked}, but mpiexec started {ranks}"),
                    "leave --ranks out under mpiexec",
                ));
            }
            let workloads = workloads(ranks);
            for workload in &workloads {
                check_memory(comm.as_ref(), workload.as_ref())?;
            }
            let bandwidth = self.layouts.bandwidth(&self.place);
            let place = self.place.find_with(comm.as_ref(), bandwidth)?;
            let options = ArrayOptions { made_by, ..self.options(setting, &contenders, &place) };
            let mut all = Vec::with_capacity(workloads.len());
            for workload in &workloads {
                check_space(comm.as_ref(), workload.as_ref(), &place.files)?;
                all.push(measure(comm, workload.as_ref(), &options, &bar)?);
            }
            Ok((all, options))
        });
        bar.finish_and_clear();
        let Some((all, options)) = found? else { return Ok(()) };
        let between = compare(&all);
        if json {
            let rows = all.iter().flat_map(|results| results.rows.clone()).collect();
            let ratios = all.into_iter().flat_map(|results| results.ratios).chain(between);
            return Document::new(rows, ratios.collect()).print();
        }
        let texts = all.iter().map(|results| render(results, &options));
        let texts: Vec<String> = texts.chain([ratio_table(&between)]).collect();
        terminal::print_fitted(texts.join("\n").trim_end_matches('\n'))
    }

    fn options(
        &self,
        setting: &ArraySetting,
        contenders: &[ArrayApi],
        place: &BenchStore,
    ) -> ArrayOptions {
        // The last of equal ones counts.
        let goals = self.goals.iter().rev().fold(ArrayGoals::default(), |all, one| all.or(*one));
        let mut hints = self.hints.clone();
        if let Some(strip) = self.place.strip() {
            hints.insert(0, ("striping_unit".into(), strip.to_string()));
        }
        if let Some(align) = setting.align {
            hints.insert(0, ("nc_var_align_size".into(), align.to_string()));
        }
        ArrayOptions {
            contenders: contenders.to_vec(),
            repeat: self.repeat as usize,
            format: self.format,
            fsync: self.fsync,
            verify: !self.no_verify,
            nonblocking: setting.nonblocking,
            mode: setting.mode,
            made_by: None,
            directory: place.files.clone(),
            store: place.store.clone(),
            hints,
            targets: self.layouts.targets(&self.place, place),
            goals: goals.or(setting.goals),
        }
    }

    /// Every library that was asked for, once.
    fn contenders(&self, setting: &ArraySetting) -> Result<Vec<ArrayApi>, CommandError> {
        if self.layouts.is_wanted() {
            return self.laid(setting);
        }
        let mut contenders = Vec::new();
        for name in &self.api {
            let api = self.library(name, setting)?;
            if !contenders.contains(&api) {
                contenders.push(api);
            }
        }
        if contenders.is_empty() {
            let usual = setting.usual.iter().copied();
            contenders.extend(usual.filter(|api| self.check(*api, setting).is_ok()));
        }
        Ok(contenders)
    }

    /// The library of that name, if it can be used.
    fn library(&self, name: &str, setting: &ArraySetting) -> Result<ArrayApi, CommandError> {
        let name = name.to_ascii_lowercase();
        let api = ArrayApi::named(&name).ok_or_else(|| {
            let known = ArrayApi::ALL.map(ArrayApi::name).join(", ");
            CommandError::usage(
                format!("there is no API '{name}' for datasets"),
                format!("there are {known}"),
            )
        })?;
        self.check(api, setting).map(|()| api)
    }

    /// Every layout that was asked for, once.
    fn laid(&self, setting: &ArraySetting) -> Result<Vec<ArrayApi>, CommandError> {
        let is_ours = |name: &String| name.eq_ignore_ascii_case(ArrayApi::Striate.name());
        if !self.api.iter().all(is_ours) {
            return Err(CommandError::usage(
                "layouts are those of striate's datasets",
                "leave --api out, or --layouts",
            ));
        }
        if !setting.data {
            return Err(CommandError::usage(
                "without data there is nothing to lay out",
                "leave --layouts out",
            ));
        }
        self.layouts.contenders()
    }

    fn check(&self, api: ArrayApi, setting: &ArraySetting) -> Result<(), CommandError> {
        let name = api.name();
        if let Some(reason) = api.absence() {
            return Err(CommandError::usage(
                format!("there is no API '{name}' here: {reason}"),
                "see CONTRIBUTING.md for how to build it with its peers",
            ));
        }
        if api.needs_job() && !ranks::is_job() {
            return Err(CommandError::usage(
                format!("{name} needs processes as ranks, but these are threads"),
                "start it as: mpiexec -n 4 striate bench array …",
            ));
        }
        if !matches!(api, ArrayApi::Striate | ArrayApi::StriateNetcdf4) && self.place.is_remote() {
            return Err(CommandError::usage(
                format!("{name} only supports files of file systems, not on servers"),
                "leave --store and --servers out, or use --api striate",
            ));
        }
        if api.needs_data() && !setting.data {
            return Err(CommandError::usage(
                format!("{name} has no header to create or to open"),
                "use --api striate,pnetcdf,netcdf",
            ));
        }
        Ok(())
    }
}

/// Measures, with a bar.
fn measure(
    comm: &Arc<dyn Comm>,
    workload: &dyn ArrayWorkload,
    options: &ArrayOptions,
    bar: &indicatif::ProgressBar,
) -> Result<ArrayResults, CommandError> {
    let progress = |at: &ArrayProgress| {
        let what = format!("{}, {}", at.contender.name(), at.op.name());
        show(bar, (at.done, at.total), at.repetition, &what);
    };
    array::run(comm, workload, options, &progress).map_err(failed)
}

fn failed(error: ArrayBenchError) -> CommandError {
    let hint = match &error {
        ArrayBenchError::TooLarge => "use smaller sizes or fewer ranks",
        ArrayBenchError::Rank { .. } => {
            "--dir names the directory for the files: it must be writable and have room for them; \
             --format cdf5 has the fewest limits"
        }
        _ => "",
    };
    CommandError::failed("cannot finish the benchmark", error, hint)
}

/// Refuses what does not fit into memory, before a plan is made.
fn check_memory(comm: &dyn Comm, workload: &dyn ArrayWorkload) -> Result<(), CommandError> {
    check_memory_for(comm, workload.footprint().allocated())
}

/// Refuses files that do not fit where they are to go.
fn check_space(
    comm: &dyn Comm,
    workload: &dyn ArrayWorkload,
    files: &Path,
) -> Result<(), CommandError> {
    let each = workload.plan(comm.rank() as u64).map_err(failed)?.bytes();
    let all = comm.reduce_u64(Reduction::Sum, each)?;
    check_space_for(comm, all, files)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_for_both_directions_unless_said_otherwise() {
        let both = ArrayGoals { write: Some(1.5), read: Some(1.5), ..ArrayGoals::default() };
        assert_eq!(goal("1.5"), Ok(both));
        assert_eq!(goal("write=2"), Ok(ArrayGoals { write: Some(2.0), ..ArrayGoals::default() }));
        let deflate = ArrayGoals { compressor: Some(0.9), ..ArrayGoals::default() };
        assert_eq!(goal("deflate=0.9"), Ok(deflate));
        assert_eq!(goal("raw=0.85"), Ok(ArrayGoals { raw: Some(0.85), ..ArrayGoals::default() }));
        for wrong in ["", "fast", "peer=1", "raw=", "-1", "inf"] {
            assert!(goal(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn hints_are_checked_where_they_are_known() {
        assert!(hint("cb_nodes=4").is_ok() && hint("whatever=x").is_ok());
        for wrong in ["cb_nodes", "cb_nodes=many", "nc_var_align_size=0"] {
            assert!(hint(wrong).is_err(), "{wrong}");
        }
    }
}
