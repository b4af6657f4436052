//! `striate nc index`: where the chunks of a netCDF-4 file are, as a document of references by
//! which others read it as a Zarr store without copying it.

mod divided;
mod references;
mod zarr;

use std::io::{self, BufWriter, Write as _};
use std::path::PathBuf;

use clap::Args;
use divided::IndexedPart;
use references::{IndexError, IndexedFile};
use serde::Serialize;

use super::hdf5_file::{MissingPartitions, Recognized, recognize, unreadable};
use super::store;
use crate::document::Document;
use crate::number::counted;
use crate::output::write_whole;
use crate::{CommandError, terminal};

/// Write where the chunks of a netCDF-4 file are, for readers of Zarr
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc index model.nc -o model.json
  striate nc index model.nc --url s3://bucket/model.nc -o model.json

  In Python, with the packages fsspec, zarr and xarray:
    xarray.open_dataset('reference://', engine='zarr', backend_kwargs={
        'consolidated': False, 'storage_options': {'fo': 'model.json'}})

The document is of version 1 of kerchunk's references. Strings of variable length, sequences, and variables
with filters that Zarr's readers do not have are left out, and named on standard error.

Of a partitioned dataset the references name the files of all partitions. With --url, partitions in or below
the directory of the master have the same place beside the URL. A divided variable with filters must be divided
at multiples of its chunks, or it is left out.")]
pub(crate) struct IndexArgs {
    /// The file that is written [default: standard output]
    #[arg(short = 'o', long, value_name = "FILE")]
    output: Option<PathBuf>,

    /// What references name as the file [default: the path or URL as given]
    #[arg(long)]
    url: Option<String>,

    /// The dataset, a netCDF-4 or other HDF5 file: a path or a URL
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// What was written; a row of the JSON document.
#[derive(Debug, Default, Serialize)]
struct IndexSummary {
    file: String,
    output: String,
    variables: u64,
    references: u64,
    left_out: Vec<LeftOut>,
}

/// A variable that is not in the references.
#[derive(Debug, Serialize)]
struct LeftOut {
    path: String,
    reason: String,
}

pub(crate) fn run(args: &IndexArgs, json: bool) -> Result<(), CommandError> {
    if json && args.output.is_none() {
        return Err(CommandError::usage(
            "--json and the references cannot both be on standard output",
            "-o FILE writes the references to a file",
        ));
    }
    let opened = match recognize(&args.file)? {
        Recognized::Hdf5(opened) => {
            opened.with_partitions(&args.file, MissingPartitions::Refuse)?
        }
        Recognized::ForAnotherRank => return Ok(()),
        Recognized::Other => {
            // Perhaps it cannot be opened at all.
            store(&args.file)?;
            return Err(CommandError::failed(
                format!("cannot index {}", args.file.display()),
                "it is not a file of HDF5",
                "'striate nc info FILE' shows what it is",
            ));
        }
    };
    let url = args.url.clone().unwrap_or_else(|| opened.name.clone());
    let parts = IndexedPart::all_of(&args.file, &opened, args.url.as_deref())?;
    let indexed = IndexedFile::new(&opened, url, parts);
    let mut summary = IndexSummary { file: opened.name.clone(), ..IndexSummary::default() };
    let mut unread = None;
    let mut write = |out: &mut dyn io::Write| match indexed.write(out, &mut summary) {
        Ok(()) => Ok(()),
        Err(IndexError::Write(error)) => Err(error),
        Err(IndexError::Read(error)) => {
            unread = Some(error);
            Err(io::Error::other("the file cannot be read"))
        }
    };
    let written = if let Some(path) = &args.output {
        write_whole(path, write)
    } else {
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        write(&mut out).and_then(|()| out.flush())
    };
    if let Some(error) = unread {
        return Err(unreadable("cannot read where chunks are", error));
    }
    match written {
        // A reader that went away needs no more.
        Err(error) if args.output.is_none() && error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(source) => {
            let path = args.output.clone().unwrap_or_else(|| "standard output".into());
            return Err(CommandError::Write { path, source });
        }
        Ok(()) => {}
    }
    for LeftOut { path, reason } in &summary.left_out {
        // If standard error is closed, the document is complete all the same.
        let _ = writeln!(io::stderr(), "{}: left out: {path}: {reason}", opened.name);
    }
    let Some(output) = &args.output else { return Ok(()) };
    summary.output = output.display().to_string();
    if json {
        return Document::new(vec![summary], Vec::new()).print();
    }
    terminal::print(&format!(
        "{}: {} with {}\n",
        summary.output,
        counted(summary.variables, "variable"),
        counted(summary.references, "reference"),
    ))
}
