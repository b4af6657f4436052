//! How accesses are carried out, alone and together.

use striate_file::{Memory, MemoryMut, Placement, Scatter};

use super::Dataset;
use crate::ArrayError;
use crate::access::Access;
use crate::partition::{Queue, Wanted};
use crate::pending::{Footprint, Round, Schedule, Windows, nowhere, stacked, stacked_mut};
use crate::stream::{Incoming, Outgoing};

/// What carries out one access of the file room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Alone,
    Together,
}

impl Dataset {
    /// Writes, this rank by itself.
    pub(super) fn put_alone(
        &mut self,
        accesses: Vec<Access<Outgoing<'_>>>,
    ) -> Result<(), ArrayError> {
        let needed = records(&accesses);
        if needed > self.header().records && self.derived().fills_records {
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
        let (accesses, divided) = split(accesses);
        let plan = Plan::new(&accesses)?;
        let queues = self.queues(&divided)?;
        self.write(&accesses, How::Alone, &plan)?;
        self.put_divided_alone(&divided, &queues)?;
        self.set_records(self.header().records.max(needed));
        self.misses(flags(&accesses, Outgoing::all_in_range))
            .and(self.misses(flags(&divided, Outgoing::all_in_range)))
    }

    /// Reads, this rank by itself.
    pub(super) fn get_alone(
        &mut self,
        accesses: Vec<Access<Incoming<'_>>>,
    ) -> Result<(), ArrayError> {
        let (mut accesses, mut divided) = split(accesses);
        let plan = Plan::new(&accesses)?;
        let queues = self.queues(&divided)?;
        self.read(&mut accesses, How::Alone, &plan)?;
        self.get_divided_alone(&mut divided, &queues)?;
        self.misses(flags(&accesses, Incoming::all_in_range))
            .and(self.misses(flags(&divided, Incoming::all_in_range)))
    }

    /// Writes, together with the other ranks. Collective, also for a rank that has an error.
    pub(super) fn put_together(
        &mut self,
        accesses: Result<Vec<Access<Outgoing<'_>>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let known = self.header().records;
        let needed = records(accesses.as_deref().unwrap_or_default()).max(known);
        let planned = self.planned(accesses);
        let [rounds, tiled, crossing, may_miss, divided] =
            planned.as_ref().map_or([0; 5], Planned::figures);
        let (planned, [needed, rounds, tiled, crossing, may_miss, any_divided]) =
            self.state.agree_with(planned, [needed, rounds, tiled, crossing, may_miss, divided])?;
        let Planned { mut plan, accesses, divided, queues } = planned;
        self.make_records(needed)?;
        plan.figures = [rounds, tiled, crossing, may_miss];
        self.write(&accesses, How::Together, &plan)?;
        if any_divided > 0 {
            self.put_divided(&divided, &queues)?;
        }
        self.set_records(needed);
        // All data is there: the headers may say so.
        self.state_records()?;
        let missed = self
            .misses(flags(&accesses, Outgoing::all_in_range))
            .and(self.misses(flags(&divided, Outgoing::all_in_range)));
        if may_miss > 0 { self.state.agree(missed) } else { missed }
    }

    /// Reads, together with the other ranks. Collective, also for a rank that has an error.
    pub(super) fn get_together(
        &mut self,
        accesses: Result<Vec<Access<Incoming<'_>>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let planned = self.planned(accesses);
        let figures = planned.as_ref().map_or([0; 5], Planned::figures);
        let (planned, figures) = self.state.agree_with(planned, figures)?;
        let Planned { mut plan, mut accesses, mut divided, queues } = planned;
        let [rounds, tiled, crossing, may_miss, any_divided] = figures;
        plan.figures = [rounds, tiled, crossing, may_miss];
        self.read(&mut accesses, How::Together, &plan)?;
        if any_divided > 0 {
            self.get_divided(&mut divided, &queues)?;
        }
        let missed = self
            .misses(flags(&accesses, Incoming::all_in_range))
            .and(self.misses(flags(&divided, Incoming::all_in_range)));
        if may_miss > 0 { self.state.agree(missed) } else { missed }
    }

    fn planned<M: Footprint>(
        &self,
        accesses: Result<Vec<Access<M>>, ArrayError>,
    ) -> Result<Planned<M>, ArrayError> {
        let accesses = accesses?;
        self.check_growth(records(&accesses))?;
        let (accesses, divided) = split(accesses);
        let queues = self.queues(&divided)?;
        let mut plan = Plan::new(&accesses)?;
        plan.figures[3] |= u64::from(divided.iter().any(|access| access.may_miss));
        Ok(Planned { plan, accesses, divided, queues })
    }

    /// Writes bytes to a partition: `None` of this rank if it has an error that others learn of
    /// elsewhere. Collective in the partition's group, unless `alone`.
    pub(crate) fn write_pieces(
        &mut self,
        pieces: Result<Vec<Access<Outgoing<'_>>>, ArrayError>,
        alone: bool,
    ) -> Result<(), ArrayError> {
        let planned = pieces.and_then(|pieces| Ok((Plan::new(&pieces)?, pieces)));
        if alone {
            let (plan, pieces) = planned?;
            return self.write(&pieces, How::Alone, &plan);
        }
        let figures = planned.as_ref().map_or([0; 4], |(plan, _)| plan.figures);
        let ((mut plan, pieces), figures) = self.state.agree_with(planned, figures)?;
        plan.figures = figures;
        self.write(&pieces, How::Together, &plan)
    }

    /// Reads bytes of a partition. Collective in the partition's group, unless `alone`.
    pub(crate) fn read_pieces(
        &mut self,
        pieces: Result<Vec<Access<Incoming<'_>>>, ArrayError>,
        alone: bool,
    ) -> Result<(), ArrayError> {
        let planned = pieces.and_then(|pieces| Ok((Plan::new(&pieces)?, pieces)));
        if alone {
            let (plan, mut pieces) = planned?;
            return self.read(&mut pieces, How::Alone, &plan);
        }
        let figures = planned.as_ref().map_or([0; 4], |(plan, _)| plan.figures);
        let ((mut plan, mut pieces), figures) = self.state.agree_with(planned, figures)?;
        plan.figures = figures;
        self.read(&mut pieces, How::Together, &plan)
    }

    /// The error of a value that did not fit.
    pub(super) fn misses(
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
        accesses: &[Access<Outgoing<'_>>],
        how: How,
        plan: &Plan,
    ) -> Result<(), ArrayError> {
        if let Some(parted) = &mut self.parted {
            let coordinates = &parted.scheme.coordinates;
            let written = accesses.iter().any(|access| coordinates.contains(&access.variable));
            parted.stale_coordinates |= written;
        }
        let [rounds, tiled, crossing, _] = plan.figures;
        // What each rank has of these lies together in the file: nobody is needed.
        let alone = plan.tiles.iter().try_for_each(|tile| {
            let memory = stacked(accesses, tile);
            self.write_one(How::Alone, &tile.place, Memory::gathered(&memory))
        });
        if tiled > 0 && how == How::Together {
            self.state.agree(alone)?;
        } else {
            alone?;
        }
        for number in 0..rounds as usize {
            let round = plan.round(number);
            let memory = stacked(accesses, round);
            self.write_one(how, &round.place, Memory::gathered(&memory))?;
        }
        if crossing == 0 {
            return Ok(());
        }
        let mut clusters = plan.schedule.clusters.iter();
        let mut windows: Option<Windows> = None;
        loop {
            let window = next_window(&mut windows, &mut clusters, accesses).and_then(|window| {
                let Some(window) = window else { return Ok(None) };
                Ok(Some((window.place()?, window.gather(accesses)?)))
            });
            match self.turn(how, window)? {
                Turn::Mine((place, bytes)) => self.write_one(how, &place, (&bytes).into())?,
                Turn::Others => self.write_one(how, &nowhere()?, (&[]).into())?,
                Turn::Over => return Ok(()),
            }
        }
    }

    fn write_one(
        &mut self,
        how: How,
        place: &Placement,
        memory: Memory<'_>,
    ) -> Result<(), ArrayError> {
        match how {
            How::Alone => self.state.file.write_in(place, memory)?,
            How::Together => self.state.file.write_in_all(place, memory)?,
        };
        Ok(())
    }

    fn read(
        &mut self,
        accesses: &mut [Access<Incoming<'_>>],
        how: How,
        plan: &Plan,
    ) -> Result<(), ArrayError> {
        let [rounds, _, crossing, _] = plan.figures;
        for number in 0..rounds as usize {
            let round = plan.round(number);
            let mut memory = stacked_mut(accesses, round);
            let got = self.read_one(how, &round.place, MemoryMut::scattered(&mut memory))?;
            if got < round.place.len {
                zeros_behind(accesses, round, got)?;
            }
        }
        if crossing == 0 {
            return Ok(());
        }
        let mut clusters = plan.schedule.clusters.iter();
        let mut windows: Option<Windows> = None;
        loop {
            let window = next_window(&mut windows, &mut clusters, accesses).and_then(|window| {
                let Some(window) = window else { return Ok(None) };
                Ok(Some((window.place()?, window)))
            });
            match self.turn(how, window)? {
                Turn::Mine((place, window)) => {
                    // Beyond the end of the file there are zeros.
                    let mut room = window.room();
                    self.read_one(how, &place, (&mut room).into())?;
                    window.scatter(&room, accesses)?;
                }
                Turn::Others => drop(self.read_one(how, &nowhere()?, (&mut []).into())?),
                Turn::Over => return Ok(()),
            }
        }
    }

    /// Whose turn it is, if this rank has that window left. Collective if the access is.
    fn turn<W>(
        &self,
        how: How,
        window: Result<Option<W>, ArrayError>,
    ) -> Result<Turn<W>, ArrayError> {
        let left = u64::from(window.as_ref().is_ok_and(Option::is_some));
        let (window, [left]) = match how {
            How::Alone => (window?, [left]),
            How::Together => self.state.agree_with(window, [left])?,
        };
        Ok(match window {
            Some(window) => Turn::Mine(window),
            None if left > 0 => Turn::Others,
            None => Turn::Over,
        })
    }

    fn read_one(
        &mut self,
        how: How,
        place: &Placement,
        memory: MemoryMut<'_>,
    ) -> Result<u64, ArrayError> {
        Ok(match how {
            How::Alone => self.state.file.read_in(place, memory)?,
            How::Together => self.state.file.read_in_all(place, memory)?,
        })
    }
}

/// What is to be done next.
enum Turn<W> {
    /// A window of this rank.
    Mine(W),
    /// Other ranks have windows left.
    Others,
    Over,
}

/// How accesses are carried out.
#[derive(Debug)]
struct Plan {
    schedule: Schedule,
    rounds: Vec<Round>,
    /// What a rank writes by itself.
    tiles: Vec<Round>,
    /// What a rank does whose rounds are over.
    nothing: Round,
    /// Rounds, tiles, whether accesses cross, and whether a value may not fit: of this rank, and once
    /// they have agreed, the most that any rank has.
    figures: [u64; 4],
}

impl Plan {
    fn new<M: Footprint>(accesses: &[Access<M>]) -> Result<Self, ArrayError> {
        let schedule = Schedule::new(accesses.iter().map(|access| &access.place));
        let (mut rounds, mut tiles) = (Vec::new(), Vec::new());
        for numbers in &schedule.stacks {
            let mut of_stack = Round::of(accesses, numbers)?;
            let place = if of_stack.len() > 1 { &mut tiles } else { &mut rounds };
            place.append(&mut of_stack);
        }
        let crossing = u64::from(!schedule.clusters.is_empty());
        let may_miss = u64::from(accesses.iter().any(|access| access.may_miss));
        let figures = [rounds.len() as u64, tiles.len() as u64, crossing, may_miss];
        let nothing = Round { place: nowhere()?, parts: Vec::new() };
        Ok(Self { schedule, rounds, tiles, nothing, figures })
    }

    fn round(&self, number: usize) -> &Round {
        self.rounds.get(number).unwrap_or(&self.nothing)
    }
}

/// Accesses as they are carried out: those on the file, and those on partitions.
struct Planned<M> {
    plan: Plan,
    accesses: Vec<Access<M>>,
    divided: Vec<Access<M>>,
    queues: Vec<Queue<Wanted>>,
}

impl<M> Planned<M> {
    /// Those of the plan, and whether partitions are accessed.
    fn figures(&self) -> [u64; 5] {
        let [rounds, tiled, crossing, may_miss] = self.plan.figures;
        [rounds, tiled, crossing, may_miss, u64::from(!self.divided.is_empty())]
    }
}

/// Accesses on the file, and those on partitions.
fn split<M>(accesses: Vec<Access<M>>) -> (Vec<Access<M>>, Vec<Access<M>>) {
    if accesses.iter().all(|access| access.extent.is_none()) {
        return (accesses, Vec::new());
    }
    accesses.into_iter().partition(|access| access.extent.is_none())
}

fn flags<M>(
    accesses: &[Access<M>],
    all_in_range: impl Fn(&M) -> bool,
) -> impl Iterator<Item = (usize, bool)> {
    accesses.iter().map(move |access| (access.variable, all_in_range(&access.memory)))
}

fn records<M>(accesses: &[Access<M>]) -> u64 {
    accesses.iter().map(|access| access.records).max().unwrap_or(0)
}

/// The next window of the clusters that are left.
fn next_window<'s, M>(
    windows: &mut Option<Windows>,
    clusters: &mut impl Iterator<Item = &'s Vec<usize>>,
    accesses: &[Access<M>],
) -> Result<Option<crate::pending::Window>, ArrayError> {
    loop {
        if let Some(current) = windows {
            if let Some(window) = current.next()? {
                return Ok(Some(window));
            }
            *windows = None;
        }
        let Some(cluster) = clusters.next() else { return Ok(None) };
        let members = cluster.iter().map(|&number| (number, &accesses[number].place));
        *windows = Some(Windows::new(members)?);
    }
}

/// What lies beyond the end of the file reads as zeros.
fn zeros_behind(
    accesses: &mut [Access<Incoming<'_>>],
    round: &Round,
    got: u64,
) -> Result<(), ArrayError> {
    let mut position = 0;
    for (number, _) in &round.parts {
        let memory = &mut accesses[*number].memory;
        let len = memory.stream_len();
        if got < position + len {
            memory.scatter_zeros(got.saturating_sub(position))?;
        }
        position += len;
    }
    Ok(())
}
