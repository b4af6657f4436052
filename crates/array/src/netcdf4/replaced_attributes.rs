//! Changes of attributes alone, by one rank, in a file that is no open dataset.

use std::path::Path;

use striate_file::File;

use super::{OpenedNetcdf4, finish, write_attributes};
use crate::file_state::{Durability, FileState};
use crate::format::Header;
use crate::{ArrayError, OpenMode, Options};

/// Changes attributes of a file, durably. Called on one rank, which has opened the file by itself.
pub(crate) fn replace_attributes(
    file: File,
    path: &Path,
    header: Header,
    opened: OpenedNetcdf4,
    change: impl FnOnce(&mut Header),
) -> Result<(), ArrayError> {
    let (options, mode) = (Options::default(), OpenMode::ReadWrite);
    let mut state = FileState::new(file, path.into(), header, &options, mode)?;
    opened.install(&mut state, &options)?;
    if let Some(reason) = state.netcdf4.as_ref().and_then(|netcdf4| netcdf4.read_only.clone()) {
        let what = format!("attributes of {}", path.display());
        return Err(ArrayError::Definition { what, reason });
    }
    change(&mut state.header);
    write_attributes(&mut state)?;
    finish(&mut state, Durability::Durable)?;
    Ok(state.file.close()?)
}
