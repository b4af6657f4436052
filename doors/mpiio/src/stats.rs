//! [`Tally`]: how the calls on a file were carried out, for the summary that `STRIATE_MPIIO_STATS` asks for.

use std::ffi::OsStr;

use striate_file::{CallReport, File};

use crate::access::Access;

/// How the calls on a file were carried out.
#[derive(Debug)]
pub(crate) struct Tally {
    name: String,
}

impl Tally {
    /// Of a file that was just opened.
    pub(crate) fn new(name: &OsStr) -> Self {
        Self { name: name.display().to_string() }
    }

    /// One more call.
    #[inline]
    pub(crate) fn add(&mut self, _access: Access, _report: Option<&CallReport>) {}

    /// Tells what there is to tell. Collective.
    pub(crate) fn report(&self, _file: &mut File) {
        let _ = &self.name;
    }
}
