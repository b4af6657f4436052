//! [`LinkBytes`]: what passed over a cable.

use std::ops::Sub;

use serde::Serialize;

/// Bytes of frames that passed, with their headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkBytes {
    /// From the node.
    pub up: u64,
    /// To the node.
    pub down: u64,
}

impl Sub for LinkBytes {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self { up: self.up.saturating_sub(before.up), down: self.down.saturating_sub(before.down) }
    }
}

/// The bytes of the port of this name, in the format of `/proc/net/dev`. What the switch receives
/// there is what the node sends.
pub(crate) fn of_port(text: &str, port: &str) -> Option<LinkBytes> {
    let of = |line: &str| {
        let (name, numbers) = line.split_once(':')?;
        let numbers: Vec<&str> = numbers.split_whitespace().collect();
        let number = |i: usize| numbers.get(i)?.parse().ok();
        (name.trim() == port).then_some(LinkBytes { up: number(0)?, down: number(8)? })
    };
    text.lines().find_map(of)
}

#[cfg(test)]
mod tests {
    use super::{LinkBytes, of_port};

    #[test]
    fn ports_are_found_by_their_name() {
        let text = "Inter-|   Receive | Transmit\n face |bytes packets|bytes\n    \
                    n1: 11 2 0 0 0 0 0 0 33 4 0 0 0 0 0 0\n   n11: 5 2 0 0 0 0 0 0 6 4 0 0 0 0 0 0\n";
        assert_eq!(of_port(text, "n1"), Some(LinkBytes { up: 11, down: 33 }));
        assert_eq!(of_port(text, "n11"), Some(LinkBytes { up: 5, down: 6 }));
        assert_eq!(of_port(text, "n2"), None);
    }
}
