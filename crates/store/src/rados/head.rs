//! [`Head`]: the head object of a file, which says how long the file is and orders cuts and writes.
//!
//! Many clients extend, cut and read a file at the same time, and RADOS changes several objects
//! never as one. So:
//!
//! * The size is an attribute that a write sets to its end *if it is less* (one operation with an
//!   assertion: an atomic maximum). The operation goes beside those of the data; both are complete
//!   when the write returns.
//! * A bound of the strips that exist grows, twofold at least, *before* strips beyond it are
//!   written. Whatever a killed client leaves, a cut or a removal finds it.
//! * A cut counts: every write asserts the number of cuts that its handle knows. If another client
//!   has cut the file, the write learns the size anew and is carried out again, so that it extends
//!   the file from there.
//! * A cut sets size and number together with a mark, then removes strips, then the mark. Whoever
//!   meets the mark waits for the lease of the client that cuts, or finishes its work if that has
//!   died.

use std::fmt;
use std::num::NonZeroU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use nix::errno::Errno;

use super::attributes::{
    CREATED, CURRENT, CUTS, CUTTING, HeadAttributes, REMOVED, SIZE, STRIP, STRIPS, VERSION, number,
};
use super::clear::remove_strips;
use super::error::RadosError;
use super::library::cluster::PoolHandle;
use super::library::operation::{Pending, ReadOperation, WriteOperation};
use super::options::RadosOptions;

/// The lock of RADOS that a client has while it cuts.
const CUT_LOCK: &std::ffi::CStr = c"striate.cut";

/// How long it holds without renewal.
const CUT_LEASE: Duration = Duration::from_secs(15);

/// How often something is tried again that other clients came before.
pub(super) const ATTEMPTS: u32 = 200;

/// The identity of a file, whatever its name is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct FileId(pub(super) String);

impl FileId {
    /// A new one.
    pub(super) fn random() -> Self {
        use std::hash::{BuildHasher, RandomState};
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let half = |n: u32| RandomState::new().hash_one((n, std::process::id(), now.as_nanos()));
        Self(format!("{:016x}{:016x}", half(1), half(2)))
    }

    /// An identity as it is written.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let is_id = text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_id.then(|| Self(text.to_owned()))
    }

    pub(super) fn head(&self) -> String {
        format!("striate.{self}.head")
    }

    pub(super) fn strip(&self, index: u64) -> String {
        format!("striate.{self}.{index:016x}")
    }
}

impl fmt::Display for FileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The head object of a file, and what is known of it.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) pool: Arc<PoolHandle>,
    pub(super) id: FileId,
    pub(super) options: RadosOptions,
    object: String,
    known: Mutex<HeadAttributes>,
}

/// The assertion of a write, under way beside its data.
#[derive(Debug)]
pub(super) enum Guard {
    Extends(Pending<WriteOperation>),
    Inside(Pending<ReadOperation>),
}

