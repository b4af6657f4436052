//! The recording in a few sentences, for all forms of a report.

use striate_darshan::Direction;

use crate::darshan::DarshanLog;
use crate::formatting::{counted, grouped, part, percent, rate, short, size, time};
use crate::model::{Class, Model};
use crate::mpi_io::MpiIo;

/// What to call the recording: the program that was started, whatever it started itself.
pub(crate) fn title(model: &Model) -> String {
    if let Some(log) = &model.darshan {
        return if log.command.is_empty() {
            format!("Job {}", log.job)
        } else {
            log.command.clone()
        };
    }
    let heaviest = model.processes.iter().max_by_key(|row| row.sums.time_ns.all());
    let heaviest = heaviest.map(|row| row.command.as_str()).unwrap_or_default();
    // Reports of older versions do not say what was started.
    let started = model.recording.command.as_str();
    let command = if started.is_empty() { heaviest } else { started };
    if command.is_empty() { "A recording".into() } else { command.to_owned() }
}

/// What ran, what was done, how long that took.
pub(crate) fn sentences(model: &Model) -> Vec<String> {
    let totals = &model.totals;
    let sums = &totals.sums;
    if let Some(log) = &model.darshan {
        return darshan(model, log);
    }
    if sums.calls.all() == 0 {
        let nothing = || "Nothing was recorded.".into();
        let calls = &model.mpi_io;
        return vec![if calls.is_empty() { nothing() } else { mpi_io(calls) }];
    }
    let mut processes = counted(totals.processes, "process", "processes");
    if totals.ranks > 0 {
        processes = format!("{processes} ({})", counted(totals.ranks, "MPI rank", "MPI ranks"));
    }
    let hosts = if totals.hosts > 1 {
        format!(" on {} hosts", grouped(totals.hosts))
    } else {
        String::new()
    };
    let about = if totals.files_exact { "" } else { "about " };
    let mut sentences = vec![format!(
        "{processes}{hosts} made {} on {about}{} within {}. {} read, {} written.",
        counted(sums.calls.all(), "call", "calls"),
        counted(totals.files, "file", "files"),
        time(model.recording.length_ns),
        match sums.bytes_read {
            0 => "Nothing was".into(),
            bytes => format!("{} were", size(bytes)),
        },
        match sums.bytes_written {
            0 => "nothing".into(),
            bytes => size(bytes),
        },
    )];
    let io = sums.time_ns.all();
    let heaviest = Class::ALL.into_iter().max_by_key(|class| sums.time_ns.of(*class));
    let heaviest = heaviest.map_or(String::new(), |class| {
        let what = match class {
            Class::Read => "reads",
            Class::Write => "writes",
            Class::Sync => "syncs",
            Class::Metadata => "metadata",
        };
        format!(", {} of it in {what}", percent(part(sums.time_ns.of(class), io)))
    });
    sentences.push(format!(
        "Calls took {}, {} of the time of the processes{heaviest}. In {} of the time at least one call was under \
         way, {} on average then.",
        time(io),
        percent(part(io, totals.process_time_ns)),
        percent(part(totals.busy_ns, model.recording.length_ns)),
        short(model.concurrency.mean)
    ));
    let moving = sums.time_ns.read + sums.time_ns.write;
    if moving > 0 && sums.bytes() > 0 {
        sentences.push(format!(
            "While a call moved bytes, it did so at {} on average.",
            rate(sums.bytes(), moving)
        ));
    }
    sentences.extend(peak(model));
    if !model.mpi_io.is_empty() {
        sentences.push(mpi_io(&model.mpi_io));
    }
    if sums.failed > 0 {
        sentences.push(format!("{} returned an error.", counted(sums.failed, "call", "calls")));
    }
    sentences
}

/// The highest rates, as `docs/traces.md` defines them.
fn peak(model: &Model) -> Option<String> {
    let peak = model.totals.peak.filter(|peak| peak.read > 0 || peak.written > 0)?;
    Some(format!(
        "In windows of {}, at most {}/s were read and {}/s written.",
        time(peak.window_ns),
        size(peak.read),
        size(peak.written),
    ))
}

