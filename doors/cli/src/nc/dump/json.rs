//! [`DatasetRow`]: a dataset as a row of the JSON document, with its definitions and, if asked for,
//! its data.
//!
//! Data is read while the document is written, in pieces of bounded size. Values of a variable are
//! one list, the last dimension varies fastest; text has a string for each index of the dimensions
//! before the last. Numbers that JSON does not know are the strings `NaN`, `Infinity` and
//! `-Infinity`; values that are not in the file are `null`.

use std::cell::RefCell;

use serde::ser::{Error as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use striate_array::format::{Attribute, Header, Values, Variable};
use striate_array::{ArrayError, Dataset, Slab, SlabBatches, Type};

use crate::nc::info::{DimensionRow, dimension_names, dimension_rows};

/// Elements that are read at a time.
const PIECE: u64 = 1 << 20;

/// A dataset.
#[derive(Serialize)]
pub(super) struct DatasetRow<'d, 's> {
    name: String,
    format: String,
    /// What ncdump -k calls the format.
    kind: &'static str,
    records: u64,
    dimensions: Vec<DimensionRow>,
    attributes: Vec<AttributeRow<'d>>,
    variables: Vec<VariableDefinition<'d, 's>>,
}

#[derive(Serialize)]
struct AttributeRow<'d> {
    name: &'d str,
    r#type: &'static str,
    /// A string if it is text, else a list of numbers.
    value: AttributeValue<'d>,
}

#[derive(Serialize)]
struct VariableDefinition<'d, 's> {
    name: &'d str,
    r#type: &'static str,
    dimensions: Vec<String>,
    shape: Vec<u64>,
    attributes: Vec<AttributeRow<'d>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    values: Option<VariableValues<'d, 's>>,
}

/// Where data is read from, and why it could not be.
pub(super) struct DataSource<'s> {
    dataset: RefCell<&'s mut Dataset>,
    failed: RefCell<Option<ArrayError>>,
}

impl<'s> DataSource<'s> {
    pub(super) fn new(dataset: &'s mut Dataset) -> Self {
        Self { dataset: RefCell::new(dataset), failed: RefCell::new(None) }
    }

    /// Why data could not be read, if that is what went wrong.
    pub(super) fn take_error(&self) -> Option<ArrayError> {
        self.failed.borrow_mut().take()
    }

    fn read(&self, index: usize, start: &[u64], count: &[u64]) -> Result<Values, String> {
        let mut dataset = self.dataset.borrow_mut();
        let ids: Vec<_> = dataset.variables().collect();
        let read = Dataset::values(&mut dataset, ids[index], &Slab::new(start, count));
        read.map_err(|error| {
            let text = error.to_string();
            *self.failed.borrow_mut() = Some(error);
            text
        })
    }
}

/// The values of a variable, read when they are written.
struct VariableValues<'d, 's> {
    source: &'d DataSource<'s>,
    index: usize,
    shape: Vec<u64>,
    external: Type,
    /// How many values the file has.
    held: u64,
}

impl<'d, 's> DatasetRow<'d, 's> {
    /// The definitions of a dataset, without data.
    pub(super) fn new(name: String, header: &'d Header) -> Self {
        let variables = header.variables.iter().map(|variable| VariableDefinition {
            name: &variable.name,
            r#type: variable.external.name(),
            dimensions: dimension_names(header, variable),
            shape: header.shape(variable),
            attributes: attribute_rows(&variable.attributes),
            values: None,
        });
        Self {
            name,
            format: header.format.to_string(),
            kind: header.format.kind(),
            records: header.records,
            dimensions: dimension_rows(header),
            attributes: attribute_rows(&header.attributes),
            variables: variables.collect(),
        }
    }

