//! Headers of the master and of the partitions, from the header that the program defined, and back.
//!
//! All of them are headers of plain netCDF files. What ties the files together are attributes: they are
//! reserved, and the program never sees them.

use std::collections::HashSet;

use super::scheme::{Along, Scheme};
use crate::ArrayError;
use crate::format::{Attribute, Dimension, Format, Header, Values, Variable, check_name};

/// Where the fixed part of a partition ends, and bytes of one record.
pub(crate) type Size = [u64; 2];

/// What ties the files of a dataset together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ties {
    /// 32 hexadecimal digits, drawn when the dataset is created.
    pub(crate) id: String,
    /// One more with every redefinition.
    pub(crate) generation: u64,
    /// The master's file name.
    pub(crate) master: String,
    /// The partitions, as the master names them.
    pub(crate) files: Vec<String>,
    pub(crate) sizes: Vec<Size>,
    /// What was found out about storage targets, if they were probed: a summary, and a line for each.
    pub(crate) probe: Option<String>,
}

/// What a partition says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartTies {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) master: String,
    pub(crate) index: u64,
    pub(crate) count: u64,
    pub(crate) size: Size,
    /// Absent in partitions of earlier versions.
    pub(crate) home: Option<Home>,
}

/// Which master a partition belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Home {
    /// Its name: relative to the directory of the partition, or absolute, or a URL.
    pub(crate) master: String,
    /// What its file is known by under any name, if that is known.
    pub(crate) file: Option<String>,
}

/// The name of a master is padded to a multiple of this, so that another one fits into its place.
const HOME_STEP: usize = 256;

impl Home {
    /// Whether it does not depend on where the partition is.
    pub(crate) fn is_absolute(&self) -> bool {
        self.master.starts_with('/') || self.master.contains("://")
    }

