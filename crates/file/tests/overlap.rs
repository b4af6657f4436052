//! Views of files that are only read may show bytes more than once: every method against a model
//! that looks up byte after byte.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use striate_comm::{Comm, Threads};
use striate_datatype::Datatype;
use striate_file::{ErrorKind, File, FileError, Hints, MemoryMut, Mode, Typed, View};
use support::{Random, Watchdog};

const METHODS: [&str; 6] = ["auto", "posix", "sieve", "two-phase", "list", "datatype"];
const RANKS: usize = 3;
/// What memory holds that nothing was read into.
const UNTOUCHED: u8 = 255;

/// A filetype, and where each of its bytes lies.
#[derive(Clone, Debug)]
struct OverlappingView {
    filetype: Datatype,
    offsets: Vec<i64>,
    extent: i64,
}

impl OverlappingView {
    /// Blocks of so many bytes, at these offsets.
    fn blocks(blocks: &[(u64, i64)]) -> Self {
        let filetype = Datatype::hindexed(blocks, &Datatype::bytes(1).unwrap()).unwrap();
        let offsets = blocks.iter().flat_map(|&(len, at)| at..at + len as i64).collect();
        Self { extent: filetype.extent(), filetype, offsets }
    }

    fn repeated(&self, count: u64, stride: i64) -> Self {
        let filetype = Datatype::hvector(count, 1, stride, &self.filetype).unwrap();
        let copy = |n: i64| self.offsets.iter().map(move |offset| offset + n * stride);
        let offsets = (0..count as i64).flat_map(copy).collect();
        Self { extent: filetype.extent(), filetype, offsets }
    }

    fn resized(&self, extent: i64) -> Self {
        let filetype = Datatype::resized(&self.filetype, 0, extent).unwrap();
        Self { filetype, extent, ..self.clone() }
    }

    fn random(random: &mut Random) -> Self {
        let mut at = random.below(4) as i64;
        let mut blocks = Vec::new();
        for _ in 0..random.from(1, 6) {
            blocks.push((2 * random.from(1, 6), at));
            at += random.below(15) as i64;
        }
        let mut shown = Self::blocks(&blocks);
        if random.percent(30) {
            let stride = random.below(20) as i64;
            shown = shown.repeated(random.from(2, 4), stride);
        }
        if random.percent(50) {
            let extent = random.below(2 * shown.extent.unsigned_abs() + 2) as i64;
            shown = shown.resized(extent);
        }
        shown
    }

    /// Whether no run begins before the one before it.
    fn is_in_order(&self) -> bool {
        let offsets = &self.offsets;
        let begins = |i: &usize| *i == 0 || offsets[i - 1] + 1 != offsets[*i];
        let starts: Vec<i64> = (0..offsets.len()).filter(begins).map(|i| offsets[i]).collect();
        starts.is_sorted()
    }

    /// What a read of `len` bytes from byte `position` of the stream on leaves in memory, and how
    /// much it reads.
    fn read(&self, file: &[u8], displacement: u64, position: u64, len: u64) -> (Vec<u8>, u64) {
        let mut memory = vec![UNTOUCHED; len as usize];
        for n in 0..len {
            let Some(byte) = file.get(self.offset(displacement, position + n)) else {
                return (memory, n);
            };
            memory[n as usize] = *byte;
        }
        (memory, len)
    }

    fn offset(&self, displacement: u64, position: u64) -> usize {
        let size = self.offsets.len() as u64;
        let copy = (position / size) as i64 * self.extent;
        (displacement as i64 + copy + self.offsets[(position % size) as usize]) as usize
    }
}

fn run(body: impl Fn(&Arc<dyn Comm>) -> Result<(), FileError> + Sync) {
    let _watchdog = Watchdog::new(Duration::from_secs(180), "a test of overlapping views");
    Threads::new(RANKS).try_run(|comm| body(&comm)).unwrap();
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 % 251) as u8).collect()
}

/// What one rank does.
#[derive(Clone, Debug)]
struct OverlappingAccess {
    shown: OverlappingView,
    displacement: u64,
    offset: u64,
    len: u64,
}

const ETYPE: u64 = 2;

