//! Writing a file of others further: where its data are, and whether a commit loses anything.

use std::ops::Bound;

use super::NetcdfFile;
use super::definition::{Storage, VariableDefinition};
use crate::dataset::Dataset;
use crate::file::File;
use crate::model::{Chunk, ChunkedLayout, Layout};
use crate::write::netcdf::{build, check_definition};
use crate::write::{Chunks, Placement, StoredChunk};
use crate::{Error, Reason, Result, Source, Structure};

/// Chunks that are taken from an index at a time.
const BATCH: usize = 4096;

impl NetcdfFile {
    /// The placement of each variable, for [`crate::write::FilePlan::resume`]. Chunk indexes of all
    /// kinds are read; a commit writes version-1 B-trees. Chunks that are not stored stay so, and
    /// read as fill values, until [`crate::write::FilePlan::claim`] gives them a place. Who then
    /// fills such a chunk with a value of variable length must not copy the descriptor of
    /// [`Dataset::fill`]: its heap belongs to the metadata, whose place is used again. Variables
    /// whose elements are in other files or datasets have no place of their own.
    pub fn placements<S: Source>(&self, file: &File<S>) -> Result<Vec<Placement>> {
        let variables = self.definition.variables.iter().zip(&self.objects);
        variables.map(|(variable, dataset)| self.placement(file, variable, dataset)).collect()
    }

    fn placement<S: Source>(
        &self,
        file: &File<S>,
        variable: &VariableDefinition,
        dataset: &Dataset,
    ) -> Result<Placement> {
        let refuse = |reason| Error::at(Structure::Layout, dataset.address, reason);
        let far = || refuse(Reason::Invalid("is that of more than 64 bits of elements"));
        let bytes = self.definition.bytes(variable).ok_or_else(far)?;
        match (&variable.storage, &dataset.layout) {
            // With elements elsewhere, the file is not written further, and nobody reads them.
            (Storage::Compact(_), Layout::Compact { .. })
            | (_, Layout::Virtual { .. } | Layout::External { .. }) => Ok(Placement::Compact),
            (Storage::Contiguous, Layout::Contiguous { address, .. }) => {
                Ok(Placement::Contiguous { address: *address, size: bytes })
            }
            (Storage::Chunked(_), Layout::Chunked(layout)) => {
                let mut stored = Vec::new();
                let mut from: Option<Vec<u64>> = None;
                loop {
                    let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
                    let batch = file.chunks(dataset, bound, BATCH)?;
                    for chunk in &batch {
                        stored.push(stored_chunk(file, dataset, layout, chunk)?);
                    }
                    match batch.last() {
                        Some(chunk) if batch.len() == BATCH => from = Some(chunk.offset.clone()),
                        _ => break,
                    }
                }
                let sizes = self.definition.dataspace(variable).sizes();
                let indexed = variable.is_indexed();
                let element = layout.element_size;
                let chunks = Chunks::existing(&layout.chunk, element, indexed, &sizes, stored);
                Ok(Placement::Chunked(chunks))
            }
            _ => Err(refuse(Reason::Unsupported("storage in other files or datasets".into()))),
        }
    }

    /// Whether a commit writes all structures of the file again; if not, what it would lose. Such a
    /// file can only be read.
    pub fn rewritable(&self) -> std::result::Result<(), String> {
        if let Some(one) = self.unrepresented.first() {
            let (path, reason) = (&one.path, &one.reason);
            return Err(format!("\"{path}\" is not in the netCDF model: {reason}"));
        }
        if let Some(what) = self.lost.first() {
            return Err(what.clone());
        }
        for (variable, dataset) in self.definition.variables.iter().zip(&self.objects) {
            self.check_shape(variable, dataset)
                .map_err(|why| format!("variable \"{}\" {why}", variable.name))?;
        }
        check_definition(&self.definition).map_err(|error| error.to_string())?;
        // What only encoding finds: too many links, too long types.
        let placements = self.definition.variables.iter().map(without_data).collect::<Vec<_>>();
        build(&self.definition, &placements).map_err(|error| error.to_string())?;
        Ok(())
    }

    fn check_shape(
        &self,
        variable: &VariableDefinition,
        dataset: &Dataset,
    ) -> std::result::Result<(), String> {
        match &dataset.layout {
            Layout::Virtual { .. } => return Err("is virtual".into()),
            Layout::External { .. } => return Err("is stored in other files".into()),
            _ => {}
        }
        let dimensions = variable.dimensions.iter();
        for (&number, extent) in dimensions.zip(dataset.dataspace.dimensions()) {
            let Some(dimension) = self.definition.dimensions.get(number) else {
                return Err(format!("has dimension {number}, which does not exist"));
            };
            let same = if dimension.unlimited {
                extent.maximum.is_none()
            } else {
                extent.size == dimension.length && extent.maximum == Some(extent.size)
            };
            if !same {
                return Err(format!("is not as long as its dimension \"{}\"", dimension.name));
            }
        }
        Ok(())
    }
}

/// The placement of a variable of which nothing was written.
fn without_data(variable: &VariableDefinition) -> Placement {
    match &variable.storage {
        Storage::Compact(_) => Placement::Compact,
        Storage::Contiguous => Placement::Contiguous { address: None, size: 0 },
        Storage::Chunked(chunk) => {
            let indexed = variable.is_indexed();
            Placement::Chunked(Chunks::new(chunk, variable.datatype.size, indexed))
        }
    }
}

/// A chunk by its place in the grid of chunks.
fn stored_chunk<S: Source>(
    file: &File<S>,
    dataset: &Dataset,
    layout: &ChunkedLayout,
    chunk: &Chunk,
) -> Result<(Vec<u64>, StoredChunk)> {
    let refuse = |reason| Error::at(Structure::Chunk, chunk.address, reason);
    let available = file.walk().available(chunk.address);
    if chunk.size > available {
        return Err(refuse(Reason::Truncated { needed: chunk.size, available }));
    }
    let Ok(size) = u32::try_from(chunk.size) else {
        let (what, found, limit) = ("bytes of a chunk", chunk.size, u64::from(u32::MAX));
        return Err(refuse(Reason::Limit { what, found, limit }));
    };
    if dataset.filters.is_empty() && layout.bytes() != Some(chunk.size) {
        return Err(refuse(Reason::Invalid("has another size than its elements")));
    }
    // A chunk that reaches beyond the dataset may be stored without filters; a mask says the same.
    let sizes = dataset.dataspace.dimensions().iter();
    let partial = (chunk.offset.iter().zip(&layout.chunk).zip(sizes))
        .any(|((offset, len), extent)| offset.saturating_add(*len) > extent.size);
    let filter_mask = if partial && layout.partial_chunks_unfiltered {
        (1_u64 << dataset.filters.len().min(32)).wrapping_sub(1) as u32
    } else {
        chunk.filter_mask
    };
    let place = chunk.offset.iter().zip(&layout.chunk).map(|(at, len)| at / (*len).max(1));
    Ok((place.collect(), StoredChunk { address: chunk.address, size, filter_mask }))
}
