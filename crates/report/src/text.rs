//! A model as text for terminals, with tables and charts of characters.

mod darshan;
mod datasets;
mod layers;

use std::fmt::Write as _;

use crate::advice::Finding;
use crate::formatting::{
    counted, cut_path, grouped, moment, part, percent, rate, short, size, time,
};
use crate::model::{Class, Model};
use crate::summary;
use crate::table::{Side, Table};

/// How text is set.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Columns of the terminal.
    pub width: usize,
    /// Characters beyond ASCII may be used.
    pub unicode: bool,
    /// Headings and the like are set off with escape sequences.
    pub bold: bool,
}

impl Default for Style {
    fn default() -> Self {
        Self { width: 80, unicode: true, bold: false }
    }
}

/// The report as text.
pub fn render(model: &Model, style: &Style) -> String {
    let mut out = String::new();
    let title = plain(&summary::title(model));
    let _ = writeln!(out, "{}", style.heading(&cut_path(&title, style.width)));
    let _ = writeln!(out, "{}", moment(model.recording.began_ns));
    out.push('\n');
    for sentence in summary::sentences(model) {
        style.wrap(&mut out, "", &sentence);
    }
    for complaint in &model.recording.complaints {
        style.wrap(&mut out, "! ", &plain(complaint));
    }
    let _ = writeln!(out, "\n{}", style.heading(&summary::verdict(model)));
    for finding in &model.findings {
        style.finding(&mut out, finding);
    }
    style.what_if(&mut out, model);
    darshan::log(style, &mut out, model);
    layers::calls(style, &mut out, model);
    style.timeline(&mut out, model);
    style.rates(&mut out, model);
    style.sizes(&mut out, model);
    style.files(&mut out, model);
    datasets::tables(style, &mut out, model);
    style.processes(&mut out, model);
    style.functions(&mut out, model);
    if style.unicode { out } else { ascii(&out) }
}

/// Only ASCII, except for names in the recording.
fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '…' => out.push_str("..."),
            '×' => out.push('x'),
            '–' => out.push('-'),
            'µ' => out.push('u'),
            '→' => out.push_str("->"),
            '█' => out.push('#'),
            '▁' => out.push('_'),
            '▂' | '▃' => out.push('.'),
            '▄' | '▅' => out.push('='),
            '▆' | '▇' => out.push('*'),
            c => out.push(c),
        }
    }
    out
}

/// A height from 0 to 1 as a character.
fn block(height: f64) -> char {
    const BLOCKS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let place = if height > 0.0 { ((height * 8.0).round() as usize).clamp(1, 8) } else { 0 };
    BLOCKS[place]
}

/// Values put together into fewer columns.
fn columns(values: &[u64], count: usize) -> Vec<u64> {
    let count = count.min(values.len()).max(1);
    (0..count)
        .map(|n| values[n * values.len() / count..(n + 1) * values.len() / count].iter().sum())
        .collect()
}

/// A row of blocks, as high as the highest of all.
fn line(values: &[u64], most: u64) -> String {
    values.iter().map(|value| block(part(*value, most))).collect()
}

impl Style {
    fn heading(&self, text: &str) -> String {
        if self.bold { format!("\u{1b}[1m{text}\u{1b}[0m") } else { text.to_owned() }
    }

    /// A paragraph, with something before its first line.
    fn wrap(&self, out: &mut String, before: &str, text: &str) {
        let indent = " ".repeat(before.chars().count());
        let (mut line, mut used) = (before.to_owned(), before.chars().count());
        let mut empty = true;
        // A number and its sign stay together.
        let text = text.replace(" %", "\u{a0}%");
        for word in text.split([' ', '\n']).filter(|word| !word.is_empty()) {
            let length = word.chars().count();
            if !empty && used + 1 + length > self.width.max(40) {
                let _ = writeln!(out, "{}", line.trim_end().replace('\u{a0}', " "));
                line.clone_from(&indent);
                (used, empty) = (indent.len(), true);
            }
            if !empty {
                line.push(' ');
                used += 1;
            }
            line.push_str(word);
            used += length;
            empty = false;
        }
        let _ = writeln!(out, "{}", line.replace('\u{a0}', " "));
    }

    fn finding(&self, out: &mut String, finding: &Finding) {
        let title = format!("{} ({}): {}", finding.title, finding.badge(), finding.figure);
        let _ = writeln!(out, "\n* {}", self.heading(&title));
        self.wrap(out, "  ", &finding.sentence);
        for file in &finding.files {
            let _ = writeln!(out, "    {}", plain(&cut_path(file, self.width.saturating_sub(4))));
        }
        self.wrap(out, "  ", &finding.help);
        if let Some(outcome) = finding.outcome() {
            self.wrap(out, "  ", &outcome);
        } else if let Some(estimate) = &finding.estimate {
            let of = if finding.rule == "uneven-ranks" { "the run" } else { "the time in calls" };
            let gain =
                format!("Estimated gain: {} of {of}. {}", percent(estimate.share), estimate.basis);
            self.wrap(out, "  ", &gain);
        }
        if let Some(stack) = finding.stack.as_ref().filter(|_| !finding.is_refuted()) {
            let _ = writeln!(out, "  Stack: {}", stack.name);
            for line in stack.text.lines() {
                let _ = writeln!(out, "    {line}");
            }
            self.wrap(out, "  ", &finding.usage().unwrap_or_default());
        }
    }

