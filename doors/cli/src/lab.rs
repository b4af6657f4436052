//! `striate lab`: several nodes on this machine, made of namespaces, to try jobs and servers on.

mod change;
mod down;
mod run;
mod status;
mod up;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde::Serialize;
use striate_lab::{Lab, LabError, LabRecord, LinkBytes};

use crate::CommandError;
use crate::number;
use crate::table::{Side, Table};

/// Try jobs and servers on several nodes that are made of namespaces of this machine
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate lab run --nodes 4 --rate 100mbit --mpi openmpi -n 4 -- ./simulation
  striate lab up --nodes 3 --rate 1gbit              a lab that stays
  striate lab run --lab lab-1 --on n3 -- striate serve --meta --data /tmp/io --listen n3:7479 --allow-anyone
  striate lab link n2 --lab lab-1 --cut              nothing passes to or from n2
  striate lab down lab-1

It needs root, iproute2 and util-linux. docs/lab.md says what nodes share, and what not.")]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, Subcommand)]
enum LabCommand {
    Up(up::LabUpArgs),
    Run(run::LabRunArgs),
    Status(status::LabStatusArgs),
    Link(change::LabLinkArgs),
    Kill(change::LabKillArgs),
    Start(change::LabStartArgs),
    Down(down::LabDownArgs),
}

/// Ends as the program does that it runs.
pub(crate) fn run(args: &LabArgs, json: bool) -> Result<ExitCode, CommandError> {
    match &args.command {
        LabCommand::Run(args) => return run::run(args, json),
        LabCommand::Up(args) => up::run(args, json)?,
        LabCommand::Status(args) => status::run(args, json)?,
        LabCommand::Link(args) => change::link(args, json)?,
        LabCommand::Kill(args) => change::kill(args, json)?,
        LabCommand::Start(args) => change::start(args, json)?,
        LabCommand::Down(args) => down::run(args, json)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// A node, as it is printed.
#[derive(Clone, Debug, Serialize)]
struct NodeRow {
    lab: String,
    node: String,
    address: String,
    /// `up`, `cut` or `killed`.
    state: &'static str,
    /// Bits per second; absent if not limited.
    #[serde(skip_serializing_if = "Option::is_none")]
    up_rate: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    down_rate: Option<u64>,
    loss: f64,
    /// Bytes that have passed over its cable.
    bytes: LinkBytes,
    processes: usize,
}

/// The nodes of a lab; bytes as they are given.
fn rows(lab: &Lab, bytes: &[LinkBytes]) -> Vec<NodeRow> {
    let nodes = lab.nodes().iter().enumerate();
    let row = |(i, node): (usize, &striate_lab::NodeRecord)| NodeRow {
        lab: lab.record().name.clone(),
        node: node.name.clone(),
        address: node.address.clone(),
        state: match (node.holder, node.is_cut) {
            (0, _) => "killed",
            (_, true) => "cut",
            (_, false) => "up",
        },
        up_rate: node.link.up.map(|rate| rate.0),
        down_rate: node.link.down.map(|rate| rate.0),
        loss: node.link.loss,
        bytes: bytes.get(i).copied().unwrap_or_default(),
        processes: lab.processes(i).map_or(0, |processes| processes.len()),
    };
    nodes.map(row).collect()
}

/// The nodes as a table.
fn table(lab: &Lab, rows: &[NodeRow]) -> String {
    let columns = [
        ("node", Side::Left),
        ("address", Side::Left),
        ("state", Side::Left),
        ("up", Side::Right),
        ("down", Side::Right),
        ("bytes up", Side::Right),
        ("bytes down", Side::Right),
        ("processes", Side::Right),
    ];
    let mut table = Table::new(&columns).spare(&["address", "processes"]);
    let rate = |rate: Option<striate_lab::Rate>| rate.map_or("any".into(), |rate| rate.to_string());
    for (row, node) in rows.iter().zip(lab.nodes()) {
        let lossy =
            if row.loss > 0.0 { format!(", loses {} %", row.loss * 100.0) } else { String::new() };
        table.row([
            row.node.clone(),
            row.address.clone(),
            format!("{}{lossy}", row.state),
            rate(node.link.up),
            rate(node.link.down),
            number::bytes(row.bytes.up),
            number::bytes(row.bytes.down),
            row.processes.to_string(),
        ]);
    }
    table.render()
}

/// The lab of this name; without a name, the only one.
fn find(name: Option<&str>) -> Result<Lab, CommandError> {
    if let Some(name) = name {
        return Lab::open(name).map_err(failed);
    }
    let alive: Vec<LabRecord> =
        Lab::all().into_iter().flatten().filter(LabRecord::is_alive).collect();
    match alive.as_slice() {
        [only] => Lab::open(&only.name).map_err(failed),
        [] => Err(CommandError::usage("there is no lab", "build one with 'striate lab up'")),
        several => {
            let names: Vec<&str> = several.iter().map(|lab| lab.name.as_str()).collect();
            let said = format!("there are several labs: {}", names.join(", "));
            Err(CommandError::usage(said, "say which one"))
        }
    }
}

fn failed(error: LabError) -> CommandError {
    let hint = match &error {
        LabError::NotRoot => "run it as root, for example with sudo".to_owned(),
        LabError::Missing { package, .. } => format!("as root: apt install {package}"),
        LabError::Forbidden { .. } => {
            "in a container, it must be privileged: docker run --privileged".to_owned()
        }
        LabError::Unknown(_) | LabError::Gone(_) => "'striate lab status' lists labs".to_owned(),
        LabError::Exists(name) => format!("'striate lab down {name}' removes it"),
        LabError::Setting(said) => return CommandError::usage(said.clone(), ""),
        _ => String::new(),
    };
    CommandError::failed("the lab", error, hint)
}
