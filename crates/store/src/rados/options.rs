//! [`RadosOptions`]: how requests to a cluster are made.

use std::env;
use std::time::Duration;

use super::error::RadosError;
use crate::fault::parse_time;

/// How requests to a cluster are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RadosOptions {
    /// How long any answer is waited for; librados counts whole seconds.
    pub patience: Duration,
    /// Compound operations of one request that are under way at a time.
    pub depth: usize,
    /// Extents of one compound operation. Its cost grows with their square.
    pub extents: usize,
}

impl Default for RadosOptions {
    fn default() -> Self {
        Self { patience: Duration::from_secs(30), depth: 16, extents: 64 }
    }
}

impl RadosOptions {
    /// The defaults, with the limit of `STRIATE_PATIENCE` (e.g. `10s`).
    pub fn from_environment() -> Result<Self, RadosError> {
        let mut options = Self::default();
        if let Some(text) = env::var("STRIATE_PATIENCE").ok().filter(|text| !text.is_empty()) {
            let patience = parse_time(&text).filter(|patience| !patience.is_zero());
            options.patience = patience.ok_or(RadosError::Patience(text))?;
        }
        Ok(options)
    }

    /// The limit as librados takes it.
    pub(super) fn seconds(&self) -> u64 {
        let whole = self.patience.as_secs();
        (whole + u64::from(self.patience.subsec_nanos() > 0)).max(1)
    }
}
