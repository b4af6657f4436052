//! [`Link`]: the cable between a node and the switch, and the commands of `tc` that make it slow or
//! lossy.
//!
//! Each direction is limited where it leaves: *up* at the node, *down* at the port of the switch.
//! A direction without loss is a token bucket. One with loss has two classes; a filter sends a
//! share of all packets, at random, into the one whose queue takes none. (The usual tool, netem, is
//! missing in many kernels.)

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::{LabError, Rate};

/// What a cable lets pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Link {
    /// From the node to the others; `None` is as fast as the machine.
    pub up: Option<Rate>,
    /// From the others to the node.
    pub down: Option<Rate>,
    /// The share of packets that is lost in each direction, from 0 to below 1.
    #[serde(default)]
    pub loss: f64,
}

/// The rate of a direction that has loss, but no limit.
const FAST: Rate = Rate(40_000_000_000);

/// How long packets may wait in a queue.
const QUEUE_MILLISECONDS: u64 = 50;

/// So many bytes may wait even on a slow link: some packets.
const LEAST_QUEUE: u64 = 32 << 10;

impl Link {
    /// The same rate both ways.
    pub const fn both(rate: Rate) -> Self {
        Self { up: Some(rate), down: Some(rate), loss: 0.0 }
    }

    /// A rate for each direction.
    pub const fn asymmetric(up: Rate, down: Rate) -> Self {
        Self { up: Some(up), down: Some(down), loss: 0.0 }
    }

    /// The same, of which a share of packets is lost.
    #[must_use]
    pub const fn with_loss(mut self, loss: f64) -> Self {
        self.loss = loss;
        self
    }

    pub(crate) fn check(&self) -> Result<(), LabError> {
        if (0.0..1.0).contains(&self.loss) {
            return Ok(());
        }
        Err(LabError::Setting(format!("a loss of {} is not from 0 to below 1", self.loss)))
    }

    /// Lines for `tc -force -batch` that limit what the node sends, at its device.
    pub(crate) fn up_commands(&self) -> String {
        direction("eth0", self.up, self.loss)
    }

    /// The same for what it receives, at the port of the switch.
    pub(crate) fn down_commands(&self, port: &str) -> String {
        direction(port, self.down, self.loss)
    }
}

/// Replaces what limits a device. Removing what is not there fails, so errors of the first line are
/// ignored.
fn direction(device: &str, rate: Option<Rate>, loss: f64) -> String {
    let mut lines = String::new();
    if loss > 0.0 {
        let rate = rate.unwrap_or(FAST);
        let (burst, queue) = (burst(rate), burst(rate) + queue(rate));
        // 2^32 times the share of packets that pass.
        let threshold = ((1.0 - loss) * f64::from(u32::MAX)) as u32;
        // Load a random number; is it larger, then into the class that loses; else no match.
        let filter = format!("4,32 0 0 4294963256,37 0 1 {threshold},6 0 0 4294967295,6 0 0 0");
        let _ = writeln!(lines, "qdisc add dev {device} root handle 1: htb default 1");
        for class in [1, 2] {
            let _ = writeln!(
                lines,
                "class add dev {device} parent 1: classid 1:{class} htb rate {}bit burst {burst} quantum 60000",
                rate.0
            );
        }
        let _ = writeln!(lines, "qdisc add dev {device} parent 1:1 bfifo limit {queue}");
        let _ = writeln!(lines, "qdisc add dev {device} parent 1:2 bfifo limit 1");
        let _ = writeln!(
            lines,
            "filter add dev {device} parent 1: protocol all bpf bytecode \"{filter}\" flowid 1:2"
        );
    } else if let Some(rate) = rate {
        let (burst, queue) = (burst(rate), burst(rate) + queue(rate));
        let _ = writeln!(
            lines,
            "qdisc add dev {device} root tbf rate {}bit burst {burst} limit {queue}",
            rate.0
        );
    }
    lines
}

/// Bytes that may pass at once: 20 ms of the rate, at least some packets.
const fn burst(rate: Rate) -> u64 {
    let bytes = rate.bytes() / 50;
    if bytes < 4 << 10 {
        4 << 10
    } else if bytes > 256 << 10 {
        256 << 10
    } else {
        bytes
    }
}

/// Bytes that may wait.
const fn queue(rate: Rate) -> u64 {
    let bytes = rate.bytes() * QUEUE_MILLISECONDS / 1000;
    if bytes < LEAST_QUEUE { LEAST_QUEUE } else { bytes }
}

#[cfg(test)]
mod tests {
    use super::Link;
    use crate::Rate;

    #[test]
    fn a_direction_is_limited_where_it_leaves() {
        let link = Link::asymmetric(Rate::mbit(20), Rate::mbit(100));
        assert_eq!(
            link.up_commands(),
            "qdisc add dev eth0 root tbf rate 20000000bit burst 50000 limit 175000\n"
        );
        assert!(
            link.down_commands("n1").starts_with("qdisc add dev n1 root tbf rate 100000000bit")
        );
        assert_eq!(Link::default().up_commands(), "");
    }

    #[test]
    fn a_share_of_packets_is_lost() {
        let lossy = Link::default().with_loss(0.25).up_commands();
        assert!(lossy.contains(",37 0 1 3221225471,") && lossy.contains("limit 1\n"), "{lossy}");
        for wrong in [-0.1, 1.0, f64::NAN] {
            assert!(Link::default().with_loss(wrong).check().is_err());
        }
    }
}
