//! [`ZarrArray`]: a variable in the terms of Zarr, version 2.

use serde_json::{Value, json};
use striate_array::cdl::netcdf4::PrintedType;
use striate_array::cdl::netcdf4::classic_values;
use striate_hdf5::Dataset;
use striate_hdf5::model::{ByteOrder, Class, Datatype, Fill, Filter, Layout};
use striate_hdf5::netcdf::FileDefinition;

use crate::nc::dump::number_values;

/// Bytes of a piece of a contiguous variable at most, if its first dimension can be divided so.
const PIECE: u64 = 64 << 20;

/// An array as `.zarray` says it.
#[derive(Clone, Debug)]
pub(super) struct ZarrArray {
    pub(super) shape: Vec<u64>,
    pub(super) chunk: Vec<u64>,
    dtype: Value,
    fill: Value,
    compressor: Value,
    filters: Vec<Value>,
}

impl ZarrArray {
    /// A variable of a shape as an array; the reason if it cannot be one.
    pub(super) fn new(
        definition: &FileDefinition,
        dataset: &Dataset,
        shape: Vec<u64>,
    ) -> Result<Self, String> {
        let dtype = dtype(&dataset.datatype)?;
        let mut filters = Vec::new();
        let mut compressor = Value::Null;
        let last = dataset.filters.len().saturating_sub(1);
        for (place, filter) in dataset.filters.iter().enumerate() {
            match codec(filter, dataset.datatype.size)? {
                (codec, true) if place == last => compressor = codec,
                (codec, _) => filters.push(codec),
            }
        }
        let chunk = match &dataset.layout {
            Layout::Chunked(layout) => layout.chunk.clone(),
            Layout::Compact { .. } => shape.clone(),
            Layout::Contiguous { .. } => pieces(&shape, dataset.datatype.size.into()),
            Layout::Virtual { .. } => return Err("its elements are in other datasets".into()),
            Layout::External { .. } => return Err("its elements are in other files".into()),
        };
        if dataset.dataspace.rank() != shape.len() {
            return Err("its shape is not that of its dimensions".into());
        }
        let fill = fill_value(definition, dataset);
        Ok(Self { shape, chunk, dtype, fill, compressor, filters })
    }

    /// What `.zarray` has; `complete` says that there is a reference for every chunk.
    pub(super) fn document(&self, complete: bool) -> Value {
        // A reader masks what equals the fill value, so zeros must not be one without need.
        let is_zero = self.fill.as_f64() == Some(0.0);
        let fill = if complete && is_zero { &Value::Null } else { &self.fill };
        let filters =
            if self.filters.is_empty() { Value::Null } else { self.filters.clone().into() };
        json!({
            "chunks": self.chunk,
            "compressor": self.compressor,
            "dtype": self.dtype,
            "fill_value": fill,
            "filters": filters,
            "order": "C",
            "shape": self.shape,
            "zarr_format": 2,
        })
    }
}

/// The type of elements, as numpy writes it.
fn dtype(datatype: &Datatype) -> Result<Value, String> {
    let size = datatype.size;
    let ordered = |order: ByteOrder, kind: char| {
        let order = match order {
            _ if size == 1 => '|',
            ByteOrder::Little => '<',
            _ => '>',
        };
        Ok(format!("{order}{kind}{size}").into())
    };
    match &datatype.class {
        Class::FixedPoint(number) => ordered(number.order, if number.signed { 'i' } else { 'u' }),
        Class::FloatingPoint(number) => ordered(number.order, 'f'),
        Class::String { .. } => Ok(format!("|S{size}").into()),
        Class::Opaque { .. } => Ok(format!("|V{size}").into()),
        Class::Enumeration { base, .. } => dtype(base),
        Class::Compound { members } => {
            let mut end = 0;
            let mut fields = Vec::new();
            for member in members {
                if member.offset != end {
                    return Err("there are gaps between members of its compounds".into());
                }
                end += member.datatype.size;
                let name = member.name.to_string();
                fields.push(match &member.datatype.class {
                    Class::Array { base, dimensions } => json!([name, dtype(base)?, dimensions]),
                    _ => json!([name, dtype(&member.datatype)?]),
                });
            }
            if end != size {
                return Err("there are gaps at the end of its compounds".into());
            }
            Ok(fields.into())
        }
        Class::VariableString { .. } => Err("strings of variable length are not in chunks".into()),
        Class::Sequence { .. } => Err("sequences are not in chunks".into()),
        _ => Err("Zarr does not have its type".into()),
    }
}

