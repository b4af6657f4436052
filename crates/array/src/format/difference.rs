//! [`Header::difference`]: the first difference of two headers as text.
//!
//! All ranks must make the same definitions. If they do not, the first difference is reported:
//! later ones are usually its consequence.

use std::fmt;

use super::{Attribute, Header, Values, Variable};

impl Header {
    /// The first difference of `other`, or `None`. Layout and number of records are not compared.
    /// The text names what `other` has, and then what this header has.
    pub fn difference(&self, other: &Self) -> Option<String> {
        if self.format != other.format {
            return Some(format!("the format is {}, not {}", other.format, self.format));
        }
        dimensions(self, other)
            .or_else(|| attributes(&self.attributes, &other.attributes, "the dataset"))
            .or_else(|| variables(self, other))
    }
}

fn dimensions(expected: &Header, found: &Header) -> Option<String> {
    for (index, (expected, found)) in expected.dimensions.iter().zip(&found.dimensions).enumerate()
    {
        if expected.name != found.name {
            return Some(format!("dimension {index} is '{}', not '{}'", found.name, expected.name));
        }
        let name = &found.name;
        match (found.len, expected.len) {
            (found, expected) if found == expected => {}
            (0, expected) => {
                return Some(format!("dimension '{name}' is unlimited, not of length {expected}"));
            }
            (found, 0) => {
                return Some(format!("dimension '{name}' has length {found}, not unlimited"));
            }
            (found, expected) => {
                return Some(format!("dimension '{name}' has length {found}, not {expected}"));
            }
        }
    }
    let names = |header: &Header| -> Vec<String> {
        header.dimensions.iter().map(|dimension| dimension.name.clone()).collect()
    };
    count(&names(expected), &names(found), "dimensions", "")
}

fn variables(expected: &Header, found: &Header) -> Option<String> {
    let pairs = expected.variables.iter().zip(&found.variables).enumerate();
    for (index, (should, is)) in pairs {
        if should.name != is.name {
            return Some(format!("variable {index} is '{}', not '{}'", is.name, should.name));
        }
        let name = &is.name;
        if should.external != is.external {
            let (is, should) = (is.external, should.external);
            return Some(format!("variable '{name}' is of type {is}, not {should}"));
        }
        if should.dimensions != is.dimensions {
            return Some(format!(
                "variable '{name}' has the dimensions {}, not {}",
                DimensionNames(found, is),
                DimensionNames(expected, should)
            ));
        }
        let owner = format!("variable '{name}'");
        if let Some(difference) = attributes(&should.attributes, &is.attributes, &owner) {
            return Some(difference);
        }
    }
    let names = |header: &Header| -> Vec<String> {
        header.variables.iter().map(|variable| variable.name.clone()).collect()
    };
    count(&names(expected), &names(found), "variables", "")
}

fn attributes(expected: &[Attribute], found: &[Attribute], owner: &str) -> Option<String> {
    for (index, (should, is)) in expected.iter().zip(found).enumerate() {
        if should.name != is.name {
            return Some(format!(
                "attribute {index} of {owner} is '{}', not '{}'",
                is.name, should.name
            ));
        }
        if !should.values.is_same(&is.values) {
            let difference = values(&should.values, &is.values);
            return Some(format!("attribute '{}' of {owner} {difference}", is.name));
        }
    }
    let names = |list: &[Attribute]| -> Vec<String> {
        list.iter().map(|attribute| attribute.name.clone()).collect()
    };
    count(&names(expected), &names(found), "attributes", &format!(" of {owner}"))
}

fn values(expected: &Values, found: &Values) -> String {
    let (is, should) = (found.external(), expected.external());
    if is != should {
        return format!("is of type {is}, not {should}");
    }
    if let (Values::Char(is), Values::Char(should)) = (found, expected) {
        return format!("is {}, not {}", QuotedText(is), QuotedText(should));
    }
    if let (Values::Stored(is), Values::Stored(should)) = (found, expected)
        && is.len() == should.len()
        && let Some(index) = (0..is.len()).find(|&index| is.shown(index) != should.shown(index))
    {
        let (is, should) = (is.shown(index), should.shown(index));
        return format!("has {is} as value {index}, not {should}");
    }
    if found.len() != expected.len() {
        return format!("has {} values, not {}", found.len(), expected.len());
    }
    let (is, should) = (found.to_bytes(), expected.to_bytes());
    let size = found.external().size() as usize;
    let chunks = is.chunks(size).zip(should.chunks(size));
    match chunks.enumerate().find(|(_, (is, should))| is != should) {
        Some((index, (is, should))) => {
            let one = |bytes| SingleValue(Values::from_bytes(found.external(), bytes)).to_string();
            format!("has {} as value {index}, not {}", one(is), one(should))
        }
        None => "has the same values".into(),
    }
}

/// The difference in length of two lists of names, of which one begins with the other.
fn count(expected: &[String], found: &[String], what: &str, of: &str) -> Option<String> {
    let (is, should) = (found.len(), expected.len());
    let (name, fate) = match is.cmp(&should) {
        std::cmp::Ordering::Equal => return None,
        std::cmp::Ordering::Less => (&expected[is], "missing"),
        std::cmp::Ordering::Greater => (&found[should], "too many"),
    };
    Some(format!("{is} {what}{of}, not {should}: '{name}' is {fate}"))
}

/// The names of a variable's dimensions.
struct DimensionNames<'a>(&'a Header, &'a Variable);

impl fmt::Display for DimensionNames<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(")?;
        for (index, &dimension) in self.1.dimensions.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            match self.0.dimensions.get(dimension as usize) {
                Some(dimension) => write!(f, "{comma}{}", dimension.name)?,
                None => write!(f, "{comma}?")?,
            }
        }
        f.write_str(")")
    }
}

/// Text in quotes; of a long one the beginning.
struct QuotedText<'a>(&'a [u8]);

impl fmt::Display for QuotedText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 40;
        match self.0.get(..SHOWN) {
            Some(shown) => write!(f, "{:?}…", String::from_utf8_lossy(shown)),
            None => write!(f, "{:?}", String::from_utf8_lossy(self.0)),
        }
    }
}

/// A single value.
struct SingleValue(Values);

impl fmt::Display for SingleValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        macro_rules! first {
            ($($variant:ident),+) => {
                match &self.0 {
                    Values::Stored(stored) => {
                        return f.write_str(&stored.shown(0));
                    }
                    $(Values::$variant(list) => list.first().map(|value| write!(f, "{value}")),)+
                }
            };
        }
        let written =
            first!(Byte, Char, Short, Int, Float, Double, UByte, UShort, UInt, Int64, UInt64);
        written.unwrap_or(Ok(()))
    }
}
