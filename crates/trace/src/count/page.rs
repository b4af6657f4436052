//! [`Page`]: the counters of this process, in a mapped file or in anonymous memory.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use striate_process::clock::{self, Moment};
use striate_process::lock::lock;
use striate_process::reopen::{self, Identity};
use striate_process::{Origin, limits};

use super::layout::{
    COMMAND, ENDED, ENDING, ENDINGS, HEADER, HOST, LABEL, LATER, MAGIC, MOST_COMMAND, MOST_ENDINGS,
    NAME, SHARD, SHARDS, SIZE, START, Shard, VERSION,
};

/// Memory of the layout of a file of counters.
#[derive(Debug)]
pub struct Page {
    base: NonNull<c_void>,
    /// Its file, and which one it is.
    path: Option<(PathBuf, Identity)>,
    /// Those that may be written: the file has room for them.
    shards: [AtomicPtr<Shard>; SHARDS],
    /// Held while room for one is made.
    making: Mutex<()>,
}

/// The endings of file names that were met, in the order of their places. They outlive a page: a
/// copy of the process goes on with open files.
#[derive(Debug, Default)]
pub struct KnownEndings(Mutex<Vec<Box<[u8]>>>);

// SAFETY: the memory is only used through atomics.
unsafe impl Send for Page {}
// SAFETY: as above.
unsafe impl Sync for Page {}

impl Page {
    /// Counters of this process: in a new file of the directory, or in memory if there is none or
    /// the file cannot be made.
    pub fn new(
        directory: Option<&Path>,
        origin: &Origin,
        label: &str,
        place: usize,
        endings: &KnownEndings,
    ) -> io::Result<Self> {
        let header = header(origin, label, place);
        let mapped = directory.and_then(|directory| {
            let path = path(directory, origin, place);
            let (base, made) = map_new(&path, &header).ok()?;
            Some((base, (path, made)))
        });
        let (base, path) = if let Some((base, path)) = mapped {
            (base, Some(path))
        } else {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: new memory, without other users.
            let base = unsafe {
                mmap_anonymous(std::ptr::null_mut(), SIZE, protection, MapFlags::PRIVATE)
            }?;
            // SAFETY: it has `SIZE` bytes, more than a header.
            unsafe { base.cast::<u8>().copy_from_nonoverlapping(header.as_ptr(), HEADER) };
            (base, None)
        };
        let base = NonNull::new(base).ok_or(io::ErrorKind::OutOfMemory)?;
        let shards = [const { AtomicPtr::new(std::ptr::null_mut()) }; SHARDS];
        let page = Self { base, path, shards, making: Mutex::default() };
        for (place, ending) in lock(&endings.0).iter().enumerate() {
            page.note_ending(place, ending);
        }
        Ok(page)
    }

    /// Whether it will be there when the process has ended.
    pub fn is_file(&self) -> bool {
        self.path.is_some()
    }

    /// The counters of a slot.
    #[inline]
    pub fn shard(&self, slot: usize) -> &Shard {
        let shard = self.shards[slot].load(Ordering::Acquire);
        if shard.is_null() {
            return self.prepare(slot);
        }
        // SAFETY: it points into the mapping or to what is never freed; it is aligned, and only
        // atomics.
        unsafe { &*shard }
    }

    /// Makes room for a slot. A full disk would otherwise end the program when it counts.
    #[cold]
    fn prepare(&self, slot: usize) -> &Shard {
        // Threads that share a slot may come together: the later one would wipe out what the first
        // has counted.
        let _making = lock(&self.making);
        let mut shard = self.shards[slot].load(Ordering::Acquire);
        if shard.is_null() {
            let at = HEADER + slot * SHARD;
            let room = self.path.as_ref().map_or(Ok(()), |(path, made)| {
                reopen::open_again(path, *made)?.write_all_at(&[0; SHARD], at as u64)
            });
            shard = match room {
                // SAFETY: `at` is within the mapping.
                Ok(()) => unsafe { self.base.as_ptr().cast::<u8>().add(at) }.cast(),
                // The counts are lost, but the caller has memory to count in.
                Err(_) => Box::into_raw(zeroed()),
            };
            self.shards[slot].store(shard, Ordering::Release);
        }
        // SAFETY: as in `shard`.
        unsafe { &*shard }
    }

    /// A number in the header.
    fn word(&self, at: usize) -> &AtomicU64 {
        // SAFETY: it is within the header, and a multiple of 8.
        unsafe { &*self.base.as_ptr().cast::<u8>().add(at).cast() }
    }

    /// Notes what time it is.
    pub fn note_moment(&self) {
        let moment = Moment::now();
        self.word(LATER).store(moment.ticks, Ordering::Relaxed);
        self.word(LATER + 8).store(moment.nanoseconds, Ordering::Relaxed);
    }

