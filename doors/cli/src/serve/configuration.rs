//! Settings as a configuration file, with every option that has a value.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use striate_server::{Limits, Settings};

use crate::CommandError;

/// Settings as a file has them, and as the row of a JSON document.
#[derive(Serialize)]
pub(super) struct ConfigurationFile<'s> {
    data: &'s Path,
    listen: SocketAddr,
    metadata: bool,
    servers: &'s [String],
    key_file: Option<&'s Path>,
    tls_certificate: Option<&'s Path>,
    tls_key: Option<&'s Path>,
    allow_anyone: bool,
    metrics: Option<SocketAddr>,
    delay: String,
    bandwidth: Option<String>,
    limits: LimitsSection,
}

#[derive(Serialize)]
struct LimitsSection {
    connections: usize,
    handshakes: usize,
    memory: String,
    descriptions: String,
    open_files: usize,
    locks: usize,
    handshake_time: String,
    frame_time: String,
    stall_time: String,
    bad_frames: u32,
    drain_time: String,
}

impl<'s> ConfigurationFile<'s> {
    /// What the settings say.
    pub(super) fn new(settings: &'s Settings) -> Self {
        // Taken apart, so that no setting can be forgotten.
        let Settings {
            data,
            listen,
            metadata,
            servers,
            key_file,
            tls_certificate,
            tls_key,
            allow_anyone,
            metrics,
            delay,
            bandwidth,
            limits,
        } = settings;
        let Limits {
            connections,
            handshakes,
            memory,
            descriptions,
            open_files,
            locks,
            handshake_time,
            frame_time,
            stall_time,
            bad_frames,
            drain_time,
        } = limits;
        Self {
            data,
            listen: *listen,
            metadata: *metadata,
            servers,
            key_file: key_file.as_deref(),
            tls_certificate: tls_certificate.as_deref(),
            tls_key: tls_key.as_deref(),
            allow_anyone: *allow_anyone,
            metrics: *metrics,
            delay: duration(*delay),
            bandwidth: bandwidth.map(size),
            limits: LimitsSection {
                connections: *connections,
                handshakes: *handshakes,
                memory: size(*memory as u64),
                descriptions: size(*descriptions as u64),
                open_files: *open_files,
                locks: *locks,
                handshake_time: duration(*handshake_time),
                frame_time: duration(*frame_time),
                stall_time: duration(*stall_time),
                bad_frames: *bad_frames,
                drain_time: duration(*drain_time),
            },
        }
    }

    /// The text of the file.
    pub(super) fn to_toml(&self) -> Result<String, CommandError> {
        toml::to_string(self)
            .map_err(|error| CommandError::failed("cannot print the configuration", error, ""))
    }
}

/// A length of time in the largest unit that makes it a whole number.
fn duration(time: Duration) -> String {
    let micros = time.as_micros();
    match () {
        () if micros.is_multiple_of(1_000_000) => format!("{}s", micros / 1_000_000),
        () if micros.is_multiple_of(1000) => format!("{}ms", micros / 1000),
        () => format!("{micros}us"),
    }
}

/// A size in the largest unit that makes it a whole number.
fn size(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let whole = units.iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    whole.map_or_else(|| format!("{bytes}b"), |(shift, unit)| format!("{}{unit}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to_toml(settings: &Settings) -> Result<String, CommandError> {
        ConfigurationFile::new(settings).to_toml()
    }

    #[test]
    fn what_is_printed_is_read_as_the_same() {
        let mut settings = Settings::default();
        assert_eq!(Settings::from_toml(&to_toml(&settings).unwrap()).unwrap(), settings);
        settings.servers = vec!["a:1".into(), "b:2".into()];
        settings.key_file = Some("/a \"key\"".into());
        settings.tls_certificate = Some("c".into());
        settings.tls_key = Some("k".into());
        settings.metrics = Some("[::1]:9".parse().unwrap());
        settings.delay = Duration::from_micros(1500);
        settings.bandwidth = Some(40 << 20);
        settings.limits.memory = 12_345;
        settings.limits.descriptions = 3 << 30;
        settings.limits.drain_time = Duration::from_millis(250);
        assert_eq!(Settings::from_toml(&to_toml(&settings).unwrap()).unwrap(), settings);
    }

    #[test]
    fn the_documented_file_has_every_option_with_its_default() {
        let text = include_str!("../../../../etc/striate.toml");
        // A package has its data elsewhere than a first try.
        let expected = Settings { data: "/var/lib/striate".into(), ..Settings::default() };
        assert_eq!(Settings::from_toml(text).unwrap(), expected);
        // Options without a default stand there as comments; with them it is a file as well.
        let all = text.replace("\n#key_file", "\nkey_file").replace("\n#tls_", "\ntls_");
        let all = all.replace("\n#metrics", "\nmetrics").replace("\n#bandwidth", "\nbandwidth");
        let all = Settings::from_toml(&all).unwrap();
        assert!(all.key_file.is_some() && all.tls_key.is_some() && all.tls_certificate.is_some());
        assert!(all.metrics.is_some() && all.bandwidth.is_some());
        for line in to_toml(&all).unwrap().lines().filter(|line| line.contains(" = ")) {
            let option = line.split(" = ").next().unwrap();
            assert!(text.contains(&format!("{option} = ")), "{option} is not documented");
        }
    }
}
