//! [`WriteOperation`] and [`ReadOperation`]: compound operations on one object, and [`Pending`],
//! one under way.
//!
//! What librados reads from a write operation it copies when the operation is built. What it writes
//! to, it gets from the read operation, which owns that memory and is dropped after its completion:
//! nothing of a caller's memory is ever used by librados, so an operation that is forgotten leaks
//! and does no harm. A time limit is set for every cluster (`rados_osd_op_timeout`), so that every
//! wait ends.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::Arc;

use nix::errno::Errno;

use super::cluster::{PoolHandle, outcome};
use super::{EQUAL, GREATER, Library, Raw};

/// Fail if the cluster is full, rather than wait for space.
const FULL_TRY: c_int = 64;

/// An attribute's value, or an entry of a map: compared as bytes.
fn bytes(value: &[u8]) -> (*const c_char, usize) {
    (value.as_ptr().cast(), value.len())
}

/// Changes of one object that take place together or not at all.
#[derive(Debug)]
pub(in crate::rados) struct WriteOperation {
    library: &'static Library,
    raw: Raw,
}

// SAFETY: an operation is not bound to a thread; it is used by one at a time.
unsafe impl Send for WriteOperation {}

impl Drop for WriteOperation {
    fn drop(&mut self) {
        // SAFETY: it was made by `create_write_op`, and is not under way (see `Pending`).
        unsafe { (self.library.release_write_op)(self.raw) };
    }
}

/// All pointers that are handed over last for the call, which copies what they point to.
impl WriteOperation {
    pub(in crate::rados) fn new(pool: &PoolHandle) -> Self {
        let library = pool.cluster.library;
        // SAFETY: it has no conditions.
        Self { library, raw: unsafe { (library.create_write_op)() } }
    }

    /// Fails with `ENOENT` unless the object exists.
    pub(in crate::rados) fn assert_exists(self) -> Self {
        // SAFETY: the operation is being built.
        unsafe { (self.library.write_op_assert_exists)(self.raw) };
        self
    }

    /// Makes the object; fails with `EEXIST` if it exists and `exclusive`.
    pub(in crate::rados) fn create(self, exclusive: bool) -> Self {
        // SAFETY: as above; the last argument has no meaning any more.
        unsafe { (self.library.write_op_create)(self.raw, c_int::from(exclusive), ptr::null()) };
        self
    }

    /// Fails with `ECANCELED` unless the attribute has this value; one that is not there is empty.
    pub(in crate::rados) fn expect(self, attribute: &CStr, value: &[u8]) -> Self {
        self.compare(attribute, EQUAL, value)
    }

    /// Fails with `ECANCELED` unless the value is greater than that of the attribute.
    pub(in crate::rados) fn expect_less_than(self, attribute: &CStr, value: &[u8]) -> Self {
        self.compare(attribute, GREATER, value)
    }

    fn compare(self, attribute: &CStr, operator: u8, value: &[u8]) -> Self {
        let (value, len) = bytes(value);
        let compare = self.library.write_op_cmpxattr;
        // SAFETY: as above.
        unsafe { compare(self.raw, attribute.as_ptr(), operator, value, len) };
        self
    }

    pub(in crate::rados) fn set(self, attribute: &CStr, value: &[u8]) -> Self {
        let (value, len) = bytes(value);
        // SAFETY: as above.
        unsafe { (self.library.write_op_setxattr)(self.raw, attribute.as_ptr(), value, len) };
        self
    }

    pub(in crate::rados) fn unset(self, attribute: &CStr) -> Self {
        // SAFETY: as above.
        unsafe { (self.library.write_op_rmxattr)(self.raw, attribute.as_ptr()) };
        self
    }

    pub(in crate::rados) fn write(self, offset: u64, data: &[u8]) -> Self {
        let (data, len) = bytes(data);
        // SAFETY: as above.
        unsafe { (self.library.write_op_write)(self.raw, data, len, offset) };
        self
    }

    pub(in crate::rados) fn truncate(self, len: u64) -> Self {
        // SAFETY: as above.
        unsafe { (self.library.write_op_truncate)(self.raw, len) };
        self
    }

