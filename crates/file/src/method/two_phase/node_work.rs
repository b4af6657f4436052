//! [`NodeWork`]: memory that the ranks of a group share in two-phase calls between groups: the
//! collective buffers, staging buffers for messages, and a list of steps.
//!
//! The first rank of a group, its *leader*, exchanges the messages of all its ranks and decides
//! what happens next. The steps that touch a rank's own memory are carried out by that rank: the
//! leader appends a [`RankStep`] to the list, every rank of the group carries out its part of it,
//! in order, and counts it as done. What a step needs to know beyond the numbers in it, ranks
//! compute from their descriptions.
//!
//! The list is a ring of [`STEPS`] entries. An entry is used again when all ranks have done its
//! step, so no lock is needed; zeros are the initial state. Steps are numbered on from call to
//! call.
//!
//! # Soundness
//!
//! The list is made of atomics. A window or staging buffer is accessed by a rank in a step that
//! names it (each rank at its own bytes, where the step writes to it), and by the leader and its
//! I/O threads at other times: the leader publishes a step by a store with release order, and ranks
//! count it as done in the same way.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use striate_comm::shm::{Backoff, BackoffPolicy, EventCount, Waiter};
use striate_comm::{CommError, NodeMemory};

use super::window_ring::{PrivateMemory, RingMemory};

/// Steps that may be published and not done by all ranks.
const STEPS: u64 = 16;

/// Numbers in a step, before the offsets of the ranks.
const NUMBERS: usize = 5;

/// Words in a cache line: what ranks write is apart.
const LINE: usize = 8;

const PAGE: usize = 4096;

/// How long a rank sleeps before it looks again where messages may arrive, of which no event tells.
const SLEEP: Duration = Duration::from_micros(200);

/// In place of an offset: the buffer holds the window as it lies in the file, since ranks of the
/// group access the same bytes of it.
pub(super) const AS_IN_FILE: u64 = u64::MAX;

/// What the ranks of a group do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RankStep {
    /// Write: each rank puts its bytes of a window of the group's own domain into a slot.
    Put { slot: usize, window: u64 },
    /// Write: each rank packs its bytes of another aggregator's window into a staging buffer.
    Pack { aggregator: u64, window: u64, staging: usize },
    /// Read: each rank takes its bytes out of a slot that holds `got` bytes of the window.
    Take { slot: usize, window: u64, got: u64 },
    /// Read: each rank takes its bytes of another aggregator's window out of a staging buffer.
    Unpack { aggregator: u64, window: u64, got: u64, staging: usize },
    /// The call is over.
    End,
}

impl RankStep {
    const fn to_numbers(self) -> [u64; NUMBERS] {
        match self {
            Self::Put { slot, window } => [1, 0, window, 0, slot as u64],
            Self::Pack { aggregator, window, staging } => {
                [2, aggregator, window, 0, staging as u64]
            }
            Self::Take { slot, window, got } => [3, 0, window, got, slot as u64],
            Self::Unpack { aggregator, window, got, staging } => {
                [4, aggregator, window, got, staging as u64]
            }
            Self::End => [5, 0, 0, 0, 0],
        }
    }

    const fn from_numbers([kind, aggregator, window, got, buffer]: [u64; NUMBERS]) -> Self {
        let buffer = buffer as usize;
        match kind {
            1 => Self::Put { slot: buffer, window },
            2 => Self::Pack { aggregator, window, staging: buffer },
            3 => Self::Take { slot: buffer, window, got },
            4 => Self::Unpack { aggregator, window, got, staging: buffer },
            _ => Self::End,
        }
    }
}

/// The sizes of the parts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NodeWorkSizes {
    /// Ranks of the largest group.
    pub(crate) ranks: usize,
    /// Windows, and bytes of each.
    pub(crate) slots: usize,
    pub(crate) window: usize,
    /// Staging buffers, as large as windows.
    pub(crate) staging: usize,
}

impl NodeWorkSizes {
    /// Words of a step in the list.
    const fn step(&self) -> usize {
        (NUMBERS + self.ranks).next_multiple_of(LINE)
    }

    /// Words before the windows: the header, the counts of steps done, the list.
    const fn words(&self) -> usize {
        LINE * (2 + self.ranks) + STEPS as usize * self.step()
    }

    const fn first_window(&self) -> usize {
        (8 * self.words()).next_multiple_of(PAGE)
    }

    const fn first_staging(&self) -> usize {
        self.first_window().saturating_add(self.slots.saturating_mul(self.buffer()))
    }

