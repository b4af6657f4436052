//! [`Cost`]: what a call costs a client, counted at the store and at the connections to servers.

use serde::Serialize;
use striate_comm::{Comm, CommError, Reduction};
use striate_file::Stats;

/// What a call cost a client: the characteristics of \[CHING\], counted at the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Bytes the client asked for.
    pub wanted: u64,
    /// Bytes read or written for it.
    pub accessed: u64,
    /// I/O operations.
    pub operations: u64,
    /// Bytes sent to other clients, if the method does so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resent: Option<u64>,
    /// Bytes of a contiguous region, on average.
    pub region_size: u64,
    /// Bytes that a write had to read, if it had to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_back: Option<u64>,
    /// What it sent to servers, if the file is on servers.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub wire: Option<Wire>,
}

/// What a call sent to servers for a client, without data. A description is sent once and named by
/// its id from then on; such requests count for the first call only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Wire {
    /// Requests.
    pub requests: u64,
    /// Their bytes, with headers.
    pub request_bytes: u64,
    /// Bytes of requests for each server that holds bytes of the call.
    pub request_bytes_per_server: u64,
    /// Requests of the first call, if they were more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_call_requests: Option<u64>,
    /// Their bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_call_request_bytes: Option<u64>,
}

impl Cost {
    /// The mean over so many clients of what all ranks spent.
    pub(crate) fn mean(sums: &Stats, clients: u64) -> Self {
        let mean = |sum: u64| rounded_share(sum, clients);
        Self {
            wanted: mean(sums.wanted),
            accessed: mean(sums.accessed),
            operations: mean(sums.operations),
            resent: (sums.resent > 0).then(|| mean(sums.resent)),
            region_size: sums.region_size(),
            read_back: (sums.read_back > 0).then(|| mean(sums.read_back)),
            wire: None,
        }
    }
}

/// A sum divided by how many share it, to the nearest whole; 0 of none.
pub(crate) fn rounded_share(sum: u64, among: u64) -> u64 {
    (sum + among / 2).checked_div(among).unwrap_or(0)
}

/// The counts of all ranks together that a [`Cost`] is made of; others are 0. Collective.
pub(crate) fn sum_of_ranks(comm: &dyn Comm, stats: &Stats) -> Result<Stats, CommError> {
    let mut sums = [
        stats.wanted,
        stats.accessed,
        stats.operations,
        stats.resent,
        stats.regions,
        stats.read_back,
    ];
    comm.allreduce_u64(Reduction::Sum, &mut sums)?;
    let [wanted, accessed, operations, resent, regions, read_back] = sums;
    Ok(Stats { wanted, accessed, operations, resent, regions, read_back, ..Stats::default() })
}
