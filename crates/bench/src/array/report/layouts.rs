//! The comparisons between layouts, and their goals.

use striate_datatype::Bytes;
use striate_statistics::{Ratio, spreads};

use super::ArrayRow;
use crate::array::{ArrayOp, Layout, Scope};

/// Partitions on chosen targets over one shared file: the least of \[SON\].
const OVER_PLAIN: f64 = 1.36;
/// Partitions on chosen targets over the same without a straggler.
const OVER_HEALTHY: f64 = 0.85;
/// The spread of partitions on all targets over that on chosen ones.
const SPREADS: f64 = 2.0;
/// Fewer repetitions say nothing about a spread.
const ROUNDS: usize = 5;
/// The time of the data calls over that of the exchange within: a share of 5 %.
const OVER_EXCHANGE: f64 = 20.0;

/// Compares the rows of one direction and scope.
pub(super) fn ratios(rows: &[ArrayRow]) -> Vec<Ratio> {
    let of = |layout: Layout| rows.iter().find(|row| row.layout == Some(layout));
    let over = |ours: Layout, other: Layout, goal: Option<f64>| {
        let (ours, other) = (of(ours)?, of(other)?);
        Ratio::within(name(ours, other), &ours.samples, &other.samples, goal)
    };
    let mut ratios = Vec::new();
    ratios.extend(over(Layout::Partitioned, Layout::Plain, None));
    ratios.extend(over(Layout::Chosen, Layout::Plain, Some(OVER_PLAIN)));
    // The probe itself has to wait for the straggler, once for a dataset: there is no goal for what
    // includes it.
    let probes = rows.iter().any(|row| row.op == ArrayOp::Write && row.scope == Scope::Whole);
    let goal = (!probes).then_some(OVER_HEALTHY);
    ratios.extend(over(Layout::Chosen, Layout::Healthy, goal));
    if rows.iter().all(|row| row.scope == Scope::Data) {
        ratios.extend(spread_ratio(of(Layout::Partitioned), of(Layout::Chosen)));
        ratios.extend(rows.iter().filter_map(over_exchange));
    }
    ratios
}

fn about(row: &ArrayRow) -> String {
    let what = match (row.op, row.scope) {
        (_, Scope::Data) => "data alone",
        (op, Scope::Whole) if op.makes() => "from create to close",
        (_, Scope::Whole) => "from open to close",
    };
    let plural = if row.ranks == 1 { "" } else { "s" };
    let (op, size) = (row.op.name(), Bytes(row.bytes));
    format!("{op} of {}, {what}, {size}, {} rank{plural}", row.workload, row.ranks)
}

fn name(ours: &ArrayRow, other: &ArrayRow) -> String {
    let name = |row: &ArrayRow| row.layout.map_or(row.api, Layout::name);
    format!("{}: {} over {}", about(ours), name(ours), name(other))
}

/// How much more all targets vary than chosen ones.
fn spread_ratio(all: Option<&ArrayRow>, chosen: Option<&ArrayRow>) -> Option<Ratio> {
    let (all, chosen) = (all?, chosen?);
    if chosen.samples.len() < ROUNDS {
        return None;
    }
    let name = format!("{}: spread of partitioned over spread of chosen", about(chosen));
    let (value, ci95) = spreads(&all.samples, &chosen.samples)?;
    Some(Ratio { name, value, ci95, goal: Some(SPREADS), met: Some(value >= SPREADS) })
}

/// How many times longer the calls take than the exchange between ranks that is a part of them.
fn over_exchange(row: &ArrayRow) -> Option<Ratio> {
    let exchange = row.exchange.as_ref()?;
    let times: Vec<f64> = exchange.shares.iter().map(|share| 1.0 / share.max(1e-9)).collect();
    let layout = row.layout.map_or(row.api, Layout::name);
    let name = format!("{}: {layout}, time over exchange", about(row));
    Ratio::within(name, &times, &vec![1.0; times.len()], Some(OVER_EXCHANGE))
}
