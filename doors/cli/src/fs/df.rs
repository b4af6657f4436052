//! `striate fs df`: free space on each server and in total.

use std::collections::HashSet;
use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use striate_datatype::Bytes;
use striate_store::StoreError;
use striate_store::rados::{RadosNamespace, RadosUrl};
use striate_store::remote::{Client, RemoteUrl, ServerSpace};

use super::{FileUrl, LOOKS, ask_each, shown};
use crate::document::Document;
use crate::number::grouped;
use crate::table::{Side, Table};
use crate::{CommandError, terminal};

/// Show the free space, on each server and in total
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs df striate://io.example
  striate fs df --json striate://io.example
  striate fs df rados://pool    the cluster of the pool, replicas counted

A disk that several servers share is shown for each of them, and counts once in the sum. Space that a
server reserves so that files can be removed from a full disk does not count as available.")]
pub(crate) struct DfArgs {
    /// The file system
    url: FileUrl,
}

/// The name of the number by which servers on the same disk are known.
pub(super) const DISK: &str = "disk";

/// The space of a server, or of all together.
#[derive(Debug, Default, Serialize)]
struct SpaceRow {
    server: String,
    total: u64,
    used: u64,
    /// Bytes that the server can still store.
    available: u64,
    objects: u64,
    /// The same for servers on one disk, if they report it.
    #[serde(skip_serializing_if = "Option::is_none")]
    disk: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What a server says of its space, and which disk it is on.
type SpaceAnswer = (ServerSpace, Option<u64>);

impl SpaceRow {
    fn new(server: &str, answer: Result<SpaceAnswer, StoreError>) -> Self {
        let server = server.to_owned();
        match answer {
            Ok((ServerSpace { total, free, available, objects }, disk)) => {
                let used = total.saturating_sub(free);
                Self { server, total, used, available, objects, disk, error: None }
            }
            Err(error) => Self { server, error: Some(error.to_string()), ..Self::default() },
        }
    }

    /// Adds what another server has, whose disk counts already or not.
    fn add(&mut self, other: &Self, disk_counts: bool) {
        self.objects = self.objects.saturating_add(other.objects);
        if !disk_counts {
            self.total = self.total.saturating_add(other.total);
            self.used = self.used.saturating_add(other.used);
            self.available = self.available.saturating_add(other.available);
        }
    }
}

fn ask(client: &Client, server: &str) -> Result<SpaceAnswer, StoreError> {
    let space = client.space(server)?;
    let numbers = client.statistics(server)?;
    let disk = numbers.into_iter().find(|(name, _)| name == DISK).map(|(_, disk)| disk);
    Ok((space, disk))
}

pub(crate) fn run(args: &DfArgs, json: bool) -> Result<(), CommandError> {
    let rows = match &args.url {
        FileUrl::Servers(url) => rows_of_servers(url)?,
        FileUrl::Pool(url) => vec![row_of_cluster(url)?],
        FileUrl::Object(_) => {
            return Err(CommandError::usage(
                "object stores do not say how much space they have",
                "'striate fs ls -R -l' shows what is in them",
            ));
        }
    };
    let down = rows.iter().any(|row| row.error.is_some());
    if json {
        Document::new(rows, Vec::new()).print()?;
    } else {
        terminal::print(&text(&rows))?;
    }
    if down { Err(CommandError::NotWell) } else { Ok(()) }
}

/// The cluster of a pool, as the engine reports it.
fn row_of_cluster(url: &RadosUrl) -> Result<SpaceRow, StoreError> {
    let space = RadosNamespace::open(url)?.space()?;
    Ok(SpaceRow {
        server: "cluster".into(),
        total: space.total,
        used: space.used,
        available: space.free,
        objects: space.objects,
        ..SpaceRow::default()
    })
}

/// Each server, and their sum.
fn rows_of_servers(url: &RemoteUrl) -> Result<Vec<SpaceRow>, StoreError> {
    let client = Client::with_attempts(url, LOOKS)?;
    let servers = client.servers()?;
    let spaces = ask_each(&servers, |server| ask(&client, server));
    let mut rows: Vec<SpaceRow> =
        servers.iter().zip(spaces).map(|(server, space)| SpaceRow::new(server, space)).collect();
    let mut sum = SpaceRow { server: "sum".into(), ..SpaceRow::default() };
    let mut disks = HashSet::new();
    for row in &rows {
        let counts = row.disk.is_some_and(|disk| !disks.insert(disk));
        sum.add(row, counts);
    }
    rows.push(sum);
    Ok(rows)
}

fn text(rows: &[SpaceRow]) -> String {
    let mut table = Table::new(&[
        ("server", Side::Left),
        ("total", Side::Right),
        ("used", Side::Right),
        ("available", Side::Right),
        ("objects", Side::Right),
    ]);
    for row in rows {
        let known = |text: String| if row.error.is_some() { "?".to_owned() } else { text };
        table.row([
            shown(&row.server),
            known(Bytes(row.total).to_string()),
            known(Bytes(row.used).to_string()),
            known(Bytes(row.available).to_string()),
            known(grouped(row.objects)),
        ]);
    }
    let mut text = table.render();
    let on_disks: Vec<u64> = rows.iter().filter_map(|row| row.disk).collect();
    let disks = on_disks.iter().collect::<HashSet<_>>().len();
    if disks < on_disks.len() {
        let one =
            if disks == 1 { "one disk, which counts" } else { "fewer disks, each of which counts" };
        let _ = writeln!(text, "the servers store on {one} once in the sum");
    }
    for error in rows.iter().filter_map(|row| row.error.as_ref()) {
        let _ = writeln!(text, "{}", shown(error));
    }
    text
}
