//! What goes over the wire to 16 I/O servers with strips of 64 KiB, the setting of \[CHING\]: as
//! many requests as the model says, by every method, and the operations of the paper at the store.
//!
//! Every rank has a client of its own, as a process has, so that its requests can be counted alone.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

use std::num::{NonZeroU32, NonZeroU64};
use std::sync::Arc;

use striate_bench::io::{IoOp, paper_hints};
use striate_bench::workload::{Block3d, Flash, TileReader, Workload};
use striate_comm::Threads;
use striate_datatype::Datatype;
use striate_file::{File, FileError, Memory, MemoryMut, MethodChoice, Mode, Stats, View};
use striate_layout::characteristics::{
    Access, Characteristics, Method, Settings, characteristics, requests, servers,
};
use striate_layout::striping::Striping;
use striate_server::Embedded;
use striate_server::statistics::Counter;
use striate_store::remote::{Client, ClientOptions, RemoteFile, RemoteOptions, RemoteUrl};
use striate_store::{AlignedBuffer, Store};

const SERVERS: u32 = 16;
const STRIP: u64 = 64 << 10;

/// What one call cost one rank.
#[derive(Clone, Copy, Debug)]
struct CallCost {
    stats: Stats,
    requests: u64,
    request_bytes: u64,
    /// Requests that were not answered, as those that send descriptions.
    unanswered: u64,
}

fn striping() -> Striping {
    Striping { strip: NonZeroU64::new(STRIP).unwrap(), servers: NonZeroU32::new(SERVERS).unwrap() }
}

fn accesses(workload: &dyn Workload) -> Vec<Access> {
    let access = |rank| {
        let access = workload.access(rank).unwrap();
        let (memory, file) = (&access.memory, &access.file);
        Access::new(memory, access.memory_count, file, access.file_count).unwrap()
    };
    (0..workload.ranks()).map(access).collect()
}

/// A first and a second call by `method`, on a file that is as long as the workload's and empty.
/// Also the data requests that the servers saw in the second one.
fn counted(
    embedded: &Embedded,
    workload: &(dyn Workload + Sync),
    method: Method,
    op: IoOp,
) -> ([Vec<CallCost>; 2], u64) {
    let ranks = workload.ranks() as usize;
    let mut hints = paper_hints(ranks as u64);
    hints.method = MethodChoice::Fixed(method);
    let url: RemoteUrl =
        format!("{}/{}-{method}-{op:?}", embedded.url(), workload.name()).parse().unwrap();
    let made = RemoteFile::open(&url, &RemoteOptions { create: true, ..Default::default() });
    made.unwrap().set_len(workload.access(0).unwrap().file.extent() as u64).unwrap();
    let served = || -> u64 {
        let of = |server: &striate_server::Server| {
            let statistics = server.statistics();
            let kinds = [
                &statistics.contiguous_requests,
                &statistics.list_requests,
                &statistics.typed_requests,
            ];
            kinds.map(Counter::get).iter().sum::<u64>()
        };
        embedded.servers().iter().map(of).sum()
    };
    let all = Threads::new(ranks)
        .try_run(|comm| -> Result<([CallCost; 2], u64), FileError> {
            let access = workload.access(comm.rank() as u64)?;
            let client = Client::connect(&url.address, ClientOptions::default())?;
            let store = RemoteFile::open_with(&client, &url, &RemoteOptions::default())?;
            let mut file =
                File::on_store(&comm, Arc::new(store), Mode::READ | Mode::WRITE, &hints)?;
            file.set_view(View::new(0, &Datatype::bytes(1)?, &access.file)?)?;
            let mut memory = AlignedBuffer::new(access.memory.upper_bound() as usize);
            let (count, datatype) = (access.memory_count, &access.memory);
            let mut call = || -> Result<CallCost, FileError> {
                let (stats, traffic) = (file.stats(), client.traffic());
                match op {
                    IoOp::Read => {
                        file.read_at_all(0, MemoryMut::new(&mut memory, 0, count, datatype)?)?
                    }
                    IoOp::Write => {
                        file.write_at_all(0, Memory::new(&memory, 0, count, datatype)?)?
                    }
                };
                assert_eq!(file.last_call().unwrap().method, method);
                let now = client.traffic();
                let requests = now.sent.requests - traffic.sent.requests;
                Ok(CallCost {
                    stats: file.stats() - stats,
                    requests,
                    request_bytes: now.sent.request_bytes - traffic.sent.request_bytes,
                    unanswered: requests - (now.received.replies - traffic.received.replies),
                })
            };
            let first = call()?;
            comm.barrier()?;
            let before = served();
            comm.barrier()?;
            let second = call()?;
            comm.barrier()?;
            let seen = served() - before;
            file.close()?;
            Ok(([first, second], seen))
        })
        .unwrap();
    Client::shared(&url).unwrap().remove(&url.path).unwrap();
    let calls = [0, 1].map(|call| all.iter().map(|(costs, _)| costs[call]).collect());
    (calls, all[0].1)
}

