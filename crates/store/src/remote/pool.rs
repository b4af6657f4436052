//! [`Pool`]: connections that are made once and used by all files of a client.

use std::collections::HashMap;
use std::io;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use striate_wire::limits::MAX_SUPERSEDED;
use striate_wire::{ClientId, Identity, Session, StartId, Traffic};

use super::error::CallError;
use super::link::Link;
use super::options::ClientOptions;
use super::unsynced::Budget;

/// Most idle links for each server: enough for the threads of a node, few enough for a
/// server of many clients.
const MOST_IDLE: usize = 16;

/// Idle for longer, a link is more likely dead than of use: servers and firewalls close such.
const LONGEST_IDLE: Duration = Duration::from_secs(30);

/// The links of a client.
#[derive(Debug)]
pub(super) struct Pool {
    options: ClientOptions,
    peers: Mutex<HashMap<String, Peer>>,
    traffic: Mutex<Traffic>,
    session: ClientId,
    last_number: AtomicU64,
    /// Bytes that may be kept until they are synced.
    budget: Arc<Budget>,
}

/// What a client has to do with one server.
#[derive(Debug, Default)]
struct Peer {
    idle: Vec<Idle>,
    /// Connections that were given up, perhaps with requests that the server has not carried out.
    /// No other connection is used until the server was told.
    abandoned: Vec<u64>,
    /// The storage that it must have.
    storage: Option<Identity>,
    /// The start in whose name it answered last.
    start: Option<StartId>,
}

#[derive(Debug)]
struct Idle {
    link: Link,
    since: Instant,
}

impl Pool {
    /// No connection yet.
    pub(super) fn new(options: ClientOptions) -> io::Result<Arc<Self>> {
        Ok(Arc::new(Self {
            peers: Mutex::default(),
            traffic: Mutex::default(),
            session: ClientId::random()?,
            last_number: AtomicU64::new(0),
            budget: Arc::new(Budget::new(options.unsynced)),
            options,
        }))
    }

    /// Bytes that may be kept until they are synced.
    pub(super) fn budget(&self) -> &Arc<Budget> {
        &self.budget
    }

    fn peers(&self) -> MutexGuard<'_, HashMap<String, Peer>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on, the server at this address must have this storage.
    pub(super) fn expect_storage(&self, address: &str, storage: Identity) {
        let mut peers = self.peers();
        if let Some(peer) = peers.get_mut(address) {
            peer.storage = Some(storage);
        } else {
            let peer = Peer { storage: Some(storage), ..Peer::default() };
            peers.insert(address.to_owned(), peer);
        }
    }

    /// What connections are made with.
    pub(super) fn options(&self) -> &ClientOptions {
        &self.options
    }

