//! [`Offenders`]: the addresses that bad frames and failed handshakes come from.
//!
//! An address that sends too many in a minute is refused for the next, so that neither guessing of
//! keys nor a broken client keeps the server or its log busy.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What offences are counted in, and how long they are paid for.
const MINUTE: Duration = Duration::from_secs(60);

/// Addresses that are remembered; those beyond are forgiven.
const MOST: usize = 10_000;

/// The addresses that offences come from.
#[derive(Debug)]
pub(crate) struct Offenders {
    limit: u32,
    records: Mutex<HashMap<IpAddr, Record>>,
}

#[derive(Debug)]
struct Record {
    /// When the counted minute ends, or the punishment.
    until: Instant,
    offences: u32,
}

impl Offenders {
    /// More than `limit` offences in a minute are too many.
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, records: Mutex::default() }
    }

    /// Counts an offence.
    pub(crate) fn note(&self, address: IpAddr, now: Instant) {
        let mut records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        if records.len() >= MOST {
            records.retain(|_, record| record.until > now);
            if records.len() >= MOST {
                return;
            }
        }
        let record = records.entry(address).or_insert(Record { until: now, offences: 0 });
        if record.until <= now {
            *record = Record { until: now + MINUTE, offences: 0 };
        }
        record.offences += 1;
        if record.offences == self.limit.saturating_add(1) {
            record.until = now + MINUTE;
        }
    }

    /// Whether connections from this address are refused now.
    pub(crate) fn refuses(&self, address: IpAddr, now: Instant) -> bool {
        let records = self.records.lock().unwrap_or_else(PoisonError::into_inner);
        let record = records.get(&address);
        record.is_some_and(|record| record.offences > self.limit && record.until > now)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn offences_are_forgiven_after_a_minute() {
        let offenders = Offenders::new(2);
        let [bad, good] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::BROADCAST)];
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        offenders.note(bad, at(0));
        offenders.note(bad, at(1));
        // The minute of the first two is over.
        offenders.note(bad, at(61));
        offenders.note(bad, at(62));
        assert!(!offenders.refuses(bad, at(63)));
        offenders.note(bad, at(63));
        assert!(offenders.refuses(bad, at(122)));
        assert!(!offenders.refuses(good, at(122)));
        assert!(!offenders.refuses(bad, at(123)));
        offenders.note(bad, at(124));
        assert!(!offenders.refuses(bad, at(124)));
    }
}
