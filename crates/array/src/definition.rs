//! [`Definition`]: a dataset in define mode (netCDF's `nc_create` or `nc_redef` until `nc_enddef`).
//!
//! Define mode and data mode are two types, so that an access in define mode does not compile.
//! Definitions are local until [`Definition::end`], which compares the ranks by a hash and applies
//! them to the file.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use striate_comm::{Comm, CommExt};
use striate_file::File;

use crate::definition_types::check_stored;
use crate::file_state::Durability;
use crate::file_state::{FileState, check_type};
use crate::format::{
    Attribute, ChunkFilter, Dimension, Format, Group, Header, StorageOptions, Type, Values,
    Variable, check_name,
};
use crate::partition::{Created, PAR_DIM_ID, Partitioned, create, is_reserved, redefine};
use crate::{ArrayError, Dataset, Options, netcdf4};

/// A dimension of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DimensionId(pub(crate) u32);

/// A variable of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VariableId(pub(crate) u32);

/// A group of a netCDF-4 dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GroupId(pub(crate) u32);

/// The owner of an attribute: the dataset (`NC_GLOBAL`), a group or a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The dataset (`NC_GLOBAL`).
    Global,
    /// A group.
    Group(GroupId),
    /// A variable.
    Variable(VariableId),
}

impl From<GroupId> for Owner {
    fn from(group: GroupId) -> Self {
        Self::Group(group)
    }
}

impl GroupId {
    /// The root group, which every dataset has.
    pub const ROOT: Self = Self(0);

    /// Its index in [`Header::groups`]; `None` for the root group.
    pub fn index(self) -> Option<usize> {
        (self.0 as usize).checked_sub(1)
    }

    /// The error of a group that the dataset does not have.
    pub(crate) fn unknown(self) -> ArrayError {
        ArrayError::Unknown { what: "group", name: format!("number {}", self.0) }
    }
}

impl From<VariableId> for Owner {
    fn from(variable: VariableId) -> Self {
        Self::Variable(variable)
    }
}

impl DimensionId {
    /// Its index in [`Header::dimensions`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl VariableId {
    /// Its index in [`Header::variables`].
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A dataset in define mode: data cannot be accessed. All ranks make the same definitions in the
/// same order, which is checked by [`Definition::end`].
///
/// ```compile_fail
/// # fn misuse(mut define: striate_array::Definition, variable: striate_array::VariableId) {
/// define.put_all(variable, &striate_array::Slab::all(), &[1.0]).unwrap();
/// # }
/// ```
#[derive(Debug)]
#[must_use = "definitions take effect when Definition::end is called"]
pub struct Definition {
    pub(crate) state: FileState,
    /// The header as it is in the file; `None` if the dataset is new.
    before: Option<Header>,
    fill_all: bool,
    options: Options,
    /// The partitions before the redefinition.
    partitioned: Option<Box<Partitioned>>,
    index: NameIndex,
    /// The group in which objects are defined.
    pub(crate) group: GroupId,
}

/// Hash tables of names, so that the time of a definition does not grow with the number of those
/// before it.
#[derive(Debug, Default)]
struct NameIndex {
    dimensions: Option<HashSet<(u32, String)>>,
    attributes: HashMap<Owner, HashMap<String, usize>>,
}

/// Lists up to this length are searched linearly.
const FEW: usize = 32;

impl NameIndex {
    /// Whether a group has a dimension with that name.
    fn has_dimension(&mut self, dimensions: &[Dimension], group: u32, name: &str) -> bool {
        if dimensions.len() <= FEW {
            let is = |one: &Dimension| one.group == group && one.name == name;
            return dimensions.iter().any(is);
        }
        let known = self.dimensions.get_or_insert_with(|| {
            dimensions.iter().map(|one| (one.group, one.name.clone())).collect()
        });
        known.contains(&(group, name.to_owned()))
    }

