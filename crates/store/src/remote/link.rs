//! [`Link`]: one connection to one server, after the handshake.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::RecvFlags;
use striate_wire::{
    Connection, Instance, Message, Reply, Request, SentTypes, Session, Transport, WireError, greet,
};

use super::error::CallError;
use super::options::ClientOptions;
use super::url::host_of;

/// Descriptions that a link remembers to have sent: no fewer than a program uses in turn.
const KNOWN: NonZeroUsize = NonZeroUsize::new(1024).expect("not zero");

/// A connection to a server.
///
/// After a failure that the server reported, the link can be used on. After any other error it
/// cannot, and is marked as broken; users of [`Link::connection`] mark it by [`Link::failed`].
#[derive(Debug)]
pub(super) struct Link {
    connection: Connection<Transport>,
    known: SentTypes,
    last_id: u64,
    patience: Duration,
    broken: bool,
    /// The number of the connection in the session of the client.
    number: u64,
    server: Instance,
}

impl Link {
    /// A new connection; each step of making it may take as long as `patience`.
    pub(super) fn connect(
        address: &str,
        options: &ClientOptions,
        patience: Duration,
        session: &Session,
    ) -> Result<Self, CallError> {
        let socket = dial(address, options.connect_timeout.min(patience))?;
        socket.set_nodelay(true)?;
        keep_alive(&socket)?;
        let transport = match &options.tls {
            Some(tls) => tls.connect(socket, host_of(address))?,
            None => Transport::from(socket),
        };
        transport.set_patience(Some(patience), Some(patience))?;
        let mut connection = Connection::new(transport);
        let server = greet(&mut connection, options.key.as_ref(), session)
            .map_err(|error| silence_or(error, patience))?;
        Ok(Self {
            connection,
            known: SentTypes::new(KNOWN),
            last_id: 0,
            patience,
            broken: false,
            number: session.connection,
            server,
        })
    }

    /// The number of the connection.
    pub(super) fn number(&self) -> u64 {
        self.number
    }

    /// The server at the other end.
    pub(super) fn server(&self) -> Instance {
        self.server
    }

    /// The connection, for requests with data.
    pub(super) fn connection(&mut self) -> &mut Connection<Transport> {
        &mut self.connection
    }

    /// The datatypes that were sent to the server over this link.
    pub(super) fn known(&mut self) -> &mut SentTypes {
        &mut self.known
    }

    /// The id of a new request.
    pub(super) fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    /// How long the server may keep silent from now on.
    pub(super) fn set_patience(&mut self, patience: Duration) -> Result<(), CallError> {
        if patience != self.patience {
            let set = self.connection.stream().set_patience(Some(patience), Some(patience));
            set.map_err(|error| self.failed(error.into()))?;
            self.patience = patience;
        }
        Ok(())
    }

    /// The error of an operation of the connection, after which the link is broken.
    pub(super) fn failed(&mut self, error: WireError) -> CallError {
        self.broken |= !matches!(error, WireError::NotSent(_));
        silence_or(error, self.patience)
    }

    /// The error of sending: what the server said before it ended the connection, if it did.
    pub(super) fn failed_to_send(&mut self, error: WireError) -> CallError {
        let ended = matches!(&error, WireError::Io(io)
            if matches!(io.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset));
        let error = self.failed(error);
        if !ended {
            return error;
        }
        let at_once = Some(Duration::from_millis(10));
        let said = self.connection.stream().set_patience(at_once, at_once).ok().and_then(|()| {
            let header = self.connection.receive_header().ok()?;
            self.connection.receive_message(&header).ok()
        });
        match said {
            Some(Message::Failure(failure)) => CallError::Failure(failure),
            _ => error,
        }
    }

    /// Marks the link as of no further use.
    pub(super) fn spoil(&mut self) {
        self.broken = true;
    }

    /// Whether it is of no further use.
    pub(super) fn is_broken(&self) -> bool {
        self.broken
    }

    /// Whether an idle link can still be used: nothing may come unasked, the end least of all.
    pub(super) fn is_quiet(&self) -> bool {
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let peeked = rustix::net::recv(self.connection.stream().socket(), &mut [0; 1], flags);
        peeked.is_err_and(|error| error == Errno::AGAIN)
    }

    /// Sends a request without data; returns its id.
    pub(super) fn send(&mut self, request: &Request) -> Result<u64, CallError> {
        let id = self.next_id();
        self.connection.send_request(id, request).map_err(|error| self.failed(error))?;
        Ok(id)
    }

    /// The answer to the request with this id, which must be the next.
    pub(super) fn receive(&mut self, id: u64) -> Result<Reply, CallError> {
        let received = self.connection.receive_header().and_then(|header| {
            let message = self.connection.receive_message(&header)?;
            Ok((header.id, message))
        });
        match received.map_err(|error| self.failed(error))? {
            (of, Message::Reply(reply)) if of == id => Ok(reply),
            (of, Message::Failure(failure)) => {
                // Of no request: the server gives up the connection, and says why.
                self.broken |= of != id;
                Err(CallError::Failure(failure))
            }
            (of, _) => {
                self.broken = true;
                let text = format!("a message of request {of} came where a reply to {id} is due");
                Err(CallError::Protocol(text))
            }
        }
    }

    /// Sends a request without data and waits for the answer.
    pub(super) fn call(&mut self, request: &Request) -> Result<Reply, CallError> {
        let id = self.send(request)?;
        self.receive(id)
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.broken {
            // What was not sent yet stays unsent: the system would deliver it later.
            let socket = self.connection.stream().socket();
            let _ = rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO));
        }
    }
}

/// The error, or that nothing moved for so long.
fn silence_or(error: WireError, patience: Duration) -> CallError {
    match error {
        WireError::Io(io)
            if matches!(io.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) =>
        {
            CallError::silence(patience)
        }
        _ => error.into(),
    }
}

/// A server that vanished and came back answers a probe by ending the connection, so that an
/// answer which will never come is not waited for.
fn keep_alive(socket: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, Duration::from_secs(2))?;
    sockopt::set_tcp_keepintvl(socket, Duration::from_secs(1))?;
    // How long silence is borne is a matter of patience.
    Ok(sockopt::set_tcp_keepcnt(socket, 127)?)
}

/// Connects to the first address of the host that answers.
fn dial(address: &str, timeout: Duration) -> Result<TcpStream, CallError> {
    let deadline = Instant::now() + timeout;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for socket in address.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        match TcpStream::connect_timeout(&socket, left) {
            Ok(stream) => return Ok(stream),
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                let text = format!("no connection within {} s", timeout.as_secs_f64());
                last = io::Error::new(io::ErrorKind::TimedOut, text);
            }
            Err(error) => last = error,
        }
    }
    Err(last.into())
}
