//! [`Partitioning`]: the settings of partitioned datasets, by the names of their hints.

use striate_datatype::parse_size;
use striate_file::{FileError, StorageTarget};

/// Partitions of a dataset at most.
const MAX_PARTITIONS: u64 = 1 << 16;

/// Whether and how the variables of a dataset are divided into partition files.
///
/// All settings apply when a dataset is created. When one is opened, [`Partitioning::partial`] and
/// [`Partitioning::buffer`] apply; the others apply to variables that a redefinition adds, except
/// for the number of partitions, which does not change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioning {
    /// `nc_partitioning_enabled`: whether a new dataset is partitioned.
    pub enabled: bool,
    /// `nc_num_partitions`: number of partitions; `None` (`targets`) means one for each target.
    pub count: Option<u64>,
    /// `nc_partition_targets`: storage targets of the partitions, used round robin. By default the
    /// directory of the master.
    pub targets: Vec<StorageTarget>,
    /// `nc_partition_min_ndims`: variables with at most this many dimensions stay in the master,
    /// unless their dimension is chosen explicitly.
    pub min_ndims: u64,
    /// `nc_partition_dims`: variables (by path, if they are in groups), and the dimension along
    /// which each is divided; an empty name or `none` keeps the variable in the master. It takes
    /// precedence over the attribute `par_dim_id`.
    pub dimensions: Vec<(String, String)>,
    /// `nc_partitions_partial`: whether a dataset is opened although partitions are missing or
    /// damaged. Only accesses to those are errors then.
    pub partial: bool,
    /// `nc_partition_buffer`: bytes that a rank holds for the exchange with partitions at most.
    pub buffer: u64,
}

impl Default for Partitioning {
    fn default() -> Self {
        Self {
            enabled: false,
            count: None,
            targets: Vec::new(),
            min_ndims: 1,
            dimensions: Vec::new(),
            partial: false,
            buffer: 32 << 20,
        }
    }
}

impl Partitioning {
    /// Sets one hint; `false` if the name is not one of these.
    pub(crate) fn set(&mut self, name: &str, value: &str) -> Result<bool, FileError> {
        let refuse =
            |reason: String| FileError::Hint { name: name.into(), value: value.into(), reason };
        let size = |value: &str| {
            parse_size(value).map_err(|error| refuse(format!("is no number: {error}")))
        };
        match name {
            "nc_partitioning_enabled" => self.enabled = switch(value).map_err(refuse)?,
            "nc_partitions_partial" => self.partial = switch(value).map_err(refuse)?,
            "nc_num_partitions" if value.eq_ignore_ascii_case("targets") => self.count = None,
            "nc_num_partitions" => match size(value)? {
                count @ 1..=MAX_PARTITIONS => self.count = Some(count),
                _ => return Err(refuse(format!("must be from 1 to {MAX_PARTITIONS}, or targets"))),
            },
            "nc_partition_targets" => {
                let targets = value.split(',').map(str::trim).filter(|target| !target.is_empty());
                self.targets = targets
                    .map(|target| {
                        target.parse().map_err(|error: FileError| refuse(error.to_string()))
                    })
                    .collect::<Result<_, _>>()?;
            }
            "nc_partition_min_ndims" | "min_ndims" => self.min_ndims = size(value)?,
            "nc_partition_dims" => {
                let pairs = value.split(',').map(str::trim).filter(|pair| !pair.is_empty());
                let pair = |pair: &str| match pair.rsplit_once(':') {
                    Some((variable, dimension)) => Ok((variable.into(), dimension.into())),
                    None => Err(refuse("is not variable:dimension,variable:dimension".into())),
                };
                self.dimensions = pairs.map(pair).collect::<Result<_, _>>()?;
            }
            "nc_partition_buffer" => match size(value)? {
                buffer @ 0x1000..=0x100_0000_0000 => self.buffer = buffer,
                _ => return Err(refuse("must be from 4 KiB to 1 TiB".into())),
            },
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// As text with a line for each setting, for [`Partitioning::from_lines`].
    pub(crate) fn to_lines(&self) -> String {
        let mut lines = vec![
            format!("enabled\t{}", self.enabled),
            format!("partial\t{}", self.partial),
            format!("min_ndims\t{}", self.min_ndims),
            format!("buffer\t{}", self.buffer),
        ];
        lines.extend(self.count.map(|count| format!("count\t{count}")));
        lines.extend(self.targets.iter().map(|target| format!("target\t{target}")));
        let dimensions = self.dimensions.iter();
        lines.extend(dimensions.map(|(variable, name)| format!("dimension\t{variable}\t{name}")));
        lines.join("\n")
    }

    /// Parses the text of another rank.
    pub(crate) fn from_lines(text: &str) -> Result<Self, FileError> {
        let mut all = Self::default();
        for line in text.lines() {
            let (key, value) = line.split_once('\t').unwrap_or((line, ""));
            match key {
                "enabled" => all.enabled = value == "true",
                "partial" => all.partial = value == "true",
                "min_ndims" => all.min_ndims = value.parse().unwrap_or(1),
                "buffer" => all.buffer = value.parse().unwrap_or(all.buffer),
                "count" => all.count = value.parse().ok(),
                "target" => all.targets.push(value.parse()?),
                "dimension" => {
                    let (variable, name) = value.split_once('\t').unwrap_or((value, ""));
                    all.dimensions.push((variable.into(), name.into()));
                }
                _ => {}
            }
        }
        Ok(all)
    }
}

fn switch(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "enable" | "true" | "1" => Ok(true),
        "disable" | "false" | "0" => Ok(false),
        _ => Err("is neither enable nor disable".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Partitioning {
        let mut all = Partitioning::default();
        for (name, value) in [
            ("nc_partitioning_enabled", "enable"),
            ("nc_num_partitions", "12"),
            ("nc_partition_targets", "/a, /b#3,striate://io.example/run#1"),
            ("min_ndims", "2"),
            ("nc_partition_dims", "u:y,a:b:none,c:"),
            ("nc_partitions_partial", "1"),
            ("nc_partition_buffer", "1M"),
        ] {
            assert!(all.set(name, value).unwrap(), "{name}");
        }
        all
    }

    #[test]
    fn hints_are_parsed() {
        let all = example();
        assert!(all.enabled && all.partial);
        assert_eq!((all.count, all.min_ndims, all.buffer), (Some(12), 2, 1 << 20));
        assert_eq!(all.targets[1].number(), Some(3));
        let pairs = [("u", "y"), ("a:b", "none"), ("c", "")];
        assert_eq!(all.dimensions, pairs.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert!(!Partitioning::default().set("cb_nodes", "3").unwrap());
    }

    #[test]
    fn invalid_values_are_errors_that_name_the_hint() {
        for (name, value) in [
            ("nc_partitioning_enabled", "perhaps"),
            ("nc_num_partitions", "0"),
            ("nc_num_partitions", "many"),
            ("nc_num_partitions", "65537"),
            ("nc_partition_targets", "/a,#3"),
            ("nc_partition_dims", "u"),
            ("nc_partition_buffer", "1"),
        ] {
            let error = Partitioning::default().set(name, value).unwrap_err().to_string();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }

    #[test]
    fn settings_survive_the_broadcast() {
        for all in [Partitioning::default(), example()] {
            assert_eq!(Partitioning::from_lines(&all.to_lines()).unwrap(), all);
        }
    }
}
