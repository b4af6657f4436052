//! [`Datatype::flatten`]: the list of runs, for the list method and for tests.

use crate::{Cursor, Datatype, Run, TypeError};

impl Datatype {
    /// All runs of `count` copies. Its length grows with the number of runs, so it is meant for the
    /// list method and for tests only.
    pub fn flatten(&self, count: u64) -> Result<Vec<Run>, TypeError> {
        Ok(Cursor::new(self, count)?.collect())
    }
}
