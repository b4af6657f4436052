//! [`ServerState`]: the state that all connections of a server share.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use striate_store::Bandwidth;
use striate_wire::{Descriptions, Failure, FailureCode, Instance, Key, ServerTls};

use crate::buffers::Buffers;
use crate::catalog::Catalog;
use crate::directory::DataDirectory;
use crate::error::ServerError;
use crate::locks::Locks;
use crate::metadata::Metadata;
use crate::objects::Objects;
use crate::offence_log::OffenceLog;
use crate::registry::Registry;
use crate::settings::Settings;
use crate::statistics::Statistics;
use crate::transfer::Engine;

/// The time between two chunks of data that a limit of bandwidth does not count: a real link has
/// the next on its way while the server is busy with the last.
const TURN: Duration = Duration::from_millis(10);

/// What all connections of a server share.
#[derive(Debug)]
pub(crate) struct ServerState {
    pub(crate) settings: Settings,
    pub(crate) key: Option<Key>,
    pub(crate) tls: Option<ServerTls>,
    pub(crate) engine: Engine,
    pub(crate) metadata: Option<Metadata>,
    pub(crate) locks: Locks,
    pub(crate) registry: Arc<Registry>,
    pub(crate) offence_log: OffenceLog,
    pub(crate) statistics: Arc<Statistics>,
    pub(crate) started: Instant,
    draining: AtomicBool,
    /// The last to go: its lock says that the server is done with its files.
    pub(crate) directory: DataDirectory,
}

impl ServerState {
    /// Opens all that the settings name, for a server at this address.
    pub(crate) fn open(settings: Settings, address: SocketAddr) -> Result<Self, ServerError> {
        let key = settings.key_file.as_ref().map(Key::from_file).transpose()?;
        let tls = match (&settings.tls_certificate, &settings.tls_key) {
            (Some(certificate), Some(key)) => Some(ServerTls::from_files(certificate, key)?),
            _ => None,
        };
        let directory = DataDirectory::open(&settings.data)?;
        let statistics = Arc::new(Statistics::default());
        let limits = &settings.limits;
        let objects = Objects::open(&directory.path, limits.open_files)?;
        if let Some(start) = directory.take_stopped()? {
            objects.durability.resume(start);
        }
        let engine = Engine {
            objects,
            descriptions: Descriptions::new(limits.descriptions),
            buffers: Buffers::new(limits.memory),
            link: Bandwidth::with_slack(settings.bandwidth, TURN),
            statistics: Arc::clone(&statistics),
        };
        let metadata = if settings.metadata {
            let addresses = match &settings.servers[..] {
                [] => vec![address.to_string()],
                named => named.to_vec(),
            };
            let path = directory.path.join("catalog.redb");
            Some(Metadata::new(addresses, move || Catalog::open(&path))?)
        } else {
            None
        };
        Ok(Self {
            key,
            tls,
            engine,
            metadata,
            locks: Locks::new(limits.locks, Arc::clone(&statistics)),
            registry: Arc::new(Registry::new(limits, Arc::clone(&statistics))),
            offence_log: OffenceLog::new(limits.bad_frames),
            statistics,
            started: Instant::now(),
            draining: AtomicBool::new(false),
            directory,
            settings,
        })
    }

    /// Which server this is now, for clients.
    pub(crate) fn instance(&self) -> Instance {
        let start = self.engine.objects.durability.start();
        Instance { identity: self.directory.identity, start }
    }

    /// Makes all durable that was acknowledged, and notes that the server stopped in order: then
    /// the next start is the same to clients.
    pub(crate) fn note_stopped(&self) {
        let start = self.engine.objects.durability.start();
        if let Err(failure) = self.engine.objects.sync_all() {
            tracing::error!(%failure, "not all is durable");
        } else if let Err(error) = self.directory.note_stopped(start) {
            tracing::error!(%error, "cannot note that the server stopped in order");
        }
    }

    /// No new requests from now on.
    pub(crate) fn start_draining(&self) {
        self.draining.store(true, Ordering::SeqCst);
    }

    /// Fails once no new requests are taken.
    pub(crate) fn refuse_if_draining(&self) -> Result<(), Failure> {
        if self.draining.load(Ordering::SeqCst) {
            let text = "the server is about to stop and takes no new requests";
            return Err(Failure::new(FailureCode::Draining, text));
        }
        Ok(())
    }

    /// All numbers of the statistics, as of now: name, kind, meaning, value.
    pub(crate) fn numbers(&self) -> Vec<(&'static str, &'static str, &'static str, u64)> {
        self.statistics.buffer_bytes.set(self.engine.buffers.taken());
        self.statistics.all()
    }
}
