//! [`Generated`]: a file made from a seed: its definitions, its values, and both as JSON.

use serde_json::{Value as Json, json};
use striate_hdf5::model::{ByteOrder, Filter};
use striate_hdf5::write::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, GroupDefinition, Storage,
    TypeDefinition, VariableDefinition, VariableFill,
};
use striate_hdf5::write::{DataAlignment, Elements, PlanOptions};

use super::kind::{Field, GeneratedValue, Kind};
use super::written::Written;
use striate_testing::splitmix::SplitMix64;

/// A file with its values.
#[derive(Clone, Debug)]
pub(crate) struct Generated {
    pub(crate) definition: FileDefinition,
    pub(crate) options: PlanOptions,
    /// The type and, in row-major order, the values of each variable.
    pub(crate) variables: Vec<(Kind, Vec<GeneratedValue>)>,
    /// What attributes are, by owner: a group's or a variable's number.
    pub(crate) group_attributes: Vec<Vec<(String, Kind, Vec<GeneratedValue>)>>,
    pub(crate) variable_attributes: Vec<Vec<(String, Kind, Vec<GeneratedValue>)>>,
    types: Vec<Kind>,
    /// Whether netCDF4-python can make the same file.
    pub(crate) reproducible: bool,
}

/// The types that numbers and text have.
const NUMBERS: [AtomicType; 10] = [
    AtomicType::Byte,
    AtomicType::Short,
    AtomicType::Int,
    AtomicType::Float,
    AtomicType::Double,
    AtomicType::UByte,
    AtomicType::UShort,
    AtomicType::UInt,
    AtomicType::Int64,
    AtomicType::UInt64,
];

pub(crate) fn filter(id: u16, optional: bool, parameters: &[u32]) -> Filter {
    Filter { id, name: "".into(), optional, parameters: parameters.to_vec() }
}

impl Generated {
    pub(crate) fn new(seed: u64) -> Self {
        let random = &mut SplitMix64::new(seed);
        let mut file = Self {
            definition: FileDefinition::default(),
            options: PlanOptions::default(),
            variables: Vec::new(),
            group_attributes: vec![Vec::new()],
            variable_attributes: Vec::new(),
            types: Vec::new(),
            reproducible: true,
        };
        if random.once_in(3) {
            let alignment = *random.pick(&[16, 512, 4096]);
            file.options.alignment = DataAlignment { threshold: random.below(200), alignment };
        }
        file.options.growth_reserve = *random.pick(&[0, 1 << 10, 1 << 20]);
        let classic = random.once_in(5);
        file.definition.classic_model = classic;
        if !classic {
            file.groups(random);
        }
        file.dimensions(random, classic);
        if !classic {
            file.types(random);
        }
        file.variables(random, classic);
        file.reproducible &= file.lengths_follow_from_values();
        file
    }

    fn groups(&mut self, random: &mut SplitMix64) {
        for number in 0..random.below(4) {
            let parent = random.below(self.definition.groups.len() as u64) as usize;
            let name = if random.once_in(4) { "größe" } else { "group" };
            let name = format!("{name}{number}").into();
            self.definition.groups.push(GroupDefinition { name, parent, attributes: Vec::new() });
            self.group_attributes.push(Vec::new());
        }
        for group in 0..self.definition.groups.len() {
            let (definitions, values) = attributes(random, &[], false);
            self.definition.groups[group].attributes = definitions;
            self.group_attributes[group] = values;
        }
    }

    fn dimensions(&mut self, random: &mut SplitMix64, classic: bool) {
        for number in 0..=random.below(5) {
            let unlimited =
                if classic { number == 0 && random.once_in(2) } else { random.once_in(3) };
            let group = random.below(self.definition.groups.len() as u64) as usize;
            let length = if unlimited { random.below(8) } else { random.below(9) + 1 };
            let names = ["x", "y", "time", "länge", "level"];
            let name = format!("{}{number}", names[number as usize % 5]).into();
            self.definition.dimensions.push(DimensionDefinition { group, name, length, unlimited });
        }
    }

