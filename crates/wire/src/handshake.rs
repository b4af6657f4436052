//! The handshake: both sides agree on a version and prove that they have the same key.
//!
//! The client sends a nonce; the server answers with its own and, if it has a key, a code over both
//! nonces; the client checks that and answers with its code, which differs by a label so that
//! neither can be sent back as the other. The key itself never travels. What follows is neither
//! encrypted nor signed: the handshake keeps strangers out of a network that is trusted otherwise.
//!
//! A side that breaks off sends the reason, so that both have the reason in their logs.

use std::io::{self, Read, Write};

use hmac::Mac;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::connection::Connection;
use crate::error::{Malformed, WireError};
use crate::failure::{Failure, FailureCode};
use crate::frame::{FrameKind, Header, VERSION};
use crate::id::Instance;
use crate::key::Key;
use crate::message;
use crate::session::Session;

/// The id of all frames of a handshake.
const ID: u64 = 0;

type Nonce = [u8; 32];
type Code = [u8; 32];

/// From the client: the versions it speaks, the oldest and the newest, and its nonce. The server
/// answers with a [`Challenge`], or with the failure `Unsupported`.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    versions: (u8, u8),
    nonce: Nonce,
}

/// From the server: the version that both will speak, its nonce, and a proof if it has a key. The
/// client answers with a [`Proof`], or with the failure `Denied`.
#[derive(Debug, Serialize, Deserialize)]
struct Challenge {
    version: u8,
    nonce: Nonce,
    proof: Option<Code>,
}

/// From the client: a proof if it has a key, and which of its connections this is. The server
/// answers with a [`Welcome`], once the connections that this one supersedes have ended, or with
/// the failure `Denied` or `Busy`.
#[derive(Debug, Serialize, Deserialize)]
struct Proof {
    proof: Option<Code>,
    session: Session,
}

/// From the server: which one it is, and which of its starts. Requests may follow.
#[derive(Debug, Serialize, Deserialize)]
struct Welcome {
    instance: Instance,
}

/// Why two sides did not come together.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum HandshakeError {
    /// They speak no common version.
    #[error(
        "the client speaks versions {} to {} of the protocol, the server versions {} to {}",
        client.0, client.1, server.0, server.1
    )]
    Version {
        /// The oldest and the newest version that the client speaks.
        client: (u8, u8),
        /// The oldest and the newest version that the server speaks.
        server: (u8, u8),
    },
    /// The client has a key and trusts no server without it.
    #[error("the client has a key but the server has none: start the server with the key")]
    ServerWithoutKey,
    /// The server has a key and serves no client without it.
    #[error("the server asks for a key but the client has none: give the client the server's key")]
    ClientWithoutKey,
    /// Both have a key, but not the same.
    #[error("the keys of client and server differ")]
    WrongKey,
    /// The server speaks TLS, the client does not.
    #[error("the server speaks TLS: its URL begins with striate+tls://, not with striate://")]
    ServerSpeaksTls,
    /// The client speaks TLS, the server does not.
    #[error(
        "the server does not speak TLS: its URL begins with striate://, not with striate+tls://"
    )]
    ServerWithoutTls,
    /// The certificate has other names than the client asked for.
    #[error("the server's certificate is not for the host of the URL: {0}")]
    OtherHost(String),
    /// The certificate is not by an authority that the client believes, or not valid.
    #[error("the server's certificate is not trusted: {0}")]
    Certificate(String),
    /// The other side broke off.
    #[error("the other side broke off the handshake: {0}")]
    Refused(#[source] Failure),
}

impl HandshakeError {
    fn failure(&self) -> Failure {
        let code = match self {
            Self::Refused(failure) => return failure.clone(),
            Self::Version { .. } => FailureCode::Unsupported,
            _ => FailureCode::Denied,
        };
        Failure::new(code, self.to_string())
    }
}

/// The client's side of a handshake; returns which server it is.
pub fn greet<S: Read + Write>(
    connection: &mut Connection<S>,
    key: Option<&Key>,
    session: &Session,
) -> Result<Instance, WireError> {
    try_greet(connection, key, session).map_err(|error| recognised(error, connection.cut_off()))
}

/// What an error says about TLS, which begins and ends within the first frames.
fn recognised(error: WireError, cut_off: Option<[u8; 4]>) -> WireError {
    use rustls::{CertificateError, Error};
    // The first bytes of an alert or a handshake of TLS: the kind, and the version.
    const TLS: u8 = 3;
    let found = match &error {
        WireError::Malformed(Malformed::Magic([0x15 | 0x16, TLS, ..])) => {
            Some(HandshakeError::ServerSpeaksTls)
        }
        // An alert is shorter than a header.
        WireError::Io(_) if matches!(cut_off, Some([0x15 | 0x16, TLS, ..])) => {
            Some(HandshakeError::ServerSpeaksTls)
        }
        WireError::Io(io) => match io.get_ref().and_then(|inner| inner.downcast_ref()) {
            Some(Error::InvalidMessage(_)) => Some(HandshakeError::ServerWithoutTls),
            Some(Error::InvalidCertificate(
                why @ (CertificateError::NotValidForName
                | CertificateError::NotValidForNameContext { .. }),
            )) => Some(HandshakeError::OtherHost(why.to_string())),
            Some(Error::InvalidCertificate(why)) => {
                Some(HandshakeError::Certificate(why.to_string()))
            }
            _ => None,
        },
        _ => None,
    };
    found.map_or(error, WireError::Handshake)
}

