//! Data between memory and the servers of a file.
//!
//! All servers that a request concerns are asked at once; then data flows frame by frame, to or
//! from each server in turn, so that they work in parallel and none is more than what its socket
//! holds ahead. What the network loses is moved again: a read or write of the same bytes twice does
//! no harm, since the server carries out nothing of the first attempt after the second began.
//!
//! What a server may have lost that was started anew is written again before anything else is asked
//! of it ([`Unsynced`]).

use std::sync::{Arc, PoisonError};

use striate_layout::striping::Striping;
use striate_wire::{
    Access, Failure, FailureCode, FrameKind, Message, Reply, Request, Share, StartId, TypeId,
    WireError,
};

use super::attempts::Attempts;
use super::error::{CallError, ServerError};
use super::feed::Feed;
use super::pieces::RemoteRequest;
use super::pool::{Pool, PooledLink};
use super::unsynced::{Acknowledged, Kept, Unsynced};

/// The servers of a file, and how it lies on them.
pub(super) struct Servers<'f> {
    pub(super) pool: &'f Arc<Pool>,
    pub(super) file: u64,
    pub(super) striping: Striping,
    pub(super) addresses: &'f [String],
    pub(super) unsynced: &'f Unsynced,
}

/// A request under way at one server.
struct Job<'w> {
    server: u32,
    link: PooledLink,
    id: u64,
    /// `None` until the server has said how much it will send; of a write, once all is sent.
    feed: Option<Feed<'w>>,
    /// Of a write: what is kept of it, and the request.
    kept: Option<Kept>,
    request: Option<Request>,
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
            let stale: Vec<u32> = failed
                .extract_if(.., |(_, error)| matches!(error, CallError::Stale))
                .map(|(server, _)| server)
                .collect();
            for &server in &stale {
                self.write_again(server, &mut attempts)?;
            }
            let Some((server, error)) = failed.pop() else {
                if stale.is_empty() {
                    return Ok(done);
                }
                left = stale;
                continue;
            };
            left = failed.iter().map(|(server, _)| *server).chain([server]).chain(stale).collect();
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
        if self.unsynced.must_write_again(server, link.start()) {
            return Err(CallError::Stale);
        }
        if let RemoteRequest::Typed(typed) = wanted {
            tell(&mut link, typed.id, &typed.encoding)?;
        }
        let id = link.next_id();
        let request = request(self.access(wanted, server));
        let queued = link.connection().queue_request(id, &request);
        queued.map_err(|error| link.failed(error))?;
        Ok(Job { server, link, id, feed: None, kept: None, request: Some(request) })
    }

    /// Writes to a server again what it may have lost.
    pub(super) fn write_again(
        &self,
        server: u32,
        attempts: &mut Attempts,
    ) -> Result<(), ServerError> {
        let _alone = self.unsynced.order.write().unwrap_or_else(PoisonError::into_inner);
        let address = self.addresses[server as usize].as_str();
        loop {
            let taken = match attempts.made() {
                1 => self.pool.take(address, attempts.patience()),
                _ => self.pool.connect(address, attempts.patience()),
            };
            let written = taken.and_then(|mut link| {
                if !self.unsynced.must_write_again(server, link.start()) {
                    // Another thread has done it.
                    return Ok(());
                }
                self.unsynced.write_again(server, |one| repeat(&mut link, one))
            });
            match written {
                Ok(()) => return Ok(()),
                Err(error) if (error.is_passing() || is_forgotten(&error)) && attempts.again() => {}
                Err(error) => return Err(ServerError::new(address, error, attempts.made())),
            }
        }
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
        let _order = self.unsynced.order.read().unwrap_or_else(PoisonError::into_inner);
        let mut outcomes = Vec::with_capacity(servers.len());
        let mut sending = Vec::with_capacity(servers.len());
        for &server in servers {
            match self.begin(wanted, server, attempts, |access| Request::Write { access }) {
                Ok(mut job) => {
                    let pieces = wanted.pieces(self.striping, server, 0..u64::MAX);
                    job.feed = Some(Feed::new(wanted, pieces));
                    job.kept = self.unsynced.keep(server);
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
                    Err(error) => outcomes.push((job.server, Err(job.link.failed_to_send(error)))),
                }
            }
            sending = more;
        }
        for mut job in sent {
            let outcome = match job.link.receive(job.id) {
                Ok(Reply::Written { bytes, start }) => {
                    job.link.note_start(start);
                    let encoding = match wanted {
                        RemoteRequest::Typed(typed) => Some((typed.id, &typed.encoding)),
                        _ => None,
                    };
                    let kept = job.kept.take().zip(job.request.take()).map(|(kept, request)| {
                        (request, encoding.map(|(id, encoding)| (id, encoding.clone())), kept)
                    });
                    self.unsynced.acknowledged(job.server, start, bytes, kept);
                    Ok(())
                }
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

/// Queues the description with this id, if the server does not have it.
fn tell(link: &mut PooledLink, id: TypeId, encoding: &[u8]) -> Result<(), CallError> {
    if link.known().must_tell(id) {
        let define = Request::Define { id, encoding: encoding.to_vec() };
        let request = link.next_id();
        let queued = link.connection().queue_request(request, &define);
        queued.map_err(|error| {
            link.known().forget(&id);
            link.failed(error)
        })?;
    }
    Ok(())
}

/// Carries out again what was acknowledged; returns the start that acknowledges it now.
fn repeat(link: &mut PooledLink, one: &Acknowledged) -> Result<StartId, CallError> {
    if let Some((id, encoding)) = &one.encoding {
        tell(link, *id, encoding)?;
    }
    let id = link.next_id();
    let sent = link.connection().queue_request(id, &one.request).and_then(|()| {
        if matches!(one.request, Request::Write { .. }) {
            let frames = one.kept.frames.iter().map(Vec::as_slice).chain([&[][..]]);
            for frame in frames {
                link.connection().send_data(id, frame)?;
            }
        }
        link.connection().flush()
    });
    sent.map_err(|error| link.failed_to_send(error))?;
    match link.receive(id) {
        Ok(Reply::Written { start, .. }) => {
            link.note_start(start);
            Ok(start)
        }
        // The start that the link was made to is that of today, or an older one: never too new.
        Ok(Reply::Done) => Ok(link.start()),
        Ok(_) => {
            link.spoil();
            Err(CallError::Protocol("something came that does not answer a write".into()))
        }
        Err(error) => {
            if let (true, Some((id, _))) = (is_forgotten(&error), &one.encoding) {
                link.known().forget(id);
            }
            Err(error)
        }
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
    feed.send(job.link.connection(), job.id, memory, bounce, &mut job.kept)?;
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
