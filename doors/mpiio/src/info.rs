//! Hints: read from an `MPI_Info` of the program, and returned as one.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int};

use mpi::ffi;
use striate_file::{File, Hints};
use striate_process::say;

use crate::constants::{self as mpi_constants, MPI_Info};
use crate::errors::{Failure, Outcome, check};
use crate::settings::Settings;

/// What ROMIO has in effect where nothing is said, and we have no value of our own: the most that
/// aggregators, and sieved reads, take for a buffer. Ours are smaller.
const BUFFER: &str = "16777216";
const SIEVE: &str = "4194304";

/// The entries of an info; none of `MPI_INFO_NULL`.
///
/// # Safety
///
/// `info` is `MPI_INFO_NULL` or exists.
pub(crate) unsafe fn entries(info: MPI_Info) -> Outcome<Vec<(String, String)>> {
    if info == mpi_constants::info_null() {
        return Ok(Vec::new());
    }
    let mut count: c_int = 0;
    // SAFETY: the caller's promise; the place outlives the call.
    check(unsafe { ffi::MPI_Info_get_nkeys(info, &raw mut count) })
        .map_err(|_| Failure::new(mpi_constants::ERR_INFO, "the info does not exist"))?;
    let mut found = Vec::new();
    for n in 0..count {
        let mut key = [0 as c_char; mpi_constants::MAX_INFO_KEY as usize + 1];
        let (mut len, mut flag): (c_int, c_int) = (0, 0);
        // SAFETY: the buffer is as long as MPI demands, and so on for the places.
        unsafe {
            check(ffi::MPI_Info_get_nthkey(info, n, key.as_mut_ptr()))?;
            check(ffi::MPI_Info_get_valuelen(info, key.as_ptr(), &raw mut len, &raw mut flag))?;
        }
        let mut value = vec![0u8; len.max(0) as usize + 1];
        // SAFETY: the buffer has room for the value and its end.
        unsafe {
            let to = value.as_mut_ptr().cast();
            check(ffi::MPI_Info_get(info, key.as_ptr(), len, to, &raw mut flag))?;
        }
        // SAFETY: MPI has written a C string into the buffer, which ends in a zero anyway.
        let key = unsafe { CStr::from_ptr(key.as_ptr()) }.to_string_lossy().into_owned();
        let value = CStr::from_bytes_until_nul(&value).unwrap_or_default();
        if flag != 0 {
            found.push((key, value.to_string_lossy().into_owned()));
        }
    }
    Ok(found)
}

/// Takes hints of the program into account. One whose value cannot be used is ignored, as MPI wants
/// it.
pub(crate) fn apply(hints: &mut Hints, entries: &[(String, String)]) {
    for (name, value) in entries {
        if let Err(error) = hints.set(name, value)
            && Settings::get().verbose
        {
            say(format_args!("striate-mpiio: {error}; it is ignored\n"));
        }
    }
}

/// The hints that files are opened with where the program says nothing.
pub(crate) fn defaults() -> Hints {
    Hints::from_environment().unwrap_or_else(|error| {
        say(format_args!("striate-mpiio: STRIATE_HINTS: {error}; it is ignored\n"));
        Hints::default()
    })
}

/// What is in effect, under ROMIO's names; where the file has no value of its own, what it does is
/// said as ROMIO says it, for libraries that compute with these.
pub(crate) fn in_effect(
    file: &File,
    given: &BTreeMap<String, String>,
) -> BTreeMap<&'static str, String> {
    let nodes = file.comm().nodes().iter().max().map_or(1, |node| node + 1);
    let mut all = BTreeMap::from([
        ("cb_buffer_size", BUFFER.to_owned()),
        ("cb_config_list", "*:1".to_owned()),
        ("cb_nodes", nodes.to_string()),
        ("ind_rd_buffer_size", SIEVE.to_owned()),
        ("romio_no_indep_rw", "false".to_owned()),
    ]);
    // Hints without an effect here are returned as they were given.
    let any_number = given.get("cb_config_list").filter(|list| list.as_str() == "*:*");
    let collective_only = given.get("romio_no_indep_rw").filter(|word| word.as_str() == "true");
    for (name, said) in [("cb_config_list", any_number), ("romio_no_indep_rw", collective_only)] {
        all.extend(said.map(|said| (name, said.clone())));
    }
    all.extend(file.hints().iter());
    all
}

/// An info with these entries, which the program frees.
pub(crate) fn make<K, V>(entries: impl IntoIterator<Item = (K, V)>) -> Outcome<MPI_Info>
where
    K: AsRef<str>,
    V: AsRef<str>,
{
    let mut info = mpi_constants::info_null();
    // SAFETY: the place for the handle outlives the call.
    check(unsafe { ffi::MPI_Info_create(&raw mut info) })?;
    for (key, value) in entries {
        let texts = (CString::new(key.as_ref()), CString::new(value.as_ref()));
        if let (Ok(key), Ok(value)) = texts {
            // SAFETY: C strings, and an info that was just made.
            check(unsafe { ffi::MPI_Info_set(info, key.as_ptr(), value.as_ptr()) })?;
        }
    }
    Ok(info)
}
