//! [`Open`]: an open file, and how it is opened, closed and deleted.

use std::collections::BTreeMap;
use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mpi::ffi;
use striate_comm::{Comm, CommError};
use striate_file::{File, Hints, Mode, OpenContext};

use crate::access::Direction;
use crate::call_record;
use crate::constants::{self as mpi_constants, MPI_Comm, MPI_File, MPI_Info};
use crate::context_cache::{self, CacheLease, EntryProposal};
use crate::entry::guarded;
use crate::errhandlers::{Handler, raise, raise_on};
use crate::errors::{Failure, Outcome, check};
use crate::group::Group;
use crate::handle::{self, FileSlot, HandleKind};
use crate::info;
use crate::romio_hints_file;
use crate::romio_prefix;
use crate::settings::Settings;
use crate::split_collective::Begun;
use crate::stats::Tally;
use crate::view::ProgramView;

/// Files that this process has opened.
static OPENED: AtomicU64 = AtomicU64::new(0);

/// An open file.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) file: File,
    /// The entry that the context goes back to.
    lease: CacheLease,
    /// Distinguishes it from every other file that this process opens.
    pub(crate) number: u64,
    /// Where it is kept.
    pub(crate) slot: Option<&'static FileSlot>,
    pub(crate) amode: c_int,
    pub(crate) group: Group,
    pub(crate) view: ProgramView,
    /// Hints of the program.
    pub(crate) given: BTreeMap<String, String>,
    /// Those of the file that `ROMIO_HINTS` names, which count more.
    forced_hints: Vec<(String, String)>,
    pub(crate) handler: Handler,
    /// A collective call of which the program has made the first half.
    pub(crate) begun: Option<Begun>,
    pub(crate) tally: Tally,
    /// What recordings call it.
    pub(crate) name: call_record::Name,
    /// What is recorded of the call that is under way.
    pub(crate) details: CallDetails,
}

/// What is recorded of a call besides its function and its result.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallDetails {
    /// Where, as the call said it.
    pub(crate) offset: Option<i64>,
    /// Bytes that were asked for, or a size.
    pub(crate) length: u64,
    /// Elements that were asked for.
    pub(crate) count: u64,
    /// Bytes that were moved.
    pub(crate) moved: u64,
}

impl CallDetails {
    /// The same of a file, with how the call ended.
    pub(crate) const fn done(&self, file: u64, outcome: Result<u64, c_int>) -> call_record::Done {
        let Self { offset, length, count, .. } = *self;
        call_record::Done { file, offset, length, count, outcome }
    }
}

impl Open {
    /// Where it is kept.
    pub(crate) fn slot(&self) -> Outcome<&'static FileSlot> {
        self.slot.ok_or_else(Failure::no_file)
    }

    /// Whether the file may only be gone through from the start to the end.
    pub(crate) const fn is_sequential(&self) -> bool {
        self.amode & mpi_constants::MODE_SEQUENTIAL != 0
    }

    /// Refuses what makes no sense for a file that is gone through from the start to the end.
    pub(crate) fn not_sequential(&self) -> Outcome {
        if self.is_sequential() {
            return Err(Failure::new(
                mpi_constants::ERR_UNSUPPORTED_OPERATION,
                "the file was opened with MPI_MODE_SEQUENTIAL",
            ));
        }
        Ok(())
    }

    /// Refuses a collective call between the halves of another.
    pub(crate) fn no_split(&self) -> Outcome {
        if self.begun.is_some() {
            return Err(Failure::new(
                mpi_constants::ERR_OTHER,
                "a split collective call was begun and not ended",
            ));
        }
        Ok(())
    }

    /// Takes part in a collective call with nothing but an error, with which all ranks end. Without
    /// it, the other ranks would wait for this one.
    #[cold]
    pub(crate) fn decline(&mut self, failure: &Failure) {
        // All that can come of it is the error.
        let _ = self.file.decline(failure.to_error());
    }

    /// The same where the other ranks read or write.
    #[cold]
    pub(crate) fn decline_access(&mut self, direction: Direction, failure: &Failure) {
        let direction = match direction {
            Direction::Read => striate_file::Direction::Read,
            Direction::Write => striate_file::Direction::Write,
        };
        let _ = self.file.decline_access(direction, failure.to_error());
    }

    /// Looks at the arguments of a collective call that this rank may have to decline.
    pub(crate) fn agreed<T>(&mut self, checked: Outcome<T>) -> Outcome<T> {
        if let Err(failure) = &checked {
            self.decline(failure);
        }
        checked
    }

    /// Remembers hints of the program, and returns what is to be in effect with them; `None` if
    /// there are none.
    pub(crate) fn take_hints(&mut self, mut entries: Vec<(String, String)>) -> Option<Hints> {
        entries.retain(|(name, _)| !self.forced_hints.iter().any(|(theirs, _)| theirs == name));
        if entries.is_empty() {
            return None;
        }
        let mut hints = self.file.hints().clone();
        info::apply(&mut hints, &entries);
        self.given.extend(entries);
        Some(hints)
    }
}

