//! The rule about data that is made durable too often.

use super::{Case, Finding, Severity, of_time};
use crate::aggregate::Mark;
use crate::formatting::{counted, grouped, part, percent, size, time};

/// Fewer syncs than these are not worth a word.
const MANY: u64 = 50;

/// A sync after every write.
pub(super) fn syncs(case: &Case<'_>) -> Option<Finding> {
    let indicators = &case.evidence.indicators;
    let durable = indicators.durable_writes;
    if durable.calls >= MANY
        && let Some(share) = case.worth(durable.time_ns)
    {
        return Some(Finding {
            rule: "sync-every-write".into(),
            title: "Every write waits until it is durable".into(),
            severity: Severity::Low,
            figure: counted(durable.calls, "write", "writes"),
            threshold: threshold(),
            sentence: format!(
                "Files are opened so that each write is durable when it returns (O_SYNC or O_DSYNC). {} of {} on \
                 average take {}, {}.",
                counted(durable.calls, "write", "writes"),
                size(durable.bytes / durable.calls),
                time(durable.time_ns),
                of_time(share)
            ),
            help: "Open without that flag and call fsync where durability is needed: for example after a checkpoint."
                .into(),
            stack: None,
            estimate: None,
            files: case.files(Mark::Syncs),
            share,
            measured: None,
        });
    }
    let (all, eager) = (indicators.syncs, indicators.eager_syncs);
    if eager.calls < MANY || eager.calls * 2 < all.calls {
        return None;
    }
    let share = case.worth(eager.time_ns)?;
    let files = indicators.synced_files.max(1);
    let each = all.time_ns as f64 / all.calls as f64;
    let saved = each * all.calls.saturating_sub(files) as f64;
    Some(Finding {
        rule: "sync-every-write".into(),
        title: "A sync after every write".into(),
        severity: Severity::Low,
        figure: format!("{} of {} syncs follow a single write", percent(part(eager.calls, all.calls)), grouped(all.calls)),
        threshold: threshold(),
        sentence: format!(
            "{} make a single write durable. They take {}, {}.",
            counted(eager.calls, "sync", "syncs"),
            time(eager.time_ns),
            of_time(share)
        ),
        help: "Sync once when a unit of data is complete: at the end of a checkpoint, or before a rename. No stage \
               omits syncs, since programs rely on them."
            .into(),
        stack: None,
        estimate: case.estimate(
            saved,
            format!(
                "One sync for each of the {} that have any, at the {} that one takes on average. More data at once \
                 may take longer.",
                counted(files, "open file", "open files"),
                time(each as u64)
            ),
        ),
        files: case.files(Mark::Syncs),
        share,
        measured: None,
    })
}

fn threshold() -> String {
    format!(
        "{MANY} syncs after a single write, half of all, and {} of the time in calls",
        percent(super::WORTH)
    )
}
