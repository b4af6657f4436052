//! Servers and clients that are killed while they write: what a sync acknowledged is there.
//!
//! A few rounds run with all tests; `STRIATE_ROUNDS=50 cargo test -p striate-cli --test soak` runs
//! more.
#![expect(clippy::unwrap_used, reason = "a test may panic")]

#[path = "servers/cluster.rs"]
#[allow(dead_code, reason = "each test program uses a part")]
mod cluster;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cluster::{Cluster, answer, random, run, striate};
use striate_store::remote::{Client, ClientOptions, Layout, RemoteFile, RemoteOptions};
use striate_store::{Store, StoreError};

const LEN: usize = 300_000;
const HOLDERS: usize = 3;

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// What a file holds for certain, and what it may hold.
struct Model {
    durable: Vec<u8>,
    /// Writes since the last sync that succeeded.
    pending: Vec<(usize, Vec<u8>)>,
    synced: u32,
}

impl Model {
    /// Writes and syncs until told to stop, or until a server is gone.
    fn work(
        &mut self,
        file: &RemoteFile,
        dice: &mut Dice,
        stop: &AtomicBool,
    ) -> Option<StoreError> {
        while !stop.load(Ordering::SeqCst) {
            let offset = dice.below(LEN as u64 - 1) as usize;
            let len = (1 + dice.below(60_000) as usize).min(LEN - offset);
            let bytes = random(&dice.below(1 << 30).to_string(), len);
            self.pending.push((offset, bytes.clone()));
            if let Err(error) = file.write_at(offset as u64, &bytes) {
                return Some(error);
            }
            if dice.below(3) == 0 {
                if let Err(error) = file.sync() {
                    return Some(error);
                }
                self.settle();
                self.synced += 1;
            }
        }
        None
    }

    fn settle(&mut self) {
        for (offset, bytes) in self.pending.drain(..) {
            self.durable[offset..offset + bytes.len()].copy_from_slice(&bytes);
        }
    }

    /// Every byte is the durable one, or one of those that were under way.
    fn check(&mut self, found: Vec<u8>, round: u64) {
        for (i, &byte) in found.iter().enumerate() {
            let under_way = |(offset, bytes): &(usize, Vec<u8>)| {
                i.checked_sub(*offset).and_then(|at| bytes.get(at)) == Some(&byte)
            };
            assert!(
                byte == self.durable[i] || self.pending.iter().any(under_way),
                "round {round}: byte {i} is neither what was acknowledged nor what was under way"
            );
        }
        self.durable = found;
        self.pending.clear();
    }
}

fn connect(cluster: &Cluster) -> Client {
    let address = cluster.url.strip_prefix("striate://").unwrap();
    let options =
        ClientOptions { patience: Duration::from_secs(3), attempts: 2, ..ClientOptions::default() };
    Client::connect(address, options).unwrap()
}

fn rounds(few: u64) -> u64 {
    std::env::var("STRIATE_ROUNDS").map_or(few, |text| text.parse().expect("a number of rounds"))
}

#[test]
fn what_was_acknowledged_survives_every_kill() {
    let mut cluster = Cluster::start(HOLDERS);
    let layout = Layout { strip: 4096, ..Layout::default() };
    let mut model = Model { durable: vec![0; LEN], pending: Vec::new(), synced: 0 };
    let mut dice = Dice(7);
    {
        let client = connect(&cluster);
        let options = RemoteOptions { create: true, exclusive: true, layout };
        let file = RemoteFile::open_with(&client, &client.url("soak"), &options).unwrap();
        file.set_len(LEN as u64).unwrap();
        file.sync().unwrap();
    }
    for round in 0..rounds(4) {
        let client = connect(&cluster);
        let options = RemoteOptions::default();
        let file = RemoteFile::open_with(&client, &client.url("soak"), &options).unwrap();
        let stop = AtomicBool::new(false);
        let (pause, victim) = (5 + dice.below(80), dice.below(HOLDERS as u64 + 1) as usize);
        let mut own_dice = Dice(round + 1);
        let killed = std::thread::scope(|scope| {
            let writer = scope.spawn(|| model.work(&file, &mut own_dice, &stop));
            std::thread::sleep(Duration::from_millis(pause));
            if victim == HOLDERS {
                cluster.metadata = None;
            } else {
                cluster.kill(victim);
            }
            // A writer that needs the victim fails soon; one that does not is told to stop.
            std::thread::sleep(Duration::from_millis(200));
            stop.store(true, Ordering::SeqCst);
            writer.join().unwrap()
        });
        if let Some(error) = killed {
            let address = cluster.address(victim);
            assert!(error.to_string().contains(address), "round {round}, {address}: {error}");
        }
        drop((file, client));
        cluster.restart();
        let client = connect(&cluster);
        let file = RemoteFile::open_with(&client, &client.url("soak"), &options).unwrap();
        assert_eq!(file.len().unwrap(), LEN as u64, "round {round}");
        let mut found = vec![0; LEN];
        assert_eq!(file.read_at(0, &mut found).unwrap(), LEN);
        model.check(found, round);
        file.sync().unwrap();
    }
    println!("{} syncs were acknowledged", model.synced);
    assert!(model.synced > 0);
    answer(&["fsck", &cluster.url]);
}

#[test]
fn a_client_that_is_killed_leaves_a_file_system_in_order() {
    let cluster = Cluster::start(HOLDERS);
    let (source, bytes) = cluster.file("source", 24 << 20);
    let mut dice = Dice(3);
    for round in 0..rounds(4) {
        let target = cluster.at(&format!("copy-{round}"));
        let mut copy =
            cluster::ChildProcess(striate(&["fs", "cp", &source, &target]).spawn().unwrap());
        std::thread::sleep(Duration::from_millis(dice.below(60)));
        let _ = copy.0.kill();
        let whole = copy.ended().success();
        let listed = run(&["fs", "stat", &target]).status.success();
        // All of the file is there under its name, or nothing; kill may come after the renaming.
        if whole || listed {
            let back = cluster.local("back");
            answer(&["fs", "cp", &target, &back]);
            assert_eq!(std::fs::read(&back).unwrap(), bytes, "round {round}");
        }
        // The next one is not disturbed.
        answer(&["fs", "cp", &source, &target]);
    }
    // What copies left under other names can be seen and removed, and nothing else is left.
    let client = connect(&cluster);
    for left in client.list(".copy-").unwrap() {
        assert!(left.path.contains(".part-"), "{}", left.path);
        client.remove(&left.path).unwrap();
    }
    answer(&["fsck", &cluster.url]);
}
