//! Attributes that are no attributes, but say how a variable or the file is stored.

use striate_hdf5::model::{ByteOrder, Filter};

use super::constant::Number;
use super::document::{CdlFormat, ValueList};
use super::group::Parser;
use super::list::{Item, ListReader};
use super::place::{Fault, Parsed, quoted};
use super::token::Token;
use crate::Format;

/// Filters of a variable at most, and values of `_ChunkSizes`.
const MOST: usize = 1024;

/// How a variable is to be stored, as far as the text says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VariableSettings {
    /// `_Storage`.
    pub storage: Option<StorageKind>,
    /// `_ChunkSizes`.
    pub chunk: Option<Vec<u64>>,
    /// `_DeflateLevel`.
    pub deflate: Option<u32>,
    /// `_Shuffle`.
    pub shuffle: Option<bool>,
    /// `_Fletcher32`.
    pub fletcher32: Option<bool>,
    /// `_Endianness`.
    pub order: Option<ByteOrder>,
    /// `_NoFill`.
    pub no_fill: Option<bool>,
    /// `_Filter`.
    pub filters: Vec<Filter>,
}

impl VariableSettings {
    /// Whether the text says anything.
    pub fn is_set(&self) -> bool {
        *self != Self::default()
    }
}

/// A value of `_Storage`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageKind {
    /// In one piece.
    Contiguous,
    /// In the header.
    Compact,
    /// In chunks.
    Chunked,
}

/// The integer that a number is.
pub(super) fn whole(number: Number) -> Option<i128> {
    match number {
        Number::Integer(value, _) => Some(value),
        _ => None,
    }
}

impl<'t> Parser<'t> {
    /// Sets what an attribute of the file says; `false` if it is an ordinary one.
    pub(super) fn global_special(
        &mut self,
        name: &str,
        list: ValueList,
        at: usize,
    ) -> Parsed<bool> {
        match name {
            "_Format" => {
                let text = self.text_of(name, list, at)?;
                let format = format_named(&text);
                let problem = || format!("_Format: {} is no format", quoted(&text));
                self.document.format = Some(format.ok_or_else(|| Fault::new(list.at, problem()))?);
            }
            // What a reader shows of a file: a new file has its own.
            "_NCProperties" | "_IsNetcdf4" | "_SuperblockVersion" => {}
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Sets what an attribute of a variable says; `false` if it is an ordinary one.
    pub(super) fn variable_special(
        &mut self,
        variable: usize,
        name: &str,
        list: ValueList,
        at: usize,
    ) -> Parsed<bool> {
        let refuse = |problem: String| Err(Fault::new(list.at, format!("{name}: {problem}")));
        let Some(known) = self.document.variables.get(variable) else { return Ok(false) };
        let rank = known.dimensions.len();
        let mut settings = known.settings.clone();
        match name {
            "_Storage" => {
                let text = self.text_of(name, list, at)?;
                settings.storage = Some(match &*text {
                    "contiguous" => StorageKind::Contiguous,
                    "compact" => StorageKind::Compact,
                    "chunked" => StorageKind::Chunked,
                    _ => return refuse("expected contiguous, compact or chunked".into()),
                });
            }
            "_ChunkSizes" => {
                let sizes = self.integers_of(name, list)?;
                let sizes = sizes.iter().map(|&size| u32::try_from(size).ok().map(u64::from));
                match sizes.collect::<Option<Vec<u64>>>() {
                    Some(sizes) if sizes.len() == rank && rank > 0 && !sizes.contains(&0) => {
                        settings.chunk = Some(sizes);
                    }
                    _ => return refuse(format!("expected {rank} positive integers")),
                }
            }
            "_DeflateLevel" => match self.integers_of(name, list)?.as_slice() {
                [level @ 0..=9] => settings.deflate = Some(*level as u32),
                _ => return refuse("expected a level from 0 to 9".into()),
            },
            "_Shuffle" => settings.shuffle = Some(self.truth_of(name, list)?),
            "_Fletcher32" => settings.fletcher32 = Some(self.truth_of(name, list)?),
            "_NoFill" => settings.no_fill = Some(self.truth_of(name, list)?),
            "_Endianness" => {
                settings.order = Some(match &*self.text_of(name, list, at)? {
                    "little" => ByteOrder::Little,
                    "big" => ByteOrder::Big,
                    _ => return refuse("expected little or big".into()),
                });
            }
            "_Filter" => match filters(&self.text_of(name, list, at)?) {
                Some(filters) => settings.filters = filters,
                None => return refuse("expected numbers, as in \"id,value,value|id\"".into()),
            },
            "_Codecs" => return refuse("the codecs of Zarr are not written".into()),
            _ => return Ok(false),
        }
        if let Some(known) = self.document.variables.get_mut(variable) {
            known.settings = settings;
        }
        Ok(true)
    }

    /// The values of a list that has no braces.
    fn simple(&self, name: &str, list: ValueList) -> Parsed<Vec<Token<'t>>> {
        let mut reader = ListReader::new(self.document.text, list);
        let mut values = Vec::new();
        loop {
            match reader.next()? {
                (Item::Value(token), _) if values.len() < MOST => values.push(token),
                (Item::Close, _) => return Ok(values),
                (item, at) => {
                    let problem = format!("{name}: unexpected {}", item.shown());
                    return Err(Fault::new(at, problem));
                }
            }
        }
    }

    fn text_of(&self, name: &str, list: ValueList, at: usize) -> Parsed<String> {
        match self.simple(name, list)?.as_slice() {
            [Token::Text(text)] => Ok(String::from_utf8_lossy(text).into_owned()),
            _ => Err(Fault::new(at, format!("{name} is a text"))),
        }
    }

    fn integers_of(&self, name: &str, list: ValueList) -> Parsed<Vec<i128>> {
        let values = self.simple(name, list)?;
        let integer = |token: &Token<'_>| match token {
            Token::Number(number) => whole(*number),
            _ => None,
        };
        let integers: Option<Vec<i128>> = values.iter().map(integer).collect();
        integers.ok_or_else(|| Fault::new(list.at, format!("{name}: expected integers")))
    }

