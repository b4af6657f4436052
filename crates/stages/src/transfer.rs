//! Copies from file to file by reads and writes, where the kernel's `copy_file_range` cannot.

use rustix::io::Errno;
use striate_calls::Function;
use striate_stack::{Action, CopyEndpoint, Memory, Next, Op, Outcome};

/// As much is copied at a time.
const MOST: usize = 1 << 20;

/// What `copy_file_range` does, by a read and writes: for files that a stage keeps on different
/// file systems.
pub(crate) fn copy_by_hand(
    from: CopyEndpoint<'_>,
    to: CopyEndpoint<'_>,
    length: usize,
    next: Next<'_>,
) -> Outcome {
    let (Some(source), Some(sink)) = (from.file, to.file) else { return Err(Errno::XDEV) };
    if sink.appends() {
        return Err(Errno::BADF);
    }
    let mut bytes = vec![0; length.min(MOST)];
    let memory = Memory::sink(&mut bytes);
    let read = Action::Read { file: source, memory, at: from.at, flags: 0 };
    let count = next.call(&mut Op::on(source, Function::Fetch, read))? as usize;
    let mut done = 0;
    while done < count {
        let memory = Memory::source(&bytes[done..count]);
        let at = to.at.map(|at| at + done as u64);
        let write = Action::Write { file: sink, memory, at, flags: 0 };
        match next.call(&mut Op::on(sink, Function::Flush, write)) {
            Ok(written @ 1..) => done += written as usize,
            Err(Errno::INTR) => {}
            failed => {
                if from.at.is_none() {
                    // What was read and not written is read again.
                    let offset = done as i64 - count as i64;
                    let whence = libc::SEEK_CUR;
                    let back = Action::Seek { file: source, offset, whence };
                    next.call(&mut Op::on(source, Function::Fetch, back))?;
                }
                return if done > 0 { Ok(done as u64) } else { failed };
            }
        }
    }
    Ok(done as u64)
}
