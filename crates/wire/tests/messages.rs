//! Every message comes back as it was sent, and none that breaks a limit does.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod samples;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use striate_wire::limits::{
    LEASE_MS, MAX_ENCODING, MAX_ENTRIES, MAX_FAILURE_TEXT, MAX_NAME, MAX_OFFSET, MAX_PATH,
    MAX_REGIONS, MAX_SERVERS, MAX_WAIT_MS, STRIP,
};
use striate_wire::{
    Access, Bytes, Failure, FailureCode, FileInfo, Identity, Malformed, ObjectInfo, Reply, Request,
    Share, StartId, TypeId,
};

fn path() -> impl Strategy<Value = String> {
    prop_oneof![".{0,40}", Just("p".repeat(MAX_PATH))]
}

/// Some bytes that lie within the offsets.
fn bytes_at() -> impl Strategy<Value = (u64, u64)> {
    (0..=MAX_OFFSET).prop_flat_map(|offset| (Just(offset), 0..=MAX_OFFSET - offset))
}

fn share() -> impl Strategy<Value = Share> {
    (STRIP, 1..=MAX_SERVERS).prop_flat_map(|(strip, servers)| {
        (0..servers).prop_map(move |index| Share { strip, servers, index })
    })
}

fn type_id() -> impl Strategy<Value = TypeId> {
    any::<[u8; 16]>().prop_map(TypeId)
}

fn access() -> impl Strategy<Value = Access> {
    let region = (0..=MAX_OFFSET - u64::from(u32::MAX), any::<u32>());
    let bytes = prop_oneof![
        bytes_at().prop_map(|(offset, len)| Bytes::Contiguous { offset, len }),
        vec(region, 0..40).prop_map(Bytes::List),
        Just(Bytes::List(vec![(MAX_OFFSET - 1, 1); MAX_REGIONS])),
        (type_id(), 0..=MAX_OFFSET, bytes_at()).prop_map(|(id, displacement, (start, len))| {
            Bytes::Typed { id, displacement, start, len }
        }),
    ];
    (any::<u64>(), share(), bytes).prop_map(|(object, share, bytes)| Access {
        object,
        share,
        bytes,
    })
}

fn request() -> impl Strategy<Value = Request> {
    let limit = || 1..=MAX_ENTRIES;
    let number = any::<u64>;
    prop_oneof![
        Just(Request::Ping),
        Just(Request::Servers),
        Just(Request::Space),
        Just(Request::Statistics),
        Just(Request::Identify),
        (type_id(), vec(any::<u8>(), 0..300))
            .prop_map(|(id, encoding)| Request::Define { id, encoding }),
        (path(), STRIP, option::of(1..=MAX_SERVERS), option::of(0..MAX_SERVERS), any::<bool>())
            .prop_map(|(path, strip, servers, first, exclusive)| Request::Create {
                path,
                strip,
                servers,
                first,
                exclusive
            }),
        path().prop_map(|path| Request::Lookup { path }),
        (path(), option::of(path()), limit()).prop_map(|(prefix, after, limit)| Request::List {
            prefix,
            after,
            limit
        }),
        (path(), path(), any::<bool>()).prop_map(|(from, to, replace)| Request::Rename {
            from,
            to,
            replace
        }),
        path().prop_map(|path| Request::Remove { path }),
        number().prop_map(|file| Request::Bury { file }),
        (number(), 0..=MAX_OFFSET, number(), vec(0..=MAX_OFFSET, 0..5)).prop_map(
            |(file, size, truncations, lens)| Request::Record { file, size, truncations, lens }
        ),
        number().prop_map(|file| Request::Describe { file }),
        (number(), vec(0..=MAX_OFFSET, 0..5))
            .prop_map(|(file, lens)| Request::Shorten { file, lens }),
        (".{0,20}", any::<[u8; 16]>(), any::<bool>()).prop_map(|(address, identity, replace)| {
            Request::Enrol { address, identity: Identity(identity), replace }
        }),
        (option::of(number()), limit()).prop_map(|(after, limit)| Request::Dead { after, limit }),
        (number(), number(), number(), any::<bool>(), 0..=MAX_WAIT_MS, LEASE_MS).prop_map(
            |(file, one, other, exclusive, wait_ms, lease_ms)| {
                let (start, end) = (one.min(other), one.max(other));
                Request::Lock { file, start, end, exclusive, wait_ms, lease_ms }
            }
        ),
        (number(), LEASE_MS).prop_map(|(lock, lease_ms)| Request::Renew { lock, lease_ms }),
        number().prop_map(|lock| Request::Unlock { lock }),
        number().prop_map(|object| Request::Touch { object }),
        access().prop_map(|access| Request::Read { access }),
        access().prop_map(|access| Request::Write { access }),
        number().prop_map(|object| Request::ObjectLen { object }),
        (number(), 0..=MAX_OFFSET).prop_map(|(object, len)| Request::Truncate { object, len }),
        (number(), 0..=MAX_OFFSET).prop_map(|(object, len)| Request::Preallocate { object, len }),
        number().prop_map(|object| Request::Sync { object }),
        number().prop_map(|object| Request::RemoveObject { object }),
        (option::of(number()), limit())
            .prop_map(|(after, limit)| Request::Objects { after, limit }),
    ]
}

