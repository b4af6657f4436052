//! [`DividedVariable`]: references to a variable whose parts are in the files of a partitioned
//! dataset.
//!
//! Zarr has one grid of chunks of one shape. Chunks of the partitions are chunks of it if each
//! partition begins at a multiple of their length. Otherwise chunks without filters are cut into
//! rows, which are consecutive in the file; what was compressed as a whole cannot be cut.

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use striate_array::PartitionRange;
use striate_array::cdl::netcdf4::GroupTree;
use striate_hdf5::model::Layout;
use striate_hdf5::{Dataset, Error};

use super::references::{IndexError, ReferenceWriter, check_chunks, chunk_key, each_chunk};
use super::zarr::ZarrArray;
use crate::CommandError;
use crate::nc::hdf5_file::{Hdf5File, Recognized, recognize};

/// References to one divided variable at most, where its chunks are cut.
const MOST_ROWS: u64 = 10_000_000;

/// A partition whose chunks are referred to.
pub(super) struct IndexedPart {
    opened: Hdf5File,
    url: Value,
    /// The number of each variable, by its path without the slash at the beginning.
    numbers: HashMap<String, usize>,
    /// What it has of the dataset.
    ranges: Vec<PartitionRange>,
}

impl IndexedPart {
    /// The partitions of a dataset; none if it is not partitioned.
    pub(super) fn all_of(
        master: &Path,
        opened: &Hdf5File,
        url: Option<&str>,
    ) -> Result<Vec<Self>, CommandError> {
        let Some(partitioned) = &opened.partitioned else { return Ok(Vec::new()) };
        let dataset = partitioned.dataset.borrow();
        let infos = dataset.partitions().unwrap_or_default();
        let part = |info: &striate_array::PartitionInfo| {
            let Recognized::Hdf5(opened) = recognize(&info.file)? else {
                return Err(CommandError::failed(
                    format!("cannot index {}", info.file.display()),
                    "it is not a file of HDF5, as its master is",
                    "",
                ));
            };
            let definition = &opened.described.definition;
            let tree = GroupTree::new(definition);
            let of_group = |group: usize| {
                let path = tree.group_path(group);
                let prefix = match path.trim_start_matches('/') {
                    "" => String::new(),
                    path => format!("{path}/"),
                };
                let variables = tree.variables(group).iter();
                variables
                    .map(|&index| (format!("{prefix}{}", definition.variables[index].name), index))
                    .collect::<Vec<_>>()
            };
            let numbers = (0..definition.groups.len()).flat_map(of_group).collect();
            let url = part_url(master, &info.file, url).into();
            Ok(Self { opened: *opened, url, numbers, ranges: info.variables.clone() })
        };
        infos.iter().map(part).collect()
    }
}

/// What references name as a partition: if another URL is given for the master, what is beside the
/// master is beside the URL.
fn part_url(master: &Path, part: &Path, url: Option<&str>) -> String {
    let directory = master.parent().map(PathBuf::from).unwrap_or_default();
    match (url, part.strip_prefix(&directory)) {
        (Some(url), Ok(beside)) => {
            let before = url.rfind('/').map_or("", |slash| &url[..=slash]);
            format!("{before}{}", beside.display())
        }
        _ => part.display().to_string(),
    }
}

/// The part of a variable in one partition.
struct IndexedRange<'p> {
    part: &'p IndexedPart,
    dataset: &'p Dataset,
    indices: Range<u64>,
    /// Its shape, and that of its chunks.
    shape: Vec<u64>,
    chunk: Vec<u64>,
}

/// A variable whose parts are in partitions.
pub(super) struct DividedVariable<'p> {
    array: ZarrArray,
    /// The position of the dimension that is divided.
    dimension: usize,
    parts: Vec<IndexedRange<'p>>,
    /// Whether chunks of the partitions are those of the array.
    is_whole: bool,
    is_complete: bool,
}

