//! The interface for layers above POSIX, which are other libraries in the process, to report their
//! calls: the two functions that [`striate_stack::layer`] describes.
//!
//! ```c
//! uint64_t striate_preload_layer_begin(void);
//! void striate_preload_layer_call(uint64_t start, const struct striate_layer_call *call);
//! ```
//!
//! The first returns the start time of a call of the program, or 0 if no stage wants such calls.
//! The second reports it when it has ended. Times are of the clock by which POSIX calls are
//! recorded, so that the calls it has caused can be found.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use striate_stack::layer::{ForeignCall, LayerCall, LayerFunction, NO_OFFSET};

use crate::path::may_be_there;
use crate::stack_entry::{self, StackEntry, guarded};

/// See the module.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn striate_preload_layer_begin() -> u64 {
    stack_entry::stack().and_then(striate_stack::Stack::layer_clock).unwrap_or(0)
}

/// See the module.
///
/// # Safety
/// `call` points to a structure as long as it says, whose path is null or a C string.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn striate_preload_layer_call(start: u64, call: *const ForeignCall) {
    // SAFETY: the caller's promise; the size comes first in all versions.
    if start == 0 || !may_be_there(call) || unsafe { (*call).size } < ForeignCall::SIZE {
        return;
    }
    // SAFETY: it is as long as this version at least.
    let told = unsafe { *call };
    let function = u16::try_from(told.function).ok().and_then(LayerFunction::of_code);
    let Some(function) = function else { return };
    let path = if may_be_there(told.path) {
        // SAFETY: the caller's promise.
        unsafe { CStr::from_ptr(told.path) }
    } else {
        c""
    };
    let Some(entered) = StackEntry::by_name() else { return };
    let Some(end) = entered.stack.layer_clock() else { return };
    let call = LayerCall {
        function,
        path: Path::new(OsStr::from_bytes(path.to_bytes())),
        file: told.file,
        offset: (told.offset != NO_OFFSET).then_some(told.offset),
        length: told.length,
        count: told.count,
        outcome: if told.error == 0 { Ok(told.moved) } else { Err(told.error) },
        start,
        end: end.max(start),
    };
    let _ = guarded(|| {
        entered.stack.layer_call(&call);
        Ok(0)
    });
}
