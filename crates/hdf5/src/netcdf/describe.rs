//! [`describe`]: from the objects of an HDF5 file to the definitions of netCDF.

use super::attributes;
use super::definition::FileDefinition;
use super::findings::{Findings, path};
use super::hidden::is_reserved;
use super::objects::Objects;
use super::variables::{Variables, text_of};
use super::{NetcdfFile, NetcdfKind};
use crate::file::File;
use crate::model::Name;
use crate::{Result, Source};

/// What a file is to a netCDF program.
///
/// Reads all metadata but the indexes of chunks. The same bytes give the same description.
pub fn describe<S: Source>(file: &File<S>) -> Result<NetcdfFile> {
    let mut findings = Findings::new(file.walk().length());
    check_superblock(file, &mut findings)?;
    let Objects { mut groups, group_headers, types, datasets } =
        Objects::read(file, &mut findings)?;
    let mut variables = Variables::new(file, &groups, types, datasets.len());
    for dataset in datasets {
        variables.add(dataset, &mut findings)?;
    }
    variables.add_attributes(&mut findings)?;
    let resolved = variables.dimensions.resolve(&groups, &variables.shapes);
    let mut definitions = variables.definitions;
    for &number in &resolved.phony {
        let path = path(&groups, definitions[number].group, &definitions[number].name);
        findings.lost(format!("dimensions of \"{path}\" have no scale"))?;
    }
    for (definition, dimensions) in definitions.iter_mut().zip(resolved.of_variables) {
        definition.dimensions = dimensions;
    }
    let (types, objects) = (variables.types, variables.objects);
    let mut has_conventions = variables.has_conventions;

    let mut properties = None;
    let mut classic_model = false;
    for (number, object) in group_headers.iter().enumerate() {
        let found = file.attributes_as_stored(object)?;
        for attribute in found.iter().filter(|_| number == 0) {
            match attribute.name.as_bytes() {
                b"_NCProperties" => properties = text_of(file, attribute),
                b"_nc3_strict" => classic_model = true,
                _ => {}
            }
        }
        has_conventions |= found.iter().any(|one| is_reserved(one.name.as_bytes()));
        let path = || path(&groups, number, &Name::default());
        let shown = attributes::shown(file, &types, &path, false, found, &mut findings)?;
        groups[number].attributes = shown;
    }
    let kind = match (classic_model, has_conventions) {
        (true, _) => NetcdfKind::Netcdf4Classic,
        (false, true) => NetcdfKind::Netcdf4,
        (false, false) => NetcdfKind::Hdf5,
    };
    let dimensions = resolved.dimensions;
    let variables = definitions;
    let definition =
        FileDefinition { classic_model, properties, groups, dimensions, types, variables };
    let Findings { unrepresented, lost, .. } = findings;
    Ok(NetcdfFile { definition, objects, kind, unrepresented, lost })
}

/// Notes what a superblock says that a commit does not write.
fn check_superblock<S: Source>(file: &File<S>, findings: &mut Findings) -> Result<()> {
    let superblock = file.superblock();
    if superblock.location != 0 {
        findings.lost(format!("the file has a user block of {} bytes", superblock.location))?;
    }
    if superblock.offset_size != 8 || superblock.length_size != 8 {
        let (address, length) = (superblock.offset_size, superblock.length_size);
        findings.lost(format!("addresses have {address} bytes and lengths {length}"))?;
    }
    if superblock.version >= 2 && superblock.consistency_flags & 0b101 != 0 {
        findings.lost("the file is marked as open for writing by another program".into())?;
    }
    Ok(())
}
