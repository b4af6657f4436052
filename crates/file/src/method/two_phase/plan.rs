//! [`Groups`]: which ranks aggregate in two-phase calls, and their file domains and windows.
//!
//! A *group* is a set of ranks that share a ring of windows: the ranks of a node, or a single rank
//! where data travels by messages. A group that aggregates owns a file domain. Everything here is
//! pure: every rank computes the same plan from the same numbers.

use std::num::{NonZeroU32, NonZeroU64};
use std::ops::{Range, RangeInclusive};

use striate_layout::file_domain::{DomainKind, Domains};
use striate_store::store::Capabilities;

use super::node_work::NodeWorkSizes;
use crate::hints::{DomainChoice, Hints};

/// The default window of a ring that ranks share, and what it has for each of them at least: the
/// ring stays in the caches of the cores, and a rank copies enough bytes between two accesses to
/// the ring's state.
const SHARED_WINDOW: u64 = 256 << 10;
const SHARE: u64 = 32 << 10;
/// Windows in such a ring.
const SHARED_SLOTS: usize = 4;
/// The default window of a single rank, as in \[CHING\], and how many: one is filled while the
/// other is written.
const OWN_WINDOW: u64 = 4 << 20;
const OWN_SLOTS: usize = 2;
/// The default window where groups exchange messages: so large that each group has so many bytes of
/// it, which is the length of a message. Shorter ones cost more processor time; MPI sends longer
/// ones only when the receiver has agreed, and links are idle meanwhile.
const MESSAGE: u64 = 16 << 10;
const MESSAGE_WINDOWS: RangeInclusive<u64> = 64 << 10..=4 << 20;
/// Bytes of the windows that such an aggregator has open, and how many windows.
const OPEN: u64 = 2 << 20;
const OPEN_WINDOWS: RangeInclusive<u64> = 3..=16;
/// Bytes under way to or from such an aggregator, at least, of which those of each other group are
/// half of its share: enough for 10 Gbit/s over 0.4 ms. More would wait in the queues of slower
/// links, and delay requests.
const UNDER_WAY: u64 = 1 << 20;
/// Staging buffers of a group: one is packed while another is sent.
const STAGING: usize = 4;
/// Threads that read and write windows of such an aggregator, at most.
const IO_THREADS: u64 = 4;
/// The unit of aligned domains where nothing is known of stripes.
const PAGE: u64 = 4096;
/// The unit of cycling domains where nothing is known of stripes.
const STRIPE: u64 = 1 << 20;

/// Groups and aggregators; the same for all calls on a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Groups {
    /// Ranks of each group, ascending.
    pub(crate) ranks: Vec<Vec<usize>>,
    /// The aggregator that each group is, if it is one.
    pub(crate) aggregator: Vec<Option<u64>>,
    pub(crate) aggregators: NonZeroU64,
    /// Ranks of a group that write at a time.
    pub(crate) writers: u64,
    /// Whether groups share memory.
    pub(crate) in_memory: bool,
    pub(crate) window: NonZeroU64,
    pub(crate) slots: usize,
    pub(crate) kind: DomainKind,
}

impl Groups {
    pub(crate) fn new(
        nodes: &[usize],
        in_memory: bool,
        hints: &Hints,
        capabilities: &Capabilities,
    ) -> Self {
        let per_node = |node: usize| (0..nodes.len()).filter(move |&rank| nodes[rank] == node);
        let node_count = nodes.iter().max().map_or(1, |max| max + 1);
        let ranks: Vec<Vec<usize>> = if in_memory {
            (0..node_count).map(|node| per_node(node).collect()).collect()
        } else {
            (0..nodes.len()).map(|rank| vec![rank]).collect()
        };
        // The order in which groups become aggregators: first one of every node, then the next.
        let mut order: Vec<(usize, usize)> = Vec::new();
        for (group, ranks) in ranks.iter().enumerate() {
            let node = nodes[ranks[0]];
            let place_in_node =
                if in_memory { 0 } else { per_node(node).position(|r| r == group).unwrap_or(0) };
            let allowed = hints.cb_per_node.or(match hints.cb_nodes {
                Some(_) => None,
                None => Some(1),
            });
            if allowed.is_none_or(|allowed| (place_in_node as u64) < allowed) {
                order.push((place_in_node, group));
            }
        }
        order.sort_unstable();
        let wanted = hints.cb_nodes.unwrap_or(u64::MAX).min(order.len() as u64).max(1);
        order.truncate(wanted as usize);
        let mut aggregator = vec![None; ranks.len()];
        // Numbered in order of rank, so that neighbours in the file are neighbours in the job.
        let mut chosen: Vec<usize> = order.iter().map(|&(_, group)| group).collect();
        chosen.sort_unstable();
        for (number, &group) in (0..).zip(&chosen) {
            aggregator[group] = Some(number);
        }
        let aggregators = NonZeroU64::new(wanted).unwrap_or(NonZeroU64::MIN);

        let asked = hints.cb_nodes.map(|n| n.div_ceil(wanted)).or(hints.cb_per_node);
        let writers = if !in_memory {
            1
        } else if let Some(asked) = asked {
            asked
        } else if capabilities.serial_writes {
            1
        } else {
            u64::MAX
        };
        let most = ranks.iter().map(Vec::len).max().unwrap_or(1) as u64;
        let groups = ranks.len() as u64;
        let window = hints.cb_buffer_size.unwrap_or(if groups > 1 {
            let window = (groups * MESSAGE).next_power_of_two();
            window.clamp(*MESSAGE_WINDOWS.start(), *MESSAGE_WINDOWS.end())
        } else if in_memory {
            SHARED_WINDOW.max(SHARE * most)
        } else {
            OWN_WINDOW
        });
        let slots = if groups > 1 {
            (OPEN / window).clamp(*OPEN_WINDOWS.start(), *OPEN_WINDOWS.end()) as usize
        } else if in_memory {
            SHARED_SLOTS
        } else {
            OWN_SLOTS
        };
        Self {
            ranks,
            aggregator,
            aggregators,
            writers,
            in_memory,
            window: NonZeroU64::new(window).unwrap_or(NonZeroU64::MIN),
            slots,
            kind: domain_kind(hints, capabilities, aggregators),
        }
    }

