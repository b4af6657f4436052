//! Ranks as threads of one process: [`Threads`] starts them and collects what they return.
//!
//! A rank waits only at its mailbox, for messages and for the results of collectives, which the
//! last rank to arrive computes and puts into the mailboxes of the others. So there is one place
//! where a rank sleeps and where it has to be woken when another one dies. Ranks do not spin: there
//! may be many more of them than cores.
//!
//! # Ranks that end
//!
//! A rank *fails* when its body returns an error or panics, and *ends* when its body returns. The
//! other ranks learn of it at once, by [`CommError::RankFailed`]:
//!
//! * After a failure, every call that waits on a communicator that contains the rank fails.
//! * After an end, those calls fail that can only succeed with the rank: collectives, receives from
//!   it, and sends to it. [`Comm::health`] counts it as failed, too.
//! * What a rank sent before can still be received, and collectives that were complete stay so.
//!
//! If several ranks have ended, the error names the first of them.

mod comm;
mod job;
mod mailbox;
mod reduce;

use std::any::Any;
use std::fmt::{Debug, Display};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread::{Builder, ScopedJoinHandle};

use crate::comm::Comm;
use crate::error::CommError;
use crate::shm::number_nodes;
#[cfg(feature = "mpi")]
use crate::task::Tasks;

/// Ranks to be run as threads.
#[derive(Clone, Debug)]
pub struct Threads {
    nodes: Vec<usize>,
    node_memory: bool,
}

impl Threads {
    /// With this number of ranks, on one node.
    pub fn new(ranks: usize) -> Self {
        Self::on_nodes(&vec![0; ranks])
    }

    /// One rank for each entry, on the simulated node of that number.
    pub fn on_nodes(nodes: &[usize]) -> Self {
        Self { nodes: number_nodes(nodes), node_memory: true }
    }

    /// Refuses [`Comm::node_memory`], for tests without shared memory.
    #[must_use]
    pub fn without_node_memory(mut self) -> Self {
        self.node_memory = false;
        self
    }

    /// Runs `body` as every rank, and returns the results in order of rank.
    ///
    /// A panic becomes the error of its rank, with the message of the panic.
    pub fn run<T, E, F>(&self, body: F) -> Vec<Result<T, E>>
    where
        T: Send,
        E: From<CommError> + Display + Send,
        F: Fn(Arc<dyn Comm>) -> Result<T, E> + Sync,
    {
        self.run_job(body).1
    }

    /// Runs `body` as every rank; returns all values, or the error of the rank that failed first.
    ///
    /// The first rank that failed has the cause. The errors of the others only say that it has
    /// failed.
    pub fn try_run<T, E, F>(&self, body: F) -> Result<Vec<T>, E>
    where
        T: Send,
        E: From<CommError> + Display + Send,
        F: Fn(Arc<dyn Comm>) -> Result<T, E> + Sync,
    {
        match self.run_job(body) {
            (Some(first), mut results) => results.swap_remove(first).map(|value| vec![value]),
            (None, results) => results.into_iter().collect(),
        }
    }

    /// The rank that failed first, and all results.
    fn run_job<T, E, F>(&self, body: F) -> (Option<usize>, Vec<Result<T, E>>)
    where
        T: Send,
        E: From<CommError> + Display + Send,
        F: Fn(Arc<dyn Comm>) -> Result<T, E> + Sync,
    {
        let (job, comms) = comm::world(&self.nodes, self.node_memory);
        let run_rank = |rank: usize, comm: Arc<dyn Comm>| {
            let result = catch_unwind(AssertUnwindSafe(|| body(comm))).unwrap_or_else(|panic| {
                let reason = format!("panicked: {}", panic_message(&*panic));
                Err(CommError::RankFailed { rank, reason }.into())
            });
            match &result {
                Ok(_) => job.end(rank, None),
                Err(error) => job.end(rank, Some(reason_of(rank, error))),
            }
            result
        };
        let run_rank = &run_rank;
        let results = std::thread::scope(|scope| {
            let start = |(rank, comm): (usize, _)| {
                let thread = Builder::new().name(format!("rank {rank}"));
                thread.spawn_scoped(scope, move || run_rank(rank, comm)).map_err(|error| {
                    let reason = format!("its thread cannot be started: {error}");
                    job.end(rank, Some(reason.clone()));
                    CommError::RankFailed { rank, reason }
                })
            };
            let join = |handle: ScopedJoinHandle<'_, Result<T, E>>| match handle.join() {
                Ok(result) => result,
                // Only printing the error of a rank can panic outside of its body.
                Err(panic) => std::panic::resume_unwind(panic),
            };
            let handles: Vec<_> = comms.into_iter().enumerate().map(start).collect();
            handles.into_iter().map(|handle| handle.map_err(E::from).and_then(join)).collect()
        });
        (job.first_failure(), results)
    }
}

/// A communicator of one rank that shares nothing with others: for code that is written for ranks
/// but used by one, on any thread.
pub fn alone() -> Arc<dyn Comm> {
    comm::alone(Arc::default())
}

/// The same for a rank that has other communicators, whose tasks run while it waits on this one.
#[cfg(feature = "mpi")]
pub(crate) fn alone_among(tasks: &Arc<Tasks>) -> Arc<dyn Comm> {
    comm::alone(Arc::clone(tasks))
}

/// The text of an error without the number of the rank, which the caller adds.
fn reason_of(rank: usize, error: &impl Display) -> String {
    let text = error.to_string();
    let prefix = format!("rank {rank} failed: ");
    text.strip_prefix(&prefix).map_or(text.clone(), str::to_owned)
}

/// The message of a panic.
pub(crate) fn panic_message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        panic.downcast_ref::<&str>().copied().unwrap_or("(no message)")
    }
}
