//! What a replay needs of memory does not grow with the number of calls.
//!
//! 60,000 by default; `STRIATE_CALLS=10000000` makes it ten millions.
#![expect(clippy::unwrap_used, reason = "a test may panic")]
#![allow(dead_code, missing_docs, unreachable_pub, reason = "modules of tests are shared")]

mod support;

use striate_recording::Recording;
use striate_replay::{Options, ReplayTarget, StoreAt, Timing, VectorMethod, replay};
use striate_testing::peak_memory::{PeakAllocator, peak_of};

#[global_allocator]
static ALLOCATOR: PeakAllocator = PeakAllocator;

/// Calls that are planned ahead, and tables.
const BOUND: usize = 48 << 20;

#[test]
fn many_calls_take_bounded_memory() {
    let calls: u64 = std::env::var("STRIATE_CALLS").map_or(60_000, |calls| calls.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("many.trace");
    support::write_many(&path, calls);
    let recording = Recording::open(&path).unwrap();
    let roots = ["first", "second"].map(|name| directory.path().join(name));
    let [first, second] = roots.map(ReplayTarget::Directory);
    let store = ReplayTarget::Store { at: StoreAt::Memory, method: VectorMethod::List };
    for (onto, timing) in
        [(store, Timing::AsFast), (first, Timing::AsFast), (second, Timing::Think)]
    {
        let options = Options { onto, timing, ..Options::default() };
        let (outcome, most) = peak_of(|| replay(&recording, &options).unwrap());
        println!(
            "{timing:?}: {most} bytes allocated at most, {} ns a call",
            outcome.time_passed / calls
        );
        assert_eq!((outcome.differences_count(), outcome.records), (0, calls + 8));
        assert!(most < BOUND, "{timing:?}: {most} bytes allocated");
    }
}
