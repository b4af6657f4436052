//! Transfer of a dataset's definitions and data to another one: the common part of `copy`, `split`
//! and `join`.
//!
//! Ranks take batches of the data, each with one in memory. What is written has another name until
//! it is whole, as the copies of `striate fs cp` have, so there is never a destination that is half
//! there, and what was there before is only replaced by something whole.

mod copied_types;
mod destination;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use copied_types::CopiedTypes;
use destination::Destination;
use indicatif::ProgressBar;
use serde::Serialize;
use striate_array::format::{Alignment, Header, Values, Variable};
use striate_array::{
    ArrayError, Char, Dataset, Definition, Elements, Format, GroupId, Options, Owner, Pending,
    Slab, Type, VariableId,
};
use striate_comm::{Comm, CommExt as _, Reduction, agree};
use striate_process::part_file::Existing;

use super::batches::{VariablePart, batches, block_batches};
use super::copy_selection::CopySelection;
use super::copy_storage::CopyStorage;
use super::missing_values::MissingValues;
use super::signal_watch::{Leftover, SignalWatch};
use super::{failed, info, open, store, validate};
use crate::{CommandError, ranks};

/// Bytes of values that a rank has in memory, between classic files.
const BATCH: u64 = 16 << 20;
/// The same if one of the files has chunks: blocks that hold many of them read few twice.
const CHUNKED_BATCH: u64 = 64 << 20;

const NOT_COMPLETE: &str = "the copy is not complete";

/// What is to be done.
#[derive(Debug)]
pub(super) struct Work<'a> {
    pub(super) source: &'a Path,
    pub(super) destination: &'a Path,
    /// That of the source if not given.
    pub(super) format: Option<Format>,
    /// What becomes of a destination that exists.
    pub(super) existing: Existing,
    /// Variables that the source must have, because something is asked for them.
    pub(super) named: Vec<&'a str>,
    /// How variables of a netCDF-4 copy are stored.
    pub(super) storage: &'a CopyStorage,
    /// What is copied.
    pub(super) selection: &'a CopySelection,
    /// Bytes of values that a rank has in memory, if that was said.
    pub(super) memory: Option<u64>,
}

/// What was done; a row of the JSON document.
#[derive(Debug, Serialize)]
pub(super) struct TransferRow {
    from: String,
    to: String,
    pub(super) format: String,
    ranks: usize,
    pub(super) variables: usize,
    records: u64,
    /// Bytes of all values.
    pub(super) data_size: u64,
    /// Of the source and of what was written, if they have some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partitions_from: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) partitions: Option<usize>,
    /// What the targets were found to be worth, if they were probed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) probe: Option<String>,
    pub(super) seconds: f64,
}

/// Does it, with so many ranks; what is written is laid out as `options` says on every rank. `None`
/// in processes that are not the first of their job.
pub(super) fn run(
    work: &Work<'_>,
    ranks: u64,
    options: impl Fn() -> Result<Options, CommandError> + Sync,
) -> Result<Option<TransferRow>, CommandError> {
    let interrupt = SignalWatch::new(Leftover::Nothing("nothing was written"))?;
    let start = Instant::now();
    let done = ranks::run(ranks, |comm| {
        let mut options = options()?;
        options.probe.stop = Some(Arc::clone(interrupt.stop()));
        transfer(work, options, comm, &interrupt)
    });
    drop(interrupt);
    Ok(done?.map(|row| TransferRow { seconds: start.elapsed().as_secs_f64(), ..row }))
}