/// Holds the model of a method and what was counted together; returns the costs of the second call.
fn assert_as_modelled(
    embedded: &Embedded,
    workload: &(dyn Workload + Sync),
    method: Method,
    op: IoOp,
) -> Vec<CallCost> {
    let context = format!("{} by {method}, {op:?}", workload.name());
    let accesses = accesses(workload);
    let settings = Settings::default();
    let place = Method::ALL.iter().position(|known| *known == method).unwrap();
    let model = requests(&accesses, &settings, striping()).unwrap().of(method);
    let ([first, second], seen) = counted(embedded, workload, method, op);
    let sum = |costs: &[CallCost], of: fn(&CallCost) -> u64| costs.iter().map(of).sum::<u64>();
    let sent = sum(&second, |cost| cost.requests);
    assert_eq!(sum(&second, |cost| cost.unanswered), 0, "{context}");
    if (method, op) == (Method::Sieve, IoOp::Write) {
        // Each window is read and written, unless it has no gaps, and locked and unlocked.
        let windows = sum(&second, |cost| cost.stats.operations);
        let read_backs = sum(&second, |cost| cost.stats.read_backs);
        assert_eq!(sent, seen + 2 * windows, "{context}");
        assert!((model..=2 * model).contains(&seen) && read_backs <= windows, "{context}");
        if read_backs == windows {
            assert_eq!(seen, 2 * model, "{context}");
        }
    } else {
        assert_eq!((sent, seen), (model, model), "{context}");
    }

    // What the first call sends more is the description: to each server that is asked, once.
    let descriptions = sum(&first, |cost| cost.unanswered);
    let more = sum(&first, |cost| cost.requests) - sent;
    let expected = if method == Method::Datatype { model } else { 0 };
    assert_eq!((descriptions, more), (expected, expected), "{context}");

    let Characteristics { wanted, accessed, operations, .. } =
        characteristics(&accesses, &settings).unwrap()[place];
    let ranks = workload.ranks();
    let mean = |of: fn(&CallCost) -> u64| (sum(&second, of) + ranks / 2) / ranks;
    let at_store = [
        mean(|cost| cost.stats.wanted),
        mean(|cost| cost.stats.accessed),
        mean(|cost| cost.stats.operations),
    ];
    assert_eq!(at_store, [wanted, accessed, operations], "{context}");
    second
}

fn embedded() -> Embedded {
    Embedded::start(SERVERS as usize).unwrap()
}

#[test]
fn tile_reader() {
    let (embedded, wall) = (embedded(), TileReader::default());
    let involved: Vec<u64> =
        accesses(&wall).iter().map(|access| servers(access, striping()).unwrap()).collect();
    for method in Method::ALL {
        let costs = assert_as_modelled(&embedded, &wall, method, IoOp::Read);
        for (cost, &involved) in costs.iter().zip(&involved) {
            let CallCost { stats, requests, request_bytes, .. } = *cost;
            match method {
                Method::Posix => assert_eq!(stats.operations, 768),
                Method::Sieve => assert_eq!(stats.operations, 2),
                Method::TwoPhase => assert_eq!(stats.operations, 1),
                Method::List => {
                    assert_eq!(stats.operations, 12);
                    // 9 KB in the paper.
                    assert!((8_000..=10_000).contains(&request_bytes), "{request_bytes}");
                }
                Method::Datatype => {
                    assert_eq!((stats.operations, requests), (1, involved));
                    assert!(request_bytes <= 300 * involved, "{request_bytes} to {involved}");
                }
            }
        }
    }
}

#[test]
fn three_dimensional_block() {
    let (embedded, small) = (embedded(), Block3d::near_cubic(120, 8));
    for method in Method::ALL {
        for op in [IoOp::Write, IoOp::Read] {
            assert_as_modelled(&embedded, &small, method, op);
        }
    }
    // The paper's, by the methods that need few requests.
    for (method, operations) in [(Method::TwoPhase, 26), (Method::Datatype, 1)] {
        for cost in assert_as_modelled(&embedded, &Block3d::default(), method, IoOp::Read) {
            assert!(cost.stats.operations.abs_diff(operations) <= 1, "{cost:?}");
        }
    }
}

#[test]
fn flash_checkpoint() {
    let embedded = embedded();
    let small = Flash { processes: 4, blocks: 5, ..Flash::default() };
    for method in Method::ALL {
        for op in [IoOp::Write, IoOp::Read] {
            assert_as_modelled(&embedded, &small, method, op);
        }
    }
    for cost in assert_as_modelled(&embedded, &Flash::default(), Method::Datatype, IoOp::Write) {
        assert_eq!(cost.stats.operations, 1);
    }
}
