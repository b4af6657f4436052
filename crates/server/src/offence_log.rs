//! [`OffenceLog`]: which bad frames and failed handshakes are written to the log.
//!
//! Neither guessing of keys nor a broken client may fill the log, nor hide what comes from other
//! addresses. Nothing is refused for it: honest clients may share the address of an offender.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What offences are counted in.
const MINUTE: Duration = Duration::from_secs(60);

/// Addresses that are remembered; those beyond are not in the log.
const MOST: usize = 10_000;

/// Counts what each address has in the log.
#[derive(Debug)]
pub(crate) struct OffenceLog {
    limit: u32,
    counts: Mutex<HashMap<IpAddr, CountOfMinute>>,
}

#[derive(Debug)]
struct CountOfMinute {
    ends: Instant,
    offences: u32,
}

impl OffenceLog {
    /// Up to `limit` offences of an address in a minute are logged.
    pub(crate) fn new(limit: u32) -> Self {
        Self { limit, counts: Mutex::default() }
    }

    /// Counts an offence; returns whether it is to be logged.
    pub(crate) fn allows(&self, address: IpAddr, now: Instant) -> bool {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= MOST && !counts.contains_key(&address) {
            counts.retain(|_, count| count.ends > now);
            if counts.len() >= MOST {
                return false;
            }
        }
        let count = counts.entry(address).or_insert(CountOfMinute { ends: now, offences: 0 });
        if count.ends <= now {
            *count = CountOfMinute { ends: now + MINUTE, offences: 0 };
        }
        count.offences = count.offences.saturating_add(1);
        count.offences <= self.limit
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    #[test]
    fn an_address_has_so_many_lines_in_a_minute() {
        let log = OffenceLog::new(2);
        let [bad, good] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V4(Ipv4Addr::BROADCAST)];
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(log.allows(bad, at(0)) && log.allows(bad, at(1)));
        assert!(!log.allows(bad, at(59)));
        assert!(log.allows(good, at(59)));
        assert!(log.allows(bad, at(60)) && log.allows(bad, at(61)) && !log.allows(bad, at(62)));
    }

    #[test]
    fn memory_for_addresses_is_limited() {
        let log = OffenceLog::new(1);
        let start = Instant::now();
        let address = |i: u32| IpAddr::V4(Ipv4Addr::from(i));
        assert!((0..MOST as u32).all(|i| log.allows(address(i), start)));
        assert!(!log.allows(address(u32::MAX), start));
        assert!(log.allows(address(u32::MAX), start + MINUTE));
    }
}
