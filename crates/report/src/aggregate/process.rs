//! Processes: their rows, and lanes of the timeline that they share if there are many.

use striate_recording::{Process, Recording};

use super::Options;
use super::time_bins::spread;
use crate::model::{Class, Lane, ProcessRow, Rest, Sums, Timeline};

/// What is gathered by process.
#[derive(Debug)]
pub(crate) struct Processes {
    rows: Vec<ProcessRow>,
    /// The lane of each.
    lane_of: Vec<usize>,
    bin_ns: u64,
    lanes: Vec<Lane>,
}

impl Processes {
    pub(crate) fn new(recording: &Recording, options: &Options, bin_ns: u64, bins: usize) -> Self {
        let rows: Vec<ProcessRow> = recording.processes().iter().map(row).collect();
        // Lanes are in the order of the table. Processes without calls have none.
        let mut order: Vec<usize> = (0..rows.len()).collect();
        let calls = |process: &Process| process.records() + process.layer_calls();
        order.retain(|place| calls(&recording.processes()[*place]) > 0);
        order.sort_by_key(|place| rank_first(&rows[*place]));
        let records = |place: &usize| calls(&recording.processes()[*place]);
        let members = shared_lanes(&order, options.lanes.max(2), records);
        let mut lanes = vec![Lane::default(); members.len()];
        let mut lane_of = vec![0; rows.len()];
        for (lane, members) in members.iter().enumerate() {
            for place in members {
                lane_of[*place] = lane;
            }
        }
        for (lane, members) in lanes.iter_mut().zip(&members) {
            lane.processes = members.len() as u64;
            lane.label = label(members, &rows);
            for class in Class::ALL {
                *lane.of_mut(class) = vec![0; bins];
            }
            let has_layers = |place: &usize| recording.processes()[*place].layer_calls() > 0;
            lane.mpi_io = vec![0; if members.iter().any(has_layers) { bins } else { 0 }];
        }
        Self { rows, lane_of, bin_ns, lanes }
    }

    pub(crate) fn add(&mut self, process: usize, class: Class, start: u64, sums: &Sums) {
        if let Some(row) = self.rows.get_mut(process) {
            row.sums.add(sums);
        }
        let Some(lane) = self.lanes.get_mut(self.lane_of[process]) else { return };
        let bins = lane.of_mut(class);
        spread(self.bin_ns, bins.len(), start, sums.time_ns.all(), |place, time| {
            bins[place] += time;
        });
    }

    /// An MPI-IO call: time in which others are made, so it does not count as one of them.
    pub(crate) fn add_layer(&mut self, process: usize, start: u64, duration: u64) {
        let Some(lane) = self.lanes.get_mut(self.lane_of[process]) else { return };
        let bins = &mut lane.mpi_io;
        spread(self.bin_ns, bins.len(), start, duration, |place, time| bins[place] += time);
    }

    /// The table, what is not in it, and the timeline.
    pub(crate) fn finish(mut self, most: usize) -> (Vec<ProcessRow>, Rest, Timeline) {
        let mut rest = Rest::default();
        if self.rows.len() > most {
            self.rows.sort_by_key(|row| std::cmp::Reverse(row.sums.time_ns.all()));
            for row in self.rows.drain(most..) {
                rest.count += 1;
                rest.sums.add(&row.sums);
            }
        }
        self.rows.sort_by_key(rank_first);
        (self.rows, rest, Timeline { bin_ns: self.bin_ns, lanes: self.lanes })
    }
}

/// The command line of the program that was started: of the first process whose parent was not
/// recorded. One that became another program without a new process (`env`, `nice`) is called by the
/// last.
pub(crate) fn started(recording: &Recording) -> String {
    let identity = |process: &Process| {
        let origin = &process.header().origin;
        (origin.host.clone(), origin.process)
    };
    let all: std::collections::HashSet<_> = recording.processes().iter().map(identity).collect();
    let is_first = |process: &&Process| {
        let origin = &process.header().origin;
        !all.contains(&(origin.host.clone(), origin.parent)) && !origin.command.is_empty()
    };
    let Some(first) = recording.processes().iter().find(is_first) else { return String::new() };
    let same = |process: &&Process| {
        identity(process) == identity(first) && !process.header().origin.command.is_empty()
    };
    let last = recording.processes().iter().rev().find(same);
    shortened(&last.unwrap_or(first).command())
}