/// A filter as a codec, and whether it compresses.
fn codec(filter: &Filter, size: u32) -> Result<(Value, bool), String> {
    let parameter = |place: usize| filter.parameters.get(place).copied().unwrap_or_default();
    Ok(match filter.id {
        1 => (json!({"id": "zlib", "level": parameter(0)}), true),
        2 => (json!({"id": "shuffle", "elementsize": size}), false),
        3 => (json!({"id": "fletcher32"}), false),
        307 => (json!({"id": "bz2", "level": parameter(0)}), true),
        32001 => {
            let codecs = ["blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"];
            let codec = codecs.get(parameter(6) as usize).copied().unwrap_or("blosclz");
            let (level, shuffle) = (parameter(4), parameter(5));
            (json!({"id": "blosc", "cname": codec, "clevel": level, "shuffle": shuffle}), true)
        }
        32015 => (json!({"id": "zstd", "level": parameter(0)}), true),
        id => return Err(format!("Zarr's readers do not have filter {id}")),
    })
}

/// The value of chunks that are not stored.
fn fill_value(definition: &FileDefinition, dataset: &Dataset) -> Value {
    let datatype = match &dataset.datatype.class {
        Class::Enumeration { base, .. } => base,
        _ => &dataset.datatype,
    };
    let bytes = match &dataset.fill.value {
        Fill::Value(bytes) if bytes.len() == datatype.size as usize => bytes.clone(),
        Fill::Undefined => return Value::Null,
        _ => vec![0; datatype.size as usize],
    };
    match (PrintedType::of(definition, datatype), &datatype.class) {
        (Some(PrintedType::Classic(external)), Class::FixedPoint(_) | Class::FloatingPoint(_)) => {
            let values = classic_values(external, datatype, bytes);
            number_values(&values).into_iter().next().unwrap_or(Value::Null)
        }
        _ if bytes.iter().all(|&byte| byte == 0) => Value::Null,
        _ => base64(&bytes).into(),
    }
}

/// The shape of pieces of an array that is stored in one piece: equal parts along the first
/// dimension.
fn pieces(shape: &[u64], size: u64) -> Vec<u64> {
    let mut chunk = shape.to_vec();
    let Some((&length, rest)) = shape.split_first() else { return chunk };
    let row = rest.iter().fold(size, |bytes, &length| bytes.saturating_mul(length)).max(1);
    let most = (PIECE / row).clamp(1, length.max(1));
    // Readers take all pieces as equally long, so the length must be a multiple.
    let part = (1..=most).rev().find(|part| length.is_multiple_of(*part));
    if let (Some(first), Some(part)) = (chunk.first_mut(), part) {
        *first = part;
    }
    chunk
}

/// Bytes as text.
pub(super) fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for three in bytes.chunks(3) {
        let number = (0..3).fold(0_u32, |number, at| {
            number << 8 | u32::from(three.get(at).copied().unwrap_or_default())
        });
        for place in 0..4 {
            let letter = LETTERS[(number >> (18 - 6 * place) & 63) as usize];
            text.push(if place <= three.len() { letter.into() } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_text_as_others_write_it() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn pieces_divide_the_first_dimension() {
        assert_eq!(pieces(&[], 8), [0_u64; 0]);
        assert_eq!(pieces(&[10, 20], 8), [10, 20]);
        assert_eq!(pieces(&[100, 1 << 20], 8), [5, 1 << 20]);
        assert_eq!(pieces(&[7, 1 << 20], 8), [7, 1 << 20]);
        assert_eq!(pieces(&[11, 1 << 20], 8), [1, 1 << 20]);
        assert_eq!(pieces(&[0, 5], 8), [1, 5]);
    }
}
