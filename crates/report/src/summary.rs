//! The recording in a few sentences, for all forms of a report.

use crate::model::{Class, Model};
use crate::mpi_io::MpiIo;
use crate::words::{counted, grouped, part, percent, rate, short, size, time};

/// What to call the recording: the program that most of it is about.
pub(crate) fn title(model: &Model) -> String {
    let heaviest = model.processes.iter().max_by_key(|row| row.sums.time_ns.all());
    let command = heaviest.map(|row| row.command.as_str()).unwrap_or_default();
    if command.is_empty() { "A recording".into() } else { command.to_owned() }
}

/// Who ran, what was done, how long that took.
pub(crate) fn sentences(model: &Model) -> Vec<String> {
    let totals = &model.totals;
    let sums = &totals.sums;
    if sums.calls.all() == 0 {
        let nothing = || "Nothing was recorded.".into();
        let calls = &model.mpi_io;
        return vec![if calls.is_empty() { nothing() } else { mpi_io(calls) }];
    }
    let mut who = counted(totals.processes, "process", "processes");
    if totals.ranks > 0 {
        who = format!("{who} ({})", counted(totals.ranks, "MPI rank", "MPI ranks"));
    }
    let hosts = if totals.hosts > 1 {
        format!(" on {} hosts", grouped(totals.hosts))
    } else {
        String::new()
    };
    let about = if totals.files_exact { "" } else { "about " };
    let mut sentences = vec![format!(
        "{who}{hosts} made {} on {about}{} within {}. {} read, {} written.",
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
    if !model.mpi_io.is_empty() {
        sentences.push(mpi_io(&model.mpi_io));
    }
    if sums.failed > 0 {
        sentences.push(format!("{} returned an error.", counted(sums.failed, "call", "calls")));
    }
    sentences
}

/// The MPI-IO calls, and what they come to beneath.
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
pub(crate) fn verdict(model: &Model) -> String {
    match model.findings.len() {
        0 => "Nothing stands out.".into(),
        1 => "One thing stands out.".into(),
        n => format!("{n} things stand out, the most important first."),
    }
}
