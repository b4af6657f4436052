//! Nonblocking collective I/O: a time step is written while the next one is computed.
//!
//! A call that begins a write takes the buffer, and `wait` gives it back, so that nothing can
//! change it meanwhile. Two buffers take turns.

use std::path::PathBuf;

use striate::prelude::*;

/// Time steps, and elements of a rank in each.
const STEPS: u64 = 6;
const ELEMENTS: u64 = 20_000;

fn main() -> Result<(), FileError> {
    let directory = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let path = directory.join("striate-nonblocking.dat");

    striate::run(4, |comm| {
        let (rank, ranks) = (comm.rank() as u64, comm.size() as u64);
        let mode = Mode::CREATE | Mode::READ | Mode::WRITE | Mode::DELETE_ON_CLOSE;
        let mut file = File::open(&comm, &path, mode, &Hints::from_environment()?)?;

        // Each element of a step is a number of 8 bytes; the ranks' elements lie in turn.
        let number = Datatype::from(Element::U64);
        let every_nth = Datatype::resized(&number, 0, (ranks * 8) as i64)?;
        file.set_view(View::new(rank * 8, &number, &every_nth)?)?;

        let mut spare = Some(Vec::new());
        let mut writing = None;
        for step in 0..STEPS {
            let mut buffer = spare.take().unwrap_or_default();
            compute(step, rank, &mut buffer, || file.progress());
            // The write before has had the time of the computation; now it must be done.
            if let Some(request) = writing.take() {
                let (buffer, written) = file.wait(request);
                assert_eq!(written?, ELEMENTS * 8);
                spare = Some(buffer);
            }
            writing = Some(file.iwrite_at_all(step * ELEMENTS, buffer));
        }
        if let Some(request) = writing {
            file.wait(request).1?;
        }

        // Reads can be begun, too, and waited for in any order.
        let read = |file: &mut File, step| {
            file.iread_at_all(step * ELEMENTS, vec![0; ELEMENTS as usize * 8])
        };
        let (last, first) = (read(&mut file, STEPS - 1), read(&mut file, 0));
        for (step, request) in [(0, first), (STEPS - 1, last)] {
            let (buffer, done) = file.wait(request);
            assert_eq!(done?, ELEMENTS * 8);
            let mut expected = Vec::new();
            compute(step, rank, &mut expected, || ());
            assert!(buffer == expected, "step {step} of rank {rank}");
        }
        if rank == 0 {
            println!(
                "verified: {STEPS} steps of {ranks} ranks, written while others were computed"
            );
        }
        file.close()
    })
    .map(drop)
}

/// Stands for a simulation. Between its parts it lets the collective calls get on that were begun.
fn compute(step: u64, rank: u64, buffer: &mut Vec<u8>, mut between: impl FnMut()) {
    buffer.clear();
    for part in 0..10 {
        for element in 0..ELEMENTS / 10 {
            let value = step << 48 | rank << 32 | part << 24 | element;
            buffer.extend_from_slice(&value.to_ne_bytes());
        }
        between();
    }
}
