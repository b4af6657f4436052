//! Collective access to divided variables: who has data for a partition of another group sends it to a
//! delegate there, who writes it; reads are the mirror image.
//!
//! Descriptions travel once, in one all-to-all. Then bytes travel in rounds, as many for all ranks, each of
//! which takes the same share of every stream between a rank and a partition. So what a rank holds is bounded,
//! whatever the accesses are, and all partitions have as much to do in every round, whether few ranks
//! have much for them or many have little. A rank that fails goes on with the protocol without data: a
//! message that is shorter than it should be says so. All learn of it at the end.

use std::ops::Range;
use std::time::Instant;

use striate_file::Gather;

use super::PartitionStats;
use super::parcels::{Parcel, Sent};
use super::request::{Item, Queue, Request, Wanted, encode};
use crate::access::Access;
use crate::stream::{Incoming, Outgoing};
use crate::{ArrayError, Dataset};

/// Bytes of a stream that move in a round at least, whatever the buffer.
const LEAST: u64 = 4 << 10;

/// What a rank has for one partition, or wants of it.
pub(super) struct Stream {
    /// Which rank.
    pub(super) of: usize,
    pub(super) queue: Queue<Request>,
}

/// What moves in one call.
pub(super) struct Traffic {
    /// What this rank does for each rank and partition.
    pub(super) served: Vec<Stream>,
    pub(super) rounds: u64,
}

impl Traffic {
    /// The part of a stream that moves in a round.
    pub(super) fn part<T: Item>(&self, queue: &Queue<T>, round: u64) -> Range<u64> {
        queue.round(round, queue.bytes().div_ceil(self.rounds.max(1)).max(LEAST))
    }
}

impl Dataset {
    /// What accesses on divided variables ask of each partition.
    pub(crate) fn queues<M>(
        &self,
        accesses: &[Access<M>],
    ) -> Result<Vec<Queue<Wanted>>, ArrayError> {
        let Some(parted) = self.parted.as_ref().filter(|_| !accesses.is_empty()) else {
            return Ok(Vec::new());
        };
        let mut queues = Vec::new();
        queues.resize_with(parted.scheme.count, Queue::default);
        for (access, number) in accesses.iter().zip(0..) {
            let variable = &parted.logical.variables[access.variable];
            let along = parted.scheme.variables[access.variable].as_ref();
            let (Some(along), Some(extent)) = (along, &access.extent) else { continue };
            let first = extent.start[along.dimension];
            let first = along.ranges.partition_point(|range| range.end <= first);
            for (k, range) in along.ranges.iter().enumerate().skip(first) {
                if extent.ends_before(along.dimension, range.start) {
                    break;
                }
                let size = variable.external.size();
                let Some((extent, selection)) = extent.within(along.dimension, range, size) else {
                    continue;
                };
                parted.check(k, access.records)?;
                let own = parted.indices[access.variable][k];
                let request = Request { partition: k, variable: own, extent, size };
                queues[k].push(Wanted { request, access: number, selection });
            }
        }
        Ok(queues)
    }

