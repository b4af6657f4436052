//! [`MountId`]: which mount is at a mount point.
//!
//! The kernel reuses the number of a mount, and that of its device, as soon as it is unmounted: two
//! successive mounts at one point usually have the same numbers. Since Linux 6.8 there is a number
//! that is never reused. Before that, a process that compares numbers must know by other means that
//! its own mount still exists, in which case the numbers cannot be those of another.

use std::ffi::CStr;

use serde::{Deserialize, Serialize};

/// Either of the two numbers. The kernel gives the second one for both if it knows that.
const KNOWN: u32 = libc::STATX_MNT_ID | libc::STATX_MNT_ID_UNIQUE;

/// Which mount is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MountId {
    number: u64,
    device: u64,
    /// Whether the number is never given to another.
    pub(crate) unique: bool,
}

impl MountId {
    /// So many bytes stand for one.
    pub(crate) const BYTES: usize = 17;

    /// The mount that is at a place. It makes one system call, and allocates nothing.
    pub(crate) fn at(place: &CStr) -> Option<Self> {
        // What the server would say is not asked for: it may be dead.
        let about = ask(place, libc::AT_STATX_DONT_SYNC, KNOWN)?;
        (about.stx_mask & KNOWN != 0).then_some(Self {
            number: about.stx_mnt_id,
            device: libc::makedev(about.stx_dev_major, about.stx_dev_minor),
            unique: about.stx_mask & libc::STATX_MNT_ID_UNIQUE != 0,
        })
    }

    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [u8::from(self.unique); Self::BYTES];
        bytes[..8].copy_from_slice(&self.number.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.device.to_ne_bytes());
        bytes
    }

    pub(crate) fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let number = |from: usize| {
            let mut number = [0; 8];
            number.copy_from_slice(&bytes[from..from + 8]);
            u64::from_ne_bytes(number)
        };
        Self { number: number(0), device: number(8), unique: bytes[16] == 1 }
    }
}

/// Whether what is mounted at a place has no server any more. It waits for the server if there is
/// one.
pub(crate) fn is_dead(place: &CStr) -> bool {
    // The server is asked only for what it knows.
    ask(place, libc::AT_STATX_FORCE_SYNC, libc::STATX_BASIC_STATS).is_none()
        && matches!(
            std::io::Error::last_os_error().raw_os_error(),
            Some(libc::ENOTCONN | libc::ECONNABORTED)
        )
}

fn ask(place: &CStr, flags: i32, wanted: u32) -> Option<libc::statx> {
    let mut about = crate::source_fs::identity::empty();
    let flags = flags | libc::AT_NO_AUTOMOUNT | libc::AT_SYMLINK_NOFOLLOW;
    // SAFETY: the text and the buffer for the answer are valid.
    let asked =
        unsafe { libc::statx(libc::AT_FDCWD, place.as_ptr(), flags, wanted, &raw mut about) };
    (asked == 0).then_some(about)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_of_one_mount_have_one_id() {
        let root = MountId::at(c"/").unwrap();
        assert_eq!(MountId::at(c"/."), Some(root));
        assert_ne!(MountId::at(c"/proc"), Some(root));
        assert_eq!(MountId::at(c"/nowhere/at/all"), None);
        assert_eq!(MountId::from_bytes(&root.to_bytes()), root);
    }
}
