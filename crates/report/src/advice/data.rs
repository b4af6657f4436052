//! Rules about reads and writes.

use super::{Case, Finding, STAGE_NS, Severity, of_time, stacks};
use crate::aggregate::{Mark, SmallTransfers};
use crate::formatting::{counted, grouped, part, percent, size, time};
use crate::model::{SizeRow, Transfers};

/// Fewer than these are not worth a word.
const MANY: u64 = 500;

/// Writes of a few bytes each.
pub(super) fn small_writes(case: &Case<'_>) -> Option<Finding> {
    let small = &case.evidence.indicators.small_writes;
    let transfers = small.transfers;
    // There has to be something to put together.
    if transfers.calls < MANY || small.requests * 4 > transfers.calls {
        return None;
    }
    let share = case.worth(transfers.time_ns)?;
    let mean = transfers.bytes / transfers.calls;
    let (saved, basis) = saved(small, large(case, |row| &row.writes), "write", "writes");
    Some(Finding {
        rule: "small-writes".into(),
        title: "Many small writes".into(),
        severity: Severity::Low,
        figure: format!(
            "{} of {} on average",
            counted(transfers.calls, "write", "writes"),
            size(mean)
        ),
        threshold: format!(
            "{MANY} writes below 64 KiB that lie close together, and {} of the time in calls",
            percent(super::WORTH)
        ),
        sentence: format!(
            "{} write less than 64 KiB each, {} in all. They take {}, {}.",
            counted(transfers.calls, "call", "calls"),
            size(transfers.bytes),
            time(transfers.time_ns),
            of_time(share)
        ),
        help: format!(
            "Write more at a time, or let write-back collect: {} of at most 1 MiB would be left.",
            counted(small.requests, "write", "writes")
        ),
        stack: Some(stacks::write_back()),
        estimate: case.estimate(saved, basis),
        files: case.files(Mark::SmallWrites),
        share,
        measured: None,
    })
}

/// Reads of a few bytes each that follow each other.
pub(super) fn small_reads(case: &Case<'_>) -> Option<Finding> {
    let small = &case.evidence.indicators.small_reads;
    let transfers = small.transfers;
    if transfers.calls < MANY || small.requests * 4 > transfers.calls {
        return None;
    }
    let share = case.worth(transfers.time_ns)?;
    let mean = transfers.bytes / transfers.calls;
    let (saved, basis) = saved(small, large(case, |row| &row.reads), "read", "reads");
    Some(Finding {
        rule: "small-reads".into(),
        title: "Many small reads, one after the other".into(),
        severity: Severity::Low,
        figure: format!(
            "{} of {} on average",
            counted(transfers.calls, "read", "reads"),
            size(mean)
        ),
        threshold: format!(
            "{MANY} reads below 64 KiB that follow each other, and {} of the time in calls",
            percent(super::WORTH)
        ),
        sentence: format!(
            "{} ask for less than 64 KiB each, at predictable offsets. They take {}, {}.",
            counted(transfers.calls, "read", "reads"),
            time(transfers.time_ns),
            of_time(share)
        ),
        help: format!(
            "Read more at a time, or let read-ahead do it: {} of at most 4 MiB would be left.",
            counted(small.requests, "read", "reads")
        ),
        stack: Some(stacks::read_ahead()),
        estimate: case.estimate(saved, basis),
        files: case.files(Mark::SmallReads),
        share,
        measured: None,
    })
}

/// Rates are only computed from at least this many large requests.
const LARGE: u64 = 16;
/// What is taken for the rate of large requests if there are too few of them, in bytes per second.
const USUAL_RATE: f64 = (1u64 << 30) as f64;

/// What is saved if only so many requests are left, and all others are answered from memory; and
/// how that was estimated. `large` are the requests of 64 KiB and more in the same direction.
fn saved(small: &SmallTransfers, large: Transfers, one: &str, many: &str) -> (f64, String) {
    let transfers = &small.transfers;
    let left = small.requests.min(transfers.calls);
    let gone = transfers.time_ns as f64 * (1.0 - part(left, transfers.calls));
    let answered = transfers.calls as f64 * STAGE_NS;
    let told = large.calls >= LARGE && large.time_ns > 0;
    let rate = if told { large.bytes as f64 / (large.time_ns as f64 / 1e9) } else { USUAL_RATE };
    let moved = transfers.bytes as f64 / rate * 1e9;
    let from = if told { "as large requests of this recording do" } else { "as is usual" };
    let basis = format!(
        "{} of the {} would not be made, at the {} that one takes on average. Their bytes still move, at {}/s, {from}, \
         and each costs 0.3 µs in the stage.",
        grouped(transfers.calls - left),
        counted(transfers.calls, one, many),
        time(transfers.time_ns / transfers.calls.max(1)),
        size(rate as u64),
    );
    (gone - answered - moved, basis)
}

/// Requests of 64 KiB and more in one direction.
fn large(case: &Case<'_>, direction: fn(&SizeRow) -> &Transfers) -> Transfers {
    let mut sum = Transfers::default();
    let rows = case.model.sizes.iter().filter(|row| row.from >= 64 << 10);
    rows.for_each(|row| sum.join(direction(row)));
    sum
}

