//! [`ThreadComm`]: the communicator of ranks that are threads.
//!
//! In every collective each rank leaves its contribution, the last rank to arrive computes the
//! outcome, and all get the same. Buffers are moved, not copied, wherever the caller gives them
//! away.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::job::{End, Job};
use super::mailbox::{Inbox, Outcome, Source, Ticket};
use super::reduce::{Reducible, reduce};
use crate::comm::{Comm, Reduction, Request};
use crate::error::{CommError, check_length, check_rank};
use crate::request::Pending;
use crate::shm::{Mapping, NodeMemory, number_nodes};
use crate::task::Tasks;

/// The ranks of a communicator.
#[derive(Debug)]
struct Group {
    number: u64,
    /// The rank in the job of each rank.
    members: Vec<usize>,
    nodes: Vec<usize>,
    /// The contributions to the next collective, by rank.
    contributions: Mutex<Vec<Option<Contribution>>>,
}

/// What a rank contributes to a collective.
struct Contribution {
    call: &'static str,
    value: Box<dyn Any + Send>,
    ticket: Ticket,
}

impl std::fmt::Debug for Contribution {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.call)
    }
}

impl Group {
    fn new(job: &Job, members: Vec<usize>, nodes: &[usize]) -> Self {
        let contributions = Mutex::new(members.iter().map(|_| None).collect());
        Self { number: job.number_group(), members, nodes: number_nodes(nodes), contributions }
    }

    fn contributions(&self) -> MutexGuard<'_, Vec<Option<Contribution>>> {
        self.contributions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The error of calls that depend on a rank that has ended; `None` if it was not a member.
    fn error(&self, end: &End) -> Option<CommError> {
        let rank = self.members.iter().position(|member| *member == end.rank)?;
        let reason = end.failure.clone().unwrap_or_else(|| "it has ended".to_owned());
        Some(CommError::RankFailed { rank, reason })
    }

    /// The error of a call that needs all members.
    fn fault(&self, job: &Job) -> Option<CommError> {
        job.find_end(|end| self.error(end))
    }

    /// The error of a call that needs one member.
    fn fault_of(&self, job: &Job, rank: usize) -> Option<CommError> {
        job.find_end(|end| if end.rank == self.members[rank] { self.error(end) } else { None })
    }
}

/// The communicator of one rank.
#[derive(Debug)]
struct ThreadComm {
    job: Arc<Job>,
    group: Arc<Group>,
    rank: usize,
}

/// The communicators of all ranks of a new job.
pub(super) fn world(nodes: &[usize], node_memory: bool) -> (Arc<Job>, Vec<Arc<dyn Comm>>) {
    let tasks = nodes.iter().map(|_| Arc::default()).collect();
    let job = Arc::new(Job::new(tasks, node_memory));
    let group = Arc::new(Group::new(&job, (0..nodes.len()).collect(), nodes));
    let comms = (0..nodes.len())
        .map(|rank| {
            let (job, group) = (Arc::clone(&job), Arc::clone(&group));
            Arc::new(ThreadComm { job, group, rank }) as Arc<dyn Comm>
        })
        .collect();
    (job, comms)
}

/// The communicator of a job of one rank, which has these tasks.
pub(super) fn alone(tasks: Arc<Tasks>) -> Arc<dyn Comm> {
    let job = Arc::new(Job::new(vec![tasks], true));
    let group = Arc::new(Group::new(&job, vec![0], &[0]));
    Arc::new(ThreadComm { job, group, rank: 0 })
}

/// A send or receive.
#[derive(Debug)]
enum ThreadRequest {
    /// The message is in the mailbox of the receiver.
    Sent,
    Receive(Receive),
}

impl Pending for ThreadRequest {}

/// A receive that was posted.
#[derive(Debug)]
struct Receive {
    job: Arc<Job>,
    group: Arc<Group>,
    /// The receiver's rank in the job.
    at: usize,
    source: Source,
    capacity: usize,
    ticket: Ticket,
}

impl Receive {
    /// The error if the sender has ended, or any rank has failed.
    fn fault_by(&self, end: &End) -> Option<CommError> {
        let stops = end.failure.is_some() || end.rank == self.group.members[self.source.from];
        if stops { self.group.error(end) } else { None }
    }

