//! [`Settings`]: how a server is configured, by a file or by a program.
//!
//! Everything has a default that is safe: a server listens only to its own machine until it is
//! given a key, or is set to allow any client.

pub(crate) mod address;

use std::fmt;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};
use striate_datatype::parse_size;
use striate_wire::limits::{MAX_NAME, MAX_SERVERS};
use thiserror::Error;

use crate::error::ServerError;

/// The default port of servers.
pub const PORT: u16 = 7479;

/// The configuration of a server.
///
/// ```
/// use striate_server::Settings;
/// let settings = Settings::from_toml(
///     r#"
///     data = "/srv/striate"
///     metadata = true
///     servers = ["io1:7479", "io2:7479"]
///     [limits]
///     memory = "1GiB"
///     handshake_time = "2s"
///     "#,
/// )?;
/// assert_eq!(settings.limits.memory, 1 << 30);
/// assert_eq!(settings.limits.connections, 4096);
/// # Ok::<(), striate_server::ServerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// The data directory; created if it does not exist.
    pub data: PathBuf,
    /// Where to listen; with port 0, on any free port. A configuration file may name a host.
    #[serde(deserialize_with = "address::deserialize")]
    pub listen: SocketAddr,
    /// Whether the server keeps the names of files.
    pub metadata: bool,
    /// For a server that keeps names: the addresses of all I/O servers, as clients reach them, in
    /// an order that stays. If empty: the server itself.
    pub servers: Vec<String>,
    /// A file with the key that clients must have.
    pub key_file: Option<PathBuf>,
    /// A PEM file with the server's certificate; clients must speak TLS then.
    pub tls_certificate: Option<PathBuf>,
    /// A PEM file with the key of the certificate.
    pub tls_key: Option<PathBuf>,
    /// Whether ports that ask for no key may listen to other machines.
    pub allow_anyone: bool,
    /// Where to serve metrics over HTTP, if at all.
    #[serde(deserialize_with = "address::deserialize_some")]
    pub metrics: Option<SocketAddr>,
    /// How long each read or write of data is delayed, to see in experiments what latency costs.
    #[serde(deserialize_with = "duration")]
    pub delay: Duration,
    /// Bytes of data that pass in a second at most, in both directions together, to see in
    /// experiments what a slow server costs.
    #[serde(deserialize_with = "rate")]
    pub bandwidth: Option<u64>,
    /// What clients may take.
    pub limits: Limits,
}

/// What clients may take, all together or each.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Connections of clients at a time.
    pub connections: usize,
    /// Connections at a time whose clients have not yet proved that they have the key. They do
    /// not count as those of clients.
    pub handshakes: usize,
    /// Bytes of memory that data passes through.
    #[serde(deserialize_with = "size")]
    pub memory: usize,
    /// Bytes of datatypes that are remembered.
    #[serde(deserialize_with = "size")]
    pub descriptions: usize,
    /// Objects that are open at a time.
    pub open_files: usize,
    /// Locks that are held at a time.
    pub locks: usize,
    /// How long a handshake may take.
    #[serde(deserialize_with = "duration")]
    pub handshake_time: Duration,
    /// How long a frame may pause once its first byte has arrived: at least 4 KiB of it, or its
    /// rest, come in this time.
    #[serde(deserialize_with = "duration")]
    pub frame_time: Duration,
    /// How long a client may take nothing of what is sent to it, or send nothing that is due.
    #[serde(deserialize_with = "duration")]
    pub stall_time: Duration,
    /// Bad frames and failed handshakes of one address in a minute that are in the log; all are
    /// counted.
    pub bad_frames: u32,
    /// How long requests in progress are waited for when the server stops.
    #[serde(deserialize_with = "duration")]
    pub drain_time: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            data: "striate-data".into(),
            listen: (Ipv4Addr::LOCALHOST, PORT).into(),
            metadata: false,
            servers: Vec::new(),
            key_file: None,
            tls_certificate: None,
            tls_key: None,
            allow_anyone: false,
            metrics: None,
            delay: Duration::ZERO,
            bandwidth: None,
            limits: Limits::default(),
        }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 4096,
            handshakes: 256,
            memory: 256 << 20,
            descriptions: 64 << 20,
            open_files: 512,
            locks: 100_000,
            handshake_time: Duration::from_secs(5),
            frame_time: Duration::from_secs(10),
            stall_time: Duration::from_secs(60),
            bad_frames: 20,
            drain_time: Duration::from_secs(30),
        }
    }
}

impl Settings {
    /// Reads settings from the text of a configuration file.
    pub fn from_toml(text: &str) -> Result<Self, ServerError> {
        toml::from_str(text).map_err(|error| ServerError::Settings(error.to_string()))
    }

    /// Reads a configuration file.
    pub fn from_file(path: &Path) -> Result<Self, ServerError> {
        let text = std::fs::read_to_string(path).map_err(ServerError::system("read", path))?;
        Self::from_toml(&text)
            .map_err(|error| ServerError::Settings(format!("in {}: {error}", path.display())))
    }

