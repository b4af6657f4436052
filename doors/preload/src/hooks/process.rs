//! Starting other programs, and ending this one.

use std::ffi::{c_char, c_int, c_void};

use libc::pid_t;

use crate::stack_entry::Shared;
use crate::{fork, stack_entry};

type Texts = *const *const c_char;

/// Another program is about to be started, with descriptors put in place for it or not.
fn before_spawn(actions: *const c_void) {
    // The actions may make descriptors inherited that would not be.
    let which = if actions.is_null() { Shared::Inherited } else { Shared::All };
    stack_entry::share_all(which);
}

hooks! {
    fn [posix_spawn, posix_spawnp](
        process: *mut pid_t,
        program: *const c_char,
        actions: *const c_void,
        attributes: *const c_void,
        arguments: Texts,
        environment: Texts,
    ) -> c_int, real {
        before_spawn(actions);
        real(process, program, actions, attributes, arguments, environment)
    }

    fn [system](command: *const c_char) -> c_int, real {
        fork::before_program();
        real(command)
    }

    fn [popen](command: *const c_char, mode: *const c_char) -> *mut c_void, real {
        fork::before_program();
        real(command, mode)
    }

    fn [execve](program: *const c_char, arguments: Texts, environment: Texts) -> c_int, real {
        fork::before_exec();
        real(program, arguments, environment)
    }

    fn [execv, execvp](program: *const c_char, arguments: Texts) -> c_int, real {
        fork::before_exec();
        real(program, arguments)
    }

    fn [execvpe](program: *const c_char, arguments: Texts, environment: Texts) -> c_int, real {
        fork::before_exec();
        real(program, arguments, environment)
    }

    fn [fexecve](program: c_int, arguments: Texts, environment: Texts) -> c_int, real {
        fork::before_exec();
        real(program, arguments, environment)
    }

    fn [execveat](
        directory: c_int,
        program: *const c_char,
        arguments: Texts,
        environment: Texts,
        flags: c_int,
    ) -> c_int, real {
        fork::before_exec();
        real(directory, program, arguments, environment, flags)
    }

    // These end the process without what is registered for its end.
    fn [_exit, _Exit](status: c_int) -> !, real {
        real(stack_entry::end_with(status))
    }

    // What is registered for this end may still use files.
    fn [quick_exit](status: c_int) -> !, real {
        real(stack_entry::end_with(status))
    }

    // A handler of the program may still use files, and even keep it from ending.
    fn [abort]() -> !, real {
        stack_entry::share_all(Shared::All);
        real()
    }
}
