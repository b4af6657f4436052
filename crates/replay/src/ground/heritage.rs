//! [`Heritage`]: files that processes inherit.
//!
//! A copy of a process has the files that were open, wherever it was copied in time: it may use them first when the
//! other has closed them already, or has ended. So who closes a file for the last time leaves a descriptor of it to
//! each heir that has not come for it yet.

use std::collections::{HashMap, HashSet};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use striate_recording::ProcessIndex;
use striate_stack::OpenFile;

use super::process::{Act, duplicate};
use crate::world::FileId;

/// What is left to an heir.
pub(super) type Legacy = (Arc<OpenFile>, OwnedFd);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Heritage {
    /// Who inherits what, and has not got it yet.
    heirs: HashMap<FileId, Vec<ProcessIndex>>,
    left: HashMap<(ProcessIndex, FileId), Legacy>,
    ended: HashSet<ProcessIndex>,
}

impl Heritage {
    pub(super) fn new(heirs: HashMap<FileId, Vec<ProcessIndex>>) -> Self {
        Self { heirs, ..Self::default() }
    }

    /// A process is about to close a file for the last time: heirs get theirs.
    pub(super) fn leave(
        &mut self,
        owner: ProcessIndex,
        act: &Act,
        id: FileId,
        file: &Arc<OpenFile>,
    ) {
        let Some(heirs) = self.heirs.get(&id) else { return };
        for heir in heirs {
            let waits = *heir != owner && !self.ended.contains(heir);
            if waits && !self.left.contains_key(&(*heir, id)) {
                let _ = act.stack.share(file);
                if let Ok(descriptor) = duplicate(file.raw_descriptor()) {
                    self.left.insert((*heir, id), (Arc::clone(file), descriptor));
                }
            }
        }
    }

    /// Takes what was left to an heir.
    pub(super) fn take(&mut self, heir: ProcessIndex, id: FileId) -> Option<Legacy> {
        self.forget(heir, id);
        self.left.remove(&(heir, id))
    }

    /// An heir has got a file.
    fn forget(&mut self, heir: ProcessIndex, id: FileId) {
        if let Some(heirs) = self.heirs.get_mut(&id) {
            heirs.retain(|other| *other != heir);
            if heirs.is_empty() {
                self.heirs.remove(&id);
            }
        }
    }

    /// A process has ended.
    pub(super) fn end(&mut self, process: ProcessIndex) {
        self.ended.insert(process);
        self.left.retain(|(heir, _), _| *heir != process);
    }
}
