//! [`WindowedMerge`]: a k-way merge of runs that are nearly in order.
//!
//! The records of a shard are in the order in which calls ended, so a long call comes after shorter
//! ones of other threads that began later. For each run that is being read a window of items is
//! kept; the item with the smallest key of all windows comes next. Only an item with more than a
//! window of larger keys before it in its run comes late. A run is begun when the time of its first
//! item has come and dropped at its end, so memory is bounded by the number of runs that are active
//! at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Debug;

use striate_trace::Damage;

use crate::recording::ProcessIndex;

/// The items of one source, nearly in the order of their keys.
pub(crate) trait Run: Debug {
    /// What it consists of.
    type Item: Debug;

    /// The next item with its key. Nothing is read after damage.
    fn next(&mut self) -> Option<Result<(u64, Self::Item), Damage>>;
}

/// See the module. `P` is what a run is begun with.
#[derive(Debug)]
pub(crate) struct WindowedMerge<P, R: Run> {
    window: usize,
    /// Runs by the key of their next item, or by that of their first one if they are not begun.
    next: BinaryHeap<Reverse<(u64, usize)>>,
    runs: Vec<(ProcessIndex, RunState<P, R>)>,
    damages: Vec<(ProcessIndex, Damage)>,
}

/// How far a run is.
#[derive(Debug)]
enum RunState<P, R: Run> {
    Waiting(P),
    Begun(Box<Window<R>>),
    Ended,
}

/// The next items of a run.
#[derive(Debug)]
struct Window<R: Run> {
    run: Option<R>,
    queue: BinaryHeap<Reverse<Queued<R::Item>>>,
    sequence: u64,
}

/// An item in a window.
#[derive(Debug)]
struct Queued<T> {
    key: u64,
    sequence: u64,
    item: T,
}

impl<T> Ord for Queued<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.key, self.sequence).cmp(&(other.key, other.sequence))
    }
}

impl<T> PartialOrd for Queued<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Queued<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Queued<T> {}

impl<R: Run> Window<R> {
    fn fill(&mut self, window: usize) -> Result<(), Damage> {
        while self.queue.len() < window
            && let Some(run) = &mut self.run
        {
            match run.next() {
                Some(Ok((key, item))) => {
                    self.queue.push(Reverse(Queued { key, sequence: self.sequence, item }));
                    self.sequence += 1;
                }
                None => self.run = None,
                Some(Err(damage)) => {
                    self.run = None;
                    return Err(damage);
                }
            }
        }
        Ok(())
    }
}

impl<P, R: Run> WindowedMerge<P, R> {
    /// One that looks at so many items of a run before it hands out the first of them.
    pub(crate) const fn new(window: usize) -> Self {
        Self { window, next: BinaryHeap::new(), runs: Vec::new(), damages: Vec::new() }
    }

    /// Adds a run of a process, whose first key is known.
    pub(crate) fn add(&mut self, process: ProcessIndex, first: u64, pending: P) {
        self.next.push(Reverse((first, self.runs.len())));
        self.runs.push((process, RunState::Waiting(pending)));
    }

    /// What could not be read, as far as this went.
    pub(crate) fn damages(&self) -> &[(ProcessIndex, Damage)] {
        &self.damages
    }

    /// The item with the smallest key. `begin` opens a run whose time has come.
    pub(crate) fn next(
        &mut self,
        begin: impl Fn(ProcessIndex, P) -> R,
    ) -> Option<(ProcessIndex, R::Item)> {
        loop {
            let Reverse((_, place)) = self.next.pop()?;
            let (process, state) = &mut self.runs[place];
            let process = *process;
            let taken = match std::mem::replace(state, RunState::Ended) {
                RunState::Waiting(pending) => {
                    let (run, queue) = (Some(begin(process, pending)), BinaryHeap::new());
                    *state = RunState::Begun(Box::new(Window { run, queue, sequence: 0 }));
                    None
                }
                RunState::Begun(mut window) => {
                    let taken = window.queue.pop();
                    *state = RunState::Begun(window);
                    taken
                }
                RunState::Ended => None,
            };
            self.refill(place);
            if let Some(Reverse(queued)) = taken {
                return Some((process, queued.item));
            }
        }
    }

    /// Fills the window of a run, and notes the key of its next item.
    fn refill(&mut self, place: usize) {
        let (process, state) = &mut self.runs[place];
        let RunState::Begun(window) = state else { return };
        if let Err(damage) = window.fill(self.window) {
            self.damages.push((*process, damage));
        }
        match window.queue.peek() {
            Some(Reverse(first)) => self.next.push(Reverse((first.key, place))),
            None => *state = RunState::Ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Keys in the order in which they are read, then damage if there is some.
    #[derive(Debug)]
    struct Keys(std::vec::IntoIter<u64>, Option<Damage>);

    impl Run for Keys {
        type Item = u64;

        fn next(&mut self) -> Option<Result<(u64, u64), Damage>> {
            match self.0.next() {
                Some(key) => Some(Ok((key, key))),
                None => self.1.take().map(Err),
            }
        }
    }

    proptest! {
        #[test]
        fn runs_that_are_nearly_in_order_come_in_order(
            runs in prop::collection::vec(prop::collection::vec(0..1000u64, 1..40), 0..8),
            damaged in 0..9usize,
        ) {
            let mut merge = WindowedMerge::new(4);
            let mut all = Vec::new();
            for (place, mut keys) in runs.into_iter().enumerate() {
                keys.sort_unstable();
                all.extend(keys.iter().copied());
                let first = keys[0];
                // No key is more than three places late.
                keys.chunks_mut(4).for_each(<[u64]>::reverse);
                let damage = (place == damaged).then(|| Damage { offset: 7, reason: "cut".into() });
                merge.add(place, first, (keys, damage));
            }
            all.sort_unstable();
            let begin = |_, (keys, damage): (Vec<u64>, _)| Keys(keys.into_iter(), damage);
            let count = all.len();
            let merged: Vec<u64> =
                std::iter::from_fn(|| merge.next(begin)).take(count + 1).map(|(_, key)| key).collect();
            prop_assert_eq!(merged, all);
            let damages: Vec<_> = merge.damages().iter().map(|(process, _)| *process).collect();
            prop_assert!(damages.iter().all(|process| *process == damaged));
        }
    }
}
