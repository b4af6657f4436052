//! [`Attempts`]: how often and how long a request is retried.

use std::thread::sleep;
use std::time::{Duration, Instant};

use super::options::ClientOptions;

/// What is waited before the second, the third and all further attempts: a server that was started
/// anew is back soon, one that is overloaded is not. Never longer than a sixteenth of the patience.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(20), Duration::from_millis(100), Duration::from_millis(500)];

/// The attempts at one thing, which together take no longer than the patience of the client.
#[derive(Debug)]
pub(super) struct Attempts {
    begin: Instant,
    patience: Duration,
    most: u32,
    made: u32,
}

impl Attempts {
    /// The first attempt begins now.
    pub(super) fn new(options: &ClientOptions) -> Self {
        Self::up_to(options.attempts, options)
    }

    /// As [`Attempts::new`], but no more than so many.
    pub(super) fn up_to(most: u32, options: &ClientOptions) -> Self {
        let most = most.min(options.attempts);
        Self { begin: Instant::now(), patience: options.patience, most, made: 1 }
    }

    /// How many there were, the one under way included.
    pub(super) fn made(&self) -> u32 {
        self.made
    }

    /// How long an answer can be waited for now.
    pub(super) fn patience(&self) -> Duration {
        let elapsed = self.begin.elapsed();
        if elapsed < self.patience / 16 {
            // The same for nearly all requests: a link need not be set anew.
            self.patience
        } else {
            let left = self.patience.saturating_sub(elapsed).as_millis();
            Duration::from_millis(left.max(1) as u64)
        }
    }

    /// Waits for the time of the next attempt, if there shall be one.
    pub(super) fn again(&mut self) -> bool {
        let pause = PAUSES[(self.made as usize - 1).min(PAUSES.len() - 1)].min(self.patience / 16);
        if self.made >= self.most || self.begin.elapsed() + pause >= self.patience {
            return false;
        }
        sleep(pause);
        self.made += 1;
        true
    }
}
