//! `striate fs df`: how much space is left, on each server and together.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use striate_datatype::Bytes;
use striate_store::StoreError;
use striate_store::remote::{Client, RemoteUrl, ServerSpace};

use super::{ask_each, shown};
use crate::document::Document;
use crate::number::grouped;
use crate::table::{Side, Table};
use crate::{CommandError, terminal};

/// Show how much space is left, on each server and together
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs df striate://io.example
  striate fs df --json striate://io.example

Servers that store on the same disk each count it.")]
pub(crate) struct DfArgs {
    /// The file system
    url: RemoteUrl,
}

/// The space of a server, or of all together.
#[derive(Debug, Default, Serialize)]
struct Row {
    server: String,
    total: u64,
    used: u64,
    /// Bytes that the server can still store.
    available: u64,
    objects: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

impl Row {
    fn new(server: &str, space: Result<ServerSpace, StoreError>) -> Self {
        let server = server.to_owned();
        match space {
            Ok(ServerSpace { total, free, available, objects }) => {
                let used = total.saturating_sub(free);
                Self { server, total, used, available, objects, error: None }
            }
            Err(error) => Self { server, error: Some(error.to_string()), ..Self::default() },
        }
    }

    fn add(&mut self, other: &Self) {
        self.total = self.total.saturating_add(other.total);
        self.used = self.used.saturating_add(other.used);
        self.available = self.available.saturating_add(other.available);
        self.objects = self.objects.saturating_add(other.objects);
    }
}

pub(crate) fn run(args: &DfArgs, json: bool) -> Result<(), CommandError> {
    let client = Client::shared(&args.url)?;
    let servers = client.servers()?;
    let spaces = ask_each(&servers, |server| client.space(server));
    let mut rows: Vec<Row> =
        servers.iter().zip(spaces).map(|(server, space)| Row::new(server, space)).collect();
    let mut sum = Row { server: "sum".into(), ..Row::default() };
    for row in &rows {
        sum.add(row);
    }
    let down = rows.iter().any(|row| row.error.is_some());
    rows.push(sum);
    if json {
        Document::new(rows, Vec::new()).print()?;
    } else {
        terminal::print(&text(&rows))?;
    }
    if down { Err(CommandError::NotWell) } else { Ok(()) }
}

fn text(rows: &[Row]) -> String {
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
    for error in rows.iter().filter_map(|row| row.error.as_ref()) {
        let _ = writeln!(text, "{}", shown(error));
    }
    text
}
