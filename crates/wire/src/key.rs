//! [`Key`]: the secret that clients and servers of one installation share.

use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use hmac::{Hmac, Mac};
use sha2::Sha256;
use thiserror::Error;
use zeroize::Zeroizing;

/// Fewest bytes of a key.
const LEAST: usize = 16;

/// Most bytes of a key; a longer file is not a key but a mistake.
const MOST: usize = 4096;

/// A secret that is shared by clients and servers. It is wiped from memory when dropped, and no
/// message shows it.
#[derive(Clone)]
pub struct Key(Zeroizing<Vec<u8>>);

/// Why there is no key.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// The file cannot be read.
    #[error("cannot read the key from {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Users other than the owner can read or change the file.
    #[error(
        "the key in {} is not secret, since other users may use the file (mode {mode:03o}): chmod 600 {}",
        path.display(),
        path.display()
    )]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// Too short to be a secret, or too long to be meant as one.
    #[error("a key has {LEAST} to {MOST} bytes, not {0}")]
    Length(usize),
}

impl Key {
    /// The key in a file: all of it but newlines at the end. Only its owner may use the file.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Self, KeyError> {
        let path = path.as_ref();
        let failed = |source| KeyError::Io { path: path.to_owned(), source };
        let file = File::open(path).map_err(failed)?;
        // Of the open file, so that it cannot be exchanged after the check.
        let mode = file.metadata().map_err(failed)?.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(KeyError::NotPrivate { path: path.to_owned(), mode });
        }
        // Capacity for all that can come: a vector that grows would leave copies of the key in
        // memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(MOST + 3));
        file.take(MOST as u64 + 2).read_to_end(&mut bytes).map_err(failed)?;
        Self::from_bytes(&bytes)
    }

    /// The key of these bytes without newlines at the end.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        let line_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let len = bytes.iter().rposition(|byte| !line_end(byte)).map_or(0, |last| last + 1);
        if (LEAST..=MOST).contains(&len) {
            Ok(Self(Zeroizing::new(bytes[..len].to_vec())))
        } else {
            Err(KeyError::Length(len))
        }
    }

    /// A code of the parts that cannot be made or checked without the key.
    pub(crate) fn authenticate(&self, parts: &[&[u8]]) -> Hmac<Sha256> {
        let mut code =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in parts {
            code.update(part);
        }
        code
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_private_file_of_enough_bytes_is_a_key() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        let write = |bytes: &[u8], mode| {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            Key::from_file(&path)
        };
        let key = write(b"0123456789abcdef\n", 0o600).unwrap();
        assert_eq!(*key.0, b"0123456789abcdef");
        assert!(!format!("{key:?}").contains("0123"));
        assert_eq!(write(&[1; MOST], 0o400).unwrap().0.len(), MOST);

        assert!(matches!(write(&[1; MOST + 1], 0o600), Err(KeyError::Length(_))));
        assert!(matches!(write(b"0123456789abcde\n", 0o600), Err(KeyError::Length(15))));
        assert!(matches!(write(b"\n\n", 0o600), Err(KeyError::Length(0))));
        for mode in [0o640, 0o604, 0o620, 0o601] {
            let text = write(b"0123456789abcdef", mode).unwrap_err().to_string();
            assert!(text.contains(&format!("chmod 600 {}", path.display())), "{text}");
        }
        let text = Key::from_file(directory.path().join("none")).unwrap_err().to_string();
        assert!(text.contains("none"), "{text}");
    }
}
