//! Creating a partitioned dataset.

use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_comm::{Comm, alone};
use striate_file::{File, Hints, Mode, StorageTarget};

use super::groups::Groups;
use super::headers::{self, Home, PartTies, Size, Ties};
use super::names::{file_name, listed, part_name, resolved, unpublished};
use super::placing::{Candidates, Placing};
use super::scheme::Scheme;
use super::{Part, Parted, PartitionStats, ownership, publish};
use crate::format::{Alignment, Format, Header};
use crate::state::{Derived, State, agree_on};
use crate::{ArrayError, Dataset, Definition, Options};

/// What became of a definition.
#[derive(Debug)]
pub(crate) enum Created {
    Parted(Box<Dataset>),
    /// There was nothing to divide.
    Plain(Box<State>),
}

/// Begins a dataset that may be partitioned: under another name until it is finished. Collective.
pub(crate) fn begin(
    comm: &Arc<dyn Comm>,
    name: PathBuf,
    format: Format,
    options: &Options,
) -> Result<Definition, ArrayError> {
    let path = unpublished(&name);
    let ready = if comm.rank() == 0 { make_way(&name, &path, options.exclusive) } else { Ok(()) };
    agree_on(comm.as_ref(), ready)?;
    let mode = Mode::CREATE | Mode::READ | Mode::WRITE;
    let file = File::open(comm, &path, mode, &options.hints)?;
    let mut state = State::new(file, path, Header::new(format), options, true)?;
    state.publish = Some(name);
    Ok(Definition::new(state, None, options.clone(), None))
}

/// Removes what a writer has left that was killed. One rank calls it.
fn make_way(name: &Path, unpublished: &Path, exclusive: bool) -> Result<(), ArrayError> {
    if exclusive && File::exists(name)? {
        return Err(ArrayError::Exists { what: "file", name: name.display().to_string() });
    }
    publish::remove_unpublished(unpublished)
}

/// 32 hexadecimal digits.
fn draw_id() -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mixed = (std::process::id(), now.unwrap_or_default());
    // Each has random keys of its own.
    let half = || RandomState::new().hash_one(mixed);
    format!("{:016x}{:016x}", half(), half())
}

