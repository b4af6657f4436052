//! Two-phase between nodes: which messages leave a node, counted; and that they grow with nodes,
//! not with ranks.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use striate_comm::task::Tasks;
use striate_comm::{Comm, CommError, NodeMemory, Reduction, Request, Threads};
use striate_datatype::Datatype;
use striate_file::{File, FileError, Hints, Mode, View};
use striate_store::MemoryStore;
use striate_store::store::Store;

use support::Watchdog;

/// Messages with data; requests and acknowledgements; descriptions.
const DATA: u32 = 1;
const CONTROL: u32 = 2;
const DESCRIPTION: u32 = 3;

/// Messages and bytes from one node to another, by tag.
type Traffic = BTreeMap<(usize, usize, u32), (u64, u64)>;

/// A communicator that counts what leaves a node.
#[derive(Debug)]
struct NodeCountingComm {
    inner: Arc<dyn Comm>,
    traffic: Arc<Mutex<Traffic>>,
}

impl Comm for NodeCountingComm {
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
        self.inner.split(color, key)
    }

    fn barrier(&self) -> Result<(), CommError> {
        self.inner.barrier()
    }

    fn broadcast(&self, root: usize, bytes: &mut Vec<u8>) -> Result<(), CommError> {
        self.inner.broadcast(root, bytes)
    }

    fn gather(&self, root: usize, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.inner.gather(root, bytes)
    }

    fn allgather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, CommError> {
        self.inner.allgather(bytes)
    }

    fn alltoall(&self, parts: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>, CommError> {
        self.inner.alltoall(parts)
    }

    fn allreduce_u64(&self, with: Reduction, values: &mut [u64]) -> Result<(), CommError> {
        self.inner.allreduce_u64(with, values)
    }

    fn allreduce_i64(&self, with: Reduction, values: &mut [i64]) -> Result<(), CommError> {
        self.inner.allreduce_i64(with, values)
    }

    fn allreduce_f64(&self, with: Reduction, values: &mut [f64]) -> Result<(), CommError> {
        self.inner.allreduce_f64(with, values)
    }

    fn send(&self, to: usize, tag: u32, message: Vec<u8>) -> Result<Request, CommError> {
        let (from_node, to_node) = (self.nodes()[self.rank()], self.nodes()[to]);
        if from_node != to_node {
            let mut traffic = self.traffic.lock().unwrap();
            let (messages, bytes) = traffic.entry((from_node, to_node, tag)).or_default();
            *messages += 1;
            *bytes += message.len() as u64;
        }
        self.inner.send(to, tag, message)
    }

    fn receive(&self, from: usize, tag: u32, capacity: usize) -> Result<Request, CommError> {
        self.inner.receive(from, tag, capacity)
    }

    fn wait(&self, request: Request) -> Result<Vec<u8>, CommError> {
        self.inner.wait(request)
    }

    fn wait_any(&self, requests: &mut Vec<Request>) -> Result<(usize, Vec<u8>), CommError> {
        self.inner.wait_any(requests)
    }

    fn test_any(&self, requests: &mut Vec<Request>) -> Result<Option<(usize, Vec<u8>)>, CommError> {
        self.inner.test_any(requests)
    }

    fn node_memory_with_spare(
        &self,
        len: usize,
        spare: usize,
    ) -> Result<Option<NodeMemory>, CommError> {
        self.inner.node_memory_with_spare(len, spare)
    }

    fn tasks(&self) -> &Arc<Tasks> {
        self.inner.tasks()
    }

    fn health(&self) -> Result<(), CommError> {
        self.inner.health()
    }
}

/// What travels between nodes when these ranks write, or read, `total` bytes in blocks in turn.
fn traffic(nodes: &[usize], block: u64, total: u64, write: bool) -> Traffic {
    let traffic = Arc::new(Mutex::new(Traffic::new()));
    let object = Arc::new(MemoryStore::new("object"));
    let expected: Vec<u8> = (0..total).map(|i| (i * 7 + i / 251) as u8).collect();
    if !write {
        object.write_at(0, &expected).unwrap();
    }
    let hints: Hints = "striate_method=two-phase".parse().unwrap();
    let ranks = nodes.len() as u64;
    Threads::on_nodes(nodes)
        .try_run(|inner| {
            let traffic = Arc::clone(&traffic);
            let rank = inner.rank() as u64;
            let comm: Arc<dyn Comm> = Arc::new(NodeCountingComm { inner, traffic });
            let store = Arc::clone(&object);
            let mut file = File::on_store(&comm, store, Mode::READ | Mode::WRITE, &hints)?;
            let bytes = Datatype::bytes(block)?;
            let filetype = Datatype::resized(&bytes, 0, (ranks * block) as i64)?;
            file.set_view(View::new(rank * block, &bytes, &filetype)?)?;
            let own = (0..total).filter(|i| i / block % ranks == rank);
            let own: Vec<u8> = own.map(|i| expected[i as usize]).collect();
            if write {
                file.write_at_all(0, own.as_slice())?;
            } else {
                let mut read = vec![0; own.len()];
                file.read_at_all(0, read.as_mut_slice())?;
                assert!(read == own, "rank {rank}");
            }
            file.close()
        })
        .unwrap();
    let mut got = vec![0; total as usize];
    object.read_at(0, &mut got).unwrap();
    assert!(got == expected, "{nodes:?}");
    Arc::try_unwrap(traffic).unwrap().into_inner().unwrap()
}

