//! [`Tester`]: random operations on a file, and a model of what has to come of them.

use std::fs::{self, File, OpenOptions};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::ptr::null_mut;

/// The longest that the file gets.
const MOST: u64 = 256 << 10;

/// What direct requests are multiples of.
const BLOCK: usize = 4096;

/// A file under test.
pub struct Tester {
    path: PathBuf,
    seed: u64,
    state: u64,
    bytes: Vec<u8>,
    files: Vec<File>,
    appending: File,
    /// Opened for direct requests, where the file system has them.
    direct: Option<File>,
    told: Vec<String>,
}

impl Tester {
    pub fn new(path: &Path, seed: u64) -> Self {
        let _ = fs::remove_file(path);
        let first = open(path, true);
        let files = vec![first, open(path, false), open(path, false)];
        let appending = OpenOptions::new().append(true).read(true).open(path).unwrap();
        let direct = open_direct(path);
        let (state, bytes, told) = (seed, Vec::new(), Vec::new());
        Self { path: path.to_path_buf(), seed, state, bytes, files, appending, direct, told }
    }

    pub fn run(mut self, steps: u32) {
        for _ in 0..steps {
            self.step();
        }
        let bytes = fs::read(&self.path).unwrap();
        self.compare(0, &bytes, "at the end");
        assert_eq!(bytes.len(), self.bytes.len());
        fs::remove_file(&self.path).unwrap();
    }

    fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.draw() % limit.max(1)
    }

    fn length(&mut self) -> usize {
        (match self.below(8) {
            0 => 4096,
            1 => 4096 * (1 + self.below(8)),
            2..=4 => 1 + self.below(300),
            5 | 6 => 1 + self.below(9000),
            _ => 1 + self.below(60_000),
        }) as usize
    }

    fn offset(&mut self) -> u64 {
        match self.below(4) {
            0 => 4096 * self.below(MOST / 4096),
            1 => self.bytes.len() as u64,
            _ => self.below(self.bytes.len() as u64 + 5000),
        }
        .min(MOST)
    }

    fn fresh(&mut self, length: usize) -> Vec<u8> {
        let start = self.draw();
        (0..length as u64)
            .map(|n| (start.wrapping_add(n).wrapping_mul(0x9e37_79b9) >> 24) as u8)
            .collect()
    }

    fn tell(&mut self, text: String) {
        self.told.push(text);
    }

    fn fail(&self, what: &str) -> ! {
        let from = self.told.len().saturating_sub(25);
        panic!("seed {}: {what}, after:\n  {}", self.seed, self.told[from..].join("\n  "));
    }

    fn compare(&self, offset: u64, found: &[u8], what: &str) {
        let start = (offset as usize).min(self.bytes.len());
        let expected = &self.bytes[start..(start + found.len()).min(self.bytes.len())];
        if expected.len() != found.len() {
            self.fail(&format!(
                "{what}: {} bytes at {offset}, not {}",
                found.len(),
                expected.len()
            ));
        }
        if let Some(place) = expected.iter().zip(found).position(|(a, b)| a != b) {
            let wrong = expected.iter().zip(found).filter(|(a, b)| a != b).count();
            self.fail(&format!(
                "{what}: byte {} is {:#x}, not {:#x}; {wrong} of {} differ",
                offset as usize + place,
                found[place],
                expected[place],
                found.len()
            ));
        }
    }

    fn put(&mut self, offset: u64, bytes: &[u8]) {
        let end = offset as usize + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[offset as usize..end].copy_from_slice(bytes);
    }

    fn step(&mut self) {
        let which = self.below(self.files.len() as u64) as usize;
        match self.below(26) {
            0..=4 => self.write(which),
            5..=8 => self.read(which),
            9 => self.append(),
            10 => self.truncate(which),
            11 | 12 => self.map_read(which),
            13..=15 => self.map_write(which),
            16 => self.punch(which, libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE),
            17 => self.punch(which, libc::FALLOC_FL_ZERO_RANGE | libc::FALLOC_FL_KEEP_SIZE),
            18 => self.copy(which),
            19 => {
                self.tell(format!("close and open {which}"));
                self.files[which] = open(&self.path, false);
                if which == 0 && self.direct.is_some() {
                    self.direct = open_direct(&self.path);
                }
            }
            20 => {
                self.tell(format!("fsync {which}"));
                self.files[which].sync_all().unwrap();
            }
            21 => self.look(which),
            22 => self.rename(),
            23 => self.direct_write(),
            24 => self.direct_read(),
            _ => self.grow(which),
        }
    }

    fn write(&mut self, which: usize) {
        let (offset, length) = (self.offset(), self.length());
        let length = length.min((MOST - offset) as usize);
        self.tell(format!("write {which}: {length} at {offset}"));
        let bytes = self.fresh(length);
        self.files[which].write_all_at(&bytes, offset).unwrap();
        if length > 0 {
            self.put(offset, &bytes);
        }
    }

    fn append(&mut self) {
        let length = self.length();
        if self.bytes.len() + length > MOST as usize {
            return;
        }
        self.tell(format!("append {length} at {}", self.bytes.len()));
        let bytes = self.fresh(length);
        std::io::Write::write_all(&mut self.appending, &bytes).unwrap();
        self.bytes.extend_from_slice(&bytes);
    }

    fn read(&mut self, which: usize) {
        let (offset, length) = (self.offset(), self.length());
        self.tell(format!("read {which}: {length} at {offset}"));
        let mut room = vec![0xa5; length];
        let mut count = 0;
        while count < length {
            match self.files[which].read_at(&mut room[count..], offset + count as u64).unwrap() {
                0 => break,
                more => count += more,
            }
        }
        let expected = (self.bytes.len() as u64).saturating_sub(offset).min(length as u64);
        if count as u64 != expected {
            self.fail(&format!("read {count} bytes, not {expected}"));
        }
        self.compare(offset, &room[..count], "read");
    }

    /// Whole blocks, at the beginning of one.
    fn blocks(&mut self) -> (u64, usize) {
        let offset = self.below(MOST / BLOCK as u64) * BLOCK as u64;
        let most = ((MOST - offset) / BLOCK as u64).clamp(1, 8);
        (offset, BLOCK * (1 + self.below(most) as usize))
    }

    fn direct_write(&mut self) {
        let (offset, length) = self.blocks();
        let bytes = self.fresh(length);
        let Some(file) = &self.direct else { return };
        let mut room = vec![0; length + BLOCK];
        let start = room.as_ptr().align_offset(BLOCK);
        let room = &mut room[start..start + length];
        room.copy_from_slice(&bytes);
        file.write_all_at(room, offset).unwrap();
        self.tell(format!("write directly: {length} at {offset}"));
        self.put(offset, &bytes);
    }

    fn direct_read(&mut self) {
        let (offset, length) = self.blocks();
        let Some(file) = &self.direct else { return };
        let mut room = vec![0xa5; length + BLOCK];
        let start = room.as_ptr().align_offset(BLOCK);
        let room = &mut room[start..start + length];
        let count = file.read_at(room, offset).unwrap();
        self.tell(format!("read directly: {length} at {offset}"));
        let expected = (self.bytes.len() as u64).saturating_sub(offset).min(length as u64);
        if count as u64 != expected {
            self.fail(&format!("read {count} bytes directly, not {expected}"));
        }
        self.compare(offset, &room[..count], "read directly");
    }

    fn truncate(&mut self, which: usize) {
        let length = self.offset();
        self.tell(format!("truncate {which} from {} to {length}", self.bytes.len()));
        if self.below(2) == 0 {
            self.files[which].set_len(length).unwrap();
        } else {
            let path = std::ffi::CString::new(self.path.to_str().unwrap()).unwrap();
            // SAFETY: the text is valid.
            assert_eq!(unsafe { libc::truncate(path.as_ptr(), length as i64) }, 0);
        }
        self.bytes.resize(length as usize, 0);
    }

    fn grow(&mut self, which: usize) {
        let (offset, length) = (self.offset(), self.length() as u64);
        let length = length.min(MOST - offset);
        if length == 0 {
            return;
        }
        self.tell(format!("allocate {which}: {length} at {offset}"));
        if allocate(&self.files[which], 0, offset, length) {
            let end = (offset + length) as usize;
            self.bytes.resize(self.bytes.len().max(end), 0);
        }
    }

    fn punch(&mut self, which: usize, mode: i32) {
        let (offset, length) = (self.offset(), self.length() as u64);
        self.tell(format!("free or zero {which}: {length} at {offset}, mode {mode}"));
        if allocate(&self.files[which], mode, offset, length) {
            let start = (offset as usize).min(self.bytes.len());
            let end = (offset + length).min(self.bytes.len() as u64) as usize;
            self.bytes[start..end.max(start)].fill(0);
        }
    }

    fn copy(&mut self, which: usize) {
        let (from, to, length) = (self.offset(), self.offset(), self.length() as u64);
        let length = length.min((self.bytes.len() as u64).saturating_sub(from)).min(MOST - to);
        if length == 0 || from.abs_diff(to) < length {
            return;
        }
        let other = self.below(self.files.len() as u64) as usize;
        self.tell(format!("copy {which} to {other}: {length} from {from} to {to}"));
        let (mut source, mut sink, mut left) = (from as i64, to as i64, length as usize);
        while left > 0 {
            let (one, two) = (self.files[which].as_raw_fd(), self.files[other].as_raw_fd());
            // SAFETY: descriptors and numbers.
            let count =
                unsafe { libc::copy_file_range(one, &raw mut source, two, &raw mut sink, left, 0) };
            if count <= 0 {
                self.fail(&format!("copy: {count}, {}", std::io::Error::last_os_error()));
            }
            left -= count as usize;
        }
        let bytes = self.bytes[from as usize..(from + length) as usize].to_vec();
        self.put(to, &bytes);
    }

    fn look(&mut self, which: usize) {
        let expected = self.bytes.len() as u64;
        let sizes =
            [self.files[which].metadata().unwrap().len(), fs::metadata(&self.path).unwrap().len()];
        if sizes != [expected; 2] {
            self.fail(&format!("sizes {sizes:?}, not {expected}"));
        }
    }

    fn rename(&mut self) {
        let other = self.path.with_extension("other");
        self.tell("rename there and back".into());
        fs::rename(&self.path, &other).unwrap();
        let found = fs::metadata(&other).unwrap().len();
        if found != self.bytes.len() as u64 {
            self.fail(&format!("size {found} under another name"));
        }
        fs::rename(&other, &self.path).unwrap();
    }

    /// A part of the file that can be mapped.
    fn range(&mut self) -> Option<(u64, usize)> {
        if self.bytes.is_empty() {
            return None;
        }
        let offset = self.below(self.bytes.len() as u64);
        let length = self.length().min(self.bytes.len() - offset as usize);
        Some((offset, length))
    }

    fn map_read(&mut self, which: usize) {
        let Some((offset, length)) = self.range() else { return };
        self.tell(format!("map and read {which}: {length} at {offset}"));
        let found = mapped(&self.files[which], offset, length, |memory| memory.to_vec());
        self.compare(offset, &found, "mapped");
    }

    fn map_write(&mut self, which: usize) {
        let Some((offset, length)) = self.range() else { return };
        self.tell(format!("map and write {which}: {length} at {offset}"));
        let bytes = self.fresh(length);
        mapped(&self.files[which], offset, length, |memory| memory.copy_from_slice(&bytes));
        self.put(offset, &bytes);
    }
}