impl<'p> DividedVariable<'p> {
    /// A variable of the dataset, by its number, path and shape; the reason if it cannot be
    /// referred to.
    pub(super) fn new(
        all: &'p [IndexedPart],
        number: usize,
        key: &str,
        shape: Vec<u64>,
    ) -> Result<Result<Self, String>, Error> {
        let mut parts = Vec::new();
        let mut dimension = 0;
        let mut is_complete = true;
        for part in all {
            let Some(range) = part.ranges.iter().find(|range| range.variable == number) else {
                continue;
            };
            let described = &part.opened.described;
            let found = part.numbers.get(key).and_then(|&index| described.objects.get(index));
            let Some(dataset) = found else {
                return Ok(Err(format!("{} does not have its part", part.opened.name)));
            };
            dimension = range.dimension;
            let indices = range.indices.clone();
            let mut shape = shape.clone();
            shape[dimension] = indices.end - indices.start;
            let chunk = match &dataset.layout {
                Layout::Chunked(layout) => layout.chunk.clone(),
                Layout::Contiguous { .. } => shape.clone(),
                _ => return Ok(Err("its parts are not stored as those of datasets are".into())),
            };
            match check_chunks(&part.opened.file, dataset, &shape)? {
                Ok(complete) => is_complete &= complete,
                Err(reason) => return Ok(Err(reason)),
            }
            parts.push(IndexedRange { part, dataset, indices, shape, chunk });
        }
        let Some(first) = parts.first() else { return Ok(Err("no partition has it".into())) };
        let definition = &first.part.opened.described.definition;
        let mut array = match ZarrArray::new(definition, first.dataset, shape) {
            Ok(array) => array,
            Err(reason) => return Ok(Err(reason)),
        };
        let same = |one: &IndexedRange<'_>| {
            one.dataset.datatype == first.dataset.datatype
                && one.dataset.filters == first.dataset.filters
        };
        if !parts.iter().all(same) {
            return Ok(Err("its parts have different types or filters".into()));
        }
        let is_whole = parts.iter().all(|one| {
            one.chunk == first.chunk
                && one.indices.start % one.chunk[dimension].max(1) == 0
                && matches!(one.dataset.layout, Layout::Chunked(_))
        });
        array.chunk.clone_from(&first.chunk);
        if !is_whole {
            if !first.dataset.filters.is_empty() {
                return Ok(Err("its partitions do not begin at multiples of its chunks".into()));
            }
            let of_part = |one: &IndexedRange<'_>| {
                let len = gcd(one.indices.start, one.chunk[dimension]);
                // A contiguous part ends with its last element, a chunk after its last one.
                match one.dataset.layout {
                    Layout::Chunked(_) => len,
                    _ => gcd(len, one.indices.end),
                }
            };
            let rows = parts.iter().map(of_part).fold(0, gcd);
            array.chunk[..dimension].fill(1);
            array.chunk[dimension] = rows.max(1);
            let counts = array.shape.iter().zip(&array.chunk);
            let counts = counts.map(|(len, chunk)| len.div_ceil((*chunk).max(1)));
            if counts.fold(1, u64::saturating_mul) > MOST_ROWS {
                return Ok(Err(
                    "its partitions do not begin at multiples of its chunks, and it has too many \
                     rows"
                        .into(),
                ));
            }
        }
        Ok(Ok(Self { array, dimension, parts, is_whole, is_complete }))
    }

    pub(super) fn array(&self) -> ZarrArray {
        self.array.clone()
    }

    pub(super) const fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// Writes the references to all parts.
    pub(super) fn references(
        &self,
        writer: &mut ReferenceWriter<'_>,
        key: &str,
    ) -> Result<(), IndexError> {
        for one in &self.parts {
            let file = &one.part.opened.file;
            let base = file.superblock().base;
            match &one.dataset.layout {
                Layout::Chunked(_) => each_chunk(file, one.dataset, &mut |chunk| {
                    let address = base.saturating_add(chunk.address.0);
                    if self.is_whole {
                        let mut offset = chunk.offset.clone();
                        offset[self.dimension] += one.indices.start;
                        let name = chunk_key(key, &offset, &self.array.chunk);
                        return Ok(writer.put(&name, &json!([one.part.url, address, chunk.size]))?);
                    }
                    self.rows(writer, key, one, &chunk.offset, address)
                })?,
                Layout::Contiguous { address: Some(address), .. } => {
                    let address = base.saturating_add(address.0);
                    self.rows(writer, key, one, &vec![0; one.shape.len()], address)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// References to the rows of a chunk that begins at an element of a part.
    fn rows(
        &self,
        writer: &mut ReferenceWriter<'_>,
        key: &str,
        one: &IndexedRange<'_>,
        offset: &[u64],
        address: u64,
    ) -> Result<(), IndexError> {
        let dimension = self.dimension;
        let rows = self.array.chunk[dimension];
        let size = u64::from(one.dataset.datatype.size);
        let row_bytes = one.chunk[dimension + 1..].iter().product::<u64>() * size;
        // The places of rows within the chunk; the last dimension fastest.
        let mut place = vec![0; dimension + 1];
        loop {
            let index = |at: usize| offset[at] + place[at];
            if (0..=dimension).all(|at| index(at) < one.shape[at]) {
                let number = place.iter().zip(&one.chunk).fold(0, |all, (at, len)| all * len + at);
                let mut start = offset.to_vec();
                (0..=dimension).for_each(|at| start[at] = index(at));
                start[dimension] += one.indices.start;
                let name = chunk_key(key, &start, &self.array.chunk);
                let at = address.saturating_add(number * row_bytes);
                writer.put(&name, &json!([one.part.url, at, rows * row_bytes]))?;
            }
            place[dimension] += rows;
            let mut at = dimension;
            while place[at] >= one.chunk[at] {
                place[at] = 0;
                let Some(before) = at.checked_sub(1) else { return Ok(()) };
                at = before;
                place[at] += 1;
            }
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_beside_the_master_are_beside_the_url() {
        let url = |part: &str, url| part_url(Path::new("run/data.nc"), Path::new(part), url);
        assert_eq!(url("run/data.part0000.nc", None), "run/data.part0000.nc");
        let bucket = Some("s3://bucket/x/all.nc");
        assert_eq!(url("run/a/data.part0000.nc", bucket), "s3://bucket/x/a/data.part0000.nc");
        assert_eq!(url("/fast/data.part0000.nc", bucket), "/fast/data.part0000.nc");
        assert_eq!(url("run/data.part0000.nc", Some("all.nc")), "data.part0000.nc");
    }

    #[test]
    fn the_greatest_common_divisor() {
        assert_eq!((gcd(12, 18), gcd(0, 7), gcd(7, 0), gcd(9, 4)), (6, 7, 7, 1));
    }
}
