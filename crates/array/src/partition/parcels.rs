//! What travels in a round of the exchange, and what a delegate does with it.

use std::collections::VecDeque;
use std::ops::Range;

use striate_comm::{Comm, Request as Transfer};

use super::exchange::{Stream, Traffic, len, pack};
use super::request::{Item, Queue, Wanted, decode};
use super::work::{Piece, each_with};
use super::{Part, Parted};
use crate::ArrayError;
use crate::access::Access;
use crate::stream::Outgoing;

/// The tag of pieces; the file room's exchange has others.
const TAG: u32 = 77;

/// Bytes of one round.
pub(super) struct Parcel {
    /// Of which of the streams that are served.
    pub(super) stream: usize,
    pub(super) range: Range<u64>,
    pub(super) bytes: Vec<u8>,
}

/// What a rank has sent and received in a round.
pub(super) struct Sent {
    /// What it is to write.
    pub(super) parcels: Vec<Parcel>,
    /// What is still on its way.
    pub(super) transfers: Vec<Transfer>,
    /// Whether it could give what it was to give.
    pub(super) packing: Result<(), ArrayError>,
}

/// The elements of a piece, and how many bytes each of them has.
pub(super) fn pieces_of<T: Item>(
    queue: &Queue<T>,
    range: Range<u64>,
) -> impl Iterator<Item = (usize, Piece<usize>)> {
    queue.meet(range).flat_map(|(item, elements)| {
        let request = item.request();
        let boxes = request.extent.boxes(elements).into_iter();
        boxes.map(|extent| {
            let bytes = (extent.elements() * request.size) as usize;
            (request.partition, Piece { variable: request.variable, extent, bytes })
        })
    })
}

