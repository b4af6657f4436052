//! How planned accesses are carried out: the recipe of `put`, `get`, `wait` and their collective
//! forms.
//!
//! A call plans ([`AccessPlan`], pure), agrees with the other ranks on the largest
//! [`CallFigures`] if it is collective, and executes: combined accesses, then windows of
//! overlapping ones, then partitions. The agreement makes every rank take part in equally many
//! accesses of the file, with empty ones where it has nothing left.

use striate_file::{Memory, MemoryMut, Placement, Scatter};

use super::Dataset;
use crate::ArrayError;
use crate::access::{Access, IoMode};
use crate::partition::{MappedRequest, RequestQueue};
use crate::pending::{
    ClusterWindow, ClusterWindows, CombinedAccess, Footprint, Schedule, concatenated_reads,
    concatenated_writes,
};
use crate::placement;
use crate::stream::{ReadStream, WriteStream};

impl Dataset {
    /// Writes. Independent.
    pub(super) fn put_independent(
        &mut self,
        accesses: Vec<Access<WriteStream<'_>>>,
    ) -> Result<(), ArrayError> {
        self.check_no_growth(&accesses)?;
        let mut accesses = accesses;
        for access in &mut accesses {
            self.place_write(access)?;
        }
        let needed = records(&accesses);
        if needed > self.header().records && self.record_info().fills_records {
            let variable = accesses.iter().max_by_key(|access| access.records);
            let variable = variable.map_or(0, |access| access.variable);
            return Err(ArrayError::Access {
                call: "put",
                variable: self.state.header.variables[variable].name.clone(),
                reason: "it makes new records, which are to be filled by all ranks together: \
                         call grow first, or put_all"
                    .into(),
            });
        }
        self.check_growth(needed)?;
        let (accesses, stored, divided) = self.split(accesses);
        let plan = AccessPlan::new(&accesses)?;
        let queues = self.request_queues(&divided)?;
        self.write(&accesses, IoMode::Independent, &plan)?;
        if !stored.is_empty() {
            self.put_stored_independent(&stored)?;
        }
        self.put_divided_independent(&divided, &queues)?;
        self.set_records(self.header().records.max(needed));
        self.check_range(range_flags(&accesses, WriteStream::all_in_range))
            .and(self.check_range(range_flags(&stored, WriteStream::all_in_range)))
            .and(self.check_range(range_flags(&divided, WriteStream::all_in_range)))
    }

    /// Reads. Independent.
    pub(super) fn get_independent(
        &mut self,
        accesses: Vec<Access<ReadStream<'_>>>,
    ) -> Result<(), ArrayError> {
        let mut accesses = accesses;
        for access in &mut accesses {
            self.place_read(access)?;
        }
        let (mut accesses, mut stored, mut divided) = self.split(accesses);
        let plan = AccessPlan::new(&accesses)?;
        let queues = self.request_queues(&divided)?;
        self.read(&mut accesses, IoMode::Independent, &plan)?;
        if !stored.is_empty() {
            self.get_stored(&mut stored)?;
        }
        self.get_divided_independent(&mut divided, &queues)?;
        self.check_range(range_flags(&accesses, ReadStream::all_in_range))
            .and(self.check_range(range_flags(&stored, ReadStream::all_in_range)))
            .and(self.check_range(range_flags(&divided, ReadStream::all_in_range)))
    }

    /// Writes. Collective, also for a rank that has an error.
    pub(crate) fn put_collective(
        &mut self,
        accesses: Result<Vec<Access<WriteStream<'_>>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let accesses = self.grown(accesses);
        let known = self.header().records;
        let needed = records(accesses.as_deref().unwrap_or_default()).max(known);
        let planned = self.planned(accesses).map(|planned| planned.with_records(needed));
        let PlannedAccesses { plan, accesses, stored, divided, queues } = self.agreed(planned)?;
        let CallFigures { records, may_be_out_of_range, deferred, .. } = plan.figures;
        let CallFigures { stored: any_stored, divided: any_divided, .. } = plan.figures;
        self.make_records(records)?;
        self.write(&accesses, IoMode::Collective, &plan)?;
        if any_stored {
            if deferred > 0 {
                self.settle()?;
            }
            self.put_stored(&stored)?;
        }
        if any_divided {
            self.flush_deferred_pieces()?;
            self.put_divided(&divided, &queues)?;
        }
        self.set_records(records);
        self.share_places()?;
        // All data is written: the headers may count the records.
        self.state_records()?;
        let in_range = self
            .check_range(range_flags(&accesses, WriteStream::all_in_range))
            .and(self.check_range(range_flags(&stored, WriteStream::all_in_range)))
            .and(self.check_range(range_flags(&divided, WriteStream::all_in_range)));
        if may_be_out_of_range { self.state.agree(in_range) } else { in_range }
    }

