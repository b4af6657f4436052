//! The progress bar of a report, on terminals only.

use indicatif::{ProgressBar, ProgressStyle};

/// A bar that is not seen before something begins.
pub(super) fn bar() -> ProgressBar {
    let bar = ProgressBar::no_length();
    if let Ok(style) = ProgressStyle::with_template("  {msg} {wide_bar} {percent} %") {
        bar.set_style(style);
    }
    bar
}

/// Something of so many parts begins.
pub(super) fn begin(bar: &ProgressBar, parts: u64, what: impl Into<String>) {
    bar.set_message(what.into());
    bar.set_position(0);
    bar.set_length(parts.max(1));
}
