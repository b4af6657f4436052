//! The file of hints that `ROMIO_HINTS` names. It is read at each open, because programs set the
//! variable, too.

use std::env;
use std::fs::File;
use std::io::Read as _;

/// A file of hints is not longer.
const LONGEST: u64 = 1 << 20;

/// The hints of the file that `ROMIO_HINTS` names: they count more than those of the program.
pub(crate) fn hints() -> Vec<(String, String)> {
    let text = env::var_os("ROMIO_HINTS").filter(|name| !name.is_empty()).and_then(|name| {
        let mut text = String::new();
        File::open(name).ok()?.take(LONGEST).read_to_string(&mut text).ok()?;
        Some(text)
    });
    lines(&text.unwrap_or_default())
}

/// A name and a value in each line, `#` begins a comment. The first line of a name counts.
fn lines(text: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
        let mut words = line.split_whitespace();
        if let (Some(name), Some(value)) = (words.next(), words.next())
            && !found.iter().any(|(known, _)| known == name)
        {
            found.push((name.to_owned(), value.to_owned()));
        }
    }
    found
}