    /// Refuses what would serve strangers by mistake, or cannot work.
    pub(crate) fn check(&self) -> Result<(), ServerError> {
        let settings = |text: String| Err(ServerError::Settings(text));
        let strangers = |address: SocketAddr, keyed: bool| {
            !address.ip().is_loopback() && !keyed && !self.allow_anyone
        };
        if strangers(self.listen, self.key_file.is_some()) {
            return Err(ServerError::OpenToAnyone { address: self.listen });
        }
        if let Some(address) = self.metrics.filter(|address| strangers(*address, false)) {
            return Err(ServerError::MetricsOpenToAnyone { address });
        }
        if self.tls_certificate.is_some() != self.tls_key.is_some() {
            return settings("tls_certificate and tls_key are only of use together".into());
        }
        if self.metadata && self.servers.is_empty() && self.listen.ip().is_unspecified() {
            return settings(format!(
                "clients cannot reach an I/O server at {}: name the servers as they are reached",
                self.listen
            ));
        }
        if self.servers.len() > MAX_SERVERS as usize {
            return settings(format!("there can be {MAX_SERVERS} servers at most"));
        }
        let is_address = |address: &String| !address.is_empty() && address.len() <= MAX_NAME;
        if let Some(address) = self.servers.iter().find(|address| !is_address(address)) {
            return settings(format!("{address:?} is not an address of a server"));
        }
        if self.bandwidth == Some(0) {
            return settings("a bandwidth of 0 would block all data".into());
        }
        if !self.metadata && !self.servers.is_empty() {
            return settings("only a server with metadata = true needs to know the servers".into());
        }
        Ok(())
    }
}

/// A text that is not a duration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{0}' is not a duration: write 200us, 50ms, 5s or 2m")]
pub struct DurationError(String);

/// Reads a duration: digits and one of the units `us`, `ms`, `s`, `m` (minutes).
///
/// ```
/// use std::time::Duration;
/// assert_eq!(striate_server::parse_duration("200us"), Ok(Duration::from_micros(200)));
/// assert!(striate_server::parse_duration("5").is_err());
/// ```
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let nonsense = || DurationError(text.to_owned());
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let micros: u64 = match unit {
        "us" => 1,
        "ms" => 1000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        _ => return Err(nonsense()),
    };
    let number: Option<u64> = number.parse().ok();
    let micros = number.and_then(|number| number.checked_mul(micros));
    micros.map(Duration::from_micros).ok_or_else(nonsense)
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    parse_duration(&String::deserialize(deserializer)?).map_err(D::Error::custom)
}

fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    size(deserializer).map(|bytes| Some(bytes as u64))
}

/// A size as text with a unit, or as a plain number of bytes.
fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<usize, D::Error> {
    struct Size;

    impl Visitor<'_> for Size {
        type Value = usize;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a size such as \"64MiB\", or a number of bytes")
        }

        fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<usize, E> {
            Ok(parse_size(text).map_err(E::custom)? as usize)
        }

        fn visit_i64<E: serde::de::Error>(self, bytes: i64) -> Result<usize, E> {
            usize::try_from(bytes).map_err(E::custom)
        }
    }

    deserializer.deserialize_any(Size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_has_its_default() {
        assert_eq!(Settings::from_toml("").unwrap(), Settings::default());
        let text =
            "delay = \"200us\"\nmetrics = \"[::1]:9000\"\n[limits]\nlocks = 5\nmemory = 4096";
        let settings = Settings::from_toml(text).unwrap();
        assert_eq!(settings.delay, Duration::from_micros(200));
        assert_eq!(settings.metrics, Some("[::1]:9000".parse().unwrap()));
        assert_eq!((settings.limits.locks, settings.limits.memory), (5, 4096));
        assert_eq!(settings.bandwidth, None);
        for (text, bytes) in [("\"40MiB\"", 40 << 20), ("1000", 1000)] {
            let settings = Settings::from_toml(&format!("bandwidth = {text}")).unwrap();
            assert_eq!(settings.bandwidth, Some(bytes));
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, named) in [
            ("dta = \"x\"", "dta"),
            ("[limits]\nlock = 5", "lock"),
            ("delay = \"200\"", "'200' is not a duration"),
            ("delay = \"99999999999999999999s\"", "not a duration"),
            ("[limits]\nmemory = \"3 parsecs\"", "parsecs"),
            ("[limits]\nmemory = -1", "out of range"),
            ("bandwidth = \"40 furlongs\"", "furlongs"),
        ] {
            let error = Settings::from_toml(text).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn strangers_are_let_in_only_on_purpose() {
        let listen = "0.0.0.0:0".parse().unwrap();
        let open = Settings { listen, ..Settings::default() };
        let error = open.check().unwrap_err().to_string();
        assert!(error.contains("allow_anyone"), "{error}");
        Settings { allow_anyone: true, ..open.clone() }.check().unwrap();
        let keyed = Settings { key_file: Some("key".into()), ..open };
        keyed.check().unwrap();
        // The key does not protect the metrics.
        let metrics = Settings { metrics: Some(listen), ..keyed.clone() };
        assert!(metrics.check().unwrap_err().to_string().contains("allow_anyone"));
        // No client can connect to 0.0.0.0.
        assert!(Settings { metadata: true, ..keyed }.check().is_err());
        let half = Settings { tls_key: Some("key".into()), ..Settings::default() };
        assert!(half.check().is_err());
        let still = Settings { bandwidth: Some(0), ..Settings::default() };
        assert!(still.check().unwrap_err().to_string().contains("block all data"));
    }
}
