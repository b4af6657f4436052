//! [`LabRecord`]: what is known of a lab, in a file, so that other processes find it.
//!
//! A lab has a directory of its name below `/run/striate-lab`; the keeper removes it when it ends.

use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::processes::start_time;
use crate::settings::is_name;
use crate::{LabError, Link};

/// Where labs are. What root mounts there is not seen by others.
const LABS: &str = "/run/striate-lab";

/// The version of records; others are not understood.
const VERSION: u32 = 1;

/// What is known of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its host name, which is also that of its port at the switch.
    pub name: String,
    /// Its address.
    pub address: String,
    /// The process that holds its namespaces; 0 after it was killed.
    pub holder: u32,
    /// Its cable.
    pub link: Link,
    /// Whether the cable is cut.
    pub is_cut: bool,
}

/// What is known of a lab.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LabRecord {
    version: u32,
    /// Its name.
    pub name: String,
    /// The process with which it ends.
    pub keeper: u32,
    /// When that started, since process ids are used again.
    keeper_start: u64,
    /// Directories below `/tmp` and `/dev/shm` that all nodes see.
    pub shared: Vec<PathBuf>,
    /// Its nodes.
    pub nodes: Vec<NodeRecord>,
}

impl LabRecord {
    pub(crate) fn new(name: String, keeper: u32, shared: Vec<PathBuf>) -> Self {
        let keeper_start = start_time(keeper).unwrap_or_default();
        Self { version: VERSION, name, keeper, keeper_start, shared, nodes: Vec::new() }
    }

    /// The directory with its files.
    pub fn directory(&self) -> PathBuf {
        directory(&self.name)
    }

    /// Whether it is there.
    pub fn is_alive(&self) -> bool {
        start_time(self.keeper).is_some_and(|start| start == self.keeper_start)
    }

    pub(crate) fn write(&self) -> Result<(), LabError> {
        let path = self.directory().join("lab.json");
        let failed = |source| LabError::io(format!("cannot write {}", path.display()), source);
        let text = serde_json::to_string(self).unwrap_or_default();
        // Others read it at any time.
        let part = path.with_extension("part");
        fs::write(&part, text).and_then(|()| fs::rename(&part, &path)).map_err(failed)
    }

    pub(crate) fn read(name: &str) -> Result<Self, LabError> {
        let unknown = || LabError::Unknown(name.to_owned());
        let path = Some(name).filter(|name| is_name(name)).map(directory).ok_or_else(unknown)?;
        let path = path.join("lab.json");
        let text = match fs::read_to_string(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(unknown()),
            text => text.map_err(|e| LabError::io(format!("cannot read {}", path.display()), e))?,
        };
        match serde_json::from_str::<Self>(&text) {
            Ok(record) if record.version == VERSION && record.name == name => Ok(record),
            Ok(_) => Err(unknown()),
            Err(source) => Err(LabError::Record { path, source }),
        }
    }
}

/// The directory of the lab of this name.
pub(crate) fn directory(name: &str) -> PathBuf {
    Path::new(LABS).join(name)
}

/// The names of all labs that have a directory, in order.
pub(crate) fn names() -> Vec<String> {
    let entries = fs::read_dir(LABS).into_iter().flatten();
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| is_name(name)).collect();
    names.sort();
    names
}

/// Makes the directory of a new lab; without a name, of the first that is free.
pub(crate) fn create(name: Option<&str>) -> Result<String, LabError> {
    let failed = |source| LabError::io(format!("cannot make a directory in {LABS}"), source);
    // Others could put their programs where root starts them.
    DirBuilder::new().recursive(true).mode(0o755).create(LABS).map_err(failed)?;
    for number in 1_u32.. {
        let new = name.map_or_else(|| format!("lab-{number}"), str::to_owned);
        match DirBuilder::new().mode(0o755).create(directory(&new)) {
            Ok(()) => return Ok(new),
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(failed(error)),
            Err(_) if name.is_some() => return Err(LabError::Exists(new)),
            Err(_) => {}
        }
    }
    Err(LabError::Setting("there are too many labs".to_owned()))
}

/// Removes the files of a lab that is gone.
pub(crate) fn remove(name: &str) -> Result<(), LabError> {
    match fs::remove_dir_all(directory(name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(LabError::io(format!("cannot remove {}", directory(name).display()), error))
        }
        _ => Ok(()),
    }
}
