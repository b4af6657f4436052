//! [`ExchangePlan`]: which bytes move between ranks and partitions in each round of a collective
//! access.
//!
//! Requests (a few numbers each) travel once, in one all-to-all; then one reduction fixes the
//! number of rounds. In every round each stream between a rank and a partition moves the same share
//! of its bytes. So the buffers of a rank are bounded by `nc_partition_buffer` whatever the
//! accesses are, and all partitions are equally busy in every round.

use std::ops::Range;

use super::Partitioned;
use super::request::{HasRequest, MappedRequest, Request, RequestQueue, decode, encode};
use crate::access::Access;
use crate::{ArrayError, Dataset};

/// Bytes of a stream that move in a round at least, whatever the size of the buffer.
const MIN_ROUND_BYTES: u64 = 4 << 10;

/// The requests of one rank on one partition.
pub(super) struct ServedStream {
    /// The requesting rank.
    pub(super) of: usize,
    pub(super) queue: RequestQueue<Request>,
}

/// What moves in one collective call.
pub(super) struct ExchangePlan {
    /// The streams that this rank serves as a delegate, by rank and partition.
    pub(super) served: Vec<ServedStream>,
    pub(super) rounds: u64,
}

impl ExchangePlan {
    /// The range of a stream that moves in a round.
    pub(super) fn round_range<T: HasRequest>(
        &self,
        queue: &RequestQueue<T>,
        round: u64,
    ) -> Range<u64> {
        queue.round(round, queue.bytes().div_ceil(self.rounds.max(1)).max(MIN_ROUND_BYTES))
    }
}

impl Dataset {
    /// The requests of accesses to divided variables, in one queue for each partition.
    pub(crate) fn request_queues<M>(
        &self,
        accesses: &[Access<M>],
    ) -> Result<Vec<RequestQueue<MappedRequest>>, ArrayError> {
        let Some(partitioned) = self.partitioned.as_ref().filter(|_| !accesses.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut queues = Vec::new();
        queues.resize_with(partitioned.scheme.count, RequestQueue::default);
        for (access, number) in accesses.iter().zip(0..) {
            let variable = &partitioned.logical.variables[access.variable];
            let division = partitioned.scheme.variables[access.variable].as_ref();
            let (Some(division), Some(hyperslab)) = (division, &access.hyperslab) else { continue };
            let first = hyperslab.start[division.dimension];
            let first = division.ranges.partition_point(|range| range.end <= first);
            for (k, range) in division.ranges.iter().enumerate().skip(first) {
                if hyperslab.ends_before(division.dimension, range.start) {
                    break;
                }
                let size = variable.external.size();
                let Some((hyperslab, selection)) =
                    hyperslab.within(division.dimension, range, size)
                else {
                    continue;
                };
                partitioned.check(k, access.records)?;
                let own = partitioned.indices[access.variable][k];
                let request = Request { partition: k, variable: own, hyperslab, size };
                queues[k].push(MappedRequest { request, access: number, selection });
            }
        }
        Ok(queues)
    }

    /// Sends the requests to the delegates and agrees on the number of rounds. Collective.
    pub(super) fn plan_exchange(
        &self,
        queues: &[RequestQueue<MappedRequest>],
    ) -> Result<ExchangePlan, ArrayError> {
        let Some(partitioned) = self.partitioned.as_ref() else {
            return Ok(ExchangePlan { served: Vec::new(), rounds: 0 });
        };
        let comm = self.state.comm.as_ref();
        let mut parts = vec![Vec::new(); comm.size()];
        for (k, queue) in queues.iter().enumerate() {
            parts[partitioned.delegate(k)].extend(encode(&queue.items));
        }
        let received = comm.alltoall(parts)?;
        let served =
            received.iter().enumerate().map(|(rank, bytes)| partitioned.serve(rank, bytes));
        let served: Result<Vec<Vec<ServedStream>>, _> = served.collect();
        let served = served.map(|of_each| of_each.into_iter().flatten().collect::<Vec<_>>());
        let requested = queues.iter().map(RequestQueue::bytes);
        let bytes =
            requested.chain(served.iter().flatten().map(|stream| stream.queue.bytes())).sum();
        let (served, [bytes]) = self.state.agree_with_max(served, [bytes])?;
        let rounds = bytes.div_ceil(self.options.partitioning.buffer);
        Ok(ExchangePlan { served, rounds })
    }
}

impl Partitioned {
    /// An error if a partition cannot be accessed, or cannot hold `records` records.
    pub(super) fn check(&self, k: usize, records: u64) -> Result<(), ArrayError> {
        let info = &self.infos[k];
        let refuse = |reason: &str| {
            let file = info.file.display().to_string();
            Err(ArrayError::Partition { file, reason: reason.into() })
        };
        if let Some(reason) = &info.missing {
            return refuse(reason);
        }
        let end = info.record_size.checked_mul(records);
        match end.and_then(|end| end.checked_add(info.fixed_end)).map(i64::try_from) {
            Some(Ok(_)) => Ok(()),
            _ => refuse("its records would end beyond 2^63 - 1 bytes, which no file can reach"),
        }
    }

    /// Whether every partition that is present can hold `records` records.
    pub(crate) fn can_hold(&self, records: u64) -> bool {
        self.infos
            .iter()
            .enumerate()
            .all(|(k, info)| info.missing.is_some() || self.check(k, records).is_ok())
    }

    /// The rank that accesses a partition for this one.
    pub(super) fn delegate(&self, k: usize) -> usize {
        self.groups.delegate(self.rank, self.groups.of_partition(k))
    }

    /// Decodes and checks the requests of a rank: one stream for each partition, in their order.
    fn serve(&self, rank: usize, bytes: &[u8]) -> Result<Vec<ServedStream>, ArrayError> {
        let refuse = || ArrayError::Definition {
            what: "access to a partition".into(),
            reason: format!("rank {rank} requests elements that do not exist"),
        };
        let mut streams: Vec<ServedStream> = Vec::new();
        let mut last = None;
        for mut request in decode(bytes).ok_or_else(refuse)? {
            let own = self.own.iter().find(|part| part.index == request.partition);
            let header = &own.ok_or_else(refuse)?.data.state.header;
            let variable = header.variables.get(request.variable).ok_or_else(refuse)?;
            let shape = header.shape(variable);
            let hyperslab = &request.hyperslab;
            let is_record = header.is_record(variable);
            let fits = |i: usize| {
                let last = hyperslab.count[i].checked_sub(1)?.checked_mul(hyperslab.stride[i])?;
                let last = last.checked_add(hyperslab.start[i])?;
                ((i == 0 && is_record) || last < shape[i]).then_some(())
            };
            if hyperslab.count.len() != shape.len() || !(0..shape.len()).all(|i| fits(i).is_some())
            {
                return Err(refuse());
            }
            request.size = variable.external.size();
            if last.replace(request.partition) != Some(request.partition) {
                streams.push(ServedStream { of: rank, queue: RequestQueue::default() });
            }
            if let Some(stream) = streams.last_mut() {
                stream.queue.push(request);
            }
        }
        Ok(streams)
    }
}
