//! Numbers in messages: those of `striate_datatype`, sizes with both forms, and short rates.

use striate_datatype::Bytes;
pub(crate) use striate_datatype::{counted, counted_as, grouped};

/// `2,359,296 bytes (2.25 MiB)`; the unit only where it says something new.
pub(crate) fn bytes(number: impl Into<i128>) -> String {
    let number = number.into();
    let plain = counted(number, "byte");
    match u64::try_from(number) {
        Ok(size) if size >= 1024 => format!("{plain} ({})", Bytes(size)),
        _ => plain,
    }
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
    fn sizes_have_a_unit_when_large() {
        assert_eq!(bytes(1), "1 byte");
        assert_eq!(bytes(1000), "1,000 bytes");
        assert_eq!(bytes(3072), "3,072 bytes (3 KiB)");
        assert_eq!(bytes(-4096), "-4,096 bytes");
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
