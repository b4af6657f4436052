//! Programs that use all kinds of functions.

use std::fs;

use crate::door::{On, compile, passes, run};

#[test]
fn blocks_alone_and_together() {
    let place = tempfile::tempdir().unwrap();
    let (ours, native) = (place.path().join("ours"), place.path().join("native"));
    let program = compile("blocks.c");
    passes(&program, &[&ours], &[]);
    // Some versions of ROMIO count bytes that are not there; only the file is compared.
    run(On::Native, &program, &[&native], &[]);
    assert!(fs::read(&ours).unwrap() == fs::read(&native).unwrap(), "the files differ");
}
