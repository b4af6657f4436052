//! The protocol between clients and I/O servers.
//!
//! Everything on a connection is a frame: a [`Header`] of 28 bytes and a payload, both under a
//! checksum. A connection begins with the handshake ([`greet`] and [`welcome`]), in which both
//! sides prove that they have the same [`Key`], if they have one. Then the client sends a
//! [`Request`]; the server answers it with a [`Reply`] or a [`Failure`] of the same id. The bytes
//! of a file travel in data frames, from the sender's memory straight into the receiver's.
//!
//! The crate opens no sockets: a [`Connection`] is the framed side of anything that reads and
//! writes. Nothing that comes from the other side is trusted: lengths are limited before
//! anything is allocated, and every field is checked before it is used ([`limits`]).
//!
//! ```
//! use std::os::unix::net::UnixStream;
//! use striate_wire::{
//!     Connection, Identity, Instance, Message, Reply, Request, Session, StartId, greet, welcome,
//! };
//!
//! let (here, there) = UnixStream::pair()?;
//! let instance = Instance { identity: Identity([7; 16]), start: StartId(1) };
//! let server = std::thread::spawn(move || {
//!     let mut connection = Connection::new(there);
//!     welcome(&mut connection, None, instance)?;
//!     let header = connection.receive_header()?;
//!     let Message::Request(Request::Ping) = connection.receive_message(&header)? else { panic!()
//! };
//!     connection.send_reply(header.id, &Reply::Done)
//! });
//! let mut connection = Connection::new(here);
//! assert_eq!(greet(&mut connection, None, &Session::default())?, instance);
//! connection.send_request(1, &Request::Ping)?;
//! let header = connection.receive_header()?;
//! assert_eq!(header.id, 1);
//! assert_eq!(connection.receive_message(&header)?, Message::Reply(Reply::Done));
//! server.join().unwrap()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod access;
mod checksum;
pub mod connection;
pub mod description;
pub mod error;
pub mod failure;
pub mod frame;
pub mod handshake;
pub mod id;
pub mod key;
pub mod limits;
pub mod message;
pub mod reply;
pub mod request;
pub mod session;
pub mod socket;
mod stream;
pub mod traffic;
pub mod transport;

pub use access::{Access, Bytes, Share};
pub use checksum::checksum;
pub use connection::Connection;
pub use description::{Descriptions, SentTypes};
pub use error::{Malformed, WireError};
pub use failure::{Failure, FailureCode};
pub use frame::{FrameKind, Header};
pub use handshake::{HandshakeError, greet, welcome, welcome_if};
pub use id::{Identity, Instance, StartId, TypeId};
pub use key::{Key, KeyError};
pub use message::Message;
pub use reply::{FileInfo, ObjectInfo, Reply};
pub use request::Request;
pub use session::{ClientId, Session};
pub use socket::Socket;
pub use traffic::{Frames, Traffic};
pub use transport::{ClientTls, ServerTls, TlsError, Transport};
