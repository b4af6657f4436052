//! [`Cursor`]: fields taken from bytes, one after the other.

use crate::model::{Address, Name, Superblock};
use crate::{Error, Reason, Result, Structure, checksum};

/// Widths of addresses and lengths in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Widths {
    pub(crate) offset: u8,
    pub(crate) length: u8,
}

impl Widths {
    pub(crate) const fn of(superblock: &Superblock) -> Self {
        Self { offset: superblock.offset_size, length: superblock.length_size }
    }
}

/// Takes the fields of a structure from its bytes. What is missing is an error that names the
/// structure and its address.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    structure: Structure,
    address: Address,
    widths: Widths,
}

impl<'a> Cursor<'a> {
    /// The bytes of a structure, the first of which is at the address.
    pub(crate) const fn new(
        bytes: &'a [u8],
        structure: Structure,
        address: Address,
        widths: Widths,
    ) -> Self {
        Self { bytes, at: 0, structure, address, widths }
    }

    /// The same bytes from here on, as another structure.
    pub(crate) fn within(&self, structure: Structure) -> Self {
        let address = Address(self.address.0.saturating_add(self.at as u64));
        Self::new(&self.bytes[self.at..], structure, address, self.widths)
    }

    /// The same with other widths of addresses and lengths.
    pub(crate) const fn with(mut self, widths: Widths) -> Self {
        self.widths = widths;
        self
    }

    pub(crate) fn error(&self, reason: impl Into<Reason>) -> Error {
        Error::at(self.structure, self.address, reason)
    }

    pub(crate) fn invalid(&self, why: &'static str) -> Error {
        self.error(Reason::Invalid(why))
    }

    /// The address of the first byte.
    pub(crate) const fn begin(&self) -> Address {
        self.address
    }

    pub(crate) const fn widths(&self) -> Widths {
        self.widths
    }

    /// How many bytes were taken.
    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    pub(crate) const fn remaining(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let rest = &self.bytes[self.at..];
        let Some(taken) = rest.get(..count) else {
            return Err(self.error(Reason::Truncated {
                needed: (self.at as u64).saturating_add(count as u64),
                available: self.bytes.len() as u64,
            }));
        };
        self.at += count;
        Ok(taken)
    }

    /// Takes so many bytes as a cursor of their own.
    pub(crate) fn part(&mut self, count: usize) -> Result<Self> {
        let mut part = self.within(self.structure);
        part.bytes = self.take(count)?;
        Ok(part)
    }

    pub(crate) fn skip(&mut self, count: usize) -> Result<()> {
        self.take(count).map(|_| ())
    }

    /// Skips what fills up to a multiple of so many bytes, as far as it is there.
    pub(crate) fn align(&mut self, to: usize) {
        self.at = self.at.next_multiple_of(to).min(self.bytes.len());
    }

    pub(crate) fn rest(&mut self) -> &'a [u8] {
        let rest = &self.bytes[self.at..];
        self.at = self.bytes.len();
        rest
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(crate) fn u16(&mut self) -> Result<u16> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    pub(crate) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    pub(crate) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// A number of 1 to 8 bytes.
    pub(crate) fn uint(&mut self, width: usize) -> Result<u64> {
        if width > 8 {
            return Err(self.invalid("a number wider than 64 bits"));
        }
        let mut array = [0; 8];
        array[..width].copy_from_slice(self.take(width)?);
        Ok(u64::from_le_bytes(array))
    }

    pub(crate) fn length(&mut self) -> Result<u64> {
        self.uint(usize::from(self.widths.length))
    }

    /// A length that is `None` if all bits are set.
    pub(crate) fn maximum(&mut self) -> Result<Option<u64>> {
        let width = self.widths.length;
        let value = self.length()?;
        Ok((value != all_ones(width)).then_some(value))
    }

    /// An address; `None` if it is undefined.
    pub(crate) fn address(&mut self) -> Result<Option<Address>> {
        let width = self.widths.offset;
        let value = self.uint(usize::from(width))?;
        Ok((value != all_ones(width)).then_some(Address(value)))
    }

    pub(crate) fn defined_address(&mut self, what: &'static str) -> Result<Address> {
        self.address()?.ok_or_else(|| self.invalid(what))
    }

    pub(crate) fn signature(&mut self, expected: [u8; 4]) -> Result<()> {
        let found = self.array()?;
        if found == expected {
            Ok(())
        } else {
            Err(self.error(Reason::Signature { expected, found }))
        }
    }

    /// A version that is one of these.
    pub(crate) fn version(&mut self, known: std::ops::RangeInclusive<u8>) -> Result<u8> {
        let version = self.u8()?;
        if known.contains(&version) {
            Ok(version)
        } else {
            Err(self.error(Reason::Version(version)))
        }
    }

    /// A name up to its closing zero, which is taken, too.
    pub(crate) fn terminated(&mut self) -> Result<Name> {
        let rest = &self.bytes[self.at..];
        let Some(length) = rest.iter().position(|&byte| byte == 0) else {
            return Err(self.invalid("a name does not end"));
        };
        self.at += length + 1;
        Ok(Name::from(&rest[..length]))
    }
}

/// What an undefined address or length of a width looks like.
pub(crate) const fn all_ones(width: u8) -> u64 {
    if width >= 8 { u64::MAX } else { (1 << (8 * width)) - 1 }
}

/// Bytes that end with their checksum, without it.
pub(crate) fn verified(bytes: &[u8], structure: Structure, address: Address) -> Result<&[u8]> {
    let Some((body, stored)) = bytes.split_last_chunk::<4>() else {
        let reason = Reason::Truncated { needed: 4, available: bytes.len() as u64 };
        return Err(Error::at(structure, address, reason));
    };
    let (stored, computed) = (u32::from_le_bytes(*stored), checksum::lookup3(body));
    if stored == computed || !checksum::are_verified() {
        Ok(body)
    } else {
        Err(Error::at(structure, address, Reason::Checksum { stored, computed }))
    }
}

/// How many bytes numbers up to this one take (at least one).
pub(crate) const fn encoded_width(limit: u64) -> usize {
    if limit == 0 { 1 } else { limit.ilog2() as usize / 8 + 1 }
}

/// What is up to the first zero.
pub(crate) fn until_zero(bytes: &[u8]) -> &[u8] {
    bytes.split(|&byte| byte == 0).next().unwrap_or_default()
}
