//! [`VariableData`]: the elements of a variable in batches of bounded size, and their text.

use striate_hdf5::model::{Dataspace, Fill};
use striate_hdf5::netcdf::NetcdfFile;
use striate_hdf5::netcdf::default_fill;
use striate_hdf5::{Dataset, Error, File, Reason, Result, Source, Structure};

use super::{
    AttributeReader, Datum, DatumDecoder, DividedElements, FileText, PrintedType, classic_values,
};
use crate::cdl::data::ValuePrinter;
use crate::cdl::rows::{LineWriter, RowPrinter};
use crate::cdl::{BATCH, CdlError};
use crate::format::{Type, Values};
use crate::slab_batches::SlabBatches;

/// Bytes of elements that are read at once, if an element is not larger.
const BATCH_BYTES: u64 = 32 << 20;

/// Bytes of an element at most.
const LARGEST: usize = 256 << 20;

/// Reads a variable.
pub struct VariableData<'f, S> {
    index: usize,
    divided: Option<&'f dyn DividedElements>,
    file: &'f File<S>,
    dataset: &'f Dataset,
    shape: Vec<u64>,
    is_unlimited: Vec<bool>,
}

/// A part of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSlab {
    /// Its first indices.
    pub start: Vec<u64>,
    /// Its lengths.
    pub count: Vec<u64>,
}

impl<'f, S: Source> VariableData<'f, S> {
    /// For a variable by its number; `None` if there is none.
    pub fn new(file: &'f File<S>, described: &'f NetcdfFile, index: usize) -> Option<Self> {
        let variable = described.definition.variables.get(index)?;
        let dataset = described.objects.get(index)?;
        let space = described.definition.dataspace(variable);
        let dimensions = space.dimensions().iter();
        let is_unlimited = dimensions.map(|dimension| dimension.maximum.is_none()).collect();
        Some(Self { index, divided: None, file, dataset, shape: space.sizes(), is_unlimited })
    }

    /// With elements that may be in partitions.
    #[must_use]
    pub fn with_divided(self, divided: Option<&'f dyn DividedElements>) -> Self {
        Self { divided, ..self }
    }

    /// The lengths of its dimensions.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Parts of bounded size that are the whole variable, in the order of its elements.
    pub fn slabs(&self) -> impl Iterator<Item = VariableSlab> + use<S> {
        let size = u64::from(self.dataset.datatype.size).max(1);
        let most = (BATCH_BYTES / size).clamp(1, BATCH);
        SlabBatches::new(&self.shape, most).map(|(start, count)| VariableSlab { start, count })
    }

    /// The values of a part, if they have a classic type.
    pub fn values(&self, slab: &VariableSlab, external: Type) -> Result<Values> {
        Ok(classic_values(external, &self.dataset.datatype, self.bytes(slab)?))
    }

    /// The elements of a part.
    pub fn data(&self, slab: &VariableSlab) -> Result<Vec<Datum>> {
        let bytes = self.bytes(slab)?;
        let mut data = DatumDecoder::new(self.file).list(&self.dataset.datatype, &bytes)?;
        if self.stored(slab).is_some_and(|stored| stored == slab.count) {
            return Ok(data);
        }
        // Strings that nobody wrote are empty, though the bytes of the fill value are none.
        let sizes = self.dataset.dataspace.sizes();
        for (index, datum) in data.iter_mut().enumerate() {
            let is_beyond =
                coordinates(slab, index as u64).zip(&sizes).any(|(at, size)| at >= *size);
            if matches!(datum, Datum::String(None)) && is_beyond {
                *datum = Datum::String(Some(Vec::new()));
            }
        }
        Ok(data)
    }

    /// How much of a part is in the dataset, along each dimension; `None` if nothing is.
    fn stored(&self, slab: &VariableSlab) -> Option<Vec<u64>> {
        let sizes = self.dataset.dataspace.sizes();
        let parts = slab.start.iter().zip(&slab.count).zip(&sizes);
        let stored = parts.map(|((start, count), size)| size.saturating_sub(*start).min(*count));
        let stored: Vec<u64> = stored.collect();
        let is_there = self.dataset.dataspace != Dataspace::Null
            && stored.len() == slab.count.len()
            && !stored.contains(&0);
        is_there.then_some(stored)
    }

