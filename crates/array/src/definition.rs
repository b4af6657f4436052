//! [`Definition`]: a dataset whose dimensions, variables and attributes are being defined.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

use striate_comm::{Comm, CommExt};
use striate_file::File;

use crate::format::{Attribute, Dimension, Format, Header, Type, Values, Variable, check_name};
use crate::partition::{Created, PAR_DIM_ID, Parted, create, is_reserved, redefine};
use crate::state::{State, check_type};
use crate::{ArrayError, Dataset, Options, fill, relocate};

/// A dimension of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DimensionId(pub(crate) u32);

/// A variable of a dataset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VariableId(pub(crate) u32);

/// What an attribute belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Owner {
    /// The dataset.
    Global,
    /// A variable.
    Variable(VariableId),
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

/// A dataset in define mode: no data can be accessed. All ranks define the same, in the same order,
/// which is checked when it ends.
///
/// ```compile_fail
/// # fn misuse(mut define: striate_array::Definition, variable: striate_array::VariableId) {
/// define.put_all(variable, &striate_array::Slab::all(), &[1.0]).unwrap();
/// # }
/// ```
#[derive(Debug)]
#[must_use = "definitions count when Definition::end is called"]
pub struct Definition {
    state: State,
    /// The header as it is in the file; `None` if the dataset is new.
    before: Option<Header>,
    fill_all: bool,
    options: Options,
    /// The partitions, as they were before.
    parted: Option<Box<Parted>>,
    index: Index,
}

/// Where names are found among many, so that defining many things takes time for each and not for each of
/// those before it.
#[derive(Debug, Default)]
struct Index {
    dimensions: Option<HashMap<String, u32>>,
    attributes: HashMap<Owner, HashMap<String, usize>>,
}

/// Lists that are no longer than this are searched as they are.
const FEW: usize = 32;

impl Index {
    /// Whether a dimension has that name.
    fn has_dimension(&mut self, dimensions: &[Dimension], name: &str) -> bool {
        if dimensions.len() <= FEW {
            return dimensions.iter().any(|dimension| dimension.name == name);
        }
        let known = self.dimensions.get_or_insert_with(|| {
            dimensions.iter().zip(0..).map(|(dimension, id)| (dimension.name.clone(), id)).collect()
        });
        known.contains_key(name)
    }

    /// Notes a dimension that was added.
    fn add_dimension(&mut self, name: &str, id: u32) {
        if let Some(known) = &mut self.dimensions {
            known.insert(name.into(), id);
        }
    }

    /// Sets an attribute in a list: in the place of one of that name, or at the end.
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

    /// Forgets a list that has changed in another way.
    fn forget(&mut self, owner: Owner) {
        self.attributes.remove(&owner);
    }
}

impl Definition {
    pub(crate) fn new(
        state: State,
        before: Option<Header>,
        options: Options,
        parted: Option<Box<Parted>>,
    ) -> Self {
        Self { state, before, fill_all: false, options, parted, index: Index::default() }
    }

    /// Whether the dataset is, or may become, a partitioned one.
    const fn may_be_parted(&self) -> bool {
        self.parted.is_some() || self.state.publish.is_some()
    }

    /// Divides a variable along one of its dimensions if the dataset is partitioned: sets its attribute
    /// `par_dim_id`.
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

    /// What is defined so far.
    pub const fn header(&self) -> &Header {
        &self.state.header
    }

    /// The ranks.
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

    /// Defines a dimension of length 1 at least.
    pub fn dimension(&mut self, name: &str, len: u64) -> Result<DimensionId, ArrayError> {
        if len == 0 {
            let what = format!("dimension '{name}'");
            let reason = "a length of 0 stands for the unlimited dimension".into();
            return Err(ArrayError::Definition { what, reason });
        }
        self.add_dimension(name, len)
    }

    /// Defines the unlimited dimension; there is one at most.
    pub fn unlimited(&mut self, name: &str) -> Result<DimensionId, ArrayError> {
        if let Some(other) = self.header().dimensions.iter().find(|dim| dim.is_unlimited()) {
            let what = format!("unlimited dimension '{name}'");
            let reason = format!("'{}' is one already", other.name);
            return Err(ArrayError::Definition { what, reason });
        }
        self.add_dimension(name, 0)
    }

    fn add_dimension(&mut self, name: &str, len: u64) -> Result<DimensionId, ArrayError> {
        check_name(name)?;
        let dimensions = &mut self.state.header.dimensions;
        if self.index.has_dimension(dimensions, name) {
            return Err(ArrayError::Exists { what: "dimension", name: name.into() });
        }
        let id = DimensionId(dimensions.len() as u32);
        self.index.add_dimension(name, id.0);
        dimensions.push(Dimension { name: name.into(), len });
        Ok(id)
    }

