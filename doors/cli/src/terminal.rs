//! What the terminal can show, and the one place where answers are printed.
//!
//! A terminal has a width, which tables and paragraphs fit into; a file or a pipe has none, and
//! gets every column. `COLUMNS` says another width in either case, `--wide` none.

use std::io::{ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::CommandError;

/// Narrower terminals are treated as if they had so many columns: words have to fit.
const NARROWEST: usize = 40;

/// Whether `--wide` was given.
static WIDE: AtomicBool = AtomicBool::new(false);

/// From now on nothing is fitted into any width.
pub(crate) fn set_wide() {
    WIDE.store(true, Ordering::Relaxed);
}

/// The columns that answers have to fit into, if there is a limit.
pub(crate) fn width() -> Option<usize> {
    width_of(std::io::stdout())
}

/// The columns that messages have to fit into, if there is a limit.
pub(crate) fn error_width() -> Option<usize> {
    width_of(std::io::stderr())
}

fn width_of(stream: impl AsFd) -> Option<usize> {
    if WIDE.load(Ordering::Relaxed) {
        return None;
    }
    let said = std::env::var("COLUMNS").ok().and_then(|text| text.trim().parse().ok());
    let of_terminal =
        || rustix::termios::tcgetwinsize(stream).ok().map(|size| usize::from(size.ws_col));
    // Some terminals do not know their size, and say 0.
    let width: Option<usize> = said.filter(|columns| *columns > 0).or_else(of_terminal);
    width.filter(|columns| *columns > 0).map(|columns| columns.max(NARROWEST))
}

/// Prints the whole answer of a command as it is, without colours where they are not wanted.
///
/// A closed pipe (`striate … | head`) is not a failure.
pub(crate) fn print(text: &str) -> Result<(), CommandError> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CommandError::Write { path: "standard output".into(), source: error })
        }
        _ => Ok(()),
    }
}

/// Prints an answer for people, with lines that fit the terminal, in characters that it has.
pub(crate) fn print_fitted(text: &str) -> Result<(), CommandError> {
    let text = fitted(text, width());
    print(&if is_utf8() { text } else { to_ascii(&text) })
}

/// `text` with longer lines broken between words; what follows an indented line is indented a
/// little more. A word that is too long, such as a path, stays whole.
pub(crate) fn fitted(text: &str, width: Option<usize>) -> String {
    let Some(width) = width else { return text.to_owned() };
    let mut all = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let plain = line.trim_end_matches('\n');
        if visible(plain) <= width {
            all.push_str(line);
            continue;
        }
        let indent = plain.len() - plain.trim_start_matches(' ').len();
        let mut column = 0;
        for word in plain.split_inclusive(' ').skip_while(|word| word.trim().is_empty()) {
            let (len, word_len) = (visible(word), visible(word.trim_end()));
            if column == 0 {
                all.push_str(&" ".repeat(indent));
                column = indent;
            } else if column + word_len > width {
                all.truncate(all.trim_end_matches(' ').len());
                all.push('\n');
                let further = if indent == 0 { 0 } else { indent + 2 };
                all.push_str(&" ".repeat(further));
                column = further;
            }
            all.push_str(word);
            column += len;
        }
        all.truncate(all.trim_end_matches(' ').len());
        if line.ends_with('\n') {
            all.push('\n');
        }
    }
    all
}

/// Columns that a text takes: escape sequences take none.
pub(crate) fn visible(text: &str) -> usize {
    let mut columns = 0;
    let mut escaped = false;
    for c in text.chars() {
        match (escaped, c) {
            (false, '\u{1b}') => escaped = true,
            (false, _) => columns += 1,
            (true, c) if c.is_ascii_alphabetic() => escaped = false,
            (true, _) => {}
        }
    }
    columns
}

/// A heading, set off from what follows.
pub(crate) fn heading(text: &str) -> String {
    let style = anstyle::Style::new().bold();
    format!("{style}{text}{style:#}")
}

/// `text` in ASCII characters only, as far as the program's own words go.
pub(crate) fn to_ascii(text: &str) -> String {
    let text = text.replace('…', "...").replace('×', "x").replace('≥', ">=");
    text.replace('³', "^3").replace('–', "-").replace('µ', "u")
}

/// Whether the locale says that text is UTF-8, by the rules of POSIX.
pub(crate) fn is_utf8() -> bool {
    locale_is_utf8(|name| std::env::var(name).ok())
}

fn locale_is_utf8(variable: impl Fn(&str) -> Option<String>) -> bool {
    ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty())
        .is_some_and(|value| {
            let value = value.to_ascii_lowercase();
            value.contains("utf-8") || value.contains("utf8")
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_variable_that_is_set_decides() {
        let locale = |all: &str, ctype: &str, lang: &str| {
            let (all, ctype, lang) = (all.to_owned(), ctype.to_owned(), lang.to_owned());
            locale_is_utf8(move |name| match name {
                "LC_ALL" => Some(all.clone()),
                "LC_CTYPE" => Some(ctype.clone()),
                _ => Some(lang.clone()),
            })
        };
        assert!(locale("", "", "en_US.UTF-8"));
        assert!(locale("C.utf8", "C", "C"));
        assert!(!locale("C", "", "en_US.UTF-8"));
        assert!(!locale("", "", ""));
    }

    #[test]
    fn long_lines_are_broken_between_words() {
        let text = "short\n  one two three four\n/a/very/long/path/of/some/file x\n\n";
        assert_eq!(fitted(text, None), text);
        assert_eq!(fitted(text, Some(60)), text);
        assert_eq!(
            fitted(text, Some(12)),
            "short\n  one two\n    three\n    four\n/a/very/long/path/of/some/file\nx\n\n"
        );
        let bold = format!("{}\n", heading("one two three"));
        assert_eq!(fitted(&bold, Some(13)), bold);
        assert!(fitted(&bold, Some(8)).contains("two\nthree"), "{bold}");
        assert_eq!(visible(&bold), 14);
    }
}
