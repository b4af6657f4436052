//! Objects on a server of another project (moto), which checks keys and signatures; it is killed in
//! the middle of requests.
#![allow(clippy::unwrap_used, reason = "tests")]
#![cfg(feature = "peers")]

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use striate_store::s3::{BLOCK, S3Bucket, S3Object, S3Upload, UploadParts};
use striate_store::{Cause, ErrorKind, Region, Store, StoreError};
use striate_testing::Moto;

fn bucket_with(
    server: &Moto,
    name: &str,
    (id, secret): (&str, &str),
    patience: Duration,
) -> Arc<S3Bucket> {
    Arc::new(S3Bucket::new(name, &server.variables_with(id, secret), patience).unwrap())
}

fn tests_bucket(server: &Moto) -> Arc<S3Bucket> {
    bucket_with(server, "tests", (&server.id, &server.secret), Duration::from_secs(30))
}

fn content(len: u64) -> Vec<u8> {
    (0..len).map(|i| (i * 31 + i / 65_536) as u8).collect()
}

fn publish(bucket: &Arc<S3Bucket>, key: &str, content: &[u8]) {
    let parts = UploadParts::new(content.len() as u64, 5 << 20);
    let upload = S3Upload::begin_in(bucket, key, parts).unwrap();
    // In any order.
    for index in (0..parts.count()).rev() {
        let range = parts.range(index);
        upload.put(index, &content[range.start as usize..range.end as usize]).unwrap();
    }
    upload.complete().unwrap();
}

fn text(error: &StoreError) -> String {
    assert!(matches!(error.cause(), Cause::Objects(_)), "{error:?}");
    error.to_string()
}

#[test]
fn objects_come_back_as_they_were_published() {
    let server = Moto::start(0);
    let bucket = tests_bucket(&server);
    for len in [0, 1, BLOCK - 1, BLOCK, 3 * BLOCK + 7, (5 << 20) + 1, 17 << 20] {
        let (key, all) = (format!("dir/{len} bytes"), content(len));
        publish(&bucket, &key, &all);
        let object = S3Object::open_in(&bucket, &key).unwrap();
        assert_eq!(object.len().unwrap(), len);
        let mut back = vec![9; len as usize + 3];
        assert_eq!(object.read_at(0, &mut back).unwrap() as u64, len);
        assert!(back[..len as usize] == all && back[len as usize..] == [9; 3], "{key}");
        let regions: Vec<Region> = (0..50)
            .map(|i| Region { memory: i * 10, offset: i as u64 * (len / 50 + 1), len: 10 })
            .collect();
        let mut memory = vec![0; 500];
        object.read_list(&regions, &mut memory).unwrap();
        for region in regions {
            let from = region.offset.min(len) as usize..(region.offset + 10).min(len) as usize;
            assert_eq!(&memory[region.memory..][..from.len()], &all[from], "{key} {region:?}");
        }
    }
    let listed = bucket.list("dir/1").unwrap();
    let keys: Vec<&str> = listed.iter().map(|object| &*object.key).collect();
    assert_eq!(keys, ["dir/1 bytes", "dir/17825792 bytes"]);
    assert_eq!(listed[1].len, 17 << 20);
    bucket.remove("dir/1 bytes").unwrap();
    assert_eq!(bucket.list("").unwrap().len(), 6);
    assert_eq!(bucket.head("dir/1 bytes").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn mistakes_have_clear_errors() {
    let server = Moto::start(0);
    let bucket = tests_bucket(&server);
    let error = S3Object::open_in(&bucket, "missing").unwrap_err();
    assert!(text(&error).contains("no object with this key"), "{error}");
    let short = Duration::from_secs(10);
    let elsewhere = bucket_with(&server, "elsewhere", (&server.id, &server.secret), short);
    for error in [
        S3Object::open_in(&elsewhere, "key").map(drop).unwrap_err(),
        elsewhere.list("").map(drop).unwrap_err(),
        elsewhere.unfinished("").map(drop).unwrap_err(),
        S3Upload::begin_in(&elsewhere, "key", UploadParts::new(20 << 20, 0)).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::NotFound, "{error}");
        assert!(text(&error).contains("no bucket 'elsewhere'"), "{error}");
    }
    publish(&bucket, "key", b"content");
    for (id, secret) in [(&*server.id, "wrong"), ("AKIAUNKNOWN", &*server.secret)] {
        let denied = bucket_with(&server, "tests", (id, secret), short);
        for error in [
            S3Object::open_in(&denied, "key").map(drop).unwrap_err(),
            denied.list("").map(drop).unwrap_err(),
            denied.unfinished("").map(drop).unwrap_err(),
            S3Upload::begin_in(&denied, "new", UploadParts::new(3, 0))
                .unwrap()
                .put(0, b"abc")
                .unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Denied, "{error}");
        }
    }
    let mut buffer = [0; 7];
    let object = S3Object::open_in(&bucket, "key").unwrap();
    publish(&bucket, "key", b"another");
    let error = object.read_at(0, &mut buffer).unwrap_err();
    assert!(text(&error).contains("replaced or removed"), "{error}");
    let object = S3Object::open_in(&bucket, "key").unwrap();
    bucket.remove("key").unwrap();
    let error = object.read_at(0, &mut buffer).unwrap_err();
    assert!(text(&error).contains("replaced or removed"), "{error}");
}

