//! [`dataset_map`]: where the datasets of a netCDF or HDF5 file are, for reports about accesses to
//! it.

use std::ops::{Bound, ControlFlow};
use std::path::Path;

use striate_array::format::Header;
use striate_hdf5::model::{Layout, Name, ObjectKind};
use striate_hdf5::{Dataset, File, Source};
use striate_report::datasets::{DatasetMap, DatasetRange, RecordRanges};
use striate_store::{PosixFile, PosixOptions, Store};

use super::hdf5_file::{StoreSource, has_signature};
use super::validate;
use crate::CommandError;

/// Chunks whose index entries are read at once.
const CHUNK_BATCH: usize = 4096;
/// Datasets of a file at most; more are metadata to a report.
const MOST_DATASETS: usize = 100_000;

/// Where the datasets of a file are, in at most so many ranges; `None` if it is in none of the
/// formats.
pub(crate) fn dataset_map(path: &Path, most: usize) -> Result<Option<DatasetMap>, CommandError> {
    let store: Box<dyn Store> = Box::new(PosixFile::open(path, &PosixOptions::read_only())?);
    if has_signature(store.as_ref()) {
        let read = |error| CommandError::failed("it cannot be read", error, "");
        let file = File::open(StoreSource::new(store)).map_err(read)?;
        return of_hdf5(&file, most).map(Some).map_err(read);
    }
    let mut magic = [0; 3];
    if store.read_at(0, &mut magic)? < magic.len() || magic != *b"CDF" {
        return Ok(None);
    }
    let (_, header, _) = validate::header(store.as_ref())?;
    match header {
        Ok((header, _)) => Ok(Some(of_classic(&header))),
        Err(error) => Err(CommandError::failed("it cannot be read", error, "")),
    }
}

/// Ranges of a file, at most so many.
struct BoundedRanges {
    list: Vec<DatasetRange>,
    most: usize,
    left_out: bool,
}

impl BoundedRanges {
    fn add(&mut self, begin: u64, size: u64, dataset: u32) {
        let end = begin.saturating_add(size);
        if let Some(last) = self.list.last_mut()
            && last.end == begin
            && last.dataset == dataset
        {
            last.end = end;
        } else if self.list.len() < self.most {
            self.list.push(DatasetRange { begin, end, dataset });
        } else {
            self.left_out = true;
        }
    }
}

fn of_hdf5<S: Source>(file: &File<S>, most: usize) -> striate_hdf5::Result<DatasetMap> {
    let mut map = DatasetMap { format: "HDF5".into(), ..DatasetMap::default() };
    let mut ranges = BoundedRanges { list: Vec::new(), most, left_out: false };
    let mut elsewhere = 0_u64;
    let mut unread = 0_u64;
    file.visit(&mut |path: &Name, object| {
        if object.kind != ObjectKind::Dataset {
            return Ok(ControlFlow::Continue(()));
        }
        if map.datasets.len() == MOST_DATASETS {
            ranges.left_out = true;
            return Ok(ControlFlow::Break(()));
        }
        let number = map.datasets.len() as u32;
        map.datasets.push(path.to_string());
        // One that is damaged does not keep the others from being named.
        match file.dataset(object) {
            Ok(dataset) => {
                let is_elsewhere =
                    matches!(dataset.layout, Layout::Virtual { .. } | Layout::External { .. });
                elsewhere += u64::from(is_elsewhere);
                unread += u64::from(add_dataset(file, &dataset, number, &mut ranges).is_err());
            }
            Err(_) => unread += 1,
        }
        Ok(ControlFlow::Continue(()))
    })?;
    map.ranges = ranges.list;
    for (count, what) in [
        (u64::from(ranges.left_out), "it has so many chunks that some count as metadata"),
        (elsewhere, "virtual and external datasets have their elements in other files"),
        (unread, "some datasets cannot be read and count as metadata"),
    ] {
        if count > 0 {
            map.notes.push(what.into());
        }
    }
    Ok(map)
}

fn add_dataset<S: Source>(
    file: &File<S>,
    dataset: &Dataset,
    number: u32,
    ranges: &mut BoundedRanges,
) -> striate_hdf5::Result<()> {
    let base = file.superblock().base;
    match &dataset.layout {
        Layout::Contiguous { address: Some(address), size } => {
            ranges.add(base.saturating_add(address.0), *size, number);
        }
        Layout::Chunked(_) => {
            let mut from: Option<Vec<u64>> = None;
            while !ranges.left_out {
                let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                let batch = file.chunks(dataset, bound, CHUNK_BATCH)?;
                for chunk in &batch {
                    ranges.add(base.saturating_add(chunk.address.0), chunk.size, number);
                }
                match batch.last() {
                    Some(last) if batch.len() == CHUNK_BATCH => from = Some(last.offset.clone()),
                    _ => break,
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn of_classic(header: &Header) -> DatasetMap {
    let mut map = DatasetMap { format: header.format.to_string(), ..DatasetMap::default() };
    let begin = header.records_begin().unwrap_or(0);
    let mut parts = Vec::new();
    for (number, variable) in (0_u32..).zip(&header.variables) {
        map.datasets.push(format!("/{}", variable.name));
        let size = header.slab_size(variable).unwrap_or(0);
        let range =
            |begin: u64| DatasetRange { begin, end: begin.saturating_add(size), dataset: number };
        if header.is_record(variable) {
            parts.push(range(variable.begin.saturating_sub(begin)));
        } else {
            map.ranges.push(range(variable.begin));
        }
    }
    parts.sort_unstable_by_key(|part| part.begin);
    let stride = header.record_size().unwrap_or(0);
    if !parts.is_empty() && parts.iter().all(|part| part.end <= stride) {
        map.records = Some(RecordRanges { begin, stride, parts });
    }
    map
}
