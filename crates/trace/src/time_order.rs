//! [`InOrder`]: the records of all shards of a trace, merged in the order of time.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};

use crate::block::BlockInfo;
use crate::call::Record;
use crate::reader::{Damage, Records, Trace, until_damage};

/// The records of some blocks of one shard, as they are in the file. After damage there is nothing
/// more.
#[derive(Debug)]
pub struct ShardRecords {
    blocks: VecDeque<(u64, u32)>,
    records: Records,
    /// Records of the current block.
    left: u32,
    ended: bool,
}

impl ShardRecords {
    pub(crate) fn new(records: Records, blocks: impl IntoIterator<Item = BlockInfo>) -> Self {
        let blocks = blocks.into_iter().map(|block| (block.offset, block.count)).collect();
        Self { blocks, records, left: 0, ended: false }
    }

    fn step(&mut self) -> Result<Option<Record>, Damage> {
        while self.left == 0 {
            let Some((offset, count)) = self.blocks.pop_front() else { return Ok(None) };
            self.records.go_to(offset);
            self.left = count;
        }
        self.left -= 1;
        match self.records.step()? {
            Some(record) => Ok(Some(record)),
            None => Err(Damage::new(self.records.offset(), "records are missing")),
        }
    }
}

impl Iterator for ShardRecords {
    type Item = Result<Record, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let step = self.step();
        until_damage(&mut self.ended, step)
    }
}

/// The blocks of a shard.
#[derive(Debug)]
struct ShardCursor {
    number: u16,
    records: ShardRecords,
    /// What the records so far are ordered by.
    until: u64,
}

impl ShardCursor {
    fn next(&mut self) -> Result<Option<(u64, Record)>, Damage> {
        let Some(record) = self.records.next().transpose()? else { return Ok(None) };
        // Within a shard the order stands, whatever the clock said.
        self.until = self.until.max(record.start.saturating_add(record.duration));
        Ok(Some((self.until, record)))
    }
}

/// Records by the time at which calls ended. Damage is reported after everything that could be
/// read.
#[derive(Debug)]
pub struct InOrder {
    shards: Vec<ShardCursor>,
    heads: BinaryHeap<Reverse<Head>>,
    damage: Option<Damage>,
}

/// The next record of a shard.
#[derive(Debug)]
struct Head {
    until: u64,
    shard: usize,
    record: Box<Record>,
}

impl Ord for Head {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.until, self.shard).cmp(&(other.until, other.shard))
    }
}

impl PartialOrd for Head {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Head {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Head {}

impl InOrder {
    pub(crate) fn new(trace: &Trace, blocks: Vec<BlockInfo>, damage: Option<Damage>) -> Self {
        let mut shards: BTreeMap<u16, Vec<BlockInfo>> = BTreeMap::new();
        for block in blocks {
            shards.entry(block.shard).or_default().push(block);
        }
        let shard =
            |(number, blocks)| ShardCursor { number, records: trace.shard(blocks), until: 0 };
        let shards: Vec<ShardCursor> = shards.into_iter().map(shard).collect();
        let mut order = Self { shards, heads: BinaryHeap::new(), damage };
        for shard in 0..order.shards.len() {
            order.refill(shard);
        }
        order
    }

    /// The next record and its shard.
    pub fn next_of_shard(&mut self) -> Option<Result<(u16, Record), Damage>> {
        match self.heads.pop() {
            Some(Reverse(head)) => {
                self.refill(head.shard);
                Some(Ok((self.shards[head.shard].number, *head.record)))
            }
            None => self.damage.take().map(Err),
        }
    }

    fn refill(&mut self, shard: usize) {
        match self.shards[shard].next() {
            Ok(None) => {}
            Ok(Some((until, record))) => {
                self.heads.push(Reverse(Head { until, shard, record: Box::new(record) }));
            }
            Err(damage) => {
                self.damage.get_or_insert(damage);
            }
        }
    }
}

impl Iterator for InOrder {
    type Item = Result<Record, Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_of_shard()?.map(|(_, record)| record))
    }
}