    fn types(&mut self, random: &mut SplitMix64) {
        for number in 0..random.below(5) {
            let group = random.below(self.definition.groups.len() as u64) as usize;
            let base = *random.pick(&NUMBERS);
            let kind = match random.below(5) {
                0 => {
                    let integers = [AtomicType::Byte, AtomicType::UByte, AtomicType::Int];
                    let members = (0..=random.below(4)).map(|n| (format!("E{n}"), n as i64 * 3));
                    Kind::Enumeration(*random.pick(&integers), members.collect())
                }
                1 if random.once_in(3) => {
                    self.reproducible = false;
                    Kind::Opaque(random.below(20) as u32 + 1)
                }
                2 => Kind::Sequence(Box::new(Kind::little(base))),
                _ => {
                    let fields = (0..=random.below(4)).map(|n| Field {
                        name: format!("m{n}"),
                        kind: Kind::little(*random.pick(&NUMBERS)),
                        shape: (0..random.below(3)).map(|_| random.below(3) as u32 + 1).collect(),
                    });
                    Kind::Compound(fields.collect())
                }
            };
            let (name, datatype) = (format!("type{number}").into(), kind.datatype());
            self.definition.types.push(TypeDefinition { group, name, datatype });
            self.types.push(kind);
        }
    }

    /// Whether a group is in another one, or is that one.
    fn is_within(&self, mut group: usize, other: usize) -> bool {
        while group != other && group != 0 {
            group = self.definition.groups[group].parent;
        }
        group == other
    }

    fn variables(&mut self, random: &mut SplitMix64, classic: bool) {
        let most = if random.once_in(10) { 40 } else { 8 };
        for number in 0..=random.below(most) {
            let group = random.below(self.definition.groups.len() as u64) as usize;
            let visible: Vec<usize> = (0..self.definition.dimensions.len())
                .filter(|&one| self.is_within(group, self.definition.dimensions[one].group))
                .collect();
            let mut dimensions: Vec<usize> = Vec::new();
            if !visible.is_empty() {
                for _ in 0..random.below(5) {
                    dimensions.push(*random.pick(&visible));
                }
            }
            if classic {
                // The record dimension can only be the first.
                let unlimited = |one: &usize| self.definition.dimensions[*one].unlimited;
                dimensions.sort_by_key(|one| !unlimited(one));
                let records = dimensions.iter().filter(|one| unlimited(one)).count();
                dimensions.drain(..records.saturating_sub(1));
            }
            let (name, dimensions) = self.name(random, group, number, dimensions);
            let visible_types: Vec<usize> = (0..self.types.len())
                .filter(|&one| self.is_within(group, self.definition.types[one].group))
                .collect();
            let order = *random.pick(&[ByteOrder::Little, ByteOrder::Little, ByteOrder::Big]);
            let kind = match random.below(8) {
                0 => Kind::little(AtomicType::Char),
                1 if !classic => Kind::little(AtomicType::String),
                2 | 3 if !visible_types.is_empty() => {
                    self.types[*random.pick(&visible_types)].clone()
                }
                _ if classic => Kind::Atomic(NUMBERS[random.below(5) as usize], order),
                _ => Kind::Atomic(*random.pick(&NUMBERS), order),
            };
            self.variable(random, group, name, kind, dimensions);
        }
    }

    /// A name: often that of a dimension, which makes a coordinate variable or one that is none.
    fn name(
        &self,
        random: &mut SplitMix64,
        group: usize,
        number: u64,
        mut dimensions: Vec<usize>,
    ) -> (String, Vec<usize>) {
        let all = &self.definition.dimensions;
        let here: Vec<usize> = (0..all.len()).filter(|&one| all[one].group == group).collect();
        if !here.is_empty() && random.once_in(3) {
            let dimension = *random.pick(&here);
            let name = all[dimension].name.as_str().unwrap().to_string();
            let taken = self.definition.variables.iter();
            let taken = taken.filter(|one| one.group == group).any(|one| one.name == *name);
            if !taken {
                if !random.once_in(4) {
                    dimensions.truncate(usize::from(random.once_in(4)));
                    dimensions.retain(|&one| one != dimension);
                    dimensions.insert(0, dimension);
                }
                return (name, dimensions);
            }
        }
        let prefix = if random.once_in(6) { "größe_" } else { "var_" };
        (format!("{prefix}{number}"), dimensions)
    }

