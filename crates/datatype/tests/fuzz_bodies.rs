//! The fuzz targets without a fuzzer: the same assertions on a fixed sequence of inputs.
//!
//! Inputs are noise and, more telling, the committed seeds with a few things changed. Inputs that
//! once failed are kept among the seeds. Coverage-guided runs of the same bodies are described in
//! CONTRIBUTING.md.

#[path = "../../../fuzz/bodies.rs"]
mod bodies;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use striate_datatype::Datatype;

const NOISE: usize = 50_000;
const MUTANTS: usize = 50_000;
const DESCRIPTIONS: usize = 30_000;

/// First byte of an encoding; noise without it does not get far.
const VERSION: u8 = 0xD1;

#[test]
fn no_bytes_upset_decoding() {
    let mut random = Random(0x5EED_0001);
    for _ in 0..NOISE {
        let len = random.below(200);
        let mut bytes: Vec<u8> = (0..len).map(|_| random.byte()).collect();
        if let Some(first) = bytes.first_mut()
            && random.below(8) > 0
        {
            *first = VERSION;
        }
        run(bodies::decode, &bytes);
    }
}

#[test]
fn no_text_upsets_the_notation() {
    let words = words();
    let mut random = Random(0x5EED_0002);
    for _ in 0..NOISE {
        let mut text = Vec::new();
        for _ in 0..random.below(24) {
            text.extend_from_slice(random.of(&words));
        }
        run(bodies::notation, &text);
    }
}

/// Sound descriptions, some of them of impossible types.
#[test]
fn no_description_upsets_the_notation() {
    let mut random = Random(0x5EED_0005);
    for _ in 0..DESCRIPTIONS {
        let depth = random.below(6);
        run(bodies::notation, random.notation(depth).as_bytes());
    }
}

#[test]
fn no_changed_encoding_upsets_decoding() {
    let mut seeds: Vec<Vec<u8>> = seeds("decode").into_values().collect();
    seeds.extend(encoded_notations().into_values());
    for seed in &seeds {
        run(bodies::decode, seed);
    }
    let numbers = [0, 1, 63, 127, 1 << 31, (1 << 62) - 1, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX];
    let numbers: Vec<Vec<u8>> = numbers.into_iter().map(leb128).collect();
    let mut random = Random(0x5EED_0003);
    for _ in 0..MUTANTS {
        run(bodies::decode, &random.mutant(&seeds, &numbers));
    }
}

#[test]
fn no_changed_text_upsets_the_notation() {
    let seeds: Vec<Vec<u8>> = seeds("notation").into_values().collect();
    for seed in &seeds {
        run(bodies::notation, seed);
    }
    let words = words();
    let mut random = Random(0x5EED_0004);
    for _ in 0..MUTANTS {
        run(bodies::notation, &random.mutant(&seeds, &words));
    }
}

/// The encodings among the seeds are also a witness that the binary form does not change.
#[test]
fn the_encodings_of_the_seeds_are_as_committed() {
    let committed = seeds("decode");
    for (name, encoding) in encoded_notations() {
        assert_eq!(committed.get(&name), Some(&encoding), "{name}");
    }
}

/// After seeds were added: `cargo test -p striate-datatype --test fuzz_bodies -- --ignored`.
#[test]
#[ignore = "writes files: encodes the seeds of the notation as seeds for decoding"]
fn encode_the_seeds() {
    for (name, encoding) in encoded_notations() {
        fs::write(directory("decode").join(name), encoding).unwrap();
    }
}

/// Runs a body; a failure shows the input.
fn run(body: fn(&[u8]), bytes: &[u8]) {
    struct Shown<'a>(&'a [u8]);
    impl Drop for Shown<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("input: b\"{}\"", self.0.escape_ascii());
            }
        }
    }
    let shown = Shown(bytes);
    body(shown.0);
}

fn directory(target: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target)
}

/// The committed inputs of a target, in an order that does not depend on the file system.
fn seeds(target: &str) -> BTreeMap<String, Vec<u8>> {
    let seeds: BTreeMap<_, _> = fs::read_dir(directory(target))
        .expect("the seeds are committed")
        .map(|entry| {
            let path = entry.expect("the directory can be listed").path();
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            (name.unwrap_or_default(), fs::read(path).expect("a seed can be read"))
        })
        .collect();
    assert!(!seeds.is_empty(), "no seeds for {target}");
    seeds
}

fn encoded_notations() -> BTreeMap<String, Vec<u8>> {
    seeds("notation")
        .into_iter()
        .filter_map(|(name, text)| {
            let ty: Datatype = String::from_utf8(text).ok()?.parse().ok()?;
            Some((name, ty.encode()))
        })
        .collect()
}

