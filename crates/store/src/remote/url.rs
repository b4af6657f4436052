//! [`RemoteUrl`]: the name of a file on servers, `striate://host:port/path`.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// The port of a server if none is given.
pub const DEFAULT_PORT: u16 = 7479;

const PLAIN: &str = "striate://";
const TLS: &str = "striate+tls://";

/// A metadata server, and the path of a file there.
///
/// ```
/// use striate_store::remote::RemoteUrl;
/// let url: RemoteUrl = "striate://io.example/run/out.dat".parse()?;
/// assert_eq!((&*url.address, &*url.path, url.tls), ("io.example:7479", "run/out.dat", false));
/// assert_eq!(url.to_string(), "striate://io.example:7479/run/out.dat");
/// # Ok::<(), striate_store::remote::UrlError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RemoteUrl {
    /// The metadata server, as `host:port`; an IPv6 address stands in brackets.
    pub address: String,
    /// The path, without the slash that separates it from the address; empty for the whole file
    /// system.
    pub path: String,
    /// Whether connections are under TLS.
    pub tls: bool,
}

/// Why a text is no [`RemoteUrl`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("'{text}' is not a URL of a file on servers, such as striate://host:port/path: {reason}")]
pub struct UrlError {
    text: String,
    reason: String,
}

impl RemoteUrl {
    /// Whether a name is meant as a URL of this kind, rather than as a path of this machine.
    pub fn is_remote(text: &str) -> bool {
        strip_scheme(text).is_some()
    }
}

fn strip_scheme(text: &str) -> Option<(&str, bool)> {
    let plain = || text.strip_prefix(PLAIN).map(|rest| (rest, false));
    text.strip_prefix(TLS).map(|rest| (rest, true)).or_else(plain)
}

impl FromStr for RemoteUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let failed = |reason: String| UrlError { text: text.to_owned(), reason };
        let (rest, tls) = strip_scheme(text)
            .ok_or_else(|| failed(format!("it begins neither with {PLAIN} nor with {TLS}")))?;
        let (address, path) = rest.split_once('/').unwrap_or((rest, ""));
        let address = with_port(address).map_err(failed)?;
        Ok(Self { address, path: path.to_owned(), tls })
    }
}

impl fmt::Display for RemoteUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { TLS } else { PLAIN };
        write!(f, "{scheme}{}/{}", self.address, self.path)
    }
}

/// The address as `host:port`, with the usual port if it has none; or what is wrong with it.
pub(super) fn with_port(address: &str) -> Result<String, String> {
    let (host, port) = match address.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']').ok_or("the bracket is not closed")?;
            if host.parse::<std::net::Ipv6Addr>().is_err() {
                return Err(format!("'{host}' in brackets is not an IPv6 address"));
            }
            let colon = port.strip_prefix(':');
            if colon.is_none() && !port.is_empty() {
                return Err(format!("'{port}' after the bracket is not a port"));
            }
            (host, colon)
        }
        None => match address.split_once(':') {
            Some((_, port)) if port.contains(':') => {
                return Err("an IPv6 address stands in brackets, as in [::1]:7479".into());
            }
            Some((host, port)) => (host, Some(port)),
            None => (address, None),
        },
    };
    if host.is_empty() {
        return Err("the host is missing".into());
    }
    if let Some(wrong) = host.chars().find(|c| c.is_whitespace() || "@?#%".contains(*c)) {
        return Err(format!("a host cannot have '{wrong}' in its name"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => match port.parse() {
            Ok(number) if number > 0 => number,
            _ => return Err(format!("'{port}' is not a port from 1 to 65535")),
        },
    };
    let bracketed = address.starts_with('[');
    Ok(if bracketed { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

/// The host of an address, without port and brackets.
pub(super) fn host_of(address: &str) -> &str {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> (String, String, bool) {
        let url: RemoteUrl = text.parse().unwrap();
        assert_eq!(url.to_string().parse(), Ok(url.clone()));
        (url.address, url.path, url.tls)
    }

    #[test]
    fn urls_have_an_address_and_a_path() {
        let is = |text, address: &str, path: &str, tls| {
            assert_eq!(parsed(text), (address.to_owned(), path.to_owned(), tls), "{text}");
        };
        is("striate://h:1/a/b", "h:1", "a/b", false);
        is("striate+tls://h:1/a", "h:1", "a", true);
        is("striate://h/a", "h:7479", "a", false);
        is("striate://h", "h:7479", "", false);
        is("striate://h/", "h:7479", "", false);
        is("striate://10.0.0.1:80", "10.0.0.1:80", "", false);
        is("striate://[::1]:80/a:b", "[::1]:80", "a:b", false);
        is("striate://[fe80::1]/a?b#c", "[fe80::1]:7479", "a?b#c", false);
    }

    #[test]
    fn errors_say_what_is_wrong() {
        let says = |text: &str, reason: &str| {
            let error = text.parse::<RemoteUrl>().unwrap_err().to_string();
            assert!(error.contains(text) && error.contains(reason), "{error}");
        };
        says("/scratch/a", "begins neither");
        says("http://h/a", "begins neither");
        says("striate:///a", "host is missing");
        says("striate://:80/a", "host is missing");
        says("striate://h:/a", "not a port");
        says("striate://h:0/a", "not a port");
        says("striate://h:65536/a", "not a port");
        says("striate://h:x/a", "'x' is not a port");
        says("striate://::1/a", "brackets");
        says("striate://[::1/a", "not closed");
        says("striate://[h]:1/a", "not an IPv6 address");
        says("striate://[::1]1/a", "not a port");
        says("striate://me@h/a", "'@'");
    }

    #[test]
    fn a_scheme_makes_a_name_remote() {
        assert!(RemoteUrl::is_remote("striate://h/a"));
        assert!(RemoteUrl::is_remote("striate+tls://"));
        assert!(!RemoteUrl::is_remote("striate/a") && !RemoteUrl::is_remote("./striate://h"));
    }

    #[test]
    fn hosts_are_found_in_addresses() {
        assert_eq!(host_of("h:1"), "h");
        assert_eq!(host_of("[::1]:1"), "::1");
    }
}
