//! Names on the wire: of a datatype, by its content; of a server, drawn once; of each start of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The name of a datatype on the wire: the first 16 bytes of the SHA-256 of its binary form.
///
/// Since equal descriptions have equal binary forms, all clients have the same name for a type, and
/// no other type can be given that name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TypeId(pub [u8; 16]);

impl TypeId {
    /// The name of the type with this binary form.
    pub fn of(encoding: &[u8]) -> Self {
        let digest = Sha256::digest(encoding);
        Self(std::array::from_fn(|i| digest[i]))
    }
}

/// The name of a server: drawn at random when its storage is made, and stored there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Identity(pub [u8; 16]);

/// One start of a server: drawn at random whenever what was written before and not synced may be
/// lost, which is at every start but those after an orderly stop, and after a failed sync.
///
/// It is what NFS calls a write verifier: a write that one start acknowledged is durable only if
/// the same start acknowledges a sync after it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StartId(pub u64);

/// A server as it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    /// The name of its storage.
    pub identity: Identity,
    /// Its present start.
    pub start: StartId,
}

fn hexadecimal(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TypeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

impl fmt::Debug for TypeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TypeId({self})")
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        hexadecimal(&self.0, f)
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({self})")
    }
}

impl fmt::Display for StartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl fmt::Debug for StartId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StartId({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_type_is_named_by_its_content() {
        // SHA-256 of nothing is e3b0c442 98fc1c14 9afbf4c8 996fb924 …
        assert_eq!(TypeId::of(b"").to_string(), "e3b0c44298fc1c149afbf4c8996fb924");
        assert_ne!(TypeId::of(b"a"), TypeId::of(b"b"));
    }
}
