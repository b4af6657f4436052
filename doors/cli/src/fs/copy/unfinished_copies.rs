//! [`UnfinishedCopies`]: the unfinished files that a copy would leave if it ended now.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use striate_store::s3::S3Url;

use crate::CommandError;
use crate::number::grouped;

/// Names that are listed in a message.
const LISTED: usize = 3;

/// The names of unfinished copies, local and on servers.
#[derive(Debug, Default)]
pub(crate) struct UnfinishedCopies(Mutex<BTreeSet<String>>);

impl UnfinishedCopies {
    fn names(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One may be there from now on.
    pub(super) fn add(&self, name: &str) {
        self.names().insert(name.to_owned());
    }

    /// It no longer exists.
    pub(super) fn remove(&self, name: &str) {
        self.names().remove(name);
    }

    /// The error, with a hint that names what is left, if something is, and how it is removed.
    pub(crate) fn added_to(&self, error: CommandError) -> CommandError {
        let Some(hint) = self.hint() else { return error };
        match error {
            CommandError::Store { source, .. } => CommandError::Store { source, hint },
            CommandError::Failed { attempted, source, .. } => {
                CommandError::Failed { attempted, source, hint }
            }
            CommandError::Write { path, source } => {
                CommandError::failed(format!("cannot write {}", path.display()), source, hint)
            }
            other => other,
        }
    }

    fn hint(&self) -> Option<String> {
        let names = self.names();
        let first = names.first()?;
        let mut list = names.iter().take(LISTED).cloned().collect::<Vec<_>>().join(", ");
        if names.len() > LISTED {
            let _ = write!(list, " and {} more", grouped((names.len() - LISTED) as u64));
        }
        let (what, it) = match names.len() {
            1 => ("an unfinished copy", "it"),
            _ => ("unfinished copies", "them"),
        };
        let remedy = match first
            .find("://")
            .filter(|_| !S3Url::is_s3(first))
            .map(|at| first[at + 3..].find('/').map(|end| at + 3 + end))
        {
            Some(end) => {
                let url = &first[..end.unwrap_or(first.len())];
                format!(
                    "'striate fsck --repair {url}' removes {it} when the servers answer, and so \
                         does copying again"
                )
            }
            None if S3Url::is_s3(first) => {
                format!("'striate fs rm --unfinished {first}' removes {it}")
            }
            None => format!("copying again removes {it}"),
        };
        Some(format!("{what} may be left, {list}: {remedy}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_named_with_the_remedy() {
        let left = UnfinishedCopies::default();
        let error = || CommandError::failed("the copy is not complete", "it was interrupted", "");
        let hint = |left: &UnfinishedCopies| match left.added_to(error()) {
            CommandError::Failed { hint, .. } => hint,
            other => panic!("{other:?}"),
        };
        assert_eq!(hint(&left), "");
        left.add("striate://h:1/run/.a.part-1");
        assert_eq!(
            hint(&left),
            "an unfinished copy may be left, striate://h:1/run/.a.part-1: \
             'striate fsck --repair striate://h:1' removes it when the servers answer, and so does \
             copying again"
        );
        let object = UnfinishedCopies::default();
        object.add("s3://b/k");
        assert!(
            hint(&object).ends_with("s3://b/k: 'striate fs rm --unfinished s3://b/k' removes it")
        );
        for i in 2..6 {
            left.add(&format!("striate://h:1/.a.part-{i}"));
        }
        assert!(hint(&left).contains("copies") && hint(&left).contains("and 2 more"));
    }
}