impl Head {
    /// Makes the head of a new file.
    pub(super) fn create(
        pool: &Arc<PoolHandle>,
        options: &RadosOptions,
        strip: NonZeroU64,
    ) -> Result<Self, RadosError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let known = HeadAttributes::new(strip, now.as_millis() as u64);
        let head = Self::assume(pool, options, FileId::random(), known);
        let numbers = [
            (STRIP, known.strip.get()),
            (SIZE, known.size),
            (STRIPS, known.strips),
            (CUTS, known.cuts),
            (CREATED, known.created_ms),
        ];
        let creation = WriteOperation::new(pool).create(true).set(VERSION, CURRENT);
        let creation = numbers.into_iter().fold(creation, |op, (name, n)| op.set(name, &number(n)));
        creation.run(pool, &head.object).map_err(|errno| head.failed(errno))?;
        Ok(head)
    }

    /// Finds the head of a file.
    pub(super) fn open(
        pool: &Arc<PoolHandle>,
        options: &RadosOptions,
        id: FileId,
    ) -> Result<Self, RadosError> {
        // The first load replaces it.
        let nothing = HeadAttributes::new(NonZeroU64::MIN, 0);
        let head = Self::assume(pool, options, id, nothing);
        head.load()?;
        Ok(head)
    }

    fn assume(
        pool: &Arc<PoolHandle>,
        options: &RadosOptions,
        id: FileId,
        known: HeadAttributes,
    ) -> Self {
        let object = id.head();
        let (pool, options) = (Arc::clone(pool), options.clone());
        Self { pool, id, options, object, known: Mutex::new(known) }
    }

    /// The name of the object.
    pub(super) fn object(&self) -> &str {
        &self.object
    }

    pub(super) fn failed(&self, errno: Errno) -> RadosError {
        RadosError::new(errno, self.options.patience)
    }

    /// An error of an operation on the head, which exists as long as the file does.
    pub(super) fn failed_on_head(&self, errno: Errno) -> RadosError {
        if errno == Errno::ENOENT { RadosError::NoFile } else { self.failed(errno) }
    }

    fn lock(&self) -> MutexGuard<'_, HeadAttributes> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was found last.
    pub(super) fn known(&self) -> HeadAttributes {
        *self.lock()
    }

    /// Starts to ask for the attributes.
    pub(super) fn start_load(
        pool: &Arc<PoolHandle>,
        id: &FileId,
    ) -> Result<Pending<ReadOperation>, Errno> {
        ReadOperation::new(pool).attributes().start(pool, &id.head())
    }

    fn read(&self) -> Result<HeadAttributes, RadosError> {
        let operation = ReadOperation::new(&self.pool).attributes();
        let operation = operation.run(&self.pool, &self.object);
        let attributes = operation.map_err(|errno| self.failed_on_head(errno))?.into_attributes();
        HeadAttributes::decode(&attributes)
            .map_err(|what| RadosError::Damaged { object: self.object.clone(), what })
    }

    /// Asks for the attributes. Waits for a cut that is carried out; finishes one whose client has
    /// died.
    pub(super) fn load(&self) -> Result<HeadAttributes, RadosError> {
        let mut found = self.read()?;
        if found.cutting.is_some() && !found.removed {
            let lease = self.lease_cut()?;
            found = self.read()?;
            if let Some(len) = found.cutting {
                self.finish_cut(&found, len, &lease)?;
                found.cutting = None;
            }
        }
        if found.removed {
            return Err(RadosError::NoFile);
        }
        *self.lock() = found;
        Ok(found)
    }

    /// Makes sure that strips below `strips` are found by whoever removes them.
    pub(super) fn reserve(&self, strips: u64) -> Result<(), RadosError> {
        let known = self.known().strips;
        if strips <= known {
            return Ok(());
        }
        let bound = strips.max(known.saturating_mul(2));
        let grow = WriteOperation::new(&self.pool).assert_exists();
        let grow = grow.expect_less_than(STRIPS, &number(bound)).set(STRIPS, &number(bound));
        match grow.run(&self.pool, &self.object) {
            // In the second case it is as large, or larger.
            Ok(()) | Err(Errno::ECANCELED) => {}
            Err(errno) => return Err(self.failed_on_head(errno)),
        }
        let mut known = self.lock();
        known.strips = known.strips.max(bound);
        Ok(())
    }

    fn extension(&self, known: &HeadAttributes, end: u64) -> WriteOperation {
        let (cuts, end) = (number(known.cuts), number(end));
        let operation = WriteOperation::new(&self.pool).assert_exists();
        operation.expect(CUTS, &cuts).expect_less_than(SIZE, &end).set(SIZE, &end)
    }

    /// Starts the assertion of a write of bytes up to `end` by a handle that knows this.
    pub(super) fn start_guard(
        &self,
        known: &HeadAttributes,
        end: u64,
    ) -> Result<Guard, RadosError> {
        let started = if end > known.size {
            self.extension(known, end).start(&self.pool, &self.object).map(Guard::Extends)
        } else {
            let inside = ReadOperation::new(&self.pool).expect(CUTS, &number(known.cuts));
            inside.start(&self.pool, &self.object).map(Guard::Inside)
        };
        started.map_err(|errno| self.failed_on_head(errno))
    }

    /// Whether the write holds; if not, the file was cut, and the write has to be carried out
    /// again.
    pub(super) fn finish_guard(
        &self,
        guard: Guard,
        known: &HeadAttributes,
        end: u64,
    ) -> Result<bool, RadosError> {
        let outcome = match guard {
            Guard::Extends(pending) => pending.wait().1,
            Guard::Inside(pending) => pending.wait().1,
        };
        match outcome {
            Ok(()) => {
                let mut now = self.lock();
                if now.cuts == known.cuts {
                    now.size = now.size.max(end);
                }
                Ok(true)
            }
            // The file is as long already, or was cut.
            Err(Errno::ECANCELED) => Ok(self.load()?.cuts == known.cuts),
            Err(errno) => Err(self.failed_on_head(errno)),
        }
    }

    /// Extends the file to `len`, unless it is as long.
    pub(super) fn extend(&self, len: u64) -> Result<(), RadosError> {
        for _ in 0..ATTEMPTS {
            let now = self.load()?;
            if now.size >= len || self.grow(&now, len)? {
                return Ok(());
            }
        }
        Err(RadosError::Contended(ATTEMPTS))
    }

    /// Extends the file to `len`; `false` if another client came before.
    fn grow(&self, now: &HeadAttributes, len: u64) -> Result<bool, RadosError> {
        match self.extension(now, len).run(&self.pool, &self.object) {
            Ok(()) => {
                self.lock().size = len;
                Ok(true)
            }
            Err(Errno::ECANCELED) => Ok(false),
            Err(errno) => Err(self.failed_on_head(errno)),
        }
    }

    /// Cuts or extends the file.
    pub(super) fn set_len(&self, len: u64) -> Result<(), RadosError> {
        for _ in 0..ATTEMPTS {
            let now = self.load()?;
            let done = match len {
                len if len == now.size => true,
                len if len > now.size => self.grow(&now, len)?,
                len => self.cut(&now, len)?,
            };
            if done {
                return Ok(());
            }
        }
        Err(RadosError::Contended(ATTEMPTS))
    }

    /// Cuts the file to `len`; `false` if another client came before.
    fn cut(&self, now: &HeadAttributes, len: u64) -> Result<bool, RadosError> {
        let lease = self.lease_cut()?;
        let cuts = now.cuts.wrapping_add(1);
        let mark = WriteOperation::new(&self.pool).assert_exists();
        let mark = mark.expect(CUTS, &number(now.cuts)).expect(SIZE, &number(now.size));
        let mark = mark.set(CUTS, &number(cuts)).set(SIZE, &number(len)).set(CUTTING, &number(len));
        match mark.run(&self.pool, &self.object) {
            Ok(()) => {}
            Err(Errno::ECANCELED) => return Ok(false),
            Err(errno) => return Err(self.failed_on_head(errno)),
        }
        // The bound of the strips may have grown since.
        let marked = self.read()?;
        self.finish_cut(&marked, len, &lease)?;
        *self.lock() = HeadAttributes { cutting: None, ..marked };
        Ok(true)
    }

    /// Removes what lies beyond a cut, then its mark.
    fn finish_cut(
        &self,
        now: &HeadAttributes,
        len: u64,
        lease: &CutLease<'_>,
    ) -> Result<(), RadosError> {
        let (strip, rest) = (len / now.strip, len % now.strip);
        if rest > 0 {
            let shorten = WriteOperation::new(&self.pool).assert_exists().truncate(rest);
            match shorten.run(&self.pool, &self.id.strip(strip)) {
                Ok(()) | Err(Errno::ENOENT) => {}
                Err(errno) => return Err(self.failed(errno)),
            }
        }
        let whole = len.div_ceil(now.strip.get())..now.strips;
        remove_strips(&self.pool, |index| self.id.strip(index), whole, || lease.renew())
            .map_err(|errno| self.failed(errno))?;
        let unmark = WriteOperation::new(&self.pool).assert_exists();
        let unmark = unmark.expect(CUTS, &number(now.cuts)).unset(CUTTING);
        unmark.run(&self.pool, &self.object).map_err(|errno| self.failed_on_head(errno))
    }

    /// The right to cut, when no other client has it.
    fn lease_cut(&self) -> Result<CutLease<'_>, RadosError> {
        let lease = CutLease { head: self, holder: FileId::random() };
        let (begin, limit) = (Instant::now(), self.options.patience + CUT_LEASE);
        loop {
            match lease.renew() {
                Ok(()) => return Ok(lease),
                Err(Errno::EBUSY) if begin.elapsed() < limit => sleep(Duration::from_millis(5)),
                Err(Errno::EBUSY) => return Err(RadosError::TimedOut(limit)),
                Err(errno) => return Err(self.failed_on_head(errno)),
            }
        }
    }

    /// Removes all objects of a file, as far as they are there.
    pub(super) fn bury(
        pool: &Arc<PoolHandle>,
        options: &RadosOptions,
        id: FileId,
    ) -> Result<(), RadosError> {
        let head = Self::assume(pool, options, id, HeadAttributes::new(NonZeroU64::MIN, 0));
        let gone = |outcome: Result<(), Errno>| match outcome {
            Err(Errno::ENOENT) => Ok(true),
            Ok(()) => Ok(false),
            Err(errno) => Err(head.failed(errno)),
        };
        // Writes assert another number of cuts, and find the mark then.
        let mark = WriteOperation::new(pool).assert_exists();
        let mark = mark.set(REMOVED, b"1").set(CUTS, &number(u64::MAX));
        if gone(mark.run(pool, &head.object))? {
            return Ok(());
        }
        let mut from = 0;
        for _ in 0..ATTEMPTS {
            let operation = ReadOperation::new(pool).attributes().run(pool, &head.object);
            let attributes = match operation {
                Ok(operation) => operation.into_attributes(),
                Err(Errno::ENOENT) => return Ok(()),
                Err(errno) => return Err(head.failed(errno)),
            };
            let named = attributes.iter().find(|(name, _)| name.as_bytes() == STRIPS.to_bytes());
            let bound = named.map_or(&[][..], |(_, value)| value);
            // Of a damaged head, only itself can be removed.
            let strips = HeadAttributes::decode(&attributes).map_or(from, |found| found.strips);
            remove_strips(pool, |index| head.id.strip(index), from..strips, || Ok(()))
                .map_err(|errno| head.failed(errno))?;
            from = strips;
            match WriteOperation::new(pool).expect(STRIPS, bound).remove().run(pool, &head.object) {
                // The bound has grown.
                Err(Errno::ECANCELED) => {}
                outcome => return gone(outcome).map(drop),
            }
        }
        Err(RadosError::Contended(ATTEMPTS))
    }
}

/// The right to cut a file; given back when this is dropped.
#[derive(Debug)]
struct CutLease<'h> {
    head: &'h Head,
    holder: FileId,
}

impl CutLease<'_> {
    fn renew(&self) -> Result<(), Errno> {
        self.head.pool.lease_exclusive(&self.head.object, CUT_LOCK, &self.holder.0, CUT_LEASE)
    }
}

impl Drop for CutLease<'_> {
    fn drop(&mut self) {
        // If it cannot be given back, it ends by itself.
        let _ = self.head.pool.release(&self.head.object, CUT_LOCK, &self.holder.0);
    }
}
