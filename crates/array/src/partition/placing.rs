//! Where partitions go: on the targets that are fast right now \[SON\].

use std::path::Path;
use std::sync::Arc;

use striate_comm::Comm;
use striate_file::{Probe, ProbeOptions, StorageTarget, probe};

use super::create::from_first;
use super::names::directory_of;
use crate::{ArrayError, Options};

/// The targets that a dataset may use.
pub(super) struct Candidates {
    targets: Vec<StorageTarget>,
    /// Nobody named any: partitions lie beside the master.
    beside: bool,
}

/// The targets that it uses.
pub(super) struct Placing {
    pub(super) targets: Vec<StorageTarget>,
    /// As many partitions as that, unless something else was asked for.
    pub(super) count: u64,
    /// What was found out about the candidates.
    pub(super) probe: Option<String>,
}

impl Candidates {
    /// Those that rank 0 names. Collective.
    pub(super) fn of_first(
        comm: &dyn Comm,
        name: &Path,
        options: &Options,
    ) -> Result<Self, ArrayError> {
        let asked = &options.partitioning.targets;
        if asked.is_empty() {
            return Ok(Self { targets: vec![directory_of(name)?], beside: true });
        }
        let lines = from_first(comm, || {
            let mut all = Vec::new();
            for target in asked {
                all.extend(target.each()?.iter().map(ToString::to_string));
            }
            Ok(all.join("\n"))
        })?;
        let targets = lines.lines().map(str::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { targets, beside: false })
    }

    /// Partitions that there may be, if no other number is asked for.
    pub(super) const fn most(&self) -> u64 {
        if self.beside { 1 } else { self.targets.len() as u64 }
    }

    /// Measures them, unless that was done lately or is not wanted, and chooses. Collective.
    pub(super) fn choose(
        self,
        comm: &Arc<dyn Comm>,
        options: &Options,
    ) -> Result<Placing, ArrayError> {
        let how = asked_of_first(comm.as_ref(), &options.probe)?;
        if self.beside || !how.is_wanted(self.targets.len()) {
            let count = self.most();
            return Ok(Placing { targets: self.targets, count, probe: None });
        }
        let probe = probe(comm, &self.targets, &how)?;
        let mut chosen = probe.choice.order[..probe.choice.cut].to_vec();
        match options.partitioning.count {
            // Fewer partitions than targets lie on the fastest.
            Some(count) if count < chosen.len() as u64 => chosen.truncate(count as usize),
            _ => chosen.sort_unstable(),
        }
        let targets: Vec<_> = chosen.iter().map(|&n| self.targets[n].clone()).collect();
        // A single partition would be a plain file beside the master, not on the target.
        let count = (targets.len() as u64).max(2);
        Ok(Placing { targets, count, probe: Some(report(&probe)) })
    }
}

/// How rank 0 wants targets to be measured. Collective.
fn asked_of_first(comm: &dyn Comm, own: &ProbeOptions) -> Result<ProbeOptions, ArrayError> {
    let lines = from_first(comm, || {
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

/// What is remembered in the master: a summary, and a line for each target.
fn report(probe: &Probe) -> String {
    let mut lines = vec![probe.to_string()];
    for (number, measured) in probe.targets.iter().enumerate() {
        let rate = measured.bandwidth() / f64::from(1 << 20);
        let kept = if probe.choice.is_chosen(number) { "kept" } else { "dropped" };
        lines.push(format!("{}\t{rate:.1} MiB/s\t{kept}", measured.target));
    }
    lines.join("\n")
}
