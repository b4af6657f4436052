//! [`Metrics`]: the server's statistics over HTTP, in the text format of Prometheus.
//!
//! Anyone who reaches the port may ask. So one thread serves all, what is kept of a request is
//! small, and a visitor that does not come to an end goes when its time is up, or earlier if
//! its place is wanted.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::error::ServerError;
use crate::state::ServerState;

/// Connections at a time; for one more, the oldest goes.
const MOST_VISITORS: usize = 32;

/// How long a visitor may take for its request and the answer.
const TIME: Duration = Duration::from_secs(5);

/// Bytes of the longest request, and header fields of one.
const LONGEST: usize = 8 << 10;
const FIELDS: usize = 64;

/// How often times are looked at.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

/// The port that serves metrics; closed when dropped.
#[derive(Debug)]
pub(crate) struct Metrics {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    thread: Option<JoinHandle<()>>,
}

impl Metrics {
    pub(crate) fn start(
        address: SocketAddr,
        state: &Arc<ServerState>,
    ) -> Result<Self, ServerError> {
        let failed = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let bound = listener.local_addr().map_err(failed)?;
        let listener = Arc::new(listener);
        let visited = Arc::clone(&listener);
        // Metrics do not keep the server's files open.
        let state = Arc::downgrade(state);
        let thread = thread::Builder::new()
            .name("metrics".into())
            .spawn(move || serve(&visited, &state))
            .map_err(ServerError::Thread)?;
        Ok(Self { listener, address: bound, thread: Some(thread) })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Metrics {
    fn drop(&mut self) {
        // Ends the wait of the thread.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Serves until the listener is shut down.
fn serve(listener: &TcpListener, state: &Weak<ServerState>) {
    let mut visitors: VecDeque<Visitor> = VecDeque::new();
    loop {
        let mut waits = vec![PollFd::new(listener, PollFlags::IN)];
        waits.extend(visitors.iter().map(|visitor| PollFd::new(&visitor.socket, visitor.waits())));
        if poll(&mut waits, Some(&LOOK)).is_err() {
            // Out of memory for a moment; an interruption by a signal.
            thread::sleep(Duration::from_millis(50));
            continue;
        }
        let heard = waits[0].revents();
        if heard.intersects(PollFlags::HUP | PollFlags::ERR) {
            return;
        }
        let now = Instant::now();
        visitors.retain_mut(|visitor| {
            visitor.until > now && visitor.go_on(state).is_ok_and(|there| there)
        });
        if heard.contains(PollFlags::IN) {
            // It fails when the visitor has gone already.
            if let Some(visitor) = listener.accept().ok().and_then(|(it, _)| Visitor::new(it, now))
            {
                if visitors.len() == MOST_VISITORS {
                    visitors.pop_front();
                }
                visitors.push_back(visitor);
            }
        }
    }
}

/// A connection.
struct Visitor {
    socket: TcpStream,
    until: Instant,
    request: Vec<u8>,
    /// The answer once there is one, and how much of it was sent.
    answer: Option<(Vec<u8>, usize)>,
}

impl Visitor {
    fn new(socket: TcpStream, now: Instant) -> Option<Self> {
        socket.set_nonblocking(true).ok()?;
        Some(Self { socket, until: now + TIME, request: Vec::new(), answer: None })
    }

    fn waits(&self) -> PollFlags {
        match &self.answer {
            Some((answer, sent)) if *sent < answer.len() => PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Does what is possible without waiting; returns whether the visitor is still there.
    fn go_on(&mut self, state: &Weak<ServerState>) -> io::Result<bool> {
        let mut chunk = [0; 1024];
        loop {
            match self.socket.read(&mut chunk) {
                Ok(0) => return Ok(false),
                // What comes after the request does not matter.
                Ok(count) if self.answer.is_none() => {
                    self.request.extend_from_slice(&chunk[..count]);
                    self.answer = answer(&self.request, state).map(|answer| (answer, 0));
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        let Some((answer, sent)) = &mut self.answer else { return Ok(true) };
        while *sent < answer.len() {
            match self.socket.write(&answer[*sent..]) {
                Ok(count) => *sent += count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(true),
                Err(error) => return Err(error),
            }
            if *sent == answer.len() {
                // The visitor closes when it has read all: to close before could tear it away.
                self.socket.shutdown(Shutdown::Write)?;
            }
        }
        Ok(true)
    }
}

/// The answer to a request; `None` if the rest of the request is still to come.
fn answer(request: &[u8], state: &Weak<ServerState>) -> Option<Vec<u8>> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut parsed = httparse::Request::new(&mut fields);
    let (status, body) = match parsed.parse(request) {
        Ok(httparse::Status::Partial) if request.len() < LONGEST => return None,
        Ok(httparse::Status::Complete(_)) => respond(parsed.method, parsed.path, state),
        _ => ("400 Bad Request", "this is not a request that HTTP knows\n".to_owned()),
    };
    // Some visitors of version 1.1 take no answer of version 1.0.
    let minor = parsed.version.unwrap_or(0);
    let head = format!(
        "HTTP/1.{minor} {status}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let body = if parsed.method == Some("HEAD") { String::new() } else { body };
    Some((head + &body).into_bytes())
}

fn respond(
    method: Option<&str>,
    path: Option<&str>,
    state: &Weak<ServerState>,
) -> (&'static str, String) {
    if !matches!(method, Some("GET" | "HEAD")) {
        return ("405 Method Not Allowed", "there is only GET\n".to_owned());
    }
    let path = path.and_then(|path| path.split('?').next());
    match (path, state.upgrade()) {
        (Some("/healthz"), Some(state)) => match state.refuse_if_draining() {
            Ok(()) => ("200 OK", "ok\n".to_owned()),
            Err(failure) => ("503 Service Unavailable", format!("{failure}\n")),
        },
        (Some("/metrics"), Some(state)) => ("200 OK", text(&state)),
        _ => ("404 Not Found", "there are /metrics and /healthz\n".to_owned()),
    }
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
