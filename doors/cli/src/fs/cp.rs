//! `striate fs cp`: copies files to servers and pools, from them and between them.

use std::time::Instant;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use striate_datatype::{Bytes, parse_size};
use striate_store::remote::Layout;

use super::copy::{self, CopyJob, Location, UnfinishedCopies};
use super::supervised::{spinner, supervised};
use crate::document::Document;
use crate::number::{counted, short};
use crate::{CommandError, terminal};

/// Copy files to servers, from servers, or between them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate fs cp out.dat striate://io.example/run7/
  striate fs cp --strip 1MiB --servers 4 out.dat striate://io.example/run7/out.dat
  striate fs cp -r striate://io.example/run7 results
  striate fs cp striate://io.example/a striate://other.example/a
  striate fs cp -r results rados://pool/run7/
  striate fs cp -r results s3://bucket/run7            publish a directory tree as objects
  striate fs cp s3://bucket/run7/out.nc .

As with cp, a source is copied into the destination if that is a directory. A destination on servers
is a directory if it ends with a slash or if there are files in it. Only data is copied: no times, no
permissions, and no directories without files. A copy has a temporary name, .NAME.part-..., until it is
complete; if it fails, this file is removed, or the message names it. The file of a copy that was killed
is removed when the same file is copied again, or by 'striate fsck --repair'; in a pool, it remains until
'striate fs rm' removes it. Files in pools have strips of 4 MiB.

An object is uploaded in parts of 8 MiB or more, --threads of them at a time, and appears when all parts are
there. If the copy fails, its upload is aborted; 'striate fs rm --unfinished' removes what a killed copy has
left. AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY say where the server is and who asks.")]
pub(crate) struct CpArgs {
    /// Copy directories with their contents
    #[arg(short, long)]
    recursive: bool,

    /// Bytes of a strip of new files on servers
    #[arg(long, value_name = "SIZE", default_value = "64KiB", value_parser = strip)]
    strip: u64,

    /// Number of servers that new files are striped over [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    servers: Option<u32>,

    /// The server of the first strip, by its index in the list of servers [default: in turn]
    #[arg(long, value_name = "K")]
    first: Option<u32>,

    /// Chunks of 4 MiB, or parts of objects, that are transferred at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    threads: u16,

    /// What to copy: files and URLs
    #[arg(required = true, value_name = "SOURCE", value_parser = place())]
    sources: Vec<Location>,

    /// Where to
    #[arg(value_name = "DESTINATION", value_parser = place())]
    destination: Location,
}

fn place() -> impl TypedValueParser<Value = Location> {
    OsStringValueParser::new().try_map(Location::new)
}

fn strip(text: &str) -> Result<u64, String> {
    let strip = parse_size(text).map_err(|error| error.to_string())?;
    if (512..=1 << 30).contains(&strip) {
        Ok(strip)
    } else {
        Err(format!("a strip of {} is not between 512 bytes and 1 GiB", Bytes(strip)))
    }
}

/// A file that was copied; a row of the JSON document.
#[derive(Debug, Serialize)]
struct CopyRow {
    from: String,
    to: String,
    bytes: u64,
}

pub(crate) fn run(args: &CpArgs, json: bool) -> Result<(), CommandError> {
    let layout = Layout { strip: args.strip, servers: args.servers, first: args.first };
    let left = UnfinishedCopies::default();
    let interrupted = || {
        left.added_to(CommandError::failed("the copy is not complete", "it was interrupted", ""))
    };
    let (rows, copied, seconds) = supervised(interrupted, |stop| {
        let looking = spinner("looking for what to copy");
        let jobs = copy::plan(&args.sources, &args.destination, args.recursive);
        looking.finish_and_clear();
        let jobs = jobs?;
        let rows: Vec<CopyRow> = jobs.iter().map(row).collect();
        let bar = progress_bar(&jobs);
        let start = Instant::now();
        let copied = copy::run(jobs, layout, args.threads.into(), &bar, &left, stop);
        bar.finish_and_clear();
        Ok((rows, copied?, start.elapsed().as_secs_f64()))
    })?;
    if json {
        let with_bytes = |(row, bytes)| CopyRow { bytes, ..row };
        let rows = rows.into_iter().zip(copied).map(with_bytes).collect();
        return Document::new(rows, Vec::new()).print();
    }
    let bytes: u64 = copied.iter().sum();
    let rate = bytes as f64 / seconds.max(1e-9) / f64::from(1 << 20);
    terminal::print(&format!(
        "copied {}, {} in {seconds:.3} s ({} MiB/s)\n",
        counted(copied.len() as u64, "file"),
        Bytes(bytes),
        short(rate)
    ))
}

fn row(job: &CopyJob) -> CopyRow {
    CopyRow { from: job.from.to_string(), to: job.to.to_string(), bytes: 0 }
}

/// Shows itself on a terminal only.
fn progress_bar(jobs: &[CopyJob]) -> ProgressBar {
    let style = "{bar:24} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta} {wide_msg}";
    let style = ProgressStyle::with_template(style);
    ProgressBar::new(jobs.iter().map(|job| job.bytes).sum())
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
