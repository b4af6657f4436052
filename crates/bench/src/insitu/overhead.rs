//! The cost of a call: the intercepted function compared with that of the C library.
//!
//! Both are called in blocks that take turns, so that noise of the machine affects both.

use std::ffi::{CStr, c_int, c_void};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::hint::black_box;
use std::io;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::Instant;

use nix::libc::{self, off_t, size_t, ssize_t};

/// Calls in a block.
const BLOCK: u32 = 1000;

/// Bytes of a request: so few that the call itself is what takes time.
const BYTES: usize = 8;

/// A function that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `pread`
    Pread,
    /// `pwrite`
    Pwrite,
    /// `write`, at the position, which goes on and on.
    Write,
    /// `lseek`
    Lseek,
}

impl Function {
    /// All of them.
    pub(super) const ALL: [Self; 4] = [Self::Pread, Self::Pwrite, Self::Write, Self::Lseek];

    /// Its name in C.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pread => "pread",
            Self::Pwrite => "pwrite",
            Self::Write => "write",
            Self::Lseek => "lseek",
        }
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|function| function.name() == name)
    }
}

type PositionedFn = unsafe extern "C" fn(c_int, *mut c_void, size_t, off_t) -> ssize_t;
type Plain = unsafe extern "C" fn(c_int, *const c_void, size_t) -> ssize_t;
type Seek = unsafe extern "C" fn(c_int, off_t, c_int) -> off_t;

/// A function, as something that can be called.
#[derive(Clone, Copy)]
enum CFunction {
    Positioned(PositionedFn),
    Plain(Plain),
    Seek(Seek),
}

impl CFunction {
    /// The one that this program got when it was loaded.
    fn bound(function: Function) -> Self {
        match function {
            Function::Pread => Self::Positioned(libc::pread),
            // SAFETY: the two differ in whether the memory may be changed, which makes no
            // difference to a call.
            Function::Pwrite => Self::Positioned(unsafe {
                std::mem::transmute::<
                    unsafe extern "C" fn(c_int, *const c_void, size_t, off_t) -> ssize_t,
                    PositionedFn,
                >(libc::pwrite)
            }),
            Function::Write => Self::Plain(libc::write),
            Function::Lseek => Self::Seek(libc::lseek),
        }
    }

    /// That of the C library, whatever else was loaded before it.
    fn of_libc(function: Function) -> io::Result<Self> {
        let name: &CStr = match function {
            Function::Pread => c"pread",
            Function::Pwrite => c"pwrite",
            Function::Write => c"write",
            Function::Lseek => c"lseek",
        };
        // SAFETY: the library is already loaded, and is not unloaded.
        let symbol = unsafe {
            let library = libc::dlopen(c"libc.so.6".as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL);
            if library.is_null() {
                std::ptr::null_mut()
            } else {
                libc::dlsym(library, name.as_ptr())
            }
        };
        if symbol.is_null() {
            return Err(io::Error::other(format!("libc.so.6 has no {}", function.name())));
        }
        // SAFETY: these are the functions of these names, as the C library declares them.
        unsafe {
            Ok(match function {
                Function::Pread | Function::Pwrite => {
                    Self::Positioned(std::mem::transmute::<*mut c_void, PositionedFn>(symbol))
                }
                Function::Write => Self::Plain(std::mem::transmute::<*mut c_void, Plain>(symbol)),
                Function::Lseek => Self::Seek(std::mem::transmute::<*mut c_void, Seek>(symbol)),
            })
        }
    }

    /// Nanoseconds that a call takes, over a block of them.
    fn time(self, descriptor: c_int) -> io::Result<f64> {
        let mut bytes = [0u8; BYTES];
        let memory: *mut c_void = bytes.as_mut_ptr().cast();
        let mut least = isize::MAX;
        let start = Instant::now();
        // SAFETY: the memory is valid, and as large as stated.
        unsafe {
            match black_box(self) {
                Self::Positioned(call) => {
                    for _ in 0..BLOCK {
                        least = least.min(call(descriptor, memory, BYTES, 0));
                    }
                }
                Self::Plain(call) => {
                    for _ in 0..BLOCK {
                        least = least.min(call(descriptor, memory, BYTES));
                    }
                }
                Self::Seek(call) => {
                    for _ in 0..BLOCK {
                        least = least.min(call(descriptor, 0, libc::SEEK_CUR) as isize);
                    }
                }
            }
        }
        let time = start.elapsed();
        if least < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(time.as_nanos() as f64 / f64::from(BLOCK))
    }
}

/// Measures a function on a file of its own. A line for each round: what a call took by that of the
/// C library, and by that which this program got.
pub(super) fn measure(function: Function, rounds: usize, path: &Path) -> io::Result<String> {
    let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
    let descriptor = file.as_raw_fd();
    let (plain, bound) = (CFunction::of_libc(function)?, CFunction::bound(function));
    CFunction::bound(Function::Write).time(descriptor)?;
    let mut lines = String::new();
    for round in 0..=rounds {
        // Each of the two is first in every other round.
        let times = if round % 2 == 0 {
            let first = plain.time(descriptor)?;
            [first, bound.time(descriptor)?]
        } else {
            let first = bound.time(descriptor)?;
            [plain.time(descriptor)?, first]
        };
        // The first warms up.
        if round > 0 {
            let _ = writeln!(lines, "{} {}", times[0], times[1]);
        }
        if function == Function::Write && round % 64 == 63 {
            file.set_len(0)?;
        }
    }
    drop(file);
    fs::remove_file(path)?;
    Ok(lines)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_functions_are_called() {
        let directory = tempfile::tempdir().unwrap();
        for function in Function::ALL {
            assert_eq!(Function::named(function.name()), Some(function));
            let lines = measure(function, 3, &directory.path().join("file")).unwrap();
            assert_eq!(lines.lines().count(), 3);
            let fine = |word: &str| word.parse::<f64>().is_ok_and(|time| time > 0.0);
            assert!(lines.split_whitespace().all(fine), "{lines}");
        }
    }
}
