//! Types of a text as types of HDF5.

use striate_hdf5::model::{ByteOrder, Class, Datatype, EnumerationMember, Member};
use striate_hdf5::write::netcdf::AtomicType;

use super::document::{CdlDocument, CdlField, CdlShape, CdlType, atomic_size};

impl CdlDocument<'_> {
    /// A type as it is in a file. A byte order is one of netCDF's own types; user-defined ones are
    /// little-endian.
    pub fn datatype(&self, of: CdlType, order: ByteOrder) -> Datatype {
        let number = match of {
            CdlType::Atomic(atomic) => return atomic.datatype(order),
            CdlType::User(number) => number,
        };
        let Some(user) = self.types.get(number) else {
            return AtomicType::Byte.datatype(order);
        };
        let class = match &user.shape {
            CdlShape::Opaque => Class::Opaque { tag: "".into() },
            CdlShape::Sequence(base) => {
                Class::Sequence { base: Box::new(self.datatype(*base, ByteOrder::Little)) }
            }
            CdlShape::Enumeration { base, members } => {
                let size = atomic_size(*base) as usize;
                let member = |(name, value): &(String, i128)| EnumerationMember {
                    name: name.as_str().into(),
                    value: value.to_le_bytes().get(..size).unwrap_or_default().to_vec(),
                };
                Class::Enumeration {
                    base: Box::new(base.datatype(ByteOrder::Little)),
                    members: members.iter().map(member).collect(),
                }
            }
            CdlShape::Compound(fields) => {
                let member = |field: &CdlField| Member {
                    name: field.name.as_str().into(),
                    offset: field.offset,
                    datatype: self.field_type(field),
                };
                Class::Compound { members: fields.iter().map(member).collect() }
            }
        };
        Datatype::new(user.size, class)
    }

    fn field_type(&self, field: &CdlField) -> Datatype {
        let base = self.datatype(field.of, ByteOrder::Little);
        if field.dimensions.is_empty() {
            return base;
        }
        let size = base.size * field.count() as u32;
        let dimensions = field.dimensions.clone();
        Datatype::new(size, Class::Array { base: Box::new(base), dimensions })
    }
}