    /// Makes attributes of it, in the place of those that there are.
    pub(crate) fn write_to(&self, attributes: &mut Vec<Attribute>) {
        let mut name = self.master.clone().into_bytes();
        name.resize(name.len().max(1).next_multiple_of(HOME_STEP), 0);
        set(attributes, MASTER, Values::Char(name));
        let file = self.file.clone().unwrap_or_else(|| "unknown".into());
        let mut file = file.into_bytes();
        file.resize(file.len().next_multiple_of(HOME_STEP / 4), 0);
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

const OF_DATASET: [&str; 13] = [
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
];
const OF_VARIABLE: [&str; 5] = [DIMENSIONS, DIMENSION, COUNT, RANGES, NOTE];

/// What a master says to people who open it with other tools.
const READ_AS: &str = "This file is the master of a partitioned dataset. Variables that have an attribute \
partition_note are scalars here; their data is divided into the files that partition_files lists, relative to \
this one. 'striate nc join THIS_FILE WHOLE_FILE' makes one file of all. Other tools read the partitions: \
xarray.open_mfdataset(PARTITION_FILES, combine=\"by_coords\") if all variables are divided along one dimension \
that has a coordinate variable; otherwise the attributes range(DIMENSION) of the variables in each partition \
say which indices it has.";

/// What the scalar says that stands for a divided variable.
fn stands_for(logical: &Header, variable: &Variable, along: &Along) -> String {
    let name = |id: &u32| logical.dimensions.get(*id as usize).map_or("", |it| it.name.as_str());
    let names: Vec<&str> = variable.dimensions.iter().map(name).collect();
    format!(
        "This scalar is no data: it stands for a variable ({}), divided along {} into {} partitions; \
         see the attribute partition_note of the file",
        names.join(", "),
        names.get(along.dimension).unwrap_or(&""),
        along.ranges.len()
    )
}

/// Whether a partitioned dataset has an attribute of that name for itself.
pub(crate) fn is_reserved(name: &str, global: bool) -> bool {
    if global {
        OF_DATASET.contains(&name)
    } else {
        OF_VARIABLE.contains(&name) || (name.starts_with("range(") && name.ends_with(')'))
    }
}

/// Numbers as an attribute, in the smallest type of the format that holds them exactly.
fn numbers(format: Format, what: &str, numbers: &[u64]) -> Result<Values, ArrayError> {
    let refuse = || ArrayError::Definition {
        what: format!("attribute '{what}'"),
        reason: format!("{format} has no type that holds such large numbers; CDF-5 does"),
    };
    if format == Format::Cdf5 {
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

/// The numbers of an attribute, if that is what it holds.
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
        Values::Char(_) | Values::Float(_) => None,
    }
}

fn add(attributes: &mut Vec<Attribute>, name: &str, values: Values) {
    attributes.push(Attribute { name: name.into(), values });
}

/// Gives an attribute another value, or makes it.
fn set(attributes: &mut Vec<Attribute>, name: &str, values: Values) {
    match attributes.iter_mut().find(|attribute| attribute.name == name) {
        Some(attribute) => attribute.values = values,
        None => add(attributes, name, values),
    }
}

/// The master's header: divided variables are scalars there.
pub(crate) fn master(logical: &Header, scheme: &Scheme, ties: &Ties) -> Result<Header, ArrayError> {
    let mut header = logical.clone();
    let format = header.format;
    let number = |what, list: &[u64]| numbers(format, what, list);
    for (variable, along) in header.variables.iter_mut().zip(&scheme.variables) {
        let Some(along) = along else { continue };
        let note = stands_for(logical, variable, along);
        let dimensions: Vec<u64> = variable.dimensions.drain(..).map(u64::from).collect();
        let ends = along.ranges.iter().flat_map(|range| [range.start, range.end - 1]);
        let ends: Vec<u64> = ends.collect();
        let attributes = &mut variable.attributes;
        add(attributes, NOTE, note.as_str().into());
        add(attributes, DIMENSIONS, number(DIMENSIONS, &dimensions)?);
        add(attributes, DIMENSION, number(DIMENSION, &[along.dimension as u64])?);
        add(attributes, COUNT, number(COUNT, &[along.ranges.len() as u64])?);
        add(attributes, RANGES, number(RANGES, &ends)?);
    }
    let attributes = &mut header.attributes;
    add(attributes, NOTE, READ_AS.into());
    if !scheme.coordinates.is_empty() {
        let list: Vec<u64> = scheme.coordinates.iter().map(|&index| index as u64).collect();
        add(attributes, COORDINATES, number(COORDINATES, &list)?);
    }
    add(attributes, ID, ties.id.as_str().into());
    add(attributes, GENERATION, number(GENERATION, &[ties.generation])?);
    add(attributes, COUNT, number(COUNT, &[scheme.count as u64])?);
    add(attributes, FILES, ties.files.join("\n").into());
    add(attributes, SIZES, number(SIZES, ties.sizes.as_flattened())?);
    if let Some(probe) = &ties.probe {
        add(attributes, PROBE, probe.as_str().into());
    }
    Ok(header)
}

/// The dimensions that divided variables also use undivided: these keep their names for that.
fn used_whole(logical: &Header, scheme: &Scheme) -> HashSet<u32> {
    let mut used = HashSet::new();
    for (variable, along) in logical.variables.iter().zip(&scheme.variables) {
        let Some(along) = along else { continue };
        let uses = variable.dimensions.iter().enumerate();
        used.extend(uses.filter(|(at, _)| *at != along.dimension).map(|(_, id)| *id));
    }
    used
}

/// The dimensions of a partition.
struct Dimensions<'a> {
    logical: &'a Header,
    list: Vec<Dimension>,
    /// Of the dataset's dimensions, undivided and divided: which one it is here.
    ids: Vec<[Option<u32>; 2]>,
}

impl Dimensions<'_> {
    fn id(&mut self, id: u32, divided: Option<(u64, &str)>) -> u32 {
        let place = &mut self.ids[id as usize][usize::from(divided.is_some())];
        if let Some(known) = *place {
            return known;
        }
        let own = self.list.len() as u32;
        *place = Some(own);
        let whole = &self.logical.dimensions[id as usize];
        self.list.push(match divided {
            None => whole.clone(),
            Some((len, name)) => Dimension { name: name.into(), len },
        });
        own
    }
}