/// The mode as a [`Mode`]; refuses combinations that the standard refuses.
fn mode(amode: c_int) -> Outcome<Mode> {
    const KNOWN: c_int = mpi_constants::MODE_CREATE
        | mpi_constants::MODE_RDONLY
        | mpi_constants::MODE_WRONLY
        | mpi_constants::MODE_RDWR
        | mpi_constants::MODE_DELETE_ON_CLOSE
        | mpi_constants::MODE_UNIQUE_OPEN
        | mpi_constants::MODE_EXCL
        | mpi_constants::MODE_APPEND
        | mpi_constants::MODE_SEQUENTIAL;
    let refuse = |reason| Err(Failure::new(mpi_constants::ERR_AMODE, reason));
    let has = |bit| amode & bit != 0;
    if amode & !KNOWN != 0 {
        return refuse("the access mode has unknown bits");
    }
    let (read, write, both) = (
        has(mpi_constants::MODE_RDONLY),
        has(mpi_constants::MODE_WRONLY),
        has(mpi_constants::MODE_RDWR),
    );
    if u8::from(read) + u8::from(write) + u8::from(both) != 1 {
        return refuse(
            "exactly one of MPI_MODE_RDONLY, MPI_MODE_WRONLY and MPI_MODE_RDWR is needed",
        );
    }
    if read && (has(mpi_constants::MODE_CREATE) || has(mpi_constants::MODE_EXCL)) {
        return refuse("a file that is only read cannot be created");
    }
    if both && has(mpi_constants::MODE_SEQUENTIAL) {
        return refuse("a sequential file is read or written, not both");
    }
    let mut mode = Mode::empty();
    mode.set(Mode::READ, read || both);
    mode.set(Mode::WRITE, write || both);
    mode.set(Mode::CREATE, has(mpi_constants::MODE_CREATE));
    // Without MPI_MODE_CREATE nothing is created, so nothing is exclusive.
    mode.set(Mode::EXCLUSIVE, has(mpi_constants::MODE_CREATE) && has(mpi_constants::MODE_EXCL));
    mode.set(Mode::DELETE_ON_CLOSE, has(mpi_constants::MODE_DELETE_ON_CLOSE));
    mode.set(Mode::APPEND, has(mpi_constants::MODE_APPEND));
    Ok(mode)
}

/// The name that the program gave.
///
/// # Safety
///
/// `name` is null or a C string that lives as long as is said.
unsafe fn name_of<'a>(name: *const c_char) -> Outcome<&'a OsStr> {
    let none = Failure::new(mpi_constants::ERR_BAD_FILE, "the name of the file is null or empty");
    if name.is_null() {
        return Err(none);
    }
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) };
    if name.is_empty() { Err(none) } else { Ok(OsStr::from_bytes(name.to_bytes())) }
}

/// Whether the file of this name is left to the MPI's own implementation.
///
/// # Safety
///
/// `name` is null or a C string.
pub(crate) unsafe fn is_excluded(name: *const c_char) -> bool {
    // SAFETY: the caller's promise.
    unsafe { name_of(name) }.is_ok_and(|name| Settings::get().excludes(name))
}

