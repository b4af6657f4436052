//! The list of regions: what the list method sends, and what tests compare with.

use crate::{Cursor, Datatype, Run, TypeError};

impl Datatype {
    /// All runs of `count` copies. Its length grows with the number of runs: this is for the list
    /// method and for tests, not for the way to storage.
    pub fn flatten(&self, count: u64) -> Result<Vec<Run>, TypeError> {
        Ok(Cursor::new(self, count)?.collect())
    }
}