    pub(in crate::rados) fn remove(self) -> Self {
        // SAFETY: as above.
        unsafe { (self.library.write_op_remove)(self.raw) };
        self
    }

    /// Fails with `ECANCELED` unless the entry of the object's map has this value; one that is not
    /// there is empty.
    pub(in crate::rados) fn expect_entry(self, key: &CStr, value: &[u8]) -> Self {
        let (value, len) = bytes(value);
        let compare = self.library.write_op_omap_cmp;
        // SAFETY: as above; there is no place for a separate result.
        unsafe { compare(self.raw, key.as_ptr(), EQUAL, value, len, ptr::null_mut()) };
        self
    }

    pub(in crate::rados) fn set_entry(self, key: &CStr, value: &[u8]) -> Self {
        let (keys, (value, len)) = ([key.as_ptr()], bytes(value));
        let set = self.library.write_op_omap_set;
        // SAFETY: as above; the three arrays have one element.
        unsafe { set(self.raw, keys.as_ptr(), [value].as_ptr(), [len].as_ptr(), 1) };
        self
    }

    pub(in crate::rados) fn remove_entry(self, key: &CStr) -> Self {
        // SAFETY: as above; the array has one element.
        unsafe { (self.library.write_op_omap_rm_keys)(self.raw, [key.as_ptr()].as_ptr(), 1) };
        self
    }

    /// Starts it.
    pub(in crate::rados) fn start(
        self,
        pool: &Arc<PoolHandle>,
        object: &str,
    ) -> Result<Pending<Self>, Errno> {
        let raw = self.raw;
        Pending::start(pool, object, self, |library, completion, object| {
            // SAFETY: the handles are alive until completion (see `Pending`); null stands for the
            // current time.
            unsafe {
                (library.aio_write_op_operate)(
                    raw,
                    pool.raw,
                    completion,
                    object,
                    ptr::null_mut(),
                    FULL_TRY,
                )
            }
        })
    }

    /// Carries it out.
    pub(in crate::rados) fn run(self, pool: &Arc<PoolHandle>, object: &str) -> Result<(), Errno> {
        self.start(pool, object)?.wait().1
    }
}

/// Where librados puts the result of a part of a read.
#[derive(Clone, Copy, Debug, Default)]
struct ReadResult {
    bytes: usize,
    status: c_int,
}

/// Reads of one object at one point in time.
#[derive(Debug)]
pub(in crate::rados) struct ReadOperation {
    library: &'static Library,
    raw: Raw,
    /// Written by librados until completion, through pointers taken when the operation was built:
    /// not touched, and not made longer, before that.
    buffer: Vec<u8>,
    results: Vec<ReadResult>,
    status: Vec<c_int>,
    more: Vec<u8>,
    attributes: Raw,
    entries: Raw,
}

// SAFETY: an operation is not bound to a thread; it is used by one at a time.
unsafe impl Send for ReadOperation {}

impl Drop for ReadOperation {
    fn drop(&mut self) {
        // SAFETY: it was made by `create_read_op`, and is not under way (see `Pending`); so were
        // the iterators, if they are there.
        unsafe {
            (self.library.release_read_op)(self.raw);
            if !self.attributes.is_null() {
                (self.library.getxattrs_end)(self.attributes);
            }
            if !self.entries.is_null() {
                (self.library.omap_get_end)(self.entries);
            }
        }
    }
}

impl ReadOperation {
    pub(in crate::rados) fn new(pool: &PoolHandle) -> Self {
        let library = pool.cluster.library;
        Self {
            library,
            // SAFETY: it has no conditions.
            raw: unsafe { (library.create_read_op)() },
            buffer: Vec::new(),
            results: Vec::new(),
            status: vec![0; 2],
            more: vec![0],
            attributes: ptr::null_mut(),
            entries: ptr::null_mut(),
        }
    }

    /// Fails with `ECANCELED` unless the attribute has this value; one that is not there is empty.
    pub(in crate::rados) fn expect(self, attribute: &CStr, value: &[u8]) -> Self {
        let (value, len) = bytes(value);
        let compare = self.library.read_op_cmpxattr;
        // SAFETY: as for writes.
        unsafe { compare(self.raw, attribute.as_ptr(), EQUAL, value, len) };
        self
    }

