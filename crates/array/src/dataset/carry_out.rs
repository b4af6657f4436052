//! How accesses are carried out, alone and together.

use striate_file::{FileError, Memory, MemoryMut, Placement, Scatter};

use super::Dataset;
use crate::ArrayError;
use crate::access::Access;
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
        accesses: &[Access<Outgoing<'_>>],
    ) -> Result<(), ArrayError> {
        let needed = accesses.iter().map(|access| access.records).max().unwrap_or(0);
        if needed > self.state.header.records && self.state.derived.fills_records {
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
        let plan = Plan::new(accesses)?;
        self.write(accesses, How::Alone, &plan)?;
        self.state.header.records = self.state.header.records.max(needed);
        self.misses(accesses.iter().map(|access| (access.variable, access.memory.all_in_range())))
    }

    /// Reads, this rank by itself.
    pub(super) fn get_alone(
        &mut self,
        accesses: &mut [Access<Incoming<'_>>],
    ) -> Result<(), ArrayError> {
        let plan = Plan::new(accesses)?;
        self.read(accesses, How::Alone, &plan)?;
        self.misses(accesses.iter().map(|access| (access.variable, access.memory.all_in_range())))
    }

    /// Writes, together with the other ranks. Collective, also for a rank that has an error.
    pub(super) fn put_together(
        &mut self,
        accesses: Result<Vec<Access<Outgoing<'_>>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let known = self.state.header.records;
        let needed = records(accesses.as_deref().unwrap_or_default()).max(known);
        let planned = accesses.and_then(|accesses| Ok((Plan::new(&accesses)?, accesses)));
        let [rounds, tiled, crossing, may_miss] =
            planned.as_ref().map_or([0; 4], |(plan, _)| plan.figures);
        let ((mut plan, accesses), [needed, rounds, tiled, crossing, may_miss]) =
            self.state.agree_with(planned, [needed, rounds, tiled, crossing, may_miss])?;
        self.make_records(needed)?;
        plan.figures = [rounds, tiled, crossing, may_miss];
        self.write(&accesses, How::Together, &plan)?;
        self.state.header.records = needed;
        // All data is there: the header may say so.
        self.state.state_records()?;
        let flags = accesses.iter().map(|access| (access.variable, access.memory.all_in_range()));
        let missed = self.misses(flags);
        if may_miss > 0 { self.state.agree(missed) } else { missed }
    }

    /// Reads, together with the other ranks. Collective, also for a rank that has an error.
    pub(super) fn get_together(
        &mut self,
        accesses: Result<Vec<Access<Incoming<'_>>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let planned = accesses.and_then(|accesses| Ok((Plan::new(&accesses)?, accesses)));
        let figures = planned.as_ref().map_or([0; 4], |(plan, _)| plan.figures);
        let ((mut plan, mut accesses), figures) = self.state.agree_with(planned, figures)?;
        plan.figures = figures;
        let [.., may_miss] = figures;
        self.read(&mut accesses, How::Together, &plan)?;
        let flags = accesses.iter().map(|access| (access.variable, access.memory.all_in_range()));
        let missed = self.misses(flags);
        if may_miss > 0 { self.state.agree(missed) } else { missed }
    }

    /// Writes one access together with the other ranks, where no records can come of it: the file room's
    /// own meeting is enough to agree. Collective, also for a rank that has an error.
    pub(super) fn put_one_together(
        &mut self,
        access: Result<Access<Outgoing<'_>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let (place, note) = match &access {
            Ok(one) => (Ok((&one.place, Memory::gathered(&one.memory))), u8::from(one.may_miss)),
            Err(error) => (Err(FileError::Caller(error.to_string())), 0),
        };
        let done = self.state.file.write_noted(place, note);
        let (access, _, may_miss) = ended(access, done)?;
        let missed = self.misses([(access.variable, access.memory.all_in_range())].into_iter());
        if may_miss { self.state.agree(missed) } else { missed }
    }

    /// Reads one access together with the other ranks. Collective, also for a rank that has an error.
    pub(super) fn get_one_together(
        &mut self,
        mut access: Result<Access<Incoming<'_>>, ArrayError>,
    ) -> Result<(), ArrayError> {
        let (place, note) = match &mut access {
            Ok(one) => {
                let memory = MemoryMut::scattered(&mut one.memory);
                (Ok((&one.place, memory)), u8::from(one.may_miss))
            }
            Err(error) => (Err(FileError::Caller(error.to_string())), 0),
        };
        let done = self.state.file.read_noted(place, note);
        let (mut access, got, may_miss) = ended(access, done)?;
        // What lies beyond the end of the file reads as zeros.
        let whole = if got < access.place.len { access.memory.scatter_zeros(got) } else { Ok(()) };
        let missed = self.misses([(access.variable, access.memory.all_in_range())].into_iter());
        let missed = whole.map_err(ArrayError::from).and(missed);
        if may_miss { self.state.agree(missed) } else { missed }
    }

    /// The error of a value that did not fit.
    fn misses(&self, mut flags: impl Iterator<Item = (usize, bool)>) -> Result<(), ArrayError> {
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

/// How a call of one access ended: the access, the bytes, and whether a value of any rank may not have fit.
fn ended<M>(
    access: Result<Access<M>, ArrayError>,
    done: Result<(u64, u8), FileError>,
) -> Result<(Access<M>, u64, bool), ArrayError> {
    match (access, done) {
        (Ok(access), Ok((bytes, note))) => Ok((access, bytes, note > 0)),
        (Ok(_), Err(FileError::Rank { rank, reason })) => Err(ArrayError::Rank { rank, reason }),
        (Ok(_), Err(error)) => Err(error.into()),
        // What went wrong here is known better here.
        (Err(own), _) => Err(own),
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