fn try_greet<S: Read + Write>(
    connection: &mut Connection<S>,
    key: Option<&Key>,
    session: &Session,
) -> Result<Instance, WireError> {
    let nonce = new_nonce()?;
    send(connection, FrameKind::Hello, &Hello { versions: (VERSION, VERSION), nonce })?;
    let challenge: Challenge = receive(connection, FrameKind::Challenge, "the server's challenge")?;
    let version = challenge.version;
    if version != VERSION {
        let (client, server) = ((VERSION, VERSION), (version, version));
        return Err(break_off(connection, HandshakeError::Version { client, server }));
    }
    let nonces = Nonces { client: nonce, server: challenge.nonce };
    match (key, challenge.proof) {
        (Some(key), Some(code)) if nonces.is_of_server(key, &code) => {}
        (Some(_), Some(_)) => return Err(break_off(connection, HandshakeError::WrongKey)),
        (Some(_), None) => return Err(break_off(connection, HandshakeError::ServerWithoutKey)),
        // The server may refuse, and says so itself.
        (None, _) => {}
    }
    let proof = key.map(|key| nonces.of_client(key));
    send(connection, FrameKind::Proof, &Proof { proof, session: session.clone() })?;
    let welcome: Welcome = receive(connection, FrameKind::Welcome, "the server's welcome")?;
    Ok(welcome.instance)
}

/// The server's side of a handshake; without an error the client may send requests.
pub fn welcome<S: Read + Write>(
    connection: &mut Connection<S>,
    key: Option<&Key>,
    instance: Instance,
) -> Result<(), WireError> {
    welcome_if(connection, key, instance, |_| Ok(()))
}

/// As [`welcome`], but `admit` is asked once the client has proved that it has the key, and may
/// still refuse it; it ends what the new connection supersedes.
pub fn welcome_if<S: Read + Write>(
    connection: &mut Connection<S>,
    key: Option<&Key>,
    instance: Instance,
    admit: impl FnOnce(&Session) -> Result<(), Failure>,
) -> Result<(), WireError> {
    let hello: Hello = receive(connection, FrameKind::Hello, "the client's hello")?;
    let client = hello.versions;
    if !(client.0..=client.1).contains(&VERSION) {
        let server = (VERSION, VERSION);
        return Err(break_off(connection, HandshakeError::Version { client, server }));
    }
    let nonces = Nonces { client: hello.nonce, server: new_nonce()? };
    let proof = key.map(|key| nonces.of_server(key));
    let challenge = Challenge { version: VERSION, nonce: nonces.server, proof };
    send(connection, FrameKind::Challenge, &challenge)?;
    let answer: Proof = receive(connection, FrameKind::Proof, "the client's proof")?;
    match (key, answer.proof) {
        (Some(key), Some(code)) if nonces.is_of_client(key, &code) => {}
        (None, None) => {}
        (Some(_), Some(_)) => return Err(break_off(connection, HandshakeError::WrongKey)),
        (Some(_), None) => return Err(break_off(connection, HandshakeError::ClientWithoutKey)),
        (None, Some(_)) => return Err(break_off(connection, HandshakeError::ServerWithoutKey)),
    }
    let admitted = admit(&answer.session);
    admitted.map_err(|failure| break_off(connection, HandshakeError::Refused(failure)))?;
    send(connection, FrameKind::Welcome, &Welcome { instance })
}

/// What the proofs of one handshake are made over.
struct Nonces {
    client: Nonce,
    server: Nonce,
}

impl Nonces {
    const SERVER: &[u8] = b"striate server";
    const CLIENT: &[u8] = b"striate client";

    fn of_server(&self, key: &Key) -> Code {
        key.authenticate(&self.labelled(Self::SERVER)).finalize().into_bytes().into()
    }

    fn of_client(&self, key: &Key) -> Code {
        key.authenticate(&self.labelled(Self::CLIENT)).finalize().into_bytes().into()
    }

    // `verify_slice` takes the same time whichever byte differs.
    fn is_of_server(&self, key: &Key, code: &Code) -> bool {
        key.authenticate(&self.labelled(Self::SERVER)).verify_slice(code).is_ok()
    }

    fn is_of_client(&self, key: &Key, code: &Code) -> bool {
        key.authenticate(&self.labelled(Self::CLIENT)).verify_slice(code).is_ok()
    }

    fn labelled<'a>(&'a self, label: &'a [u8]) -> [&'a [u8]; 3] {
        [label, &self.client, &self.server]
    }
}

fn new_nonce() -> Result<Nonce, WireError> {
    let mut nonce = [0; 32];
    getrandom::fill(&mut nonce).map_err(io::Error::from)?;
    Ok(nonce)
}

fn send<S: Write>(
    connection: &mut Connection<S>,
    kind: FrameKind,
    message: &impl Serialize,
) -> Result<(), WireError> {
    let payload =
        message::encode("message of the handshake", message).map_err(WireError::NotSent)?;
    connection.queue_frame(kind, ID, &payload)?;
    connection.flush()
}

/// The next frame, which must be of this kind, or a failure that the other side breaks off with.
fn receive<S: Read, T: DeserializeOwned>(
    connection: &mut Connection<S>,
    kind: FrameKind,
    expected: &'static str,
) -> Result<T, WireError> {
    let header: Header = connection.receive_header()?;
    match header.kind {
        found if found == kind => {
            let payload = connection.receive_payload(&header)?;
            Ok(message::decode(expected, &payload)?)
        }
        FrameKind::Failure => {
            let failure = Failure::decode(&connection.receive_payload(&header)?)?;
            Err(HandshakeError::Refused(failure).into())
        }
        found => Err(Malformed::Unexpected { expected, found }.into()),
    }
}

/// Tells the other side why, and hands the reason on.
fn break_off<S: Write>(connection: &mut Connection<S>, error: HandshakeError) -> WireError {
    // The reason counts, not whether the other side still listens to it.
    let _ = connection.send_failure(ID, &error.failure());
    error.into()
}
