//! [`Variables`]: datasets as variables and dimensions.

use super::AtomicType;
use super::attributes;
use super::class::{anonymous_name, check_user_type, find};
use super::definition::{
    GroupDefinition, Storage, TypeDefinition, VariableDefinition, VariableFill,
};
use super::dimensions::{Dimensions, VariableShape};
use super::findings::{Findings, path, weight};
use super::hidden::{Hidden, is_reserved, is_written_again};
use super::objects::FoundDataset;
use crate::dataset::Dataset;
use crate::file::File;
use crate::model::{Attribute, Dataspace, Datatype, Fill, FillTime, Layout, Name};
use crate::write::Elements;
use crate::write::netcdf::fill_of;
use crate::{Result, Source};

/// How the name of a variable begins that has the name of a dimension but is not its scale.
const NOT_COORDINATE: &[u8] = b"_nc4_non_coord_";

/// Attributes of a variable, before the types of all variables are known.
struct PendingAttributes {
    group: usize,
    /// Of the link.
    name: Name,
    is_scale: bool,
    attributes: Vec<Attribute>,
}

/// The variables and dimensions that were found so far.
pub(super) struct Variables<'f, S> {
    file: &'f File<S>,
    groups: &'f [GroupDefinition],
    /// The types of the file; those of datasets that are not committed are added.
    pub(super) types: Vec<TypeDefinition>,
    /// Their dimensions are not known yet, nor their attributes until those are added.
    pub(super) definitions: Vec<VariableDefinition>,
    pub(super) shapes: Vec<VariableShape>,
    pub(super) objects: Vec<Dataset>,
    pub(super) dimensions: Dimensions,
    /// The attributes of each variable.
    pending: Vec<PendingAttributes>,
    /// Whether an attribute shows that the file follows netCDF's conventions.
    pub(super) has_conventions: bool,
    /// The last number of a made-up name of a type.
    anonymous: u64,
}

impl<'f, S: Source> Variables<'f, S> {
    /// None yet, of a file with so many datasets.
    pub(super) fn new(
        file: &'f File<S>,
        groups: &'f [GroupDefinition],
        types: Vec<TypeDefinition>,
        datasets: usize,
    ) -> Self {
        Self {
            file,
            groups,
            types,
            definitions: Vec::with_capacity(datasets),
            shapes: Vec::with_capacity(datasets),
            objects: Vec::with_capacity(datasets),
            dimensions: Dimensions::default(),
            pending: Vec::with_capacity(datasets),
            has_conventions: false,
            anonymous: 0,
        }
    }

    /// Adds a dataset as a variable, as a dimension, or as both.
    pub(super) fn add(&mut self, found: FoundDataset, findings: &mut Findings) -> Result<()> {
        let FoundDataset { group, name, address, attributes, dataset, unwritten } = found;
        self.has_conventions |= attributes.iter().any(|one| is_reserved(one.name.as_bytes()));
        let hidden = Hidden::read(self.file, &attributes)?;
        let dataset = match dataset {
            Ok(dataset) => dataset,
            Err(reason) => return findings.unrepresented(path(self.groups, group, &name), reason),
        };
        for what in unwritten {
            findings.lost(what)?;
        }
        if dataset.dataspace == Dataspace::Null {
            let path = path(self.groups, group, &name);
            return findings.unrepresented(path, "has a null dataspace".into());
        }
        let extent = dataset.dataspace.dimensions().first().filter(|_| hidden.is_scale);
        let scale = extent.map(|&extent| {
            self.dimensions.add_scale(group, name.clone(), extent, hidden.dimension, address)
        });
        if scale.is_some() && hidden.without_variable {
            // Those of a dimension are not shown, whatever they are.
            let mut names = attributes.iter().map(|one| one.name.as_bytes());
            if names.all(|name| is_written_again(name, true)) {
                return Ok(());
            }
            let path = path(self.groups, group, &name);
            return findings.unrepresented(path, "attributes of a dimension".into());
        }
        if let Err(reason) = self.type_of(&dataset.datatype, group, findings)? {
            return findings.unrepresented(path(self.groups, group, &name), reason);
        }
        let shown = match name.as_bytes().strip_prefix(NOT_COORDINATE) {
            Some(rest) if !rest.is_empty() => Name::from(rest),
            _ => name.clone(),
        };
        let definition = self.definition(group, shown, &dataset)?;
        findings.keep(definition.name.len() as u64)?;
        let extents = dataset.dataspace.dimensions().to_vec();
        let is_scale = scale.is_some();
        self.pending.push(PendingAttributes { group, name, is_scale, attributes });
        self.shapes.push(VariableShape { group, extents, scale, hidden });
        self.definitions.push(definition);
        self.objects.push(dataset);
        Ok(())
    }

