//! Start of the library, when the program is loaded, and its end.

use std::ffi::{c_int, c_void};
use std::path::Path;
use std::ptr::null_mut;

use striate_stack::Stack;

use crate::{fork, hooks, signals, stack_entry};

/// The loader calls this before the program's own code.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn() = start;

unsafe extern "C" {
    fn on_exit(function: extern "C" fn(c_int, *mut c_void), argument: *mut c_void) -> c_int;
}

extern "C" fn start() {
    hooks::find();
    let Some(path) = std::env::var_os("STRIATE_STACK").filter(|path| !path.is_empty()) else {
        return;
    };
    // Building reads files; there is no stack yet that could see it. What is closed is not the
    // program's.
    let _within = striate_stack::mark_within();
    match std::panic::catch_unwind(|| build(Path::new(&path))) {
        Ok(Ok(stack)) if stack.stages().is_empty() => {}
        Ok(Ok(stack)) => open_up(stack),
        Ok(Err(reason)) => complain(&reason),
        Err(_) => complain("the stack could not be built"),
    }
}

fn build(path: &Path) -> Result<Stack, String> {
    let configuration = striate_stages::read_stack(path);
    configuration.and_then(|configuration| configuration.build()).map_err(|error| error.to_string())
}

fn open_up(stack: Stack) {
    fork::watch();
    // Registered before the program starts, and for no library: it runs after all that the program
    // and its libraries have registered. It gets the exit status.
    // SAFETY: the function stays: this library is never unloaded.
    unsafe { on_exit(end, null_mut()) };
    let stack = stack_entry::open_up(stack);
    signals::watch(stack);
}

extern "C" fn end(status: c_int, _: *mut c_void) {
    // SAFETY: it is asked for all streams. The C library would do so after us.
    unsafe { libc::fflush(null_mut()) };
    let final_status = stack_entry::end_with(status);
    if final_status != status {
        // The C library goes on with what is still registered, and ends with the last status it was
        // given.
        // SAFETY: it lets functions that it calls at the end call this.
        unsafe { libc::exit(final_status) };
    }
}

/// One line, and the program goes on without stages.
fn complain(reason: &str) {
    let line = format!("striate: {}; running without stages\n", reason.trim().replace('\n', " "));
    // SAFETY: the line is there.
    unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
}
