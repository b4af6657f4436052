//! [`Address`]: a place in a file.

use std::fmt;

/// A place in a file, counted from the base address, as all addresses in a file are.
///
/// A field whose address may be undefined (all bits set) is an `Option<Address>`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(pub u64);

impl Address {
    /// The address so many bytes further; `None` beyond 64 bits.
    pub fn checked_add(self, bytes: u64) -> Option<Self> {
        self.0.checked_add(bytes).map(Self)
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
