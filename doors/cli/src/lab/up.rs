//! `striate lab up`: builds a lab that stays.

use std::path::PathBuf;

use clap::Args;
use striate_lab::{Lab, LabSettings, Link, Rate};

use super::{failed, rows, table};
use crate::document::Document;
use crate::number::counted;
use crate::{CommandError, terminal};

/// Build a lab, which stays until it is taken down
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate lab up --nodes 8 --rate 100mbit
  striate lab up --nodes 3 --up 20mbit --down 100mbit --name slow --share /tmp/project")]
pub(crate) struct LabUpArgs {
    #[command(flatten)]
    lab: NewLabArgs,

    /// Its name
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

/// What a lab is to be like.
#[derive(Debug, Args)]
pub(super) struct NewLabArgs {
    /// How many nodes it has: n1, n2, ...
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=250))]
    pub(super) nodes: u16,

    #[command(flatten)]
    pub(super) link: LinkArgs,

    /// A directory below /tmp or /dev/shm that all nodes see; they see the current directory, and
    /// all that is elsewhere, anyway
    #[arg(long, value_name = "DIR")]
    pub(super) share: Vec<PathBuf>,
}

/// What the cable between a node and the switch lets pass.
#[derive(Debug, Args)]
pub(super) struct LinkArgs {
    /// The rate of links in each direction, such as 100mbit
    #[arg(long, value_name = "RATE")]
    rate: Option<Rate>,

    /// The rate from a node to the others
    #[arg(long, value_name = "RATE")]
    up: Option<Rate>,

    /// The rate from the others to a node
    #[arg(long, value_name = "RATE")]
    down: Option<Rate>,

    /// The share of packets that is lost in each direction, such as 0.01
    #[arg(long, value_name = "SHARE", default_value_t = 0.0)]
    loss: f64,
}

impl LinkArgs {
    pub(super) fn link(&self) -> Link {
        Link { up: self.up.or(self.rate), down: self.down.or(self.rate), loss: self.loss }
    }
}

impl NewLabArgs {
    /// Builds it.
    pub(super) fn build(&self, name: Option<&String>) -> Result<Lab, CommandError> {
        let mut settings = LabSettings::new(self.nodes.into(), self.link.link());
        settings.name = name.cloned();
        settings.shared.clone_from(&self.share);
        // Where nodes have directories of their own, the current one is not below those.
        settings.shared.extend(std::env::current_dir().ok().filter(|here| {
            let private = ["/tmp", "/dev/shm"];
            private
                .iter()
                .any(|private| here.starts_with(private) && !here.ends_with(&private[1..]))
        }));
        Lab::up(&settings).map_err(failed)
    }
}

pub(super) fn run(args: &LabUpArgs, json: bool) -> Result<(), CommandError> {
    // An interruption until the lab is told to stay takes it down.
    let mut lab = args.lab.build(args.name.as_ref())?;
    let rows = rows(&lab, &[]);
    lab.keep().map_err(failed)?;
    if json {
        return Document::new(rows, Vec::new()).print();
    }
    let name = &lab.record().name;
    let nodes = counted(rows.len() as u64, "node");
    let table = table(&lab, &rows);
    terminal::print(&format!(
        "{name} has {nodes}:\n\n{table}\nA program in it: striate lab run --lab {name} -- PROGRAM\n"
    ))
}
