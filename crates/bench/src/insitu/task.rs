//! [`Task`]: the work of a process in one sample, as arguments of its command line.
//!
//! It is carried out by the standard library, whose calls are those of any program.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Instant;

use super::overhead::{self, Function};

/// What is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// Writes a file from its begin to its end, or its blocks in another order.
    Write {
        /// The file.
        target: PathBuf,
        /// Bytes of a request.
        request: u64,
        /// How many.
        count: u64,
        /// Whether each is made durable.
        sync: bool,
        /// Whether they are in another order.
        scattered: bool,
    },
    /// Reads blocks at a distance from each other.
    Read {
        /// The file.
        target: PathBuf,
        /// Bytes of a request.
        request: u64,
        /// How many.
        count: u64,
        /// From the begin of one to that of the next.
        stride: u64,
    },
    /// Makes files, each by an open, a write and a close.
    Files {
        /// Their directory.
        target: PathBuf,
        /// Bytes of a file.
        request: u64,
        /// How many.
        count: u64,
    },
    /// Times calls, alternating between both functions.
    Overhead {
        /// Which.
        function: Function,
        /// How often.
        rounds: usize,
        /// On which file.
        file: PathBuf,
    },
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Write { target, request, count, sync, scattered } => {
                write!(f, "write {request} {count} {sync} {scattered} {}", target.display())
            }
            Self::Read { target, request, count, stride } => {
                write!(f, "read {request} {count} {stride} {}", target.display())
            }
            Self::Files { target, request, count } => {
                write!(f, "files {request} {count} {}", target.display())
            }
            Self::Overhead { function, rounds, file } => {
                write!(f, "overhead {} {rounds} {}", function.name(), file.display())
            }
        }
    }
}

impl FromStr for Task {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let not_one = || format!("{text:?} is not a task");
        let (kind, rest) = text.split_once(' ').ok_or_else(not_one)?;
        let numbers = match kind {
            "write" => 4,
            "read" => 3,
            "files" | "overhead" => 2,
            _ => return Err(not_one()),
        };
        let words: Vec<&str> = rest.splitn(numbers + 1, ' ').collect();
        let target = PathBuf::from(words.get(numbers).ok_or_else(not_one)?);
        let number = |place: usize| words[place].parse::<u64>().map_err(|_| not_one());
        let flag = |place: usize| words[place].parse::<bool>().map_err(|_| not_one());
        match kind {
            "write" => Ok(Self::Write {
                target,
                request: number(0)?,
                count: number(1)?,
                sync: flag(2)?,
                scattered: flag(3)?,
            }),
            "read" => Ok(Self::Read {
                target,
                request: number(0)?,
                count: number(1)?,
                stride: number(2)?,
            }),
            "files" => Ok(Self::Files { target, request: number(0)?, count: number(1)? }),
            _ => Ok(Self::Overhead {
                function: Function::named(words[0]).ok_or_else(not_one)?,
                rounds: number(1)? as usize,
                file: target,
            }),
        }
    }
}

/// What requests hold: the bytes of each are somewhere in a pattern, so that to make them takes no
/// time.
struct ContentPattern {
    bytes: Vec<u8>,
    request: usize,
}

impl ContentPattern {
    /// Where requests begin in the pattern: a prime, so that neighbours differ.
    const PLACES: u64 = 65_521;

