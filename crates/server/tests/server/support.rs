//! A client that speaks the protocol by hand.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use striate_server::{Embedded, Server, Settings};
use striate_wire::{
    Access, Bytes, Connection, Failure, FailureCode, Message, Reply, Request, Session, Share,
    StartId, Transport, WireError, greet,
};

/// One server that keeps names.
pub(crate) fn alone(change: impl FnMut(&mut Settings)) -> Embedded {
    Embedded::with(1, change).unwrap()
}

/// One server that can be drained.
pub(crate) fn server(data: &tempfile::TempDir, change: impl FnOnce(&mut Settings)) -> Server {
    let listen = "127.0.0.1:0".parse().unwrap();
    let data = data.path().to_owned();
    let mut settings = Settings { data, listen, metadata: true, ..Settings::default() };
    change(&mut settings);
    Server::start(settings).unwrap()
}

/// A connection without a handshake.
pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let socket = TcpStream::connect(address).unwrap();
    socket.set_nodelay(true).unwrap();
    // A test that waits for what does not come fails rather than hangs.
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

pub(crate) struct Client {
    pub(crate) connection: Connection<Transport>,
    last: u64,
    /// The start of the server at the handshake.
    pub(crate) start: StartId,
}

impl Client {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self::try_new(address).unwrap()
    }

    pub(crate) fn try_new(address: SocketAddr) -> Result<Self, WireError> {
        Self::of_session(address, &Session::default())
    }

    pub(crate) fn of_session(address: SocketAddr, session: &Session) -> Result<Self, WireError> {
        let mut connection = Connection::new(Transport::from(connect(address)));
        let instance = greet(&mut connection, None, session)?;
        Ok(Self { connection, last: 0, start: instance.start })
    }

    /// Sends a request; returns its id.
    pub(crate) fn send(&mut self, request: &Request) -> u64 {
        self.last += 1;
        self.connection.send_request(self.last, request).unwrap();
        self.last
    }

    /// The answer to a request that was sent.
    pub(crate) fn receive(&mut self, id: u64) -> Result<Reply, Failure> {
        let header = self.connection.receive_header().unwrap();
        assert_eq!(header.id, id);
        match self.connection.receive_message(&header).unwrap() {
            Message::Reply(reply) => Ok(reply),
            Message::Failure(failure) => Err(failure),
            Message::Request(_) => panic!("servers do not ask"),
        }
    }

    pub(crate) fn ask(&mut self, request: &Request) -> Result<Reply, Failure> {
        let id = self.send(request);
        self.receive(id)
    }

    pub(crate) fn refused(&mut self, request: &Request) -> FailureCode {
        self.ask(request).unwrap_err().code
    }

    /// Bytes as they are, not as frames of the connection.
    pub(crate) fn send_raw(&self, bytes: &[u8]) {
        self.connection.stream().socket().write_all(bytes).unwrap();
    }

    /// Waits for the server to end the connection; returns what it said before.
    pub(crate) fn wait_for_end(&mut self) -> Option<Failure> {
        let header = self.connection.receive_header().ok()?;
        let Ok(Message::Failure(failure)) = self.connection.receive_message(&header) else {
            panic!("the server answered");
        };
        assert!(self.connection.receive_header().is_err(), "the connection goes on");
        Some(failure)
    }
}

/// Contiguous bytes of a file that lies on one server.
pub(crate) fn access(object: u64, offset: u64, len: u64) -> Access {
    let share = Share { strip: 65536, servers: 1, index: 0 };
    Access { object, share, bytes: Bytes::Contiguous { offset, len } }
}

/// A request as it travels.
pub(crate) fn frame(id: u64, request: &Request) -> Vec<u8> {
    let mut connection = Connection::new(Vec::new());
    connection.send_request(id, request).unwrap();
    connection.stream().clone()
}

/// Waits until something is so, for a while.
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Whether the server ended the connection of a socket that it sent nothing to.
pub(crate) fn ended(mut socket: &TcpStream) -> bool {
    match socket.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() == ErrorKind::ConnectionReset,
    }
}
