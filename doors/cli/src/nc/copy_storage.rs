//! [`CopyStorage`]: how the variables of a netCDF-4 copy are stored: chunks, filters, unlimited
//! dimensions, with the meaning of `nccopy`'s options.

use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use clap::Args;
use striate_array::format::{ChunkFilter, Header, StorageLayout, StorageOptions, Variable};

/// The length of chunks along a dimension, as `DIM/N`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChunkLength {
    dimension: String,
    len: u64,
}

impl FromStr for ChunkLength {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not DIM/N with N from 1");
        let (dimension, len) = text.rsplit_once('/').ok_or_else(wrong)?;
        let len = len.parse().ok().filter(|&len| len > 0).ok_or_else(wrong)?;
        if dimension.is_empty() {
            return Err(wrong());
        }
        Ok(Self { dimension: dimension.into(), len })
    }
}

/// Options for the storage of a netCDF-4 copy.
#[derive(Debug, Default, Args)]
pub(super) struct StorageArgs {
    /// Compress with deflate, level 1 to 9; 0 stores without compression (netCDF-4)
    #[arg(short = 'd', long, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=9))]
    deflate: Option<u8>,

    /// Shuffle bytes before they are compressed (netCDF-4)
    #[arg(short = 's', long)]
    shuffle: bool,

    /// Lengths of chunks along dimensions (netCDF-4) [default: those of the source]
    #[arg(short = 'c', long, value_name = "DIM/N", value_delimiter = ',')]
    chunks: Vec<ChunkLength>,

    /// Dimensions that become unlimited
    #[arg(long, value_name = "DIM", value_delimiter = ',')]
    unlimited: Vec<String>,
}

/// How the variables of a copy are stored.
#[derive(Clone, Debug, Default)]
pub(super) struct CopyStorage {
    deflate: Option<u8>,
    shuffle: bool,
    chunks: BTreeMap<String, u64>,
    pub(super) unlimited: BTreeSet<String>,
}

impl From<&StorageArgs> for CopyStorage {
    fn from(args: &StorageArgs) -> Self {
        Self {
            deflate: args.deflate,
            shuffle: args.shuffle,
            chunks: args.chunks.iter().map(|one| (one.dimension.clone(), one.len)).collect(),
            unlimited: args.unlimited.iter().cloned().collect(),
        }
    }
}

impl CopyStorage {
    /// The first dimension that an option names and the source does not have.
    pub(super) fn unknown_dimension(&self, header: &Header) -> Option<&str> {
        let has = |name: &str| header.dimensions.iter().any(|dimension| dimension.name == name);
        let mut named = self.chunks.keys().chain(&self.unlimited);
        named.find(|name| !has(name)).map(String::as_str)
    }

    /// Whether an option asks for what only netCDF-4 has.
    pub(super) fn needs_netcdf4(&self) -> bool {
        self.deflate.is_some() || self.shuffle || !self.chunks.is_empty()
    }

    /// How a variable of the copy is stored: as in the source, but for what options say.
    pub(super) fn of(&self, header: &Header, variable: &Variable) -> StorageOptions {
        let mut storage = if header.format.is_hdf5() {
            variable.storage.clone()
        } else {
            StorageOptions::default()
        };
        // Filters that are only decoded are left out.
        storage.filters.retain(|filter| !matches!(filter, ChunkFilter::Other(_)));
        let dimensions: Vec<_> =
            variable.dimensions.iter().map(|&index| &header.dimensions[index as usize]).collect();
        if dimensions.is_empty() {
            return storage;
        }
        if let Some(level) = self.deflate {
            let is_checksum = |filter: &ChunkFilter| *filter == ChunkFilter::Fletcher32;
            storage.filters.retain(is_checksum);
            let mut filters = Vec::new();
            if level > 0 {
                filters.extend(self.shuffle.then_some(ChunkFilter::Shuffle));
                filters.push(ChunkFilter::Deflate(level));
            }
            storage.filters.splice(0..0, filters);
        }
        let grows = |name: &str| self.unlimited.contains(name);
        let any_grows = dimensions.iter().any(|one| one.is_unlimited() || grows(&one.name));
        let old = match &storage.layout {
            StorageLayout::Chunked(shape) => Some(shape.clone()),
            _ => None,
        };
        if dimensions.iter().any(|one| self.chunks.contains_key(&one.name)) {
            let shape = dimensions.iter().enumerate().map(|(at, one)| {
                let unlimited = one.is_unlimited() || grows(&one.name);
                let whole = if unlimited { 1 } else { one.len };
                let old = old.as_ref().and_then(|shape| shape.get(at)).copied();
                let len = self.chunks.get(&one.name).copied().or(old).unwrap_or(whole);
                if unlimited { len } else { len.min(one.len.max(1)) }
            });
            storage.layout = StorageLayout::Chunked(shape.collect());
        } else if storage.layout == StorageLayout::Contiguous
            && (any_grows || !storage.filters.is_empty())
        {
            storage.layout = StorageLayout::Default;
        }
        storage
    }
}

#[cfg(test)]
mod tests {
    use striate_array::format::Dimension;
    use striate_array::{Format, Type};

    use super::*;

    #[test]
    fn options_change_what_they_name() {
        let mut header = Header::new(Format::Cdf5);
        header.dimensions.push(Dimension::classic("t", 0));
        header.dimensions.push(Dimension::classic("x", 10));
        let variable = Variable::new("v", Type::Int, vec![0, 1]);
        let storage = CopyStorage::from(&StorageArgs {
            deflate: Some(4),
            shuffle: true,
            chunks: vec!["x/100".parse().unwrap()],
            unlimited: Vec::new(),
        });
        let found = storage.of(&header, &variable);
        assert_eq!(found.filters, [ChunkFilter::Shuffle, ChunkFilter::Deflate(4)]);
        assert_eq!(found.layout, StorageLayout::Chunked(vec![1, 10]));
        assert_eq!(storage.unknown_dimension(&header), None);
        let scalar = Variable::new("s", Type::Int, Vec::new());
        assert_eq!(storage.of(&header, &scalar), StorageOptions::default());
    }

    #[test]
    fn wrong_lengths_are_refused() {
        for text in ["x", "x/", "/3", "x/0", "x/-1", "x/y"] {
            assert!(text.parse::<ChunkLength>().is_err(), "{text}");
        }
        let one: ChunkLength = "a/b/3".parse().unwrap();
        assert_eq!((one.dimension.as_str(), one.len), ("a/b", 3));
    }
}
