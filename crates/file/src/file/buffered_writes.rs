//! [`BufferedWrites`]: a rank's use of [`WriteBehind`](crate::write_behind): which of its writes
//! may wait.

use std::cell::Cell;
use std::sync::Arc;

use striate_comm::task::in_task;

use crate::hints::Switch;
use crate::write_behind::{SmallWrites, WriteBehind};

/// See the module.
#[derive(Debug)]
pub(super) struct BufferedWrites {
    pub(super) store: Arc<WriteBehind>,
    small_writes: SmallWrites,
    /// The last collective write without a rendezvous for which this rank has waited for late
    /// ranks.
    caught_up: Cell<u64>,
}

impl BufferedWrites {
    pub(super) fn new(store: Arc<WriteBehind>) -> Self {
        Self { store, small_writes: SmallWrites::default(), caught_up: Cell::new(0) }
    }

    /// Whether a write of so many bytes may wait; counts it.
    pub(super) fn may_wait(&mut self, len: u64, hint: Switch) -> bool {
        if in_task() || !WriteBehind::accepts(len) {
            return false;
        }
        let is_stream = self.small_writes.count() || hint == Switch::Enable;
        is_stream && self.store.is_ready()
    }

    /// Waits for ranks that have not come to this collective write yet, once and not for long.
    pub(super) fn wait_for_late_ranks(&self, call: u64) {
        if self.caught_up.get() != call {
            self.store.wait_for_late_ranks(call);
            self.caught_up.set(call);
        }
    }
}
