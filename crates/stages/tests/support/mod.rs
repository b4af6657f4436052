//! Parts of the tests of stages: a door, plain system calls to compare with, random steps that both
//! carry out, and a stage that counts what reaches it.

#![allow(dead_code, unreachable_pub, missing_docs, clippy::unwrap_used)]

pub mod counting;
pub mod door;
pub mod plain;
pub mod steps;

use std::path::Path;

use striate_stack::{Paths, Placed, Stack};
use striate_stages as stages;

/// A stage of a configuration, for all files.
pub fn stage(name: &str, options: &str) -> Placed {
    let stage_type = stages::stage_type(name).unwrap();
    let stage = (stage_type.build)(toml::from_str(options).unwrap()).unwrap();
    Placed { name: stage_type.name, paths: Paths::all(), stage }
}

/// A stack for the files below a directory.
pub fn stack(root: &Path, stages: Vec<Placed>) -> Stack {
    let include = [root.to_str().unwrap().to_owned()];
    Stack::new(Paths::new(Some(&include), &[]).unwrap(), stages)
}

/// Bytes that differ from each other, and from call to call.
pub fn bytes(seed: u64, length: usize) -> Vec<u8> {
    (0..length as u64)
        .map(|n| (seed.wrapping_mul(37).wrapping_add(n * 7) % 251) as u8 + 1)
        .collect()
}