    /// Bytes of a window or staging buffer, in whole pages.
    const fn buffer(&self) -> usize {
        self.window.next_multiple_of(PAGE)
    }

    /// Bytes in all.
    pub(crate) const fn len(&self) -> usize {
        self.first_staging().saturating_add(self.staging.saturating_mul(self.buffer()))
    }
}

#[repr(C, align(64))]
struct NodeWorkHeader {
    event: EventCount,
    failed: AtomicU32,
    abandoned: AtomicU32,
}

/// See the module.
pub(crate) struct NodeWork {
    base: NonNull<u8>,
    sizes: NodeWorkSizes,
    backoff: Backoff,
    /// In a group of one rank: the memory of the message that is packed or unpacked, in place of a
    /// staging buffer.
    message: AtomicPtr<u8>,
    /// Keeps the memory alive.
    _memory: RingMemory,
}

// SAFETY: the memory is shared by design; the module's soundness section says how.
unsafe impl Send for NodeWork {}
// SAFETY: as above.
unsafe impl Sync for NodeWork {}

impl std::fmt::Debug for NodeWork {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "NodeWork({:?})", self.sizes)
    }
}

impl NodeWork {
    fn new(memory: RingMemory, sizes: NodeWorkSizes) -> Self {
        let (base, len) = memory.extent();
        assert!(len >= sizes.len(), "the parts fit their memory");
        let policy = BackoffPolicy { sleep: SLEEP, ..BackoffPolicy::of_ranks(sizes.ranks) };
        let (backoff, message) = (Backoff::new(policy), AtomicPtr::default());
        Self { base, sizes, backoff, message, _memory: memory }
    }

    /// In zeroed memory of [`NodeWorkSizes::len`] that the ranks of a node share.
    pub(crate) fn shared(memory: NodeMemory, sizes: NodeWorkSizes) -> Self {
        Self::new(RingMemory::Node(memory), sizes)
    }

    /// For a group of one rank; `None` if there is not enough memory.
    pub(crate) fn private(sizes: NodeWorkSizes) -> Option<Self> {
        Some(Self::new(RingMemory::Private(PrivateMemory::new(sizes.len())?), sizes))
    }

    pub(super) const fn sizes(&self) -> &NodeWorkSizes {
        &self.sizes
    }

    fn header(&self) -> &NodeWorkHeader {
        #[expect(clippy::cast_ptr_alignment, reason = "at the start of a page")]
        let header = self.base.as_ptr().cast::<NodeWorkHeader>();
        // SAFETY: at the start of the memory, which is long enough, and made of atomics.
        unsafe { &*header }
    }

