//! Trace events: one complete event (`"ph": "X"`) for each call, in processes and threads that have
//! names. Calls of layers last longer than those that they cause in their thread, which are
//! therefore shown beneath them.
//!
//! Times are microseconds with three decimal places, so that nanoseconds stay exact. Numbers of
//! processes are those of the kernel, or indices in the recording where processes of several hosts
//! share a number.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use serde::Serialize;

use crate::filter::Filter;
use crate::recording::{Process, Recording};
use crate::row::Row;

/// What is said of a call besides its name and times.
#[derive(Serialize)]
struct Arguments<'r> {
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<i128>,
    #[serde(skip_serializing_if = "Option::is_none")]
    length: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<&'r str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    above: Option<&'r str>,
}

pub(super) fn write(
    recording: &Recording,
    filter: &Filter,
    into: &mut dyn Write,
) -> io::Result<()> {
    let numbers = numbers(recording);
    into.write_all(b"{\"displayTimeUnit\":\"ms\",\"traceEvents\":[")?;
    let mut first = true;
    for (index, process) in recording.processes().iter().enumerate() {
        if filter.takes_process(process) {
            let name = serde_json::to_string(&name(process))?;
            let pid = numbers[index];
            event(into, &mut first)?;
            write!(
                into,
                r#"{{"ph":"M","name":"process_name","pid":{pid},"args":{{"name":{name}}}}}"#
            )?;
            let order = process.header().origin.rank.map_or(index as u64, u64::from);
            event(into, &mut first)?;
            write!(
                into,
                r#"{{"ph":"M","name":"process_sort_index","pid":{pid},"args":{{"sort_index":{order}}}}}"#
            )?;
        }
    }
    let mut threads = BTreeSet::new();
    for (index, entry) in recording.nested(filter) {
        let process = &recording.processes()[index];
        let pid = numbers[index];
        let row = Row::of(process, &entry);
        let thread = row.thread;
        if threads.insert((pid, thread)) {
            let main = thread == process.header().origin.process;
            let name = if main { "main".to_owned() } else { format!("thread {thread}") };
            event(into, &mut first)?;
            write!(
                into,
                r#"{{"ph":"M","name":"thread_name","pid":{pid},"tid":{thread},"args":{{"name":"{name}"}}}}"#
            )?;
        }
        let arguments = Arguments {
            path: row.path.as_deref(),
            to: row.to.as_deref(),
            offset: row.offset,
            length: row.length,
            result: row.result,
            error: row.error.as_deref(),
            count: row.count,
            above: row.above,
        };
        event(into, &mut first)?;
        write!(
            into,
            r#"{{"ph":"X","name":"{}","cat":"{}","ts":{},"dur":{},"pid":{pid},"tid":{},"args":"#,
            row.function,
            row.kind,
            micro(row.start),
            micro(row.duration),
            row.thread,
        )?;
        serde_json::to_writer(&mut *into, &arguments)?;
        into.write_all(b"}")?;
    }
    into.write_all(b"\n]}\n")
}

/// Begins the next event.
fn event(into: &mut dyn Write, first: &mut bool) -> io::Result<()> {
    into.write_all(if std::mem::take(first) { b"\n" } else { b",\n" })
}

fn micro(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

/// The number that identifies each process.
fn numbers(recording: &Recording) -> Vec<u32> {
    let mut hosts: BTreeMap<u32, BTreeSet<&str>> = BTreeMap::new();
    for process in recording.processes() {
        let origin = &process.header().origin;
        hosts.entry(origin.process).or_default().insert(&origin.host);
    }
    let shared = hosts.values().any(|hosts| hosts.len() > 1);
    let number = |(index, process): (usize, &Process)| {
        if shared { index as u32 + 1 } else { process.header().origin.process }
    };
    recording.processes().iter().enumerate().map(number).collect()
}

fn name(process: &Process) -> String {
    let origin = &process.header().origin;
    let program =
        origin.command.first().map_or("?", |word| word.rsplit('/').next().unwrap_or(word));
    match origin.rank {
        Some(rank) => format!("rank {rank}: {program} on {}", origin.host),
        None => format!("{program} on {}", origin.host),
    }
}
