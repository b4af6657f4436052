//! Collective access to divided variables, in rounds of messages between ranks and delegates.
//!
//! A rank with data for a partition of another group sends it to a delegate there, which writes it;
//! reads are the mirror image. [`super::exchange_plan`] decides what moves in which round,
//! [`super::round_messages`] moves it. A rank that fails continues the protocol without data: a
//! message that is shorter than its range means an error of its sender. All ranks learn of errors
//! at the end of the call.

use std::time::Instant;

use super::PartitionStats;
use super::piece_bytes::{len, unpack};
use super::request::{MappedRequest, RequestQueue};
use super::round_messages::{RoundMessage, RoundTransfers};
use crate::access::Access;
use crate::stream::{ReadStream, WriteStream};
use crate::{ArrayError, Dataset};

impl Dataset {
    /// Writes to partitions. Collective.
    pub(crate) fn put_divided(
        &mut self,
        accesses: &[Access<WriteStream<'_>>],
        queues: &[RequestQueue<MappedRequest>],
    ) -> Result<(), ArrayError> {
        let plan = self.plan_exchange(queues)?;
        let comm = std::sync::Arc::clone(&self.state.comm);
        let Some(partitioned) = self.partitioned.as_deref_mut() else { return Ok(()) };
        let mut all = Ok(());
        let mut stopped = false;
        for round in 0..plan.rounds {
            let begun = Instant::now();
            let RoundTransfers { messages, transfers, packing } =
                partitioned.send_round(comm.as_ref(), &plan, round, accesses, queues)?;
            all = all.and(packing);
            if let Some(message) = messages.iter().find(|message| !message.is_complete()) {
                all = all.and(Err(no_data(plan.served[message.stream].of)));
            }
            let packed = Instant::now();
            if !stopped {
                let complete: Vec<RoundMessage> =
                    messages.into_iter().filter(RoundMessage::is_complete).collect();
                let written = partitioned.write_round(&plan, &complete);
                stopped = written.is_err();
                all = all.and(written);
            }
            let written = Instant::now();
            for transfer in transfers {
                comm.wait(transfer)?;
            }
            partitioned.costs.add_round(begun, packed, written);
        }
        if let Some(partitioned) = self.partitioned.as_deref_mut() {
            partitioned.chunks_were_written();
        }
        self.state.agree(all)
    }

    /// Reads from partitions. Collective.
    pub(crate) fn get_divided(
        &mut self,
        accesses: &mut [Access<ReadStream<'_>>],
        queues: &[RequestQueue<MappedRequest>],
    ) -> Result<(), ArrayError> {
        let plan = self.plan_exchange(queues)?;
        let comm = std::sync::Arc::clone(&self.state.comm);
        let Some(partitioned) = self.partitioned.as_deref_mut() else { return Ok(()) };
        let (mut all, mut stopped) = (Ok(()), false);
        for round in 0..plan.rounds {
            let begun = Instant::now();
            let receives = partitioned.begin_receives(comm.as_ref(), &plan, round, queues)?;
            let requested = Instant::now();
            let read = if stopped { Ok(Vec::new()) } else { partitioned.read_round(&plan, round) };
            stopped |= read.is_err();
            let (read, failed) = match read {
                Ok(read) => (read, Ok(())),
                Err(error) => (Vec::new(), Err(error)),
            };
            all = all.and(failed);
            let read_at = Instant::now();
            let (mut own, sent) = partitioned.send_back(comm.as_ref(), &plan, round, read)?;
            for (k, transfer) in receives {
                let mut bytes = match transfer {
                    Some(transfer) => comm.wait(transfer)?,
                    None => own.pop_front().unwrap_or_default(),
                };
                let range = plan.round_range(&queues[k], round);
                if bytes.len() as u64 == len(&range) {
                    let queue = &queues[k];
                    let state = &mut self.state;
                    let added =
                        partitioned.add_deferred(k, queue, range.clone(), &mut bytes, state);
                    all = all.and(added).and(unpack(accesses, queue, range, &bytes));
                } else {
                    all = all.and(Err(no_data(partitioned.delegate(k))));
                }
                partitioned.costs.exchanged_bytes += bytes.len() as u64;
            }
            for transfer in sent {
                comm.wait(transfer)?;
            }
            partitioned.costs.add_round(begun, requested, read_at);
        }
        self.state.agree(all)
    }
}

/// The error of a rank that received an incomplete message; the error of the sender gives the
/// reason.
fn no_data(rank: usize) -> ArrayError {
    ArrayError::Rank { rank, reason: "it has no data to give".into() }
}

impl PartitionStats {
    /// Adds a round that began at `begun` and ends now; from `io_start` to `io_end` the partitions
    /// were read or written, and the rest was exchange.
    fn add_round(&mut self, begun: Instant, io_start: Instant, io_end: Instant) {
        self.rounds += 1;
        let io = io_end.duration_since(io_start).as_secs_f64();
        self.io_seconds += io;
        self.exchange_seconds += begun.elapsed().as_secs_f64() - io;
    }
}
