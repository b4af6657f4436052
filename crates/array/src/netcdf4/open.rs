//! Opening HDF5 files: from what rank 0 reads of them, all ranks make the same definitions
//! ([`super::metadata`]).

use std::io;
use std::os::unix::fs::FileExt as _;

use striate_file::{File, Mode};
use striate_hdf5::model::{Address, Fill, Layout, Name};
use striate_hdf5::netcdf::{
    AttributeDefinition, FileDefinition, NetcdfFile, NetcdfKind, Storage, describe,
};
use striate_hdf5::write::{DataAlignment, FilePlan, Placement, PlanOptions};
use striate_hdf5::{File as Hdf5File, SIGNATURE, Source};

use super::definition::{chunk_filter, element_values};
use super::metadata::{SharedMetadata, first_message};
use super::user_types::{type_of_elements, user_types};
use super::{Netcdf4State, hdf5_error};
use crate::file_state::{FileState, agree_among};
use crate::format::{
    Attribute, Dimension, Format, Group, Header, StorageLayout, StorageOptions, Variable,
};
use crate::{ArrayError, OpenMode, Options};

/// An HDF5 file as a dataset sees it.
#[derive(Debug)]
pub(crate) struct OpenedNetcdf4 {
    pub(crate) header: Header,
    described: NetcdfFile,
    placements: Vec<Placement>,
    length: u64,
    /// The number in the file of each variable of the header.
    numbers: Vec<usize>,
    /// What is in the file and not in the header: path and reason.
    hidden: Vec<(String, String)>,
}

/// Why something of a type that the file has is not shown.
const LAID_OUT_DIFFERENTLY: &str =
    "its elements are laid out differently than those of the type that the file has";

/// The largest user block that is looked behind.
const LAST_SIGNATURE: u64 = 1 << 20;

/// Whether a file of that length is HDF5: its signature is at its beginning, or behind a user block
/// of 512 bytes or a power of two times that.
pub(crate) fn is_hdf5(file: &mut File, length: u64) -> Result<bool, ArrayError> {
    let mut offset = 0;
    while offset <= LAST_SIGNATURE && offset + SIGNATURE.len() as u64 <= length {
        let mut bytes = [0; 8];
        let got = file.read_at(offset, bytes.as_mut_slice())?;
        if got == 8 && bytes == SIGNATURE {
            return Ok(true);
        }
        offset = if offset == 0 { 512 } else { 2 * offset };
    }
    Ok(false)
}

/// A superblock that takes the place of the one in the file: of a commit that another file has
/// decided, and that is not in this one yet.
pub(crate) type Superblock = [u8; super::SUPERBLOCK];

/// What rank 0 tells the others about the metadata of a file, for [`decode_metadata`].
pub(crate) fn read_metadata(
    file: &mut File,
    superblock: Option<&Superblock>,
) -> Result<Vec<u8>, ArrayError> {
    let length = file.size()?;
    Ok(first_message(file, superblock, length))
}

/// The metadata of a file, with what rank 0 has told. A superblock of rank 0 takes the place of the
/// one in the file. Collective.
pub(crate) fn decode_metadata(
    file: &mut File,
    superblock: Option<&Superblock>,
    message: Vec<u8>,
) -> Result<OpenedNetcdf4, ArrayError> {
    let mode = file.mode();
    let shared = SharedMetadata::new(file, superblock, message);
    let opened = decode(&shared, mode);
    let told = shared.finish();
    let opened = opened.map_err(|error| hdf5_error(file, error));
    // All decode the same bytes, so all have the same error, unless memory or the network fails.
    let opened = opened.and_then(|opened| told.map(|()| opened).map_err(ArrayError::from));
    agree_among(file.comm().as_ref(), opened)
}

/// The definitions of a local file; `None` if it is no HDF5 file, or a damaged one.
pub(crate) fn header_of_local_file(file: &std::fs::File) -> io::Result<Option<Header>> {
    let source = LocalSource { length: file.metadata()?.len(), file };
    Ok(decode(&source, Mode::READ).ok().map(|opened| opened.header))
}

