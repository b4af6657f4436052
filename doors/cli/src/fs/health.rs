//! `striate fs health`: which servers answer, and how fast.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use clap::Args;
use serde::Serialize;
use striate_store::remote::{CallError, Client, RemoteUrl};
use striate_store::{Cause, StoreError};

use super::{LOOKS, all_servers, ask_each, shown};
use crate::document::Document;
use crate::number::{counted, grouped, short};
use crate::table::{Side, Table};
use crate::time::length;
use crate::{CommandError, terminal};

/// How often each server is asked for a sign of life; the fastest counts.
const PINGS: usize = 5;

/// Show which servers answer, and how fast; fails if one does not
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs health striate://io.example
  STRIATE_PATIENCE=5s striate fs health --json striate://io.example || alert")]
pub(crate) struct HealthArgs {
    /// The file system
    url: RemoteUrl,
}

/// A server; a row of the JSON document.
#[derive(Debug, Serialize)]
struct HealthRow {
    server: String,
    reachable: bool,
    /// Whether it answers, and must not be used: it has another data directory.
    #[serde(skip)]
    refused: bool,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    answer: Option<HealthAnswer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

/// What a server that answers says.
#[derive(Debug, Serialize)]
struct HealthAnswer {
    /// `names`, `data`, or `names and data`.
    role: &'static str,
    version: String,
    identity: String,
    uptime_s: u64,
    connections: u32,
    latency_ms: f64,
}

impl HealthRow {
    fn new(server: &str, answer: Result<HealthAnswer, StoreError>) -> Self {
        let server = server.to_owned();
        match answer {
            Ok(answer) => {
                let (refused, answer) = (false, Some(answer));
                Self { server, reachable: true, refused, answer, error: None }
            }
            Err(error) => {
                let refused = matches!(error.cause(), Cause::Server(error)
                    if matches!(error.reason(), CallError::WrongStorage { .. }));
                let error = Some(error.to_string());
                Self { server, reachable: refused, refused, answer: None, error }
            }
        }
    }
}

pub(crate) fn run(args: &HealthArgs, json: bool) -> Result<(), CommandError> {
    let rows = match ask(&args.url) {
        Ok(rows) => rows,
        // Without the metadata server the I/O servers are not known.
        Err(error) => vec![HealthRow::new(&args.url.address, Err(error))],
    };
    let down = rows.iter().filter(|row| row.answer.is_none()).count();
    if json {
        Document::new(rows, Vec::new()).print()?;
    } else {
        terminal::print(&text(&rows, down))?;
    }
    if down > 0 { Err(CommandError::NotWell) } else { Ok(()) }
}

fn ask(url: &RemoteUrl) -> Result<Vec<HealthRow>, StoreError> {
    let client = Client::with_attempts(url, LOOKS)?;
    let holders = client.servers()?;
    let servers = all_servers(&client)?;
    let answers = ask_each(&servers, |server| {
        let told = client.identify(server)?;
        let mut fastest = Duration::MAX;
        for _ in 0..PINGS {
            let start = Instant::now();
            client.ping(server)?;
            fastest = fastest.min(start.elapsed());
        }
        let role = match (told.metadata, holders.iter().any(|holder| holder == server)) {
            (true, true) => "names and data",
            (true, false) => "names",
            _ => "data",
        };
        Ok(HealthAnswer {
            role,
            version: told.version,
            identity: told.identity.to_string(),
            uptime_s: told.uptime_s,
            connections: told.connections,
            latency_ms: fastest.as_secs_f64() * 1e3,
        })
    });
    Ok(servers.iter().zip(answers).map(|(server, answer)| HealthRow::new(server, answer)).collect())
}

fn text(rows: &[HealthRow], down: usize) -> String {
    let mut table = Table::new(&[
        ("server", Side::Left),
        ("role", Side::Left),
        ("version", Side::Left),
        ("up for", Side::Left),
        ("connections", Side::Right),
        ("ping ms", Side::Right),
    ]);
    for row in rows {
        let cells = match &row.answer {
            None if row.refused => ["refused", "", "", "", ""].map(str::to_owned),
            None => ["down", "", "", "", ""].map(str::to_owned),
            Some(answer) => [
                answer.role.to_owned(),
                shown(&answer.version),
                length(Duration::from_secs(answer.uptime_s)),
                grouped(answer.connections),
                short(answer.latency_ms),
            ],
        };
        table.row(std::iter::once(shown(&row.server)).chain(cells));
    }
    let mut text = table.render();
    for error in rows.iter().filter_map(|row| row.error.as_ref()) {
        let _ = writeln!(text, "{}", shown(error));
    }
    let _ = match down {
        0 if rows.len() == 1 => writeln!(text, "the server answers"),
        0 => writeln!(text, "all {} answer", counted(rows.len() as u64, "server")),
        down => {
            let servers = counted(rows.len() as u64, "server");
            let refused = rows.iter().filter(|row| row.refused).count();
            let verb = if down == 1 { "does" } else { "do" };
            let _ = match down - refused {
                0 => Ok(()),
                down => writeln!(text, "{} of {servers} {verb} not answer", grouped(down as u64)),
            };
            match refused {
                0 => Ok(()),
                refused => writeln!(
                    text,
                    "{} of {servers} cannot be used: see 'striate fs accept --help'",
                    grouped(refused as u64)
                ),
            }
        }
    };
    text
}
