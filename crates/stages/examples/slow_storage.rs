//! What write-back and read-ahead gain where each request costs 200 µs, or as many as are said.
//!
//! `cargo run --release -p striate-stages --example slow_storage [DIRECTORY [MICROSECONDS]]`

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{
    Action, Classification, Function, Kind, Kinds, Memory, Next, Op, OpenFile, Outcome, Paths,
    Placed, Stack, Stage, Target,
};
use striate_stages as stages;

/// Each read and write takes so much longer.
#[derive(Debug)]
struct Slow(Duration);

impl Stage for Slow {
    fn kinds(&self) -> Kinds {
        Kinds::of(&[Kind::Read, Kind::Write])
    }

    fn classification(&self) -> Classification {
        Classification {
            scope: Scope::Data,
            interference: Interference::OneOperation,
            state: State::Stateless,
            meaning: Meaning::Kept,
        }
    }

    fn call(&self, op: &mut Op<'_>, next: Next<'_>) -> Outcome {
        let start = Instant::now();
        while start.elapsed() < self.0 {
            std::hint::spin_loop();
        }
        next.call(op)
    }
}

type Failed = Box<dyn std::error::Error>;

fn stack(first: Option<&str>) -> Result<Stack, Failed> {
    let mut placed = Vec::new();
    if let Some(stage_type) = first.and_then(stages::stage_type) {
        let stage = (stage_type.build)(toml::Table::new())?;
        placed.push(Placed { name: stage_type.name, paths: Paths::all(), stage });
    }
    let latency = std::env::args().nth(2).map_or(Ok(200), |text| text.parse())?;
    let slow = Slow(Duration::from_micros(latency));
    placed.push(Placed { name: "slow", paths: Paths::all(), stage: Box::new(slow) });
    Ok(Stack::new(Paths::all(), placed))
}

fn open(stack: &Stack, path: &Path) -> Result<Arc<OpenFile>, Failed> {
    let text = CString::new(path.as_os_str().as_encoded_bytes())?;
    let target = Target { directory: libc::AT_FDCWD, path: &text, absolute: path };
    let flags = libc::O_RDWR | libc::O_CREAT;
    Ok(stack.open(Function::Open, target, flags, 0o600).ok_or("no stage wants it")??)
}

fn close(stack: &Stack, file: &Arc<OpenFile>) -> Outcome {
    let descriptor = file.raw_descriptor();
    let last = file.remove_descriptor(descriptor);
    stack.call(&mut Op::on(file, Function::Close, Action::Close { file, descriptor, last }))
}

/// Milliseconds for `calls` writes of `size` bytes, one after the other.
fn writes(first: Option<&str>, path: &Path, size: usize, calls: usize) -> Result<f64, Failed> {
    let (stack, bytes) = (stack(first)?, vec![7; size]);
    let file = open(&stack, path)?;
    let start = Instant::now();
    for _ in 0..calls {
        let memory = Memory::source(&bytes);
        let action = Action::Write { file: &file, memory, at: None, flags: 0 };
        stack.call(&mut Op::on(&file, Function::Write, action))?;
    }
    close(&stack, &file)?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

/// Milliseconds for `calls` reads of `size` bytes at a distance.
fn reads(
    first: Option<&str>,
    path: &Path,
    size: usize,
    stride: u64,
    calls: u64,
) -> Result<f64, Failed> {
    let (stack, mut bytes) = (stack(first)?, vec![7; size]);
    std::fs::write(path, vec![7; (stride * calls) as usize])?;
    let file = open(&stack, path)?;
    let start = Instant::now();
    for n in 0..calls {
        let (memory, at) = (Memory::sink(&mut bytes), Some(n * stride));
        let action = Action::Read { file: &file, memory, at, flags: 0 };
        stack.call(&mut Op::on(&file, Function::Pread, action))?;
    }
    close(&stack, &file)?;
    Ok(start.elapsed().as_secs_f64() * 1e3)
}

fn main() -> Result<(), Failed> {
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join(format!("striate-slow-{}", std::process::id()));
    for size in [1024, 16384] {
        let plain = writes(None, &path, size, 2000)?;
        let held = writes(Some("write-back"), &path, size, 2000)?;
        println!("2000 writes of {size} B: {plain:.1} ms, {held:.1} ms: {:.1} x", plain / held);
    }
    for (size, stride) in
        [(4096, 4096), (1024, 4096), (4096, 65536), (1024, 65536), (65536, 262_144)]
    {
        let calls = ((128 << 20) / stride).min(2000);
        let plain = reads(None, &path, size, stride, calls)?;
        let ahead = reads(Some("read-ahead"), &path, size, stride, calls)?;
        println!(
            "{calls} reads of {size} B every {stride} B: {plain:.1} ms, {ahead:.1} ms: {:.1} x",
            plain / ahead
        );
    }
    std::fs::remove_file(&path)?;
    Ok(())
}
