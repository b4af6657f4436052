//! `striate nc copy`: a dataset to another place, or into another format.
//!
//! Ranks take batches of the data in turn, each with one in memory. The copy has another name until it
//! is whole, as that of `striate fs cp` has, so there is never a destination that is half there, and
//! what was there before is only replaced by a whole copy.

mod target;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use striate_array::format::{Alignment, Header, Values};
use striate_array::{
    ArrayError, Char, Dataset, Definition, Format, Owner, Pending, Slab, Type, VariableId,
};
use striate_comm::{Comm, agree};
use striate_datatype::Bytes;
use target::Target;

use super::batches::{Part, batches};
use super::{RanksArgs, failed, info, open, options, store};
use crate::document::Document;
use crate::number::short;
use crate::{CommandError, ranks, signals, terminal};

/// Bytes that a rank has in memory.
const BATCH: u64 = 16 << 20;

const NOT_COMPLETE: &str = "the copy is not complete";

/// Copy a dataset, into another format if asked for
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  striate nc copy --format cdf5 ocean.nc ocean5.nc
  striate nc copy ocean.nc striate://io.example/run7/ocean.nc
  mpiexec -n 16 striate nc copy striate://io.example/run7/ocean.nc ocean.nc

Everything is kept but the layout: dimensions, variables and attributes in their order, and all data.
STRIATE_HINTS may say how the copy is laid out (nc_header_align_size and the like). The copy has
another name, .NAME.part-..., until it is whole.")]
pub(crate) struct CopyArgs {
    /// The format of the copy: cdf1, cdf2 or cdf5 [default: that of the source]
    #[arg(short = 'k', long, value_name = "FORMAT")]
    format: Option<Format>,

    /// Replace a destination that exists
    #[arg(short, long)]
    force: bool,

    #[command(flatten)]
    ranks: RanksArgs,

    /// What to copy: a path or a URL
    #[arg(value_name = "SOURCE")]
    source: PathBuf,

    /// Where to: a path or a URL
    #[arg(value_name = "DESTINATION")]
    destination: PathBuf,
}

/// What was copied; a row of the JSON document.
#[derive(Debug, Serialize)]
struct Row {
    from: String,
    to: String,
    format: String,
    ranks: usize,
    variables: usize,
    records: u64,
    /// Bytes of all values.
    data_size: u64,
    seconds: f64,
}

pub(crate) fn run(args: &CopyArgs, json: bool) -> Result<(), CommandError> {
    let stop = signals::flag()?;
    let bar = progress_bar();
    let start = Instant::now();
    let copied = ranks::run(args.ranks.count(), |comm| copy(args, comm, &bar, &stop));
    bar.finish_and_clear();
    let Some(mut row) = copied? else { return Ok(()) };
    row.seconds = start.elapsed().as_secs_f64();
    if json {
        return Document::new(vec![row], Vec::new()).print();
    }
    let rate = row.data_size as f64 / row.seconds.max(1e-9) / f64::from(1 << 20);
    terminal::print(&format!(
        "copied {} variables, {} to {} in {:.3} s ({} MiB/s)\n",
        row.variables,
        Bytes(row.data_size),
        row.format,
        row.seconds,
        short(rate)
    ))
}

