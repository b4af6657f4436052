//! `striate stack`: the stages that programs can be run with, and files that put them together.

mod check;
mod list;
mod recover;
mod unpack;

use std::path::Path;

use clap::{Args, Subcommand};
use striate_stack::{Configuration, ConfigurationError};

use crate::CommandError;

/// List the stages that programs can be run with, check a stack of them, finish what one left behind
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate stack list                     which stages there are
  striate stack check write-back.toml    what a file makes of them
  striate run --stack write-back.toml -- ./simulation

docs/stack.md tells how to write such files; etc/stacks has some.")]
pub(crate) struct StackArgs {
    #[command(subcommand)]
    command: StackCommand,
}

#[derive(Debug, Subcommand)]
enum StackCommand {
    List(list::ListArgs),
    Check(check::CheckArgs),
    Recover(recover::RecoverArgs),
    Unpack(unpack::UnpackArgs),
}

pub(crate) fn run(args: &StackArgs, json: bool) -> Result<(), CommandError> {
    match &args.command {
        StackCommand::List(args) => list::run(args, json),
        StackCommand::Check(args) => check::run(args, json),
        StackCommand::Recover(args) => recover::run(args, json),
        StackCommand::Unpack(args) => unpack::run(args, json),
    }
}

/// The configuration in a file.
pub(crate) fn read(path: &Path) -> Result<Configuration, CommandError> {
    Configuration::read(path).map_err(|error| refused(path, &error))
}

/// A file is not a configuration.
pub(crate) fn refused(path: &Path, error: &ConfigurationError) -> CommandError {
    let hint = match error {
        ConfigurationError::Unreadable { .. } => "",
        ConfigurationError::Stage { .. } => "'striate stack list' shows which stages there are",
        _ => "docs/stack.md tells how such files are written",
    };
    let attempted = format!("{} is not a stack", path.display());
    CommandError::failed(attempted, error.to_string().trim_end().to_owned(), hint)
}
