//! Comparison of two recordings.

use std::collections::BTreeMap;

use super::significance::{durations, tested};
use super::{Change, Parts, Unit};
use crate::model::{FunctionRow, Model, Sums};

/// What is counted of sums.
type Count = fn(&Sums) -> u64;

/// Compares two recordings.
pub fn models(a: &Model, b: &Model) -> Parts {
    let mut parts = Parts::default();
    let sums = |model: &Model| model.totals.sums;
    let counts: [(&str, Unit, Count); 8] = [
        ("calls", Unit::Count, |sums| sums.calls.all()),
        ("failed calls", Unit::Count, |sums| sums.failed),
        ("reads", Unit::Count, |sums| sums.calls.read),
        ("writes", Unit::Count, |sums| sums.calls.write),
        ("syncs", Unit::Count, |sums| sums.calls.sync),
        ("metadata calls", Unit::Count, |sums| sums.calls.metadata),
        ("bytes read", Unit::Bytes, |sums| sums.bytes_read),
        ("bytes written", Unit::Bytes, |sums| sums.bytes_written),
    ];
    for (what, unit, of) in counts {
        parts.changes.push(Change::counted("all", what, unit, of(&sums(a)), of(&sums(b))));
    }
    let (files, opens) = ((a.totals.files, b.totals.files), (a.totals.opens, b.totals.opens));
    let files = if a.totals.files_exact && b.totals.files_exact {
        Change::counted("all", "files", Unit::Count, files.0, files.1)
    } else {
        Change::measured("all", "files", Unit::Count, files.0 as f64, files.1 as f64)
    };
    parts.changes.push(files);
    parts.changes.push(Change::counted("all", "opens", Unit::Count, opens.0, opens.1));
    let processes = (a.totals.processes, b.totals.processes);
    parts.changes.push(Change::counted("all", "processes", Unit::Count, processes.0, processes.1));
    let times = [
        ("length", a.recording.length_ns, b.recording.length_ns),
        ("time in calls", sums(a).time_ns.all(), sums(b).time_ns.all()),
    ];
    for (what, a, b) in times {
        parts.changes.push(Change::measured("all", what, Unit::Nanoseconds, a as f64, b as f64));
    }
    if let (Some(a), Some(b)) = (a.totals.peak, b.totals.peak) {
        for (what, a, b) in
            [("peak read rate", a.read, b.read), ("peak write rate", a.written, b.written)]
        {
            let (a, b) = (a as f64, b as f64);
            parts.changes.push(Change::measured("all", what, Unit::BytesPerSecond, a, b));
        }
    }
    darshan(a, b, &mut parts);
    functions(a, b, &mut parts);
    parts
}

/// The counters that the logs of two jobs both have.
fn darshan(a: &Model, b: &Model, parts: &mut Parts) {
    let (Some(a), Some(b)) = (&a.darshan, &b.darshan) else { return };
    for layer in &a.layers {
        let Some(other) = b.layer(&layer.layer) else { continue };
        for (name, value) in layer.counters.iter().filter(|(_, value)| **value >= 0) {
            let Some(second) = other.counters.get(name).filter(|value| **value >= 0) else {
                continue;
            };
            if *value == 0 && *second == 0 {
                continue;
            }
            let unit = if name.contains("BYTES") { Unit::Bytes } else { Unit::Count };
            let (first, second) = (value.cast_unsigned(), second.cast_unsigned());
            parts.changes.push(Change::counted(&layer.layer, name, unit, first, second));
        }
        let times = [
            ("time in reads", layer.read_ns, other.read_ns),
            ("time in writes", layer.write_ns, other.write_ns),
            ("time in metadata", layer.metadata_ns, other.metadata_ns),
        ];
        for (what, a, b) in times {
            let (a, b) = (a as f64, b as f64);
            parts.changes.push(Change::measured(&layer.layer, what, Unit::Nanoseconds, a, b));
        }
    }
    let missing = |one: &crate::darshan::DarshanLog, other: &crate::darshan::DarshanLog| {
        let layers = one.layers.iter().filter(|row| other.layer(&row.layer).is_none());
        layers.map(|row| format!("{} counters", row.layer)).collect::<Vec<_>>()
    };
    parts.only_a.extend(missing(a, b));
    parts.only_b.extend(missing(b, a));
}

fn functions(a: &Model, b: &Model, parts: &mut Parts) {
    let by_name = |model: &Model| -> BTreeMap<String, FunctionRow> {
        model.functions.iter().map(|row| (row.name.clone(), row.clone())).collect()
    };
    let (mut first, mut second) = (by_name(a), by_name(b));
    for FunctionRow { name, .. } in &a.functions {
        let (Some(a), Some(b)) = (first.get(name), second.get(name)) else { continue };
        parts.changes.push(Change::counted(name, "calls", Unit::Count, a.calls, b.calls));
        if a.failed + b.failed > 0 {
            parts.changes.push(Change::counted(name, "failed", Unit::Count, a.failed, b.failed));
        }
        if a.bytes + b.bytes > 0 {
            parts.changes.push(Change::counted(name, "bytes", Unit::Bytes, a.bytes, b.bytes));
        }
        let (total_a, total_b) = (a.time_ns as f64, b.time_ns as f64);
        parts.changes.push(Change::measured(name, "time", Unit::Nanoseconds, total_a, total_b));
        let median = |row: &FunctionRow| row.durations.median().unwrap_or(0.0);
        let change = Change::measured(
            name,
            "median time of a call",
            Unit::Nanoseconds,
            median(a),
            median(b),
        );
        parts.changes.push(tested(change, durations(&a.durations, &b.durations)));
    }
    let names: Vec<String> =
        first.keys().filter(|name| second.contains_key(*name)).cloned().collect();
    for name in names {
        first.remove(&name);
        second.remove(&name);
    }
    let told = |row: &FunctionRow| format!("{} ({} calls)", row.name, row.calls);
    parts.only_a.extend(first.values().map(told));
    parts.only_b.extend(second.values().map(told));
}