/// Does it, as one of the ranks.
fn transfer(
    work: &Work<'_>,
    mut options: Options,
    comm: &Arc<dyn Comm>,
    interrupt: &SignalWatch,
) -> Result<TransferRow, CommandError> {
    let (bar, stop) = (interrupt.bar(), interrupt.stop());
    let mut from = open(comm, work.source)?;
    let header = from.header().clone();
    let divides = options.partitioning.enabled;
    let format = work.format.unwrap_or(header.format);
    check_request(work, &from, format)?;
    let infos = from.partitions().unwrap_or_default();
    let divided: BTreeSet<usize> =
        infos.iter().flat_map(|info| &info.variables).map(|it| it.variable).collect();
    // A damaged header is an error of its own; missing values are reported below.
    if !header.format.is_hdf5() {
        MissingValues::of(work.source, &from)?;
        check(work, &header, &divided, format, divides)?;
    }
    let selected = work.selection.of(&header);
    let (header, chosen) = (selected.header, selected.variables);
    let target = Destination::new(comm.as_ref(), work.destination, work.existing, divides)?;
    let failed = |error| failed("cannot write the copy", error);
    options.exclusive = target.is_new();
    if comm.rank() == 0 {
        interrupt.leaves(target.leaves());
    }
    let mut definition =
        Dataset::create(comm, target.created_as(), format, &options).map_err(failed)?;
    if let Err(error) = target.claim(comm.as_ref()) {
        let _ = definition.abort();
        return Err(error);
    }
    if let Err(error) = define(&mut definition, &header, work.storage) {
        // The first error says more than one about what it left.
        let _ = definition.abort();
        return Err(failed(error));
    }
    let mut to = match definition.end() {
        Ok(to) => to,
        Err(error) => {
            target.discard();
            return Err(failed(error));
        }
    };
    let data_size = header.variables.iter().map(|variable| info::size(&header, variable)).sum();
    if comm.rank() == 0 {
        bar.set_length(data_size);
    }
    let records = records_of(&header);
    let moved = grow_all(&mut to, &header).map_err(failed).and_then(|()| {
        let moved = MovedData { header: &header, chosen: &chosen, memory: work.memory };
        moved.move_all(comm.as_ref(), &mut from, &mut to, bar, stop)
    });
    let moved = moved.and_then(|()| {
        if !format.is_hdf5() {
            to.grow(records).map_err(failed)?;
        }
        to.sync().map_err(failed)
    });
    if let Err(error) = moved {
        let _ = to.abort();
        return Err(error);
    }
    let partitions = to.partitions().map(<[_]>::len);
    let probe = to.partition_probe().and_then(|report| report.lines().next()).map(str::to_owned);
    to.close().map_err(failed)?;
    if comm.rank() == 0 {
        let complete = Leftover::Unfinished(format!("{} is complete", work.destination.display()));
        interrupt.between(|| target.finish(comm.as_ref()), complete)?;
    } else {
        target.finish(comm.as_ref())?;
    }
    Ok(TransferRow {
        from: work.source.display().to_string(),
        to: work.destination.display().to_string(),
        format: format.to_string(),
        ranks: comm.size(),
        variables: header.variables.len(),
        records,
        data_size,
        partitions_from: from.partitions().map(<[_]>::len),
        partitions,
        probe,
        seconds: 0.0,
    })
}

/// What was asked for and cannot be, whatever the data are.
fn check_request(work: &Work<'_>, from: &Dataset, format: Format) -> Result<(), CommandError> {
    let header = from.header();
    let path = |variable: &Variable| header.path(variable.group, &variable.name);
    let missing = |name: &&&str| header.variables.iter().all(|variable| path(variable) != **name);
    if let Some(name) = work.named.iter().find(missing) {
        return Err(CommandError::failed(
            format!("cannot divide {}", work.source.display()),
            format!("there is no variable '{name}'"),
            "'striate nc header FILE' shows which variables there are",
        ));
    }
    if let Some(name) = work.storage.unknown_dimension(header) {
        return Err(CommandError::failed(
            format!("cannot copy {}", work.source.display()),
            format!("there is no dimension '{name}'"),
            "'striate nc header FILE' shows which dimensions there are",
        ));
    }
    if work.storage.needs_netcdf4() && !format.is_hdf5() {
        return Err(CommandError::failed(
            format!("cannot copy {}", work.source.display()),
            format!("{format} has neither chunks nor filters"),
            "use '--format netcdf4'",
        ));
    }
    if let Some(name) = work.selection.unknown(header, from.hidden()) {
        return Err(CommandError::failed(
            format!("cannot copy {}", work.source.display()),
            format!("there is no '{name}'"),
            "'striate nc header FILE' shows which variables and groups there are",
        ));
    }
    let is_whole = work.selection.is_whole();
    let is_chosen = |path: &str| is_whole || work.selection.has_variable(path);
    let mut hidden = from.hidden().iter().filter(|(path, _)| is_chosen(path));
    if let Some((path, reason)) = hidden.next() {
        let more = hidden.count();
        let others = if more > 0 { format!(", and {more} more") } else { String::new() };
        return Err(CommandError::failed(
            format!("cannot copy {}", work.source.display()),
            format!("'{path}' cannot be copied: {reason}{others}"),
            "--exclude leaves a variable out; nccopy copies such files",
        ));
    }
    for variable in &header.variables {
        if !variable.external.is_in(format) && header.format.is_hdf5() {
            let (name, of) = (&variable.name, header.type_name(variable.external));
            return Err(CommandError::failed(
                format!("cannot copy {}", work.source.display()),
                format!("variable '{name}' is of type {of}, which {format} does not have"),
                match variable.external {
                    Type::String | Type::Text(_) | Type::User(_) => "use '--format netcdf4'",
                    _ => "use '--format cdf5' or '--format netcdf4'",
                },
            ));
        }
    }
    Ok(())
}

