//! The structures of a file's layout, and the bytes by which a layout is set.
//!
//! The structures are those of `lustre_user.h`: packed, in the byte order of the machine. A test
//! names the offset of every field.

use std::fmt;

/// `LOV_USER_MAGIC_V1`.
pub(super) const MAGIC_V1: u32 = 0x0BD1_0BD0;
/// `LOV_USER_MAGIC_V3`.
pub(super) const MAGIC_V3: u32 = 0x0BD3_0BD0;
/// `LOV_USER_MAGIC_SPECIFIC`.
pub(super) const MAGIC_SPECIFIC: u32 = 0x0BD5_0BD0;
/// `LOV_USER_MAGIC_COMP_V1`.
pub(super) const MAGIC_COMPOSITE: u32 = 0x0BD6_0BD0;
/// `LOV_USER_MAGIC_FOREIGN`.
pub(super) const MAGIC_FOREIGN: u32 = 0x0BD7_0BD0;
/// `LOV_USER_MAGIC_SEL`: composite, with components that grow.
pub(super) const MAGIC_EXTENDING: u32 = 0x0BD8_0BD0;

/// `LOV_PATTERN_RAID0`: stripes, dealt round robin.
pub(super) const PATTERN_STRIPES: u32 = 0x001;
/// `LOV_PATTERN_RAID1`, `_MDT` and `_FOREIGN`: bytes that are not in stripes.
const PATTERN_OTHERS: u32 = 0x002 | 0x100 | 0x400;

/// `LOV_ALL_STRIPES_WIDE`: this count and those above it mean every target.
pub(super) const EVERY_TARGET: u16 = 0xFFE0;

/// Bytes of `lov_user_md_v1` without objects.
pub(super) const V1_BYTES: usize = 32;
/// Bytes of `lov_user_md_v3` without objects.
pub(super) const V3_BYTES: usize = 48;
/// Bytes of `lov_user_ost_data_v1`.
pub(super) const OBJECT_BYTES: usize = 24;

/// The order of the bytes of numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByteOrder {
    /// The lowest byte first.
    Little,
    /// The highest byte first.
    Big,
}

impl ByteOrder {
    /// That of this machine, in which the file system takes layouts.
    pub const NATIVE: Self = if cfg!(target_endian = "big") { Self::Big } else { Self::Little };

    pub(super) const fn u16_bytes(self, number: u16) -> [u8; 2] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }

    pub(super) const fn u32_bytes(self, number: u32) -> [u8; 4] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }

    pub(super) const fn u64_bytes(self, number: u64) -> [u8; 8] {
        match self {
            Self::Little => number.to_le_bytes(),
            Self::Big => number.to_be_bytes(),
        }
    }
}

/// `ost_id`: the two numbers that name an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectId {
    /// The first number in memory: an id, or the sequence of a FID.
    pub first: u64,
    /// The second: a sequence, or the object and version of a FID.
    pub second: u64,
}

/// The name of a pool of storage targets, as it lies in a layout: up to 15 bytes and zeros.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub struct PoolName(pub(super) [u8; 16]);

impl PoolName {
    /// A name; `None` if it is longer than 15 bytes or has a zero inside.
    pub fn new(name: &str) -> Option<Self> {
        let mut bytes = [0; 16];
        if name.len() > 15 || name.contains('\0') {
            return None;
        }
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        Some(Self(bytes))
    }

    /// Whether no pool is meant.
    pub const fn is_empty(&self) -> bool {
        self.0[0] == 0
    }
}

impl fmt::Display for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = self.0.iter().position(|&byte| byte == 0).unwrap_or(self.0.len());
        f.pad(&String::from_utf8_lossy(&self.0[..end]))
    }
}

impl fmt::Debug for PoolName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// `lov_user_ost_data_v1`: where one stripe's object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StripeObject {
    /// The object on its target.
    pub id: ObjectId,
    /// Generation of the target's number.
    pub generation: u32,
    /// The target's number.
    pub target: u32,
}

/// Which structure holds a plain layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutForm {
    /// `lov_user_md_v1`.
    V1,
    /// `lov_user_md_v3`: on the targets of a pool.
    V3(PoolName),
    /// `lov_user_md_v3` with `LOV_USER_MAGIC_SPECIFIC`: on the targets that the objects name.
    Specific(PoolName),
}

/// The layout of a file, or of one component, that is striped in one way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlainLayout {
    /// Which structure.
    pub form: LayoutForm,
    /// `lmm_pattern`.
    pub pattern: u32,
    /// `lmm_oi`: the file itself.
    pub owner: ObjectId,
    /// `lmm_stripe_size`: bytes of a stripe; 0 is the default.
    pub unit: u32,
    /// `lmm_stripe_count`; 0 is the default, and the largest numbers mean every target.
    pub count: u16,
    /// `lmm_stripe_offset`: the first target, in a layout that is set (65535: any). In one that is
    /// read, a generation or nothing.
    pub start: u16,
    /// The objects, if there are any yet. A layout that is set names targets here if it is
    /// [`LayoutForm::Specific`], and nothing else.
    pub objects: Vec<StripeObject>,
}

