//! [`Registry`]: the open connections of a server, for limits, deadlines and shutdown.
//!
//! A connection is a *stranger's* until its client has proved that it has the key. Strangers have
//! places of their own: those that say nothing, or nothing useful, take no place of a client. When
//! their places are full, the oldest stranger of the address with the most strangers goes, so
//! that a client, which is a stranger for the moment of its handshake, still gets in.
//!
//! A client that gave up a connection says so when it makes another one: the new one is admitted
//! when the thread of the old one has ended, so that no request of the old one is carried out
//! after one of the new.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use striate_wire::{ClientId, Failure, FailureCode, Session};

use crate::deadline::ConnectionControl;
use crate::settings::Limits;
use crate::statistics::Statistics;

/// How long a new connection waits for the end of threads whose connections were cut.
const PATIENCE: Duration = Duration::from_secs(1);

/// The connections that a server has.
#[derive(Debug)]
pub(crate) struct Registry {
    connections: Mutex<Connections>,
    left: Condvar,
    most: usize,
    most_strangers: usize,
    /// How long the end of connections that are superseded is waited for.
    supersede_time: Duration,
    statistics: Arc<Statistics>,
}

/// Connections by their numbers, which grow with time.
#[derive(Debug, Default)]
struct Connections {
    clients: HashMap<u64, Arc<ConnectionControl>>,
    strangers: BTreeMap<u64, Stranger>,
    /// The numbers of clients' connections by those that the clients gave them.
    sessions: HashMap<(ClientId, u64), u64>,
}

/// A connection whose client has not proved anything.
#[derive(Debug)]
struct Stranger {
    control: Arc<ConnectionControl>,
    /// Whether another took its place; its thread is about to end.
    displaced: bool,
}

/// The place of a connection in the registry; left when dropped.
#[derive(Debug)]
pub(crate) struct ConnectionEntry {
    registry: Arc<Registry>,
    number: u64,
    session: Cell<Option<(ClientId, u64)>>,
}

impl Registry {
    pub(crate) fn new(limits: &Limits, statistics: Arc<Statistics>) -> Self {
        Self {
            connections: Mutex::default(),
            left: Condvar::new(),
            most: limits.connections,
            most_strangers: limits.handshakes.max(1),
            supersede_time: limits.handshake_time,
            statistics,
        }
    }

    fn connections(&self) -> MutexGuard<'_, Connections> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes connection `number` as a stranger's. If strangers come faster than the threads of
    /// displaced ones end, it waits for those, but not for ever.
    pub(crate) fn enter(
        self: &Arc<Self>,
        number: u64,
        control: Arc<ConnectionControl>,
    ) -> Option<ConnectionEntry> {
        let full =
            |connections: &mut Connections| connections.strangers.len() >= 2 * self.most_strangers;
        let waited = self.left.wait_timeout_while(self.connections(), PATIENCE, full);
        let (mut connections, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            return None;
        }
        let waiting = connections.strangers.values().filter(|stranger| !stranger.displaced);
        if waiting.count() >= self.most_strangers {
            connections.displace_one();
            self.statistics.strangers_displaced.add(1);
        }
        connections.strangers.insert(number, Stranger { control, displaced: false });
        Some(ConnectionEntry { registry: Arc::clone(self), number, session: Cell::new(None) })
    }

    /// Cuts the connections whose clients are late.
    pub(crate) fn check(&self, now: Instant) {
        self.connections().all().for_each(|control| control.check(now));
    }

    /// Ends the wait of all connections that wait for a request.
    pub(crate) fn wake_idle(&self) {
        self.connections().all().for_each(|control| control.wake_if_idle());
    }

    /// Ends all connections at once; returns how many there were.
    pub(crate) fn cut_all(&self) -> usize {
        let connections = self.connections();
        connections.all().for_each(|control| control.cut());
        connections.clients.len()
    }

    /// Whether there are no connections.
    pub(crate) fn is_empty(&self) -> bool {
        self.connections().all().next().is_none()
    }

    /// Waits until there are no connections, but not longer than this.
    pub(crate) fn wait_until_empty(&self, limit: Duration) {
        let connections = self.connections();
        let waited =
            self.left.wait_timeout_while(connections, limit, |some| some.all().next().is_some());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }
}

impl Connections {
    fn all(&self) -> impl Iterator<Item = &Arc<ConnectionControl>> {
        self.clients.values().chain(self.strangers.values().map(|stranger| &stranger.control))
    }

    /// Those of the connections that a session supersedes which have not ended.
    fn superseded(&self, session: &Session) -> impl Iterator<Item = &Arc<ConnectionControl>> {
        session.superseded.iter().filter_map(|connection| {
            let number = self.sessions.get(&(session.client, *connection))?;
            self.clients.get(number)
        })
    }

    /// Cuts the oldest stranger of the address that has most.
    fn displace_one(&mut self) {
        let mut counts: HashMap<IpAddr, usize> = HashMap::new();
        for stranger in self.strangers.values().filter(|stranger| !stranger.displaced) {
            *counts.entry(stranger.control.peer.ip()).or_default() += 1;
        }
        let Some((address, _)) = counts.into_iter().max_by_key(|&(_, count)| count) else { return };
        let oldest = self
            .strangers
            .values_mut()
            .find(|stranger| !stranger.displaced && stranger.control.peer.ip() == address);
        if let Some(stranger) = oldest {
            stranger.displaced = true;
            stranger.control.cut();
        }
    }
}

impl ConnectionEntry {
    /// The stranger is a client from now on, unless there are too many; what it supersedes has
    /// ended then.
    pub(crate) fn admit(&self, session: &Session) -> Result<(), Failure> {
        let registry = &self.registry;
        let connections = registry.connections();
        connections.superseded(session).for_each(|control| control.supersede());
        let (mut connections, waited) = registry
            .left
            .wait_timeout_while(connections, registry.supersede_time, |connections| {
                connections.superseded(session).next().is_some()
            })
            .unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            let text = "a request that this client gave up is still being carried out";
            return Err(Failure::new(FailureCode::Busy, text));
        }
        if connections.clients.len() >= registry.most {
            registry.statistics.connections_refused.add(1);
            let text = "the server has as many connections as it may have";
            return Err(Failure::new(FailureCode::Busy, text));
        }
        if let Some(Stranger { control, .. }) = connections.strangers.remove(&self.number) {
            connections.clients.insert(self.number, control);
            if session.connection != 0 {
                let key = (session.client, session.connection);
                connections.sessions.insert(key, self.number);
                self.session.set(Some(key));
            }
            registry.statistics.connections.add(1);
        }
        Ok(())
    }
}

impl Drop for ConnectionEntry {
    fn drop(&mut self) {
        let mut connections = self.registry.connections();
        connections.strangers.remove(&self.number);
        if connections.clients.remove(&self.number).is_some() {
            self.registry.statistics.connections.subtract(1);
        }
        if let Some(key) = self.session.get() {
            connections.sessions.remove(&key);
        }
        drop(connections);
        self.registry.left.notify_all();
    }
}