/// Finds out before anything is written what cannot be copied.
fn check(
    work: &Work<'_>,
    header: &Header,
    divided: &BTreeSet<usize>,
    format: Format,
    divides: bool,
) -> Result<(), CommandError> {
    let cannot = |error: String, hint: &str| {
        CommandError::failed(format!("cannot copy {}", work.source.display()), error, hint)
    };
    // Of a partitioned dataset this is the master; partitions are looked at when they are opened.
    let (_, decoded, len) = validate::header(store(work.source)?.as_ref())?;
    if let Ok((mut own, _)) = decoded {
        if own.records == Header::STREAMING {
            own.records = own.records_in(len);
        }
        // What stands for variables that are in partitions has no data.
        let mut index = 0;
        own.variables.retain(|_| {
            index += 1;
            !divided.contains(&(index - 1))
        });
        if let Some(end) = end_of_data(&own).filter(|end| *end > len) {
            let reason =
                format!("it is cut off: its data ends at byte {end}, the file at byte {len}");
            return Err(cannot(reason, "obtain it again from its source"));
        }
    }
    if divides {
        // What its files hold is found out when they are laid out.
        return Ok(());
    }
    let mut target = Header { format, ..header.clone() };
    let alignment = Alignment { header: 1, fixed: 1, fixed_from: 0, record: 1 };
    target.arrange(&alignment, None).map_err(|error| {
        let hint = match format {
            Format::Cdf5 | Format::Netcdf4 | Format::Netcdf4Classic => "",
            _ => "--format cdf5 has room for it",
        };
        cannot(error.to_string(), hint)
    })
}

/// Where the last value ends: bytes after it are padding. `None` if no file is that long.
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

/// The length of the unlimited dimension; of several, of the first.
fn records_of(header: &Header) -> u64 {
    let unlimited = header.dimensions.iter().find(|dimension| dimension.is_unlimited());
    let len = unlimited.map_or(0, |dimension| dimension.len);
    if header.format.is_hdf5() { len } else { header.records }
}

/// Gives the unlimited dimensions of a netCDF-4 copy their lengths.
fn grow_all(to: &mut Dataset, header: &Header) -> Result<(), ArrayError> {
    if !to.header().format.is_hdf5() {
        return Ok(());
    }
    let dimensions: Vec<_> = to.dimensions().collect();
    for (dimension, id) in header.dimensions.iter().zip(dimensions) {
        if to.header().dimensions[id.index()].is_unlimited() {
            let is_record = dimension.is_unlimited() && !header.format.is_hdf5();
            to.grow_dimension(id, if is_record { header.records } else { dimension.len })?;
        }
    }
    Ok(())
}

/// Defines what is copied.
fn define(
    definition: &mut Definition,
    header: &Header,
    storage: &CopyStorage,
) -> Result<(), ArrayError> {
    let mut groups = vec![GroupId::ROOT];
    for group in &header.groups {
        definition.enter(groups[group.parent as usize])?;
        let defined = definition.group(&group.name)?;
        groups.push(defined);
    }
    let types = CopiedTypes::define(definition, header, &groups)?;
    for (group, &defined) in header.groups.iter().zip(&groups[1..]) {
        for attribute in &group.attributes {
            let values = types.values(&attribute.values, definition.format());
            definition.attribute(defined, &attribute.name, values)?;
        }
    }
    let mut dimensions = Vec::new();
    for dimension in &header.dimensions {
        definition.enter(groups[dimension.group as usize])?;
        let grows = dimension.is_unlimited() || storage.unlimited.contains(&dimension.name);
        dimensions.push(if grows {
            definition.unlimited(&dimension.name)?
        } else {
            definition.dimension(&dimension.name, dimension.len)?
        });
    }
    for attribute in &header.attributes {
        let values = types.values(&attribute.values, definition.format());
        definition.attribute(Owner::Global, &attribute.name, values)?;
    }
    for variable in &header.variables {
        definition.enter(groups[variable.group as usize])?;
        let of: Vec<_> =
            variable.dimensions.iter().map(|&index| dimensions[index as usize]).collect();
        let defined = definition.variable(&variable.name, types.of(variable.external), &of)?;
        for attribute in &variable.attributes {
            let values = types.values(&attribute.values, definition.format());
            definition.attribute(defined, &attribute.name, values)?;
        }
        if definition.format().is_hdf5() {
            let stored = storage.of(header, variable);
            definition.storage(defined, stored)?;
        }
    }
    Ok(())
}

