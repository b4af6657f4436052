//! [`Header::decode`]: header bytes to a [`Header`]. It cannot panic, over-allocate or loop without
//! bound.
//!
//! The same code serves two purposes. [`Header::decode`] stops at the first problem that could make
//! data be read wrongly, and tolerates what netCDF-C tolerates. [`super::validate`] gets every
//! problem, until one makes the rest undecodable.

mod data_bounds;
mod problem;
mod reader;

use std::collections::HashSet;

pub use problem::{DecodeError, Problem};
pub(super) use reader::OnProblem;
use reader::{DecodeResult, HeaderReader};

use super::encode::tag;
use super::{Attribute, Dimension, Format, Header, Type, Values, Variable, check_name};

/// Length of the shortest header of any format.
const LEAST: u64 = 32;

impl Header {
    /// Decodes a header from the first bytes of a file; more bytes may follow. Returns it and its
    /// length.
    ///
    /// If there are too few bytes, [`Problem::Truncated`] says how many to read next. It is a lower
    /// bound: a file with fewer bytes is damaged. [`Header::records`] is [`Header::STREAMING`] if
    /// the file does not contain their number.
    pub fn decode(bytes: &[u8]) -> Result<(Self, u64), DecodeError> {
        let mut report = |error: DecodeError| {
            if error.problem.is_harmless() { Ok(()) } else { Err(error) }
        };
        let decoded = decode(bytes, i64::MAX as u64, &mut report)?;
        Ok((decoded.header, decoded.len))
    }
}

/// A header, and the offsets of some of its fields.
pub(super) struct Decoded {
    /// The header.
    pub(super) header: Header,
    /// Its length.
    pub(super) len: u64,
    /// Offset of the field with the offset of each variable.
    pub(super) places: Vec<u64>,
}

/// Decodes the header of a file of at most `file_len` bytes.
pub(super) fn decode(bytes: &[u8], file_len: u64, report: OnProblem<'_>) -> DecodeResult<Decoded> {
    let format = magic(bytes, report)?;
    let mut reader = HeaderReader::new(bytes, format, file_len, &mut *report);
    let header = Header {
        records: records(&mut reader)?,
        dimensions: dimensions(&mut reader)?,
        attributes: attributes(&mut reader)?,
        ..Header::new(format)
    };
    let (variables, places) = variables(&mut reader, &header)?;
    let len = reader.at();
    let decoded = Decoded { header: Header { variables, ..header }, len, places };
    data_bounds::check(&decoded, report)?;
    Ok(decoded)
}

fn magic(bytes: &[u8], report: OnProblem<'_>) -> DecodeResult<Format> {
    let fail = |at, problem| HeaderReader::fail(at, problem);
    let Some(&found) = bytes.first_chunk::<4>() else {
        if b"CDF".starts_with(bytes) || b"cdf".starts_with(bytes) {
            return fail(bytes.len() as u64, Problem::Truncated { needed: LEAST });
        }
        let mut found = [0; 4];
        found[..bytes.len()].copy_from_slice(bytes);
        return fail(0, Problem::Magic { found });
    };
    let [kind @ .., version] = found;
    let is_unfinished = match &kind {
        b"CDF" => false,
        b"cdf" => true,
        _ => match hdf5(bytes) {
            Some(at) => return fail(at, Problem::Hdf5),
            None => return fail(0, Problem::Magic { found }),
        },
    };
    let Some(format) = Format::from_version(version) else {
        return fail(3, Problem::Version { version });
    };
    if is_unfinished {
        report(DecodeError { at: 0, problem: Problem::Unfinished { format } })?;
    }
    Ok(format)
}

/// The offset of HDF5's signature: 0, or 512 times a power of two (behind a user block).
fn hdf5(bytes: &[u8]) -> Option<u64> {
    let after_user_block =
        (9..usize::BITS).map(|power| 1 << power).take_while(|&at| at < bytes.len());
    let mut places = std::iter::once(0).chain(after_user_block);
    places.find(|&at| bytes[at..].starts_with(b"\x89HDF\r\n\x1a\n")).map(|at| at as u64)
}

fn records(reader: &mut HeaderReader<'_, '_>) -> DecodeResult<u64> {
    let at = reader.at();
    let records = reader.number()?;
    let streaming = match reader.format {
        Format::Cdf1 | Format::Cdf2 => u64::from(u32::MAX),
        _ => u64::MAX,
    };
    if records == streaming {
        return Ok(Header::STREAMING);
    }
    if records > reader.format.max_records() {
        reader.report(at, Problem::Records { records })?;
    }
    Ok(records)
}

/// The names of a list, which must be unique.
struct NameList<'b> {
    what: &'static str,
    /// Short lists, such as those of attributes, are searched linearly, which is faster than
    /// hashing.
    few: [&'b [u8]; FEW],
    len: usize,
    many: HashSet<&'b [u8]>,
}

const FEW: usize = 8;

/// A name without the zeros at its end, which early versions of netCDF-C counted as part of it;
/// their readers take them for the end of a string of C.
fn before_zero(name: &[u8]) -> &[u8] {
    match name.iter().position(|&byte| byte == 0) {
        None | Some(0) => name,
        Some(end) => &name[..end],
    }
}

impl<'b> NameList<'b> {
    fn new(what: &'static str) -> Self {
        Self { what, few: [&[]; FEW], len: 0, many: HashSet::new() }
    }