    /// What went over all links, up to when each was last given back.
    pub(super) fn traffic(&self) -> Traffic {
        *self.traffic.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A link to the server: an idle one, or a new one.
    pub(super) fn take(
        self: &Arc<Self>,
        address: &str,
        patience: Duration,
    ) -> Result<PooledLink, CallError> {
        match self.take_idle(address)? {
            Some((mut link, start)) => {
                link.set_patience(patience)?;
                Ok(self.lend(address, link, start, true))
            }
            None => self.connect(address, patience),
        }
    }

    /// A new link to the server, which carries out nothing from then on that was given up before.
    pub(super) fn connect(
        self: &Arc<Self>,
        address: &str,
        patience: Duration,
    ) -> Result<PooledLink, CallError> {
        loop {
            let superseded: Vec<u64> = match self.peers().get(address) {
                Some(peer) => peer.abandoned.iter().copied().take(MAX_SUPERSEDED).collect(),
                None => Vec::new(),
            };
            let connection = self.last_number.fetch_add(1, Ordering::Relaxed) + 1;
            let session = Session { client: self.session, connection, superseded };
            let link = Link::connect(address, &self.options, patience, &session)?;
            let mut peers = self.peers();
            let peer = peers.entry(address.to_owned()).or_default();
            check_storage(peer, &link)?;
            peer.abandoned.retain(|number| !session.superseded.contains(number));
            let start = link.server().start;
            peer.start = Some(start);
            if peer.abandoned.is_empty() {
                drop(peers);
                return Ok(self.lend(address, link, start, false));
            }
        }
    }

    fn lend(
        self: &Arc<Self>,
        address: &str,
        mut link: Link,
        start: StartId,
        reused: bool,
    ) -> PooledLink {
        let counted = link.connection().traffic();
        let (pool, address) = (Arc::clone(self), address.to_owned());
        PooledLink { pool, address, link: Some(link), counted, start, reused }
    }

    /// Notes the start in whose name a server answers.
    pub(super) fn note_start(&self, address: &str, start: StartId) {
        self.peers().entry(address.to_owned()).or_default().start = Some(start);
    }

    /// The start in whose name a server answered last, over any link.
    pub(super) fn start_of(&self, address: &str) -> Option<StartId> {
        self.peers().get(address)?.start
    }

    fn take_idle(&self, address: &str) -> Result<Option<(Link, StartId)>, CallError> {
        let mut peers = self.peers();
        let Some(peer) = peers.get_mut(address) else { return Ok(None) };
        if !peer.abandoned.is_empty() {
            return Ok(None);
        }
        while let Some(Idle { link, since }) = peer.idle.pop() {
            if since.elapsed() > LONGEST_IDLE {
                // The remaining ones were given back before this one.
                peer.idle.clear();
            } else if link.is_quiet() {
                check_storage(peer, &link)?;
                let start = peer.start.unwrap_or(link.server().start);
                return Ok(Some((link, start)));
            }
        }
        Ok(None)
    }

    fn give_back(&self, address: String, link: Link) {
        let mut peers = self.peers();
        let idle = &mut peers.entry(address).or_default().idle;
        if idle.len() == MOST_IDLE {
            idle.remove(0);
        }
        idle.push(Idle { link, since: Instant::now() });
    }

    /// Notes that requests of a connection may still be under way which nobody waits for.
    fn abandon(&self, address: String, number: u64) {
        self.peers().entry(address).or_default().abandoned.push(number);
    }
}

/// Refuses a server that was started on another storage.
fn check_storage(peer: &Peer, link: &Link) -> Result<(), CallError> {
    let found = link.server().identity;
    match peer.storage {
        Some(expected) if expected != found => Err(CallError::WrongStorage { expected, found }),
        _ => Ok(()),
    }
}

/// A link that goes back to its pool when dropped, unless it is broken.
#[derive(Debug)]
pub(super) struct PooledLink {
    pool: Arc<Pool>,
    address: String,
    /// There until dropped.
    link: Option<Link>,
    counted: Traffic,
    start: StartId,
    reused: bool,
}

impl PooledLink {
    /// Whether it was idle before: then the other end may have closed it without a sign so far.
    pub(super) fn is_reused(&self) -> bool {
        self.reused
    }

    /// The present start of the server, as far as is known.
    pub(super) fn start(&self) -> StartId {
        self.start
    }

    /// Notes the start in whose name the server answers.
    pub(super) fn note_start(&mut self, start: StartId) {
        if self.start != start {
            self.start = start;
            self.pool.note_start(&self.address, start);
        }
    }
}

impl Deref for PooledLink {
    type Target = Link;

    fn deref(&self) -> &Link {
        self.link.as_ref().expect("there until dropped")
    }
}

impl DerefMut for PooledLink {
    fn deref_mut(&mut self) -> &mut Link {
        self.link.as_mut().expect("there until dropped")
    }
}

impl Drop for PooledLink {
    fn drop(&mut self) {
        let Some(mut link) = self.link.take() else { return };
        let since = link.connection().traffic() - self.counted;
        *self.pool.traffic.lock().unwrap_or_else(PoisonError::into_inner) += since;
        let address = std::mem::take(&mut self.address);
        // A thread that panicked may have left answers in transit.
        if !link.is_broken() && !thread::panicking() {
            return self.pool.give_back(address, link);
        }
        let number = link.number();
        // Before the connection ends: no other request may come in between.
        self.pool.abandon(address, number);
        link.spoil();
    }
}