/// What moves from one dataset to the other.
struct MovedData<'a> {
    /// The definitions of what is copied.
    header: &'a Header,
    /// The index in the source of each variable.
    chosen: &'a [usize],
    memory: Option<u64>,
}

impl MovedData<'_> {
    /// All of it, in batches of bounded memory.
    fn batches<'s>(&'s self, to: &'s Header) -> Box<dyn Iterator<Item = Vec<VariablePart>> + 's> {
        if self.header.format.is_hdf5() || to.format.is_hdf5() {
            return block_batches(self.header, to, self.memory.unwrap_or(CHUNKED_BATCH));
        }
        batches(self.header, self.memory.unwrap_or(BATCH))
    }

    /// Moves all data. The ranks go on together from batch to batch, so they also end together.
    fn move_all(
        &self,
        comm: &dyn Comm,
        from: &mut Dataset,
        to: &mut Dataset,
        bar: &ProgressBar,
        stop: &AtomicBool,
    ) -> Result<(), CommandError> {
        let header = self.header;
        let of_source: Vec<VariableId> = from.variables().collect();
        let of_source: Vec<VariableId> = self.chosen.iter().map(|&at| of_source[at]).collect();
        let of_copy: Vec<VariableId> = to.variables().collect();
        let written = to.header().clone();
        let rounds = self.batches(&written).count().div_ceil(comm.size());
        let all = self.batches(&written);
        let mut mine: Box<dyn Iterator<Item = Vec<VariablePart>>> =
            if from.partitions().is_some() || to.partitions().is_some() {
                // Ranks that are far from each other have to do with different partitions.
                Box::new(all.skip(comm.rank() * rounds).take(rounds))
            } else {
                Box::new(all.skip(comm.rank()).step_by(comm.size()))
            };
        for _ in 0..rounds {
            let mine = mine.next().unwrap_or_default();
            let read = if stop.load(Ordering::SeqCst) {
                Err("it was interrupted".to_owned())
            } else {
                read(from, header, &of_source, &mine).map_err(|error| error.to_string())
            };
            let values = agree(comm, read).map_err(not_complete)?;
            let mut pending = Pending::new();
            let begun = mine.iter().zip(&values).try_for_each(|(part, values)| {
                begin_to_write(to, &mut pending, of_copy[part.variable], &slab(part), values)
            });
            agree(comm, begun.map_err(|error| error.to_string())).map_err(not_complete)?;
            to.wait_all(pending).map_err(|error| CommandError::failed(NOT_COMPLETE, error, ""))?;
            let bytes = mine.iter().map(|part| part.bytes).sum();
            let bytes = comm.reduce_u64(Reduction::Sum, bytes)?;
            if comm.rank() == 0 {
                bar.inc(bytes);
            }
        }
        Ok(())
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

fn slab(part: &VariablePart) -> Slab {
    Slab::new(&part.start, &part.count)
}

/// Reads a batch, in one access.
fn read(
    from: &mut Dataset,
    header: &Header,
    ids: &[VariableId],
    parts: &[VariablePart],
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
                    // Read below.
                    Values::Stored(_) => {}
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
    for (part, values) in parts.iter().zip(&mut read) {
        if let Values::Stored(stored) = values {
            stored.elements = from.elements(ids[part.variable], &slab(part))?;
        }
    }
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
                Values::Stored(list) => to.iput_elements(pending, id, slab, &list.elements),
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
        of @ (Type::String | Type::Text(_) | Type::User(_)) => Values::stored(of, Elements::new()),
    }
}
