//! [`Streams`]: classifies transfers as sequential, strided or random.
//!
//! A few streams are followed at a time in each open file, since threads and programs that merge or
//! transpose read at several offsets in turn.

/// How a transfer follows those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AccessOrder {
    /// It is the first.
    First,
    /// It goes on where one before ended.
    Sequential,
    /// It is as far from the one before as that was from its predecessor: by this many bytes.
    Strided(u64),
    /// It follows nothing.
    Random,
}

#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    offset: u64,
    end: u64,
    stride: i64,
    /// When it was used last; 0 if never.
    used: u32,
}

/// The last few streams of transfers in one direction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Streams {
    streams: [Stream; 4],
    clock: u32,
}

impl Streams {
    /// The next transfer.
    pub(crate) fn next(&mut self, offset: u64, length: u64) -> AccessOrder {
        let first = self.clock == 0;
        self.clock = self.clock.saturating_add(1);
        let used = |stream: &&mut Stream| stream.used > 0;
        let distance = |stream: &Stream| (offset as i64).wrapping_sub(stream.offset as i64);
        let clock = self.clock;
        let go_on = |stream: &mut Stream| {
            let stride = distance(stream);
            *stream = Stream { offset, end: offset.saturating_add(length), stride, used: clock };
        };
        if let Some(stream) =
            self.streams.iter_mut().filter(used).find(|stream| stream.end == offset)
        {
            go_on(stream);
            return AccessOrder::Sequential;
        }
        let strided =
            |stream: &&mut Stream| stream.stride != 0 && distance(stream) == stream.stride;
        if let Some(stream) = self.streams.iter_mut().filter(used).find(strided) {
            go_on(stream);
            return AccessOrder::Strided(stream.stride.unsigned_abs());
        }
        // Somewhere else: the second transfer of a stride, perhaps, so the latest stream goes on
        // with it if it has none yet; otherwise the stream that was used longest ago
        // becomes another one.
        let latest = self.streams.iter_mut().max_by_key(|stream| stream.used);
        match latest {
            Some(stream) if stream.used > 0 && stream.stride == 0 => go_on(stream),
            _ => {
                if let Some(stream) = self.streams.iter_mut().min_by_key(|stream| stream.used) {
                    let end = offset.saturating_add(length);
                    *stream = Stream { offset, end, stride: 0, used: clock };
                }
            }
        }
        if first { AccessOrder::First } else { AccessOrder::Random }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn follow(transfers: &[(u64, u64)]) -> Vec<AccessOrder> {
        let mut streams = Streams::default();
        transfers.iter().map(|(offset, length)| streams.next(*offset, *length)).collect()
    }

    #[test]
    fn what_follows_is_recognised() {
        use AccessOrder::{First, Random, Sequential, Strided};
        assert_eq!(follow(&[(0, 10), (10, 5), (15, 1)]), [First, Sequential, Sequential]);
        assert_eq!(
            follow(&[(0, 10), (100, 10), (200, 10), (300, 10)]),
            [First, Random, Strided(100), Strided(100)]
        );
        assert_eq!(follow(&[(300, 10), (200, 10), (100, 10)]), [First, Random, Strided(100)]);
        // Two that alternate.
        let two: Vec<_> = (0..20).map(|n| ((n % 2) * 10_000 + n / 2 * 10, 10)).collect();
        assert!(
            follow(&two)[3..].iter().all(|follows| *follows == Sequential),
            "{:?}",
            follow(&two)
        );
    }

    #[test]
    fn nothing_follows_in_noise() {
        let mut state = 1u64;
        let mut random = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state >> 24
        };
        let noise: Vec<_> = (0..1000).map(|_| (random(), 8)).collect();
        let random =
            follow(&noise).iter().filter(|follows| **follows == AccessOrder::Random).count();
        assert!(random > 990, "{random}");
    }
}
