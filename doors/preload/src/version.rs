//! The version of the library, readable in its file: `striate doctor` compares it with that of the
//! command.

/// A line that begins with words which no other part of the library has.
#[used]
#[unsafe(no_mangle)]
pub(crate) static STRIATE_PRELOAD_VERSION: [u8; TEXT.len()] = bytes();

const TEXT: &str = concat!("striate-preload version ", env!("CARGO_PKG_VERSION"), "\n");

const fn bytes() -> [u8; TEXT.len()] {
    let mut bytes = [0; TEXT.len()];
    bytes.copy_from_slice(TEXT.as_bytes());
    bytes
}
