//! `striate completions`: completion scripts for shells.

use clap::{Args, CommandFactory};
use clap_complete::Shell;
use serde::Serialize;

use crate::document::Document;
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

/// The row of the JSON document.
#[derive(Debug, Serialize)]
struct CompletionScript {
    shell: String,
    script: String,
}

pub(crate) fn run(args: &CompletionsArgs, json: bool) -> Result<(), CommandError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "striate", &mut script);
    let script = String::from_utf8_lossy(&script).into_owned();
    if json {
        let shell = args.shell.to_string();
        return Document::new(vec![CompletionScript { shell, script }], Vec::new()).print();
    }
    terminal::print(&script)
}
