//! [`Pool`]: connections that are made once and used by all files of a client.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use striate_wire::Traffic;

use super::error::CallError;
use super::link::Link;
use super::options::ClientOptions;

/// Most idle links for each server: enough for the threads of a node, few enough for a
/// server of many clients.
const MOST_IDLE: usize = 16;

/// Idle for longer, a link is more likely dead than of use: servers and firewalls close such.
const LONGEST_IDLE: Duration = Duration::from_secs(30);

/// The links of a client.
#[derive(Debug)]
pub(super) struct Pool {
    options: ClientOptions,
    idle: Mutex<HashMap<String, Vec<Idle>>>,
    traffic: Mutex<Traffic>,
}

#[derive(Debug)]
struct Idle {
    link: Link,
    since: Instant,
}

impl Pool {
    /// No connection yet.
    pub(super) fn new(options: ClientOptions) -> Arc<Self> {
        Arc::new(Self { options, idle: Mutex::default(), traffic: Mutex::default() })
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
        match self.take_idle(address) {
            Some(mut link) => {
                link.set_patience(patience)?;
                Ok(self.lend(address, link, true))
            }
            None => self.connect(address, patience),
        }
    }

    /// A new link to the server.
    pub(super) fn connect(
        self: &Arc<Self>,
        address: &str,
        patience: Duration,
    ) -> Result<PooledLink, CallError> {
        let link = Link::connect(address, &self.options, patience)?;
        Ok(self.lend(address, link, false))
    }

    fn lend(self: &Arc<Self>, address: &str, mut link: Link, reused: bool) -> PooledLink {
        let counted = link.connection().traffic();
        let (pool, address) = (Arc::clone(self), address.to_owned());
        PooledLink { pool, address, link: Some(link), counted, reused }
    }

    fn take_idle(&self, address: &str) -> Option<Link> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let links = idle.get_mut(address)?;
        while let Some(Idle { link, since }) = links.pop() {
            if since.elapsed() > LONGEST_IDLE {
                // The remaining ones were given back before this one.
                links.clear();
            } else if link.is_quiet() {
                return Some(link);
            }
        }
        None
    }

    fn give_back(&self, address: String, link: Link) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let links = idle.entry(address).or_default();
        if links.len() == MOST_IDLE {
            links.remove(0);
        }
        links.push(Idle { link, since: Instant::now() });
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
    reused: bool,
}

impl PooledLink {
    /// Whether it was idle before: then the other end may have closed it without a sign so far.
    pub(super) fn is_reused(&self) -> bool {
        self.reused
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
        // A thread that panicked may have left answers in transit.
        if !link.is_broken() && !thread::panicking() {
            self.pool.give_back(std::mem::take(&mut self.address), link);
        }
    }
}
