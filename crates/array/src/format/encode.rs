//! [`Header::encode`]: a header as bytes, the same that netCDF-C and `PnetCDF` write.
//!
//! A number that exceeds its field is stored as the largest possible one. [`Header::arrange`]
//! refuses such headers, except for the stated size of a variable, where the format prescribes it.

use super::values::each;
use super::{Attribute, Format, Header, Values, Variable};

/// The tags of lists.
pub(super) mod tag {
    /// A list without elements.
    pub(in crate::format) const ABSENT: u32 = 0;
    /// A list of dimensions.
    pub(in crate::format) const DIMENSION: u32 = 10;
    /// A list of variables.
    pub(in crate::format) const VARIABLE: u32 = 11;
    /// A list of attributes.
    pub(in crate::format) const ATTRIBUTE: u32 = 12;
}

impl Header {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let len = self.encoded_len();
        let mut out = HeaderWriter { bytes: Vec::with_capacity(len as usize), format: self.format };
        out.bytes.extend(self.format.magic());
        out.number(self.records);
        out.list(tag::DIMENSION, self.dimensions.len());
        for dimension in &self.dimensions {
            out.name(&dimension.name);
            out.number(dimension.len);
        }
        out.attributes(&self.attributes);
        out.list(tag::VARIABLE, self.variables.len());
        for variable in &self.variables {
            out.variable(variable);
        }
        debug_assert_eq!(out.bytes.len() as u64, len, "the length was computed right");
        out.bytes
    }

    /// The length of [`Header::encode`].
    pub fn encoded_len(&self) -> u64 {
        let number = self.format.number_len();
        let list = 4 + number;
        let name = |name: &str| number + padded(name.len());
        let attributes = |attributes: &[Attribute]| -> u64 {
            let each = attributes.iter().map(|attribute| {
                let values = attribute.values.size().next_multiple_of(4);
                name(&attribute.name) + 4 + number + values
            });
            list + each.sum::<u64>()
        };
        let dimensions = self.dimensions.iter().map(|dimension| name(&dimension.name) + number);
        let variables = self.variables.iter().map(|variable| {
            let dimensions = number * (1 + variable.dimensions.len() as u64);
            let place = 4 + number + self.format.offset_len();
            name(&variable.name) + dimensions + attributes(&variable.attributes) + place
        });
        let lists = list + dimensions.sum::<u64>() + list + variables.sum::<u64>();
        4 + number + attributes(&self.attributes) + lists
    }

    /// The offset of the number of records in the file, and its bytes: what to write when only that
    /// has changed.
    pub fn records_field(&self) -> (u64, Vec<u8>) {
        let mut out = HeaderWriter { bytes: Vec::with_capacity(8), format: self.format };
        out.number(self.records);
        (4, out.bytes)
    }
}

fn padded(len: usize) -> u64 {
    (len as u64).next_multiple_of(4)
}

struct HeaderWriter {
    bytes: Vec<u8>,
    format: Format,
}

impl HeaderWriter {
    fn word(&mut self, word: u32) {
        self.bytes.extend(word.to_be_bytes());
    }

    fn number(&mut self, number: u64) {
        match self.format {
            Format::Cdf1 | Format::Cdf2 => self.word(u32::try_from(number).unwrap_or(u32::MAX)),
            _ => self.bytes.extend(number.to_be_bytes()),
        }
    }

    fn list(&mut self, tag: u32, len: usize) {
        self.word(if len == 0 { tag::ABSENT } else { tag });
        self.number(len as u64);
    }

    fn name(&mut self, name: &str) {
        self.number(name.len() as u64);
        self.bytes.extend(name.as_bytes());
        self.pad();
    }

    /// Everything in a header begins at a multiple of 4.
    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn values(&mut self, values: &Values) {
        each!(values, list => {
            for value in list {
                self.bytes.extend(value.to_be_bytes());
            }
        });
        self.pad();
    }

    fn attributes(&mut self, attributes: &[Attribute]) {
        self.list(tag::ATTRIBUTE, attributes.len());
        for attribute in attributes {
            self.name(&attribute.name);
            self.word(attribute.values.external().code());
            self.number(attribute.values.len() as u64);
            self.values(&attribute.values);
        }
    }

    fn variable(&mut self, variable: &Variable) {
        self.name(&variable.name);
        self.number(variable.dimensions.len() as u64);
        for &dimension in &variable.dimensions {
            self.number(u64::from(dimension));
        }
        self.attributes(&variable.attributes);
        self.word(variable.external.code());
        self.number(variable.stated_size);
        match self.format {
            Format::Cdf1 => self.word(u32::try_from(variable.begin).unwrap_or(u32::MAX)),
            _ => self.bytes.extend(variable.begin.to_be_bytes()),
        }
    }
}
