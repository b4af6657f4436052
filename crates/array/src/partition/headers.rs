//! Headers of the master and of the partitions, derived from the logical header that the program
//! defines, and back.
//!
//! All of them are headers of plain netCDF files. The files are linked by attributes with reserved
//! names, which the program never sees: [`PartitionTable`] in the master, [`PartitionIdentity`] in
//! each partition.

use std::collections::{HashMap, HashSet};

use super::scheme::{DividedIndices, Division, PartitionScheme};
use super::stored_storage;
use crate::format::{
    Attribute, Dimension, Format, Group, Header, StorageLayout, StorageOptions, Type, Values,
    Variable, check_name,
};
use crate::{ArrayError, Owner};

/// The size of a partition: the end of its fixed variables, and the bytes of one record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PartitionSize {
    pub(crate) fixed_end: u64,
    pub(crate) record_size: u64,
}

impl PartitionSize {
    /// As the values of an attribute.
    const fn to_words(self) -> [u64; 2] {
        [self.fixed_end, self.record_size]
    }

    const fn from_words([fixed_end, record_size]: [u64; 2]) -> Self {
        Self { fixed_end, record_size }
    }
}

/// The partitions of a dataset, as its master lists them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionTable {
    /// 32 hexadecimal digits, drawn when the dataset is created.
    pub(crate) id: String,
    /// Incremented by every redefinition.
    pub(crate) generation: u64,
    /// The file name of the master.
    pub(crate) master: String,
    /// The partitions, by the names under which the master lists them.
    pub(crate) files: Vec<String>,
    pub(crate) sizes: Vec<PartitionSize>,
    /// The result of the probe of the storage targets, if there was one: a summary, and a line for
    /// each target.
    pub(crate) probe: Option<String>,
}

impl PartitionTable {
    /// The identity of partition `k`.
    pub(crate) fn identity_of(
        &self,
        k: usize,
        master_reference: Option<MasterReference>,
    ) -> PartitionIdentity {
        PartitionIdentity {
            id: self.id.clone(),
            generation: self.generation,
            master: self.master.clone(),
            index: k as u64,
            count: self.files.len() as u64,
            size: self.sizes[k],
            master_reference,
        }
    }
}

/// The attributes by which a partition identifies itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartitionIdentity {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) master: String,
    pub(crate) index: u64,
    pub(crate) count: u64,
    pub(crate) size: PartitionSize,
    /// Absent in partitions of earlier versions.
    pub(crate) master_reference: Option<MasterReference>,
}

/// The master that a partition belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MasterReference {
    /// Its name: relative to the directory of the partition, absolute, or a URL.
    pub(crate) master: String,
    /// Inode and birth time of its file, which survive a rename; `None` if they are not known.
    pub(crate) file: Option<String>,
}

/// The name of a master is padded to a multiple of this, so that it can be replaced without moving
/// data.
const REFERENCE_STEP: usize = 256;

impl MasterReference {
    /// Whether it does not depend on the directory of the partition.
    pub(crate) fn is_absolute(&self) -> bool {
        self.master.starts_with('/') || self.master.contains("://")
    }

    /// Writes it to attributes, replacing existing ones.
    pub(crate) fn write_to(&self, attributes: &mut Vec<Attribute>) {
        let mut name = self.master.clone().into_bytes();
        name.resize(name.len().max(1).next_multiple_of(REFERENCE_STEP), 0);
        set(attributes, MASTER, Values::Char(name));
        let file = self.file.clone().unwrap_or_else(|| "unknown".into());
        let mut file = file.into_bytes();
        file.resize(file.len().next_multiple_of(REFERENCE_STEP / 4), 0);
        set(attributes, MASTER_FILE, Values::Char(file));
    }

    fn of(attributes: &[Attribute]) -> Option<Self> {
        let known = |name| text(attributes, name).filter(|text| !text.is_empty());
        Some(Self {
            master: known(MASTER)?,
            file: known(MASTER_FILE).filter(|file| file != "unknown"),
        })
    }
}

