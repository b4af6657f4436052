//! [`Identities`]: device and inode numbers that the program was given for buffered files stay
//! valid.
//!
//! A buffered file has no inode, but programs ask for it, and some compare: HDF5 recognises by it
//! that it has a file open already. So a buffered file is given a number that no file system has,
//! and when it is written out and the program has seen its number, all results about the real file
//! are changed to that number from then on. This is a one-to-one mapping from real numbers to those
//! that the program has seen.
//!
//! The numbers hold the process, so that two processes do not use the same number for different
//! files. A forked process continues with the numbers of its parent.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use striate_process::lock::lock;
use striate_process::reopen::Identity;
use striate_stack::StatInto;

/// Where numbers of files that do not exist begin: no file system has as many.
const FIRST_INODE: u64 = 1 << 62;
/// So many bits of them count files; above are those of the process, of which Linux uses 22 at
/// most.
const OF_FILES: u32 = 36;

/// So many are remembered: the oldest are forgotten first.
const MOST: usize = 1 << 20;

/// A number for a file that this process holds, and for no other, whichever stage holds it.
pub(super) fn new_inode() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    inode(COUNT.fetch_add(1, Ordering::Relaxed))
}

fn inode(count: u64) -> u64 {
    let process = u64::from(std::process::id()) << OF_FILES;
    FIRST_INODE | process & (FIRST_INODE - 1) | count & ((1 << OF_FILES) - 1)
}

/// Files that are reported under other numbers.
#[derive(Debug, Default)]
pub(super) struct Identities {
    any: AtomicBool,
    known: Mutex<IdentityTable>,
}

#[derive(Debug, Default)]
struct IdentityTable {
    told: HashMap<Identity, ReportedIdentity>,
    /// The real ones in the order in which they became known.
    order: BTreeMap<u64, Identity>,
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct ReportedIdentity {
    identity: Identity,
    place: u64,
}

impl Identities {
    /// From now on this real file is reported under another number.
    pub(super) fn tell(&self, real: Identity, told: Identity) {
        let mut known = lock(&self.known);
        let known = &mut *known;
        known.next += 1;
        // A file system uses numbers of removed files again.
        if let Some(old) =
            known.told.insert(real, ReportedIdentity { identity: told, place: known.next })
        {
            known.order.remove(&old.place);
        }
        known.order.insert(known.next, real);
        if known.order.len() > MOST
            && let Some((_, oldest)) = known.order.pop_first()
        {
            known.told.remove(&oldest);
        }
        self.any.store(true, Ordering::Release);
    }

    /// Changes a result of the kernel to the number that the program has seen before.
    pub(super) fn correct(&self, into: &mut StatInto<'_>) {
        if !self.any.load(Ordering::Acquire) {
            return;
        }
        let Some(told) = lock(&self.known).told.get(&into.identity()).copied() else { return };
        let (device, inode) = told.identity;
        match into {
            StatInto::Stat(stat) => (stat.st_dev, stat.st_ino) = (device, inode),
            StatInto::Statx { buffer, .. } => {
                buffer.stx_dev_major = libc::major(device);
                buffer.stx_dev_minor = libc::minor(device);
                buffer.stx_ino = inode;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(identities: &Identities, real: Identity) -> Identity {
        // SAFETY: a structure of numbers.
        let mut stat: libc::stat = unsafe { std::mem::zeroed() };
        (stat.st_dev, stat.st_ino) = real;
        let mut into = StatInto::Stat(&mut stat);
        identities.correct(&mut into);
        let answer = into.identity();
        // SAFETY: as above.
        let mut buffer: libc::statx = unsafe { std::mem::zeroed() };
        (buffer.stx_dev_major, buffer.stx_dev_minor) = (libc::major(real.0), libc::minor(real.0));
        buffer.stx_ino = real.1;
        let mut into = StatInto::Statx { mask: 0, buffer: &mut buffer };
        identities.correct(&mut into);
        assert_eq!(into.identity(), answer);
        answer
    }

    #[test]
    fn files_are_told_to_be_who_they_were() {
        let identities = Identities::default();
        assert_eq!(asked(&identities, (7, 1)), (7, 1));
        identities.tell((7, 1), (7, inode(1)));
        identities.tell((8, 1), (7, inode(2)));
        assert_eq!(asked(&identities, (7, 1)), (7, inode(1)));
        assert_eq!(asked(&identities, (8, 1)), (7, inode(2)));
        assert_eq!(asked(&identities, (7, 2)), (7, 2));
        // The number is used again.
        identities.tell((7, 1), (7, inode(3)));
        assert_eq!(asked(&identities, (7, 1)), (7, inode(3)));
        assert_eq!(lock(&identities.known).order.len(), 2);
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let identities = Identities::default();
        for count in 0..MOST as u64 + 3 {
            identities.tell((7, count), (7, inode(count)));
        }
        assert_eq!(asked(&identities, (7, 2)), (7, 2));
        assert_eq!(asked(&identities, (7, 3)), (7, inode(3)));
        let known = lock(&identities.known);
        assert_eq!((known.told.len(), known.order.len()), (MOST, MOST));
    }

    #[test]
    fn numbers_differ_and_are_of_no_file_system() {
        assert!(inode(0) >= FIRST_INODE && new_inode() != new_inode());
        assert!(inode(u64::MAX) < FIRST_INODE << 1);
    }
}
