//! Rules about names, sizes and many files.

use super::{Case, Finding, STAGE_NS, Severity, of_time, stacks};
use crate::aggregate::Mark;
use crate::formatting::{counted, grouped, part, percent, size, time};

/// Fewer calls than these are not worth a word.
const MANY: u64 = 200;
/// Files that the stage combine writes out at a time.
const AT_A_TIME: f64 = 8.0;

/// Files that are made, written with a few bytes and closed.
pub(super) fn small_files(case: &Case<'_>) -> Option<Finding> {
    let small = case.evidence.indicators.small_files;
    if small.files < MANY {
        return None;
    }
    let share = case.worth(small.time_ns)?;
    let rest = small.time_ns as f64 / AT_A_TIME;
    let logged = small.write_ns as f64 + small.files as f64 * 2.0 * STAGE_NS;
    Some(Finding {
        rule: "small-files".into(),
        title: "Many small files".into(),
        severity: Severity::Low,
        figure: format!("{} of {} on average", counted(small.files, "file", "files"), size(small.bytes / small.files)),
        threshold: format!("{MANY} files up to 64 KiB that are made, written and closed, and {} of the time in calls", percent(super::WORTH)),
        sentence: format!(
            "{} are made, written with {} on average, and closed. Opens, writes and closes take {}, {}.",
            counted(small.files, "file", "files"),
            size(small.bytes / small.files),
            time(small.time_ns),
            of_time(share)
        ),
        help: "Put what belongs together into one file, or let the stage combine hold such files and write them out \
               many at a time."
            .into(),
        stack: Some(stacks::combine()),
        estimate: case.estimate(
            small.time_ns as f64 - rest - logged,
            "Each file costs one write to a log instead of an open, its writes and a close; all are written out 8 \
             at a time at the end, in an eighth of the time if storage can do that.",
        ),
        files: case.files(Mark::SmallFile),
        share,
        measured: None,
    })
}

/// Files that are opened again and again.
pub(super) fn repeated_opens(case: &Case<'_>) -> Option<Finding> {
    let again = case.evidence.indicators.repeated_opens;
    let all = case.model.totals.opens;
    if again.calls < MANY || again.calls * 2 < all {
        return None;
    }
    let share = case.worth(again.time_ns)?;
    Some(Finding {
        rule: "repeated-opens".into(),
        title: "The same files are opened again and again".into(),
        severity: Severity::Low,
        figure: format!("{} of {} opens", percent(part(again.calls, all)), grouped(all)),
        threshold: format!("half of the opens, {MANY} at least, and {} of the time in calls", percent(super::WORTH)),
        sentence: format!(
            "{} are of files that the same process had opened before and that had not changed. They take {}, {}.",
            counted(again.calls, "open", "opens"),
            time(again.time_ns),
            of_time(share)
        ),
        help: "Keep such files open, or keep what was read. On parallel file systems every open asks the metadata \
               server."
            .into(),
        stack: None,
        estimate: case.estimate(again.time_ns as f64, "The measured time of these opens, without that of their closes."),
        files: case.files(Mark::Opens),
        share,
        measured: None,
    })
}

/// Questions that were answered before.
pub(super) fn repeated_stats(case: &Case<'_>) -> Option<Finding> {
    let again = case.evidence.indicators.repeated_stats;
    let all = case.model.totals.stats;
    if again.calls < MANY || again.calls * 2 < all {
        return None;
    }
    let share = case.worth(again.time_ns)?;
    Some(Finding {
        rule: "repeated-stats".into(),
        title: "The same stats again and again".into(),
        severity: Severity::Low,
        figure: format!("{} of {} stats", percent(part(again.calls, all)), grouped(all)),
        threshold: format!(
            "half of the stats, {MANY} at least, and {} of the time in calls",
            percent(super::WORTH)
        ),
        sentence: format!(
            "{} repeat an earlier stat of the same process, on files that no recorded process had changed. They take {}, {}.",
            counted(again.calls, "stat", "stats"),
            time(again.time_ns),
            of_time(share)
        ),
        help:
            "Keep the result. On parallel file systems a size is computed from answers of several servers."
                .into(),
        stack: None,
        estimate: case.estimate(again.time_ns as f64, "The measured time of these calls."),
        files: case.files(Mark::Stats),
        share,
        measured: None,
    })
}

/// Names that are not there.
pub(super) fn missing(case: &Case<'_>) -> Option<Finding> {
    let missing = case.evidence.indicators.missing;
    let all = case.evidence.indicators.metadata;
    if missing.calls < MANY || missing.calls * 4 < all.calls {
        return None;
    }
    let share = case.worth(missing.time_ns)?;
    Some(Finding {
        rule: "missing-names".into(),
        title: "A search for files that do not exist".into(),
        severity: Severity::Low,
        figure: format!("{} of {} calls on names", percent(part(missing.calls, all.calls)), grouped(all.calls)),
        threshold: format!("a quarter of the calls on names, {MANY} at least, and {} of the time in calls", percent(super::WORTH)),
        sentence: format!(
            "{} are about names that do not exist. They take {}, {}.",
            counted(missing.calls, "call", "calls"),
            time(missing.time_ns),
            of_time(share)
        ),
        help: "Shorten search paths (of modules, libraries, plug-ins), or keep what is searched on a local disk.".into(),
        stack: None,
        estimate: case.estimate(missing.time_ns as f64, "The measured time of these calls."),
        files: case.files(Mark::Missing),
        share,
        measured: None,
    })
}

/// So many calls on names that the metadata server decides how fast it goes.
pub(super) fn storm(case: &Case<'_>) -> Option<Finding> {
    const STORM: u64 = 1000;
    let names = case.evidence.indicators.metadata;
    let all = case.model.totals.sums.calls.all();
    let share = case.worth(names.time_ns)?;
    if names.calls < STORM || names.calls * 2 < all || share < 0.3 {
        return None;
    }
    let rate = &case.model.rate;
    let most = rate.metadata.iter().copied().max().unwrap_or(0);
    let peak = most as f64 / (rate.bin_ns as f64 / 1e9);
    let files: Vec<String> = case.model.files.iter().take(3).map(|row| row.path.clone()).collect();
    let stack = stacks::fast_place(&files);
    Some(Finding {
        rule: "metadata-storm".into(),
        title: "More names than data".into(),
        severity: Severity::Low,
        figure: format!("{} of {} calls, {} a second at most", percent(part(names.calls, all)), grouped(all), grouped(peak as u64)),
        threshold: format!("{STORM} calls on names, half of all, and 30 % of the time in calls"),
        sentence: format!(
            "{} open, close, ask, rename or remove, on {}. They take {}, {}.",
            counted(names.calls, "call", "calls"),
            counted(case.model.totals.files, "file", "files"),
            time(names.time_ns),
            of_time(share)
        ),
        help: "Use fewer and larger files (netCDF or HDF5, an archive, a database), or let the files be created on \
               fast storage and moved when they are complete."
            .into(),
        stack,
        estimate: None,
        files,
        share,
        measured: None,
    })
}