    /// Defines a variable; the slowest varying dimension comes first.
    pub fn variable(
        &mut self,
        name: &str,
        external: Type,
        dimensions: &[DimensionId],
    ) -> Result<VariableId, ArrayError> {
        check_name(name)?;
        let header = &self.state.header;
        let what = format!("variable '{name}'");
        check_type(header, &what, external)?;
        if self.state.variables.contains_key(name) {
            return Err(ArrayError::Exists { what: "variable", name: name.into() });
        }
        for (i, dimension) in dimensions.iter().enumerate() {
            let Some(known) = header.dimensions.get(dimension.index()) else {
                let name = format!("number {}", dimension.0);
                return Err(ArrayError::Unknown { what: "dimension", name });
            };
            if i > 0 && known.is_unlimited() {
                let reason = format!("the unlimited dimension '{}' must be its first", known.name);
                return Err(ArrayError::Definition { what, reason });
            }
        }
        let id = VariableId(header.variables.len() as u32);
        self.state.variables.insert(name.into(), id.0);
        self.state.header.variables.push(Variable {
            name: name.into(),
            dimensions: dimensions.iter().map(|dimension| dimension.0).collect(),
            attributes: Vec::new(),
            external,
            stated_size: 0,
            begin: 0,
        });
        self.state.filled.push(self.fill_all);
        Ok(id)
    }

    fn attributes(header: &mut Header, owner: Owner) -> Result<&mut Vec<Attribute>, ArrayError> {
        match owner {
            Owner::Global => Ok(&mut header.attributes),
            Owner::Variable(id) => {
                let unknown =
                    || ArrayError::Unknown { what: "variable", name: format!("number {}", id.0) };
                let variable = header.variables.get_mut(id.index()).ok_or_else(unknown)?;
                Ok(&mut variable.attributes)
            }
        }
    }

    /// Sets an attribute; one of that name is replaced. `_FillValue` must be one value of its
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
        if self.may_be_parted() && is_reserved(name, owner == Owner::Global) {
            let reason = "partitioned datasets have it for themselves".into();
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
        if self.state.variables.contains_key(name) {
            return Err(ArrayError::Exists { what: "variable", name: name.into() });
        }
        let Some(renamed) = self.state.header.variables.get_mut(variable.index()) else {
            let name = format!("number {}", variable.0);
            return Err(ArrayError::Unknown { what: "variable", name });
        };
        self.state.variables.remove(&renamed.name);
        self.state.variables.insert(name.into(), variable.0);
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
        if self.index.has_dimension(dimensions, name) {
            return Err(ArrayError::Exists { what: "dimension", name: name.into() });
        }
        if let Some(known) = &mut self.index.dimensions
            && let Some(renamed) = dimensions.get(dimension.index())
        {
            known.remove(&renamed.name);
            known.insert(name.into(), dimension.0);
        }
        let Some(renamed) = dimensions.get_mut(dimension.index()) else {
            let name = format!("number {}", dimension.0);
            return Err(ArrayError::Unknown { what: "dimension", name });
        };
        renamed.name = name.into();
        Ok(())
    }

    /// Whether data that is not written reads as fill values, for all variables, also those still to
    /// be defined. By default it does not.
    pub fn fill_all(&mut self, fill: bool) {
        self.fill_all = fill;
        self.state.filled.fill(fill);
    }

    /// Whether data of a variable that is not written reads as fill values. What is in the file
    /// already is not filled again.
    pub fn fill(&mut self, variable: VariableId, fill: bool) {
        if let Some(filled) = self.state.filled.get_mut(variable.index()) {
            *filled = fill;
        }
    }

    /// Ends define mode: the ranks agree on the definitions, data moves if it must, the header is
    /// written, and new variables are filled if they are to be. Collective.
    ///
    /// A definition that the format cannot hold is an error before anything is written. From the first
    /// change of the file to the end of this call, and in a new file until the first
    /// [`Dataset::sync`] or [`Dataset::close`], its first bytes say that it is unfinished.
    pub fn end(self) -> Result<Dataset, ArrayError> {
        let differs = self.difference();
        self.state.agree(differs)?;
        if self.parted.is_some() {
            return self.end_of_parted();
        }
        if self.before.is_none() && self.state.publish.is_some() {
            let Self { state, options, .. } = self;
            return match create::create(state, &options)? {
                Created::Parted(data) => Ok(*data),
                Created::Plain(state) => Self::new(*state, None, options, None).end_of_plain(),
            };
        }
        self.end_of_plain()
    }

