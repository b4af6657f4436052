//! [`Header`]: dimensions, attributes, variables and number of records of a netCDF classic file.

use super::{Format, Type, Values};

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Its name.
    pub name: String,
    /// Its length; 0 for the unlimited dimension, whose length is [`Header::records`].
    pub len: u64,
}

impl Dimension {
    /// Whether it is the unlimited dimension.
    pub const fn is_unlimited(&self) -> bool {
        self.len == 0
    }
}

/// An attribute of the dataset or of a variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribute {
    /// Its name.
    pub name: String,
    /// Its values.
    pub values: Values,
}

/// A variable.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its name.
    pub name: String,
    /// Its dimensions, the slowest varying first, as indices into [`Header::dimensions`].
    pub dimensions: Vec<u32>,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
    /// Its external type.
    pub external: Type,
    /// The size in the header (`vsize`): bytes of the variable, or of one record of it, rounded up
    /// to a multiple of 4. It is redundant, and wrong where its field is too small:
    /// [`Header::slab_size`] computes it.
    pub stated_size: u64,
    /// Offset of its data, or of its first record, in the file.
    pub begin: u64,
}

/// The header of a netCDF classic file.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The format.
    pub format: Format,
    /// Number of records, or [`Header::STREAMING`].
    pub records: u64,
    /// The dimensions.
    pub dimensions: Vec<Dimension>,
    /// The global attributes.
    pub attributes: Vec<Attribute>,
    /// The variables.
    pub variables: Vec<Variable>,
}

impl Header {
    /// A number of records that the writer did not know when it wrote the header: the records
    /// extend to the end of the file. [`Header::records_in`] computes it.
    pub const STREAMING: u64 = u64::MAX;

    /// Dimensions of a variable at most.
    pub const MAX_RANK: usize = 1024;

    /// The header of an empty dataset.
    pub const fn new(format: Format) -> Self {
        Self {
            format,
            records: 0,
            dimensions: Vec::new(),
            attributes: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Whether it is a record variable: its first dimension is unlimited.
    pub fn is_record(&self, variable: &Variable) -> bool {
        let first = variable.dimensions.first();
        first
            .and_then(|&first| self.dimensions.get(first as usize))
            .is_some_and(Dimension::is_unlimited)
    }

    /// The lengths of the variable's dimensions; that of the unlimited one is the number of
    /// records.
    pub fn shape(&self, variable: &Variable) -> Vec<u64> {
        let len = |&index: &u32| match self.dimensions.get(index as usize) {
            Some(dimension) if dimension.is_unlimited() => self.records,
            Some(dimension) => dimension.len,
            None => 0,
        };
        variable.dimensions.iter().map(len).collect()
    }

    /// Bytes of the variable, or of one record of it, without padding; `None` beyond 2⁶⁴ − 1.
    pub fn slab_size(&self, variable: &Variable) -> Option<u64> {
        let fixed = if self.is_record(variable) { 1.. } else { 0.. };
        variable.dimensions[fixed].iter().try_fold(variable.external.size(), |size, &index| {
            size.checked_mul(self.dimensions.get(index as usize)?.len)
        })
    }

    /// Bytes from one record to the next: the slabs of all record variables, each rounded up to a
    /// multiple of 4; a single record variable is not padded. `None` beyond 2⁶⁴ − 1.
    pub fn record_size(&self) -> Option<u64> {
        let mut of_records = self.variables.iter().filter(|variable| self.is_record(variable));
        let Some(first) = of_records.next() else { return Some(0) };
        let first = self.slab_size(first)?;
        let mut padded = first.checked_next_multiple_of(4)?;
        let mut alone = true;
        for variable in of_records {
            alone = false;
            let slab = self.slab_size(variable)?.checked_next_multiple_of(4)?;
            padded = padded.checked_add(slab)?;
        }
        Some(if alone { first } else { padded })
    }

    /// Offset of the first record; `None` without record variables.
    pub fn records_begin(&self) -> Option<u64> {
        let of_records = self.variables.iter().filter(|variable| self.is_record(variable));
        of_records.map(|variable| variable.begin).min()
    }

    /// The number of complete records in a file of `file_len` bytes; the padding of the last may be
    /// missing. It replaces [`Header::records`] where that is [`Header::STREAMING`].
    pub fn records_in(&self, file_len: u64) -> u64 {
        let (Some(begin), Some(stride)) = (self.records_begin(), self.record_size()) else {
            return 0;
        };
        let of_records = self.variables.iter().filter(|variable| self.is_record(variable));
        let ends = of_records.map(|variable| {
            let size = self.slab_size(variable).unwrap_or(u64::MAX);
            variable.begin.saturating_add(size) - begin
        });
        let data = ends.max().unwrap_or(u64::MAX);
        match file_len.saturating_sub(begin).checked_sub(data) {
            // All records but the last are padded.
            Some(rest) if stride > 0 => rest / stride + 1,
            _ => 0,
        }
    }

    /// The length of the complete file including padding, as netCDF-C writes it and `ncvalidator`
    /// expects it. `None` beyond 2⁶³ − 1, or if the number of records is [`Header::STREAMING`].
    pub fn end(&self) -> Option<u64> {
        self.end_of(self.records)
    }

    /// [`Header::end`] with another number of records.
    pub(crate) fn end_of(&self, records: u64) -> Option<u64> {
        let mut end = self.encoded_len();
        for variable in self.variables.iter().filter(|variable| !self.is_record(variable)) {
            let size = self.slab_size(variable)?.checked_next_multiple_of(4)?;
            end = end.max(variable.begin.checked_add(size)?);
        }
        if let Some(begin) = self.records_begin().filter(|_| records > 0) {
            let records = self.record_size()?.checked_mul(records)?;
            end = end.max(begin.checked_add(records)?);
        }
        i64::try_from(end).ok().map(|_| end)
    }
}