impl PlainLayout {
    /// The bytes that the file system takes, in the order of [`ByteOrder::NATIVE`].
    pub fn encode(&self, order: ByteOrder) -> Vec<u8> {
        let (magic, pool) = match self.form {
            LayoutForm::V1 => (MAGIC_V1, None),
            LayoutForm::V3(pool) => (MAGIC_V3, Some(pool)),
            LayoutForm::Specific(pool) => (MAGIC_SPECIFIC, Some(pool)),
        };
        let mut bytes = Vec::with_capacity(V3_BYTES + self.objects.len() * OBJECT_BYTES);
        bytes.extend(order.u32_bytes(magic));
        bytes.extend(order.u32_bytes(self.pattern));
        bytes.extend(order.u64_bytes(self.owner.first));
        bytes.extend(order.u64_bytes(self.owner.second));
        bytes.extend(order.u32_bytes(self.unit));
        bytes.extend(order.u16_bytes(self.count));
        bytes.extend(order.u16_bytes(self.start));
        if let Some(pool) = pool {
            bytes.extend(pool.0);
        }
        for object in &self.objects {
            bytes.extend(order.u64_bytes(object.id.first));
            bytes.extend(order.u64_bytes(object.id.second));
            bytes.extend(order.u32_bytes(object.generation));
            bytes.extend(order.u32_bytes(object.target));
        }
        bytes
    }

    /// How bytes are striped, if they are.
    fn striping(&self, targets: Option<u32>) -> Option<Striping> {
        if self.pattern & (PATTERN_STRIPES | PATTERN_OTHERS) != PATTERN_STRIPES || self.unit == 0 {
            return None;
        }
        let count = match self.count {
            0 => None,
            EVERY_TARGET.. => targets,
            count => Some(u32::from(count)),
        };
        let start = self.objects.first().map(|object| object.target);
        Some(Striping { unit: u64::from(self.unit), count, start, components: 1 })
    }
}

/// `lov_comp_md_entry_v1` and what it points to: the layout of a part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// `lcme_id`.
    pub id: u32,
    /// `lcme_flags`.
    pub flags: u32,
    /// The first byte of the file that it is for.
    pub start: u64,
    /// The first byte that it is not for; `u64::MAX` if it has no end.
    pub end: u64,
    /// `lcme_layout_gen`.
    pub generation: u32,
    /// How it is striped; `None` if its bytes are not in Lustre.
    pub layout: Option<PlainLayout>,
}

impl Component {
    /// `LCME_FL_STALE`, `_EXTENSION` and `_PARITY`: components that are not read or written as
    /// such.
    const ASIDE: u32 = 0x01 | 0x40 | 0x80;

    /// The number of the mirror that it is part of.
    pub const fn mirror(&self) -> u32 {
        (self.id & 0x7FFF_0000) >> 16
    }

    const fn holds_data(&self) -> bool {
        self.flags & Self::ASIDE == 0
    }
}

/// `lov_comp_md_v1`: other layouts for other parts of a file (PFL), perhaps several times (FLR).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Composite {
    /// `lcm_layout_gen`.
    pub generation: u32,
    /// `lcm_flags`.
    pub flags: u16,
    /// How many mirrors there are; 1 if the file is not mirrored.
    pub mirrors: u32,
    /// The components of all mirrors.
    pub components: Vec<Component>,
}

/// The layout of a file, or the default of a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LustreLayout {
    /// Striped in one way.
    Plain(PlainLayout),
    /// Made of components.
    Composite(Composite),
    /// Not in Lustre.
    Foreign,
}

impl LustreLayout {
    /// Whether it is made of components.
    pub const fn is_composite(&self) -> bool {
        matches!(self, Self::Composite(_))
    }

    /// How the file is striped, if it is: a composite one as the last component of its first mirror
    /// that is up to date. `targets` is how many the file system has, if that is known.
    pub fn striping(&self, targets: Option<u32>) -> Option<Striping> {
        match self {
            Self::Plain(plain) => plain.striping(targets),
            Self::Composite(composite) => {
                let of = |component: &Component| component.layout.as_ref()?.striping(targets);
                let usable = |component: &&Component| component.holds_data();
                let all = composite.components.iter().filter(usable);
                let mirror = all.clone().find(|component| of(component).is_some())?.mirror();
                let last = all
                    .filter(|component| component.mirror() == mirror && of(component).is_some())
                    .max_by_key(|component| component.end)?;
                let components = composite.components.len() as u32;
                of(last).map(|striping| Striping { components, ..striping })
            }
            Self::Foreign => None,
        }
    }

    /// Whether [`LustreLayout::striping`] depends on how many targets there are.
    pub(super) fn needs_targets(&self) -> bool {
        self.striping(None) != self.striping(Some(1))
    }
}

/// How a file is striped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Striping {
    /// Bytes of a stripe.
    pub unit: u64,
    /// How many targets stripes are dealt to; `None` if that is not decided yet.
    pub count: Option<u32>,
    /// The target of the first stripe; `None` if that is not decided yet.
    pub start: Option<u32>,
    /// Of how many components the layout is made; 1 if it is not composite. If it is, the other
    /// numbers are those of the last one.
    pub components: u32,
}
