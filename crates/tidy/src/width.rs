//! Check that comments are within the configured width. Code is left to rustfmt, and literals may
//! be longer.

/// The width that a `rustfmt.toml` configures.
pub fn configured(rustfmt: &str) -> Option<usize> {
    let value = rustfmt.lines().find_map(|line| line.strip_prefix("max_width = "))?;
    value.trim().parse().ok()
}

/// The numbers of the lines of comments that have more characters than `width`. Tables and fenced
/// examples are left out: they cannot be wrapped.
pub fn wide_comments(text: &str, width: usize) -> Vec<usize> {
    let mut is_fenced = false;
    let mut wide = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_fenced = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        is_fenced ^= comment.starts_with("```");
        // A word that is too long alone, such as a link, cannot be wrapped, either.
        let is_one_word = !comment.contains(' ');
        if !is_fenced && !comment.starts_with('|') && !is_one_word && line.chars().count() > width {
            wide.push(number + 1);
        }
    }
    wide
}

#[cfg(test)]
mod tests {
    use super::{configured, wide_comments};

    #[test]
    fn comments_count_by_characters() {
        assert_eq!(configured("max_width = 5\nuse_small_heuristics = \"Max\"\n"), Some(5));
        assert_eq!(configured("edition = \"2024\"\n"), None);
        assert_eq!(wide_comments("// →→ →→\n  // 45 78\ncode is formatted\n", 8), [2]);
        assert_eq!(wide_comments("/// | a | table |\n// https://a-link\n", 8), [] as [usize; 0]);
        assert_eq!(wide_comments("//! ```\n//! an example\n//! ```\n//! a b c\n", 8), [4]);
    }
}
