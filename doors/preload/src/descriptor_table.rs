//! The table of the program's descriptors: which of them are files that stages want.
//!
//! A lookup is a load, and so is the question whether any stage wants calls of a kind. A thread
//! that uses an entry is within the stack ([`Stack::enter_from_outside`]) and checks again there: a
//! file that is removed from the table is kept until all threads that were within the stack at that
//! time have left it.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering};

use striate_stack::{Kind, OpenFile, Stack, mark_within};

use crate::spin::Spin;

/// Descriptors from here on are not seen by stages. Linux does not give more to a process unless
/// told to. What is not used of the table takes no memory.
const MOST: usize = 1 << 20;

/// What a descriptor stands for.
struct Entry {
    file: AtomicPtr<OpenFile>,
    /// The kinds of calls that stages want, as bits, or some that none wants any more: the file
    /// knows better.
    wanted: AtomicU32,
}

static ENTRIES: [Entry; MOST] =
    [const { Entry { file: AtomicPtr::new(null_mut()), wanted: AtomicU32::new(0) } }; MOST];

/// The largest descriptor that ever was in the table.
static LARGEST: AtomicI32 = AtomicI32::new(-1);

/// Files that were taken out of the table, with the threads that may still use them.
static LEFT: Spin<Vec<(u64, Arc<OpenFile>)>> = Spin::new(Vec::new());

/// From so many on, `retire` waits until no thread can use them.
const MOST_LEFT: usize = 1024;

/// A file in the table. It is used within the stack only.
pub(crate) type TableFile = ManuallyDrop<Arc<OpenFile>>;

/// Whether a descriptor is one that a stage wants.
#[inline(always)]
pub(crate) fn has(descriptor: c_int) -> bool {
    ENTRIES
        .get(descriptor as u32 as usize)
        .is_some_and(|entry| !entry.file.load(Ordering::Relaxed).is_null())
}

/// Whether a stage may want calls of a kind on a descriptor.
#[inline(always)]
pub(crate) fn wants(descriptor: c_int, kind: Kind) -> bool {
    ENTRIES
        .get(descriptor as u32 as usize)
        .is_some_and(|entry| entry.wanted.load(Ordering::Relaxed) >> kind as u32 & 1 != 0)
}

/// The file of a descriptor. The caller is within the stack for as long as it uses it.
#[inline]
pub(crate) fn get(descriptor: c_int) -> Option<TableFile> {
    let file = ENTRIES.get(descriptor as u32 as usize)?.file.load(Ordering::SeqCst);
    // SAFETY: the table holds a count of it, which is not given up while the caller is within the
    // stack.
    (!file.is_null()).then(|| ManuallyDrop::new(unsafe { Arc::from_raw(file) }))
}

/// Puts a file into the table; the caller is within the stack. What was there before was closed by
/// ways that we do not see. `Err` has the file if the table is not large enough.
pub(crate) fn put(
    stack: &Stack,
    descriptor: c_int,
    file: Arc<OpenFile>,
) -> Result<(), Arc<OpenFile>> {
    let Some(entry) = ENTRIES.get(descriptor as u32 as usize) else {
        return Err(file);
    };
    LARGEST.fetch_max(descriptor, Ordering::SeqCst);
    let wanted = file.full_route().kinds().iter().fold(0, |bits, kind| bits | 1 << kind as u32);
    let before = entry.file.swap(Arc::into_raw(file).cast_mut(), Ordering::SeqCst);
    entry.wanted.store(wanted, Ordering::Release);
    if !before.is_null() {
        // SAFETY: the table held a count of it.
        let before = unsafe { Arc::from_raw(before) };
        before.lose_descriptor(descriptor);
        LEFT.with(|left| left.push((stack.busy(), before)));
    }
    Ok(())
}

/// Takes a file out of the table. It has to be [`retire`]d when the caller is not within any more.
pub(crate) fn take(descriptor: c_int) -> Option<Arc<OpenFile>> {
    let entry = ENTRIES.get(descriptor as u32 as usize)?;
    entry.wanted.store(0, Ordering::Relaxed);
    let file = entry.file.swap(null_mut(), Ordering::SeqCst);
    // SAFETY: the table held a count of it.
    (!file.is_null()).then(|| unsafe { Arc::from_raw(file) })
}

/// The descriptors in the table, from `first` to `last`.
pub(crate) fn descriptors(first: c_int, last: c_int) -> impl Iterator<Item = c_int> {
    let last = last.min(LARGEST.load(Ordering::SeqCst));
    (first.max(0)..=last).filter(|descriptor| has(*descriptor))
}

/// Gives up files that were taken out, now or when no thread can use them any more. The caller is
/// not within the stack.
pub(crate) fn retire(stack: &Stack, file: Arc<OpenFile>) {
    let marked = mark_within();
    let busy = stack.busy();
    let mut too_many = Vec::new();
    let mut unused: smallvec::SmallVec<[Arc<OpenFile>; 4]> = smallvec::SmallVec::new();
    LEFT.with(|left| {
        if busy == 0 {
            unused.push(file);
        } else {
            left.push((busy, file));
        }
        if left.len() > MOST_LEFT {
            too_many = std::mem::take(left);
        }
        left.retain_mut(|(users, file)| {
            *users &= busy;
            if *users == 0 {
                unused.push(Arc::clone(file));
            }
            *users != 0
        });
    });
    drop(marked);
    if !too_many.is_empty() {
        stack.wait_for_others();
    }
    // Stages may do something when what they left with a file goes.
    let within = stack.enter();
    drop(unused);
    drop(too_many);
    drop(within);
}

/// Keeps the table as it is while the process is copied.
pub(crate) fn hold() {
    LEFT.hold();
}

/// See [`hold`].
pub(crate) fn let_go() {
    LEFT.let_go();
}