const ID: &str = "striate_dataset_id";
const GENERATION: &str = "striate_generation";
const COUNT: &str = "partition_count";
const FILES: &str = "partition_files";
const SIZES: &str = "partition_sizes";
const PROBE: &str = "partition_probe";
const INDEX: &str = "partition_index";
const SIZE: &str = "partition_size";
const OF: &str = "partition_of";
const MASTER: &str = "partition_master";
const MASTER_FILE: &str = "partition_master_file";
const COORDINATES: &str = "partition_coordinates";
const NOTE: &str = "partition_note";
const DIMENSIONS: &str = "partition_dimensions";
const DIMENSION: &str = "partition_dim";
const RANGES: &str = "partition_ranges";
const CHUNKS: &str = "partition_chunks";
const FILTERS: &str = "partition_filters";
/// Lengths of unlimited dimensions: a netCDF-4 file has them only by the variables that it has.
const LENGTHS: &str = "partition_lengths";
/// See [`super::commit`].
pub(super) const COMMITS: &str = "partition_commits";

const OF_DATASET: [&str; 15] = [
    ID,
    GENERATION,
    COUNT,
    FILES,
    SIZES,
    PROBE,
    INDEX,
    SIZE,
    OF,
    MASTER,
    MASTER_FILE,
    COORDINATES,
    NOTE,
    LENGTHS,
    COMMITS,
];
const OF_VARIABLE: [&str; 7] = [DIMENSIONS, DIMENSION, COUNT, RANGES, NOTE, CHUNKS, FILTERS];

/// Text in the master for users of other tools.
const MASTER_NOTE: &str = "This file is the master of a partitioned dataset. Variables that have an attribute \
partition_note are scalars here; their data is divided into the files that partition_files lists, relative to \
this one. 'striate nc join THIS_FILE WHOLE_FILE' makes one file of all. Other tools read the partitions: \
xarray.open_mfdataset(PARTITION_FILES, combine=\"by_coords\") if all variables are divided along one dimension \
that has a coordinate variable; otherwise the attributes range(DIMENSION) of the variables in each partition \
say which indices it has.";

/// Text in the scalar that represents a divided variable.
fn scalar_note(logical: &Header, variable: &Variable, division: &Division) -> String {
    let name = |id: &u32| logical.dimensions.get(*id as usize).map_or("", |it| it.name.as_str());
    let names: Vec<&str> = variable.dimensions.iter().map(name).collect();
    format!(
        "This scalar holds no data: it represents a variable ({}), divided along {} into {} partitions; \
         see the attribute partition_note of the file",
        names.join(", "),
        names.get(division.dimension).unwrap_or(&""),
        division.ranges.len()
    )
}

/// Whether the name of an attribute is reserved in partitioned datasets.
pub(crate) fn is_reserved(name: &str, owner: Owner) -> bool {
    match owner {
        Owner::Global | Owner::Group(_) => is_reserved_global(name),
        Owner::Variable(_) => is_reserved_of_variable(name),
    }
}

fn is_reserved_global(name: &str) -> bool {
    OF_DATASET.contains(&name)
}

fn is_reserved_of_variable(name: &str) -> bool {
    OF_VARIABLE.contains(&name) || (name.starts_with("range(") && name.ends_with(')'))
}

/// Numbers as the values of an attribute, in the smallest type of the format that represents them
/// exactly.
fn numbers(format: Format, what: &str, numbers: &[u64]) -> Result<Values, ArrayError> {
    let refuse = || ArrayError::Definition {
        what: format!("attribute '{what}'"),
        reason: format!("{format} has no type that holds such large numbers; CDF-5 does"),
    };
    if Type::Int64.is_in(format) {
        let numbers = numbers.iter().map(|&number| i64::try_from(number));
        return Ok(Values::Int64(numbers.collect::<Result<_, _>>().map_err(|_| refuse())?));
    }
    let ints: Result<Vec<i32>, _> = numbers.iter().map(|&number| i32::try_from(number)).collect();
    match ints {
        Ok(ints) => Ok(Values::Int(ints)),
        Err(_) if numbers.iter().all(|&number| number <= 1 << 53) => {
            Ok(Values::Double(numbers.iter().map(|&number| number as f64).collect()))
        }
        Err(_) => Err(refuse()),
    }
}

