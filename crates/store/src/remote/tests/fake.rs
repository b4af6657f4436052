//! [`FakeServer`]: a server that does what a test wants, in this process.

use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use striate_wire::{
    Connection, Failure, FailureCode, Identity, Instance, Message, Reply, Request, StartId,
    Transport, WireError, welcome,
};

/// What the fake server does about a request.
pub(in crate::remote) enum Answer {
    Reply(Reply),
    /// Replies, and closes the connection.
    Last(Reply),
    Failure(FailureCode),
    /// Closes the connection.
    Close,
    /// Never answers.
    Silence,
}

/// A request, with the number of its connection and its own number, both from 0 on.
pub(in crate::remote) struct Asked<'r> {
    pub(in crate::remote) connection: usize,
    pub(in crate::remote) number: usize,
    pub(in crate::remote) request: &'r Request,
}

type Behaviour = dyn Fn(Asked<'_>) -> Answer + Send + Sync;

struct Shared {
    behaviour: Box<Behaviour>,
    metadata: bool,
    closes: usize,
    asked: Mutex<Vec<Request>>,
    connections: AtomicUsize,
    ended: AtomicBool,
}

/// A server in this process, until dropped.
pub(in crate::remote) struct FakeServer {
    pub(in crate::remote) address: String,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl FakeServer {
    /// A metadata server that follows a script, except for its identity.
    pub(in crate::remote) fn start(
        behaviour: impl Fn(Asked<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::start_as(true, 0, behaviour)
    }

    /// A server that keeps names or not, and that closes so many connections at once before it
    /// follows a script.
    pub(in crate::remote) fn start_as(
        metadata: bool,
        closes: usize,
        behaviour: impl Fn(Asked<'_>) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let shared = Arc::new(Shared {
            behaviour: Box::new(behaviour),
            metadata,
            closes,
            asked: Mutex::default(),
            connections: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
        });
        let of_thread = Arc::clone(&shared);
        let accepting = thread::spawn(move || accept(&listener, &of_thread));
        Self { address, shared, accepting: Some(accepting) }
    }

    /// What it was asked so far, except for its identity.
    pub(in crate::remote) fn asked(&self) -> Vec<Request> {
        self.shared.asked.lock().unwrap().clone()
    }

    /// Connections that were made to it so far.
    pub(in crate::remote) fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Relaxed)
    }
}

impl Drop for FakeServer {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect(&self.address);
        self.accepting.take().map(JoinHandle::join);
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let (socket, _) = listener.accept().unwrap();
        if shared.ended.load(Ordering::Relaxed) {
            return;
        }
        let number = shared.connections.fetch_add(1, Ordering::Relaxed);
        if number < shared.closes {
            continue;
        }
        let shared = Arc::clone(shared);
        // Ends when the client closes the connection.
        thread::spawn(move || serve(socket, number, &shared));
    }
}

fn serve(socket: TcpStream, connection_number: usize, shared: &Shared) -> Result<(), WireError> {
    let mut connection = Connection::new(Transport::from(socket));
    let instance = Instance { identity: Identity([7; 16]), start: StartId(1) };
    welcome(&mut connection, None, instance)?;
    loop {
        let header = connection.receive_header()?;
        let Message::Request(request) = connection.receive_message(&header)? else { panic!() };
        if request == Request::Identify {
            connection.send_reply(header.id, &identity(shared.metadata))?;
            continue;
        }
        let number = {
            let mut asked = shared.asked.lock().unwrap();
            asked.push(request.clone());
            asked.len() - 1
        };
        let asked = Asked { connection: connection_number, number, request: &request };
        match (shared.behaviour)(asked) {
            Answer::Reply(reply) => connection.send_reply(header.id, &reply)?,
            Answer::Failure(code) => {
                connection.send_failure(header.id, &Failure::new(code, "as the test wants"))?;
            }
            Answer::Last(reply) => return connection.send_reply(header.id, &reply),
            Answer::Close => return Ok(()),
            Answer::Silence => {}
        }
    }
}

fn identity(metadata: bool) -> Reply {
    Reply::Server {
        version: "0".into(),
        identity: Identity([7; 16]),
        metadata,
        uptime_s: 0,
        connections: 1,
    }
}