    /// Adds a dimension.
    fn add_dimension(&mut self, group: u32, name: &str) {
        if let Some(known) = &mut self.dimensions {
            known.insert((group, name.into()));
        }
    }

    /// Sets an attribute in a list: replaces the one with that name, or appends it.
    fn set(&mut self, owner: Owner, list: &mut Vec<Attribute>, name: &str, values: Values) {
        let place = if list.len() <= FEW {
            list.iter().position(|attribute| attribute.name == name)
        } else {
            let known = self.attributes.entry(owner).or_insert_with(|| {
                let each = list.iter().enumerate();
                each.map(|(place, attribute)| (attribute.name.clone(), place)).collect()
            });
            let place = known.get(name).copied();
            if place.is_none() {
                known.insert(name.into(), list.len());
            }
            place
        };
        match place.and_then(|place| list.get_mut(place)) {
            Some(attribute) => attribute.values = values,
            None => list.push(Attribute { name: name.into(), values }),
        }
    }

    /// Drops the table of a list that was changed in another way.
    fn forget(&mut self, owner: Owner) {
        self.attributes.remove(&owner);
    }
}

impl Definition {
    pub(crate) fn new(
        state: FileState,
        before: Option<Header>,
        options: Options,
        partitioned: Option<Box<Partitioned>>,
    ) -> Self {
        let index = NameIndex::default();
        let group = GroupId::ROOT;
        Self { state, before, fill_all: false, options, partitioned, index, group }
    }

    /// Whether the dataset is partitioned, or may become so.
    const fn may_be_partitioned(&self) -> bool {
        self.partitioned.is_some() || self.state.publish_as.is_some()
    }

    /// Selects the dimension along which a variable is divided if the dataset is partitioned: sets
    /// its attribute `par_dim_id`.
    pub fn partition_along(
        &mut self,
        variable: VariableId,
        dimension: DimensionId,
    ) -> Result<(), ArrayError> {
        let known = self.state.header.dimensions.get(dimension.index());
        let Some(name) = known.map(|dimension| dimension.name.clone()) else {
            let name = format!("number {}", dimension.0);
            return Err(ArrayError::Unknown { what: "dimension", name });
        };
        let of_variable = self.state.header.variables.get(variable.index());
        if of_variable.is_some_and(|variable| !variable.dimensions.contains(&dimension.0)) {
            let what = format!("par_dim_id of variable number {}", variable.0);
            return Err(ArrayError::Definition {
                what,
                reason: format!("it has no dimension '{name}'"),
            });
        }
        self.attribute(variable, PAR_DIM_ID, name)
    }

    /// The definitions so far.
    pub const fn header(&self) -> &Header {
        &self.state.header
    }

    /// The communicator.
    pub const fn comm(&self) -> &Arc<dyn Comm> {
        &self.state.comm
    }

    /// All dimensions, in the order of their definition.
    pub fn dimensions(&self) -> impl Iterator<Item = DimensionId> + use<> {
        (0..self.header().dimensions.len() as u32).map(DimensionId)
    }

    /// All variables, in the order of their definition.
    pub fn variables(&self) -> impl Iterator<Item = VariableId> + use<> {
        (0..self.header().variables.len() as u32).map(VariableId)
    }

    /// Defines a dimension; its length is at least 1.
    pub fn dimension(&mut self, name: &str, len: u64) -> Result<DimensionId, ArrayError> {
        if len == 0 {
            let what = format!("dimension '{name}'");
            let reason = "a length of 0 stands for the unlimited dimension".into();
            return Err(ArrayError::Definition { what, reason });
        }
        self.add_dimension(name, len)
    }

    /// Defines an unlimited dimension; only a netCDF-4 dataset may have more than one.
    pub fn unlimited(&mut self, name: &str) -> Result<DimensionId, ArrayError> {
        if self.header().format.is_classic_model()
            && let Some(other) = self.header().dimensions.iter().find(|dim| dim.is_unlimited())
        {
            let what = format!("unlimited dimension '{name}'");
            let reason = format!("'{}' is one already", other.name);
            return Err(ArrayError::Definition { what, reason });
        }
        self.add_dimension(name, 0)
    }

