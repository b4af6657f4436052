//! Numbers in messages: [`grouped`] digits, and [`counted`] things in the singular or the plural.
//! Sizes are [`Bytes`](crate::Bytes). All commands and reports use these, so that the same number
//! looks the same everywhere.

/// Digits in groups of three.
///
/// ```
/// assert_eq!(striate_datatype::grouped(1_234_567), "1,234,567");
/// ```
pub fn grouped(number: impl Into<i128>) -> String {
    let number = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    if number < 0 {
        text.push('-');
    }
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of things whose name has a regular plural.
///
/// ```
/// use striate_datatype::counted;
/// assert_eq!(counted(1u64, "file"), "1 file");
/// assert_eq!(counted(1200u64, "process"), "1,200 processes");
/// ```
pub fn counted(number: impl Into<i128>, one: &str) -> String {
    counted_as(number, one, &plural(one))
}

/// A number of things, with the words for one and for all other numbers.
pub fn counted_as(number: impl Into<i128>, one: &str, many: &str) -> String {
    let number = number.into();
    format!("{} {}", grouped(number), if number == 1 { one } else { many })
}

/// The regular plural of an English noun.
fn plural(noun: &str) -> String {
    let vowel_before_y = |stem: &str| stem.ends_with(['a', 'e', 'i', 'o', 'u']);
    match noun.strip_suffix('y') {
        Some(stem) if !vowel_before_y(stem) => format!("{stem}ies"),
        _ if ["s", "x", "ch", "sh"].iter().any(|end| noun.ends_with(end)) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_of_three() {
        for (number, text) in [
            (0i64, "0"),
            (7, "7"),
            (999, "999"),
            (1000, "1,000"),
            (-1_234_567, "-1,234,567"),
            (i64::MIN, "-9,223,372,036,854,775,808"),
        ] {
            assert_eq!(grouped(number), text);
        }
        assert_eq!(grouped(u64::MAX), "18,446,744,073,709,551,615");
    }

    #[test]
    fn one_is_singular_and_all_others_are_plural() {
        for (number, one, text) in [
            (1u64, "rank", "1 rank"),
            (0, "rank", "0 ranks"),
            (2, "entry", "2 entries"),
            (2, "directory", "2 directories"),
            (2, "key", "2 keys"),
            (1200, "process", "1,200 processes"),
            (3, "match", "3 matches"),
            (4, "I/O server", "4 I/O servers"),
        ] {
            assert_eq!(counted(number, one), text);
        }
        assert_eq!(counted_as(1u32, "number is", "numbers are"), "1 number is");
        assert_eq!(counted_as(0u32, "number is", "numbers are"), "0 numbers are");
    }
}
