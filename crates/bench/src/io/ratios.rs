//! The ratios between rows, and their goals.

use striate_datatype::Bytes;
use striate_file::Method;
use striate_statistics::Ratio;

use super::IoApi;
use super::report::IoRow;

/// The least that ratios should reach.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct IoGoals {
    /// Ours over the faster peer.
    pub peer: Option<f64>,
    /// Ours over plain system calls.
    pub posix: Option<f64>,
    /// What chooses by itself over the best fixed method.
    pub best: Option<f64>,
    /// Ours over plain sockets.
    pub socket: Option<f64>,
    /// Descriptions over the same bytes in one piece.
    pub contiguous: Option<f64>,
    /// Descriptions over lists.
    pub list: Option<f64>,
    /// Descriptions over the best other method that needs no other rank.
    pub next: Option<f64>,
}

impl IoGoals {
    /// These goals, and those of `other` where there is none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            peer: self.peer.or(other.peer),
            posix: self.posix.or(other.posix),
            best: self.best.or(other.best),
            socket: self.socket.or(other.socket),
            contiguous: self.contiguous.or(other.contiguous),
            list: self.list.or(other.list),
            next: self.next.or(other.next),
        }
    }
}

/// The comparisons of rows of one direction: ours with the peers', and on servers also descriptions
/// with our other methods.
pub(super) fn ratios(rows: &[IoRow], goals: &IoGoals) -> Vec<Ratio> {
    let mut ratios = with_others(rows, goals);
    ratios.extend(of_descriptions(rows, goals));
    ratios
}

fn is_ours(row: &IoRow) -> bool {
    row.api == IoApi::Striate.name() && !row.contiguous
}

fn has_method(row: &IoRow, method: &str) -> bool {
    is_ours(row) && row.method.as_deref() == Some(method)
}

fn fastest(rows: &[IoRow], belongs: impl Fn(&IoRow) -> bool) -> Option<&IoRow> {
    let rows = rows.iter().filter(|row| belongs(row));
    rows.max_by(|a, b| a.median_mib_s.total_cmp(&b.median_mib_s))
}

/// Ours over the faster peer, over plain system calls and sockets, and what chooses by itself over
/// the best method.
fn with_others(rows: &[IoRow], goals: &IoGoals) -> Vec<Ratio> {
    let is_auto = |row: &IoRow| has_method(row, "auto");
    let auto = rows.iter().find(|row| is_auto(row));
    let Some(ours) = auto.or_else(|| fastest(rows, is_ours)) else { return Vec::new() };
    let of_api = |api: IoApi| rows.iter().find(|row| row.api == api.name());
    let peer = fastest(rows, |row| row.api.starts_with("mpiio"));
    let fixed = auto.and_then(|_| fastest(rows, |row| is_ours(row) && !is_auto(row)));
    [
        (peer, goals.peer),
        (of_api(IoApi::Posix), goals.posix),
        (fixed, goals.best),
        (of_api(IoApi::Socket), goals.socket),
    ]
    .into_iter()
    .filter_map(|(other, goal)| over(ours, other?, goal))
    .collect()
}

/// Descriptions over the limit, over lists and over the best of the other independent methods. On a
/// file system the methods end in the same system calls, so there only ratios with a goal are
/// reported.
fn of_descriptions(rows: &[IoRow], goals: &IoGoals) -> Vec<Ratio> {
    let described = rows.iter().find(|row| has_method(row, Method::Datatype.name()));
    let Some(described) = described else { return Vec::new() };
    let on_servers = described.cost.as_ref().is_some_and(|cost| cost.wire.is_some());
    let limit = rows.iter().find(|row| row.contiguous);
    let list = rows.iter().find(|row| has_method(row, Method::List.name()));
    let others = [Method::Posix, Method::Sieve, Method::List];
    let next = fastest(rows, |row| others.iter().any(|method| has_method(row, method.name())));
    let reported = |goal: Option<f64>| on_servers || goal.is_some();
    let next = next.filter(|_| reported(goals.next)).and_then(|next| {
        let ratio = over(described, next, goals.next)?;
        Some(Ratio { name: format!("{}, the next best alone", ratio.name), ..ratio })
    });
    [(limit, goals.contiguous), (list.filter(|_| reported(goals.list)), goals.list)]
        .into_iter()
        .filter_map(|(other, goal)| over(described, other?, goal))
        .chain(next)
        .collect()
}

fn over(ours: &IoRow, other: &IoRow, goal: Option<f64>) -> Option<Ratio> {
    let name = format!(
        "{} {} of {}, blocks of {}, {} ranks: {} over {}",
        if ours.collective { "collective" } else { "independent" },
        ours.op.name(),
        ours.workload,
        Bytes(ours.block),
        ours.ranks,
        ours.label(),
        other.label()
    );
    Ratio::within(name, &ours.samples, &other.samples, goal)
}