    fn add_dimension(&mut self, name: &str, len: u64) -> Result<DimensionId, ArrayError> {
        check_name(name)?;
        let group = self.group.0;
        let dimensions = &mut self.state.header.dimensions;
        if self.index.has_dimension(dimensions, group, name) {
            return Err(ArrayError::Exists { what: "dimension", name: name.into() });
        }
        let id = DimensionId(dimensions.len() as u32);
        self.index.add_dimension(group, name);
        dimensions.push(Dimension { group, ..Dimension::classic(name, len) });
        Ok(id)
    }

    /// Defines a group of a netCDF-4 dataset in the current group, which it becomes.
    pub fn group(&mut self, name: &str) -> Result<GroupId, ArrayError> {
        check_name(name)?;
        let format = self.header().format;
        if format != Format::Netcdf4 {
            let what = format!("group '{name}'");
            let reason = format!("{format} has no groups; netCDF-4 does");
            return Err(ArrayError::Definition { what, reason });
        }
        let parent = self.group.0;
        let groups = &mut self.state.header.groups;
        if groups.iter().any(|group| group.parent == parent && group.name == name) {
            return Err(ArrayError::Exists { what: "group", name: name.into() });
        }
        groups.push(Group { name: name.into(), parent, attributes: Vec::new() });
        self.group = GroupId(groups.len() as u32);
        Ok(self.group)
    }

    /// Sets the current group, in which dimensions, variables and groups are defined from then on.
    /// At first it is the root group.
    pub fn enter(&mut self, group: GroupId) -> Result<(), ArrayError> {
        if group.0 as usize > self.header().groups.len() {
            return Err(group.unknown());
        }
        self.group = group;
        Ok(())
    }

    /// Defines a variable; the slowest varying dimension is the first.
    pub fn variable(
        &mut self,
        name: &str,
        external: impl Into<Type>,
        dimensions: &[DimensionId],
    ) -> Result<VariableId, ArrayError> {
        check_name(name)?;
        let external = external.into();
        let header = &self.state.header;
        let what = format!("variable '{name}'");
        check_type(header, &what, external)?;
        let path = header.path(self.group.0, name);
        if self.state.variables.contains_key(&path) {
            return Err(ArrayError::Exists { what: "variable", name: path });
        }
        for (i, dimension) in dimensions.iter().enumerate() {
            let Some(known) = header.dimensions.get(dimension.index()) else {
                let name = format!("number {}", dimension.0);
                return Err(ArrayError::Unknown { what: "dimension", name });
            };
            if i > 0 && known.is_unlimited() && header.format.is_classic_model() {
                let reason = format!("the unlimited dimension '{}' must be its first", known.name);
                return Err(ArrayError::Definition { what, reason });
            }
        }
        let id = VariableId(header.variables.len() as u32);
        self.state.variables.insert(path, id.0);
        let dimensions = dimensions.iter().map(|dimension| dimension.0).collect();
        self.state
            .header
            .variables
            .push(Variable { group: self.group.0, ..Variable::new(name, external, dimensions) });
        self.state.filled.push(self.fill_all);
        Ok(id)
    }

    fn attributes(header: &mut Header, owner: Owner) -> Result<&mut Vec<Attribute>, ArrayError> {
        match owner {
            Owner::Global => Ok(&mut header.attributes),
            Owner::Group(id) => match id.index() {
                None => Ok(&mut header.attributes),
                Some(index) => match header.groups.get_mut(index) {
                    Some(group) => Ok(&mut group.attributes),
                    None => Err(id.unknown()),
                },
            },
            Owner::Variable(id) => {
                let unknown =
                    || ArrayError::Unknown { what: "variable", name: format!("number {}", id.0) };
                let variable = header.variables.get_mut(id.index()).ok_or_else(unknown)?;
                Ok(&mut variable.attributes)
            }
        }
    }

