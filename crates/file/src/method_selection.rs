//! Method selection (*auto*): which method costs least, from what is known of the access, the store
//! and the machine.
//!
//! The estimate is made of counts (requests, bytes, runs: the characteristics of \[CHING\]) and
//! measured costs. Ranks of a node share its cores; writers of one file may exclude each other.
//! Everything here is pure: all ranks decide from the same numbers, so all come to the same
//! [`CollectivePlan`].

use std::num::NonZeroU64;
use std::ops::Range;

use striate_datatype::{Boundary, Point};
use striate_layout::characteristics::Method;
use striate_store::store::Capabilities;

use crate::Direction;
use crate::cost::Costs;
use crate::cost_model::PieceSize;
use crate::hints::{Hints, MethodChoice, Switch};
use crate::rendezvous::Proposal;

/// Seconds to set up a buffer and the copies through it; what that takes depends little on the
/// machine.
const SIEVE: f64 = 3e-6;

/// Bytes of a piece that is a large request by itself.
const LONG_PIECE: f64 = 262_144.0;

/// What a decision is based on besides the proposals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) direction: Direction,
    pub(crate) capabilities: Capabilities,
    /// Ranks that take part, per node.
    pub(crate) ranks_per_node: f64,
    pub(crate) nodes: f64,
    /// Cores of a node.
    pub(crate) cores: f64,
    /// Whether two-phase works in shared memory.
    pub(crate) in_memory: bool,
    /// Rings of windows that two-phase has to make first: 1 or 0.
    pub(crate) new_rings: f64,
    /// Whether the accesses tile their range.
    pub(crate) tiled: bool,
    pub(crate) window: f64,
    pub(crate) sieve_buffer: f64,
    pub(crate) list_regions: f64,
    /// The unit of domains with which the bytes of two-phase stay on their node.
    pub(crate) local_unit: Option<NonZeroU64>,
}

/// Totals over the ranks of a call.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    bytes: f64,
    pieces: f64,
    regions: f64,
    /// Sum of the spans of the ranks.
    spans: f64,
    /// The span of all ranks.
    span: f64,
    /// Of the rank that has the most.
    most_bytes: f64,
    most_pieces: f64,
    most_regions: f64,
    most_span: f64,
}

fn totals(proposals: &[Proposal]) -> Totals {
    let mut totals = Totals::default();
    let (mut low, mut high) = (u64::MAX, 0);
    for proposal in proposals.iter().filter(|proposal| proposal.len > 0) {
        let span = (proposal.high - proposal.low) as f64;
        totals.bytes += proposal.len as f64;
        totals.pieces += proposal.pieces as f64;
        totals.regions += proposal.regions as f64;
        totals.spans += span;
        totals.most_bytes = totals.most_bytes.max(proposal.len as f64);
        totals.most_pieces = totals.most_pieces.max(proposal.pieces as f64);
        totals.most_regions = totals.most_regions.max(proposal.regions as f64);
        totals.most_span = totals.most_span.max(span);
        (low, high) = (low.min(proposal.low), high.max(proposal.high));
    }
    totals.span = high.saturating_sub(low.min(high)) as f64;
    totals
}

