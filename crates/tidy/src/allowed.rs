//! Lists of what a check still allows. They shrink: an entry that is of no more use is a finding.

use std::collections::BTreeSet;

/// The entries of a list: a line each, without empty ones and comments (`#`).
pub fn entries(list: &str) -> BTreeSet<String> {
    let lines = list.lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(str::to_owned).collect()
}

/// What was found and is not allowed, and what is allowed and was not found.
pub fn compare(found: &BTreeSet<String>, allowed: &BTreeSet<String>) -> (Vec<String>, Vec<String>) {
    let new = found.difference(allowed).cloned().collect();
    let stale = allowed.difference(found).cloned().collect();
    (new, stale)
}

#[cfg(test)]
mod tests {
    use super::{compare, entries};

    #[test]
    fn entries_that_are_not_found_are_told() {
        let allowed = entries("# why\n\na Place\nb Place\n");
        let found = entries("b Place\nc Place\n");
        let expected = (vec!["c Place".to_owned()], vec!["a Place".to_owned()]);
        assert_eq!(compare(&found, &allowed), expected);
    }
}