    /// Sets an attribute, replacing one with the same name. `_FillValue` must be one value of its
    /// variable's type.
    pub fn attribute(
        &mut self,
        owner: impl Into<Owner>,
        name: &str,
        values: impl Into<Values>,
    ) -> Result<(), ArrayError> {
        let (owner, values) = (owner.into(), values.into());
        check_name(name)?;
        let what = format!("attribute '{name}'");
        if self.may_be_partitioned() && is_reserved(name, owner) {
            let reason = "the name is reserved in partitioned datasets".into();
            return Err(ArrayError::Definition { what, reason });
        }
        check_type(&self.state.header, &what, values.external())?;
        if name == "_FillValue"
            && let Owner::Variable(id) = owner
            && let Some(variable) = self.state.header.variables.get(id.index())
            && (values.external() != variable.external || values.len() != 1)
        {
            let (name, external) = (&variable.name, variable.external);
            let reason = format!("it must be one {external}, as variable '{name}' is");
            return Err(ArrayError::Definition { what, reason });
        }
        if let Values::Stored(stored) = &values {
            check_stored(&self.state.header, &what, stored)?;
        }
        let attributes = Self::attributes(&mut self.state.header, owner)?;
        self.index.set(owner, attributes, name, values);
        Ok(())
    }

    /// Removes an attribute.
    pub fn remove_attribute(
        &mut self,
        owner: impl Into<Owner>,
        name: &str,
    ) -> Result<(), ArrayError> {
        let owner = owner.into();
        self.index.forget(owner);
        let attributes = Self::attributes(&mut self.state.header, owner)?;
        match attributes.iter().position(|attribute| attribute.name == name) {
            Some(index) => drop(attributes.remove(index)),
            None => return Err(ArrayError::Unknown { what: "attribute", name: name.into() }),
        }
        Ok(())
    }

    /// Renames a variable.
    pub fn rename_variable(&mut self, variable: VariableId, name: &str) -> Result<(), ArrayError> {
        check_name(name)?;
        let known = self.state.header.variables.get(variable.index());
        let group = known.map_or(0, |known| known.group);
        let path = self.state.header.path(group, name);
        if self.state.variables.contains_key(&path) {
            return Err(ArrayError::Exists { what: "variable", name: path });
        }
        let old = known.map(|known| self.state.header.path(group, &known.name));
        let Some(renamed) = self.state.header.variables.get_mut(variable.index()) else {
            let name = format!("number {}", variable.0);
            return Err(ArrayError::Unknown { what: "variable", name });
        };
        self.state.variables.remove(&old.unwrap_or_default());
        self.state.variables.insert(path, variable.0);
        renamed.name = name.into();
        Ok(())
    }

    /// Renames a dimension.
    pub fn rename_dimension(
        &mut self,
        dimension: DimensionId,
        name: &str,
    ) -> Result<(), ArrayError> {
        check_name(name)?;
        let dimensions = &mut self.state.header.dimensions;
        let group = dimensions.get(dimension.index()).map_or(0, |renamed| renamed.group);
        if self.index.has_dimension(dimensions, group, name) {
            return Err(ArrayError::Exists { what: "dimension", name: name.into() });
        }
        if let Some(known) = &mut self.index.dimensions
            && let Some(renamed) = dimensions.get(dimension.index())
        {
            known.remove(&(group, renamed.name.clone()));
            known.insert((group, name.into()));
        }
        let Some(renamed) = dimensions.get_mut(dimension.index()) else {
            let name = format!("number {}", dimension.0);
            return Err(ArrayError::Unknown { what: "dimension", name });
        };
        renamed.name = name.into();
        Ok(())
    }

