//! [`Kind`] and [`GeneratedValue`]: types and values of generated files, as bytes and as JSON.

use serde_json::{Value as Json, json};
use striate_hdf5::model::{ByteOrder, Class, Datatype, EnumerationMember, Member};
use striate_hdf5::write::Elements;
use striate_hdf5::write::netcdf::AtomicType;

use striate_testing::splitmix::SplitMix64;

/// A type.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Atomic(AtomicType, ByteOrder),
    Enumeration(AtomicType, Vec<(String, i64)>),
    Opaque(u32),
    Sequence(Box<Kind>),
    Compound(Vec<Field>),
}

/// A member of a compound type.
#[derive(Clone, Debug)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) shape: Vec<u32>,
}

/// An element.
#[derive(Clone, Debug)]
pub(crate) enum GeneratedValue {
    Integer(i128),
    Float(f64),
    Text(String),
    Bytes(Vec<u8>),
    List(Vec<GeneratedValue>),
}

impl Kind {
    pub(crate) fn little(atomic: AtomicType) -> Self {
        Self::Atomic(atomic, ByteOrder::Little)
    }

    pub(crate) fn datatype(&self) -> Datatype {
        match self {
            Self::Atomic(atomic, order) => atomic.datatype(*order),
            Self::Enumeration(base, members) => {
                let base = base.datatype(ByteOrder::Little);
                let size = base.size as usize;
                let members = members.iter().map(|(name, value)| EnumerationMember {
                    name: name.as_str().into(),
                    value: value.to_le_bytes()[..size].to_vec(),
                });
                let members = members.collect();
                Datatype::new(size as u32, Class::Enumeration { base: Box::new(base), members })
            }
            Self::Opaque(size) => Datatype::new(*size, Class::Opaque { tag: "".into() }),
            Self::Sequence(base) => {
                Datatype::new(16, Class::Sequence { base: Box::new(base.datatype()) })
            }
            Self::Compound(fields) => {
                let mut offset = 0;
                let mut members = Vec::new();
                for field in fields {
                    let datatype = field.datatype();
                    let size = datatype.size;
                    members.push(Member { name: field.name.as_str().into(), offset, datatype });
                    offset += size;
                }
                Datatype::new(offset, Class::Compound { members })
            }
        }
    }

    /// Whether values are in heaps.
    pub(crate) fn has_heap(&self) -> bool {
        match self {
            Self::Atomic(atomic, _) => *atomic == AtomicType::String,
            Self::Sequence(_) => true,
            Self::Compound(fields) => fields.iter().any(|field| field.kind.has_heap()),
            _ => false,
        }
    }

    pub(crate) fn random(&self, random: &mut SplitMix64) -> GeneratedValue {
        match self {
            Self::Atomic(atomic, _) => random_atomic(*atomic, random),
            Self::Enumeration(_, members) => GeneratedValue::Integer(random.pick(members).1.into()),
            Self::Opaque(size) => {
                GeneratedValue::Bytes((0..*size).map(|_| random.draw() as u8).collect())
            }
            Self::Sequence(base) => {
                let count = random.below(5);
                GeneratedValue::List((0..count).map(|_| base.random(random)).collect())
            }
            Self::Compound(fields) => {
                let member = |field: &Field| {
                    if field.shape.is_empty() {
                        field.kind.random(random)
                    } else {
                        let count = field.shape.iter().product::<u32>();
                        GeneratedValue::List(
                            (0..count).map(|_| field.kind.random(random)).collect(),
                        )
                    }
                };
                GeneratedValue::List(fields.iter().map(member).collect())
            }
        }
    }

    /// Appends a value as it is stored.
    pub(crate) fn push(&self, value: &GeneratedValue, out: &mut Elements) {
        match (self, value) {
            (Self::Atomic(atomic, order), value) => push_atomic(*atomic, *order, value, out),
            (Self::Enumeration(base, _), GeneratedValue::Integer(_)) => {
                push_atomic(*base, ByteOrder::Little, value, out);
            }
            (Self::Opaque(_), GeneratedValue::Bytes(bytes)) => out.push_fixed(bytes),
            (Self::Sequence(base), GeneratedValue::List(values)) => {
                let mut elements = Elements::new();
                for value in values {
                    base.push(value, &mut elements);
                }
                if values.is_empty() {
                    out.push_null();
                } else {
                    out.push_sequence(values.len() as u32, elements);
                }
            }
            (Self::Compound(fields), GeneratedValue::List(values)) => {
                for (field, value) in fields.iter().zip(values) {
                    match value {
                        GeneratedValue::List(values) if !field.shape.is_empty() => {
                            for value in values {
                                field.kind.push(value, out);
                            }
                        }
                        value => field.kind.push(value, out),
                    }
                }
            }
            (kind, value) => panic!("{value:?} is no {kind:?}"),
        }
    }

