//! [`CallerCredentials`]: new files belong to the caller of the request.
//!
//! The user and the group that a new file belongs to are those by which a thread uses file systems
//! (`setfsuid`, `setfsgid`). The kernel removes capabilities from a thread whose file system user
//! is not the superuser; the thread restores them, because permissions were checked when the
//! request was made, with all groups of the caller, which are not known here.

use fuser::Request;

use crate::source_fs::SourceFs;

const VERSION_3: u32 = 0x2008_0522;

/// The rights of a thread, as the kernel takes them.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct CapabilitySet {
    effective: u32,
    permitted: u32,
    inheritable: u32,
}

#[repr(C)]
struct CapabilityHeader {
    version: u32,
    thread: i32,
}

/// This thread makes files for the caller, until it is dropped.
#[derive(Debug)]
pub(crate) struct CallerCredentials {
    changed: bool,
}

impl CallerCredentials {
    pub(crate) fn new(door: &SourceFs, request: &Request) -> Self {
        let changed = door.serves_others && (request.uid(), request.gid()) != (0, 0);
        if changed {
            let rights = rights();
            set(libc::SYS_setfsgid, request.gid());
            set(libc::SYS_setfsuid, request.uid());
            if let Some(rights) = rights {
                set_rights(&rights);
            }
        }
        Self { changed }
    }
}

impl Drop for CallerCredentials {
    fn drop(&mut self) {
        if self.changed {
            set(libc::SYS_setfsuid, 0);
            set(libc::SYS_setfsgid, 0);
        }
    }
}

/// Of this thread only: the C library's own functions would change all.
fn set(call: libc::c_long, number: u32) {
    // SAFETY: a number.
    unsafe { libc::syscall(call, number) };
}

fn rights() -> Option<[CapabilitySet; 2]> {
    let mut whose = CapabilityHeader { version: VERSION_3, thread: 0 };
    let mut rights = [CapabilitySet::default(); 2];
    // SAFETY: both are as large as this version says.
    let asked = unsafe { libc::syscall(libc::SYS_capget, &raw mut whose, rights.as_mut_ptr()) };
    (asked == 0).then_some(rights)
}

fn set_rights(rights: &[CapabilitySet; 2]) {
    let mut whose = CapabilityHeader { version: VERSION_3, thread: 0 };
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_capset, &raw mut whose, rights.as_ptr()) };
}

/// The right to write to a file that has special rights without taking them away.
const KEEP_RIGHTS: u32 = 1 << 4;

/// Gives a file to the kernel so that writes to it take special rights away: it writes with the
/// rights of the thread that gave it, not those of the caller.
pub(crate) fn without_keeping_rights<R>(act: impl FnOnce() -> R) -> R {
    let rights = rights();
    if let Some(mut fewer) = rights {
        fewer[0].effective &= !KEEP_RIGHTS;
        set_rights(&fewer);
    }
    let result = act();
    if let Some(rights) = rights {
        set_rights(&rights);
    }
    result
}