impl Parted {
    /// An error if a partition cannot be accessed, or not hold so many records.
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
            _ => refuse("its records would end beyond 2^63 - 1 bytes, where no file reaches"),
        }
    }

    /// Whether every partition can hold so many records.
    pub(crate) fn can_hold(&self, records: u64) -> bool {
        self.infos
            .iter()
            .enumerate()
            .all(|(k, info)| info.missing.is_some() || self.check(k, records).is_ok())
    }

    /// The rank that acts for this one on a partition.
    pub(super) fn delegate(&self, k: usize) -> usize {
        self.groups.delegate(self.rank, self.groups.of_partition(k))
    }

    /// What a rank asks of this one: a stream for each partition, in their order.
    pub(super) fn serve(&self, rank: usize, bytes: &[u8]) -> Result<Vec<Stream>, ArrayError> {
        let refuse = || ArrayError::Definition {
            what: "access to a partition".into(),
            reason: format!("rank {rank} asks for what is not there"),
        };
        let mut streams: Vec<Stream> = Vec::new();
        let mut last = None;
        for mut request in decode(bytes).ok_or_else(refuse)? {
            let own = self.parts.iter().find(|part| part.index == request.partition);
            let header = &own.ok_or_else(refuse)?.data.state.header;
            let variable = header.variables.get(request.variable).ok_or_else(refuse)?;
            let shape = header.shape(variable);
            let extent = &request.extent;
            let is_record = header.is_record(variable);
            let fits = |i: usize| {
                let last = extent.count[i].checked_sub(1)?.checked_mul(extent.stride[i])?;
                let last = last.checked_add(extent.start[i])?;
                ((i == 0 && is_record) || last < shape[i]).then_some(())
            };
            if extent.count.len() != shape.len() || !(0..shape.len()).all(|i| fits(i).is_some()) {
                return Err(refuse());
            }
            request.size = variable.external.size();
            if last.replace(request.partition) != Some(request.partition) {
                streams.push(Stream { of: rank, queue: Queue::default() });
            }
            if let Some(stream) = streams.last_mut() {
                stream.queue.push(request);
            }
        }
        Ok(streams)
    }

    /// Sends what others are to write in a round; returns what this rank is to write, and whether it
    /// could give what it was to give.
    pub(super) fn send_parcels(
        &mut self,
        comm: &dyn Comm,
        traffic: &Traffic,
        round: u64,
        accesses: &[Access<Outgoing<'_>>],
        queues: &[Queue<Wanted>],
    ) -> Result<Sent, ArrayError> {
        let mut packing = Ok(());
        let mut receives = Vec::new();
        for (stream, Stream { of, queue }) in traffic.served.iter().enumerate() {
            let range = traffic.part(queue, round);
            if !range.is_empty() {
                let transfer = if *of == comm.rank() {
                    None
                } else {
                    Some(comm.receive(*of, TAG, len(&range) as usize)?)
                };
                receives.push((stream, range, transfer));
            }
        }
        // Between two ranks pieces come in the order of the partitions.
        let (mut sent, mut own) = (Vec::new(), VecDeque::new());
        for (k, queue) in queues.iter().enumerate() {
            let range = traffic.part(queue, round);
            if range.is_empty() {
                continue;
            }
            let bytes = pack(accesses, queue, range).unwrap_or_else(|error| {
                // Who gets nothing knows that there was an error.
                packing = Err(error);
                Vec::new()
            });
            let delegate = self.delegate(k);
            if delegate == comm.rank() {
                own.push_back(bytes);
            } else {
                self.costs.exchanged_bytes += bytes.len() as u64;
                sent.push(comm.send(delegate, TAG, bytes)?);
            }
        }
        let mut parcels = Vec::new();
        for (stream, range, transfer) in receives {
            let bytes = match transfer {
                Some(transfer) => {
                    let bytes = comm.wait(transfer)?;
                    self.costs.exchanged_bytes += bytes.len() as u64;
                    bytes
                }
                None => own.pop_front().unwrap_or_default(),
            };
            parcels.push(Parcel { stream, range, bytes });
        }
        Ok(Sent { parcels, transfers: sent, packing })
    }

    /// Writes what has come. Collective in the group.
    pub(super) fn write_parcels(
        &mut self,
        traffic: &Traffic,
        parcels: &[Parcel],
    ) -> Result<(), ArrayError> {
        let mut jobs: Vec<Vec<Piece<&[u8]>>> = self.parts.iter().map(|_| Vec::new()).collect();
        for parcel in parcels {
            let mut rest = parcel.bytes.as_slice();
            let queue = &traffic.served[parcel.stream].queue;
            for (k, piece) in pieces_of(queue, parcel.range.clone()) {
                let (bytes, behind) = rest.split_at(piece.bytes);
                rest = behind;
                let Piece { variable, extent, .. } = piece;
                let Some(own) = self.parts.iter().position(|part| part.index == k) else {
                    continue;
                };
                jobs[own].push(Piece { variable, extent, bytes });
            }
        }
        let jobs = self.busy(jobs, Vec::is_empty);
        each_with(jobs, |part, job| part.data.put_pieces(&job, false))
    }

    /// The partitions that have something to do: in a group of several ranks each takes part.
    fn busy<J>(&mut self, jobs: Vec<J>, is_empty: impl Fn(&J) -> bool) -> Vec<(&mut Part, J)> {
        let together = self.group.is_some();
        let all = self.parts.iter_mut().zip(jobs);
        all.filter(|(_, job)| together || !is_empty(job)).collect()
    }

    /// Waits for what this rank asked for in a round: of which partition, and how it comes.
    pub(super) fn begin_receives(
        &self,
        comm: &dyn Comm,
        traffic: &Traffic,
        round: u64,
        queues: &[Queue<Wanted>],
    ) -> Result<Vec<(usize, Option<Transfer>)>, ArrayError> {
        let mut receives = Vec::new();
        for (k, queue) in queues.iter().enumerate() {
            let range = traffic.part(queue, round);
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

    /// Reads what others ask for in a round. Collective in the group.
    pub(super) fn read_parcels(
        &mut self,
        traffic: &Traffic,
        round: u64,
    ) -> Result<Vec<Parcel>, ArrayError> {
        let mut parcels = Vec::new();
        for (stream, Stream { queue, .. }) in traffic.served.iter().enumerate() {
            let range = traffic.part(queue, round);
            if !range.is_empty() {
                let bytes = vec![0; len(&range) as usize];
                parcels.push(Parcel { stream, range, bytes });
            }
        }
        let mut jobs: Vec<Vec<Piece<&mut [u8]>>> = self.parts.iter().map(|_| Vec::new()).collect();
        for parcel in &mut parcels {
            let mut rest = parcel.bytes.as_mut_slice();
            let queue = &traffic.served[parcel.stream].queue;
            for (k, piece) in pieces_of(queue, parcel.range.clone()) {
                let (bytes, behind) = rest.split_at_mut(piece.bytes);
                rest = behind;
                let Piece { variable, extent, .. } = piece;
                let Some(own) = self.parts.iter().position(|part| part.index == k) else {
                    continue;
                };
                jobs[own].push(Piece { variable, extent, bytes });
            }
        }
        let jobs = self.busy(jobs, Vec::is_empty);
        each_with(jobs, |part, job| part.data.get_pieces(job, false))?;
        Ok(parcels)
    }

    /// Sends what was read; returns what is this rank's own. Who has read nothing sends nothing, which
    /// says that it failed.
    pub(super) fn send_back(
        &mut self,
        comm: &dyn Comm,
        traffic: &Traffic,
        round: u64,
        read: Vec<Parcel>,
    ) -> Result<(VecDeque<Vec<u8>>, Vec<Transfer>), ArrayError> {
        let (mut sent, mut own) = (Vec::new(), VecDeque::new());
        let mut read = read.into_iter().peekable();
        for (number, Stream { of, queue }) in traffic.served.iter().enumerate() {
            if traffic.part(queue, round).is_empty() {
                continue;
            }
            let parcel = read.next_if(|parcel| parcel.stream == number);
            let bytes = parcel.map(|parcel| parcel.bytes).unwrap_or_default();
            if *of == comm.rank() {
                own.push_back(bytes);
            } else {
                self.costs.exchanged_bytes += bytes.len() as u64;
                sent.push(comm.send(*of, TAG, bytes)?);
            }
        }
        Ok((own, sent))
    }
}
