//! [`RecordedCall`]: a call of MPI-IO, for a trace of the process.
//!
//! The preload door, if it is in the process, records the POSIX calls that are made here, and the
//! call of MPI-IO that is reported to it. It is looked up once, by the names of its functions;
//! without it, or without a trace, a call costs a branch.
//!
//! ```ignore
//! let call = call_record::RecordedCall::begin(call_record::Function::MpiWriteAtAll);
//! let outcome = …;
//! call.end(&file.name, &Done { file: file.number, offset: Some(offset), length, count, outcome });
//! ```

use std::ffi::{CStr, CString, OsStr, c_int, c_void};
use std::mem::transmute;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, absolute};
use std::sync::OnceLock;

pub(crate) use striate_calls::layer::LayerFunction as Function;
use striate_calls::layer::{BEGIN, Begin, ForeignCall, NO_OFFSET, TELL, Tell};

/// The functions of the preload door that records this process.
#[derive(Clone, Copy, Debug)]
struct Recorder {
    begin: Begin,
    tell: Tell,
}

/// The recorder of this process, if there is one.
#[inline]
fn recorder() -> Option<Recorder> {
    static RECORDER: OnceLock<Option<Recorder>> = OnceLock::new();
    *RECORDER.get_or_init(|| {
        let (begin, tell) = (function(BEGIN)?, function(TELL)?);
        // SAFETY: functions of these names have these types: both doors have them from one place.
        unsafe {
            Some(Recorder {
                begin: transmute::<*mut c_void, Begin>(begin),
                tell: transmute::<*mut c_void, Tell>(tell),
            })
        }
    })
}

/// A function of any library in the process.
fn function(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the name is a C string.
    let address = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!address.is_null()).then_some(address)
}

/// The name of a file in recordings, made once, when the file is opened.
#[derive(Clone, Debug, Default)]
pub(crate) struct Name(CString);

impl Name {
    /// That of a path as the program gave it, or of a file elsewhere (`striate://…`).
    pub(crate) fn new(path: &[u8]) -> Self {
        let elsewhere = path.windows(3).any(|part| part == b"://");
        let text = match absolute(Path::new(OsStr::from_bytes(path))) {
            // Recordings are read in other directories.
            Ok(path) if !elsewhere => path.into_os_string().into_vec(),
            _ => path.to_vec(),
        };
        Self(CString::new(text).unwrap_or_default())
    }
}

/// The record of a call that has ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    /// Identifies the files that the process has open; 0 if the call is on none (open, delete).
    pub(crate) file: u64,
    /// Where, as the call said it, in units of the view; the displacement of `set_view`.
    pub(crate) offset: Option<i64>,
    /// Bytes that were asked for; of `set_size` and `preallocate`, the size.
    pub(crate) length: u64,
    /// Elements that were asked for.
    pub(crate) count: u64,
    /// Bytes that were moved, or the class of the error.
    pub(crate) outcome: Result<u64, c_int>,
}

/// A call of the program that has begun. One that is dropped is not recorded.
#[derive(Debug)]
#[must_use]
pub(crate) struct RecordedCall {
    function: Function,
    /// 0 if nothing is recorded.
    start: u64,
}

impl RecordedCall {
    /// It begins.
    #[inline]
    pub(crate) fn begin(function: Function) -> Self {
        let start = match recorder() {
            // SAFETY: it may be called at any time, by any thread.
            Some(recorder) => unsafe { (recorder.begin)() },
            None => 0,
        };
        Self { function, start }
    }

    /// Whether the call is recorded.
    #[inline]
    pub(crate) const fn is_recorded(&self) -> bool {
        self.start != 0
    }

    /// It has ended.
    #[inline]
    pub(crate) fn end(self, name: &Name, done: &Done) {
        if self.is_recorded() {
            self.tell(name, done);
        }
    }

    #[cold]
    fn tell(self, name: &Name, done: &Done) {
        let Some(recorder) = recorder() else { return };
        let call = ForeignCall {
            size: ForeignCall::SIZE,
            function: self.function as u32,
            path: name.0.as_ptr(),
            file: done.file,
            offset: done.offset.unwrap_or(NO_OFFSET),
            length: done.length,
            count: done.count,
            moved: done.outcome.unwrap_or(0),
            error: done.outcome.err().unwrap_or(0),
            reserved: 0,
        };
        // SAFETY: the structure and its text are there while the call lasts.
        unsafe { (recorder.tell)(self.start, &raw const call) };
    }
}
