//! `striate fs stats`: the counters of the servers since they started.

use clap::Args;
use serde::Serialize;
use striate_store::remote::{Client, RemoteUrl};

use super::{LOOKS, all_servers, ask_each, shown};
use crate::document::Document;
use crate::number::grouped;
use crate::table::{Side, Table};
use crate::{CommandError, terminal};

/// Show the counters of the servers since they started
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs stats striate://io.example
  striate fs stats --json striate://io.example

Counters that are 0 on all servers are left out of the table.")]
pub(crate) struct FsStatsArgs {
    /// The file system
    url: RemoteUrl,
}

/// A server; a row of the JSON document.
#[derive(Debug, Serialize)]
struct CounterRow {
    server: String,
    counters: serde_json::Map<String, serde_json::Value>,
}

pub(crate) fn run(args: &FsStatsArgs, json: bool) -> Result<(), CommandError> {
    let client = Client::with_attempts(&args.url, LOOKS)?;
    let servers = all_servers(&client)?;
    let answers = ask_each(&servers, |server| client.statistics(server));
    let mut counters = answers.into_iter().collect::<Result<Vec<_>, _>>()?;
    // It says where, not how much.
    for of_one in &mut counters {
        of_one.retain(|(name, _)| name != super::df::DISK);
    }
    if json {
        let row = |(server, counters): (String, Vec<(String, u64)>)| CounterRow {
            server,
            counters: counters.into_iter().map(|(name, value)| (name, value.into())).collect(),
        };
        return Document::new(servers.into_iter().zip(counters).map(row).collect(), Vec::new())
            .print();
    }
    terminal::print(&text(&servers, &counters))
}

fn text(servers: &[String], counters: &[Vec<(String, u64)>]) -> String {
    let headings: Vec<String> = servers.iter().map(|server| shown(server)).collect();
    let mut columns = vec![("", Side::Left)];
    columns.extend(headings.iter().map(|heading| (&**heading, Side::Right)));
    let mut table = Table::new(&columns);
    // The order of the first server; servers of other versions may count other things.
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in counters.iter().flatten() {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    for name in names {
        let of = |counters: &Vec<(String, u64)>| {
            counters.iter().find(|(other, _)| other == name).map(|(_, value)| *value)
        };
        let values: Vec<Option<u64>> = counters.iter().map(of).collect();
        if values.iter().flatten().any(|value| *value > 0) {
            let cells = values.iter().map(|value| value.map_or("-".to_owned(), grouped));
            table.row(std::iter::once(shown(name)).chain(cells));
        }
    }
    table.render()
}