fn file() -> impl Strategy<Value = FileInfo> {
    let object = (option::of(any::<[u8; 16]>()), 0..=MAX_OFFSET)
        .prop_map(|(storage, len)| ObjectInfo { storage: storage.map(Identity), len });
    let servers = vec((".{0,20}", object), 1..6);
    (path(), any::<u64>(), STRIP, servers, 0..=MAX_OFFSET, any::<[u64; 3]>(), any::<bool>())
        .prop_map(|(path, file, strip, servers, size, numbers, listed)| {
            let [created_ms, modified_ms, truncations] = numbers;
            let (servers, mut objects): (Vec<_>, Vec<_>) = servers.into_iter().unzip();
            if listed {
                objects.clear();
            }
            FileInfo {
                path,
                file,
                strip,
                servers,
                size,
                created_ms,
                modified_ms,
                truncations,
                objects,
            }
        })
}

fn reply() -> impl Strategy<Value = Reply> {
    let len = || 0..=MAX_OFFSET;
    let more = any::<bool>;
    prop_oneof![
        Just(Reply::Done),
        file().prop_map(Reply::File),
        (vec(file(), 0..5), more()).prop_map(|(entries, more)| Reply::Names { entries, more }),
        vec((".{0,20}", option::of(any::<[u8; 16]>())), 0..6).prop_map(|servers| {
            let (addresses, found): (Vec<_>, Vec<_>) = servers.into_iter().unzip();
            let identities = found.into_iter().map(|found| found.map(Identity)).collect();
            Reply::Servers { addresses, identities }
        }),
        (vec(any::<u64>(), 0..20), more()).prop_map(|(ids, more)| Reply::Ids { ids, more }),
        (any::<u64>(), LEASE_MS).prop_map(|(lock, lease_ms)| Reply::Locked { lock, lease_ms }),
        len().prop_map(|object_len| Reply::Reading { object_len }),
        any::<[u64; 2]>()
            .prop_map(|[bytes, start]| Reply::Written { bytes, start: StartId(start) }),
        any::<u64>().prop_map(|start| Reply::Synced { start: StartId(start) }),
        (len(), any::<bool>()).prop_map(|(len, exists)| Reply::Len { len, exists }),
        (vec((any::<u64>(), len()), 0..20), more())
            .prop_map(|(objects, more)| Reply::Objects { objects, more }),
        any::<[u64; 4]>().prop_map(|[total, free, available, objects]| Reply::Space {
            total,
            free,
            available,
            objects
        }),
        vec((".{0,20}", any::<u64>()), 0..20).prop_map(|counters| Reply::Statistics { counters }),
        (".{0,20}", any::<[u8; 16]>(), any::<bool>(), any::<u64>(), any::<u32>()).prop_map(
            |(version, identity, metadata, uptime_s, connections)| Reply::Server {
                version,
                identity: Identity(identity),
                metadata,
                uptime_s,
                connections
            }
        ),
    ]
}

fn failure() -> impl Strategy<Value = Failure> {
    let codes = [
        FailureCode::Malformed,
        FailureCode::UnknownType,
        FailureCode::NotFound,
        FailureCode::Exists,
        FailureCode::BadName,
        FailureCode::NoSpace,
        FailureCode::ReadOnly,
        FailureCode::Io,
        FailureCode::Busy,
        FailureCode::Denied,
        FailureCode::LockTimeout,
        FailureCode::LockLost,
        FailureCode::Unsupported,
        FailureCode::Draining,
        FailureCode::NotMetadata,
        FailureCode::WrongStorage,
    ];
    (proptest::sample::select(codes.to_vec()), ".{0,60}")
        .prop_map(|(code, text)| Failure::new(code, text))
}

