//! [`parse_address`]: the address to listen on, as a number or a host name.
//!
//! A server listens at one address. Of a name with several addresses, as `localhost` has for both
//! versions of the protocol, the first IPv4 address is used, or the first: clients that know the
//! name try all of them.

use std::net::{SocketAddr, ToSocketAddrs};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use thiserror::Error;

/// A text that is not an address to listen on.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum AddressError {
    /// It has no port.
    #[error(
        "'{0}' has no port: write HOST:PORT, such as 127.0.0.1:7479, or port 0 for any that is free"
    )]
    NoPort(String),
    /// The host cannot be found.
    #[error(
        "the host of '{text}' cannot be found: {why}; give its address, such as 127.0.0.1:7479"
    )]
    UnknownHost {
        /// The text.
        text: String,
        /// What the system says.
        why: String,
    },
}

/// Reads where to listen: an address or the name of a host, a colon, and a port.
///
/// ```
/// use striate_server::parse_address;
/// assert_eq!(parse_address("[::1]:80").unwrap().port(), 80);
/// assert!(parse_address("localhost:0").unwrap().ip().is_loopback());
/// assert!(parse_address("localhost").is_err());
/// ```
pub fn parse_address(text: &str) -> Result<SocketAddr, AddressError> {
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or((text, ""));
    // More colons are an address of version 6 without brackets, or without a port.
    if host.is_empty() || host.contains(':') || port.parse::<u16>().is_err() {
        return Err(AddressError::NoPort(text.to_owned()));
    }
    let unknown = |why: String| AddressError::UnknownHost { text: text.to_owned(), why };
    let found: Vec<SocketAddr> =
        text.to_socket_addrs().map_err(|error| unknown(error.to_string()))?.collect();
    let chosen = found.iter().find(|address| address.is_ipv4()).or(found.first());
    chosen.copied().ok_or_else(|| unknown("it has no address".to_owned()))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<SocketAddr, D::Error> {
    parse_address(&String::deserialize(from)?).map_err(D::Error::custom)
}

pub(super) fn deserialize_some<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<SocketAddr>, D::Error> {
    deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_address_says_what_is_one() {
        for text in ["localhost", "127.0.0.1", "::1", "", ":80", "here:", "here:x", "here:70000"] {
            let error = parse_address(text).unwrap_err();
            assert!(error.to_string().contains("has no port: write HOST:PORT"), "{text}: {error}");
        }
        let error = parse_address("no.such.host.invalid:80").unwrap_err().to_string();
        assert!(error.contains("cannot be found") && error.contains("invalid:80"), "{error}");
    }

    #[test]
    fn a_name_with_several_addresses_means_one_of_this_machine() {
        let address = parse_address("localhost:7479").unwrap();
        assert!(address.ip().is_loopback() && address.port() == 7479, "{address}");
    }
}
