//! [`Watch`]: notices that a node cannot be reached any more, which MPI does not.
//!
//! Over TCP, MPI waits for ever for a node whose link is cut or whose power failed. So the first
//! rank of each node sends a datagram to those of its two neighbours, nodes being a ring, some
//! times in the time that a lost node may be silent (`STRIATE_PATIENCE`). When a neighbour is
//! silent for longer, all ranks are told; their waits end with [`CommError::NodeLost`]. On the lost
//! node itself the others are missing, and its ranks end in the same way.
//!
//! A neighbour is watched from its first datagram on: where none arrive, since the host's name does
//! not lead to it or since datagrams are filtered, nothing changes. Time in which this process
//! itself does not run does not count. Datagrams carry the receiver's number, drawn at random and
//! told to the ranks of the job only.
//!
//! A program may wait in calls of MPI that are not ours. A process that has a communicator of ours,
//! and still runs when it was told as long ago as the node was silent, is ended: the launcher ends
//! the job then.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::env;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::error::CommError;
use crate::shm::ranks_of;

/// How long a node may be silent.
const PATIENCE: &str = "STRIATE_PATIENCE";
/// The same if it is not set.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(30);

/// Datagrams in the time that a node may be silent.
const BEATS: u32 = 10;
/// Bounds of the time between them.
const BETWEEN: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// How often the loss of a node is told: datagrams get lost.
const TOLD: usize = 3;

/// Begins each datagram; the last byte is a version.
const MAGIC: [u8; 4] = *b"STR\x01";

const ALIVE: u8 = 0;
/// The sender waits for nothing more.
const LEAVES: u8 = 1;
/// The node of this name is lost.
const LOST: u8 = 2;

/// Where a rank is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Endpoint {
    address: SocketAddr,
    number: u64,
    /// Its node.
    host: String,
}

impl Endpoint {
    fn encode(&self) -> String {
        format!("{} {:x} {}", self.address, self.number, self.host)
    }

    /// The endpoint of a rank, if it has one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let mut words = std::str::from_utf8(bytes).ok()?.splitn(3, ' ');
        let address = words.next()?.parse().ok()?;
        let number = u64::from_str_radix(words.next()?, 16).ok()?;
        Some(Self { address, number, host: words.next()?.to_owned() })
    }
}

/// A process's watch over the nodes of its communicators.
#[derive(Debug)]
pub(super) struct Watch {
    socket: UdpSocket,
    own: Endpoint,
    patience: Duration,
    state: Mutex<State>,
    watches: AtomicBool,
    /// Whether this process is about to end, and must.
    ends: AtomicBool,
    lost: OnceLock<String>,
}

#[derive(Debug, Default)]
struct State {
    /// Neighbours, by their numbers.
    neighbours: HashMap<u64, Neighbour>,
    /// All other ranks, by their numbers, each with how many communicators it is in.
    others: HashMap<u64, (SocketAddr, usize)>,
}

#[derive(Debug)]
struct Neighbour {
    endpoint: Endpoint,
    communicators: usize,
    /// For how long it has been silent, once it was heard.
    silent: Option<Duration>,
}

/// The ranks of a communicator are watched while this lives.
#[derive(Debug)]
pub(super) struct Watched {
    watch: &'static Watch,
    neighbours: Vec<u64>,
    others: Vec<u64>,
}

/// The watch of this process, if it can have one.
fn watch() -> Option<&'static Watch> {
    static WATCH: OnceLock<Option<Arc<Watch>>> = OnceLock::new();
    let made = WATCH.get_or_init(|| {
        let watch = Arc::new(Watch::new(patience()).ok()??);
        let of_thread = Arc::clone(&watch);
        let named = std::thread::Builder::new().name("striate-watch".to_owned());
        named.spawn(move || of_thread.run()).ok()?;
        Some(watch)
    });
    made.as_deref()
}

/// What the other ranks need to watch this one; empty if they cannot.
pub(super) fn endpoint() -> Vec<u8> {
    watch().map(|watch| watch.own.encode().into_bytes()).unwrap_or_default()
}