    /// Reads. Collective, also for a rank that has an error.
    pub(super) fn get_collective(
        &mut self,
        accesses: Result<Vec<Access<ReadStream<'_>>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let accesses = accesses.and_then(|mut accesses| {
            accesses.iter_mut().try_for_each(|access| self.place_read(access))?;
            Ok(accesses)
        });
        let planned = self.planned(accesses);
        let PlannedAccesses { plan, mut accesses, mut stored, mut divided, queues } =
            self.agreed(planned)?;
        let CallFigures { may_be_out_of_range, .. } = plan.figures;
        self.read(&mut accesses, IoMode::Collective, &plan)?;
        if plan.figures.stored {
            let read = self.get_stored(&mut stored);
            self.state.agree(read)?;
        }
        if plan.figures.divided {
            self.get_divided(&mut divided, &queues)?;
        }
        let in_range = self
            .check_range(range_flags(&accesses, ReadStream::all_in_range))
            .and(self.check_range(range_flags(&stored, ReadStream::all_in_range)))
            .and(self.check_range(range_flags(&divided, ReadStream::all_in_range)));
        if may_be_out_of_range { self.state.agree(in_range) } else { in_range }
    }

    fn planned<M: Footprint>(
        &self,
        accesses: Result<Vec<Access<M>>, ArrayError>,
    ) -> Result<PlannedAccesses<M>, ArrayError> {
        let accesses = accesses?;
        self.check_growth(records(&accesses))?;
        let (accesses, stored, divided) = self.split(accesses);
        let queues = self.request_queues(&divided)?;
        let mut plan = AccessPlan::new(&accesses)?;
        let mut others = stored.iter().chain(&divided);
        plan.figures.may_be_out_of_range |= others.any(|access| access.may_be_out_of_range);
        plan.figures.stored = !stored.is_empty();
        plan.figures.divided = !divided.is_empty();
        plan.figures.deferred = self.deferred_chunks();
        Ok(PlannedAccesses { plan, accesses, stored, divided, queues })
    }

    /// Accesses to places in the file, those to chunks that are stored as a whole, and those to
    /// partitions.
    fn split<M>(&self, accesses: Vec<Access<M>>) -> SplitAccesses<M> {
        if accesses.iter().all(|access| access.hyperslab.is_none()) {
            return (accesses, Vec::new(), Vec::new());
        }
        let (accesses, others): (Vec<_>, Vec<_>) =
            accesses.into_iter().partition(|access| access.hyperslab.is_none());
        let divides = |access: &Access<M>| {
            self.partitioned.as_ref().is_some_and(|it| it.divides(access.variable))
        };
        let (divided, stored) = others.into_iter().partition(divides);
        (accesses, stored, divided)
    }

    /// The planned accesses with the largest figures of all ranks. Collective.
    fn agreed<M>(
        &self,
        planned: Result<PlannedAccesses<M>, ArrayError>,
    ) -> Result<PlannedAccesses<M>, ArrayError> {
        let figures =
            planned.as_ref().map_or_else(|_| CallFigures::default(), |it| it.plan.figures);
        let (mut planned, largest) = self.state.agree_with_max(planned, figures.to_words())?;
        planned.plan.figures = CallFigures::from_words(largest);
        Ok(planned)
    }

    /// The plan for pieces of a partition, agreed in its group if the access is collective.
    fn plan_pieces<M: Footprint>(
        &self,
        pieces: Result<Vec<Access<M>>, ArrayError>,
        mode: IoMode,
    ) -> Result<PlannedAccesses<M>, ArrayError> {
        let planned = self.planned(pieces);
        if mode == IoMode::Independent { planned } else { self.agreed(planned) }
    }

    /// Writes pieces of a partition. An error of this rank is reported to the others by the caller.
    pub(crate) fn write_pieces(
        &mut self,
        pieces: Result<Vec<Access<WriteStream<'_>>>, ArrayError>,
        mode: IoMode,
    ) -> Result<(), ArrayError> {
        let pieces = pieces.and_then(|mut pieces| {
            pieces.iter_mut().try_for_each(|piece| self.place_write(piece))?;
            Ok(pieces)
        });
        let PlannedAccesses { plan, accesses, stored, .. } = self.plan_pieces(pieces, mode)?;
        self.write(&accesses, mode, &plan)?;
        match mode {
            IoMode::Collective if plan.figures.stored => self.put_stored(&stored),
            // What is written independently waits for a collective call.
            IoMode::Independent if !stored.is_empty() => self.put_stored_independent(&stored),
            _ => Ok(()),
        }
    }

    /// Reads pieces of a partition.
    pub(crate) fn read_pieces(
        &mut self,
        pieces: Result<Vec<Access<ReadStream<'_>>>, ArrayError>,
        mode: IoMode,
    ) -> Result<(), ArrayError> {
        let pieces = pieces.and_then(|mut pieces| {
            pieces.iter_mut().try_for_each(|piece| self.place_read(piece))?;
            Ok(pieces)
        });
        let PlannedAccesses { plan, mut accesses, mut stored, .. } =
            self.plan_pieces(pieces, mode)?;
        self.read(&mut accesses, mode, &plan)?;
        if !plan.figures.stored {
            return Ok(());
        }
        let read = self.get_stored(&mut stored);
        if mode == IoMode::Collective { self.state.agree(read) } else { read }
    }

    /// An error if a value was out of the range of its type.
    pub(super) fn check_range(
        &self,
        mut flags: impl Iterator<Item = (usize, bool)>,
    ) -> Result<(), ArrayError> {
        match flags.find(|(_, all_in_range)| !all_in_range) {
            None => Ok(()),
            Some((variable, _)) => {
                let variable = self.state.header.variables[variable].name.clone();
                Err(ArrayError::Range { variable })
            }
        }
    }

    fn write(
        &mut self,
        accesses: &[Access<WriteStream<'_>>],
        mode: IoMode,
        plan: &AccessPlan,
    ) -> Result<(), ArrayError> {
        if let Some(partitioned) = &mut self.partitioned {
            let coordinates = &partitioned.scheme.coordinates;
            let written = accesses.iter().any(|access| coordinates.contains(&access.variable));
            partitioned.stale_coordinates |= written;
        }
        // A tile of a rank is contiguous in the file, so it is written independently.
        let tiles = plan.tiles.iter().try_for_each(|tile| {
            let memory = concatenated_writes(accesses, tile);
            self.write_one(IoMode::Independent, &tile.placement, Memory::gathered(&memory))
        });
        if plan.figures.tiles > 0 && mode == IoMode::Collective {
            self.state.agree(tiles)?;
        } else {
            tiles?;
        }
        for number in 0..plan.figures.combined as usize {
            let combined = plan.combined(number);
            if let Some(memory) = plain_write(accesses, combined) {
                self.write_one(mode, &combined.placement, memory)?;
                continue;
            }
            let memory = concatenated_writes(accesses, combined);
            self.write_one(mode, &combined.placement, Memory::gathered(&memory))?;
        }
        if !plan.figures.overlapping {
            return Ok(());
        }
        let mut windows = PlanWindows::new(plan);
        loop {
            let window = windows.next(accesses).and_then(|window| {
                let Some(window) = window else { return Ok(None) };
                Ok(Some((window.placement()?, window.gather(accesses)?)))
            });
            match self.next_window(mode, window)? {
                NextWindow::Own((place, bytes)) => self.write_one(mode, &place, (&bytes).into())?,
                NextWindow::OtherRanks => {
                    self.write_one(mode, &placement::empty()?, (&[]).into())?;
                }
                NextWindow::Done => return Ok(()),
            }
        }
    }

    fn write_one(
        &mut self,
        mode: IoMode,
        placement: &Placement,
        memory: Memory<'_>,
    ) -> Result<(), ArrayError> {
        match mode {
            IoMode::Independent => self.state.file.write_in(placement, memory)?,
            IoMode::Collective => self.state.file.write_in_all(placement, memory)?,
        };
        Ok(())
    }

    fn read(
        &mut self,
        accesses: &mut [Access<ReadStream<'_>>],
        mode: IoMode,
        plan: &AccessPlan,
    ) -> Result<(), ArrayError> {
        for number in 0..plan.figures.combined as usize {
            let combined = plan.combined(number);
            let got = if let Some(memory) = plain_read(accesses, combined) {
                self.read_one(mode, &combined.placement, memory)?
            } else {
                let mut memory = concatenated_reads(accesses, combined);
                let memory = MemoryMut::scattered(&mut memory);
                self.read_one(mode, &combined.placement, memory)?
            };
            if got < combined.placement.len {
                zero_from(accesses, combined, got)?;
            }
        }
        if !plan.figures.overlapping {
            return Ok(());
        }
        let mut windows = PlanWindows::new(plan);
        loop {
            let window = windows.next(accesses).and_then(|window| {
                let Some(window) = window else { return Ok(None) };
                Ok(Some((window.placement()?, window)))
            });
            match self.next_window(mode, window)? {
                NextWindow::Own((placement, window)) => {
                    // Bytes beyond the end of the file stay zero.
                    let mut buffer = window.buffer();
                    self.read_one(mode, &placement, (&mut buffer).into())?;
                    window.scatter(&buffer, accesses)?;
                }
                NextWindow::OtherRanks => {
                    self.read_one(mode, &placement::empty()?, (&mut []).into())?;
                }
                NextWindow::Done => return Ok(()),
            }
        }
    }

    /// What comes next, if `window` is the next one of this rank. Collective if the access is.
    fn next_window<W>(
        &self,
        mode: IoMode,
        window: Result<Option<W>, ArrayError>,
    ) -> Result<NextWindow<W>, ArrayError> {
        let remaining = u64::from(window.as_ref().is_ok_and(Option::is_some));
        let (window, [remaining]) = match mode {
            IoMode::Independent => (window?, [remaining]),
            IoMode::Collective => self.state.agree_with_max(window, [remaining])?,
        };
        Ok(match window {
            Some(window) => NextWindow::Own(window),
            None if remaining > 0 => NextWindow::OtherRanks,
            None => NextWindow::Done,
        })
    }

    fn read_one(
        &mut self,
        mode: IoMode,
        placement: &Placement,
        memory: MemoryMut<'_>,
    ) -> Result<u64, ArrayError> {
        Ok(match mode {
            IoMode::Independent => self.state.file.read_in(placement, memory)?,
            IoMode::Collective => self.state.file.read_in_all(placement, memory)?,
        })
    }
}

/// The next step of an access in windows.
enum NextWindow<W> {
    /// A window of this rank.
    Own(W),
    /// Only other ranks have windows left: this rank takes part with an empty access.
    OtherRanks,
    Done,
}

/// What ranks must know of each other's plans: of this rank, or after the agreement the largest of
/// all ranks.
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a figure of its own")]
struct CallFigures {
    /// Records that there must be after the call; 0 if it makes none.
    records: u64,
    /// Combined accesses.
    combined: u64,
    /// Tiles.
    tiles: u64,
    /// Whether accesses overlap in the file, and so are carried out in windows.
    overlapping: bool,
    /// Whether a value may turn out to be out of range.
    may_be_out_of_range: bool,
    /// Whether chunks are accessed that are stored as a whole.
    stored: bool,
    /// Whether partitions are accessed.
    divided: bool,
    /// Stored chunks that were written independently and wait.
    deferred: u64,
}

impl CallFigures {
    /// As the numbers of a reduction.
    const fn to_words(self) -> [u64; 8] {
        let Self { records, combined, tiles, deferred, .. } = self;
        let Self { overlapping, may_be_out_of_range, stored, divided, .. } = self;
        let flags = [overlapping as u64, may_be_out_of_range as u64, stored as u64, divided as u64];
        let [overlapping, may_be_out_of_range, stored, divided] = flags;
        [records, combined, tiles, overlapping, may_be_out_of_range, stored, divided, deferred]
    }

    const fn from_words(words: [u64; 8]) -> Self {
        let [records, combined, tiles, overlapping, may_be_out_of_range, stored, divided, deferred] =
            words;
        Self {
            records,
            combined,
            tiles,
            overlapping: overlapping > 0,
            may_be_out_of_range: may_be_out_of_range > 0,
            stored: stored > 0,
            divided: divided > 0,
            deferred,
        }
    }
}

/// How accesses on the file are carried out.
#[derive(Debug)]
struct AccessPlan {
    schedule: Schedule,
    combined: Vec<CombinedAccess>,
    /// Written independently, whatever the call.
    tiles: Vec<CombinedAccess>,
    /// Stands for the combined accesses that other ranks have and this one has not.
    nothing: CombinedAccess,
    figures: CallFigures,
}

impl AccessPlan {
    fn new<M: Footprint>(accesses: &[Access<M>]) -> Result<Self, ArrayError> {
        let schedule = Schedule::new(accesses.iter().map(|access| &access.placement));
        let (mut combined, mut tiles) = (Vec::new(), Vec::new());
        for numbers in &schedule.disjoint {
            let mut of_group = CombinedAccess::of(accesses, numbers)?;
            let list = if of_group.len() > 1 { &mut tiles } else { &mut combined };
            list.append(&mut of_group);
        }
        let figures = CallFigures {
            records: 0,
            combined: combined.len() as u64,
            tiles: tiles.len() as u64,
            overlapping: !schedule.clusters.is_empty(),
            may_be_out_of_range: accesses.iter().any(|access| access.may_be_out_of_range),
            stored: false,
            divided: false,
            deferred: 0,
        };
        let nothing = CombinedAccess { placement: placement::empty()?, parts: Vec::new() };
        Ok(Self { schedule, combined, tiles, nothing, figures })
    }

    fn combined(&self, number: usize) -> &CombinedAccess {
        self.combined.get(number).unwrap_or(&self.nothing)
    }
}

/// The windows of all clusters of a plan, one after the other.
struct PlanWindows<'p> {
    clusters: std::slice::Iter<'p, Vec<usize>>,
    current: Option<ClusterWindows>,
}

