//! A disk in memory whose power can fail.
//!
//! It separates what is durable from what was written since the last sync. A power cut keeps any
//! of those changes, in part or whole, and forgets the others.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use redb::StorageBackend;

/// The bytes of the database's header that say how many pages there are. They are written
/// together: torn when the file shrinks, they could count more pages than there ever were (low
/// byte new, high byte old), and the database would refuse its file. A disk that writes whole
/// sectors tears no 8 bytes; all other bytes of the header are torn here.
const LENGTH_IN_HEADER: std::ops::Range<usize> = 24..32;

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    SetLen(usize),
}

impl Change {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Self::Write { offset, data } => {
                let end = offset + data.len();
                if image.len() < end {
                    image.resize(end, 0);
                }
                image[*offset..end].copy_from_slice(data);
            }
            Self::SetLen(len) => image.resize(*len, 0),
        }
    }
}

#[derive(Debug, Default)]
struct State {
    durable: Vec<u8>,
    current: Vec<u8>,
    pending: Vec<Change>,
    /// Changes and syncs until the power fails.
    fuse: Option<u64>,
    failed: bool,
    syncs: u64,
    growths: u64,
}

/// Handles to one disk.
#[derive(Clone, Debug)]
pub(crate) struct SimulatedDisk(Arc<Mutex<State>>);

impl SimulatedDisk {
    pub(crate) fn new() -> Self {
        Self::with_content(Vec::new())
    }

    pub(crate) fn with_content(content: Vec<u8>) -> Self {
        let state = State { durable: content.clone(), current: content, ..State::default() };
        Self(Arc::new(Mutex::new(state)))
    }

    /// The power fails at the given change or sync from now.
    pub(crate) fn fail_after(&self, steps: u64) {
        self.state().fuse = Some(steps);
    }

    pub(crate) fn fail_now(&self) {
        self.state().failed = true;
    }

    pub(crate) fn failed(&self) -> bool {
        self.state().failed
    }

    pub(crate) fn syncs(&self) -> u64 {
        self.state().syncs
    }

    pub(crate) fn growths(&self) -> u64 {
        self.state().growths
    }

    pub(crate) fn content(&self) -> Vec<u8> {
        self.state().current.clone()
    }

    /// The disk as it is found when the power is back.
    pub(crate) fn after_power_cut(&self, chance: &mut Chance) -> Self {
        let state = self.state();
        let mut image = state.durable.clone();
        // Sometimes all up to some change and nothing after it, sometimes each on its own.
        let in_order = chance.of(3) == 0;
        let kept = chance.of(state.pending.len() as u64 + 1) as usize;
        let likely = chance.of(101);
        for (at, change) in state.pending.iter().enumerate() {
            let whole = if in_order { at < kept } else { chance.of(100) < likely };
            let torn = if in_order { at == kept } else { chance.of(8) == 0 };
            if torn {
                if let Change::Write { offset, data } = change {
                    tear(*offset, data, &mut image, chance);
                }
            } else if whole {
                change.apply(&mut image);
            }
        }
        Self::with_content(image)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// A change or sync begins: whether there is power for it.
    fn step(&self) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.state();
        if let Some(fuse) = &mut state.fuse {
            if *fuse == 0 {
                state.failed = true;
            } else {
                *fuse -= 1;
            }
        }
        if state.failed { Err(io::Error::other("the power failed")) } else { Ok(state) }
    }
}

/// Writes a part of `data`: its beginning up to any byte, or any of its sectors.
fn tear(offset: usize, data: &[u8], image: &mut Vec<u8>, chance: &mut Chance) {
    if chance.of(2) == 0 {
        let mut len = chance.of(data.len() as u64) as usize;
        if offset == 0 && LENGTH_IN_HEADER.contains(&len) {
            len = LENGTH_IN_HEADER.start;
        }
        Change::Write { offset, data: data[..len].to_vec() }.apply(image);
        return;
    }
    for (at, sector) in (offset..).step_by(512).zip(data.chunks(512)) {
        if chance.of(2) == 0 {
            Change::Write { offset: at, data: sector.to_vec() }.apply(image);
        }
    }
}

impl StorageBackend for SimulatedDisk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.state().current.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let start = offset as usize;
        let bytes = state.current.get(start..start + out.len());
        out.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.step()?;
        state.growths += u64::from(len as usize > state.current.len());
        let change = Change::SetLen(len as usize);
        change.apply(&mut state.current);
        state.pending.push(change);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut state = self.step()?;
        let state = &mut *state;
        for change in state.pending.drain(..) {
            change.apply(&mut state.durable);
        }
        state.syncs += 1;
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.step()?;
        let change = Change::Write { offset: offset as usize, data: data.to_vec() };
        change.apply(&mut state.current);
        state.pending.push(change);
        Ok(())
    }
}

/// Chance that a seed repeats (`SplitMix64`).
#[derive(Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    /// One of `0..n`, which is not empty.
    pub(crate) fn of(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}
