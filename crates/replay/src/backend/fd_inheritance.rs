//! [`FdInheritance`]: files that processes inherit.
//!
//! A copy of a process has the files that were open, wherever it was copied in time: it may use them first when the
//! other has closed them already, or has ended. So who closes a file for the last time leaves a descriptor of it to
//! each heir that has not come for it yet.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use striate_recording::ProcessIndex;
use striate_stack::OpenFile;

use super::process::{ReplayedProcess, duplicate};
use crate::namespace::FileId;

/// What is left to an heir.
pub(super) type InheritedFd = (Arc<OpenFile>, OwnedFd);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct FdInheritance {
    /// Who inherits what, and has not got it yet.
    inheritors: HashMap<FileId, Vec<ProcessIndex>>,
    left: HashMap<(ProcessIndex, FileId), InheritedFd>,
    ended: HashSet<ProcessIndex>,
}

impl FdInheritance {
    pub(super) fn new(inheritors: HashMap<FileId, Vec<ProcessIndex>>) -> Self {
        Self { inheritors, ..Self::default() }
    }

    /// A process is about to close a file for the last time: heirs get theirs.
    pub(super) fn leave(
        &mut self,
        owner: ProcessIndex,
        replayed: &ReplayedProcess,
        id: FileId,
        file: &Arc<OpenFile>,
    ) {
        let Some(inheritors) = self.inheritors.get(&id) else { return };
        for inheritor in inheritors {
            let waits = *inheritor != owner && !self.ended.contains(inheritor);
            if waits && !self.left.contains_key(&(*inheritor, id)) {
                let _ = replayed.stack.share(file);
                if let Ok(descriptor) = duplicate(file.raw_descriptor()) {
                    self.left.insert((*inheritor, id), (Arc::clone(file), descriptor));
                }
            }
        }
    }

    /// Takes what was left to an heir.
    pub(super) fn take(&mut self, inheritor: ProcessIndex, id: FileId) -> Option<InheritedFd> {
        self.forget(inheritor, id);
        self.left.remove(&(inheritor, id))
    }

    /// An heir has got a file.
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
        self.left.retain(|(inheritor, _), _| *inheritor != process);
    }
}
