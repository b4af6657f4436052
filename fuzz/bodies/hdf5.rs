//! What the fuzz target of HDF5 files asserts, as a plain function of bytes.
//!
//! The tests of the crate run it too, with a stable compiler, on files that the HDF5 library made.
//! Checksums are not verified while fuzzing, else no change would get past one.
#![allow(dead_code, unreachable_pub, reason = "each target uses a part")]

use std::ops::{Bound, ControlFlow};

use striate_hdf5::model::{Layout, LinkTarget, Object, ObjectKind};
use striate_hdf5::{Dataset, File, Reason, Result, value};

/// The most objects of a file that are looked at.
const OBJECTS: usize = 200;
/// The most bytes of elements that are read.
const ELEMENTS: u64 = 1 << 16;
/// The most bytes that are added to a file that is too short.
const MISSING: u64 = 1 << 16;
/// The most chunks that are listed.
const CHUNKS: usize = 1000;

/// Bytes as a file. One that is a little too short is also read with zeros at its end.
pub fn hdf5_file(bytes: &[u8]) {
    match File::open(bytes) {
        Ok(file) => check_file(&file, bytes),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            if let Reason::FileTruncated { end, length } = error.reason
                && end - length <= MISSING
            {
                let whole = [bytes, &vec![0; (end - length) as usize]].concat();
                if let Ok(file) = File::open(whole.as_slice()) {
                    check_file(&file, &whole);
                }
            }
        }
    }
}

fn check_file(file: &File<&[u8]>, bytes: &[u8]) {
    assert!(file.superblock().end <= bytes.len() as u64);
    let mut objects = 0;
    let visited = file.visit(&mut |path, object| {
        objects += 1;
        // One object that is damaged does not keep the others from being read.
        let _ = check(file, object).map_err(|error| assert!(!error.to_string().is_empty()));
        assert!(path.as_bytes().starts_with(b"/"));
        let enough = objects >= OBJECTS;
        Ok(if enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    });
    if let Err(error) = visited {
        assert!(!error.to_string().is_empty());
    }
}

fn check(file: &File<&[u8]>, object: &Object) -> Result<()> {
    for attribute in file.attributes(object).unwrap_or_default() {
        let size = u64::from(attribute.datatype.size);
        let elements = attribute.dataspace.elements().expect("it was read");
        assert_eq!(attribute.value.len() as u64, elements * size);
        let some = attribute.value.len().min(ELEMENTS as usize / 16);
        let _ = file.values(&attribute.datatype, &attribute.value[..some]);
        let mut native = attribute.value.clone();
        let _ = value::to_native(&attribute.datatype, &mut native);
    }
    match object.kind {
        ObjectKind::Group => {
            for link in file.links(object)?.iter().take(20) {
                assert!(!link.name.is_empty() || object.header.version == 1);
                if let LinkTarget::Soft(_) = link.target {
                    let _ = file.target(object, link);
                }
                let _ = file.link(object, link.name.as_bytes());
            }
            Ok(())
        }
        ObjectKind::Datatype => file.committed_datatype(object).map(drop),
        ObjectKind::Dataset => check_dataset(file, &file.dataset(object)?),
    }
}

fn check_dataset(file: &File<&[u8]>, dataset: &Dataset) -> Result<()> {
    if let Layout::Chunked(layout) = &dataset.layout {
        let chunks = file.chunks(dataset, Bound::Unbounded, CHUNKS)?;
        for chunk in chunks.iter().take(5) {
            let from = file.chunks(dataset, Bound::Included(&chunk.offset), 1)?;
            assert_eq!(from.first(), Some(chunk), "a walk goes on where it is told to");
            if layout.bytes().is_some_and(|bytes| bytes <= ELEMENTS) {
                let _ = file.read_chunk(dataset, chunk);
            }
        }
        if let [.., one, other] = chunks.as_slice() {
            let after = file.chunks(dataset, Bound::Excluded(&one.offset), 1)?;
            assert_eq!(after.first(), Some(other));
        }
    }
    if let Some(bytes) = dataset.bytes().filter(|&bytes| bytes <= ELEMENTS) {
        let mut buffer = vec![0; bytes as usize];
        file.read(dataset, &mut buffer)?;
        let some = buffer.len().min(ELEMENTS as usize / 16);
        let _ = file.values(&dataset.datatype, &buffer[..some]);
        let _ = value::to_native(&dataset.datatype, &mut buffer);
    }
    Ok(())
}
