//! The suite of all stores, on files that are striped over servers, and what only those do.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::cell::Cell;
use std::sync::Arc;

use striate_datatype::Datatype;
use striate_server::Embedded;
use striate_store::conformance::{Opener, Subject, check};
use striate_store::remote::{Client, ClientOptions, Layout, RemoteFile, RemoteOptions};
use striate_store::{MemoryPlacement, Placement, Store, TypedRequest};

/// New files on servers of their own.
struct Files {
    embedded: Embedded,
    layout: Layout,
    made: Cell<u32>,
}

impl Files {
    fn on(servers: usize, strip: u64) -> Self {
        let layout = Layout { strip, ..Layout::default() };
        Self { embedded: Embedded::start(servers).unwrap(), layout, made: Cell::default() }
    }
}

impl Subject for Files {
    fn fresh(&self) -> Opener {
        self.made.set(self.made.get() + 1);
        let address = self.embedded.servers()[0].address().to_string();
        let client = Client::connect(&address, ClientOptions::default()).unwrap();
        let url = client.url(&format!("file-{}", self.made.get()));
        let options = RemoteOptions { create: true, exclusive: false, layout: self.layout };
        Box::new(move || Arc::new(RemoteFile::open_with(&client, &url, &options).unwrap()))
    }
}

#[test]
fn one_server() {
    check(&Files::on(1, 64 << 10));
}

#[test]
fn three_servers_with_short_strips() {
    check(&Files::on(3, 512));
}

#[test]
fn four_servers() {
    check(&Files::on(4, 4096));
}

/// A server that remembers one description at a time is sent again what it forgot.
#[test]
fn forgotten_descriptions_are_told_again() {
    let encodings = ["vector(40, 8, stride=64)", "vector(30, 8, stride=72)"];
    let types: Vec<Datatype> = encodings.iter().map(|text| text.parse().unwrap()).collect();
    let room = types.iter().map(Datatype::memory_len).max().unwrap() as usize + 200;
    let embedded = Embedded::with(2, |settings| settings.limits.descriptions = room).unwrap();
    let address = embedded.servers()[0].address().to_string();
    let client = Client::connect(&address, ClientOptions::default()).unwrap();
    let layout = Layout { strip: 512, ..Layout::default() };
    let options = RemoteOptions { create: true, exclusive: true, layout };
    let file = RemoteFile::open_with(&client, &client.url("file"), &options).unwrap();
    let sent = |client: &Client| client.traffic().sent.descriptions;
    for round in 0..6 {
        let datatype = types[round % 2].clone();
        let (len, before) = (datatype.size(), sent(&client));
        let bytes: Vec<u8> = (0..len).map(|i| (i as usize + round) as u8).collect();
        let request = TypedRequest {
            file: Placement { displacement: 0, datatype, start: 0, len },
            memory: MemoryPlacement::contiguous(0, len),
        };
        file.write_typed(&request, &bytes).unwrap();
        let mut back = vec![0; bytes.len()];
        assert_eq!(file.read_typed(&request, &mut back).unwrap(), len);
        assert_eq!(back, bytes, "round {round}");
        // Once to each server, and not again for the read.
        assert_eq!(sent(&client) - before, 2, "round {round}");
    }
}

/// Bytes that clients write between each other's, in runs so short that the server reads, changes
/// and writes back, while other clients write plainly: no byte is set back to what it was.
#[test]
fn interleaved_writers_lose_nothing() {
    const WRITERS: u64 = 4;
    const RUNS: u64 = 4000;
    let files = Files::on(2, 4096);
    let open = files.fresh();
    let stride = 8 * (WRITERS + 1);
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let open = &open;
            scope.spawn(move || {
                let run = Datatype::bytes(8).unwrap();
                let datatype = Datatype::hvector(RUNS, 1, stride as i64, &run).unwrap();
                let len = 8 * RUNS;
                let file = Placement { displacement: 8 * writer, datatype, start: 0, len };
                let request = TypedRequest { file, memory: MemoryPlacement::contiguous(0, len) };
                let (store, bytes) = (open(), vec![writer as u8 + 1; len as usize]);
                for _ in 0..10 {
                    store.write_typed(&request, &bytes).unwrap();
                }
            });
        }
        let store = open();
        for run in 0..RUNS {
            store.write_at(run * stride + 8 * WRITERS, &[9; 8]).unwrap();
        }
    });
    let mut found = vec![0; (RUNS * stride) as usize];
    assert_eq!(open().read_at(0, &mut found).unwrap(), found.len());
    for (at, run) in found.chunks(8).enumerate() {
        let writer = at as u64 % (WRITERS + 1);
        let expected = if writer == WRITERS { 9 } else { writer as u8 + 1 };
        assert_eq!(run, [expected; 8], "run {at}");
    }
}
