//! What calls teach: how far the estimate for each method was off.
//!
//! Estimates are off in ways that depend on the access, so experience is kept by the size of its pieces.
//! A size that was not met before starts with what all others taught. Methods that were not tried with
//! a size are taken for as far off as those that were, and in a somewhat better light, so that each that
//! comes close gets its chance.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use striate_layout::characteristics::Method;
use striate_store::store::Store;

use crate::cost::{Costs, ask_servers, recall, try_out};

const METHODS: usize = Method::ALL.len();

/// Sizes of pieces that are told apart, as powers of two.
const SIZES: usize = 24;

/// How much one call moves the correction of its method: the first ones, later ones down, and up. What
/// disturbs a call only ever makes it slower, so good news is believed sooner.
const LEARNING: (f64, f64, f64) = (0.5, 0.4, 0.2);

/// Calls that count as the first ones.
const FIRST: u32 = 2;

/// How much the corrections of the other methods fade with each call, so that who was judged badly once
/// is tried again some day.
const FORGETTING: f64 = 0.003;

/// What a method without experience is taken for where others have some.
const OPTIMISM: f64 = 0.8;

/// A size of pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PieceSize(usize);

impl PieceSize {
    /// Of an access of so many bytes in so many pieces.
    pub(crate) fn of(bytes: u64, pieces: u64) -> Self {
        let mean = (bytes / pieces.max(1)).max(1);
        Self((mean.ilog2() as usize).min(SIZES - 1))
    }
}

/// Corrections of the methods, in the order of [`Method::ALL`], and the calls they come from.
#[derive(Clone, Copy, Debug, PartialEq)]
struct MethodCorrections {
    corrections: [f64; METHODS],
    calls: [u32; METHODS],
}

impl Default for MethodCorrections {
    fn default() -> Self {
        Self { corrections: [1.0; METHODS], calls: [0; METHODS] }
    }
}

impl MethodCorrections {
    fn learn(&mut self, index: usize, right: f64) {
        let is_first = self.calls[index] < FIRST;
        self.calls[index] = self.calls[index].saturating_add(1);
        for (i, correction) in self.corrections.iter_mut().enumerate() {
            let (right, weight) = match (i == index, is_first) {
                (false, _) => (1.0, FORGETTING),
                (true, true) => (right, LEARNING.0),
                (true, false) if right < *correction => (right, LEARNING.1),
                (true, false) => (right, LEARNING.2),
            };
            *correction += (right - *correction) * weight;
        }
    }

    /// The corrections, those without experience derived from `before`, what was thought without any of
    /// these lessons: estimates that were off for some methods are off as much for the others, since the
    /// machine is busy, or its ranks are more than its cores.
    fn complete(&self, before: [f64; METHODS], optimism: f64) -> [f64; METHODS] {
        let tried = || (0..METHODS).filter(|&i| self.calls[i] > 0);
        let count = tried().count();
        if count == 0 {
            return before;
        }
        let off: f64 = tried().map(|i| self.corrections[i] / before[i]).sum::<f64>() / count as f64;
        std::array::from_fn(|i| match self.calls[i] {
            0 => before[i] * off * optimism,
            _ => self.corrections[i],
        })
    }
}

/// What reads or writes taught.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DirectionCorrections {
    all: MethodCorrections,
    by_size: [MethodCorrections; SIZES],
}

/// What is known at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CostTable {
    costs: Costs,
    /// Reads and writes.
    directions: [DirectionCorrections; 2],
}

impl CostTable {
    /// Costs, without experience.
    pub(crate) fn new(costs: Costs) -> Self {
        Self { costs, ..Self::default() }
    }

    /// The costs without experience.
    pub(crate) const fn plain(&self) -> Costs {
        self.costs
    }

    /// The costs, as far as they are known.
    pub(crate) fn costs(&self, write: bool, size: PieceSize) -> Costs {
        self.costs_with(write, size, 1.0)
    }

    /// The costs, methods without experience in a good light: for those who learn from the outcome.
    pub(crate) fn hopeful_costs(&self, write: bool, size: PieceSize) -> Costs {
        self.costs_with(write, size, OPTIMISM)
    }

