//! The traffic of a call to the servers: requests and their bytes, without those that send
//! descriptions.

use striate_comm::{Comm, CommError, CommExt, Reduction};
use striate_store::StoreError;
use striate_store::remote::{Client, Frames, RemoteUrl};

use super::report::{RequestSums, WireSums};

/// The ranks of this rank's process, which share a client. Collective.
pub(super) fn process_of(comm: &dyn Comm) -> Result<Vec<usize>, CommError> {
    let (all, me) = (comm.allgather_u64(std::process::id().into())?, comm.rank());
    let nodes = comm.nodes();
    let same = |rank: &usize| (nodes[*rank], all[*rank]) == (nodes[me], all[me]);
    Ok((0..comm.size()).filter(same).collect())
}

/// Counts what a process sends. One of its ranks does.
#[derive(Debug)]
pub(super) struct SentCounter {
    client: Option<Client>,
}

impl SentCounter {
    /// Watches the servers of a URL, if this rank is the first of its process.
    pub(super) fn new(url: &RemoteUrl, first: bool) -> Result<Self, StoreError> {
        Ok(Self { client: first.then(|| Client::shared(url)).transpose()? })
    }

    /// What was sent so far. Meanwhile no other rank of the process may be in a call.
    pub(super) fn sent(&self) -> Frames {
        self.client.as_ref().map_or_else(Frames::default, |client| client.traffic().sent)
    }
}

/// What all ranks sent, by what the first of each process counted. Collective.
///
/// `servers` is how many servers held bytes of this rank's steps.
pub(super) fn sum(
    comm: &dyn Comm,
    first: Frames,
    all: Frames,
    servers: u64,
) -> Result<WireSums, CommError> {
    // Descriptions are sent once; the rest is sent every time.
    let requests = all.requests - all.descriptions;
    let bytes = all.request_bytes - all.description_bytes;
    let mut sums = [requests, bytes, first.requests, first.request_bytes, servers];
    comm.allreduce_u64(Reduction::Sum, &mut sums)?;
    let [requests, bytes, first_requests, first_bytes, servers] = sums;
    let steady = RequestSums { requests, bytes };
    let first = RequestSums { requests: first_requests, bytes: first_bytes };
    Ok(WireSums { steady, first, servers })
}
