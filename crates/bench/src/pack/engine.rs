//! The engines that copy: Striate, memcpy, a hand-written loop, and MPI peers.

use std::hint::black_box;
use std::time::{Duration, Instant};

use striate_datatype::{Datatype, Packer};

use super::cases::{Family, PackCase};
use super::{Direction, PackBenchError};
use crate::peer::{self, Peer, memory_pattern, stream_pattern};

/// One side of the comparison, ready to copy one case.
pub(super) enum PackEngine<'p> {
    Striate { packer: Packer, buffers: Buffers },
    Memcpy { buffers: Buffers },
    Loop { block: u64, buffers: Buffers },
    Mpi { peer: &'p mut Peer },
}

impl<'p> PackEngine<'p> {
    /// All engines there are for a case.
    pub(super) fn all(case: &PackCase, peers: &'p mut [Peer]) -> Result<Vec<Self>, PackBenchError> {
        let ty = case.notation.build()?;
        let buffers = || Buffers::new(&ty);
        let mut engines = vec![
            Self::Striate { packer: Packer::new(&ty, 1)?, buffers: buffers() },
            Self::Memcpy { buffers: buffers() },
        ];
        if let Family::Vector { block } = case.family {
            engines.push(Self::Loop { block, buffers: buffers() });
        }
        for peer in peers {
            peer.build(&case.notation)?;
            peer.buffers(1)?;
            engines.push(Self::Mpi { peer });
        }
        Ok(engines)
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Striate { .. } => "striate",
            Self::Memcpy { .. } => "memcpy",
            Self::Loop { .. } => "loop",
            Self::Mpi { peer } => peer.name(),
        }
    }

    /// The time of so many copies.
    pub(super) fn time(
        &mut self,
        direction: Direction,
        repetitions: u32,
    ) -> Result<Duration, PackBenchError> {
        if let Self::Mpi { peer } = self {
            return Ok(peer.time(direction, repetitions)?);
        }
        let start = Instant::now();
        for _ in 0..repetitions {
            self.copy(direction);
        }
        Ok(start.elapsed())
    }

    fn copy(&mut self, direction: Direction) {
        match self {
            Self::Mpi { .. } => {}
            Self::Striate { packer, buffers } => {
                let Buffers { origin, .. } = *buffers;
                let (memory, stream) = buffers.sides();
                let done = match direction {
                    Direction::Pack => packer.pack(black_box(memory), origin, stream),
                    Direction::Unpack => packer.unpack(black_box(stream), memory, origin),
                };
                debug_assert_eq!(done, Ok(()));
                black_box((memory, stream));
            }
            Self::Memcpy { buffers } => {
                let (memory, stream) = buffers.sides();
                let memory = &mut memory[..stream.len()];
                match direction {
                    Direction::Pack => stream.copy_from_slice(black_box(memory)),
                    Direction::Unpack => memory.copy_from_slice(black_box(stream)),
                }
                black_box((memory, stream));
            }
            Self::Loop { block, buffers } => {
                let (memory, stream) = buffers.sides();
                match block {
                    8 => hand_written::<8>(direction, memory, stream),
                    64 => hand_written::<64>(direction, memory, stream),
                    512 => hand_written::<512>(direction, memory, stream),
                    _ => hand_written::<4096>(direction, memory, stream),
                }
                black_box((memory, stream));
            }
        }
    }

    /// How often to copy so that a sample takes at least `least`.
    pub(super) fn repetitions(
        &mut self,
        direction: Direction,
        least: Duration,
    ) -> Result<u32, PackBenchError> {
        self.time(direction, 1)?;
        let once = self.time(direction, 2)?.as_nanos() / 2;
        Ok(u32::try_from(least.as_nanos() / once.max(1) + 1).unwrap_or(u32::MAX))
    }

    /// The hash of what a copy wrote; `None` for memcpy, which copies other bytes.
    fn result(&mut self, direction: Direction) -> Result<Option<u64>, PackBenchError> {
        Ok(match (self, direction) {
            (Self::Memcpy { .. }, _) => None,
            (Self::Mpi { peer }, Direction::Pack) => Some(peer.stream_hash()?),
            (Self::Mpi { peer }, Direction::Unpack) => Some(peer.memory_hash()?),
            (Self::Striate { buffers, .. } | Self::Loop { buffers, .. }, direction) => {
                let (memory, stream) = buffers.sides();
                Some(peer::hash(match direction {
                    Direction::Pack => stream,
                    Direction::Unpack => memory,
                }))
            }
        })
    }

    fn fill_stream(&mut self) -> Result<(), PackBenchError> {
        match self {
            Self::Mpi { peer } => peer.fill_stream()?,
            Self::Striate { buffers, .. }
            | Self::Memcpy { buffers }
            | Self::Loop { buffers, .. } => {
                let (_, stream) = buffers.sides();
                stream.iter_mut().enumerate().for_each(|(i, byte)| *byte = stream_pattern(i));
            }
        }
        Ok(())
    }
}