    /// The elements of a part as they are stored. A dataset may be shorter than the dimensions of
    /// its variable: the rest is the fill value.
    fn bytes(&self, slab: &VariableSlab) -> Result<Vec<u8>> {
        let size = self.dataset.datatype.size as usize;
        if size > LARGEST {
            let (found, limit) = (size as u64, LARGEST as u64);
            let reason = Reason::Limit { what: "bytes of an element", found, limit };
            return Err(Error::at(Structure::Data, self.dataset.address, reason));
        }
        let in_partitions =
            self.divided.and_then(|it| it.read(self.index, &slab.start, &slab.count));
        if let Some(bytes) = in_partitions {
            return bytes;
        }
        let elements = slab.count.iter().product::<u64>() as usize;
        let stored = self.stored(slab);
        if stored.as_ref() == Some(&slab.count) {
            let mut bytes = vec![0; elements * size];
            self.file.read_box(self.dataset, &slab.start, &slab.count, &mut bytes)?;
            return Ok(bytes);
        }
        let mut bytes = self.fill().repeat(elements);
        let Some(stored) = stored else { return Ok(bytes) };
        let mut part = vec![0; stored.iter().product::<u64>() as usize * size];
        self.file.read_box(self.dataset, &slab.start, &stored, &mut part)?;
        let row = stored.last().map_or(1, |&last| last as usize) * size;
        for (index, from) in part.chunks_exact(row.max(1)).enumerate() {
            // The number of the row's first element in the whole part.
            let mut left = index as u64;
            let mut to = 0;
            let mut below = slab.count.last().copied().unwrap_or(1);
            for (stored, count) in stored.iter().zip(&slab.count).rev().skip(1) {
                to += left % stored * below;
                left /= stored;
                below *= count;
            }
            let to = to as usize * size;
            if let Some(place) = bytes.get_mut(to..to + from.len()) {
                place.copy_from_slice(from);
            }
        }
        Ok(bytes)
    }

    /// The bytes of an element that nobody wrote.
    fn fill(&self) -> Vec<u8> {
        let size = self.dataset.datatype.size as usize;
        let mut fill = match &self.dataset.fill.value {
            Fill::Value(value) => value.clone(),
            Fill::Undefined | Fill::Default => {
                default_fill(&self.dataset.datatype).as_bytes().to_vec()
            }
        };
        fill.resize(size, 0);
        fill
    }
}

/// The indices of an element of a part.
fn coordinates(slab: &VariableSlab, index: u64) -> impl Iterator<Item = u64> {
    let mut left = index;
    let mut at: Vec<u64> = slab
        .count
        .iter()
        .rev()
        .map(|&count| {
            let here = left % count.max(1);
            left /= count.max(1);
            here
        })
        .collect();
    at.reverse();
    at.into_iter().zip(slab.start.clone()).map(|(at, start)| at + start)
}

impl<S: Source> FileText<'_, S> {
    /// Prints the data of a variable that has some.
    pub(super) fn print_data(
        &self,
        line: &mut LineWriter<'_>,
        index: usize,
    ) -> std::result::Result<(), CdlError<Error>> {
        let Some(variable) = self.definition().variables.get(index) else { return Ok(()) };
        let (Some(&of), Some(view)) = (self.types.get(index), self.views.get(index)) else {
            return Ok(());
        };
        let Some(reader) = VariableData::new(self.file, self.described, index) else {
            return Ok(());
        };
        let reader = reader.with_divided(self.divided);
        line.begin_data(variable.name.as_bytes(), reader.shape.len())?;
        let mut rows = RowPrinter::new(line, &reader.shape, &reader.is_unlimited);
        if let PrintedType::Classic(external) = of {
            let times = self.times.get(index).and_then(Option::as_ref);
            let mut printer = ValuePrinter::new(view, self.options, times);
            for slab in reader.slabs() {
                let values = reader.values(&slab, external).map_err(CdlError::Read)?;
                printer.print(&mut rows, &values)?;
            }
            return Ok(());
        }
        let fill = self.fill_of(index, of)?;
        let mut token = Vec::new();
        for slab in reader.slabs() {
            for datum in reader.data(&slab).map_err(CdlError::Read)? {
                token.clear();
                if fill.as_ref().is_some_and(|fill| datum.is_fill(fill)) {
                    token.push(b'_');
                } else {
                    datum.print(&mut token, self.options.precision);
                }
                rows.token(&mut token)?;
            }
        }
        Ok(())
    }

    /// What is printed as `_`: the fill value of a variable, or the empty string.
    fn fill_of(
        &self,
        index: usize,
        of: PrintedType,
    ) -> std::result::Result<Option<Datum>, CdlError<Error>> {
        let definition = self.definition();
        let attributes = definition.variables.get(index).map(|it| it.attributes.as_slice());
        let own = attributes.unwrap_or_default().iter().find(|it| it.name == "_FillValue");
        if let Some(own) = own
            && PrintedType::of_attribute(definition, own) == Some(of)
        {
            let reader = AttributeReader::of_variable(self.file, self.described, index);
            let found = reader.and_then(|reader| reader.data(own)).map_err(CdlError::Read)?;
            if let [fill] = found.as_slice() {
                return Ok(Some(fill.clone()));
            }
        }
        Ok((of == PrintedType::String).then(|| Datum::String(Some(Vec::new()))))
    }
}
