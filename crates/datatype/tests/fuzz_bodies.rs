//! The fuzz targets without a fuzzer: the same assertions on a fixed sequence of inputs.
//!
//! Inputs are noise and, more telling, the committed seeds and mutants of them. Inputs that once
//! failed are kept among the seeds. Coverage-guided runs of the same bodies are described in
//! CONTRIBUTING.md.

#[path = "../../../fuzz/bodies/datatype.rs"]
mod bodies;

use std::fs;
use std::path::PathBuf;

use striate_datatype::Datatype;
use striate_fuzzing::{
    Mutations, Random, Seeds, assert_committed, drive, drive_from, run, seeds, write_seeds,
};

const NOISE: usize = 50_000;
const MUTANTS: usize = 50_000;
const DESCRIPTIONS: usize = 30_000;

/// First byte of an encoding; noise without it does not get far.
const VERSION: u8 = 0xD1;

#[test]
fn no_bytes_upset_decoding() {
    let mut random = Random::new(0x5EED_0001);
    for _ in 0..NOISE {
        let len = random.below(200);
        let mut bytes: Vec<u8> = (0..len).map(|_| random.byte()).collect();
        if let Some(first) = bytes.first_mut()
            && random.below(8) > 0
        {
            *first = VERSION;
        }
        run(&bytes, bodies::decode);
    }
}

#[test]
fn no_text_upsets_the_notation() {
    let words = words();
    let mut random = Random::new(0x5EED_0002);
    for _ in 0..NOISE {
        let mut text = Vec::new();
        for _ in 0..random.below(24) {
            text.extend_from_slice(random.of(&words).as_slice());
        }
        run(&text, bodies::notation);
    }
}

/// Sound descriptions, some of them of impossible types.
#[test]
fn no_description_upsets_the_notation() {
    let mut describer = Describer(Random::new(0x5EED_0005));
    for _ in 0..DESCRIPTIONS {
        let depth = describer.below(6);
        run(describer.notation(depth).as_bytes(), bodies::notation);
    }
}

#[test]
fn no_changed_encoding_upsets_decoding() {
    let mut seeds: Vec<Vec<u8>> = seeds("decode").into_values().collect();
    seeds.extend(encoded_notations().into_values());
    let numbers = [0, 1, 63, 127, 1 << 31, (1 << 62) - 1, 1 << 62, 1 << 63, u64::MAX - 1, u64::MAX];
    let numbers: Vec<Vec<u8>> = numbers.into_iter().map(leb128).collect();
    let mutations = Mutations { words: &numbers, ..Mutations::default() };
    drive_from(&seeds, 0x5EED_0003, MUTANTS, &mutations, bodies::decode);
}

#[test]
fn no_changed_text_upsets_the_notation() {
    let words = words();
    let mutations = Mutations { bytes: &[], words: &words, word_align: 1 };
    drive("notation", 0x5EED_0004, MUTANTS, &mutations, bodies::notation);
}

/// The encodings among the seeds are also a witness that the binary form does not change.
#[test]
fn the_encodings_of_the_seeds_are_as_committed() {
    assert_committed("decode", &encoded_notations());
}

/// After seeds were added: `cargo test -p striate-datatype --test fuzz_bodies -- --ignored`.
#[test]
#[ignore = "writes files: encodes the seeds of the notation as seeds for decoding"]
fn encode_the_seeds() {
    write_seeds("decode", &encoded_notations());
}

fn encoded_notations() -> Seeds {
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

/// Makes descriptions of the notation.
struct Describer(Random);

impl Describer {
    fn below(&mut self, limit: usize) -> usize {
        self.0.below(limit)
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
}