    fn variable(
        &mut self,
        random: &mut SplitMix64,
        group: usize,
        name: String,
        kind: Kind,
        dimensions: Vec<usize>,
    ) {
        let lengths: Vec<u64> =
            dimensions.iter().map(|&one| self.definition.dimensions[one].length).collect();
        let grows = dimensions.iter().any(|&one| self.definition.dimensions[one].unlimited);
        let count = lengths.iter().product::<u64>();
        let values: Vec<GeneratedValue> = (0..count).map(|_| kind.random(random)).collect();
        let storage = if grows || (!dimensions.is_empty() && random.once_in(3)) {
            let chunk = lengths.iter().map(|&length| random.below(length.max(3)) + 1);
            let fixed = dimensions.iter().map(|&one| &self.definition.dimensions[one]);
            // NetCDF-C allows no chunk that is longer than a dimension that cannot grow.
            let chunk = chunk.zip(fixed).map(|(len, dimension)| {
                if dimension.unlimited { len } else { len.min(dimension.length) }
            });
            Storage::Chunked(chunk.collect())
        } else if random.once_in(5) && !kind.has_heap() {
            Storage::Compact(elements(&kind, &values))
        } else {
            Storage::Contiguous
        };
        let datatype = kind.datatype();
        let mut filters = Vec::new();
        if matches!(storage, Storage::Chunked(_)) && !kind.has_heap() && random.once_in(2) {
            if random.once_in(2) {
                filters.push(filter(2, true, &[datatype.size]));
            }
            if random.once_in(2) {
                filters.push(filter(1, true, &[random.below(9) as u32 + 1]));
            }
            if random.once_in(3) {
                filters.push(filter(3, false, &[]));
            }
        }
        let fill_value = match &kind {
            Kind::Atomic(atomic, _) if random.once_in(3) && *atomic != AtomicType::String => {
                vec![("_FillValue".to_string(), Kind::little(*atomic), vec![kind.random(random)])]
            }
            _ => Vec::new(),
        };
        let fill = if random.once_in(6) { VariableFill::Nothing } else { VariableFill::default() };
        // NetCDF4 cannot say that strings and types of users are not filled.
        let plain = matches!(kind, Kind::Atomic(..)) && !kind.has_heap();
        let fill = if fill_value.is_empty() && plain { fill } else { VariableFill::Value };
        let (attributes, values_of) =
            attributes(random, &fill_value, self.definition.classic_model);
        self.definition.variables.push(VariableDefinition {
            group,
            name: name.into(),
            datatype,
            dimensions,
            storage,
            filters,
            fill,
            attributes,
        });
        self.variable_attributes.push(values_of);
        self.variables.push((kind, values));
    }

    /// Whether each unlimited dimension has the length that netCDF-C gives it when the values are
    /// written: one whose variables are all empty would stay at 0.
    fn lengths_follow_from_values(&self) -> bool {
        let dimensions = self.definition.dimensions.iter().enumerate();
        dimensions.filter(|(_, one)| one.unlimited && one.length > 0).all(|(number, _)| {
            let users = self.definition.variables.iter().zip(&self.variables);
            let mut users = users.filter(|(one, _)| one.dimensions.contains(&number)).peekable();
            users.peek().is_none() || users.any(|(_, (_, values))| !values.is_empty())
        })
    }

    /// The path of a group.
    pub(crate) fn path(&self, group: usize) -> String {
        if group == 0 {
            return "/".into();
        }
        let one = &self.definition.groups[group];
        let parent = self.path(one.parent);
        format!("{}/{}", parent.trim_end_matches('/'), one.name)
    }

    /// The path of a variable's dataset.
    pub(crate) fn dataset_path(&self, number: usize) -> String {
        let file = &self.definition;
        let variable = &file.variables[number];
        let mut dimensions = file.dimensions.iter().enumerate();
        let named =
            dimensions.find(|(_, one)| one.group == variable.group && one.name == variable.name);
        let free =
            named.is_none_or(|(dimension, _)| variable.dimensions.first() == Some(&dimension));
        let prefix = if free { "" } else { "_nc4_non_coord_" };
        format!("{}/{prefix}{}", self.path(variable.group).trim_end_matches('/'), variable.name)
    }

    /// Writes the file, in as many commits as its dimensions need; those that can grow begin with
    /// nothing.
    pub(crate) fn write(&self, often: bool) -> Written {
        let mut definition = self.definition.clone();
        for dimension in &mut definition.dimensions {
            if dimension.unlimited {
                dimension.length = 0;
            }
        }
        let mut written = Written::create(definition, self.options);
        for (number, dimension) in self.definition.dimensions.iter().enumerate() {
            if dimension.unlimited {
                for length in [dimension.length / 2, dimension.length] {
                    written.plan.grow(number, length).unwrap();
                    if often {
                        written.commit();
                    }
                }
            }
        }
        for (number, (kind, values)) in self.variables.iter().enumerate() {
            written.put(number, &elements(kind, values));
        }
        written.commit();
        written
    }