/// Ranks in their order, then others as they began.
fn rank_first(row: &ProcessRow) -> (u32, u64, u32) {
    (row.rank.unwrap_or(u32::MAX), row.from_ns, row.process)
}

fn row(process: &Process) -> ProcessRow {
    let origin = &process.header().origin;
    let (from_ns, until_ns) = process.span().unwrap_or((process.began(), process.began()));
    ProcessRow {
        process: origin.process,
        parent: origin.parent,
        rank: origin.rank,
        host: origin.host.clone(),
        command: shortened(&process.command()),
        from_ns,
        until_ns,
        sums: Sums::default(),
    }
}

/// Command lines can be long; their beginning identifies the program.
fn shortened(command: &str) -> String {
    const MOST: usize = 160;
    let mut text: String = command.chars().take(MOST).collect();
    if text.len() < command.len() {
        text.push('…');
    }
    text
}

/// Which processes share a lane. If a few make most of the calls, they have one each, and all
/// others one together; otherwise those that follow each other share lanes.
fn shared_lanes(order: &[usize], most: usize, records: impl Fn(&usize) -> u64) -> Vec<Vec<usize>> {
    if order.len() <= most {
        return order.iter().map(|place| vec![*place]).collect();
    }
    let mut heaviest = order.to_vec();
    heaviest.sort_by_key(|place| std::cmp::Reverse(records(place)));
    let all: u64 = order.iter().map(&records).sum();
    let mut few: Vec<usize> = Vec::new();
    let mut covered = 0;
    for place in heaviest.iter().take(most - 1) {
        // Those that hardly do anything need no lane of their own.
        if covered * 20 >= all * 19 {
            break;
        }
        covered += records(place);
        few.push(*place);
    }
    if covered * 5 >= all * 4 {
        let (own, others): (Vec<usize>, Vec<usize>) =
            order.iter().partition(|place| few.contains(place));
        return own.into_iter().map(|place| vec![place]).chain([others]).collect();
    }
    let mut lanes = vec![Vec::new(); most];
    for (n, place) in order.iter().enumerate() {
        lanes[n * most / order.len()].push(*place);
    }
    lanes
}

fn label(members: &[usize], rows: &[ProcessRow]) -> String {
    let (Some(first), Some(last)) = (members.first(), members.last()) else { return String::new() };
    let (first, last) = (&rows[*first], &rows[*last]);
    let name = |row: &ProcessRow| {
        if let Some(rank) = row.rank {
            return format!("rank {rank}");
        }
        let program = row.command.split(' ').next().unwrap_or_default();
        let program = program.rsplit('/').next().unwrap_or_default();
        format!("{program} {}", row.process).trim().to_owned()
    };
    match (first.rank, last.rank) {
        _ if members.len() == 1 => name(first),
        (Some(a), Some(b)) if a != b && (b - a) as usize + 1 == members.len() => {
            format!("rank {a} – {b}")
        }
        _ => format!("{} others", members.len()),
    }
}

/// Processes that do the same work side by side: ranks, or others with the same program.
pub(crate) fn is_rank_like(rows: &[ProcessRow]) -> Vec<&ProcessRow> {
    let ranks: Vec<&ProcessRow> =
        rows.iter().filter(|row| row.rank.is_some() && row.sums.calls.all() > 0).collect();
    // What a rank starts (shells, tools) has its rank too: of each rank the one with most time is
    // meant.
    let mut best: std::collections::BTreeMap<u32, &ProcessRow> = std::collections::BTreeMap::new();
    for row in ranks {
        let Some(rank) = row.rank else { continue };
        let known = best.entry(rank).or_insert(row);
        if row.sums.time_ns.all() > known.sums.time_ns.all() {
            *known = row;
        }
    }
    best.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_that_do_most_have_lanes_of_their_own() {
        let order: Vec<usize> = (0..100).collect();
        let few = shared_lanes(&order, 8, |place| if place % 50 == 7 { 1000 } else { 1 });
        assert_eq!(few[..2], [vec![7], vec![57]]);
        assert!(few.len() <= 8);
        assert_eq!(few.iter().map(Vec::len).sum::<usize>(), 100);
        let many = shared_lanes(&order, 8, |_| 10);
        assert_eq!((many.len(), many[0].clone()), (8, (0..13).collect()));
        assert_eq!(shared_lanes(&order[..5], 8, |_| 1).len(), 5);
    }
}
