//! [`Report`]: counters as a table of text.

use std::fmt;

use striate_calls::Kind;
use striate_datatype::{Bytes, counted, grouped};

use super::counters::Counters;

/// Displays counters: a line of sums, and tables of functions, lengths and endings.
#[derive(Clone, Copy, Debug)]
pub struct Report<'c>(pub &'c Counters);

/// Rows of tables that are shown at most.
const MOST_ROWS: usize = 12;

impl fmt::Display for Report<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counters = self.0;
        let all = counters.all();
        let (read, written) = (Bytes(counters.bytes_read), Bytes(counters.bytes_written));
        let [ranges, sent] =
            [Kind::CopyRange, Kind::SendFile].map(|kind| counters.of_kind(kind).bytes);
        let copied = ranges.saturating_add(sent);
        let copied =
            if copied > 0 { format!("{} of both copied, ", Bytes(copied)) } else { String::new() };
        let processes = counted(counters.processes.len() as u64, "process");
        let label = match &*counters.label {
            "" => String::new(),
            label => format!(" ({label})"),
        };
        writeln!(
            f,
            "striate{label}: {processes}, {}, {} failed, {read} read, {written} written, \
             {copied}{} in I/O, {} to count",
            counted(all.calls, "call"),
            grouped(all.errors),
            Seconds(all.seconds),
            Seconds(counters.own),
        )?;
        self.layers(f)?;
        self.functions(f)?;
        self.lengths(f)?;
        self.endings(f)
    }
}

impl Report<'_> {
    fn layers(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut layers: Vec<_> = self.0.layers().collect();
        layers.sort_by(|a, b| b.2.seconds.total_cmp(&a.2.seconds));
        if layers.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "  {:<18} {:>8} {:>8} {:>11} {:>10} {:>10}",
            "MPI-IO", "calls", "failed", "bytes", "time", "per call"
        )?;
        for (sort, collective, calls) in layers {
            let together = if collective { "collective" } else { "independent" };
            writeln!(
                f,
                "  {:<18} {:>8} {:>8} {:>11} {:>10} {:>10}",
                format!("{together} {}", sort.name()),
                grouped(calls.calls),
                grouped(calls.errors),
                if calls.bytes > 0 { Bytes(calls.bytes).to_string() } else { "-".into() },
                Seconds(calls.seconds).to_string(),
                Seconds(calls.seconds / calls.calls as f64).to_string(),
            )?;
        }
        Ok(())
    }

    fn functions(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut functions: Vec<_> = self.0.functions().collect();
        functions.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
        if functions.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "  {:<16} {:>10} {:>8} {:>11} {:>10} {:>10}",
            "function", "calls", "failed", "bytes", "time", "per call"
        )?;
        for (function, calls) in functions.iter().take(MOST_ROWS) {
            writeln!(
                f,
                "  {:<16} {:>10} {:>8} {:>11} {:>10} {:>10}",
                function.name(),
                grouped(calls.calls),
                grouped(calls.errors),
                if calls.bytes > 0 { Bytes(calls.bytes).to_string() } else { "-".into() },
                Seconds(calls.seconds).to_string(),
                Seconds(calls.seconds / calls.calls as f64).to_string(),
            )?;
        }
        left_out(f, functions.len(), "function")
    }

    fn lengths(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, histogram) in [("read", &self.0.reads), ("written", &self.0.writes)] {
            let filled = histogram.iter().enumerate().filter(|(_, count)| **count > 0);
            let texts = filled.map(|(place, count)| match place {
                0 => format!("{} × nothing", grouped(*count)),
                place => format!("{} × {}…", grouped(*count), Bytes(1 << (place - 1))),
            });
            let texts: Vec<_> = texts.collect();
            if !texts.is_empty() {
                writeln!(f, "  {what} at once, by powers of two: {}", texts.join(", "))?;
            }
        }
        Ok(())
    }

    fn endings(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut endings: Vec<_> = self.0.endings.iter().collect();
        endings.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
        if endings.is_empty() {
            return Ok(());
        }
        writeln!(
            f,
            "  {:<16} {:>10} {:>11} {:>11} {:>10}",
            "files", "calls", "read", "written", "time"
        )?;
        for (name, sums) in endings.iter().take(MOST_ROWS) {
            let name = match name.as_str() {
                "" => "without ending".into(),
                "0" => "*.(number)".into(),
                "?" => "others".into(),
                name => format!("*.{name}"),
            };
            writeln!(
                f,
                "  {name:<16} {:>10} {:>11} {:>11} {:>10}",
                grouped(sums.calls),
                Bytes(sums.read).to_string(),
                Bytes(sums.written).to_string(),
                Seconds(sums.seconds).to_string(),
            )?;
        }
        left_out(f, endings.len(), "ending")
    }
}

fn left_out(f: &mut fmt::Formatter<'_>, count: usize, what: &str) -> fmt::Result {
    match count.saturating_sub(MOST_ROWS) {
        0 => Ok(()),
        more => writeln!(f, "  and {}", counted(more as u64, &format!("more {what}"))),
    }
}

/// A time with a unit and three digits.
struct Seconds(f64);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (number, unit) = match self.0 {
            time if time >= 0.9995 => (time, "s"),
            time if time >= 0.999_5e-3 => (time * 1e3, "ms"),
            time if time >= 0.999_5e-6 => (time * 1e6, "µs"),
            time => (time * 1e9, "ns"),
        };
        let digits =
            if number >= 99.95 || number == 0.0 { 0 } else { 2 - usize::from(number >= 9.995) };
        if number >= 1000.0 {
            return write!(f, "{} {unit}", grouped(number.round() as u64));
        }
        write!(f, "{number:.digits$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_three_digits() {
        for (seconds, text) in [
            (0.0, "0 ns"),
            (1.5e-9, "1.50 ns"),
            (123.4e-9, "123 ns"),
            (12.34e-6, "12.3 µs"),
            (0.999_9, "1.00 s"),
            (4.2e-3, "4.20 ms"),
            (1234.0, "1,234 s"),
        ] {
            assert_eq!(Seconds(seconds).to_string(), text);
        }
    }
}