/// Watches the nodes of a communicator, if there are several; `endpoints` are those of all ranks.
pub(super) fn join(
    rank: usize,
    nodes: &[usize],
    endpoints: &[Option<Endpoint>],
) -> Option<Watched> {
    let count = nodes.iter().max().map_or(0, |last| last + 1);
    if count < 2 {
        return None;
    }
    let watch = watch()?;
    let leader = |node: usize| ranks_of(node, nodes)[0];
    let here = nodes[rank];
    let mut around = vec![(here + 1) % count, (here + count - 1) % count];
    around.dedup();
    let neighbours = if leader(here) == rank { around } else { Vec::new() };
    let neighbours = neighbours.into_iter().filter_map(|node| endpoints[leader(node)].clone());
    let others = (0..nodes.len()).filter(|other| *other != rank);
    let others = others.filter_map(|other| endpoints[other].clone());
    Some(watch.enter(neighbours.collect(), others.collect()))
}

/// Whether waits have to be looked after.
pub(super) fn is_watching() -> bool {
    watch().is_some_and(|watch| watch.watches.load(Ordering::Relaxed))
}

/// Fails once a node is lost.
pub(super) fn check() -> Result<(), CommError> {
    match watch().and_then(|watch| watch.lost.get()) {
        None => Ok(()),
        Some(node) => Err(CommError::NodeLost { node: node.clone() }),
    }
}

/// This process ends the job: if a node is lost, MPI may wait for it even then.
pub(super) fn must_end() {
    if let Some(watch) = watch() {
        watch.ends.store(true, Ordering::Relaxed);
    }
}

fn patience() -> Duration {
    let set = env::var(PATIENCE).ok().and_then(|text| parse(&text));
    set.unwrap_or(DEFAULT_PATIENCE).max(BETWEEN.0 * BEATS)
}

/// A time such as `10s` or `500ms`.
fn parse(text: &str) -> Option<Duration> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let number: u64 = text[..digits].parse().ok()?;
    let unit = match &text[digits..] {
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        _ => return None,
    };
    number.checked_mul(unit).map(Duration::from_millis)
}

/// The name of this host, and the address that it leads to for others.
fn host() -> Option<(String, IpAddr)> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let found: Vec<IpAddr> =
        (name.as_str(), 0).to_socket_addrs().ok()?.map(|address| address.ip()).collect();
    let address = found.iter().filter(|address| !address.is_loopback());
    address.min_by_key(|address| address.is_ipv6()).map(|address| (name, *address))
}

impl Watch {
    /// A watch of this host, if others can reach it.
    fn new(patience: Duration) -> std::io::Result<Option<Self>> {
        let Some((host, address)) = host() else { return Ok(None) };
        Self::at(host, address, patience).map(Some)
    }

    fn at(host: String, address: IpAddr, patience: Duration) -> std::io::Result<Self> {
        let socket = UdpSocket::bind((address, 0))?;
        let mut number = [0; 8];
        rustix::rand::getrandom(&mut number, rustix::rand::GetRandomFlags::empty())?;
        let own =
            Endpoint { address: socket.local_addr()?, number: u64::from_ne_bytes(number), host };
        let (state, lost) = (Mutex::default(), OnceLock::new());
        let (watches, ends) = (AtomicBool::new(false), AtomicBool::new(false));
        Ok(Self { socket, own, patience, state, watches, ends, lost })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&'static self, neighbours: Vec<Endpoint>, others: Vec<Endpoint>) -> Watched {
        let mut state = self.state();
        let watched = Watched {
            watch: self,
            neighbours: neighbours.iter().map(|one| one.number).collect(),
            others: others.iter().map(|one| one.number).collect(),
        };
        for endpoint in neighbours {
            let new = Neighbour { endpoint, communicators: 0, silent: None };
            state.neighbours.entry(new.endpoint.number).or_insert(new).communicators += 1;
        }
        for other in others {
            state.others.entry(other.number).or_insert((other.address, 0)).1 += 1;
        }
        self.watches.store(true, Ordering::Relaxed);
        watched
    }

