//! [`OpenFile`]: a file that the program has open, for all its descriptors of one `open`.

use std::any::Any;
use std::os::fd::{BorrowedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use smallvec::SmallVec;

use crate::route::Route;

/// What the kernel calls an open file description: what one `open` made, whichever descriptors of this
/// process stand for it.
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    flags: AtomicI32,
    full: Route,
    /// Without stages that hold something back.
    open_to_others: Route,
    shared: AtomicBool,
    descriptors: Mutex<SmallVec<[RawFd; 1]>>,
    first: AtomicI32,
    cursor: Mutex<Option<u64>>,
    states: Box<[OnceLock<Box<dyn Any + Send + Sync>>]>,
}

impl OpenFile {
    /// A file that is about to be opened.
    pub(crate) fn new(path: &Path, flags: i32, routes: [Route; 2], stages: usize) -> Self {
        let [full, open_to_others] = routes;
        Self {
            path: path.to_path_buf(),
            flags: AtomicI32::new(flags),
            full,
            open_to_others,
            shared: AtomicBool::new(false),
            descriptors: Mutex::default(),
            first: AtomicI32::new(-1),
            cursor: Mutex::new(None),
            states: (0..stages).map(|_| OnceLock::new()).collect(),
        }
    }

    /// The path by which the program opened it, from the root on.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The flags it was opened with, and those that `fcntl` changed since.
    pub fn flags(&self) -> i32 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Notes flags that `fcntl` has changed.
    pub fn set_flags(&self, flags: i32) {
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Whether writes go to its end, wherever the position is.
    pub fn appends(&self) -> bool {
        self.flags() & libc::O_APPEND != 0
    }

    /// Whether it may be read.
    pub fn is_readable(&self) -> bool {
        matches!(self.flags() & libc::O_ACCMODE, libc::O_RDONLY | libc::O_RDWR)
    }

    /// Whether it may be written.
    pub fn is_writable(&self) -> bool {
        matches!(self.flags() & libc::O_ACCMODE, libc::O_WRONLY | libc::O_RDWR)
    }

    /// The stages that want operations on it.
    #[inline]
    pub fn route(&self) -> &Route {
        if self.is_shared() { &self.open_to_others } else { &self.full }
    }

    /// Whether others may see the same open file, or look at its bytes by ways that do not pass here:
    /// another process, a mapping, a lock. From then on nothing may be held back. A stage that holds
    /// something back asks this while it has its own lock.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// From now on stages that hold something back do not see the file any more.
    pub(crate) fn share(&self) {
        self.shared.store(true, Ordering::Release);
    }

    /// Adds a descriptor of this process.
    pub fn add_descriptor(&self, descriptor: RawFd) {
        let mut descriptors = lock(&self.descriptors);
        descriptors.push(descriptor);
        self.first.store(descriptors[0], Ordering::Release);
    }

    /// Takes a descriptor away, before it is closed. Returns whether it was the last.
    pub fn remove_descriptor(&self, descriptor: RawFd) -> bool {
        let mut descriptors = lock(&self.descriptors);
        descriptors.retain(|other| *other != descriptor);
        // The last stays: it is still there until it is closed.
        if let Some(first) = descriptors.first() {
            self.first.store(*first, Ordering::Release);
        }
        descriptors.is_empty()
    }

    /// One of its descriptors, or -1 if it is not open yet.
    #[inline]
    pub fn raw_descriptor(&self) -> RawFd {
        self.first.load(Ordering::Acquire)
    }

    /// One of its descriptors.
    pub fn descriptor(&self) -> Result<BorrowedFd<'_>, Errno> {
        match self.raw_descriptor() {
            -1 => Err(Errno::BADF),
            // SAFETY: descriptors are taken out of the list before they are closed, and whoever works on
            // a file keeps its last descriptor from being closed meanwhile.
            descriptor => Ok(unsafe { BorrowedFd::borrow_raw(descriptor) }),
        }
    }

    /// Takes the position away from the kernel, for stages that turn calls at the position into calls at
    /// an offset. The first time this asks the kernel where it is. Nobody else moves it while the cursor
    /// lives.
    pub fn cursor(&self) -> Result<Cursor<'_>, Errno> {
        let mut position = lock(&self.cursor);
        if position.is_none() {
            *position = Some(rustix::fs::seek(self.descriptor()?, SeekFrom::Current(0))?);
        }
        Ok(Cursor { position })
    }

    /// Gives the position back to the kernel.
    pub(crate) fn give_position_back(&self) -> Result<(), Errno> {
        let mut position = lock(&self.cursor);
        if let Some(at) = position.take() {
            rustix::fs::seek(self.descriptor()?, SeekFrom::Start(at))?;
        }
        Ok(())
    }

    /// What a stage has left with the file. The slot is [`Next::slot`](crate::Next::slot).
    #[inline]
    pub fn state<T: Any>(&self, slot: usize) -> Option<&T> {
        self.states.get(slot)?.get()?.downcast_ref()
    }

    /// Leaves something of a stage with the file, once.
    pub fn set_state<T: Any + Send + Sync>(&self, slot: usize, state: T) {
        if let Some(place) = self.states.get(slot) {
            let _ = place.set(Box::new(state));
        }
    }
}

/// The position of a file that the kernel does not keep. See [`OpenFile::cursor`].
#[derive(Debug)]
pub struct Cursor<'f> {
    position: MutexGuard<'f, Option<u64>>,
}

impl Cursor<'_> {
    /// Where it is.
    pub fn position(&self) -> u64 {
        self.position.unwrap_or_default()
    }

    /// Moves it.
    pub fn set(&mut self, position: u64) {
        *self.position = Some(position);
    }
}

/// A lock whose holder died is taken all the same: what it protects is never half done.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
