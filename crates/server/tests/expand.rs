//! What a described request costs a server: its own share of it, not that of other servers.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::TcpStream;
use std::time::Instant;

use striate_datatype::Datatype;
use striate_server::{Embedded, Server};
use striate_wire::{
    Access, Bytes, Connection, Failure, FailureCode, FrameKind, Message, Reply, Request, Session,
    Share, Transport, TypeId, greet,
};

const STRIP: u64 = 4096;

struct Link(Connection<Transport>);

impl Link {
    fn to(server: &Server) -> Self {
        let socket = TcpStream::connect(server.address()).unwrap();
        socket.set_nodelay(true).unwrap();
        let mut connection = Connection::new(Transport::from(socket));
        greet(&mut connection, None, &Session::default()).unwrap();
        Self(connection)
    }

    /// Reads a server's share of a type; returns the bytes.
    fn read(&mut self, datatype: &Datatype, share: Share, object: u64) -> Vec<u8> {
        self.try_read(datatype, 0, share, object).unwrap()
    }

    fn try_read(
        &mut self,
        datatype: &Datatype,
        displacement: u64,
        share: Share,
        object: u64,
    ) -> Result<Vec<u8>, Failure> {
        let encoding = datatype.encode();
        let id = TypeId::of(&encoding);
        self.0.queue_request(1, &Request::Define { id, encoding }).unwrap();
        let bytes = Bytes::Typed { id, displacement, start: 0, len: datatype.size() };
        let access = Access { object, share, bytes };
        self.0.queue_request(2, &Request::Read { access }).unwrap();
        // Answered after the read, so that its end is known.
        self.0.send_request(3, &Request::Ping).unwrap();
        let mut got = Vec::new();
        let mut failure = None;
        loop {
            let header = self.0.receive_header().unwrap();
            if header.kind == FrameKind::Data {
                let from = got.len();
                got.resize(from + header.len as usize, 0);
                self.0.receive_data(&header, &mut got[from..]).unwrap();
                continue;
            }
            match self.0.receive_message(&header).unwrap() {
                Message::Reply(Reply::Reading { .. }) => {}
                Message::Reply(Reply::Done) => return failure.map_or(Ok(got), Err),
                Message::Failure(sent) => failure = Some(sent),
                other => panic!("{other:?}"),
            }
        }
    }

    fn prepare(&mut self, object: u64, len: u64) {
        for request in [Request::Touch { object }, Request::Truncate { object, len }] {
            self.0.send_request(9, &request).unwrap();
            let header = self.0.receive_header().unwrap();
            assert!(matches!(self.0.receive_message(&header).unwrap(), Message::Reply(_)));
        }
    }
}

/// A description whose bytes never lie on a server's strips, though almost every part of it reaches
/// over some: to find that out would take hours, and the server does not try.
#[test]
fn a_search_without_end_is_refused() {
    let embedded = Embedded::start(1).unwrap();
    let mut link = Link::to(&embedded.servers()[0]);
    link.prepare(1, 1 << 42);
    let mut datatype = Datatype::hvector(2, 1, 1024 * 700, &Datatype::bytes(1).unwrap()).unwrap();
    for shift in [21, 33, 45] {
        datatype = Datatype::hvector(2048, 1, (1 << shift) + 1024, &datatype).unwrap();
    }
    let share = Share { strip: 512, servers: 4096, index: 0 };
    let failure = link.try_read(&datatype, 600, share, 1).unwrap_err();
    assert_eq!(failure.code, FailureCode::Unsupported, "{failure}");
    // The connection goes on.
    assert_eq!(link.read(&Datatype::bytes(8).unwrap(), share, 1), [0; 8]);
}

/// `type` has runs of 8 bytes; of all of them 100 lie on server 1 of 4.
fn costs_what_is_there(name: &str, datatype: &Datatype) {
    let embedded = Embedded::start(1).unwrap();
    let server = &embedded.servers()[0];
    let mut link = Link::to(server);
    // As long as the file, full of holes: nothing is cut off.
    link.prepare(1, 1 << 42);
    let share = Share { strip: STRIP, servers: 4, index: 1 };
    let start = Instant::now();
    let got = link.read(datatype, share, 1);
    let took = start.elapsed();
    let statistics = server.statistics();
    println!("{name}: {} runs, 100 here, answered in {took:.1?}", datatype.runs());
    assert!(datatype.runs() >= 100_000_000);
    assert_eq!(got.len(), 800);
    assert_eq!(statistics.parts.get(), 100);
    assert_eq!(statistics.object_reads.get(), 100);
    assert_eq!(statistics.object_bytes_read.get(), 800);
}

#[test]
fn a_hundred_of_a_hundred_million_runs() {
    let run = Datatype::bytes(8).unwrap();
    let all = 4 * STRIP as i64;
    // All on server 0, and then 100 on server 1.
    let there = Datatype::hvector(100_000_000, 1, all, &run).unwrap();
    let here = Datatype::hvector(100, 1, all, &run).unwrap();
    let next = 100_000_000 * all + STRIP as i64;
    let both = Datatype::structure(&[(1, 0, there), (1, next, here)]).unwrap();
    costs_what_is_there("one server, then another", &both);

    // Every millionth on server 1, the others on server 0.
    let there = Datatype::hvector(999_999, 1, all, &run).unwrap();
    let last =
        Datatype::structure(&[(1, 0, there), (1, 999_999 * all + STRIP as i64, run.clone())])
            .unwrap();
    let group = Datatype::resized(&last, 0, 1_000_000 * all).unwrap();
    let groups = Datatype::contiguous(100, &group).unwrap();
    costs_what_is_there("every millionth", &groups);
}
