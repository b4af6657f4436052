//! [`Tally`]: the calls of the program on a file, for the summary that `STRIATE_MPIIO_STATS`
//! enables. How they were carried out is counted by the file itself.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::time::Instant;

use striate_comm::Reduction;
use striate_file::{File, FileError, Method, MethodChoice, Stats};
use striate_process::say;

use crate::access::{Access, Coordination, Direction};

/// Calls and bytes of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct CallCount {
    calls: u64,
    bytes: u64,
}

/// Calls by what they do and which ranks take part.
#[derive(Clone, Copy, Debug, Default)]
struct CallCounts {
    independent_reads: CallCount,
    independent_writes: CallCount,
    collective_reads: CallCount,
    collective_writes: CallCount,
}

impl CallCounts {
    #[inline]
    fn of_mut(&mut self, access: Access) -> &mut CallCount {
        match (access.coordination, access.direction) {
            (Coordination::Independent, Direction::Read) => &mut self.independent_reads,
            (Coordination::Independent, Direction::Write) => &mut self.independent_writes,
            (Coordination::Collective, Direction::Read) => &mut self.collective_reads,
            (Coordination::Collective, Direction::Write) => &mut self.collective_writes,
        }
    }

    /// All kinds, in the order of the summary.
    const fn named(&self) -> [(&'static str, CallCount); 4] {
        [
            ("independent reads", self.independent_reads),
            ("independent writes", self.independent_writes),
            ("collective reads", self.collective_reads),
            ("collective writes", self.collective_writes),
        ]
    }

    /// As a reduction takes them.
    fn to_words(self) -> Vec<u64> {
        self.named().iter().flat_map(|(_, count)| [count.calls, count.bytes]).collect()
    }

    /// From the words of [`to_words`](Self::to_words), which are taken away.
    fn from_words(words: &mut impl Iterator<Item = u64>) -> Self {
        let mut next = || CallCount {
            calls: words.next().unwrap_or_default(),
            bytes: words.next().unwrap_or_default(),
        };
        Self {
            independent_reads: next(),
            independent_writes: next(),
            collective_reads: next(),
            collective_writes: next(),
        }
    }
}

/// What the program asked of a file.
#[derive(Debug)]
pub(crate) struct Tally {
    name: String,
    /// Whether a summary is wanted; the same on all ranks.
    wanted: bool,
    opened: Instant,
    asked: CallCounts,
}

/// What all ranks did together.
struct Summary {
    ranks: usize,
    asked: CallCounts,
    methods: Vec<(Method, u64)>,
    /// Seconds in requests to the store, and in collective calls beside that.
    io: f64,
    exchange: f64,
    stats: Stats,
}

impl Tally {
    /// Of a file that was just opened.
    pub(crate) fn new(name: &OsStr, wanted: bool) -> Self {
        Self {
            name: name.display().to_string(),
            wanted,
            opened: Instant::now(),
            asked: CallCounts::default(),
        }
    }

    /// One more call, for so many bytes.
    #[inline]
    pub(crate) fn add(&mut self, access: Access, bytes: u64) {
        let asked = self.asked.of_mut(access);
        asked.calls += 1;
        asked.bytes += bytes;
    }

    /// Prints the summary, on rank 0. Collective.
    pub(crate) fn report(&self, file: &mut File) {
        if self.wanted {
            match self.summary(file) {
                Ok(summary) if file.comm().rank() == 0 => {
                    say(format_args!("{}", self.text(&summary)));
                }
                Ok(_) => {}
                Err(error) => {
                    say(format_args!("striate-mpiio: no summary of {}: {error}\n", self.name));
                }
            }
        }
    }

    fn summary(&self, file: &mut File) -> Result<Summary, FileError> {
        let stats = file.stats_of_all()?.into_iter().sum();
        let usage = file.usage();
        let mut words = self.asked.to_words();
        words.extend(Method::ALL.iter().map(|method| usage.calls(*method)));
        words.extend([usage.io.as_micros() as u64, usage.exchange.as_micros() as u64]);
        file.comm().allreduce_u64(Reduction::Sum, &mut words)?;
        // Fields are taken from the words in the order in which they were put there.
        let mut words = words.into_iter();
        let asked = CallCounts::from_words(&mut words);
        let methods = Method::ALL.into_iter().zip(&mut words).collect();
        let mut seconds = || words.next().unwrap_or_default() as f64 / 1e6;
        let (io, exchange) = (seconds(), seconds());
        Ok(Summary { ranks: file.comm().size(), asked, methods, io, exchange, stats })
    }

    fn text(&self, all: &Summary) -> String {
        let mut text = String::new();
        let (ranks, open) = (all.ranks, self.opened.elapsed().as_secs_f64());
        // Writing to a string does not fail.
        let _ = writeln!(text, "striate-mpiio: {} ({ranks} ranks, open {open:.3} s)", self.name);
        for (kind, CallCount { calls, bytes }) in all.asked.named() {
            if calls > 0 {
                let _ = writeln!(text, "  {calls} {kind}, {bytes} bytes");
            }
        }
        let used = all.methods.iter().filter(|(_, calls)| *calls > 0);
        let used: Vec<_> = used
            .map(|(method, calls)| format!("{} {calls}", MethodChoice::Fixed(*method)))
            .collect();
        let _ = writeln!(text, "  methods: {}", used.join(", "));
        let Stats { operations, accessed, regions, read_back, read_backs, resent, .. } = all.stats;
        let calls: u64 = all.asked.named().iter().map(|(_, asked)| asked.calls).sum();
        let factor = calls as f64 / operations.max(1) as f64;
        let _ = writeln!(
            text,
            "  store: {operations} requests for {accessed} bytes in {regions} regions, \
             {read_backs} reads back of {read_back} bytes"
        );
        let _ = writeln!(
            text,
            "  aggregation: {factor:.2} calls and {} bytes per request, {resent} bytes between ranks",
            accessed / operations.max(1)
        );
        let Summary { io, exchange, .. } = all;
        let _ = writeln!(
            text,
            "  time, all ranks together: {exchange:.3} s in exchange, {io:.3} s in I/O"
        );
        text
    }
}