#[test]
fn an_upload_appears_at_once_or_not_at_all() {
    let server = Moto::start(0);
    let bucket = tests_bucket(&server);
    publish(&bucket, "key", b"before");
    let all = content(12 << 20);
    let parts = UploadParts::new(12 << 20, 5 << 20);
    let part = |index: u64| {
        let range = parts.range(index);
        &all[range.start as usize..range.end as usize]
    };
    let upload = S3Upload::begin_in(&bucket, "key", parts).unwrap();
    let other = S3Upload::join_in(&bucket, "key", parts, upload.id()).unwrap();
    upload.put(0, part(0)).unwrap();
    other.put(2, part(2)).unwrap();
    assert!(text(&upload.complete().unwrap_err()).contains("2 of 3 parts were not uploaded"));
    assert_eq!(bucket.head("key").unwrap().len, 6);
    let unfinished = bucket.unfinished("k").unwrap();
    assert_eq!(unfinished.len(), 1);
    assert_eq!((&*unfinished[0].key, &*unfinished[0].id), ("key", upload.id()));
    assert!(bucket.unfinished("other").unwrap().is_empty());
    // The other one has not begun it.
    let receipts = other.uploaded();
    drop(other);
    assert_eq!(bucket.unfinished("").unwrap().len(), 1);
    upload.put(1, part(1)).unwrap();
    for receipt in receipts {
        upload.record(receipt);
    }
    assert_eq!(bucket.head("key").unwrap().len, 6);
    upload.complete().unwrap();
    let mut back = vec![0; 12 << 20];
    S3Object::open_in(&bucket, "key").unwrap().read_at(0, &mut back).unwrap();
    assert!(back == all);
    assert!(bucket.unfinished("").unwrap().is_empty());

    // Dropped, or left by a process that was killed.
    let dropped = S3Upload::begin_in(&bucket, "new", parts).unwrap();
    dropped.put(0, part(0)).unwrap();
    drop(dropped);
    assert!(bucket.unfinished("").unwrap().is_empty());
    let left = S3Upload::begin_in(&bucket, "new", parts).unwrap();
    left.put(0, part(0)).unwrap();
    let killed = S3Upload::join_in(&bucket, "new", parts, left.id()).unwrap();
    std::mem::forget(left);
    for upload in bucket.unfinished("new").unwrap() {
        bucket.abort(&upload).unwrap();
    }
    assert!(bucket.unfinished("").unwrap().is_empty());
    assert!(killed.put(1, part(1)).is_err());
    assert_eq!(bucket.head("new").unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_killed_server_is_an_error_within_the_limit() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut server = Moto::start(port);
    let short = Duration::from_secs(2);
    let bucket = bucket_with(&server, "tests", (&server.id, &server.secret), short);
    publish(&bucket, "key", &content(40 << 20));
    let object = S3Object::open_in(&bucket, "key").unwrap();
    let upload = S3Upload::begin_in(&bucket, "new", UploadParts::new(64 << 20, 8 << 20)).unwrap();
    std::thread::scope(|scope| {
        let reading = scope.spawn(|| {
            let mut buffer = vec![0; 40 << 20];
            loop {
                if let Err(error) = object.read_at(0, &mut buffer) {
                    return error;
                }
            }
        });
        let writing = scope.spawn(|| {
            let part = vec![1; 8 << 20];
            loop {
                if let Err(error) = upload.put(3, &part) {
                    return error;
                }
            }
        });
        std::thread::sleep(Duration::from_millis(700));
        server.kill();
        for error in [reading.join().unwrap(), writing.join().unwrap()] {
            assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::TimedOut), "{error}");
        }
    });
    // Another start of the same address: what was not complete is not there.
    drop(upload);
    drop(server);
    let server = Moto::start(port);
    let bucket = tests_bucket(&server);
    assert_eq!(bucket.head("new").unwrap_err().kind(), ErrorKind::NotFound);
    publish(&bucket, "new", b"content");
    assert_eq!(bucket.head("new").unwrap().len, 7);
}
