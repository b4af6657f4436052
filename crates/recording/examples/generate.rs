//! Makes a large recording, to see what commands need for one.
//!
//! ```sh
//! cargo run --release -p striate-recording --example generate -- DIRECTORY CALLS [CALLS-PER-FILE]
//! ```
//!
//! Four processes write and read files, and open another one after so many calls (100,000 if not
//! said).
#![expect(clippy::print_stderr, reason = "it is a program for people")]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use striate_trace::{Call, Function, Header, Origin, Record, TracedFile, Writer};

const PROCESSES: u32 = 4;

/// The n-th call of a process.
fn record(process: u32, n: u64, per_file: u64) -> Record {
    let (number, step) = (n / per_file, n % per_file);
    let path: Arc<Path> = Path::new(&format!("/data/{process}/{number}.dat")).into();
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    let (opener, name) = (process, path.to_path_buf());
    let file = Arc::new(TracedFile { opener, number: number + 1, path: name, flags });
    let (offset, length) = (Some(step * step % 8191 * 512), 512);
    let (function, outcome, call) = if step == 0 {
        let call = Call::Open { file, path, flags, mode: 0o644, size: Some(0) };
        (Function::Open, Ok(3), call)
    } else if step == per_file - 1 {
        (Function::Close, Ok(0), Call::Close { file, descriptor: 3, last: true })
    } else if n.is_multiple_of(3) {
        let offset = Some(512);
        let read = if step > 2 { 512 } else { 0 };
        let call = Call::Read { file, placed: true, offset, length, flags: 0, parts: 1 };
        (Function::Pread, Ok(read), call)
    } else {
        let call = Call::Write { file, placed: true, offset, length, flags: 0, parts: 1 };
        (Function::Pwrite, Ok(length), call)
    };
    let start = 1_000_000 + n * 2000;
    Record { function, thread: process, start, duration: 700, outcome, known: true, call }
}

fn generate(directory: &Path, calls: u64, per_file: u64) -> Result<(), Box<dyn std::error::Error>> {
    std::fs::create_dir_all(directory)?;
    for process in 1..=PROCESSES {
        let origin = Origin {
            process,
            rank: Some(process - 1),
            host: "here".into(),
            command: vec!["generated".into()],
            ..Origin::default()
        };
        let header = Header { origin, clock: 1_000_000, began: 1 << 60, ..Header::default() };
        let mut writer = Writer::create(directory.join(format!("{process}.trace")), &header)?;
        for n in 0..calls / u64::from(PROCESSES) {
            writer.write(&record(process, n, per_file))?;
        }
        writer.finish()?;
    }
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize| arguments.get(place).map(|text| text.parse::<u64>());
    let (Some(directory), Some(Ok(calls)), per_file) = (arguments.first(), number(1), number(2))
    else {
        eprintln!("usage: generate DIRECTORY CALLS [CALLS-PER-FILE]");
        return ExitCode::from(2);
    };
    let per_file = per_file.and_then(Result::ok).unwrap_or(100_000).max(4);
    match generate(&PathBuf::from(directory), calls, per_file) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{directory}: {error}");
            ExitCode::FAILURE
        }
    }
}
