//! [`build`]: the image of a netCDF-4 file.
//!
//! Objects get their blocks first, since links and references point from everywhere to everywhere;
//! then each header is encoded. Order of links in a group: types, groups, then dimensions and
//! variables as netCDF-C interleaves them, so that a reader which numbers dimensions by their order
//! comes to the same numbers.

use super::fill::fill_of;
use super::scales::{
    Scales, coordinates_attribute, dimension_list, reference_list, scale_attributes,
};
use crate::model::{
    AllocationTime, ByteOrder, Dataspace, Datatype, FillValue, MessageFlags, MessageKind, Name,
};
use crate::netcdf::{
    AtomicType, AttributeDefinition, DimensionDefinition, FileDefinition, Storage,
};
use crate::write::Elements;
use crate::write::chunk_tree::ChunkTree;
use crate::write::datatype;
use crate::write::fragment::{BlockId, Fragment};
use crate::write::global_heap::HeapBuilder;
use crate::write::image::Image;
use crate::write::message;
use crate::write::object_header::HeaderBuilder;
use crate::write::placement::Placement;
use crate::{Error, Reason, Result, Structure};

/// Encodes all metadata of definitions that were checked; returns the image and the block of the
/// root group. `placements` are those of the variables.
pub(crate) fn build(file: &FileDefinition, placements: &[Placement]) -> Result<(Image, BlockId)> {
    let scales = Scales::new(file);
    let mut image = Image::new();
    let groups: Vec<BlockId> = file.groups.iter().map(|_| image.reserve()).collect();
    let types: Vec<BlockId> = file.types.iter().map(|_| image.reserve()).collect();
    let variables: Vec<BlockId> = file.variables.iter().map(|_| image.reserve()).collect();
    let of_dimensions = (0..file.dimensions.len()).map(|number| {
        let variable = scales.coordinate_variable(number);
        variable.map_or_else(|| image.reserve(), |variable| variables[variable])
    });
    let dimensions: Vec<BlockId> = of_dimensions.collect();
    let mut builder = Builder {
        file,
        users: users(file, &scales, &variables),
        scales,
        groups,
        types,
        variables,
        dimensions,
        image,
        heap: HeapBuilder::new(),
    };
    builder.groups()?;
    builder.types()?;
    for (number, placement) in (0..file.variables.len()).zip(placements) {
        builder.variable(number, placement)?;
    }
    builder.dimensions()?;
    builder.heap.finish(&mut builder.image);
    Ok((builder.image, builder.groups[0]))
}

/// For each dimension the variables that are attached to it. Scales are attached to nothing.
fn users(file: &FileDefinition, scales: &Scales, blocks: &[BlockId]) -> Vec<Vec<(BlockId, u32)>> {
    let mut users = vec![Vec::new(); file.dimensions.len()];
    for (number, variable) in file.variables.iter().enumerate() {
        if scales.dimension_of(number).is_none() {
            for (&dimension, position) in variable.dimensions.iter().zip(0..) {
                users[dimension].push((blocks[number], position));
            }
        }
    }
    users
}

struct Builder<'a> {
    file: &'a FileDefinition,
    scales: Scales,
    users: Vec<Vec<(BlockId, u32)>>,
    groups: Vec<BlockId>,
    types: Vec<BlockId>,
    variables: Vec<BlockId>,
    /// The scales.
    dimensions: Vec<BlockId>,
    image: Image,
    heap: HeapBuilder,
}

