//! `striate lab run`: a program in a node, or an MPI job on all, and the bytes that it moved.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rustix::process::{Pid, Signal, kill_process};
use striate_lab::{Lab, LinkBytes, Mpi, RanksOfNode};

use super::up::NewLabArgs;
use super::{failed, rows, table};
use crate::document::Document;
use crate::{CommandError, signals};

/// How long a program may take to end after a signal.
const GRACE: Duration = Duration::from_secs(5);

/// Run a program in a node, or an MPI job on the nodes, of a lab
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate lab run --nodes 4 --rate 100mbit --mpi openmpi -n 8 -- ./simulation input
  striate lab run --mpi mpich --ranks 2,1 -n 3 --env LD_PRELOAD=$PWD/libstriate_mpiio.so -- ./simulation
  striate lab run --lab lab-1 --on n2 -- sh          a shell in a node of a lab that is up

Without --lab a lab is built for the program and removed afterwards. In the end the bytes that passed
over the links are printed on standard error. The exit status is that of the program.")]
pub(crate) struct LabRunArgs {
    #[command(flatten)]
    new: NewLabArgs,

    /// A lab that is up
    #[arg(long, value_name = "NAME", conflicts_with_all = ["nodes", "rate", "up", "down", "loss", "share"])]
    lab: Option<String>,

    /// The node in which the program runs
    #[arg(long, value_name = "NODE", default_value = "n1", conflicts_with = "mpi")]
    on: String,

    /// Start ranks with the launcher of this MPI
    #[arg(long, value_name = "MPI")]
    mpi: Option<MpiName>,

    /// How many ranks [default: one per node]
    #[arg(short, long = "count", value_name = "N", requires = "mpi", value_parser = clap::value_parser!(u32).range(1..=65_536))]
    n: Option<u32>,

    /// How many ranks each node takes; the list is repeated over the nodes, and again
    #[arg(
        long,
        value_name = "N,N,...",
        requires = "mpi",
        value_delimiter = ',',
        default_value = "1"
    )]
    ranks: Vec<usize>,

    /// A variable of the ranks, not of their launcher
    #[arg(long, value_name = "NAME=VALUE", requires = "mpi")]
    env: Vec<String>,

    /// Do not print the bytes of the links
    #[arg(long)]
    quiet: bool,

    /// The program and its arguments
    #[arg(value_name = "PROGRAM", required = true, last = true)]
    words: Vec<OsString>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum MpiName {
    Openmpi,
    Mpich,
}

impl LabRunArgs {
    /// What is started, in the lab.
    fn command(&self, lab: &Lab) -> Result<Command, CommandError> {
        let Some(mpi) = self.mpi else {
            let node = lab.node_called(&self.on).map_err(failed)?;
            let mut command = lab.command(node, &self.words[0]).map_err(failed)?;
            command.args(&self.words[1..]);
            return Ok(command);
        };
        let mpi = match mpi {
            MpiName::Openmpi => Mpi::OpenMpi,
            MpiName::Mpich => Mpi::Mpich,
        };
        let nodes = lab.nodes().len();
        let ranks = self.n.map_or(nodes, |ranks| ranks as usize);
        let placed = RanksOfNode::repeat(ranks, &self.ranks, nodes);
        if placed.is_empty() {
            return Err(CommandError::usage("--ranks gives no node a rank", ""));
        }
        let mut command = lab.mpiexec(mpi, &placed).map_err(failed)?;
        for variable in &self.env {
            let Some((name, value)) = variable.split_once('=') else {
                let said = format!("--env {variable}: a variable is given as NAME=VALUE");
                return Err(CommandError::usage(said, ""));
            };
            command.args(mpi.variable(name, value));
        }
        command.args(&self.words);
        Ok(command)
    }
}

pub(super) fn run(args: &LabRunArgs, json: bool) -> Result<ExitCode, CommandError> {
    let stop = signals::flag()?;
    let lab = match &args.lab {
        Some(name) => Lab::open(name).map_err(failed)?,
        None => args.new.build(None)?,
    };
    let before = lab.link_bytes().map_err(failed)?;
    let mut child = start(&args.command(&lab)?)?;
    let mut stopped: Option<Instant> = None;
    let status = loop {
        let ended = child.try_wait();
        if let Some(status) = ended.map_err(|e| CommandError::failed("cannot wait", e, ""))? {
            break status;
        }
        if stop.load(Ordering::Relaxed) {
            let since = *stopped.get_or_insert_with(|| {
                terminate(&child);
                Instant::now()
            });
            if since.elapsed() > GRACE {
                let _ = child.kill();
            }
        }
        sleep(Duration::from_millis(10));
    };
    let after = lab.link_bytes().map_err(failed)?;
    let passed: Vec<LinkBytes> = after.into_iter().zip(before).map(|(a, b)| a - b).collect();
    let rows = rows(&lab, &passed);
    if json {
        eprint!("{}", Document::new(rows, Vec::new()).text()?);
    } else if !args.quiet {
        eprint!("\n{}", table(&lab, &rows));
    }
    Ok(exit_code(status))
}

/// Starts it so that it ends when this process does, also when that is killed.
fn start(command: &Command) -> Result<Child, CommandError> {
    let mut tied = Command::new("setpriv");
    tied.args(["--pdeathsig", "KILL"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => tied.env(name, value),
            None => tied.env_remove(name),
        };
    }
    tied.spawn().map_err(|error| CommandError::failed("cannot enter the node", error, ""))
}

/// Asks the program to end: it is the child of the process that has entered the node.
fn terminate(child: &Child) {
    let path = format!("/proc/{0}/task/{0}/children", child.id());
    for pid in std::fs::read_to_string(path).unwrap_or_default().split_whitespace() {
        if let Some(pid) = pid.parse().ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, Signal::TERM);
        }
    }
}

fn exit_code(status: ExitStatus) -> ExitCode {
    let of_signal = status.signal().map(|signal| 128 + signal);
    let code = status.code().or(of_signal).and_then(|code| u8::try_from(code).ok());
    ExitCode::from(code.unwrap_or(1))
}