proptest! {
    #[test]
    fn a_request_comes_back(request in request()) {
        prop_assert_eq!(Request::decode(&request.encode().unwrap()), Ok(request));
    }

    #[test]
    fn a_reply_comes_back(reply in reply()) {
        prop_assert_eq!(Reply::decode(&reply.encode().unwrap()), Ok(reply));
    }

    #[test]
    fn a_failure_comes_back(failure in failure()) {
        prop_assert_eq!(Failure::decode(&failure.encode().unwrap()), Ok(failure));
    }
}

/// No message is the beginning of another one, and none has anything after it.
#[test]
fn a_message_is_all_of_its_bytes() {
    let requests = samples::requests().into_iter().map(|(name, request)| {
        let decode: fn(&[u8]) -> Option<Malformed> = |bytes| Request::decode(bytes).err();
        (name, request.encode().unwrap(), decode)
    });
    let replies = samples::replies().into_iter().map(|(name, reply)| {
        let decode: fn(&[u8]) -> Option<Malformed> = |bytes| Reply::decode(bytes).err();
        (name, reply.encode().unwrap(), decode)
    });
    for (name, mut bytes, error) in requests.chain(replies) {
        assert_eq!(error(&bytes), None, "{name}");
        for len in 0..bytes.len() {
            assert!(error(&bytes[..len]).is_some(), "{len} bytes of {name}");
        }
        bytes.push(0);
        assert!(matches!(error(&bytes), Some(Malformed::Trailing { len: 1, .. })), "{name}");
    }
}

/// The order of the variants is the wire format.
#[test]
fn messages_keep_their_numbers() {
    let numbers = |bytes: Vec<Vec<u8>>| {
        let mut numbers: Vec<u8> = bytes.iter().map(|bytes| bytes[0]).collect();
        numbers.dedup();
        numbers
    };
    let requests = samples::requests().iter().map(|(_, it)| it.encode().unwrap()).collect();
    assert_eq!(numbers(requests), (0..29).collect::<Vec<u8>>());
    let replies = samples::replies().iter().map(|(_, it)| it.encode().unwrap()).collect();
    assert_eq!(numbers(replies), (0..14).collect::<Vec<u8>>());
}

#[test]
fn requests_beyond_a_limit_are_refused() {
    let path = || "p".repeat(MAX_PATH + 1);
    let create = |strip, servers, first| Request::Create {
        path: "/a".into(),
        strip,
        servers,
        first,
        exclusive: false,
    };
    let lock = |start, end, wait_ms, lease_ms| Request::Lock {
        file: 1,
        start,
        end,
        exclusive: false,
        wait_ms,
        lease_ms,
    };
    let sound = Share { strip: 512, servers: 2, index: 1 };
    let read = |share, bytes| Request::Read { access: Access { object: 1, share, bytes } };
    let nothing = || Bytes::List(Vec::new());
    let id = TypeId([0; 16]);
    let refused = [
        Request::Define { id, encoding: vec![0; MAX_ENCODING + 1] },
        create(511, None, None),
        create((1 << 30) + 1, None, None),
        create(512, Some(0), None),
        create(512, Some(MAX_SERVERS + 1), None),
        create(512, None, Some(MAX_SERVERS)),
        Request::Lookup { path: path() },
        Request::Remove { path: path() },
        Request::Rename { from: path(), to: String::new(), replace: false },
        Request::Rename { from: String::new(), to: path(), replace: false },
        Request::List { prefix: path(), after: None, limit: 1 },
        Request::List { prefix: String::new(), after: Some(path()), limit: 1 },
        Request::List { prefix: String::new(), after: None, limit: 0 },
        Request::List { prefix: String::new(), after: None, limit: MAX_ENTRIES + 1 },
        Request::Dead { after: None, limit: MAX_ENTRIES + 1 },
        Request::Objects { after: None, limit: 0 },
        Request::Record { file: 1, size: MAX_OFFSET + 1, truncations: 0, lens: Vec::new() },
        Request::Record { file: 1, size: 0, truncations: 0, lens: vec![MAX_OFFSET + 1] },
        Request::Record {
            file: 1,
            size: 0,
            truncations: 0,
            lens: vec![0; MAX_SERVERS as usize + 1],
        },
        Request::Shorten { file: 1, lens: vec![MAX_OFFSET + 1] },
        Request::Enrol { address: "n".repeat(257), identity: Identity([0; 16]), replace: false },
        Request::Truncate { object: 1, len: MAX_OFFSET + 1 },
        Request::Preallocate { object: 1, len: u64::MAX },
        lock(2, 1, 0, 100),
        lock(1, 2, MAX_WAIT_MS + 1, 100),
        lock(1, 2, 0, 99),
        Request::Renew { lock: 1, lease_ms: 600_001 },
        read(Share { strip: 0, ..sound }, nothing()),
        read(Share { servers: 0, index: 0, ..sound }, nothing()),
        read(Share { servers: MAX_SERVERS + 1, ..sound }, nothing()),
        read(Share { index: 2, ..sound }, nothing()),
        read(sound, Bytes::Contiguous { offset: MAX_OFFSET, len: 1 }),
        read(sound, Bytes::Contiguous { offset: u64::MAX, len: u64::MAX }),
        read(sound, Bytes::List(vec![(MAX_OFFSET, 1)])),
        read(sound, Bytes::List(vec![(0, 1); MAX_REGIONS + 1])),
        read(sound, Bytes::Typed { id, displacement: MAX_OFFSET + 1, start: 0, len: 0 }),
        read(sound, Bytes::Typed { id, displacement: 0, start: 1, len: MAX_OFFSET }),
    ];
    for request in refused {
        assert!(request.encode().is_err(), "{request:?}");
        let bytes = postcard::to_stdvec(&request).unwrap();
        assert!(Request::decode(&bytes).is_err(), "{request:?}");
    }
}

