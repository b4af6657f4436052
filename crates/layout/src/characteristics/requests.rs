//! [`requests`]: the number of requests that each method sends to the servers of a striped file.
//!
//! An operation is one request to every server that holds some of its bytes. Their number depends
//! on the offsets of each operation, so unlike the rest of the model this looks at each of them: at
//! every piece for POSIX and lists, at every window for sieving and two-phase. A described call
//! costs a few seeks per server.

use striate_datatype::{Cursor, Pieces};

use super::{
    Access, AccessError, Method, PIECES_PER_LIST_REQUEST, Settings, aggregate_domains,
    sieve_windows,
};
use crate::striping::{Share, Striping};

/// Numbers of requests to servers, for each method.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are the methods")]
pub struct RequestCounts {
    pub posix: u64,
    pub sieve: u64,
    pub two_phase: u64,
    pub list: u64,
    pub datatype: u64,
}

impl RequestCounts {
    /// The number of a method.
    pub const fn of(&self, method: Method) -> u64 {
        match method {
            Method::Posix => self.posix,
            Method::Sieve => self.sieve,
            Method::TwoPhase => self.two_phase,
            Method::List => self.list,
            Method::Datatype => self.datatype,
        }
    }
}

/// The data requests of a call in which client `i` does `accesses[i]`, summed over all clients.
/// Other requests of a method are not counted: locks, reads before a sieved write, transfers of
/// descriptions.
///
/// ```
/// use std::num::{NonZeroU32, NonZeroU64};
/// use striate_datatype::Datatype;
/// use striate_layout::characteristics::{Access, RequestCounts, Settings, requests};
/// use striate_layout::striping::Striping;
///
/// let (strip, servers) = (NonZeroU64::new(4096).unwrap(), NonZeroU32::new(4).unwrap());
/// // 128 pieces of 1 KiB: one in each strip of 32 stripes.
/// let rows: Datatype = "vector(128, 1KiB, stride=4KiB)".parse()?;
/// let access = Access::from_contiguous_memory(&rows, 1)?;
/// let requests = requests(&[access], &Settings::default(), Striping { strip, servers })?;
/// let expected = RequestCounts { posix: 128, sieve: 4, two_phase: 4, list: 2 * 4, datatype: 4 };
/// assert_eq!(requests, expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn requests(
    accesses: &[Access],
    settings: &Settings,
    striping: Striping,
) -> Result<RequestCounts, AccessError> {
    let (mut posix, mut sieve, mut list, mut datatype) = (0, 0, 0, 0);
    for access in accesses {
        let (by_piece, by_list) = piecewise(access, settings, striping)?;
        posix += by_piece;
        list += by_list;
        sieve_windows(access, settings.sieve_buffer, |window| {
            sieve += servers_of(striping, window.start, window.end - window.start);
        })?;
        datatype += servers(access, striping)?;
    }
    let (kind, buffer) = (settings.domains, settings.two_phase_buffer);
    let domains = aggregate_domains(accesses, kind, settings.aggregators, buffer);
    let mut two_phase = 0;
    for aggregator in 0..domains.aggregators() {
        for window in (0..).map_while(|i| domains.window(aggregator, i)) {
            let mut wanted = false;
            for access in accesses {
                wanted = wanted || access.wanted_within(&window)? > 0;
            }
            if wanted {
                two_phase += servers_of(striping, window.start, window.end - window.start);
            }
        }
    }
    Ok(RequestCounts { posix, sieve, two_phase, list, datatype })
}

/// Servers that hold bytes of an access.
pub fn servers(access: &Access, striping: Striping) -> Result<u64, AccessError> {
    let mut servers = 0;
    for server in 0..striping.servers.get() {
        let mut parts = Share::of(striping, server, &access.file, 0..access.wanted())?;
        servers += u64::from(parts.next().is_some());
    }
    Ok(servers)
}

/// Servers that hold bytes of a range.
fn servers_of(striping: Striping, offset: u64, len: u64) -> u64 {
    match len.checked_sub(1) {
        None => 0,
        Some(rest) => {
            let strips = (offset + rest) / striping.strip - offset / striping.strip + 1;
            strips.min(striping.servers.get().into())
        }
    }
}

/// Requests by pieces, and by lists of them.
fn piecewise(
    access: &Access,
    settings: &Settings,
    striping: Striping,
) -> Result<(u64, u64), AccessError> {
    let limit = settings.regions_per_list_request.get();
    let count = u64::from(striping.servers.get());
    // Servers of the list that is being made.
    let mut concerned = vec![false; count as usize];
    let (mut posix, mut list) = (0, 0);
    let (mut regions, mut pieces, mut end) = (0, 0, None);
    let memory = Cursor::new(&access.memory, 1)?;
    for piece in Pieces::new(memory, Cursor::new(&access.file, 1)?) {
        // Not negative: checked when the access was made.
        let offset = piece.file as u64;
        let servers = servers_of(striping, offset, piece.len);
        posix += servers;
        let new_region = end != Some(offset);
        if (new_region && regions == limit) || pieces == PIECES_PER_LIST_REQUEST {
            list += concerned.iter().filter(|server| **server).count() as u64;
            concerned.fill(false);
            (regions, pieces) = (0, 0);
        }
        regions += u64::from(new_region || pieces == 0);
        pieces += 1;
        end = Some(offset + piece.len);
        let first = offset / striping.strip;
        for strip in first..first + servers {
            concerned[(strip % count) as usize] = true;
        }
    }
    list += concerned.iter().filter(|server| **server).count() as u64;
    Ok((posix, list))
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use super::*;

    fn striping(strip: u64, servers: u32) -> Striping {
        let (strip, servers) = (NonZeroU64::new(strip), NonZeroU32::new(servers));
        Striping { strip: strip.unwrap(), servers: servers.unwrap() }
    }

    fn counted(file: &str, settings: &Settings, striping: Striping) -> [u64; 5] {
        let access = Access::from_contiguous_memory(&file.parse().unwrap(), 1).unwrap();
        let counts = requests(&[access], settings, striping).unwrap();
        Method::ALL.map(|method| counts.of(method))
    }

    #[test]
    fn every_server_concerned_is_asked_once_per_operation() {
        let settings = Settings {
            sieve_buffer: NonZeroU64::new(40).unwrap(),
            two_phase_buffer: NonZeroU64::new(40).unwrap(),
            regions_per_list_request: NonZeroU64::new(2).unwrap(),
            ..Settings::default()
        };
        // Strips of 10 over 3: 0..4 on 0; 15..19 on 1; 30..34 on 0; 45..49 on 1; 60..64 on 0.
        let all = counted("hvector(5, 4, stride=15)", &settings, striping(10, 3));
        assert_eq!(all, [5, 6, 6, 5, 2]);
        // One piece over all servers, longer than a stripe.
        assert_eq!(counted("bytes(35)", &settings, striping(10, 3)), [3; 5]);
        // A piece that crosses a border.
        assert_eq!(counted("bytes(11)", &settings, striping(10, 3)), [2; 5]);
        assert_eq!(counted("bytes(0)", &settings, striping(10, 3)), [0; 5]);
        assert_eq!(counted("bytes(1000)", &settings, striping(10, 1)), [1, 25, 25, 1, 1]);
    }
}
