//! What the terminal can show, and the one place where answers are printed.

use std::io::{ErrorKind, Write};

use crate::CommandError;

/// Prints the whole answer of a command, without colours where they are not wanted.
///
/// A reader that went away (`striate … | head`) has seen enough: that is no failure.
pub(crate) fn print(text: &str) -> Result<(), CommandError> {
    let mut stdout = anstream::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(CommandError::Write { path: "standard output".into(), source: error })
        }
        _ => Ok(()),
    }
}

/// A heading, set off from what follows.
pub(crate) fn heading(text: &str) -> String {
    let style = anstyle::Style::new().bold();
    format!("{style}{text}{style:#}")
}

/// `text` in ASCII characters only, as far as the program's own words go.
pub(crate) fn to_ascii(text: &str) -> String {
    let text = text.replace('…', "...").replace('×', "x").replace('≥', ">=");
    text.replace('³', "^3").replace('–', "-")
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
}