/// The values of an attribute as unsigned integers, if they are such.
pub(crate) fn numbers_of(values: &Values) -> Option<Vec<u64>> {
    fn all<T: Copy + TryInto<u64>>(list: &[T]) -> Option<Vec<u64>> {
        list.iter().map(|&number| number.try_into().ok()).collect()
    }
    match values {
        Values::Byte(list) => all(list),
        Values::Short(list) => all(list),
        Values::Int(list) => all(list),
        Values::Int64(list) => all(list),
        Values::UByte(list) => all(list),
        Values::UShort(list) => all(list),
        Values::UInt(list) => all(list),
        Values::UInt64(list) => Some(list.clone()),
        Values::Double(list) => {
            let whole = |&number: &f64| {
                (number >= 0.0 && number <= 2_f64.powi(53) && number.fract() == 0.0)
                    .then_some(number as u64)
            };
            list.iter().map(whole).collect()
        }
        Values::Char(_) | Values::Float(_) | Values::Stored(_) => None,
    }
}

fn add(attributes: &mut Vec<Attribute>, name: &str, values: Values) {
    attributes.push(Attribute { name: name.into(), values });
}

/// Sets an attribute, replacing one with the same name.
fn set(attributes: &mut Vec<Attribute>, name: &str, values: Values) {
    match attributes.iter_mut().find(|attribute| attribute.name == name) {
        Some(attribute) => attribute.values = values,
        None => add(attributes, name, values),
    }
}

/// The header of the master, in which divided variables are scalars.
pub(crate) fn master(
    logical: &Header,
    scheme: &PartitionScheme,
    table: &PartitionTable,
) -> Result<Header, ArrayError> {
    let mut header = logical.clone();
    let format = header.format;
    let number = |what, list: &[u64]| numbers(format, what, list);
    for (variable, division) in header.variables.iter_mut().zip(&scheme.variables) {
        let Some(division) = division else { continue };
        let note = scalar_note(logical, variable, division);
        // A scalar has the byte order alone.
        let byte_order = variable.storage.byte_order;
        let of_scalar = StorageOptions { byte_order, ..StorageOptions::default() };
        let storage = std::mem::replace(&mut variable.storage, of_scalar);
        let dimensions: Vec<u64> = variable.dimensions.drain(..).map(u64::from).collect();
        let ends = division.ranges.iter().flat_map(|range| [range.start, range.end - 1]);
        let ends: Vec<u64> = ends.collect();
        let attributes = &mut variable.attributes;
        add(attributes, NOTE, note.as_str().into());
        add(attributes, DIMENSIONS, number(DIMENSIONS, &dimensions)?);
        add(attributes, DIMENSION, number(DIMENSION, &[division.dimension as u64])?);
        add(attributes, COUNT, number(COUNT, &[division.ranges.len() as u64])?);
        add(attributes, RANGES, number(RANGES, &ends)?);
        if let StorageLayout::Chunked(shape) = &storage.layout {
            add(attributes, CHUNKS, number(CHUNKS, shape)?);
        }
        if !storage.filters.is_empty() {
            let text = stored_storage::filters_to_text(&storage.filters);
            add(attributes, FILTERS, text.as_str().into());
        }
    }
    let sizes: Vec<[u64; 2]> = table.sizes.iter().map(|size| size.to_words()).collect();
    let attributes = &mut header.attributes;
    add(attributes, NOTE, MASTER_NOTE.into());
    if !scheme.coordinates.is_empty() {
        add(attributes, COORDINATES, coordinate_list(logical, scheme)?);
    }
    add(attributes, ID, table.id.as_str().into());
    add(attributes, GENERATION, number(GENERATION, &[table.generation])?);
    add(attributes, COUNT, number(COUNT, &[scheme.count as u64])?);
    add(attributes, FILES, table.files.join("\n").into());
    if !format.is_hdf5() {
        add(attributes, SIZES, number(SIZES, sizes.as_flattened())?);
    }
    if let Some(probe) = &table.probe {
        add(attributes, PROBE, probe.as_str().into());
    }
    Ok(header)
}

/// The coordinate variables that are copied to partitions, as an attribute: their numbers in a
/// classic file; in a netCDF-4 file, which has variables in the order of groups, their paths.
fn coordinate_list(logical: &Header, scheme: &PartitionScheme) -> Result<Values, ArrayError> {
    let all = scheme.coordinates.iter();
    if !logical.format.is_hdf5() {
        let list: Vec<u64> = all.map(|&index| index as u64).collect();
        return numbers(logical.format, COORDINATES, &list);
    }
    let path = |&index: &usize| {
        let variable = &logical.variables[index];
        logical.path(variable.group, &variable.name)
    };
    Ok(all.map(path).collect::<Vec<_>>().join("\n").into())
}

