//! A clock that is cheap to read: ticks of the processor's time stamp counter.
//!
//! Reading the kernel's clock takes longer than recording many a call. So times are ticks of the
//! counter where it runs at one rate on all cores, and nanoseconds otherwise. A [`Moment`] is a
//! point in time by both clocks; two moments give the length of a tick.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, Ordering};

/// What [`now`] counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Source {
    /// Nanoseconds of the monotonic clock.
    Monotonic = 1,
    /// Ticks of the processor's time stamp counter.
    Counter = 2,
}

static SOURCE: AtomicU8 = AtomicU8::new(0);

/// What [`now`] counts in this process.
#[inline]
pub fn source() -> Source {
    match SOURCE.load(Ordering::Relaxed) {
        2 => Source::Counter,
        1 => Source::Monotonic,
        _ => choose(),
    }
}

#[cold]
fn choose() -> Source {
    let source = if counter_is_constant() { Source::Counter } else { Source::Monotonic };
    SOURCE.store(source as u8, Ordering::Relaxed);
    source
}

#[cfg(target_arch = "x86_64")]
fn counter_is_constant() -> bool {
    use std::arch::x86_64::__cpuid;
    __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx >> 8 & 1 == 1
}

#[cfg(not(target_arch = "x86_64"))]
fn counter_is_constant() -> bool {
    false
}

/// The time in ticks, whose length is not said.
#[inline]
pub fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if source() == Source::Counter {
        // SAFETY: every x86-64 has the instruction, and systems that forbid it to programs say that
        // the counter is not constant.
        return unsafe { std::arch::x86_64::_rdtsc() };
    }
    monotonic()
}

/// Nanoseconds of the monotonic clock.
pub fn monotonic() -> u64 {
    ask(libc::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970.
pub fn wall() -> u64 {
    ask(libc::CLOCK_REALTIME)
}

/// By the C library, which knows how to ask even where the kernel's own page for that is hidden
/// (Valgrind).
fn ask(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: there is room for the time. It cannot fail for these clocks.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// One point in time by both clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moment {
    /// As [`now`] counts.
    pub ticks: u64,
    /// As [`monotonic`] counts.
    pub nanoseconds: u64,
}

impl Moment {
    /// This moment.
    pub fn now() -> Self {
        if source() == Source::Monotonic {
            let nanoseconds = monotonic();
            return Self { ticks: nanoseconds, nanoseconds };
        }
        let before = now();
        let nanoseconds = monotonic();
        let after = now();
        Self { ticks: before + after.wrapping_sub(before) / 2, nanoseconds }
    }

    /// How many nanoseconds a tick lasts, by this and a later moment; 1 if they are the same.
    pub fn nanoseconds_per_tick(self, later: Self) -> f64 {
        let ticks = later.ticks.wrapping_sub(self.ticks);
        let nanoseconds = later.nanoseconds.wrapping_sub(self.nanoseconds);
        if ticks == 0 || nanoseconds == 0 { 1.0 } else { nanoseconds as f64 / ticks as f64 }
    }
}

/// How many ticks there are in a second, roughly: for intervals that need not be exact.
pub fn ticks_per_second() -> u64 {
    static RATE: OnceLock<u64> = OnceLock::new();
    *RATE.get_or_init(|| {
        if source() == Source::Monotonic {
            return 1_000_000_000;
        }
        let start = Moment::now();
        loop {
            let later = Moment::now();
            if later.nanoseconds.wrapping_sub(start.nanoseconds) >= 20_000 {
                return (1e9 / start.nanoseconds_per_tick(later)) as u64;
            }
            std::hint::spin_loop();
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_clocks_go_forward_together() {
        let first = Moment::now();
        let mut last = first;
        while last.nanoseconds - first.nanoseconds < 100_000 {
            let next = Moment::now();
            assert!(next.ticks >= last.ticks && next.nanoseconds >= last.nanoseconds);
            last = next;
        }
        assert!(last.ticks > first.ticks);
        assert!(first.nanoseconds_per_tick(last) > 0.0);
        assert!(ticks_per_second() > 0);
    }

    #[test]
    fn the_length_of_a_tick_follows_from_two_moments() {
        let a = Moment { ticks: 1000, nanoseconds: 500 };
        let b = Moment { ticks: 5000, nanoseconds: 1500 };
        assert!((a.nanoseconds_per_tick(b) - 0.25).abs() < 1e-12);
        assert!((a.nanoseconds_per_tick(a) - 1.0).abs() < 1e-12);
    }
}
