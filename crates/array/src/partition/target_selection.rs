//! [`SelectedTargets`]: the storage targets of a new dataset, the fastest of its candidates by a
//! probe \[SON\].

use std::path::Path;
use std::sync::Arc;

use striate_comm::Comm;
use striate_file::{Probe, ProbeOptions, StorageTarget, probe};

use super::create::broadcast_text;
use super::file_names::directory_of;
use crate::{ArrayError, Options};

/// The targets that the settings list.
pub(super) struct CandidateTargets {
    targets: Vec<StorageTarget>,
    /// None are listed: partitions are created in the directory of the master.
    is_master_directory: bool,
}

/// The targets that a dataset uses.
pub(super) struct SelectedTargets {
    pub(super) targets: Vec<StorageTarget>,
    /// Number of partitions, unless the settings give one.
    pub(super) count: u64,
    /// The result of the probe.
    pub(super) probe: Option<String>,
}

impl CandidateTargets {
    /// The candidates of rank 0. Collective.
    pub(super) fn of_rank_0(
        comm: &dyn Comm,
        name: &Path,
        options: &Options,
    ) -> Result<Self, ArrayError> {
        let listed = &options.partitioning.targets;
        if listed.is_empty() {
            return Ok(Self { targets: vec![directory_of(name)?], is_master_directory: true });
        }
        let lines = broadcast_text(comm, || {
            let mut all = Vec::new();
            for target in listed {
                all.extend(target.each()?.iter().map(ToString::to_string));
            }
            Ok(all.join("\n"))
        })?;
        let targets = lines.lines().map(str::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { targets, is_master_directory: false })
    }

    /// Number of partitions at most, unless the settings give one.
    pub(super) const fn max_partitions(&self) -> u64 {
        if self.is_master_directory { 1 } else { self.targets.len() as u64 }
    }

    /// Probes the candidates, unless there is a recent result or probing is disabled, and selects
    /// the fastest. Collective.
    pub(super) fn select(
        self,
        comm: &Arc<dyn Comm>,
        options: &Options,
    ) -> Result<SelectedTargets, ArrayError> {
        let probe_options = probe_options_of_rank_0(comm.as_ref(), &options.probe)?;
        if self.is_master_directory || !probe_options.is_wanted(self.targets.len()) {
            let count = self.max_partitions();
            return Ok(SelectedTargets { targets: self.targets, count, probe: None });
        }
        let probe = probe(comm, &self.targets, &probe_options)?;
        let mut chosen = probe.choice.order[..probe.choice.cut].to_vec();
        match options.partitioning.count {
            // With fewer partitions than targets, the fastest are used.
            Some(count) if count < chosen.len() as u64 => chosen.truncate(count as usize),
            _ => chosen.sort_unstable(),
        }
        let targets: Vec<_> = chosen.iter().map(|&n| self.targets[n].clone()).collect();
        // With a single partition the dataset would be a plain file in the master's directory, not
        // on the target.
        let count = (targets.len() as u64).max(2);
        Ok(SelectedTargets { targets, count, probe: Some(report(&probe)) })
    }
}

/// The probe options of rank 0. Collective.
fn probe_options_of_rank_0(
    comm: &dyn Comm,
    own: &ProbeOptions,
) -> Result<ProbeOptions, ArrayError> {
    let lines = broadcast_text(comm, || {
        let lines: Vec<String> =
            own.iter().map(|(name, value)| format!("{name}={value}")).collect();
        Ok(lines.join("\n"))
    })?;
    let mut options = own.clone();
    for (name, value) in lines.lines().filter_map(|line| line.split_once('=')) {
        options.set(name, value)?;
    }
    Ok(options)
}

/// The text that the master stores: a summary, and a line for each target.
fn report(probe: &Probe) -> String {
    let mut lines = vec![probe.to_string()];
    for (number, measured) in probe.targets.iter().enumerate() {
        let rate = measured.bandwidth() / f64::from(1 << 20);
        let kept = if probe.choice.is_chosen(number) { "kept" } else { "dropped" };
        lines.push(format!("{}\t{rate:.1} MiB/s\t{kept}", measured.target));
    }
    lines.join("\n")
}
