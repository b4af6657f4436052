//! [`Counters`]: numbers that ranks of a node share, each in a cache line of its own, and an event
//! to wait on.
//!
//! A rank that writes its own number does not take the lines of others from them, so counting costs
//! a rank very little until another rank reads the counters.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{EventCount, Section};

/// Bytes that cores hand to each other at a time.
pub const CACHE_LINE: usize = 64;

/// Numbers in shared memory; zero at first.
#[derive(Clone, Debug)]
pub struct Counters {
    section: Section,
    count: usize,
}

#[repr(C, align(64))]
struct CacheLine<T>(T);

impl Counters {
    /// Bytes of memory that so many numbers take.
    pub const fn bytes(count: usize) -> usize {
        (count + 1) * CACHE_LINE
    }

    /// In a section of at least [`Counters::bytes`] zeroed bytes.
    ///
    /// # Panics
    ///
    /// If the section is too short.
    pub fn new(section: Section, count: usize) -> Self {
        assert!(section.len() >= Self::bytes(count), "the counters fit their memory");
        Self { section, count }
    }

    /// The event of these numbers: a rank that changes what others wait for notifies it.
    pub fn event(&self) -> &EventCount {
        // SAFETY: the first line of the section, which is aligned to a line, and used as an event
        // only.
        unsafe { &self.section.as_ptr().cast::<CacheLine<EventCount>>().as_ref().0 }
    }

    /// A number.
    pub fn get(&self, index: usize) -> &AtomicU64 {
        &self.lines()[index].0
    }

    /// All numbers.
    pub fn iter(&self) -> impl Iterator<Item = &AtomicU64> {
        self.lines().iter().map(|line| &line.0)
    }

    fn lines(&self) -> &[CacheLine<AtomicU64>] {
        // SAFETY: the lines behind the first; inside of the section, aligned, and used as atomics
        // only.
        unsafe {
            let first = self.section.as_ptr().cast::<CacheLine<AtomicU64>>().add(1);
            std::slice::from_raw_parts(first.as_ptr(), self.count)
        }
    }

    /// Makes all numbers zero, while no rank uses them.
    pub fn reset(&self) {
        self.iter().for_each(|number| number.store(0, Ordering::SeqCst));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_their_numbers() {
        let memory = crate::alone().node_memory(Counters::bytes(3) + 128).unwrap().unwrap();
        let counters = Counters::new(memory.section(128, Counters::bytes(3)), 3);
        let other = counters.clone();
        counters.get(2).fetch_add(5, Ordering::SeqCst);
        counters.event().notify();
        assert_eq!(other.get(2).load(Ordering::SeqCst), 5);
        assert_eq!(other.event().changes(), 1);
        other.reset();
        assert!(counters.iter().all(|number| number.load(Ordering::SeqCst) == 0));
    }
}
