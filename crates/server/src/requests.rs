//! The answers of a server to all requests except reads, writes and descriptions.

use std::time::Duration;

use striate_wire::{Failure, FailureCode, Reply, Request};

use crate::deadline::TimedStream;
use crate::locks::{Holder, LockRequest};
use crate::metadata::Metadata;
use crate::state::ServerState;

/// The number by which servers on the same disk are known, among the statistics.
const DISK: &str = "disk";

/// Carries out a request of the client of `stream`, whose locks `holder` holds.
pub(crate) fn answer(
    server: &ServerState,
    holder: &mut Holder<'_>,
    stream: &TimedStream,
    request: Request,
) -> Result<Reply, Failure> {
    let objects = &server.engine.objects;
    let done = |()| Reply::Done;
    match request {
        Request::Ping => Ok(Reply::Done),

        Request::Create { path, strip, servers, first, exclusive } => {
            names(server)?.create(&path, strip, servers, first, exclusive)
        }
        Request::Lookup { path } => names(server)?.lookup(&path),
        Request::List { prefix, after, limit } => {
            names(server)?.list(&prefix, after.as_deref(), limit)
        }
        Request::Rename { from, to, replace } => names(server)?.rename(&from, &to, replace),
        Request::Remove { path } => names(server)?.remove(&path),
        Request::Bury { file } => names(server)?.bury(file),
        Request::Record { file, size, truncations, lens } => {
            names(server)?.record(file, size, truncations, &lens)
        }
        Request::Describe { file } => names(server)?.describe(file),
        Request::Shorten { file, lens } => names(server)?.shorten(file, &lens),
        Request::Enrol { address, identity, replace } => {
            names(server)?.enrol(&address, identity, replace)
        }
        Request::Servers => names(server)?.servers(),
        Request::Dead { after, limit } => names(server)?.dead(after, limit),

        Request::Lock { file, start, end, exclusive, wait_ms, lease_ms } => {
            names(server)?;
            let lease = Duration::from_millis(lease_ms.into());
            let wanted = LockRequest { file, range: start..end, exclusive, lease };
            let wait = Duration::from_millis(wait_ms.into());
            let lock = holder.lock(&wanted, wait, || still_wanted(server, stream))?;
            Ok(Reply::Locked { lock, lease_ms })
        }
        Request::Renew { lock, lease_ms } => {
            names(server)?;
            holder.renew(lock, Duration::from_millis(lease_ms.into())).map(done)
        }
        Request::Unlock { lock } => {
            names(server)?;
            holder.unlock(lock).map(done)
        }

        Request::Touch { object } => objects.touch(object).map(done),
        Request::ObjectLen { object } => {
            let len = objects.len(object)?;
            Ok(Reply::Len { len: len.unwrap_or(0), exists: len.is_some() })
        }
        Request::Truncate { object, len } => objects.truncate(object, len).map(done),
        Request::Preallocate { object, len } => objects.preallocate(object, len).map(done),
        Request::Sync { object } => {
            server.statistics.syncs.add(1);
            Ok(Reply::Synced { start: objects.sync(object)? })
        }
        Request::RemoveObject { object } => objects.remove(object).map(done),
        Request::Objects { after, limit } => {
            let (objects, more) = objects.list(after, limit)?;
            Ok(Reply::Objects { objects, more })
        }
        Request::Space => {
            let (total, free, available) = objects.space()?;
            Ok(Reply::Space { total, free, available, objects: objects.count()? })
        }
        Request::Statistics => {
            let numbers = server.numbers().into_iter();
            let mut counters: Vec<(String, u64)> =
                numbers.map(|(name, _, _, value)| (name.to_owned(), value)).collect();
            // Not a count, but reported here, since clients ignore names that they do not know.
            counters.push((DISK.to_owned(), objects.disk()?));
            Ok(Reply::Statistics { counters })
        }
        Request::Identify => Ok(Reply::Server {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            identity: server.directory.identity,
            metadata: server.metadata.is_some(),
            uptime_s: server.started.elapsed().as_secs(),
            connections: server.statistics.connections.get() as u32,
        }),

        Request::Define { .. } | Request::Read { .. } | Request::Write { .. } => {
            unreachable!("these are answered where the connection is")
        }
    }
}

fn names(server: &ServerState) -> Result<&Metadata, Failure> {
    server.metadata.as_ref().ok_or_else(|| {
        let text = "this server keeps no names and locks: ask the metadata server";
        Failure::new(FailureCode::NotMetadata, text)
    })
}

/// Whether a client still waits for its lock.
fn still_wanted(server: &ServerState, stream: &TimedStream) -> Result<(), Failure> {
    server.refuse_if_draining()?;
    if stream.is_abandoned() {
        let text = "the client is gone and needs no lock any more";
        return Err(Failure::new(FailureCode::LockTimeout, text));
    }
    Ok(())
}
