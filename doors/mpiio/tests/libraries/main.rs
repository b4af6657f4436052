//! I/O libraries that know nothing of Striate – parallel HDF5, `PnetCDF` and netCDF – write and
//! read through the door what they write and read without it, byte for byte; serial tools say the
//! same of both files.
//!
//! The libraries and the tools are Debian's packages for this MPI; there `PnetCDF` and parallel
//! netCDF are for Open MPI only. The feature `peers` says that they are installed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unreachable_pub, reason = "modules of one program")]

#[path = "../mpi/door.rs"]
#[allow(dead_code, reason = "another test uses more of it")]
mod door;
mod library;

use library::{Kept, Library, all_ways, read_by};
use striate_testing::mpi_job;

fn hdf5() -> Library {
    Library::compiled(
        "hdf5",
        if mpi_job::is_openmpi() { "hdf5-openmpi" } else { "hdf5-mpich" },
        None,
    )
}

#[test]
fn hdf5_writes_and_reads_the_same() {
    let library = hdf5();
    all_ways(&library, "write", &[], Kept::Bytes, &[&["h5dump"], &["h5ls", "-r", "-v"]]);
}

#[test]
fn hdf5_writes_metadata_together() {
    let library = hdf5();
    all_ways(&library, "together", &[], Kept::Meaning, &[&["h5dump"]]);
}

#[test]
fn pnetcdf_writes_and_reads_the_same() {
    if !mpi_job::is_openmpi() {
        return;
    }
    let library = Library::compiled("pnetcdf", "pnetcdf", None);
    for format in ["1", "2", "5"] {
        let tools: [&[&str]; 3] = [&["ncdump"], &["ncmpidump"], &["ncvalidator", "-q"]];
        all_ways(&library, "write", &[format], Kept::Bytes, &tools);
    }
}

#[test]
fn netcdf_over_hdf5_writes_and_reads_the_same() {
    if !mpi_job::is_openmpi() {
        return;
    }
    let library = Library::compiled("netcdf", "netcdf-mpi", Some("netcdf/mpi/include"));
    all_ways(&library, "write", &["hdf5"], Kept::Bytes, &[&["ncdump"], &["h5dump"]]);
}

#[test]
fn netcdf_over_pnetcdf_writes_and_reads_the_same() {
    if !mpi_job::is_openmpi() {
        return;
    }
    let library = Library::compiled("netcdf", "netcdf-pnetcdf", Some("netcdf/pnetcdf/include"));
    for format in ["classic", "cdf5"] {
        all_ways(&library, "write", &[format], Kept::Bytes, &[&["ncdump"], &["ncvalidator", "-q"]]);
    }
}

#[test]
fn fewer_ranks_read_through_the_door() {
    let library = hdf5();
    read_by(&library, 1);
}
