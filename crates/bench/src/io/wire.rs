//! What a call sends to the servers: requests and their bytes, without the descriptions told.

use std::ops::{Add, Sub};

use striate_comm::{Comm, CommError, CommExt, Reduction};
use striate_store::StoreError;
use striate_store::remote::{Client, RemoteUrl, Traffic};

use super::report::WireSums;

/// Bytes of the frame header that every request has.
const HEADER: u64 = 28;

/// Bytes of a `Define` request besides the encoding and its length: the variant and the id.
const DEFINE: u64 = 1 + 16;

/// Requests on the wire and their bytes, headers included, and how many of them told a description.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) requests: u64,
    pub(super) request_bytes: u64,
    pub(super) descriptions: u64,
}

impl Sent {
    /// From the counts of a client. A description has no reply when it succeeds, every other request
    /// has one; so this holds while nothing is under way.
    pub(super) fn of(traffic: &Traffic) -> Self {
        let (requests, replies) = (traffic.sent.requests, traffic.received.replies);
        Self {
            requests,
            request_bytes: traffic.sent.request_bytes,
            descriptions: requests.saturating_sub(replies),
        }
    }

    /// The requests and bytes that are sent every time, if telling a description takes `each` bytes.
    pub(super) fn steady(self, each: u64) -> (u64, u64) {
        let told = self.descriptions * each;
        (self.requests - self.descriptions, self.request_bytes.saturating_sub(told))
    }
}

/// The ranks of this rank's process, which share a client. Collective.
pub(super) fn process_of(comm: &dyn Comm) -> Result<Vec<usize>, CommError> {
    let (all, me) = (comm.allgather_u64(std::process::id().into())?, comm.rank());
    let nodes = comm.nodes();
    let same = |rank: &usize| (nodes[*rank], all[*rank]) == (nodes[me], all[me]);
    Ok((0..comm.size()).filter(same).collect())
}

/// Counts what a process sends. One of its ranks does.
#[derive(Debug)]
pub(super) struct Watch {
    client: Option<Client>,
}

impl Watch {
    /// Watches the servers of a URL, if this rank is the first of its process.
    pub(super) fn new(url: &RemoteUrl, first: bool) -> Result<Self, StoreError> {
        Ok(Self { client: first.then(|| Client::shared(url)).transpose()? })
    }

    /// What was sent so far. While a rank is here, no other of its process may be in a call.
    pub(super) fn sent(&self) -> Sent {
        self.client.as_ref().map_or_else(Sent::default, |client| Sent::of(&client.traffic()))
    }
}

/// What all ranks sent, by what the first of each process counted. Collective.
///
/// `told` is what telling a description of this process takes, and `servers` how many servers held
/// bytes of this rank's steps.
pub(super) fn sum(
    comm: &dyn Comm,
    first: Sent,
    all: Sent,
    told: u64,
    servers: u64,
) -> Result<WireSums, CommError> {
    let (requests, bytes) = all.steady(told);
    let mut sums = [requests, bytes, first.requests, first.request_bytes, servers];
    comm.allreduce_u64(Reduction::Sum, &mut sums)?;
    let [requests, bytes, first_requests, first_bytes, servers] = sums;
    Ok(WireSums { steady: [requests, bytes], first: [first_requests, first_bytes], servers })
}

/// Bytes of the request that tells a description.
pub(super) fn description_bytes(encoding: u64) -> u64 {
    // The length is written seven bits to the byte.
    let digits = u64::from(encoding.max(1).ilog2()) / 7 + 1;
    HEADER + DEFINE + digits + encoding
}

impl Sub for Sent {
    type Output = Self;

    fn sub(self, then: Self) -> Self {
        Self {
            requests: self.requests - then.requests,
            request_bytes: self.request_bytes - then.request_bytes,
            descriptions: self.descriptions - then.descriptions,
        }
    }
}

impl Add for Sent {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            request_bytes: self.request_bytes + other.request_bytes,
            descriptions: self.descriptions + other.descriptions,
        }
    }
}

#[cfg(test)]
mod tests {
    use striate_wire::{Header, Request, TypeId};

    use super::*;

    #[test]
    fn what_has_no_reply_told_a_description() {
        let mut traffic = Traffic::default();
        (traffic.sent.requests, traffic.sent.request_bytes) = (6, 6 * 80 + 2 * 40);
        traffic.received.replies = 4;
        let sent = Sent::of(&traffic);
        assert_eq!(sent.descriptions, 2);
        assert_eq!(sent.steady(120), (4, 4 * 80));
        assert_eq!(sent - Sent::default(), sent);
        assert_eq!(sent + sent - sent, sent);
    }

    #[test]
    fn a_description_takes_what_the_wire_says() {
        for len in [1, 20, 127, 128, 16_383, 16_384, 20_000] {
            let encoding = vec![0; len];
            let request = Request::Define { id: TypeId::of(&encoding), encoding };
            let frame = Header::LEN + request.encode().unwrap().len();
            assert_eq!(description_bytes(len as u64), frame as u64);
        }
    }
}
