//! How numbers are shown to people: digits in groups of three, sizes with a unit.

use striate_datatype::Bytes;

/// Digits in groups of three: `1,234,567`.
pub(crate) fn grouped(number: impl Into<i128>) -> String {
    let number = number.into();
    let digits = number.unsigned_abs().to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    if number < 0 {
        text.push('-');
    }
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// `2,359,296 bytes (2.25 MiB)`; the unit only where it says something new.
pub(crate) fn bytes(number: impl Into<i128>) -> String {
    let number = number.into();
    let unit = if number.abs() == 1 { "byte" } else { "bytes" };
    let plain = format!("{} {unit}", grouped(number));
    match u64::try_from(number) {
        Ok(size) if size >= 1024 => format!("{plain} ({})", Bytes(size)),
        _ => plain,
    }
}

/// A number with what is counted, in the plural unless it is one: `1 rank`, `1,200 ranks`.
pub(crate) fn counted(number: u64, what: &str) -> String {
    let plural = match (number, what) {
        (1, _) => what.to_owned(),
        (_, "entry" | "directory") => format!("{}ies", what.trim_end_matches('y')),
        (_, "process") => format!("{what}es"),
        _ => format!("{what}s"),
    };
    format!("{} {plural}", grouped(number))
}

/// Two significant digits or more, without a tail of zeros: `118.7`, `0.25`, `3`.
pub(crate) fn short(number: f64) -> String {
    if number >= 1000.0 {
        return grouped(number.round() as i128);
    }
    let digits = if number >= 10.0 { 1 } else { 2 };
    let text = format!("{number:.digits$}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
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
    }

    #[test]
    fn sizes_have_a_unit_when_large() {
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(1000), "1,000 bytes");
        assert_eq!(bytes(3072), "3,072 bytes (3 KiB)");
        assert_eq!(bytes(-4096), "-4,096 bytes");
    }

    #[test]
    fn one_is_not_many() {
        assert_eq!(counted(1, "rank"), "1 rank");
        assert_eq!(counted(0, "rank"), "0 ranks");
        assert_eq!(counted(1200, "process"), "1,200 processes");
    }

    #[test]
    fn short_numbers_have_no_tail() {
        for (number, text) in
            [(118.6875, "118.7"), (2.0, "2"), (0.25, "0.25"), (20.0, "20"), (12_345.6, "12,346")]
        {
            assert_eq!(short(number), text);
        }
    }
}