/// Messages of a call from one node to another one, whose aggregator has so many windows in which
/// the first has bytes: a description, and for each window a message with data or, the other way, a
/// request.
struct Messages {
    data: u64,
    control: u64,
    description: u64,
}

/// In a write or read of `total` bytes in blocks that are short against windows.
fn expected(nodes: u64, total: u64) -> Messages {
    let window = (nodes * (16 << 10)).next_power_of_two().clamp(64 << 10, 4 << 20);
    let windows = (total / nodes).div_ceil(window);
    Messages { data: windows, control: windows, description: 1 }
}

#[test]
fn messages_grow_with_nodes_and_not_with_ranks() {
    const TOTAL: u64 = 4 << 20;
    let _watchdog = Watchdog::new(Duration::from_secs(120), "messages between nodes");
    let on = |nodes: usize, ranks: usize| -> Vec<usize> {
        (0..ranks).map(|rank| rank * nodes / ranks).collect()
    };
    for ranks in [8, 16, 32, 64] {
        for write in [true, false] {
            let traffic = traffic(&on(8, ranks), 64, TOTAL, write);
            let Messages { data, control, description } = expected(8, TOTAL);
            for (from, to) in (0..8).flat_map(|from| (0..8).map(move |to| (from, to))) {
                let of = |tag| traffic.get(&(from, to, tag)).copied().unwrap_or_default();
                if from == to {
                    assert_eq!(of(DATA), (0, 0));
                    continue;
                }
                let counted = (of(DATA).0, of(CONTROL).0, of(DESCRIPTION).0);
                let what = format!("{ranks} ranks, write: {write}, {from} to {to}");
                assert_eq!(counted, (data, control, description), "{what}");
                let header = if write { 0 } else { 32 * data };
                assert_eq!(of(DATA).1 - header, TOTAL / 64, "{what}");
                // The filetype once, and 40 bytes for each rank.
                assert!(of(DESCRIPTION).1 <= 200 + 40 * (ranks as u64 / 8), "{what}");
            }
        }
    }
    // Where no communicator of threads can count: what a node sends in a call on 1 TiB with 10,000
    // ranks is the same whether it has 1 or 100 of them, and a hundredth of one message for each
    // pair of ranks.
    let total = 1 << 40;
    let Messages { data, control, description } = expected(100, total);
    let from_a_node = 99 * (data + control + description);
    assert_eq!(data, total / 100 / (2 << 20) + 1);
    let of_rank_pairs = 9_900 * 100 * data;
    assert!(from_a_node * 100 < of_rank_pairs);
}

/// Blocks that are not small stay on their node: nothing but descriptions travels.
#[test]
fn large_blocks_do_not_leave_their_node() {
    for (nodes, block) in [(&[0, 1, 2, 3][..], 64 << 10), (&[0, 0, 1, 1], 32 << 10)] {
        for write in [true, false] {
            let traffic = traffic(nodes, block, 16 * block, write);
            let data: u64 = traffic
                .iter()
                .filter(|((_, _, tag), _)| *tag == DATA)
                .map(|(_, (_, bytes))| *bytes)
                .sum();
            assert!(data <= 32 * 12, "{nodes:?}: {data} bytes");
        }
    }
}

/// Ranks of a node that read the same bytes get them once.
#[test]
fn bytes_that_all_ranks_of_a_node_read_travel_once() {
    let traffic = Arc::new(Mutex::new(Traffic::new()));
    let object = Arc::new(MemoryStore::new("object"));
    let expected: Vec<u8> = (0..1 << 20).map(|i: u32| (i * 11 + i / 253) as u8).collect();
    object.write_at(0, &expected).unwrap();
    let hints: Hints = "striate_method=two-phase".parse().unwrap();
    Threads::on_nodes(&[0, 0, 0, 1, 1, 1])
        .try_run(|inner| {
            let comm: Arc<dyn Comm> =
                Arc::new(NodeCountingComm { inner, traffic: Arc::clone(&traffic) });
            let mut file = File::on_store(&comm, Arc::clone(&object) as _, Mode::READ, &hints)?;
            let mut read = vec![0; expected.len()];
            file.read_at_all(0, read.as_mut_slice())?;
            assert!(read == expected);
            file.close()?;
            Ok::<_, FileError>(())
        })
        .unwrap();
    let traffic = traffic.lock().unwrap();
    for pair in [(0, 1, DATA), (1, 0, DATA)] {
        let (messages, bytes) = traffic[&pair];
        assert_eq!(bytes, (1 << 19) + 32 * messages, "half of the file, and headers");
    }
}
