//! [`Registry`]: the open connections of a server, for limits, deadlines and shutdown.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use striate_wire::Transport;

use crate::deadline::{ConnectionControl, LINGER};
use crate::statistics::Statistics;

/// Refused connections that are held open for a moment, at most.
const MOST_REFUSED: usize = 64;

/// The connections that a server has.
#[derive(Debug)]
pub(crate) struct Registry {
    connections: Mutex<HashMap<u64, Arc<ConnectionControl>>>,
    left: Condvar,
    /// Connections that were sent the reason of their refusal, until their clients have read it.
    refused: Mutex<VecDeque<(Instant, Transport)>>,
    most: usize,
    statistics: Arc<Statistics>,
}

/// The place of a connection in the registry; left when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionEntry {
    registry: Arc<Registry>,
    number: u64,
}

impl Registry {
    pub(crate) fn new(most: usize, statistics: Arc<Statistics>) -> Self {
        Self {
            connections: Mutex::default(),
            left: Condvar::new(),
            refused: Mutex::default(),
            most,
            statistics,
        }
    }

    fn connections(&self) -> MutexGuard<'_, HashMap<u64, Arc<ConnectionControl>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes connection `number`, unless there are too many.
    pub(crate) fn enter(
        self: &Arc<Self>,
        number: u64,
        control: Arc<ConnectionControl>,
    ) -> Option<ConnectionEntry> {
        let mut connections = self.connections();
        if connections.len() >= self.most {
            return None;
        }
        connections.insert(number, control);
        self.statistics.connections.add(1);
        Some(ConnectionEntry { registry: Arc::clone(self), number })
    }

    /// Keeps a refused connection until its client had the time to read why.
    pub(crate) fn linger(&self, socket: Transport) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.push_back((Instant::now() + LINGER, socket));
        if refused.len() > MOST_REFUSED {
            refused.pop_front();
        }
    }

    /// Cuts the connections whose clients are late.
    pub(crate) fn check(&self, now: Instant) {
        for control in self.connections().values() {
            control.check(now);
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        refused.retain(|(until, _)| *until > now);
    }

    /// Ends the wait of all connections that wait for a request.
    pub(crate) fn wake_idle(&self) {
        self.connections().values().for_each(|control| control.wake_if_idle());
    }

    /// Ends all connections at once; returns how many there were.
    pub(crate) fn cut_all(&self) -> usize {
        let connections = self.connections();
        connections.values().for_each(|control| control.cut());
        connections.len()
    }

    /// Waits until there are no connections, but not longer than this.
    pub(crate) fn wait_until_empty(&self, limit: Duration) {
        let connections = self.connections();
        let waited = self.left.wait_timeout_while(connections, limit, |some| !some.is_empty());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        self.registry.connections().remove(&self.number);
        self.registry.statistics.connections.subtract(1);
        self.registry.left.notify_all();
    }
}
