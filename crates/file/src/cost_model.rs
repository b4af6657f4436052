//! [`CostModel`]: what requests cost on a device, and corrections of the estimates that rank 0
//! learns from calls.
//!
//! How wrong estimates are depends on the access, so corrections are kept by the size of its
//! pieces. A size that was not used before starts with the corrections of all sizes. A method that
//! was not tried with a size gets the mean correction of those that were, made a little smaller, so
//! that a method that comes close is tried.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use striate_layout::characteristics::Method;
use striate_store::store::Store;

use crate::Direction;
use crate::cost::{Costs, ask_objects, ask_servers, recall, try_out};
use crate::direction::PerDirection;
use crate::link_cost::LinkCost;

const METHODS: usize = Method::ALL.len();

/// Classes of piece sizes, as powers of two.
const SIZES: usize = 24;

/// How much one call moves the correction of its method, as a share of the difference. A
/// disturbance only ever makes a call slower, so a fast call has more weight.
struct LearningRates {
    /// In the first calls.
    first: f64,
    /// Later, if the call was faster than the corrected estimate, or slower.
    faster: f64,
    slower: f64,
    /// Calls that count as the first ones.
    first_calls: u32,
    /// How much the corrections of the other methods go back to 1 with each call, so that a method
    /// with a bad correction is tried again eventually.
    decay: f64,
}

const RATES: LearningRates =
    LearningRates { first: 0.5, faster: 0.4, slower: 0.2, first_calls: 2, decay: 0.003 };

/// Factor of the correction of a method that was not tried yet where others were.
const OPTIMISM: f64 = 0.8;

/// Factor of the correction of the method of the last call: another one must be better by more than
/// that, so that calls do not alternate between methods that cost about the same, or seem to.
const STEADINESS: f64 = 0.8;

/// The corrections that can be learned.
const CORRECTIONS: std::ops::Range<f64> = 0.05..100.0;

/// A class of piece sizes.
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
    /// The method of the last call.
    last: Option<usize>,
}

impl Default for MethodCorrections {
    fn default() -> Self {
        Self { corrections: [1.0; METHODS], calls: [0; METHODS], last: None }
    }
}

impl MethodCorrections {
    fn learn(&mut self, index: usize, right: f64) {
        let is_first = self.calls[index] < RATES.first_calls;
        self.calls[index] = self.calls[index].saturating_add(1);
        for (i, correction) in self.corrections.iter_mut().enumerate() {
            let (right, weight) = match (i == index, is_first) {
                (false, _) => (1.0, RATES.decay),
                (true, true) => (right, RATES.first),
                (true, false) if right < *correction => (right, RATES.faster),
                (true, false) => (right, RATES.slower),
            };
            *correction += (right - *correction) * weight;
        }
    }

    /// The corrections; those of methods that were not tried are derived from `before`, the
    /// corrections without these calls. Estimates that are wrong for some methods are assumed to be
    /// as wrong for the others, because the machine is busy, or has fewer cores than ranks.
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

/// Corrections of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct DirectionCorrections {
    all: MethodCorrections,
    by_size: [MethodCorrections; SIZES],
}

/// Measured costs, and the corrections so far.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CostTable {
    costs: Costs,
    corrections: PerDirection<DirectionCorrections>,
}

impl CostTable {
    /// Measured costs, without corrections.
    pub(crate) fn new(costs: Costs) -> Self {
        Self { costs, ..Self::default() }
    }

    /// The measured costs without corrections.
    pub(crate) const fn measured(&self) -> Costs {
        self.costs
    }

    /// The costs with corrections.
    pub(crate) fn costs(&self, direction: Direction, size: PieceSize) -> Costs {
        self.costs_with(direction, size, 1.0)
    }

    /// The costs with corrections, optimistic about methods that were not tried: for rank 0, which
    /// learns from the outcome.
    pub(crate) fn optimistic_costs(&self, direction: Direction, size: PieceSize) -> Costs {
        self.costs_with(direction, size, OPTIMISM)
    }