/// The coordinate variables that a master lists; `None` if it lists none, or not properly.
fn listed_coordinates(master: &Header) -> Option<Vec<usize>> {
    let list = find(&master.attributes, COORDINATES)?;
    if !master.format.is_hdf5() {
        return Some(numbers_of(list)?.into_iter().map(|index| index as usize).collect());
    }
    let paths = text(&master.attributes, COORDINATES)?;
    let known: HashMap<String, usize> = master
        .variables
        .iter()
        .enumerate()
        .map(|(index, variable)| (master.path(variable.group, &variable.name), index))
        .collect();
    let mut all: Vec<usize> =
        paths.lines().map(|path| known.get(path).copied()).collect::<Option<_>>()?;
    all.sort_unstable();
    Some(all)
}

/// Sets the attribute of a netCDF-4 master that has the lengths of unlimited dimensions; whether it
/// has changed.
pub(crate) fn set_lengths(master: &mut Header, logical: &Header) -> Result<bool, ArrayError> {
    let unlimited = (0..).zip(&logical.dimensions).filter(|(_, it)| it.is_unlimited());
    let pairs: Vec<u64> = unlimited.flat_map(|(id, it)| [id, it.len]).collect();
    let values = numbers(master.format, LENGTHS, &pairs)?;
    let known = find(&master.attributes, LENGTHS);
    if pairs.is_empty() || known.is_some_and(|known| known.is_same(&values)) {
        return Ok(false);
    }
    set(&mut master.attributes, LENGTHS, values);
    Ok(true)
}

/// Sets the lengths of unlimited dimensions that a netCDF-4 master states; the error is the
/// attribute at fault.
fn restore_lengths(logical: &mut Header, master: &Header) -> Result<(), &'static str> {
    let Some(values) = find(&master.attributes, LENGTHS) else { return Ok(()) };
    let pairs = numbers_of(values).ok_or(LENGTHS)?;
    for &[id, len] in pairs.as_chunks().0 {
        let id = usize::try_from(id).map_err(|_| LENGTHS)?;
        let dimension = logical.dimensions.get_mut(id).filter(|it| it.is_unlimited());
        let dimension = dimension.ok_or(LENGTHS)?;
        dimension.len = dimension.len.max(len);
    }
    Ok(())
}

/// The dimensions that divided variables also use undivided: the undivided use keeps the name.
fn used_whole(logical: &Header, scheme: &PartitionScheme) -> HashSet<u32> {
    let mut used = HashSet::new();
    for (variable, division) in logical.variables.iter().zip(&scheme.variables) {
        let Some(division) = division else { continue };
        let uses = variable.dimensions.iter().enumerate();
        used.extend(uses.filter(|(at, _)| *at != division.dimension).map(|(_, id)| *id));
    }
    used
}

/// The dimensions of a partition, collected as its variables use them.
struct PartitionDimensions<'a> {
    logical: &'a Header,
    list: Vec<Dimension>,
    /// For each dimension of the dataset, its index in the partition: undivided, and divided.
    ids: Vec<[Option<u32>; 2]>,
}

impl PartitionDimensions<'_> {
    fn id(&mut self, id: u32, divided: Option<(u64, &str)>) -> u32 {
        // In the group of the dimension of the dataset, since a partition has the same groups.
        let slot = &mut self.ids[id as usize][usize::from(divided.is_some())];
        if let Some(known) = *slot {
            return known;
        }
        let own = self.list.len() as u32;
        *slot = Some(own);
        let whole = &self.logical.dimensions[id as usize];
        self.list.push(match divided {
            None => whole.clone(),
            Some((len, name)) => Dimension { group: whole.group, ..Dimension::classic(name, len) },
        });
        own
    }
}

