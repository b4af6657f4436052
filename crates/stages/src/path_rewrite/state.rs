//! [`MovedFile`]: a file on fast storage; [`SharedState`]: all of them that this process uses.

use std::collections::HashMap;
use std::ffi::CString;
use std::os::fd::{AsFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use rustix::fs::FileType;
use rustix::io::Errno;
use striate_process::StartupStderr;
use striate_process::lock::lock;
use striate_process::reopen::Identity;
use striate_stack::descriptor_table::{LocalDescriptor, SharedDescriptor};
use striate_stack::descriptors::borrow;
use striate_stack::{OpenFile, Route};

use super::claim::{Base, Claim};
use super::fast_place::FastPlace;
use super::journal::{FormerDestination, Journal};
use super::moving::{MoveRefusal, let_go, move_unused, remove_copy};

/// What the stage leaves with an open file.
#[derive(Debug)]
pub(super) enum FileState {
    /// It is where it belongs.
    Plain(Identity),
    /// It is elsewhere, or was when it was opened.
    Moved(RewriteHandle),
}

/// An open file that is elsewhere.
#[derive(Debug)]
pub(super) struct RewriteHandle {
    pub(super) moved: Arc<MovedFile>,
    /// The same open file as the next stages know it: by its name at the fast place.
    pub(super) inner: Arc<OpenFile>,
}

impl RewriteHandle {
    /// The file as the next stages know it. `outer` is the same for the program, which may have
    /// closed the descriptor that was used last.
    pub(super) fn inner(&self, outer: &OpenFile) -> &Arc<OpenFile> {
        let descriptor = outer.raw_descriptor();
        if descriptor != -1 && self.inner.raw_descriptor() != descriptor {
            self.inner.set_descriptor(descriptor);
        }
        &self.inner
    }
}

/// A file that is not at its destination.
#[derive(Debug)]
pub(super) struct MovedFile {
    pub(super) base: Base,
    /// Where its bytes are.
    pub(super) fast: PathBuf,
    pub(super) c_fast: CString,
    /// What it is at the fast place.
    pub(super) identity: Identity,
    /// Stands for what is at its destination meanwhile, whatever its name is.
    handle: SharedDescriptor,
    /// The initial state.
    pub(super) was: FormerDestination,
    /// That this process uses it, as long as it does.
    claim: Mutex<Option<Claim>>,
    /// The stages that want operations on it at the fast place.
    pub(super) route: Route,
    /// Held for reading by operations on its bytes, for writing while its descriptors are
    /// replaced.
    pub(super) in_use: std::sync::RwLock<()>,
    at_destination: AtomicBool,
    reported: AtomicBool,
    /// The time of the journal that was made durable; every change makes another file.
    durable: AtomicU64,
}

impl MovedFile {
    pub(super) fn new(
        base: Base,
        identity: Identity,
        (handle, was): (OwnedFd, FormerDestination),
        claim: Claim,
        route: Route,
    ) -> Result<Self, Errno> {
        let fast = base.data();
        let c_fast = CString::new(fast.as_os_str().as_bytes()).map_err(|_| Errno::INVAL)?;
        Ok(Self {
            base,
            fast,
            c_fast,
            identity,
            handle: SharedDescriptor::new(handle),
            was,
            claim: Mutex::new(Some(claim)),
            route,
            in_use: std::sync::RwLock::new(()),
            at_destination: AtomicBool::new(false),
            reported: AtomicBool::new(false),
            durable: AtomicU64::new(0),
        })
    }

    /// What stands at its destination meanwhile.
    pub(super) fn placeholder(&self) -> Identity {
        self.base.identity()
    }

    pub(super) fn handle(&self) -> Result<LocalDescriptor<'_>, Errno> {
        self.handle.local()
    }

    /// The number of that handle for the program.
    pub(super) fn handle_number(&self) -> RawFd {
        self.handle.number()
    }

    /// What is synced has to be found again.
    pub(super) fn sync_journal(&self) -> Result<(), Errno> {
        let journal = self.base.journal();
        let Ok(now) = rustix::fs::stat(&journal) else { return Ok(()) };
        let made = (now.st_ctime as u64).wrapping_mul(1_000_000_000) + now.st_ctime_nsec;
        if self.durable.load(Ordering::Relaxed) != made {
            Journal::sync(&self.base).map_err(|error| super::failed(&error))?;
            self.durable.store(made, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Whether it is at its destination by now.
    pub(super) fn is_at_destination(&self) -> bool {
        self.at_destination.load(Ordering::Acquire)
    }

    /// It is at its destination: nothing of it is at the fast place.
    pub(super) fn set_at_destination(&self) {
        if let Some((base, claim)) = self.set_at_destination_open() {
            claim.end(&base);
        }
    }

    /// The same if the program has it open, which other processes can see.
    pub(super) fn set_at_destination_open(&self) -> Option<(Base, Claim)> {
        self.at_destination.store(true, Ordering::Release);
        let claim = lock(&self.claim).take()?;
        Some((self.base.clone(), claim))
    }

    /// Claims it alone, if no other process uses it.
    pub(super) fn claim_alone(&self) -> bool {
        lock(&self.claim).as_ref().is_some_and(Claim::make_alone)
    }

    /// Lets other processes use it as well.
    pub(super) fn claim_in_common(&self) {
        if let Some(claim) = lock(&self.claim).as_ref() {
            claim.make_common();
        }
    }

    /// Programs that this process becomes or starts use it as well.
    pub(super) fn leave_to_programs(&self) {
        if let Some(claim) = lock(&self.claim).as_ref() {
            claim.leave_to_programs();
        }
    }

    /// This process does not use it any more. The last process moves it.
    pub(super) fn release(&self) -> Result<(), MoveRefusal> {
        drop(lock(&self.claim).take());
        move_unused(&self.base, Some(self.handle()?.as_fd()))
    }

    /// Whether it has a name.
    pub(super) fn has_name(&self) -> bool {
        let stat = self.handle().and_then(rustix::fs::fstat);
        stat.is_ok_and(|stat| stat.st_nlink > 0)
    }

    /// Says why it is not moved, once, if that is something to be settled by people.
    pub(super) fn tell(&self, refused: &MoveRefusal, stderr: &StartupStderr) {
        if let MoveRefusal::Changed(path) = refused
            && !self.reported.swap(true, Ordering::Relaxed)
        {
            stderr.say(&format!(
                "striate: path-rewrite: {} was written to or replaced by a program that is not under this \
                 stack; what was written under it is in {}\n",
                path.display(),
                self.fast.display()
            ));
        }
    }
}

/// What is known of a file that is elsewhere.
#[derive(Debug)]
pub(super) struct RewrittenFile {
    pub(super) moved: Arc<MovedFile>,
    /// Its open files, as the program knows them.
    pub(super) open: Vec<Weak<OpenFile>>,
    /// How many are being closed just now.
    pub(super) closing: usize,
    /// Whether it is being copied to its destination.
    pub(super) moving: bool,
    /// How often it was opened: a copy that was begun before is out of date.
    pub(super) opened: u64,
    /// Whether it was shared, and other processes keep it where it is: it stays there.
    pub(super) stays: bool,
    /// Whether it is mapped, perhaps longer than it is open: it is used until the process ends.
    pub(super) mapped: bool,
}

impl RewrittenFile {
    pub(super) fn new(moved: Arc<MovedFile>) -> Self {
        Self {
            moved,
            open: Vec::new(),
            closing: 0,
            moving: false,
            opened: 0,
            stays: false,
            mapped: false,
        }
    }

    /// Whether it is not open.
    pub(super) fn is_closed(&self) -> bool {
        self.open.is_empty() && self.closing == 0
    }
}

/// A file that the program has open where it belongs.
#[derive(Debug, Default)]
struct UnmovedFile {
    count: usize,
    /// Says to other processes that it is written there.
    claim: Option<(Base, Claim)>,
}

/// What operations and the thread that moves share.
#[derive(Debug)]
pub(super) struct SharedState {
    pub(super) state: Mutex<RewriteState>,
    pub(super) stderr: StartupStderr,
}

impl Default for SharedState {
    fn default() -> Self {
        Self { state: Mutex::default(), stderr: StartupStderr::capture() }
    }
}

/// All files that this process uses.
#[derive(Debug, Default)]
pub(super) struct RewriteState {
    /// By what stands for them at their destination.
    pub(super) entries: HashMap<Identity, RewrittenFile>,
    plain: HashMap<Identity, UnmovedFile>,
    /// Whether there was any file elsewhere.
    pub(super) was_used: bool,
}

impl RewriteState {
    /// All that are elsewhere.
    pub(super) fn all(&self) -> Vec<Arc<MovedFile>> {
        self.entries.values().map(|entry| Arc::clone(&entry.moved)).collect()
    }

    /// What is known of a file, if it is still elsewhere.
    pub(super) fn entry(&mut self, moved: &Arc<MovedFile>) -> Option<&mut RewrittenFile> {
        let entry = self.entries.get_mut(&moved.placeholder())?;
        Arc::ptr_eq(&entry.moved, moved).then_some(entry)
    }

    /// Remembers a file.
    pub(super) fn insert(&mut self, entry: RewrittenFile) {
        self.was_used = true;
        self.entries.insert(entry.moved.placeholder(), entry);
    }

    /// Forgets a file.
    pub(super) fn take(&mut self, moved: &Arc<MovedFile>) {
        if self.entry(moved).is_some() {
            self.entries.remove(&moved.placeholder());
        }
    }

    /// A file may have lost its last name. Then its bytes cannot be found any more, and its last
    /// user removes them.
    pub(super) fn may_be_nameless(&mut self, identity: Identity) {
        let Some(entry) = self.entries.get(&identity) else { return };
        if entry.moved.has_name() {
            entry.moved.base.unmark_gone();
            return;
        }
        let moved = Arc::clone(&entry.moved);
        // A thread that is moving it finds out.
        if entry.is_closed() && !entry.mapped && !entry.moving {
            if moved.claim_alone() {
                if let Ok(Some(journal)) = Journal::read(&moved.base) {
                    remove_copy(&moved.base, &journal);
                }
                moved.base.forget();
                moved.set_at_destination();
            } else {
                let _ = moved.release();
            }
            self.take(&moved);
        }
    }

    /// The program has opened a file where it belongs.
    pub(super) fn add_plain(&mut self, identity: Identity, claim: Option<(Base, Claim)>) {
        self.was_used |= claim.is_some();
        let plain = self.plain.entry(identity).or_default();
        plain.count += 1;
        if plain.claim.is_none() {
            plain.claim = claim;
        }
    }

    /// It has closed it.
    pub(super) fn remove_plain(&mut self, identity: Identity) {
        if let Some(plain) = self.plain.get_mut(&identity) {
            plain.count -= 1;
            if plain.count == 0 {
                self.unclaim(identity);
                self.plain.remove(&identity);
            }
        }
    }

    /// The program was started with these files open, some of which others have told of. How it
    /// closes them is not seen.
    pub(super) fn inherit(&mut self, places: &[Arc<FastPlace>]) {
        let list = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
        for entry in list {
            let number = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let stat = number.map(|number| rustix::fs::fstat(borrow(number)));
            let Some(Ok(stat)) = stat else { continue };
            let identity = (stat.st_dev, stat.st_ino);
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile
                && !self.is_open(identity)
            {
                let bases = places.iter().filter_map(|place| Base::new(place, identity).ok());
                let claim = bases.filter_map(|base| {
                    let claim = Claim::common(&base, false).ok().flatten()?;
                    Some((base, claim))
                });
                let claim = claim.into_iter().next();
                self.add_plain(identity, claim);
            }
        }
    }

    /// Releases the lock that shows other processes that the program writes to the destination.
    fn unclaim(&mut self, identity: Identity) {
        if let Some((base, claim)) = self.plain.get_mut(&identity).and_then(|it| it.claim.take()) {
            let_go(&base, claim);
        }
    }

    /// The same for all.
    pub(super) fn unclaim_all(&mut self) {
        for identity in self.plain.keys().copied().collect::<Vec<_>>() {
            self.unclaim(identity);
        }
    }

    /// Whether the program has it open where it belongs.
    pub(super) fn is_open(&self, identity: Identity) -> bool {
        self.plain.contains_key(&identity)
    }

    /// Whether other processes know that.
    pub(super) fn is_claimed(&self, identity: Identity) -> bool {
        self.plain.get(&identity).is_some_and(|plain| plain.claim.is_some())
    }

    /// This process is a copy of another: it has what was open there. The rest belongs to the
    /// other.
    pub(super) fn start_anew(&mut self) {
        self.entries.retain(|_, entry| {
            entry.open.retain(|file| file.strong_count() > 0);
            entry.moving = false;
            !entry.open.is_empty() || entry.mapped
        });
    }
}

/// Writes down what has become of a file.
pub(super) fn note(base: &Base, change: impl FnOnce(&mut Journal)) -> Result<(), Errno> {
    Journal::change(base, change).map_err(|error| super::failed(&error))
}
