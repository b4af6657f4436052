//! What a write costs through write-back, in this process, beside a plain one.
//!
//! `cargo run --release -p striate-stages --example write_cost [DIRECTORY [BLOCKS [threads]]]`:
//! with a third word, the process has a second thread, which sleeps: locks cost more then.

use std::ffi::CString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use striate_stack::{Action, Function, Memory, Op, OpenFile, Stack, Target};

/// The time that this thread has worked, here and in the kernel: other processes do not count.
fn worked() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e9 + time.tv_nsec as f64
}

const ROUNDS: usize = 9;
const CALLS: usize = 200_000;

fn write(stack: &Stack, file: &Arc<OpenFile>, bytes: &[u8]) -> u64 {
    let memory = Memory::source(bytes);
    let action = Action::Write { file, memory, at: None, flags: 0 };
    stack.call(&mut Op::on(file, Function::Write, action)).unwrap_or(0)
}

fn open(stack: &Stack, path: &Path) -> Option<Arc<OpenFile>> {
    let text = CString::new(path.to_str()?).ok()?;
    let target = Target { directory: libc::AT_FDCWD, path: &text, absolute: path };
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    stack.open(Function::Open, target, flags, 0o600)?.ok()
}

fn close(stack: &Stack, file: &Arc<OpenFile>) {
    let descriptor = file.raw_descriptor();
    let last = file.remove_descriptor(descriptor);
    let action = Action::Close { file, descriptor, last };
    let _ = stack.call(&mut Op::on(file, Function::Close, action));
}

fn least(times: &[f64]) -> f64 {
    times.iter().copied().fold(f64::INFINITY, f64::min)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join(format!("striate-write-cost-{}", std::process::id()));
    let blocks = std::env::args().nth(2).unwrap_or_else(|| "256KiB 512KiB 1MiB 4MiB".into());
    if std::env::args().nth(3).is_some() {
        std::thread::spawn(|| {
            loop {
                std::thread::park();
            }
        });
    }
    println!("ns per write: plain | write-back (with its close) | only collecting");
    for block in blocks.split(' ') {
        let text = format!("[paths]\n[[stage]]\nkind = \"write-back\"\nblock = \"{block}\"\n");
        let stack = striate_stages::parse_stack(&text)?.build()?;
        for size in [8, 64, 256, 1000, 1024, 16384] {
            let bytes = vec![7u8; size];
            let calls = (CALLS * 64 / size.max(64)).max(2000);
            let (mut plain, mut through, mut only) = (vec![], vec![], vec![]);
            for _ in 0..ROUNDS {
                let file = std::fs::File::create(&path)?;
                let start = worked();
                for _ in 0..calls {
                    rustix::io::write(file.as_fd(), &bytes)?;
                }
                drop(file);
                plain.push((worked() - start) / calls as f64);
                std::fs::remove_file(&path)?;

                let file = open(&stack, &path).ok_or("open")?;
                let start = worked();
                for _ in 0..calls {
                    write(&stack, &file, &bytes);
                }
                close(&stack, &file);
                through.push((worked() - start) / calls as f64);
                std::fs::remove_file(&path)?;

                let file = open(&stack, &path).ok_or("open")?;
                let few = (128 * 1024 / size).min(calls);
                // The first go makes the memory; the second is measured.
                for _ in 0..(1 << 20) / size {
                    write(&stack, &file, &bytes);
                }
                stack.settle(&file)?;
                let start = worked();
                for _ in 0..few {
                    write(&stack, &file, &bytes);
                }
                only.push((worked() - start) / few as f64);
                close(&stack, &file);
                std::fs::remove_file(&path)?;
            }
            let (plain, through, only) = (least(&plain), least(&through), least(&only));
            println!(
                "block {block:>7}, {size:>5} B: {plain:8.1} | {through:8.1} ({:4.1} x) | {only:7.1}",
                plain / through
            );
        }
    }
    Ok(())
}
