//! The calls of each rank of a benchmark.
//!
//! A [`Pattern`] gives each rank a [`IoPlan`]: a view of the file and calls through it. Calls form
//! steps; a step is timed as a whole, and the rank's memory holds one step. Together the ranks
//! cover their files without holes, so that a file can be verified as a whole.

use std::ops::Range;

use striate_datatype::{Cursor, Datatype, Pieces, TypeError};
use striate_layout::striping::{Share, Striping};

use super::IoOp;
use super::content::Content;
use crate::workload::Workload;

/// One read or write of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Where it starts, in bytes of the view's stream.
    pub offset: u64,
    /// Index of the origin of its memory in the rank's buffer.
    pub origin: usize,
}

/// What one rank does.
#[derive(Clone, Debug)]
pub struct IoPlan {
    /// Which of the pattern's files.
    pub file: u64,
    /// What the rank sees of it, over and over again.
    pub filetype: Datatype,
    /// The memory of one call.
    pub memory: Datatype,
    /// Copies of it.
    pub memory_count: u64,
    /// Bytes of the buffer that holds the memory of a step.
    pub buffer: usize,
    /// The calls, step by step. All ranks have as many steps, and as many calls in each.
    pub steps: Vec<Vec<Call>>,
    /// All copies in one type, of a call's memory and of the view up to its last call.
    whole: (Datatype, Datatype),
}

impl IoPlan {
    pub(super) fn new(
        file: u64,
        filetype: &Datatype,
        memory: &Datatype,
        memory_count: u64,
        steps: Vec<Vec<Call>>,
    ) -> Result<Self, TypeError> {
        let whole = Datatype::contiguous(memory_count, memory)?;
        let len = whole.size();
        // A view must show something, even to a rank that has nothing to do.
        let filetype = if len == 0 { Datatype::bytes(1)? } else { filetype.clone() };
        let calls = || steps.iter().flatten();
        let end = calls().map(|call| call.offset).max().unwrap_or(0).saturating_add(len);
        let file_whole = Datatype::contiguous(end.div_ceil(filetype.size()), &filetype)?;
        let origin = calls().map(|call| call.origin).max().unwrap_or(0);
        let top = whole.upper_bound().max(whole.true_upper_bound()).max(0) as usize;
        Ok(Self {
            file,
            filetype,
            memory: memory.clone(),
            memory_count,
            buffer: origin.saturating_add(top),
            steps,
            whole: (whole, file_whole),
        })
    }

    /// Bytes of one call.
    pub fn call_bytes(&self) -> u64 {
        self.whole.0.size()
    }

    /// Bytes of all calls.
    pub fn bytes(&self) -> u64 {
        self.steps.iter().map(|calls| calls.len() as u64).sum::<u64>() * self.call_bytes()
    }

    /// Bytes of memory from the first to the last of one call.
    pub fn memory_is_contiguous(&self) -> bool {
        self.whole.0.runs() <= 1 && self.whole.0.true_lower_bound() == 0
    }

    /// The part of the buffer that a call without gaps in memory is about.
    pub(super) fn memory_of(&self, call: &Call) -> Range<usize> {
        call.origin..call.origin + self.call_bytes() as usize
    }

    /// The pieces of a call that lie together in memory and in the file.
    pub fn pieces(&self, call: &Call) -> Result<Pieces<'_, '_>, TypeError> {
        let (memory, file) = &self.whole;
        let mut file = Cursor::new(file, 1)?;
        file.seek(call.offset);
        Ok(Pieces::new(Cursor::new(memory, 1)?, file))
    }

    /// How many servers hold bytes of a step.
    pub(super) fn servers(&self, step: usize, striping: Striping) -> Result<u64, TypeError> {
        let mut servers = 0;
        for server in 0..striping.servers.get() {
            let mut concerned = false;
            for call in &self.steps[step] {
                let stream = call.offset..call.offset + self.call_bytes();
                concerned = Share::of(striping, server, &self.whole.1, stream)?.next().is_some();
                if concerned {
                    break;
                }
            }
            servers += u64::from(concerned);
        }
        Ok(servers)
    }

    /// Puts into `buffer` what the file holds for the calls of a step; gaps stay as they are.
    pub fn fill(&self, step: usize, buffer: &mut [u8]) -> Result<(), TypeError> {
        let content = Content { seed: self.file };
        for call in &self.steps[step] {
            for piece in self.pieces(call)? {
                let start = call.origin + piece.memory as usize;
                content.fill(piece.file as u64, &mut buffer[start..start + piece.len as usize]);
            }
        }
        Ok(())
    }
}

