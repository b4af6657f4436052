//! Files on a Ceph cluster.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::sync::Arc;

use striate_store::conformance::{Opener, Subject, check};
use striate_store::rados::{RadosCreation, RadosFile, RadosNamespace, RadosUrl, use_configuration};
use striate_testing::CephCluster;

/// A namespace of the cluster of this program.
fn namespace(name: &str) -> RadosNamespace {
    use_configuration(Some(&CephCluster::shared().configuration()));
    let url: RadosUrl = format!("rados://data/{name}/").parse().unwrap();
    RadosNamespace::open(&url).unwrap()
}

fn creation(strip: u64) -> RadosCreation {
    RadosCreation { create: true, exclusive: false, strip }
}

/// Files of a namespace.
struct Files {
    namespace: RadosNamespace,
    strip: u64,
    made: Cell<u32>,
}

impl Subject for Files {
    fn fresh(&self) -> Opener {
        self.made.set(self.made.get() + 1);
        let (namespace, name) = (self.namespace.clone(), format!("file-{}", self.made.get()));
        let creation = creation(self.strip);
        Box::new(move || Arc::new(RadosFile::open_in(&namespace, &name, &creation).unwrap()))
    }
}

#[test]
fn conformance_with_usual_strips() {
    check(&Files { namespace: namespace("usual"), strip: 4 << 20, made: Cell::default() });
}

#[test]
fn conformance_with_small_strips_and_windows() {
    let namespace = namespace("small").with_window(2, 3);
    check(&Files { namespace, strip: 65_000, made: Cell::default() });
}
