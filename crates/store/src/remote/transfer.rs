//! Data between memory and the servers of a file.
//!
//! All servers that a request concerns are asked at once; then data flows frame by frame, to or
//! from each server in turn, so that they work in parallel and none is more than what its socket
//! holds ahead. What the network loses is moved again: a read or write of the same bytes twice does
//! no harm.

use std::sync::Arc;

use striate_layout::striping::Striping;
use striate_wire::{
    Access, Failure, FailureCode, FrameKind, Message, Reply, Request, Share, WireError,
};

use super::attempts::Attempts;
use super::error::{CallError, ServerError};
use super::feed::Feed;
use super::pieces::RemoteRequest;
use super::pool::{Pool, PooledLink};

/// The servers of a file, and how it lies on them.
pub(super) struct Servers<'f> {
    pub(super) pool: &'f Arc<Pool>,
    pub(super) file: u64,
    pub(super) striping: Striping,
    pub(super) addresses: &'f [String],
}

/// A request under way at one server.
struct Job<'w> {
    server: u32,
    link: PooledLink,
    id: u64,
    /// `None` until the server has said how much it will send; of a write, once all is sent.
    feed: Option<Feed<'w>>,
}

/// What became of a job.
type Outcome<T> = (u32, Result<T, CallError>);

impl Servers<'_> {
    /// Reads; returns the length of the object of each server that is concerned.
    pub(super) fn read(
        &self,
        wanted: &RemoteRequest<'_>,
        memory: &mut [u8],
    ) -> Result<Vec<(u32, u64)>, ServerError> {
        self.persevere(wanted, |servers, attempts| {
            self.read_once(wanted, servers, attempts, memory)
        })
    }

    /// Writes all.
    pub(super) fn write(
        &self,
        wanted: &RemoteRequest<'_>,
        memory: &[u8],
    ) -> Result<(), ServerError> {
        let written = self.persevere(wanted, |servers, attempts| {
            self.write_once(wanted, servers, attempts, memory)
        });
        written.map(drop)
    }

    /// Tries with all servers that are concerned, and again with those that failed in passing.
    fn persevere<T>(
        &self,
        wanted: &RemoteRequest<'_>,
        mut attempt: impl FnMut(&[u32], &Attempts) -> Vec<Outcome<T>>,
    ) -> Result<Vec<(u32, T)>, ServerError> {
        let all = 0..self.addresses.len() as u32;
        let mut left: Vec<u32> =
            all.filter(|&server| wanted.concerns(self.striping, server)).collect();
        let mut done = Vec::with_capacity(left.len());
        let mut attempts = Attempts::new(self.pool.options());
        // A server forgets a description at most once between two attempts that send it.
        let mut sent_again = false;
        loop {
            let mut failed = Vec::new();
            for (server, outcome) in attempt(&left, &attempts) {
                match outcome {
                    Ok(result) => done.push((server, result)),
                    Err(error) => failed.push((server, error)),
                }
            }
            let Some((server, error)) = failed.pop() else { return Ok(done) };
            left = failed.iter().map(|(server, _)| *server).chain([server]).collect();
            failed.push((server, error));
            let hopeless = failed.iter().position(|(_, e)| !e.is_passing() && !is_forgotten(e));
            let only_forgotten = failed.iter().all(|(_, error)| is_forgotten(error));
            let again = hopeless.is_none()
                && (only_forgotten && !std::mem::replace(&mut sent_again, only_forgotten)
                    || attempts.again());
            if !again {
                let (server, error) = failed.swap_remove(hopeless.unwrap_or(0));
                let address = self.addresses[server as usize].as_str();
                return Err(ServerError::new(address, error, attempts.made()));
            }
        }
    }

    fn access(&self, wanted: &RemoteRequest<'_>, index: u32) -> Access {
        let (strip, servers) = (self.striping.strip.get(), self.striping.servers.get());
        let share = Share { strip, servers, index };
        Access { object: self.file, share, bytes: wanted.bytes(self.striping, index) }
    }

    /// Queues a request at a server, and the description that it needs, if the server does not have
    /// it.
    fn begin<'w>(
        &self,
        wanted: &RemoteRequest<'_>,
        server: u32,
        attempts: &Attempts,
        request: impl FnOnce(Access) -> Request,
    ) -> Result<Job<'w>, CallError> {
        let address = &self.addresses[server as usize];
        // After a failure, other idle links are not to be trusted either.
        let mut link = match attempts.made() {
            1 => self.pool.take(address, attempts.patience())?,
            _ => self.pool.connect(address, attempts.patience())?,
        };
        if let RemoteRequest::Typed(typed) = wanted
            && link.known().must_tell(typed.id)
        {
            let define = Request::Define { id: typed.id, encoding: typed.encoding.clone() };
            let id = link.next_id();
            let queued = link.connection().queue_request(id, &define);
            queued.map_err(|error| {
                link.known().forget(&typed.id);
                link.failed(error)
            })?;
        }
        let id = link.next_id();
        let request = request(self.access(wanted, server));
        let queued = link.connection().queue_request(id, &request);
        queued.map_err(|error| link.failed(error))?;
        Ok(Job { server, link, id, feed: None })
    }

    fn read_once(
        &self,
        wanted: &RemoteRequest<'_>,
        servers: &[u32],
        attempts: &Attempts,
        memory: &mut [u8],
    ) -> Vec<Outcome<u64>> {
        let mut outcomes = Vec::with_capacity(servers.len());
        let mut jobs = Vec::with_capacity(servers.len());
        for &server in servers {
            let job = self.begin(wanted, server, attempts, |access| Request::Read { access });
            let job = job.and_then(|mut job: Job<'_>| {
                job.link.connection().flush().map_err(|error| job.link.failed(error))?;
                Ok(job)
            });
            match job {
                Ok(job) => jobs.push((job, 0)),
                Err(error) => outcomes.push((server, Err(error))),
            }
        }
        let mut bounce = Vec::new();
        while !jobs.is_empty() {
            jobs.retain_mut(|(job, object_len)| {
                let more = self.receive(wanted, job, object_len, memory, &mut bounce);
                let outcome = match more {
                    Ok(true) => return true,
                    Ok(false) => Ok(*object_len),
                    Err(error) => Err(error),
                };
                outcomes.push((job.server, outcome));
                false
            });
        }
        outcomes
    }

    /// Receives one frame of a read; returns whether more will come.
    fn receive<'w>(
        &self,
        wanted: &'w RemoteRequest<'w>,
        job: &mut Job<'w>,
        object_len: &mut u64,
        memory: &mut [u8],
        bounce: &mut Vec<u8>,
    ) -> Result<bool, CallError> {
        let header = job.link.connection().receive_header();
        let header = header.map_err(|error| job.link.failed(error))?;
        if header.kind == FrameKind::Data
            && header.id == job.id
            && let Some(feed) = &mut job.feed
        {
            let received = feed.receive(job.link.connection(), &header, memory, bounce);
            received.map_err(|error| job.link.failed(error))?;
            return Ok(!feed.is_empty());
        }
        let message = job.link.connection().receive_message(&header);
        match message.map_err(|error| job.link.failed(error))? {
            Message::Reply(Reply::Reading { object_len: len })
                if header.id == job.id && job.feed.is_none() =>
            {
                *object_len = len;
                let end = self.striping.offset_of(job.server, len);
                let pieces = wanted.pieces(self.striping, job.server, 0..end);
                let feed = Feed::new(wanted, pieces);
                let more = !feed.is_empty();
                job.feed = Some(feed);
                Ok(more)
            }
            Message::Failure(failure) => {
                if header.id != job.id {
                    job.link.spoil();
                }
                Err(forgotten(wanted, job, failure))
            }
            _ => {
                job.link.spoil();
                Err(CallError::Protocol("something came that does not answer a read".into()))
            }
        }
    }

    fn write_once(
        &self,
        wanted: &RemoteRequest<'_>,
        servers: &[u32],
        attempts: &Attempts,
        memory: &[u8],
    ) -> Vec<Outcome<()>> {
        let mut outcomes = Vec::with_capacity(servers.len());
        let mut sending = Vec::with_capacity(servers.len());
        for &server in servers {
            match self.begin(wanted, server, attempts, |access| Request::Write { access }) {
                Ok(mut job) => {
                    let pieces = wanted.pieces(self.striping, server, 0..u64::MAX);
                    job.feed = Some(Feed::new(wanted, pieces));
                    sending.push(job);
                }
                Err(error) => outcomes.push((server, Err(error))),
            }
        }
        let mut bounce = Vec::new();
        let mut sent = Vec::with_capacity(sending.len());
        while !sending.is_empty() {
            let mut more = Vec::with_capacity(sending.len());
            for mut job in sending {
                match send(&mut job, memory, &mut bounce) {
                    Ok(true) => more.push(job),
                    Ok(false) => sent.push(job),
                    Err(error) => outcomes.push((job.server, Err(job.link.failed(error)))),
                }
            }
            sending = more;
        }
        for mut job in sent {
            let outcome = match job.link.receive(job.id) {
                Ok(Reply::Written { .. }) => Ok(()),
                Ok(_) => {
                    job.link.spoil();
                    Err(CallError::Protocol("something came that does not answer a write".into()))
                }
                Err(CallError::Failure(failure)) => Err(forgotten(wanted, &mut job, failure)),
                Err(error) => Err(error),
            };
            outcomes.push((job.server, outcome));
        }
        outcomes
    }
}

/// Sends one frame of a write; returns whether there are more. The last is empty.
fn send(job: &mut Job<'_>, memory: &[u8], bounce: &mut Vec<u8>) -> Result<bool, WireError> {
    let Some(feed) = &mut job.feed else { return Ok(false) };
    if feed.is_empty() {
        job.link.connection().send_data(job.id, &[])?;
        job.feed = None;
        return Ok(false);
    }
    feed.send(job.link.connection(), job.id, memory, bounce)?;
    Ok(true)
}

/// A failure; if the server has forgotten a description, so does the link.
fn forgotten(wanted: &RemoteRequest<'_>, job: &mut Job<'_>, failure: Failure) -> CallError {
    if let RemoteRequest::Typed(typed) = wanted
        && failure.code == FailureCode::UnknownType
    {
        job.link.known().forget(&typed.id);
    }
    CallError::Failure(failure)
}

fn is_forgotten(error: &CallError) -> bool {
    matches!(error, CallError::Failure(failure) if failure.code == FailureCode::UnknownType)
}