    fn take(&self, inbox: &mut Inbox) -> Option<Result<Vec<u8>, CommError>> {
        let message = inbox.take_message(self.ticket)?;
        Some(check_length(self.source.from, self.capacity, message))
    }
}

impl Drop for Receive {
    fn drop(&mut self) {
        self.job.mailboxes[self.at].cancel(self.source, self.ticket);
    }
}

impl ThreadRequest {
    fn take(&self, inbox: &mut Inbox) -> Option<Result<Vec<u8>, CommError>> {
        match self {
            Self::Sent => Some(Ok(Vec::new())),
            Self::Receive(receive) => receive.take(inbox),
        }
    }

    fn fault_by(&self, end: &End) -> Option<CommError> {
        match self {
            Self::Sent => None,
            Self::Receive(receive) => receive.fault_by(end),
        }
    }
}

impl ThreadComm {
    /// Waits until all ranks have made the same call; `combine` gets their contributions, in order
    /// of rank.
    fn collective<C: Send + 'static, R: Send + Sync + 'static>(
        &self,
        call: &'static str,
        mine: C,
        combine: impl FnOnce(Vec<C>) -> Result<R, CommError>,
    ) -> Result<Arc<R>, CommError> {
        if let Some(fault) = self.group.fault(&self.job) {
            return Err(fault);
        }
        let mailbox = &self.job.mailboxes[self.group.members[self.rank]];
        let ticket = mailbox.ticket();
        let mine = Contribution { call, value: Box::new(mine), ticket };
        let outcome = match self.arrive(mine)? {
            Some(all) => self.conclude(call, all, combine),
            None => {
                self.wait_for(|inbox| inbox.take_outcome(ticket), || self.collective_fault())?
            }
        };
        outcome?.downcast().map_err(|_| mismatch(call, "another type".to_owned()))
    }

    /// Waits at this rank's mailbox.
    fn wait_for<R>(
        &self,
        ready: impl FnMut(&mut Inbox) -> Option<R>,
        broken: impl FnMut() -> Option<CommError>,
    ) -> Result<R, CommError> {
        let at = self.group.members[self.rank];
        self.job.mailboxes[at].wait(&self.job.tasks[at], ready, broken)
    }

    /// Leaves a contribution; the last rank to arrive gets all of them.
    fn arrive(&self, mine: Contribution) -> Result<Option<Vec<Contribution>>, CommError> {
        let mut contributions = self.group.contributions();
        if let Some(earlier) = &contributions[self.rank] {
            let detail = format!("rank {} is still in {}", self.rank, earlier.call);
            return Err(mismatch(mine.call, detail));
        }
        contributions[self.rank] = Some(mine);
        let complete = contributions.iter().all(Option::is_some);
        Ok(complete.then(|| contributions.iter_mut().filter_map(Option::take).collect()))
    }

    /// The error of waiting for a collective that will never be complete.
    ///
    /// A complete one has taken the contribution of this rank. Its outcome is on the way then, even
    /// if ranks that have it already have ended.
    fn collective_fault(&self) -> Option<CommError> {
        let fault = self.group.fault(&self.job)?;
        self.group.contributions()[self.rank].is_some().then_some(fault)
    }

    /// Computes the outcome and passes it to the other ranks.
    fn conclude<C: 'static, R: Send + Sync + 'static>(
        &self,
        call: &'static str,
        all: Vec<Contribution>,
        combine: impl FnOnce(Vec<C>) -> Result<R, CommError>,
    ) -> Outcome {
        let tickets: Vec<Ticket> = all.iter().map(|contribution| contribution.ticket).collect();
        let outcome = values_of(call, all)
            .and_then(combine)
            .map(|outcome| Arc::new(outcome) as Arc<dyn Any + Send + Sync>);
        for (rank, ticket) in tickets.into_iter().enumerate().filter(|(rank, _)| *rank != self.rank)
        {
            let mailbox = &self.job.mailboxes[self.group.members[rank]];
            mailbox.put_outcome(ticket, outcome.clone());
        }
        outcome
    }

    fn allreduce<N: Reducible>(
        &self,
        call: &'static str,
        with: Reduction,
        values: &mut [N],
    ) -> Result<(), CommError> {
        let reduced =
            self.collective(call, (with, values.to_vec()), |given| reduce(call, given))?;
        values.copy_from_slice(&reduced);
        Ok(())
    }
}

