//! Files on a Ceph cluster of which a daemon dies.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::thread;

use striate_store::Store;
use striate_store::rados::{RadosCreation, RadosFile, RadosNamespace, RadosUrl, use_configuration};
use striate_testing::CephCluster;

/// One of three OSDs is killed while threads write: they go on.
#[test]
fn an_osd_that_dies() {
    let cluster = CephCluster::shared();
    use_configuration(Some(&cluster.configuration()));
    let url: RadosUrl = "rados://data/faults/".parse().unwrap();
    let namespace = RadosNamespace::open(&url).unwrap();
    let creation = RadosCreation { create: true, exclusive: true, strip: 64 << 10 };
    let file = RadosFile::open_in(&namespace, "f", &creation).unwrap();
    thread::scope(|scope| {
        for rank in 0..4 {
            let file = &file;
            scope.spawn(move || {
                for round in 0..40 {
                    let offset = (round * 4 + rank) * 50_000;
                    file.write_at(offset, &vec![rank as u8 + 1; 50_000]).unwrap();
                    if (rank, round) == (0, 10) {
                        cluster.kill("osd.1");
                    }
                }
            });
        }
    });
    let mut all = vec![0; 160 * 50_000 + 1];
    assert_eq!(file.read_at(0, &mut all).unwrap(), 160 * 50_000);
    for (n, piece) in all.chunks_exact(50_000).enumerate() {
        assert!(piece.iter().all(|&byte| byte as usize == n % 4 + 1), "piece {n}");
    }
    cluster.wait_for_osds(2);

    namespace.remove("f").unwrap();
    assert_eq!(namespace.list("").unwrap(), []);
}