impl Builder<'_> {
    /// The links of all groups, in the order of creation.
    fn links(&self) -> Vec<Vec<(Name, BlockId)>> {
        let file = self.file;
        let mut links = vec![Vec::new(); file.groups.len()];
        for (one, &block) in file.types.iter().zip(&self.types) {
            links[one.group].push((one.name.clone(), block));
        }
        for (group, &block) in file.groups.iter().zip(&self.groups).skip(1) {
            links[group.parent].push((group.name.clone(), block));
        }
        let mut of_groups: Vec<(Vec<usize>, Vec<usize>)> = vec![Default::default(); links.len()];
        for (number, dimension) in file.dimensions.iter().enumerate() {
            of_groups[dimension.group].0.push(number);
        }
        for (number, variable) in file.variables.iter().enumerate() {
            of_groups[variable.group].1.push(number);
        }
        for ((dimensions, variables), links) in of_groups.iter().zip(&mut links) {
            self.interleave(dimensions, variables, links);
        }
        links
    }

    /// The dimensions and variables of a group: dimensions up to the first with a coordinate
    /// variable, then variables up to that one, and so on.
    fn interleave(
        &self,
        dimensions: &[usize],
        variables: &[usize],
        links: &mut Vec<(Name, BlockId)>,
    ) {
        let mut variables = variables.iter();
        let mut write = |links: &mut Vec<(Name, BlockId)>, until: Option<usize>| {
            for &number in variables.by_ref() {
                let name = self.scales.dataset_name(number, &self.file.variables[number]);
                links.push((name, self.variables[number]));
                if until == Some(number) {
                    break;
                }
            }
        };
        let mut last = None;
        for &number in dimensions {
            match self.scales.coordinate_variable(number) {
                None => {
                    let name = self.file.dimensions[number].name.clone();
                    links.push((name, self.dimensions[number]));
                }
                // It may have been written with those before another coordinate variable.
                Some(variable) if last.is_none_or(|last| last < variable) => {
                    write(links, Some(variable));
                    last = Some(variable);
                }
                Some(_) => {}
            }
        }
        write(links, None);
    }

    fn groups(&mut self) -> Result<()> {
        let file = self.file;
        for (number, links) in self.links().into_iter().enumerate() {
            if links.len() >= usize::from(message::NEVER) {
                let found = links.len() as u64;
                let reason = Reason::Limit { what: "links", found, limit: 0xfffe };
                return Err(Error::of(Structure::Group, reason));
            }
            let mut header = HeaderBuilder::new();
            let none = MessageFlags::default();
            header.message(MessageKind::LINK_INFO, none, message::link_info(links.len() as u64));
            let info = message::group_info(links.len());
            header.message(MessageKind::GROUP_INFO, MessageFlags::CONSTANT, info);
            for ((name, block), order) in links.iter().zip(0..) {
                header.message(MessageKind::LINK, none, message::link(name, order, *block));
            }
            if number == 0 {
                if let Some(properties) = &file.properties {
                    let properties = AttributeDefinition::text("_NCProperties", properties);
                    self.attribute(&mut header, &properties)?;
                }
                if file.classic_model {
                    self.attribute(&mut header, &AttributeDefinition::int("_nc3_strict", 1))?;
                }
            }
            for attribute in &file.groups[number].attributes {
                self.attribute(&mut header, attribute)?;
            }
            header.build(&mut self.image, self.groups[number])?;
        }
        Ok(())
    }

    fn types(&mut self) -> Result<()> {
        for (one, &block) in self.file.types.iter().zip(&self.types) {
            let mut header = HeaderBuilder::new();
            let body = datatype::encode(&one.datatype)?;
            header.message(MessageKind::DATATYPE, MessageFlags::CONSTANT, body);
            header.build(&mut self.image, block)?;
        }
        Ok(())
    }

    fn attribute(&mut self, header: &mut HeaderBuilder, one: &AttributeDefinition) -> Result<()> {
        let values = one.elements.resolve(&mut self.image, &mut self.heap);
        let body = message::attribute(&one.name, &one.datatype, &one.dataspace, &values)?;
        header.attribute(one.name.clone(), body);
        Ok(())
    }

    /// What all datasets have.
    fn dataset(
        &mut self,
        space: &Dataspace,
        datatype: &Datatype,
        fill: &FillValue,
        value: Option<&Elements>,
        layout: Fragment,
    ) -> Result<HeaderBuilder> {
        let value = value.map(|value| value.resolve(&mut self.image, &mut self.heap));
        let mut header = HeaderBuilder::new();
        let none = MessageFlags::default();
        header.message(MessageKind::DATASPACE, none, message::dataspace(space)?);
        header.message(MessageKind::DATATYPE, MessageFlags::CONSTANT, datatype::encode(datatype)?);
        let fill = message::fill_value(fill, value.as_ref());
        header.message(MessageKind::FILL_VALUE, MessageFlags::CONSTANT, fill);
        header.message(MessageKind::LAYOUT, none, layout);
        Ok(header)
    }

    fn variable(&mut self, number: usize, placement: &Placement) -> Result<()> {
        let file = self.file;
        let variable = &file.variables[number];
        let space = file.dataspace(variable);
        let element = variable.datatype.size;
        let layout = match (&variable.storage, placement) {
            (Storage::Compact(elements), _) => {
                let elements = elements.resolve(&mut self.image, &mut self.heap);
                if Some(elements.len() as u64) != file.bytes(variable) {
                    let reason = Reason::Invalid("has another size than the variable");
                    return Err(Error::of(Structure::Layout, reason));
                }
                message::compact_layout(&elements)?
            }
            (Storage::Contiguous, Placement::Contiguous { address, size }) => {
                message::contiguous_layout(*address, *size)
            }
            (Storage::Chunked(chunk), Placement::Chunked(chunks)) => {
                let mut tree = ChunkTree::new(chunk, element);
                let mut result = Ok(());
                chunks.for_each(&space.sizes(), |place, stored| {
                    if result.is_ok() {
                        result = tree.push(place, stored);
                    }
                });
                result?;
                let index = tree.build(&mut self.image);
                message::chunked_layout(chunk, element, index)?
            }
            _ => {
                let reason = Reason::Invalid("is another than that of the definition");
                return Err(Error::of(Structure::Layout, reason));
            }
        };
        let (fill, value) = fill_of(variable)?;
        let datatype = &variable.datatype;
        let mut header = self.dataset(&space, datatype, &fill, value.as_ref(), layout)?;
        if !variable.filters.is_empty() {
            let body = message::filter_pipeline(&variable.filters)?;
            header.message(MessageKind::FILTER_PIPELINE, MessageFlags::CONSTANT, body);
        }
        if !variable.dimensions.is_empty() {
            self.attribute(&mut header, &coordinates_attribute(variable))?;
        }
        let scale = self.scales.dimension_of(number);
        if let Some(dimension) = scale {
            let length = file.dimensions[dimension].length;
            for attribute in scale_attributes(dimension, length, Some(&variable.name)) {
                self.attribute(&mut header, &attribute)?;
            }
        }
        for attribute in &variable.attributes {
            self.attribute(&mut header, attribute)?;
        }
        if let Some(dimension) = scale {
            self.attached(&mut header, dimension)?;
        } else if !variable.dimensions.is_empty() {
            let scales = variable.dimensions.iter().map(|&dimension| self.dimensions[dimension]);
            let (name, body) = dimension_list(scales, &mut self.image, &mut self.heap)?;
            header.attribute(name, body);
        }
        header.build(&mut self.image, self.variables[number])
    }

    /// The scales of dimensions without a variable.
    fn dimensions(&mut self) -> Result<()> {
        for (number, dimension) in self.file.dimensions.iter().enumerate() {
            if self.scales.coordinate_variable(number).is_none() {
                self.dimension(number, dimension)?;
            }
        }
        Ok(())
    }

    fn dimension(&mut self, number: usize, dimension: &DimensionDefinition) -> Result<()> {
        let space = Dataspace::Simple(vec![dimension.extent()]);
        let datatype = AtomicType::Float.datatype(ByteOrder::Big);
        let (layout, allocation) = if dimension.unlimited {
            (message::chunked_layout(&[1], datatype.size, None)?, AllocationTime::Incremental)
        } else {
            let size = dimension.length.saturating_mul(datatype.size.into());
            (message::contiguous_layout(None, size), AllocationTime::Late)
        };
        let fill = FillValue { allocation, ..FillValue::default() };
        let mut header = self.dataset(&space, &datatype, &fill, None, layout)?;
        for attribute in scale_attributes(number, dimension.length, None) {
            self.attribute(&mut header, &attribute)?;
        }
        self.attached(&mut header, number)?;
        header.build(&mut self.image, self.dimensions[number])
    }

    fn attached(&mut self, header: &mut HeaderBuilder, dimension: usize) -> Result<()> {
        if !self.users[dimension].is_empty() {
            let (name, body) = reference_list(&self.users[dimension])?;
            header.attribute(name, body);
        }
        Ok(())
    }
}
