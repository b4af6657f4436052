//! `striate fs mv`: renames a file.

use clap::Args;
use serde::Serialize;

use super::{FileUrl, as_directory};
use crate::CommandError;
use crate::document::Document;

/// Rename a file
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs mv striate://io.example/run7/out.dat striate://io.example/run7/final.dat
  striate fs mv striate://io.example/out.dat striate://io.example/old/

An existing file of the new name is replaced, atomically. No data is moved.")]
pub(crate) struct FsMvArgs {
    /// Fail if a file of the new name exists
    #[arg(short, long)]
    no_clobber: bool,

    /// The file
    from: FileUrl,

    /// Its new name, or a directory to move it to, with a slash at the end
    to: FileUrl,
}

/// A row of the JSON document.
#[derive(Debug, Serialize)]
struct RenamedFile {
    from: String,
    to: String,
}

/// What is true if it was interrupted while the server did not answer.
pub(crate) fn interrupted() -> CommandError {
    CommandError::failed(
        "it is not known which name the file has",
        "it was interrupted before the server answered",
        "'striate fs ls URL' shows it",
    )
}

pub(crate) fn run(args: &FsMvArgs, json: bool) -> Result<(), CommandError> {
    if !args.from.is_beside(&args.to) {
        return Err(CommandError::usage(
            "a file cannot get a name on other servers, or in another pool or namespace",
            "copy it with 'striate fs cp', then remove it",
        ));
    }
    let from = args.from.path();
    let mut to = args.to.path().to_owned();
    if to.is_empty() || to.ends_with('/') {
        let name = from.rsplit('/').next().unwrap_or(from);
        to = as_directory(&to) + name;
    }
    args.from.rename(from, &to, !args.no_clobber)?;
    if json {
        let to = args.from.with_path(&to).to_string();
        let renamed = RenamedFile { from: args.from.with_path(from).to_string(), to };
        return Document::new(vec![renamed], Vec::new()).print();
    }
    Ok(())
}