    /// Bytes that may be under way to or from an aggregator.
    pub(crate) fn under_way(&self) -> u64 {
        UNDER_WAY.max(2 * self.ranks.len() as u64 * MESSAGE)
    }

    /// Bytes of the memory that a group of `ranks` ranks needs to exchange messages with others.
    pub(crate) fn work_sizes(&self, group: usize) -> NodeWorkSizes {
        let window = self.window.get() as usize;
        let slots = if self.aggregator[group].is_some() { self.slots } else { 0 };
        let ranks = self.ranks[group].len();
        let staging = if ranks > 1 { STAGING } else { 0 };
        NodeWorkSizes { ranks, slots, window, staging }
    }

    /// Threads that read and write windows of an aggregator.
    pub(crate) fn io_threads(&self) -> u64 {
        self.writers.clamp(1, IO_THREADS)
    }

    /// The rank of a group that exchanges its messages.
    pub(crate) fn leader(&self, group: usize) -> usize {
        self.ranks[group][0]
    }

    pub(crate) fn group_of(&self, rank: usize) -> usize {
        self.ranks.iter().position(|ranks| ranks.binary_search(&rank).is_ok()).unwrap_or(0)
    }

    /// Domains of a range, in units that make bytes stay on their node, if there are such.
    pub(crate) fn domains(&self, range: Range<u64>, local_unit: Option<NonZeroU64>) -> Domains {
        let kind = local_unit.map_or(self.kind, |unit| DomainKind::StaticCycling { unit });
        Domains::new(kind, range, self.aggregators, self.window)
    }

    /// Whether domains may be chosen by the blocks of an access: every node has an aggregator, and
    /// nothing is known of the store that speaks for others.
    pub(crate) fn may_follow_blocks(
        nodes: &[usize],
        hints: &Hints,
        capabilities: &Capabilities,
    ) -> bool {
        nodes.iter().any(|&node| node > 0)
            && hints.domains == DomainChoice::Auto
            && (hints.cb_nodes, hints.cb_per_node) == (None, None)
            && hints.striping_unit.or(capabilities.stripe_unit).is_none()
    }
}

fn domain_kind(hints: &Hints, capabilities: &Capabilities, aggregators: NonZeroU64) -> DomainKind {
    let known = hints.striping_unit.or(capabilities.stripe_unit).and_then(NonZeroU64::new);
    let unit = |default: u64| known.or(NonZeroU64::new(default)).unwrap_or(NonZeroU64::MIN);
    let targets = hints.striping_factor.or(capabilities.stripe_count.map(u64::from));
    let targets = targets.unwrap_or(aggregators.get()).min(u64::from(u32::MAX)) as u32;
    let targets = NonZeroU32::new(targets).unwrap_or(NonZeroU32::MIN);
    match hints.domains {
        DomainChoice::Even => DomainKind::Even,
        DomainChoice::Auto | DomainChoice::Aligned => DomainKind::Aligned { unit: unit(PAGE) },
        DomainChoice::StaticCycling => DomainKind::StaticCycling { unit: unit(STRIPE) },
        DomainChoice::GroupCycling => DomainKind::GroupCycling { unit: unit(STRIPE), targets },
        DomainChoice::XTarget => {
            let x = NonZeroU32::new(hints.x_targets.min(u64::from(u32::MAX)) as u32);
            DomainKind::XTarget { unit: unit(STRIPE), targets, x: x.unwrap_or(NonZeroU32::MIN) }
        }
    }
}
