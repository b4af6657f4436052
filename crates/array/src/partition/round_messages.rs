//! [`RoundMessage`]: the bytes of one stream in one round of the exchange, and the I/O of a
//! delegate with them.
//!
//! Between two ranks the messages of a round follow the order of the partitions. A rank that cannot
//! supply its bytes sends an empty message, so its peer never waits for ever; [`super::exchange`]
//! compares lengths.

use std::collections::VecDeque;
use std::ops::Range;

use striate_comm::{Comm, Request as Transfer};

use super::exchange_plan::{ExchangePlan, ServedStream};
use super::partition_io::{PartitionPiece, for_each_partition};
use super::piece_bytes::{len, pack, pieces_to_read, pieces_to_write};
use super::request::{MappedRequest, RequestQueue};
use super::{OpenPartition, Partitioned};
use crate::ArrayError;
use crate::access::{Access, IoMode};
use crate::stream::WriteStream;

/// The tag of these messages; those of the file's two-phase exchange differ.
const TAG: u32 = 77;

/// The bytes of one stream in one round.
pub(super) struct RoundMessage {
    /// Index in [`ExchangePlan::served`].
    pub(super) stream: usize,
    pub(super) range: Range<u64>,
    pub(super) bytes: Vec<u8>,
}

impl RoundMessage {
    /// Whether all bytes of the range arrived.
    pub(super) fn is_complete(&self) -> bool {
        self.bytes.len() as u64 == len(&self.range)
    }
}

/// What a rank has sent and received in a round of a write.
pub(super) struct RoundTransfers {
    /// The messages to be written by this rank.
    pub(super) messages: Vec<RoundMessage>,
    /// Sends that are still in progress.
    pub(super) transfers: Vec<Transfer>,
    /// Whether this rank could pack its own bytes.
    pub(super) packing: Result<(), ArrayError>,
}

