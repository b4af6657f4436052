//! [`LimitError`]: limits of a format that a header exceeds, and the format that would fit.
//!
//! The limits are those of netCDF-C and `PnetCDF`, which refuse to open a file that breaks them.

use std::fmt;

use thiserror::Error;

use crate::format::{Attribute, Format, Header, Type, Variable};

/// A limit of a format that a header exceeds.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LimitError {
    /// A type that the format does not have.
    #[error("{what} is of type {external}, which {format} does not have; CDF-5 does")]
    Type {
        /// Which variable or attribute.
        what: String,
        /// Its type.
        external: Type,
        /// The format.
        format: Format,
    },
    /// A dimension is too long.
    #[error(
        "dimension '{dimension}' is too long with {len}: {} is the most in {format}{}",
        format.max_length(), FormatThatFits(*holder)
    )]
    Length {
        /// The dimension.
        dimension: String,
        /// Its length.
        len: u64,
        /// The format.
        format: Format,
        /// The first format that can store it.
        holder: Option<Format>,
    },
    /// An attribute has too many values.
    #[error(
        "attribute '{attribute}' of {owner} has {len} values, too many for {format}{}",
        FormatThatFits(Some(Format::Cdf5))
    )]
    Attribute {
        /// The attribute.
        attribute: String,
        /// What it belongs to.
        owner: String,
        /// How many values it has.
        len: u64,
        /// The format.
        format: Format,
    },
    /// There are more records than the format can count.
    #[error(
        "{records} records are too many: {} is the most in {format}{}",
        format.max_records(), FormatThatFits(*holder)
    )]
    Records {
        /// How many.
        records: u64,
        /// The format.
        format: Format,
        /// The first format that can store them.
        holder: Option<Format>,
    },
    /// A variable has too many dimensions.
    #[error("variable '{variable}' has {rank} dimensions; {} are the most", Header::MAX_RANK)]
    Rank {
        /// The variable.
        variable: String,
        /// How many dimensions it has.
        rank: usize,
    },
    /// A variable is too large for others to follow.
    #[error(
        "variable '{variable}' takes {size} bytes; \
         {} are the most in {format} for one that others follow{}",
        format.max_size(), FormatThatFits(*holder)
    )]
    Size {
        /// The variable.
        variable: String,
        /// Its size.
        size: u64,
        /// The format.
        format: Format,
        /// The first format that can store it.
        holder: Option<Format>,
    },
    /// A record of a variable is too large for others to follow.
    #[error(
        "a record of variable '{variable}' takes {size} bytes; \
         {} are the most in {format} for one that others follow{}",
        format.max_size(), FormatThatFits(*holder)
    )]
    RecordSize {
        /// The variable.
        variable: String,
        /// The size of one record of it.
        size: u64,
        /// The format.
        format: Format,
        /// The first format that can store it.
        holder: Option<Format>,
    },
    /// The offset of a variable would be too large.
    #[error(
        "variable '{variable}' would begin at byte {begin}; \
         {} is the last that {format} can address{}",
        format.max_begin(), FormatThatFits(Some(Format::Cdf2))
    )]
    Begin {
        /// The variable.
        variable: String,
        /// Where it would begin.
        begin: u64,
        /// The format.
        format: Format,
    },
    /// A variable would end beyond the largest file.
    #[error("variable '{variable}' would end beyond 2^63 - 1 bytes, which no file can reach")]
    End {
        /// The variable.
        variable: String,
    },
}

/// The hint in an error which format can store it.
struct FormatThatFits(Option<Format>);

impl fmt::Display for FormatThatFits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(format) => write!(f, "; {format} can hold it"),
            None => Ok(()),
        }
    }
}

const FORMATS: [Format; 3] = [Format::Cdf1, Format::Cdf2, Format::Cdf5];

/// Checks the limits that do not depend on offsets.
pub(super) fn check(header: &Header) -> Result<(), LimitError> {
    let format = header.format;
    for dimension in &header.dimensions {
        if dimension.len > format.max_length() {
            let (dimension, len) = (dimension.name.clone(), dimension.len);
            let holder = FORMATS.into_iter().find(|format| len <= format.max_length());
            return Err(LimitError::Length { dimension, len, format, holder });
        }
    }
    let records = header.records;
    if records != Header::STREAMING && records > format.max_records() {
        let holder = FORMATS.into_iter().find(|format| records <= format.max_records());
        return Err(LimitError::Records { records, format, holder });
    }
    check_attributes(&header.attributes, format, || "the dataset".into())?;
    for variable in &header.variables {
        let name = || variable.name.clone();
        let external = variable.external;
        if !external.is_in(format) {
            let what = format!("variable '{}'", variable.name);
            return Err(LimitError::Type { what, external, format });
        }
        let rank = variable.dimensions.len();
        if rank > Header::MAX_RANK {
            return Err(LimitError::Rank { variable: name(), rank });
        }
        check_attributes(&variable.attributes, format, || format!("variable '{}'", variable.name))?;
    }
    match too_large(header).into_iter().next() {
        Some(error) => Err(error),
        None => Ok(()),
    }
}

fn check_attributes(
    attributes: &[Attribute],
    format: Format,
    owner: impl Fn() -> String,
) -> Result<(), LimitError> {
    for attribute in attributes {
        let external = attribute.values.external();
        if !external.is_in(format) {
            let what = format!("attribute '{}' of {}", attribute.name, owner());
            return Err(LimitError::Type { what, external, format });
        }
        let len = attribute.values.len() as u64;
        if format != Format::Cdf5 && len > format.max_length() {
            let attribute = attribute.name.clone();
            return Err(LimitError::Attribute { attribute, owner: owner(), len, format });
        }
    }
    Ok(())
}

/// The variables that are too large for a position before others.
///
/// A size beyond 32 bits cannot be stored, so the offset of the next variable could not be computed
/// from it: only the last fixed variable may be so large, if there are no records, or the last
/// record variable.
pub(in crate::format) fn too_large(header: &Header) -> Vec<LimitError> {
    let format = header.format;
    let is_large = |variable: &Variable, format: Format| {
        header.slab_size(variable).is_none_or(|size| size > format.max_size())
    };
    let last_record = header.variables.iter().rposition(|variable| header.is_record(variable));
    let last_fixed = match last_record {
        Some(_) => None,
        None => header.variables.len().checked_sub(1),
    };
    let excepted = match format {
        Format::Cdf1 | Format::Cdf2 => last_record.or(last_fixed),
        _ => None,
    };
    let mut errors = Vec::new();
    for (index, variable) in header.variables.iter().enumerate() {
        if !is_large(variable, format) || Some(index) == excepted {
            continue;
        }
        let holder = FORMATS.into_iter().find(|&format| !is_large(variable, format));
        let size = header.slab_size(variable).unwrap_or(u64::MAX);
        let variable_name = variable.name.clone();
        errors.push(if header.is_record(variable) {
            LimitError::RecordSize { variable: variable_name, size, format, holder }
        } else {
            LimitError::Size { variable: variable_name, size, format, holder }
        });
    }
    errors
}
