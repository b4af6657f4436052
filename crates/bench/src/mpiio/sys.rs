//! The C side: `peer/mpiio.c`.

use std::ffi::{c_char, c_int, c_void};

unsafe extern "C" {
    pub(super) safe fn striate_mpiio_is_openmpi() -> c_int;
    pub(super) safe fn striate_mpiio_is_running() -> c_int;
    pub(super) fn striate_mpiio_error_string(code: c_int, text: *mut c_char, room: c_int);
    pub(super) fn striate_mpiio_prefer(romio: c_int, saved: *mut c_int) -> c_int;
    pub(super) fn striate_mpiio_restore(saved: *const c_int);
    pub(super) fn striate_mpiio_errors_return(saved: *mut isize) -> c_int;
    pub(super) fn striate_mpiio_errors_restore(saved: *const isize);

    pub(super) safe fn striate_mpiio_byte() -> isize;
    pub(super) fn striate_mpiio_contiguous(count: c_int, child: isize, made: *mut isize) -> c_int;
    pub(super) fn striate_mpiio_hvector(
        count: c_int,
        block: c_int,
        stride: i64,
        child: isize,
        made: *mut isize,
    ) -> c_int;
    pub(super) fn striate_mpiio_hindexed_block(
        count: c_int,
        block: c_int,
        offsets: *const i64,
        child: isize,
        made: *mut isize,
    ) -> c_int;
    pub(super) fn striate_mpiio_hindexed(
        count: c_int,
        blocks: *const c_int,
        offsets: *const i64,
        child: isize,
        made: *mut isize,
    ) -> c_int;
    pub(super) fn striate_mpiio_struct(
        count: c_int,
        blocks: *const c_int,
        offsets: *const i64,
        children: *const isize,
        made: *mut isize,
    ) -> c_int;
    pub(super) fn striate_mpiio_resized(
        child: isize,
        lb: i64,
        extent: i64,
        made: *mut isize,
    ) -> c_int;
    pub(super) fn striate_mpiio_bounds(ty: isize, bounds: *mut i64) -> c_int;
    pub(super) fn striate_mpiio_commit(ty: isize) -> c_int;
    pub(super) fn striate_mpiio_free(ty: isize);
    pub(super) fn striate_mpiio_pack(
        memory: *const c_void,
        count: c_int,
        ty: isize,
        stream: *mut c_void,
        room: c_int,
        position: *mut c_int,
    ) -> c_int;
    pub(super) fn striate_mpiio_unpack(
        stream: *const c_void,
        len: c_int,
        position: *mut c_int,
        memory: *mut c_void,
        count: c_int,
        ty: isize,
    ) -> c_int;

    pub(super) fn striate_mpiio_open(
        romio: c_int,
        path: *const c_char,
        create: c_int,
        hints: *const *const c_char,
        count: c_int,
        file: *mut isize,
        found: *mut c_int,
    ) -> c_int;
    pub(super) fn striate_mpiio_implementation(file: isize) -> *const c_char;
    pub(super) fn striate_mpiio_hint(
        file: isize,
        index: c_int,
        name: *mut c_char,
        name_room: c_int,
        value: *mut c_char,
        value_room: c_int,
        found: *mut c_int,
    ) -> c_int;
    pub(super) fn striate_mpiio_close(file: isize) -> c_int;
    pub(super) fn striate_mpiio_sync(file: isize) -> c_int;
    pub(super) fn striate_mpiio_set_view(file: isize, displacement: i64, filetype: isize) -> c_int;
    pub(super) fn striate_mpiio_write(
        file: isize,
        collective: c_int,
        offset: i64,
        memory: *const c_void,
        count: c_int,
        ty: isize,
        bytes: *mut i64,
    ) -> c_int;
    pub(super) fn striate_mpiio_read(
        file: isize,
        collective: c_int,
        offset: i64,
        memory: *mut c_void,
        count: c_int,
        ty: isize,
        bytes: *mut i64,
    ) -> c_int;
}
