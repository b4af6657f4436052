//! `striate serve`: a server of a parallel file system, or several in one process.
//!
//! It prints one line as soon as clients may connect. From then on its messages are in the log
//! on standard error, until a signal ends it: the first lets requests finish, a second does not
//! wait for them.

mod configuration;

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;
use striate_datatype::parse_size;
use striate_server::{Embedded, Server, ServerError, Settings, parse_address, parse_duration};
use tracing_subscriber::filter::LevelFilter;

use self::configuration::ConfigurationFile;
use crate::document::Document;
use crate::number::{counted, counted_as};
use crate::signals::EndSignals;
use crate::{CommandError, terminal};

/// Serve files to other machines: names, data or both
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate serve --embedded 4                        four servers in this process, to try it
  striate serve --embedded 4 --bandwidth 40MiB      the same, each with the rate of a slow disk
  striate serve --meta --data /srv/striate          one server for this machine
  striate serve --data /srv/io --listen 10.0.0.2:7479 --key-file /etc/striate/key
  striate serve --data /srv/meta --listen 10.0.0.1:7479 --key-file /etc/striate/key \\
      --meta --servers 10.0.0.2:7479,10.0.0.3:7479  the metadata server  striate serve --config /etc/striate/striate.toml --print-config

The first word of the line that it prints is the URL or the address; --json prints it as JSON.
On SIGTERM and SIGINT the server finishes requests in progress and ends; a second signal ends it at once.")]
pub(crate) struct ServeArgs {
    /// The data directory; created if it does not exist
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,

    /// Where to listen: an address or a host name, and a port; port 0 means any free port
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    listen: Option<SocketAddr>,

    /// Be the metadata server, which stores the names of files
    #[arg(long)]
    meta: bool,

    /// For --meta: the addresses of all I/O servers for clients, in an order that must not change
    /// [default: itself]
    #[arg(long, value_name = "A,B,...", value_delimiter = ',')]
    servers: Option<Vec<String>>,

    /// The file with the key that clients must have
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// The certificate in PEM format; clients must then use TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,

    /// The key of the certificate in PEM format
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Listen to other machines without a key
    #[arg(long)]
    allow_anyone: bool,

    /// Serve metrics for Prometheus here
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    metrics: Option<SocketAddr>,

    /// Delay each read and write of data, as a distant server would
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    delay: Option<Duration>,

    /// Limit the data per second, as on a slow server; e.g. 40MiB
    #[arg(long, value_name = "SIZE", value_parser = rate)]
    bandwidth: Option<u64>,

    /// A configuration file; the other options override it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,

    /// Start N servers in this process, in --data or a temporary directory
    #[arg(
        long,
        value_name = "N",
        value_parser = clap::value_parser!(u16).range(1..=1024),
        conflicts_with_all = ["listen", "meta", "servers", "metrics"]
    )]
    embedded: Option<u16>,

    /// What to log: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", hide_possible_values = true, value_parser = level())]
    log: LevelFilter,

    /// Print the configuration that results from the options and the file, and serve nothing
    #[arg(long, conflicts_with = "embedded")]
    print_config: bool,
}

fn level() -> impl TypedValueParser<Value = LevelFilter> {
    PossibleValuesParser::new(["off", "error", "warn", "info", "debug", "trace"])
        .try_map(|text| text.parse::<LevelFilter>())
}

/// Bytes per second.
pub(crate) fn rate(text: &str) -> Result<u64, String> {
    match parse_size(text) {
        Ok(0) => Err("nothing could pass".into()),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.to_string()),
    }
}

impl ServeArgs {
    /// What the file and the options say together.
    fn settings(&self) -> Result<Settings, CommandError> {
        let mut settings = match &self.config {
            Some(path) => Settings::from_file(path).map_err(failed)?,
            None => Settings::default(),
        };
        set(&mut settings.data, self.data.as_ref());
        set(&mut settings.listen, self.listen.as_ref());
        set(&mut settings.servers, self.servers.as_ref());
        set(&mut settings.delay, self.delay.as_ref());
        settings.bandwidth = self.bandwidth.or(settings.bandwidth);
        settings.metadata |= self.meta;
        settings.allow_anyone |= self.allow_anyone;
        settings.key_file = self.key_file.clone().or(settings.key_file);
        settings.tls_certificate = self.tls_cert.clone().or(settings.tls_certificate);
        settings.tls_key = self.tls_key.clone().or(settings.tls_key);
        settings.metrics = self.metrics.or(settings.metrics);
        Ok(settings)
    }
}

fn set<T: Clone>(setting: &mut T, option: Option<&T>) {
    if let Some(value) = option {
        setting.clone_from(value);
    }
}

/// The line that says that clients may connect.
#[derive(Debug, Serialize)]
struct ServingLine {
    /// Where the server listens; of several, the one that keeps the names.
    address: SocketAddr,
    /// What clients call the file system, if this server keeps names.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
    /// Where metrics are served.
    #[serde(skip_serializing_if = "Option::is_none")]
    metrics: Option<SocketAddr>,
    /// The directory, unless it is temporary.
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<PathBuf>,
    /// All servers of this process.
    servers: Vec<SocketAddr>,
    pid: u32,
}

impl ServingLine {
    fn new(servers: &[Server], settings: &Settings, metadata: bool, data: Option<PathBuf>) -> Self {
        let scheme = if settings.tls_key.is_some() { "striate+tls" } else { "striate" };
        let address = servers[0].address();
        Self {
            address,
            url: metadata.then(|| format!("{scheme}://{address}")),
            metrics: servers[0].metrics_address(),
            data,
            servers: servers.iter().map(Server::address).collect(),
            pid: std::process::id(),
        }
    }

