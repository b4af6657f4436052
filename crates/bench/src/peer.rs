//! MPI's own datatype engines as peers: one child process per MPI library.
//!
//! The peer (`peer/mpi_peer.c`) builds the same type with the same constructors and runs `MPI_Pack`
//! and `MPI_Unpack` on request, so that its measurements interleave with ours. It also defines the
//! meaning of the constructors. Without the feature `mpi` there are no peers.

use std::fmt::Write as _;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use striate_datatype::notation::Notation;
use striate_datatype::{Distribution, Order};
use thiserror::Error;

/// What went wrong with a peer.
#[derive(Debug, Error)]
pub enum PeerError {
    /// It could not be started, or has ended.
    #[error("the {peer} peer does not answer")]
    Gone {
        /// The MPI library.
        peer: &'static str,
        /// Why.
        source: io::Error,
    },
    /// It refused a request.
    #[error("{peer} refused: {answer}")]
    Refused {
        /// The MPI library.
        peer: &'static str,
        /// Its words.
        answer: String,
    },
}

/// Which copy an engine makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// From typed memory to a stream.
    Pack,
    /// From a stream to typed memory.
    Unpack,
}

impl Direction {
    /// As a word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pack => "pack",
            Self::Unpack => "unpack",
        }
    }
}

/// What a peer says of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "MPI's own terms")]
pub struct TypeInfo {
    pub size: u64,
    pub lb: i64,
    pub extent: i64,
    pub true_lb: i64,
    pub true_extent: i64,
}

/// A running peer.
#[derive(Debug)]
pub struct Peer {
    name: &'static str,
    child: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    /// Starts one peer per MPI library this was built for.
    pub fn start_all() -> Result<Vec<Self>, PeerError> {
        PROGRAMS.iter().map(|&(name, program)| Self::start(name, program)).collect()
    }

    fn start(name: &'static str, program: &[u8]) -> Result<Self, PeerError> {
        let gone = |source| PeerError::Gone { peer: name, source };
        let mut command = program_in_memory(program).map_err(gone)?;
        // Under a launcher this process is a rank; the peer is none of the job's.
        for (variable, _) in std::env::vars_os() {
            if variable.to_string_lossy().starts_with("PMI") {
                command.command.env_remove(variable);
            }
        }
        let mut child =
            command.command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(gone)?;
        let requests = child.stdin.take();
        let answers = child.stdout.take().ok_or_else(|| gone(io::ErrorKind::BrokenPipe.into()))?;
        Ok(Self { name, child, requests, answers: BufReader::new(answers) })
    }

