//! The rule about one file that many processes write.

use super::{Case, Finding, Severity, of_time};
use crate::formatting::{counted, grouped, part, percent, size, time};

/// Processes that write one file.
const WRITERS: u64 = 4;
/// Writes to it.
const MANY: u64 = 100;

/// Many processes write pieces of one file in turn.
pub(super) fn one_file(case: &Case<'_>) -> Option<Finding> {
    let in_question = case.evidence.files.iter().filter(|(_, stats)| {
        stats.writers.count() >= WRITERS
            && stats.shared_writes >= MANY
            // A tenth of the writes go to a stripe that another process wrote last.
            && stats.handovers * 10 >= stats.shared_writes
    });
    let (path, stats) = in_question.max_by_key(|(path, stats)| (stats.shared_ns, *path))?;
    let share = case.worth(stats.shared_ns)?;
    let mean = stats.sums.bytes_written / stats.sums.calls.write.max(1);
    Some(Finding {
        rule: "shared-file".into(),
        title: "Many processes write one file in turn".into(),
        severity: Severity::Low,
        figure: format!(
            "{} of {} writes follow one of another process",
            percent(part(stats.handovers, stats.shared_writes)),
            grouped(stats.shared_writes)
        ),
        threshold: format!("{WRITERS} processes, {MANY} writes, a tenth of them to a stripe of 1 MiB that another process wrote last, and {} of the time in calls", percent(super::WORTH)),
        sentence: format!(
            "{} write pieces of {} on average into one file, close to each other. Servers that lock stripes hand \
             the locks around. These writes take {}, {}.",
            counted(stats.writers.count(), "process", "processes"),
            size(mean),
            time(stats.shared_ns),
            of_time(share)
        ),
        help: "Write together: collective calls of MPI-IO or of Striate (two-phase) let a few processes write large \
               pieces. Or give each group of processes a file: partitions of a dataset ('striate nc split', \
               docs/arrays.md), or a file per process."
            .into(),
        stack: None,
        estimate: None,
        files: vec![path.to_string_lossy().into_owned()],
        share,
        measured: None,
    })
}
