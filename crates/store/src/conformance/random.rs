//! Random requests of all forms, against a vector.

use striate_datatype::Datatype;

use super::Opener;
use crate::placement::Regions;
use crate::store::{MemoryPlacement, Placement, Region, TypedRequest};

/// A small generator (splitmix64) with a sequence that never changes.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n.max(1) as u64) as usize
    }

    /// So many bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.draw() as u8).collect()
    }

    /// A length: mostly small, sometimes large, sometimes whole blocks.
    fn length(&mut self, most: usize) -> usize {
        match self.below(4) {
            0 => self.below(16),
            1 => 4096 * self.below(4),
            2 => self.below(most),
            _ => self.below(600),
        }
    }
}

/// What the object should hold.
struct Model(Vec<u8>);

impl Model {
    fn write(&mut self, offset: usize, bytes: &[u8]) {
        if !bytes.is_empty() {
            let end = offset + bytes.len();
            self.0.resize(self.0.len().max(end), 0);
            self.0[offset..end].copy_from_slice(bytes);
        }
    }

    fn read(&self, offset: usize, buffer: &mut [u8]) -> usize {
        let part = self.0.get(offset..).unwrap_or(&[]);
        let got = part.len().min(buffer.len());
        buffer[..got].copy_from_slice(&part[..got]);
        got
    }
}

/// Ascending regions with gaps or without, at random places of memory that do not overlap.
fn list(random: &mut Random) -> (Vec<Region>, usize) {
    let mut regions = Vec::new();
    let (mut offset, mut memory) = (random.below(100_000) as u64, random.below(10));
    let touching = random.below(2) == 0;
    // Direct I/O has a path of its own for what is aligned.
    let blocks = random.below(4) == 0;
    if blocks {
        offset = offset / 4096 * 4096;
    }
    for _ in 0..random.below(300) {
        let len = if blocks { 4096 * (1 + random.below(2)) } else { random.below(700) };
        regions.push(Region { memory, offset, len });
        offset += len as u64;
        memory += len + random.below(3);
        if !touching || random.below(4) == 0 {
            offset += if blocks { 4096 } else { random.below(2000) as u64 };
        }
    }
    if random.below(2) == 0 {
        // Another order in memory: each region goes to the place of the one that mirrors it.
        let end = memory;
        for region in &mut regions {
            region.memory = end - region.memory - region.len;
        }
    }
    (regions, memory)
}

fn datatype(random: &mut Random) -> Datatype {
    let leaf = Datatype::bytes(1 + random.below(40) as u64).expect("type");
    let (count, block) = (1 + random.below(30) as u64, 1 + random.below(3) as u64);
    let ty = match random.below(3) {
        0 => leaf,
        1 => {
            let stride = block as i64 + random.below(4) as i64;
            Datatype::vector(count, block, stride, &leaf).expect("type")
        }
        _ => {
            let mut at = 0;
            let blocks: Vec<_> = (0..count)
                .map(|_| {
                    let entry = (block, at);
                    at += block as i64 + random.below(3) as i64;
                    entry
                })
                .collect();
            Datatype::indexed(&blocks, &leaf).expect("type")
        }
    };
    let extent = ty.true_upper_bound() + random.below(50) as i64;
    Datatype::resized(&ty, 0, extent).expect("type")
}

/// A typed request, and the bytes of memory it needs.
fn typed(random: &mut Random) -> (TypedRequest, usize) {
    let len = random.length(20_000) as u64;
    let file = datatype(random);
    let file = Placement {
        displacement: random.below(50_000) as u64,
        start: random.below(2 * file.size() as usize) as u64,
        datatype: file,
        len,
    };
    let memory = datatype(random);
    let start = random.below(2 * memory.size() as usize) as u64;
    let count = (start + len).div_ceil(memory.size()) + random.below(2) as u64;
    let origin = random.below(20);
    let needs = origin + count as usize * memory.extent() as usize;
    let memory = MemoryPlacement { origin, datatype: memory, count, start };
    (TypedRequest { file, memory }, needs)
}

fn walk(request: &TypedRequest, memory: usize) -> Regions<'_> {
    request.regions(memory).expect("a sound request")
}

/// Steps of random requests, through two handles of one object.
pub(super) fn requests(open: &Opener, seed: u64) {
    let mut random = Random::new(seed);
    let handles = [open(), open()];
    let mut model = Model(Vec::new());
    for step in 0..120 {
        let store = &handles[random.below(2)];
        let about = format!("seed {seed}, step {step}");
        match random.below(8) {
            0 | 1 => {
                let (offset, len) = (random.below(200_000), random.length(100_000));
                let offset = if random.below(3) == 0 { offset / 4096 * 4096 } else { offset };
                let bytes = random.bytes(len);
                store.write_at(offset as u64, &bytes).expect(&about);
                model.write(offset, &bytes);
            }
            2 => {
                let (offset, len) = (random.below(250_000), random.length(100_000));
                let (mut got, mut expected) = (vec![7; len], vec![7; len]);
                let n = store.read_at(offset as u64, &mut got).expect(&about);
                assert_eq!(n, model.read(offset, &mut expected), "{about}");
                assert!(got == expected, "{about}: {len} bytes at {offset} differ");
            }
            3 => {
                let (regions, needs) = list(&mut random);
                let memory = random.bytes(needs);
                store.write_list(&regions, &memory).expect(&about);
                for region in &regions {
                    let bytes = &memory[region.memory..region.memory + region.len];
                    model.write(region.offset as usize, bytes);
                }
            }
            4 => {
                let (regions, needs) = list(&mut random);
                let (mut got, mut expected) = (vec![7; needs], vec![7; needs]);
                let n = store.read_list(&regions, &mut got).expect(&about);
                let mut sum = 0;
                for region in &regions {
                    let part = &mut expected[region.memory..region.memory + region.len];
                    sum += model.read(region.offset as usize, part) as u64;
                }
                assert_eq!(n, sum, "{about}");
                assert!(got == expected, "{about}: lists differ");
            }
            5 => {
                let (request, needs) = typed(&mut random);
                let memory = random.bytes(needs);
                store.write_typed(&request, &memory).expect(&about);
                for region in walk(&request, needs) {
                    let bytes = &memory[region.memory..region.memory + region.len];
                    model.write(region.offset as usize, bytes);
                }
            }
            6 => {
                let (request, needs) = typed(&mut random);
                let (mut got, mut expected) = (vec![7; needs], vec![7; needs]);
                let n = store.read_typed(&request, &mut got).expect(&about);
                let mut sum = 0;
                for region in walk(&request, needs) {
                    let part = &mut expected[region.memory..region.memory + region.len];
                    sum += model.read(region.offset as usize, part) as u64;
                }
                assert_eq!(n, sum, "{about}");
                assert!(got == expected, "{about}: typed reads differ");
            }
            _ => {
                if random.below(4) == 0 {
                    let len = random.below(300_000);
                    store.set_len(len as u64).expect(&about);
                    model.0.resize(len, 0);
                }
                assert_eq!(store.len().expect(&about), model.0.len() as u64, "{about}");
            }
        }
    }
    let mut all = vec![7; model.0.len() + 1];
    let got = handles[0].read_at(0, &mut all).expect("read of all");
    assert_eq!(got, model.0.len());
    assert!(all[..got] == model.0[..], "seed {seed}: the object differs at the end");
}
