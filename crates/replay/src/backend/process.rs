//! [`ReplayedProcess`]: a recorded process in the replay, with its stack, its open files and its
//! locks.

use std::collections::HashMap;
use std::os::fd::{BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::io::Errno;
use striate_stack::{OpenFile, Stack};

use super::stack::Locks;
use crate::namespace::FileId;

/// A file that a process has open.
#[derive(Debug)]
pub(super) struct OpenDescriptors {
    pub(super) file: Arc<OpenFile>,
    /// Descriptors: as they were recorded, and as they are.
    pub(super) descriptors: Vec<(i32, RawFd)>,
}

/// See the module.
#[derive(Debug)]
pub(super) struct ReplayedProcess {
    pub(super) stack: Stack,
    files: Mutex<HashMap<FileId, OpenDescriptors>>,
    /// Its locks on parts of files.
    pub(super) locks: Locks,
    /// Whether sizes that the kernel returns may differ from those that the program sees.
    pub(super) holds_back: bool,
}

/// What is to be closed.
#[derive(Debug)]
pub(super) struct ClosingDescriptor {
    pub(super) file: Arc<OpenFile>,
    pub(super) descriptor: RawFd,
    /// Whether the file goes on to be used by other descriptors.
    pub(super) goes_on: bool,
    /// Others that are closed along with it: their calls were not recorded.
    pub(super) others: Vec<RawFd>,
}

impl ReplayedProcess {
    pub(super) fn new(stack: Stack) -> Self {
        let holds_back = stack.stages().iter().any(|placed| {
            placed.stage.holds_back() || matches!(placed.name, "combine" | "path-rewrite")
        });
        Self { stack, files: Mutex::default(), locks: Locks::default(), holds_back }
    }

    pub(super) fn files(&self) -> MutexGuard<'_, HashMap<FileId, OpenDescriptors>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An open file.
    pub(super) fn file(&self, id: FileId) -> Option<Arc<OpenFile>> {
        self.files().get(&id).map(|opened| Arc::clone(&opened.file))
    }

    /// It has a file open, by one descriptor.
    pub(super) fn add(&self, id: FileId, file: Arc<OpenFile>, recorded: i32) {
        let descriptors = vec![(recorded, file.raw_descriptor())];
        if let Some(before) = self.files().insert(id, OpenDescriptors { file, descriptors }) {
            close_all(before);
        }
    }

    /// A descriptor of a file, as it is: the recorded one, or any.
    pub(super) fn descriptor(&self, id: FileId, recorded: i32) -> Option<RawFd> {
        let files = self.files();
        let all = &files.get(&id)?.descriptors;
        let found = all.iter().find(|(number, _)| *number == recorded).or_else(|| all.first());
        found.map(|(_, descriptor)| *descriptor)
    }

    /// A descriptor by the number that it had.
    pub(super) fn descriptor_of(&self, recorded: i32) -> Option<RawFd> {
        let files = self.files();
        let mut all = files.values().flat_map(|opened| &opened.descriptors);
        all.find(|(number, _)| *number == recorded).map(|(_, descriptor)| *descriptor)
    }

    /// Makes another descriptor of a file.
    pub(super) fn duplicate(&self, id: FileId, recorded: i32) -> Result<RawFd, Errno> {
        let mut files = self.files();
        let opened = files.get_mut(&id).ok_or(Errno::BADF)?;
        let made = duplicate(opened.file.raw_descriptor())?.into_raw_fd();
        opened.file.add_descriptor(made);
        opened.descriptors.push((recorded, made));
        Ok(made)
    }

    /// Takes a descriptor away, to be closed.
    pub(super) fn close(&self, id: FileId, recorded: i32, last: bool) -> Option<ClosingDescriptor> {
        let known = |opened: &OpenDescriptors| {
            opened.descriptors.iter().position(|(number, _)| *number == recorded)
        };
        {
            let files = self.files();
            let opened = files.get(&id)?;
            // Another one that was not recorded, or is known by another number.
            let only = opened.descriptors.len() == 1 && known(opened).is_none();
            drop(files);
            if only && !last {
                self.duplicate(id, recorded).ok()?;
            }
        }
        let mut files = self.files();
        let opened = files.get_mut(&id)?;
        let place = known(opened).unwrap_or(opened.descriptors.len().saturating_sub(1));
        if opened.descriptors.len() <= place {
            return None;
        }
        let (_, descriptor) = opened.descriptors.remove(place);
        let file = Arc::clone(&opened.file);
        let mut others = Vec::new();
        if last {
            others.extend(opened.descriptors.drain(..).map(|(_, descriptor)| descriptor));
        }
        let goes_on = !opened.descriptors.is_empty();
        if !goes_on {
            files.remove(&id);
        }
        Some(ClosingDescriptor { file, descriptor, goes_on, others })
    }
}

/// Another descriptor of what one stands for.
pub(super) fn duplicate(descriptor: RawFd) -> Result<OwnedFd, Errno> {
    if descriptor < 0 {
        return Err(Errno::BADF);
    }
    // SAFETY: it is a descriptor of a file that is open, and it is taken out of the table before it
    // is closed.
    let descriptor = unsafe { BorrowedFd::borrow_raw(descriptor) };
    rustix::io::fcntl_dupfd_cloexec(descriptor, 3)
}

/// Closes the descriptors of a file as the end of a process does.
pub(super) fn close_all(opened: OpenDescriptors) {
    for (_, descriptor) in opened.descriptors {
        opened.file.lose_descriptor(descriptor);
        close(descriptor);
    }
}

/// Closes a descriptor that is in no table.
pub(super) fn close(descriptor: RawFd) {
    // SAFETY: it was made for this file, and is taken out of all tables.
    drop(unsafe { OwnedFd::from_raw_fd(descriptor) });
}
