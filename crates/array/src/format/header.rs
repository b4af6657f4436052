//! [`Header`]: dimensions, attributes, variables and number of records of a netCDF file.
//!
//! It is the header of a classic file, and the definitions of a netCDF-4 file, whose layout is
//! `striate_hdf5`'s.

use super::{Format, Type, UserType, Values};

/// A dimension.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dimension {
    /// Its name.
    pub name: String,
    /// Its length. In a classic file it is 0 for the unlimited dimension, whose length is
    /// [`Header::records`]; in a netCDF-4 file each unlimited dimension has its present length.
    pub len: u64,
    /// Whether it can grow.
    pub unlimited: bool,
    /// The group that it is defined in, as an index into [`Header::groups`] plus one; 0 is the
    /// root group.
    pub group: u32,
}

impl Dimension {
    /// A dimension of a classic file: the one of length 0 is unlimited.
    pub fn classic(name: impl Into<String>, len: u64) -> Self {
        Self { name: name.into(), len, unlimited: len == 0, group: 0 }
    }

    /// Whether it can grow.
    pub const fn is_unlimited(&self) -> bool {
        self.unlimited
    }
}

/// A group of a netCDF-4 file below the root group.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// The group that it is in, as an index into [`Header::groups`] plus one; 0 is the root group.
    pub parent: u32,
    /// Its attributes.
    pub attributes: Vec<Attribute>,
}

/// How the elements of a variable of a netCDF-4 file are stored. The default leaves all to the
/// library: contiguous, or in chunks of a default shape if the variable can grow or has filters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StorageOptions {
    /// Contiguous, or in chunks of this shape.
    pub layout: StorageLayout,
    /// The filters of its chunks, in the order of writing.
    pub filters: Vec<ChunkFilter>,
    /// The byte order of its elements.
    pub byte_order: ByteOrder,
}

/// How the elements of a variable are laid out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StorageLayout {
    /// Contiguous if possible, else in chunks of a default shape.
    #[default]
    Default,
    /// In one piece.
    Contiguous,
    /// In chunks of this shape.
    Chunked(Vec<u64>),
}

/// A filter that chunks pass when they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChunkFilter {
    /// Groups the bytes of elements by their significance, for the benefit of compressors.
    Shuffle,
    /// Deflate with a level from 0 to 9, which every reader has.
    Deflate(u8),
    /// A checksum of the stored bytes.
    Fletcher32,
    /// Zstandard with a level from 1 to 22, or 0 for its default; readers need a plug-in.
    Zstd(u8),
    /// One that a file of others has, by its registered number.
    Other(u16),
}

/// The byte order of elements in a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// The least significant byte first: that of most machines, hence no conversion.
    #[default]
    Little,
    /// The most significant byte first: that of classic files.
    Big,
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
    /// Offset of its data, or of its first record, in a classic file.
    pub begin: u64,
    /// The group that it is in, as an index into [`Header::groups`] plus one; 0 is the root group.
    pub group: u32,
    /// How its elements are stored in a netCDF-4 file.
    pub storage: StorageOptions,
}

impl Variable {
    /// A variable of the root group without attributes, which has no place yet.
    pub fn new(name: impl Into<String>, external: Type, dimensions: Vec<u32>) -> Self {
        Self {
            name: name.into(),
            dimensions,
            attributes: Vec::new(),
            external,
            stated_size: 0,
            begin: 0,
            group: 0,
            storage: StorageOptions::default(),
        }
    }
}

/// The definitions of a netCDF file: the header of a classic file without its encoding.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// The format.
    pub format: Format,
    /// Number of records of a classic file, or [`Header::STREAMING`].
    pub records: u64,
    /// The dimensions.
    pub dimensions: Vec<Dimension>,
    /// The global attributes.
    pub attributes: Vec<Attribute>,
    /// The variables.
    pub variables: Vec<Variable>,
    /// The groups of a netCDF-4 file below the root group, parents first.
    pub groups: Vec<Group>,
    /// The types that were defined in a netCDF-4 file, each before those that have it.
    pub types: Vec<UserType>,
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
            groups: Vec::new(),
            types: Vec::new(),
        }
    }

    /// The path of an object in a group, which is its name in the root group.
    pub fn path(&self, group: u32, name: &str) -> String {
        let mut path = name.to_string();
        let mut group = group;
        while let Some(within) = (group as usize).checked_sub(1).and_then(|i| self.groups.get(i)) {
            path.insert(0, '/');
            path.insert_str(0, &within.name);
            // Parents come first, so this ends.
            group = within.parent.min(group - 1);
        }
        path
    }

    /// Whether it is a record variable of a classic file: its first dimension is unlimited.
    pub fn is_record(&self, variable: &Variable) -> bool {
        if self.format.is_hdf5() {
            return false;
        }
        let first = variable.dimensions.first();
        first
            .and_then(|&first| self.dimensions.get(first as usize))
            .is_some_and(Dimension::is_unlimited)
    }

    /// The lengths of the variable's dimensions; that of the unlimited one is the number of
    /// records.
    pub fn shape(&self, variable: &Variable) -> Vec<u64> {
        let len = |&index: &u32| self.dimensions.get(index as usize).map_or(0, |it| self.len(it));
        variable.dimensions.iter().map(len).collect()
    }

    /// The length of one of its dimensions; that of the unlimited dimension of a classic file is
    /// the number of records.
    pub const fn len(&self, dimension: &Dimension) -> u64 {
        if dimension.unlimited && !self.format.is_hdf5() { self.records } else { dimension.len }
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
