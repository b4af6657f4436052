//! [`Size`]: a number of bytes in a configuration.

use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// A number of bytes, as text with a unit (`"4MiB"`) or as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Size(pub(crate) u64);

#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Number(u64),
    Text(String),
}

impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        match Text::deserialize(from)? {
            Text::Number(bytes) => Ok(Self(bytes)),
            Text::Text(text) => {
                striate_datatype::parse_size(&text).map(Self).map_err(D::Error::custom)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_text_or_numbers() {
        #[derive(Deserialize)]
        struct SizeTable {
            a: Size,
        }
        for (text, bytes) in [("a = 7", 7), ("a = \"4MiB\"", 4 << 20)] {
            assert_eq!(toml::from_str::<SizeTable>(text).unwrap().a, Size(bytes));
        }
        for wrong in ["a = -1", "a = \"4 apples\"", "a = true"] {
            assert!(toml::from_str::<SizeTable>(wrong).is_err(), "{wrong}");
        }
    }
}
