//! `striate lab link`, `kill` and `start`: what happens to nodes and their cables.

use clap::Args;
use striate_lab::{Lab, LabError};

use super::up::LinkArgs;
use super::{failed, find, rows, table};
use crate::document::Document;
use crate::{CommandError, terminal};

/// Change, cut or restore the link of a node
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate lab link n2 --rate 10mbit      slow, in both directions
  striate lab link n2 --loss 0.01        as fast as the machine, and one of 100 packets is lost
  striate lab link n2 --cut
  striate lab link n2 --restore")]
pub(crate) struct LabLinkArgs {
    #[command(flatten)]
    node: OfNode,

    #[command(flatten)]
    link: LinkArgs,

    /// Nothing passes any more, and nobody is told
    #[arg(long, conflicts_with_all = ["rate", "up", "down", "loss", "restore"])]
    cut: bool,

    /// What was cut is whole again
    #[arg(long, conflicts_with_all = ["rate", "up", "down", "loss"])]
    restore: bool,
}

/// Kill a node, as a failure of its power would
#[derive(Debug, Args)]
#[command(after_help = "\
Example: striate lab kill n2")]
pub(crate) struct LabKillArgs {
    #[command(flatten)]
    node: OfNode,
}

/// Start a node again that was killed
#[derive(Debug, Args)]
#[command(after_help = "\
Example: striate lab start n2")]
pub(crate) struct LabStartArgs {
    #[command(flatten)]
    node: OfNode,
}

#[derive(Debug, Args)]
struct OfNode {
    /// The node, such as n2
    #[arg(value_name = "NODE")]
    node: String,

    /// Its lab, if there are several
    #[arg(long, value_name = "NAME")]
    lab: Option<String>,
}

impl OfNode {
    /// Changes the node, and prints how it is then.
    fn change(
        &self,
        json: bool,
        change: impl FnOnce(&mut Lab, usize) -> Result<(), LabError>,
    ) -> Result<(), CommandError> {
        let mut lab = find(self.lab.as_deref())?;
        let node = lab.node_called(&self.node).map_err(failed)?;
        change(&mut lab, node).map_err(failed)?;
        let rows = rows(&lab, &lab.link_bytes().map_err(failed)?);
        if json {
            return Document::new(vec![rows[node].clone()], Vec::new()).print();
        }
        terminal::print(&table(&lab, &rows))
    }
}

pub(super) fn link(args: &LabLinkArgs, json: bool) -> Result<(), CommandError> {
    args.node.change(json, |lab, node| match (args.cut, args.restore) {
        (true, _) => lab.cut(node),
        (_, true) => lab.restore(node),
        _ => lab.set_link(node, args.link.link()),
    })
}

pub(super) fn kill(args: &LabKillArgs, json: bool) -> Result<(), CommandError> {
    args.node.change(json, Lab::kill)
}

pub(super) fn start(args: &LabStartArgs, json: bool) -> Result<(), CommandError> {
    args.node.change(json, Lab::start)
}
