//! Processes over time: a lane for each, with a strip for each kind of calls, and one above them
//! for MPI-IO calls.

use std::fmt::Write as _;

use super::axis::{labels, time_ticks};
use super::html::{TableCell, escaped, folded, key, number, table, word};
use crate::formatting::{part, percent, time};
use crate::model::{Class, Lane, Model};

/// Steps of height.
const STEPS: u64 = 8;
/// Parts of the time in the table: more would not be read.
const PARTS: usize = 10;
/// Digits for levels, as the script reads them.
const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+-";

/// A level from 0 to 63 as a character.
pub(super) fn digit(level: u64) -> char {
    DIGITS[level.min(63) as usize].into()
}

/// The contents of a strip.
#[derive(Clone, Copy)]
enum Strip {
    MpiIo,
    Calls(Class),
}

impl Strip {
    const fn name(self) -> &'static str {
        match self {
            Self::MpiIo => "mpi-io",
            Self::Calls(class) => class.name(),
        }
    }

    fn of(self, lane: &Lane) -> &[u64] {
        match self {
            Self::MpiIo => &lane.mpi_io,
            Self::Calls(class) => lane.of(class),
        }
    }
}

/// The section.
pub(super) fn section(model: &Model) -> String {
    let timeline = &model.timeline;
    let bins = timeline.lanes.first().map_or(0, |lane| lane.read.len());
    if bins == 0 {
        return String::new();
    }
    let is_used = |strip: &Strip| {
        timeline.lanes.iter().any(|lane| strip.of(lane).iter().any(|time| *time > 0))
    };
    let strips = std::iter::once(Strip::MpiIo).chain(Class::ALL.map(Strip::Calls));
    let used: Vec<Strip> = strips.filter(is_used).collect();
    let mut legend = String::from("<p class=\"legend\">In each lane from the top:");
    for strip in &used {
        legend.push_str(&key(strip.name(), strip.name()));
    }
    legend.push_str(" The higher, the more of the time.</p>");
    let length = timeline.bin_ns * bins as u64;
    let names: Vec<&str> = used.iter().map(|strip| strip.name()).collect();
    let mut lanes = String::new();
    for lane in &timeline.lanes {
        let _ = write!(lanes, "{}", drawn(lane, &used, timeline.bin_ns, bins));
    }
    let content = format!(
        "{legend}<div class=\"lanes\" data-classes=\"{}\" data-bin=\"{}\">{lanes}<div class=\"acrosses\" aria-hidden=\"true\">{}</div></div>{}",
        names.join(" "),
        timeline.bin_ns,
        labels(&time_ticks(length), "left"),
        folded("Numbers of this chart", &numbers(model, bins))
    );
    let lead = format!("When processes were in calls, in steps of {}.", time(timeline.bin_ns));
    super::html::section("timeline", "Processes over time", &lead, &content)
}

/// The share of a bin that a lane spends in the calls of a strip, from 0 to 1.
fn busy(lane: &Lane, strip: Strip, bin: usize, bin_ns: u64) -> f64 {
    let time = strip.of(lane).get(bin).copied().unwrap_or(0);
    part(time, bin_ns * lane.processes.max(1)).min(1.0)
}

fn drawn(lane: &Lane, used: &[Strip], bin_ns: u64, bins: usize) -> String {
    let mut paths = String::new();
    let mut levels = Vec::new();
    let width = 1000.0 / bins as f64;
    for (place, strip) in used.iter().enumerate() {
        let bottom = (place + 1) * 10 - 1;
        let mut path = String::new();
        let height = |bin: usize| match busy(lane, *strip, bin, bin_ns) {
            0.0 => 0,
            share => ((share * STEPS as f64).ceil() as u64).max(1),
        };
        let mut bin = 0;
        while bin < bins {
            let (from, high) = (bin, height(bin));
            while bin < bins && height(bin) == high {
                bin += 1;
            }
            if high > 0 {
                let (x, w) = (from as f64 * width, (bin - from) as f64 * width);
                let _ = write!(path, "M{x:.1} {bottom}v-{high}h{w:.1}v{high}z");
            }
        }
        let _ = write!(paths, "<path class=\"{}\" d=\"{path}\"/>", strip.name());
        let level = |bin: usize| match busy(lane, *strip, bin, bin_ns) {
            0.0 => digit(0),
            share => digit(((share * 50.0).round() as u64).max(1)),
        };
        levels.push((0..bins).map(level).collect::<String>());
    }
    let (name, high) = (escaped(&lane.label), used.len() * 10);
    format!(
        "<div class=\"lane\"><span class=\"lane-name\" title=\"{name}\">{name}</span><div class=\"area\" style=\"--h:{}px\" data-name=\"{name}\" data-levels=\"{}\">\
         <svg viewBox=\"0 0 1000 {high}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"Time in calls of {name}\">\
         {paths}</svg></div></div>",
        used.len() * 11,
        levels.join(" "),
    )
}

fn numbers(model: &Model, bins: usize) -> String {
    let timeline = &model.timeline;
    let parts = bins.min(PARTS);
    let mut rows = Vec::new();
    for lane in &timeline.lanes {
        for n in 0..parts {
            let (from, until) = (n * bins / parts, (n + 1) * bins / parts);
            let span = timeline.bin_ns * (until - from) as u64 * lane.processes.max(1);
            let sums: Vec<u64> =
                Class::ALL.iter().map(|class| lane.of(*class)[from..until].iter().sum()).collect();
            if sums.iter().all(|time| *time == 0) {
                continue;
            }
            let mut cells = vec![
                TableCell::text(&lane.label),
                TableCell::text(format!(
                    "{} to {}",
                    time(from as u64 * timeline.bin_ns),
                    time(until as u64 * timeline.bin_ns)
                )),
            ];
            cells.extend(sums.iter().map(|sum| TableCell::text(percent(part(*sum, span)))));
            rows.push(cells);
        }
    }
    let columns = [
        word("process"),
        word("time"),
        number("read"),
        number("write"),
        number("sync"),
        number("metadata"),
    ];
    table("Part of the time in calls, by process", &columns, rows, false)
}