    /// With the data of variables that `wanted` says; `held` has for each how many values the file
    /// has, or is empty.
    pub(super) fn with_data(
        mut self,
        source: &'d DataSource<'s>,
        header: &Header,
        wanted: impl Fn(&Variable) -> bool,
        held: &[u64],
    ) -> Self {
        for (index, (row, variable)) in self.variables.iter_mut().zip(&header.variables).enumerate()
        {
            row.values = wanted(variable).then(|| VariableValues {
                source,
                index,
                shape: row.shape.clone(),
                external: variable.external,
                held: held.get(index).copied().unwrap_or(u64::MAX),
            });
        }
        self
    }
}

fn attribute_rows(attributes: &[Attribute]) -> Vec<AttributeRow<'_>> {
    attributes.iter().map(AttributeRow::new).collect()
}

impl<'d> AttributeRow<'d> {
    fn new(attribute: &'d Attribute) -> Self {
        let r#type = attribute.values.external().name();
        Self { name: &attribute.name, r#type, value: AttributeValue(&attribute.values) }
    }
}

struct AttributeValue<'d>(&'d Values);

impl Serialize for AttributeValue<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Values::Char(text) = self.0 {
            return serializer.serialize_str(&String::from_utf8_lossy(text));
        }
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        add_numbers(&mut list, self.0, u64::MAX)?;
        list.end()
    }
}

impl Serialize for VariableValues<'_, '_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(None)?;
        let is_text = self.external == Type::Char;
        let row = if is_text { self.shape.last().copied().unwrap_or(1) } else { 1 };
        let mut text = Vec::new();
        let mut done = 0;
        for (start, count) in SlabBatches::new(&self.shape, PIECE) {
            let len: u64 = count.iter().product();
            let values = if done < self.held {
                self.source.read(self.index, &start, &count).map_err(S::Error::custom)?
            } else {
                Values::Byte(Vec::new())
            };
            let present = self.held.saturating_sub(done).min(len);
            match &values {
                Values::Char(bytes) => {
                    for &byte in bytes.iter().take(present as usize) {
                        text.push(byte);
                        if text.len() as u64 == row {
                            list.serialize_element(&String::from_utf8_lossy(&text))?;
                            text.clear();
                        }
                    }
                }
                numbers => add_numbers(&mut list, numbers, present)?,
            }
            done += len;
        }
        if !text.is_empty() {
            list.serialize_element(&String::from_utf8_lossy(&text))?;
        }
        let present = done.min(self.held);
        for _ in present.div_ceil(row.max(1))..done / row.max(1) {
            list.serialize_element(&None::<f64>)?;
        }
        list.end()
    }
}

/// Adds the first numbers to a list.
pub(super) fn add_numbers<L: serde::ser::SerializeSeq>(
    list: &mut L,
    values: &Values,
    most: u64,
) -> Result<(), L::Error> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    macro_rules! add {
        ($($variant:ident),+) => {
            match values {
                Values::Stored(stored) => match stored.texts() {
                    Some(texts) => texts.iter().take(most).try_for_each(|text| {
                        list.serialize_element(&String::from_utf8_lossy(text))
                    }),
                    None => (0..stored.len().min(most))
                        .try_for_each(|number| list.serialize_element(&stored.shown(number))),
                },
                $(Values::$variant(all) => {
                    all.iter().take(most).try_for_each(|value| list.serialize_element(value))
                })+
                Values::Float(all) => all.iter().take(most).try_for_each(|value| {
                    if value.is_finite() {
                        list.serialize_element(value)
                    } else {
                        list.serialize_element(unknown_to_json((*value).into()))
                    }
                }),
                Values::Double(all) => all.iter().take(most).try_for_each(|value| {
                    if value.is_finite() {
                        list.serialize_element(value)
                    } else {
                        list.serialize_element(unknown_to_json(*value))
                    }
                }),
            }
        };
    }
    add!(Byte, Char, Short, Int, UByte, UShort, UInt, Int64, UInt64)
}

/// The name of a number that is not finite.
pub(super) const fn unknown_to_json(number: f64) -> &'static str {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "Infinity"
    } else {
        "-Infinity"
    }
}
