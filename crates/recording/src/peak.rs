//! [`PeakRates`]: the highest rates of a recording, in bytes read and written per second.
//!
//! The main type is [`PeakMeter`], which takes records in any order. The recording is divided into
//! windows of one second from time 0 on; the bytes of a call are spread evenly over the time that
//! the call took, and the peak is the window with the most bytes, for each direction by itself. A
//! recording of more than [`MOST_WINDOWS`] seconds has longer windows (a power of two of seconds),
//! so that memory is bounded and the result depends neither on the order of the records nor on how
//! the recording is stored.

use serde::{Deserialize, Serialize};
use striate_trace::Record;

use crate::figures::{MovedBytes, moved};

/// Nanoseconds of a window.
pub const WINDOW: u64 = 1_000_000_000;
/// Windows of a recording at most.
pub const MOST_WINDOWS: u64 = 1 << 16;

/// The highest rates within a window, in bytes per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakRates {
    /// The length of a window: [`WINDOW`], unless the recording is very long.
    pub window_ns: u64,
    /// Out of files.
    pub read: u64,
    /// Into files.
    pub written: u64,
}

/// Adds up bytes by window.
#[derive(Clone, Debug)]
pub struct PeakMeter {
    window: u64,
    read: Windows,
    written: Windows,
}

/// Bytes of one direction.
#[derive(Clone, Debug)]
struct Windows {
    /// Bytes of each window, of calls that cover a part of it.
    partial: Vec<u128>,
    /// Bytes of calls that cover whole windows: how much more each window has of them than the one
    /// before. So a call costs the same however long it took.
    steps: Vec<i128>,
}

impl PeakMeter {
    /// For a recording of so many nanoseconds.
    pub fn new(length: u64) -> Self {
        let mut window = WINDOW;
        while length / window >= MOST_WINDOWS {
            window *= 2;
        }
        let windows = (length / window + 1) as usize;
        let none = Windows { partial: vec![0; windows], steps: vec![0; windows + 1] };
        Self { window, read: none.clone(), written: none }
    }

    /// Takes a record into account, with times of the recording.
    pub fn add(&mut self, record: &Record) {
        let MovedBytes { read, written } = moved(record);
        for (bytes, windows) in [(read, &mut self.read), (written, &mut self.written)] {
            if bytes > 0 {
                windows.spread(self.window, bytes, record.start, record.duration);
            }
        }
    }

    /// The highest rates of all that was added.
    pub fn rates(&self) -> PeakRates {
        let per_second = |windows: &Windows| {
            let rate = windows.most() * u128::from(WINDOW) / u128::from(self.window);
            u64::try_from(rate).unwrap_or(u64::MAX)
        };
        PeakRates {
            window_ns: self.window,
            read: per_second(&self.read),
            written: per_second(&self.written),
        }
    }
}

impl Windows {
    fn spread(&mut self, window: u64, bytes: u64, start: u64, duration: u64) {
        let most = self.partial.len() - 1;
        let place = |time: u64| usize::try_from(time / window).unwrap_or(most).min(most);
        let first = place(start);
        // The end itself is not a part of the call.
        let last = place(start.saturating_add(duration.saturating_sub(1)));
        if first == last {
            self.partial[first] += u128::from(bytes);
            return;
        }
        let share = |time: u64| u128::from(bytes) * u128::from(time) / u128::from(duration);
        let head = share(window - start % window);
        let whole = share(window);
        let windows = (last - first - 1) as u128;
        self.partial[first] += head;
        // With what rounding has lost.
        self.partial[last] += u128::from(bytes).saturating_sub(head + whole * windows);
        self.steps[first + 1] += whole.cast_signed();
        self.steps[last] -= whole.cast_signed();
    }

    fn most(&self) -> u128 {
        let mut whole = 0_i128;
        let sums = self.partial.iter().zip(&self.steps).map(|(partial, step)| {
            whole += step;
            partial + whole.cast_unsigned()
        });
        sums.max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::Arc;

    use proptest::prelude::*;
    use striate_trace::Function;
    use striate_trace::{Call, TracedFile};

    use super::*;

    const SECOND: u64 = WINDOW;

    fn call(writes: bool, start: u64, duration: u64, bytes: u64) -> Record {
        let path = PathBuf::from("/a");
        let file = Arc::new(TracedFile { opener: 1, number: 1, path, flags: libc::O_RDWR });
        let (placed, offset, length, flags, parts) = (false, None, bytes, 0, 1);
        let (function, call) = if writes {
            (Function::Write, Call::Write { file, placed, offset, length, flags, parts })
        } else {
            (Function::Read, Call::Read { file, placed, offset, length, flags, parts })
        };
        Record { function, thread: 1, start, duration, outcome: Ok(bytes), known: true, call }
    }

    fn rates(length: u64, records: &[Record]) -> PeakRates {
        let mut meter = PeakMeter::new(length);
        for record in records {
            meter.add(record);
        }
        meter.rates()
    }

    #[test]
    fn the_fullest_window_counts_for_each_direction() {
        let records = [
            call(true, 0, 10, 100),
            call(true, SECOND - 5, 4, 50),
            call(false, SECOND, 0, 70),
            call(true, SECOND, 1, 120),
        ];
        let peak = PeakRates { window_ns: SECOND, read: 70, written: 150 };
        assert_eq!(rates(SECOND + 1, &records), peak);
    }

    #[test]
    fn long_calls_are_spread_over_their_time() {
        let long = call(true, SECOND / 2, 10 * SECOND, 1000);
        assert_eq!(rates(10 * SECOND + SECOND / 2, &[long]).written, 100);
    }

    #[test]
    fn very_long_recordings_have_longer_windows() {
        let peak = rates(u64::MAX, &[call(false, u64::MAX - 10, 10, 1 << 40)]);
        assert!(u64::MAX / peak.window_ns < MOST_WINDOWS && peak.read > 0, "{peak:?}");
        let (length, bytes) = (MOST_WINDOWS * SECOND, 1000);
        let peak = rates(length, &[call(false, 5, 10, bytes)]);
        assert_eq!((peak.window_ns, peak.read), (2 * SECOND, bytes / 2));
    }

    proptest! {
        #[test]
        fn as_when_each_window_is_asked(
            calls in prop::collection::vec((0..50u64 * SECOND, 0..9u64 * SECOND, 0..1u64 << 40), 0..20)
        ) {
            let length = calls.iter().map(|call| call.0 + call.1).max().unwrap_or(0);
            let mut windows = vec![0_u64; 60];
            for (start, duration, bytes) in &calls {
                let end = start + duration;
                let (mut left, mut last) = (*bytes, (start / SECOND) as usize);
                for (place, sum) in windows.iter_mut().enumerate() {
                    let (from, until) = (place as u64 * SECOND, (place as u64 + 1) * SECOND);
                    let time = end.min(until).saturating_sub(from.max(*start));
                    if time > 0 {
                        let share = u128::from(*bytes) * u128::from(time) / u128::from(*duration);
                        (*sum, left, last) = (*sum + share as u64, left - share as u64, place);
                    }
                }
                windows[last] += left;
            }
            let records: Vec<_> =
                calls.iter().map(|(start, duration, bytes)| call(true, *start, *duration, *bytes)).collect();
            prop_assert_eq!(rates(length, &records).written, windows.into_iter().max().unwrap_or(0));
        }
    }
}