fn read_in_all_ways(
    comm: &Arc<dyn Comm>,
    path: &Path,
    hints: &Hints,
    part: &OverlappingAccess,
) -> Result<(), FileError> {
    let file = std::fs::read(path).unwrap();
    let OverlappingAccess { shown, displacement, offset, len } = part;
    let (expected, read) = shown.read(&file, *displacement, offset * ETYPE, *len);
    let mut open = File::open(comm, path, Mode::READ, hints)?;
    let etype = Datatype::bytes(ETYPE).unwrap();
    open.set_view(View::for_reading(*displacement, &etype, &shown.filetype)?)?;
    let fresh = || vec![UNTOUCHED; *len as usize];

    let mut memory = fresh();
    assert_eq!(open.read_at(*offset, &mut memory)?, read, "{part:?} {hints}");
    assert_eq!(memory, expected, "{part:?} {hints}");

    let mut memory = fresh();
    assert_eq!(open.read_at_all(*offset, &mut memory)?, read, "{part:?} {hints}");
    assert_eq!(memory, expected, "{part:?} {hints}");

    let request = open.iread_at(*offset, fresh())?;
    let (memory, done) = open.wait(request);
    assert_eq!((memory, done?), (expected.clone(), read), "{part:?} {hints}");

    let request = open.iread_at_all(*offset, fresh());
    let (memory, done) = open.wait(request);
    assert_eq!((memory, done?), (expected.clone(), read), "{part:?} {hints}");

    // Memory with gaps.
    let apart = Datatype::resized(&Datatype::bytes(1).unwrap(), 0, 2).unwrap();
    let mut memory = vec![UNTOUCHED; 2 * *len as usize];
    let to = MemoryMut::new(&mut memory, 0, *len, &apart).unwrap();
    assert_eq!(open.read_at_all(*offset, to)?, read);
    let spread: Vec<u8> = expected.iter().flat_map(|&byte| [byte, UNTOUCHED]).collect();
    assert_eq!(memory, spread, "{part:?} {hints}");
    let typed = Typed::new(vec![UNTOUCHED; 2 * *len as usize], 0, *len, &apart).unwrap();
    let request = open.iread_at(*offset, typed)?;
    let (typed, done) = open.wait(request);
    assert_eq!((typed.into_inner(), done?), (spread, read), "{part:?} {hints}");

    open.seek(*offset);
    let mut memory = fresh();
    open.read(&mut memory)?;
    assert_eq!((memory, open.position()), (expected, offset + read / ETYPE));
    for position in 0..40 {
        assert_eq!(
            open.view().byte_offset(position)?,
            shown.offset(*displacement, position) as u64
        );
    }
    if shown.extent > 0 {
        // Every copy, of 6 blocks of 12 bytes 4 times at most, lies at least one byte behind the
        // one before.
        let mut positions = 0..288 * (file.len() as u64 + 1);
        let beyond = |n: &u64| shown.offset(*displacement, *n) >= file.len();
        let before = positions.find(beyond).unwrap();
        open.seek_end(0)?;
        assert_eq!(open.position(), before.div_ceil(ETYPE), "{part:?}");
    }
    open.close()
}

#[test]
fn every_method_reads_what_a_view_shows_twice() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    let mut random = Random::new(7);
    let mut tried = 0;
    while tried < 60 {
        std::fs::write(&path, content(random.from(60, 400) as usize)).unwrap();
        let part = |random: &mut Random| OverlappingAccess {
            shown: OverlappingView::random(random),
            displacement: random.below(9),
            offset: random.below(12),
            len: ETYPE * random.from(0, 90),
        };
        let parts: Vec<OverlappingAccess> = (0..RANKS).map(|_| part(&mut random)).collect();
        if !parts.iter().all(|part| part.shown.is_in_order()) {
            let out_of_order = parts.iter().find(|part| !part.shown.is_in_order()).unwrap();
            let byte = Datatype::bytes(1).unwrap();
            assert!(View::for_reading(0, &byte, &out_of_order.shown.filetype).is_err());
            continue;
        }
        tried += 1;
        for method in METHODS {
            let buffers = "cb_buffer_size=64;ind_rd_buffer_size=32;striate_list_regions=3";
            let hints: Hints = format!("striate_method={method};{buffers}").parse().unwrap();
            run(|comm| read_in_all_ways(comm, &path, &hints, &parts[comm.rank()]));
        }
    }
}

#[test]
fn a_file_that_may_be_written_has_no_such_view() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("file");
    std::fs::write(&path, content(100)).unwrap();
    let word = Datatype::bytes(4).unwrap();
    let overlapping = OverlappingView::blocks(&[(12, 0), (4, 4)]).filetype;
    assert!(View::new(0, &word, &overlapping).is_err());
    let descending = OverlappingView::blocks(&[(4, 12), (4, 0)]).filetype;
    assert!(View::for_reading(0, &word, &descending).is_err());
    let below = OverlappingView::blocks(&[(4, -4), (4, 0)]).filetype;
    assert!(View::for_reading(0, &word, &below).is_err());
    run(|comm| {
        let mut file = File::open(comm, &path, Mode::READ | Mode::WRITE, &Hints::default())?;
        // Only one rank wants it; all learn that it cannot be.
        let filetype = if comm.rank() == 1 { &overlapping } else { &word };
        let refused = file.set_view(View::for_reading(0, &word, filetype)?).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::View, "{refused}");
        assert_eq!(file.view(), &View::bytes());
        file.close()
    });
}

#[test]
fn a_view_that_shows_bytes_once_is_the_same_either_way() {
    let word = Datatype::bytes(4).unwrap();
    let filetype = OverlappingView::blocks(&[(4, 0), (4, 8)]).filetype;
    let view = View::for_reading(3, &word, &filetype).unwrap();
    assert_eq!(view, View::new(3, &word, &filetype).unwrap());
    assert!(!view.overlaps());
}