impl<'p> PlanWindows<'p> {
    fn new(plan: &'p AccessPlan) -> Self {
        Self { clusters: plan.schedule.clusters.iter(), current: None }
    }

    /// The next window; `None` after the last.
    fn next<M>(&mut self, accesses: &[Access<M>]) -> Result<Option<ClusterWindow>, ArrayError> {
        loop {
            if let Some(current) = &mut self.current {
                if let Some(window) = current.next()? {
                    return Ok(Some(window));
                }
                self.current = None;
            }
            let Some(cluster) = self.clusters.next() else { return Ok(None) };
            let members = cluster.iter().map(|&number| (number, &accesses[number].placement));
            self.current = Some(ClusterWindows::new(members)?);
        }
    }
}

/// Accesses to places in the file, to chunks that are stored as a whole, and to partitions.
type SplitAccesses<M> = (Vec<Access<M>>, Vec<Access<M>>, Vec<Access<M>>);

/// Accesses with their plan: those to places in the file, those to chunks that are stored as a
/// whole, and those to partitions.
struct PlannedAccesses<M> {
    plan: AccessPlan,
    accesses: Vec<Access<M>>,
    stored: Vec<Access<M>>,
    divided: Vec<Access<M>>,
    queues: Vec<RequestQueue<MappedRequest>>,
}