/// `MPI_File_open`.
///
/// # Safety
///
/// What is given is as the function of MPI demands.
pub(crate) unsafe fn open(
    comm: MPI_Comm,
    name: *const c_char,
    amode: c_int,
    info: MPI_Info,
    handle: *mut MPI_File,
) -> c_int {
    let recorded = call_record::RecordedCall::begin(call_record::Function::MpiOpen);
    // SAFETY: the caller's promise.
    let opened = guarded(|| unsafe { open_collectively(comm, name, amode, info) });
    match &opened {
        Ok(open) => recorded.end(&open.name, &CallDetails::default().done(open.number, Ok(0))),
        // SAFETY: the caller's promise.
        Err(failure) => unsafe { tell(recorded, name, Err(failure.class())) },
    }
    let claimed = opened.and_then(|open| {
        FileSlot::claim(Box::new(open))
            .map_err(|_| Failure::new(mpi_constants::ERR_NO_MEM, "too many files are open"))
    });
    let (raw, code) = match claimed {
        Ok(slot) => (slot.handle(), mpi_constants::SUCCESS),
        Err(failure) => (mpi_constants::file_null(), raise(None, "MPI_File_open", &failure)),
    };
    if !handle.is_null() {
        // SAFETY: the caller's promise.
        unsafe { handle.write(raw) };
    }
    code
}

/// Tells of a call that is on no file.
///
/// # Safety
///
/// `name` is null or a C string.
unsafe fn tell(
    recorded: call_record::RecordedCall,
    name: *const c_char,
    outcome: Result<u64, c_int>,
) {
    if recorded.is_recorded() {
        // SAFETY: the caller's promise.
        let name = unsafe { name_of(name) }.map_or(&[][..], OsStr::as_bytes);
        recorded.end(&call_record::Name::new(name), &CallDetails::default().done(0, outcome));
    }
}

/// # Safety
///
/// As of [`open`].
unsafe fn open_collectively(
    raw: MPI_Comm,
    name: *const c_char,
    amode: c_int,
    info: MPI_Info,
) -> Outcome<Open> {
    intracommunicator(raw)?;
    // An error of this rank must not keep other ranks waiting.
    // SAFETY: the caller's promise.
    let given = unsafe {
        name_of(name).and_then(|name| {
            let place = Settings::get().place(name);
            romio_prefix::check(name, &place)?;
            Ok((name, place, mode(amode)?, info::entries(info)?))
        })
    };
    let Agreed { given: (name, place, mode, mut entries), stats, lease, context } =
        agree(raw, amode, given)?;
    let context = match context {
        Some(context) => context,
        None => OpenContext::new(&duplicated(raw)?)?,
    };
    // Of two that say the same hint, the later one counts.
    let forced_hints = romio_hints_file::hints();
    entries.extend(forced_hints.iter().cloned());
    let mut hints = info::defaults();
    info::apply(&mut hints, &entries);
    let mut file = match context.open(&place, mode, &hints) {
        (Ok(file), _) => file,
        (Err(error), context) => {
            lease.give_back(context);
            return Err(error.into());
        }
    };
    // The communicator is this file's alone while it is open.
    file.own_comm();
    if stats {
        file.measure_time();
    }
    Ok(Open {
        tally: Tally::new(&place, stats),
        file,
        lease,
        number: OPENED.fetch_add(1, Ordering::Relaxed) + 1,
        slot: None,
        amode,
        group: Group::of(raw)?,
        view: ProgramView::bytes(),
        given: entries.into_iter().collect(),
        forced_hints,
        handler: Handler::default_of_files(),
        begun: None,
        name: call_record::Name::new(name.as_bytes()),
        details: CallDetails::default(),
    })
}

/// Refuses communicators that cannot open a file.
fn intracommunicator(raw: MPI_Comm) -> Outcome {
    if raw == mpi_constants::comm_null() {
        return Err(Failure::new(mpi_constants::ERR_COMM, "the communicator is null"));
    }
    let mut inter: c_int = 0;
    // SAFETY: the program's communicator.
    check(unsafe { ffi::MPI_Comm_test_inter(raw, &raw mut inter) })?;
    if inter != 0 {
        return Err(Failure::new(
            mpi_constants::ERR_COMM,
            "files are opened by the ranks of an intracommunicator",
        ));
    }
    Ok(())
}

/// A communicator of our own with the same ranks.
fn duplicated(raw: MPI_Comm) -> Outcome<Arc<dyn Comm>> {
    // SAFETY: it exists, is not an intercommunicator, and all its ranks open the file.
    unsafe { striate_comm::mpi::from_raw(raw) }.map_err(|error| in_comm(&error))
}

