//! `striate trace import`: imports the output of other tools as recordings.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use serde::Serialize;
use striate_recording::import::{self, Imported, Options};

use super::bar::RecordingBar;
use crate::document::Document;
use crate::number::{counted, grouped};
use crate::{CommandError, terminal};

/// Import the output of strace or Darshan as a recording
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  strace -f -ttt -T -y -s 256 -o strace.txt ./simulation
  striate trace import strace.txt -o run.trace
  darshan-dxt-parser job.darshan > dxt.txt
  striate trace import dxt.txt -o run.trace
  striate trace import job.darshan -o run.trace          a log with DXT  striate trace import strace.txt --directory /home/me/run -o run.trace

Lines that cannot be parsed are counted, and the first ones are shown; the rest is imported.")]
pub(super) struct ImportArgs {
    /// The file to import
    file: PathBuf,
    /// The new recording
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// The format of the file, if it is not detected
    #[arg(long, value_enum)]
    format: Option<ImportFormatArg>,
    /// Directory in which the program was started, for relative paths, if it is not in the file
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ImportFormatArg {
    /// strace -f -ttt -T, with -y or without
    Strace,
    /// darshan-dxt-parser
    Dxt,
    /// a Darshan log with extended traces (DXT)
    Darshan,
}

/// What was imported; the row of the JSON document.
#[derive(Debug, Serialize)]
struct ImportRow {
    output: PathBuf,
    format: import::ImportFormat,
    #[serde(flatten)]
    imported: Imported,
}

pub(super) fn run(args: &ImportArgs, json: bool) -> Result<(), CommandError> {
    let format = args.format.map(|format| match format {
        ImportFormatArg::Strace => import::ImportFormat::Strace,
        ImportFormatArg::Dxt => import::ImportFormat::Dxt,
        ImportFormatArg::Darshan => import::ImportFormat::Darshan,
    });
    let bar = RecordingBar::new()?;
    let progress = Arc::clone(bar.progress());
    let options = Options { format, directory: args.directory.clone(), progress };
    let imported = import::import(&args.file, &options, &args.output);
    bar.end(|| super::nothing_left(&args.output))?;
    let (format, imported) = imported.map_err(super::refused)?;
    let answer = ImportRow { output: args.output.clone(), format, imported };
    if json {
        return Document::new(vec![answer], Vec::new()).print();
    }
    terminal::print(&answer.text())
}

impl ImportRow {
    fn text(&self) -> String {
        let Imported { lines, processes, records, unended, malformed, .. } = &self.imported;
        let from = match self.format {
            import::ImportFormat::Darshan => "a Darshan log".to_owned(),
            import::ImportFormat::Strace | import::ImportFormat::Dxt => counted(*lines, "line"),
        };
        let mut text = format!(
            "{} of {} from {from} in {}\n",
            counted(*records, "call"),
            counted(*processes, "process"),
            self.output.display(),
        );
        for missing in &self.imported.incomplete {
            let _ = writeln!(text, "  {missing}");
        }
        let elsewhere = match self.format {
            import::ImportFormat::Strace if self.imported.annotated => {
                "are on pipes, sockets and devices, which are not files"
            }
            import::ImportFormat::Strace => {
                "left out: on descriptors whose open was not seen ('strace -y' shows their files)"
            }
            import::ImportFormat::Dxt | import::ImportFormat::Darshan => {
                "left out: they move the same bytes as other calls"
            }
        };
        for (what, names) in [
            ("are not operations on files", &self.imported.skipped),
            (elsewhere, &self.imported.elsewhere),
        ] {
            let sum: u64 = names.values().sum();
            if sum > 0 {
                let _ = writeln!(text, "  {} calls {what}: {}", grouped(sum), listed(names));
            }
        }
        if *unended > 0 {
            let _ = writeln!(text, "  {} did not end", counted(*unended, "call"));
        }
        if *malformed > 0 {
            let what = if self.format == import::ImportFormat::Darshan { "calls" } else { "lines" };
            let _ = writeln!(text, "  {} {what} could not be parsed:", grouped(*malformed));
            for (line, shown) in &self.imported.first_malformed {
                let shown: String =
                    shown.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
                let _ = writeln!(text, "    {} {line}: {shown}", what.trim_end_matches('s'));
            }
        }
        text
    }
}

/// The names with most calls first.
fn listed(names: &BTreeMap<String, u64>) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<_> = names.iter().collect();
    names.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let more = names.len().saturating_sub(SHOWN);
    let shown = names.iter().take(SHOWN).map(|(name, count)| format!("{name} {count}"));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if more > 0 {
        let _ = write!(text, ", and {more} more names");
    }
    text
}
