//! Scales of charts: ticks, labels and the frame.

use std::fmt::Write as _;

use super::html::escaped;
use crate::formatting::size;

/// A place from 0 to 1 and its label.
pub(super) type Tick = (f64, String);

/// Ticks of time over so many nanoseconds, at numbers that read well.
pub(super) fn time_ticks(length: u64) -> Vec<Tick> {
    let (unit, name) = match length {
        0..2_000 => (1.0, "ns"),
        2_000..2_000_000 => (1e3, "µs"),
        2_000_000..2_000_000_000 => (1e6, "ms"),
        2_000_000_000..300_000_000_000 => (1e9, "s"),
        300_000_000_000..10_800_000_000_000 => (60e9, "min"),
        _ => (3600e9, "h"),
    };
    let whole = length as f64 / unit;
    let step = nice(whole / 5.0);
    let count = (whole / step + 1e-9).floor() as u64;
    (0..=count)
        .map(|n| {
            let value = n as f64 * step;
            let text = format!("{value:.3}");
            let text = text.trim_end_matches('0').trim_end_matches('.');
            (value / whole.max(1e-12), if n == 0 { "0".into() } else { format!("{text} {name}") })
        })
        .collect()
}

/// 1, 2 or 5 times a power of ten, not less than a number.
pub(super) fn nice(least: f64) -> f64 {
    let unit = 10f64.powf(least.max(1e-12).log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].into_iter().find(|step| step * unit >= least * (1.0 - 1e-9));
    step.unwrap_or(10.0) * unit
}

/// A size that reads well, not less than this.
pub(super) fn nice_size(least: u64) -> u64 {
    let unit = 1u64 << (least.max(1).ilog2() / 10 * 10);
    for step in [1, 2, 5, 10, 20, 50, 100, 200, 500] {
        if let Some(found) = unit.checked_mul(step).filter(|found| *found >= least) {
            return found;
        }
    }
    unit.saturating_mul(1024)
}

/// Ticks up to a size.
pub(super) fn size_ticks(top: u64, per_second: bool) -> Vec<Tick> {
    let end = if per_second { "/s" } else { "" };
    vec![
        (0.0, "0".into()),
        (0.5, format!("{}{end}", size(top / 2))),
        (1.0, format!("{}{end}", size(top))),
    ]
}

/// What is around a drawing.
pub(super) struct Frame<'a> {
    /// What screen readers say of it.
    pub(super) label: &'a str,
    /// Its height in pixels.
    pub(super) height: u32,
    /// Ticks from the left to the right, and from the bottom to the top.
    pub(super) across: &'a [Tick],
    pub(super) up: &'a [Tick],
    /// More attributes of the area: what the script has to know.
    pub(super) data: String,
}

impl Frame<'_> {
    /// A chart of a drawing in a box of 1000 × 1000.
    pub(super) fn around(&self, drawing: &str) -> String {
        let mut grid = String::new();
        for (place, _) in self.up {
            let y = 1000.0 - place * 1000.0;
            let _ = write!(grid, "<path class=\"grid\" d=\"M0 {y:.0}H1000\"/>");
        }
        format!(
            "<div class=\"plot\" style=\"--h:{}px\"><div class=\"ups\" aria-hidden=\"true\">{}</div>\
             <div class=\"area\"{}><svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" role=\"img\" \
             aria-label=\"{}\"><title>{}</title>{grid}{drawing}</svg></div>\
             <div class=\"acrosses\" aria-hidden=\"true\">{}</div></div>",
            self.height,
            labels(self.up, "bottom"),
            self.data,
            escaped(self.label),
            escaped(self.label),
            labels(self.across, "left"),
        )
    }
}

/// Labels of ticks.
pub(super) fn labels(ticks: &[Tick], side: &str) -> String {
    let mut out = String::new();
    for (place, text) in ticks {
        let edge = if side == "left" && *place > 0.93 { " class=\"edge\"" } else { "" };
        let _ = write!(
            out,
            "<span{edge} style=\"{side}:{:.2}%\">{}</span>",
            place * 100.0,
            escaped(text)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_read_well() {
        let texts = |length| time_ticks(length).into_iter().map(|tick| tick.1).collect::<Vec<_>>();
        assert_eq!(texts(10_000_000_000), ["0", "2 s", "4 s", "6 s", "8 s", "10 s"]);
        assert_eq!(texts(700_000_000), ["0", "200 ms", "400 ms", "600 ms"]);
        assert!(texts(0).len() < 10);
        for length in [1u64, 999, 123_456_789, u64::MAX] {
            assert!((2..9).contains(&texts(length).len()), "{length}: {:?}", texts(length));
            assert!(time_ticks(length).iter().all(|tick| (0.0..=1.0 + 1e-6).contains(&tick.0)));
        }
    }

    #[test]
    fn sizes_read_well() {
        for (least, found) in
            [(0, 1), (1, 1), (3, 5), (700, 1024), (1 << 20, 1 << 20), (150 << 20, 200 << 20)]
        {
            assert_eq!(nice_size(least), found);
        }
        assert_eq!(nice_size(u64::MAX), u64::MAX);
    }
}
