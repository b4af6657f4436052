//! [`PreopenedFile`]: a file that was open before the records of a cut trace begin.

use crate::call::TracedFile;
use crate::varint::{Input, push, push_bytes};

/// A file whose `open` is not among the records, as it was before the first of them that is on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreopenedFile {
    /// The file.
    pub file: TracedFile,
    /// Its position, as far as known.
    pub position: Option<u64>,
    /// Its size, as far as known.
    pub size: Option<u64>,
    /// Its descriptors in the process, as far as known.
    pub descriptors: Vec<i32>,
}

/// As the content of a block.
pub(crate) fn encode(preopened: &[PreopenedFile]) -> Vec<u8> {
    let mut bytes = Vec::new();
    push(&mut bytes, preopened.len() as u64);
    for PreopenedFile { file, position, size, descriptors } in preopened {
        push(&mut bytes, file.number);
        push(&mut bytes, file.opener.into());
        push_bytes(&mut bytes, file.path.as_os_str().as_encoded_bytes());
        push(&mut bytes, u64::from(file.flags as u32));
        for number in [position, size] {
            push(&mut bytes, number.map_or(0, |number| number.wrapping_add(1)));
        }
        push(&mut bytes, descriptors.len() as u64);
        for descriptor in descriptors {
            push(&mut bytes, crate::varint::fold((*descriptor).into()));
        }
    }
    bytes
}

pub(crate) fn decode(content: &[u8]) -> Option<Vec<PreopenedFile>> {
    let mut input = Input(content);
    let mut preopened = Vec::new();
    for _ in 0..input.number()? {
        let (number, opener) = (input.number()?, input.narrow()?);
        let path = crate::decoder::path(input.bytes()?);
        let flags = input.narrow()?.cast_signed();
        let position = input.number()?.checked_sub(1);
        let size = input.number()?.checked_sub(1);
        let mut descriptors = Vec::new();
        for _ in 0..input.number()? {
            descriptors.push(i32::try_from(input.signed()?).ok()?);
        }
        let file = TracedFile { opener, number, path, flags };
        preopened.push(PreopenedFile { file, position, size, descriptors });
    }
    Some(preopened)
}
