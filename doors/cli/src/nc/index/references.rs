//! [`IndexedFile`]: the document of references, written as chunks are listed.

use std::io::{self, Write};
use std::ops::Bound;

use serde_json::{Map, Value, json};
use striate_array::cdl::netcdf4::{AttributeReader, GroupTree, PrintedType};
use striate_array::{SlabBatches, Type};
use striate_hdf5::model::{Chunk, Layout};
use striate_hdf5::netcdf::{AttributeDefinition, FileDefinition};
use striate_hdf5::{Dataset, Error, File};

use super::divided::{DividedVariable, IndexedPart};
use super::zarr::{ZarrArray, base64};
use super::{IndexSummary, LeftOut};
use crate::nc::dump::plain;
use crate::nc::hdf5_file::{Hdf5File, StoreSource};

/// Chunks whose index entries are read at once.
const CHUNK_BATCH: usize = 4096;

/// Why the references could not be written.
pub(super) enum IndexError {
    Read(Error),
    Write(io::Error),
}

impl From<Error> for IndexError {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

impl From<io::Error> for IndexError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// A file whose chunks are referred to.
pub(super) struct IndexedFile<'f> {
    opened: &'f Hdf5File,
    url: Value,
    tree: GroupTree,
    /// The partitions, if the file is the master of a partitioned dataset.
    parts: Vec<IndexedPart>,
}

/// Writes entries of the document.
pub(super) struct ReferenceWriter<'w> {
    out: &'w mut dyn Write,
    count: u64,
}

impl ReferenceWriter<'_> {
    pub(super) fn put(&mut self, key: &str, value: &Value) -> io::Result<()> {
        let comma = if self.count > 0 { "," } else { "" };
        self.count += 1;
        write!(self.out, "{comma}\n{}: {value}", Value::from(key))
    }

    /// A document within the document, as text.
    fn document(&mut self, key: &str, document: &Value) -> io::Result<()> {
        self.put(key, &document.to_string().into())
    }
}

impl<'f> IndexedFile<'f> {
    pub(super) fn new(opened: &'f Hdf5File, url: String, parts: Vec<IndexedPart>) -> Self {
        let tree = GroupTree::new(&opened.described.definition);
        Self { opened, url: url.into(), tree, parts }
    }