    /// Reads the next name.
    fn next(&mut self, reader: &mut HeaderReader<'b, '_>) -> DecodeResult<String> {
        let what = self.what;
        let len = reader.count("bytes of a name", 1)?;
        let at = reader.at();
        let bytes = reader.padded(len, "a name")?;
        let lossy = || String::from_utf8_lossy(bytes).into_owned();
        let name = std::str::from_utf8(bytes);
        match name.map(check_name) {
            Ok(Ok(())) => {}
            Ok(Err(source)) => reader.report(at, Problem::Name { what, source })?,
            Err(_) => reader.report(at, Problem::NotUtf8 { what, name: lossy() })?,
        }
        if !self.is_new(before_zero(bytes)) {
            reader.report(at, Problem::Duplicate { what, name: lossy() })?;
        }
        Ok(String::from_utf8_lossy(before_zero(bytes)).into_owned())
    }

    fn is_new(&mut self, name: &'b [u8]) -> bool {
        if self.many.is_empty() {
            if self.few[..self.len].contains(&name) {
                return false;
            }
            if let Some(free) = self.few.get_mut(self.len) {
                *free = name;
                self.len += 1;
                return true;
            }
            self.many.extend(self.few);
        }
        self.many.insert(name)
    }
}

fn dimensions(reader: &mut HeaderReader<'_, '_>) -> DecodeResult<Vec<Dimension>> {
    let least = 2 * reader.format.number_len();
    let count = reader.list(tag::DIMENSION, "dimensions", least)?;
    let mut dimensions = reader.vector(count, least);
    let mut names = NameList::new("dimension");
    let mut unlimited = false;
    for _ in 0..count {
        let name = names.next(reader)?;
        let at = reader.at();
        let len = reader.number()?;
        if len == 0 && unlimited {
            reader.report(at, Problem::SecondUnlimited { name: name.clone() })?;
        }
        unlimited |= len == 0;
        if len > reader.format.max_length() {
            let format = reader.format;
            reader.report(at, Problem::Length { name: name.clone(), len, format })?;
        }
        dimensions.push(Dimension::classic(name, len));
    }
    Ok(dimensions)
}

fn external(reader: &mut HeaderReader<'_, '_>) -> DecodeResult<Type> {
    let (at, format) = (reader.at(), reader.format);
    let code = reader.word()?;
    match Type::from_code(code) {
        Some(external) if external.is_in(format) => Ok(external),
        // The size of an element is known, so decoding can continue.
        Some(external) => {
            reader.report(at, Problem::TypeNotInFormat { external, format })?;
            Ok(external)
        }
        None => HeaderReader::fail(at, Problem::Type { code }),
    }
}

fn attributes(reader: &mut HeaderReader<'_, '_>) -> DecodeResult<Vec<Attribute>> {
    let least = 4 + 2 * reader.format.number_len();
    let count = reader.list(tag::ATTRIBUTE, "attributes", least)?;
    let mut attributes = reader.vector(count, least);
    let mut names = NameList::new("attribute");
    for _ in 0..count {
        let name = names.next(reader)?;
        let external = external(reader)?;
        let len = reader.count("values of an attribute", external.size())?;
        // No overflow: the count was checked against the length of the file.
        let bytes = reader.padded(len * external.size(), "an attribute's values")?;
        attributes.push(Attribute { name, values: Values::from_bytes(external, bytes) });
    }
    Ok(attributes)
}

/// The variables, and the offset of the field with the offset of each.
fn variables(
    reader: &mut HeaderReader<'_, '_>,
    header: &Header,
) -> DecodeResult<(Vec<Variable>, Vec<u64>)> {
    let number = reader.format.number_len();
    // Name, dimensions, attributes, type and size, offset.
    let least = number + number + (4 + number) + (4 + number) + reader.format.offset_len();
    let count = reader.list(tag::VARIABLE, "variables", least)?;
    let mut variables = reader.vector(count, least);
    let mut places = reader.vector(count, least);
    let mut names = NameList::new("variable");
    for _ in 0..count {
        let name = names.next(reader)?;
        let dimensions = dimension_ids(reader, header, &name)?;
        let attributes = attributes(reader)?;
        let external = external(reader)?;
        let at = reader.at();
        let stated_size = reader.number()?;
        places.push(reader.at());
        let begin = reader.offset()?;
        let variable = Variable {
            attributes,
            stated_size,
            begin,
            ..Variable::new(name, external, dimensions)
        };
        if let Some(size) = header.slab_size(&variable)
            && let Some(size) = header.size_to_state(size)
            && size != stated_size
        {
            let (variable, stated) = (variable.name.clone(), stated_size);
            reader.report(at, Problem::StatedSize { variable, stated, size })?;
        }
        variables.push(variable);
    }
    Ok((variables, places))
}

fn dimension_ids(
    reader: &mut HeaderReader<'_, '_>,
    header: &Header,
    name: &str,
) -> DecodeResult<Vec<u32>> {
    let at = reader.at();
    let least = reader.format.number_len();
    let rank = reader.count("dimensions of a variable", least)?;
    if rank > Header::MAX_RANK as u64 {
        reader.report(at, Problem::Rank { variable: name.into(), rank })?;
    }
    let mut ids = reader.vector(rank, least);
    for index in 0..rank {
        let at = reader.at();
        let id = reader.number()?;
        let dimension = usize::try_from(id).ok().and_then(|id| header.dimensions.get(id));
        match dimension {
            Some(dimension) if index > 0 && dimension.is_unlimited() => {
                reader.report(at, Problem::UnlimitedNotFirst { variable: name.into() })?;
            }
            Some(_) => {}
            None => {
                let dimensions = header.dimensions.len();
                let variable = name.into();
                reader.report(at, Problem::DimensionId { variable, id, dimensions })?;
            }
        }
        // A header never has 2³² − 1 dimensions, so the largest number is not a valid index.
        ids.push(u32::try_from(id).unwrap_or(u32::MAX));
    }
    Ok(ids)
}