    fn costs_with(&self, direction: Direction, size: PieceSize, optimism: f64) -> Costs {
        let corrections = self.corrections.get(direction);
        let all = corrections.all.complete(self.costs.corrections, optimism);
        let of_size = &corrections.by_size[size.0];
        let mut corrections = of_size.complete(all, optimism);
        if let (Some(last), true) = (of_size.last, optimism < 1.0) {
            corrections[last] *= STEADINESS;
        }
        Costs { corrections, ..self.costs }
    }
}

/// The costs of a device, and what is learned about them. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CostModel(Arc<Mutex<CostTable>>);

impl CostModel {
    /// The costs of the device that `directory` is on; measured once per process, unless a recent
    /// measurement is cached.
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

    /// The costs of I/O servers, measured once per process: the round trip of a request.
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

    /// The costs of an object store, measured once per process: the round trip of a request.
    pub(crate) fn measure_objects(bucket: &str, store: &dyn Store) -> Self {
        static BUCKETS: OnceLock<Mutex<HashMap<String, CostModel>>> = OnceLock::new();
        let buckets = BUCKETS.get_or_init(Mutex::default);
        let mut buckets = buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let model = buckets.entry(bucket.to_owned()).or_insert_with(|| {
            let known = CostTable { costs: ask_objects(store), ..CostTable::default() };
            Self(Arc::new(Mutex::new(known)))
        });
        model.clone()
    }

    /// The costs and corrections now.
    pub(crate) fn table(&self) -> CostTable {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes this the model of ranks on several nodes, with what is learned about those apart from
    /// what ranks of fewer or more nodes learn.
    pub(crate) fn set_link(&mut self, nodes: usize, link: LinkCost) {
        static LINKED: OnceLock<Mutex<HashMap<(usize, usize), CostModel>>> = OnceLock::new();
        let linked = LINKED.get_or_init(Mutex::default);
        let mut linked = linked.lock().unwrap_or_else(PoisonError::into_inner);
        let model = linked.entry((Arc::as_ptr(&self.0) as usize, nodes)).or_insert_with(|| {
            let costs = self.table().costs.between_nodes(nodes, link);
            Self(Arc::new(Mutex::new(CostTable::new(costs))))
        });
        *self = model.clone();
    }

    /// Corrects the estimate of `method` by what a call took.
    pub(crate) fn learn(
        &self,
        direction: Direction,
        size: PieceSize,
        method: Method,
        estimate: f64,
        took: f64,
    ) {
        if !(estimate > 0.0 && estimate.is_finite() && took > 0.0) {
            return;
        }
        let Some(index) = Method::ALL.iter().position(|&known| known == method) else { return };
        let right = (took / estimate).clamp(CORRECTIONS.start, CORRECTIONS.end);
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let corrections = known.corrections.get_mut(direction);
        corrections.all.learn(index, right);
        corrections.by_size[size.0].learn(index, right);
        corrections.by_size[size.0].last = Some(index);
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
            model.learn(Direction::Write, size, Method::Sieve, 0.5, 1.0);
        }
        let known = model.table();
        let correction = |costs: Costs, method| costs.correction(method);
        assert!(
            (correction(known.costs(Direction::Write, size), Method::Sieve) - 2.0).abs() < 0.01
        );
        // Other sizes start from there; methods that were not tried get the same correction.
        assert!(
            (correction(known.costs(Direction::Write, other), Method::Sieve) - 2.0).abs() < 0.01
        );
        assert!(
            (correction(known.costs(Direction::Write, size), Method::Posix) - 2.0).abs() < 0.01
        );
        assert!(correction(known.optimistic_costs(Direction::Write, size), Method::Posix) < 1.7);
        assert_eq!(known.costs(Direction::Read, size), Costs::default());
        // The corrections of one size do not change those of another.
        for _ in 0..100 {
            model.learn(Direction::Write, other, Method::Sieve, 0.5, 4.0);
        }
        assert!(
            (correction(model.table().costs(Direction::Write, size), Method::Sieve) - 2.0).abs()
                < 0.01
        );
        // Impossible times are ignored.
        let before = model.table();
        model.learn(Direction::Write, size, Method::Posix, 0.0, 1.0);
        model.learn(Direction::Write, size, Method::Posix, f64::INFINITY, 1.0);
        assert_eq!(model.table(), before);
    }
}