    fn leave(&self, watched: &Watched) {
        let mut state = self.state();
        for number in &watched.neighbours {
            if let Entry::Occupied(mut one) = state.neighbours.entry(*number) {
                one.get_mut().communicators -= 1;
                if one.get().communicators == 0 {
                    let endpoint = one.remove().endpoint;
                    self.send(LEAVES, endpoint.address, endpoint.number, "");
                }
            }
        }
        for number in &watched.others {
            if let Entry::Occupied(mut one) = state.others.entry(*number) {
                one.get_mut().1 -= 1;
                if one.get().1 == 0 {
                    one.remove();
                }
            }
        }
        self.watches.store(!state.others.is_empty(), Ordering::Relaxed);
    }

    /// What gets lost is sent again, or missed.
    fn send(&self, what: u8, to: SocketAddr, number: u64, text: &str) {
        let mut datagram = MAGIC.to_vec();
        datagram.push(what);
        datagram.extend(number.to_le_bytes());
        datagram.extend(self.own.number.to_le_bytes());
        datagram.extend(text.as_bytes());
        let _ = self.socket.send_to(&datagram, to);
    }

    /// The thread.
    fn run(&self) {
        let between = (self.patience / BEATS).clamp(BETWEEN.0, BETWEEN.1);
        let mut last = Instant::now();
        let mut told_for = Duration::ZERO;
        loop {
            let left = between.saturating_sub(last.elapsed()).max(Duration::from_millis(1));
            let _ = self.socket.set_read_timeout(Some(left));
            let mut datagram = [0; 512];
            if let Ok((len, _)) = self.socket.recv_from(&mut datagram) {
                self.hear(&datagram[..len]);
            }
            if last.elapsed() < between {
                continue;
            }
            // Time in which this process was stopped is no silence of others.
            let passed = last.elapsed().min(2 * between);
            last = Instant::now();
            if self.lost.get().is_none() {
                self.beat(passed);
            } else if self.watches.load(Ordering::Relaxed) || self.ends.load(Ordering::Relaxed) {
                told_for += passed;
                if told_for > self.patience {
                    self.end();
                }
            }
        }
    }

    fn hear(&self, datagram: &[u8]) {
        let Some((MAGIC, rest)) = datagram.split_first_chunk().map(|(magic, rest)| (*magic, rest))
        else {
            return;
        };
        let [what, rest @ ..] = rest else { return };
        let Some((to, rest)) = rest.split_first_chunk() else { return };
        let Some((from, text)) = rest.split_first_chunk() else { return };
        if u64::from_le_bytes(*to) != self.own.number {
            return;
        }
        let mut state = self.state();
        let neighbour = state.neighbours.get_mut(&u64::from_le_bytes(*from));
        match (*what, neighbour) {
            (ALIVE, Some(neighbour)) => neighbour.silent = Some(Duration::ZERO),
            (LEAVES, Some(neighbour)) => neighbour.silent = None,
            (LOST, _) => {
                let _ = self.lost.set(String::from_utf8_lossy(text).into_owned());
            }
            _ => {}
        }
    }

    /// Says that this process lives, and looks for neighbours that do not.
    fn beat(&self, passed: Duration) {
        let mut state = self.state();
        let mut lost = None;
        for neighbour in state.neighbours.values_mut() {
            let Endpoint { address, number, host } = &neighbour.endpoint;
            self.send(ALIVE, *address, *number, "");
            if let Some(silent) = &mut neighbour.silent {
                *silent += passed;
                if *silent > self.patience {
                    lost = Some(host.clone());
                }
            }
        }
        let Some(node) = lost else { return };
        for _ in 0..TOLD {
            for (number, (address, _)) in &state.others {
                self.send(LOST, *address, *number, &node);
            }
        }
        drop(state);
        let seconds = self.patience.as_secs_f64();
        let here = &self.own.host;
        say(&format!(
            "node {node} cannot be reached from {here} for {seconds} s: its ranks are lost"
        ));
        let _ = self.lost.set(node);
    }

