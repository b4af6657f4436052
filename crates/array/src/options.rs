//! [`Options`]: layout, access and partitioning of a dataset, set by the names of PnetCDF's hints.

use striate_datatype::parse_size;
use striate_file::{FileError, Hints, ProbeOptions};
use striate_hdf5::chunk_shape::ChunkRule;

use crate::Partitioning;

/// The most threads of a rank that filter chunks.
pub(crate) const MAX_FILTER_THREADS: u64 = 256;

/// The options of a dataset: layout, access and partitioning.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// The hints of its file.
    pub hints: Hints,
    /// `nc_header_align_size`: the space of the header is a multiple of this.
    pub header_align: Option<u64>,
    /// `nc_var_align_size`: fixed variables begin at multiples of this.
    pub fixed_align: Option<u64>,
    /// `nc_record_align_size`: the first record begins at a multiple of this.
    pub record_align: Option<u64>,
    /// `nc_chunk_rule`: how the default shape of chunks is chosen, `netcdf-c` or `last-unlimited`.
    pub chunk_rule: ChunkRule,
    /// `nc_chunk_cache`: bytes of decoded chunks that are kept, and of independent writes to
    /// filtered chunks that wait in memory; more of them wait in the file.
    pub chunk_cache: Option<u64>,
    /// `nc_filter_threads`: threads of a rank that encode and decode filtered chunks, at most 256.
    /// By default ranks that may use the same cores divide them.
    pub filter_threads: Option<u64>,
    /// Whether [`crate::Dataset::create`] fails if the file exists (`NC_NOCLOBBER`).
    pub exclusive: bool,
    /// Whether and how variables are divided into partition files.
    pub partitioning: Partitioning,
    /// Whether and how storage targets are probed before partitions are created.
    pub probe: ProbeOptions,
}

impl Options {
    /// The defaults, with the hints of `STRIATE_HINTS`.
    pub fn from_environment() -> Result<Self, FileError> {
        let mut options = Self { hints: Hints::from_environment()?, ..Self::default() };
        if let Ok(text) = std::env::var("STRIATE_HINTS") {
            for (name, value) in text.split(';').filter_map(|entry| entry.split_once('=')) {
                options.set(name.trim(), value.trim())?;
            }
        }
        Ok(options)
    }

    /// Sets one hint of the dataset or of its file; unknown ones are ignored.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), FileError> {
        let refuse =
            |reason: String| FileError::Hint { name: name.into(), value: value.into(), reason };
        let option = match name {
            "nc_header_align_size" => &mut self.header_align,
            "nc_var_align_size" => &mut self.fixed_align,
            "nc_record_align_size" => &mut self.record_align,
            "nc_chunk_cache" => &mut self.chunk_cache,
            "nc_chunk_rule" => {
                self.chunk_rule = match value {
                    "netcdf-c" => ChunkRule::NetcdfC,
                    "last-unlimited" => ChunkRule::LastUnlimited,
                    _ => {
                        return Err(refuse("is neither netcdf-c nor last-unlimited".into()));
                    }
                };
                return Ok(());
            }
            "nc_filter_threads" => {
                let count = value.parse().ok().filter(|n| (1..=MAX_FILTER_THREADS).contains(n));
                let reason = || format!("must be a number from 1 to {MAX_FILTER_THREADS}");
                self.filter_threads = Some(count.ok_or_else(|| refuse(reason()))?);
                return Ok(());
            }
            _ if name.starts_with("nc_probe") => return self.probe.set(name, value),
            _ if self.partitioning.set(name, value)? => return Ok(()),
            _ => return self.hints.set(name, value),
        };
        let size = parse_size(value).map_err(|error| refuse(format!("is not a size: {error}")))?;
        if !(1..=1 << 40).contains(&size) {
            return Err(refuse("must be from 1 to 1 TiB".into()));
        }
        *option = Some(size);
        Ok(())
    }

    /// [`Options::set`] as a builder method.
    pub fn with(mut self, name: &str, value: &str) -> Result<Self, FileError> {
        self.set(name, value)?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filter_threads() {
        assert_eq!(Options::default().filter_threads, None);
        for (value, count) in [("1", 1), ("7", 7), ("256", 256)] {
            let options = Options::default().with("nc_filter_threads", value).unwrap();
            assert_eq!(options.filter_threads, Some(count));
        }
        for value in ["0", "257", "-1", "many", "", "2.5", "1M", "99999999999999999999"] {
            let error = Options::default().with("nc_filter_threads", value).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("nc_filter_threads") && error.contains(value), "{error}");
        }
    }
}
