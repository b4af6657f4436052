//! [`Selection`]: the command line options that select records of a recording.

use clap::Args;
use striate_recording::row::MPI_IO;
use striate_recording::{Filter, filter};
use striate_stack::{Kind, Kinds};

use crate::CommandError;

/// Which records are meant: those to which all options apply.
#[derive(Debug, Default, Args)]
pub(super) struct Selection {
    /// Calls that began at this time of the recording or later: 2s, 1500ms, 1.5
    #[arg(long, value_name = "TIME", value_parser = time)]
    from: Option<u64>,
    /// Calls that began before this time
    #[arg(long, value_name = "TIME", value_parser = time)]
    to: Option<u64>,
    /// Calls of these processes
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    process: Vec<u32>,
    /// Calls of these ranks
    #[arg(long, value_name = "RANK", value_delimiter = ',')]
    rank: Vec<u32>,
    /// Calls of these threads
    #[arg(long, value_name = "TID", value_delimiter = ',')]
    thread: Vec<u32>,
    /// Calls on these paths: '*.nc', '/data/**'; a pattern without / matches names in any directory
    #[arg(long, value_name = "GLOB")]
    path: Vec<String>,
    /// Calls of these kinds: open, close, read, write, seek, sync, stat, …; mpi-io: calls of
    /// MPI-IO
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    kind: Vec<String>,
}

impl Selection {
    /// As a filter.
    pub(super) fn filter(&self) -> Result<Filter, CommandError> {
        let (mut kinds, mut layers) = (Vec::new(), self.kind.is_empty());
        for name in &self.kind {
            if name == MPI_IO {
                layers = true;
                continue;
            }
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == name);
            kinds.push(kind.ok_or_else(|| {
                let names: Vec<_> = Kind::ALL.iter().map(|kind| kind.name()).collect();
                let hint = format!("there are {}, {MPI_IO}", names.join(", "));
                CommandError::usage(format!("no calls are of the kind '{name}'"), hint)
            })?);
        }
        if let (Some(from), Some(to)) = (self.from, self.to)
            && from >= to
        {
            return Err(CommandError::usage(
                "nothing is between these times",
                "--from comes first",
            ));
        }
        let paths = filter::paths(&self.path).map_err(|error| {
            let hint = "* stands for a part of a name, ** for directories, [a-c] for a letter";
            CommandError::usage(format!("not a path pattern: {error}"), hint)
        })?;
        Ok(Filter {
            from: self.from,
            to: self.to,
            processes: self.process.clone(),
            ranks: self.rank.clone(),
            threads: self.thread.clone(),
            kinds: (!self.kind.is_empty()).then(|| Kinds::of(&kinds)),
            paths,
            without_layers: !layers,
        })
    }
}

/// A time in nanoseconds: a number with a unit, seconds without one.
fn time(text: &str) -> Result<u64, String> {
    let units = [("ns", 1.0), ("us", 1e3), ("µs", 1e3), ("ms", 1e6), ("min", 6e10), ("s", 1e9)];
    let unit = units.into_iter().find(|(unit, _)| text.ends_with(unit)).unwrap_or(("", 1e9));
    let number = text.strip_suffix(unit.0).unwrap_or(text).trim();
    match number.parse::<f64>() {
        Ok(number) if number.is_finite() && number >= 0.0 => Ok((number * unit.1).round() as u64),
        _ => Err("not a time; write 2s, 1500ms, 20us or 3min".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        for (text, nanoseconds) in [
            ("2", 2_000_000_000),
            ("2s", 2_000_000_000),
            ("1.5 s", 1_500_000_000),
            ("1500ms", 1_500_000_000),
            ("20us", 20_000),
            ("20µs", 20_000),
            ("7ns", 7),
            ("3min", 180_000_000_000),
        ] {
            assert_eq!(time(text), Ok(nanoseconds), "{text}");
        }
        for text in ["", "s", "-1s", "2h", "nan"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn kinds_have_names() {
        let selection =
            Selection { kind: vec!["read".into(), "mkdir".into()], ..Selection::default() };
        let kinds = selection.filter().unwrap().kinds.unwrap();
        assert_eq!(kinds.iter().collect::<Vec<_>>(), [Kind::Read, Kind::MakeDirectory]);
        assert!(selection.filter().unwrap().without_layers);
        let selection = Selection { kind: vec!["mpi-io".into()], ..Selection::default() };
        let filter = selection.filter().unwrap();
        assert_eq!((filter.kinds, filter.without_layers), (Some(Kinds::NONE), false));
        assert!(!Selection::default().filter().unwrap().without_layers);
        let selection = Selection { kind: vec!["raed".into()], ..Selection::default() };
        assert!(selection.filter().unwrap_err().to_string().contains("raed"));
        let selection = Selection { from: Some(2), to: Some(2), ..Selection::default() };
        assert!(selection.filter().is_err());
    }
}