    /// Ends this process, which waits for what will not come.
    fn end(&self) {
        let node = self.lost.get().map_or("", String::as_str);
        say(&format!(
            "the process on {} still waits for the lost node {node}, and is ended",
            self.own.host
        ));
        let _ =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    }
}

/// In one write: other ranks write to the same place.
fn say(text: &str) {
    let line = format!("striate: {text}\n");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes());
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.watch.leave(self);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// A watch for a test, which never ends.
    fn watch(host: &str, patience: Duration) -> &'static Watch {
        let localhost = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let watch = Watch::at(host.to_owned(), localhost, patience).unwrap();
        Box::leak(Box::new(watch))
    }

    fn run(watch: &'static Watch) {
        std::thread::spawn(|| watch.run());
    }

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let begin = Instant::now();
        while !is_so() {
            assert!(begin.elapsed() < Duration::from_secs(60), "{what} does not come about");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn an_endpoint_comes_back() {
        let endpoint = Endpoint {
            address: "10.99.0.1:7000".parse().unwrap(),
            number: u64::MAX,
            host: "n1".to_owned(),
        };
        assert_eq!(Endpoint::decode(endpoint.encode().as_bytes()), Some(endpoint));
        for noise in ["", "10.99.0.1:7000", "10.99.0.1 1 n1", "10.99.0.1:1 x n1"] {
            assert_eq!(Endpoint::decode(noise.as_bytes()), None);
        }
    }

    #[test]
    fn a_silent_neighbour_is_lost_to_all() {
        let patience = Duration::from_millis(500);
        let [a, b, c] = ["a", "b", "c"].map(|host| watch(host, patience));
        let own = |watch: &Watch| watch.own.clone();
        // c is no first rank of a node: it is told.
        let _a = a.enter(vec![own(b)], vec![own(b), own(c)]);
        let _c = c.enter(vec![], vec![own(a), own(b)]);
        let _b = b.enter(vec![own(a)], vec![own(a), own(c)]);
        run(a);
        run(c);
        // It was never heard.
        std::thread::sleep(2 * patience);
        assert!(a.lost.get().is_none());
        // Once.
        b.beat(Duration::ZERO);
        until("a loss", || a.lost.get().is_some());
        until("its message", || c.lost.get().is_some());
        assert_eq!((a.lost.get().unwrap().as_str(), c.lost.get().unwrap().as_str()), ("b", "b"));
    }

    #[test]
    fn a_neighbour_that_leaves_is_not_lost() {
        let patience = Duration::from_millis(500);
        let [a, b] = ["a", "b"].map(|host| watch(host, patience));
        let _a = a.enter(vec![b.own.clone()], vec![b.own.clone()]);
        let first = b.enter(vec![a.own.clone()], vec![a.own.clone()]);
        let second = b.enter(vec![a.own.clone()], vec![a.own.clone()]);
        run(a);
        run(b);
        let heard = || a.state().neighbours[&b.own.number].silent.is_some();
        until("a beat", heard);
        drop(first);
        std::thread::sleep(2 * patience);
        assert!(heard());
        drop(second);
        until("a farewell", || !heard());
        std::thread::sleep(2 * patience);
        assert!(a.lost.get().is_none() && b.lost.get().is_none());
    }

    #[test]
    fn strangers_say_nothing() {
        let watch = watch("a", Duration::from_secs(1));
        let mut datagram = [&MAGIC[..], &[LOST], &[0; 16], b"a"].concat();
        watch.hear(&datagram);
        for len in 0..datagram.len() {
            watch.hear(&datagram[..len]);
        }
        assert!(watch.lost.get().is_none());
        datagram[5..13].copy_from_slice(&watch.own.number.to_le_bytes());
        watch.hear(&datagram);
        assert!(watch.lost.get().is_some());
    }

    #[test]
    fn patience_is_a_time() {
        assert_eq!(parse("10s"), Some(Duration::from_secs(10)));
        assert_eq!(parse("500ms"), Some(Duration::from_millis(500)));
        assert_eq!((parse("10"), parse("s"), parse("")), (None, None, None));
    }
}
