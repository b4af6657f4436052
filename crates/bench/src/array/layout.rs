//! [`Layout`]: datasets of Striate as one shared file and as partitions, on targets of which one is
//! slow (\[SON\]).
//!
//! The load of a storage system fluctuates, and a collective call is as slow as the slowest target
//! that it touches. So one of the [`Targets`] is a straggler whose slowness is drawn for every
//! repetition, the same for all layouts of that repetition.

use std::sync::Arc;

use serde::Serialize;

use super::Hint;
use crate::io::LocalServers;

/// How a dataset lies on targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Layout {
    /// One shared file, striped over all targets.
    Plain,
    /// A partition on every target.
    Partitioned,
    /// Targets are probed when the dataset is made, and only those that are fast enough get a
    /// partition.
    Chosen,
    /// As [`Layout::Chosen`], while there is no straggler.
    Healthy,
}

impl Layout {
    /// All there are.
    pub const ALL: [Self; 4] = [Self::Plain, Self::Partitioned, Self::Chosen, Self::Healthy];

    /// The name on the command line and in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Partitioned => "partitioned",
            Self::Chosen => "chosen",
            Self::Healthy => "healthy",
        }
    }

    /// The layout of a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.name() == name)
    }

    /// Whether it is measured while one target is slow.
    pub const fn has_straggler(self) -> bool {
        !matches!(self, Self::Healthy)
    }

    /// Whether there are partitions.
    pub(super) const fn has_partitions(self) -> bool {
        !matches!(self, Self::Plain)
    }

    /// The name of the contender.
    pub(super) const fn contender(self) -> &'static str {
        match self {
            Self::Plain => "striate-plain",
            Self::Partitioned => "striate-partitioned",
            Self::Chosen => "striate-chosen",
            Self::Healthy => "striate-healthy",
        }
    }

    /// The hints that ask for it. `dimensions` are those that variables are divided along, if not
    /// along their first.
    pub(super) fn hints(self, targets: &Targets, dimensions: &str) -> Vec<Hint> {
        if !self.has_partitions() {
            return Vec::new();
        }
        let probes = self != Self::Partitioned;
        let list: Vec<String> =
            (0..targets.count).map(|target| format!("{}#{target}", targets.url)).collect();
        let hint = |name: &str, value: String| (name.to_owned(), value);
        let mut hints = vec![
            hint("nc_partitioning_enabled", "enable".into()),
            hint("nc_num_partitions", "targets".into()),
            hint("nc_partition_targets", list.join(",")),
            hint("nc_probe", if probes { "enable" } else { "disable" }.into()),
            hint("nc_probe_size", targets.probe_size.to_string()),
            // What was measured a moment ago was another load.
            hint("nc_probe_valid", "0s".into()),
        ];
        if !dimensions.is_empty() {
            hints.push(hint("nc_partition_dims", dimensions.into()));
        }
        hints
    }
}

/// The target that is slower than the others, by a factor that fluctuates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Straggler {
    /// Which target.
    pub target: usize,
    /// How many times slower it is on average.
    pub mean: f64,
    /// What the factors are drawn from.
    pub seed: u64,
}

impl Straggler {
    /// The least and the greatest factor: 5 and 13 where it is 9 on average.
    pub fn range(&self) -> [f64; 2] {
        [self.mean * 5.0 / 9.0, self.mean * 13.0 / 9.0]
    }

    /// How many times slower it is in a repetition: drawn uniformly from the range.
    pub fn factor(&self, repetition: usize) -> f64 {
        let [least, most] = self.range();
        // Splitmix: one multiplication would leave neighbouring repetitions alike.
        let mut z =
            self.seed.wrapping_add((repetition as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let unit = ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64;
        least + unit * (most - least)
    }
}

/// Servers within the program, each a target with a bandwidth.
#[derive(Clone, Debug)]
pub struct Targets {
    /// Where they are.
    pub url: String,
    /// How many.
    pub count: usize,
    /// Bytes per second of each.
    pub bandwidth: u64,
    /// Which of them is slower.
    pub straggler: Straggler,
    /// Bytes that a probe writes to each.
    pub probe_size: u64,
    /// The servers themselves, on the rank that started them.
    pub servers: Option<Arc<LocalServers>>,
}

impl Targets {
    /// Makes the straggler as slow as it is in a repetition of a layout, or as fast as the others.
    pub(super) fn set(&self, layout: Layout, repetition: usize) {
        let Some(servers) = &self.servers else { return };
        let factor = if layout.has_straggler() { self.straggler.factor(repetition) } else { 1.0 };
        let bandwidth = (self.bandwidth as f64 / factor) as u64;
        servers.set_bandwidth(self.straggler.target, Some(bandwidth.max(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn targets(count: usize) -> Targets {
        Targets {
            url: "striate://h:1/".into(),
            count,
            bandwidth: 1 << 20,
            straggler: Straggler { target: 1, mean: 9.0, seed: 7 },
            probe_size: 1 << 20,
            servers: None,
        }
    }

    #[test]
    fn names_are_found() {
        for layout in Layout::ALL {
            assert_eq!(Layout::named(layout.name()), Some(layout));
            assert_eq!(layout.contender(), format!("striate-{}", layout.name()));
        }
        assert_eq!(Layout::named("shared"), None);
    }

    #[test]
    fn factors_are_drawn_uniformly_from_their_range() {
        let straggler = Straggler { target: 0, mean: 9.0, seed: 1 };
        let factors: Vec<f64> =
            (0..10_000).map(|repetition| straggler.factor(repetition)).collect();
        assert!(factors.iter().all(|factor| (5.0..=13.0).contains(factor)));
        let mean = factors.iter().sum::<f64>() / factors.len() as f64;
        assert!((mean - 9.0).abs() < 0.1, "{mean}");
        let low = factors.iter().filter(|factor| **factor < 7.0).count();
        assert!((2300..2700).contains(&low), "{low}");
        assert_eq!(factors[3].to_bits(), straggler.factor(3).to_bits());
        let other = Straggler { seed: 2, ..straggler };
        assert!((0..9).any(|n| other.factor(n).to_bits() != straggler.factor(n).to_bits()));
    }

    #[test]
    fn hints_ask_for_the_layout() {
        let value = |layout: Layout, name: &str| {
            let hints = layout.hints(&targets(2), "u:z");
            hints.into_iter().find(|hint| hint.0 == name).map(|hint| hint.1)
        };
        assert!(Layout::Plain.hints(&targets(2), "u:z").is_empty());
        for layout in [Layout::Partitioned, Layout::Chosen, Layout::Healthy] {
            let list = "striate://h:1/#0,striate://h:1/#1";
            assert_eq!(value(layout, "nc_partition_targets").as_deref(), Some(list));
            assert_eq!(value(layout, "nc_partition_dims").as_deref(), Some("u:z"));
            let probes = if layout == Layout::Partitioned { "disable" } else { "enable" };
            assert_eq!(value(layout, "nc_probe").as_deref(), Some(probes));
        }
    }
}