impl<M> PlannedAccesses<M> {
    /// With a number of records that there must be after the call.
    fn with_records(mut self, records: u64) -> Self {
        self.plan.figures.records = records;
        self
    }
}

fn range_flags<M>(
    accesses: &[Access<M>],
    all_in_range: impl Fn(&M) -> bool,
) -> impl Iterator<Item = (usize, bool)> {
    accesses.iter().map(move |access| (access.variable, all_in_range(&access.memory)))
}

fn records<M>(accesses: &[Access<M>]) -> u64 {
    accesses.iter().map(|access| access.records).max().unwrap_or(0)
}

/// The memory of a combined write itself, if it is a single access whose bytes are those of the
/// file.
fn plain_write<'s>(
    accesses: &'s [Access<WriteStream<'_>>],
    combined: &CombinedAccess,
) -> Option<Memory<'s>> {
    match combined.parts.as_slice() {
        [(number, _)] => accesses.get(*number)?.memory.as_memory(),
        _ => None,
    }
}

/// The same for a read.
fn plain_read<'s>(
    accesses: &'s mut [Access<ReadStream<'_>>],
    combined: &CombinedAccess,
) -> Option<MemoryMut<'s>> {
    match combined.parts.as_slice() {
        [(number, _)] => accesses.get_mut(*number)?.memory.as_memory(),
        _ => None,
    }
}

/// Sets what lies beyond the end of the file to zeros: all bytes of the combined stream from `got`
/// on.
fn zero_from(
    accesses: &mut [Access<ReadStream<'_>>],
    combined: &CombinedAccess,
    got: u64,
) -> Result<(), ArrayError> {
    let mut position = 0;
    for (number, _) in &combined.parts {
        let memory = &mut accesses[*number].memory;
        let len = memory.stream_len();
        if got < position + len {
            memory.scatter_zeros(got.saturating_sub(position))?;
        }
        position += len;
    }
    Ok(())
}
