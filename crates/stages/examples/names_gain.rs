//! What `combine` and `path-rewrite` gain where every request costs something: ratios of one run.
//!
//! ```sh
//! cargo run --release -p striate-stages --example names_gain -- [CYCLES] [MICROSECONDS] [DIRECTORY] [FAST]
//! ```
//!
//! Open-write-close cycles of 16 KiB, first plain, then combined, in the same directory; each
//! operation that reaches storage is delayed. Then one file of 64 MiB in writes of 16 KiB, plain
//! and rewritten to a fast place that is not delayed.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use striate_stack::classification::{Interference, Meaning, Scope, State};
use striate_stack::{
    Action, Classification, Function, Kinds, Memory, Next, Op, Outcome, Paths, Placed, Stack,
    Stage, Target,
};
use striate_stages as stages;

#[derive(Debug)]
struct Delay(Duration);

impl Stage for Delay {
    fn kinds(&self) -> Kinds {
        Kinds::ALL
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
        if !self.0.is_zero() {
            std::thread::sleep(self.0.saturating_sub(Duration::from_micros(60)));
            while start.elapsed() < self.0 {
                std::hint::spin_loop();
            }
        }
        next.call(op)
    }
}

fn stack(stage: Option<&str>, delay: Duration, slow: &Path) -> Stack {
    let mut placed = Vec::new();
    if let Some(text) = stage {
        let mut options: toml::Table = toml::from_str(text).expect("a stage");
        let name = options.remove("kind").expect("its kind");
        let stage_type = stages::stage_type(name.as_str().expect("a name")).expect("a known kind");
        let stage = (stage_type.build)(options).expect("options that are right");
        placed.push(Placed { name: stage_type.name, paths: Paths::all(), stage });
    }
    let paths = Paths::new(Some(&[slow.display().to_string()]), &[]).expect("a path");
    placed.push(Placed { name: "delay", paths, stage: Box::new(Delay(delay)) });
    Stack::new(Paths::all(), placed)
}

/// Writes a file in pieces, as a program would.
fn write(stack: &Stack, path: &Path, bytes: &[u8], pieces: usize) {
    let text = CString::new(path.as_os_str().as_bytes()).expect("a path");
    let target = Target { directory: libc::AT_FDCWD, path: &text, absolute: path };
    let flags = libc::O_CREAT | libc::O_TRUNC | libc::O_WRONLY;
    let file = stack.open(Function::Open, target, flags, 0o644).expect("it is wanted");
    let file = file.expect("it is opened");
    for _ in 0..pieces {
        let memory = Memory::source(bytes);
        let action = Action::Write { file: &file, memory, at: None, flags: 0 };
        let written = stack.call(&mut Op::on(&file, Function::Write, action));
        assert_eq!(written, Ok(bytes.len() as u64));
    }
    let descriptor = file.raw_descriptor();
    let last = file.remove_descriptor(descriptor);
    let action = Action::Close { file: &file, descriptor, last };
    stack.call(&mut Op::on(&file, Function::Close, action)).expect("it is closed");
}

fn cycles(stack: &Stack, directory: &Path, count: usize) -> (Duration, Duration) {
    std::fs::create_dir_all(directory).expect("a directory");
    let bytes: Vec<u8> = (0..16384).map(|n| n as u8).collect();
    let start = Instant::now();
    for number in 0..count {
        write(stack, &directory.join(format!("f{number}")), &bytes, 1);
    }
    let cycled = start.elapsed();
    stack.finish().expect("all is settled");
    (cycled, start.elapsed())
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let mut number =
        |default: u64| arguments.next().and_then(|text| text.parse().ok()).unwrap_or(default);
    let (count, micros) = (number(10_000) as usize, number(200));
    let root = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let fast = arguments.next().map_or_else(|| PathBuf::from("/dev/shm"), PathBuf::from);
    let root = root.join(format!("striate-gain-{}", std::process::id()));
    let fast = fast.join(format!("striate-gain-{}", std::process::id()));
    let delay = Duration::from_micros(micros);
    println!("{count} cycles of 16 KiB, {micros} us per request");
    let (plain, _) = cycles(&stack(None, delay, &root), &root.join("plain"), count);
    println!("plain                 {:>8.1} us per cycle", per(plain, count));
    for (name, options) in [
        ("combine", String::new()),
        ("combine, 1 thread", "threads = 1".into()),
        ("combine, 32 threads", "threads = 32".into()),
        ("combine, container", format!("unpack = false\ndirectory = \"{}\"", root.display())),
    ] {
        let stack = stack(Some(&format!("kind = \"combine\"\n{options}")), delay, &root);
        let (cycled, all) = cycles(&stack, &root.join(name), count);
        println!(
            "{name:<21} {:>8.1} us per cycle ({:.1} x); with all written out {:.1} us ({:.1} x)",
            per(cycled, count),
            plain.as_secs_f64() / cycled.as_secs_f64(),
            per(all, count),
            plain.as_secs_f64() / all.as_secs_f64()
        );
    }
    let piece = vec![7; 16384];
    let rules =
        format!("rules = [{{ from = \"{}\", to = \"{}\" }}]", root.display(), fast.display());
    for (name, stage) in [
        ("plain", None),
        ("path-rewrite", Some(format!("kind = \"path-rewrite\"\n{rules}\nbackground = true"))),
    ] {
        let stack = stack(stage.as_deref(), delay, &root);
        let start = Instant::now();
        write(&stack, &root.join(name.to_owned() + ".data"), &piece, 4096);
        let closed = start.elapsed();
        stack.finish().expect("all is moved");
        println!(
            "64 MiB {name:<13} {:>8.0} MiB/s until the close, {:.0} MiB/s until it is there",
            64.0 / closed.as_secs_f64(),
            64.0 / start.elapsed().as_secs_f64()
        );
    }
    let _ = std::fs::remove_dir_all(&root);
    let _ = std::fs::remove_dir_all(&fast);
}

fn per(time: Duration, count: usize) -> f64 {
    time.as_secs_f64() * 1e6 / count as f64
}
