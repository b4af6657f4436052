//! [`Tally`]: how the calls on a file were carried out, for the summary that `STRIATE_MPIIO_STATS` asks for.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use striate_comm::Reduction;
use striate_file::{CallReport, File, FileError, Method, Stats};

use crate::access::{Access, Direction, Ranks};

/// The methods, in the order in which they are counted.
const METHODS: [(Method, &str); 5] = [
    (Method::Posix, "posix"),
    (Method::Sieve, "sieve"),
    (Method::List, "list"),
    (Method::Datatype, "datatype"),
    (Method::TwoPhase, "two-phase"),
];

/// Reads and writes, alone and together.
const KINDS: [&str; 4] =
    ["independent reads", "independent writes", "collective reads", "collective writes"];

/// Calls and bytes of a kind, and by which methods.
#[derive(Clone, Copy, Debug, Default)]
struct Kind {
    calls: u64,
    bytes: u64,
    methods: [u64; METHODS.len()],
}

/// How the calls on a file were carried out.
#[derive(Debug)]
pub(crate) struct Tally {
    name: String,
    /// Whether somebody wants to know; the same on all ranks.
    wanted: bool,
    opened: Instant,
    kinds: [Kind; KINDS.len()],
    time: Duration,
}

impl Tally {
    /// Of a file that was just opened.
    pub(crate) fn new(name: &OsStr, wanted: bool) -> Self {
        Self {
            name: name.display().to_string(),
            wanted,
            opened: Instant::now(),
            kinds: [Kind::default(); KINDS.len()],
            time: Duration::ZERO,
        }
    }

    /// When a call begins, if that matters.
    #[inline]
    pub(crate) fn start(&self) -> Option<Instant> {
        self.wanted.then(Instant::now)
    }

    /// One more call, which has moved so many bytes.
    #[inline]
    pub(crate) fn add(
        &mut self,
        start: Option<Instant>,
        access: Access,
        bytes: u64,
        report: Option<&CallReport>,
    ) {
        if let Some(start) = start {
            self.time += start.elapsed();
            let direction = usize::from(access.direction == Direction::Write);
            let kind =
                &mut self.kinds[direction + 2 * usize::from(access.ranks == Ranks::Together)];
            kind.calls += 1;
            kind.bytes += bytes;
            let method = report.map(|report| report.method);
            if let Some(n) = METHODS.iter().position(|(known, _)| Some(*known) == method) {
                kind.methods[n] += 1;
            }
        }
    }

    /// Prints what there is to tell, on rank 0. Collective.
    pub(crate) fn report(&self, file: &mut File) {
        if self.wanted
            && let Err(error) = self.try_report(file)
        {
            eprintln!("striate-mpiio: no summary of {}: {error}", self.name);
        }
    }

    fn try_report(&self, file: &mut File) -> Result<(), FileError> {
        let all: Stats = file.stats_of_all()?.into_iter().sum();
        let mut words: Vec<u64> = self.kinds.iter().flat_map(Kind::to_words).collect();
        words.push(self.time.as_micros() as u64);
        file.comm().allreduce_u64(Reduction::Sum, &mut words)?;
        if file.comm().rank() == 0 {
            eprint!("{}", self.text(file.comm().size(), &words, &all));
        }
        Ok(())
    }

    fn text(&self, ranks: usize, words: &[u64], all: &Stats) -> String {
        let mut text = String::new();
        let open = self.opened.elapsed().as_secs_f64();
        // Writing to a string does not fail.
        let _ = writeln!(text, "striate-mpiio: {} ({ranks} ranks, open {open:.3} s)", self.name);
        for (words, name) in words.chunks_exact(2 + METHODS.len()).zip(KINDS) {
            let (calls, bytes) = (words[0], words[1]);
            if calls == 0 {
                continue;
            }
            let by = METHODS.iter().zip(&words[2..]).filter(|(_, count)| **count > 0);
            let by: Vec<_> = by.map(|((_, name), count)| format!("{name} {count}")).collect();
            let _ = writeln!(text, "  {calls} {name}, {bytes} bytes; by {}", by.join(", "));
        }
        let Stats { operations, accessed, regions, read_back, read_backs, resent, .. } = *all;
        let asked: u64 = words.chunks_exact(2 + METHODS.len()).map(|words| words[0]).sum();
        let factor = asked as f64 / operations.max(1) as f64;
        let _ = writeln!(
            text,
            "  store: {operations} requests for {accessed} bytes in {regions} regions; \
             {read_backs} reads back of {read_back} bytes; {resent} bytes between ranks; \
             {factor:.2} calls per request",
        );
        let time = words.last().copied().unwrap_or(0) as f64 / 1e6;
        let _ = writeln!(text, "  time in calls: {time:.3} s, all ranks together");
        text
    }
}

impl Kind {
    fn to_words(&self) -> impl Iterator<Item = u64> + use<> {
        [self.calls, self.bytes].into_iter().chain(self.methods)
    }
}
