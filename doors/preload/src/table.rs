//! The table of descriptors: which of them stand for files that stages want.
//!
//! Looking up is a load. Who uses what was found is within the stack ([`Stack::enter_from_outside`]) and looks
//! again there: what is taken out of the table is kept until all have left who were within then.

use std::ffi::c_int;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use striate_stack::{OpenFile, Stack, mark_within};

use crate::spin::Spin;

/// Descriptors from here on are not seen by stages. Linux does not give more to a process unless told to.
/// What is not used of the table takes no memory.
const MOST: usize = 1 << 20;

static FILES: [AtomicPtr<OpenFile>; MOST] = [const { AtomicPtr::new(null_mut()) }; MOST];

/// The largest descriptor that ever was in the table.
static LARGEST: AtomicI32 = AtomicI32::new(-1);

/// Files that were taken out of the table, with the places where somebody may still use them.
static LEFT: Spin<Vec<(u64, Arc<OpenFile>)>> = Spin::new(Vec::new());

/// A file of the table. It is only used within the stack.
pub(crate) type Found = ManuallyDrop<Arc<OpenFile>>;

/// Whether a descriptor is one that a stage wants.
#[inline(always)]
pub(crate) fn has(descriptor: c_int) -> bool {
    FILES
        .get(descriptor as u32 as usize)
        .is_some_and(|file| !file.load(Ordering::Relaxed).is_null())
}

/// The file of a descriptor. The caller is within the stack for as long as it uses it.
#[inline]
pub(crate) fn get(descriptor: c_int) -> Option<Found> {
    let file = FILES.get(descriptor as u32 as usize)?.load(Ordering::SeqCst);
    // SAFETY: the table holds a count of it, which is not given up while the caller is within the stack.
    (!file.is_null()).then(|| ManuallyDrop::new(unsafe { Arc::from_raw(file) }))
}

/// Puts a file into the table; the caller is within the stack. What was there before was closed by ways that
/// we do not see. `Err` has the file if the table is not large enough.
pub(crate) fn put(
    stack: &Stack,
    descriptor: c_int,
    file: Arc<OpenFile>,
) -> Result<(), Arc<OpenFile>> {
    let Some(place) = FILES.get(descriptor as u32 as usize) else {
        return Err(file);
    };
    LARGEST.fetch_max(descriptor, Ordering::SeqCst);
    let before = place.swap(Arc::into_raw(file).cast_mut(), Ordering::SeqCst);
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
    let place = FILES.get(descriptor as u32 as usize)?;
    let file = place.swap(null_mut(), Ordering::SeqCst);
    // SAFETY: the table held a count of it.
    (!file.is_null()).then(|| unsafe { Arc::from_raw(file) })
}

/// The descriptors in the table, from `first` to `last`.
pub(crate) fn descriptors(first: c_int, last: c_int) -> impl Iterator<Item = c_int> {
    let last = last.min(LARGEST.load(Ordering::SeqCst));
    (first.max(0)..=last).filter(|descriptor| has(*descriptor))
}

/// Gives up files that were taken out, now or when nobody can use them any more. The caller is not
/// within the stack.
pub(crate) fn retire(stack: &Stack, file: Arc<OpenFile>) {
    let marked = mark_within();
    let busy = stack.busy();
    let mut unused: smallvec::SmallVec<[Arc<OpenFile>; 4]> = smallvec::SmallVec::new();
    LEFT.with(|left| {
        if busy == 0 {
            unused.push(file);
        } else {
            left.push((busy, file));
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
    // Stages may do something when what they left with a file goes.
    let within = stack.enter();
    drop(unused);
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
