//! A communicator that loses the other ranks at some point.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use striate_comm::task::Tasks;
use striate_comm::{Comm, CommError, NodeMemory, Reduction, Request};

/// From its `at`-th call on (once it is armed) every call fails.
#[derive(Debug)]
pub struct LostComm {
    inner: Arc<dyn Comm>,
    left: AtomicU64,
}

impl LostComm {
    pub fn new(inner: &Arc<dyn Comm>) -> Arc<Self> {
        Arc::new(Self { inner: Arc::clone(inner), left: AtomicU64::new(u64::MAX) })
    }

    /// So many calls still go well.
    pub fn after(&self, calls: u64) {
        self.left.store(calls, Ordering::SeqCst);
    }

    fn call(&self) -> Result<&dyn Comm, CommError> {
        if self.left.load(Ordering::SeqCst) == u64::MAX {
            return Ok(&*self.inner);
        }
        let counted = |left: u64| left.checked_sub(1);
        match self.left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, counted) {
            Ok(_) => Ok(&*self.inner),
            Err(_) => Err(CommError::RankFailed {
                rank: self.inner.rank(),
                reason: "its cable was cut".into(),
            }),
        }
    }
}

impl Comm for LostComm {
    fn rank(&self) -> usize {
        self.inner.rank()
    }

    fn size(&self) -> usize {
        self.inner.size()
    }

    fn nodes(&self) -> &[usize] {
        self.inner.nodes()
    }

    fn split(&self, color: Option<u64>, key: u64) -> Result<Option<Arc<dyn Comm>>, CommError> {
        self.call()?.split(color, key)
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.call()?.barrier()
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        self.call()?.broadcast(root, bytes)
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.call()?.gather(root, bytes)
    }

    fn allgather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.call()?.allgather(bytes)
    }

    fn alltoall(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, CommError> {
        self.call()?.alltoall(parts)
    }

    fn allreduce_u64(&self, with: Reduction, values: &mut [u64]) -> Result<(), CommError> {
        self.call()?.allreduce_u64(with, values)
    }

    fn allreduce_i64(&self, with: Reduction, values: &mut [i64]) -> Result<(), CommError> {
        self.call()?.allreduce_i64(with, values)
    }

    fn allreduce_f64(&self, with: Reduction, values: &mut [f64]) -> Result<(), CommError> {
        self.call()?.allreduce_f64(with, values)
    }

    fn send(&self, to: usize, tag: u32, message: Vec<u8>) -> Result<Request, CommError> {
        self.call()?.send(to, tag, message)
    }

    fn receive(&self, from: usize, tag: u32, capacity: usize) -> Result<Request, CommError> {
        self.call()?.receive(from, tag, capacity)
    }

    fn wait(&self, request: Request) -> Result<Vec<u8>, CommError> {
        self.call()?.wait(request)
    }

    fn wait_any(&self, requests: &mut Vec<Request>) -> Result<(usize, Vec<u8>), CommError> {
        self.call()?.wait_any(requests)
    }

    fn test_any(&self, requests: &mut Vec<Request>) -> Result<Option<(usize, Vec<u8>)>, CommError> {
        self.call()?.test_any(requests)
    }

    fn node_memory_with_spare(
        &self,
        len: usize,
        spare: usize,
    ) -> Result<Option<NodeMemory>, CommError> {
        self.call()?.node_memory_with_spare(len, spare)
    }

    fn tasks(&self) -> &Arc<Tasks> {
        self.inner.tasks()
    }

    fn health(&self) -> Result<(), CommError> {
        self.call()?.health()
    }
}
