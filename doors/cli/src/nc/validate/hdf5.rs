//! Every violation of the format in an HDF5 file: all metadata is read, with its checksums, and
//! every chunk is decoded, one at a time.

use std::collections::HashSet;
use std::ops::Bound;

use striate_array::cdl::netcdf4::{GroupTree, VariableData};
use striate_hdf5::model::{Address, Layout, LinkTarget, Name, Object, ObjectKind};
use striate_hdf5::netcdf::{NetcdfFile, NetcdfKind, describe};
use striate_hdf5::{Dataset, Error, File, Source};

use super::ViolationRow;

/// Chunks whose index entries are read at once.
const CHUNK_BATCH: usize = 1024;
/// Problems that are listed.
const LISTED: usize = 1000;

/// What was found.
pub(super) struct Hdf5Findings {
    pub(super) format: Option<String>,
    pub(super) rows: Vec<ViolationRow>,
}

/// Looks at all of a file.
pub(super) fn look(file: &File<impl Source>) -> Hdf5Findings {
    let mut problems = Problems { rows: Vec::new(), more: 0, base: file.superblock().base };
    if file.superblock().consistency_flags & 1 != 0 {
        problems.warn("the file is marked as open for writing: its writer did not close it".into());
    }
    walk(file, &mut problems);
    let described = match describe(file) {
        Ok(described) => Some(described),
        Err(error) => {
            problems.add(None, &error);
            None
        }
    };
    if let Some(described) = &described {
        for one in &described.unrepresented {
            problems.warn(format!("{}: netCDF cannot represent it: {}", one.path, one.reason));
        }
        values(file, described, &mut problems);
    }
    if problems.more > 0 {
        let what = format!("{} more problems are not listed", problems.more);
        problems.rows.push(ViolationRow { at: None, warning: false, what });
    }
    let format = described.map(|described| match described.kind {
        NetcdfKind::Netcdf4 => "netCDF-4".to_owned(),
        NetcdfKind::Netcdf4Classic => "netCDF-4 (classic model)".to_owned(),
        NetcdfKind::Hdf5 => "HDF5".to_owned(),
    });
    Hdf5Findings { format, rows: problems.rows }
}

/// A problem of the file as a whole.
pub(super) fn row(error: &Error, base: u64) -> ViolationRow {
    let at = error.address.map(|address| base.saturating_add(address.0));
    ViolationRow { at, warning: false, what: error.to_string() }
}

/// Problems found so far.
struct Problems {
    rows: Vec<ViolationRow>,
    more: u64,
    base: u64,
}

impl Problems {
    fn add(&mut self, path: Option<&Name>, error: &Error) {
        let mut row = row(error, self.base);
        if let Some(path) = path {
            row.what = format!("{path}: {}", row.what);
        }
        self.push(row);
    }

    fn warn(&mut self, what: String) {
        self.push(ViolationRow { at: None, warning: true, what });
    }

    fn push(&mut self, row: ViolationRow) {
        // The same structure may be met on several ways.
        if self.rows.iter().any(|known| known.at.is_some() && known.at == row.at) {
            return;
        }
        if self.rows.len() < LISTED {
            self.rows.push(row);
        } else {
            self.more += 1;
        }
    }
}

/// Looks at all objects that hard links lead to, also behind those that are damaged.
fn walk(file: &File<impl Source>, problems: &mut Problems) {
    let root = file.superblock().root.header;
    let mut seen = HashSet::from([root]);
    let mut next: Vec<(Name, Address)> = vec![(Name::from("/"), root)];
    while let Some((path, address)) = next.pop() {
        let object = match file.object(address) {
            Ok(object) => object,
            Err(error) => {
                problems.add(Some(&path), &error);
                continue;
            }
        };
        if let Err(error) = attributes(file, &object) {
            problems.add(Some(&path), &error);
        }
        match object.kind {
            ObjectKind::Group => match file.links(&object) {
                Ok(links) => {
                    for link in links.into_iter().rev() {
                        if let LinkTarget::Hard(address) = link.target
                            && seen.insert(address)
                        {
                            next.push((within(&path, &link.name), address));
                        }
                    }
                }
                Err(error) => problems.add(Some(&path), &error),
            },
            ObjectKind::Dataset => match file.dataset(&object) {
                Ok(dataset) => chunks(file, &path, &dataset, problems),
                Err(error) => problems.add(Some(&path), &error),
            },
            ObjectKind::Datatype => {
                if let Err(error) = file.committed_datatype(&object) {
                    problems.add(Some(&path), &error);
                }
            }
        }
    }
}

fn within(path: &Name, name: &Name) -> Name {
    let separator: &[u8] = if path == "/" { b"" } else { b"/" };
    Name::from([path.as_bytes(), separator, name.as_bytes()].concat())
}

fn attributes(file: &File<impl Source>, object: &Object) -> Result<(), Error> {
    for attribute in file.attributes(object)? {
        file.values(&attribute.datatype, &attribute.value)?;
    }
    Ok(())
}

/// Decodes all chunks of a dataset.
fn chunks(file: &File<impl Source>, path: &Name, dataset: &Dataset, problems: &mut Problems) {
    let Layout::Chunked(_) = dataset.layout else { return };
    let mut from: Option<Vec<u64>> = None;
    loop {
        let bound = from.as_deref().map_or(Bound::Unbounded, Bound::Excluded);
        let batch = match file.chunks(dataset, bound, CHUNK_BATCH) {
            Ok(batch) => batch,
            Err(error) => return problems.add(Some(path), &error),
        };
        for chunk in &batch {
            if let Err(error) = file.read_chunk(dataset, chunk) {
                problems.add(Some(path), &error);
            }
        }
        match batch.last() {
            Some(last) if batch.len() == CHUNK_BATCH => from = Some(last.offset.clone()),
            _ => return,
        }
    }
}

/// Reads values of variable length, which are in the heaps.
fn values(file: &File<impl Source>, described: &NetcdfFile, problems: &mut Problems) {
    let definition = &described.definition;
    let tree = GroupTree::new(definition);
    for (index, variable) in definition.variables.iter().enumerate() {
        let Some(reader) = VariableData::new(file, described, index) else { continue };
        if !variable.datatype.has_descriptors() {
            continue;
        }
        let path = Name::from(tree.path(definition, variable.group, &variable.name));
        if let Err(error) = reader.slabs().try_for_each(|slab| reader.data(&slab).map(drop)) {
            problems.add(Some(&path), &error);
        }
    }
}