    /// Gets all attributes. Called once at most.
    pub(in crate::rados) fn attributes(mut self) -> Self {
        if self.attributes.is_null() {
            let status = self.status.as_mut_ptr();
            // SAFETY: the iterator is written now, the status until completion, for which its
            // memory stays.
            unsafe { (self.library.read_op_getxattrs)(self.raw, &raw mut self.attributes, status) };
        }
        self
    }

    /// Gets entries of the object's map whose keys begin with `prefix`, `most` of them after
    /// `after`. Called once at most.
    pub(in crate::rados) fn entries(mut self, prefix: &CStr, after: &CStr, most: u64) -> Self {
        if self.entries.is_null() {
            // SAFETY: inside of a vector of two.
            let status = unsafe { self.status.as_mut_ptr().add(1) };
            let (after, prefix, more) = (after.as_ptr(), prefix.as_ptr(), self.more.as_mut_ptr());
            let entries = &raw mut self.entries;
            // SAFETY: the iterator is written now; `more`, which has space for one byte, and the
            // status until completion, for which their memory stays.
            unsafe {
                (self.library.read_op_omap_get_vals2)(
                    self.raw, after, prefix, most, entries, more, status,
                );
            }
        }
        self
    }

    /// Gets the data of extents, given as offset and length, one after the other into `buffer`,
    /// which gets the length of all.
    pub(in crate::rados) fn data(
        mut self,
        extents: impl ExactSizeIterator<Item = (u64, usize)> + Clone,
        mut buffer: Vec<u8>,
    ) -> Self {
        if !self.results.is_empty() {
            return self;
        }
        let all = extents.clone().map(|(_, len)| len).sum();
        buffer.resize(all, 0);
        self.buffer = buffer;
        self.results = vec![ReadResult::default(); extents.len()];
        let (data, results) = (self.buffer.as_mut_ptr(), self.results.as_mut_ptr());
        let mut at = 0;
        for (index, (offset, len)) in extents.enumerate().take(self.results.len()) {
            if all - at < len {
                break;
            }
            // SAFETY: `at + len` is at most the length of the buffer, `index` less than that of the
            // results. They are written until completion, for which their memory stays: vectors do
            // not move it, and these do not change.
            unsafe {
                let (to, result) = (data.add(at).cast(), results.add(index));
                let (bytes, status) = (&raw mut (*result).bytes, &raw mut (*result).status);
                (self.library.read_op_read)(self.raw, offset, len, to, bytes, status);
            }
            at += len;
        }
        self
    }

    /// Starts it.
    pub(in crate::rados) fn start(
        self,
        pool: &Arc<PoolHandle>,
        object: &str,
    ) -> Result<Pending<Self>, Errno> {
        let raw = self.raw;
        Pending::start(pool, object, self, |library, completion, object| {
            // SAFETY: the handles are alive until completion (see `Pending`).
            unsafe { (library.aio_read_op_operate)(raw, pool.raw, completion, object, 0) }
        })
    }

    /// Carries it out.
    pub(in crate::rados) fn run(self, pool: &Arc<PoolHandle>, object: &str) -> Result<Self, Errno> {
        let (operation, outcome) = self.start(pool, object)?.wait();
        outcome.map(|()| operation)
    }

    /// How many bytes the extent of this index has.
    pub(in crate::rados) fn got(&self, index: usize) -> usize {
        self.results.get(index).map_or(0, |result| if result.status < 0 { 0 } else { result.bytes })
    }

    /// The data of the extents, one after the other; what an extent lacks is arbitrary.
    pub(in crate::rados) fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// The buffer, to be used again.
    pub(in crate::rados) fn into_buffer(mut self) -> Vec<u8> {
        std::mem::take(&mut self.buffer)
    }

