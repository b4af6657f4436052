//! One of each message, by a name: for tests that go through all, and as seeds for the fuzzer.
#![allow(dead_code, unreachable_pub, reason = "each test uses a part")]

use striate_datatype::Datatype;
use striate_wire::{
    Access, Bytes, Failure, FailureCode, FileInfo, Identity, ObjectInfo, Reply, Request, Share,
    StartId, TypeId,
};

fn encoding() -> Vec<u8> {
    "vector(3, 2 of i32, stride=5)".parse::<Datatype>().unwrap().encode()
}

fn access(bytes: Bytes) -> Access {
    Access { object: 9, share: Share { strip: 65536, servers: 4, index: 3 }, bytes }
}

fn file() -> FileInfo {
    FileInfo {
        path: "/run/7/density".into(),
        file: 9,
        strip: 65536,
        servers: vec!["node1:7070".into(), "node2:7070".into()],
        size: 1 << 40,
        created_ms: 1_700_000_000_000,
        modified_ms: 1_700_000_000_001,
        truncations: 3,
        objects: vec![
            ObjectInfo { storage: Some(Identity([7; 16])), len: 1 << 39 },
            ObjectInfo { storage: None, len: 0 },
        ],
    }
}

fn record() -> Request {
    Request::Record { file: 9, size: 1 << 40, truncations: 3, lens: vec![1 << 39, 1 << 39] }
}

pub fn requests() -> Vec<(&'static str, Request)> {
    let typed = Bytes::Typed { id: TypeId::of(&encoding()), displacement: 512, start: 3, len: 99 };
    let contiguous = Bytes::Contiguous { offset: 1 << 33, len: 1 << 20 };
    vec![
        ("ping", Request::Ping),
        ("define", Request::Define { id: TypeId::of(&encoding()), encoding: encoding() }),
        (
            "create",
            Request::Create {
                path: "/run/7/density".into(),
                strip: 65536,
                servers: Some(4),
                first: None,
                exclusive: true,
            },
        ),
        ("lookup", Request::Lookup { path: "/run/7/density".into() }),
        (
            "list",
            Request::List { prefix: "/run/".into(), after: Some("/run/6".into()), limit: 1000 },
        ),
        ("rename", Request::Rename { from: "/a".into(), to: "/b".into(), replace: true }),
        ("remove", Request::Remove { path: "/a".into() }),
        ("bury", Request::Bury { file: 9 }),
        ("record", record()),
        ("servers", Request::Servers),
        ("dead", Request::Dead { after: Some(8), limit: 10 }),
        (
            "lock",
            Request::Lock {
                file: 9,
                start: 0,
                end: u64::MAX,
                exclusive: true,
                wait_ms: 5000,
                lease_ms: 10_000,
            },
        ),
        ("renew", Request::Renew { lock: 77, lease_ms: 10_000 }),
        ("unlock", Request::Unlock { lock: 77 }),
        ("touch", Request::Touch { object: 9 }),
        ("read", Request::Read { access: access(contiguous) }),
        ("read_typed", Request::Read { access: access(typed) }),
        (
            "write_list",
            Request::Write { access: access(Bytes::List(vec![(0, 8), (4096, 8), (1 << 50, 1)])) },
        ),
        ("object_len", Request::ObjectLen { object: 9 }),
        ("truncate", Request::Truncate { object: 9, len: 4096 }),
        ("preallocate", Request::Preallocate { object: 9, len: 1 << 30 }),
        ("sync", Request::Sync { object: 9 }),
        ("remove_object", Request::RemoveObject { object: 9 }),
        ("objects", Request::Objects { after: None, limit: 1 }),
        ("space", Request::Space),
        ("statistics", Request::Statistics),
        ("identify", Request::Identify),
        ("describe", Request::Describe { file: 9 }),
        ("shorten", Request::Shorten { file: 9, lens: vec![1 << 20, 4096] }),
        (
            "enrol",
            Request::Enrol {
                address: "node1:7070".into(),
                identity: Identity([7; 16]),
                replace: false,
            },
        ),
    ]
}

fn servers() -> Reply {
    let identities = vec![Some(Identity([7; 16])), None];
    Reply::Servers { addresses: file().servers, identities }
}

pub fn replies() -> Vec<(&'static str, Reply)> {
    vec![
        ("done", Reply::Done),
        ("file", Reply::File(file())),
        ("names", Reply::Names { entries: vec![file(), file()], more: true }),
        ("servers", servers()),
        ("ids", Reply::Ids { ids: vec![1, 300, u64::MAX], more: false }),
        ("locked", Reply::Locked { lock: 77, lease_ms: 10_000 }),
        ("reading", Reply::Reading { object_len: 1 << 35 }),
        ("written", Reply::Written { bytes: 1 << 20, start: StartId(1 << 60) }),
        ("len", Reply::Len { len: 0, exists: false }),
        ("objects", Reply::Objects { objects: vec![(9, 4096), (10, 0)], more: false }),
        ("space", Reply::Space { total: 1 << 40, free: 1 << 39, available: 1 << 38, objects: 12 }),
        ("statistics", Reply::Statistics { counters: vec![("reads".into(), 4)] }),
        (
            "server",
            Reply::Server {
                version: "0.1.0".into(),
                identity: Identity([7; 16]),
                metadata: true,
                uptime_s: 3600,
                connections: 12,
            },
        ),
        ("synced", Reply::Synced { start: StartId(1 << 60) }),
    ]
}

pub fn failure() -> Failure {
    Failure::new(FailureCode::NoSpace, "cannot write object 9: no space is left")
}