    /// The type, for the peers' script.
    pub(crate) fn json(&self) -> Json {
        match self {
            Self::Atomic(atomic, order) => {
                let mark = if *order == ByteOrder::Big { ">" } else { "<" };
                let code = match atomic {
                    AtomicType::Byte => "i1",
                    AtomicType::Char => "S1",
                    AtomicType::Short => "i2",
                    AtomicType::Int => "i4",
                    AtomicType::Float => "f4",
                    AtomicType::Double => "f8",
                    AtomicType::UByte => "u1",
                    AtomicType::UShort => "u2",
                    AtomicType::UInt => "u4",
                    AtomicType::Int64 => "i8",
                    AtomicType::UInt64 => "u8",
                    AtomicType::String => return json!("str"),
                };
                json!(format!("{mark}{code}"))
            }
            Self::Enumeration(base, members) => {
                json!({"enum": Self::little(*base).json(), "members": members})
            }
            Self::Opaque(size) => json!({"opaque": size}),
            Self::Sequence(base) => json!({"vlen": base.json()}),
            Self::Compound(fields) => {
                let fields = fields.iter().map(|one| json!([one.name, one.kind.json(), one.shape]));
                json!({"compound": fields.collect::<Vec<_>>()})
            }
        }
    }
}

impl Field {
    fn datatype(&self) -> Datatype {
        let base = self.kind.datatype();
        if self.shape.is_empty() {
            return base;
        }
        let size = base.size * self.shape.iter().product::<u32>();
        let dimensions = self.shape.clone();
        Datatype::new(size, Class::Array { base: Box::new(base), dimensions })
    }
}

impl GeneratedValue {
    pub(crate) fn json(&self) -> Json {
        match self {
            Self::Integer(value) => match i64::try_from(*value) {
                Ok(value) => json!(value),
                Err(_) => json!(*value as u64),
            },
            Self::Float(value) => json!(value),
            Self::Text(text) => json!(text),
            Self::Bytes(bytes) => json!(bytes),
            Self::List(values) => Json::Array(values.iter().map(Self::json).collect()),
        }
    }
}

/// The range of an integer type.
fn range(atomic: AtomicType) -> (i128, i128) {
    match atomic {
        AtomicType::Byte => (i8::MIN.into(), i8::MAX.into()),
        AtomicType::UByte => (0, u8::MAX.into()),
        AtomicType::Short => (i16::MIN.into(), i16::MAX.into()),
        AtomicType::UShort => (0, u16::MAX.into()),
        AtomicType::Int => (i32::MIN.into(), i32::MAX.into()),
        AtomicType::UInt => (0, u32::MAX.into()),
        AtomicType::Int64 => (i64::MIN.into(), i64::MAX.into()),
        AtomicType::UInt64 => (0, u64::MAX.into()),
        _ => (0, 0),
    }
}

fn random_atomic(atomic: AtomicType, random: &mut SplitMix64) -> GeneratedValue {
    match atomic {
        AtomicType::Float => {
            GeneratedValue::Float(f64::from(random.below(1 << 20) as f32 / 64.0 - 1000.0))
        }
        AtomicType::Double => GeneratedValue::Float(random.below(1 << 40) as f64 / 1024.0 - 1e6),
        AtomicType::Char => GeneratedValue::Text(char::from(b'a' + random.below(26) as u8).into()),
        AtomicType::String => {
            let texts = ["", "a", "grün", "two words", "日本", "x"];
            let mut text = (*random.pick(&texts)).to_string();
            if random.below(40) == 0 {
                text = text.repeat(random.below(3000) as usize + 1);
            }
            GeneratedValue::Text(text)
        }
        integer => {
            let (low, high) = range(integer);
            let width = (high - low) as u64;
            let within = if width == u64::MAX { random.draw() } else { random.below(width + 1) };
            GeneratedValue::Integer(low + i128::from(within))
        }
    }
}

fn push_atomic(atomic: AtomicType, order: ByteOrder, value: &GeneratedValue, out: &mut Elements) {
    let size = atomic.datatype(order).size as usize;
    let mut bytes = match (atomic, value) {
        (AtomicType::String, GeneratedValue::Text(text)) => {
            return out.push_string(text.as_bytes());
        }
        (AtomicType::Char, GeneratedValue::Text(text)) => text.as_bytes().to_vec(),
        (AtomicType::Float, GeneratedValue::Float(value)) => (*value as f32).to_le_bytes().to_vec(),
        (AtomicType::Double, GeneratedValue::Float(value)) => value.to_le_bytes().to_vec(),
        (_, GeneratedValue::Integer(value)) => value.to_le_bytes()[..size].to_vec(),
        (atomic, value) => panic!("{value:?} is no {atomic:?}"),
    };
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    out.push_fixed(&bytes);
}
