//! [`Trail`]: what a rank writes in collective calls for which nobody meets, so that later calls win.
//!
//! Where ranks write together without meeting, one of them may be some calls ahead of another. If the late one came to
//! bytes that a later call has written, and wrote over them, the file would hold what no order of calls leaves there. So
//! each rank announces its bytes before it writes them, one after the other under a lock. Who finds that a later call of
//! another rank has announced some of his bytes leaves them out; who finds that an earlier call is still writing some of
//! his waits for it. He waits for those only who announced before him, so nobody waits in a circle.

use std::ops::Range;

/// Calls by which a rank may be ahead.
pub(crate) const CALLS: usize = 64;

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Entry {
    call: u64,
    start: u64,
    end: u64,
}

impl Entry {
    const fn overlaps(&self, range: &Range<u64>) -> bool {
        self.start < range.end && range.start < self.end
    }
}

/// What a rank has announced; zero at first, as fresh memory is.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Trail {
    /// The last call it has announced.
    call: u64,
    /// 1 until it has written that.
    is_writing: u64,
    entries: [Entry; CALLS],
}

/// What there is to heed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Heed {
    /// Bytes that later calls have written or will write.
    pub(super) taken: Vec<Range<u64>>,
    /// Ranks to wait for, and the calls in which they write.
    pub(super) writing: Vec<(usize, u64)>,
}

impl Trail {
    /// Whether it has done with this call.
    pub(super) const fn has_done(&self, call: u64) -> bool {
        self.call > call || self.call == call && self.is_writing == 0
    }

    pub(super) const fn finish(&mut self) {
        self.is_writing = 0;
    }
}

/// Announces what `rank` writes in `call`, which is one more than its last one.
pub(super) fn announce(trails: &mut [Trail], rank: usize, call: u64, range: Range<u64>) -> Heed {
    let mine = &mut trails[rank];
    (mine.call, mine.is_writing) = (call, 1);
    let slot = |call: u64| (call % CALLS as u64) as usize;
    mine.entries[slot(call)] = Entry { call, start: range.start, end: range.end };
    let mut heed = Heed::default();
    for (other, trail) in trails.iter().enumerate().filter(|(other, _)| *other != rank) {
        for later in call + 1..=trail.call {
            let entry = &trail.entries[slot(later)];
            if entry.call == later && entry.overlaps(&range) {
                heed.taken.push(entry.start..entry.end);
            }
        }
        let last = &trail.entries[slot(trail.call)];
        if trail.call < call && trail.is_writing != 0 && last.overlaps(&range) {
            heed.writing.push((other, trail.call));
        }
    }
    heed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_calls_are_left_out_and_earlier_ones_waited_for() {
        let mut trails = [Trail { call: 0, is_writing: 0, entries: [Entry::default(); CALLS] }; 3];
        assert_eq!(announce(&mut trails, 0, 1, 0..10), Heed::default());
        trails[0].finish();
        assert_eq!(announce(&mut trails, 0, 2, 5..15), Heed::default());
        // Rank 0 is still writing, but in a later call.
        let late = announce(&mut trails, 1, 1, 0..20);
        assert_eq!((late.taken.len(), &late.taken[0], late.writing.len()), (1, &(5..15), 0));
        // Of the same call, nobody is first; of an earlier one, rank 1 is under way.
        let writing = vec![(1, 1)];
        assert_eq!(announce(&mut trails, 2, 2, 0..20), Heed { taken: vec![], writing });
        assert!(trails[0].has_done(1) && !trails[0].has_done(2) && !trails[1].has_done(1));
        trails[1].finish();
        assert!(trails[1].has_done(1));
        // What does not overlap is nobody's business, nor is a call without bytes.
        assert_eq!(announce(&mut trails, 1, 2, 20..30), Heed::default());
        trails[1].finish();
        assert_eq!(announce(&mut trails, 1, 3, 0..0), Heed::default());
    }
}
