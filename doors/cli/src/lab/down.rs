//! `striate lab down`: ends a lab, and removes what is left of one that was killed.

use std::fmt::Write as _;

use clap::Args;
use serde::Serialize;
use striate_lab::Lab;

use super::failed;
use crate::document::Document;
use crate::{CommandError, terminal};

/// End labs, with all programs in them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate lab down lab-1
  striate lab down --all      also what is left of labs that were killed")]
pub(crate) struct LabDownArgs {
    /// The labs
    #[arg(value_name = "LAB", required_unless_present = "all")]
    names: Vec<String>,

    /// All labs of this machine
    #[arg(long)]
    all: bool,
}

#[derive(Debug, Serialize)]
struct LabDownRow {
    lab: String,
}

pub(super) fn run(args: &LabDownArgs, json: bool) -> Result<(), CommandError> {
    let mut names = args.names.clone();
    if args.all {
        names = Lab::all().into_iter().flatten().map(|lab| lab.name).collect();
    }
    let mut text = String::new();
    for name in &names {
        Lab::down(name).map_err(failed)?;
        let _ = writeln!(text, "{name} is gone");
    }
    if json {
        let rows = names.into_iter().map(|lab| LabDownRow { lab }).collect();
        return Document::<LabDownRow>::new(rows, Vec::new()).print();
    }
    terminal::print(&text)
}