    /// Word `at` behind the header.
    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at < self.sizes.words() - LINE, "a word of the list");
        #[expect(clippy::cast_ptr_alignment, reason = "a word behind the start of a page")]
        let word = self.base.as_ptr().wrapping_add(8 * (LINE + at)).cast::<AtomicU64>();
        // SAFETY: in front of the windows, where there are words only, which are atomics.
        unsafe { &*word }
    }

    fn published(&self) -> &AtomicU64 {
        self.word(0)
    }

    fn done(&self, place: usize) -> &AtomicU64 {
        self.word(LINE * (1 + place))
    }

    fn entry(&self, number: u64) -> usize {
        LINE * (1 + self.sizes.ranks) + (number % STEPS) as usize * self.sizes.step()
    }

    /// Memory of a window's slot.
    pub(super) fn slot(&self, slot: usize) -> *mut u8 {
        assert!(slot < self.sizes.slots, "a slot");
        let at = self.sizes.first_window() + slot * self.sizes.buffer();
        self.base.as_ptr().wrapping_add(at)
    }

    /// Whether the group has one rank, which packs and unpacks messages where they are.
    pub(super) const fn needs_no_staging(&self) -> bool {
        self.sizes.staging == 0
    }

    /// Makes this the memory of the only staging buffer; see [`NodeWork::needs_no_staging`].
    pub(super) fn set_message(&self, memory: *mut u8) {
        self.message.store(memory, Ordering::Relaxed);
    }

    /// Memory of a staging buffer.
    pub(super) fn staging(&self, buffer: usize) -> *mut u8 {
        if self.needs_no_staging() {
            return self.message.load(Ordering::Relaxed);
        }
        assert!(buffer < self.sizes.staging, "a staging buffer");
        let at = self.sizes.first_staging() + buffer * self.sizes.buffer();
        self.base.as_ptr().wrapping_add(at)
    }

    // ---- the leader ----

    /// Whether the list has room, with `ranks` in the group.
    pub(super) fn has_room(&self, ranks: usize) -> bool {
        self.published().load(Ordering::Relaxed) - self.done_by_all(ranks) < STEPS
    }

    /// Appends a step, in which each rank's bytes in a staging buffer begin at its offset; returns
    /// its number. There is room.
    pub(super) fn publish(&self, step: RankStep, offsets: &[u64]) -> u64 {
        let number = self.published().load(Ordering::Relaxed);
        let entry = self.entry(number);
        let words = step.to_numbers().into_iter().chain(offsets.iter().copied());
        for (at, word) in words.enumerate() {
            self.word(entry + at).store(word, Ordering::Relaxed);
        }
        self.published().store(number + 1, Ordering::Release);
        self.notify();
        number
    }

    /// Steps that all ranks of the group have done: those below are.
    pub(super) fn done_by_all(&self, ranks: usize) -> u64 {
        (0..ranks).map(|place| self.done(place).load(Ordering::Acquire)).min().unwrap_or(0)
    }

    // ---- all ranks ----

    /// The next step of the rank at this place of the group and its offset, if one was published.
    pub(super) fn next(&self, place: usize) -> Option<(RankStep, u64)> {
        let number = self.done(place).load(Ordering::Relaxed);
        if number >= self.published().load(Ordering::Acquire) {
            return None;
        }
        let entry = self.entry(number);
        let numbers = std::array::from_fn(|at| self.word(entry + at).load(Ordering::Relaxed));
        let offset = self.word(entry + NUMBERS + place).load(Ordering::Relaxed);
        Some((RankStep::from_numbers(numbers), offset))
    }

    /// The rank has done its part of the step.
    pub(super) fn finish(&self, place: usize) {
        let done = self.done(place);
        done.store(done.load(Ordering::Relaxed) + 1, Ordering::Release);
        self.notify();
    }

    pub(super) fn notify(&self) {
        self.header().event.notify();
    }

    pub(super) fn event(&self) -> &EventCount {
        &self.header().event
    }

    pub(super) const fn backoff(&self) -> &Backoff {
        &self.backoff
    }

    /// Calls `attempt` until it returns something.
    pub(super) fn wait_for<T>(
        &self,
        waiter: Waiter<'_>,
        attempt: impl FnMut() -> Option<T>,
    ) -> Result<T, CommError> {
        self.backoff.wait_for(self.event(), waiter, attempt)
    }

    /// The leader has lost the other groups: no step will follow.
    pub(super) fn abandon(&self) {
        self.header().abandoned.store(1, Ordering::SeqCst);
        super::FailureFlag::fail(self);
    }

    pub(super) fn is_abandoned(&self) -> bool {
        self.header().abandoned.load(Ordering::SeqCst) != 0
    }

    /// After a failed call, when all ranks know of it: the next call may try again.
    pub(crate) fn clear_failure(&self) {
        self.header().failed.store(0, Ordering::SeqCst);
    }
}

impl super::FailureFlag for NodeWork {
    fn fail(&self) {
        self.header().failed.store(1, Ordering::SeqCst);
        self.notify();
    }

    fn has_failed(&self) -> bool {
        self.header().failed.load(Ordering::SeqCst) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_do_the_steps_in_order_and_the_list_is_bounded() {
        let sizes = NodeWorkSizes { ranks: 2, slots: 1, window: 10, staging: 1 };
        let work = NodeWork::private(sizes).unwrap();
        let all = [
            RankStep::Put { slot: 0, window: 3 },
            RankStep::Pack { aggregator: 1, window: u64::MAX, staging: 0 },
            RankStep::Take { slot: 0, window: 7, got: 9 },
            RankStep::Unpack { aggregator: 5, window: 6, got: 7, staging: 8 },
            RankStep::End,
        ];
        let steps = || (0..STEPS).map(|i| all[i as usize % all.len()]);
        for (number, step) in (0..).zip(steps()) {
            assert!(work.has_room(2));
            assert_eq!(work.publish(step, &[number, 10 * number]), number);
        }
        for place in 0..2 {
            assert!(!work.has_room(2), "rank 1 has done nothing yet");
            for (number, step) in (0..).zip(steps()) {
                assert_eq!(work.next(place), Some((step, [number, 10 * number][place])));
                work.finish(place);
            }
            assert_eq!(work.next(place), None);
        }
        assert_eq!(work.done_by_all(2), STEPS);
        assert!(work.has_room(2));
    }
}