/// Requests that follow nothing.
pub(super) fn random(case: &Case<'_>) -> Option<Finding> {
    let indicators = &case.evidence.indicators;
    let (reads, writes) = (indicators.random_reads, indicators.random_writes);
    let sums = &case.model.totals.sums;
    let random = reads.calls + writes.calls;
    let all = sums.calls.read + sums.calls.write;
    if random < MANY || random * 2 < all {
        return None;
    }
    let time_ns = reads.time_ns + writes.time_ns;
    let share = case.worth(time_ns)?;
    let reading = reads.time_ns >= writes.time_ns;
    // Scattered writes that write-back would collect are reported as small ones.
    if !reading && small_writes(case).is_some() {
        return None;
    }
    let mean = (reads.bytes + writes.bytes) / random;
    let help = if reading {
        "Sort the requests by offset, read whole parts of the file and pick what is wanted, or copy the file to a \
         local disk or into memory first."
    } else {
        "Sort the writes by offset or write larger pieces. Write-back collects those that fall into the same block."
    };
    Some(Finding {
        rule: "random-access".into(),
        title: "Requests at random offsets".into(),
        severity: Severity::Low,
        figure: format!("{} of {} requests", percent(part(random, all)), grouped(all)),
        threshold: format!(
            "half of the reads and writes, {MANY} at least, below 1 MiB and following no other, and {} of the time in calls",
            percent(super::WORTH)
        ),
        sentence: format!(
            "{} reads and writes of {} on average are neither sequential nor strided. They \
             take {}, {}.",
            grouped(random),
            size(mean),
            time(time_ns),
            of_time(share)
        ),
        help: help.into(),
        stack: (!reading).then(stacks::write_back),
        estimate: None,
        files: case.files(Mark::Random),
        share,
        measured: None,
    })
}

/// Large writes that begin in the middle of a page.
pub(super) fn unaligned(case: &Case<'_>) -> Option<Finding> {
    const SOME: u64 = 64;
    let indicators = &case.evidence.indicators;
    let (all, unaligned) = (indicators.large_writes, indicators.unaligned_writes);
    if unaligned.calls < SOME || unaligned.calls * 2 < all.calls {
        return None;
    }
    let share = case.worth(unaligned.time_ns)?;
    Some(Finding {
        rule: "unaligned-writes".into(),
        title: "Large writes that are not aligned".into(),
        severity: Severity::Low,
        figure: format!("{} of {}", percent(part(unaligned.calls, all.calls)), counted(all.calls, "large write", "large writes")),
        threshold: format!("half of the writes of 64 KiB and more, {SOME} at least, and {} of the time in calls", percent(super::WORTH)),
        sentence: format!(
            "{} of 64 KiB and more begin in the middle of a page of 4 KiB. Storage has to read, change and write \
             the page, and on servers that lock stripes, other writers wait. They take {}, {}.",
            counted(unaligned.calls, "write", "writes"),
            time(unaligned.time_ns),
            of_time(share)
        ),
        help: "Separate headers from data, or pad records to multiples of 4 KiB or of the stripe. Below write-back, \
               the stage align cuts what is left at stripes."
            .into(),
        stack: Some(stacks::aligned()),
        estimate: None,
        files: case.files(Mark::Unaligned),
        share,
        measured: None,
    })
}

/// Reads of what the same process wrote.
pub(super) fn read_back(case: &Case<'_>) -> Option<Finding> {
    const LEAST: u64 = 16 << 20;
    let back = case.evidence.indicators.read_back;
    let read = case.model.totals.sums.bytes_read;
    if back.bytes < LEAST || back.bytes * 2 < read {
        return None;
    }
    let share = case.worth(back.time_ns)?;
    let files = case.files(Mark::ReadBack);
    let marked = case.evidence.files.iter().filter(|(_, stats)| stats.marked(Mark::ReadBack) > 0);
    let (mut count, mut gone) = (0u64, 0u64);
    for (_, stats) in marked {
        count += 1;
        gone += u64::from(stats.unlinked);
    }
    let removed = match gone {
        0 => String::new(),
        gone if gone == count => " All of these files are removed afterwards.".into(),
        gone => format!(" {} of these files are removed afterwards.", grouped(gone)),
    };
    Some(Finding {
        rule: "read-after-write".into(),
        title: "What was written is read back".into(),
        severity: Severity::Low,
        figure: format!("{} of {} read", size(back.bytes), size(read)),
        threshold: format!("half of the bytes read, {} at least, and {} of the time in calls", size(LEAST), percent(super::WORTH)),
        sentence: format!(
            "{} that a process reads it has written itself before. These reads take {}, {}.{removed}",
            size(back.bytes),
            time(back.time_ns),
            of_time(share)
        ),
        help: "Keep it in memory if there is room, or create such files on fast storage: a local disk or memory."
            .into(),
        stack: stacks::fast_place(&files),
        estimate: None,
        files,
        share,
        measured: None,
    })
}