    /// The MPI library's name: `openmpi` or `mpich`.
    pub const fn name(&self) -> &'static str {
        self.name
    }

    /// Sends a request and returns the words of the answer.
    fn ask(&mut self, request: &str) -> Result<Vec<String>, PeerError> {
        let answer =
            self.exchange(request).map_err(|source| PeerError::Gone { peer: self.name, source })?;
        let mut words = answer.split_whitespace().map(String::from);
        match words.next().as_deref() {
            Some("ok") => Ok(words.collect()),
            _ => Err(PeerError::Refused { peer: self.name, answer: answer.trim().into() }),
        }
    }

    fn exchange(&mut self, request: &str) -> io::Result<String> {
        let requests = self.requests.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        requests.write_all(request.as_bytes())?;
        requests.write_all(b"\n")?;
        let mut answer = String::new();
        if self.answers.read_line(&mut answer)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(answer)
    }

    fn numbers<const N: usize>(&mut self, request: &str) -> Result<[i64; N], PeerError> {
        let words = self.ask(request)?;
        let numbers: Option<Vec<i64>> = words.iter().map(|word| word.parse().ok()).collect();
        numbers
            .and_then(|numbers| numbers.try_into().ok())
            .ok_or_else(|| PeerError::Refused { peer: self.name, answer: words.join(" ") })
    }

    /// Builds the type; it is the current one from here on.
    pub fn build(&mut self, notation: &Notation) -> Result<TypeInfo, PeerError> {
        let mut request = String::from("type");
        postfix(notation, &mut request);
        let [size, lb, extent, true_lb, true_extent] = self.numbers(&request)?;
        Ok(TypeInfo { size: size as u64, lb, extent, true_lb, true_extent })
    }

    /// Makes buffers for `count` copies of the current type, filled with [`memory_pattern`] and
    /// zeros. Returns the length of memory, the index of the origin and the length of the stream.
    pub fn buffers(&mut self, count: u64) -> Result<[i64; 3], PeerError> {
        self.numbers(&format!("buffers {count}"))
    }

    /// The time of `repetitions` copies.
    pub fn time(&mut self, direction: Direction, repetitions: u32) -> Result<Duration, PeerError> {
        let [nanoseconds] = self.numbers(&format!("time {} {repetitions}", direction.name()))?;
        Ok(Duration::from_nanos(nanoseconds as u64))
    }

    /// Fills the stream with [`stream_pattern`].
    pub fn fill_stream(&mut self) -> Result<(), PeerError> {
        self.ask("fill packed").map(drop)
    }

    /// Hash of the memory buffer.
    pub fn memory_hash(&mut self) -> Result<u64, PeerError> {
        self.hash("hash memory")
    }

    /// Hash of the stream.
    pub fn stream_hash(&mut self) -> Result<u64, PeerError> {
        self.hash("hash packed")
    }

    fn hash(&mut self, request: &str) -> Result<u64, PeerError> {
        let words = self.ask(request)?;
        u64::from_str_radix(words.join("").trim_start_matches("0x"), 16)
            .map_err(|_| PeerError::Refused { peer: self.name, answer: words.join(" ") })
    }

    /// The library's name and version in its own words.
    pub fn version(&mut self) -> Result<String, PeerError> {
        Ok(self.ask("version")?.join(" "))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input ends the peer; one that hangs all the same is ended.
        drop(self.requests.take());
        for _ in 0..100 {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The bytes peers fill memory with.
pub const fn memory_pattern(index: usize) -> u8 {
    (index.wrapping_mul(131)).wrapping_add((index >> 8).wrapping_mul(29)).wrapping_add(7) as u8
}

/// The bytes peers fill the stream with.
pub const fn stream_pattern(index: usize) -> u8 {
    (index.wrapping_mul(167)).wrapping_add((index >> 8).wrapping_mul(41)).wrapping_add(3) as u8
}

/// The hash peers use: FNV-1a.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[cfg(feature = "mpi")]
static PROGRAMS: [(&str, &[u8]); 2] = [
    ("openmpi", include_bytes!(concat!(env!("OUT_DIR"), "/mpi_peer_openmpi"))),
    ("mpich", include_bytes!(concat!(env!("OUT_DIR"), "/mpi_peer_mpich"))),
];
#[cfg(not(feature = "mpi"))]
static PROGRAMS: [(&str, &[u8]); 0] = [];

/// A command that runs a program which is in memory only, and what keeps it there.
struct InMemory {
    command: Command,
    _program: std::fs::File,
}

fn program_in_memory(program: &[u8]) -> io::Result<InMemory> {
    use std::os::fd::AsRawFd;
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let mut file = std::fs::File::from(rustix::fs::memfd_create("striate-peer", flags)?);
    file.write_all(program)?;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(InMemory { command: Command::new(path), _program: file })
}

/// The type as a postfix program; see the peer's source.
fn postfix(notation: &Notation, out: &mut String) {
    let list =
        |items: &[u64]| items.iter().fold(String::new(), |list, item| format!("{list} {item}"));
    // Writing to a String does not fail.
    let _ = match notation {
        Notation::Element(element) => write!(out, " {element}"),
        Notation::Bytes(len) => write!(out, " byte contiguous {len}"),
        Notation::Contiguous { count, of } => {
            postfix(of, out);
            write!(out, " contiguous {count}")
        }
        Notation::Vector { count, block, stride, of } => {
            postfix(of, out);
            write!(out, " vector {count} {block} {stride}")
        }
        Notation::Hvector { count, block, stride, of } => {
            postfix(of, out);
            write!(out, " hvector {count} {block} {stride}")
        }
        Notation::Indexed { blocks, of } | Notation::Hindexed { blocks, of } => {
            postfix(of, out);
            let name =
                if matches!(notation, Notation::Indexed { .. }) { "indexed" } else { "hindexed" };
            let _ = write!(out, " {name} {}", blocks.len());
            blocks.iter().try_for_each(|(len, at)| write!(out, " {len} {at}"))
        }
        Notation::IndexedBlock { block, displacements: list, of }
        | Notation::HindexedBlock { block, offsets: list, of } => {
            postfix(of, out);
            let elements = matches!(notation, Notation::IndexedBlock { .. });
            let name = if elements { "indexed_block" } else { "hindexed_block" };
            let _ = write!(out, " {name} {} {block}", list.len());
            list.iter().try_for_each(|at| write!(out, " {at}"))
        }
        Notation::Struct { fields } => {
            for (_, _, of) in fields {
                postfix(of, out);
            }
            let _ = write!(out, " struct {}", fields.len());
            fields.iter().try_for_each(|(count, at, _)| write!(out, " {count} {at}"))
        }
        Notation::Subarray { sizes, subsizes, starts, order, of } => {
            postfix(of, out);
            let lists = list(sizes) + &list(subsizes) + &list(starts);
            write!(out, " subarray {}{lists} {}", sizes.len(), order_word(*order))
        }
        Notation::Darray { rank, sizes, distributions, grid, order, of } => {
            postfix(of, out);
            let processes: u64 = grid.iter().product();
            let _ = write!(out, " darray {processes} {rank} {}{}", sizes.len(), list(sizes));
            for distribution in distributions {
                let _ = match distribution {
                    Distribution::Block(None) => write!(out, " block -"),
                    Distribution::Block(Some(length)) => write!(out, " block {length}"),
                    Distribution::Cyclic(length) => write!(out, " cyclic {length}"),
                    Distribution::None => write!(out, " none -"),
                };
            }
            write!(out, "{} {}", list(grid), order_word(*order))
        }
        Notation::Resized { lb, extent, of } => {
            postfix(of, out);
            write!(out, " resized {lb} {extent}")
        }
        Notation::Dup { of } => {
            postfix(of, out);
            write!(out, " dup")
        }
    };
}

const fn order_word(order: Order) -> &'static str {
    match order {
        Order::C => "c",
        Order::Fortran => "fortran",
    }
}