/// What all ranks do.
///
/// # Contract
///
/// The calls of all ranks together touch every byte of every file. The plans of ranks have equal
/// numbers of steps, and of calls in each.
pub trait Pattern: Sync {
    /// The name in reports.
    fn name(&self) -> &'static str;

    /// Number of ranks that take part.
    fn ranks(&self) -> u64;

    /// What `rank` does.
    fn plan(&self, rank: u64, op: IoOp) -> Result<IoPlan, TypeError>;

    /// Bytes of memory that one rank needs at least: its data to write and to read, and the list of
    /// its calls. Found without the plan where that could be large itself.
    fn memory_of_rank(&self) -> Result<u64, TypeError> {
        let plans = [self.plan(0, IoOp::Write)?, self.plan(0, IoOp::Read)?];
        Ok(plans.iter().map(|plan| plan.buffer as u64).max().unwrap_or(0).saturating_mul(2))
    }

    /// Bytes of each file.
    fn file_bytes(&self) -> Result<u64, TypeError>;

    /// Number of files: one, or one per rank.
    fn files(&self) -> u64 {
        1
    }

    /// Bytes that lie together in the file, for reports.
    fn block(&self) -> Result<u64, TypeError>;

    /// Bytes of a call, where a block takes several.
    fn transfer(&self) -> Option<u64> {
        None
    }
}

/// A workload whose call is made again and again, each time on the next part of the file.
#[derive(Debug)]
pub struct Repeated<W> {
    /// What one call does.
    pub workload: W,
    /// How often.
    pub steps: u64,
}

impl<W: Workload> Repeated<W> {
    /// One call only.
    pub const fn once(workload: W) -> Self {
        Self { workload, steps: 1 }
    }
}

impl<W: Workload + Sync> Pattern for Repeated<W> {
    fn name(&self) -> &'static str {
        self.workload.name()
    }

    fn ranks(&self) -> u64 {
        self.workload.ranks()
    }

    fn plan(&self, rank: u64, _op: IoOp) -> Result<IoPlan, TypeError> {
        let access = self.workload.access(rank)?;
        let len = access.memory.size().saturating_mul(access.memory_count);
        let call = |step: u64| Call { offset: step.saturating_mul(len), origin: 0 };
        let steps = (0..self.steps).map(|step| vec![call(step)]).collect();
        IoPlan::new(0, &access.file, &access.memory, access.memory_count, steps)
    }

    fn file_bytes(&self) -> Result<u64, TypeError> {
        let access = self.workload.access(0)?;
        let copies = access.file_count.saturating_mul(self.steps);
        Ok(Datatype::contiguous(copies, &access.file)?.extent().unsigned_abs())
    }

    fn block(&self) -> Result<u64, TypeError> {
        let access = self.workload.access(0)?;
        Ok(access.file.size().checked_div(access.file.runs()).unwrap_or(0))
    }
}

/// IOR's pattern: in every segment each rank has a block, which it moves in transfers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ior {
    /// Ranks.
    pub ranks: u64,
    /// Bytes of a block (`-b`).
    pub block: u64,
    /// Bytes of a call (`-t`); blocks hold whole ones.
    pub transfer: u64,
    /// Segments (`-s`).
    pub segments: u64,
    /// Whether every rank has a file of its own (`-F`).
    pub file_per_process: bool,
    /// Whether a rank reads what the next one wrote (`-C`).
    pub reorder: bool,
    /// Whether the transfers of a rank come in random order (`-z`).
    pub random: bool,
}

impl Pattern for Ior {
    fn name(&self) -> &'static str {
        "ior"
    }

    fn ranks(&self) -> u64 {
        self.ranks
    }

    fn plan(&self, rank: u64, op: IoOp) -> Result<IoPlan, TypeError> {
        let shift = u64::from(self.reorder && op == IoOp::Read);
        let writer = (rank + shift) % self.ranks.max(1);
        let (blocks, first) =
            if self.file_per_process { (1, 0) } else { (self.ranks, writer * self.block) };
        let transfers = self.block.checked_div(self.transfer).unwrap_or(0);
        let mut calls = Vec::new();
        for segment in 0..self.segments {
            for transfer in 0..transfers {
                let within = transfer * self.transfer;
                let offset = segment * blocks * self.block + first + within;
                calls.push(Call { offset, origin: (segment * self.block + within) as usize });
            }
        }
        if self.random {
            shuffle(&mut calls, rank);
        }
        let file = if self.file_per_process { writer } else { 0 };
        let memory = Datatype::bytes(self.transfer)?;
        IoPlan::new(file, &Datatype::bytes(1)?, &memory, 1, vec![calls])
    }

    fn memory_of_rank(&self) -> Result<u64, TypeError> {
        let data = self.block.saturating_mul(self.segments);
        let calls = data.checked_div(self.transfer).unwrap_or(0);
        // Plans for writing and for reading; each is copied once while it is made.
        let lists = calls.saturating_mul(4 * size_of::<Call>() as u64);
        Ok(data.saturating_mul(2).saturating_add(lists))
    }

    fn file_bytes(&self) -> Result<u64, TypeError> {
        let blocks = if self.file_per_process { 1 } else { self.ranks };
        Ok(Datatype::contiguous(blocks * self.segments, &Datatype::bytes(self.block)?)?.size())
    }

    fn files(&self) -> u64 {
        if self.file_per_process { self.ranks } else { 1 }
    }

    fn block(&self) -> Result<u64, TypeError> {
        Ok(self.block)
    }

    fn transfer(&self) -> Option<u64> {
        Some(self.transfer)
    }
}