    fn print(&self, json: bool) -> Result<(), CommandError> {
        if json {
            let line = serde_json::to_string(self)
                .map_err(|error| CommandError::failed("cannot write JSON", error, ""))?;
            return terminal::print(&format!("{line}\n"));
        }
        let name = self.url.clone().unwrap_or_else(|| self.address.to_string());
        let servers = match self.servers.len() {
            1 => String::new(),
            count => format!(" by {}", counted(count as u64, "server")),
        };
        let data = self
            .data
            .as_ref()
            .map_or("a temporary directory".into(), |data| data.display().to_string());
        let metrics = self
            .metrics
            .map_or(String::new(), |address| format!(", metrics at http://{address}/metrics"));
        terminal::print(&format!("{name} is served{servers} from {data}{metrics}\n"))
    }
}

pub(crate) fn run(args: &ServeArgs, json: bool) -> Result<(), CommandError> {
    let settings = args.settings()?;
    if args.print_config {
        let configuration = ConfigurationFile::new(&settings);
        return if json {
            Document::new(vec![configuration], Vec::new()).print()
        } else {
            terminal::print(&configuration.to_toml()?)
        };
    }
    start_log(args.log);
    // Before the server starts, so that no signal is lost.
    let ending = EndSignals::new()?;
    allow_many_files();
    let cut = match args.embedded {
        None => {
            let server = Server::start(settings.clone()).map_err(failed)?;
            let data = Some(settings.data.clone());
            ServingLine::new(std::slice::from_ref(&server), &settings, settings.metadata, data)
                .print(json)?;
            ending.wait();
            server.drain()
        }
        Some(count) => {
            let change = |server: &mut Settings| {
                *server = Settings {
                    data: server.data.clone(),
                    listen: server.listen,
                    metadata: server.metadata,
                    servers: server.servers.clone(),
                    metrics: None,
                    ..settings.clone()
                };
            };
            let embedded = match &args.data {
                Some(data) => Embedded::in_directory(count.into(), data, change),
                None => Embedded::with(count.into(), change),
            };
            let embedded = embedded.map_err(failed)?;
            ServingLine::new(embedded.servers(), &settings, true, args.data.clone()).print(json)?;
            ending.wait();
            embedded.drain()
        }
    };
    match cut {
        0 => Ok(()),
        cut => Err(CommandError::failed(
            "not all requests could finish",
            format!(
                "{} cut after {:?}",
                counted_as(cut as u64, "connection was", "connections were"),
                settings.limits.drain_time
            ),
            "drain_time in the section [limits] of the configuration allows for more",
        )),
    }
}

fn start_log(level: LevelFilter) {
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt().with_max_level(level).with_ansi(colours);
    log.with_target(false).with_writer(std::io::stderr).init();
}

/// Connections and objects need descriptors, and the usual limit is for programs that need few.
fn allow_many_files() {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit { current: limit.maximum, maximum: limit.maximum };
    if let Err(error) = setrlimit(Resource::Nofile, most) {
        tracing::warn!(%error, "cannot open more than {:?} files", limit.current);
    }
}

fn failed(error: ServerError) -> CommandError {
    let hint = match &error {
        ServerError::Settings(text) => {
            let hint = "'striate serve --print-config' shows the resulting configuration";
            return CommandError::usage(format!("the settings cannot be used: {text}"), hint);
        }
        ServerError::OpenToAnyone { .. } => "give --key-file FILE, or --allow-anyone",
        ServerError::MetricsOpenToAnyone { .. } => "serve them on 127.0.0.1, or --allow-anyone",
        ServerError::Listen { .. } => "choose another address, or port 0 for any that is free",
        ServerError::InUse { .. } => "end the other server, or choose another --data",
        ServerError::NotOurs { .. } => "choose an empty directory for --data",
        _ => "",
    };
    CommandError::failed("the server cannot start", error, hint)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct ServeLine {
        #[command(flatten)]
        args: ServeArgs,
    }

    fn parsed(arguments: &[&str]) -> Result<ServeArgs, clap::Error> {
        let all = ["serve"].iter().chain(arguments);
        ServeLine::try_parse_from(all).map(|line| line.args)
    }

    #[test]
    fn options_override_the_file() {
        let place = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(place.path(), "data = \"/file\"\nkey_file = \"/key\"\nmetadata = true")
            .unwrap();
        let file = place.path().to_str().unwrap();
        let args = ["--config", file, "--data", "/line", "--delay", "200us", "--bandwidth", "1MiB"];
        let args = parsed(&args).unwrap();
        let expected = Settings {
            data: "/line".into(),
            key_file: Some("/key".into()),
            metadata: true,
            delay: Duration::from_micros(200),
            bandwidth: Some(1 << 20),
            ..Settings::default()
        };
        assert_eq!(args.settings().unwrap(), expected);
        let args = parsed(&["--meta", "--servers", "a:1,b:2"]).unwrap();
        assert_eq!(args.settings().unwrap().servers, ["a:1", "b:2"]);
    }

    #[test]
    fn options_that_contradict_are_refused() {
        for wrong in [
            &["--tls-cert", "a"][..],
            &["--embedded", "0"],
            &["--embedded", "2", "--meta"],
            &["--delay", "5"],
            &["--bandwidth", "0"],
            &["--bandwidth", "fast"],
            &["--log", "loud"],
            &["--listen", "here"],
        ] {
            assert!(parsed(wrong).is_err(), "{wrong:?}");
        }
    }
}