/// The header of partition `k`.
pub(crate) fn partition(
    logical: &Header,
    scheme: &PartitionScheme,
    k: usize,
    identity: &PartitionIdentity,
) -> Result<Header, ArrayError> {
    let format = logical.format;
    let number = |what: &str, list: &[u64]| numbers(format, what, list);
    let mut ids = vec![[None, None]; logical.dimensions.len()];
    // The names of undivided dimensions are reserved, whether this partition uses them or not.
    let mut names: HashSet<(u32, String)> =
        logical.dimensions.iter().map(|it| (it.group, it.name.clone())).collect();
    let mut part_names: Vec<Option<String>> = vec![None; logical.dimensions.len()];
    let used_whole = used_whole(logical, scheme);
    for (variable, division) in logical.variables.iter().zip(&scheme.variables) {
        let Some(division) = division else { continue };
        let id = variable.dimensions[division.dimension];
        let Dimension { name: own, group, .. } = &logical.dimensions[id as usize];
        let name = &mut part_names[id as usize];
        if name.is_none() && !used_whole.contains(&id) {
            *name = Some(own.clone());
        } else if name.is_none() {
            let mut new = format!("{own}_part");
            while names.contains(&(*group, new.clone())) {
                new.push('_');
            }
            check_name(&new)?;
            names.insert((*group, new.clone()));
            *name = Some(new);
        }
    }
    // Dimensions in the order of their first use: it does not change when definitions are added.
    let mut dimensions =
        PartitionDimensions { logical, list: Vec::new(), ids: std::mem::take(&mut ids) };
    let mut header = Header::new(format);
    header.records = logical.records;
    // All groups, so that their numbers are those of the dataset; attributes are in the master.
    let bare = |group: &Group| Group { attributes: Vec::new(), ..group.clone() };
    header.groups = logical.groups.iter().map(bare).collect();

    let taken: HashSet<(u32, &str)> =
        logical.variables.iter().map(|it| (it.group, it.name.as_str())).collect();
    for member in scheme.members(logical, k) {
        let whole = &logical.variables[member.variable];
        let mut own = Vec::new();
        for (position, &id) in whole.dimensions.iter().enumerate() {
            let name = part_names[id as usize].as_deref().unwrap_or_default();
            let divided = member.indices.as_ref().filter(|it| it.position == position);
            let divided = divided.map(|it| (it.range.end - it.range.start, name));
            own.push(dimensions.id(id, divided));
        }
        let mut variable = Variable { dimensions: own, begin: 0, stated_size: 0, ..whole.clone() };
        if let Some(DividedIndices { position, range }) = &member.indices {
            let divided = whole.dimensions[*position] as usize;
            let name = format!("range({})", logical.dimensions[divided].name);
            check_name(&name)?;
            add(&mut variable.attributes, &name, number(&name, &[range.start, range.end - 1])?);
            if let StorageLayout::Chunked(shape) = &mut variable.storage.layout
                && let Some(len) = shape.get_mut(*position)
            {
                *len = (*len).min(range.end - range.start);
            }
        }
        if member.is_copy {
            // It is written by one rank alone, which chunks with filters do not permit.
            variable.storage.filters.clear();
            // A coordinate variable has the name that its dimension has in the partition.
            let dimension = variable.dimensions.first().map(|&id| &dimensions.list[id as usize]);
            variable.name = dimension.map_or_else(String::new, |it| it.name.clone());
            while variable.name != whole.name
                && taken.contains(&(whole.group, variable.name.as_str()))
            {
                variable.name.push('_');
            }
        }
        header.variables.push(variable);
    }
    header.dimensions = dimensions.list;
    let attributes = &mut header.attributes;
    add(attributes, INDEX, number(INDEX, &[identity.index])?);
    add(attributes, COUNT, number(COUNT, &[identity.count])?);
    add(attributes, ID, identity.id.as_str().into());
    add(attributes, GENERATION, number(GENERATION, &[identity.generation])?);
    if !format.is_hdf5() {
        add(attributes, SIZE, number(SIZE, &identity.size.to_words())?);
    }
    add(attributes, OF, identity.master.as_str().into());
    if let Some(master_reference) = &identity.master_reference {
        master_reference.write_to(attributes);
    }
    Ok(header)
}

pub(super) fn find<'h>(attributes: &'h [Attribute], name: &str) -> Option<&'h Values> {
    attributes.iter().find(|attribute| attribute.name == name).map(|attribute| &attribute.values)
}

fn text(attributes: &[Attribute], name: &str) -> Option<String> {
    match find(attributes, name)? {
        Values::Char(bytes) => {
            let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            String::from_utf8(bytes[..end].to_vec()).ok()
        }
        _ => None,
    }
}

pub(super) fn number(attributes: &[Attribute], name: &str) -> Option<u64> {
    match numbers_of(find(attributes, name)?)?.as_slice() {
        [number] => Some(*number),
        _ => None,
    }
}