    /// The attributes that were asked for.
    pub(in crate::rados) fn into_attributes(self) -> Vec<(String, Vec<u8>)> {
        let mut all = Vec::new();
        while !self.attributes.is_null() {
            let (mut name, mut value, mut len) = (ptr::null(), ptr::null(), 0);
            // SAFETY: the operation is complete, and the iterator is there; the three results are
            // written.
            let next = unsafe {
                (self.library.getxattrs_next)(
                    self.attributes,
                    &raw mut name,
                    &raw mut value,
                    &raw mut len,
                )
            };
            if next < 0 || name.is_null() {
                break;
            }
            // SAFETY: a name that ends with a zero, which lasts as long as the iterator.
            let name = unsafe { CStr::from_ptr(name) };
            all.push((name.to_string_lossy().into_owned(), copied(value, len)));
        }
        all
    }

    /// The entries that were asked for, and whether there are more.
    pub(in crate::rados) fn into_entries(self) -> (Vec<(String, Vec<u8>)>, bool) {
        let mut all = Vec::new();
        while !self.entries.is_null() {
            let (mut key, mut value, mut len) = (ptr::null_mut(), ptr::null_mut(), 0);
            // SAFETY: the operation is complete, and the iterator is there; the three results are
            // written.
            let next = unsafe {
                (self.library.omap_get_next)(
                    self.entries,
                    &raw mut key,
                    &raw mut value,
                    &raw mut len,
                )
            };
            if next < 0 || key.is_null() {
                break;
            }
            // SAFETY: a key that ends with a zero, which lasts as long as the iterator.
            let key = unsafe { CStr::from_ptr(key) };
            all.push((key.to_string_lossy().into_owned(), copied(value, len)));
        }
        (all, self.more.first().is_some_and(|more| *more != 0))
    }
}

/// A copy of a value of an iterator.
fn copied(value: *const c_char, len: usize) -> Vec<u8> {
    if value.is_null() || len == 0 {
        return Vec::new();
    }
    // SAFETY: the iterator says that `len` bytes lie there, and lasts longer than the call.
    unsafe { std::slice::from_raw_parts(value.cast::<u8>(), len) }.to_vec()
}

/// An operation under way, which is waited for when this is dropped.
#[derive(Debug)]
pub(in crate::rados) struct Pending<O> {
    library: &'static Library,
    completion: Raw,
    /// Dropped after the wait: librados uses its memory until then.
    operation: Option<O>,
    _pool: Arc<PoolHandle>,
}

// SAFETY: a completion is not bound to a thread; it is used by one at a time.
unsafe impl<O: Send> Send for Pending<O> {}

impl<O> Drop for Pending<O> {
    fn drop(&mut self) {
        // SAFETY: the completion was made by `aio_create_completion2`, and this is its last use. To
        // wait for one that is complete returns at once.
        unsafe {
            (self.library.aio_wait_for_complete)(self.completion);
            (self.library.aio_release)(self.completion);
        }
    }
}

impl<O> Pending<O> {
    fn start(
        pool: &Arc<PoolHandle>,
        object: &str,
        operation: O,
        start: impl FnOnce(&'static Library, Raw, *const c_char) -> c_int,
    ) -> Result<Self, Errno> {
        let library = pool.cluster.library;
        let object = CString::new(object).map_err(|_| Errno::EINVAL)?;
        let mut completion = ptr::null_mut();
        // SAFETY: nothing is called back; the completion is written.
        outcome(unsafe {
            (library.aio_create_completion2)(ptr::null_mut(), ptr::null(), &raw mut completion)
        })?;
        if let Err(errno) = outcome(start(library, completion, object.as_ptr())) {
            // SAFETY: the operation was not started, so nothing else uses the completion.
            unsafe { (library.aio_release)(completion) };
            return Err(errno);
        }
        Ok(Self { library, completion, operation: Some(operation), _pool: Arc::clone(pool) })
    }

    /// Waits for it; gives it back with what became of it.
    pub(in crate::rados) fn wait(mut self) -> (O, Result<(), Errno>) {
        // SAFETY: the completion is alive.
        let result = unsafe {
            (self.library.aio_wait_for_complete)(self.completion);
            (self.library.aio_get_return_value)(self.completion)
        };
        match self.operation.take() {
            Some(operation) => (operation, outcome(result).map(drop)),
            None => unreachable!("an operation is taken once, by the call that consumes it"),
        }
    }
}
