//! [`Transport`]: a TCP stream, plain or under TLS, for client and server alike.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
};
use thiserror::Error;

use crate::socket::Socket;

/// A TCP stream. Frames go over it as they are, or encrypted.
#[derive(Debug)]
pub enum Transport {
    /// As it is.
    Plain(Socket),
    /// The client's end of TLS.
    TlsClient(Box<StreamOwned<ClientConnection, Socket>>),
    /// The server's end of TLS.
    TlsServer(Box<StreamOwned<ServerConnection, Socket>>),
}

impl From<TcpStream> for Transport {
    /// The stream as it is.
    fn from(stream: TcpStream) -> Self {
        Self::Plain(stream.into())
    }
}

impl Transport {
    /// The stream underneath, for its settings and its end.
    pub fn socket(&self) -> &TcpStream {
        match self {
            Self::Plain(socket) => socket.stream(),
            Self::TlsClient(stream) => stream.sock.stream(),
            Self::TlsServer(stream) => stream.sock.stream(),
        }
    }

    /// How long one read or write may take; `None`: for ever.
    pub fn set_patience(&self, read: Option<Duration>, write: Option<Duration>) -> io::Result<()> {
        self.socket().set_read_timeout(read)?;
        self.socket().set_write_timeout(write)
    }
}

/// A TLS stream that ends without saying so has ended all the same: frames say where they end.
fn ended(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(0),
        other => other,
    }
}

impl Read for Transport {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read(into),
            Self::TlsClient(stream) => ended(stream.read(into)),
            Self::TlsServer(stream) => ended(stream.read(into)),
        }
    }

    fn read_vectored(&mut self, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.read_vectored(parts),
            // TLS hands out what it has decrypted piece by piece anyway.
            _ => match parts.iter_mut().find(|part| !part.is_empty()) {
                Some(part) => self.read(part),
                None => Ok(0),
            },
        }
    }
}

impl Write for Transport {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write(bytes),
            Self::TlsClient(stream) => stream.write(bytes),
            Self::TlsServer(stream) => stream.write(bytes),
        }
    }

    fn write_vectored(&mut self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => stream.write_vectored(parts),
            Self::TlsClient(stream) => stream.write_vectored(parts),
            Self::TlsServer(stream) => stream.write_vectored(parts),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(stream) => stream.flush(),
            Self::TlsClient(stream) => stream.flush(),
            Self::TlsServer(stream) => stream.flush(),
        }
    }
}

/// Why TLS cannot be spoken.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file with certificates or a key cannot be used.
    #[error("cannot use {} for TLS: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// Others could read the private key, or exchange it.
    #[error(
        "others have permissions ({mode:03o}) for the TLS key {}: chmod 600, or 640 for a group",
        path.display()
    )]
    NotPrivate {
        /// The file.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
    /// What was given does not fit together.
    #[error("cannot speak TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// The host cannot be named in a certificate.
    #[error("{0} is not a host name")]
    Host(String),
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let failed = |reason: String| TlsError::File { path: path.to_owned(), reason };
    let certificates = CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect::<Result<Vec<_>, _>>)
        .map_err(|error| failed(error.to_string()))?;
    if certificates.is_empty() {
        return Err(failed("there is no certificate in it".into()));
    }
    Ok(certificates)
}

/// The private key of a PEM file, which its owner and at most a group may read.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    let failed = |reason: String| TlsError::File { path: path.to_owned(), reason };
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    // Of the open file, so that it cannot be exchanged after the check.
    let metadata = file.metadata().map_err(|error| failed(error.to_string()))?;
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o037 != 0 {
        return Err(TlsError::NotPrivate { path: path.to_owned(), mode });
    }
    PrivateKeyDer::from_pem_reader(file).map_err(|error| failed(error.to_string()))
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// What a server speaks TLS with.
#[derive(Clone, Debug)]
pub struct ServerTls(Arc<ServerConfig>);

impl ServerTls {
    /// From PEM files: the server's certificate, with those between it and the authority, and its
    /// key, which must not be readable by everybody.
    pub fn from_files(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let chain = certificates(certificate)?;
        let key = private_key(key)?;
        let config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        Ok(Self(Arc::new(config)))
    }

    /// The server's end of a connection; the first read or write shakes hands.
    pub fn accept(&self, socket: TcpStream) -> Result<Transport, TlsError> {
        let connection = ServerConnection::new(Arc::clone(&self.0))?;
        Ok(Transport::TlsServer(Box::new(StreamOwned::new(connection, socket.into()))))
    }
}

/// What a client speaks TLS with.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// From a PEM file with the certificates of the authorities that are believed.
    pub fn from_file(authorities: &Path) -> Result<Self, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(authorities)? {
            roots.add(certificate)?;
        }
        let config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self(Arc::new(config)))
    }

    /// The client's end of a connection to `host`, a name or an address that the server's
    /// certificate must have.
    pub fn connect(&self, socket: TcpStream, host: &str) -> Result<Transport, TlsError> {
        let name =
            ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Host(host.to_owned()))?;
        let connection = ClientConnection::new(Arc::clone(&self.0), name)?;
        Ok(Transport::TlsClient(Box::new(StreamOwned::new(connection, socket.into()))))
    }
}
