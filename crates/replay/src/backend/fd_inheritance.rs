//! [`FdInheritance`]: descriptors that child processes inherit.
//!
//! A child has the files that were open when it was forked, and its first recorded use of one may
//! come after the parent has closed the file, or has ended. So the process that closes a file for
//! the last time leaves a duplicate of the descriptor for each inheriting process that has not used
//! the file yet.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use striate_recording::ProcessIndex;
use striate_stack::OpenFile;

use super::process::{ReplayedProcess, duplicate};
use crate::namespace::FileId;

/// A duplicate that waits for its process.
pub(super) type InheritedFd = (Arc<OpenFile>, OwnedFd);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct FdInheritance {
    /// Processes that inherit a file and have not used it yet.
    inheritors: HashMap<FileId, Vec<ProcessIndex>>,
    waiting: HashMap<(ProcessIndex, FileId), InheritedFd>,
    ended: HashSet<ProcessIndex>,
}

impl FdInheritance {
    pub(super) fn new(inheritors: HashMap<FileId, Vec<ProcessIndex>>) -> Self {
        Self { inheritors, ..Self::default() }
    }

    /// A process is about to close a file for the last time: each inheritor gets a duplicate.
    pub(super) fn hand_over(
        &mut self,
        owner: ProcessIndex,
        replayed: &ReplayedProcess,
        id: FileId,
        file: &Arc<OpenFile>,
    ) {
        let Some(inheritors) = self.inheritors.get(&id) else { return };
        for inheritor in inheritors {
            let waits = *inheritor != owner && !self.ended.contains(inheritor);
            if waits && !self.waiting.contains_key(&(*inheritor, id)) {
                let _ = replayed.stack.share(file);
                if let Ok(descriptor) = duplicate(file.raw_descriptor()) {
                    self.waiting.insert((*inheritor, id), (Arc::clone(file), descriptor));
                }
            }
        }
    }

    /// Takes the duplicate of an inheritor.
    pub(super) fn take(&mut self, inheritor: ProcessIndex, id: FileId) -> Option<InheritedFd> {
        self.forget(inheritor, id);
        self.waiting.remove(&(inheritor, id))
    }

    /// An inheritor has its descriptor.
    fn forget(&mut self, inheritor: ProcessIndex, id: FileId) {
        if let Some(inheritors) = self.inheritors.get_mut(&id) {
            inheritors.retain(|other| *other != inheritor);
            if inheritors.is_empty() {
                self.inheritors.remove(&id);
            }
        }
    }

    /// A process has ended.
    pub(super) fn end(&mut self, process: ProcessIndex) {
        self.ended.insert(process);
        self.waiting.retain(|(inheritor, _), _| *inheritor != process);
    }
}
