//! Ranks publish files as objects, and read objects as files, on a server of another project.
#![allow(clippy::unwrap_used, reason = "tests")]
#![cfg(feature = "peers")]

use std::sync::Arc;
use std::time::Duration;

use striate_comm::Threads;
use striate_datatype::Datatype;
use striate_file::{ErrorKind, File, FileError, Hints, Mode, PublishOptions, View, publish_in};
use striate_store::s3::{S3Bucket, S3Object};
use striate_store::{FaultPlan, Faulty, MemoryStore, Store};
use striate_testing::Moto;

fn bucket(server: &Moto) -> Arc<S3Bucket> {
    let patience = Duration::from_secs(30);
    Arc::new(S3Bucket::new("tests", &server.variables(), patience).unwrap())
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 65_536) as u8).collect()
}

fn memory(content: &[u8]) -> MemoryStore {
    let store = MemoryStore::new("source");
    store.write_at(0, content).unwrap();
    store
}

#[test]
fn ranks_publish_together() {
    let server = Moto::start(0);
    for (ranks, len) in [(1, 3), (3, 0), (4, (5 << 20) + 1), (3, 23 << 20)] {
        let all = content(len);
        let source = memory(&all);
        let bucket = bucket(&server);
        let options = PublishOptions { part: 5 << 20, at_once: 2 };
        let lens = Threads::new(ranks)
            .try_run(|comm| publish_in(comm.as_ref(), &source, &bucket, "out", &options));
        assert!(lens.unwrap().iter().all(|published| *published == len as u64));
        let object = S3Object::open_in(&bucket, "out").unwrap();
        let mut back = vec![0; len + 1];
        assert_eq!(object.read_at(0, &mut back).unwrap(), len);
        assert!(back[..len] == all);
        assert!(bucket.unfinished("").unwrap().is_empty());
    }
}

#[test]
fn a_rank_that_fails_leaves_the_old_object() {
    let server = Moto::start(0);
    let bucket = bucket(&server);
    let options = PublishOptions { part: 5 << 20, at_once: 1 };
    let publish = |source: &dyn Store, comm: &dyn striate_comm::Comm| {
        publish_in(comm, source, &bucket, "out", &options)
    };
    let old = memory(b"old");
    Threads::new(1).try_run(|comm| publish(&old, comm.as_ref())).unwrap();
    let source = memory(&content(23 << 20));
    let results = Threads::new(3).run(|comm| {
        // Rank 1 cannot read its second part.
        let plan: FaultPlan = "error@2:read".parse().unwrap();
        let faulty = Faulty::new(source.clone(), plan);
        let source: &dyn Store = if comm.rank() == 1 { &faulty } else { &source };
        publish(source, comm.as_ref())
    });
    for (rank, result) in results.into_iter().enumerate() {
        let error = result.unwrap_err();
        assert_eq!(matches!(error, FileError::Rank { rank: 1, .. }), rank != 1, "{error}");
    }
    assert_eq!(bucket.head("out").unwrap().len, 3);
    assert!(bucket.unfinished("").unwrap().is_empty(), "it was aborted");
}

#[test]
fn ranks_read_an_object_by_every_method() {
    let server = Moto::start(0);
    let bucket = bucket(&server);
    let all = content(1 << 20);
    let source = memory(&all);
    let options = PublishOptions::default();
    Threads::new(1)
        .try_run(|comm| publish_in(comm.as_ref(), &source, &bucket, "in", &options))
        .unwrap();
    for method in ["posix", "sieve", "list", "datatype", "two-phase", "auto"] {
        let hints: Hints = format!("striate_method={method}").parse().unwrap();
        let run = Threads::new(4).try_run(|comm| -> Result<(), FileError> {
            let object = Arc::new(S3Object::open_in(&bucket, "in")?);
            let requests = Arc::clone(&object);
            let mut file = File::on_store(&comm, object, Mode::READ, &hints)?;
            // Blocks of 64 bytes, dealt to the ranks in turn.
            let block = Datatype::bytes(64).unwrap();
            let dealt = Datatype::resized(&block, 0, 256).unwrap();
            let byte = Datatype::bytes(1).unwrap();
            file.set_view(View::new(64 * comm.rank() as u64, &byte, &dealt).unwrap())?;
            let mut mine = vec![0; 1 << 18];
            assert_eq!(file.read_at_all(0, &mut mine[..])?, 1 << 18);
            for (i, block) in mine.chunks(64).enumerate() {
                assert!(block == &all[i * 256 + comm.rank() * 64..][..64], "{method} block {i}");
            }
            // A mebibyte has four blocks of the cache.
            assert!(requests.requests() <= 8, "{method}: {}", requests.requests());
            file.close()
        });
        run.unwrap();
    }
    let refused = Threads::new(2).run(|comm| {
        let object = Arc::new(S3Object::open_in(&bucket, "in")?);
        let mut file = File::on_store(&comm, object, Mode::READ | Mode::WRITE, &Hints::default())?;
        file.write_at(0, &[1u8; 8][..]).map(drop)
    });
    for result in refused {
        assert_eq!(result.unwrap_err().kind(), ErrorKind::Unsupported);
    }
}
