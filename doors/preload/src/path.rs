//! [`absolute`]: absolute paths, as stages compare them.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use smallvec::SmallVec;

/// The longest path that the kernel takes, with its end.
pub(crate) const MOST: usize = libc::PATH_MAX as usize;

/// Memory for a path. Threads may have small stacks.
pub(crate) struct PathBuffer(SmallVec<[u8; 256]>);

impl PathBuffer {
    pub(crate) fn new() -> Self {
        Self(SmallVec::new())
    }

    /// Adds parts of a path, without `.` and `..`.
    fn add(&mut self, path: &[u8]) {
        for part in path.split(|byte| *byte == b'/') {
            match part {
                b"" | b"." => {}
                b".." => {
                    let parent = self.0.iter().rposition(|byte| *byte == b'/');
                    self.0.truncate(parent.unwrap_or(0));
                }
                part => {
                    self.0.push(b'/');
                    self.0.extend_from_slice(part);
                }
            }
        }
    }

    fn path(&self) -> &Path {
        let bytes = if self.0.is_empty() { b"/" } else { self.0.as_slice() };
        Path::new(OsStr::from_bytes(bytes))
    }
}

/// Whether something may be at an address at all: the first page and the kernel's half of the
/// memory are never the program's. What is not there is left to the kernel, which says so.
#[inline(always)]
pub(crate) fn may_be_there<T>(address: *const T) -> bool {
    address as isize >= 4096
}

/// The text that a program points to; `None` if the kernel would not take it.
///
/// # Safety
/// It is nowhere ([`may_be_there`]), or the start of a C string that stays while `'a` lasts.
pub(crate) unsafe fn text<'a>(path: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller's promise.
    let text = unsafe { may_be_there(path).then(|| CStr::from_ptr(path))? };
    (1..MOST).contains(&text.to_bytes().len()).then_some(text)
}

/// A path from the root on, without `.`, `..` and `//`; links in it are not followed. `None` if it
/// cannot be known: then the call is the kernel's, which knows what is wrong.
pub(crate) fn absolute<'r>(
    directory: c_int,
    path: &CStr,
    room: &'r mut PathBuffer,
) -> Option<&'r Path> {
    let path = path.to_bytes();
    room.0.clear();
    if path.first() != Some(&b'/') {
        let start = start_of(directory).ok()?;
        // What cannot be reached from the root does not start there.
        room.add(start.strip_prefix(b"/")?);
    }
    room.add(path);
    Some(room.path())
}

/// Where a relative path starts.
fn start_of(directory: c_int) -> Result<SmallVec<[u8; 256]>, Errno> {
    let link;
    let ask: &dyn Fn(&mut [u8]) -> Result<usize, Errno> = if directory == libc::AT_FDCWD {
        &current
    } else if directory < 0 {
        return Err(Errno::BADF);
    } else {
        link = format!("/proc/self/fd/{directory}");
        &|start| rustix::fs::readlinkat_raw(rustix::fs::CWD, &link, start)
    };
    let mut start = SmallVec::from([0; 256]);
    match ask(&mut start) {
        Ok(length) if length < start.len() => start.truncate(length),
        Err(Errno::RANGE) | Ok(_) => {
            start.resize(MOST, 0);
            let length = ask(&mut start)?;
            start.truncate(length);
        }
        Err(error) => return Err(error),
    }
    Ok(start)
}

/// The current directory.
fn current(start: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes no more than the given length.
    let length = unsafe { libc::syscall(libc::SYS_getcwd, start.as_mut_ptr(), start.len()) };
    // The length counts the end.
    usize::try_from(length - 1).map_err(|_| Errno::from_raw_os_error(crate::errno::get()))
}

/// The descriptor of this process that a path may stand for.
pub(crate) fn descriptor_of(path: &CStr) -> Option<c_int> {
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    if !leads_to_descriptors(path) {
        return None;
    }
    path.file_name()?.to_str()?.parse().ok()
}

/// Whether a path is one of the system's by which descriptors of processes are opened again.
pub(crate) fn leads_to_descriptors(absolute: &Path) -> bool {
    let bytes = absolute.as_os_str().as_bytes();
    bytes.starts_with(b"/dev/fd/")
        || bytes.starts_with(b"/proc/") && bytes.windows(4).any(|part| part == b"/fd/")
}
