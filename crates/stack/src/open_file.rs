//! [`OpenFile`]: an open file description of the program, for all descriptors of one `open`.

use std::any::Any;
use std::mem::ManuallyDrop;
use std::os::fd::{BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use rustix::fs::SeekFrom;
use rustix::io::Errno;
use smallvec::SmallVec;
use striate_process::lock::{Lock, Locked, lock};

use crate::route::{FileRoutes, Route};

/// What the kernel calls an open file description: what one `open` made, whichever descriptors of
/// this process stand for it.
#[derive(Debug)]
pub struct OpenFile {
    path: PathBuf,
    flags: AtomicI32,
    full: Route,
    /// Without stages that hold something back.
    open_to_others: Route,
    shared: AtomicBool,
    /// Shared, and nothing is held back any more.
    settled: AtomicBool,
    descriptors: Mutex<SmallVec<[RawFd; 1]>>,
    first: AtomicI32,
    cursor: Lock<Option<u64>>,
    /// Whether the position was taken from the kernel.
    taken: AtomicBool,
    states: Box<[StageState]>,
}

/// What a stage has left with a file.
#[derive(Debug, Default)]
struct StageState {
    state: OnceLock<Arc<dyn Any + Send + Sync>>,
    /// Found with one load.
    number: AtomicU64,
}

impl OpenFile {
    /// A file that is about to be opened.
    pub(crate) fn new(path: &Path, flags: i32, routes: FileRoutes, stages: usize) -> Self {
        let FileRoutes { full, open_to_others } = routes;
        Self {
            path: path.to_path_buf(),
            flags: AtomicI32::new(flags),
            full,
            open_to_others,
            shared: AtomicBool::new(false),
            settled: AtomicBool::new(false),
            descriptors: Mutex::default(),
            first: AtomicI32::new(-1),
            cursor: Lock::new(None),
            taken: AtomicBool::new(false),
            states: (0..stages).map(|_| StageState::default()).collect(),
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
        if self.is_settled() { &self.open_to_others } else { &self.full }
    }

    /// The stages that wanted operations on it before it was shared, for what a stage hands on to
    /// the next when it settles: a stage below may still hold older bytes of the same place.
    pub fn full_route(&self) -> &Route {
        &self.full
    }

    /// Whether others may see the same open file, or look at its bytes by ways that do not pass
    /// here: another process, a mapping, a lock. From then on nothing may be held back. A stage
    /// that holds something back asks this while it has its own lock.
    #[inline]
    pub fn is_shared(&self) -> bool {
        self.shared.load(Ordering::Acquire)
    }

    /// From now on nothing may be held back.
    pub(crate) fn share(&self) {
        self.shared.store(true, Ordering::Release);
    }

    /// Whether it is shared, and what was held back has gone to storage.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Ordering::Acquire)
    }

    /// Nothing is held back any more: stages that hold something back do not see the file from now
    /// on. Until then operations of other threads pass through them, which keeps the order.
    pub(crate) fn set_settled(&self) {
        self.settled.store(true, Ordering::Release);
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

    /// Takes a descriptor away that was closed without being intercepted: it stands for something
    /// else by now. What is still held back for it cannot be written.
    pub fn lose_descriptor(&self, descriptor: RawFd) {
        if self.remove_descriptor(descriptor) {
            self.first.store(-1, Ordering::Release);
        }
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
            // SAFETY: descriptors are taken out of the list before they are closed, and an
            // operation on a file keeps its last descriptor from being closed meanwhile.
            descriptor => Ok(unsafe { BorrowedFd::borrow_raw(descriptor) }),
        }
    }

    /// Lets all its descriptors stand for what `by` stands for; each keeps its number and whether
    /// it is closed by `exec`. `opened` is its descriptor if it is being opened just now.
    pub fn replace_descriptors(&self, by: &OwnedFd, opened: RawFd) -> Result<(), Errno> {
        let mut descriptors = lock(&self.descriptors).clone();
        if descriptors.is_empty() {
            // It is being opened, or its last descriptor is about to be closed.
            descriptors.push(match self.raw_descriptor() {
                -1 => opened,
                last => last,
            });
        }
        descriptors.into_iter().try_for_each(|descriptor| replace_descriptor(descriptor, by))
    }

    /// It has this descriptor now, and no other.
    pub fn set_descriptor(&self, descriptor: RawFd) {
        let mut descriptors = lock(&self.descriptors);
        descriptors.clear();
        descriptors.push(descriptor);
        self.first.store(descriptor, Ordering::Release);
    }

    /// Lets the position be kept here, not by the kernel, from the start.
    pub fn keep_position(&self, position: u64) {
        *self.cursor.lock() = Some(position);
        self.taken.store(true, Ordering::Release);
    }

    /// Takes the position away from the kernel, for stages that turn calls at the position into
    /// calls at an offset. The first time this asks the kernel where it is. No other thread moves
    /// it while the cursor lives. Of a file that is shared, the kernel has it again when the cursor
    /// is dropped.
    pub fn cursor(&self) -> Result<Cursor<'_>, Errno> {
        let mut position = self.cursor.lock();
        if position.is_none() {
            *position = Some(rustix::fs::seek(self.descriptor()?, SeekFrom::Current(0))?);
            self.taken.store(true, Ordering::Release);
        }
        Ok(Cursor { file: self, position })
    }

    /// The same, unless the file is shared: then the kernel has its position from now on.
    #[inline]
    pub fn cursor_unless_shared(&self) -> Result<Option<Cursor<'_>>, Errno> {
        let position = self.cursor.lock();
        if position.is_some() && !self.is_shared() {
            return Ok(Some(Cursor { file: self, position }));
        }
        self.first_cursor(position)
    }

    #[cold]
    fn first_cursor<'f>(
        &'f self,
        mut position: Locked<'f, Option<u64>>,
    ) -> Result<Option<Cursor<'f>>, Errno> {
        if self.is_shared() {
            return self.put_back(&mut position).map(|()| None);
        }
        *position = Some(rustix::fs::seek(self.descriptor()?, SeekFrom::Current(0))?);
        self.taken.store(true, Ordering::Release);
        Ok(Some(Cursor { file: self, position }))
    }

    /// Whether the position was taken from the kernel.
    #[inline]
    pub fn is_position_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// Gives the position back to the kernel.
    pub fn give_position_back(&self) -> Result<(), Errno> {
        self.put_back(&mut self.cursor.lock())
    }

    /// The same for an operation at the position that has reached the kernel, unless a stage is
    /// just using the position: then it knows what it does.
    #[inline]
    pub(crate) fn give_free_position_back(&self) -> Result<(), Errno> {
        if !self.is_position_taken() {
            return Ok(());
        }
        match self.cursor.try_lock() {
            Some(mut position) => self.put_back(&mut position),
            None => Ok(()),
        }
    }

    fn put_back(&self, position: &mut Option<u64>) -> Result<(), Errno> {
        if let Some(at) = position.take() {
            self.taken.store(false, Ordering::Release);
            rustix::fs::seek(self.descriptor()?, SeekFrom::Start(at))?;
        }
        Ok(())
    }

    /// What a stage has left with the file. The slot is [`Next::slot`](crate::Next::slot).
    #[inline]
    pub fn state<T: Any>(&self, slot: usize) -> Option<&T> {
        self.states.get(slot)?.state.get()?.downcast_ref()
    }

    /// Leaves something of a stage with the file, once.
    pub fn set_state<T: Any + Send + Sync>(&self, slot: usize, state: T) {
        if let Some(place) = self.states.get(slot) {
            let _ = place.state.set(Arc::new(state));
        }
    }

    /// A number that a stage has left with the file; 0 before.
    #[inline]
    pub fn number(&self, slot: usize) -> u64 {
        self.states.get(slot).map_or(0, |place| place.number.load(Ordering::Relaxed))
    }

    /// Leaves a number with the file.
    pub fn set_number(&self, slot: usize, number: u64) {
        if let Some(place) = self.states.get(slot) {
            place.number.store(number, Ordering::Relaxed);
        }
    }

    /// What a stage has left with another file is with this one, too.
    pub(crate) fn take_state(&self, other: &Self, slot: usize) {
        if let (Some(place), Some(other)) = (self.states.get(slot), other.states.get(slot)) {
            if let Some(state) = other.state.get() {
                let _ = place.state.set(Arc::clone(state));
            }
            place.number.store(other.number.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

/// The position of a file that the kernel does not keep. See [`OpenFile::cursor`].
#[derive(Debug)]
pub struct Cursor<'f> {
    file: &'f OpenFile,
    position: Locked<'f, Option<u64>>,
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

impl Drop for Cursor<'_> {
    fn drop(&mut self) {
        if self.file.is_shared() {
            // A file whose position cannot be set has none that could be missed.
            let _ = self.file.put_back(&mut self.position);
        }
    }
}

/// Lets a descriptor stand for what `by` stands for.
pub fn replace_descriptor(descriptor: RawFd, by: impl std::os::fd::AsFd) -> Result<(), Errno> {
    // SAFETY: the program has it open; it is only given back to where it came from, and never
    // closed here.
    let mut descriptor = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(descriptor) });
    let kept = rustix::io::fcntl_getfd(&*descriptor)?;
    let flags = if kept.contains(rustix::io::FdFlags::CLOEXEC) {
        rustix::io::DupFlags::CLOEXEC
    } else {
        rustix::io::DupFlags::empty()
    };
    rustix::io::dup3(by, &mut descriptor, flags)
}