    /// Sets how a variable of a netCDF-4 dataset is stored: layout, filters, byte order. It cannot
    /// be changed once the variable is in the file.
    pub fn storage(
        &mut self,
        variable: VariableId,
        storage: StorageOptions,
    ) -> Result<(), ArrayError> {
        let format = self.header().format;
        let old = self.before.as_ref().map_or(0, |before| before.variables.len());
        let Some(known) = self.state.header.variables.get_mut(variable.index()) else {
            let name = format!("number {}", variable.0);
            return Err(ArrayError::Unknown { what: "variable", name });
        };
        let refuse = |name: &str, reason: String| {
            Err(ArrayError::Definition { what: format!("storage of variable '{name}'"), reason })
        };
        if !format.is_hdf5() {
            return refuse(&known.name, format!("{format} has no choice; netCDF-4 does"));
        }
        if variable.index() < old {
            return refuse(&known.name, "it is in the file already".into());
        }
        for filter in &storage.filters {
            let fault = match filter {
                ChunkFilter::Deflate(level) if *level > 9 => Some("deflate has levels 0 to 9"),
                // 0 is zstd's default.
                ChunkFilter::Zstd(level) if *level > 22 => Some("zstd has levels 0 to 22"),
                ChunkFilter::Other(_) => Some("only a file that exists has other filters"),
                _ => None,
            };
            if let Some(fault) = fault {
                return refuse(&known.name, fault.into());
            }
        }
        known.storage = storage;
        Ok(())
    }

    /// Sets the fill mode of all variables, including those defined later: whether data that was
    /// never written reads as fill values. It is off by default.
    pub fn fill_all(&mut self, fill: bool) {
        self.fill_all = fill;
        self.state.filled.fill(fill);
    }

    /// Sets the fill mode of a variable. Data that exists already is not filled again.
    pub fn fill(&mut self, variable: VariableId, fill: bool) {
        if let Some(filled) = self.state.filled.get_mut(variable.index()) {
            *filled = fill;
        }
    }

    /// Ends define mode (netCDF's `enddef`): the definitions of the ranks are compared, data moves
    /// if its offset changes, the header is written, and new variables in fill mode are filled.
    /// Collective.
    ///
    /// Definitions that exceed the limits of the format are an error before anything is written.
    /// From the first change of the file to the end of this call, and in a new file until the first
    /// [`Dataset::sync`] or [`Dataset::close`], the magic number marks the file as unfinished.
    pub fn end(self) -> Result<Dataset, ArrayError> {
        let differs = self.difference();
        self.state.agree(differs)?;
        if self.partitioned.is_some() {
            return self.end_partitioned();
        }
        if self.before.is_none() && self.state.publish_as.is_some() {
            let Self { state, options, .. } = self;
            return match create::create(state, &options)? {
                Created::Partitioned(data) => Ok(*data),
                Created::Plain(state) => Self::new(*state, None, options, None).end_plain(),
            };
        }
        self.end_plain()
    }

    /// [`Definition::end`] for a dataset that is one file.
    fn end_plain(mut self) -> Result<Dataset, ArrayError> {
        if self.state.header.format.is_hdf5() {
            if self.before.as_ref() != Some(&self.state.header) {
                netcdf4::define(&mut self.state, &self.options)?;
            }
            return Ok(Dataset::new(self.state, self.options));
        }
        let arranged = self.state.header.arrange(&self.state.alignment, self.before.as_ref());
        self.state.agree(arranged.map_err(ArrayError::from))?;
        let Self { mut state, before, options, .. } = self;
        if before.as_ref() == Some(&state.header) {
            return Ok(Dataset::new(state, options));
        }
        let was_unfinished = state.unfinished;
        state.write_definition(before.as_ref())?;
        if before.is_some() && !was_unfinished {
            state.finish(Durability::Durable)?;
        }
        Ok(Dataset::new(state, options))
    }

    /// [`Definition::end`] for a dataset that has partitions.
    fn end_partitioned(self) -> Result<Dataset, ArrayError> {
        let Self { state, before, options, partitioned, .. } = self;
        match (partitioned, before) {
            (Some(partitioned), Some(before)) => {
                redefine::redefine(state, *partitioned, &before, options)
            }
            // Partitions always come with the header from which they were made.
            _ => Ok(Dataset::new(state, options)),
        }
    }