/// A job whose calls Darshan counted.
fn darshan(model: &Model, log: &DarshanLog) -> Vec<String> {
    let sums = &model.totals.sums;
    let exact = model.totals.files_exact || model.totals.files == 0;
    let about = if exact { "" } else { "more than " };
    let mut sentences = vec![format!(
        "Job {} ran {} for {}. They made {} on {about}{}: {} read, {} written.",
        log.job,
        counted(log.ranks, "rank", "ranks"),
        time(log.run_ns),
        counted(sums.calls.all(), "call", "calls"),
        counted(model.totals.files, "file", "files"),
        size(sums.bytes_read),
        size(sums.bytes_written),
    )];
    let times = &sums.time_ns;
    sentences.push(format!(
        "All ranks together were {} in reads, {} in writes and {} in metadata: {} of their time.",
        time(times.read),
        time(times.write),
        time(times.metadata),
        percent(part(times.all(), model.totals.process_time_ns)),
    ));
    sentences.extend(peak(model));
    if let Some(layer) = log.layer("MPI-IO") {
        let together = ["COLL_READS", "COLL_WRITES", "SPLIT_READS", "SPLIT_WRITES"];
        let together: u64 =
            together.iter().map(|name| layer.counter(&format!("MPIIO_{name}"))).sum();
        let all =
            layer.transfers(Direction::Read).saturating_add(layer.transfers(Direction::Write));
        sentences.push(format!(
            "{} ({} collective, {} independent) moved {} at the MPI-IO layer.",
            counted(all, "read and write", "reads and writes"),
            grouped(together),
            grouped(all.saturating_sub(together)),
            size(layer.bytes(Direction::Read).saturating_add(layer.bytes(Direction::Write))),
        ));
    }
    sentences
}

/// Which parts of a report about a Darshan log come from where.
pub(crate) fn darshan_source(log: &DarshanLog) -> String {
    if log.traced == 0 {
        return "All numbers are Darshan's counters. The log has no single reads and writes (DXT): a time line, offsets \
                and advice need those. DXT_ENABLE_IO_TRACE=1 in the job's environment turns them on."
            .into();
    }
    format!(
        "Totals and files are Darshan's counters. Time lines, rates, offsets, sizes of requests, functions and advice come from \
         {} that its extended traces (DXT) recorded.",
        counted(log.traced, "read and write", "reads and writes")
    )
}

/// The MPI-IO calls, and the sums of the calls beneath them.
fn mpi_io(calls: &MpiIo) -> String {
    let all = calls.all();
    format!(
        "{} ({} collective, {} independent) moved {} and took {}: {} beneath them took {} and moved {}.",
        counted(all.calls, "MPI-IO call", "MPI-IO calls"),
        grouped(calls.collective.calls),
        grouped(calls.independent.calls),
        size(all.bytes()),
        time(all.time_ns),
        counted(all.beneath.calls.all(), "call", "calls"),
        time(all.beneath.time_ns.all()),
        size(all.beneath.bytes()),
    )
}

/// What is said before the advice.
pub fn verdict(model: &Model) -> String {
    if is_without_calls(model) {
        return "No advice: it needs single calls, and this log has counters only.".into();
    }
    let first = match model.findings.len() {
        0 => "Nothing stands out.".into(),
        1 => "One thing stands out.".into(),
        n => format!("{n} things stand out, the most important first."),
    };
    match model.findings.iter().filter(|finding| finding.is_refuted()).count() {
        0 => first,
        1 => {
            format!("{first} The stack of one was tried and makes it slower: that one comes last.")
        }
        n => format!("{first} The stacks of {n} were tried and make it slower: those come last."),
    }
}

/// Whether nothing is known of single calls, which advice is made from.
pub(crate) fn is_without_calls(model: &Model) -> bool {
    model.darshan.as_ref().is_some_and(|log| log.traced == 0)
}