    /// Notes that the process ends.
    pub fn note_end(&self) {
        self.note_moment();
        self.word(ENDED).store(clock::wall(), Ordering::Relaxed);
    }

    /// The place of the ending of a file's name.
    pub fn ending(&self, path: &Path, known: &KnownEndings) -> u8 {
        let ending = ending_of(path);
        let mut endings = lock(&known.0);
        if let Some(place) = endings.iter().position(|known| **known == *ending) {
            return place as u8;
        }
        let place = endings.len();
        if place + 1 >= MOST_ENDINGS {
            return (MOST_ENDINGS - 1) as u8;
        }
        self.note_ending(place, ending);
        endings.push(ending.into());
        place as u8
    }

    fn note_ending(&self, place: usize, ending: &[u8]) {
        let mut bytes = [0; ENDING];
        bytes[..ending.len()].copy_from_slice(ending);
        for (n, word) in bytes.chunks_exact(8).enumerate() {
            let word = u64::from_le_bytes(std::array::from_fn(|byte| word[byte]));
            self.word(ENDINGS + place * ENDING + n * 8).store(word, Ordering::Relaxed);
        }
    }

    /// All that is there, as it would be in a file.
    pub fn bytes(&self) -> Vec<u8> {
        let words = (0..SIZE / 8).map(|n| self.word(n * 8).load(Ordering::Relaxed));
        words.flat_map(u64::to_le_bytes).collect()
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: there is no other user any more.
        let _ = unsafe { munmap(self.base.as_ptr(), SIZE) };
    }
}

fn zeroed() -> Box<Shard> {
    // SAFETY: a shard consists of numbers.
    unsafe { Box::new(std::mem::zeroed()) }
}

/// What counts as the kind of a file: the letters after the last point of its name.
fn ending_of(path: &Path) -> &[u8] {
    let ending = path.extension().map(std::ffi::OsStr::as_encoded_bytes).unwrap_or_default();
    let is_number = !ending.is_empty() && ending.iter().all(u8::is_ascii_digit);
    let is_plain = ending.iter().all(u8::is_ascii_graphic) && ending.len() < ENDING;
    match (is_number, is_plain) {
        (true, _) => b"0",
        (false, true) => ending,
        (false, false) => b"?",
    }
}

/// Where the counters of a process are.
fn path(directory: &Path, origin: &Origin, place: usize) -> PathBuf {
    directory.join(format!("{}-{:x}-{place}.count", origin.process, clock::wall()))
}

fn header(origin: &Origin, label: &str, place: usize) -> Vec<u8> {
    let start = Moment::now();
    let mut bytes = vec![0; HEADER];
    let mut put = |at: usize, what: &[u8]| bytes[at..at + what.len()].copy_from_slice(what);
    put(0, MAGIC);
    put(8, &VERSION.to_le_bytes());
    put(12, &(SHARDS as u32).to_le_bytes());
    put(16, &origin.process.to_le_bytes());
    put(20, &origin.parent.to_le_bytes());
    put(24, &origin.rank.map_or(-1, |rank| rank as i32).to_le_bytes());
    put(28, &u32::from(clock::source() as u8).to_le_bytes());
    put(32, &clock::wall().to_le_bytes());
    for at in [START, LATER] {
        put(at, &start.ticks.to_le_bytes());
        put(at + 8, &start.nanoseconds.to_le_bytes());
    }
    put(80, &(place as u32).to_le_bytes());
    let mut command: Vec<u8> =
        origin.command.iter().flat_map(|word| word.bytes().chain([0])).collect();
    command.truncate(MOST_COMMAND);
    put(84, &(command.len() as u32).to_le_bytes());
    put(LABEL, cut(label));
    put(HOST, cut(&origin.host));
    put(COMMAND, &command);
    bytes
}

fn cut(text: &str) -> &[u8] {
    &text.as_bytes()[..text.len().min(NAME)]
}

fn map_new(path: &Path, header: &[u8]) -> io::Result<(*mut c_void, Identity)> {
    limits::refresh();
    limits::admit(SIZE as u64)?;
    let mut file: File =
        OpenOptions::new().read(true).write(true).create_new(true).mode(0o644).open(path)?;
    file.write_all(header)?;
    file.set_len(SIZE as u64)?;
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a new file; what is in it is only used as atomics.
    let base = unsafe { mmap(std::ptr::null_mut(), SIZE, protection, MapFlags::SHARED, &file, 0) }?;
    Ok((base, reopen::identity(&file)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endings_are_short_words() {
        for (path, ending) in [
            ("/a/b.nc", "nc"),
            ("/a/b", ""),
            ("/a/.hidden", ""),
            ("/a/out.0042", "0"),
            ("/a/b.tar.gz", "gz"),
            ("/a/b.an-ending-that-is-none", "?"),
            ("/a/b.\u{e9}", "?"),
        ] {
            assert_eq!(ending_of(Path::new(path)), ending.as_bytes(), "{path}");
        }
    }
}