/// The identity in the header of a partition; `None` for the header of another file.
pub(crate) fn partition_identity(header: &Header) -> Option<PartitionIdentity> {
    let attributes = &header.attributes;
    Some(PartitionIdentity {
        id: text(attributes, ID)?,
        generation: number(attributes, GENERATION)?,
        master: text(attributes, OF)?,
        index: number(attributes, INDEX)?,
        count: number(attributes, COUNT)?,
        size: match find(attributes, SIZE) {
            None if header.format.is_hdf5() => PartitionSize::default(),
            size => PartitionSize::from_words(numbers_of(size?)?.try_into().ok()?),
        },
        master_reference: MasterReference::of(attributes),
    })
}

/// The size of a partition with that header; `None` if it overflows. That of a netCDF-4 file does
/// not follow from its definitions, and is not stated.
pub(crate) fn size_of(header: &Header) -> Option<PartitionSize> {
    if header.format.is_hdf5() {
        return Some(PartitionSize::default());
    }
    Some(PartitionSize { fixed_end: header.end_of(0)?, record_size: header.record_size()? })
}

/// Whether a header is that of a master.
pub(crate) fn is_master(header: &Header) -> bool {
    let attributes = &header.attributes;
    find(attributes, ID).is_some() && find(attributes, FILES).is_some()
}

/// The id and the list of partitions in the header of a master.
pub(crate) fn files_of(header: &Header) -> Option<(String, Vec<String>)> {
    let id = text(&header.attributes, ID)?;
    let files = text(&header.attributes, FILES)?;
    Some((id, files.lines().map(str::to_owned).collect()))
}

/// Replaces the list of partitions in the header of a master.
pub(crate) fn set_partition_list(header: &mut Header, names: &[String]) {
    if let Some(list) = header.attributes.iter_mut().find(|attribute| attribute.name == FILES) {
        list.values = names.join("\n").into();
    }
}

/// The logical header of a master, its scheme and its table; `None` for the header of a plain file.
/// The error is a reason.
pub(crate) fn logical_of(
    master: &Header,
    name: &str,
) -> Result<Option<(Header, PartitionScheme, PartitionTable)>, String> {
    if !is_master(master) {
        return Ok(None);
    }
    let attributes = &master.attributes;
    let damaged = |what: &str| format!("its attribute '{what}' is invalid");
    let (id, files) = files_of(master).ok_or_else(|| damaged(FILES))?;
    let generation = number(attributes, GENERATION).ok_or_else(|| damaged(GENERATION))?;
    let count = number(attributes, COUNT).ok_or_else(|| damaged(COUNT))?;
    if files.len() as u64 != count || count == 0 || files.iter().any(String::is_empty) {
        return Err(damaged(FILES));
    }
    let sizes = match find(attributes, SIZES) {
        None if master.format.is_hdf5() => vec![0; 2 * files.len()],
        sizes => sizes.and_then(numbers_of).unwrap_or_default(),
    };
    let (sizes, rest) = sizes.as_chunks::<2>();
    if sizes.len() != files.len() || !rest.is_empty() {
        return Err(damaged(SIZES));
    }
    let mut logical = master.clone();
    logical.attributes.retain(|attribute| !is_reserved_global(&attribute.name));
    restore_lengths(&mut logical, master).map_err(damaged)?;
    for variable in &mut logical.variables {
        restore_storage(variable)?;
    }
    let variables = restore_variables(
        &mut logical,
        |variable| division_of(master, variable, count),
        is_reserved_of_variable,
    )?;
    let coordinates = listed_coordinates(master).unwrap_or_default();
    let is_in_order = coordinates.windows(2).all(|pair| pair[0] < pair[1]);
    let is_one = |&index: &usize| {
        let in_master = variables.get(index).is_some_and(Option::is_none);
        in_master && logical.variables[index].dimensions.len() == 1
    };
    let is_absent = find(attributes, COORDINATES).is_none();
    if !is_absent && (coordinates.is_empty() || !is_in_order || !coordinates.iter().all(is_one)) {
        return Err(damaged(COORDINATES));
    }
    let scheme = PartitionScheme { count: files.len(), variables, coordinates };
    let (master, sizes, probe) = (
        name.into(),
        sizes.iter().copied().map(PartitionSize::from_words).collect(),
        text(attributes, PROBE),
    );
    Ok(Some((logical, scheme, PartitionTable { id, generation, master, files, sizes, probe })))
}

