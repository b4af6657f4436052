//! Damaged netCDF-4 files: what is said names the structure and its address, and nothing crashes.

use std::ffi::OsStr;
use std::fs;

use serde_json::Value;
use striate_testing::splitmix::SplitMix64;

use crate::tools::{striate, told};
use crate::{generate, oracle_texts};

#[test]
fn valid_files_are_valid() {
    let directory = tempfile::tempdir().unwrap();
    for (number, text) in oracle_texts::TEXTS.iter().enumerate() {
        let path = generate(directory.path(), &format!("{number}.nc"), "nc4", text).unwrap();
        let output = striate([OsStr::new("validate"), path.as_os_str()]);
        assert!(output.status.success(), "{number}: {}", told(&output));
        assert!(told(&output).contains(": valid netCDF-4\n"), "{}", told(&output));
    }
}

#[test]
fn damage_is_found_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = generate(directory.path(), "storage.nc", "nc4", oracle_texts::TEXTS[4]).unwrap();
    let sound = fs::read(&path).unwrap();
    let validate = || striate([OsStr::new("validate"), OsStr::new("--json"), path.as_os_str()]);
    let violations = |stdout: &[u8]| {
        let document: Value = serde_json::from_slice(stdout).unwrap();
        document["rows"][0]["violations"].as_array().unwrap().clone()
    };
    // A chunk with a checksum: 9 integers, the first of which are 1 to 7.
    let values: Vec<u8> = (1_i32..=7).flat_map(i32::to_le_bytes).collect();
    let at = sound.windows(values.len()).position(|bytes| bytes == values).unwrap();
    let mut changed = sound.clone();
    changed[at + 4] ^= 1;
    fs::write(&path, &changed).unwrap();
    let output = validate();
    assert_eq!(output.status.code(), Some(1));
    let found = violations(&output.stdout);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["at"], at);
    assert!(found[0]["what"].as_str().unwrap().starts_with("/summed: chunk at 0x"), "{found:?}");
    // The other variables are printed, up to the one that cannot be read.
    let dumped = striate([OsStr::new("dump"), path.as_os_str()]);
    assert_eq!(dumped.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&dumped.stderr).contains("chunk at 0x"), "{}", told(&dumped));
    assert!(String::from_utf8_lossy(&dumped.stdout).contains(" chunked ="), "{}", told(&dumped));
    // A file that is cut off.
    fs::write(&path, &sound[..sound.len() / 2]).unwrap();
    let output = validate();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(violations(&output.stdout).len(), 1);
    let dumped = striate([OsStr::new("header"), path.as_os_str()]);
    assert_eq!(dumped.status.code(), Some(1));
    assert!(told(&dumped).contains("its superblock says that it ends at"), "{}", told(&dumped));
}

/// Any bytes changed: an answer or an error, never a crash.
#[test]
fn changed_bytes_crash_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let mut random = SplitMix64::new(5);
    for (number, text) in oracle_texts::TEXTS[2..5].iter().enumerate() {
        let path = generate(directory.path(), &format!("{number}.nc"), "nc4", text).unwrap();
        let sound = fs::read(&path).unwrap();
        for _ in 0..12 {
            let mut changed = sound.clone();
            for _ in 0..8 {
                let at = random.below(changed.len() as u64) as usize;
                changed[at] = random.below(256) as u8;
            }
            fs::write(&path, &changed).unwrap();
            for command in ["dump", "validate"] {
                let output = striate([OsStr::new(command), path.as_os_str()]);
                let status = output.status.code();
                assert!(matches!(status, Some(0 | 1)), "{command}: {status:?} {}", told(&output));
            }
        }
    }
}