/// Makes text of rank 0 known to all. Collective.
pub(super) fn from_first(
    comm: &dyn Comm,
    text: impl FnOnce() -> Result<String, ArrayError>,
) -> Result<String, ArrayError> {
    let text = if comm.rank() == 0 { text() } else { Ok(String::new()) };
    let mut bytes = agree_on(comm, text)?.into_bytes();
    comm.broadcast(0, &mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Ends the definition of a dataset that is not published: divides its variables, if there is something
/// to divide. Collective.
pub(crate) fn create(state: State, options: &Options) -> Result<Created, ArrayError> {
    match plan(&state, options) {
        Ok(Some(planned)) => {
            lay_out(state, options, planned).map(|data| Created::Parted(data.into()))
        }
        Ok(None) => Ok(Created::Plain(state.into())),
        Err(error) => {
            // It is everyone's. Nothing was begun but an empty file.
            let State { comm, file, path, .. } = state;
            let _ = file.close();
            if comm.rank() == 0 {
                let _ = File::delete(&path);
            }
            Err(error)
        }
    }
}

/// What is to be made.
struct Planned {
    scheme: Scheme,
    ties: Ties,
    name: PathBuf,
    /// What the master's file is known by.
    birth: Option<String>,
    targets: Vec<StorageTarget>,
}

/// Divides the variables, and names the files. Collective.
fn plan(state: &State, options: &Options) -> Result<Option<Planned>, ArrayError> {
    let comm = Arc::clone(&state.comm);
    let name = state.publish.clone().unwrap_or_else(|| state.path.clone());
    let candidates = Candidates::of_first(comm.as_ref(), &name, options)?;
    let asked = &options.partitioning;
    let scheme = |count: u64| {
        let scheme = Scheme::new(&state.header, asked, asked.count.unwrap_or(count));
        agree_on(comm.as_ref(), scheme)
    };
    // Nothing is measured for a dataset that is not divided.
    if scheme(candidates.most())?.is_none() {
        return Ok(None);
    }
    let Placing { targets, count, probe } = candidates.choose(&comm, options)?;
    let Some(scheme) = scheme(count)? else { return Ok(None) };
    let named = from_first(comm.as_ref(), || {
        let id = draw_id();
        // The file that is the master once it is published.
        let birth = ownership::birth(&state.path).unwrap_or_default();
        let mut lines = vec![birth, id.clone()];
        for k in 0..scheme.count {
            let target = &targets[k % targets.len().max(1)];
            lines.push(listed(&name, &target.path(&part_name(&name, k, &id)))?);
        }
        Ok(lines.join("\n"))
    })?;
    let mut lines = named.lines().map(str::to_owned);
    let birth = lines.next().filter(|birth| !birth.is_empty());
    let ties = Ties {
        id: lines.next().unwrap_or_default(),
        generation: 1,
        master: file_name(&name),
        files: lines.collect(),
        sizes: vec![[0, 0]; scheme.count],
        probe,
    };
    Ok(Some(Planned { scheme, ties, name, birth, targets }))
}

/// Makes the files of a new dataset. Collective.
fn lay_out(mut state: State, options: &Options, planned: Planned) -> Result<Dataset, ArrayError> {
    let Planned { scheme, ties, name, birth, targets } = planned;
    let comm = Arc::clone(&state.comm);
    let groups = Groups { ranks: comm.size(), partitions: scheme.count };
    let group = group_of(comm.as_ref(), groups)?;
    let files: Vec<PathBuf> = ties.files.iter().map(|file| resolved(&name, file)).collect();
    let home = |file: &PathBuf| {
        Some(Home { master: ownership::home_of(&name, file), file: birth.clone() })
    };
    let mut parted = Parted {
        logical: state.header.clone(),
        master: state.header.clone(),
        homes: files.iter().map(home).collect(),
        stale_coordinates: true,
        files,
        filled: state.filled.clone(),
        scheme,
        ties,
        foreign: false,
        derived: Derived::default(),
        indices: Vec::new(),
        rank: comm.rank(),
        groups,
        group,
        parts: Vec::new(),
        opened: std::collections::BTreeMap::new(),
        infos: Vec::new(),
        costs: PartitionStats::default(),
    };
    // The master lists the partitions before there are any: whoever finds it can remove them.
    let made = parted
        .arrange_master(&mut state, None)
        .and_then(|()| state.on_first(State::write_header))
        .and_then(|()| {
            let hints = state.file.hints().clone();
            let made = parted.make_parts(options, &hints, &targets);
            state.agree(made)
        })
        .and_then(|()| parted.learn_sizes(comm.as_ref()))
        .and_then(|()| parted.arrange_master(&mut state, None))
        .and_then(|()| state.lay_down(None));
    if let Err(error) = made {
        // The error is everyone's. Nothing is left of what was begun, as far as that is possible.
        let path = state.path.clone();
        let closed = state.file.close().map_err(ArrayError::from);
        let _ = parted.give_up(comm.as_ref(), closed, Some(&path));
        return Err(error);
    }
    parted.see_master(&state.header);
    parted.derive();
    Ok(Dataset::with(state, options.clone(), Some(Box::new(parted))))
}

/// The ranks of this rank's group, if they are several. Collective.
pub(super) fn group_of(
    comm: &dyn Comm,
    groups: Groups,
) -> Result<Option<Arc<dyn Comm>>, ArrayError> {
    if groups.are_single() {
        return Ok(None);
    }
    let rank = comm.rank();
    Ok(comm.split(Some(groups.of_rank(rank) as u64), rank as u64)?)
}

impl Parted {
    /// The ranks that a partition of this rank's group is opened by. Each rank that is a group has
    /// ranks of its own for each partition, since threads work on them at the same time.
    pub(super) fn comm_of_part(&self) -> Arc<dyn Comm> {
        self.group.as_ref().map_or_else(alone, Arc::clone)
    }

    /// The master that partition `k` names. Those that are open say so themselves: a copy of a master does
    /// not make itself the owner.
    fn home(&self, k: usize) -> Option<Home> {
        if let Some(home) = self.homes.get(k) {
            return home.clone();
        }
        let part = self.parts.iter().find(|part| part.index == k)?;
        headers::part_ties(&part.data.state.header)?.home
    }

    /// Gives the master's state the header that follows from the definitions. Collective.
    pub(super) fn arrange_master(
        &self,
        state: &mut State,
        before: Option<&Header>,
    ) -> Result<(), ArrayError> {
        let arranged =
            headers::master(&self.logical, &self.scheme, &self.ties).and_then(|mut it| {
                it.arrange(&state.alignment, before)?;
                Ok(it)
            });
        state.header = state.agree(arranged)?;
        self.mask_filled(state);
        Ok(())
    }

    /// What the program sees of variables in the master: also where they lie.
    pub(super) fn see_master(&mut self, master: &Header) {
        let each = self.logical.variables.iter_mut().zip(&master.variables);
        for ((variable, own), along) in each.zip(&self.scheme.variables) {
            (variable.begin, variable.stated_size) = match along {
                Some(_) => (0, 0),
                None => (own.begin, own.stated_size),
            };
        }
    }

    /// The header of a partition, arranged.
    pub(super) fn part_header(
        &self,
        k: usize,
        alignment: &Alignment,
        before: Option<&Header>,
    ) -> Result<Header, ArrayError> {
        let mut ties = PartTies {
            id: self.ties.id.clone(),
            generation: self.ties.generation,
            master: self.ties.master.clone(),
            index: k as u64,
            count: self.scheme.count as u64,
            size: [0, 0],
            home: self.home(k),
        };
        loop {
            let mut header = headers::part(&self.logical, &self.scheme, k, &ties)?;
            header.arrange(alignment, before)?;
            // Large numbers take more room, which only ever makes them larger.
            let size = headers::size_of(&header).unwrap_or(ties.size);
            if size == ties.size {
                return Ok(header);
            }
            ties.size = size;
        }
    }

    /// Makes the partitions of this rank's group. Collective in the group.
    fn make_parts(
        &mut self,
        options: &Options,
        hints: &Hints,
        targets: &[StorageTarget],
    ) -> Result<(), ArrayError> {
        let own = self.groups.partitions_of(self.groups.of_rank(self.rank));
        let mode = Mode::CREATE | Mode::EXCLUSIVE | Mode::READ | Mode::WRITE;
        for k in own {
            let path = self.files[k].clone();
            let hints = targets[k % targets.len().max(1)].hints(hints);
            let file = File::open(&self.comm_of_part(), &path, mode, &hints)?;
            let options = Options { hints, ..options.clone() };
            let empty = Header::new(self.logical.format);
            let state = State::new(file, path, empty, &options, true)?;
            self.parts.push(Part { index: k, data: Dataset::new(state, options) });
            let Some(Part { data, .. }) = self.parts.last() else { continue };
            let header = self.part_header(k, &data.state.alignment, None);
            let header = data.state.agree(header)?;
            let filled = self.filled_in(k);
            if let Some(Part { data, .. }) = self.parts.last_mut() {
                data.state.header = header;
                data.state.filled = filled;
                data.state.lay_down(None)?;
                data.state.derive();
            }
        }
        Ok(())
    }

    /// Makes the sizes of all partitions known to all ranks. Collective.
    pub(super) fn learn_sizes(&mut self, comm: &dyn Comm) -> Result<(), ArrayError> {
        let mut own = Vec::new();
        if self.is_first() {
            for part in &self.parts {
                let [end, record] = headers::size_of(&part.data.state.header).unwrap_or_default();
                own.extend([part.index as u64, end, record].iter().flat_map(|n| n.to_le_bytes()));
            }
        }
        let all = comm.allgather(&own)?.concat();
        let (words, _) = all.as_chunks::<8>();
        let words: Vec<u64> = words.iter().map(|&word| u64::from_le_bytes(word)).collect();
        for &[k, end, record] in words.as_chunks::<3>().0 {
            if let Some(size) = self.ties.sizes.get_mut(k as usize) {
                *size = Size::from([end, record]);
            }
        }
        Ok(())
    }
}