/// A local file that is read by one process.
struct LocalSource<'f> {
    length: u64,
    file: &'f std::fs::File,
}

impl Source for LocalSource<'_> {
    fn length(&self) -> io::Result<u64> {
        Ok(self.length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

fn decode(source: &dyn Source, mode: Mode) -> striate_hdf5::Result<OpenedNetcdf4> {
    let file = Hdf5File::open(source)?;
    let mut described = describe(&file)?;
    let placements = described.placements(&file)?;
    let mut hidden: Vec<(String, String)> = described
        .unrepresented
        .iter()
        .map(|one| (one.path.to_string(), one.reason.clone()))
        .collect();
    let (header, numbers) = header_of(&mut described, mode, &mut hidden);
    let length = source.length().unwrap_or(0);
    Ok(OpenedNetcdf4 { header, described, placements, length, numbers, hidden })
}

/// The definitions that a dataset has, and the number in the file of each variable. If the file is
/// only read, attributes are moved there: only a commit needs them as they are in the file.
fn header_of(
    described: &mut NetcdfFile,
    mode: Mode,
    hidden: &mut Vec<(String, String)>,
) -> (Header, Vec<usize>) {
    let format = match described.kind {
        NetcdfKind::Netcdf4Classic => Format::Netcdf4Classic,
        NetcdfKind::Netcdf4 | NetcdfKind::Hdf5 => Format::Netcdf4,
    };
    let mut header = Header::new(format);
    header.types = user_types(&described.definition);
    let take = |of: &mut Vec<AttributeDefinition>| {
        if mode.contains(Mode::WRITE) { of.clone() } else { std::mem::take(of) }
    };
    let mut attributes = |definition: &FileDefinition,
                          of: Vec<AttributeDefinition>,
                          owner: &str|
     -> Vec<Attribute> {
        let mut shown = Vec::with_capacity(of.len());
        for AttributeDefinition { name, datatype, dataspace, elements } in of {
            let values = element_values(definition, &datatype, &dataspace, elements);
            match (String::from_utf8(name.into_bytes()), values) {
                (Ok(name), Some(values)) => shown.push(Attribute { name, values }),
                (name, _) => {
                    let name = name.unwrap_or_else(|error| {
                        String::from_utf8_lossy(error.as_bytes()).into_owned()
                    });
                    hidden.push((format!("{owner}@{name}"), LAID_OUT_DIFFERENTLY.into()));
                }
            }
        }
        shown
    };
    for number in 0..described.definition.groups.len() {
        let of = take(&mut described.definition.groups[number].attributes);
        let definition = &described.definition;
        let group = &definition.groups[number];
        let attributes = attributes(definition, of, &group.name.to_string());
        if number == 0 {
            header.attributes = attributes;
        } else {
            let (name, parent) = (group.name.to_string(), group.parent as u32);
            header.groups.push(Group { name, parent, attributes });
        }
    }
    let definition = &described.definition;
    for dimension in &definition.dimensions {
        header.dimensions.push(Dimension {
            name: dimension.name.to_string(),
            len: dimension.length,
            unlimited: dimension.unlimited,
            group: dimension.group as u32,
        });
    }
    let mut numbers = Vec::with_capacity(definition.variables.len());
    header.variables.reserve(definition.variables.len());
    let mut others = Vec::new();
    for number in 0..described.definition.variables.len() {
        let of = take(&mut described.definition.variables[number].attributes);
        let definition = &described.definition;
        let variable = &definition.variables[number];
        let group = variable.group as u32;
        let name = text(&variable.name);
        if let Some(reason) = elsewhere(&described.objects[number].layout) {
            others.push((header.path(group, &name), reason.into()));
            continue;
        }
        let Some((external, byte_order)) = type_of_elements(definition, &variable.datatype) else {
            let path = header.path(group, &name);
            others.push((path, LAID_OUT_DIFFERENTLY.into()));
            continue;
        };
        let dimensions = variable.dimensions.iter().map(|&number| number as u32).collect();
        let layout = match &variable.storage {
            Storage::Chunked(shape) => StorageLayout::Chunked(shape.clone()),
            Storage::Contiguous | Storage::Compact(_) => StorageLayout::Contiguous,
        };
        let filters = variable.filters.iter().map(chunk_filter).collect();
        header.variables.push(Variable {
            attributes: attributes(definition, of, &name),
            group,
            storage: StorageOptions { layout, filters, byte_order },
            ..Variable::new(name, external, dimensions)
        });
        numbers.push(number);
    }
    hidden.append(&mut others);
    (header, numbers)
}

/// The text that a name most likely is.
fn text(name: &Name) -> String {
    name.as_str().map_or_else(|| name.to_string(), str::to_owned)
}

/// Why the elements of a variable cannot be read, if they are not in the file.
const fn elsewhere(layout: &Layout) -> Option<&'static str> {
    match layout {
        Layout::Virtual { .. } => Some("its elements are in other datasets (a virtual dataset)"),
        Layout::External { .. } => Some("its elements are in other files"),
        _ => None,
    }
}

impl OpenedNetcdf4 {
    /// Makes it the state of a file. A file that cannot be written without loss becomes read-only;
    /// one that was opened only to be read is not asked, because the answer takes as long as
    /// reading the metadata. Collective.
    pub(crate) fn install(
        self,
        state: &mut FileState,
        options: &Options,
    ) -> Result<(), ArrayError> {
        let Self { described, placements, length, numbers, hidden, .. } = self;
        let mut read_only = None;
        if state.mode != OpenMode::ReadOnly {
            read_only = described.rewritable().err();
            if read_only.is_some() {
                state.mode = OpenMode::ReadOnly;
            }
        }
        let fills = numbers.iter().map(|&number| {
            let object = &described.objects[number];
            match &object.fill.value {
                Fill::Value(value)
                    if value.len() == object.datatype.size as usize
                        && !object.datatype.has_descriptors() =>
                {
                    value.clone()
                }
                _ => vec![0; object.datatype.size as usize],
            }
        });
        let fills = fills.collect();
        for (variable, &number) in state.header.variables.iter_mut().zip(&numbers) {
            if let Placement::Contiguous { address: Some(address), .. } = &placements[number] {
                variable.begin = address.0;
            }
        }
        for (filled, &number) in state.filled.iter_mut().zip(&numbers) {
            let fill = described.definition.variables[number].fill;
            *filled = fill == striate_hdf5::netcdf::VariableFill::Value;
        }
        let alignment = DataAlignment {
            threshold: state.alignment.fixed_from,
            alignment: state.alignment.fixed,
        };
        let plan_options =
            PlanOptions { alignment, growth_reserve: super::definition::GROWTH_RESERVE };
        let is_read_only = state.mode == OpenMode::ReadOnly;
        let plan = resume(described.definition, placements, length, plan_options, is_read_only);
        let plan = plan.map_err(|error| hdf5_error(&state.file, error))?;
        let mut netcdf4 = Netcdf4State::new(plan, numbers, fills, options);
        netcdf4.read_only = read_only;
        netcdf4.hidden = hidden;
        state.netcdf4 = Some(Box::new(netcdf4));
        state.share_cores(options)
    }
}

/// The plan of a file. One that is only read is not checked for what writing needs.
fn resume(
    definition: FileDefinition,
    placements: Vec<Placement>,
    length: u64,
    options: PlanOptions,
    is_read_only: bool,
) -> striate_hdf5::Result<FilePlan> {
    if is_read_only {
        return Ok(FilePlan::read_only(definition, placements, Address(length)));
    }
    FilePlan::resume(definition, placements, Address(length), options)
}
