//! Counters as `darshan-parser` prints those of Darshan's POSIX module (version 4 of its records).
//!
//! There is a record for each rank and path: files that several ranks use are not reduced to rank
//! -1, so the counters of fastest and slowest ranks are 0. Processes without a rank are numbered
//! after the greatest rank in the order in which they began, from 0 on if no process has one.
//! Values that a recording does not contain are -1, Darshan's value for unknown.

mod counters;
mod frequent;

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};
use std::path::PathBuf;

use self::counters::Counters;
use crate::filter::{Filter, paths_of};
use crate::recording::Recording;

pub(super) fn write(
    recording: &Recording,
    filter: &Filter,
    into: &mut dyn Write,
) -> io::Result<()> {
    let ranks = ranks(recording);
    let mut files: Vec<HashMap<PathBuf, Counters>> = Vec::new();
    files.resize_with(recording.processes().len(), HashMap::new);
    let mut end = 0;
    for (index, record) in recording.filtered(filter) {
        end = end.max(record.start.saturating_add(record.duration));
        let [path, to] = paths_of(&record);
        for (path, second) in [(path, false), (to, true)] {
            let Some(path) = path else { continue };
            let files = &mut files[index];
            if !files.contains_key(path) {
                files.insert(path.to_path_buf(), Counters::default());
            }
            let Some(counters) = files.get_mut(path) else { continue };
            if second { counters.add_target(&record) } else { counters.add(&record) }
        }
    }
    head(recording, end, into)?;
    // A rank that ran several programs one after the other has one record of a path.
    let mut sums: BTreeMap<(i64, PathBuf), Counters> = BTreeMap::new();
    for (files, rank) in files.into_iter().zip(&ranks) {
        for (path, counters) in files {
            // Darshan has records of files that were opened.
            if counters.is_used() {
                let sum = sums.entry((*rank, path)).or_default();
                sum.merge(&counters);
            }
        }
    }
    for ((rank, path), counters) in sums {
        let name = path.to_string_lossy().replace(['\t', '\n'], "?");
        let id = identity(path.as_os_str().as_encoded_bytes());
        for (counter, value) in counters.integers() {
            writeln!(into, "POSIX\t{rank}\t{id}\t{counter}\t{value}\t{name}\tUNKNOWN\tUNKNOWN")?;
        }
        for (counter, value) in counters.times() {
            writeln!(into, "POSIX\t{rank}\t{id}\t{counter}\t{value:.6}\t{name}\tUNKNOWN\tUNKNOWN")?;
        }
    }
    Ok(())
}

fn head(recording: &Recording, end: u64, into: &mut dyn Write) -> io::Result<()> {
    let began = recording.began();
    let command = recording.processes().first().map(crate::Process::command).unwrap_or_default();
    let ranks: std::collections::BTreeSet<i64> = self::ranks(recording).into_iter().collect();
    writeln!(into, "# darshan log version: 3.41")?;
    writeln!(into, "# made by striate from a recording; times are seconds since its start")?;
    writeln!(into, "# exe: {}", command.replace('\n', " "))?;
    writeln!(into, "# start_time: {}", began / 1_000_000_000)?;
    writeln!(into, "# end_time: {}", began.saturating_add(end) / 1_000_000_000)?;
    writeln!(into, "# nprocs: {}", ranks.len())?;
    writeln!(into, "# run time: {:.4}", end as f64 / 1e9)?;
    writeln!(into, "\n# *******************************************************")?;
    writeln!(into, "# POSIX module data")?;
    writeln!(into, "# *******************************************************\n")?;
    writeln!(
        into,
        "# every rank has records of its own, also of files that others use (no rank -1)"
    )?;
    writeln!(into, "# a value of -1 is one that is not known\n")?;
    writeln!(
        into,
        "#<module>\t<rank>\t<record id>\t<counter>\t<value>\t<file name>\t<mount pt>\t<fs type>"
    )
}

/// The rank of each process.
fn ranks(recording: &Recording) -> Vec<i64> {
    let rank = |process: &crate::Process| process.header().origin.rank.map(i64::from);
    let greatest = recording.processes().iter().filter_map(rank).max();
    let mut next = greatest.map_or(0, |rank| rank + 1);
    let number = |process| {
        rank(process).unwrap_or_else(|| {
            next += 1;
            next - 1
        })
    };
    recording.processes().iter().map(number).collect()
}

/// A number that stands for a path (FNV-1a).
fn identity(path: &[u8]) -> u64 {
    path.iter().fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}