    fn truth_of(&self, name: &str, list: ValueList) -> Parsed<bool> {
        let values = self.simple(name, list)?;
        let truth = match values.as_slice() {
            [Token::Text(text)] => match &**text {
                b"true" | b"1" => Some(true),
                b"false" | b"0" => Some(false),
                _ => None,
            },
            [Token::Number(number)] => match whole(*number) {
                Some(0) => Some(false),
                Some(1) => Some(true),
                _ => None,
            },
            _ => None,
        };
        truth.ok_or_else(|| Fault::new(list.at, format!("{name}: expected \"true\" or \"false\"")))
    }
}

/// The format that `ncgen` knows by a name.
fn format_named(name: &str) -> Option<CdlFormat> {
    Some(match name {
        "classic" | "nc3" | "1" => CdlFormat::Classic(Format::Cdf1),
        "64-bit offset" | "64-bit-offset" | "nc6" | "2" => CdlFormat::Classic(Format::Cdf2),
        "64-bit data" | "64-bit-data" | "nc5" | "cdf5" | "cdf-5" | "5" => {
            CdlFormat::Classic(Format::Cdf5)
        }
        "netCDF-4" | "netCDF4" | "netcdf-4" | "netcdf4" | "nc4" | "hdf5" | "enhanced" | "3" => {
            CdlFormat::Netcdf4
        }
        "netCDF-4 classic model"
        | "netCDF-4-classic"
        | "netCDF-4_classic"
        | "netCDF4_classic"
        | "hdf5-nc3"
        | "enhanced-nc3"
        | "nc7"
        | "4" => CdlFormat::Netcdf4Classic,
        _ => return None,
    })
}

/// Filters as `ncdump -s` shows them: `id,value,value|id`.
fn filters(text: &str) -> Option<Vec<Filter>> {
    let one = |text: &str| {
        let mut numbers = text.split(',').map(str::trim);
        let id = numbers.next()?.parse().ok().filter(|&id: &u16| id > 0)?;
        let value = |text: &str| {
            let digits = text.trim_end_matches(['u', 'U']);
            let signed = || digits.parse::<i32>().ok().map(|value| value as u32);
            digits.parse::<u32>().ok().or_else(signed)
        };
        let parameters: Option<Vec<u32>> = numbers.map(value).collect();
        Some(Filter { id, name: "".into(), optional: false, parameters: parameters? })
    };
    text.split('|').map(one).collect()
}
