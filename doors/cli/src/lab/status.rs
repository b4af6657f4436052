//! `striate lab status`: which labs there are, and how their nodes and links are.

use std::fmt::Write as _;

use clap::Args;
use striate_lab::Lab;

use super::{failed, find, rows, table};
use crate::document::Document;
use crate::{CommandError, terminal};

/// List labs with their nodes, links and the bytes that passed over them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate lab status
  striate lab status lab-1 --json")]
pub(crate) struct LabStatusArgs {
    /// The lab; all if none is named
    #[arg(value_name = "LAB")]
    name: Option<String>,
}

pub(super) fn run(args: &LabStatusArgs, json: bool) -> Result<(), CommandError> {
    let (mut found, mut text) = (Vec::new(), String::new());
    let mut names: Vec<String> = args.name.iter().cloned().collect();
    if names.is_empty() {
        for lab in Lab::all().into_iter().flatten() {
            let name = lab.name.clone();
            if lab.is_alive() {
                names.push(name);
            } else {
                let _ = writeln!(text, "{name} was killed; 'striate lab down {name}' removes it");
            }
        }
    }
    for name in names {
        let lab = find(Some(&name))?;
        let of_lab = rows(&lab, &lab.link_bytes().map_err(failed)?);
        let _ = writeln!(text, "{name}\n{}", table(&lab, &of_lab).trim_end());
        found.extend(of_lab);
    }
    if json {
        return Document::new(found, Vec::new()).print();
    }
    if text.is_empty() {
        text.push_str("there is no lab\n");
    }
    terminal::print(&text)
}
