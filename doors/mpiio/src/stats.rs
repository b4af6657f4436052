//! [`Tally`]: the calls of the program on a file, for the summary that `STRIATE_MPIIO_STATS`
//! enables. How they were carried out is counted by the file itself.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::time::Instant;

use striate_comm::Reduction;
use striate_file::{File, FileError, Method, MethodChoice, Stats};
use striate_process::say;

use crate::access::{Access, Coordination, Direction};

/// Reads and writes, alone and together.
const KINDS: [&str; 4] =
    ["independent reads", "independent writes", "collective reads", "collective writes"];

/// Calls and bytes of a kind.
#[derive(Clone, Copy, Debug, Default)]
struct CallCount {
    calls: u64,
    bytes: u64,
}

/// What the program asked of a file.
#[derive(Debug)]
pub(crate) struct Tally {
    name: String,
    /// Whether a summary is wanted; the same on all ranks.
    wanted: bool,
    opened: Instant,
    asked: [CallCount; KINDS.len()],
}

/// What all ranks did together.
struct Summary {
    ranks: usize,
    asked: Vec<CallCount>,
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
            asked: [CallCount::default(); KINDS.len()],
        }
    }

    /// One more call, for so many bytes.
    #[inline]
    pub(crate) fn add(&mut self, access: Access, bytes: u64) {
        let direction = usize::from(access.direction == Direction::Write);
        let asked = &mut self.asked
            [direction + 2 * usize::from(access.coordination == Coordination::Collective)];
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
        let mut words: Vec<u64> = self.asked.iter().flat_map(|a| [a.calls, a.bytes]).collect();
        words.extend(Method::ALL.iter().map(|method| usage.calls(*method)));
        words.extend([usage.io.as_micros() as u64, usage.exchange.as_micros() as u64]);
        file.comm().allreduce_u64(Reduction::Sum, &mut words)?;
        let (asked, rest) = words.split_at(2 * KINDS.len());
        let (methods, times) = rest.split_at(Method::ALL.len());
        let seconds = |n: usize| times.get(n).map_or(0.0, |time| *time as f64 / 1e6);
        Ok(Summary {
            ranks: file.comm().size(),
            asked: asked.chunks_exact(2).map(|a| CallCount { calls: a[0], bytes: a[1] }).collect(),
            methods: Method::ALL.into_iter().zip(methods.iter().copied()).collect(),
            io: seconds(0),
            exchange: seconds(1),
            stats,
        })
    }

    fn text(&self, all: &Summary) -> String {
        let mut text = String::new();
        let (ranks, open) = (all.ranks, self.opened.elapsed().as_secs_f64());
        // Writing to a string does not fail.
        let _ = writeln!(text, "striate-mpiio: {} ({ranks} ranks, open {open:.3} s)", self.name);
        for (CallCount { calls, bytes }, kind) in all.asked.iter().zip(KINDS) {
            if *calls > 0 {
                let _ = writeln!(text, "  {calls} {kind}, {bytes} bytes");
            }
        }
        let used = all.methods.iter().filter(|(_, calls)| *calls > 0);
        let used: Vec<_> = used
            .map(|(method, calls)| format!("{} {calls}", MethodChoice::Fixed(*method)))
            .collect();
        let _ = writeln!(text, "  methods: {}", used.join(", "));
        let Stats { operations, accessed, regions, read_back, read_backs, resent, .. } = all.stats;
        let calls: u64 = all.asked.iter().map(|asked| asked.calls).sum();
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