    /// The same of a dataset that is one file.
    fn end_of_plain(mut self) -> Result<Dataset, ArrayError> {
        let arranged = self.state.header.arrange(&self.state.alignment, self.before.as_ref());
        self.state.agree(arranged.map_err(ArrayError::from))?;
        let Self { mut state, before, options, .. } = self;
        if before.as_ref() == Some(&state.header) {
            return Ok(Dataset::new(state, options));
        }
        let was_unfinished = state.unfinished;
        state.lay_down(before.as_ref())?;
        if before.is_some() && !was_unfinished {
            state.finish(true)?;
        }
        Ok(Dataset::new(state, options))
    }

    /// The same of a dataset that has partitions.
    fn end_of_parted(self) -> Result<Dataset, ArrayError> {
        let Self { state, before, options, parted, .. } = self;
        match (parted, before) {
            (Some(parted), Some(before)) => redefine::redefine(state, *parted, &before, options),
            // Partitions come with the header that they were made by.
            _ => Ok(Dataset::new(state, options)),
        }
    }

    /// What this rank defines differently from rank 0. Collective.
    fn difference(&self) -> Result<(), ArrayError> {
        let comm = self.state.comm.as_ref();
        if comm.size() == 1 {
            return Ok(());
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
            let flags = filled.iter().zip(&self.state.filled);
            let variable =
                flags.zip(&self.state.header.variables).find(|((a, b), _)| **a != u8::from(**b));
            match variable {
                Some((_, variable)) => format!("whether variable '{}' is filled", variable.name),
                None => "the order of definitions".into(),
            }
        });
        Err(ArrayError::Differ { rank: comm.rank(), item })
    }

    /// What all ranks must have alike: definitions without their layout, and what is filled.
    fn canonical(&self) -> Vec<u8> {
        let mut header = self.state.header.clone();
        header.records = 0;
        // Not in the header, so that it can be decoded.
        let begin = header.encoded_len();
        for variable in &mut header.variables {
            (variable.begin, variable.stated_size) = (begin, 0);
        }
        let mut bytes = header.encode();
        bytes.extend(self.state.filled.iter().map(|&filled| u8::from(filled)));
        bytes
    }

    /// Gives up: a new file is deleted, an old one stays as it was. Collective.
    pub fn abort(self) -> Result<(), ArrayError> {
        let Self { state, before, parted, .. } = self;
        let State { comm, file, path, unfinished, .. } = state;
        let closed = file.close().map_err(ArrayError::from);
        if let Some(parted) = parted {
            return parted.give_up(comm.as_ref(), closed, unfinished.then_some(path.as_path()));
        }
        closed?;
        let is_new = before.is_none() || unfinished;
        let deleted = if is_new && comm.rank() == 0 {
            File::delete(&path).map_err(ArrayError::from)
        } else {
            Ok(())
        };
        crate::state::agree_on(comm.as_ref(), deleted)
    }

    /// The format.
    pub const fn format(&self) -> Format {
        self.state.header.format
    }
}

impl State {
    /// Makes the file what the header says, and marks it as unfinished: data moves if it must, the
    /// header is written, and new variables are filled if they are to be. Collective.
    pub(crate) fn lay_down(&mut self, before: Option<&Header>) -> Result<(), ArrayError> {
        self.unfinished = true;
        if let Some(before) = before {
            relocate::relocate(self, before)?;
        }
        self.on_first(Self::write_header)?;
        self.stated_records = self.header.records;
        let old = before.map_or(0, |before| before.variables.len());
        fill::fill_new_variables(self, old)
    }

    /// Rank 0 writes the header. Its magic says that the file is unfinished, until it is not.
    pub(crate) fn write_header(&mut self) -> Result<(), ArrayError> {
        let mut bytes = self.header.encode();
        bytes[..4].copy_from_slice(&self.header.format.unfinished_magic());
        self.file.write_at(0, bytes.as_slice())?;
        Ok(())
    }

    /// Rank 0 writes the first bytes.
    pub(crate) fn mark_unfinished(&mut self) -> Result<(), ArrayError> {
        let magic = self.header.format.unfinished_magic();
        self.file.write_at(0, &magic)?;
        Ok(())
    }

    /// Makes the file a whole one, and durable before and after if asked for. Collective.
    pub(crate) fn finish(&mut self, durable: bool) -> Result<(), ArrayError> {
        // All have written what they wrote.
        self.agree(Ok(()))?;
        self.on_first(Self::write_records)?;
        self.stated_records = self.header.records;
        if durable {
            self.file.sync()?;
        }
        if self.unfinished {
            self.on_first(|state| {
                let magic = state.header.format.magic();
                state.file.write_at(0, &magic)?;
                Ok(())
            })?;
            self.unfinished = false;
            if durable {
                self.file.sync()?;
            }
        }
        Ok(())
    }
}
