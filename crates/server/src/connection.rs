//! One connection, from its handshake to its end.

use std::fmt::Display;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use striate_wire::{
    Connection, Failure, FailureCode, Malformed, Message, Request, Session, Transport, WireError,
    welcome_if,
};

use crate::deadline::{ConnectionControl, TimedStream};
use crate::locks::Holder;
use crate::registry::ConnectionEntry;
use crate::requests::answer;
use crate::state::ServerState;

/// Serves a client until it goes, is late, or breaks the rules.
pub(crate) fn serve(
    server: &ServerState,
    socket: TcpStream,
    control: &Arc<ConnectionControl>,
    entry: &ConnectionEntry,
) {
    let transport = match &server.tls {
        None => Transport::from(socket),
        Some(tls) => match tls.accept(socket) {
            Ok(transport) => transport,
            Err(error) => return tracing::error!(%error, "cannot speak TLS"),
        },
    };
    let stream = TimedStream::new(transport, Arc::clone(control), &server.settings.limits);
    let mut client = ClientConnection {
        server,
        control,
        connection: Connection::new(stream),
        holder: server.locks.holder(),
        id: 0,
        admitted: false,
    };
    let mut refused = false;
    let admit = |session: &Session| entry.admit(session).inspect_err(|_| refused = true);
    if let Err(error) = client.shake_hands(admit) {
        if refused {
            // No fault of the client.
            tracing::debug!(%error, "refused a client");
            return client.connection.stream().close_gently();
        }
        server.statistics.handshakes_failed.add(1);
        client.end(&error);
    } else if let Err(error) = client.serve_requests() {
        client.end(&error);
    }
}

/// A client and what it has.
struct ClientConnection<'s> {
    server: &'s ServerState,
    control: &'s Arc<ConnectionControl>,
    connection: Connection<TimedStream>,
    holder: Holder<'s>,
    /// The request that the last frame belonged to.
    id: u64,
    admitted: bool,
}

impl ClientConnection<'_> {
    fn shake_hands(
        &mut self,
        admit: impl FnOnce(&Session) -> Result<(), Failure>,
    ) -> Result<(), WireError> {
        let instance = self.server.instance();
        welcome_if(&mut self.connection, self.server.key.as_ref(), instance, admit)
    }

    fn serve_requests(&mut self) -> Result<(), WireError> {
        self.admitted = true;
        loop {
            self.id = 0;
            self.connection.stream().rest();
            if self.server.refuse_if_draining().is_err() {
                // What was received already is still answered.
                self.control.stop_reading();
            }
            let header = self.connection.receive_header()?;
            self.connection.stream().work();
            self.id = header.id;
            let Message::Request(request) = self.connection.receive_message(&header)? else {
                let expected = "a request";
                return Err(Malformed::Unexpected { expected, found: header.kind }.into());
            };
            self.refuse_if_superseded()?;
            self.server.statistics.requests.add(1);
            if let Err(failure) = self.server.refuse_if_draining() {
                self.send_failure(&failure)?;
                self.connection.stream().close_gently();
                return Ok(());
            }
            self.carry_out(request)?;
        }
    }

    fn carry_out(&mut self, request: Request) -> Result<(), WireError> {
        let engine = &self.server.engine;
        match request {
            Request::Read { access } => {
                self.hold_back()?;
                engine.read(&mut self.connection, self.id, &access)
            }
            Request::Write { access } => {
                self.hold_back()?;
                engine.write(&mut self.connection, self.id, &access)
            }
            Request::Define { id, encoding } => match engine.descriptions.define(id, &encoding) {
                Ok(()) => Ok(()),
                Err(failure) => self.send_failure(&failure),
            },
            other => {
                let stream = self.connection.stream();
                match answer(self.server, &mut self.holder, stream, other) {
                    Ok(reply) => match self.connection.send_reply(self.id, &reply) {
                        // Only what is stored here can be too much for a frame.
                        Err(WireError::NotSent(why)) => {
                            let text = format!("the answer cannot be sent: {why}");
                            self.send_failure(&Failure::new(FailureCode::Unsupported, text))
                        }
                        result => result,
                    },
                    Err(failure) => self.send_failure(&failure),
                }
            }
        }
    }

    fn hold_back(&self) -> Result<(), WireError> {
        let delay = self.server.settings.delay;
        if !delay.is_zero() {
            std::thread::sleep(delay);
            self.refuse_if_superseded()?;
        }
        Ok(())
    }

    /// Nothing is carried out that the client has given up.
    fn refuse_if_superseded(&self) -> Result<(), WireError> {
        if self.control.is_superseded() { Err(WireError::Closed) } else { Ok(()) }
    }

    fn send_failure(&mut self, failure: &Failure) -> Result<(), WireError> {
        self.server.statistics.failures.add(1);
        self.connection.send_failure(self.id, failure)
    }

    /// Ends the connection; counts the offence if there was one.
    fn end(&mut self, error: &WireError) {
        let draining = self.server.refuse_if_draining().is_err();
        match error {
            WireError::Malformed(_) | WireError::Checksum { .. } => {
                self.server.statistics.bad_frames.add(1);
                self.log_offence("bad frame", error);
                // It does not matter whether the client still listens.
                let _ = self.send_failure(&Failure::new(FailureCode::Malformed, error.to_string()));
                self.connection.stream().close_gently();
            }
            WireError::Handshake(error) => {
                self.log_offence("handshake failed", error);
                self.connection.stream().close_gently();
            }
            // What TLS calls what is not TLS.
            WireError::Io(error) if error.kind() == ErrorKind::InvalidData => {
                self.server.statistics.bad_frames.add(1);
                self.log_offence("bad bytes", error);
            }
            // Strangers are told nothing.
            WireError::Io(error) if error.kind() == ErrorKind::TimedOut && self.admitted => {
                self.log_offence("too slow", error);
                let _ = self.send_failure(&Failure::new(FailureCode::Busy, error.to_string()));
                self.connection.stream().close_gently();
            }
            WireError::Closed => tracing::debug!("closed"),
            error if draining => tracing::debug!(%error, "ended while the server stops"),
            error => tracing::debug!(%error, "ended"),
        }
    }

    fn log_offence(&self, what: &str, error: &dyn Display) {
        if self.server.offence_log.allows(self.control.peer.ip(), Instant::now()) {
            tracing::warn!(%error, "{what}");
        }
    }
}
