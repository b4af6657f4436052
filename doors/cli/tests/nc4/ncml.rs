//! `NcML` of netCDF-4 files, which `ncdump -x` refuses unless they are of the classic model.

use std::ffi::OsStr;

use crate::texts::TEXTS;
use crate::tools::{answer, striate};
use crate::{generate, python};

#[test]
fn groups_and_types_are_in_the_xml() {
    let directory = tempfile::tempdir().unwrap();
    let mut paths = Vec::new();
    for (number, text) in TEXTS.iter().enumerate() {
        let name = format!("text{number}");
        let Some(path) = generate(directory.path(), &name, "nc4", text) else { continue };
        let xml = directory.path().join(format!("{name}.xml"));
        let found = answer(striate(["dump".as_ref(), "-x".as_ref(), path.as_os_str()]), &name);
        std::fs::write(&xml, found).unwrap();
        paths.extend([path, xml]);
    }
    assert!(paths.len() >= 20, "{}", paths.len());
    let arguments: Vec<&OsStr> = paths.iter().map(|path| path.as_os_str()).collect();
    python::run("ncml.py", &arguments);
}
