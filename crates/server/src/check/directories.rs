//! [`Inventory::of_directories`]: the inventory of servers that do not run.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::Inventory;
use super::read_only::ReadOnly;
use crate::catalog::{Catalog, CatalogError};
use crate::directory::DataDirectory;
use crate::error::ServerError;
use crate::objects::Objects;

/// Entries of one page of a listing.
const PAGE: u32 = 1000;

impl Inventory {
    /// What is in the data directories of all servers, none of which may run. They are given in the
    /// order in which the metadata server lists its servers; that of a metadata server which holds
    /// no objects may stand anywhere.
    pub fn of_directories(directories: &[PathBuf]) -> Result<Self, ServerError> {
        let _locked = directories.iter().map(|path| lock(path)).collect::<Result<Vec<_>, _>>()?;
        let names: Vec<&PathBuf> =
            directories.iter().filter(|path| path.join("catalog.redb").exists()).collect();
        let [home] = names[..] else {
            let text = format!(
                "{} of the {} directories have a catalogue (catalog.redb): exactly one must",
                names.len(),
                directories.len()
            );
            return Err(ServerError::Settings(text));
        };
        let catalog = open_catalog(&home.join("catalog.redb"))?;
        let servers = catalog.servers()?;
        let with_objects: Vec<&PathBuf> = match directories.len() {
            count if count == servers.len() => directories.iter().collect(),
            count if count == servers.len() + 1 => {
                directories.iter().filter(|path| *path != home).collect()
            }
            count => {
                let text = format!(
                    "{count} directories were given, but there are {} servers: give theirs in the \
                     order {}",
                    servers.len(),
                    servers.join(", ")
                );
                return Err(ServerError::Settings(text));
            }
        };
        let objects = with_objects.iter().map(|path| objects_in(path));
        Ok(Self {
            files: all_files(&catalog)?,
            dead: all_dead(&catalog)?,
            objects: objects.map(|found| found.map_err(|error| error.to_string())).collect(),
            servers,
        })
    }
}

/// Makes sure that no server uses the directory, and that one has.
fn lock(path: &Path) -> Result<DataDirectory, ServerError> {
    // What does not exist would be created.
    if let Some(missing) = ["format", "identity"].iter().find(|name| !path.join(name).is_file()) {
        let why = format!("there is no file {missing:?} in it");
        return Err(ServerError::NotOurs { path: path.to_owned(), why });
    }
    DataDirectory::open(path)
}

fn open_catalog(path: &Path) -> Result<Catalog, ServerError> {
    let storage = ReadOnly::open(path).map_err(ServerError::system("open", path))?;
    if storage.is_empty() {
        // It would be taken for a new one.
        let catalog = path.display().to_string();
        return Err(CatalogError::Damaged { catalog, why: "it is empty".to_owned() }.into());
    }
    Ok(Catalog::on_backend(storage)?)
}

fn all_files(catalog: &Catalog) -> Result<Vec<(String, crate::catalog::FileRecord)>, ServerError> {
    let mut all = Vec::new();
    loop {
        let after = all.last().map(|(name, _): &(String, _)| name.clone());
        let (page, more) = catalog.list("", after.as_deref(), PAGE as usize)?;
        all.extend(page);
        if !more {
            return Ok(all);
        }
    }
}

fn all_dead(catalog: &Catalog) -> Result<Vec<u64>, ServerError> {
    let mut all: Vec<u64> = Vec::new();
    loop {
        let (page, more) = catalog.dead(all.last().copied(), PAGE as usize)?;
        all.extend(page.iter().map(|record| record.file));
        if !more {
            return Ok(all);
        }
    }
}

fn objects_in(data: &Path) -> Result<BTreeMap<u64, u64>, ServerError> {
    if !data.join("objects").is_dir() {
        return Ok(BTreeMap::new());
    }
    let objects = Objects::open(data, 1)?;
    let mut all = BTreeMap::new();
    let mut after = None;
    loop {
        let (page, more) = objects.list(after, PAGE)?;
        after = page.last().map(|&(id, _)| id);
        all.extend(page);
        if !more {
            return Ok(all);
        }
    }
}
