//! [`Datatype`]: how an element is stored, of every class that the format has.
//!
//! Nothing of a type message is lost but its version: a type that is read and written again
//! describes the same bytes.

use super::{Address, CharacterSet, Name};

/// The type of an element.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Datatype {
    /// Bytes of an element as stored: of a variable-length value that of the descriptor (4 + an
    /// address + 4), not of what it points to.
    pub size: u32,
    /// What the bytes are.
    pub class: Class,
    /// The object header of the named type that this one is, if it is one (a committed type).
    pub committed: Option<Address>,
}

impl Datatype {
    /// A type that is not committed.
    pub const fn new(size: u32, class: Class) -> Self {
        Self { size, class, committed: None }
    }

    /// Whether elements are, or contain, descriptors of values of variable length in a heap.
    pub fn has_descriptors(&self) -> bool {
        match &self.class {
            Class::Sequence { .. } | Class::VariableString { .. } => true,
            Class::Array { base, .. } => base.has_descriptors(),
            Class::Compound { members } => {
                members.iter().any(|member| member.datatype.has_descriptors())
            }
            _ => false,
        }
    }
}

/// Classes of types.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Integers (class 0).
    FixedPoint(FixedPoint),
    /// Floating-point numbers (class 1).
    FloatingPoint(FloatingPoint),
    /// Time (class 2), which HDF5 defines and nobody uses.
    Time {
        /// Order of bytes.
        order: ByteOrder,
        /// Bits.
        precision: u16,
    },
    /// Strings of a fixed size (class 3).
    String {
        /// How unused bytes are filled.
        padding: StringPadding,
        /// Encoding of the characters.
        charset: CharacterSet,
    },
    /// Bits (class 4).
    Bitfield {
        /// Order of bytes.
        order: ByteOrder,
        /// The first bit that counts.
        offset: u16,
        /// Bits that count.
        precision: u16,
        /// The bits that do not.
        padding: Padding,
    },
    /// Bytes without a meaning known to HDF5 (class 5).
    Opaque {
        /// What a program says that they are.
        tag: Name,
    },
    /// Members at offsets (class 6).
    Compound {
        /// In the order of the message.
        members: Vec<Member>,
    },
    /// References (class 7).
    Reference(ReferenceKind),
    /// Names for values of an integer type (class 8).
    Enumeration {
        /// The integer type.
        base: Box<Datatype>,
        /// In the order of the message.
        members: Vec<EnumerationMember>,
    },
    /// Sequences of any length (class 9), in the global heap.
    Sequence {
        /// The type of the values.
        base: Box<Datatype>,
    },
    /// Strings of any length (class 9), in the global heap.
    VariableString {
        /// The type of a character, as the message has it.
        base: Box<Datatype>,
        /// How the string ends.
        padding: StringPadding,
        /// Encoding of the characters.
        charset: CharacterSet,
    },
    /// Arrays of a fixed shape (class 10).
    Array {
        /// The type of the values.
        base: Box<Datatype>,
        /// Slowest first.
        dimensions: Vec<u32>,
    },
    /// Complex numbers (class 11, HDF5 2.0): real, then imaginary part.
    Complex {
        /// The type of a part.
        base: Box<Datatype>,
    },
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FixedPoint {
    /// Order of bytes; not VAX.
    pub order: ByteOrder,
    /// Two's complement.
    pub signed: bool,
    /// The first bit that counts.
    pub offset: u16,
    /// Bits that count.
    pub precision: u16,
    /// The bits that do not.
    pub padding: Padding,
}

/// A floating-point type. Positions are in bits from the lowest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FloatingPoint {
    /// Order of bytes.
    pub order: ByteOrder,
    /// The first bit that counts.
    pub offset: u16,
    /// Bits that count.
    pub precision: u16,
    /// The bits outside of those.
    pub padding: Padding,
    /// Bits within those that belong to no field are 1.
    pub internal_padding: bool,
    /// How the mantissa is normalised.
    pub normalization: Normalization,
    /// The bit of the sign.
    pub sign_location: u8,
    /// The first bit of the exponent.
    pub exponent_location: u8,
    /// Bits of the exponent.
    pub exponent_size: u8,
    /// The first bit of the mantissa.
    pub mantissa_location: u8,
    /// Bits of the mantissa.
    pub mantissa_size: u8,
    /// What is subtracted from the exponent.
    pub exponent_bias: u32,
}

/// Order of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Lowest first.
    Little,
    /// Highest first.
    Big,
    /// Pairs of bytes, highest pair first, lowest byte of a pair first: VAX floating point.
    Vax,
}

/// Bits outside of the precision: whether they are 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Padding {
    /// Those below.
    pub low: bool,
    /// Those above.
    pub high: bool,
}

/// The highest bit of a mantissa.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Normalization {
    /// Any.
    None,
    /// Always 1, and stored.
    MostSignificantSet,
    /// Always 1, and not stored (IEEE 754).
    Implied,
}

/// How a string ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StringPadding {
    /// With a zero, which is there.
    NullTerminated,
    /// With as many zeros as there is room for.
    NullPadded,
    /// With as many spaces as there is room for.
    SpacePadded,
}

/// A member of a compound type.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Its name.
    pub name: Name,
    /// Where it begins, in bytes of the element.
    pub offset: u32,
    /// Its type. Members of old files that are arrays (version 1) have an array type.
    pub datatype: Datatype,
}

/// A value of an enumeration.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EnumerationMember {
    /// Its name.
    pub name: Name,
    /// Bytes of the base type.
    pub value: Vec<u8>,
}

/// What a reference refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// An object, by its address.
    Object,
    /// Elements of a dataset, in the global heap.
    Region,
    /// An object, in the encoding of HDF5 1.12.
    StandardObject {
        /// Version of the encoding.
        version: u8,
    },
    /// Elements of a dataset, in the encoding of HDF5 1.12.
    StandardRegion {
        /// Version of the encoding.
        version: u8,
    },
    /// An attribute, in the encoding of HDF5 1.12.
    StandardAttribute {
        /// Version of the encoding.
        version: u8,
    },
}