/// Sets how a divided variable is stored, by the attributes of the scalar that represents it.
fn restore_storage(variable: &mut Variable) -> Result<(), String> {
    let damaged =
        |what: &str| format!("attribute '{what}' of variable '{}' is invalid", variable.name);
    let Some(ids) = find(&variable.attributes, DIMENSIONS) else { return Ok(()) };
    let rank = numbers_of(ids).map_or(0, |ids| ids.len());
    let byte_order = variable.storage.byte_order;
    let mut storage = StorageOptions { byte_order, ..StorageOptions::default() };
    if let Some(shape) = find(&variable.attributes, CHUNKS) {
        let shape = numbers_of(shape).filter(|shape| shape.len() == rank && !shape.contains(&0));
        storage.layout = StorageLayout::Chunked(shape.ok_or_else(|| damaged(CHUNKS))?);
    }
    if find(&variable.attributes, FILTERS).is_some() {
        let filters = text(&variable.attributes, FILTERS);
        let filters = filters.and_then(|text| stored_storage::filters_from_text(&text));
        storage.filters = filters.ok_or_else(|| damaged(FILTERS))?;
    }
    variable.storage = storage;
    Ok(())
}

/// The dimensions of the divided variable that a scalar of a master represents; `None` if they are
/// not valid.
pub(super) fn dimensions_of_scalar(
    master: &Header,
    scalar: &Variable,
    ids: &Values,
) -> Option<Vec<u32>> {
    let known =
        |id: u64| u32::try_from(id).ok().filter(|&id| (id as usize) < master.dimensions.len());
    let ids = numbers_of(ids)?.into_iter().map(known).collect::<Option<Vec<u32>>>()?;
    let is_unlimited = |&id: &u32| master.dimensions[id as usize].is_unlimited();
    let is_valid = scalar.dimensions.is_empty()
        && (master.format.is_hdf5() || !ids.iter().skip(1).any(is_unlimited));
    is_valid.then_some(ids)
}

/// Replaces the scalars that represent divided variables by the variables themselves. `division_of`
/// returns the dimensions and the division of a scalar, and `is_reserved` says which attributes it
/// drops.
pub(super) fn restore_variables<E: std::fmt::Display>(
    logical: &mut Header,
    division_of: impl Fn(&Variable) -> Result<Option<(Vec<u32>, Division)>, E>,
    is_reserved: impl Fn(&str) -> bool,
) -> Result<Vec<Option<Division>>, String> {
    let mut divisions = Vec::new();
    for variable in &mut logical.variables {
        let division = division_of(variable).map_err(|attribute| {
            let name = &variable.name;
            format!("attribute '{attribute}' of variable '{name}' is invalid")
        })?;
        if let Some((dimensions, _)) = &division {
            variable.dimensions.clone_from(dimensions);
            variable.attributes.retain(|attribute| !is_reserved(&attribute.name));
            (variable.begin, variable.stated_size) = (0, 0);
        }
        divisions.push(division.map(|(_, division)| division));
    }
    Ok(divisions)
}

/// The division of a variable of a master. The error is the attribute at fault.
fn division_of(
    master: &Header,
    variable: &Variable,
    count: u64,
) -> Result<Option<(Vec<u32>, Division)>, &'static str> {
    let attributes = &variable.attributes;
    let Some(ids) = find(attributes, DIMENSIONS) else { return Ok(None) };
    let dimensions = dimensions_of_scalar(master, variable, ids).ok_or(DIMENSIONS)?;
    let dimension = number(attributes, DIMENSION).and_then(|n| usize::try_from(n).ok());
    let dimension = dimension.filter(|&n| n < dimensions.len()).ok_or(DIMENSION)?;
    let divided = &master.dimensions[dimensions[dimension] as usize];
    if divided.is_unlimited() {
        return Err(DIMENSION);
    }
    let len = divided.len;
    let ends = find(attributes, RANGES).and_then(numbers_of).ok_or(RANGES)?;
    let (pairs, rest) = ends.as_chunks::<2>();
    let mut next = 0;
    let mut ranges = Vec::new();
    for &[first, last] in pairs {
        if first != next || last < first || last >= len {
            return Err(RANGES);
        }
        next = last + 1;
        ranges.push(first..next);
    }
    if next != len || !rest.is_empty() || ranges.is_empty() || ranges.len() as u64 > count {
        return Err(RANGES);
    }
    if number(attributes, COUNT) != Some(ranges.len() as u64) {
        return Err(COUNT);
    }
    Ok(Some((dimensions, Division { dimension, ranges })))
}