/// Copies, as one of the ranks.
fn copy(
    args: &CopyArgs,
    comm: &Arc<dyn Comm>,
    bar: &ProgressBar,
    stop: &AtomicBool,
) -> Result<Row, CommandError> {
    let mut from = open(comm, &args.source)?;
    let header = from.header().clone();
    let format = args.format.unwrap_or(header.format);
    check(args, &header, format)?;
    let target = Target::new(comm.as_ref(), &args.destination, args.force)?;
    let failed = |error| failed("cannot write the copy", error);
    let mut options = options()?;
    options.exclusive = true;
    let mut definition = Dataset::create(comm, target.part(), format, &options).map_err(failed)?;
    if let Err(error) = define(&mut definition, &header) {
        // The first error says more than one about what it left.
        let _ = definition.abort();
        return Err(failed(error));
    }
    let mut to = match definition.end() {
        Ok(to) => to,
        Err(error) => {
            target.discard(comm.as_ref());
            return Err(failed(error));
        }
    };
    let data_size = header.variables.iter().map(|variable| info::size(&header, variable)).sum();
    if comm.rank() == 0 {
        bar.set_length(data_size);
    }
    let moved = move_all(comm.as_ref(), &mut from, &mut to, bar, stop);
    let moved = moved.and_then(|()| {
        to.grow(header.records).map_err(failed)?;
        to.sync().map_err(failed)
    });
    if let Err(error) = moved {
        let _ = to.abort();
        return Err(error);
    }
    to.close().map_err(failed)?;
    target.finish(comm.as_ref())?;
    Ok(Row {
        from: args.source.display().to_string(),
        to: args.destination.display().to_string(),
        format: format.to_string(),
        ranks: comm.size(),
        variables: header.variables.len(),
        records: header.records,
        data_size,
        seconds: 0.0,
    })
}

/// Finds out before anything is written what cannot be copied.
fn check(args: &CopyArgs, header: &Header, format: Format) -> Result<(), CommandError> {
    let len = store(&args.source)?.len()?;
    if let Some(end) = end_of_data(header).filter(|end| *end > len) {
        return Err(CommandError::failed(
            format!("cannot copy {}", args.source.display()),
            format!("it is cut off: its data ends at byte {end}, the file at byte {len}"),
            "get it again from where it came from",
        ));
    }
    let mut target = Header { format, ..header.clone() };
    let alignment = Alignment { header: 1, fixed: 1, fixed_from: 0, record: 1 };
    target.arrange(&alignment, None).map_err(|error| {
        let hint = match format {
            Format::Cdf5 => "",
            _ => "--format cdf5 has room for it",
        };
        CommandError::failed(format!("cannot copy {}", args.source.display()), error, hint)
    })
}

/// Where the last value ends: what is behind it, or before records that there are none of, is nobody's
/// loss. `None` if no file is that long.
fn end_of_data(header: &Header) -> Option<u64> {
    let mut end = 0;
    for variable in &header.variables {
        let slab = header.slab_size(variable)?;
        let last = match (header.is_record(variable), header.records.checked_sub(1)) {
            (false, _) => 0,
            (true, Some(last)) => header.record_size()?.checked_mul(last)?,
            (true, None) => continue,
        };
        end = end.max(variable.begin.checked_add(last)?.checked_add(slab)?);
    }
    Some(end)
}

/// Defines what the source defines.
fn define(definition: &mut Definition, header: &Header) -> Result<(), ArrayError> {
    let mut dimensions = Vec::new();
    for dimension in &header.dimensions {
        dimensions.push(if dimension.is_unlimited() {
            definition.unlimited(&dimension.name)?
        } else {
            definition.dimension(&dimension.name, dimension.len)?
        });
    }
    for attribute in &header.attributes {
        definition.attribute(Owner::Global, &attribute.name, attribute.values.clone())?;
    }
    for variable in &header.variables {
        let of: Vec<_> =
            variable.dimensions.iter().map(|&index| dimensions[index as usize]).collect();
        let defined = definition.variable(&variable.name, variable.external, &of)?;
        for attribute in &variable.attributes {
            definition.attribute(defined, &attribute.name, attribute.values.clone())?;
        }
    }
    Ok(())
}