    fn of(request: u64) -> Self {
        let length = Self::PLACES + request;
        let byte = |place: u64| (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
        Self { bytes: (0..length).map(byte).collect(), request: request as usize }
    }

    /// What the request of a number holds.
    fn content(&self, number: u64) -> &[u8] {
        let place = (number.wrapping_mul(7919) % Self::PLACES) as usize;
        &self.bytes[place..place + self.request]
    }
}

/// The block that is written in a turn: all of them, each once, none after the one before it.
fn block_of(turn: u64, count: u64) -> u64 {
    // An odd factor reaches every block if their number is a power of two.
    if count.is_power_of_two() {
        turn.wrapping_mul(0x9e37_79b1) & (count - 1)
    } else {
        count - 1 - turn
    }
}

impl Task {
    /// Makes what has to be there before.
    pub(super) fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Read { target, request, count, stride } => {
                let pattern = ContentPattern::of(*request);
                let gap = vec![0; (stride - request) as usize];
                let mut file = io::BufWriter::new(File::create(target)?);
                for number in 0..*count {
                    file.write_all(pattern.content(number))?;
                    file.write_all(&gap)?;
                }
                file.flush()
            }
            Self::Files { target, .. } => fs::create_dir(target),
            Self::Write { .. } | Self::Overhead { .. } => Ok(()),
        }
    }

    /// Whether all data exists afterwards.
    pub(super) fn left_what_it_should(&self) -> bool {
        let holds = |path: &Path, mut numbers: Range<u64>, pattern: &ContentPattern| {
            let Ok(found) = fs::read(path) else { return false };
            let mut blocks = found.chunks(pattern.request);
            numbers.all(|number| blocks.next() == Some(pattern.content(number)))
                && blocks.next().is_none()
        };
        match self {
            Self::Write { target, request, count, .. } => {
                holds(target, 0..*count, &ContentPattern::of(*request))
            }
            Self::Files { target, request, count } => {
                let pattern = ContentPattern::of(*request);
                (0..*count).all(|number| {
                    holds(&target.join(number.to_string()), number..number + 1, &pattern)
                })
            }
            Self::Read { .. } | Self::Overhead { .. } => true,
        }
    }

    /// Carries it out. Returns how many seconds it took, or the times of calls.
    pub(super) fn carry_out(&self) -> Result<String, String> {
        let request = match self {
            Self::Overhead { function, rounds, file } => {
                return overhead::measure(*function, *rounds, file)
                    .map_err(|error| error.to_string());
            }
            Self::Write { request, .. }
            | Self::Read { request, .. }
            | Self::Files { request, .. } => request,
        };
        let pattern = ContentPattern::of(*request);
        let start = Instant::now();
        let done = match self {
            Self::Write { target, request, count, sync, scattered } => {
                write(target, &pattern, *request, *count, *sync, *scattered)
            }
            Self::Read { target, count, stride, .. } => read(target, &pattern, *count, *stride),
            Self::Files { target, count, .. } => files(target, &pattern, *count),
            Self::Overhead { .. } => Ok(()),
        };
        let seconds = start.elapsed().as_secs_f64();
        done.map_err(|error| format!("{self}: {error}"))?;
        Ok(seconds.to_string())
    }
}

fn write(
    target: &Path,
    pattern: &ContentPattern,
    request: u64,
    count: u64,
    sync: bool,
    scattered: bool,
) -> io::Result<()> {
    let mut file = File::create(target)?;
    for turn in 0..count {
        if scattered {
            let block = block_of(turn, count);
            file.write_all_at(pattern.content(block), block * request)?;
        } else {
            file.write_all(pattern.content(turn))?;
        }
        if sync {
            file.sync_data()?;
        }
    }
    // The close is part of it.
    drop(file);
    Ok(())
}

fn read(target: &Path, pattern: &ContentPattern, count: u64, stride: u64) -> io::Result<()> {
    let mut bytes = vec![0; pattern.request];
    let mut file = File::open(target)?;
    for number in 0..count {
        file.seek(SeekFrom::Start(number * stride))?;
        file.read_exact(&mut bytes)?;
        if bytes != pattern.content(number) {
            return Err(io::Error::other(format!("block {number} is not what was written")));
        }
    }
    Ok(())
}

fn files(target: &Path, pattern: &ContentPattern, count: u64) -> io::Result<()> {
    for number in 0..count {
        File::create(target.join(number.to_string()))?.write_all(pattern.content(number))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tasks_travel_as_words() {
        let target = PathBuf::from("/a place/file");
        for task in [
            Task::Write {
                target: target.clone(),
                request: 64,
                count: 7,
                sync: true,
                scattered: false,
            },
            Task::Read { target: target.clone(), request: 1, count: 2, stride: 3 },
            Task::Files { target: target.clone(), request: 4, count: 5 },
            Task::Overhead { function: Function::Pread, rounds: 9, file: target },
        ] {
            assert_eq!(task.to_string().parse(), Ok(task));
        }
        for wrong in ["", "write", "write 1 2 x y /a", "read 1 2 3", "overhead fly 1 /a"] {
            assert!(wrong.parse::<Task>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn tasks_leave_what_they_should() {
        let directory = tempfile::tempdir().unwrap();
        let target = directory.path().join("file");
        for (count, scattered) in [(16, true), (13, true), (5, false)] {
            let task =
                Task::Write { target: target.clone(), request: 100, count, sync: false, scattered };
            task.carry_out().unwrap();
            assert!(task.left_what_it_should());
            let mut bytes = fs::read(&target).unwrap();
            bytes[150] ^= 1;
            fs::write(&target, bytes).unwrap();
            assert!(!task.left_what_it_should());
            fs::remove_file(&target).unwrap();
        }
        let task = Task::Files { target: target.clone(), request: 10, count: 3 };
        task.prepare().unwrap();
        task.carry_out().unwrap();
        assert!(task.left_what_it_should());
        fs::remove_file(target.join("2")).unwrap();
        assert!(!task.left_what_it_should());
        let task =
            Task::Read { target: directory.path().join("r"), request: 10, count: 9, stride: 40 };
        task.prepare().unwrap();
        task.carry_out().unwrap();
    }

    #[test]
    fn scattered_blocks_are_all_blocks() {
        for count in [1, 8, 1024, 10, 7] {
            let all: HashSet<u64> = (0..count).map(|turn| block_of(turn, count)).collect();
            assert_eq!(all, (0..count).collect());
        }
    }
}
