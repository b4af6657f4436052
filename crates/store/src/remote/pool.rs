//! [`Pool`]: connections that are made once and used by all files of a client.

use std::collections::HashMap;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use striate_wire::{Frames, Traffic};

use super::error::CallError;
use super::link::Link;
use super::options::ClientOptions;

/// Idle links that are kept for each server: enough for the threads of a node, few enough for a
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
                // The others were given back before this one.
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
    /// Whether it was idle before: then the other end may be gone without a sign so far.
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
        let since = difference(link.connection().traffic(), self.counted);
        *self.pool.traffic.lock().unwrap_or_else(PoisonError::into_inner) += since;
        // Who panicked may have left answers on their way.
        if !link.is_broken() && !thread::panicking() {
            self.pool.give_back(std::mem::take(&mut self.address), link);
        }
    }
}

fn difference(now: Traffic, then: Traffic) -> Traffic {
    let frames = |now: Frames, then: Frames| Frames {
        requests: now.requests - then.requests,
        request_bytes: now.request_bytes - then.request_bytes,
        replies: now.replies - then.replies,
        reply_bytes: now.reply_bytes - then.reply_bytes,
        data_frames: now.data_frames - then.data_frames,
        data_bytes: now.data_bytes - then.data_bytes,
    };
    Traffic { sent: frames(now.sent, then.sent), received: frames(now.received, then.received) }
}

#[cfg(test)]
mod tests {
    use striate_wire::{Reply, Request};

    use super::*;
    use crate::remote::tests::fake::{Answer, Fake};

    const PATIENCE: Duration = Duration::from_secs(30);

    fn used(pool: &Arc<Pool>, address: &str) -> PooledLink {
        let mut link = pool.take(address, PATIENCE).unwrap();
        link.call(&Request::Ping).unwrap();
        link
    }

    #[test]
    fn few_idle_links_are_kept_and_not_for_long() {
        let server = Fake::start(|_| Answer::Reply(Reply::Done));
        let pool = Pool::new(ClientOptions::default());
        let many = MOST_IDLE + 3;
        let links: Vec<_> = (0..many).map(|_| used(&pool, &server.address)).collect();
        assert_eq!(pool.traffic(), Traffic::default());
        drop(links);
        assert_eq!(pool.traffic().sent.requests, many as u64);
        assert_eq!(pool.idle.lock().unwrap()[&server.address].len(), MOST_IDLE);

        used(&pool, &server.address);
        assert_eq!(server.connections(), many);
        for idle in pool.idle.lock().unwrap().get_mut(&server.address).unwrap() {
            idle.since -= LONGEST_IDLE;
        }
        used(&pool, &server.address);
        assert_eq!(server.connections(), many + 1);
        assert_eq!(pool.idle.lock().unwrap()[&server.address].len(), 1);
    }

    #[test]
    fn a_spoilt_link_is_closed() {
        let server = Fake::start(|_| Answer::Reply(Reply::Done));
        let pool = Pool::new(ClientOptions::default());
        used(&pool, &server.address).spoil();
        assert!(!used(&pool, &server.address).is_reused());
        assert!(used(&pool, &server.address).is_reused());
        assert_eq!((server.connections(), pool.traffic().sent.requests), (2, 3));
    }
}
