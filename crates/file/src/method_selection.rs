//! *auto*: which method costs least, from what is known of the access, the store and the machine.
//!
//! The estimate is made of counts (requests, bytes, runs: the characteristics of \[CHING\]) and measured
//! costs. Ranks of a node share its cores; writers of one file may exclude each other. All ranks
//! decide on the same numbers, so all decide alike.

use striate_layout::characteristics::Method;
use striate_store::store::Capabilities;

use crate::cost::Costs;
use crate::hints::{Hints, MethodChoice, Switch};
use crate::rendezvous::Proposal;

/// Seconds to set up a buffer and the copies through it; what that takes depends little on the machine.
const SIEVE: f64 = 3e-6;

/// What a decision is based on beside the proposals.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) write: bool,
    pub(crate) capabilities: Capabilities,
    /// Ranks that take part, per node.
    pub(crate) ranks_per_node: f64,
    pub(crate) nodes: f64,
    /// Cores of a node.
    pub(crate) cores: f64,
    /// Whether two-phase works in shared memory.
    pub(crate) in_memory: bool,
    /// Rings of windows that two-phase has to make first: one or none.
    pub(crate) new_rings: f64,
    /// Whether the accesses tile their range.
    pub(crate) tiled: bool,
    pub(crate) window: f64,
    pub(crate) sieve_buffer: f64,
    pub(crate) list_regions: f64,
}

/// Totals over the ranks of a call.
#[derive(Clone, Copy, Debug, Default)]
struct Totals {
    bytes: f64,
    pieces: f64,
    regions: f64,
    /// Sum of the ranks' spans.
    spans: f64,
    /// The span of all.
    span: f64,
    /// Of the rank that has most.
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
    let parallel = setting.ranks_per_node.min(setting.cores).max(1.0);
    let crowd = setting.write && setting.capabilities.serial_writes && setting.ranks_per_node > 1.0;
    let (op, byte) = match (setting.write, crowd) {
        (true, true) => (costs.contended_op, costs.write_byte),
        (true, false) => (costs.write_op, costs.write_byte),
        (false, _) => (costs.read_op, costs.read_byte),
    };
    // How many ranks of a node get on with I/O at a time.
    let at_once = if setting.write && setting.capabilities.serial_writes { 1.0 } else { parallel };
    // The work of all, shared; but no rank is faster than its own work.
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
            // Memory that has a type of its own is packed on the way.
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
            // What several ranks span is new to the file once only.
            let (byte, again) = if setting.write {
                (costs.hot_write_byte, costs.rewrite_byte)
            } else {
                (costs.hot_read_byte, costs.hot_read_byte)
            };
            let span = t.span.min(t.spans);
            let spans = windows * op + span * byte + (t.spans - span) * again;
            // A dense access is not read first.
            let back = if setting.write && t.bytes < t.spans {
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
            let hot = if setting.write { costs.hot_write_byte } else { costs.hot_read_byte };
            let read_back = setting.write && !setting.tiled;
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
            let serial = if setting.write && setting.capabilities.serial_writes {
                io
            } else {
                io / parallel
            };
            let meet = costs.meet + setting.new_rings * costs.ring;
            serial.max((io + cpu) / parallel) + (cpu + travel) / parallel * 0.5 + meet
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
    let (cb, ds) = if setting.write {
        (hints.cb_write, hints.ds_write)
    } else {
        (hints.cb_read, hints.ds_read)
    };
    // What reads back what it does not write needs a store that can be read.
    let may_fill_gaps = !setting.write || reads_back;
    let possible = |method: Method| match method {
        Method::TwoPhase => collective && (may_fill_gaps || setting.tiled),
        Method::Sieve => may_fill_gaps && (!setting.write || setting.capabilities.locks),
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
    // What the store would take apart itself costs what plain calls cost.
    let native = |method: Method| match method {
        // Where types are understood, a list is only a longer way to say the same.
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

/// The cheapest of `methods` as experience has it, and what it would take without experience.
pub(crate) fn choose(
    methods: &[Method],
    proposals: &[Proposal],
    costs: &Costs,
    setting: &Setting,
) -> (Method, f64) {
    let estimates =
        methods.iter().map(|&method| (method, estimate(method, proposals, costs, setting)));
    let by_experience = |&(method, seconds): &(Method, f64)| seconds * costs.correction(method);
    estimates
        .min_by(|a, b| by_experience(a).total_cmp(&by_experience(b)))
        .unwrap_or((Method::Posix, f64::INFINITY))
}
