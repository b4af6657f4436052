//! Formatting of counts, sizes, times, rates and shares for people.

use std::fmt::Write as _;

use striate_calendar::utc;
use striate_datatype::Bytes;
pub(crate) use striate_datatype::{counted_as as counted, grouped};

/// A size with its unit.
pub(crate) fn size(bytes: u64) -> String {
    Bytes(bytes).to_string()
}

/// Bytes per second.
pub(crate) fn rate(bytes: u64, time_ns: u64) -> String {
    if time_ns == 0 {
        return "–".into();
    }
    format!("{}/s", size((bytes as f64 / (time_ns as f64 / 1e9)) as u64))
}

/// Three digits or so.
pub(crate) fn short(number: f64) -> String {
    if number >= 1000.0 {
        return grouped(number.round() as u64);
    }
    let digits = match number {
        n if n >= 100.0 => 0,
        n if n >= 10.0 => 1,
        _ => 2,
    };
    let text = format!("{number:.digits$}");
    if text.contains('.') {
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}

/// A length of time with its unit.
pub(crate) fn time(nanoseconds: u64) -> String {
    let ns = nanoseconds as f64;
    match nanoseconds {
        0 => "0 s".into(),
        1..1_000 => format!("{nanoseconds} ns"),
        1_000..1_000_000 => format!("{} µs", short(ns / 1e3)),
        1_000_000..1_000_000_000 => format!("{} ms", short(ns / 1e6)),
        1_000_000_000..120_000_000_000 => format!("{} s", short(ns / 1e9)),
        _ => {
            let seconds = (ns / 1e9).round() as u64;
            let mut text = String::new();
            if seconds >= 3600 {
                let _ = write!(text, "{} h {} min", grouped(seconds / 3600), seconds / 60 % 60);
            } else {
                let _ = write!(text, "{} min {} s", seconds / 60, seconds % 60);
            }
            text
        }
    }
}

/// A part of a whole in percent.
pub(crate) fn percent(part: f64) -> String {
    let percent = part * 100.0;
    match percent {
        p if !p.is_finite() => "–".into(),
        p if p > 0.0 && p < 0.1 => "< 0.1 %".into(),
        p if p < 10.0 && p.fract() != 0.0 => format!("{p:.1} %"),
        p => format!("{p:.0} %"),
    }
}

/// One over another; 0 of nothing.
pub(crate) fn part(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// The date and time of day of a moment, in nanoseconds since 1970, of UTC.
pub(crate) fn moment(nanoseconds: u64) -> String {
    utc(nanoseconds / 1_000_000_000)
}

/// A path that fits on a line: the middle is left out.
pub(crate) fn cut_path(path: &str, most: usize) -> String {
    let count = path.chars().count();
    if count <= most || most < 8 {
        return path.to_owned();
    }
    let head = most / 3;
    let tail = most - head - 1;
    let first: String = path.chars().take(head).collect();
    let last: String = path.chars().skip(count - tail).collect();
    format!("{first}…{last}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (ns, text) in [
            (0, "0 s"),
            (15, "15 ns"),
            (1_500, "1.5 µs"),
            (999_000, "999 µs"),
            (12_340_000, "12.3 ms"),
            (2_000_000_000, "2 s"),
            (119_000_000_000, "119 s"),
            (150_000_000_000, "2 min 30 s"),
            (7_260_000_000_000, "2 h 1 min"),
        ] {
            assert_eq!(time(ns), text);
        }
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!(
            (percent(0.0), percent(0.0002), percent(0.034)),
            ("0 %".into(), "< 0.1 %".into(), "3.4 %".into())
        );
        assert_eq!((percent(0.5), percent(1.0)), ("50 %".into(), "100 %".into()));
        assert_eq!(
            (short(0.1), short(1234.4), short(100.0)),
            ("0.1".into(), "1,234".into(), "100".into())
        );
        assert_eq!(counted(1, "file", "files"), "1 file");
        assert_eq!(rate(1 << 20, 500_000_000), "2 MiB/s");
        assert_eq!(rate(1, 0), "–");
    }

    #[test]
    fn moments_are_those_of_the_calendar() {
        assert_eq!(moment(951_782_400_000_000_000), "2000-02-29 00:00:00 UTC");
    }

    #[test]
    fn long_paths_keep_their_ends() {
        assert_eq!(cut_path("/a/b", 20), "/a/b");
        let cut = cut_path("/scratch/project/run/of/today/output.nc", 20);
        assert_eq!(cut.chars().count(), 20);
        assert!(cut.starts_with("/scra") && cut.ends_with("output.nc"), "{cut}");
    }
}
