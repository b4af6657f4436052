//! `striate stack`: the stages, and the files that combine them to stacks.

mod check;
mod list;
pub(crate) mod named;
mod recover;
mod show;
mod unpack;

use std::path::Path;

use clap::{Args, Subcommand};
use striate_stack::{Configuration, ConfigurationError};

use crate::CommandError;

/// List stages and stacks, check a stack, recover files that a stack has left behind
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate stack list                     the stages, and the built-in stacks
  striate run --stack write-back -- ./simulation
  striate stack show write-back > my.toml
  striate stack check my.toml            the chain of stages in a file

docs/stack.md describes such files.")]
pub(crate) struct StackArgs {
    #[command(subcommand)]
    command: StackCommand,
}

#[derive(Debug, Subcommand)]
enum StackCommand {
    List(list::ListArgs),
    Show(show::StackShowArgs),
    Check(check::CheckArgs),
    Recover(recover::RecoverArgs),
    Unpack(unpack::UnpackArgs),
}

pub(crate) fn run(args: &StackArgs, json: bool) -> Result<(), CommandError> {
    match &args.command {
        StackCommand::List(args) => list::run(args, json),
        StackCommand::Show(args) => show::run(args, json),
        StackCommand::Check(args) => check::run(args, json),
        StackCommand::Recover(args) => recover::run(args, json),
        StackCommand::Unpack(args) => unpack::run(args, json),
    }
}

/// The stack of a name that comes along, or of a file.
pub(crate) fn read(given: &Path) -> Result<Configuration, CommandError> {
    Ok(read_text(given)?.0)
}

/// The same, and the text that it is made of.
pub(crate) fn read_text(given: &Path) -> Result<(Configuration, String), CommandError> {
    let text = named::text(given)?;
    let configuration =
        striate_stages::parse_stack(&text).map_err(|error| refused(given, &error))?;
    Ok((configuration, text.into_owned()))
}

/// A file is not a configuration.
pub(crate) fn refused(path: &Path, error: &ConfigurationError) -> CommandError {
    let hint = match error {
        ConfigurationError::Unreadable { .. } => "",
        ConfigurationError::Stage { .. } => "'striate stack list' shows which stages there are",
        _ => "docs/stack.md describes such files",
    };
    let attempted = format!("{} is not a stack", path.display());
    CommandError::failed(attempted, error.to_string().trim_end().to_owned(), hint)
}