    /// Adds the attributes of variables, when the types of all of them are known.
    pub(super) fn add_attributes(&mut self, findings: &mut Findings) -> Result<()> {
        for (number, pending) in std::mem::take(&mut self.pending).into_iter().enumerate() {
            let PendingAttributes { group, name, is_scale, attributes } = pending;
            // Attached scales say what the numbers of dimensions say, and are in heaps.
            let shape = &mut self.shapes[number];
            if !self.dimensions.are_numbered(shape) {
                shape.hidden.attach(self.file, self.objects[number].address)?;
            }
            let path = || path(self.groups, group, &name);
            let (file, types) = (self.file, &self.types);
            let shown = attributes::shown(file, types, &path, is_scale, attributes, findings)?;
            self.definitions[number].attributes = shown;
            self.check_fill(&path, number, findings)?;
        }
        Ok(())
    }

    /// Whether netCDF has the type. One of a user that is not committed becomes one of the group.
    fn type_of(
        &mut self,
        datatype: &Datatype,
        group: usize,
        findings: &mut Findings,
    ) -> Result<std::result::Result<(), String>> {
        if AtomicType::of(datatype).is_some() || find(&self.types, datatype).is_some() {
            return Ok(Ok(()));
        }
        if let Err(reason) = check_user_type(&self.types, datatype) {
            return Ok(Err(reason));
        }
        let start = anonymous_name(datatype);
        let name = loop {
            self.anonymous += 1;
            let name = Name::from(format!("{start}{}", self.anonymous));
            if self.types.iter().all(|one| one.name != name) {
                break name;
            }
        };
        findings.keep(weight(datatype) + name.len() as u64)?;
        let datatype = Datatype { committed: None, ..datatype.clone() };
        self.types.push(TypeDefinition { group, name, datatype });
        Ok(Ok(()))
    }

    fn definition(
        &self,
        group: usize,
        name: Name,
        dataset: &Dataset,
    ) -> Result<VariableDefinition> {
        let storage = match &dataset.layout {
            Layout::Compact { data } => {
                let bytes = dataset.bytes().and_then(|bytes| usize::try_from(bytes).ok());
                let data = bytes.and_then(|bytes| data.get(..bytes)).unwrap_or(data);
                Storage::Compact(self.file.elements(&dataset.datatype, data)?)
            }
            Layout::Chunked(layout) => Storage::Chunked(layout.chunk.clone()),
            _ => Storage::Contiguous,
        };
        let fill = match (&dataset.fill.value, dataset.fill.time) {
            (Fill::Value(_), _) => VariableFill::Value,
            (Fill::Undefined, _) | (Fill::Default, FillTime::Never) => VariableFill::Nothing,
            (Fill::Default, _) => VariableFill::Zeros,
        };
        let datatype = Datatype { committed: None, ..dataset.datatype.clone() };
        let (dimensions, filters) = (Vec::new(), dataset.filters.clone());
        Ok(VariableDefinition {
            group,
            name,
            datatype,
            dimensions,
            storage,
            filters,
            fill,
            attributes: Vec::new(),
        })
    }

    /// Notes a fill value that is not the one that a commit would write.
    fn check_fill(
        &self,
        path: &dyn Fn() -> Name,
        number: usize,
        findings: &mut Findings,
    ) -> Result<()> {
        let (definition, dataset) = (&self.definitions[number], &self.objects[number]);
        let Fill::Value(stored) = &dataset.fill.value else { return Ok(()) };
        let stored = self.file.elements(&dataset.datatype, stored);
        let written = fill_of(definition).ok().and_then(|(_, value)| value);
        let same = match (&stored, &written) {
            (Ok(stored), Some(written)) => {
                stored == written || (is_nothing(stored) && is_nothing(written))
            }
            _ => false,
        };
        if same {
            return Ok(());
        }
        let path = path();
        findings.lost(format!("the fill value of \"{path}\" is not that of its attributes"))
    }
}

/// Whether an element is an empty string or sequence, or none.
fn is_nothing(element: &Elements) -> bool {
    element.as_bytes().iter().all(|&byte| byte == 0) && element.retained() <= 16 + 64
}

/// The text of an attribute of the root group.
pub(super) fn text_of<S: Source>(file: &File<S>, attribute: &Attribute) -> Option<String> {
    let values = file.values(&attribute.datatype, &attribute.value).ok()?;
    match values.as_slice() {
        [crate::Value::String(text)] => Some(text.to_string()),
        _ => None,
    }
}