fn open(path: &Path, new: bool) -> File {
    OpenOptions::new().read(true).write(true).create_new(new).open(path).unwrap()
}

/// `None` if the file system has no direct requests.
fn open_direct(path: &Path) -> Option<File> {
    OpenOptions::new().read(true).write(true).custom_flags(libc::O_DIRECT).open(path).ok()
}

/// Whether the file system can do it.
fn allocate(file: &File, mode: i32, offset: u64, length: u64) -> bool {
    // SAFETY: a descriptor and numbers.
    let done = unsafe { libc::fallocate(file.as_raw_fd(), mode, offset as i64, length as i64) };
    if done == 0 {
        return true;
    }
    let error = std::io::Error::last_os_error();
    assert_eq!(error.raw_os_error(), Some(libc::EOPNOTSUPP), "{error}");
    false
}

fn mapped<R>(file: &File, offset: u64, length: usize, act: impl FnOnce(&mut [u8]) -> R) -> R {
    let before = (offset % 4096) as usize;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let start = (offset - before as u64) as i64;
    // SAFETY: the file is as long as that; nothing else changes it while it is mapped.
    unsafe {
        let memory = libc::mmap(
            null_mut(),
            before + length,
            protection,
            libc::MAP_SHARED,
            file.as_raw_fd(),
            start,
        );
        assert_ne!(memory, libc::MAP_FAILED, "mmap: {}", std::io::Error::last_os_error());
        let bytes = std::slice::from_raw_parts_mut(memory.cast::<u8>().add(before), length);
        let result = act(bytes);
        libc::munmap(memory, before + length);
        result
    }
}