    /// All of it, for the peers' script.
    pub(crate) fn json(&self) -> Json {
        let file = &self.definition;
        let attributes = |list: &[(String, Kind, Vec<GeneratedValue>)]| {
            let one = |(name, kind, values): &(String, Kind, Vec<GeneratedValue>)| {
                json!([
                    name,
                    kind.json(),
                    values.iter().map(GeneratedValue::json).collect::<Vec<_>>()
                ])
            };
            list.iter().map(one).collect::<Vec<_>>()
        };
        let groups = file.groups.iter().enumerate().map(|(number, _)| {
            json!({"path": self.path(number), "attributes": attributes(&self.group_attributes[number])})
        });
        let dimensions = file.dimensions.iter().map(|one| {
            json!({
                "group": self.path(one.group),
                "name": one.name.as_str(),
                "length": one.length,
                "unlimited": one.unlimited,
            })
        });
        let types = file.types.iter().zip(&self.types).map(|(one, kind)| {
            json!({
                "group": self.path(one.group), "name": one.name.as_str(), "type": kind.json(),
            })
        });
        let variables = file.variables.iter().enumerate().map(|(number, one)| {
            let (kind, values) = &self.variables[number];
            let storage = match &one.storage {
                Storage::Contiguous => json!("contiguous"),
                Storage::Compact(_) => json!("compact"),
                Storage::Chunked(shape) => json!(shape),
            };
            let filters = one.filters.iter().map(|one| json!([one.id, one.parameters]));
            json!({
                "group": self.path(one.group),
                "name": one.name.as_str(),
                "type": kind.json(),
                "dimensions": one.dimensions,
                "storage": storage,
                "filters": filters.collect::<Vec<_>>(),
                "fill": one.fill == VariableFill::Value,
                "attributes": attributes(&self.variable_attributes[number]),
                "values": values.iter().map(GeneratedValue::json).collect::<Vec<_>>(),
            })
        });
        json!({
            "classic": file.classic_model,
            "reproducible": self.reproducible,
            "groups": groups.collect::<Vec<_>>(),
            "dimensions": dimensions.collect::<Vec<_>>(),
            "types": types.collect::<Vec<_>>(),
            "variables": variables.collect::<Vec<_>>(),
        })
    }
}

/// Values as they are stored.
pub(crate) fn elements(kind: &Kind, values: &[GeneratedValue]) -> Elements {
    let mut out = Elements::new();
    for value in values {
        kind.push(value, &mut out);
    }
    out
}

type Attributes = (Vec<AttributeDefinition>, Vec<(String, Kind, Vec<GeneratedValue>)>);

/// Some attributes, behind those that are given.
fn attributes(
    random: &mut SplitMix64,
    given: &[(String, Kind, Vec<GeneratedValue>)],
    classic: bool,
) -> Attributes {
    let mut all = given.to_vec();
    let most = if random.once_in(8) { 20 } else { 5 };
    for number in 0..random.below(most) {
        // The classic model has the first six types.
        let atomic = *random.pick(&AtomicType::ALL[..if classic { 6 } else { 12 }]);
        let count = match atomic {
            AtomicType::Char => random.below(30),
            _ if random.once_in(20) => random.below(2000) + 1,
            _ => random.below(4) + 1,
        };
        let kind = Kind::little(atomic);
        let values: Vec<GeneratedValue> = match atomic {
            AtomicType::Char => {
                let text: String = (0..count).map(|_| *random.pick(&['a', 'b', 'ü'])).collect();
                vec![GeneratedValue::Text(text)]
            }
            _ => (0..count).map(|_| kind.random(random)).collect(),
        };
        let name = if random.once_in(5) { "größe" } else { "attribute" };
        all.push((format!("{name}_{number}"), kind, values));
    }
    let definitions = all.iter().map(|(name, kind, values)| match (kind, &values[..]) {
        (Kind::Atomic(AtomicType::Char, _), [GeneratedValue::Text(text)]) => {
            AttributeDefinition::text(name.as_str(), text)
        }
        _ => AttributeDefinition::new(name.as_str(), kind.datatype(), elements(kind, values)),
    });
    (definitions.collect(), all)
}