/// Seconds that a call is expected to take with a method.
pub(crate) fn estimate(
    method: Method,
    proposals: &[Proposal],
    costs: &Costs,
    setting: &Setting,
) -> f64 {
    let t = totals(proposals);
    let is_write = setting.direction.is_write();
    let parallel = setting.ranks_per_node.min(setting.cores).max(1.0);
    let crowd = is_write && setting.capabilities.serial_writes && setting.ranks_per_node > 1.0;
    let (op, byte) = match (is_write, crowd) {
        (true, true) => (costs.contended_op, costs.write_byte),
        (true, false) => (costs.write_op, costs.write_byte),
        (false, _) => (costs.read_op, costs.read_byte),
    };
    // Ranks of a node that do I/O at the same time.
    let at_once = if is_write && setting.capabilities.serial_writes { 1.0 } else { parallel };
    // The work of all ranks, shared; but no rank is faster than its own work.
    let shared = |all: f64, most: f64| (all / setting.nodes / at_once).max(most);
    let transfer = |ops: f64, bytes: f64| ops * op + bytes * byte;
    let copies = |bytes: f64, runs: f64| bytes * costs.copy_byte + runs * costs.copy_run;
    let ranks = (setting.ranks_per_node * setting.nodes).max(1.0);
    match method {
        Method::Posix => shared(transfer(t.pieces, t.bytes), transfer(t.most_pieces, t.most_bytes)),
        Method::List => {
            let requests = |pieces: f64| (pieces / setting.list_regions).ceil();
            shared(
                transfer(requests(t.pieces), t.bytes) + t.pieces * costs.region,
                transfer(requests(t.most_pieces), t.most_bytes) + t.most_pieces * costs.region,
            )
        }
        Method::Datatype => {
            // Noncontiguous memory is packed on the way.
            let packed = copies(t.bytes, t.pieces) / setting.nodes / parallel;
            let packed = if t.pieces > t.regions { packed } else { 0.0 };
            shared(
                transfer(ranks, t.bytes) + t.regions * costs.region,
                transfer(1.0, t.most_bytes) + t.most_regions * costs.region,
            ) + packed
        }
        Method::Sieve => {
            let windows = (t.spans / setting.sieve_buffer).ceil();
            let cpu = copies(t.bytes, t.regions) / setting.nodes / parallel;
            // Bytes that several ranks span are new to the file once only.
            let (byte, again) = if is_write {
                (costs.hot_write_byte, costs.rewrite_byte)
            } else {
                (costs.hot_read_byte, costs.hot_read_byte)
            };
            let span = t.span.min(t.spans);
            let spans = windows * op + span * byte + (t.spans - span) * again;
            // An access without gaps is not read first.
            let back = if is_write && t.bytes < t.spans {
                t.spans * costs.hot_read_byte / setting.nodes / parallel
                    + windows * (costs.read_op + 3.0 * op)
            } else {
                0.0
            };
            let set_up = SIEVE * setting.ranks_per_node / parallel;
            shared(spans, t.most_span * again) + cpu + back + set_up
        }
        Method::TwoPhase => {
            let windows = (t.span / setting.window).ceil();
            let hot = if is_write { costs.hot_write_byte } else { costs.hot_read_byte };
            let read_back = is_write && !setting.tiled;
            let back = if read_back { t.span * costs.hot_read_byte } else { 0.0 };
            let io = (windows * op + t.span * hot) / setting.nodes;
            // A window is mostly filled by one core and emptied by another.
            let handed = t.bytes * (costs.handed_byte - costs.copy_byte) * (1.0 - 1.0 / parallel);
            let cpu = (copies(t.bytes, t.regions) + handed + back) / setting.nodes;
            // Messages are packed, sent, received and unpacked.
            let travel = if setting.in_memory {
                0.0
            } else {
                3.0 * t.bytes * costs.copy_byte / setting.nodes
            };
            // What an aggregator gets comes over its link from all nodes but its own.
            let remote = match setting.local_unit {
                Some(_) => 0.0,
                None => t.bytes * (1.0 - 1.0 / setting.nodes.max(1.0)) / setting.nodes,
            };
            let link = remote * costs.link_byte;
            let serial =
                if is_write && setting.capabilities.serial_writes { io } else { io / parallel };
            let fixed = costs.rendezvous + setting.new_rings * costs.ring;
            // Windows are written and read while others travel.
            let local = serial.max((io + cpu) / parallel) + (cpu + travel) / parallel * 0.5;
            // Pieces as long as windows become no larger requests: all that is certain is the
            // copies.
            let doubt = if t.bytes >= t.pieces * LONG_PIECE { 1.25 } else { 1.0 };
            local.max(link) * doubt + fixed
        }
    }
}