/// Moves all data. The ranks go on together from batch to batch, so they also end together.
fn move_all(
    comm: &dyn Comm,
    from: &mut Dataset,
    to: &mut Dataset,
    bar: &ProgressBar,
    stop: &AtomicBool,
) -> Result<(), CommandError> {
    let header = from.header().clone();
    let ids: Vec<VariableId> = from.variables().collect();
    let mut batches = batches(&header, BATCH);
    loop {
        let round: Vec<Vec<Part>> = batches.by_ref().take(comm.size()).collect();
        if round.is_empty() {
            return Ok(());
        }
        let mine = round.get(comm.rank()).map(Vec::as_slice).unwrap_or_default();
        let read = if stop.load(Ordering::SeqCst) {
            Err("it was interrupted".to_owned())
        } else {
            read(from, &header, &ids, mine).map_err(|error| error.to_string())
        };
        let values = agree(comm, read).map_err(not_complete)?;
        let mut pending = Pending::new();
        let begun = mine.iter().zip(&values).try_for_each(|(part, values)| {
            begin_to_write(to, &mut pending, ids[part.variable], &slab(part), values)
        });
        agree(comm, begun.map_err(|error| error.to_string())).map_err(not_complete)?;
        to.wait_all(pending).map_err(|error| CommandError::failed(NOT_COMPLETE, error, ""))?;
        if comm.rank() == 0 {
            bar.inc(round.iter().flatten().map(|part| part.bytes).sum());
        }
    }
}

fn not_complete(error: striate_comm::CommError) -> CommandError {
    match error {
        striate_comm::CommError::RankFailed { reason, .. } => {
            CommandError::failed(NOT_COMPLETE, reason, "")
        }
        error => error.into(),
    }
}

fn slab(part: &Part) -> Slab {
    Slab::new(&part.start, &part.count)
}

/// Reads a batch, in one access.
fn read(
    from: &mut Dataset,
    header: &Header,
    ids: &[VariableId],
    parts: &[Part],
) -> Result<Vec<Values>, ArrayError> {
    let mut read: Vec<Values> = parts
        .iter()
        .map(|part| {
            let elements = part.count.iter().product::<u64>() as usize;
            zeros(header.variables[part.variable].external, elements)
        })
        .collect();
    let mut pending = Pending::new();
    for (part, values) in parts.iter().zip(&mut read) {
        let (id, slab) = (ids[part.variable], slab(part));
        macro_rules! begin {
            ($($variant:ident),+) => {
                match values {
                    Values::Char(list) => {
                        from.iget(&mut pending, id, &slab, Char::slice_mut(list))?;
                    }
                    $(Values::$variant(list) => from.iget(&mut pending, id, &slab, list)?,)+
                }
            };
        }
        begin!(Byte, Short, Int, Float, Double, UByte, UShort, UInt, Int64, UInt64);
    }
    from.wait(pending)?;
    Ok(read)
}

fn begin_to_write<'v>(
    to: &Dataset,
    pending: &mut Pending<'v>,
    id: VariableId,
    slab: &Slab,
    values: &'v Values,
) -> Result<(), ArrayError> {
    macro_rules! begin {
        ($($variant:ident),+) => {
            match values {
                Values::Char(list) => to.iput(pending, id, slab, Char::slice(list)),
                $(Values::$variant(list) => to.iput(pending, id, slab, list),)+
            }
        };
    }
    begin!(Byte, Short, Int, Float, Double, UByte, UShort, UInt, Int64, UInt64)
}

/// Room for so many values.
fn zeros(external: Type, elements: usize) -> Values {
    match external {
        Type::Byte => Values::Byte(vec![0; elements]),
        Type::Char => Values::Char(vec![0; elements]),
        Type::Short => Values::Short(vec![0; elements]),
        Type::Int => Values::Int(vec![0; elements]),
        Type::Float => Values::Float(vec![0.0; elements]),
        Type::Double => Values::Double(vec![0.0; elements]),
        Type::UByte => Values::UByte(vec![0; elements]),
        Type::UShort => Values::UShort(vec![0; elements]),
        Type::UInt => Values::UInt(vec![0; elements]),
        Type::Int64 => Values::Int64(vec![0; elements]),
        Type::UInt64 => Values::UInt64(vec![0; elements]),
    }
}

/// Shows itself on a terminal only, and in one process only.
fn progress_bar() -> ProgressBar {
    if !ranks::speaks() {
        return ProgressBar::hidden();
    }
    let style = "{bar:24} {bytes}/{total_bytes} {binary_bytes_per_sec} {eta}";
    let style = ProgressStyle::with_template(style);
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
