//! [`Metrics`]: the server's statistics over HTTP, in the text format of Prometheus.

use std::fmt::{self, Write as _};
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};

use tiny_http::{Header, Method, Request, Response};

use crate::error::ServerError;
use crate::state::ServerState;

/// The port that serves metrics; closed when dropped.
pub(crate) struct Metrics {
    http: Arc<tiny_http::Server>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Metrics {
    pub(crate) fn start(
        address: SocketAddr,
        state: &Arc<ServerState>,
    ) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let http = tiny_http::Server::from_listener(listener, None)
            .map_err(|error| failed(io::Error::other(error)))?;
        let http = Arc::new(http);
        let requests = Arc::clone(&http);
        // Metrics do not keep the server's files open.
        let state = Arc::downgrade(state);
        let serve = move || {
            for request in requests.incoming_requests() {
                respond(request, &state);
            }
        };
        let thread = thread::Builder::new()
            .name("metrics".into())
            .spawn(serve)
            .map_err(ServerError::Thread)?;
        Ok(Self { http, address: bound, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        self.http.unblock();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn respond(request: Request, state: &Weak<ServerState>) {
    let response = match (request.method(), request.url(), state.upgrade()) {
        (Method::Get, "/healthz", Some(state)) => match state.refuse_if_draining() {
            Ok(()) => Response::from_string("ok\n"),
            Err(failure) => Response::from_string(format!("{failure}\n")).with_status_code(503),
        },
        (Method::Get, "/metrics", Some(state)) => {
            let kind = Header::from_bytes("Content-Type", "text/plain; version=0.0.4");
            let response = Response::from_string(text(&state));
            kind.into_iter().fold(response, Response::with_header)
        }
        _ => Response::from_string("there are /metrics and /healthz\n").with_status_code(404),
    };
    // Whether the client still listens is its own affair.
    let _ = request.respond(response);
}

fn text(state: &ServerState) -> String {
    let mut text = String::new();
    let mut number = |name: &str, kind: &str, meaning: &str, value: u64| {
        let unit = if kind == "counter" { "_total" } else { "" };
        let name = format!("striate_{name}{unit}");
        let _ = writeln!(text, "# HELP {name} {meaning}\n# TYPE {name} {kind}\n{name} {value}");
    };
    for (name, kind, meaning, value) in state.numbers() {
        number(name, kind, meaning, value);
    }
    let uptime = state.started.elapsed().as_secs();
    number("uptime_seconds", "gauge", "Seconds since the server started.", uptime);
    if let Ok((total, _, available)) = state.engine.objects.space() {
        number("storage_bytes", "gauge", "Bytes of the server's storage.", total);
        number("storage_available_bytes", "gauge", "Those that are left to it.", available);
    }
    text
}
