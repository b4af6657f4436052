//! `striate stack show`: prints a built-in stack, or a file.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;

use super::named::{named, text};
use crate::document::Document;
use crate::{CommandError, terminal};

/// Print a built-in stack, for example as a start for your own
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate stack show combine
  striate stack show fast-place > fast.toml    then change its paths")]
pub(crate) struct StackShowArgs {
    /// A name that 'striate stack list' shows, or a file
    #[arg(value_name = "STACK")]
    stack: PathBuf,
}

/// The row of the JSON document.
#[derive(Debug, Serialize)]
struct StackTextRow {
    stack: String,
    text: String,
}

pub(crate) fn run(args: &StackShowArgs, json: bool) -> Result<(), CommandError> {
    // Those that have to be changed before they are used can be looked at as well.
    let text = match named(&args.stack) {
        Some(stack) => stack.text.to_owned(),
        None => text(&args.stack)?.into_owned(),
    };
    if json {
        let stack = args.stack.to_string_lossy().into_owned();
        return Document::new(vec![StackTextRow { stack, text }], Vec::new()).print();
    }
    terminal::print(&text)
}
