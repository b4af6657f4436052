//! Rules about work that is shared unevenly: over ranks, and over storage.

use super::{Case, Estimate, Finding, Severity, of_time};
use crate::aggregate::is_rank_like;
use crate::formatting::{counted, part, percent, short, size, time};

/// Some ranks do much more I/O than others.
pub(super) fn ranks(case: &Case<'_>) -> Option<Finding> {
    const LEAST: usize = 4;
    let rows = is_rank_like(&case.model.processes);
    if rows.len() < LEAST {
        return None;
    }
    let times: Vec<u64> = rows.iter().map(|row| row.sums.time_ns.all()).collect();
    let (sum, most) = (times.iter().sum::<u64>(), times.iter().copied().max()?);
    let mean = sum as f64 / rows.len() as f64;
    let slowest = rows.iter().max_by_key(|row| row.sums.time_ns.all())?;
    let waited = most as f64 - mean;
    // The others wait for the slowest: that matters if it is a part of the run.
    let of_run = waited / case.model.recording.length_ns.max(1) as f64;
    if (most as f64) < 1.5 * mean || of_run < super::WORTH {
        return None;
    }
    let rank = slowest.rank?;
    let bytes: u64 = rows.iter().map(|row| row.sums.bytes()).sum();
    let calls: u64 = rows.iter().map(|row| row.sums.calls.all()).sum();
    let its = (part(slowest.sums.calls.all(), calls), part(slowest.sums.bytes(), bytes));
    let what = format!(
        "It makes {} of all calls and moves {} of all bytes",
        percent(its.0),
        percent(its.1)
    );
    // More work explains it if it is at least half of what there is to explain.
    let more_work = its.0.max(its.1) * rows.len() as f64;
    let (what, help) = if more_work >= f64::midpoint(1.0, most as f64 / mean) {
        (
            format!("{what}."),
            "Let all ranks do their part: collective calls (two-phase) share the work among aggregators, and \
             partitions give each group of ranks a file of its own.",
        )
    } else {
        (
            format!("{what}, so its calls are slower than those of others."),
            "Check whether this rank's node or its storage targets are slow ('striate probe'), or whether it waits for \
             locks of shared files.",
        )
    };
    let share = (waited / case.model.recording.length_ns.max(1) as f64).min(1.0);
    Some(Finding {
        rule: "uneven-ranks".into(),
        title: "Ranks do uneven shares of the I/O".into(),
        severity: Severity::Low,
        figure: format!("{} × the mean", short(most as f64 / mean)),
        threshold: format!("{LEAST} ranks, 1.5 × the mean, and {} of the length of the recording", percent(super::WORTH)),
        sentence: format!(
            "Rank {rank} spends {} in calls, {} the average of {}. {what}",
            time(most),
            format_args!("{} ×", short(most as f64 / mean)),
            counted(rows.len() as u64, "rank", "ranks")
        ),
        help: help.into(),
        stack: None,
        estimate: Some(Estimate {
            saved_ns: waited as u64,
            share,
            basis: "If all ranks took as long as the mean, the run would be shorter by the difference to the slowest, \
                    as far as the others wait for it. The percentage is of the length of the recording."
                .into(),
        }),
        files: Vec::new(),
        share,
        measured: None,
    })
}

/// One of many similar files is much slower than the others.
pub(super) fn slow_file(case: &Case<'_>) -> Option<Finding> {
    const FILES: usize = 8;
    const LEAST: u64 = 1 << 20;
    let data_ns = |row: &crate::model::FileRow| row.sums.time_ns.read + row.sums.time_ns.write;
    let mut rates: Vec<(f64, &crate::model::FileRow)> = case
        .model
        .files
        .iter()
        .filter(|row| row.sums.bytes() >= LEAST && data_ns(row) > 0)
        .map(|row| (row.sums.bytes() as f64 / data_ns(row) as f64, row))
        .collect();
    if rates.len() < FILES {
        return None;
    }
    rates.sort_by(|a, b| a.0.total_cmp(&b.0));
    let median = rates[rates.len() / 2].0;
    let (slowest, row) = rates[0];
    let share = part(data_ns(row), case.io_ns);
    if slowest * 4.0 > median || share < 0.1 {
        return None;
    }
    let expected = row.sums.bytes() as f64 / median;
    let per_second = |rate: f64| format!("{}/s", size((rate * 1e9) as u64));
    Some(Finding {
        rule: "slow-file".into(),
        title: "One file is much slower than the others".into(),
        severity: Severity::Low,
        figure: format!("{} instead of {}", per_second(slowest), per_second(median)),
        threshold: format!("a quarter of the median rate of {FILES} files of {} or more, and 10 % of the time in calls", size(LEAST)),
        sentence: format!(
            "Bytes of this file move at {}, those of half of the others at {} or more. It takes {}, {}.",
            per_second(slowest),
            per_second(median),
            time(data_ns(row)),
            of_time(share)
        ),
        help: "A storage target may be slow. 'striate probe' measures all of them and says which to leave out; see \
               docs/targets.md."
            .into(),
        stack: None,
        estimate: case.estimate(
            data_ns(row) as f64 - expected,
            "Its bytes at the median rate of the other files.",
        ),
        files: vec![row.path.clone()],
        share,
        measured: None,
    })
}