/// The methods that a call may use.
pub(crate) fn candidates(
    hints: &Hints,
    setting: &Setting,
    collective: bool,
    reads_back: bool,
) -> Vec<Method> {
    let is_write = setting.direction.is_write();
    let (cb, ds) = match setting.direction {
        Direction::Write => (hints.cb_write, hints.ds_write),
        Direction::Read => (hints.cb_read, hints.ds_read),
    };
    // A read-modify-write needs a store that can be read.
    let may_fill_gaps = !is_write || reads_back;
    let possible = |method: Method| match method {
        Method::TwoPhase => collective && (may_fill_gaps || setting.tiled),
        Method::Sieve => may_fill_gaps && (!is_write || setting.capabilities.locks),
        _ => true,
    };
    if let MethodChoice::Fixed(method) = hints.method
        && possible(method)
    {
        return vec![method];
    }
    if collective && cb == Switch::Enable && possible(Method::TwoPhase) {
        return vec![Method::TwoPhase];
    }
    let independent = !collective || cb == Switch::Disable;
    if independent && ds == Switch::Enable && possible(Method::Sieve) {
        return vec![Method::Sieve];
    }
    // A request that the store takes apart itself costs what plain requests cost.
    let native = |method: Method| match method {
        // Where descriptions are understood, a list is only a longer form of the same request.
        Method::List => setting.capabilities.list_regions.is_some() && !setting.capabilities.typed,
        Method::Datatype => setting.capabilities.typed,
        _ => true,
    };
    Method::ALL
        .into_iter()
        .filter(|&method| possible(method) && native(method))
        .filter(|&method| !(method == Method::TwoPhase && cb == Switch::Disable))
        .filter(|&method| !(method == Method::Sieve && ds == Switch::Disable))
        .collect()
}

/// The cheapest of `methods` by corrected estimates, and its estimate in seconds without the
/// correction.
pub(crate) fn choose(
    methods: &[Method],
    proposals: &[Proposal],
    costs: &Costs,
    setting: &Setting,
) -> (Method, f64) {
    let estimates =
        methods.iter().map(|&method| (method, estimate(method, proposals, costs, setting)));
    let corrected = |&(method, seconds): &(Method, f64)| seconds * costs.correction(method);
    estimates
        .min_by(|a, b| corrected(a).total_cmp(&corrected(b)))
        .unwrap_or((Method::Posix, f64::INFINITY))
}

/// How a collective call is carried out; the same on all ranks.
#[derive(Clone, Debug)]
pub(crate) struct CollectivePlan {
    pub(crate) method: Method,
    /// From the first to the last byte of all ranks.
    pub(crate) range: Range<u64>,
    /// How holes are found; only a write needs to know about them.
    pub(crate) hole_check: Option<HoleCheck>,
    /// Seconds that the method should take, without corrections.
    pub(crate) estimate: f64,
    /// Whether there were other methods to choose from.
    pub(crate) had_choice: bool,
    /// The size of rank 0's pieces, by which corrections are kept.
    pub(crate) size: PieceSize,
    /// As in [`Setting`].
    pub(crate) local_unit: Option<NonZeroU64>,
}

/// What is known about holes in a collective write.
#[derive(Clone, Debug)]
pub(crate) struct HoleCheck {
    /// The point at which boundary sums are taken.
    pub(crate) point: Point,
    /// Whether the accesses tile the range, so that there are none.
    pub(crate) tiled: bool,
}

/// Pieces so large gain nothing by being part of larger requests.
const LARGE: u64 = 64 << 10;