    fn costs_with(&self, write: bool, size: PieceSize, optimism: f64) -> Costs {
        let direction = &self.directions[usize::from(write)];
        let all = direction.all.complete(self.costs.corrections, optimism);
        let corrections = direction.by_size[size.0].complete(all, optimism);
        Costs { corrections, ..self.costs }
    }
}

/// What is known about the costs of a device. Clones share what they learn.
#[derive(Clone, Debug, Default)]
pub struct CostModel(Arc<Mutex<CostTable>>);

impl CostModel {
    /// The costs of the device that `directory` is on, tried once per process, and not if they were lately.
    pub fn measure(directory: &Path) -> Self {
        static DEVICES: OnceLock<Mutex<HashMap<u64, CostModel>>> = OnceLock::new();
        let Ok(metadata) = directory.metadata() else { return Self::default() };
        let devices = DEVICES.get_or_init(Mutex::default);
        let mut devices = devices.lock().unwrap_or_else(PoisonError::into_inner);
        let model = devices.entry(metadata.dev()).or_insert_with(|| {
            let costs = recall(metadata.dev(), || try_out(directory));
            Self(Arc::new(Mutex::new(CostTable { costs, ..CostTable::default() })))
        });
        model.clone()
    }

    /// The costs of I/O servers, tried once per process: what a request takes there and back.
    pub(crate) fn measure_servers(address: &str, store: &dyn Store) -> Self {
        static SERVERS: OnceLock<Mutex<HashMap<String, CostModel>>> = OnceLock::new();
        let servers = SERVERS.get_or_init(Mutex::default);
        let mut servers = servers.lock().unwrap_or_else(PoisonError::into_inner);
        let model = servers.entry(address.to_owned()).or_insert_with(|| {
            let known = CostTable { costs: ask_servers(store), ..CostTable::default() };
            Self(Arc::new(Mutex::new(known)))
        });
        model.clone()
    }

    /// What is known now.
    pub(crate) fn known(&self) -> CostTable {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Corrects the estimate for `method` by what a call really took.
    pub(crate) fn learn(
        &self,
        write: bool,
        size: PieceSize,
        method: Method,
        estimate: f64,
        took: f64,
    ) {
        if !(estimate > 0.0 && estimate.is_finite() && took > 0.0) {
            return;
        }
        let Some(index) = Method::ALL.iter().position(|&known| known == method) else { return };
        let right = (took / estimate).clamp(0.1, 10.0);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let direction = &mut known.directions[usize::from(write)];
        direction.all.learn(index, right);
        direction.by_size[size.0].learn(index, right);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_correct_the_estimate_of_their_method() {
        let model = CostModel::default();
        let (size, other) = (PieceSize::of(4096, 1), PieceSize::of(64, 1));
        for _ in 0..100 {
            model.learn(true, size, Method::Sieve, 0.5, 1.0);
        }
        let known = model.known();
        let correction = |costs: Costs, method| costs.correction(method);
        assert!((correction(known.costs(true, size), Method::Sieve) - 2.0).abs() < 0.01);
        // Other sizes start from there; who has no experience is taken for as far off as the others.
        assert!((correction(known.costs(true, other), Method::Sieve) - 2.0).abs() < 0.01);
        assert!((correction(known.costs(true, size), Method::Posix) - 2.0).abs() < 0.01);
        assert!(correction(known.hopeful_costs(true, size), Method::Posix) < 1.7);
        assert_eq!(known.costs(false, size), Costs::default());
        // One size does not spoil what another taught.
        for _ in 0..100 {
            model.learn(true, other, Method::Sieve, 0.5, 4.0);
        }
        assert!((correction(model.known().costs(true, size), Method::Sieve) - 2.0).abs() < 0.01);
        // What cannot be is not learned from.
        let before = model.known();
        model.learn(true, size, Method::Posix, 0.0, 1.0);
        model.learn(true, size, Method::Posix, f64::INFINITY, 1.0);
        assert_eq!(model.known(), before);
    }
}