/// Fisher and Yates, with numbers that are the same in every run.
fn shuffle(calls: &mut [Call], seed: u64) {
    let mut state = seed.wrapping_add(1);
    for last in (1..calls.len()).rev() {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        calls.swap(last, ((state >> 33) % (last as u64 + 1)) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::{Block3d, Flash, Strided, TileReader};

    /// How often every byte of the files is touched.
    fn touched(pattern: &dyn Pattern, op: IoOp) -> Vec<Vec<u32>> {
        let bytes = pattern.file_bytes().unwrap() as usize;
        let mut files = vec![vec![0; bytes]; pattern.files() as usize];
        for rank in 0..pattern.ranks() {
            let plan = pattern.plan(rank, op).unwrap();
            let mut bytes = 0;
            for call in plan.steps.iter().flatten() {
                for piece in plan.pieces(call).unwrap() {
                    assert!(
                        call.origin + piece.memory as usize + piece.len as usize <= plan.buffer
                    );
                    let start = piece.file as usize;
                    bytes += piece.len;
                    let file = &mut files[plan.file as usize];
                    file[start..start + piece.len as usize].iter_mut().for_each(|n| *n += 1);
                }
            }
            assert_eq!(bytes, plan.bytes());
        }
        files
    }

    fn assert_touched_once(pattern: &dyn Pattern) {
        for op in [IoOp::Write, IoOp::Read] {
            assert!(touched(pattern, op).iter().flatten().all(|n| *n == 1), "{}", pattern.name());
        }
    }

    #[test]
    fn patterns_touch_every_byte() {
        assert_touched_once(&Repeated::once(Block3d::near_cubic(7, 12)));
        assert_touched_once(&Repeated::once(Block3d::near_cubic(3, 64)));
        assert_touched_once(&Repeated::once(Strided { ranks: 3, block: 10, count: 4 }));
        let small = Flash { processes: 3, blocks: 2, cells: 2, guard: 1, ..Flash::default() };
        assert_touched_once(&Repeated { workload: small, steps: 2 });
        let wall = TileReader { tile: (8, 6), overlap: (2, 1), ..TileReader::default() };
        let files = touched(&Repeated { workload: wall, steps: 3 }, IoOp::Read);
        assert!(files[0].iter().all(|n| (1..=4).contains(n)));
        for bits in 0..8 {
            assert_touched_once(&Ior {
                ranks: 3,
                block: 24,
                transfer: 8,
                segments: 2,
                file_per_process: bits & 1 != 0,
                reorder: bits & 2 != 0,
                random: bits & 4 != 0,
            });
        }
    }

    #[test]
    fn the_memory_of_a_rank_is_known_without_its_plan() {
        let mut ior = Ior {
            ranks: 4,
            block: 1 << 20,
            transfer: 1 << 10,
            segments: 3,
            file_per_process: false,
            reorder: true,
            random: false,
        };
        let plan = ior.plan(0, IoOp::Read).unwrap();
        let least = ior.memory_of_rank().unwrap();
        assert!((2 * plan.buffer as u64..4 * plan.buffer as u64).contains(&least), "{least}");
        // A plan of this one would need more memory than most machines have.
        ior = Ior { block: 100 << 40, transfer: 1 << 20, segments: 1, ..ior };
        assert!(ior.memory_of_rank().unwrap() > 200 << 40);
    }

    #[test]
    fn a_reordered_read_is_of_the_next_ranks_block() {
        let ior = Ior {
            ranks: 4,
            block: 100,
            transfer: 50,
            segments: 2,
            file_per_process: false,
            reorder: true,
            random: false,
        };
        let offsets = |op| -> Vec<u64> {
            let plan = ior.plan(3, op).unwrap();
            plan.steps[0].iter().map(|call| call.offset).collect()
        };
        assert_eq!(offsets(IoOp::Write), [300, 350, 700, 750]);
        assert_eq!(offsets(IoOp::Read), [0, 50, 400, 450]);
    }
}
