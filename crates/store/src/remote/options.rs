//! [`ClientOptions`]: how a client connects, and its time limits.

use std::env::{self, VarError};
use std::path::Path;
use std::time::Duration;

use striate_datatype::{SizeError, parse_size};
use striate_wire::{ClientTls, Key, KeyError, TlsError};
use thiserror::Error;

use crate::fault::parse_time;

/// The variable that names the file with the key.
const KEY_FILE: &str = "STRIATE_KEY_FILE";
/// The variable that names the file with the authorities of certificates.
const CA_FILE: &str = "STRIATE_CA_FILE";
/// The variable that says how long to wait for an answer.
const PATIENCE: &str = "STRIATE_PATIENCE";

/// The variable that says how many bytes may be kept until they are synced.
const UNSYNCED: &str = "STRIATE_UNSYNCED";

/// How a client connects to servers, and how patient it is with them.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    /// The key that client and servers share, if they do.
    pub key: Option<Key>,
    /// What TLS is spoken with, if it is.
    pub tls: Option<ClientTls>,
    /// How long a connection may take to come about.
    pub connect_timeout: Duration,
    /// How long an answer is waited for, all attempts together.
    pub patience: Duration,
    /// How often something is tried at most within that time; less than 2 is once.
    pub attempts: u32,
    /// Bytes that were written and not synced which are kept, in all files together: after a crash
    /// of a server they are written again.
    pub unsynced: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            key: None,
            tls: None,
            connect_timeout: Duration::from_secs(5),
            patience: Duration::from_secs(30),
            attempts: u32::MAX,
            unsynced: 32 << 20,
        }
    }
}

/// Why a variable of the environment cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// The file of [`ClientOptions::key`].
    #[error("{KEY_FILE}: {0}")]
    Key(#[source] KeyError),
    /// The file of [`ClientOptions::tls`].
    #[error("{CA_FILE}: {0}")]
    Tls(#[source] TlsError),
    /// A URL that asks for TLS, where no authorities are given.
    #[error(
        "striate+tls needs {CA_FILE}: the file with the certificates of the authorities to trust"
    )]
    NoAuthorities,
    /// No length of time.
    #[error("{PATIENCE}: '{0}' is not a duration such as 10s or 500ms")]
    Patience(String),
    /// No size.
    #[error("{UNSYNCED}: {0}")]
    Unsynced(#[source] SizeError),
    /// Bytes that are not UTF-8.
    #[error("{0} is not UTF-8")]
    NotText(&'static str),
}

impl ClientOptions {
    /// The defaults, changed by `STRIATE_KEY_FILE` (the shared key), `STRIATE_CA_FILE` (the
    /// certificates of the authorities that are believed), `STRIATE_PATIENCE` (e.g. `10s`) and
    /// `STRIATE_UNSYNCED` (e.g. `64MiB`).
    pub fn from_environment() -> Result<Self, OptionsError> {
        Self::from_variables(variable)
    }

    fn from_variables(
        variable: impl Fn(&'static str) -> Result<Option<String>, OptionsError>,
    ) -> Result<Self, OptionsError> {
        // `NAME= command` is how a shell takes a variable away for one command.
        let given = |name| Ok(variable(name)?.filter(|value| !value.is_empty()));
        let mut options = Self::default();
        if let Some(path) = given(KEY_FILE)? {
            options.key = Some(Key::from_file(path).map_err(OptionsError::Key)?);
        }
        if let Some(path) = given(CA_FILE)? {
            let tls = ClientTls::from_file(Path::new(&path)).map_err(OptionsError::Tls)?;
            options.tls = Some(tls);
        }
        if let Some(text) = given(PATIENCE)? {
            options.patience = patience(text)?;
        }
        if let Some(text) = given(UNSYNCED)? {
            let bytes = parse_size(&text).map_err(OptionsError::Unsynced)?;
            options.unsynced = usize::try_from(bytes).unwrap_or(usize::MAX);
        }
        Ok(options)
    }
}

/// A variable of the environment.
fn variable(name: &'static str) -> Result<Option<String>, OptionsError> {
    match env::var(name) {
        Ok(value) => Ok(Some(value)),
        Err(VarError::NotPresent) => Ok(None),
        Err(VarError::NotUnicode(_)) => Err(OptionsError::NotText(name)),
    }
}

fn patience(text: String) -> Result<Duration, OptionsError> {
    let patience = parse_time(&text).filter(|patience| !patience.is_zero());
    patience.ok_or(OptionsError::Patience(text))
}

/// [`ClientOptions::patience`] alone, for other stores than I/O servers.
#[cfg(feature = "s3")]
pub(crate) fn patience_from_environment() -> Result<Duration, OptionsError> {
    match variable(PATIENCE)?.filter(|text| !text.is_empty()) {
        Some(text) => patience(text),
        None => Ok(ClientOptions::default().patience),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &'static str, value: &str) -> Result<ClientOptions, OptionsError> {
        ClientOptions::from_variables(|asked| Ok((asked == name).then(|| value.to_owned())))
    }

    #[test]
    fn an_empty_environment_gives_the_defaults() {
        let options = ClientOptions::from_variables(|_| Ok(None)).unwrap();
        assert!(options.key.is_none() && options.tls.is_none());
        assert_eq!((options.patience, options.attempts), (Duration::from_secs(30), u32::MAX));
        assert!(with(KEY_FILE, "").unwrap().key.is_none());
    }

    #[test]
    fn patience_is_a_length_of_time() {
        assert_eq!(with(PATIENCE, "10s").unwrap().patience, Duration::from_secs(10));
        assert_eq!(with(PATIENCE, "250ms").unwrap().patience, Duration::from_millis(250));
        for wrong in ["10", "s", "0s", "-1s", "10 s", "soon"] {
            let text = with(PATIENCE, wrong).unwrap_err().to_string();
            assert!(text.contains("STRIATE_PATIENCE") && text.contains(wrong), "{text}");
        }
    }

    #[test]
    fn what_is_kept_is_a_size() {
        assert_eq!(with(UNSYNCED, "1MiB").unwrap().unsynced, 1 << 20);
        assert_eq!(with(UNSYNCED, "0").unwrap().unsynced, 0);
        let text = with(UNSYNCED, "much").unwrap_err().to_string();
        assert!(text.contains(UNSYNCED) && text.contains("much"), "{text}");
    }

    #[test]
    fn errors_name_the_variable_and_the_file() {
        for name in [KEY_FILE, CA_FILE] {
            let text = with(name, "/no/such/file").unwrap_err().to_string();
            assert!(text.contains(name) && text.contains("/no/such/file"), "{text}");
        }
    }

    #[test]
    fn a_key_comes_from_its_file() {
        use std::os::unix::fs::PermissionsExt;
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("key");
        std::fs::write(&path, "0123456789abcdef").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
        assert!(with(KEY_FILE, path.to_str().unwrap()).unwrap().key.is_some());
    }
}