/// The unit of domains with which the bytes of every rank belong to its own node, if there is one
/// and it is not small: where ranks have equal blocks in turn, that is the blocks of a node.
pub(crate) fn local_unit(proposals: &[Proposal], nodes: &[usize]) -> Option<NonZeroU64> {
    let first = proposals.first().filter(|first| first.regions > 0)?;
    let ranks = proposals.len() as u64;
    let node_count = *nodes.iter().max()? as u64 + 1;
    let per_node = ranks / node_count;
    if node_count == 1 || per_node * node_count != ranks {
        return None;
    }
    let block = first.len / first.regions;
    let unit = block.checked_mul(per_node)?;
    let stride = block.checked_mul(ranks)?;
    let span = (first.regions - 1).checked_mul(stride)?.checked_add(block)?;
    let in_turn = |(rank, proposal): (u64, &Proposal)| {
        let low = first.low.checked_add(rank * block);
        proposal.len == first.len
            && proposal.regions == first.regions
            && low == Some(proposal.low)
            && proposal.low.checked_add(span) == Some(proposal.high)
            && nodes[rank as usize] as u64 == rank / per_node
    };
    let fits = unit >= LARGE
        && block * first.regions == first.len
        && first.low.is_multiple_of(stride)
        && (0..).zip(proposals).all(in_turn);
    if fits { NonZeroU64::new(unit) } else { None }
}

/// Plans a collective call from the proposals of all ranks; `None` if there is nothing to do.
pub(crate) fn plan_collective(
    proposals: &[Proposal],
    seed: u64,
    hints: &Hints,
    setting: Setting,
    atomic: bool,
) -> Option<CollectivePlan> {
    let mut taking_part = proposals.iter().filter(|proposal| proposal.len > 0);
    let first = taking_part.next()?;
    let range = taking_part
        .fold(first.low..first.high, |all, one| all.start.min(one.low)..all.end.max(one.high));
    let hole_check = setting.direction.is_write().then(|| {
        let point = Point::new(seed);
        let whole = point.interval(range.start as i64..range.end as i64);
        let sum = proposals.iter().map(|proposal| proposal.boundary).sum::<Boundary>();
        HoleCheck { point, tiled: whole == sum }
    });
    let tiled = hole_check.as_ref().is_some_and(|check| check.tiled);
    let setting = Setting { tiled, ..setting };
    let reads_back = proposals.iter().all(|proposal| proposal.reads_back);
    let mut methods = candidates(hints, &setting, !atomic, reads_back);
    if methods.len() > 1 && proposals.iter().all(|proposal| proposal.pieces <= 1) {
        // A contiguous access is one request by any method, unless ranks combine theirs.
        methods.retain(|method| matches!(method, Method::Posix | Method::TwoPhase));
    }
    // Rank 0's costs are used, so that all ranks decide alike.
    let (method, estimate) = choose(&methods, proposals, &proposals[0].costs, &setting);
    let size = PieceSize::of(proposals[0].len, proposals[0].pieces);
    Some(CollectivePlan {
        method,
        range,
        hole_check,
        estimate,
        had_choice: methods.len() > 1,
        size,
        local_unit: setting.local_unit,
    })
}

#[cfg(test)]
mod tests {
    use striate_store::MemoryStore;
    use striate_store::store::Store;

    use super::*;

    fn setting(direction: Direction) -> Setting {
        Setting {
            direction,
            capabilities: MemoryStore::new("object").capabilities(),
            ranks_per_node: 4.0,
            nodes: 1.0,
            cores: 4.0,
            in_memory: true,
            new_rings: 0.0,
            tiled: false,
            window: f64::from(1 << 20),
            sieve_buffer: f64::from(1 << 19),
            list_regions: 64.0,
            local_unit: None,
        }
    }

    fn proposal(low: u64, len: u64, seed: u64) -> Proposal {
        let (high, pieces) = (low + len, 1);
        let boundary = Point::new(seed).interval(low as i64..high as i64);
        Proposal {
            len,
            low,
            high,
            boundary,
            pieces,
            regions: 1,
            reads_back: true,
            ..Proposal::default()
        }
    }