    /// An error if this rank's definitions differ from those of rank 0. Collective.
    fn difference(&self) -> Result<(), ArrayError> {
        let comm = self.state.comm.as_ref();
        if comm.size() == 1 {
            return Ok(());
        }
        if self.state.header.format.is_hdf5() {
            return self.difference_in_lines();
        }
        let mut bytes = self.canonical();
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        let hashes = comm.allgather_u64(hasher.finish())?;
        if hashes.iter().all(|hash| *hash == hashes[0]) {
            return Ok(());
        }
        comm.broadcast(0, &mut bytes)?;
        if hashes[comm.rank()] == hashes[0] {
            return Ok(());
        }
        let mut filled = Vec::new();
        let item = match Header::decode(&bytes) {
            Ok((first, len)) => {
                filled = bytes.split_off(len as usize);
                first.difference(&self.state.header)
            }
            Err(error) => Some(format!("rank 0's definitions cannot be compared: {error}")),
        };
        let item = item.unwrap_or_else(|| {
            let range_flags = filled.iter().zip(&self.state.filled);
            let variable = range_flags
                .zip(&self.state.header.variables)
                .find(|((a, b), _)| **a != u8::from(**b));
            match variable {
                Some((_, variable)) => format!("whether variable '{}' is filled", variable.name),
                None => "the order of definitions".into(),
            }
        });
        Err(ArrayError::Differ { rank: comm.rank(), item })
    }

    /// The same for a netCDF-4 dataset: the first line of the definitions that differs.
    fn difference_in_lines(&self) -> Result<(), ArrayError> {
        let comm = self.state.comm.as_ref();
        let lines = netcdf4::definition_lines(&self.state.header, &self.state.filled);
        let mut bytes = lines.join("\n").into_bytes();
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        let hashes = comm.allgather_u64(hasher.finish())?;
        if hashes.iter().all(|hash| *hash == hashes[0]) {
            return Ok(());
        }
        comm.broadcast(0, &mut bytes)?;
        if hashes[comm.rank()] == hashes[0] {
            return Ok(());
        }
        let first = String::from_utf8_lossy(&bytes);
        let mut first = first.lines();
        let own = lines.iter().find(|line| first.next() != Some(line.as_str()));
        let item = own.cloned().unwrap_or_else(|| "it has fewer definitions".into());
        Err(ArrayError::Differ { rank: comm.rank(), item })
    }

    /// What must be equal on all ranks, as bytes: the definitions without their layout, and the
    /// fill modes.
    fn canonical(&self) -> Vec<u8> {
        let mut header = self.state.header.clone();
        header.records = 0;
        // Offsets behind the header, so that it can be decoded.
        let begin = header.encoded_len();
        for variable in &mut header.variables {
            (variable.begin, variable.stated_size) = (begin, 0);
        }
        let mut bytes = header.encode();
        bytes.extend(self.state.filled.iter().map(|&filled| u8::from(filled)));
        bytes
    }

    /// Discards the definitions: a new file is deleted, an existing one does not change.
    /// Collective.
    pub fn abort(self) -> Result<(), ArrayError> {
        let Self { state, before, partitioned, .. } = self;
        let FileState { comm, file, path, unfinished, .. } = state;
        let closed = file.close().map_err(ArrayError::from);
        if let Some(partitioned) = partitioned {
            return partitioned.abort(comm.as_ref(), closed, unfinished.then_some(path.as_path()));
        }
        closed?;
        let is_new = before.is_none() || unfinished;
        let deleted = if is_new && comm.rank() == 0 {
            File::delete(&path).map_err(ArrayError::from)
        } else {
            Ok(())
        };
        crate::file_state::agree_among(comm.as_ref(), deleted)
    }

    /// The format.
    pub const fn format(&self) -> Format {
        self.state.header.format
    }
}
