//! [`Header`]: what a file says about itself.

use super::{Format, Type, Values};

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Its name.
    pub name: String,
    /// Its length; 0 stands for the unlimited one, whose length is [`Header::records`].
    pub len: u64,
}

impl Dimension {
    /// Whether it is the unlimited one.
    pub const fn is_unlimited(&self) -> bool {
        self.len == 0
    }
}

/// A named list of values about the dataset or a variable.
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
    /// What it says about itself.
    pub attributes: Vec<Attribute>,
    /// What its elements are in the file.
    pub external: Type,
    /// The size the header states: bytes of the variable, or of one record of it, rounded up to a
    /// multiple of 4. It is redundant and, beyond what its field holds, not to be believed:
    /// [`Header::slab_size`] computes it.
    pub stated_size: u64,
    /// Where its data, or that of its first record, begins in the file.
    pub begin: u64,
}

/// What a file says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// In which format.
    pub format: Format,
    /// How many records there are, or [`Header::STREAMING`].
    pub records: u64,
    /// The dimensions.
    pub dimensions: Vec<Dimension>,
    /// What the dataset says about itself.
    pub attributes: Vec<Attribute>,
    /// The variables.
    pub variables: Vec<Variable>,
}

impl Header {
    /// Stands for a number of records that the writer did not know when it wrote the header: they
    /// reach to the end of the file. [`Header::records_in`] says how many they are.
    pub const STREAMING: u64 = u64::MAX;

    /// Most dimensions that a variable can have.
    pub const MAX_RANK: usize = 1024;

    /// Of an empty dataset.
    pub const fn new(format: Format) -> Self {
        Self {
            format,
            records: 0,
            dimensions: Vec::new(),
            attributes: Vec::new(),
            variables: Vec::new(),
        }
    }

    /// Whether the variable grows with the records: its first dimension is unlimited.
    pub fn is_record(&self, variable: &Variable) -> bool {
        let first = variable.dimensions.first();
        first
            .and_then(|&first| self.dimensions.get(first as usize))
            .is_some_and(Dimension::is_unlimited)
    }

    /// The lengths of the variable's dimensions, that of the unlimited one being the records.
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

    /// Bytes from one record to the next: all record variables' slabs, each rounded up to a multiple
    /// of 4, unless there is only one such variable, which is not padded. `None` beyond 2⁶⁴ − 1.
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

    /// Where the first record begins; `None` if no variable has records.
    pub fn records_begin(&self) -> Option<u64> {
        let of_records = self.variables.iter().filter(|variable| self.is_record(variable));
        of_records.map(|variable| variable.begin).min()
    }

    /// How many whole records a file of so many bytes holds; the padding of the last may be missing.
    /// It is what [`Header::records`] should be, and has to be where it is [`Header::STREAMING`].
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
            // Every record before the last is there with its padding.
            Some(rest) if stride > 0 => rest / stride + 1,
            _ => 0,
        }
    }

    /// How long the file is when everything is written, padding included, as netCDF-C leaves it and
    /// `ncvalidator` expects it. `None` if that is beyond 2⁶³ − 1, or the records are
    /// [`Header::STREAMING`].
    pub fn end(&self) -> Option<u64> {
        self.end_of(self.records)
    }

    /// [`Header::end`] if there were so many records.
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