impl Partitioned {
    /// Sends this rank's bytes of a round to the delegates and receives those that it is to write.
    pub(super) fn send_round(
        &mut self,
        comm: &dyn Comm,
        plan: &ExchangePlan,
        round: u64,
        accesses: &[Access<WriteStream<'_>>],
        queues: &[RequestQueue<MappedRequest>],
    ) -> Result<RoundTransfers, ArrayError> {
        let mut packing = Ok(());
        let mut receives = Vec::new();
        for (stream, ServedStream { of, queue }) in plan.served.iter().enumerate() {
            let range = plan.round_range(queue, round);
            if !range.is_empty() {
                let transfer = if *of == comm.rank() {
                    None
                } else {
                    Some(comm.receive(*of, TAG, len(&range) as usize)?)
                };
                receives.push((stream, range, transfer));
            }
        }
        let (mut transfers, mut own) = (Vec::new(), VecDeque::new());
        for (k, queue) in queues.iter().enumerate() {
            let range = plan.round_range(queue, round);
            if range.is_empty() {
                continue;
            }
            let bytes = pack(accesses, queue, range).unwrap_or_else(|error| {
                // An empty message tells the delegate that there was an error.
                packing = Err(error);
                Vec::new()
            });
            let delegate = self.delegate(k);
            if delegate == comm.rank() {
                own.push_back(bytes);
            } else {
                self.costs.exchanged_bytes += bytes.len() as u64;
                transfers.push(comm.send(delegate, TAG, bytes)?);
            }
        }
        let mut messages = Vec::new();
        for (stream, range, transfer) in receives {
            let bytes = match transfer {
                Some(transfer) => {
                    let bytes = comm.wait(transfer)?;
                    self.costs.exchanged_bytes += bytes.len() as u64;
                    bytes
                }
                None => own.pop_front().unwrap_or_default(),
            };
            messages.push(RoundMessage { stream, range, bytes });
        }
        Ok(RoundTransfers { messages, transfers, packing })
    }

    /// Writes received messages to the partitions. Collective in the group.
    pub(super) fn write_round(
        &mut self,
        plan: &ExchangePlan,
        messages: &[RoundMessage],
    ) -> Result<(), ArrayError> {
        let mut jobs: Vec<Vec<PartitionPiece<&[u8]>>> =
            self.own.iter().map(|_| Vec::new()).collect();
        for message in messages {
            let queue = &plan.served[message.stream].queue;
            for (k, piece) in pieces_to_write(queue, message.range.clone(), &message.bytes) {
                if let Some(own) = self.own.iter().position(|part| part.index == k) {
                    jobs[own].push(piece);
                }
            }
        }
        let jobs = self.participating(jobs);
        for_each_partition(jobs, |part, job| part.data.put_pieces(&job, IoMode::Collective))
    }

    /// The partitions that take part in a round: in a group of several ranks all of them, since the
    /// access is collective there; otherwise those that have something to do.
    fn participating<P>(&mut self, jobs: Vec<Vec<P>>) -> Vec<(&mut OpenPartition, Vec<P>)> {
        let collective = self.group.is_some();
        let all = self.own.iter_mut().zip(jobs);
        all.filter(|(_, job)| collective || !job.is_empty()).collect()
    }

    /// Starts to receive what this rank has requested for a round: the partition, and the transfer
    /// unless this rank is the delegate itself.
    pub(super) fn begin_receives(
        &self,
        comm: &dyn Comm,
        plan: &ExchangePlan,
        round: u64,
        queues: &[RequestQueue<MappedRequest>],
    ) -> Result<Vec<(usize, Option<Transfer>)>, ArrayError> {
        let mut receives = Vec::new();
        for (k, queue) in queues.iter().enumerate() {
            let range = plan.round_range(queue, round);
            let delegate = self.delegate(k);
            if range.is_empty() {
                continue;
            }
            let transfer = if delegate == comm.rank() {
                None
            } else {
                Some(comm.receive(delegate, TAG, len(&range) as usize)?)
            };
            receives.push((k, transfer));
        }
        Ok(receives)
    }

    /// Reads what the served streams request in a round. Collective in the group.
    pub(super) fn read_round(
        &mut self,
        plan: &ExchangePlan,
        round: u64,
    ) -> Result<Vec<RoundMessage>, ArrayError> {
        let mut messages = Vec::new();
        for (stream, ServedStream { queue, .. }) in plan.served.iter().enumerate() {
            let range = plan.round_range(queue, round);
            if !range.is_empty() {
                let bytes = vec![0; len(&range) as usize];
                messages.push(RoundMessage { stream, range, bytes });
            }
        }
        let mut jobs: Vec<Vec<PartitionPiece<&mut [u8]>>> =
            self.own.iter().map(|_| Vec::new()).collect();
        for message in &mut messages {
            let queue = &plan.served[message.stream].queue;
            for (k, piece) in pieces_to_read(queue, message.range.clone(), &mut message.bytes) {
                if let Some(own) = self.own.iter().position(|part| part.index == k) {
                    jobs[own].push(piece);
                }
            }
        }
        let jobs = self.participating(jobs);
        for_each_partition(jobs, |part, job| part.data.get_pieces(job, IoMode::Collective))?;
        Ok(messages)
    }

    /// Sends what was read to the requesting ranks; returns the bytes that are this rank's own, and
    /// the sends. A stream without a message gets an empty one, which means that the read failed.
    pub(super) fn send_back(
        &mut self,
        comm: &dyn Comm,
        plan: &ExchangePlan,
        round: u64,
        read: Vec<RoundMessage>,
    ) -> Result<(VecDeque<Vec<u8>>, Vec<Transfer>), ArrayError> {
        let (mut transfers, mut own) = (Vec::new(), VecDeque::new());
        let mut read = read.into_iter().peekable();
        for (number, ServedStream { of, queue }) in plan.served.iter().enumerate() {
            if plan.round_range(queue, round).is_empty() {
                continue;
            }
            let message = read.next_if(|message| message.stream == number);
            let bytes = message.map(|message| message.bytes).unwrap_or_default();
            if *of == comm.rank() {
                own.push_back(bytes);
            } else {
                self.costs.exchanged_bytes += bytes.len() as u64;
                transfers.push(comm.send(*of, TAG, bytes)?);
            }
        }
        Ok((own, transfers))
    }
}