#[test]
fn replies_beyond_a_limit_are_refused() {
    let (_, Reply::File(file)) = samples::replies().swap_remove(1) else { panic!() };
    let name = || "n".repeat(MAX_NAME + 1);
    let refused = [
        Reply::File(FileInfo { path: "p".repeat(MAX_PATH + 1), ..file.clone() }),
        Reply::File(FileInfo { strip: 0, ..file.clone() }),
        Reply::File(FileInfo { servers: Vec::new(), ..file.clone() }),
        Reply::File(FileInfo { servers: vec![name()], ..file.clone() }),
        Reply::File(FileInfo { size: u64::MAX, ..file.clone() }),
        Reply::File(FileInfo { objects: vec![ObjectInfo::default(); 1], ..file.clone() }),
        Reply::File(FileInfo {
            objects: vec![ObjectInfo { len: u64::MAX, ..ObjectInfo::default() }; 2],
            ..file.clone()
        }),
        Reply::Names { entries: vec![file; MAX_ENTRIES as usize + 1], more: false },
        Reply::Servers {
            addresses: vec![String::new(); MAX_SERVERS as usize + 1],
            identities: Vec::new(),
        },
        Reply::Servers { addresses: vec![String::new(); 2], identities: vec![None] },
        Reply::Ids { ids: vec![0; MAX_ENTRIES as usize + 1], more: false },
        Reply::Locked { lock: 1, lease_ms: 0 },
        Reply::Reading { object_len: u64::MAX },
        Reply::Len { len: MAX_OFFSET + 1, exists: true },
        Reply::Objects { objects: vec![(1, u64::MAX)], more: false },
        Reply::Statistics { counters: vec![(name(), 1)] },
        Reply::Server {
            version: name(),
            identity: Identity([0; 16]),
            metadata: false,
            uptime_s: 0,
            connections: 0,
        },
    ];
    for reply in refused {
        assert!(reply.encode().is_err(), "{reply:?}");
        let bytes = postcard::to_stdvec(&reply).unwrap();
        assert!(Reply::decode(&bytes).is_err(), "{reply:?}");
    }
    let failure = Failure { code: FailureCode::Io, text: "t".repeat(MAX_FAILURE_TEXT + 1) };
    assert!(failure.encode().is_err());
    assert!(Failure::decode(&postcard::to_stdvec(&failure).unwrap()).is_err());
}

/// A list that announces more items than it may have, or than there are bytes, is no reason to
/// reserve memory for them.
#[test]
fn announced_lengths_are_not_believed() {
    let huge = [0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01];
    for reply in [2, 3, 4, 9, 11] {
        let bytes = [&[reply], &huge[..]].concat();
        assert!(Reply::decode(&bytes).is_err());
    }
    let define = [&[1], &[0; 16][..], &huge[..]].concat();
    assert!(Request::decode(&define).is_err());
    let lookup = [&[3], &huge[..]].concat();
    assert!(Request::decode(&lookup).is_err());
}