    #[test]
    fn large_blocks_in_turn_have_domains_that_follow_them() {
        let strided = |ranks: u64, block: u64, count: u64, start: u64| -> Vec<Proposal> {
            let of = |rank: u64| {
                let low = start + rank * block;
                let high = low + (count - 1) * ranks * block + block;
                Proposal { len: count * block, low, high, regions: count, ..Proposal::default() }
            };
            (0..ranks).map(of).collect()
        };
        let unit = |proposals: &[Proposal], nodes: &[usize]| {
            local_unit(proposals, nodes).map(NonZeroU64::get)
        };
        let (two_each, block) = ([0, 0, 1, 1], 1 << 20);
        assert_eq!(unit(&strided(4, block, 3, 0), &[0, 1, 2, 3]), Some(block));
        assert_eq!(unit(&strided(4, block, 1, 8 * block), &[0, 1, 2, 3]), Some(block));
        assert_eq!(unit(&strided(4, block, 3, 0), &two_each), Some(2 * block));
        // Other places of the ranks, an odd start, small blocks, one node.
        assert_eq!(unit(&strided(4, block, 3, 0), &[0, 1, 0, 1]), None);
        assert_eq!(unit(&strided(4, block, 3, 0), &[0, 0, 0, 1]), None);
        assert_eq!(unit(&strided(4, block, 3, block), &two_each), None);
        assert_eq!(unit(&strided(4, 4096, 3, 0), &two_each), None);
        assert_eq!(unit(&strided(4, block, 3, 0), &[0; 4]), None);
        // Different amounts.
        let mut uneven = strided(4, block, 3, 0);
        uneven[2].len -= 1;
        assert_eq!(unit(&uneven, &two_each), None);
        assert_eq!(unit(&[Proposal::default(); 4], &two_each), None);
    }

    /// Where bytes between nodes cost much more than those of the store, ranks do not exchange
    /// them; over fast links, and with small blocks, they do.
    #[test]
    fn the_choice_depends_on_what_links_cost() {
        let nodes = Setting {
            ranks_per_node: 1.0,
            nodes: 4.0,
            in_memory: false,
            ..setting(Direction::Write)
        };
        let small =
            Proposal { pieces: 4096, regions: 4096, high: 4 << 20, ..proposal(0, 1 << 20, 7) };
        let methods = [Method::Posix, Method::TwoPhase];
        let chosen = |link_byte: f64, proposal: Proposal| {
            let costs =
                Costs { link_byte, write_op: 20e-6, contended_op: 20e-6, ..Costs::default() };
            choose(&methods, &[proposal; 4], &costs, &nodes).0
        };
        assert_eq!(chosen(1.0 / 10e9, small), Method::TwoPhase);
        assert_eq!(chosen(1.0 / 2.5e6, small), Method::Posix);
    }

    #[test]
    fn a_plan_covers_all_ranks_and_knows_whether_they_tile() {
        let hints: Hints = "striate_method=two-phase".parse().unwrap();
        let plan = |proposals: &[Proposal], direction| {
            plan_collective(proposals, 7, &hints, setting(direction), false)
        };
        let none = Proposal { reads_back: true, ..Proposal::default() };
        assert!(plan(&[none, none], Direction::Write).is_none());
        let tiles = [proposal(100, 50, 7), none, proposal(0, 100, 7)];
        let planned = plan(&tiles, Direction::Write).unwrap();
        assert_eq!((planned.method, planned.range.clone()), (Method::TwoPhase, 0..150));
        assert!(planned.hole_check.is_some_and(|check| check.tiled) && !planned.had_choice);
        let gap = [proposal(100, 50, 7), proposal(0, 99, 7)];
        let planned = plan(&gap, Direction::Write).unwrap();
        assert!(planned.hole_check.is_some_and(|check| !check.tiled));
        assert!(plan(&gap, Direction::Read).unwrap().hole_check.is_none());
    }
}