    fn what_if(&self, out: &mut String, model: &Model) {
        if model.what_if.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{}", self.heading("Measured by repeating the recording"));
        let seconds = |seconds: f64| time((seconds.max(0.0) * 1e9) as u64);
        let mut rows = vec![row(&[
            "stack",
            ">calls without",
            ">with",
            ">as fast",
            ">run without",
            ">with",
            ">as fast",
            "other results",
        ])];
        for answer in &model.what_if {
            let name = answer.candidate.name.clone();
            match (&answer.measured, &answer.failed) {
                (Some(found), _) => rows.push(vec![
                    name,
                    seconds(found.call_seconds_without),
                    seconds(found.call_seconds_with),
                    format!("{} ×", short(found.gain())),
                    seconds(found.seconds_without),
                    seconds(found.seconds_with),
                    format!("{} ×", short(found.run_gain())),
                    match found.differences {
                        0 => "none".into(),
                        n => counted(n, "call", "calls"),
                    },
                ]),
                (None, reason) => {
                    let mut cells = vec![name];
                    cells.extend((0..6).map(|_| "–".to_owned()));
                    cells.push(plain(reason.as_deref().unwrap_or_default()));
                    rows.push(cells);
                }
            }
        }
        out.push_str(&table(&rows, Some(self.width)));
        if let Some(found) = model.what_if.iter().find_map(|answer| answer.measured.as_ref()) {
            let _ = writeln!(
                out,
                "Medians of {}, made in {}.",
                counted(found.rounds, "repetition", "repetitions"),
                plain(&found.place)
            );
        }
    }

    fn timeline(&self, out: &mut String, model: &Model) {
        let timeline = &model.timeline;
        let Some(first) = timeline.lanes.first() else { return };
        let _ =
            writeln!(out, "\n{}", self.heading("Processes over time: part of the time in calls"));
        let names: Vec<String> =
            timeline.lanes.iter().map(|lane| plain(&cut_path(&lane.label, 20))).collect();
        let widest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max(6);
        let room = self.width.saturating_sub(widest + 4).clamp(20, 120);
        let bins = first.read.len();
        for (lane, name) in timeline.lanes.iter().zip(&names) {
            let drawn = |bins_of: &[u64]| {
                let shown = columns(bins_of, room);
                let each =
                    timeline.bin_ns * lane.processes.max(1) * bins as u64 / shown.len() as u64;
                let blocks = shown.iter().map(|time| block(part(*time, each).min(1.0)));
                blocks.collect::<String>().trim_end().to_owned()
            };
            if !lane.mpi_io.is_empty() {
                // Above the calls that it causes.
                let _ = writeln!(out, "  {:<widest$}  {}", "MPI-IO", drawn(&lane.mpi_io));
            }
            let all: Vec<u64> = (0..bins)
                .map(|bin| Class::ALL.iter().map(|class| lane.of(*class)[bin]).sum())
                .collect();
            let _ = writeln!(out, "  {name:<widest$}  {}", drawn(&all));
        }
        let _ = writeln!(out, "  {:widest$}  0 to {}", "", time(timeline.bin_ns * bins as u64));
    }

    fn rates(&self, out: &mut String, model: &Model) {
        let room = self.width.saturating_sub(12).clamp(20, 120);
        let both = [("read", &model.rate.read), ("written", &model.rate.written)];
        let both = both.map(|(name, values)| (name, columns(values, room)));
        let most = both.iter().flat_map(|(_, values)| values).copied().max().unwrap_or(0);
        if most == 0 {
            return;
        }
        let count = model.rate.read.len();
        let each = model.rate.bin_ns * count as u64 / both[0].1.len() as u64;
        let heading = format!("Rate over time, up to {}", rate(most, each));
        let _ = writeln!(out, "\n{}", self.heading(&heading));
        for (name, values) in &both {
            let _ = writeln!(out, "  {name:<7}  {}", line(values, most).trim_end());
        }
    }

    fn sizes(&self, out: &mut String, model: &Model) {
        if model.sizes.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{}", self.heading("Sizes of requests"));
        let most =
            model.sizes.iter().map(|row| row.reads.calls.max(row.writes.calls)).max().unwrap_or(0);
        let mut rows = vec![row(&[">from", ">reads", "", ">time", ">writes", "", ">time"])];
        let bar = |calls: u64| {
            let full = (part(calls, most) * 12.0).round() as usize;
            "█".repeat(full.max(usize::from(calls > 0)))
        };
        for sizes in model.sizes.iter().filter(|row| row.reads.calls + row.writes.calls > 0) {
            rows.push(vec![
                size(sizes.from),
                grouped(sizes.reads.calls),
                bar(sizes.reads.calls),
                time(sizes.reads.time_ns),
                grouped(sizes.writes.calls),
                bar(sizes.writes.calls),
                time(sizes.writes.time_ns),
            ]);
        }
        out.push_str(&table(&rows, Some(self.width)));
    }