/// The words of the fuzzer's dictionary.
fn words() -> Vec<Vec<u8>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/notation.dict");
    fs::read_to_string(path)
        .expect("the dictionary is committed")
        .lines()
        .filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'))
        .map(|word| word.as_bytes().to_vec())
        .collect()
}

fn leb128(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
    bytes
}

/// Marsaglia's xorshift: the same sequence everywhere and always.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() >> 16) as usize % limit.max(1)
    }

    fn byte(&mut self) -> u8 {
        (self.next() >> 24) as u8
    }

    fn of<'a>(&mut self, items: &'a [Vec<u8>]) -> &'a [u8] {
        &items[self.below(items.len())]
    }

    /// A place in `bytes`, the end included.
    fn place(&mut self, bytes: &[u8]) -> usize {
        self.below(bytes.len() + 1)
    }

    /// A number as written: mostly small, sometimes where arithmetic ends.
    fn number(&mut self) -> String {
        let far = [i64::MAX, i64::MAX / 2, i64::MAX / 3, 1 << 62, 1 << 32, 1 << 31, 1 << 20];
        match self.below(20) {
            0 => far[self.below(far.len())].to_string(),
            1 => (-far[self.below(far.len())]).to_string(),
            2 | 3 => format!("-{}", self.below(40)),
            4..12 => self.below(4).to_string(),
            _ => self.below(100).to_string(),
        }
    }

    fn count(&mut self) -> String {
        self.number().replace('-', "")
    }

    /// `[a, b, c]` of `len` items.
    fn list(&mut self, len: usize, item: impl Fn(&mut Self) -> String) -> String {
        let items: Vec<String> = (0..len).map(|_| item(self)).collect();
        format!("[{}]", items.join(", "))
    }

    /// A description nested up to `depth` deep.
    fn notation(&mut self, depth: usize) -> String {
        if depth == 0 {
            return ["byte", "i16", "i32", "f64", "bytes(3)", "bytes(1KiB)"][self.below(6)].into();
        }
        let below = self.below(8).min(depth - 1).max(depth.saturating_sub(2));
        let (of, number, count) = (self.notation(below), self.number(), self.count());
        let (len, dimensions) = (self.below(6), 1 + self.below(3));
        let h = ["", "h"][self.below(2)];
        let order = ["", ", order=fortran"][self.below(2)];
        match self.below(8) {
            0 => format!("contiguous({count} of {of})"),
            1 => format!("{h}vector({count}, {} of {of}, stride={number})", self.count()),
            2 => {
                let blocks = self.list(len, |r| format!("{} at {}", r.count(), r.number()));
                format!("{h}indexed({blocks} of {of})")
            }
            3 => format!("{h}indexed_block({count} of {of}, at {})", self.list(len, Self::number)),
            4 => {
                let other = self.notation(below);
                format!("struct({count} of {of} at {number}, 1 of {other} at {})", self.number())
            }
            5 => {
                let sizes = self.list(dimensions, |r| (8 + r.below(9)).to_string());
                let [subsizes, starts] =
                    [(); 2].map(|()| self.list(dimensions, |r| r.below(5).to_string()));
                format!("subarray({sizes} of {of}, {subsizes} at {starts}{order})")
            }
            6 => {
                let sizes = self.list(dimensions, Self::count);
                let distributions = self.list(dimensions, |r| {
                    let length = r.count();
                    [format!("cyclic({length})"), format!("block({length})"), "block".into()]
                        [r.below(3)]
                    .clone()
                });
                let grid = self.list(dimensions, |r| (1 + r.below(3)).to_string());
                let rank = self.below(4);
                format!(
                    "darray({sizes} of {of}, dist={distributions}, grid={grid}, rank={rank}{order})"
                )
            }
            _ => format!("resized({of}, lb={number}, extent={})", self.number()),
        }
    }

    /// One of the seeds with up to four changes; `words` are worth inserting.
    fn mutant(&mut self, seeds: &[Vec<u8>], words: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = self.of(seeds).to_vec();
        for _ in 0..=self.below(4) {
            let at = self.place(&bytes);
            match self.below(7) {
                0 if at < bytes.len() => bytes[at] ^= 1 << self.below(8),
                1 => bytes.truncate(at),
                2 => bytes.insert(at, self.byte()),
                3 => {
                    bytes.splice(at..at, self.of(words).iter().copied());
                }
                4 => {
                    let end = (at + 1 + self.below(3)).min(bytes.len());
                    bytes.splice(at..end, self.of(words).iter().copied());
                }
                5 => {
                    let end = (at + self.below(12)).min(bytes.len());
                    bytes.drain(at..end);
                }
                _ => {
                    let other = self.of(seeds);
                    let from = self.place(other);
                    bytes.truncate(at);
                    bytes.extend_from_slice(&other[from..]);
                }
            }
        }
        bytes
    }
}
