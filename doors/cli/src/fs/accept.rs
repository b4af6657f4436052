//! `striate fs accept`: another data directory in place of one that is lost.

use clap::Args;
use serde::Serialize;
use striate_store::remote::{Client, RemoteUrl};

use super::shown;
use crate::document::Document;
use crate::{CommandError, terminal};

/// Accept the data directory that a server has now in place of one that is lost
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs accept striate://io.example io3.example:7479

A server that is started on another data directory than before, an empty one for instance, is refused
by all clients: its files would read as zeros. After this command it is used with the directory that it
has. What lay on the other is given up: 'striate fsck' names the files. If the other directory comes
back, accept it again instead.")]
pub(crate) struct FsAcceptArgs {
    /// The file system
    url: RemoteUrl,

    /// The server, as 'striate fs health' shows it
    server: String,
}

/// A row of the JSON document.
#[derive(Debug, Serialize)]
struct AcceptedStorage {
    server: String,
    identity: String,
}

pub(crate) fn run(args: &FsAcceptArgs, json: bool) -> Result<(), CommandError> {
    let client = Client::shared(&args.url)?;
    let servers = client.servers()?;
    if !servers.contains(&args.server) {
        return Err(CommandError::usage(
            format!("{} is not a server of {}", shown(&args.server), args.url),
            format!("its servers are {}", shown(&servers.join(", "))),
        ));
    }
    let identity = client.accept_storage(&args.server)?.to_string();
    let server = args.server.clone();
    if json {
        return Document::new(vec![AcceptedStorage { server, identity }], Vec::new()).print();
    }
    terminal::print(&format!("{} is used with the data directory {identity}\n", shown(&server)))
}