    fn definition(&self) -> &'f FileDefinition {
        &self.opened.described.definition
    }

    /// Writes all references.
    pub(super) fn write(
        &self,
        out: &mut dyn Write,
        summary: &mut IndexSummary,
    ) -> Result<(), IndexError> {
        out.write_all(b"{\"version\": 1, \"refs\": {")?;
        let mut writer = ReferenceWriter { out, count: 0 };
        for (group, definition) in self.definition().groups.iter().enumerate() {
            let prefix = self.prefix(group);
            writer.document(&format!("{prefix}.zgroup"), &json!({"zarr_format": 2}))?;
            let described = &self.opened.described;
            let reader =
                AttributeReader::of_group(&self.opened.file, described, &self.tree, group)?;
            let attributes = self.attributes(&reader, &definition.attributes)?;
            writer.document(&format!("{prefix}.zattrs"), &Value::Object(attributes))?;
            for &index in self.tree.variables(group) {
                self.variable(&mut writer, &prefix, index, summary)?;
            }
        }
        for one in &self.opened.described.unrepresented {
            let (path, reason) = (one.path.to_string(), one.reason.clone());
            summary.left_out.push(LeftOut { path, reason });
        }
        Ok(writer.out.write_all(b"\n}}\n")?)
    }

    /// What the keys of a group begin with.
    fn prefix(&self, group: usize) -> String {
        let path = self.tree.group_path(group);
        match path.trim_start_matches('/') {
            "" => String::new(),
            path => format!("{path}/"),
        }
    }

    fn attributes(
        &self,
        reader: &AttributeReader<'_, StoreSource>,
        attributes: &[AttributeDefinition],
    ) -> Result<Map<String, Value>, Error> {
        let mut found = Map::new();
        for attribute in attributes {
            let of = PrintedType::of_attribute(self.definition(), attribute);
            let value = if of == Some(PrintedType::Classic(Type::Char)) {
                let bytes = attribute.elements.as_bytes();
                let text = String::from_utf8_lossy(bytes);
                text.trim_end_matches('\0').into()
            } else {
                let data = reader.data(attribute)?;
                let mut list: Vec<Value> =
                    data.iter().map(|datum| plain(&attribute.datatype, datum)).collect();
                if list.len() == 1 { list.remove(0) } else { list.into() }
            };
            found.insert(attribute.name.to_string(), value);
        }
        Ok(found)
    }

    fn variable(
        &self,
        writer: &mut ReferenceWriter<'_>,
        prefix: &str,
        index: usize,
        summary: &mut IndexSummary,
    ) -> Result<(), IndexError> {
        let definition = self.definition();
        let (Some(variable), Some(dataset)) =
            (definition.variables.get(index), self.opened.described.objects.get(index))
        else {
            return Ok(());
        };
        let key = format!("{prefix}{}", variable.name);
        let shape = definition.dataspace(variable).sizes();
        let number = self.opened.partitioned.as_ref().and_then(|of| of.number_of(index));
        let place = match number {
            Some(number) => DividedVariable::new(&self.parts, number, &key, shape)?
                .map(|divided| (divided.array(), divided.is_complete(), Some(divided))),
            None => self.single_array(dataset, shape)?.map(|(array, all)| (array, all, None)),
        };
        let (array, complete, divided) = match place {
            Ok(place) => place,
            Err(reason) => {
                summary.left_out.push(LeftOut { path: format!("/{key}"), reason });
                return Ok(());
            }
        };
        writer.document(&format!("{key}/.zarray"), &array.document(complete))?;
        let described = &self.opened.described;
        let reader = AttributeReader::of_variable(&self.opened.file, described, index)?;
        let mut attributes = self.attributes(&reader, &variable.attributes)?;
        let names = variable.dimensions.iter().filter_map(|&at| definition.dimensions.get(at));
        let names: Vec<Value> = names.map(|dimension| dimension.name.to_string().into()).collect();
        attributes.insert("_ARRAY_DIMENSIONS".into(), names.into());
        writer.document(&format!("{key}/.zattrs"), &Value::Object(attributes))?;
        summary.variables += 1;
        let before = writer.count;
        match divided {
            Some(divided) => divided.references(writer, &key)?,
            None => self.references(writer, &key, dataset, &array)?,
        }
        summary.references += writer.count - before;
        Ok(())
    }

    /// A variable of this file as an array, and whether all of its chunks are stored; the reason
    /// if it cannot be one.
    fn single_array(
        &self,
        dataset: &Dataset,
        shape: Vec<u64>,
    ) -> Result<Result<(ZarrArray, bool), String>, Error> {
        let array = match ZarrArray::new(self.definition(), dataset, shape) {
            Ok(array) => array,
            Err(reason) => return Ok(Err(reason)),
        };
        let checked = check_chunks(&self.opened.file, dataset, &array.shape)?;
        Ok(checked.map(|complete| (array, complete)))
    }

    fn references(
        &self,
        writer: &mut ReferenceWriter<'_>,
        key: &str,
        dataset: &Dataset,
        array: &ZarrArray,
    ) -> Result<(), IndexError> {
        let base = self.opened.file.superblock().base;
        match &dataset.layout {
            Layout::Chunked(_) => each_chunk(&self.opened.file, dataset, &mut |chunk| {
                let offset = base.saturating_add(chunk.address.0);
                let name = chunk_key(key, &chunk.offset, &array.chunk);
                Ok(writer.put(&name, &json!([self.url, offset, chunk.size]))?)
            }),
            Layout::Compact { data } if !array.shape.contains(&0) => {
                let name = chunk_key(key, &vec![0; array.shape.len()], &array.chunk);
                let size = dataset.bytes().unwrap_or_default() as usize;
                let text = format!("base64:{}", base64(data.get(..size).unwrap_or_default()));
                Ok(writer.put(&name, &text.into())?)
            }
            Layout::Contiguous { address: Some(address), .. } => {
                let piece = array.chunk.iter().product::<u64>() * u64::from(dataset.datatype.size);
                let elements = array.chunk.iter().product();
                let mut offset = base.saturating_add(address.0);
                for (start, _) in SlabBatches::new(&array.shape, elements) {
                    let name = chunk_key(key, &start, &array.chunk);
                    writer.put(&name, &json!([self.url, offset, piece]))?;
                    offset = offset.saturating_add(piece);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

/// Whether all chunks of a dataset of that shape are stored; the reason if a reader would decode
/// one of them wrongly.
pub(super) fn check_chunks(
    file: &File<StoreSource>,
    dataset: &Dataset,
    shape: &[u64],
) -> Result<Result<bool, String>, Error> {
    let layout = match &dataset.layout {
        Layout::Chunked(layout) => layout,
        Layout::Contiguous { address: None, .. } => return Ok(Ok(false)),
        _ => return Ok(Ok(true)),
    };
    if layout.partial_chunks_unfiltered && !dataset.filters.is_empty() {
        return Ok(Err("its chunks at the edges have not passed its filters".into()));
    }
    let counts = shape.iter().zip(&layout.chunk);
    let total = counts
        .map(|(length, chunk)| length.div_ceil((*chunk).max(1)))
        .fold(1_u64, u64::saturating_mul);
    let (mut stored, mut masked) = (0, false);
    each_chunk(file, dataset, &mut |chunk| {
        stored += 1;
        masked |= chunk.filter_mask != 0;
        Ok::<_, Error>(())
    })?;
    if masked {
        return Ok(Err("some of its chunks have not passed all filters".into()));
    }
    Ok(Ok(stored == total))
}

pub(super) fn each_chunk<E: From<Error>>(
    file: &File<StoreSource>,
    dataset: &Dataset,
    call: &mut dyn FnMut(&Chunk) -> Result<(), E>,
) -> Result<(), E> {
    let mut from: Option<Vec<u64>> = None;
    loop {
        let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let batch = file.chunks(dataset, bound, CHUNK_BATCH)?;
        batch.iter().try_for_each(&mut *call)?;
        match batch.last() {
            Some(last) if batch.len() == CHUNK_BATCH => from = Some(last.offset.clone()),
            _ => return Ok(()),
        }
    }
}

/// The key of a chunk: its place in the grid of chunks.
pub(super) fn chunk_key(key: &str, offset: &[u64], chunk: &[u64]) -> String {
    let places = offset.iter().zip(chunk).map(|(at, length)| (at / (*length).max(1)).to_string());
    let places: Vec<String> = places.collect();
    match places.as_slice() {
        [] => format!("{key}/0"),
        places => format!("{key}/{}", places.join(".")),
    }
}
