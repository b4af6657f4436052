//! [`Server`]: accepts connections, enforces their time limits, and stops in order.
//!
//! Every connection has a thread. A client has few connections and moves much data over each, with
//! blocking calls that go straight between the page cache and the socket; an idle connection costs
//! its thread's first pages of stack, a few KiB.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::connection::serve;
use crate::deadline::{ConnectionControl, WRITE_STEP};
use crate::error::ServerError;
use crate::metrics::Metrics;
use crate::settings::Settings;
use crate::state::ServerState;
use crate::statistics::Statistics;

/// Stack of a connection's thread: data does not pass through it, and descriptions are not nested
/// deeper than 64.
const STACK: usize = 256 << 10;

/// How often the time limits of connections are checked.
const LOOK: Duration = Duration::from_millis(100);

/// How long threads whose connections were cut may take to finish with the disk.
const LAST_MOMENT: Duration = Duration::from_secs(5);

/// How long nothing is accepted after the system could not accept.
const PAUSE: Duration = Duration::from_millis(50);

/// A running server. Dropped, it stops at once; [`Server::drain`] stops it in order.
#[derive(Debug)]
pub struct Server {
    state: Arc<ServerState>,
    address: SocketAddr,
    metrics: Option<Metrics>,
    running: Option<Running>,
    /// Whether it stops in order.
    drains: bool,
}

/// State that exists until the server stops.
#[derive(Debug)]
struct Running {
    listener: Arc<TcpListener>,
    accepting: JoinHandle<()>,
    checking: JoinHandle<()>,
    /// Dropped, it ends the checks of time limits.
    _stop_checks: Sender<()>,
}

impl Server {
    /// Opens the data directory and begins to serve.
    pub fn start(settings: Settings) -> Result<Self, ServerError> {
        settings.check()?;
        let address = settings.listen;
        let listener =
            TcpListener::bind(address).map_err(|source| ServerError::Listen { address, source })?;
        Self::start_at(listener, settings)
    }

    /// Begins to serve on an existing listener.
    pub(crate) fn start_at(listener: TcpListener, settings: Settings) -> Result<Self, ServerError> {
        settings.check()?;
        let listen = settings.listen;
        let address = listener
            .local_addr()
            .map_err(|source| ServerError::Listen { address: listen, source })?;
        let state = Arc::new(ServerState::open(settings, address)?);
        let metrics = match state.settings.metrics {
            Some(address) => Some(Metrics::start(address, &state)?),
            None => None,
        };
        let listener = Arc::new(listener);
        let (stop_checks, stop) = channel();
        let registry = Arc::clone(&state.registry);
        let checking = start_thread("deadlines", move || {
            while stop.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                registry.check(Instant::now());
            }
        })?;
        let accepting = {
            let (state, listener) = (Arc::clone(&state), Arc::clone(&listener));
            start_thread("accept", move || accept_all(&state, &listener))?
        };
        let running = Some(Running { listener, accepting, checking, _stop_checks: stop_checks });
        tracing::info!(
            %address,
            data = %state.directory.path.display(),
            identity = %state.directory.identity,
            metadata = state.metadata.is_some(),
            "server started"
        );
        Ok(Self { state, address, metrics, running, drains: false })
    }

    /// Where the server listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the server serves its metrics, if it does.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics.as_ref().map(Metrics::address)
    }

    /// What the server has done so far.
    pub fn statistics(&self) -> &Statistics {
        &self.state.statistics
    }

    /// Bytes of data that pass in a second at most, in both directions together.
    pub fn bandwidth(&self) -> Option<u64> {
        self.state.engine.link.limit()
    }

    /// Changes that, also for requests under way; `None` means no limit. The setting is not
    /// changed.
    pub fn set_bandwidth(&self, bytes_per_second: Option<u64>) {
        self.state.engine.link.set_limit(bytes_per_second);
    }

    /// Stops the server: accepts no more connections and requests, waits for the requests in
    /// progress, but not longer than the drain time, and cuts the connections that are left then.
    /// Returns how many those were.
    pub fn drain(mut self) -> usize {
        let limit = self.state.settings.limits.drain_time;
        tracing::info!(address = %self.address, ?limit, "server drains");
        self.drains = true;
        self.stop(limit)
    }

    fn stop(&mut self, limit: Duration) -> usize {
        let Some(Running { listener, accepting, checking, _stop_checks: stop_checks }) =
            self.running.take()
        else {
            return 0;
        };
        self.state.start_draining();
        // Ends the wait for a connection.
        if let Err(error) = rustix::net::shutdown(&*listener, rustix::net::Shutdown::Both) {
            tracing::error!(%error, "cannot stop listening");
        }
        join(accepting);
        let registry = &self.state.registry;
        registry.wake_idle();
        registry.wait_until_empty(limit);
        let cut = registry.cut_all();
        // No client is left that the limit of bandwidth is for.
        self.set_bandwidth(None);
        registry.wait_until_empty(LAST_MOMENT);
        if self.drains && registry.is_empty() {
            self.state.note_stopped();
        }
        drop(stop_checks);
        join(checking);
        self.metrics = None;
        tracing::info!(address = %self.address, cut, "server stopped");
        cut
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop(Duration::ZERO);
    }
}

fn start_thread(
    name: &str,
    work: impl FnOnce() + Send + 'static,
) -> Result<JoinHandle<()>, ServerError> {
    thread::Builder::new().name(name.to_owned()).spawn(work).map_err(ServerError::Thread)
}

fn join(thread: JoinHandle<()>) {
    if thread.join().is_err() {
        tracing::error!("a thread of the server panicked");
    }
}

/// Accepts connections until the listener is shut down.
fn accept_all(state: &Arc<ServerState>, listener: &TcpListener) {
    for number in 0.. {
        match listener.accept() {
            Ok((socket, peer)) => {
                if let Err(error) = accept(state, number, socket, peer) {
                    state.statistics.connections_refused.add(1);
                    tracing::error!(%peer, %error, "cannot serve a connection");
                }
            }
            Err(_) if state.refuse_if_draining().is_err() => break,
            Err(error) => {
                // Out of file descriptors, most likely; connections that end give theirs back.
                tracing::error!(%error, "cannot accept a connection");
                thread::sleep(PAUSE);
            }
        }
    }
}

fn accept(
    state: &Arc<ServerState>,
    number: u64,
    socket: TcpStream,
    peer: SocketAddr,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    socket.set_write_timeout(Some(WRITE_STEP))?;
    rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
    let control = Arc::new(ConnectionControl::new(&socket, peer)?);
    let Some(entry) = state.registry.enter(number, Arc::clone(&control)) else {
        state.statistics.connections_refused.add(1);
        return Ok(());
    };
    let state = Arc::clone(state);
    thread::Builder::new().name(format!("client {number}")).stack_size(STACK).spawn(move || {
        let connection = tracing::error_span!("connection", %peer).entered();
        state.statistics.connections_accepted.add(1);
        tracing::debug!("accepted");
        // A panic is a fault of the server, but requests of one client must not end those of
        // another.
        if catch_unwind(AssertUnwindSafe(|| serve(&state, socket, &control, &entry))).is_err() {
            state.statistics.panics.add(1);
            tracing::error!("a connection panicked");
        }
        drop(connection);
        // When the last entry is dropped, no thread uses the files of the server any more.
        drop(state);
        drop(entry);
    })?;
    Ok(())
}
