//! Lines within the configured width, also where rustfmt leaves them alone: comments, strings.

/// The width that a `rustfmt.toml` configures.
pub fn configured(rustfmt: &str) -> Option<usize> {
    let value = rustfmt.lines().find_map(|line| line.strip_prefix("max_width = "))?;
    value.trim().parse().ok()
}

/// The numbers of the lines that have more characters than `width`.
pub fn wide_lines(text: &str, width: usize) -> Vec<usize> {
    let lines = text.lines().enumerate();
    lines.filter(|(_, line)| line.chars().count() > width).map(|(number, _)| number + 1).collect()
}

#[cfg(test)]
mod tests {
    use super::{configured, wide_lines};

    #[test]
    fn characters_count() {
        assert_eq!(configured("max_width = 5\nuse_small_heuristics = \"Max\"\n"), Some(5));
        assert_eq!(configured("edition = \"2024\"\n"), None);
        assert_eq!(wide_lines("12345\n123456\n→→→→→\n", 5), [2]);
    }
}
