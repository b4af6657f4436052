//! What stages cost per call: writes that pass through a stack and plain ones take turns, in blocks
//! of a thousand, and the medians are compared.
//!
//! `cargo run --release -p striate-stages --example cost`
#![allow(clippy::unwrap_used, reason = "it may fail loudly")]

use std::path::Path;
use std::time::Instant;

use striate_stack::{Action, Configuration, Function, Memory, Op, Target, perform};

const BLOCK: u32 = 1000;
const ROUNDS: usize = 301;

fn main() {
    let directory = std::env::args().nth(1).unwrap_or_else(|| "/dev/shm".into());
    let directory = Path::new(&directory).join(format!("striate-cost-{}", std::process::id()));
    std::fs::create_dir(&directory).unwrap();
    let at = directory.display();
    for (name, stages) in [
        (
            "throttle that wants nothing",
            "[[stage]]\nkind='throttle'\nlatency='1s'\nkinds=['mmap']".to_owned(),
        ),
        ("count", format!("[[stage]]\nkind='count'\ndirectory='{at}'")),
        ("trace", format!("[[stage]]\nkind='trace'\ndirectory='{at}'")),
    ] {
        match striate_stages::parse_stack(&format!("[paths]\n{stages}")) {
            Ok(configuration) => measure(name, &configuration, &directory),
            Err(error) => println!("{name}: {error}"),
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

fn measure(name: &str, configuration: &Configuration, directory: &Path) {
    let stack = configuration.build().unwrap();
    let path = directory.join("data.dat");
    let text = std::ffi::CString::new(path.to_str().unwrap()).unwrap();
    let target = Target { directory: libc::AT_FDCWD, path: &text, absolute: &path };
    let file = stack.open(Function::Open, target, libc::O_CREAT | libc::O_RDWR, 0o644);
    let file = file.unwrap().unwrap();
    for (call, in_place) in [("pwrite 64 B", true), ("write 64 B", false)] {
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..ROUNDS {
            for (which, times) in times.iter_mut().enumerate() {
                let start = Instant::now();
                for n in 0..BLOCK {
                    let place = in_place.then_some(u64::from(n) * 64);
                    let action = Action::Write {
                        file: &file,
                        memory: Memory::source(&[1; 64]),
                        at: place,
                        flags: 0,
                    };
                    let function = if in_place { Function::Pwrite } else { Function::Write };
                    let mut op = Op::on(&file, function, action);
                    if which == 0 { perform(&mut op) } else { stack.call(&mut op) }.unwrap();
                }
                times.push(start.elapsed().as_secs_f64() / f64::from(BLOCK) * 1e9);
            }
            let action = Action::Seek { file: &file, offset: 0, whence: libc::SEEK_SET };
            stack.call(&mut Op::on(&file, Function::Lseek, action)).unwrap();
        }
        let mut differences: Vec<f64> =
            times[0].iter().zip(&times[1]).map(|(a, b)| b - a).collect();
        let [plain, with] = times.map(|mut times| median(&mut times));
        println!(
            "{name:<28} {call:<12} plain {plain:6.1} ns, with {with:6.1} ns, more: {:5.1} ns",
            median(&mut differences)
        );
    }
    stack.finish().unwrap();
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
