//! Extended attributes.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;

use fuser::Request;
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use striate_stack::{Detail, Function};

use crate::backend::XattrAnswer;
use crate::source_fs::{SourceFs, magic, text};

/// Longer than any value the kernel takes.
const MOST: usize = 64 << 10;

/// Attributes that the kernel asks for by itself, with every access: they are not announced to
/// stages, and files that stages hold have none.
fn is_asked_by_itself(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.starts_with(b"security.") || name.starts_with(b"system.")
}

impl SourceFs {
    /// The value of an attribute; its length if `size` is 0.
    pub(crate) fn attribute(
        &self,
        id: u64,
        name: &OsStr,
        size: usize,
    ) -> Result<XattrAnswer, Errno> {
        let text = text(name)?;
        let ask = |descriptor: &Arc<OwnedFd>| {
            let path = magic(descriptor);
            answer(size, |room| rustix::fs::getxattr(&*path, &*text, room))
        };
        if is_asked_by_itself(name) {
            let is_virtual = self.nodes().get(id).is_some_and(|node| node.key.is_virtual());
            if is_virtual {
                return Err(Errno::NODATA);
            }
            return ask(&self.descriptor(id)?);
        }
        let detail = Detail::numbers(&[0, size as u64]).with_text(Some(Path::new(name)));
        self.reach(id, (Function::Xattr, detail), ask)
    }

    /// The names of all attributes, each with a zero after it; their length if `size` is 0.
    pub(crate) fn attribute_names(
        &self,
        request: &Request,
        id: u64,
        size: usize,
    ) -> Result<XattrAnswer, Errno> {
        let mut room = vec![0; MOST];
        let detail = Detail::numbers(&[2, MOST as u64]);
        let length = self.reach(id, (Function::Xattr, detail), |descriptor| {
            rustix::fs::listxattr(&*magic(descriptor), &mut room[..])
        })?;
        room.truncate(length);
        if request.uid() != 0 {
            // Only for the superuser, which we may be while the caller is not.
            room = room
                .split_inclusive(|byte| *byte == 0)
                .filter(|name| !name.starts_with(b"trusted."))
                .collect::<Vec<_>>()
                .concat();
        }
        match size {
            0 => Ok(XattrAnswer::Length(room.len() as u32)),
            size if room.len() > size => Err(Errno::RANGE),
            _ => Ok(XattrAnswer::Value(room)),
        }
    }

    pub(crate) fn set_attribute(
        &self,
        id: u64,
        name: &OsStr,
        value: &[u8],
        flags: i32,
    ) -> Result<(), Errno> {
        let detail = Detail::numbers(&[1, value.len() as u64]).with_text(Some(Path::new(name)));
        let (name, flags) = (text(name)?, XattrFlags::from_bits_retain(flags as u32));
        self.reach(id, (Function::Xattr, detail), |descriptor| {
            rustix::fs::setxattr(&*magic(descriptor), &*name, value, flags)
        })
    }

    pub(crate) fn remove_attribute(&self, id: u64, name: &OsStr) -> Result<(), Errno> {
        let detail = Detail::numbers(&[3]).with_text(Some(Path::new(name)));
        let name = text(name)?;
        self.reach(id, (Function::Xattr, detail), |descriptor| {
            rustix::fs::removexattr(&*magic(descriptor), &*name)
        })
    }
}

fn answer(
    size: usize,
    ask: impl FnOnce(&mut [u8]) -> Result<usize, Errno>,
) -> Result<XattrAnswer, Errno> {
    if size == 0 {
        return ask(&mut []).map(|length| XattrAnswer::Length(length as u32));
    }
    let mut room = vec![0; size.min(MOST)];
    let length = ask(&mut room)?;
    room.truncate(length);
    Ok(XattrAnswer::Value(room))
}
