//! [`check_name`]: valid names of dimensions, variables and attributes.
//!
//! The rules are those of netCDF-C and `PnetCDF`, for all three formats. Both also normalise names
//! to Unicode's form NFC; here a name is not changed.

use thiserror::Error;

/// The longest name, in bytes.
const MAX_LEN: usize = 256;

/// Why a name is not valid.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("the name {} {reason}", shown(.name))]
pub struct NameError {
    /// The name.
    pub name: String,
    /// The reason.
    pub reason: &'static str,
}

/// Characters of a name that an error shows.
const SHOWN: usize = 80;

/// A name in quotes; of a long one the beginning.
pub(crate) fn shown(name: &str) -> String {
    match name.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{:?}... ({} bytes)", &name[..at], name.len()),
        None => format!("{name:?}"),
    }
}

/// Checks a name by the rules of netCDF.
pub fn check_name(name: &str) -> Result<(), NameError> {
    match fault(name) {
        Some(reason) => Err(NameError { name: name.into(), reason }),
        None => Ok(()),
    }
}

fn fault(name: &str) -> Option<&'static str> {
    let bytes = name.as_bytes();
    let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
        return Some("is empty");
    };
    if bytes.len() > MAX_LEN {
        return Some("is longer than 256 bytes");
    }
    match bytes.iter().find(|&&byte| byte == b'/' || byte.is_ascii_control()) {
        Some(b'/') => return Some("contains '/'"),
        Some(_) => return Some("contains a control character"),
        None => {}
    }
    if last == b' ' {
        return Some("ends with a space");
    }
    if first.is_ascii() && !first.is_ascii_alphanumeric() && first != b'_' {
        return Some("begins with neither a letter nor a digit nor '_'");
    }
    None
}