    /// Writes to partitions. Collective.
    pub(crate) fn put_divided(
        &mut self,
        accesses: &[Access<Outgoing<'_>>],
        queues: &[Queue<Wanted>],
    ) -> Result<(), ArrayError> {
        let traffic = self.meet(queues)?;
        let comm = std::sync::Arc::clone(&self.state.comm);
        let Some(parted) = self.parted.as_deref_mut() else { return Ok(()) };
        let mut all = Ok(());
        let mut stopped = false;
        for round in 0..traffic.rounds {
            let begun = Instant::now();
            let Sent { parcels, transfers, packing } =
                parted.send_parcels(comm.as_ref(), &traffic, round, accesses, queues)?;
            all = all.and(packing);
            let whole = |parcel: &Parcel| parcel.bytes.len() as u64 == len(&parcel.range);
            if let Some(parcel) = parcels.iter().find(|parcel| !whole(parcel)) {
                all = all.and(Err(no_data(traffic.served[parcel.stream].of)));
            }
            let packed = Instant::now();
            if !stopped {
                let parcels: Vec<Parcel> = parcels.into_iter().filter(whole).collect();
                let written = parted.write_parcels(&traffic, &parcels);
                stopped = written.is_err();
                all = all.and(written);
            }
            let written = Instant::now();
            for transfer in transfers {
                comm.wait(transfer)?;
            }
            parted.costs.add(begun, packed, written);
        }
        self.state.agree(all)
    }

    /// Reads from partitions. Collective.
    pub(crate) fn get_divided(
        &mut self,
        accesses: &mut [Access<Incoming<'_>>],
        queues: &[Queue<Wanted>],
    ) -> Result<(), ArrayError> {
        let traffic = self.meet(queues)?;
        let comm = std::sync::Arc::clone(&self.state.comm);
        let Some(parted) = self.parted.as_deref_mut() else { return Ok(()) };
        let (mut all, mut stopped) = (Ok(()), false);
        for round in 0..traffic.rounds {
            let begun = Instant::now();
            let receives = parted.begin_receives(comm.as_ref(), &traffic, round, queues)?;
            let asked = Instant::now();
            let read = if stopped { Ok(Vec::new()) } else { parted.read_parcels(&traffic, round) };
            stopped |= read.is_err();
            let (read, failed) = match read {
                Ok(read) => (read, Ok(())),
                Err(error) => (Vec::new(), Err(error)),
            };
            all = all.and(failed);
            let read_at = Instant::now();
            let (mut own, sent) = parted.send_back(comm.as_ref(), &traffic, round, read)?;
            for (k, transfer) in receives {
                let bytes = match transfer {
                    Some(transfer) => comm.wait(transfer)?,
                    None => own.pop_front().unwrap_or_default(),
                };
                let range = traffic.part(&queues[k], round);
                if bytes.len() as u64 == len(&range) {
                    all = all.and(hand_out(accesses, &queues[k], range, &bytes));
                } else {
                    all = all.and(Err(no_data(parted.delegate(k))));
                }
                parted.costs.exchanged_bytes += bytes.len() as u64;
            }
            for transfer in sent {
                comm.wait(transfer)?;
            }
            parted.costs.add(begun, asked, read_at);
        }
        self.state.agree(all)
    }

    /// Tells delegates what is asked of them, and agrees on the rounds. Collective.
    fn meet(&self, queues: &[Queue<Wanted>]) -> Result<Traffic, ArrayError> {
        let Some(parted) = self.parted.as_ref() else {
            return Ok(Traffic { served: Vec::new(), rounds: 0 });
        };
        let comm = self.state.comm.as_ref();
        let mut parts = vec![Vec::new(); comm.size()];
        for (k, queue) in queues.iter().enumerate() {
            parts[parted.delegate(k)].extend(encode(&queue.items));
        }
        let received = comm.alltoall(parts)?;
        let served = received.iter().enumerate().map(|(rank, bytes)| parted.serve(rank, bytes));
        let served: Result<Vec<Vec<Stream>>, _> = served.collect();
        let served = served.map(|of_each| of_each.into_iter().flatten().collect::<Vec<_>>());
        let asked = queues.iter().map(Queue::bytes);
        let bytes = asked.chain(served.iter().flatten().map(|stream| stream.queue.bytes())).sum();
        let (served, [bytes]) = self.state.agree_with(served, [bytes])?;
        let rounds = bytes.div_ceil(self.options.partitioning.buffer);
        Ok(Traffic { served, rounds })
    }
}

pub(super) fn len(range: &Range<u64>) -> u64 {
    range.end - range.start
}

/// The error of who waits for bytes that somebody else cannot give; that rank's own says why.
fn no_data(rank: usize) -> ArrayError {
    ArrayError::Rank { rank, reason: "it has no data to give".into() }
}

/// The bytes of a piece, by which a rank is asked.
pub(super) fn pack(
    accesses: &[Access<Outgoing<'_>>],
    queue: &Queue<Wanted>,
    range: Range<u64>,
) -> Result<Vec<u8>, ArrayError> {
    let mut bytes = vec![0; len(&range) as usize];
    let mut rest = bytes.as_mut_slice();
    for (wanted, elements) in queue.meet(range) {
        let size = wanted.request.size;
        let (this, behind) = rest.split_at_mut((len(&elements) * size) as usize);
        let memory: &dyn Gather = &accesses[wanted.access].memory;
        wanted.selection.gather(memory, elements.start * size, this)?;
        rest = behind;
    }
    Ok(bytes)
}

/// The bytes of a piece, to where they were asked for.
pub(super) fn hand_out(
    accesses: &mut [Access<Incoming<'_>>],
    queue: &Queue<Wanted>,
    range: Range<u64>,
    bytes: &[u8],
) -> Result<(), ArrayError> {
    let mut rest = bytes;
    for (wanted, elements) in queue.meet(range) {
        let size = wanted.request.size;
        let (this, behind) = rest.split_at((len(&elements) * size) as usize);
        let memory = &mut accesses[wanted.access].memory;
        wanted.selection.scatter(memory, elements.start * size, this)?;
        rest = behind;
    }
    Ok(())
}

impl PartitionStats {
    /// A round: from `begun` on bytes travelled, except between the two others, when they were read or
    /// written.
    fn add(&mut self, begun: Instant, from: Instant, to: Instant) {
        self.rounds += 1;
        let io = to.duration_since(from).as_secs_f64();
        self.io_seconds += io;
        self.exchange_seconds += begun.elapsed().as_secs_f64() - io;
    }
}