fn in_comm(error: &CommError) -> Failure {
    Failure::with_reason(mpi_constants::ERR_COMM, error.to_string())
}

/// What all ranks know before they open a file.
struct Agreed<T> {
    given: T,
    /// Whether one of them wants a summary.
    stats: bool,
    lease: CacheLease,
    /// The cached context of that entry.
    context: Option<OpenContext>,
}

/// Makes sure that all ranks can go on, with the same mode and the same entry of the cache. One
/// reduction on the program's own communicator does that: all its ranks open the file, and make no
/// other collective call on it meanwhile.
fn agree<T>(raw: MPI_Comm, amode: c_int, given: Outcome<T>) -> Outcome<Agreed<T>> {
    let class = given.as_ref().err().map_or(0, Failure::class);
    let stats = i64::from(Settings::get().stats);
    let proposal = EntryProposal::of(raw);
    let mut proposed = [0; 4 + context_cache::STATES];
    proposed[..4].copy_from_slice(&[i64::from(amode), -i64::from(amode), i64::from(class), stats]);
    proposed[4..].copy_from_slice(&proposal.states());
    // SAFETY: it exists, is not an intercommunicator, and all its ranks open the file.
    unsafe { striate_comm::mpi::largest(raw, &mut proposed) }.map_err(|error| in_comm(&error))?;
    let [highest, lowest, class, stats, states @ ..] = proposed;
    let given = given?;
    if class != 0 {
        return Err(Failure::new(class as c_int, "another rank could not open the file"));
    }
    if highest != -lowest {
        return Err(Failure::new(
            mpi_constants::ERR_NOT_SAME,
            "the ranks gave different access modes",
        ));
    }
    let (lease, context) = proposal.choose(&states);
    Ok(Agreed { given, stats: stats != 0, lease, context })
}

/// `MPI_File_close`.
///
/// # Safety
///
/// `handle` points to a handle of this library.
pub(crate) unsafe fn close(slot: &'static FileSlot, handle: *mut MPI_File) -> c_int {
    const CALL: &str = "MPI_File_close";
    let recorded = call_record::RecordedCall::begin(call_record::Function::MpiClose);
    let Some(open) = slot.lock().take() else {
        return raise(None, CALL, &Failure::no_file());
    };
    let (name, number) = (open.name.clone(), open.number);
    let handler = open.handler.clone();
    let done = guarded(|| {
        let Open { mut file, lease, tally, begun, .. } = *open;
        tally.report(&mut file);
        let (closed, context) = file.close_into_context();
        lease.give_back(context);
        closed?;
        begun.map_or(Ok(()), |_| {
            Err(Failure::new(mpi_constants::ERR_OTHER, "a split collective call was not ended"))
        })
    });
    let outcome = done.as_ref().map(|()| 0).map_err(Failure::class);
    recorded.end(&name, &CallDetails::default().done(number, outcome));
    // SAFETY: the caller's promise.
    unsafe { handle.write(mpi_constants::file_null()) };
    match done {
        Ok(()) => mpi_constants::SUCCESS,
        Err(failure) => raise_on(&handler, None, CALL, &failure),
    }
}

/// The slot of a handle that is to be closed.
///
/// # Safety
///
/// `handle` is null or leads to a handle.
pub(crate) unsafe fn to_close(handle: *const MPI_File) -> HandleKind {
    if handle.is_null() {
        return HandleKind::Null;
    }
    // SAFETY: the caller's promise.
    handle::find(unsafe { *handle })
}

/// `MPI_File_delete`.
///
/// # Safety
///
/// `name` is null or a C string.
pub(crate) unsafe fn delete(name: *const c_char) -> Outcome {
    let recorded = call_record::RecordedCall::begin(call_record::Function::MpiDelete);
    // SAFETY: the caller's promise.
    let done =
        unsafe { name_of(name) }.and_then(|name| Ok(File::delete(Settings::get().place(name))?));
    // SAFETY: the caller's promise.
    unsafe { tell(recorded, name, done.as_ref().map(|()| 0).map_err(Failure::class)) };
    done
}
