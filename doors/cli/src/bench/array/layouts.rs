//! Options of benchmarks that lay a dataset out in several ways, on servers of which one is slow.

use clap::Args;
use striate_bench::array::{ArrayApi, Layout, Straggler, Targets};
use striate_datatype::Bytes;

use super::super::store::{BenchStore, StoreArgs};
use super::super::workloads::size;
use crate::CommandError;
use crate::number::counted;

/// Bytes per second of a server by default: less than this program can serve.
const BANDWIDTH: u64 = 16 << 20;

/// Options for the layout of a dataset.
#[derive(Debug, Args)]
pub(super) struct LayoutArgs {
    /// Layouts of the datasets on the servers of --servers, of which one is slow, in turn: plain
    /// (one file striped over all), partitioned (a partition on each), chosen (servers are probed,
    /// and those that are fast enough get a partition), healthy (as chosen, while no server is
    /// slow)
    #[arg(
        long,
        value_name = "LAYOUT",
        value_delimiter = ',',
        ignore_case = true,
        requires = "servers"
    )]
    layouts: Vec<String>,
    /// Average factor by which one server is slower than the others. The factor is drawn for each
    /// repetition, uniformly from 5/9 to 13/9 of this value: from 5 to 13 if it is 9
    #[arg(long, value_name = "FACTOR", default_value_t = 9.0, value_parser = factor)]
    straggler: f64,
    /// Seed of these random factors; the same seed gives the same factors
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Bytes that a probe writes to each server
    #[arg(long, value_name = "SIZE", default_value = "1MiB", value_parser = size)]
    probe_size: u64,
}

fn factor(text: &str) -> Result<f64, String> {
    let factor: f64 = text.parse().map_err(|_| format!("'{text}' is not a number"))?;
    // From 1 on at the lower end of its range.
    if (2.0..=1000.0).contains(&factor) { Ok(factor) } else { Err("it is from 2 to 1000".into()) }
}

impl LayoutArgs {
    /// Every layout that was asked for, once.
    pub(super) fn contenders(&self) -> Result<Vec<ArrayApi>, CommandError> {
        let mut contenders = Vec::new();
        for name in &self.layouts {
            let layout = Layout::named(&name.to_ascii_lowercase()).ok_or_else(|| {
                let known = Layout::ALL.map(Layout::name).join(", ");
                CommandError::usage(
                    format!("there is no layout '{name}'"),
                    format!("there are {known}"),
                )
            })?;
            if !contenders.contains(&ArrayApi::Layout(layout)) {
                contenders.push(ArrayApi::Layout(layout));
            }
        }
        Ok(contenders)
    }

    /// Whether there are any.
    pub(super) fn is_wanted(&self) -> bool {
        !self.layouts.is_empty()
    }

    /// Bytes per second of a server, if layouts are wanted.
    pub(super) fn bandwidth(&self, place: &StoreArgs) -> Option<u64> {
        place.bandwidth().or(self.is_wanted().then_some(BANDWIDTH))
    }

    /// What the layouts use.
    pub(super) fn targets(&self, args: &StoreArgs, place: &BenchStore) -> Option<Targets> {
        let count = args.servers().filter(|_| self.is_wanted())? as usize;
        Some(Targets {
            url: place.files.display().to_string(),
            count,
            bandwidth: self.bandwidth(args)?,
            straggler: Straggler { target: count / 2, mean: self.straggler, seed: self.seed },
            probe_size: self.probe_size,
            servers: place.servers.clone(),
        })
    }
}

/// What is slow, for people.
pub(super) fn told(targets: &Targets) -> String {
    let Straggler { target, seed, .. } = targets.straggler;
    let [least, most] = targets.straggler.range();
    format!(
        "{} of {}/s each; server {target} is {least:.1} to {most:.1} times slower, drawn anew \
         for each repetition (seed {seed})",
        counted(targets.count as u64, "server"),
        Bytes(targets.bandwidth),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_have_limits() {
        assert_eq!(factor("9"), Ok(9.0));
        for wrong in ["1", "0", "-9", "inf", "nan", "slow"] {
            assert!(factor(wrong).is_err(), "{wrong}");
        }
    }
}
