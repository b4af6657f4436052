//! The text of netCDF-4 and other HDF5 files.

use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use striate_array::cdl::{self, CdlError, netcdf4};
use striate_hdf5::Error;

use super::hdf5_json::print_json;
use super::{DumpFormat, DumpSettings};
use crate::CommandError;
use crate::nc::hdf5_file::{Hdf5File, unreadable};

/// Prints a file as the settings say. What netCDF cannot represent is named on standard error.
pub(super) fn print(
    path: &Path,
    opened: &Hdf5File,
    how: DumpSettings<'_>,
    options: &cdl::DumpOptions,
    json: bool,
) -> Result<(), CommandError> {
    let Hdf5File { file, described, .. } = opened;
    let name = how.name.map_or_else(|| cdl::name_of(path), ToOwned::to_owned);
    if json {
        print_json(opened, name, options)?;
        return opened.report_unrepresented();
    }
    let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
    let printed = match how.what {
        DumpFormat::Cdl => {
            netcdf4::dump(file, described, opened.divided(), &name, options, &mut out)
        }
        DumpFormat::Kind => {
            writeln!(out, "{}", netcdf4::kind(described.kind)).map_err(CdlError::from)
        }
        DumpFormat::Xml => {
            let location = path.to_string_lossy();
            match netcdf4::classic_header(described) {
                Some(header) => {
                    cdl::ncml(&header, &location, options, &mut out).map_err(CdlError::from)
                }
                // NcML has groups and types, too, though ncdump refuses them.
                None => netcdf4::ncml(file, described, &location, options, &mut out),
            }
        }
    };
    let flushed = printed.and_then(|()| Ok(out.flush()?));
    drop(out);
    let of_variable = |error: &Error| {
        let mut objects = described.objects.iter().zip(&described.definition.variables);
        let found = objects.find(|(object, _)| Some(object.address) == error.address)?;
        Some(found.1.name.to_string())
    };
    match flushed {
        Err(CdlError::Read(error)) => {
            let attempted = match of_variable(&error) {
                Some(name) => format!("cannot read the data of '{name}'"),
                None => "cannot read the data".into(),
            };
            return Err(unreadable(&attempted, error));
        }
        ended_early => ended_early.or_else(|error| ended(path, error))?,
    }
    opened.report_unrepresented()
}

/// What an end before the end means.
pub(super) fn ended(path: &Path, error: CdlError<Error>) -> Result<(), CommandError> {
    match error {
        CdlError::Read(error) => Err(unreadable("cannot read the data", error)),
        error => super::ended(path, error),
    }
}