/// Lets every engine copy once, from the same bytes, and compares what they wrote.
pub(super) fn compare(
    case: &PackCase,
    engines: &mut [PackEngine<'_>],
    direction: Direction,
) -> Result<(), PackBenchError> {
    let mut ours = None;
    for engine in engines {
        if direction == Direction::Unpack {
            engine.fill_stream()?;
        }
        engine.time(direction, 1)?;
        match (engine.result(direction)?, ours) {
            (None, _) => {}
            (Some(hash), None) => ours = Some(hash),
            (Some(hash), Some(ours)) if hash == ours => {}
            _ => {
                let (case, size) = (case.name, case.size.name());
                return Err(PackBenchError::Disagreement {
                    case,
                    size,
                    engine: engine.name(),
                    direction,
                });
            }
        }
    }
    Ok(())
}

/// The loop a programmer would write: the block length is a constant, the stride is twice that.
fn hand_written<const N: usize>(direction: Direction, memory: &mut [u8], stream: &mut [u8]) {
    // The last block has no gap behind it.
    let count = stream.len() / N;
    match direction {
        Direction::Pack => {
            for i in 0..count {
                stream[i * N..(i + 1) * N].copy_from_slice(&memory[2 * i * N..(2 * i + 1) * N]);
            }
        }
        Direction::Unpack => {
            for i in 0..count {
                memory[2 * i * N..(2 * i + 1) * N].copy_from_slice(&stream[i * N..(i + 1) * N]);
            }
        }
    }
}

/// Memory and stream for one copy of a type, aligned and filled as the peers do it.
pub(super) struct Buffers {
    memory: Aligned,
    origin: usize,
    stream: Aligned,
}

impl Buffers {
    fn new(ty: &Datatype) -> Self {
        let low = ty.true_lower_bound().min(0);
        let high = ty.true_upper_bound().max(0);
        Self {
            memory: Aligned::new((high - low) as usize, memory_pattern),
            origin: -low as usize,
            stream: Aligned::new(ty.size() as usize, |_| 0),
        }
    }

    fn sides(&mut self) -> (&mut [u8], &mut [u8]) {
        (self.memory.bytes(), self.stream.bytes())
    }
}

/// Bytes in huge pages, where the system has them, as the peers have them: with small pages a copy
/// depends more on which ones it was given than on its engine.
struct Aligned {
    storage: Vec<u8>,
    start: usize,
    len: usize,
}

impl Aligned {
    const HUGE_PAGE: usize = 2 << 20;

    fn new(len: usize, fill: impl Fn(usize) -> u8) -> Self {
        let rounded = len.next_multiple_of(Self::HUGE_PAGE);
        let mut storage = vec![0; rounded + Self::HUGE_PAGE];
        let start = storage.as_ptr().align_offset(Self::HUGE_PAGE).min(Self::HUGE_PAGE);
        let pages = storage[start..start + rounded].as_mut_ptr().cast();
        // SAFETY: the pages are ours, and this advice does not change what is in them. Whether it
        // is followed does not matter.
        let _ = unsafe { rustix::mm::madvise(pages, rounded, rustix::mm::Advice::LinuxHugepage) };
        // Every page is written, so that none is the shared page of zeros.
        storage[start..start + len].iter_mut().enumerate().for_each(|(i, byte)| *byte = fill(i));
        Self { storage, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..self.start + self.len]
    }
}
