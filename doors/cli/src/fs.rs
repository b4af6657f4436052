//! `striate fs`: `ls`, `cp`, `mv`, `rm` and the like for files on servers and in pools of Ceph.

mod accept;
mod copy;
mod cp;
mod df;
mod file_url;
mod health;
pub(crate) mod local;
mod ls;
mod mv;
mod objects;
mod rm;
mod stat;
mod stats;
pub(crate) mod supervised;

use std::panic::resume_unwind;
use std::thread::ScopedJoinHandle;

use clap::{Args, Subcommand};
use striate_store::StoreError;
use striate_store::remote::{Client, RemoteUrl};

pub(crate) use copy::Location;
use file_url::FileUrl;
use supervised::{supervised, unchanged};

use crate::CommandError;

/// List, copy, move and remove files on servers, and show the state of the servers
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs cp -r results striate://io.example/run7    copy a directory tree to the servers
  striate fs ls -l striate://io.example/run7/
  striate fs df striate://io.example
  striate fs cp out.dat rados://pool/run7/out.dat       copy a file to a pool of Ceph
  striate fs cp out.nc s3://bucket/run7/                publish a file as an object

URLs are striate://host:port/path, or striate+tls:// with TLS; the port is 7479 if none is given.
Files in pools of Ceph are rados://[user@]pool[/namespace]/name; ls, stat, cp, mv, rm and df know them. Objects
are s3://bucket/key; ls, stat, cp and rm know them.
Environment:
  STRIATE_KEY_FILE   the file with the key that clients and servers share
  STRIATE_CA_FILE    the certificates of the trusted authorities, for TLS
  STRIATE_PATIENCE   how long to wait for an answer, including retries, such as 10s
  STRIATE_UNSYNCED   bytes that are kept until they are synced, to be written again after a crash
                     of a server (32MiB)
  AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and others   for s3://
  CEPH_CONF          the configuration of the Ceph cluster, if not /etc/ceph/ceph.conf
  CEPH_ARGS          options for it, such as --id USER
  STRIATE_LIBRADOS   another librados.so.2 than that of the system")]
pub(crate) struct FsArgs {
    #[command(subcommand)]
    command: FsCommand,
}

#[derive(Debug, Subcommand)]
enum FsCommand {
    Ls(ls::LsArgs),
    Stat(stat::StatArgs),
    Cp(cp::CpArgs),
    Mv(mv::FsMvArgs),
    Rm(rm::FsRmArgs),
    Df(df::DfArgs),
    Health(health::HealthArgs),
    Stats(stats::FsStatsArgs),
    Accept(accept::FsAcceptArgs),
}

/// How often servers are asked about themselves: whether they answer now is what is wanted.
const LOOKS: u32 = 4;

pub(crate) fn run(args: &FsArgs, json: bool) -> Result<(), CommandError> {
    let looking = unchanged("the answer is not complete");
    match &args.command {
        FsCommand::Ls(args) => supervised(looking, |_| ls::run(args, json)),
        FsCommand::Stat(args) => supervised(looking, |_| stat::run(args, json)),
        FsCommand::Cp(args) => cp::run(args, json),
        FsCommand::Mv(args) => supervised(mv::interrupted, |_| mv::run(args, json)),
        FsCommand::Rm(args) => rm::run(args, json),
        FsCommand::Df(args) => supervised(looking, |_| df::run(args, json)),
        FsCommand::Health(args) => supervised(looking, |_| health::run(args, json)),
        FsCommand::Stats(args) => supervised(looking, |_| stats::run(args, json)),
        FsCommand::Accept(args) => {
            supervised(unchanged("nothing is accepted"), |_| accept::run(args, json))
        }
    }
}

/// The path of a URL as the servers spell it.
pub(crate) fn path(url: &RemoteUrl) -> &str {
    url.path.strip_prefix('/').unwrap_or(&url.path)
}

/// What the files in a directory have before their names.
fn as_directory(path: &str) -> String {
    if path.is_empty() || path.ends_with('/') { path.to_owned() } else { format!("{path}/") }
}

/// Asks all servers at once, so that one that does not answer delays no other.
pub(crate) fn ask_each<T: Send>(
    addresses: &[String],
    question: impl Fn(&str) -> Result<T, StoreError> + Sync,
) -> Vec<Result<T, StoreError>> {
    let question = &question;
    std::thread::scope(|scope| {
        let asked = addresses.iter().map(|address| scope.spawn(move || question(address)));
        let asked: Vec<_> = asked.collect();
        let joined = asked.into_iter().map(ScopedJoinHandle::join);
        joined.map(|answer| answer.unwrap_or_else(|panic| resume_unwind(panic))).collect()
    })
}

/// The metadata server and all I/O servers, each once.
fn all_servers(client: &Client) -> Result<Vec<String>, StoreError> {
    let mut all = vec![client.address().to_owned()];
    let servers = client.servers()?;
    all.extend(servers.into_iter().filter(|server| server != client.address()));
    Ok(all)
}

/// A name without characters that would move the cursor or change the colours of a terminal.
fn shown(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}