    fn files(&self, out: &mut String, model: &Model) {
        if model.files.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{}", self.heading("Files with most time in calls"));
        let mut rows =
            vec![row(&["file", ">time", ">read", ">written", ">calls", ">opens", ">processes"])];
        let room = self.width.saturating_sub(56).max(20);
        for file in model.files.iter().take(15) {
            rows.push(vec![
                plain(&cut_path(&file.path, room))
                    + &file.files.map_or(String::new(), |n| format!(" ({})", grouped(n))),
                time(file.sums.time_ns.all()),
                size(file.sums.bytes_read),
                size(file.sums.bytes_written),
                grouped(file.sums.calls.all()),
                grouped(file.opens),
                grouped(file.processes),
            ]);
        }
        out.push_str(&table(&rows, Some(self.width)));
        let shown: u64 = model.files.iter().take(15).map(|file| file.files.unwrap_or(1)).sum();
        let more = model.totals.files.saturating_sub(shown);
        if more > 0 {
            let _ = writeln!(out, "  and {} more", grouped(more));
        }
    }

    fn processes(&self, out: &mut String, model: &Model) {
        if model.processes.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{}", self.heading("Processes"));
        let mut rows = vec![row(&[
            "process",
            ">time in calls",
            ">of its time",
            ">read",
            ">written",
            ">calls",
            "command",
        ])];
        let room = self.width.saturating_sub(54).max(20);
        for process in model.processes.iter().take(32) {
            let time_ns = process.sums.time_ns.all();
            let span = process.until_ns.saturating_sub(process.from_ns);
            rows.push(vec![
                process.rank.map_or(process.process.to_string(), |rank| format!("rank {rank}")),
                time(time_ns),
                percent(part(time_ns, span)),
                size(process.sums.bytes_read),
                size(process.sums.bytes_written),
                grouped(process.sums.calls.all()),
                plain(&cut_path(&process.command, room)),
            ]);
        }
        out.push_str(&table(&rows, Some(self.width)));
        let more = model.totals.processes.saturating_sub(rows.len() as u64 - 1);
        if more > 0 {
            let _ = writeln!(out, "  and {} more", grouped(more));
        }
    }

    fn functions(&self, out: &mut String, model: &Model) {
        if model.functions.is_empty() {
            return;
        }
        let _ = writeln!(out, "\n{}", self.heading("Functions"));
        let mut rows = vec![row(&["function", ">calls", ">failed", ">bytes", ">time", ">median"])];
        for function in &model.functions {
            rows.push(vec![
                function.name.clone(),
                grouped(function.calls),
                grouped(function.failed),
                size(function.bytes),
                time(function.time_ns),
                time(function.durations.median().unwrap_or(0.0) as u64),
            ]);
        }
        out.push_str(&table(&rows, Some(self.width)));
    }
}

/// A text without what would move the cursor of a terminal.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{FFFD}' } else { c }).collect()
}

pub(crate) fn row(cells: &[&str]) -> Vec<String> {
    cells.iter().map(|cell| (*cell).to_owned()).collect()
}

/// Columns that line up and fit, if a width is given; those whose heading begins with `>` stand to
/// the right.
pub(crate) fn table(rows: &[Vec<String>], width: Option<usize>) -> String {
    let Some((head, rows)) = rows.split_first() else { return String::new() };
    let column = |cell: &String| match cell.strip_prefix('>') {
        Some(name) => (name.to_owned(), Side::Right),
        None => (cell.clone(), Side::Left),
    };
    let columns: Vec<(String, Side)> = head.iter().map(column).collect();
    let columns: Vec<(&str, Side)> =
        columns.iter().map(|(name, side)| (name.as_str(), *side)).collect();
    let mut table = Table::new(&columns);
    for row in rows {
        table.row(row.iter().cloned());
    }
    table.within(width)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paragraphs_fit() {
        let style = Style { width: 40, ..Style::default() };
        let mut out = String::new();
        style.wrap(
            &mut out,
            "  ",
            "one two three four five six seven eight nine ten eleven twelve",
        );
        assert_eq!(out, "  one two three four five six seven\n  eight nine ten eleven twelve\n");
    }

    #[test]
    fn columns_keep_their_sum() {
        let values: Vec<u64> = (0..101).collect();
        for count in [1, 7, 100, 101, 500] {
            assert_eq!(columns(&values, count).iter().sum::<u64>(), 5050);
        }
    }

    #[test]
    fn tables_line_up() {
        let rows = [row(&["a", ">bytes"]), row(&["long", "1"])];
        assert_eq!(table(&rows, None), "  a     bytes\n  long      1\n");
    }
}