/// The contributions, if all ranks made the same call.
fn values_of<C: 'static>(call: &'static str, all: Vec<Contribution>) -> Result<Vec<C>, CommError> {
    let each = all.into_iter().enumerate();
    each.map(|(rank, contribution)| {
        let value = contribution.value.downcast().ok().filter(|_| contribution.call == call);
        let detail = || format!("rank {rank} is in {}", contribution.call);
        value.map(|value| *value).ok_or_else(|| mismatch(call, detail()))
    })
    .collect()
}

fn mismatch(call: &'static str, detail: String) -> CommError {
    CommError::Mismatch { call, detail }
}

/// What is left in `slot`, which its owner takes once.
fn take<T: Default>(slot: &Mutex<T>) -> T {
    std::mem::take(&mut slot.lock().unwrap_or_else(PoisonError::into_inner))
}

impl Comm for ThreadComm {
    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.group.members.len()
    }

    fn nodes(&self) -> &[usize] {
        &self.group.nodes
    }

    fn split(&self, color: Option<u64>, key: u64) -> Result<Option<Arc<dyn Comm>>, CommError> {
        let groups = self.collective("split", (color, key), |given| {
            let mut colors = BTreeMap::<u64, Vec<(u64, usize)>>::new();
            for (rank, (color, key)) in given.iter().enumerate() {
                if let Some(color) = color {
                    colors.entry(*color).or_default().push((*key, rank));
                }
            }
            let mut places = vec![None; given.len()];
            for mut ranks in colors.into_values() {
                ranks.sort_unstable();
                let nodes: Vec<_> = ranks.iter().map(|(_, rank)| self.group.nodes[*rank]).collect();
                let members = ranks.iter().map(|(_, rank)| self.group.members[*rank]).collect();
                let group = Arc::new(Group::new(&self.job, members, &nodes));
                for (place, (_, rank)) in ranks.iter().enumerate() {
                    places[*rank] = Some((Arc::clone(&group), place));
                }
            }
            Ok(places)
        })?;
        Ok(groups[self.rank].as_ref().map(|(group, rank)| {
            let (job, group) = (Arc::clone(&self.job), Arc::clone(group));
            Arc::new(Self { job, group, rank: *rank }) as Arc<dyn Comm>
        }))
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.collective("barrier", (), |_| Ok(()))?;
        Ok(())
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        check_rank(root, self.size())?;
        let mine = if root == self.rank { bytes.clone() } else { Vec::new() };
        let sent = self.collective("broadcast", mine, |mut given| Ok(given.swap_remove(root)))?;
        if root != self.rank {
            // The last to need the bytes can have them without a copy.
            *bytes = Arc::try_unwrap(sent).unwrap_or_else(|shared| shared.to_vec());
        }
        Ok(())
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        check_rank(root, self.size())?;
        let all = self.collective("gather", bytes.to_vec(), |given| Ok(Mutex::new(given)))?;
        Ok(if root == self.rank { take(&all) } else { Vec::new() })
    }

    fn allgather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        let all = self.collective("allgather", bytes.to_vec(), Ok)?;
        Ok(Arc::try_unwrap(all).unwrap_or_else(|shared| shared.to_vec()))
    }

    fn alltoall(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, CommError> {
        let size = self.size();
        let all = self.collective("alltoall", parts, |given| {
            let wrong = given.iter().position(|parts| parts.len() != size);
            if let Some(rank) = wrong {
                return Err(CommError::Parts { rank, parts: given[rank].len(), size });
            }
            let mut received: Vec<_> = (0..size).map(|_| Vec::with_capacity(size)).collect();
            for parts in given {
                for (to, part) in parts.into_iter().enumerate() {
                    received[to].push(part);
                }
            }
            Ok(received.into_iter().map(Mutex::new).collect::<Vec<_>>())
        })?;
        Ok(take(&all[self.rank]))
    }

    fn allreduce_u64(&self, with: Reduction, values: &mut [u64]) -> Result<(), CommError> {
        self.allreduce("allreduce_u64", with, values)
    }

    fn allreduce_i64(&self, with: Reduction, values: &mut [i64]) -> Result<(), CommError> {
        self.allreduce("allreduce_i64", with, values)
    }

    fn allreduce_f64(&self, with: Reduction, values: &mut [f64]) -> Result<(), CommError> {
        self.allreduce("allreduce_f64", with, values)
    }

    fn send(&self, to: usize, tag: u32, message: Vec<u8>) -> Result<Request, CommError> {
        check_rank(to, self.size())?;
        if let Some(fault) = self.group.fault_of(&self.job, to) {
            return Err(fault);
        }
        let source = Source { group: self.group.number, from: self.rank, tag };
        self.job.mailboxes[self.group.members[to]].put_message(source, message);
        Ok(Request::new(ThreadRequest::Sent))
    }

    fn receive(&self, from: usize, tag: u32, capacity: usize) -> Result<Request, CommError> {
        check_rank(from, self.size())?;
        let source = Source { group: self.group.number, from, tag };
        let at = self.group.members[self.rank];
        let ticket = self.job.mailboxes[at].post(source);
        let (job, group) = (Arc::clone(&self.job), Arc::clone(&self.group));
        let receive = Receive { job, group, at, source, capacity, ticket };
        Ok(Request::new(ThreadRequest::Receive(receive)))
    }

    fn wait(&self, request: Request) -> Result<Vec<u8>, CommError> {
        let request = request.downcast::<ThreadRequest>()?;
        self.wait_for(
            |inbox| request.take(inbox),
            || self.job.find_end(|end| request.fault_by(end)),
        )?
    }

    fn wait_any(&self, requests: &mut Vec<Request>) -> Result<(usize, Vec<u8>), CommError> {
        let pending = requests
            .iter_mut()
            .map(|request| request.downcast_mut::<ThreadRequest>().map(|pending| &*pending))
            .collect::<Result<Vec<_>, _>>()?;
        if pending.is_empty() {
            return Err(CommError::NoRequests);
        }
        let (index, message) = self.wait_for(
            |inbox| {
                let mut each = pending.iter().enumerate();
                each.find_map(|(index, request)| Some((index, request.take(inbox)?)))
            },
            || self.job.find_end(|end| pending.iter().find_map(|request| request.fault_by(end))),
        )?;
        requests.remove(index);
        Ok((index, message?))
    }

    fn test_any(&self, requests: &mut Vec<Request>) -> Result<Option<(usize, Vec<u8>)>, CommError> {
        let pending = requests
            .iter_mut()
            .map(|request| request.downcast_mut::<ThreadRequest>().map(|pending| &*pending))
            .collect::<Result<Vec<_>, _>>()?;
        let at = self.group.members[self.rank];
        let found = self.job.mailboxes[at].look(
            |inbox| {
                let mut each = pending.iter().enumerate();
                each.find_map(|(index, request)| Some((index, request.take(inbox)?)))
            },
            || self.job.find_end(|end| pending.iter().find_map(|request| request.fault_by(end))),
        )?;
        let Some((index, message)) = found else { return Ok(None) };
        requests.remove(index);
        Ok(Some((index, message?)))
    }

    fn node_memory_with_spare(
        &self,
        len: usize,
        spare: usize,
    ) -> Result<Option<NodeMemory>, CommError> {
        let memory = self.collective("node_memory", len, |given| {
            if let Some(rank) = given.iter().position(|other| *other != given[0]) {
                return Err(mismatch(
                    "node_memory",
                    format!("rank 0 asks for {} bytes, rank {rank} for {}", given[0], given[rank]),
                ));
            }
            let nodes = self.nodes().iter().max().map_or(0, |last| last + 1);
            let mapped: Result<Vec<_>, _> =
                (0..nodes).map(|_| Mapping::anonymous(len, spare).map(Arc::new)).collect();
            Ok(mapped.ok().filter(|_| self.job.node_memory))
        })?;
        Ok(memory.as_ref().as_ref().map(|mappings| {
            let mapping = Arc::clone(&mappings[self.nodes()[self.rank]]);
            NodeMemory::new(mapping, self.rank, self.nodes())
        }))
    }

    fn tasks(&self) -> &Arc<Tasks> {
        &self.job.tasks[self.group.members[self.rank]]
    }

    fn health(&self) -> Result<(), CommError> {
        self.group.fault(&self.job).map_or(Ok(()), Err)
    }
}