/// The header of partition `k`.
pub(crate) fn part(
    logical: &Header,
    scheme: &Scheme,
    k: usize,
    ties: &PartTies,
) -> Result<Header, ArrayError> {
    let format = logical.format;
    let number = |what: &str, list: &[u64]| numbers(format, what, list);
    let mut ids = vec![[None, None]; logical.dimensions.len()];
    // Names of undivided dimensions are taken, whether they are used here or not.
    let mut names: HashSet<String> = logical.dimensions.iter().map(|it| it.name.clone()).collect();
    let mut part_names: Vec<Option<String>> = vec![None; logical.dimensions.len()];
    let used_whole = used_whole(logical, scheme);
    for (variable, along) in logical.variables.iter().zip(&scheme.variables) {
        let Some(along) = along else { continue };
        let id = variable.dimensions[along.dimension];
        let own = &logical.dimensions[id as usize].name;
        let name = &mut part_names[id as usize];
        if name.is_none() && !used_whole.contains(&id) {
            *name = Some(own.clone());
        } else if name.is_none() {
            let mut new = format!("{own}_part");
            while names.contains(&new) {
                new.push('_');
            }
            check_name(&new)?;
            names.insert(new.clone());
            *name = Some(new);
        }
    }
    // In the order of the dataset, as far as they are used: it stays when definitions are added.
    let mut dimensions = Dimensions { logical, list: Vec::new(), ids: std::mem::take(&mut ids) };
    let mut header = Header::new(format);
    header.records = logical.records;

    let taken: HashSet<&str> = logical.variables.iter().map(|it| it.name.as_str()).collect();
    for member in scheme.members(logical, k) {
        let whole = &logical.variables[member.variable];
        let mut own = Vec::new();
        for (position, &id) in whole.dimensions.iter().enumerate() {
            let name = part_names[id as usize].as_deref().unwrap_or_default();
            let here = member.along.as_ref().filter(|(at, _)| *at == position);
            own.push(dimensions.id(id, here.map(|(_, range)| (range.end - range.start, name))));
        }
        let mut variable = Variable { dimensions: own, begin: 0, stated_size: 0, ..whole.clone() };
        if let Some((position, range)) = &member.along {
            let divided = whole.dimensions[*position] as usize;
            let name = format!("range({})", logical.dimensions[divided].name);
            check_name(&name)?;
            add(&mut variable.attributes, &name, number(&name, &[range.start, range.end - 1])?);
        }
        if member.is_copy {
            // A coordinate is called as its dimension is here.
            let dimension = variable.dimensions.first().map(|&id| &dimensions.list[id as usize]);
            variable.name = dimension.map_or_else(String::new, |it| it.name.clone());
            while variable.name != whole.name && taken.contains(variable.name.as_str()) {
                variable.name.push('_');
            }
        }
        header.variables.push(variable);
    }
    header.dimensions = dimensions.list;
    let attributes = &mut header.attributes;
    add(attributes, INDEX, number(INDEX, &[ties.index])?);
    add(attributes, COUNT, number(COUNT, &[ties.count])?);
    add(attributes, ID, ties.id.as_str().into());
    add(attributes, GENERATION, number(GENERATION, &[ties.generation])?);
    add(attributes, SIZE, number(SIZE, &ties.size)?);
    add(attributes, OF, ties.master.as_str().into());
    if let Some(home) = &ties.home {
        home.write_to(attributes);
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

/// What the header of a partition says; `None` if it is that of another file.
pub(crate) fn part_ties(header: &Header) -> Option<PartTies> {
    let attributes = &header.attributes;
    Some(PartTies {
        id: text(attributes, ID)?,
        generation: number(attributes, GENERATION)?,
        master: text(attributes, OF)?,
        index: number(attributes, INDEX)?,
        count: number(attributes, COUNT)?,
        size: numbers_of(find(attributes, SIZE)?)?.try_into().ok()?,
        home: Home::of(attributes),
    })
}

/// The size of a partition of that header.
pub(crate) fn size_of(header: &Header) -> Option<Size> {
    Some([header.end_of(0)?, header.record_size()?])
}

/// Whether it is the header of a master.
pub(crate) fn is_master(header: &Header) -> bool {
    let attributes = &header.attributes;
    find(attributes, ID).is_some() && find(attributes, FILES).is_some()
}

/// The id and the partitions that the header of a master names.
pub(crate) fn files_of(header: &Header) -> Option<(String, Vec<String>)> {
    let id = text(&header.attributes, ID)?;
    let files = text(&header.attributes, FILES)?;
    Some((id, files.lines().map(str::to_owned).collect()))
}

/// Makes the header of a master list its partitions by other names.
pub(crate) fn relisted(header: &mut Header, names: &[String]) {
    if let Some(list) = header.attributes.iter_mut().find(|attribute| attribute.name == FILES) {
        list.values = names.join("\n").into();
    }
}

/// From a master's header to what the program sees; `None` if it is a plain file's. The error is a
/// reason.
pub(crate) fn logical_of(
    master: &Header,
    name: &str,
) -> Result<Option<(Header, Scheme, Ties)>, String> {
    if !is_master(master) {
        return Ok(None);
    }
    let attributes = &master.attributes;
    let damaged = |what: &str| format!("its attribute '{what}' is not as it should be");
    let (id, files) = files_of(master).ok_or_else(|| damaged(FILES))?;
    let generation = number(attributes, GENERATION).ok_or_else(|| damaged(GENERATION))?;
    let count = number(attributes, COUNT).ok_or_else(|| damaged(COUNT))?;
    if files.len() as u64 != count || count == 0 || files.iter().any(String::is_empty) {
        return Err(damaged(FILES));
    }
    let sizes = find(attributes, SIZES).and_then(numbers_of).unwrap_or_default();
    let (sizes, rest) = sizes.as_chunks::<2>();
    if sizes.len() != files.len() || !rest.is_empty() {
        return Err(damaged(SIZES));
    }
    let mut logical = master.clone();
    logical.attributes.retain(|attribute| !is_reserved(&attribute.name, true));
    let mut variables = Vec::new();
    for variable in &mut logical.variables {
        let along = along_of(master, variable, count).map_err(|attribute| {
            format!(
                "attribute '{attribute}' of variable '{}' is not as it should be",
                variable.name
            )
        })?;
        if let Some((dimensions, _)) = &along {
            variable.dimensions.clone_from(dimensions);
            variable.attributes.retain(|attribute| !is_reserved(&attribute.name, false));
            (variable.begin, variable.stated_size) = (0, 0);
        }
        variables.push(along.map(|(_, along)| along));
    }
    let listed = find(attributes, COORDINATES).map(numbers_of);
    let coordinates = listed.unwrap_or_else(|| Some(Vec::new())).unwrap_or_default();
    let coordinates: Vec<usize> = coordinates.into_iter().map(|index| index as usize).collect();
    let is_in_order = coordinates.windows(2).all(|pair| pair[0] < pair[1]);
    let is_one = |&index: &usize| {
        let in_master = variables.get(index).is_some_and(Option::is_none);
        in_master && logical.variables[index].dimensions.len() == 1
    };
    let is_absent = find(attributes, COORDINATES).is_none();
    if !is_absent && (coordinates.is_empty() || !is_in_order || !coordinates.iter().all(is_one)) {
        return Err(damaged(COORDINATES));
    }
    let scheme = Scheme { count: files.len(), variables, coordinates };
    let (master, sizes, probe) = (name.into(), sizes.to_vec(), text(attributes, PROBE));
    Ok(Some((logical, scheme, Ties { id, generation, master, files, sizes, probe })))
}

/// How a variable of a master is divided. The error is the attribute that is at fault.
fn along_of(
    master: &Header,
    variable: &Variable,
    count: u64,
) -> Result<Option<(Vec<u32>, Along)>, &'static str> {
    let attributes = &variable.attributes;
    let Some(dimensions) = find(attributes, DIMENSIONS) else { return Ok(None) };
    let known =
        |id: u64| u32::try_from(id).ok().filter(|&id| (id as usize) < master.dimensions.len());
    let dimensions = numbers_of(dimensions)
        .and_then(|ids| ids.into_iter().map(known).collect::<Option<Vec<u32>>>())
        .ok_or(DIMENSIONS)?;
    let later = dimensions.get(1..).unwrap_or_default();
    if !variable.dimensions.is_empty()
        || later.iter().any(|&id| master.dimensions[id as usize].is_unlimited())
    {
        return Err(DIMENSIONS);
    }
    let dimension = number(attributes, DIMENSION).and_then(|n| usize::try_from(n).ok());
    let dimension = dimension.filter(|&n| n < dimensions.len()).ok_or(DIMENSION)?;
    let len = master.dimensions[dimensions[dimension] as usize].len;
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
    Ok(Some((dimensions, Along { dimension, ranges })))
}
