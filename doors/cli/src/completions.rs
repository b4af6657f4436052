//! `striate completions`: what a shell needs to complete commands and options.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::{Cli, CommandError, terminal};

/// Print a completion script for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate completions bash > ~/.local/share/bash-completion/completions/striate
  striate completions fish > ~/.config/fish/completions/striate.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &CompletionsArgs) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "striate", &mut script);
    terminal::print(&String::from_utf8_lossy(&script))
}
